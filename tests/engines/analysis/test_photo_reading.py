from __future__ import annotations

import io
import os
import struct
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from engines.analysis import photo
from engines.analysis.photo import MAX_SIDE, is_still, read_photo
from engines.errors import PhotoError

# Four flat quarters: no rotation or mirroring leaves them where they were, and JPEG keeps them.
RGB = {
    "top left": (200, 30, 30),
    "top right": (30, 180, 30),
    "low left": (40, 40, 200),
    "low right": (220, 220, 40),
}


def quarters(width: int = 160, height: int = 128) -> Image.Image:
    rgb = np.empty((height, width, 3), np.uint8)
    half_y, half_x = height // 2, width // 2
    rgb[:half_y, :half_x], rgb[:half_y, half_x:] = RGB["top left"], RGB["top right"]
    rgb[half_y:, :half_x], rgb[half_y:, half_x:] = RGB["low left"], RGB["low right"]
    return Image.fromarray(rgb)


def seen(image: np.ndarray) -> dict[str, tuple[int, ...]]:
    """The RGB colour in the middle of each quarter."""
    height, width = image.shape[:2]
    at = {"top left": (1, 1), "top right": (1, 3), "low left": (3, 1), "low right": (3, 3)}
    return {
        where: tuple(int(v) for v in image[height * y // 4, width * x // 4, ::-1])
        for where, (y, x) in at.items()
    }


def assert_quarters(image: np.ndarray, tolerance: int = 6) -> None:
    for where, colour in seen(image).items():
        assert np.abs(np.subtract(colour, RGB[where])).max() <= tolerance, (where, colour)


def assert_is_image(image: np.ndarray) -> None:
    assert image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3
    assert image.flags.c_contiguous and image.flags.writeable and image.flags.owndata


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff", "bmp", "ppm", "gif", "jp2", "avif"])
def test_common_formats_come_out_as_bgr(tmp_path, suffix):
    path = tmp_path / f"face.{suffix}"
    try:
        quarters().save(path)
    except (KeyError, ValueError, OSError) as reason:
        pytest.skip(f"this Pillow does not write {suffix}: {reason}")
    image = read_photo(path)
    assert_is_image(image)
    assert image.shape == (128, 160, 3)
    assert_quarters(image, 20)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_gives_the_same_picture(tmp_path, orientation, suffix):
    # Stored the way a camera held like this would store it.
    T = Image.Transpose
    stored = quarters()
    undo = {
        2: T.FLIP_LEFT_RIGHT, 3: T.ROTATE_180, 4: T.FLIP_TOP_BOTTOM, 5: T.TRANSPOSE, 6: T.ROTATE_90,
        7: T.TRANSVERSE, 8: T.ROTATE_270,
    }  # fmt: skip
    if orientation in undo:
        stored = stored.transpose(undo[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"face.{suffix}"
    stored.save(path, exif=exif)
    image = read_photo(path)
    assert_is_image(image)
    assert image.shape == (128, 160, 3)
    assert_quarters(image, 12)


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_a_nonsense_orientation_is_ignored(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    quarters().save(tmp_path / "face.jpg", exif=exif)
    assert_quarters(read_photo(tmp_path / "face.jpg"))


def test_broken_exif_does_not_cost_the_photo(tmp_path):
    quarters().save(tmp_path / "face.jpg", exif=b"Exif\0\0II*\0\xff\xff\xff\x7fgarbage")
    assert_quarters(read_photo(tmp_path / "face.jpg"))


@pytest.mark.parametrize("suffix", ["png", "webp", "tiff"])
def test_transparent_parts_take_the_mean_of_the_visible_ones(tmp_path, suffix):
    rgba = np.zeros((128, 128, 4), np.uint8)
    rgba[..., :3] = (0, 255, 0)  # What lies under the transparent part must not shine through.
    rgba[32:96, 32:64] = (200, 100, 50, 255)
    rgba[32:96, 64:96] = (100, 50, 150, 255)
    path = tmp_path / f"cutout.{suffix}"
    Image.fromarray(rgba).save(path, **({"lossless": True} if suffix == "webp" else {}))
    image = read_photo(path)
    assert np.abs(image[5, 5].astype(int) - (100, 75, 150)).max() <= 1
    assert np.abs(image[64, 40].astype(int) - (50, 100, 200)).max() <= 1


def test_half_transparent_pixels_are_mixed(tmp_path):
    rgba = np.full((100, 100, 4), (10, 20, 30, 255), np.uint8)
    rgba[:, 50:] = (210, 120, 130, 128)
    Image.fromarray(rgba).save(tmp_path / "soft.png")
    weights = np.array([1.0, 128 / 255])
    mean = (weights[0] * np.array([10, 20, 30]) + weights[1] * np.array([210, 120, 130])) / weights.sum()
    expected = weights[1] * np.array([210, 120, 130]) + (1 - weights[1]) * mean
    assert np.abs(read_photo(tmp_path / "soft.png")[50, 80, ::-1] - expected).max() <= 1


def test_a_grey_photo_with_alpha(tmp_path):
    values = np.dstack([np.full((90, 90), 77, np.uint8), np.full((90, 90), 255, np.uint8)])
    values[:20, :, 1] = 0
    Image.fromarray(values, "LA").save(tmp_path / "grey.png")
    assert set(np.unique(read_photo(tmp_path / "grey.png"))) == {77}


def test_nothing_visible_is_said(tmp_path):
    Image.new("RGBA", (100, 100), (200, 100, 50, 0)).save(tmp_path / "ghost.png")
    with pytest.raises(PhotoError, match=r"ghost\.png.*transparent"):
        read_photo(tmp_path / "ghost.png")


@pytest.mark.parametrize("suffix", ["jpg", "png", "tiff"])
def test_greyscale(tmp_path, suffix):
    ramp = np.tile(np.linspace(0, 255, 256).astype(np.uint8), (100, 1))
    Image.fromarray(ramp).save(tmp_path / f"grey.{suffix}")
    image = read_photo(tmp_path / f"grey.{suffix}")
    assert image.shape == (100, 256, 3)
    assert np.abs(image[50, :, 0].astype(int) - ramp[50]).max() <= 3
    assert np.ptp(image, axis=2).max() == 0


def test_black_and_white(tmp_path):
    Image.fromarray(np.arange(100 * 100).reshape(100, 100) % 2 == 0).convert("1").save(tmp_path / "bw.png")
    assert set(np.unique(read_photo(tmp_path / "bw.png"))) == {0, 255}


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_sixteen_bit_grey_is_scaled_not_clipped(tmp_path, suffix):
    ramp = np.tile(np.linspace(0, 65535, 256).round().astype(np.uint16), (80, 1))
    Image.fromarray(ramp).save(tmp_path / f"deep.{suffix}")
    row = read_photo(tmp_path / f"deep.{suffix}")[40, :, 1].astype(int)
    assert np.abs(row - np.arange(256)).max() <= 1


def test_sixteen_bit_big_endian_grey(tmp_path):
    ramp = np.tile(np.linspace(0, 65535, 256).round().astype(">u2"), (80, 1))
    header = f"P5 {ramp.shape[1]} {ramp.shape[0]} 65535\n".encode()
    (tmp_path / "deep.pgm").write_bytes(header + ramp.tobytes())
    row = read_photo(tmp_path / "deep.pgm")[40, :, 1].astype(int)
    assert np.abs(row - np.arange(256)).max() <= 1


def test_sixteen_bit_colour_is_scaled_not_clipped(tmp_path):
    ramp = np.linspace(0, 65535, 256).round().astype(">u2")
    rgb = np.dstack([np.tile(ramp, (80, 1)), np.tile(ramp[::-1], (80, 1)), np.full((80, 256), 0x8000, ">u2")])
    (tmp_path / "deep.png").write_bytes(png_bytes(rgb.astype(">u2"), depth=16, colour=2))
    image = read_photo(tmp_path / "deep.png").astype(int)
    assert np.abs(image[40, :, 2] - np.arange(256)).max() <= 1
    assert np.abs(image[40, :, 1] - np.arange(256)[::-1]).max() <= 1
    assert np.abs(image[40, :, 0] - 128).max() <= 1


@pytest.mark.parametrize("scale", [1.0, 255.0, 4000.0])
def test_float_tiff_is_scaled_by_what_it_holds(tmp_path, scale):
    ramp = np.tile(np.linspace(0, scale, 256, dtype=np.float32), (80, 1))
    Image.fromarray(ramp).save(tmp_path / "float.tiff")
    row = read_photo(tmp_path / "float.tiff")[40, :, 0].astype(int)
    expected = np.arange(256) * min(scale / {1.0: 1.0, 255.0: 255.0}.get(scale, 65535.0), 1.0)
    assert np.abs(row - expected).max() <= 1


def test_wide_integers_and_nan(tmp_path):
    deep = np.tile(np.linspace(0, 2_000_000, 256).astype(np.int32), (80, 1))
    Image.fromarray(deep).save(tmp_path / "deep.tiff")
    assert np.abs(read_photo(tmp_path / "deep.tiff")[40, :, 0].astype(int) - np.arange(256)).max() <= 1
    holes = np.full((80, 80), 0.5, np.float32)
    holes[10, 10] = np.nan
    Image.fromarray(holes).save(tmp_path / "holes.tiff")
    assert abs(int(read_photo(tmp_path / "holes.tiff")[40, 40, 0]) - 128) <= 1


def test_palette_and_its_transparent_colour(tmp_path):
    flat = quarters().quantize(16)
    flat.save(tmp_path / "palette.png")
    assert_quarters(read_photo(tmp_path / "palette.png"), 12)
    indexed = np.zeros((100, 100), np.uint8)
    indexed[20:80, 20:80] = 1
    picture = Image.fromarray(indexed, "P")
    picture.putpalette([255, 0, 255, 90, 60, 30])
    picture.save(tmp_path / "keyed.png", transparency=0)
    assert (read_photo(tmp_path / "keyed.png") == (30, 60, 90)).all()


@pytest.mark.parametrize("suffix", ["gif", "webp", "png"])
def test_of_an_animation_the_first_picture(tmp_path, suffix):
    frames = [Image.new("RGB", (100, 100), colour) for colour in ((220, 40, 40), (0, 0, 255))]
    path = tmp_path / f"moving.{suffix}"
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=40)
    assert np.abs(read_photo(path)[50, 50].astype(int) - (40, 40, 220)).max() <= 8
    assert not is_still(path)
    frames[0].save(path)
    assert is_still(path)


# --- colour profiles -------------------------------------------


def icc(space: bytes, tags: dict[bytes, bytes], pcs: bytes = b"XYZ ", kind: bytes = b"mntr") -> bytes:
    """A minimal ICC 2.1 profile."""
    table, body, offset = b"", b"", 128 + 4 + 12 * len(tags)
    for name, data in tags.items():
        data += b"\0" * (-len(data) % 4)
        table += struct.pack(">4sII", name, offset + len(body), len(data))
        body += data
    size = offset + len(body)
    white = struct.pack(">iii", 63190, 65536, 54061)
    header = struct.pack(">I4sI4s4s4s12s4s", size, b"lcms", 0x02100000, kind, space, pcs, b"\0" * 12, b"acsp")
    header += b"\0" * (68 - len(header)) + white
    return header.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def s15(*values: float) -> bytes:
    return b"XYZ \0\0\0\0" + struct.pack(f">{len(values)}i", *(round(v * 65536) for v in values))


def description(text: bytes) -> bytes:
    return b"desc\0\0\0\0" + struct.pack(">I", len(text) + 1) + text + b"\0" * 79


def display_p3() -> bytes:
    gamma = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(2.2 * 256))
    return icc(
        b"RGB ",
        {
            b"desc": description(b"P3"),
            b"wtpt": s15(0.9642, 1.0, 0.8249),
            b"rXYZ": s15(0.51512, 0.24120, -0.00105),
            b"gXYZ": s15(0.29198, 0.69225, 0.04189),
            b"bXYZ": s15(0.15710, 0.06657, 0.78407),
            b"rTRC": gamma,
            b"gTRC": gamma,
            b"bTRC": gamma,
        },
    )


def inverted_cmyk() -> bytes:
    """A CMYK profile in which more black ink is lighter: nobody gets that right without reading it."""
    grid = bytearray()
    for corner in range(16):
        black = corner & 1
        grid += bytes([255 if black else 0, 128, 128])
    ramp = bytes(range(256))
    lut = b"mft1\0\0\0\0" + bytes([4, 3, 2, 0])
    lut += struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536) + ramp * 4 + bytes(grid) + ramp * 3
    tags = {b"desc": description(b"odd ink"), b"wtpt": s15(0.9642, 1.0, 0.8249), b"A2B0": lut}
    return icc(b"CMYK", tags, b"Lab ", b"prtr")


def test_display_p3_is_converted_to_srgb(tmp_path):
    picture = Image.new("RGB", (100, 100), (180, 100, 90))
    picture.save(tmp_path / "p3.png", icc_profile=display_p3())
    blue, green, red = (int(v) for v in read_photo(tmp_path / "p3.png")[50, 50])
    assert red >= 188 and green <= 100 and blue <= 90  # P3 names a colour by smaller numbers than sRGB.


def test_srgb_profile_changes_nothing(tmp_path):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    quarters().save(tmp_path / "srgb.png", icc_profile=profile)
    assert_quarters(read_photo(tmp_path / "srgb.png"), 1)


def test_profile_and_alpha_together(tmp_path):
    rgba = np.full((100, 100, 4), (180, 100, 90, 255), np.uint8)
    Image.fromarray(rgba[..., :3].copy()).save(tmp_path / "opaque.png", icc_profile=display_p3())
    rgba[:30, :, 3] = 0
    Image.fromarray(rgba).save(tmp_path / "cutout.png", icc_profile=display_p3())
    a, b = read_photo(tmp_path / "opaque.png"), read_photo(tmp_path / "cutout.png")
    assert np.abs(a.astype(int) - b).max() <= 1


@pytest.mark.parametrize("suffix", ["jpg", "tiff"])
def test_cmyk_without_a_profile(tmp_path, suffix):
    path = tmp_path / f"print.{suffix}"
    quarters().convert("CMYK").save(path)
    assert_quarters(read_photo(path), 12)


@pytest.mark.parametrize("suffix", ["jpg", "tiff"])
def test_cmyk_goes_through_its_profile(tmp_path, suffix):
    path = tmp_path / f"print.{suffix}"
    Image.new("CMYK", (100, 100), (0, 0, 0, 255)).save(path, icc_profile=inverted_cmyk())
    assert read_photo(path).min() >= 245
    Image.new("CMYK", (100, 100), (0, 0, 0, 0)).save(path, icc_profile=inverted_cmyk())
    assert read_photo(path).max() <= 10


@pytest.mark.parametrize("profile", [b"\0", b"garbage" * 40, display_p3()[:200], inverted_cmyk()])
def test_a_profile_that_does_not_fit_is_ignored(tmp_path, profile):
    quarters().save(tmp_path / "odd.jpg", icc_profile=profile, quality=95)
    assert_quarters(read_photo(tmp_path / "odd.jpg"))


def test_lab_tiff(tmp_path):
    Image.new("LAB", (100, 100), (136, 128, 128)).save(tmp_path / "lab.tiff")  # Mid grey: L 53, a and b 0.
    image = read_photo(tmp_path / "lab.tiff").astype(int)
    assert np.abs(image - 127).max() <= 4


# --- sizes -----------------------------------------------------


def png_bytes(pixels: np.ndarray, depth: int, colour: int) -> bytes:
    height, width = pixels.shape[:2]
    return png_of(width, height, b"".join(b"\0" + row.tobytes() for row in pixels), depth, colour)


def png_of(width: int, height: int, raw: bytes, depth: int = 8, colour: int = 0) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(raw, 1))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(1, 1), (63, 400), (400, 63), (64, 9000)])
def test_too_small_or_a_strip(tmp_path, size):
    Image.new("RGB", size).save(tmp_path / "tiny.png")
    with pytest.raises(PhotoError, match=rf"tiny\.png.*{size[0]}x{size[1]}"):
        read_photo(tmp_path / "tiny.png")


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_a_very_wide_photo_is_scaled_down(tmp_path, suffix):
    quarters(20000, 1000).save(tmp_path / f"wide.{suffix}")
    image = read_photo(tmp_path / f"wide.{suffix}")
    assert image.shape == (round(1000 * MAX_SIDE / 20000), MAX_SIDE, 3)
    assert_quarters(image)


