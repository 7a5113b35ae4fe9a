"""From the raw rows of a detector to faces: each face once, none that is not made of numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.analysis.five import keypoints_of
from engines.faces import Detection, Floats

SAME_FACE_IOU: Final = 0.4
"""How much two boxes may overlap and still be two faces; what both SCRFD and YOLOFace publish."""

_MOST: Final = 300
"""Rows that are looked at, the best ones: a broken network may be sure of all its sixteen thousand."""


def distinct(boxes: Floats, iou: float = SAME_FACE_IOU) -> list[int]:
    """Which boxes overlap no better one: non-maximum suppression.

    Args:
        boxes: (N, 4) float32: x0, y0, x1, y1; the best first.
        iou: Overlap from which two are one.

    Returns:
        Their rows, in order. Boxes without an area or not made of numbers are left out.
    """
    kept: list[int] = []
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    for i, box in enumerate(boxes):
        if not (np.isfinite(box).all() and (box[2:] > box[:2]).all()):
            continue
        low, high = np.maximum(box[:2], boxes[kept, :2]), np.minimum(box[2:], boxes[kept, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        if not (shared > iou * (areas[i] + areas[kept] - shared)).any():
            kept.append(i)
    return kept


def faces_of(boxes: Floats, points: Floats, scores: Floats, scale: float) -> list[Detection]:
    """Faces, the largest first.

    Args:
        boxes: (N, 4) x0, y0, x1, y1 in pixels of what the network saw.
        points: (N, 5, 2) in the same: eyes, nose, corners of the mouth.
        scores: (N,) 0…1.
        scale: Those pixels for one of the frame.

    Returns:
        In pixels of the frame; none overlaps another much.
    """
    order = np.argsort(-scores, kind="stable")[:_MOST]
    boxes, points, scores = (np.asarray(rows[order], np.float32) for rows in (boxes, points, scores))
    kept = [i for i in distinct(boxes) if np.isfinite(points[i]).all() and np.isfinite(scores[i])]
    if not kept:
        return []
    keypoints = keypoints_of(points[kept]) / np.float32(scale)
    found = [
        Detection(
            centre=(boxes[i, :2] + boxes[i, 2:]) / np.float32(2 * scale),
            size=float((boxes[i, 2:] - boxes[i, :2]).max() / scale),
            keypoints=six,
            score=float(np.clip(scores[i], 0, 1)),
        )
        for i, six in zip(kept, keypoints, strict=True)
    ]
    return sorted(found, key=lambda face: -face.size)
