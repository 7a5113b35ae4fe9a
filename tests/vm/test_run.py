"""The command itself, from a camera that sends MJPG to the virtual camera, with a face before it."""

from __future__ import annotations

import signal
import subprocess
import sys

import cv2
import pytest

from tests.vm import rig
from tests.vm.face import PHOTO, scene
from tests.vm.viewer import Viewer

_FPS = 5.0


@pytest.fixture
def feeding(tmp_path):
    """Starts the other program behind the camera: it sends one person, compressed."""
    rig.load_loopback(rig.versions()[-1], devices=2)
    picture = tmp_path / "person.png"
    cv2.imwrite(str(picture), scene())
    line = ["-re", "-loop", "1", "-framerate", "10", "-i", str(picture), "-c:v", "mjpeg", "-q:v", "2",
            "-pix_fmt", "yuvj422p", "-f", "v4l2", rig.SECOND_LOOPBACK]  # fmt: skip
    return lambda: rig.ffmpeg(line)


@pytest.mark.timeout(240)
def test_run_from_an_mjpg_camera_that_dies_and_comes_back(feeding, tmp_path):
    line = [
        sys.executable, "-m", "realtime", "run", "--source", "camera:Second", "--sink", f"virtualcam:{rig.LABEL}",
        "--face", str(PHOTO), "--size", "640x360", "--fps", f"{_FPS:g}", "--no-governor",
    ]  # fmt: skip
    log = tmp_path / "log"
    viewer = None
    with feeding() as camera, log.open("w") as out:
        rig.eventually(lambda: rig.gives_pictures(rig.SECOND_LOOPBACK), "the camera sends")
        run = subprocess.Popen(
            line, cwd=rig.ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
        try:

            def runs():
                assert run.poll() is None, log.read_text()
                return True

            rig.eventually(lambda: runs() and rig.gives_pictures(rig.LOOPBACK), "the first frame", 120)
            viewer = Viewer(rig.LOOPBACK)
            rig.eventually(lambda: runs() and shows_a_person(viewer), "the other face", 120)
            camera.kill()
            rig.eventually(lambda: runs() and not shows_a_person(viewer), "no picture of the camera", 40)
            with feeding():
                rig.eventually(lambda: runs() and shows_a_person(viewer), "the camera is back", 60)
                viewer.nobody_was_seen(viewer.seen[0].at, _FPS, "run")
                run.send_signal(signal.SIGINT)
                assert run.wait(30) == 130, log.read_text()
        finally:
            run.kill()
            run.wait()
            if viewer is not None:
                viewer.close()
    said = log.read_text()
    assert "Second (/dev/video11), 640×360" in said
    assert "MJPG" in said
    assert "Traceback" not in said


def shows_a_person(viewer):
    """A picture of the camera is rich; the veil and the slates are plain."""
    return bool(viewer.seen) and viewer.seen[-1].grey.std() > 45
