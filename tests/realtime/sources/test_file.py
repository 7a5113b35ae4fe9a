from __future__ import annotations

import logging
import os
import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from engines.errors import UsageError
from realtime.clock import ManualClock
from realtime.sources.file import VideoFileSource
from realtime.sources.file_layout import turn_of
from realtime.sources.pattern import PatternSource, decode_number

# BGR, where they are: no rotation or mirroring leaves these four where they were.
QUARTERS = {(0, 0): (40, 40, 200), (0, 1): (40, 180, 40), (1, 0): (200, 60, 40), (1, 1): (40, 210, 210)}


def quarters(width: int = 96, height: int = 64) -> np.ndarray:
    image = np.empty((height, width, 3), np.uint8)
    for (row, column), colour in QUARTERS.items():
        rows = slice(0, height // 2) if row == 0 else slice(height // 2, None)
        columns = slice(0, width // 2) if column == 0 else slice(width // 2, None)
        image[rows, columns] = colour
    return image


def write(
    path: Path,
    images: list[np.ndarray],
    *,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    rate: int = 25,
    times: list[int] | None = None,
    options: dict[str, str] | None = None,
    matrix: list[int] | None = None,
    aspect: Fraction | None = None,
    tags: dict[str, int] | None = None,
    colorspace: int | None = None,
    sound_s: float = 0.0,
) -> Path:
    """A video of these pictures; ``times`` are their presentation times, ms."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, options=options or {})
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = pix_fmt
        unit = Fraction(1, 1000) if times else Fraction(1, rate)  # The stream's own changes with its header.
        stream.codec_context.time_base = unit
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        for name, value in (tags or {}).items():
            setattr(stream.codec_context, name, value)
        if matrix is not None:
            stream.set_display_matrix(matrix)
        sound = container.add_stream("aac", rate=16000) if sound_s else None
        for k, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="bgr24")
            wanted = {"dst_colorspace": colorspace} if colorspace is not None else {}
            if tags and "color_range" in tags:
                wanted["dst_color_range"] = tags["color_range"]
            frame = frame.reformat(format=pix_fmt, **wanted)
            frame.pts = times[k] if times else k
            frame.time_base = unit
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if sound is not None:
            for k in range(int(sound_s * 16000 / 1024)):
                quiet = av.AudioFrame.from_ndarray(
                    np.zeros((1, 1024), np.float32), format="fltp", layout="mono"
                )
                quiet.sample_rate, quiet.pts = 16000, k * 1024
                container.mux(sound.encode(quiet))
            container.mux(sound.encode(None))
    return path


def numbered(count: int, size: tuple[int, int] = (320, 240)) -> list[np.ndarray]:
    source = PatternSource(size, 25.0, ManualClock())
    source.open()
    return [source.read().image.copy() for _ in range(count)]


def play(path: Path, **options) -> tuple[VideoFileSource, list[np.ndarray]]:
    source = VideoFileSource(path, ManualClock(), **options)
    source.open()
    images = []
    while (frame := source.read()) is not None:
        images.append(frame.image.copy())
        assert frame.size == source.size and frame.image.flags.c_contiguous
    source.close()
    return source, images


def assert_quarters(image: np.ndarray, tolerance: int = 10) -> None:
    height, width = image.shape[:2]
    for (row, column), colour in QUARTERS.items():
        seen = image[height * (1 + 2 * row) // 4, width * (1 + 2 * column) // 4]
        assert np.abs(seen.astype(int) - colour).max() <= tolerance, ((row, column), seen, colour)


def refused(path: Path) -> UsageError:
    source = VideoFileSource(path, ManualClock())
    try:
        with pytest.raises(UsageError) as caught:
            source.open()
        assert path.name in str(caught.value) and caught.value.fix
        return caught.value
    finally:
        source.close()


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt"),
    [
        ("a.mp4", "libx264", "yuv420p"),
        ("a.mkv", "libx264", "yuv420p"),
        ("a.mov", "mpeg4", "yuv420p"),
        ("a.webm", "libvpx", "yuv420p"),
        ("a.avi", "mjpeg", "yuvj420p"),
        ("a.ts", "mpeg2video", "yuv420p"),
        ("a.nut", "ffv1", "bgra"),
        ("a.mkv", "ffv1", "gray"),
        ("a.mkv", "ffv1", "yuv420p10le"),
    ],
)
def test_every_picture_once_and_in_order(tmp_path, name, codec, pix_fmt):
    path = write(tmp_path / name, numbered(12), codec=codec, pix_fmt=pix_fmt)
    source, images = play(path)
    assert [decode_number(image) for image in images] == list(range(12))
    assert source.size == (320, 240) and source.fps == pytest.approx(25.0, rel=0.05)
    assert source.device is False and source.name == name


def test_gif(tmp_path):
    pictures = [Image.fromarray(image[..., ::-1]) for image in numbered(5)]
    pictures[0].save(tmp_path / "a.gif", save_all=True, append_images=pictures[1:], duration=100)
    source, images = play(tmp_path / "a.gif")
    assert [decode_number(image) for image in images] == list(range(5))
    assert source.fps == pytest.approx(10.0, rel=0.05)


def test_frames_are_numbered_stamped_and_owned(tmp_path):
    path = write(tmp_path / "a.mp4", numbered(4))
    clock = ManualClock(5)
    source = VideoFileSource(path, clock)
    source.open()
    first = source.read()
    clock.advance(7)
    second = source.read()
    assert (first.seq, first.captured_ns, second.seq, second.captured_ns) == (0, 5, 1, 12)
    before = second.image.copy()
    first.image[:] = 0  # The owner paints; nobody else's picture changes.
    assert (second.image == before).all()
    source.close()


def test_buffers_come_back(tmp_path):
    path = write(tmp_path / "a.mp4", numbered(8))
    source = VideoFileSource(path, ManualClock())
    source.open()
    seen = set()
    for _ in range(8):
        frame = source.read()
        seen.add(frame.image.ctypes.data)
        del frame
    assert len(seen) == 1
    source.close()


def test_opened_again_it_begins_again(tmp_path):
    source = VideoFileSource(write(tmp_path / "a.mp4", numbered(3)), ManualClock())
    source.close()
    for _ in range(2):
        source.open()
        assert decode_number(source.read().image) == 0
        assert decode_number(source.read().image) == 1
    source.close()
    source.close()


# --- upright, in colour, in shape


def stored_for(matrix: list[int], shown: np.ndarray) -> np.ndarray:
    """What must be stored so that the matrix shows ``shown``: (p, q) goes to (a·p + c·q, b·p + d·q)."""
    a, b, c, d = (v >> 16 for v in (matrix[0], matrix[1], matrix[3], matrix[4]))
    high, wide = shown.shape[:2]
    height, width = (wide, high) if a == 0 else (high, wide)
    q, p = np.mgrid[:height, :width]
    x, y = a * p + c * q, b * p + d * q
    return np.ascontiguousarray(shown[y - y.min(), x - x.min()])


@pytest.mark.parametrize("size", [None, (192, 128)])
@pytest.mark.parametrize(
    "corners",
    [
        (1, 0, 0, 1), (0, 1, -1, 0), (-1, 0, 0, -1), (0, -1, 1, 0),
        (-1, 0, 0, 1), (1, 0, 0, -1), (0, 1, 1, 0), (0, -1, -1, 0),
    ],
)  # fmt: skip
def test_every_rotation_and_mirroring_gives_the_same_picture(tmp_path, corners, size):
    a, b, c, d = (v * 65536 for v in corners)
    matrix = [a, b, 0, c, d, 0, 0, 0, 1 << 30]
    path = write(tmp_path / "turned.mp4", [stored_for(matrix, quarters())] * 2, matrix=matrix)
    source, images = play(path, size=size)
    assert source.size == (size or (96, 64))
    assert len(images) == 2
    assert_quarters(images[0])


@pytest.mark.parametrize(
    "data", [b"", b"x" * 20, struct.pack("=9i", *[0] * 9), struct.pack("=9i", *[-(2**31)] * 9)]
)
def test_a_nonsense_display_matrix_turns_nothing(data):
    turn = turn_of(data)
    assert turn.rotate is None and not turn.mirror


@pytest.mark.parametrize("range_", [1, 2])
@pytest.mark.parametrize("space", [1, 5, 9])
def test_colours_survive_whatever_matrix_and_range_the_file_names(tmp_path, space, range_):
    tags = {"colorspace": space, "color_range": range_}
    path = write(
        tmp_path / "a.mkv", [quarters()], codec="ffv1", pix_fmt="yuv444p", tags=tags, colorspace=space
    )
    _, images = play(path)
    assert_quarters(images[0], 4)


@pytest.mark.parametrize(("height", "space"), [(240, 5), (720, 1)])
def test_a_file_that_names_no_matrix_is_read_as_players_do(tmp_path, height, space):
    image = quarters(height * 16 // 9 & ~1, height)
    tags = {"colorspace": 2}
    path = write(tmp_path / "a.mkv", [image], codec="ffv1", pix_fmt="yuv444p", tags=tags, colorspace=space)
    _, images = play(path)
    assert_quarters(images[0], 4)


@pytest.mark.parametrize("shape", [(97, 65), (96, 65), (97, 64)])
def test_odd_sizes_are_cropped_to_even_ones(tmp_path, shape):
    image = quarters(96, 64)
    image = np.pad(image, ((0, shape[1] - 64), (0, shape[0] - 96), (0, 0)))
    path = write(tmp_path / "odd.mkv", [image], codec="ffv1", pix_fmt="bgr0")
    source, images = play(path)
    assert source.size == (96, 64)
    assert_quarters(images[0], 2)
    assert (images[0] == quarters()).all()


def test_wide_pixels_are_made_square(tmp_path):
    path = write(tmp_path / "dvd.mkv", [quarters(72, 64)], codec="mpeg4", aspect=Fraction(4, 3))
    source, images = play(path)
    assert source.size == (96, 64)
    assert_quarters(images[0], 16)


@pytest.mark.parametrize("size", [(200, 64), (96, 200), (320, 240), (48, 48), (31, 33)])
def test_fitted_into_a_size_with_black_bars(tmp_path, size):
    path = write(tmp_path / "a.mkv", [quarters()] * 2, codec="ffv1", pix_fmt="bgr0")
    source = VideoFileSource(path, ManualClock(), size=size)
    source.open()
    width, height = source.size
    assert (width, height) == (size[0] & ~1, size[1] & ~1)
    factor = min(width / 96, height / 64)
    wide, high = round(96 * factor), round(64 * factor)
    left, top = (width - wide) // 2, (height - high) // 2
    for _ in range(2):
        frame = source.read()
        inside = frame.image[top : top + high, left : left + wide]
        assert_quarters(inside, 12)
        outside = frame.image.astype(int).sum() - inside.astype(int).sum()
        assert outside == 0
        frame.image[:] = 255  # The next picture uses this buffer again: its bars are black all the same.
        del frame
    source.close()


def test_a_video_that_changes_its_size_on_the_way(tmp_path):
    big, small = tmp_path / "big.ts", tmp_path / "small.ts"
    write(big, [quarters(96, 64)] * 3, codec="mpeg2video")
    write(small, [quarters(48, 64)] * 3, codec="mpeg2video")
    (tmp_path / "both.ts").write_bytes(big.read_bytes() + small.read_bytes())
    source, images = play(tmp_path / "both.ts")
    assert source.size == (96, 64) and len(images) >= 5  # One may be lost where they meet.
    assert_quarters(images[0], 16)
    assert_quarters(images[-1][:, 24:72], 16)
    assert images[-1][:, :20].max() == 0


# --- rates


def test_variable_rate_gives_the_average(tmp_path):
    times = [0, 10, 20, 200, 210, 400, 990]
    path = write(tmp_path / "vfr.mp4", numbered(7), times=times, options={"bf": "0"})
    source, images = play(path)
    assert [decode_number(image) for image in images] == list(range(7))
    assert source.fps == pytest.approx(7, rel=0.2)


@pytest.mark.parametrize("rate", [None, Fraction(0), Fraction(90000), Fraction(1, 500)])
def test_a_nonsense_rate_falls_back(rate):
    from types import SimpleNamespace

    from realtime.sources.file import _rate

    stream = SimpleNamespace(
        average_rate=rate, guessed_rate=rate, base_rate=rate, frames=0, duration=None, time_base=None
    )
    assert _rate(stream) == 30.0
    stream.frames, stream.duration, stream.time_base = 50, 2000, Fraction(1, 1000)
    assert _rate(stream) == 25.0


# --- files that are none


@pytest.mark.parametrize(
    "content",
    [
        b"just some text\n" * 50,
        b"<html>404</html>",
        b"\0" * 5000,
        b"\0\0\0\x18ftypisom\0\0\0\0isomavc1",
        b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile /etc/passwd\n",
    ],
)
def test_something_else_renamed_to_mp4(tmp_path, content):
    (tmp_path / "film.mp4").write_bytes(content)
    refused(tmp_path / "film.mp4")


def test_missing_directory_empty_and_pipe(tmp_path):
    assert "no file" in str(refused(tmp_path / "gone.mp4"))
    (tmp_path / "folder.mp4").mkdir()
    assert "directory" in str(refused(tmp_path / "folder.mp4"))
    (tmp_path / "empty.mp4").touch()
    assert "empty" in str(refused(tmp_path / "empty.mp4"))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.mp4")
        assert "pipe" in str(refused(tmp_path / "pipe.mp4"))


def test_no_permission(tmp_path, monkeypatch):
    path = write(tmp_path / "a.mp4", numbered(1))

    def refuse(*_args, **_more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert "permission" in str(refused(path))


@pytest.mark.parametrize("name", ["a.m4a", "a.mp3", "a.wav"])
def test_only_sound(tmp_path, name):
    with av.open(str(tmp_path / name), "w") as container:
        codec = {"a.m4a": "aac", "a.mp3": "libmp3lame", "a.wav": "pcm_s16le"}[name]
        stream = container.add_stream(codec, rate=44100, layout="mono")
        kind = "s16" if codec == "pcm_s16le" else "fltp"
        quiet = np.zeros((1, 4096), np.int16 if kind == "s16" else np.float32)
        frame = av.AudioFrame.from_ndarray(quiet, format=kind, layout="mono")
        frame.sample_rate = 44100
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    assert "only sound" in str(refused(tmp_path / name))


def test_sound_beside_the_picture_is_left_alone(tmp_path, caplog):
    path = write(tmp_path / "a.mp4", numbered(5), sound_s=2.0)
    _, images = play(path)
    assert [decode_number(image) for image in images] == list(range(5))
    assert not caplog.records


@pytest.mark.parametrize("name", ["a.mkv", "a.mp4", "a.avi"])
def test_a_truncated_file_plays_to_the_cut_and_says_so(tmp_path, name, caplog):
    options = {"movflags": "+faststart"}
    rng = np.random.default_rng(3)
    images = [image.copy() for image in numbered(50)]
    for image in images:
        image[120:] = rng.integers(0, 255, image[120:].shape, np.uint8)
    path = tmp_path / name
    with av.open(str(path), "w", options=options if name.endswith("mp4") else {}) as container:
        stream = container.add_stream("mjpeg", rate=25)
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuvj420p"
        for image in images:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="bgr24")))
        container.mux(stream.encode(None))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with caplog.at_level(logging.WARNING):
        _, images = play(path)
    numbers = [decode_number(image) for image in images]
    assert 15 <= len(numbers) <= 35
    assert numbers[:-1] == list(range(len(numbers) - 1))  # The last one may be cut itself.
    assert any(name in record.getMessage() and "cut off" in record.getMessage() for record in caplog.records)


def test_a_whole_file_ends_without_a_warning(tmp_path, caplog):
    for name in ("a.mp4", "a.mkv", "a.webm"):
        play(write(tmp_path / name, numbered(10), codec="libvpx" if name.endswith("webm") else "libx264"))
    assert not caplog.records


def test_truncated_before_anything_can_be_read(tmp_path):
    path = write(tmp_path / "a.mp4", numbered(20))  # Its index is at the end.
    path.write_bytes(path.read_bytes()[:-2000])
    refused(path)


def test_damage_in_the_middle_is_played_over(tmp_path):
    path = write(tmp_path / "a.ts", numbered(40), codec="mpeg2video", options={"g": "6"})
    data = bytearray(path.read_bytes())
    rng = np.random.default_rng(5)
    middle = len(data) // 2
    data[middle : middle + 2000] = rng.integers(0, 255, 2000, np.uint8).tobytes()
    path.write_bytes(data)
    _, images = play(path)
    assert len(images) >= 20
    assert decode_number(images[0]) == 0


@pytest.mark.parametrize("seed", range(3))
def test_damage_anywhere_is_an_end_or_a_usage_error(tmp_path, seed):
    path = write(tmp_path / "a.mp4", numbered(6))
    data, rng = path.read_bytes(), np.random.default_rng(seed)
    for _ in range(10):
        rotten = bytearray(data)
        for at in rng.integers(0, len(data), 8):
            rotten[at] = rng.integers(0, 256)
        path.write_bytes(rotten)
        source = VideoFileSource(path, ManualClock())
        try:
            source.open()
            for _ in range(50):
                if source.read() is None:
                    break
        except UsageError as error:
            assert "a.mp4" in str(error)
        finally:
            source.close()


@pytest.mark.parametrize(
    "name", ["mit Leer zeichen.mp4", "Größe.mp4", "视频.mp4", "🎬.mp4", "http:a.mp4", "a%03d.mp4"]
)
def test_names_of_any_kind(tmp_path, name, monkeypatch):
    made = write(tmp_path / "made.mp4", numbered(2))
    made.rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / name, Path(name)):
        _, images = play(path)
        assert len(images) == 2


# --- pictures that do not move


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "gif"])
def test_a_still_never_ends(tmp_path, suffix):
    path = tmp_path / f"face.{suffix}"
    Image.fromarray(quarters(97, 65)[..., ::-1]).save(path)
    clock = ManualClock(3)
    source = VideoFileSource(path, clock, still_fps=24.0)
    source.open()
    assert source.size == (96, 64) and source.fps == 24.0
    for n in range(5):
        frame = source.read()
        assert (frame.seq, frame.captured_ns) == (n, 3)
        assert_quarters(frame.image, 25)
        frame.image[:] = 0
    source.close()


@pytest.mark.parametrize("size", [(320, 240), (64, 96)])
def test_a_still_is_upright_and_fitted(tmp_path, size):
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = Image.fromarray(quarters()[..., ::-1]).transpose(Image.Transpose.ROTATE_90)
    stored.save(tmp_path / "face.jpg", exif=exif, quality=95)
    source = VideoFileSource(tmp_path / "face.jpg", ManualClock(), size=size)
    source.open()
    frame = source.read()
    assert frame.size == size
    factor = min(size[0] / 96, size[1] / 64)
    wide, high = round(96 * factor), round(64 * factor)
    left, top = (size[0] - wide) // 2, (size[1] - high) // 2
    assert_quarters(frame.image[top : top + high, left : left + wide], 12)
    assert frame.image[0, 0].max() == 0
    source.close()
