"""What lies behind lids and lips: eyeballs that stay when lids close, teeth, tongue, a dark throat."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from engines.analysis.topology import LEFT_EYE_RINGS, LIPS_INNER, RIGHT_EYE_RINGS
from engines.faces import Array, Floats, Image
from engines.portrait.fields import columns
from engines.portrait.mesh import PortraitMesh, Posed
from engines.portrait.raster import blend, pack

_EYE_ROWS: Final = np.array([0.0, 0.14, 0.5, 0.86, 1.0])
_MOUTH_ROWS: Final = np.array([0.0, 0.08, 0.3, 0.6, 0.92, 1.0])
_OPEN_PHOTO: Final = 0.025
"""A photo whose lips are further apart, in widths of the face, shows the inside of the mouth itself."""

_TOOTH: Final = 0.022
"""How far the upper teeth hang below the line of closed lips, widths of the face."""

_LASHES: Final = 0.35
"""From which closing on the lashes of both lids meet in a dark line."""

_GAZE: Final = (0.12, 0.14)
"""How far an iris travels, widths and heights of the opening."""


class Eyes:
    """Both eyeballs and the line of lashes of closed lids.

    Args:
        mesh: The face.
        image: The picture the texture was made of.
        origin: Where the texture's first pixel lies in the frame.
        texture: The texture of the face.
        room: The noise's headroom, levels.
    """

    def __init__(
        self, mesh: PortraitMesh, image: Image, origin: tuple[int, int], texture: Array, room: int
    ) -> None:
        self._texture, self._room = texture, room
        self._width = mesh.width
        self._rings = [
            tuple(np.array(side) for side in columns(r[0])) for r in (RIGHT_EYE_RINGS, LEFT_EYE_RINGS)
        ]
        rest = mesh.rest - origin
        self._rest = [(rest[upper], rest[lower]) for upper, lower in self._rings]
        n = 2 * len(self._rings[0][0]) - 1
        self._at = np.linspace(0, 1, n)
        self._tent = np.sin(np.pi * self._at)
        self._triangles = np.concatenate(
            [_grid(n, len(_EYE_ROWS)), _grid(n, len(_EYE_ROWS)) + n * len(_EYE_ROWS)]
        )
        self._lash_triangles = np.concatenate([_grid(n, 3), _grid(n, 3) + 3 * n])
        alpha = np.array([0.0, 1, 1, 1, 0])
        shade = np.array([0.82, 0.86, 1.0, 1, 1])
        looks = np.stack(np.broadcast_arrays(alpha[:, None], shade[:, None] + np.zeros(n)), -1)
        self._looks = np.tile(looks.reshape(-1, 2), (2, 1))
        dark = _percentile(image, rest[[*RIGHT_EYE_RINGS[0][9:], *LEFT_EYE_RINGS[0][9:]]], 20)
        self._lash = pack(np.broadcast_to((dark * 0.8).astype(np.uint8), (2, 2, 3)), room)

    def paint(self, out: Image, posed: Posed, noise: Array, frame: int) -> None:
        """Paints over a frame whose lids are already where they belong.

        Args:
            out: The frame.
            posed: The mesh as it was painted.
            noise: The strip of noise.
            frame: Which noise.
        """
        points, state = posed.points, posed.state
        shown, source, lashes, lash_looks = [], [], [], []
        # Openings run from their outer corner, so the left eye's runs to the left.
        for (upper, lower), (rest_upper, rest_lower), lid, side in zip(
            self._rings, self._rest, (state.right_lid, state.left_lid), (1, -1), strict=True
        ):
            across = np.clip(self._at - side * _GAZE[0] * state.gaze_x * self._tent, 0, 1)
            top, bottom = _along(points[upper], self._at), _along(points[lower], self._at)
            shown.append(_between(top, bottom, _EYE_ROWS))
            rows = 0.86 * lid + _EYE_ROWS * (1 - lid)
            rows = np.clip(rows - _GAZE[1] * state.gaze_y * np.sin(np.pi * rows), 0, 1)
            source.append(_between(_along(rest_upper, across), _along(rest_lower, across), rows))
            thick = 0.007 * self._width
            line = (top + bottom) / 2
            lashes += [np.add(line, (0, k * thick)) for k in (-1.0, 0.2, 1.4)]
            dark = 0.6 * max(0.0, lid - _LASHES) / (1 - _LASHES) * np.minimum(1, 3 * self._tent)
            lash_looks += [np.stack([k * dark, np.ones_like(dark)], 1) for k in (0.0, 1.0, 0.0)]
        blend(
            out, np.concatenate(shown), np.concatenate(source), self._looks, self._triangles,
            self._texture, noise, self._room, frame,
        )  # fmt: skip
        if max(state.right_lid, state.left_lid) > _LASHES:
            where = np.concatenate(lashes)
            blend(
                out, where, np.zeros_like(where), np.concatenate(lash_looks), self._lash_triangles,
                self._lash, noise, self._room, frame,
            )  # fmt: skip


class Mouth:
    """The inside of the mouth: upper teeth that belong to the head, lower ones and a tongue that follow the jaw.

    Args:
        mesh: The face.
        image: The picture of the face.
        origin: Where its first pixel lies in the frame.
        room: The noise's headroom, levels.
        teeth: Whether there are any; a mouth that is drawn has none.
    """

    def __init__(
        self, mesh: PortraitMesh, image: Image, origin: tuple[int, int], room: int, teeth: bool = True
    ) -> None:
        self._teeth = teeth
        self._mesh, self._room = mesh, room
        self._upper, self._lower = (np.array(side) for side in columns(LIPS_INNER))
        self._n = 2 * len(self._upper) - 1
        self._at = np.linspace(0, 1, self._n)
        self._triangles = _grid(self._n, len(_MOUTH_ROWS))
        self._scale = mesh.width
        head = mesh.head[:, :2] / mesh.depth
        corners, middle = head[self._upper[[0, -1]]], head[[13, 14]].mean(0)
        self._start = np.array([corners[:, 0].min() - 0.05, corners[:, 1].min() - 0.15])
        size = (int((corners[1, 0] - corners[0, 0] + 0.1) * self._scale), int(0.5 * self._scale))
        self._jaw = mesh.field("jaw", 14)[:2]
        self._depth = float(mesh.depth[13, 0])
        face = mesh.rest[[50, 280, 205, 425, 118, 347]] - origin
        skin = _percentile(image, face, 50)
        light = float(np.clip(skin.mean() / 160, 0.25, 1.2))
        x = (np.arange(size[0]) / self._scale + self._start[0] - middle[0])[None]
        y = (np.arange(size[1]) / self._scale + self._start[1])[:, None]
        lip = head[14, 1]
        self._below = pack(_throat(x, y - lip, light, skin, teeth), room)
        gap = head[14, 1] - head[13, 1]
        if gap > _OPEN_PHOTO:
            affine = np.zeros((2, 3))
            affine[:, :2] = mesh.turn
            affine[:, 2] = mesh.turn @ (self._start * self._scale) + mesh.pivot - origin
            inside = cv2.warpAffine(image, affine, size, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
            ring = (head[list(LIPS_INNER)] - self._start) * self._scale
            mask = np.zeros(size[::-1], np.uint8)
            cv2.fillPoly(mask, [np.rint(ring).astype(np.int32)], 255)
            soft = cv2.GaussianBlur(mask, (0, 0), 0.006 * self._scale).astype(np.float32) / 255
            self._above = pack(
                np.asarray(inside, np.uint8), room, np.clip(2 * soft - 1, 0, 1).astype(np.float32)
            )
        else:
            colours, alpha = _teeth(x, y - head[13, 1] - _TOOTH, light, skin)
            self._above = pack(colours, room, alpha)
        above, below = (
            (_along(head[side], self._at) - self._start) * self._scale for side in (self._upper, self._lower)
        )
        self._highest = np.tile((above + 0.2 * (below - above))[:, 1], len(_MOUTH_ROWS))
        self._open_photo = gap > _OPEN_PHOTO

    def paint(self, out: Image, posed: Posed, noise: Array, frame: int) -> None:
        """Paints over a frame whose lips are already where they belong; arguments as in :meth:`Eyes.paint`."""
        top = _along(posed.head[self._upper], self._at)
        bottom = _along(posed.head[self._lower], self._at)
        apart = float((bottom - top)[:, 1].max())
        if apart < 0.002:
            return
        head = _between(top, bottom, _MOUTH_ROWS)
        shown = self._mesh.shown(head, posed.state)
        flat = (head[:, :2] / self._depth - self._start) * self._scale
        tall = np.clip((bottom - top)[:, 1] / 0.012, 0, 1)
        alpha = np.array([0.0, 1, 1, 1, 1, 0])[:, None] * tall
        shade = np.array([0.5, 0.6, 0.9, 1, 0.9, 0.7])[:, None] * (
            0.45 + 0.55 * np.sin(np.pi * self._at) ** 0.6
        )
        looks = np.stack([alpha, shade], -1).reshape(-1, 2)
        blend(
            out, shown, flat - posed.drop * self._jaw * self._scale, looks, self._triangles,
            self._below, noise, self._room, frame,
        )  # fmt: skip
        if not (self._teeth or self._open_photo):
            return
        looks[:, 1] = 0.45 + 0.55 * looks[:, 1]  # Teeth stand in the light, the throat does not.
        if self._open_photo:
            looks[:, 1] = 1.0
            # A lip raised further than in the photo shows longer teeth, not what is above them.
            flat[:, 1] = np.maximum(flat[:, 1], self._highest)
        blend(out, shown, flat, looks, self._triangles, self._above, noise, self._room, frame)


def _throat(x: Array, y: Array, light: float, skin: Array, bites: bool) -> Image:
    """Dark cavity, tongue and the edge of the lower teeth; y from the rim of the lower lip, in widths of the face."""
    out = np.empty((y.shape[0], x.shape[1], 3))
    out[:] = np.array([20, 18, 42]) * light
    tongue = np.clip(1.25 - (x / 0.15) ** 2 - ((y - 0.015) / 0.065) ** 2, 0, 1)[..., None]
    groove = 1 - 0.18 * np.exp(-((x / 0.012) ** 2))
    colour = (
        np.array([78, 70, 142])
        * light
        * (0.55 + 0.45 * np.clip(1 + y / 0.06, 0, 1))[..., None]
        * groove[..., None]
    )
    out += (colour - out) * tongue**0.7
    if not bites:
        return np.clip(out, 0, 255).astype(np.uint8)
    colours, alpha = _teeth(x, -(y + 0.012), 0.72 * light, skin)
    fade = (alpha * np.clip(1.2 - np.abs(x) / 0.16, 0, 1))[..., None]
    out += (colours - out) * fade
    return np.clip(out, 0, 255).astype(np.uint8)


def _teeth(x: Array, y: Array, light: float, skin: Array) -> tuple[Image, Floats]:
    """A row of teeth that ends at y = 0, biting down: their colours, and where they are (0…1)."""
    width = 0.036
    place = np.abs(x) / width  # 0 between the two front teeth; teeth get narrower to the sides.
    place = place * (1 + 0.06 * place)
    between = np.abs(place - np.rint(place)) * width
    rim = y + 0.003 * np.cos(2 * np.pi * place) + 0.006 * np.minimum((x / 0.12) ** 2, 2)
    shade = (1 - 0.22 * np.exp(-((between / 0.0035) ** 2))) * np.clip(1.05 - 0.55 * (x / 0.2) ** 2, 0.2, 1)
    shade = shade * np.clip(0.78 - 6 * y, 0.78, 1)
    tint = 0.2 * skin / max(float(skin.mean()), 1.0) + np.array([0.69, 0.77, 0.81])
    colours = (225 * light * tint)[None, None] * shade[..., None]
    alpha = np.clip(0.5 - rim / 0.005, 0, 1) * np.clip((0.19 - np.abs(x)) / 0.08, 0, 1)
    return np.clip(colours, 0, 255).astype(np.uint8), alpha.astype(np.float32)


def _percentile(image: Image, points: Array, percent: float) -> Array:
    """(3,) float64: a colour of the picture at some points, channel by channel."""
    limit = np.array(image.shape[1::-1]) - 1
    x, y = np.clip(np.rint(points).astype(np.int64), 0, limit).T
    return np.asarray(np.percentile(image[y, x].astype(np.float64), percent, axis=0), np.float64)


def _grid(columns: int, rows: int) -> Array:
    a = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)[None]).ravel()
    quads = np.stack([a, a + 1, a + columns + 1, a + columns], 1)
    return np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]).astype(np.int32)


def _along(line: Array, at: Array) -> Array:
    """Points of a polyline (K, D) at places 0…1, corner to corner."""
    place = at * (len(line) - 1)
    k = np.minimum(place.astype(np.int64), len(line) - 2)
    return np.asarray(line[k] + (line[k + 1] - line[k]) * (place - k)[:, None])


def _between(top: Array, bottom: Array, rows: Array) -> Array:
    """(R·K, D): rows from the upper to the lower line."""
    return np.asarray(top + (bottom - top) * rows[:, None, None]).reshape(-1, top.shape[1])
