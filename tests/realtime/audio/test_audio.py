"""Sound: where it is put, who listens, and what is wrong with a microphone."""

from __future__ import annotations

import threading
import wave

import numpy as np
import pytest

from engines.errors import DeviceError, UsageError
from realtime.audio.align import Aligner
from realtime.audio.base import RATE, AudioBlock
from realtime.audio.decode import FileAudio, Microphone
from realtime.audio.feed import AudioFeed
from realtime.audio.open import open_audio
from realtime.clock import ManualClock, StopFlag
from tests.realtime.fakes import MS, SECOND, SoloClock

BLOCK = 480


def ramp(first, count):
    """Sound whose samples say which they are."""
    at = np.arange(first, first + count, dtype=np.float32) / (1 << 22)
    return np.stack([at, at], axis=1)


def feed_evenly(aligner, seconds, *, speed=1.0, delay_ns=0, jitter=0.0, lost=(), late=()):
    """Blocks of a sound card whose clock goes ``speed`` times as fast, pulled ten milliseconds at a time."""
    rng = np.random.default_rng(1)
    got, heard = [], 0.0
    for n in range(round(seconds * 100)):
        now = n * 10 * MS
        if n not in lost:
            captured = heard / RATE / speed * SECOND + rng.normal() * jitter * SECOND
            aligner.push(AudioBlock(ramp(round(heard), BLOCK), round(captured)), delay_ns)
        heard += BLOCK
        first, samples = aligner.pull(now + 10 * MS)
        got.append((first, samples))
    return got


def joined(got):
    """All samples, and that they follow each other."""
    place = got[0][0]
    for first, samples in got:
        assert first == place
        place += len(samples)
    return np.concatenate([samples for _, samples in got])


def test_sound_that_is_on_time_passes_untouched():
    out = joined(feed_evenly(Aligner(0), 2))
    np.testing.assert_array_equal(out[:RATE], ramp(0, RATE))


@pytest.mark.parametrize("delay", [0, 33, 80, 250, 1000])
def test_sound_is_delayed_by_what_the_picture_is(delay):
    out = joined(feed_evenly(Aligner(0), 3, delay_ns=delay * MS))
    shift = delay * RATE // 1000
    loud = np.flatnonzero(out[:, 0] > 0)
    assert abs(loud[0] - 1 - shift) <= 2
    # A second later it is in its place to the millisecond, whichever way it came there.
    last = len(out) - 1
    assert abs(last - shift - out[last, 0] * (1 << 22)) < RATE // 1000


@pytest.mark.parametrize("speed", [0.999, 0.9999, 1.0001, 1.001])
def test_a_sound_card_that_drifts_is_followed_unheard(speed):
    aligner = Aligner(0)
    out = joined(feed_evenly(aligner, 60, speed=speed, delay_ns=100 * MS))
    assert aligner.jumps == 0
    index = out[:, 0] * (1 << 22)
    place = np.arange(len(out)) - RATE // 10
    late = slice(-RATE, None)
    assert np.abs(place[late] - index[late] / speed).max() < RATE * 0.002
    # No click: neighbours stay neighbours.
    assert np.abs(np.diff(index[RATE:])).max() < 2


def test_jitter_of_a_driver_does_not_become_jumps():
    aligner = Aligner(0)
    joined(feed_evenly(aligner, 20, jitter=0.008, delay_ns=100 * MS))
    assert aligner.jumps == 0


def test_what_is_lost_becomes_silence_of_the_same_length():
    aligner = Aligner(0)
    out = joined(feed_evenly(aligner, 5, lost=range(100, 200), delay_ns=100 * MS))
    assert aligner.jumps >= 1
    assert not out[RATE + RATE // 5 : 2 * RATE].any()
    last = len(out) - 1
    assert abs(last - RATE // 10 - out[last, 0] * (1 << 22)) < RATE // 500


def test_a_microphone_that_says_nothing_does_not_hold_up_the_picture():
    aligner = Aligner(0)
    got = [aligner.pull(n * 100 * MS) for n in range(1, 50)]
    out = joined(got)
    assert abs(len(out) - (4.9 - 0.4) * RATE) < 10
    assert not out.any()


def test_a_delay_that_grows_and_shrinks_is_followed():
    aligner, got = Aligner(0), []
    for n in range(3000):
        delay = (50 if n < 1000 else 90 if n < 2000 else 60) * MS
        aligner.push(AudioBlock(ramp(n * BLOCK, BLOCK), n * 10 * MS), delay)
        got.append(aligner.pull((n + 1) * 10 * MS))
    out = joined(got)
    last = len(out) - 1
    assert abs(last - 0.06 * RATE - out[last, 0] * (1 << 22)) < RATE // 500
    assert aligner.jumps == 0


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros((0, 2), np.float32),
        np.full((480, 2), np.nan, np.float32),
        np.full((1, 2), np.inf, np.float32),
    ],
)
def test_what_is_no_sound(samples):
    aligner = Aligner(0)
    aligner.push(AudioBlock(samples, 0), 0)
    _, out = aligner.pull(SECOND)
    assert np.isfinite(out).all()


def test_times_far_off_do_not_take_memory():
    aligner = Aligner(0)
    for captured in (10**18, 0, -(10**18), 10**15):
        aligner.push(AudioBlock(ramp(0, BLOCK), captured), 0)
        assert aligner._tail - aligner._head <= 6 * RATE
    _, out = aligner.pull(10**16)
    assert len(out) <= 6 * RATE


# -- who listens ------------------------------------------------------------------------------------------------


