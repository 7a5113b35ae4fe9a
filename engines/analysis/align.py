"""Where eyes, nose and mouth lie in the crops that public networks were trained on.

The templates are those published with ArcFace (InsightFace), FFHQ, MTCNN and DeepFaceLab. A crop is a similarity of
the frame: rotated, scaled and moved, never sheared or mirrored (S. Umeyama, "Least-squares estimation of
transformation parameters between two point patterns", 1991).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import numpy as np

from engines.faces import Array, Floats


def _points(*points: tuple[float, float]) -> Floats:
    array = np.asarray(points, np.float32)
    array.setflags(write=False)
    return array


_ARCFACE = (
    (38.2946, 51.6963),
    (73.5318, 51.5014),
    (56.0252, 71.7366),
    (41.5493, 92.3655),
    (70.7299, 92.2041),
)

TEMPLATES: Final = MappingProxyType({
    "arcface_112_v2": _points(*((x / 112, y / 112) for x, y in _ARCFACE)),
    "arcface_128": _points(*(((x + 8) / 128, y / 128) for x, y in _ARCFACE)),
    "arcface_112_v1": _points((.35473, .45659), (.64527, .45659), (.5, .61154), (.37913, .77688), (.62087, .77688)),
    "ffhq_512": _points((.37692, .46865), (.62286, .46913), (.50124, .61332), (.39309, .72541), (.61150, .72490)),
    "mtcnn_512": _points((.36563, .46734), (.63305, .46586), (.50019, .61943), (.39033, .77599), (.61179, .77476)),
    "dfl_whole_face": _points((.35342, .39286), (.62798, .39286), (.48661, .54018), (.38839, .68750), (.59821, .68750)),
})  # fmt: skip
"""For each template the five points, (5, 2) parts of the crop's side: the eye on the left of the picture, the other
eye, the tip of the nose, the corner of the mouth on the left, the other one."""

_EYE_LEFT, _EYE_RIGHT = (33, 133, 159, 145), (362, 263, 386, 374)
_NOSE, _MOUTH_LEFT, _MOUTH_RIGHT = 1, 61, 291


def five_points(points: Floats) -> Floats:
    """The five points of a template, of a face mesh.

    Args:
        points: (468 or more, 2 or more) float32 pixels, MediaPipe's numbering.

    Returns:
        (5, 2) float32 pixels.
    """
    return np.stack([
        points[list(_EYE_LEFT), :2].mean(0), points[list(_EYE_RIGHT), :2].mean(0),
        points[_NOSE, :2], points[_MOUTH_LEFT, :2], points[_MOUTH_RIGHT, :2],
    ]).astype(np.float32)  # fmt: skip


def fit_similarity(source: Array, target: Array) -> Floats:
    """The similarity that brings points nearest to others, in the least squares.

    Args:
        source: (N, 2), N ≥ 2, not all the same.
        target: (N, 2).

    Returns:
        (2, 3) float32 affine, source to target.

    Raises:
        ValueError: All source points lie in one place.
    """
    source, target = np.asarray(source, np.float64), np.asarray(target, np.float64)
    middle, goal = source.mean(0), target.mean(0)
    a, b = source - middle, target - goal
    spread = float((a * a).sum())
    if not spread > 1e-12:
        raise ValueError("points in one place give no direction")
    cos = float((a * b).sum()) / spread
    sin = float((a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]).sum()) / spread
    turn = np.array([[cos, -sin], [sin, cos]])
    return np.hstack([turn, (goal - turn @ middle)[:, None]]).astype(np.float32)


def crop_affine(template: str, side: int, points: Floats) -> Floats:
    """Where a face's crop lies in the frame.

    Args:
        template: One of :data:`TEMPLATES`.
        side: Of the crop, pixels.
        points: (5, 2) five points, or a whole face mesh, pixels of the frame.

    Returns:
        (2, 3) float32 affine, frame pixels to crop pixels; centres of pixels lie at whole numbers in both.

    Raises:
        KeyError: There is no such template.
        ValueError: The points lie in one place.
    """
    five = points if len(points) == 5 else five_points(points)
    return fit_similarity(five[:, :2], TEMPLATES[template] * side)