def test_a_wide_photo_that_lies_on_its_side(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    quarters(6000, 3000).transpose(Image.Transpose.ROTATE_90).save(tmp_path / "side.jpg", exif=exif)
    image = read_photo(tmp_path / "side.jpg")
    assert image.shape == (MAX_SIDE // 2, MAX_SIDE, 3)
    assert_quarters(image)


def test_a_phone_with_more_pixels_than_pillow_likes(tmp_path, recwarn):
    before = Image.MAX_IMAGE_PIXELS
    (tmp_path / "s.png").write_bytes(png_of(20000, 10000, b"\0" * 10000 * 2501, depth=1))
    assert read_photo(tmp_path / "s.png").shape == (2048, 4096, 3)
    assert before == Image.MAX_IMAGE_PIXELS
    assert not recwarn.list


@pytest.mark.parametrize("side", [17_500, 40_000, 2_000_000])
def test_a_decompression_bomb_is_refused_unread(tmp_path, side, recwarn):
    (tmp_path / "bomb.png").write_bytes(png_of(side, side, b""))
    with pytest.raises(PhotoError, match=r"bomb\.png.*too large"):
        read_photo(tmp_path / "bomb.png")
    with pytest.raises(PhotoError, match=r"bomb\.png.*too large"):
        assert is_still(tmp_path / "bomb.png")  # Between one and two times the limit it may say yes.
        read_photo(tmp_path / "bomb.png")
    assert not recwarn.list


def test_a_bomb_in_the_comment_of_a_png(tmp_path):
    info = PngImagePlugin.PngInfo()
    info.add_text("x", "0" * (PngImagePlugin.MAX_TEXT_CHUNK * 2), zip=True)
    quarters().save(tmp_path / "chatty.png", pnginfo=info)
    with pytest.raises(PhotoError, match=r"chatty\.png"):
        read_photo(tmp_path / "chatty.png")


# --- files that are none ---------------------------------------


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff", "gif", "bmp"])
@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6])
def test_truncated(tmp_path, suffix, kept):
    rng = np.random.default_rng(1)
    path = tmp_path / f"cut.{suffix}"
    Image.fromarray(rng.integers(0, 255, (200, 200, 3), np.uint8)).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(PhotoError, match=rf"cut\.{suffix}") as caught:
        read_photo(path)
    assert caught.value.fix


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff", "gif", "bmp", "avif", "jp2"])
def test_damaged_anywhere_is_a_picture_or_a_photo_error(tmp_path, suffix):
    path = tmp_path / f"rotten.{suffix}"
    try:
        quarters(100, 80).save(path)
    except (KeyError, ValueError, OSError) as reason:
        pytest.skip(f"this Pillow does not write {suffix}: {reason}")
    data, rng = path.read_bytes(), np.random.default_rng(7)
    for _ in range(60):
        rotten = bytearray(data)
        for at in rng.integers(0, min(len(data), 600), 4):
            rotten[at] = rng.integers(0, 256)
        path.write_bytes(rotten)
        try:
            assert_is_image(read_photo(path))
        except PhotoError as error:
            assert f"rotten.{suffix}" in str(error)