class FakeAudio:
    """Gives blocks until told to stop; ``fails`` is how often it cannot be opened first."""

    name = "fake"

    def __init__(self, stop, gate, fails=0):
        self.stop, self.gate, self.fails = stop, gate, fails
        self.opened = self.closed = 0

    def open(self):
        self.opened += 1
        if self.opened <= self.fails:
            raise DeviceError("The microphone is not there.", "Plug it in.")

    def read(self):
        if self.stop:
            return None
        self.gate.wait(0.002)
        return AudioBlock(ramp(0, 10), 0)

    def close(self):
        self.closed += 1


def until(true):
    for _ in range(2000):
        if true():
            return True
        threading.Event().wait(0.005)
    return False


def test_one_microphone_for_all_who_listen():
    made, gate = [], threading.Event()

    def make(stop):
        made.append(FakeAudio(stop, gate))
        return made[-1]

    feed = AudioFeed(make, ManualClock())
    one, two = feed.listen(), feed.listen()
    assert until(one.take)
    assert until(two.take)
    assert len(made) == 1
    feed.leave(one)
    assert made[0].closed == 0
    assert until(two.take)
    feed.leave(two)
    feed.leave(two)
    assert made[0].closed == 1
    three = feed.listen()
    assert until(three.take)
    assert len(made) == 2
    feed.leave(three)


def test_who_does_not_take_keeps_only_the_newest():
    feed = AudioFeed(lambda stop: FakeAudio(stop, threading.Event()), ManualClock())
    ear = feed.listen()
    feed.leave(ear)
    for n in range(10_000):
        ear.hear(AudioBlock(ramp(0, 1), n))
    blocks = ear.take()
    assert len(blocks) <= 256
    assert blocks[-1].captured_ns == 9_999


def test_a_microphone_that_fails_is_named_once_and_tried_again(caplog):
    clock, gate = ManualClock(), threading.Event()
    made = []

    def make(stop):
        made.append(FakeAudio(stop, gate, fails=3))
        return made[-1]

    feed = AudioFeed(make, clock)
    ear = feed.listen()
    for tries, pause in enumerate((1, 2, 5), 1):
        assert until(lambda tries=tries: made[0].opened == tries)
        clock.settle(1)
        assert not ear.take()
        clock.advance(pause * SECOND)
    assert until(ear.take)
    feed.leave(ear)
    assert made[0].opened == 4
    assert caplog.text.count("The microphone is not there.") == 1


# -- files and microphones --------------------------------------------------------------------------------------


def write_wav(path, seconds, rate=RATE, channels=2):
    count = round(seconds * rate)
    data = (np.sin(np.arange(count) * 0.05) * 12000).astype("<i2").repeat(channels)
    with wave.open(str(path), "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(data.tobytes())
    return path


@pytest.mark.parametrize(("rate", "channels"), [(48_000, 2), (44_100, 1), (8_000, 2)])
def test_a_file_is_heard_at_its_speed_and_again(tmp_path, rate, channels):
    clock = SoloClock()
    audio = FileAudio(write_wav(tmp_path / "a.wav", 0.5, rate, channels), clock, StopFlag(clock))
    audio.open()
    total = 0
    for _ in range(120):
        block = audio.read()
        assert block.captured_ns == total * SECOND // RATE
        total += len(block.samples)
        assert clock.now_ns() == pytest.approx(total * SECOND // RATE, abs=2)
        assert np.abs(block.samples).max() <= 0.5
    assert total > RATE, "more than its half second"
    audio.close()
    audio.close()


def test_a_file_lets_go_when_told(tmp_path):
    clock = ManualClock()
    stop = StopFlag(clock)
    audio = FileAudio(write_wav(tmp_path / "a.wav", 0.5), clock, stop)
    audio.open()
    stop.set()
    assert audio.read() is None
    audio.close()


def test_files_without_sound_are_named(tmp_path):
    clock = ManualClock()
    junk = tmp_path / "junk.wav"
    junk.write_bytes(b"RIFF" + bytes(range(256)) * 9)
    empty = write_wav(tmp_path / "empty.wav", 0)
    for path in (junk, empty, tmp_path, tmp_path / "none.wav"):
        audio = FileAudio(path, clock, StopFlag(clock))
        with pytest.raises(UsageError, match=path.name):
            audio.open()
            audio.read()
        audio.close()


@pytest.mark.parametrize("platform", ["linux", "win32", "darwin", "plan9"])
def test_a_microphone_that_is_not_there_is_named(platform):
    clock = ManualClock()
    microphone = Microphone("no such one", clock, StopFlag(clock), platform)
    with pytest.raises(DeviceError) as caught:
        microphone.open()
    assert "microphone" in str(caught.value)
    microphone.close()


def test_windows_has_no_usual_microphone():
    clock = ManualClock()
    with pytest.raises(DeviceError, match="Which"):
        Microphone(None, clock, StopFlag(clock), "win32").open()


def test_specifications(tmp_path):
    clock = ManualClock()
    assert open_audio("none", clock) is None
    assert open_audio("mic", clock) is not None
    assert open_audio("mic:USB: front", clock) is not None
    assert open_audio(f"file:{write_wav(tmp_path / 'a.wav', 0.1)}", clock) is not None
    for wrong in ("", "mic:", "file:", "file", "none:1", "line", "mic: "):
        with pytest.raises(UsageError, match="audio"):
            open_audio(wrong, clock)
    with pytest.raises(UsageError, match="no file"):
        open_audio(f"file:{tmp_path / 'none.wav'}", clock)
