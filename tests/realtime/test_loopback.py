"""From glass to virtual camera: numbers in the pixels, read back by a second process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import realtime.bench.reader as reader
import realtime.cli.bench
from engines.errors import DeviceError
from realtime.bench.loopback import MEMORY, Numbered, measure_loopback
from realtime.bench.measure import Task
from realtime.bench.shared import SharedPicture, SharedSink
from realtime.cli import main
from realtime.clock import ManualClock
from realtime.frame import Frame, Kind
from realtime.pace.stages import STAGES
from realtime.settings.config import BENCH
from realtime.sinks.virtualcam import VirtualCamera
from realtime.sources.pattern import PatternSource, decode_number
from tests.realtime.fakes import MS, SECOND
from tests.realtime.test_bench import GOOD, TINY, made

SIZE = (320, 240)


@pytest.fixture
def picture():
    made = SharedPicture.make()
    yield made
    made.close()


def pattern(clock=None):
    source = PatternSource(SIZE, 30.0, clock or ManualClock())
    source.open()
    return source


def send(sink, image):
    sink.send(Frame(image, 0, 0, Kind.SWAPPED))


def test_a_number_goes_through_shared_memory(picture):
    other = SharedPicture(picture.path)
    sink, source = SharedSink(picture), Numbered(pattern())
    sink.open(SIZE, 30)
    assert other.rows(120) is None
    for n in range(5):
        send(sink, source.read().image)
        rows = other.rows(120)
        assert decode_number(np.broadcast_to(rows[..., None], (*rows.shape, 3))) == n
    assert other.seq() == 10
    other.close()
    sink.close()
    with pytest.raises(ValueError, match="open"):
        send(sink, source.read().image)


def test_a_picture_that_is_being_written_is_not_looked_at(picture):
    other = SharedPicture(picture.path)
    picture.write(np.zeros((360, 320), np.uint8))
    assert other.rows(120) is not None
    picture._head[3] += 1
    assert other.rows(120) is None
    other.close()


@pytest.mark.parametrize("size", [(0, 240), (320, 0), (-1, 240), (99999, 240), (320, 1 << 40)])
def test_a_size_that_cannot_be_is_not_believed(picture, size):
    picture.write(np.zeros((360, 320), np.uint8))
    picture._head[1], picture._head[2] = size
    assert picture.rows(120) is None


def test_what_is_no_shared_picture_is_refused(tmp_path):
    with pytest.raises(DeviceError, match="cannot be used"):
        SharedPicture(tmp_path / "none")
    with (tmp_path / "empty").open("wb") as file:
        file.truncate(1 << 26)
    with pytest.raises(DeviceError, match="no shared picture"):
        SharedPicture(tmp_path / "empty")
    (tmp_path / "short").write_bytes(b"x")
    with pytest.raises(DeviceError, match="cannot be used"):
        SharedPicture(tmp_path / "short")


def test_the_memory_is_for_this_user_only_and_gone_when_closed():
    made = SharedPicture.make()
    path = made.path
    assert path.stat().st_mode & 0o077 == 0
    made.close()
    made.close()
    assert not path.exists()


def test_the_reader_notes_each_number_when_it_is_seen_first():
    source, at = pattern(), iter(range(100))
    images = [source.read().image.copy() for _ in range(3)]
    shown = [images[0], images[0], np.zeros_like(images[0]), images[1], images[1], images[2]]
    pictures = ((image, next(at)) for image in shown)
    assert reader.watch(pictures, lambda: False) == [(0, 0), (1, 3), (2, 5)]


def test_the_reader_of_memory_gives_each_picture_once_and_ends_when_told(picture):
    sink, source = SharedSink(picture), pattern()
    sink.open(SIZE, 30)
    looks, seen = iter(range(1000)), []

    def ended():
        # Asked twice for every picture: before it is looked for, and after it was noted.
        if next(looks) < 10:
            send(sink, source.read().image)
        else:
            picture.stop()
        return picture.stopped

    for image, at in reader.from_memory(picture, ended):
        seen.append((decode_number(image), at))
    numbers = [number for number, _ in seen]
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= 9


class FakeCapture:
    """A device that is there at the third try and gives a picture every second time."""

    tries = 0

    def __init__(self, device):
        type(self).tries += 1
        self.source, self.calls = pattern(), 0

    def isOpened(self):
        return type(self).tries >= 3

    def grab(self):
        self.calls += 1
        return self.calls % 2 == 0

    def retrieve(self):
        return True, self.source.read().image

    def release(self):
        pass


def test_the_reader_of_a_device_waits_until_it_is_one(monkeypatch):
    monkeypatch.setattr(reader, "open_capture", FakeCapture)
    monkeypatch.setattr(reader, "_RETRY_S", 0)
    pictures = reader.from_device("/dev/video10", lambda: False)
    assert [decode_number(next(pictures)[0]) for _ in range(4)] == [0, 1, 2, 3]
    pictures.close()
    assert list(reader.from_device("/dev/none", lambda: True)) == []


def test_a_reader_whose_memory_is_gone_says_so(tmp_path, capsys):
    assert reader.main([str(tmp_path / "none")]) == 1
    assert "cannot be used" in capsys.readouterr().err


def test_the_reader_ends_when_told_and_prints_what_it_saw(picture):
    """As a real process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "realtime.bench.reader", str(picture.path)], stdout=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        while not picture.ready and time.monotonic() < deadline:
            time.sleep(0.01)
        sink, source = SharedSink(picture), pattern()
        sink.open(SIZE, 30)
        before = time.monotonic_ns()
        send(sink, source.read().image)
        time.sleep(0.2)
        picture.stop()
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    ((number, at),) = [map(int, row.split()) for row in out.splitlines()]
    assert number == 0
    assert before <= at <= time.monotonic_ns()