def test_what_pillow_grumbles_about_is_not_on_the_terminal(tmp_path, recwarn, capfd):
    """A tag of a TIFF that says it is longer than the file: the picture is whole all the same."""
    path = tmp_path / "a.tif"
    Image.fromarray(np.full((80, 90, 3), 70, np.uint8)).save(path, tiffinfo={270: "a long description " * 4})
    data = bytearray(path.read_bytes())
    at = data.find(struct.pack("<HH", 270, 2))
    data[at + 4 : at + 8] = struct.pack("<I", 1 << 24)
    path.write_bytes(data)
    with warnings.catch_warnings():
        # As at a terminal, where the user's own filters hold.
        warnings.simplefilter("always")
        assert read_photo(path).shape == (80, 90, 3)
        is_still(path)
    assert not recwarn.list
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "content",
    [
        b"hello, I am no photo\n" * 20,
        b"<html><body>404</body></html>",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\nshowpage\n",
        b"%PDF-1.4\n",
        b"\0" * 4096,
        b"\xff\xd8\xff",
    ],
)
def test_something_else_renamed_to_jpg(tmp_path, content):
    (tmp_path / "face.jpg").write_bytes(content)
    with pytest.raises(PhotoError, match=r"face\.jpg") as caught:
        read_photo(tmp_path / "face.jpg")
    assert caught.value.fix
    assert not is_still(tmp_path / "face.jpg")


