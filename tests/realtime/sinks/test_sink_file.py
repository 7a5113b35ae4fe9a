import contextlib
import errno
import shutil
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from engines.errors import DeviceError, UsageError
from realtime.frame import Kind
from realtime.sinks.file import COMMENT, FileSink
from tests.realtime.sinks.pictures import bar_colours, bars, frame, noise

SIZE = (192, 64)
BOTH = pytest.mark.parametrize("suffix", [".mkv", ".mp4"])


def write(path, images, fps=30.0, metadata=None, size=SIZE):
    sink = FileSink(path, metadata or {})
    sink.open(size, fps)
    for seq, image in enumerate(images):
        sink.send(frame(image, seq))
    sink.close()


def read(path):
    """Every picture as BGR, through PyAV."""
    with av.open(f"file:{path}") as container:
        return [picture.to_ndarray(format="bgr24") for picture in container.decode(video=0)]


def read_cv2(path):
    capture = cv2.VideoCapture(str(path))
    pictures = []
    while (got := capture.read())[0]:
        pictures.append(got[1])
    capture.release()
    return pictures


@pytest.mark.parametrize("size", [(192, 64), (638, 362), (16, 16)])
def test_mkv_is_exact_to_the_bit(tmp_path, size):
    path = tmp_path / "exact.mkv"
    images = [bars(size) if size[0] > 24 else noise(9, size), *(noise(seed, size) for seed in range(5))]
    write(path, images, size=size)
    for pictures in (read(path), read_cv2(path)):
        assert len(pictures) == len(images)
        for picture, image in zip(pictures, images, strict=True):
            np.testing.assert_array_equal(picture, image)


def test_mp4_keeps_the_colours_and_says_which_they_are(tmp_path):
    path = tmp_path / "small.mp4"
    write(path, [bars()] * 8)
    want = bar_colours(bars())
    for pictures in (read(path), read_cv2(path)):
        assert len(pictures) == 8
        for picture in pictures:
            assert np.abs(bar_colours(picture) - want).max() <= 8
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        assert context.name == "h264"
        assert context.pix_fmt == "yuv420p"
        # ITU-T H.273: 1 is BT.709; range 1 is limited.
        assert (context.colorspace, context.color_primaries, context.color_trc) == (1, 1, 1)
        assert context.color_range == 1


def test_mp4_pixels_really_are_bt709(tmp_path):
    """Tags alone would let a BT.601 picture through with wrong greens."""
    path = tmp_path / "small.mp4"
    image = np.zeros((64, 192, 3), np.uint8)
    image[:] = (0, 255, 0)
    write(path, [image] * 3)
    with av.open(str(path)) as container:
        luma = next(container.decode(video=0)).to_ndarray()[:64]
    assert abs(float(luma.mean()) - (16 + 219 * 0.7152)) < 2


@BOTH
def test_the_order_and_number_of_frames_is_kept(tmp_path, suffix):
    path = tmp_path / f"order{suffix}"
    images = [np.full((64, 192, 3), 12 * i + 10, np.uint8) for i in range(20)]
    write(path, images)
    levels = [float(picture.mean()) for picture in read(path)]
    assert np.abs(np.array(levels) - [12 * i + 10 for i in range(20)]).max() < 4


@BOTH
@pytest.mark.parametrize(
    ("fps", "rate"),
    [(30, Fraction(30)), (29.97, Fraction(30000, 1001)), (12.5, Fraction(25, 2)), (7, Fraction(7))],
)
def test_the_rate_is_constant(tmp_path, suffix, fps, rate):
    path = tmp_path / f"rate{suffix}"
    write(path, [bars()] * 15, fps)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert float(stream.average_rate) == pytest.approx(float(rate), rel=1e-3)
        times = [float(picture.pts * picture.time_base) for picture in container.decode(video=0)]
    # Matroska counts in milliseconds.
    assert np.abs(np.array(times) - np.arange(15) / float(rate)).max() <= 0.0011


