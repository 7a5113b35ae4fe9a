"""Reads a source photo: any picture file in, an upright BGR image out, or a sentence that says why not."""

from __future__ import annotations

import io
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import cv2
import numpy as np

from engines.errors import PhotoError
from engines.faces import Image
from engines.files import open_regular, quoted

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

log = logging.getLogger(__name__)

MIN_SIDE: Final = 64
"""A face in less than this has no features left, pixels."""

MAX_SIDE: Final = 4096
"""Larger photos are scaled down to this, pixels; no face in a live picture is larger."""

MAX_PIXELS: Final = 300_000_000
"""Larger files are refused: above every camera that is sold, and a gigabyte once decoded."""

# Pillow would hand EPS to Ghostscript and guess at headerless formats; only real photo formats get in.
_FORMATS: Final = (
    "JPEG", "MPO", "PNG", "WEBP", "GIF", "TIFF", "BMP", "PPM", "JPEG2000", "AVIF", "HEIF", "ICO", "PSD",
)  # fmt: skip

_HEIF_BRANDS: Final = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")

_ORIENTATION_TAG: Final = 0x0112

_OPENING: Final = threading.RLock()


class _NotAPicture(PhotoError):
    """Pillow knows no format that this file could be."""


def read_photo(path: Path) -> Image:
    """Reads a picture file the way a viewer would show it.

    EXIF orientation is applied, embedded colour profiles (CMYK, Display P3, …) are converted to sRGB, of an
    animation the first picture is taken, and what is larger than :data:`MAX_SIDE` is scaled down. Transparent
    parts get the mean colour of the visible ones: it leaves no rim on soft edges and shifts no statistics of
    the face's colour.

    Args:
        path: JPEG, PNG, WebP, GIF, TIFF, BMP, AVIF, JPEG 2000 and the like; HEIC with the ``heif`` extra.

    Returns:
        H×W×3 uint8 BGR, C-contiguous, upright, owned by the caller; the shorter side at least
        :data:`MIN_SIDE` pixels.

    Raises:
        PhotoError: The file cannot be used. The sentence names it and the reason.
    """
    image, alpha = read_layers(path)
    return image if alpha is None else over_mean(image, alpha)


def read_layers(path: Path) -> tuple[Image, Image | None]:
    """Reads a picture file whose transparent parts are wanted for themselves; see :func:`read_photo`.

    Returns:
        H×W×3 uint8 BGR, and (H, W) uint8: 0 where it is transparent, 255 where it is opaque; None where it has no
        transparent parts.

    Raises:
        PhotoError: The file cannot be used. The sentence names it and the reason.
    """
    with open_regular(path, "a photo", PhotoError) as file:
        try:
            with _quietly():
                return _read(path, file)
        except PhotoError:
            raise
        except MemoryError:
            raise PhotoError(f"{quoted(path)} needs more memory than there is.", "Save it smaller.") from None
        # Decoders fed with hostile bytes raise whatever they trip over: struct.error, SyntaxError, KeyError.
        except Exception as reason:
            log.debug("reading %s failed", path, exc_info=True)
            raise PhotoError(
                f"{quoted(path)} is cut off or damaged ({_first_line(reason)}).",
                "Copy or download it again, or open it in a picture editor and save it as JPEG or PNG.",
            ) from None


def is_still(path: Path) -> bool:
    """Whether a file is a picture that does not move, judged by its content.

    Returns:
        True for pictures; False for animations and for everything that is no picture, readable or not.

    Raises:
        PhotoError: There is no such file, it is no ordinary file, it may not be read, or it is far too large.
    """
    with open_regular(path, "a picture or a video", PhotoError) as file:
        if _is_heif(file):
            return True
        try:
            with _quietly(), _open(path, file) as picture:
                return not getattr(picture, "is_animated", False) or picture.format in ("MPO", "TIFF", "PSD")
        except PhotoError as error:
            if isinstance(error, _NotAPicture):
                return False
            raise
        except Exception:
            return False