def test_the_content_counts_and_not_the_name(tmp_path):
    quarters().save(tmp_path / "face.txt", format="PNG")
    assert_quarters(read_photo(tmp_path / "face.txt"))


def test_heic_without_its_reader_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (tmp_path / "IMG_1.HEIC").write_bytes(b"\0\0\0\x18ftypheic" + b"\0" * 100)
    with pytest.raises(PhotoError, match=r"IMG_1\.HEIC.*HEIC") as caught:
        read_photo(tmp_path / "IMG_1.HEIC")
    assert "doppelcam[heif]" in caught.value.fix


@pytest.mark.parametrize("read", [read_photo, is_still])
class TestNoFile:
    def test_missing(self, tmp_path, read):
        with pytest.raises(PhotoError, match=r"no file '.*nobody\.jpg'"):
            read(tmp_path / "nobody.jpg")

    def test_directory(self, tmp_path, read):
        with pytest.raises(PhotoError, match="is a directory"):
            read(tmp_path)

    def test_below_a_file(self, tmp_path, read):
        (tmp_path / "a.jpg").write_bytes(b"x")
        with pytest.raises(PhotoError, match=r"b\.jpg"):
            read(tmp_path / "a.jpg" / "b.jpg")

    def test_empty(self, tmp_path, read):
        (tmp_path / "empty.jpg").touch()
        with pytest.raises(PhotoError, match=r"empty\.jpg' is empty"):
            read(tmp_path / "empty.jpg")

    def test_a_pipe_does_not_hang(self, tmp_path, read):
        if not hasattr(os, "mkfifo"):
            pytest.skip("no pipes with names here")
        os.mkfifo(tmp_path / "pipe.jpg")
        with pytest.raises(PhotoError, match=r"pipe\.jpg' is a device or a pipe"):
            read(tmp_path / "pipe.jpg")

    def test_a_device(self, read):
        if not Path("/dev/zero").exists():
            pytest.skip("no such device here")
        with pytest.raises(PhotoError, match="device"):
            read(Path("/dev/zero"))

    def test_no_permission(self, tmp_path, read, monkeypatch):
        (tmp_path / "secret.jpg").write_bytes(b"x")

        def refuse(*_args, **_more):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(PhotoError, match=r"permission to read '.*secret\.jpg'") as caught:
            read(tmp_path / "secret.jpg")
        assert caught.value.fix

    @pytest.mark.parametrize("name", ["nul\0byte.jpg", "x" * 5000 + ".jpg", "loop/loop"])
    def test_impossible_names(self, tmp_path, read, name):
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        with pytest.raises(PhotoError):
            read(tmp_path / name)

    def test_a_dangling_link(self, tmp_path, read):
        (tmp_path / "link.jpg").symlink_to(tmp_path / "gone.jpg")
        with pytest.raises(PhotoError, match=r"link\.jpg"):
            read(tmp_path / "link.jpg")


