"""Swaps look as they did; ``python -m tests.golden.make`` paints the pictures anew when they are meant to change.

Other versions of OpenCV, LLVM and ONNX Runtime round elsewhere and move an edge by a fraction of a pixel; that passes.
"""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from tests.golden.make import CASES, FOLDER, LARGEST_BYTES


@pytest.mark.parametrize("name", CASES)
def test_it_looks_as_it_did(name):
    golden, now = cv2.imread(str(FOLDER / f"{name}.png")), CASES[name]()
    assert golden.shape == now.shape
    off = np.abs(golden.astype(int) - now)
    mean, worst = off.mean(), np.percentile(off, 99.9)
    assert mean < 1.0, f"mean difference {mean:.2f}; run python -m tests.golden.make and look at {name}.png"
    assert worst < 48, f"99.9 % of the differences below {worst:.0f}; look at {name}.png"


def test_every_picture_is_of_a_case_and_small():
    pictures = {path.stem: path.stat().st_size for path in FOLDER.glob("*.png")}
    assert pictures.keys() == CASES.keys()
    assert max(pictures.values()) <= LARGEST_BYTES


def test_the_pictures_tell_one_face_from_another():
    """The tolerance is far smaller than what a wrong face, or no swap at all, would make."""
    first, refined, texture, other = (
        cv2.imread(str(FOLDER / f"{name}.png")).astype(int)
        for name in (
            "hopper_on_astronaut",
            "hopper_on_astronaut_refined",
            "texture_of_hopper",
            "texture_of_astronaut",
        )
    )
    assert np.abs(first - refined).mean() > 1.0
    assert texture.shape != other.shape or np.abs(texture - other).mean() > 5
