"""A camera that runs with its page, and what the page's picture shows."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import select
import subprocess
import sys
import time

import cv2
import numpy as np

from tests.realtime.control.rig import ASTRONAUT, HOPPER

FACE = (slice(58, 122), slice(270, 330))
"""Where the face is in the picture on the page, 640x360."""

_PIXELS = """(() => {
  const [image, video] = ["%s", "%s-live"].map(id => document.getElementById(id));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [640, 360];
  canvas.getContext("2d").drawImage(video && !video.hidden ? video : image, 0, 0, 640, 360);
  return canvas.toDataURL("image/png");
})()"""

_WITHOUT = "import sys; sys.modules['aiortc'] = None; from realtime.cli import main; sys.exit(main())"


def pixels(page, which="after"):
    """What a picture on the page shows now, however it comes, BGR."""
    data = page.run(_PIXELS % (which, which)).partition(",")[2]
    return cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_COLOR)


def eventually(look, what, seconds=40.0):
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return seen


def settled(page):
    """What the page shows once it no longer changes: a video begins blurred and gets clearer for seconds."""
    seen = [pixels(page)]

    def still():
        seen.append(pixels(page))
        return len(seen) > 10 and np.abs(seen[-1][FACE].astype(int) - seen[-10][FACE]).mean() < 1

    eventually(still, "a picture that stands still")
    return seen[-1]


def detail(picture):
    """How much there is to see of a face: what a mosaic has none of."""
    return float(np.abs(cv2.Laplacian(picture[FACE], cv2.CV_32F)).mean())


@contextlib.contextmanager
def camera(aiortc=True):
    """A camera that runs, with aiortc or as if it were not installed; gives the link that it printed."""
    # A picture that stands still, so that what changes in it was changed on the page.
    begin = ["-m", "realtime"] if aiortc else ["-c", _WITHOUT]
    process = subprocess.Popen(
        [sys.executable, *begin, "run", "--source", f"file:{ASTRONAUT}", "--face", str(HOPPER),
         "--sink", "null", "--size", "640x360", "--fps", "10", "--control", "0"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        said, found = b"", None
        while found is None:
            assert select.select([process.stderr], [], [], 60)[0], said
            block = os.read(process.stderr.fileno(), 4096)
            assert block, said
            said += block
            found = re.search(rb"http://127\S+token=[\w-]{43}", said)
        yield found[0].decode()
    finally:
        process.terminate()
        process.wait(20)
        process.stderr.close()