@contextmanager
def _quietly() -> Iterator[None]:
    """Without Pillow's own warnings: what is wrong with a file, and matters, is told as an error with its name."""
    with _OPENING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _read(path: Path, file: BinaryIO) -> tuple[Image, Image | None]:
    from PIL import Image as pil

    heif = _is_heif(file)
    with _open(path, file, heif=heif) as picture:
        width, height = picture.size
        if width * height > MAX_PIXELS:
            raise _too_large(path)
        if min(width, height) < MIN_SIDE:
            raise PhotoError(
                f"{quoted(path)} is too small: {width}x{height} pixels.",
                f"Take a photo with at least {MIN_SIDE} pixels on its shorter side; 500 and more look good.",
            )
        target = _fit(width, height)
        if min(target) < MIN_SIDE:
            raise PhotoError(f"{quoted(path)} is a strip of {width}x{height} pixels.", "Crop it to the face.")
        picture.draft(
            "RGB", target
        )  # JPEG only: decodes at a half, a quarter, an eighth where that is enough.
        picture.load()
        profile = picture.info.get("icc_profile")
        orientation = _orientation(picture)  # After load: TIFF turns itself then and forgets its tag.
        shown = _eight_bit(picture)
        target = _fit(*shown.size)
        if target != shown.size:
            shown = shown.resize(target, pil.Resampling.LANCZOS, reducing_gap=3.0)
        alpha = None
        if shown.mode == "RGBA":
            alpha = np.asarray(shown.getchannel("A"), np.uint8)
            shown = shown.convert("RGB")
        rgb = np.asarray(_to_srgb(shown, profile, path), np.uint8)
        image = np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), np.uint8)
    if alpha is not None:
        if int(alpha.sum(dtype=np.int64)) < 255 * MIN_SIDE:
            raise PhotoError(
                f"{quoted(path)} is completely transparent.", "Take a photo with something on it."
            )
        alpha = None if int(alpha.min()) == 255 else _upright(alpha, orientation)
    return _upright(image, orientation), alpha


def _too_large(path: Path) -> PhotoError:
    limit = f"{MAX_PIXELS / 1e6:.0f} megapixels"
    return PhotoError(f"{quoted(path)} is too large: it holds more than {limit}.", "Scale it down first.")


def _fit(width: int, height: int) -> tuple[int, int]:
    """The size scaled to :data:`MAX_SIDE` on the longer side, never up."""
    factor = min(1.0, MAX_SIDE / max(width, height))
    return max(round(width * factor), 1), max(round(height * factor), 1)


def _is_heif(file: BinaryIO) -> bool:
    head = file.read(12)
    file.seek(0)
    return head[4:8] == b"ftyp" and head[8:12] in _HEIF_BRANDS


def _open(path: Path, file: BinaryIO, *, heif: bool = False) -> Picture:
    try:
        from PIL import Image as pil
        from PIL import UnidentifiedImageError
    except ImportError:
        raise PhotoError(f"{quoted(path)} cannot be read: Pillow is missing.", "pip install pillow") from None

    if heif:
        try:
            import pillow_heif
        except ImportError:
            raise PhotoError(
                f"{quoted(path)} is a HEIC photo, and the reader for those is not installed.",
                "pip install 'doppelcam[heif]', or save it as JPEG.",
            ) from None
        pillow_heif.register_heif_opener()
    pil.init()
    formats: list[str] = [name for name in _FORMATS if name in pil.OPEN]
    # Pillow refuses 180 megapixels, less than some phones take; its limit is process-wide, so it is put back.
    with _OPENING, warnings.catch_warnings():
        warnings.simplefilter("ignore", pil.DecompressionBombWarning)
        kept, pil.MAX_IMAGE_PIXELS = pil.MAX_IMAGE_PIXELS, MAX_PIXELS
        try:
            return pil.open(file, formats=formats)
        except pil.DecompressionBombError:
            raise _too_large(path) from None
        except UnidentifiedImageError:
            raise _NotAPicture(
                f"{quoted(path)} is not a picture that can be read, whatever its name says.",
                "Give a JPEG, PNG, WebP, TIFF, BMP, GIF or AVIF file.",
            ) from None
        finally:
            pil.MAX_IMAGE_PIXELS = kept


