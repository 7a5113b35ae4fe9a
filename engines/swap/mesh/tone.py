"""A photo's skin brought to a neutral tone and an ordinary contrast before any live light falls on it.

A photo taken in warm light has little blue, and what it has is noise. Lit by a cooler room its blue would be multiplied
by two and the noise with it: blotches. So the photo's colour cast is taken out once, by a curve that moves the skin's
mean and leaves the contrast around it; what the live light then asks for is about the same in every channel.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from engines.faces import Floats, Image
from engines.swap.mesh.broad import broad_blur

_SKIN: Final = np.array([0.63, 0.75, 1.0], np.float32)
"""Blue, green and red of human skin in white light, over red; lighter and darker skins differ little in it."""
_LUMA: Final = np.array([0.114, 0.587, 0.299], np.float32)
_EXPONENTS: Final = (0.55, 1.6)
_CONTRAST: Final = 0.13
"""Spread of the logarithm of plain skin around its surroundings that looks like skin; webcams show 0.04 to 0.08."""
_TINT: Final = 3.5
"""Spread of the colour of plain skin (CIE Lab a and b) that looks like skin."""
_LEAST: Final = 0.65


def neutral(skin: Image, mean: Floats) -> Image:
    """Takes the colour cast out of a photo's skin.

    Args:
        skin: (S, S, 3) uint8 BGR.
        mean: (3,) float32 B, G, R, 0…1: its plain skin.

    Returns:
        (S, S, 3) uint8 BGR, as bright as before.
    """
    mean = np.clip(mean, 0.03, 0.97)
    wanted = np.minimum(_SKIN * float(mean @ _LUMA) / float(_SKIN @ _LUMA), 0.97)
    # A power keeps black black, and with this exponent the slope at the mean is one.
    exponent = np.clip(mean / wanted, *_EXPONENTS)
    levels = np.linspace(0, 1, 256, dtype=np.float32)[:, None]
    curve = np.clip(wanted * (levels / mean) ** exponent, 0, 1)
    table = np.rint(curve * 255).astype(np.uint8)
    return np.stack([table[:, channel][skin[:, :, channel]] for channel in range(3)], axis=2)


def calm(skin: Image, plain: Floats) -> Image:
    """Softens a photo whose skin has far more contrast than any camera shows: hard light, sharpening, compression.

    Args:
        skin: (S, S, 3) uint8 BGR.
        plain: (S, S) float32, 0…1: where there is plain skin; brows, eyes, glasses and lips stay as they are.

    Returns:
        (S, S, 3) uint8 BGR.
    """
    light = np.log(cv2.cvtColor(skin, cv2.COLOR_BGR2GRAY).astype(np.float32) + 8)
    detail = light - broad_blur(light, skin.shape[0] / 24)
    seen = np.abs(detail[plain > 0.9])
    if seen.size < 100:
        return skin
    spread = 1.48 * float(np.median(seen))
    keep = float(np.clip((_CONTRAST / max(spread, 1e-3)) ** 0.7, _LEAST, 1))
    factor = np.exp((keep - 1) * detail * plain)[:, :, None]
    even = np.clip((skin + np.float32(8)) * factor - 8, 0, 255)
    return _even_tint(np.asarray(even / 255, np.float32), plain)


def _even_tint(skin: Floats, plain: Floats) -> Image:
    """Draws blotches of colour towards the skin's own, as far as they go beyond what skin has."""
    lab = np.asarray(cv2.cvtColor(skin, cv2.COLOR_BGR2LAB), np.float32)
    tint = lab[:, :, 1:]
    seen = tint[plain > 0.9]
    middle = np.median(seen, axis=0)
    spread = 1.48 * float(np.median(np.linalg.norm(seen - middle, axis=1)))
    keep = float(np.clip((_TINT / max(spread, 1e-3)) ** 0.7, _LEAST, 1))
    tint += (keep - 1) * plain[:, :, None] * (tint - middle)
    return np.asarray(
        np.clip(np.rint(np.asarray(cv2.cvtColor(lab, cv2.COLOR_LAB2BGR)) * 255), 0, 255), np.uint8
    )