@pytest.mark.parametrize(
    "name", ["mit Leerzeichen.jpg", "Jürgen Größe.jpg", "照片 张伟.jpg", "😀🎭.jpg", "it's.jpg"]
)
def test_names_of_any_kind(tmp_path, name):
    folder = tmp_path / name.removesuffix(".jpg")
    folder.mkdir()
    quarters().save(folder / name)
    assert_quarters(read_photo(folder / name))
    with pytest.raises(PhotoError) as caught:
        read_photo(folder / f"no {name}")
    assert f"no {name}" in str(caught.value)


def test_messages_hold_no_control_characters(tmp_path):
    path = tmp_path / "x\x1b[31m\nred.jpg"
    with pytest.raises(PhotoError) as caught:
        read_photo(path)
    assert not set("\x1b\n") & set(str(caught.value))


def test_out_of_memory_is_said(tmp_path, monkeypatch):
    quarters().save(tmp_path / "big.png")

    def run_out(*_args):
        raise MemoryError

    monkeypatch.setattr(photo, "_eight_bit", run_out)
    with pytest.raises(PhotoError, match=r"big\.png.*memory"):
        read_photo(tmp_path / "big.png")


def test_no_file_stays_open(tmp_path):
    quarters().save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(io.BytesIO((tmp_path / "a.png").read_bytes()).read(300))
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("open files cannot be counted here")
    before = len(list(folder.iterdir()))
    for _ in range(3):
        read_photo(tmp_path / "a.png")
        with pytest.raises(PhotoError):
            read_photo(tmp_path / "b.png")
        with pytest.raises(PhotoError):
            read_photo(tmp_path)
    assert len(list(folder.iterdir())) == before
