"""Pictures of hard heads, made of the packaged portraits, and what a tracker with the real networks makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from engines.analysis.networks import open_networks
from realtime.choosing.select import Selector
from realtime.tracking.track import Tracker
from tests.engines.scenes import FILES, mesh, placed, placing

FRAME = 1_000_000_000 // 30
SIZES = {"1080p": (1920, 1080), "360p": (640, 360)}
WIDTHS = {"1080p": (40, 60, 80, 120, 200, 400, 700, 1000, 1404), "360p": (30, 40, 60, 80, 120, 200, 300, 468)}
NEAR_ENOUGH = 0.15
"""Mean distance of all points from where they are, face widths: more is a mesh that would not cover the face."""


@dataclass(frozen=True)
class Head:
    """One face in one picture: how wide, where its middle is, turned by how many degrees, in which light."""

    size: str
    who: str
    width: float
    at: tuple[float, float]
    degrees: float = 0.0
    light: str = ""

    def picture(self, onto=None):
        """(H, W, 3) BGR."""
        angle = np.deg2rad(self.degrees)
        image = placed(self.who, SIZES[self.size], self.width, self.at, angle, onto=onto)
        return lit(image, self.light)

    def truth(self):
        """(468, 2) where the points are, pixels."""
        matrix = placing(self.who, self.width, self.at, np.deg2rad(self.degrees))
        return mesh(self.who)[:, :2] @ matrix[:, :2].T + matrix[:, 2]

    def off(self, face):
        """How far a face's points are from that, face widths."""
        return float(np.linalg.norm(face.points[:468, :2] - self.truth(), axis=1).mean() / self.width)


def lit(image, light):
    """The same picture in another light: ``dark``, ``noisy``, both, or ``low contrast``."""
    if not light:
        return image
    rng, values = np.random.default_rng(0), image.astype(np.float32)
    if "dark" in light:
        values *= 0.12
    if "contrast" in light:
        values = 118 + (values - 118) * 0.2
    if "noisy" in light:
        values += rng.normal(0, 8 if "dark" in light else 20, values.shape).astype(np.float32)
    return np.clip(values, 0, 255).astype(np.uint8)


def turned(size, who, step=15):
    """Turned by any angle."""
    w, h = SIZES[size]
    return {str(d): Head(size, who, 0.28 * h, (0.45 * w, 0.5 * h), d) for d in range(0, 360, step)}


def sized(size, who, degrees=0):
    """As small as 40 pixels of 1080, and larger than the frame."""
    w, h = SIZES[size]
    return {
        str(width): Head(
            size, who, width, (0.5 * w, 0.55 * h) if width > h / 2 else (0.7 * w, 0.4 * h), degrees
        )
        for width in WIDTHS[size]
    }


def cut(size, who):
    """A third and half of it out of the picture, on every side."""
    w, h = SIZES[size]
    width, heads = 0.35 * h, {}
    for part in (0.33, 0.5):
        x, y = (1 - 2 * part) * width / 2, (1 - 2 * part) * width * 0.6
        for side, at in (
            ("left", (x, h / 2)), ("right", (w - x, h / 2)), ("top", (w / 2, y)), ("bottom", (w / 2, h - y)),
        ):  # fmt: skip
            heads[f"{side} {part:.2f}"] = Head(size, who, width, at)
    return heads


def ill_lit(size, who, light):
    """Small, middling and large in bad light."""
    w, h = SIZES[size]
    return {
        f"{part * h:.0f}": Head(size, who, part * h, (0.5 * w, 0.55 * h), light=light)
        for part in (0.1, 0.3, 0.8)
    }


def everything() -> Iterator[tuple[str, dict[str, Head]]]:
    """Every row of the table, with its name."""
    for size in SIZES:
        for who in FILES:
            yield f"{size} {who} turned by degrees", turned(size, who)
            for degrees in (0, 90, 180, 225):
                yield f"{size} {who} width in pixels, turned by {degrees}°", sized(size, who, degrees)
            yield f"{size} {who} out of the picture", cut(size, who)
            for light in ("dark", "dark and noisy", "low contrast", "noisy"):
                yield f"{size} {who} {light}", ill_lit(size, who, light)


@cache
def opened():
    """The networks that ship with the program, opened once for all."""
    return open_networks(468, 5)


def tracker(count=1, choice="owner", **how):
    """A tracker with the networks of :func:`opened`."""
    made = Tracker(468, Selector(choice, count), networks=lambda points, wanted: opened(), **how)
    made.open(lambda line: None)
    return made


def frames_until_found(head, most):
    """In which frame the face is found and would be swapped, from 1; 0 if in none; negative if it is taken to be
    somewhere else."""
    looking, picture = tracker(), head.picture()
    for i in range(1, most + 1):
        for face in looking.track(picture, i * FRAME):
            return i if head.off(face) < NEAR_ENOUGH else -i
    return 0
