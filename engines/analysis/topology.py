"""The canonical face mesh: which landmark is where, and which of them make a triangle.

Numbers are those of MediaPipe's face mesh, whose network also fixes the order of the refined points. "Right" and
"left" are the person's, so the right eye is on the left of the picture.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from engines.faces import Array, Floats

WEIGHTS: Final = Path(__file__).parent.parent / "weights"

POINTS: Final = 468
REFINED_POINTS: Final = 478

OVAL: Final = (
    10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377,
    152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109,
)  # fmt: skip
"""The 36 points on the border of the mesh, in order around the face, from the top of the forehead."""

RIGHT_EYE_RINGS: Final = (
    (33, 7, 163, 144, 145, 153, 154, 155, 133, 246, 161, 160, 159, 158, 157, 173),
    (130, 25, 110, 24, 23, 22, 26, 112, 243, 247, 30, 29, 27, 28, 56, 190),
    (226, 31, 228, 229, 230, 231, 232, 233, 244, 113, 225, 224, 223, 222, 221, 189),
)
"""The opening between the lids, then two rings around it; each: corner, lower lid, corner, upper lid."""

LEFT_EYE_RINGS: Final = (
    (263, 249, 390, 373, 374, 380, 381, 382, 362, 466, 388, 387, 386, 385, 384, 398),
    (359, 255, 339, 254, 253, 252, 256, 341, 463, 467, 260, 259, 257, 258, 286, 414),
    (446, 261, 448, 449, 450, 451, 452, 453, 464, 342, 445, 444, 443, 442, 441, 413),
)

RIGHT_BROW: Final = (46, 53, 52, 65, 70, 63, 105, 66, 107, 55)
LEFT_BROW: Final = (276, 283, 282, 295, 300, 293, 334, 296, 336, 285)

LIPS_OUTER: Final = (
    61,
    146,
    91,
    181,
    84,
    17,
    314,
    405,
    321,
    375,
    291,
    185,
    40,
    39,
    37,
    0,
    267,
    269,
    270,
    409,
)
LIPS_INNER: Final = (
    78,
    95,
    88,
    178,
    87,
    14,
    317,
    402,
    318,
    324,
    308,
    191,
    80,
    81,
    82,
    13,
    312,
    311,
    310,
    415,
)
LIPS_BETWEEN: Final = (
    (76, 77, 90, 180, 85, 16, 315, 404, 320, 307, 306, 184, 74, 73, 72, 11, 302, 303, 304, 408),
    (62, 96, 89, 179, 86, 15, 316, 403, 319, 325, 292, 183, 42, 41, 38, 12, 268, 271, 272, 407),
)
"""Rings between the outer and the inner border of the lips, from the outside."""

NOSTRILS: Final = (
    2,
    97,
    98,
    326,
    327,
    60,
    290,
    99,
    328,
    240,
    460,
    75,
    305,
    20,
    250,
    238,
    458,
    79,
    309,
    166,
    392,
)

REFINED_LIPS: Final = LIPS_OUTER + LIPS_INNER + LIPS_BETWEEN[0] + LIPS_BETWEEN[1]
"""Which point of the mesh each of the 80 refined lip points replaces."""

REFINED_RIGHT_EYE: Final = (
    *RIGHT_EYE_RINGS[0], *RIGHT_EYE_RINGS[1], *RIGHT_EYE_RINGS[2], 35, 124, 46, 53, 52, 65,
    143, 111, 117, 118, 119, 120, 121, 128, 245, 156, 70, 63, 105, 66, 107, 55, 193,
)  # fmt: skip
"""Which point of the mesh each of the 71 refined points of the right eye and brow replaces."""

REFINED_LEFT_EYE: Final = (
    *LEFT_EYE_RINGS[0], *LEFT_EYE_RINGS[1], *LEFT_EYE_RINGS[2], 265, 353, 276, 283, 282, 295,
    372, 340, 346, 347, 348, 349, 350, 357, 465, 383, 300, 293, 334, 296, 336, 285, 417,
)  # fmt: skip

RIGHT_IRIS: Final = (468, 469, 470, 471, 472)
"""Centre, then four points on the border of the iris."""
LEFT_IRIS: Final = (473, 474, 475, 476, 477)


@cache
def canonical() -> Floats:
    """(468, 3) float32: the mesh of a neutral face, x to the right of the picture, y down, z away from the camera."""
    with np.load(WEIGHTS / "canonical_face.npz", allow_pickle=False) as file:
        vertices: Floats = file["V"][:, :3].astype(np.float32) * np.array([1, -1, -1], np.float32)
    vertices.flags.writeable = False
    return vertices


@cache
def canonical_uv() -> Floats:
    """(468, 2) float32: where each vertex lies in the mesh's own texture, 0…1, v down."""
    with np.load(WEIGHTS / "canonical_face.npz", allow_pickle=False) as file:
        uv: Floats = file["V"][:, 3:5].astype(np.float32)
    uv.flags.writeable = False
    return uv


@cache
def triangles() -> Array:
    """(898, 3) int32: corners of every triangle, all wound the same way; eyes and mouth are filled too."""
    with np.load(WEIGHTS / "canonical_face.npz", allow_pickle=False) as file:
        corners: Array = file["I"].reshape(-1, 3).astype(np.int32)
    corners.flags.writeable = False
    return corners


@cache
def mirrored() -> Array:
    """(468,) int32: the landmark on the other half of the face; those on the middle line are their own."""
    points = canonical().copy()
    swapped = points * np.array([-1, 1, 1], np.float32)
    distance = np.linalg.norm(points[:, None] - swapped[None], axis=2)
    partner: Array = distance.argmin(1).astype(np.int32)
    partner.flags.writeable = False
    return partner
