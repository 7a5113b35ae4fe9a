"""Every reader sees the colours that were sent."""

from __future__ import annotations

import pytest

from tests.vm import rig


@pytest.mark.parametrize("size", rig.SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_opencv_and_ffmpeg_see_the_bars(newest_loopback, size):
    look(newest_loopback, size)


def test_with_every_version_of_the_module(loopback):
    look(loopback, rig.SMALL)


def look(loopback, size):
    with rig.sending(rig.bars(size)):
        seen = rig.opencv_reads(loopback)
        assert (seen.shape[1], seen.shape[0]) == size
        assert rig.off_by(seen) <= 3
        assert rig.off_by(rig.ffmpeg_reads(loopback, size), swap=True) <= 3
