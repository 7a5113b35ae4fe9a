"""The mark that says a picture is not what the camera saw."""

from __future__ import annotations

from engines.kernels.canvas import Canvas
from realtime.shown.lettering import Sprite, plate


class Label:
    """A small mark near the bottom left corner, within the bottom sixth of the frame.

    It is drawn once for each size of frame; painting it costs some ten microseconds.

    Args:
        text: What it says.
    """

    def __init__(self, text: str = "AI face") -> None:
        self.text = text
        self._sprites: dict[tuple[int, int], Sprite] = {}

    def paint(self, canvas: Canvas) -> None:
        """Blends the mark into a picture."""
        width, height = canvas.size
        sprite = self._sprites.get((width, height))
        if sprite is None:
            # Forty-fifth of the height is readable in a small tile of a call and does not catch the eye.
            sprite = plate([self.text], max(10, round(height / 45)), padding=0.45)
            self._sprites[width, height] = sprite
        margin = max(1, round(height / 60))
        canvas.stamp(sprite, margin, height - margin - sprite.size[1])
