"""What is before the face, with input that makes no sense; and live pixels put back."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.faces import Patch
from engines.kernels import blobs, edges, relight, rims, strokes
from engines.kernels import cover as cover_kernels
from engines.kernels.edges import put_back
from engines.swap.mesh.cover import Acquaintance, Cover, Covers
from engines.swap.mesh.kept import Keeper, drawn
from tests.engines.scenes import face_in, placed

FRAMES = 20


@pytest.fixture(scope="module")
def covers():
    return Covers()


@pytest.fixture(scope="module")
def face():
    return face_in(placed("astronaut", (640, 480), 230, (320, 240)))


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 40.0])
def test_a_patch_of_one_colour_is_harmless(value, covers, face):
    points = face.points
    patch = Patch(np.full((192, 192, 3), value, np.float32), np.float32([[1, 0, 0], [0, 1, 0]]))
    known = Acquaintance()
    for _ in range(FRAMES):
        cover = covers.look(patch, points, known)
        assert cover is None or np.isfinite(cover.vertices).all()
    assert np.isfinite(known.usual).all()
    assert np.isfinite(known.plane).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_a_picture_that_is_no_numbers_spoils_nothing_that_was_learnt(bad, covers, face):
    known = Acquaintance()
    spoilt = face.patch.image.copy()
    spoilt[60:100, 60:100] = bad
    for frame in range(FRAMES):
        patch = Patch(spoilt, face.patch.affine) if frame == 5 else face.patch
        covers.look(patch, face.points, known)
        assert np.isfinite(known.usual).all()
        assert np.isfinite(known.plane).all()


def test_landmarks_far_outside_of_the_patch_are_harmless(covers, face):
    known = Acquaintance()
    for shift in (0, 1e4, -1e7, 1e12, 0):
        covers.look(face.patch, (face.points + np.float32(shift)).astype(np.float32), known)
    assert np.isfinite(known.usual).all()


def test_a_cover_outside_of_the_frame_keeps_nothing():
    image = np.zeros((40, 40, 3), np.uint8)
    full = np.full((192, 192), 255, np.uint8)
    vertices = np.zeros(468, np.float32)
    assert Keeper().keep(image, Cover(full, np.float32([[1, 0, 900], [0, 1, 0]]), vertices)) is None
    assert Keeper().keep(image, Cover(full * 0, np.float32([[1, 0, 0], [0, 1, 0]]), vertices)) is None
    rows, columns, live, amount = Keeper().keep(
        image, Cover(full, np.float32([[1, 0, 30], [0, 1, 0]]), vertices)
    )
    assert image[rows, columns].shape == live.shape == (*amount.shape, 3)


def test_nothing_is_compiled_while_frames_come():
    """Something before a face, small and from one side of the frame to the other: the types are those of the start."""
    modules = (blobs, cover_kernels, edges, relight, rims, strokes)
    for module in modules:
        module.warm_up()
    kernels = [one for module in modules for one in vars(module).values() if hasattr(one, "signatures")]
    before = [len(one.signatures) for one in kernels]
    keeper, known, made = Keeper(), Acquaintance(), Covers()
    near = placed("astronaut", (640, 480), 600, (320, 240))
    for seed in range(26):
        image = near.copy()
        image[:] = np.clip(image + np.random.default_rng(seed).normal(0, 1, image.shape), 0, 255)
        if seed > 18:
            image[250 : 280 + 20 * (seed % 6)] = (190, 120, 40)
        seen = face_in(near)
        patch = Patch(
            cv2.warpAffine(image, seen.patch.affine, (192, 192))[:, :, ::-1].astype(np.float32)
            / np.float32(255),
            seen.patch.affine,
        )
        cover = made.look(patch, seen.points, known)
        made.bare(known)
        kept = keeper.keep(image, drawn(image, cover)) if cover is not None else None
        if kept is not None:
            edges.put_back(image[kept[0], kept[1]], kept[2], kept[3])
    assert known.there.any()
    full = Cover(
        np.full((192, 192), 255, np.uint8), np.float32([[0.3, 0, 0], [0, 0.4, 0]]), np.zeros(468, np.float32)
    )
    rows, columns, live, amount = keeper.keep(image, full)
    assert image[rows, columns].flags.c_contiguous
    edges.put_back(image[rows, columns], live, amount)
    assert [len(one.signatures) for one in kernels] == before


def test_putting_back_is_exact_at_both_ends():
    rng = np.random.default_rng(3)
    live, painted = rng.integers(0, 256, (2, 16, 256, 3), np.uint8)
    amount = np.broadcast_to(np.arange(256, dtype=np.uint8), (16, 256)).copy()
    out = painted.copy()
    put_back(out, live, amount)
    assert (out[:, 0] == painted[:, 0]).all()
    assert (out[:, 255] == live[:, 255]).all()
    expected = painted + (live.astype(float) - painted) * (amount / 255)[:, :, None]
    assert np.abs(out - expected).max() <= 1.5