@BOTH
def test_the_file_says_what_it_is(tmp_path, suffix):
    path = tmp_path / f"said{suffix}"
    write(path, [bars()] * 2, metadata={"title": "Für Ada 🎭", "engine": "mesh", "Comment": "take 2"})
    with av.open(str(path)) as container:
        tags = {key.lower(): value for key, value in container.metadata.items()}
    assert tags["comment"] == f"{COMMENT}; take 2"
    assert tags["title"] == "Für Ada 🎭"
    assert "mesh" in (tags["engine"] if suffix == ".mkv" else tags["description"])


@BOTH
def test_the_comment_is_there_without_being_asked_for(tmp_path, suffix):
    path = tmp_path / f"said{suffix}"
    write(path, [bars()])
    with av.open(str(path)) as container:
        tags = {key.lower(): value for key, value in container.metadata.items()}
    assert tags["comment"] == "AI-altered face (doppelcam)"


@BOTH
@pytest.mark.parametrize("name", ["Überraschung 人 🎭", "take 12:30", "a b", "100%d", "file:x", "-o"])
def test_any_name_will_do(tmp_path, suffix, name):
    if sys.platform == "win32" and ":" in name:
        pytest.skip("no colons in Windows' names")
    path = tmp_path / f"{name}{suffix}"
    write(path, [bars()] * 3)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert len(read(path)) == 3


def test_a_relative_path_and_a_capital_suffix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(Path("OUT.MKV"), [bars()])
    assert len(read(tmp_path / "OUT.MKV")) == 1


@BOTH
def test_a_file_of_an_earlier_run_is_replaced(tmp_path, suffix):
    path = tmp_path / f"again{suffix}"
    write(path, [bars()] * 9)
    write(path, [bars()] * 2)
    assert len(read(path)) == 2


@BOTH
def test_an_interrupted_run_closes_to_a_playable_file(tmp_path, suffix):
    path = tmp_path / f"cut{suffix}"
    sink = FileSink(path, {})
    sink.open(SIZE, 30)
    with pytest.raises(KeyboardInterrupt):
        try:
            for seq in range(7):
                sink.send(frame(bars(), seq))
            raise KeyboardInterrupt
        finally:
            sink.close()
    assert len(read(path)) == 7


@BOTH
def test_a_killed_run_leaves_what_reached_the_disk_playable(tmp_path, suffix):
    path, copy = tmp_path / f"killed{suffix}", tmp_path / f"copy{suffix}"
    sink = FileSink(path, {})
    sink.open(SIZE, 10)
    for seq in range(90):
        sink.send(frame(noise(seq), seq))
    shutil.copy(path, copy)
    sink.close()
    pictures = []
    # The last fragment may be cut in the middle, as players know from every interrupted recording.
    with av.open(str(copy)) as container, contextlib.suppress(av.InvalidDataError):
        pictures.extend(picture.to_ndarray(format="bgr24") for picture in container.decode(video=0))
    assert len(pictures) >= 20
    assert len(read_cv2(copy)) >= 20
    assert len(read(path)) == 90


@BOTH
def test_closing_without_a_frame_twice_and_before_opening(tmp_path, suffix):
    sink = FileSink(tmp_path / f"empty{suffix}", {})
    sink.close()
    sink.open(SIZE, 30)
    sink.close()
    sink.close()
    assert list(tmp_path.iterdir()) == [], "a file without a picture plays nowhere"


@BOTH
def test_a_sink_can_be_opened_again(tmp_path, suffix):
    path = tmp_path / f"twice{suffix}"
    sink = FileSink(path, {})
    for count in (5, 3):
        sink.open(SIZE, 30)
        for seq in range(count):
            sink.send(frame(bars(), seq))
        sink.close()
    assert len(read(path)) == 3


@pytest.mark.parametrize("name", ["out.avi", "out", ".mp4", "out.mp4.txt", "mp4"])
def test_a_suffix_that_names_no_format(name):
    with pytest.raises(UsageError, match="suffix") as caught:
        FileSink(Path(name), {})
    assert ".mkv" in caught.value.fix
    assert ".mp4" in caught.value.fix


@BOTH
def test_a_folder_that_is_not_there(tmp_path, suffix):
    with pytest.raises(UsageError, match="no folder"):
        FileSink(tmp_path / "none" / f"x{suffix}", {}).open(SIZE, 30)
    assert not (tmp_path / "none").exists()


