"""Lashes of a photo: where they are, where they end, and that nothing is taken for them that is none."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.analysis.topology import LEFT_EYE_RINGS, RIGHT_EYE_RINGS
from engines.swap.mesh.lashes import lashes_end
from engines.swap.mesh.texture import EYE_HOLES, LASHED_EYE_HOLES, unwrap, uv_of
from tests.engines.scenes import source

_EYES = (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0])


def face(side=512, lid=170, eyeball=190, lashes=None, thick=0.004, below=0.0, eyes=(0, 1)):
    """A face as a texture: skin, eyeballs between the lids, and lashes (a brightness) along some of the upper lids."""
    skin = np.full((side, side, 3), lid, np.uint8)
    uv = uv_of(side)
    for n, ring in enumerate(_EYES):
        loop = uv[[ring[i] for i in (*range(9), *range(15, 8, -1))]]
        cv2.fillPoly(skin, [np.rint(loop * 16).astype(np.int32)], (eyeball,) * 3, cv2.LINE_AA, 4)
        if lashes is not None and n in eyes:
            upper = uv[[ring[i] for i in (0, *range(9, 16), 8)]] + np.array([0, below * side], np.float32)
            line = np.rint(upper * 16).astype(np.int32)
            cv2.polylines(skin, [line], False, (lashes,) * 3, max(1, round(thick * side)), cv2.LINE_AA, 4)
    return skin, uv


@pytest.mark.parametrize("side", [256, 384, 512, 1024])
@pytest.mark.parametrize("below", [-0.003, 0.0, 0.004])
def test_lashes_end_half_their_width_below_their_middle(side, below):
    thick = max(1, round(0.004 * side)) / side
    end = lashes_end(*face(side, lashes=40, below=below))
    assert end == pytest.approx(below + thick / 2, abs=0.0035)


@pytest.mark.parametrize(
    "scene",
    [
        {},
        {"lid": 60, "eyeball": 20},
        {"lid": 170, "eyeball": 60},
        {"lashes": 160},
        {"lashes": 40, "below": -0.018},
        {"lid": 0, "eyeball": 0},
    ],
    ids=["none", "dark face", "dark eye", "as bright as the lid", "a crease far above", "black"],
)
def test_what_is_no_line_between_lid_and_eyeball_is_none(scene):
    assert lashes_end(*face(**scene)) is None


def test_lashes_of_one_eye_are_not_taken_for_those_of_both():
    assert lashes_end(*face(lashes=40)) is not None
    assert lashes_end(*face(lashes=40, eyes=())) is None
    # More than two fifths of all lines; a photo may hide one eye in shade.
    assert lashes_end(*face(lashes=40, eyes=(1,))) is not None


@pytest.mark.parametrize("name", ["hopper", "astronaut"])
def test_holes_only_ever_get_smaller_by_lashes_and_never_close(name):
    photo = source(name)
    plain, lashed = (
        unwrap(photo, holes=holes).levels[0][:, :, 3].astype(int) for holes in (EYE_HOLES, LASHED_EYE_HOLES)
    )
    assert (lashed >= plain - 1).all()
    uv = uv_of(len(plain))
    for ring in _EYES:
        middle = np.rint(uv[list(ring)].mean(0)).astype(int)
        assert lashed[middle[1], middle[0]] == 0
    changed = np.argwhere(lashed > plain + 8)
    if name == "astronaut":
        assert len(changed) > 20
        upper = uv[[ring[i] for ring in _EYES for i in range(9, 16)]]
        nearest = np.linalg.norm(changed[:, None, ::-1] - upper[None], axis=2).min(1)
        assert nearest.max() < 0.03 * len(plain)
    else:
        assert len(changed) == 0
