"""How long another face takes, from the click on the control page to the first frame that viewers see it in.

    python -m tools.bench_change [--changes 25] [--width 420] [--busy 1] [--nice 0]

A live session, as ``doppelcam run --control 0`` makes it, at 1080p30 on the packaged portrait with one output that does
a virtual camera's work. Two photos are dropped into the gallery, and its faces put on in turn through the page's own
HTTP requests, at moments that have nothing to do with the frames. Between the changes the session is left alone for as
long, so that the waits between two sends are compared within one run. With ``--busy`` other processes keep cores busy
meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from engines.analysis.source import SourceReader
from realtime.assemble import Parts, assemble
from realtime.clock import SystemClock
from realtime.control.control import Control
from realtime.frame import Frame, Kind
from realtime.outcome import Outcome
from realtime.settings.config import BENCH
from realtime.sinks.null import NullSink

BURN = "import os, sys\nos.nice(int(sys.argv[1]))\nwhile True: pass"


class Diary(NullSink):
    """Remembers when it was sent what."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int, Kind]] = []

    def send(self, frame: Frame) -> None:
        super().send(frame)
        self.seen.append((time.monotonic_ns(), frame.seq, frame.kind))


class Page:
    """The requests of the control page."""

    def __init__(self, link: str) -> None:
        address, _, token = link.removeprefix("http://").partition("/?token=")
        self._address, self._headers = address, {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: bytes, kind: str) -> dict[str, Any]:
        with contextlib.closing(http.client.HTTPConnection(self._address, timeout=120)) as connection:
            connection.request(method, path, body, self._headers | {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read()
        if answer.status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return dict(json.loads(text))


def photos(width: float) -> list[tuple[str, bytes]]:
    """The packaged photos, scaled so that their faces are so many pixels wide."""
    reader = SourceReader()
    made = []
    for path in (BENCH.face[0], BENCH.face[0].with_name("astronaut.png")):
        face = reader.read(path)
        factor = width / float(np.ptp(face.points[:, 0]))
        image = cv2.resize(face.image, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC)
        made.append((f"{path.stem}.png", cv2.imencode(".png", image)[1].tobytes()))
    reader.close()
    return made


def noted(parts: Parts) -> dict[int, int]:
    """Has the pipeline note which swapper painted each frame, by the frame's number."""
    painted: dict[int, int] = {}
    process = parts.pipeline.process

    def process_noting(frame: Frame) -> Outcome:
        painted[frame.seq] = id(parts.pipeline.swapper)
        return process(frame)

    parts.pipeline.process = process_noting  # type: ignore[method-assign]
    return painted


@contextlib.contextmanager
def burning(count: int, nice: int) -> Iterator[None]:
    """So many processes that want a core each, for as long as this lasts."""
    burners = [subprocess.Popen([sys.executable, "-c", BURN, str(nice)]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def first_with(diary: Diary, painted: dict[int, int], swapper: int, since: int) -> int:
    """When the first frame by this swapper was sent, ns."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for at, seq, kind in list(diary.seen):
            if at > since and kind is Kind.SWAPPED and painted.get(seq) == swapper:
                return at
        time.sleep(0.005)
    raise RuntimeError("No frame with the new face was sent.")


def waits(diary: Diary, spans: Sequence[tuple[int, int]]) -> list[float]:
    """Milliseconds between every two sends within some spans of time."""
    ends = [at for at, *_ in diary.seen]
    pairs = itertools.pairwise(ends)
    return [(b - a) / 1e6 for a, b in pairs if any(start <= b and a <= end for start, end in spans)]


def described(values: Sequence[float]) -> str:
    ordered = sorted(values)
    high = ordered[math.ceil(0.95 * len(ordered)) - 1]
    return f"median {statistics.median(ordered):.0f}, p95 {high:.0f}, worst {ordered[-1]:.0f} ms"


def measure(changes: int, width: float, pause_s: float) -> None:
    config = replace(BENCH, control="0")
    parts, diary = assemble(config, clock=SystemClock()), Diary()
    painted = noted(parts)
    control = Control(
        config, [diary], parts.pipeline, parts.tracker, parts.guard, parts.source, parts.another,
        parts.replace_swapper, parts.nodes, parts.clock, {},
    )  # fmt: skip
    session = replace(parts, sinks=control.sinks).session(lambda line: None, on_captured=control.captured)
    rng = random.Random(1)
    took, dropping, still, changing = [], [], [], []
    with control.begin(session):
        try:
            session.start()
            session.ready.wait(120)
            page, made = Page(control.link), photos(width)
            faces = []
            for name, data in made:
                began = time.monotonic_ns()
                faces.append(page.ask("POST", f"/api/faces?name={name}", data, "image/png")["id"])
                dropping.append((began, time.monotonic_ns()))
                time.sleep(pause_s)
            for number in range(-2, changes):
                start = time.monotonic_ns()
                time.sleep(pause_s + rng.random() / config.fps)
                clicked = time.monotonic_ns()
                page.ask(
                    "PATCH",
                    "/api/settings",
                    b'{"face": "%s"}' % faces[number % 2].encode(),
                    "application/json",
                )
                arrived = first_with(diary, painted, id(parts.pipeline.swapper), clicked)
                if number >= 0:
                    took.append((arrived - clicked) / 1e6)
                    still.append((start, clicked))
                    # The old face is closed after the new one is seen.
                    changing.append((clicked, arrived + 100_000_000))
                time.sleep(0.15)
        finally:
            session.stop()
    session.check()
    period = 1000 / config.fps
    print(f"click to first frame         {described(took)}")
    print(f"photo read                   {described([(b - a) / 1e6 for a, b in dropping])}")
    for name, spans in (
        ("without changes", still), ("during changes", changing), ("while photos are read", dropping),
    ):  # fmt: skip
        values = waits(diary, spans)
        late = sum(wait > 2 * period for wait in values)
        print(f"waits {name:21}  {described(values)}; {late} of {len(values)} late by more than a period")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=25)
    parser.add_argument("--width", type=float, default=420, help="of the faces on the photos, pixels")
    parser.add_argument("--busy", type=int, default=0, help="processes that keep a core busy each")
    parser.add_argument("--nice", type=int, default=0, help="how much those stand back")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds without a change before each")
    options = parser.parse_args()
    sys.setswitchinterval(0.0005)  # As the command line does.
    with burning(options.busy, options.nice):
        measure(options.changes, options.width, options.pause)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
