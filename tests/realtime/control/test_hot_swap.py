"""Another face on a real session: soon, without a frame that is late, and without memory that grows."""

import gc
import itertools
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from realtime.assemble import assemble
from realtime.clock import SystemClock
from realtime.control.control import Control
from realtime.frame import Kind
from realtime.settings.config import Config
from tests.realtime.control.rig import ASTRONAUT, HOPPER

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SOON = 60


class Diary:
    """A sink that remembers when it was sent what."""

    name = "diary"

    def __init__(self):
        self.seen = []

    def open(self, size, fps):
        pass

    def send(self, frame):
        self.seen.append((time.monotonic_ns(), frame.kind, frame.seq))

    def close(self):
        pass


@contextmanager
def running(**config):
    """A session with its page, as the command line makes it; gives the page and what was sent."""
    made = Config(source="portrait", face=(HOPPER,), sink=("null",), control="0", label=False, governor=False)
    made = replace(made, **config)
    diary = Diary()
    parts = assemble(made, clock=SystemClock(), more_sinks=[diary])
    control = Control(
        made, parts.sinks, parts.pipeline, parts.tracker, parts.guard, parts.source, parts.another,
        parts.replace_swapper, parts.nodes,
        parts.clock, {},
    )  # fmt: skip
    session = replace(parts, sinks=control.sinks).session(lambda line: None, on_captured=control.captured)
    with control.begin(session):
        try:
            session.start()
            assert session.ready.wait(SOON)
            yield control, parts, diary
        finally:
            session.stop()
    session.check()


def small_photo(path: Path, source: Path) -> bytes:
    """A photo of few pixels."""
    image = cv2.imread(str(source))
    factor = 300 / max(image.shape[:2])
    made = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    cv2.imwrite(str(path), made)
    return path.read_bytes()


def resident_mib() -> float:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("this system does not tell how much memory is used")
    return int(status.read_text().split("VmRSS:")[1].split()[0]) / 1024


class Light:
    """A swapper that costs nothing to open, so that a thousand of them are only the machinery around it."""

    name = "light"
    landmarks = 468

    def __init__(self):
        self.nodes = {}
        self._big = None

    def open(self, progress):
        self._big = np.ones(1 << 20, np.uint8)

    def swap(self, image, face):
        return ()

    def blend(self, image, layer):
        image[: image.shape[0] // 2] = 90

    def close(self):
        self._big = None


def test_a_thousand_swappers_leave_nothing_behind():
    """Case 10: every one of them holds a megabyte."""
    with running(size=(320, 180), fps=60.0) as (control, parts, diary):
        desk = control.desk
        desk.steering._another = lambda config, read: Light()

        def change(times):
            for n in range(times):
                desk.change({"shape": (0.2, 0.8)[n % 2]}).result(SOON)
                diary.seen.clear()

        change(100)
        before, memory, threads = alive(), resident_mib(), threading.active_count()
        change(1000)
        after = alive()
        assert resident_mib() - memory < 30
        assert after["Light"] == before["Light"] == 1
        assert sum(after.values()) < sum(before.values()) * 1.05 + 200
        assert threading.active_count() <= threads + 1
        assert isinstance(parts.pipeline.swapper, Light)


def alive():
    """How many objects there are of each kind."""
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects())


def test_changes_of_face_leave_memory_flat(tmp_path):
    """The same with real ones; each takes a tenth of a second to be opened."""
    with running(size=(320, 180), fps=30.0) as (control, parts, diary):
        desk = control.desk
        faces = [
            desk.drop(source.name, small_photo(tmp_path / source.name, source)).result(SOON).id
            for source in (ASTRONAUT, HOPPER)
        ]
        threads = threading.active_count()

        def change(times):
            for n in range(times):
                desk.change({"face": faces[n % 2]}).result(SOON)
                diary.seen.clear()

        change(20)
        before, memory = alive(), resident_mib()
        change(100)
        after = alive()
        assert resident_mib() - memory < 30
        for name in ("MeshSwapper", "Texture", "SourceFace", "Future", "_Ask", "Lease", "Frame"):
            assert after[name] <= before[name] + 8, name
        assert sum(after.values()) < sum(before.values()) * 1.05 + 200
        assert threading.active_count() <= threads + 1
        assert after["MeshSwapper"] == 1
        assert parts.pipeline.swapper.name == "mesh"


def test_no_frame_is_late_by_more_than_a_period_while_faces_change():
    """Machines that are shared stall for reasons of their own: what is asked is that changes add nothing to it."""
    fps = 15.0
    with running(size=(640, 360), fps=fps) as (control, _, diary):
        desk = control.desk
        face = desk.drop("astronaut.png", ASTRONAUT.read_bytes()).result(SOON).id
        own = desk.gallery.people()[0].id
        desk.change({"face": face}).result(SOON)

        def worst(seconds, change):
            start, until = len(diary.seen), time.monotonic() + seconds
            n = 0
            while time.monotonic() < until:
                if change:
                    desk.change({"face": (own, face)[n % 2]}).result(SOON)
                n += 1
                time.sleep(0.3)
            seen = diary.seen[start:]
            gaps = [b - a for (a, *_), (b, *_) in itertools.pairwise(seen)]
            assert {kind for _, kind, _ in seen} <= {Kind.SWAPPED, Kind.HELD}
            return float(np.percentile(gaps, 95)) / 1e9

        calm, busy = worst(4, change=False), worst(6, change=True)
        assert busy <= calm + 1 / fps
