"""From the raw rows of a detector to faces: each face once, none that is not made of numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

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


def faces_of(
    boxes: Floats, keypoints: Floats, scores: Floats, scale: float, iou: float = SAME_FACE_IOU
) -> list[Detection]:
    """Faces, the largest first.

    Args:
        boxes: (N, 4) x0, y0, x1, y1 in pixels of what the network saw.
        keypoints: (N, 6, 2) in the same, as a :class:`~engines.faces.Detection` has them.
        scores: (N,) 0…1.
        scale: Those pixels for one of the frame.
        iou: Overlap from which two are one.

    Returns:
        In pixels of the frame; none overlaps another much.
    """
    order = np.argsort(-scores, kind="stable")[:_MOST]
    boxes, keypoints, scores = (np.asarray(rows[order], np.float32) for rows in (boxes, keypoints, scores))
    found = [
        Detection(
            centre=(boxes[i, :2] + boxes[i, 2:]) / np.float32(2 * scale),
            size=float((boxes[i, 2:] - boxes[i, :2]).max() / scale),
            keypoints=keypoints[i] / np.float32(scale),
            score=float(np.clip(scores[i], 0, 1)),
        )
        for i in distinct(boxes, iou)
        if np.isfinite(keypoints[i]).all() and np.isfinite(scores[i])
    ]
    return sorted(found, key=lambda face: -face.size)
