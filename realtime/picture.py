"""The picture a demo leaves behind: live, swapped and photo side by side."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import cv2
import numpy as np

from engines.analysis.source import SourceFace, SourceReader
from engines.errors import PhotoError
from engines.faces import Floats, Image
from realtime.frame import Frame
from realtime.moments import Pair
from realtime.shown.veil import Veil

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

_PANEL: Final = (600, 750)
_MARGIN, _GAP, _CAPTION = 60, 30, 104
_GROUND, _TEXT, _DIM = (19, 21, 26), (238, 240, 244), (148, 154, 166)
_FACE_SHARE: Final = 0.5
"""Width of the face in its panel."""

_EYES, _NOSE, _MOUTH, _LIPS = (33, 263), 1, (61, 291), (13, 14)
_LIDS: Final = ((159, 145), (386, 374))


def flattery(points: Floats) -> float:
    """How well a person looks at this moment: turned to the camera, eyes open, mouth at rest or smiling.

    Args:
        points: Landmarks, pixels.
    """
    flat = points[:, :2]
    right, left = flat[_EYES[0]], flat[_EYES[1]]
    across = left - right
    eyes = math.hypot(*across)
    if eyes < 1:
        return 0.0

    def length(pair: tuple[int, int]) -> float:
        return math.hypot(*(flat[pair[0]] - flat[pair[1]])) / eyes

    off_centre = abs(float((flat[_NOSE] - (right + left) / 2) @ across)) / eyes**2
    opened = min(sum(length(lids) for lids in _LIDS) / 2 / 0.09, 1.0)
    tilt = abs(math.atan2(float(across[1]), float(across[0])))
    return 2 * (1 - 2 * off_centre) + 2 * opened + length(_MOUTH) - 2 * length(_LIPS) - tilt


def best_of(pairs: Sequence[Pair], reader: SourceReader) -> tuple[Pair, Floats] | None:
    """The pair whose live face looks best, with its landmarks; None if no face is found in any."""
    found = []
    for pair in pairs:
        # A face that cannot be read does not look good either.
        with contextlib.suppress(PhotoError):
            found.append((pair, reader.find(pair.live, "the live picture").points))
    return max(found, key=lambda one: flattery(one[1]), default=None)


def side_by_side(pairs: Sequence[Pair], photo: SourceFace, note: str, bare: bool = True) -> Picture | None:
    """Draws the picture.

    Args:
        pairs: Moments to choose from.
        photo: Whose face was put on.
        note: A line below.
        bare: Whether the live face may be seen; else its panel is veiled.

    Returns:
        The picture; None if no face is to be found in any of the moments.
    """
    reader = SourceReader()
    try:
        best = best_of(pairs, reader)
    finally:
        reader.close()
    if best is None:
        return None
    pair, points = best
    live = portrait(pair.live, points)
    if not bare:
        live = Veil(caption=()).show(Frame(live, 0, 0), 0).image
    panels = [
        ("live", "what the camera sees" if bare else "what the camera sees, veiled", live),
        ("swapped", "what others see (AI face)", portrait(pair.swapped, points)),
        ("photo", "whose face it is", portrait(photo.image, photo.points)),
    ]
    return _compose(panels, note)


def portrait(image: Image, points: Floats) -> Image:
    """Cuts a panel out around a face, as far as the picture reaches.

    Args:
        image: BGR.
        points: Landmarks of the face, pixels of the image.
    """
    height, width = image.shape[:2]
    aspect = _PANEL[0] / _PANEL[1]
    low, high = points[:, :2].min(0), points[:, :2].max(0)
    x, y = ((low + high) / 2).tolist()
    across = min(width, height * aspect, float(high[0] - low[0]) / _FACE_SHARE)
    down = across / aspect
    # A little higher than the middle: hair above the mesh belongs to a portrait.
    left = min(max(x - across / 2, 0), width - across)
    top = min(max(y - down * 0.54, 0), height - down)
    scale = _PANEL[0] / across
    affine = np.array([[scale, 0, -left * scale], [0, scale, -top * scale]], np.float64)
    sampling = cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA
    if scale < 1:
        cut = image[int(top) : int(top + down), int(left) : int(left + across)]
        return np.asarray(cv2.resize(cut, _PANEL, interpolation=sampling), np.uint8)
    return np.asarray(
        cv2.warpAffine(image, affine, _PANEL, flags=sampling, borderMode=cv2.BORDER_REPLICATE), np.uint8
    )


def _compose(panels: Sequence[tuple[str, str, Image]], note: str) -> Picture:
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFont

    width = 2 * _MARGIN + len(panels) * _PANEL[0] + (len(panels) - 1) * _GAP
    height = _MARGIN + _PANEL[1] + _CAPTION + 64
    canvas = Pillow.new("RGB", (width, height), _GROUND)
    draw = ImageDraw.Draw(canvas)
    large, small = ImageFont.load_default(30), ImageFont.load_default(22)
    mask = _rounded(_PANEL, 18)
    for column, (title, about, image) in enumerate(panels):
        x = _MARGIN + column * (_PANEL[0] + _GAP)
        canvas.paste(Pillow.fromarray(np.ascontiguousarray(image[:, :, ::-1])), (x, _MARGIN), mask)
        base = _MARGIN + _PANEL[1] + 46
        draw.text((x + 2, base), title, _TEXT, large, anchor="ls")
        draw.text((x + 2, base + 32), about, _DIM, small, anchor="ls")
    draw.text((width - _MARGIN, height - 30), note, _DIM, small, anchor="rs")
    return canvas


def _rounded(size: tuple[int, int], radius: int) -> Picture:
    from PIL import Image as Pillow
    from PIL import ImageDraw

    fine = 4
    mask = Pillow.new("L", (size[0] * fine, size[1] * fine), 0)
    box = (0, 0, size[0] * fine - 1, size[1] * fine - 1)
    ImageDraw.Draw(mask).rounded_rectangle(box, radius * fine, 255)
    return mask.resize(size, Pillow.Resampling.LANCZOS)


def save(picture: Picture, path: Path) -> None:
    """Writes a PNG whole or not at all, with what it shows written into it.

    Raises:
        OSError: It cannot be written.
    """
    from PIL.PngImagePlugin import PngInfo

    about = PngInfo()
    about.add_text("Comment", "AI-altered face (doppelcam)")
    part = path.with_name(path.name + ".part")
    try:
        picture.save(part, "PNG", pnginfo=about, optimize=True)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
