"""The colours of the photo's eyes on live eyeballs: the gaze stays live, the eyes are the photo's."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import cv2
import numpy as np

from engines.analysis.topology import LEFT_EYE_RINGS, RIGHT_EYE_RINGS
from engines.faces import Array, Floats, Image
from engines.swap.mesh.openings import Opening
from engines.swap.mesh.texture import RING_LOOP, Texture

RINGS: Final = tuple([ring[i] for i in RING_LOOP] for ring in (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0]))
"""The border of each eye's opening, in order."""
_STEPS: Final = 33
_STEP_OF_ONE: Final = np.arange(_STEPS)
_FEWEST: Final = 24
_STRENGTH: Final = 0.85
"""How much of the photo's colours is taken; the rest keeps the live sparkle."""
_FOLLOW: Final = 0.1
_DARK, _WHITE = 2, 29
"""Ranks between which the contrast of an eye is taken: a highlight and a lash do not count."""
_SHUT: Final = 0.35
"""Contrast, of the usual one, up to which a lid is seen and no eye."""
_WEIGHTS: Final = np.array([0.114, 0.587, 0.299], np.float32)


class EyeColours:
    """Recolours live eyes.

    The dark of the pupil, the iris and the white of a live eye come in about the same order of brightness as those of
    the photo. So brightness is matched by rank (histogram matching), and each takes the colour that the photo has
    there. No iris has to be found.

    Args:
        texture: The photo's texture.
    """

    def __init__(self, texture: Texture) -> None:
        self._photo = [_ranked(texture.levels[0], texture.uv[0][ring]) for ring in RINGS]

    def paint(self, opening: Opening, gain: Floats, usual: Floats | None) -> Floats | None:
        """Recolours one live eye.

        Args:
            opening: An eye as taken from the frame; its texture is changed in place, and it is told how.
            gain: (468, 3) float32: the light on the photo's colours.
            usual: What the last call for this eye of this person returned; None at first.

        Returns:
            (33,) float32: the brightness of this eye by rank, followed over time, so that a glance or a blink does
            not change the colours. None if nothing was seen yet.
        """
        eye = opening.eye
        photo = None if eye is None else self._photo[eye]
        if eye is None or photo is None:
            return None
        grey = cv2.cvtColor(opening.texture, cv2.COLOR_BGRA2GRAY)
        inside = grey[_inside(grey.shape, opening.uv[RINGS[eye]])]
        if len(inside) >= _FEWEST:
            ranks = np.sort(inside)[_STEP_OF_ONE * (len(inside) - 1) // (_STEPS - 1)].astype(np.float32)
            usual = ranks if usual is None else usual + np.float32(_FOLLOW) * (ranks - usual)
            spread, wide = (float(levels[_WHITE] - levels[_DARK]) for levels in (ranks, usual))
            # A lid has neither pupil nor white: it keeps its own colours.
            strength = _STRENGTH * min(max(spread / max(wide, 1.0) / _SHUT - 1, 0.0), 1.0)
        else:
            strength = 0.0
        if usual is None or strength <= 0:
            return usual
        lit = photo * gain[RINGS[eye]].mean(0)
        curve = np.stack([np.interp(np.arange(256), usual, lit[:, channel]) for channel in range(3)], 1)
        # Opaque as the texture is, so that this is mixed in place.
        table: Image = np.full((256, 4), 255, np.uint8)
        table[:, :3] = np.clip(np.rint(curve), 0, 255)
        coloured = cv2.LUT(cv2.cvtColor(grey, cv2.COLOR_GRAY2BGRA), table[None])
        # For whoever paints a picture that lies elsewhere.
        opening.colours, opening.strength = table[:, :3], strength
        cv2.addWeighted(coloured, strength, opening.texture, 1 - strength, 0, dst=opening.texture)
        return usual


def _inside(shape: tuple[int, ...], border: Floats) -> Array:
    mask: Array = np.zeros(shape[:2], np.uint8)
    cv2.fillPoly(mask, [np.rint(border * 16).astype(np.int32)], 1, cv2.LINE_8, 4)
    return mask > 0


def _ranked(texture: Image, border: Floats) -> Floats | None:
    """(33, 3) float32 B, G, R, 0…255: colours of the photo's eye from its darkest to its brightest; None if shut."""
    pixels = texture[_inside(texture.shape, border)][:, :3].astype(np.float32)
    if len(pixels) < _FEWEST:
        return None
    pixels = pixels[np.argsort(pixels @ _WEIGHTS)]
    # Each step is the mean of the pixels around its rank: one odd pixel must not colour a whole step.
    bounds = np.linspace(0, len(pixels), _STEPS + 1).astype(int)
    return np.stack([pixels[min(a, b - 1) : b].mean(0) for a, b in pairwise(bounds) if b > 0])
