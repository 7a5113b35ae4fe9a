"""Streams received by real programs on this machine: nginx with its RTMP module, ffmpeg for SRT, aiortc for WHIP."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import av
import numpy as np
import pytest

from realtime.audio.base import RATE, AudioBlock
from realtime.audio.feed import AudioFeed
from realtime.clock import StopFlag, SystemClock
from realtime.frame import Frame, Kind
from realtime.pace.budget import Meter
from realtime.pipeline import Pipeline
from realtime.session import Session
from realtime.shown.guard import Guard
from realtime.sinks.streams.stream import StreamSettings, StreamSink
from tests.realtime.fakes import MS, SECOND, FakeSink, FakeSource, FakeSwapper, FakeTracker
from tests.realtime.sinks.stream_servers import (
    Nginx,
    SrtListener,
    WhipEndpoint,
    free_port,
    needs_aiortc,
    needs_ffmpeg,
    needs_nginx,
    running,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(110)]

SIZE = (320, 240)
FPS = 30
DELAY = 120 * MS
"""How long the pictures of these tests take from capture to the stream."""
EVERY = 60
"""Frames from one flash to the next."""


class Clicks:
    """A microphone that hears a click whenever a frame of :class:`Flashes` is captured that is bright."""

    name = "clicks"

    def __init__(self, start_ns, clock, stop):
        self.start, self.clock, self.stop, self.given = start_ns, clock, stop, 0

    def open(self):
        self.given = (self.clock.now_ns() - self.start) * RATE // SECOND

    def read(self):
        count = 480
        captured = self.start + self.given * SECOND // RATE
        if self.stop.wait_until(captured + count * SECOND // RATE):
            return None
        samples = np.zeros((count, 2), np.float32)
        period = EVERY * RATE // FPS
        at = np.arange(self.given, self.given + count) % period
        samples[at < 240] = 0.8
        self.given += count
        return AudioBlock(samples, captured)

    def close(self):
        pass


def play(sink, seconds, start_ns, meanwhile=lambda: None):
    """Frames of which every 60th is bright, sent 120 ms after their capture."""
    clock = SystemClock()
    dark, bright = np.zeros((*SIZE[::-1], 3), np.uint8), np.full((*SIZE[::-1], 3), 255, np.uint8)
    stop, first = StopFlag(clock), (clock.now_ns() - start_ns) * FPS // SECOND
    for n in range(first, first + round(seconds * FPS)):
        captured = start_ns + n * SECOND // FPS
        stop.wait_until(captured + DELAY)
        sink.send(Frame(bright if n % EVERY == 0 else dark, n, captured, Kind.SWAPPED))
        meanwhile()


def flashes_and_clicks(media):
    """Seconds of presentation of each, by decoding."""
    with av.open(media) as container:
        shown = [
            (float(f.pts * f.time_base), f.to_ndarray(format="gray").mean() > 128)
            for f in container.decode(video=0)
        ]
    if not isinstance(media, str):
        media.seek(0)
    with av.open(media) as container:
        heard = [
            (float(f.pts * f.time_base), np.abs(f.to_ndarray()).max(axis=0))
            for f in container.decode(audio=0)
        ]
    return starts_of(shown), clicks_of(heard)


def starts_of(shown):
    return [at for n, (at, bright) in enumerate(shown) if bright and (n == 0 or not shown[n - 1][1])]


def clicks_of(heard):
    found = []
    for at, loud in heard:
        for place in np.flatnonzero(loud > 0.25) / RATE:
            if not found or at + place - found[-1] > 0.5:
                found.append(at + place)
    return found


def offsets(flashes, clicks):
    """For each flash that has a click near it: how much earlier the flash is, seconds."""
    return [click - flash for flash in flashes for click in clicks if abs(click - flash) < 0.5]


@pytest.fixture
def open_stream():
    """Opens streams, and closes those that a failed test left open."""
    opened = []
    yield lambda url, sound=True: opened.append(make_stream(url, sound)) or opened[-1]
    for sink, _ in opened:
        sink.close()


def make_stream(url, sound):
    clock = SystemClock()
    start = clock.now_ns()
    feed = AudioFeed(lambda stop: Clicks(start, clock, stop), clock) if sound else None
    sink = StreamSink(url, StreamSettings(audio=feed, keyframes_s=1), clock)
    sink.open(SIZE, FPS)
    return sink, start


def assert_in_sync(flashes, clicks, record_property):
    # The first one may be cut off by the beginning.
    found = offsets(flashes, clicks)
    assert len(found) >= 2, (flashes, clicks)
    record_property("offsets_ms", [round(float(one) * 1000, 1) for one in found])
    print("A/V offsets, ms:", [round(float(one) * 1000, 1) for one in found])
    assert max(map(abs, found)) < 1 / FPS


class Datagrams:
    """Everything that comes in at a UDP port."""

    def __enter__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.port, self.data = self.socket.getsockname()[1], bytearray()
        return self

    def __exit__(self, *_):
        self.socket.close()

    def take(self):
        while True:
            try:
                self.data += self.socket.recv(65536)
            except BlockingIOError:
                return


def test_udp_carries_picture_and_sound_in_sync(record_property, open_stream):
    with Datagrams() as received:
        sink, start = open_stream(f"udp://127.0.0.1:{received.port}")
        play(sink, 9, start, received.take)
        sink.close()
        received.take()
    assert sink.name == f"stream udp://127.0.0.1:{received.port}"
    assert_in_sync(*flashes_and_clicks(io.BytesIO(bytes(received.data))), record_property)


@needs_nginx
def test_rtmp_carries_picture_and_sound_in_sync(tmp_path, record_property, open_stream):
    with running(Nginx(tmp_path)) as server:
        sink, start = open_stream(f"rtmp://127.0.0.1:{server.port}/live/key")
        play(sink, 9, start)
        assert sink.status.breaks == 0
        sink.close()
        assert until(server.recordings)
        server.end()
        (file,) = server.recordings()
        with av.open(str(file)) as container:
            assert container.streams.video[0].codec_context.name == "h264"
            assert container.streams.audio[0].codec_context.name == "aac"
        assert_in_sync(*flashes_and_clicks(str(file)), record_property)


@needs_ffmpeg
def test_srt_carries_picture_and_sound_in_sync_and_encrypted(tmp_path, record_property, open_stream):
    with running(SrtListener(tmp_path, "a-long-passphrase")) as server:
        sink, start = open_stream(f"srt://127.0.0.1:{server.port}?passphrase=a-long-passphrase")
        play(sink, 10, start)
        assert sink.status.state == "on air", (sink.status, server.lines())
        sink.close()
        assert until(lambda: server.process.poll() is not None), "the listener ends with the stream"
        assert_in_sync(*flashes_and_clicks(str(server.file)), record_property)


@needs_ffmpeg
def test_srt_with_a_wrong_passphrase_is_refused_by_name(tmp_path, open_stream):
    with running(SrtListener(tmp_path, "a-long-passphrase")) as server:
        sink, start = open_stream(f"srt://127.0.0.1:{server.port}?passphrase=another-passphrase", sound=False)
        give_up = time.monotonic() + 30
        while not sink.status.trouble and time.monotonic() < give_up:
            play(sink, 0.5, start)
        trouble = sink.status.trouble
        sink.close()
    assert "passphrase" in trouble or "refuses" in trouble
    assert "another-passphrase" not in trouble


@needs_aiortc
def test_whip_carries_picture_and_sound_in_sync(tmp_path, record_property, open_stream):
    with running(WhipEndpoint(tmp_path, "token-1")) as server:
        sink, start = open_stream(f"whip+http://token-1@127.0.0.1:{server.port}/whip")
        play(sink, 11, start)
        assert sink.status.state == "on air", (sink.status, server.lines())
        sink.close()
        assert until(lambda: "deleted" in server.lines()), "the session is ended as RFC 9725 asks"
        video, audio = server.received("video"), server.received("audio")
    assert len(video) > 200
    flashes = starts_of([(at, bright > 128) for at, bright in video])
    loud = [at for at, level in audio if level > 6000]
    clicks = [at for n, at in enumerate(loud) if not n or at - loud[n - 1] > 0.5]
    found = offsets(flashes, clicks)
    assert len(found) >= 2, (flashes, clicks)
    print("A/V offsets, ms:", [round(float(one) * 1000, 1) for one in found])
    record_property("offsets_ms", [round(float(one) * 1000, 1) for one in found])
    # An Opus packet is 20 ms, and only its beginning is known here.
    assert max(map(abs, found)) < 1 / FPS + 0.02


@needs_aiortc
def test_whip_with_a_wrong_token_is_refused_by_name(tmp_path, open_stream):
    with running(WhipEndpoint(tmp_path, "token-1")) as server:
        sink, start = open_stream(f"whip+http://token-2@127.0.0.1:{server.port}/whip", sound=False)
        assert until(lambda: sink.status.trouble, meanwhile=lambda: play(sink, 0.2, start))
        trouble = sink.status.trouble
        sink.close()
    assert "refuses the stream" in trouble
    assert "token-2" not in trouble


@needs_nginx
def test_a_publisher_that_is_denied_hears_of_it(tmp_path, open_stream):
    with running(Nginx(tmp_path, denies=True)) as server:
        sink, start = open_stream(f"rtmp://127.0.0.1:{server.port}/live/key", sound=False)
        assert until(lambda: sink.status.trouble, meanwhile=lambda: play(sink, 0.2, start))
        sink.close()
    assert sink.name.endswith("/live/***")


@pytest.mark.parametrize("url", ["rtmp://127.0.0.1:{}/live/k", "rtmps://127.0.0.1:{}/live/k"])
def test_a_server_that_is_not_there(url, open_stream):
    sink, start = open_stream(url.format(free_port()), sound=False)
    assert until(lambda: sink.status.breaks >= 2, meanwhile=lambda: play(sink, 0.2, start))
    assert "Nobody takes streams" in sink.status.trouble
    began = time.monotonic()
    sink.close()
    assert time.monotonic() - began < 5


def test_a_host_that_does_not_exist(open_stream):
    sink, start = open_stream("rtmp://no-such-host.invalid/live/k", sound=False)
    assert until(lambda: sink.status.trouble, seconds=40, meanwhile=lambda: play(sink, 0.2, start))
    assert "no host no-such-host.invalid" in sink.status.trouble
    sink.close()


def test_a_server_that_takes_the_call_and_says_nothing_does_not_hold_up_the_end(open_stream):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sink, start = open_stream(f"rtmp://127.0.0.1:{silent.getsockname()[1]}/live/k", sound=False)
        play(sink, 2, start)
        assert sink.status.state == "connecting"
        began = time.monotonic()
        sink.close()
        assert time.monotonic() - began < 5
    assert not [t for t in threading.enumerate() if t.name.startswith("stream")]


class NoisySwapper(FakeSwapper):
    """Paints noise, so that there is something to send."""

    def blend(self, image, layer):
        image[:] = np.random.default_rng(self.calls).integers(0, 255, image.shape, np.uint8)


class Camera:
    """A session with a fake camera and two sinks: one that notes the age of its frames, and a stream."""

    def __init__(self, url):
        self.clock = SystemClock()
        stop = StopFlag(self.clock)
        self.watched = FakeSink(self.clock)
        self.stream = StreamSink(url, StreamSettings(4000, keyframes_s=1), self.clock)
        meter = Meter(0)
        source = FakeSource(self.clock, stop, size=SIZE)
        pipeline = Pipeline(FakeTracker(), NoisySwapper(), meter, self.clock, None, 30)
        self.session = Session(
            source,
            pipeline,
            Guard(("hold", "veil")),
            [self.watched, self.stream],
            meter,
            self.clock,
            30.0,
            stop,
        )

    def __enter__(self):
        self.session.start()
        return self

    def __exit__(self, *_):
        began = time.monotonic()
        self.session.stop()
        self.ended_in = time.monotonic() - began

    def ages(self, since_ns):
        return [sent.age for sent in self.watched.sent if sent.at > since_ns]

    def sent(self, since_ns):
        seconds = (self.clock.now_ns() - since_ns) / SECOND
        return len(self.ages(since_ns)) / seconds


@needs_nginx
@pytest.mark.parametrize("fate", ["killed", "frozen"])
def test_a_server_that_vanishes_is_no_matter_for_the_camera_and_comes_back(tmp_path, fate, record_property):
    with running(Nginx(tmp_path)) as server:
        with Camera(f"rtmp://127.0.0.1:{server.port}/live/key") as camera:
            assert until(lambda: camera.stream.status.sent > 60)
            before = camera.clock.now_ns() - SECOND
            calm = np.median(camera.ages(before))
            gone = camera.clock.now_ns()
            if fate == "killed":
                server.kill()
            else:
                server.signal(signal.SIGSTOP)
            assert until(lambda: camera.stream.status.breaks >= 1, 60)
            time.sleep(1)
            assert camera.sent(gone) > 25
            rough = np.median(camera.ages(gone))
            assert rough < calm + 34 * MS
            trouble = camera.stream.status.trouble
            assert any(word in trouble for word in ("gone", "Nobody", "answer"))
            if fate == "killed":
                server.start()
            else:
                server.signal(signal.SIGCONT)
            sent = camera.stream.status.sent
            assert until(lambda: camera.stream.status.sent > sent + 60, 40), camera.stream.status
            record_property("age_ms", [round(float(calm) / MS, 1), round(float(rough) / MS, 1)])
            print(f"age before {calm / MS:.1f} ms, while gone {rough / MS:.1f} ms")
        assert camera.ended_in < 6
        camera.session.check()
        server.end()
        # What came after is a stream of its own that plays.
        with av.open(str(server.recordings()[-1])) as container:
            assert sum(1 for _ in container.decode(video=0)) > 30


class Island:
    """A network of its own with one cable to this machine, which can be torn out: no answer, not even a refusal."""

    ours, theirs = "10.231.77.1", "10.231.77.2"

    def __init__(self):
        self.name, self.cable = f"doppelcam{os.getpid()}", f"dc{os.getpid() % 100000}"

    def __enter__(self):
        self._ip("netns", "add", self.name)
        try:
            self._ip(
                "link",
                "add",
                f"{self.cable}a",
                "type",
                "veth",
                "peer",
                "name",
                f"{self.cable}b",
                "netns",
                self.name,
            )
            self._ip("addr", "add", f"{self.ours}/30", "dev", f"{self.cable}a")
            self._ip("link", "set", f"{self.cable}a", "up")
            self._ip("-n", self.name, "addr", "add", f"{self.theirs}/30", "dev", f"{self.cable}b")
            self._ip("-n", self.name, "link", "set", f"{self.cable}b", "up")
            self._ip("-n", self.name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for line in (("link", "del", f"{self.cable}a"), ("netns", "del", self.name)):
            with contextlib.suppress(subprocess.CalledProcessError):
                self._ip(*line)

    def cut(self):
        self._ip("-n", self.name, "link", "set", f"{self.cable}b", "down")

    def mend(self):
        self._ip("-n", self.name, "link", "set", f"{self.cable}b", "up")

    @staticmethod
    def _ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10)


@pytest.fixture
def island():
    if not (shutil.which("ip") and os.geteuid() == 0):
        pytest.skip("a network namespace needs root and ip")
    try:
        with Island() as made:
            yield made
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespace can be made here: {error.stderr}")


@needs_nginx
def test_a_cable_that_is_torn_out_is_no_matter_for_the_camera(tmp_path, island):
    server = Nginx(tmp_path)
    config = tmp_path / "nginx.conf"
    config.write_text(
        config.read_text().replace(f"127.0.0.1:{server.port}", f"{island.theirs}:{server.port}")
    )
    server.command = ["ip", "netns", "exec", island.name, *server.command]
    server.host = island.theirs
    with running(server), Camera(f"rtmp://{island.theirs}:{server.port}/live/key") as camera:
        assert until(lambda: camera.stream.status.sent > 60)
        calm = np.median(camera.ages(camera.clock.now_ns() - SECOND))
        island.cut()
        gone = camera.clock.now_ns()
        assert until(lambda: camera.stream.status.breaks >= 1, 40)
        time.sleep(1)
        assert camera.sent(gone) > 25
        assert np.median(camera.ages(gone)) < calm + 34 * MS
        island.mend()
        sent = camera.stream.status.sent
        assert until(lambda: camera.stream.status.sent > sent + 60, 50), camera.stream.status
    assert camera.ended_in < 6
