from __future__ import annotations

from pathlib import Path

import pytest

from engines.errors import UsageError
from realtime.clock import ManualClock
from realtime.sources import camera as camera_module
from realtime.sources import file as file_module
from realtime.sources import portrait as portrait_module
from realtime.sources.open import make_source
from realtime.sources.pattern import PatternSource


def make(spec: str, **more):
    return make_source(spec, **{"size": (640, 360), "fps": 24.0, "clock": ManualClock(), **more})


@pytest.fixture
def made(monkeypatch):
    """What the constructors were given."""
    calls: dict[str, tuple[tuple, dict]] = {}

    def recorder(name):
        def construct(*args, **named):
            calls[name] = (args, named)
            return name

        return construct

    monkeypatch.setattr(camera_module, "CameraSource", recorder("camera"))
    monkeypatch.setattr(file_module, "VideoFileSource", recorder("file"))
    monkeypatch.setattr(portrait_module, "PortraitSource", recorder("portrait"))
    return calls


@pytest.mark.parametrize(
    ("spec", "which"),
    [
        ("camera", None),
        ("camera:", None),
        ("camera:2", "2"),
        ("camera:/dev/video4", "/dev/video4"),
        ("camera:HD Webcam: C920", "HD Webcam: C920"),
    ],
)
def test_cameras(made, spec, which):
    assert make(spec) == "camera"
    assert made["camera"][0][:3] == (which, (640, 360), 24.0)


@pytest.mark.parametrize(
    "path",
    [
        "clip.mp4", "/a b/c.mp4", r"C:\Users\Jürgen\clip.mp4", "C:/x.mp4",
        "a:b:c.mp4", "视频/🎬.mp4", " leading.mp4", "pattern",
    ],
)  # fmt: skip
def test_paths_are_taken_as_they_are(made, path):
    assert make(f"file:{path}") == "file"
    (given, _clock), named = made["file"]
    assert given == Path(path)
    assert named == {"size": (640, 360), "still_fps": 24.0}
    assert make(f"portrait:{path}") == "portrait"
    assert made["portrait"][0][0] == Path(path)


def test_portrait_without_a_path(made):
    for spec in ("portrait", "portrait:"):
        make(spec, seed=9)
        args, named = made["portrait"]
        assert args[:3] == (None, (640, 360), 24.0)
        assert named["seed"] == 9


def test_the_users_folder(made, monkeypatch):
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("USERPROFILE", "/home/u")
    make("file:~/clip.mp4")
    assert made["file"][0][0] == Path("/home/u/clip.mp4")
    make("file:~nobody/clip.mp4")
    assert made["file"][0][0] == Path("~nobody/clip.mp4")


def test_nothing_asked_for(made):
    source = make("pattern", size=None, fps=None)
    assert isinstance(source, PatternSource) and source.size == (1280, 720) and source.fps == 30.0
    make("file:a.mp4", size=None, fps=None)
    assert made["file"][1]["size"] is None


def test_nothing_is_opened(tmp_path):
    for spec in ("camera:no such camera", f"file:{tmp_path / 'gone.mp4'}", "pattern", "portrait"):
        source = make(spec)
        assert source.name
        source.close()


@pytest.mark.parametrize(
    "spec", ["", "webcam", "rtsp://host/stream", "Camera", "pattern:fast", "filex", ":", "mp4"]
)
def test_unknown_ones_list_those_there_are(spec):
    with pytest.raises(UsageError) as caught:
        make(spec)
    for kind in ("camera[:INDEX|NAME|PATH]", "file:PATH", "portrait[:PATH]", "pattern"):
        assert kind in str(caught.value)


def test_a_bare_path_is_told_what_to_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("clip").touch()
    for spec in ("clip", "clip.mp4", "./x/clip.mp4", r"C:\x\clip.mp4", str(tmp_path / "clip")):
        with pytest.raises(UsageError) as caught:
            make(spec)
        assert f"file:{spec}" in caught.value.fix


@pytest.mark.parametrize("spec", ["/dev/video0", "0", "3"])
def test_a_bare_camera_is_told_what_to_say(spec):
    with pytest.raises(UsageError) as caught:
        make(spec)
    assert f"camera:{spec}" in caught.value.fix


@pytest.mark.parametrize("spec", ["file:", "file:a\0b", "portrait:\0", "\0", "camera:\0"])
def test_no_path_at_all(spec):
    with pytest.raises(UsageError):
        make(spec)
