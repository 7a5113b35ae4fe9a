"""Several portraits side by side, and the measurement that is refused where not all of them are swapped."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from engines.errors import DoppelcamError, UsageError
from realtime.bench.group import Group
from realtime.bench.measure import Task, measure
from realtime.clock import ManualClock
from realtime.settings.config import BENCH
from realtime.sources.portrait import PortraitSource
from tests.engines.scenes import face_in

SMALL = replace(BENCH, size=(640, 360), fps=15.0)


def opened(faces, size=(640, 360), width=90.0):
    group = Group(faces, None, size, 30.0, ManualClock(), seed=3, face_width=width)
    group.open()
    return group


@pytest.mark.parametrize("faces", [1, 2, 3])
def test_each_has_a_part_of_the_frame_with_a_face_in_it(faces):
    group = opened(faces)
    frame = group.read()
    assert frame.image.shape == (360, 640, 3)
    edges = [640 // faces // 2 * 2 * n for n in range(faces)] + [640]
    for left, right in pairwise(edges):
        face = face_in(np.ascontiguousarray(frame.image[:, left:right]))
        assert np.ptp(face.points[:, 0]) == pytest.approx(90, rel=0.15)
    assert [group.read().seq for _ in range(3)] == [1, 2, 3]
    group.close()


def test_they_move_each_in_its_own_way():
    """The first and the third are of the same photo."""
    group = opened(4, (960, 240), 70.0)
    seen = [group.read().image.copy() for _ in range(20)]
    one, other = ([frame[:, x : x + 240].astype(int) for frame in seen] for x in (0, 480))
    moved = [np.abs(part[-1] - part[0]).mean() for part in (one, other)]
    assert min(moved) > 0
    assert np.abs(one[-1] - other[-1]).mean() > 0.5
    group.close()


def test_one_alone_is_the_portrait_itself():
    group = opened(1)
    alone = PortraitSource(None, (640, 360), 30.0, ManualClock(), seed=3, face_width=90.0)
    alone.open()
    for _ in range(3):
        assert np.array_equal(group.read().image, alone.read().image)
    group.close()
    alone.close()


def test_what_was_closed_gives_nothing_and_can_be_opened_again():
    group = opened(2)
    first = group.read().image.copy()
    group.close()
    group.close()
    with pytest.raises(UsageError, match="not open"):
        group.read()
    group.open()
    assert np.array_equal(group.read().image, first)
    group.close()


@pytest.mark.parametrize(
    ("faces", "size"), [(0, (640, 360)), (9, (640, 360)), (8, (320, 240)), (-1, (640, 360))]
)
def test_too_many_for_the_frame_are_refused(faces, size):
    with pytest.raises(UsageError):
        Group(faces, None, size, 30.0, ManualClock())


def test_other_sources_have_one_face():
    with pytest.raises(UsageError, match="--faces"):
        measure(Task(replace(SMALL, source="pattern"), 0.5, faces=2), lambda _: None)


def test_fewer_swapped_than_there_are_is_no_measurement():
    """Three in the picture, and two of them may be swapped."""
    config = replace(SMALL, max_faces=2)
    with pytest.raises(DoppelcamError, match="Of 3 faces only 2"):
        measure(Task(config, 0.5, face_width=90.0, faces=3), lambda _: None)


def test_all_of_them_are_swapped_and_measured():
    result = measure(Task(replace(SMALL, max_faces=2), 0.5, face_width=90.0, faces=2), lambda _: None)
    assert result.report.process.n > 0
    assert result.size == (640, 360)
