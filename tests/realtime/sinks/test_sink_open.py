from pathlib import Path

import pytest

from engines.errors import UsageError
from realtime.clock import ManualClock
from realtime.pace.budget import Meter
from realtime.sinks.file import FileSink
from realtime.sinks.null import NullSink
from realtime.sinks.open import open_sink
from realtime.sinks.preview import PreviewSink
from realtime.sinks.spare import SpareSink
from realtime.sinks.streams.stream import StreamSink
from realtime.sinks.virtualcam import VirtualCamSink
from tests.realtime.sinks.pictures import bars, frame


def build(spec):
    return open_sink(
        spec, clock=ManualClock(), report=lambda: Meter(0).report(0), metadata={"engine": "mesh"}
    )


@pytest.mark.parametrize(
    ("spec", "kind", "name"),
    [
        ("virtualcam", VirtualCamSink, "virtual camera"),
        ("virtualcam:10", VirtualCamSink, "virtual camera 10"),
        ("virtualcam:/dev/video10", VirtualCamSink, "virtual camera /dev/video10"),
        ("virtualcam:OBS: my cam", VirtualCamSink, "virtual camera OBS: my cam"),
        ("preview", PreviewSink, "preview on port 8765"),
        ("preview:9000", PreviewSink, "preview on port 9000"),
        ("preview:0", PreviewSink, "preview"),
        ("null", NullSink, "null"),
        (" null ", NullSink, "null"),
    ],
)
def test_every_form_builds_its_sink_and_opens_nothing(spec, kind, name):
    sink = build(spec)
    assert type(sink) is kind
    assert sink.name == name
    sink.close()


@pytest.mark.parametrize(
    "path",
    ["out.mp4", "a b.mkv", "/tmp/take 12:30.mkv", "C:\\Users\\me\\out.mp4", "D:/out.mkv", "file:x.mp4"],
)
def test_a_path_is_taken_as_it_is(path):
    sink = build(f"file:{path}")
    assert type(sink) is FileSink
    assert sink.name == f"file {Path(path)}"


def test_a_path_of_ones_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert build("file:~/out.mp4").name == f"file {tmp_path / 'out.mp4'}"


def test_metadata_reaches_the_file(tmp_path):
    import av

    sink = build(f"file:{tmp_path / 'out.mkv'}")
    sink.open((192, 64), 30)
    sink.send(frame(bars()))
    sink.close()
    with av.open(str(tmp_path / "out.mkv")) as container:
        assert container.metadata["ENGINE"] == "mesh"


@pytest.mark.parametrize("spec", ["stream", "stream:x", "stream:http://example.org/live"])
def test_addresses_that_no_stream_goes_to(spec):
    with pytest.raises(UsageError) as caught:
        build(spec)
    assert "rtmp://" in caught.value.fix


def test_a_stream_is_named_without_its_key():
    sink = build("stream:rtmp://example.org/live/key")
    assert type(sink) is StreamSink
    assert sink.name == "stream rtmp://example.org/live/***"
    sink.close()


def test_a_file_beside_others_may_be_lost():
    sink = open_sink(
        "file:a.mp4", clock=ManualClock(), report=lambda: Meter(0).report(0), metadata={}, beside=True
    )
    assert type(sink) is SpareSink
    assert sink.name == "file a.mp4"


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "obs",
        "Null",
        "null:1",
        "virtualcamera",
        "virtualcam:",
        "file:",
        "preview:",
        "preview: ",
        ":x",
        "/dev/video10",
    ],
)
def test_what_is_no_sink_is_refused_with_what_there_is(spec):
    with pytest.raises(UsageError) as caught:
        build(spec)
    assert caught.value.fix == "There are: virtualcam[:DEVICE], file:PATH, preview[:PORT], stream:URL, null."


def test_a_file_without_a_path():
    with pytest.raises(UsageError, match="path"):
        build("file")


@pytest.mark.parametrize("port", ["x", "-1", "65536", "80.5", "８０", "8765/", "1e3", "99999999999999999999"])
def test_ports_that_are_none(port):
    with pytest.raises(UsageError, match="port"):
        build(f"preview:{port}")
