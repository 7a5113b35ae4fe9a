"""A whole session on real devices, and everything that happens to a camera; somebody watches all the time.

What the viewer gets is looked at picture by picture: never the bare face, and never a gap.
"""

from __future__ import annotations

import queue
import signal
import threading
import time

import cv2
import pytest

from tests.vm import rig
from tests.vm.live import FPS
from tests.vm.viewer import Viewer

pytestmark = pytest.mark.timeout(240)


class Live:
    """The session in a process of its own, its viewer, and what it said."""

    def __init__(self, process) -> None:
        self.process = process
        self.said: list[str] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._thread = threading.Thread(target=self._listen, name="listener")
        self._thread.start()
        self.viewer: Viewer | None = None

    def _listen(self) -> None:
        began = time.monotonic()
        for line in self.process.stdout:
            self.said.append(f"{time.monotonic() - began:.1f} {line.strip()}")
            self._lines.put(line.strip())

    def until(self, line: str, seconds: float) -> float:
        """Waits until it says so; returns when."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if self._lines.get(timeout=0.2) == line:
                    return time.monotonic()
            except queue.Empty:
                code = self.process.poll()
                assert code is None, f"it ended with {code}: {chr(10).join(self.said[-60:])}"
                if time.monotonic() < deadline:
                    continue
                raise AssertionError(
                    f"not said within {seconds:g} s: {line}; but {self.said[-12:]}"
                ) from None

    def forget(self) -> None:
        """What was said so far is not waited for any more."""
        while not self._lines.empty():
            self._lines.get()

    def watch(self) -> Viewer:
        if self.viewer is None:
            self.viewer = Viewer(rig.LOOPBACK)
            rig.eventually(lambda: self.viewer.seen, "the viewer sees something")
        return self.viewer

    def end(self) -> None:
        if self.viewer is not None:
            self.viewer.close()
        self.process.kill()
        self._thread.join()


@pytest.fixture(scope="module")
def live(process):
    rig.load_loopback(rig.versions()[0])
    rig.load_vivid()
    session = Live(process)
    try:
        session.until("made", 100)
        process.stdin.write("begin\n")
        process.stdin.flush()
        rig.eventually(lambda: rig.gives_pictures(rig.LOOPBACK) or process.poll() is not None, "frames")
        assert process.poll() is None, session.said
        viewer = session.watch()
        session.until("state: live", 90)
        rig.eventually(lambda: viewer.seen[-1].grey.std() > 30, "the camera's picture")
        yield session
    finally:
        session.end()


def test_the_other_face_is_seen_and_the_own_one_never(live):
    began = time.monotonic()
    rig.eventually(lambda: len(live.viewer.since(began)) > 10, "ten pictures")
    live.viewer.nobody_was_seen(live.viewer.seen[0].at, FPS, "start")


def fault(live, name, begin, end, lasts):
    """Makes a fault, waits until it is noticed, keeps it for a while, and waits until the session is live again."""
    live.forget()
    began = time.monotonic()
    begin()
    noticed = live.until("state: lost", 15)
    rig.eventually(lambda: live.viewer.since(noticed + lasts), "time passes for the viewer", lasts + 10)
    end()
    again = live.until("state: live", 40)
    rig.eventually(lambda: len(live.viewer.since(again)) > 3, "pictures of the camera that is back")
    live.viewer.nobody_was_seen(began, FPS, name)


def test_a_camera_that_disconnects_for_a_moment(live):
    fault(live, "disconnect", lambda: rig.vivid_control("disconnect", 1), lambda: None, lasts=0)


def test_a_camera_whose_cable_is_pulled_and_plugged_in_again(live):
    fault(
        live,
        "unplugged",
        lambda: rig.plug("vivid.0", plugged=False),
        lambda: rig.plug("vivid.0", plugged=True),
        lasts=4,
    )


def test_a_camera_that_freezes(live):
    """Each read blocks for ten seconds, and opened again it blocks again; viewers must not wait for it."""
    fault(
        live,
        "frozen",
        lambda: rig.vivid_control("percentage_of_dropped_buffers", 100),
        lambda: rig.vivid_control("percentage_of_dropped_buffers", 0),
        lasts=11,
    )


def test_a_camera_that_another_program_took_meanwhile(live):
    """It is lost for a moment, and held by another program when it is looked for."""
    held = cv2.VideoCapture()

    def taken():
        rig.plug("vivid.0", plugged=False)
        rig.plug("vivid.0", plugged=True)
        assert held.open(rig.VIVID, cv2.CAP_V4L2)
        assert held.read()[0]

    fault(live, "taken", taken, held.release, lasts=3)


def test_ctrl_c_ends_it_and_the_next_one_starts(live):
    live.process.send_signal(signal.SIGINT)
    assert live.process.wait(20) == 130, "\n".join(live.said[-40:])
    live.viewer.close()
    with rig.sending(rig.bars(rig.SMALL)):
        assert rig.off_by(rig.opencv_reads(rig.LOOPBACK)) <= 3
