"""OBS Studio shows the virtual camera, with the colours that were sent. Started by tools/vcam_vm/obs.sh."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.obs import obs, virtual_camera
from tests.vm import rig

pytestmark = [
    pytest.mark.timeout(400),
    # Up to two minutes in here, for which the stage has no room.
    pytest.mark.skipif(
        os.environ.get("VCAM_VM_OBS") != "1" or not (shutil.which("obs") and shutil.which("Xvfb")),
        reason="OBS is shown by tools/vcam_vm/obs.sh",
    ),
]

_CLOSE = 6
"""Levels: 4:2:0, and the preview's scaling."""

_BT601, _BT709 = (0.299, 0.114), (0.2126, 0.0722)
"""Weights of red and blue in luma."""


def as_obs_reads(bgr: tuple[int, int, int]) -> np.ndarray:
    """OBS takes every raw camera for BT.709, and ours sends BT.601 as webcams do: BGR as it is seen then, int16."""
    b, g, r = (level / 255 for level in bgr)
    red, blue = _BT601
    luma = red * r + (1 - red - blue) * g + blue * b
    u, v = (b - luma) / (2 * (1 - blue)), (r - luma) / (2 * (1 - red))
    red, blue = _BT709
    r, b = luma + 2 * (1 - red) * v, luma + 2 * (1 - blue) * u
    g = (luma - red * r - blue * b) / (1 - red - blue)
    return np.rint(np.clip((b, g, r), 0, 1) * 255).astype(np.int16)


def test_obs_shows_the_virtual_camera_in_its_colours(newest_loopback):
    size = (1280, 720)
    with rig.sending(rig.bars(size), fps=5), obs(virtual_camera(rig.LOOPBACK), size) as studio:
        try:
            rig.eventually(lambda: "Startup complete" in studio.said(), "OBS is up", 250)
            rig.eventually(lambda: found_bars(studio.screen.picture()) is not None, "OBS shows the bars", 100)
        finally:
            if os.environ.get("VCAM_VM_OUT"):
                cv2.imwrite(str(Path(os.environ["VCAM_VM_OUT"]) / "obs-bars.png"), studio.screen.picture())
        said = studio.said()
        left, right = found_bars(studio.screen.picture())
    assert f"Start capture from {newest_loopback}" in said
    assert "Resolution: 1280x720" in said
    # The preview is as wide as its canvas is high and more: nothing was cut off.
    assert right - left > 400


def found_bars(screen: np.ndarray) -> tuple[int, int] | None:
    """Where in OBS's preview the eight bars are, left to right; None while they are not all there in their order."""
    row = screen[200].astype(np.int16)
    edges = []
    for colour in rig.BARS:
        columns = np.flatnonzero(np.abs(row - as_obs_reads(colour)).max(axis=1) <= _CLOSE)
        if len(columns) < 20:
            return None
        edges.append((int(np.median(columns)), int(columns.min()), int(columns.max())))
    middles = [middle for middle, _, _ in edges]
    return (edges[0][1], edges[-1][2]) if middles == sorted(middles) else None
