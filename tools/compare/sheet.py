"""The contact sheet: live above output, moment by moment, to look at with one's own eyes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import cv2
import numpy as np

from engines.analysis.photo import read_photo
from engines.errors import UsageError
from engines.faces import Floats, Image
from realtime.picture import save

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from PIL.ImageDraw import ImageDraw

_TILE: Final = 256
_COLUMNS: Final = 8
_MARGIN, _GAP, _CAPTION, _HEADING, _BETWEEN = 48, 10, 30, 104, 36
_GROUND, _TEXT, _DIM, _ALERT = (19, 21, 26), (238, 240, 244), (148, 154, 166), (240, 180, 70)
_ROOM: Final = 1.45
"""Side of a tile, in sizes of the face."""
_TALLEST: Final = 60_000
"""Of a page, pixels; PNG viewers give up somewhere above."""
_USUAL: Final = 16


@dataclass(frozen=True, slots=True)
class Moment:
    """One frame before and after, cut out around the face.

    Attributes:
        number: Of the frame.
        live: (T, T, 3) BGR.
        output: The same part of the output.
        swapped: Whether there was a swap at all.
    """

    number: int
    live: Image
    output: Image
    swapped: bool


@dataclass(slots=True)
class Section:
    """The moments of one photo on one clip. Its :meth:`watch` is told of every frame.

    Attributes:
        photo: Whose face was put on.
        title: Above.
        every: Frames from one moment to the next; None for about sixteen moments in all.
        note: A line below the title.
    """

    photo: Path
    title: str
    every: int | None
    note: str = ""
    moments: list[Moment] = field(default_factory=list)
    _step: int = 1

    def watch(self, number: int, live: Image, output: Image, points: Floats, swapped: bool) -> None:
        """Keeps a frame if its turn has come."""
        step = self.every or self._step
        if number % step:
            return
        self.moments.append(Moment(number, _cut(live, points), _cut(output, points), swapped))
        if self.every is None and len(self.moments) >= 2 * _USUAL:
            self._step *= 2
            self.moments = [moment for moment in self.moments if moment.number % self._step == 0]


def _cut(image: Image, points: Floats) -> Image:
    """A square around the face, level with the frame and inside of it as far as there is room."""
    height, width = image.shape[:2]
    low, high = points[:, :2].min(0), points[:, :2].max(0)
    side = min(max(_ROOM * float((high - low).max()), 16.0), width, height)
    corner = np.clip((low + high) / 2 - side / 2, 0, (width - side, height - side))
    x, y = np.rint(corner).astype(int)
    part = image[y : y + int(side), x : x + int(side)]
    sampling = cv2.INTER_AREA if side > _TILE else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(part, (_TILE, _TILE), interpolation=sampling), np.uint8)


def write(sections: list[Section], path: Path) -> None:
    """Draws all sections under each other and writes a PNG.

    Raises:
        UsageError: It cannot be written, or there are too many moments for one picture.
    """
    picture = draw(sections)
    try:
        save(picture, path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", "Name another file.") from error


def draw(sections: list[Section]) -> Picture:
    """All sections under each other.

    Raises:
        UsageError: There are too many moments for one picture.
    """
    from PIL import Image as Pillow
    from PIL import ImageDraw as Drawing

    columns = min(_COLUMNS, max(4, *(len(section.moments) for section in sections)))
    rows = [-(-len(section.moments) // columns) for section in sections]
    row_height = 2 * _TILE + 4 + _CAPTION + _GAP
    width = 2 * _MARGIN + columns * _TILE + (columns - 1) * _GAP
    height = 2 * _MARGIN + sum(_HEADING + n * row_height for n in rows) + _BETWEEN * (len(sections) - 1)
    if height > _TALLEST:
        raise UsageError(
            "There are too many moments for one contact sheet.",
            "Take fewer: a larger --sheet-every, or one clip.",
        )
    canvas = Pillow.new("RGB", (width, height), _GROUND)
    pen = Drawing.Draw(canvas)
    top = _MARGIN
    for section, n in zip(sections, rows, strict=True):
        _head(canvas, pen, section, top, width)
        for i, moment in enumerate(section.moments):
            x = _MARGIN + (i % columns) * (_TILE + _GAP)
            y = top + _HEADING + i // columns * row_height
            _tile(canvas, pen, moment, x, y)
        top += _HEADING + n * row_height + _BETWEEN
    return canvas


def _head(canvas: Picture, pen: ImageDraw, section: Section, top: int, width: int) -> None:
    from PIL import Image as Pillow
    from PIL import ImageFont

    side = _HEADING - 24
    photo = read_photo(section.photo)
    scale = side / photo.shape[0]
    small = cv2.resize(photo, (max(1, round(photo.shape[1] * scale)), side), interpolation=cv2.INTER_AREA)
    canvas.paste(Pillow.fromarray(np.ascontiguousarray(small[:, :, ::-1])), (_MARGIN, top))
    x = _MARGIN + small.shape[1] + 18
    pen.text((x, top + 36), section.title, _TEXT, ImageFont.load_default(30), anchor="ls")
    pen.text((x, top + 66), section.note, _DIM, ImageFont.load_default(20), anchor="ls")
    hint = "live above, output below (AI face)"
    pen.text((width - _MARGIN, top + 36), hint, _DIM, ImageFont.load_default(20), anchor="rs")


def _tile(canvas: Picture, pen: ImageDraw, moment: Moment, x: int, y: int) -> None:
    from PIL import Image as Pillow
    from PIL import ImageFont

    for image, down in ((moment.live, 0), (moment.output, _TILE + 4)):
        canvas.paste(Pillow.fromarray(np.ascontiguousarray(image[:, :, ::-1])), (x, y + down))
    text = f"{moment.number}" if moment.swapped else f"{moment.number}  not swapped"
    colour = _DIM if moment.swapped else _ALERT
    pen.text((x + 2, y + 2 * _TILE + 4 + 21), text, colour, ImageFont.load_default(17), anchor="ls")
