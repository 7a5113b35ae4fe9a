"""Streams without a network: addresses, faults, trying again, and what may never wait."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from engines.errors import UsageError
from realtime.audio.base import RATE, AudioBlock
from realtime.audio.feed import AudioFeed
from realtime.cli import main
from realtime.clock import ManualClock, SystemClock
from realtime.frame import Frame, Kind
from realtime.settings.options import typed
from realtime.sinks.streams import link as stream_link
from realtime.sinks.streams.channel import Channel, Shown
from realtime.sinks.streams.faults import StreamFault, fault_of
from realtime.sinks.streams.link import ProcessLink
from realtime.sinks.streams.mux import Mux, Shape, choose_encoder
from realtime.sinks.streams.stream import StreamSettings, StreamSink
from realtime.sinks.streams.target import concealed, parse_target
from realtime.sinks.streams.writer import PAUSES_S, STUBBORN_S, StreamWriter
from tests.realtime.fakes import MS, SECOND, SoloClock
from tests.realtime.sinks.pictures import bars, frame

SIZE = (192, 64)
SECRET = "s3cr3t-k3y"


# -- addresses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"rtmp://h/live/{SECRET}", "rtmp://h/live/***"),
        (f"rtmp://h:1936/live/more/{SECRET}", "rtmp://h:1936/live/***/***"),
        (f"rtmps://user:{SECRET}@h/live/key", "rtmps://***@h/live/***"),
        (f"rtmp://{SECRET}@h/live/key?a={SECRET}", "rtmp://***@h/live/***?a=***"),
        (f"RTMP://h/live/{SECRET}", "rtmp://h/live/***"),
        (f"srt://h:9000?passphrase={SECRET}&latency=20000", "srt://h:9000?passphrase=***&latency=20000"),
        (f"srt://h:9000?mode=caller&streamid={SECRET}", "srt://h:9000?mode=caller&streamid=***"),
        ("udp://239.0.0.1:1234?ttl=2", "udp://239.0.0.1:1234?ttl=2"),
        ("udp://[::1]:1234", "udp://[::1]:1234"),
        (f"whip+https://{SECRET}@h/whip", "whip+https://***@h/whip"),
        (f"whip+http://h:8080/whip/{SECRET}", "whip+http://h:8080/whip/***"),
    ],
)
def test_addresses_are_shown_without_what_is_secret(url, shown):
    target = parse_target(url)
    assert target.shown == shown
    key = SECRET if SECRET in url else ""
    said = f"[rtmp] cannot open {url}: key {key} and {target.url} and {key}!"
    for text in (
        repr(target),
        str(target),
        target.hide(said),
        concealed(f"stream:{url}"),
        typed((f"stream:{url}",)),
    ):
        assert SECRET not in text
    assert str(fault_of(target, said)).count(SECRET) == 0


def test_a_secret_is_found_where_a_server_decoded_it():
    target = parse_target("rtmp://h/live/a%2Fb%20c?x=q%26r")
    assert target.hide("no a/b c, no a%2Fb%20c, no q&r") == "no ***, no ***, no ***"


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "rtmp", "rtmp:", "rtmp://", "rtmp:///live/key", "rtmp://h", "rtmp://h/", "http://h/x", "file:///etc/passwd",
        "rtmp://h:0/live/k", "rtmp://h:99999/live/k", "rtmp://h:x/live/k", "srt://h", "udp://h", "udp://a:b@h:1",
        "rtmp://h/live/k swfUrl=x", "rtmp://h/live/k\n", "rtmp://h/live/\x00", "rtmp://-o/live/k",
        "rtmp://h" + "/a" * 2000,
        "whip://h/x", "whip+ftp://h/x", "concat:rtmp://h/live/k", "rtmp://[::1/live/k", "rtmp://h;reboot/live/k",
        "-i://h/x", "rtmp://ho st/live/k", "tee:rtmp://h/a|file:/etc/x",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_repeating_it(url):
    if url != url.strip():
        url += "rest"
    with pytest.raises(UsageError) as caught:
        parse_target(url)
    assert "rtmp://" in caught.value.fix
    assert "reboot" not in str(caught.value)


def test_a_token_of_whip_goes_into_the_header_and_not_into_the_address():
    target = parse_target("whip+https://a%40b@h:8443/whip/x?y=1")
    assert (target.url, target.token) == ("https://h:8443/whip/x?y=1", "a@b")
    assert parse_target("whip+http://user:pw@h/x").token == "pw"
    assert parse_target("whip+http://h/x").token == ""


def test_udp_keeps_to_what_fits_a_packet():
    assert parse_target("udp://h:1").url == "udp://h:1?pkt_size=1316"
    assert parse_target("udp://h:1?ttl=3").url == "udp://h:1?ttl=3&pkt_size=1316"
    assert parse_target("udp://h:1?pkt_size=188").url == "udp://h:1?pkt_size=188"


@pytest.mark.parametrize("spec", ["file:/a/rtmp://x", "null", "virtualcam:OBS", "preview:80", "plain text"])
def test_other_sinks_are_shown_as_they_are(spec):
    assert concealed(spec) == spec


@pytest.mark.parametrize(
    "spec", [f"stream:{SECRET}", f"stream:rtmp://{SECRET}", f"stream: http://{SECRET}/x"]
)
def test_a_key_in_a_wrong_address_is_not_shown_either(spec):
    assert SECRET not in concealed(spec)


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_the_command_line_shows_no_key(more, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("DOPPELCAM_SINK", f"null;stream:rtmp://h/live/{SECRET}")
    assert main(["config", "show", *more]) == 0
    monkeypatch.setenv("DOPPELCAM_SINK", f"nul;stream:rtmp://h/live/{SECRET}")
    assert main(["config", "show", *more]) == 2
    out, err = capsys.readouterr()
    assert "h/live/***" in out
    assert "h/live/***" in err
    assert SECRET not in out + err


# -- faults -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "words", "stubborn"),
    [
        ("Failed to resolve hostname h: Name or service not known", "no host h", False),
        ("getaddrinfo(h, 1): Temporary failure in name resolution", "no host h", False),
        (
            "Connection to tcp://h:1 failed: Connection refused\nCannot open connection tls://h",
            "Nobody takes",
            False,
        ),
        ("[srt @ 0x1] Connection to srt://h:1 failed: Input/output error", "Nobody takes", False),
        (
            "REJECT: Incorrect passphrase - not processing further\nConnection to srt://h failed",
            "refuses",
            True,
        ),
        ("HTTP 401 Unauthorized", "refuses", True),
        ("Server error: NetStream.Publish.BadName already publishing", "refuses", True),
        ("Server error: [ AccessManager.Reject ] : [ authmod=adobe ]", "refuses", True),
        ("HTTP 404 Not Found", "knows no such stream", True),
        ("DTLS or ICE failed: no media connection came about", "safe connection", True),
        ("certificate verify failed", "safe connection", True),
        ("[Errno 101] Network is unreachable", "no way", False),
        ("Connection timed out", "does not answer", False),
        ("does not answer", "does not answer", False),
        ("[Errno 32] Broken pipe", "is gone", False),
        ("Connection reset by peer", "is gone", False),
        ("", "is gone", False),
        ("something new", "something new", False),
    ],
)
def test_faults_are_named(said, words, stubborn):
    fault = fault_of(parse_target("rtmp://h:1935/live/k"), said)
    assert words in fault.what
    assert "h" in fault.what
    assert fault.stubborn is stubborn


def test_what_a_server_says_is_cut_and_cannot_move_a_cursor():
    fault = fault_of(parse_target("rtmp://h/live/k"), "first\n" + "\x1b[2J" + "x" * 5000 + "\n\n")
    assert "\x1b" not in fault.what
    assert "\n" not in fault.what
    assert len(fault.what) < 300


# -- trying again -----------------------------------------------------------------------------------------------


@dataclass
class FakeChannel:
    clock: object
    begins: object = None
    """What :meth:`begin` raises, or None."""
    sends: object = lambda n: None
    shown: list = field(default_factory=list)
    aborted: list = field(default_factory=list)
    finished: bool = False

    def begin(self, shown):
        if self.begins is not None:
            raise self.begins
        self.shown.append(shown)

    def send(self, shown):
        self.sends(len(self.shown))
        if self.aborted:
            raise StreamFault(self.aborted[0])
        self.shown.append(shown)

    def finish(self):
        self.finished = True

    def abort(self, why=""):
        self.aborted.append(why)


class Trial:
    """A writer on time that jumps; frames come 10 times a second until ``until_s``, then it ends."""

    def __init__(self, until_s, fate):
        self.clock = SoloClock()
        self.tries, self.channels = [], []
        self.fate = fate
        self.writer = StreamWriter("stream x", self.connect, self.clock)
        for n in range(round(until_s * 10)):
            self.clock.at(n * 100 * MS, lambda n=n: self.put(n))
        self.clock.at(round(until_s * SECOND), self.writer.end)

    def put(self, n):
        self.writer.box.put(Shown(n, self.clock.now_ns(), 0))
        self.writer.watch()

    def connect(self):
        self.tries.append(self.clock.now_ns() / SECOND)
        channel = self.fate(len(self.tries) - 1, self.clock)
        self.channels.append(channel)
        return channel

    def run(self):
        self.writer.run()
        return self


def test_a_server_that_is_not_there_is_tried_with_growing_pauses(caplog):
    fault = StreamFault("Nobody is there.")
    trial = Trial(80, lambda n, clock: FakeChannel(clock, fault)).run()
    gaps = np.diff(trial.tries)
    assert list(gaps[: len(PAUSES_S)]) == pytest.approx(PAUSES_S, abs=0.11)
    rest = gaps[len(PAUSES_S) :]
    assert len(rest) >= 2
    assert np.abs(rest - PAUSES_S[-1]).max() < 0.11
    assert trial.writer.status.state == "ended"
    assert trial.writer.status.breaks == len(trial.tries)
    assert len([r for r in caplog.records if "Nobody is there" in r.message]) == 1, (
        "said once, not at every try"
    )


def test_what_waiting_does_not_mend_is_tried_seldom():
    trial = Trial(100, lambda n, clock: FakeChannel(clock, StreamFault("No.", stubborn=True))).run()
    assert list(np.diff(trial.tries)) == pytest.approx([STUBBORN_S] * 3, abs=0.11)


def breaks_after(frames):
    def sends(n):
        if n >= frames:
            raise StreamFault("It is gone.")

    return sends


def test_a_stream_comes_back_with_the_newest_frame(caplog):
    def fate(n, clock):
        return FakeChannel(clock, sends=breaks_after(20)) if n == 0 else FakeChannel(clock)

    trial = Trial(10, fate).run()
    first, second = trial.channels
    lost = first.shown[-1].frame
    # Half a second's pause: what came in it is not sent late.
    assert second.shown[0].frame >= lost + 5
    assert second.shown[0].at_ns >= trial.tries[1] * SECOND - 100 * MS
    assert [shown.frame for shown in second.shown] == list(range(second.shown[0].frame, 100))
    assert second.finished
    assert not first.finished
    assert first.aborted
    assert any("on air again" in r.message for r in caplog.records)
    assert trial.writer.status.trouble == ""


def test_pauses_begin_anew_after_a_connection_that_held():
    def fate(n, clock):
        if n < 4:
            return FakeChannel(clock, StreamFault("Not yet."))
        return FakeChannel(clock, sends=breaks_after(150 if n == 4 else 5))

    trial = Trial(60, fate).run()
    gaps = np.diff(trial.tries)
    assert gaps[4] == pytest.approx(15.1 + PAUSES_S[0], abs=0.3)
    # It broke at once each time: no steady connection, so the pauses grow again.
    assert gaps[6] > gaps[5]


def test_only_the_newest_frame_waits_for_a_slow_network():
    trial = Trial(10, lambda n, clock: FakeChannel(clock, sends=lambda n: clock.live_on(450 * MS))).run()
    (channel,) = trial.channels
    steps = np.diff([shown.frame for shown in channel.shown])
    assert set(steps[1:-1]) <= {4, 5}
    assert trial.writer.status.dropped > 60
    assert channel.finished


def test_a_network_that_takes_nothing_is_given_up():
    def fate(n, clock):
        return FakeChannel(clock, sends=(lambda n: clock.live_on(8 * SECOND)) if n == 0 else lambda n: None)

    trial = Trial(30, fate).run()
    assert trial.channels[0].aborted[0] == "does not answer"
    assert trial.writer.status.breaks == 1
    assert trial.channels[1].finished


def test_the_end_does_not_wait_for_a_pause():
    trial = Trial(3, lambda n, clock: FakeChannel(clock, StreamFault("No.", stubborn=True))).run()
    assert trial.clock.now_ns() == 3 * SECOND


def test_the_end_ends_an_attempt():
    trial = Trial(1, lambda n, clock: FakeChannel(clock))
    channel = FakeChannel(trial.clock)

    def begin(shown):
        trial.clock.live_on(2 * SECOND)
        assert channel.aborted
        raise StreamFault("was closed")

    channel.begin = begin
    trial.fate = lambda n, clock: channel
    trial.run()
    assert trial.writer.status.breaks == 0, "an end is no fault"


# -- the sink ---------------------------------------------------------------------------------------------------


class FakeLink:
    """A connection that keeps what goes into it; ``holds`` makes it take nothing until it is ended."""

    def __init__(self, ready=True, holds=False):
        self.data, self.ready, self.holds = bytearray(), ready, holds
        self.began, self.ended = threading.Event(), threading.Event()
        self.finished = False

    def write(self, data):
        self.began.set()
        if self.holds:
            self.ended.wait(20)
        if self.ended.is_set():
            raise BrokenPipeError(32, "Broken pipe")
        self.data += data
        return len(data)

    def await_ready(self, until_ns):
        if not self.ready:
            self.ended.wait(20)
        return self.ready

    def finish(self, patience_s):
        self.finished = True
        return True

    def abort(self):
        self.ended.set()

    def said(self):
        return ""


def until(true):
    for _ in range(2000):
        if true():
            return True
        threading.Event().wait(0.005)
    return False


def sink_on(link, url="rtmp://h/live/k", audio=None, clock=None, **settings):
    links = link if isinstance(link, list) else [link]
    left = iter(links)
    return StreamSink(
        url, StreamSettings(audio=audio, **settings), clock or SystemClock(), lambda *_: next(left, links[-1])
    )


def send_all(sink, count, kind=Kind.SWAPPED):
    """Sends one after the other, so that none is dropped."""
    for seq in range(count):
        before = sink.status.sent
        sink.send(Frame(bars(), seq, sink._clock.now_ns() - 50 * MS, kind))
        assert until(lambda before=before: sink.status.sent > before)


def pictures_of(data):
    import io

    import av

    with av.open(io.BytesIO(bytes(data)), format="nut") as container:
        return [
            (round(f.pts * f.time_base * 1000), f.key_frame, f.to_ndarray(format="bgr24"))
            for f in container.decode(video=0)
        ]


def test_frames_arrive_in_order_with_their_times_and_colours():
    from tests.realtime.sinks.pictures import bar_colours

    link, clock = FakeLink(), ManualClock(SECOND)
    sink = sink_on(link, clock=clock, keyframes_s=0.5)
    sink.open(SIZE, 25)
    for seq in range(30):
        sink.send(Frame(bars(), seq, clock.now_ns() - 50 * MS, Kind.SWAPPED))
        assert until(lambda seq=seq: sink.status.sent > seq)
        clock.advance(40 * MS)
    sink.close()
    got = pictures_of(link.data)
    assert link.finished
    times = [ms for ms, _, _ in got]
    assert list(np.diff(times)) == [40] * 29
    keys = [ms - times[0] for ms, key, _ in got if key]
    assert keys == [0, 520, 1040]
    assert np.abs(bar_colours(got[-1][2]) - bar_colours(bars())).max() < 30
    assert sink.status.dropped == 0


def test_sending_returns_at_once_though_nothing_is_taken():
    link = FakeLink(holds=True)
    sink = sink_on(link)
    sink.open(SIZE, 30)
    for seq in range(50):
        sink.send(frame(bars(), seq))
    assert link.began.wait(20)
    sink.close()
    assert not [t for t in threading.enumerate() if t.name == "stream"]
    assert link.ended.is_set()


def test_a_connection_that_never_comes_about_does_not_hold_up_the_end():
    link = FakeLink(ready=False)
    sink = sink_on(link)
    sink.open(SIZE, 30)
    sink.send(frame(bars()))
    assert link.began.wait(20)
    sink.close()
    sink.close()
    assert not [t for t in threading.enumerate() if t.name == "stream"]


def test_what_cannot_be_ended_is_left_behind_and_said(caplog, monkeypatch):
    monkeypatch.setattr("realtime.sinks.streams.stream._PATIENCE_S", 0.05)
    monkeypatch.setattr("realtime.sinks.streams.stream._CUT_S", 0.05)
    link = FakeLink(holds=True)
    free = link.ended.set
    link.abort = lambda: None
    sink = sink_on(link)
    sink.open(SIZE, 30)
    sink.send(frame(bars()))
    assert link.began.wait(20)
    sink.close()
    assert "left behind" in caplog.text
    free()


def test_a_stream_goes_on_after_a_break():
    first, second = FakeLink(), FakeLink()
    sink = sink_on([first, second])
    sink.open(SIZE, 30)
    send_all(sink, 3)
    first.abort()
    assert until(lambda: sink.send(frame(bars())) or sink.status.breaks == 1)
    assert "is gone" in sink.status.trouble
    assert until(lambda: sink.send(frame(bars())) or sink.status.state == "on air")
    sink.close()
    assert pictures_of(second.data)[0][1], "it begins with a keyframe"


def test_a_process_that_cannot_be_started_is_a_fault_like_others():
    def refuse(*_):
        raise OSError("no more processes")

    sink = StreamSink("rtmp://h/live/k", StreamSettings(), SystemClock(), refuse)
    sink.open(SIZE, 30)
    assert until(lambda: sink.send(frame(bars())) or sink.status.breaks)
    assert "no more processes" in sink.status.trouble
    sink.close()


def test_sizes_that_do_not_fit_and_sending_while_closed():
    sink = sink_on(FakeLink())
    with pytest.raises(ValueError, match="open"):
        sink.send(frame(bars()))
    with pytest.raises(UsageError, match="even"):
        sink.open((191, 64), 30)
    sink.close()
    sink.open(SIZE, 30)
    with pytest.raises(ValueError, match="a frame of"):
        sink.send(frame(bars((96, 64))))
    sink.close()
    assert sink.status.state == "ended"


def test_what_is_not_installed_is_said_before_anything_begins(monkeypatch):
    monkeypatch.setattr(stream_link.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match="ffmpeg") as caught:
        StreamSink("srt://h:1", StreamSettings(), SystemClock())
    assert "apt install" in caught.value.fix
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="aiortc") as caught:
        StreamSink("whip+http://h/x", StreamSettings(), SystemClock())
    assert "stream" in caught.value.fix
    StreamSink("rtmp://h/live/k", StreamSettings(), SystemClock())


def test_no_shell_and_no_secret_among_the_arguments(monkeypatch):
    seen = []
    monkeypatch.setattr(
        stream_link, "ProcessLink", lambda command, hello, clock, ready: seen.append((command, hello))
    )
    for url in (f"rtmp://h/live/{SECRET}", f"whip+https://{SECRET}@h/x", f"udp://h:1?x={SECRET}"):
        stream_link.open_link(parse_target(url), ManualClock())
    assert len(seen) == 3
    for command, hello in seen:
        assert SECRET not in " ".join(command)
        assert SECRET.encode() in hello
        assert "-P" in command


# -- the process ------------------------------------------------------------------------------------------------


def link_of(code, clock=None, hello=b""):
    return ProcessLink([sys.executable, "-c", code], hello, clock or SystemClock(), "ready")


def test_a_process_says_when_it_is_ready_and_what_goes_wrong():
    link = link_of("import sys; print('ready'); sys.stdin.read(); print('all read')", hello=b"hello\n")
    assert link.await_ready(SystemClock().now_ns() + 20 * SECOND)
    assert link.write(b"x" * 1000) == 1000
    assert link.finish(20)
    assert link.said() == "all read"
    link.abort()
    with pytest.raises(OSError):
        link.write(b"x")


def test_a_process_that_dies_is_not_ready_and_tells_why():
    link = link_of("import sys; print('Connection refused', file=sys.stderr); sys.exit(1)")
    assert not link.await_ready(SystemClock().now_ns() + 20 * SECOND)
    assert link.said() == "Connection refused"
    with pytest.raises(OSError):
        for _ in range(100):
            link.write(b"x" * 10_000)
    link.abort()


def test_a_process_that_takes_nothing_is_ended_in_the_middle_of_a_write():
    link = link_of("import time; print('ready', flush=True); time.sleep(60)")
    assert link.await_ready(SystemClock().now_ns() + 20 * SECOND)
    failed = threading.Event()

    def fill():
        try:
            link.write(b"x" * 10_000_000)
        except OSError:
            failed.set()

    thread = threading.Thread(target=fill)
    thread.start()
    link.abort()
    thread.join(20)
    assert failed.is_set()


def test_a_process_that_is_ended_between_two_writes_is_a_broken_pipe_too(monkeypatch):
    link = link_of("import sys; print('ready', flush=True); sys.stdin.buffer.read()")
    assert link.await_ready(SystemClock().now_ns() + 20 * SECOND)

    class Closing:
        closed = False
        left = 2

        def write(self, view):
            self.left -= 1
            if self.left < 0:
                raise ValueError("I/O operation on closed file")
            return 10

    with monkeypatch.context() as patch:
        patch.setattr(link._process, "stdin", Closing())
        with pytest.raises(BrokenPipeError):
            link.write(b"x" * 1000)
    link.abort()


def test_what_a_process_says_does_not_pile_up():
    link = link_of("print('x' * 1_000_000); [print(n) for n in range(10_000)]; print('ready')")
    assert link.await_ready(SystemClock().now_ns() + 20 * SECOND) in (True, False)
    assert until(lambda: "9999" in link.said())
    assert len(link.said()) < 50_000
    link.abort()


def test_waiting_for_a_process_ends_in_the_time_of_the_clock():
    clock = ManualClock()
    link = link_of("import time; time.sleep(60)", clock)
    said = []
    thread = threading.Thread(target=lambda: said.append(link.await_ready(10 * SECOND)))
    thread.start()
    clock.settle(1)
    clock.advance(11 * SECOND)
    thread.join(20)
    assert said == [False]
    link.abort()


def test_a_module_of_the_same_name_in_the_folder_is_not_run(tmp_path, monkeypatch):
    (tmp_path / "realtime").mkdir()
    (tmp_path / "realtime" / "__init__.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path and path != str(tmp_path)])
    link = stream_link.open_link(parse_target("udp://127.0.0.1:9"), SystemClock())
    assert until(lambda: "Error" in link.said() or link.finish(20))
    link.abort()
    assert "taken over" not in link.said()


# -- encoding ---------------------------------------------------------------------------------------------------


def test_an_encoder_is_found_and_the_rate_follows_the_size():
    assert choose_encoder(SIZE, 30) in ("h264_nvenc", "libx264")
    assert Shape("libx264", (1920, 1080), 30).bits == pytest.approx(5_600_000, rel=0.05)
    assert Shape("libx264", (64, 64), 5).bits == 500_000
    assert Shape("libx264", (7680, 4320), 60).bits == 20_000_000
    assert Shape("libx264", (1920, 1080), 30, kbps=1234).bits == 1_234_000


def test_an_encoder_that_does_not_open_is_passed_over(monkeypatch):
    monkeypatch.setattr("realtime.sinks.streams.mux.ENCODERS", ("h264_nothing", "libx264"))
    assert choose_encoder(SIZE, 30) == "libx264"
    monkeypatch.setattr("realtime.sinks.streams.mux.ENCODERS", ("h264_nothing",))
    with pytest.raises(UsageError, match=r"H\.264"):
        choose_encoder(SIZE, 30)


class Bytes:
    def __init__(self):
        self.data = bytearray()

    def write(self, data):
        self.data += data
        return len(data)


def test_times_that_stand_still_or_go_back_are_mended():
    out = Bytes()
    mux = Mux(Shape("libx264", SIZE, 30), out)
    for at in (0, 33 * MS, 33 * MS, 20 * MS, 66 * MS):
        mux.picture(bars(), at)
    mux.finish()
    times = [ms for ms, _, _ in pictures_of(out.data)]
    assert all(np.diff(times) > 0)


def test_the_rate_is_kept_to():
    out = Bytes()
    rng = np.random.default_rng(3)
    mux = Mux(Shape("libx264", (320, 240), 30, kbps=600), out)
    for n in range(90):
        mux.picture(rng.integers(0, 255, (240, 320, 3), np.uint8), n * 33_333_333)
    mux.finish()
    assert len(out.data) * 8 / 3 < 1.4 * 600_000


def test_the_stream_says_what_it_shows():
    import io

    import av

    out = Bytes()
    mux = Mux(Shape("libx264", SIZE, 30, title="AI-altered face"), out)
    mux.picture(bars(), 0)
    mux.finish()
    with av.open(io.BytesIO(bytes(out.data)), format="nut") as container:
        assert container.metadata["comment"] == "AI-altered face"


# -- sound ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sound", ["aac", "libopus"])
def test_a_click_is_put_where_its_picture_is(sound):
    """What was heard when a picture was captured is heard when it is shown, though it is shown 80 ms later."""
    import io

    import av

    clock, link = ManualClock(SECOND), FakeLink()
    feed = AudioFeed(lambda stop: None, clock)
    feed._thread = threading.current_thread()  # blocks are left by hand
    ear = feed.listen()
    channel = Channel(
        parse_target("rtmp://h/live/k"), Shape("libx264", SIZE, 25, sound=sound), clock, lambda: link, ear
    )
    delay, flash = 80 * MS, 60
    dark, bright = np.zeros((64, 192, 3), np.uint8), np.full((64, 192, 3), 255, np.uint8)
    for n in range(100):
        captured, shown_at = clock.now_ns() - delay, clock.now_ns()
        image = bright if n == flash else dark
        shown = Shown(Frame(image, n, captured, Kind.SWAPPED), shown_at, delay)
        channel.begin(shown) if n == 0 else channel.send(shown)
        # Sound comes in time; the click is heard when the bright picture is captured, which is shown 80 ms later.
        samples = np.zeros((RATE // 25, 2), np.float32)
        if n == flash - 2:
            samples[:480] = 0.9
        ear.hear(AudioBlock(samples, clock.now_ns()))
        clock.advance(40 * MS)
    channel.finish()
    with av.open(io.BytesIO(bytes(link.data)), format="nut") as container:
        seen = [
            f.pts * f.time_base for f in container.decode(video=0) if f.to_ndarray(format="gray").mean() > 128
        ]
    with av.open(io.BytesIO(bytes(link.data)), format="nut") as container:
        heard = []
        for f in container.decode(audio=0):
            loud = np.flatnonzero(np.abs(f.to_ndarray()).max(axis=0) > 0.3)
            heard += [float(f.pts * f.time_base) + loud[0] / RATE] if len(loud) else []
    assert seen
    assert heard
    assert abs(float(seen[0]) - heard[0]) < 0.012


def test_the_delay_of_the_sound_is_that_of_new_pictures_only():
    clock, link = ManualClock(SECOND), FakeLink()
    sink = sink_on(link, clock=clock)
    sink.open(SIZE, 30)
    for seq in range(200):
        sink.send(Frame(bars(), seq, clock.now_ns() - 70 * MS, Kind.SWAPPED))
        sink.send(Frame(bars(), seq, clock.now_ns() - 700 * MS, Kind.SWAPPED))  # the same one again
        sink.send(Frame(bars(), seq, clock.now_ns() - 900 * MS, Kind.HELD))
        sink.send(Frame(bars(), seq, 0, Kind.SLATE))
    assert sink._delay == pytest.approx(70 * MS)
    for seq in range(300, 400):
        sink.send(Frame(bars(), seq, clock.now_ns() - 140 * MS, Kind.SWAPPED))
    assert sink._delay == pytest.approx(140 * MS, rel=0.02)
    sink.close()
