"""OBS Studio, where it is installed, shows a stream as docs/obs.md sets it up: the way on Windows and macOS."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.obs import media, obs
from tests.pages import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("obs") and shutil.which("Xvfb")), reason="apt install obs-studio obs-plugins xvfb"
    ),
]

PHOTO = ROOT / "realtime" / "assets" / "hopper.jpg"


def until(condition, what, seconds):
    """Waits for another program; nothing else tells when it is done."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def is_shown(screen):
    """Whether a photograph is where the preview is: OBS's window is flat there, the veil has few colours."""
    preview = screen[60:360, 240:800]
    return len(np.unique(preview.reshape(-1, 3) // 8, axis=0)) > 800


def test_obs_shows_a_stream_on_the_loopback(tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        url = f"udp://127.0.0.1:{free.getsockname()[1]}"
    log = tmp_path / "log"
    with log.open("wb") as out:
        run = subprocess.Popen(
            [sys.executable, "-m", "realtime", "run", "--source", "portrait", "--face", str(PHOTO), "--sink",
             f"stream:{url}", "--size", "640x360", "--fps", "15", "--control", "off"],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
        )  # fmt: skip
    try:
        with obs(media(url)) as studio:

            def sees():
                assert run.poll() is None, log.read_text()
                return is_shown(studio.screen.picture())

            until(lambda: "Startup complete" in studio.said(), "OBS is up", 60)
            until(sees, "OBS shows the stream", 100)
            run.send_signal(signal.SIGINT)
            assert run.wait(20) == 130, log.read_text()
    finally:
        run.kill()
        run.wait()