@BOTH
def test_a_folder_in_place_of_the_file(tmp_path, suffix):
    (tmp_path / f"x{suffix}").mkdir()
    with pytest.raises(UsageError, match="it is a folder"):
        FileSink(tmp_path / f"x{suffix}", {}).open(SIZE, 30)


@BOTH
@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_folder_that_may_not_be_written(tmp_path, suffix, code, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(code, "no")

    # Not chmod: root may write everywhere.
    monkeypatch.setattr(av, "open", refuse)
    with pytest.raises(UsageError, match="cannot be written") as caught:
        FileSink(tmp_path / f"x{suffix}", {}).open(SIZE, 30)
    assert "may write" in caught.value.fix


@BOTH
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk to write to")
def test_a_full_disk(tmp_path, suffix):
    path = tmp_path / f"full{suffix}"
    path.symlink_to("/dev/full")
    sink = FileSink(path, {})
    with pytest.raises(DeviceError, match="takes no more") as caught:
        try:
            sink.open((640, 360), 30)
            for seq in range(200):
                sink.send(frame(noise(seq, (640, 360)), seq))
        finally:
            sink.close()
    assert "space" in caught.value.fix


@BOTH
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk to write to")
def test_a_disk_that_is_full_at_the_very_end(tmp_path, suffix):
    """Few enough frames that nothing is written before the file is finished, or the start says it."""
    path = tmp_path / f"full{suffix}"
    path.symlink_to("/dev/full")
    sink = FileSink(path, {})
    with pytest.raises(DeviceError, match="takes no more"):
        sink.open(SIZE, 30)
        sink.send(frame(bars()))
        sink.close()
    sink.close()


@BOTH
@pytest.mark.parametrize("size", [(191, 64), (192, 63), (0, 0)])
def test_odd_sizes(tmp_path, suffix, size):
    with pytest.raises(UsageError, match="even"):
        FileSink(tmp_path / f"x{suffix}", {}).open(size, 30)
    assert list(tmp_path.iterdir()) == []


@BOTH
def test_a_frame_of_another_size_and_sending_while_closed(tmp_path, suffix):
    sink = FileSink(tmp_path / f"x{suffix}", {})
    with pytest.raises(ValueError, match="open"):
        sink.send(frame(bars()))
    sink.open(SIZE, 30)
    with pytest.raises(ValueError, match="192"):
        sink.send(frame(bars((96, 64))))
    sink.send(frame(bars()))
    sink.close()
    assert len(read(tmp_path / f"x{suffix}")) == 1


@BOTH
def test_a_frame_may_be_painted_over_once_it_was_sent(tmp_path, suffix):
    """Pooled buffers are used again: the encoder must not look at them later."""
    path = tmp_path / f"x{suffix}"
    sink = FileSink(path, {})
    sink.open(SIZE, 30)
    image = np.empty((64, 192, 3), np.uint8)
    for i in range(12):
        image.setflags(write=True)
        image[:] = 20 * i + 10
        sink.send(frame(image, i))
    sink.close()
    levels = [float(picture.mean()) for picture in read(path)]
    assert np.abs(np.array(levels) - [20 * i + 10 for i in range(12)]).max() < 5


@BOTH
def test_a_recording_begins_with_the_first_picture_and_keeps_later_slates(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    sink = FileSink(path, {}, from_first_picture=True)
    sink.open(SIZE, 30.0)
    for seq, kind in enumerate([Kind.SLATE, Kind.SLATE, Kind.VEILED, Kind.SWAPPED, Kind.SLATE, Kind.SWAPPED]):
        sink.send(replace(frame(bars(SIZE), seq), kind=kind))
    sink.close()
    assert len(read(path)) == 4


@BOTH
def test_a_recording_of_slates_only_leaves_no_file(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    sink = FileSink(path, {}, from_first_picture=True)
    sink.open(SIZE, 30.0)
    sink.send(replace(frame(bars(SIZE), 0), kind=Kind.SLATE))
    sink.close()
    assert not path.exists()


@BOTH
def test_offline_every_frame_is_kept(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    sink = FileSink(path, {})
    sink.open(SIZE, 30.0)
    for seq in range(3):
        sink.send(replace(frame(bars(SIZE), seq), kind=Kind.SLATE))
    sink.close()
    assert len(read(path)) == 3
