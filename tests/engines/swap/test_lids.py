"""Blinks, seen in the picture."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

from engines.analysis.topology import LEFT_EYE_RINGS, RIGHT_EYE_RINGS
from engines.faces import Patch
from engines.swap.mesh.lids import Lids
from tests.engines.scenes import face_in, placed

SIZE, WIDTH, AT = (320, 360), 190.0, (160, 190)
RINGS = (RIGHT_EYE_RINGS[1], LEFT_EYE_RINGS[1])


def shown(name, angle=0.0):
    face = face_in(placed(name, SIZE, WIDTH, AT, angle))
    return replace(face, patch=Patch(face.patch.image.copy(), face.patch.affine.copy()))


def shut(face, *eyes):
    """The same face with lids drawn over some of its eyes: the colour of its cheek, and lashes below."""
    image = face.patch.image.copy()
    places = face.points[:, :2] @ face.patch.affine[:, :2].T + face.patch.affine[:, 2]
    column, row = np.rint(places[50]).astype(int)
    for eye in eyes:
        cv2.fillConvexPoly(
            image,
            cv2.convexHull(np.rint(places[list(RINGS[eye])]).astype(np.int32)),
            image[row, column].tolist(),
        )
        lashes = np.rint(places[list(RINGS[eye][:9])]).astype(np.int32)
        cv2.polylines(image, [lashes], False, (0.15, 0.1, 0.1), 1, cv2.LINE_AA)
    return Patch(image, face.patch.affine)


@pytest.mark.parametrize("angle", [0.0, 0.5, -1.2])
def test_each_eye_is_seen_by_itself(angle):
    face, lids = shown("astronaut", angle), Lids()
    for _ in range(5):
        assert lids.open(face.patch, face.points) == (1.0, 1.0)
    assert max(lids.open(shut(face, 0, 1), face.points)) < 0.5
    right, left = lids.open(shut(face, 0), face.points)
    assert right < 0.5
    assert left == 1.0
    right, left = lids.open(shut(face, 1), face.points)
    assert right == 1.0
    assert left < 0.5
    # And open again in the very next frame.
    assert lids.open(face.patch, face.points) == (1.0, 1.0)


def test_eyes_that_were_shut_at_first_are_soon_known_open():
    face, lids = shown("astronaut"), Lids()
    for _ in range(30):
        lids.open(shut(face, 0, 1), face.points)
    for _ in range(40):
        assert lids.open(face.patch, face.points) == (1.0, 1.0)
    assert max(lids.open(shut(face, 0, 1), face.points)) < 0.5


def test_a_long_blink_stays_one():
    face, lids = shown("astronaut"), Lids()
    for _ in range(5):
        lids.open(face.patch, face.points)
    for _ in range(45):
        seen = lids.open(shut(face, 0, 1), face.points)
    assert max(seen) < 0.5


@pytest.mark.parametrize("light", [0.85, 1.15])
def test_a_lamp_that_flickers_is_no_blink(light):
    face, lids = shown("astronaut"), Lids()
    for _ in range(5):
        lids.open(face.patch, face.points)
    lit = Patch(np.clip(face.patch.image * np.float32(light), 0, 1), face.patch.affine)
    assert min(lids.open(lit, face.points)) > 0.85


def test_noise_is_no_blink():
    face, lids, rng = shown("astronaut"), Lids(), np.random.default_rng(3)
    for _ in range(60):
        noise = rng.standard_normal(face.patch.image.shape, np.float32) * np.float32(4 / 255)
        noisy = Patch(np.clip(face.patch.image + noise, 0, 1), face.patch.affine)
        assert min(lids.open(noisy, face.points)) > 0.9


def test_what_shows_nothing_shuts_no_eye():
    face = shown("astronaut")
    black = Patch(np.zeros_like(face.patch.image), face.patch.affine)
    assert Lids().open(black, face.points) == (1.0, 1.0)
    lids = Lids()
    lids.open(face.patch, face.points)
    for wrong in (np.nan, np.inf, 0.0):
        assert lids.open(face.patch, np.full_like(face.points, wrong)) == (1.0, 1.0)
