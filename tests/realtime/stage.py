"""A stage on which the packaged portraits walk about: real faces for the real networks, at places that are known."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

from engines.analysis.networks import Networks, open_networks
from engines.analysis.open import open_embedder
from realtime.choosing.recognise import Recogniser
from realtime.choosing.select import Known, Selector
from realtime.tracking.track import Tracker
from tests import detectors
from tests.engines.scenes import mesh, placed, portrait

FRAME = 1_000_000_000 // 30
SIZE = (640, 360)


@cache
def wall():
    """A room: blurred noise, so that nothing is a face and nothing is one colour."""
    noise = np.random.default_rng(0).integers(0, 256, (SIZE[1] // 8, SIZE[0] // 8, 3), np.uint8)
    return cv2.resize(cv2.GaussianBlur(noise, (0, 0), 2), SIZE, interpolation=cv2.INTER_CUBIC)


@cache
def head(name, width):
    """A head, (S, S, 3) with its face in the middle, and how far each pixel belongs to it, 0…1."""
    side = 2 * width
    picture = placed(name, (side, side), width, (side / 2, side / 2))
    inside = np.zeros((side, side), np.float32)
    cv2.ellipse(inside, (side // 2, side // 2), (int(0.62 * width), int(0.85 * width)), 0, 0, 360, 1, -1)
    return picture, cv2.GaussianBlur(inside, (0, 0), 3)[:, :, None]


def scene(*people):
    """A frame with people in it, the first one behind: each a name, x, y and a width."""
    frame = wall().copy()
    for name, x, y, width in people:
        picture, inside = head(name, int(width))
        side = len(picture)
        x0, y0 = round(x - side / 2), round(y - side / 2)
        a, b = max(0, -x0), max(0, -y0)
        c, d = min(side, SIZE[0] - x0), min(side, SIZE[1] - y0)
        if c <= a or d <= b:
            continue
        under = frame[y0 + b : y0 + d, x0 + a : x0 + c]
        part = inside[b:d, a:c]
        under[:] = np.rint(picture[b:d, a:c] * part + under * (1 - part)).astype(np.uint8)
    return frame


@cache
def opened():
    """The networks that ship with the program, opened once for all tests."""
    return open_networks(468, 3)


class Play:
    """A tracker that sees scene after scene.

    Args:
        folder: Where the identity network may be written; None plays without one.
        choice: Who is chosen.
        count: How many.
        people: Names of portraits, for a choice by reference.
        limit: Distance up to which a face is a person's.
    """

    def __init__(self, folder, choice="owner", count=1, people=(), limit=0.6):
        self.identity = open_embedder(detectors.arcface(folder / "who.onnx")) if folder else None
        self.recogniser = Recogniser()
        known = Known(self.recogniser, len(people), limit) if self.identity else None
        self.selector = Selector(choice, count, known)
        if self.identity:
            self.selector.know([self.identity.identity(portrait(name), mesh(name)) for name in people])
        own = opened()
        networks = Networks(own.near, own.far, own.landmarks[: self.selector.candidates], (), self.identity)
        self.tracker = Tracker(468, self.selector, 5, networks=lambda points, wanted: networks)
        self.tracker.open(lambda line: None)
        self.at = 0

    def show(self, *people):
        """Plays one frame.

        Returns:
            The chosen faces: for each the name of the nearest portrait in the scene, or None for nobody near.
        """
        self.at += FRAME
        self.faces = list(self.tracker.track(scene(*people), self.at))
        return [self._who(face, people) for face in self.faces]

    @staticmethod
    def _who(face, people):
        x, y = face.points[:, :2].mean(0)
        # The last one stands before the others.
        near = [name for name, px, py, width in people if np.hypot(x - px, y - py) < width / 2]
        return near[-1] if near else None

    def close(self):
        if self.identity:
            self.identity.close()
