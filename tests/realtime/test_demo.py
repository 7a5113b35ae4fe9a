"""The demo, its moments, and the picture it leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

import realtime.demo
from engines.analysis.source import SourceReader
from engines.errors import DeviceError, UsageError
from realtime.cli import main
from realtime.demo import PICTURE, VIDEO, folder_for, is_bare, with_sink, write_picture
from realtime.frame import Frame, Kind
from realtime.moments import Moments, MomentsSink, Pair, WatchedSource
from realtime.picture import flattery, portrait, save, side_by_side
from realtime.settings.config import DEMO
from realtime.sinks.virtualcam import VirtualCamera

ASSETS = Path(realtime.demo.__file__).parent / "assets"


@pytest.fixture(scope="module")
def face():
    reader = SourceReader()
    yield reader.read(ASSETS / "astronaut.png")
    reader.close()


def grey(level: int) -> np.ndarray:
    return np.full((4, 6, 3), level, np.uint8)


def test_moments_are_spread_and_their_live_side_is_from_before():
    moments = Moments(every=10, most=3)
    for seq in range(100):
        frame = Frame(grey(1), seq, 0)
        moments.live(frame)
        frame.image[:] = 2  # painted over in place
        moments.shown(frame.shown_as(Kind.SWAPPED))
    assert len(moments.pairs) == 3
    assert all((pair.live == 1).all() and (pair.swapped == 2).all() for pair in moments.pairs)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.SWAPPED])
def test_only_trusted_moments_are_kept(kind):
    moments = Moments(every=1, most=3)
    moments.live(Frame(grey(1), 0, 0))
    moments.shown(Frame(grey(2), 0, 0, kind))
    assert not moments.pairs


def test_frames_that_never_come_out_do_not_pile_up():
    moments = Moments(every=1, most=3)
    for seq in range(1000):
        moments.live(Frame(grey(1), seq, 0))
    assert len(moments._waiting) <= moments._WAITING
    moments.shown(Frame(grey(2), 999, 0, Kind.SWAPPED))
    assert len(moments.pairs) == 1


def test_a_watched_source_is_the_source():
    class Source:
        name, device, size, fps = "one", False, (2, 2), 10.0
        left, opened, closed = 2, False, False

        def open(self):
            self.name, self.size, self.opened = "one (opened)", (6, 4), True

        def read(self):
            self.left -= 1
            return Frame(grey(1), 1 - self.left, 0) if self.left >= 0 else None

        def close(self):
            self.closed = True

    source, moments = Source(), Moments(1, 5)
    watched = WatchedSource(source, moments)
    watched.open()
    assert (watched.name, watched.size, watched.fps, watched.device) == ("one (opened)", (6, 4), 10.0, False)
    sink = MomentsSink(moments)
    while (frame := watched.read()) is not None:
        sink.send(frame.shown_as(Kind.SWAPPED))
    watched.close()
    assert len(moments.pairs) == 2
    assert source.opened
    assert source.closed


def test_the_virtual_camera_is_taken_only_if_it_is_ready(monkeypatch, tmp_path):
    ready = VirtualCamera("/dev/video9", "doppelcam", "v4l2loopback", True, "")
    for cameras, sink in (
        ([ready], "virtualcam"), ([replace(ready, ready=False)], f"file:{tmp_path / VIDEO}"),
        ([], f"file:{tmp_path / VIDEO}"),
    ):  # fmt: skip
        monkeypatch.setattr(realtime.demo, "list_virtual_cameras", lambda cameras=cameras: cameras)
        config, why = with_sink(DEMO, tmp_path, lambda config: "")
        assert (config.sink, why) == ((sink,), "")
    assert with_sink(replace(DEMO, sink=("null",)), tmp_path) == (replace(DEMO, sink=("null",)), "")


def test_one_that_does_not_open_is_passed_over_and_said(monkeypatch, tmp_path):
    """OBS's camera counts as ready wherever OBS is installed."""
    ready = VirtualCamera("OBS Virtual Camera", "OBS Virtual Camera", "obs", True, "")
    monkeypatch.setattr(realtime.demo, "list_virtual_cameras", lambda: [ready])
    config, why = with_sink(DEMO, tmp_path, lambda config: "It was never started.")
    assert (config.sink, why) == ((f"file:{tmp_path / VIDEO}",), "It was never started.")
    refused = DeviceError("There is no virtual camera.", "Make one.")

    class Sink:
        closed = 0

        def __init__(self, device, clock):
            assert device is None

        def open(self, size, fps):
            assert (size, fps) == ((1280, 720), 30.0)
            if refused is not None:
                raise refused

        def close(self):
            Sink.closed += 1

    monkeypatch.setattr(realtime.demo, "VirtualCamSink", Sink)
    assert with_sink(DEMO, tmp_path)[1] == "There is no virtual camera."
    refused = None
    assert with_sink(DEMO, tmp_path)[0].sink == ("virtualcam",)
    assert Sink.closed == 2


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    assert folder_for(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file"):
        folder_for(tmp_path / "file")


def test_open_eyes_and_a_straight_look_are_more_flattering(face):
    points = face.points
    shut = points.copy()
    for upper, lower in ((159, 145), (386, 374)):
        shut[upper] = shut[lower]
    turned = points.copy()
    turned[1, 0] += 0.4 * abs(points[263, 0] - points[33, 0])
    agape = points.copy()
    agape[14, 1] += 60
    best = flattery(points)
    assert best > flattery(shut)
    assert best > flattery(turned)
    assert best > flattery(agape)
    assert flattery(np.zeros_like(points)) == 0


@pytest.mark.parametrize("where", [(0.0, 0.0), (1.0, 1.0), (0.5, 0.5)])
@pytest.mark.parametrize("size", [(64, 64), (320, 240), (1920, 1080), (200, 900)])
def test_a_panel_stays_within_the_picture(size, where):
    image = np.zeros((size[1], size[0], 3), np.uint8)
    x, y = size[0] * where[0], size[1] * where[1]
    points = np.float32([[x - 20, y - 20, 0], [x + 20, y + 20, 0]])
    assert portrait(image, points).shape == (750, 600, 3)


def test_the_picture_shows_live_swapped_and_photo(face, tmp_path):
    swapped = face.image.copy()
    swapped[:, :, 0] = 255
    picture = side_by_side([Pair(face.image, swapped)], face, "a note")
    save(picture, tmp_path / "a ü.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a ü.png"]
    shown = cv2.imdecode(np.fromfile(tmp_path / "a ü.png", np.uint8), cv2.IMREAD_COLOR)
    left, middle, right = (shown[200:600, x : x + 400].reshape(-1, 3).mean(0) for x in (160, 790, 1420))
    assert abs(left - right).max() < 1
    assert middle[0] > 250
    assert abs(middle[1:] - left[1:]).max() < 1


def test_who_is_before_a_camera_is_not_left_bare_in_the_picture(face):
    assert not is_bare("camera")
    assert not is_bare("camera:/dev/video0")
    assert all(is_bare(source) for source in ("portrait", "portrait:a.png", "file:camera.mp4"))
    pair = Pair(face.image, face.image)
    bare, veiled = (np.asarray(side_by_side([pair], face, "", bare)) for bare in (True, False))
    panel = (slice(80, 780), slice(80, 640))
    # Cells as large as an eighth of the panel have no features of anybody.
    sharp = [
        cv2.Laplacian(cv2.cvtColor(one[panel], cv2.COLOR_RGB2GRAY), cv2.CV_64F).var()
        for one in (bare, veiled)
    ]
    assert sharp[1] < sharp[0] / 8
    rest = (slice(80, 780), slice(700, 1900))
    assert (bare[rest] == veiled[rest]).all()


def test_there_is_no_picture_of_nobody(face, tmp_path):
    empty = np.zeros((240, 320, 3), np.uint8)
    assert side_by_side([Pair(empty, empty)], face, "") is None
    assert side_by_side([], face, "") is None
    target = tmp_path / "none.png"
    assert not write_picture([Pair(empty, empty)], ASSETS / "hopper.jpg", "", target)
    assert not target.exists()


def test_a_picture_that_cannot_be_written_is_said(face, tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        write_picture([Pair(face.image, face.image)], ASSETS / "hopper.jpg", "", tmp_path / "no" / "x.png")


@pytest.mark.slow
def test_the_demo_leaves_a_video_and_a_picture_and_ends_by_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(realtime.demo, "list_virtual_cameras", list)
    arguments = ["demo", "--size", "320x240", "--fps", "15", "--duration", "1.5", "--output", str(tmp_path)]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "frame age" in out
    assert VIDEO in out
    assert PICTURE in out
    assert "CPUExecutionProvider" in err
    assert {path.name for path in tmp_path.iterdir()} == {VIDEO, PICTURE}
    import av

    with av.open(str(tmp_path / VIDEO)) as video:
        assert sum(1 for _ in video.decode(video=0)) >= 10


def test_a_demo_without_a_face_says_so(tmp_path, capsys):
    arguments = ["demo", "--source", "pattern", "--size", "320x240", "--duration", "0.3", "--sink", "null"]
    assert main([*arguments, "--output", str(tmp_path)]) == 1
    assert "before a face was swapped" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