def _eight_bit(picture: Picture) -> Picture:
    """The picture in one of the modes L, RGB, RGBA, CMYK, with 8 bits a channel."""
    from PIL import Image as pil

    mode = picture.mode
    if mode.startswith("I;16") or mode in ("I", "F"):
        return pil.fromarray(_scale_to_byte(np.asarray(picture)))
    if picture.has_transparency_data:
        return picture.convert("RGBA")
    if mode in ("L", "RGB", "CMYK"):
        return picture
    if mode == "1":
        return picture.convert("L")
    if mode == "LAB":
        from PIL import ImageCms

        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(picture, lab, srgb, outputMode="RGB")
        assert converted is not None
        return converted
    return picture.convert("RGB")


def _scale_to_byte(values: np.ndarray[Any, Any]) -> Image:
    """Grey values of any depth as bytes, scaled and never clipped.

    16-bit integers have a fixed range. Wider integers and floats have none that a file would tell: the usual
    ones (0…1, 0…255, 0…65535) are recognised by the largest value, others are stretched.
    """
    if values.dtype.kind == "u" and values.dtype.itemsize == 2:  # Either byte order.
        return np.asarray((values.astype(np.uint32) * 255 + 32767) // 65535, np.uint8)
    real = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = min(float(real.min()), 0.0), float(real.max())
    tops = (1.0, 255.0, 65535.0) if np.issubdtype(values.dtype, np.floating) else (255.0, 65535.0)
    top = next((top for top in tops if high <= top), high) if low >= 0 else high
    return np.asarray(np.rint((real - low) * (255.0 / max(top - low, 1e-12))), np.uint8)


def _to_srgb(picture: Picture, profile: Any, path: Path) -> Picture:
    """Converts L, RGB or CMYK to RGB through the embedded profile; plainly where there is none that fits."""
    if isinstance(profile, bytes) and profile:
        try:
            from PIL import ImageCms

            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            space = source.profile.xcolor_space.strip()
            if {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}.get(space) == picture.mode:
                srgb = ImageCms.createProfile("sRGB")
                converted = ImageCms.profileToProfile(picture, source, srgb, outputMode="RGB")
                if converted is not None:
                    return converted
            else:
                log.debug("%s: a %s profile on a %s picture is ignored", path, space, picture.mode)
        # Profiles come from outside too; a broken one costs some colour, not the photo.
        except Exception as reason:
            log.warning(
                "%s: its colour profile cannot be used (%s); colours may be off", path, _first_line(reason)
            )
    return picture.convert("RGB")


def _orientation(picture: Picture) -> int:
    try:
        value = picture.getexif().get(_ORIENTATION_TAG, 1)
        return int(value) if 1 <= int(value) <= 8 else 1
    except Exception:  # Broken EXIF is common and no reason to refuse a photo.
        return 1


def _upright(image: Image, orientation: int) -> Image:
    """Undoes an EXIF orientation, 1…8."""
    if orientation in (5, 6, 7, 8):
        image = np.asarray(cv2.transpose(image), np.uint8)
    flips = {2: 1, 3: -1, 4: 0, 6: 1, 7: -1, 8: 0}
    if orientation in flips:
        image = np.asarray(cv2.flip(image, flips[orientation]), np.uint8)
    return np.ascontiguousarray(image)


def over_mean(image: Image, alpha: Image) -> Image:
    """Lays a picture with alpha over the mean colour of its visible part.

    Args:
        image: H×W×3 uint8.
        alpha: (H, W) uint8, not 0 everywhere.
    """
    weight = alpha.astype(np.float32) / 255.0
    total = float(weight.sum(dtype=np.float64))
    mean = np.einsum("hw,hwc->c", weight, image, dtype=np.float64) / total
    ground = mean.astype(np.float32)
    mixed = image.astype(np.float32)
    mixed -= ground
    mixed *= weight[..., None]
    mixed += ground
    return np.asarray(np.rint(mixed), np.uint8)


def _first_line(reason: BaseException) -> str:
    return (str(reason).strip().splitlines() or [type(reason).__name__])[0].rstrip(".")
