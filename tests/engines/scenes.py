"""Portraits, the networks that look at them, and pictures made of both."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import cv2
import numpy as np

from engines.analysis.align import five_points
from engines.analysis.detect import Detector
from engines.analysis.landmarks import LandmarkNetwork, region_of_detection, region_of_points
from engines.analysis.source import SourceReader
from engines.faces import Face

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "realtime" / "assets"
FILES = {"astronaut": "astronaut.png", "hopper": "hopper.jpg"}
GREY = (96, 96, 96)

# Arcface's template for 112×112.
TEMPLATE = np.float32(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)


@cache
def portrait(name):
    """(H, W, 3) BGR, read-only."""
    image = cv2.imread(str(ASSETS / FILES[name]))
    image.flags.writeable = False
    return image


@cache
def detector(reach):
    return Detector(reach)


@cache
def landmarks(points=468):
    return LandmarkNetwork(points)


@cache
def reader(points=468):
    return SourceReader(points)


@cache
def source(name, points=468):
    return reader(points).find(portrait(name), FILES[name])


@cache
def mesh(name, points=468):
    """(N, 3) landmarks of a portrait, read-only."""
    found = source(name, points).points
    found.flags.writeable = False
    return found


def oval_box(name):
    """Centre and width of the mesh of a portrait."""
    points = mesh(name)[:, :2]
    return (points.min(0) + points.max(0)) / 2, float(np.ptp(points[:, 0]))


def placing(name, width, at, angle=0.0):
    """The affine that makes the face of a portrait ``width`` pixels wide, around ``at``, turned by radians."""
    centre, now = oval_box(name)
    cos, sin = np.cos(angle) * width / now, np.sin(angle) * width / now
    turn = np.array([[cos, -sin], [sin, cos]])
    return np.float32(np.c_[turn, np.array(at) - turn @ centre])


def placed(name, size, width, at, angle=0.0, onto=None):
    """A picture of this size (width, height) with a portrait in it; grey, or another picture, around it."""
    matrix = placing(name, width, at, angle)
    scale = float(np.hypot(*matrix[:, 0]))
    image, coarse = portrait(name), matrix
    if scale < 0.7:
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        # A pixel of the smaller picture lies at (x + ½)·scale − ½.
        coarse = np.c_[matrix[:, :2] / scale, matrix[:, 2] + matrix[:, :2].sum(1) * (0.5 / scale - 0.5)]
    under = np.full((size[1], size[0], 3), GREY, np.uint8) if onto is None else onto.copy()
    return cv2.warpAffine(
        image, coarse, size, dst=under, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_TRANSPARENT
    )


def face_in(image, network=None, track=1):
    """The face of a picture as a tracker would give it."""
    network = network or landmarks()
    found = None
    for reach in ("near", "far"):
        for seen in detector(reach).detect(image):
            found = network.acquire(image, region_of_detection(seen))
            found = network.read(image, region_of_points(found.points))
            if found.presence > 0.7:
                return Face(track, found.points, found.presence, found.patch)
    raise AssertionError("there is no face in the picture")


@cache
def _identity_network():
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    path = ROOT / "tests" / "data" / "mobileface.onnx"
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def identity(image, points):
    """(256,) unit vector: who is seen at these landmarks."""
    matrix, _ = cv2.estimateAffinePartial2D(five_points(points), TEMPLATE, method=cv2.LMEDS)
    crop = cv2.warpAffine(image, matrix, (112, 112))[None, :, :, ::-1].astype(np.float32)
    network = _identity_network()
    vector = network.run(None, {network.get_inputs()[0].name: crop})[0].ravel()
    return vector / np.linalg.norm(vector)