def camera(path, ready=True):
    return VirtualCamera(path, "a camera", "v4l2loopback", ready, "" if ready else "busy")


class FakeReader:
    """Stands in for the second process: says what it is told to have seen."""

    def __init__(self, out="", code=0, err=""):
        self.out, self.returncode, self.err, self.commands = out, code, err, []

    def __call__(self, command, **kw):
        self.commands.append(command)
        return self

    def communicate(self, timeout=None):
        return self.out, self.err


@pytest.fixture
def seen(monkeypatch):
    def prepare(*rows, **kw):
        fake = FakeReader("".join(f"{n} {at}\n" for n, at in rows), **kw)
        monkeypatch.setattr("realtime.bench.loopback.subprocess.Popen", fake)
        return fake

    return prepare


def loop(asked="", cameras=(), frames=20, age_ms=10.0):
    """100 frames were captured, a frame a period; the last ``frames`` were measured."""
    asked_for = []

    def measure(task, watch, sinks):
        asked_for.append((task, sinks))
        clock = ManualClock()
        source = watch(PatternSource(SIZE, 30.0, clock))
        source.open()
        for _ in range(100):
            source.read()
            clock.advance(SECOND // 30)
        result = made(dict.fromkeys(STAGES, age_ms / len(STAGES)), frames=frames)
        return replace(result, size=SIZE)

    _, found = measure_loopback(Task(BENCH, 1.0), asked, measure, lambda: cameras)
    return asked_for[0], found


def at(n, ms):
    return n, n * (SECOND // 30) + round(ms * MS)


def test_ages_are_of_the_frames_that_were_measured(seen):
    seen(*[at(n, 500) for n in range(80)], *[at(n, 12) for n in range(80, 100)])
    _, found = loop()
    assert (found.seen, found.backwards, found.through) == (20, 0, MEMORY)
    assert found.p50 == found.max == pytest.approx(12)
    assert found.agrees


def test_what_does_not_agree_with_frame_age_and_what_comes_out_of_order_is_said(seen):
    seen(*[at(n, 80) for n in (81, 80, 83, 82, 85)])
    _, found = loop()
    assert found.backwards == 2
    assert not found.agrees


def test_it_goes_through_the_first_virtual_camera_that_is_ready(seen):
    process = seen(at(90, 12))
    cameras = [camera("/dev/video8", ready=False), camera("OBS Virtual Camera"), camera("/dev/video9")]
    (task, sinks), found = loop(cameras=cameras)
    assert task.config.sink == ("virtualcam:/dev/video9",)
    assert not sinks
    assert process.commands[0][-1] == "/dev/video9"
    assert "-P" in process.commands[0]
    assert found.through == "/dev/video9"
    (task, sinks), found = loop(asked="/dev/video3", cameras=cameras)
    assert task.config.sink == ("virtualcam:/dev/video3",)


def test_without_one_it_goes_through_memory(seen):
    process = seen(at(90, 12))
    (task, sinks), _ = loop(cameras=[camera("/dev/video8", ready=False)])
    assert task.config.sink == ()
    assert [sink.name for sink in sinks] == [MEMORY]
    assert "/dev/video8" not in process.commands[0]


@pytest.mark.parametrize(("rows", "kw", "says"), [
    ([], {}, "No frame was seen"), ([at(5, 12)], {}, "No frame was seen"),
    ([], {"code": 1, "err": "Traceback\nno such device"}, "no such device"), ([], {"code": -9}, "exit code -9"),
])  # fmt: skip
def test_what_was_not_seen_is_no_figure(seen, rows, kw, says):
    seen(*rows, **kw)
    with pytest.raises(DeviceError, match=says):
        loop()


def test_it_is_in_the_document_and_on_the_terminal(seen, monkeypatch, capsys):
    seen(*[at(n, 2000) for n in range(100)])

    def fake(task, progress, watch, more_sinks):
        source = watch(pattern())
        for _ in range(100):
            source.read()
        return made(GOOD, 15.0, frames=20)

    monkeypatch.setattr(realtime.cli.bench, "measure", fake)
    monkeypatch.setattr("realtime.bench.loopback.list_virtual_cameras", list)
    assert main([*TINY, "--loopback", "/dev/video9", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["loopback"]
    assert set(document) == {
        "through", "seen", "backwards", "p50_ms", "p95_ms", "p99_ms", "max_ms", "beyond_ms", "agrees",
    }  # fmt: skip
    assert document["agrees"] is False
    assert main([*TINY, "--loopback", "/dev/video9"]) == 0
    assert "UNLIKE what frame age says" in capsys.readouterr().out


@pytest.mark.slow
def test_a_real_second_process_agrees_with_frame_age(monkeypatch, capsys):
    monkeypatch.setattr("realtime.bench.loopback.list_virtual_cameras", list)
    assert (
        main(["bench", "--size", "320x240", "--fps", "15", "--seconds", "1.5", "--loopback", "--json"]) == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert document["loopback"]["through"] == MEMORY
    assert document["loopback"]["seen"] >= 5
    assert document["loopback"]["backwards"] == 0
