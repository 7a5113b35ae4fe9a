import gc
import http.client
import json
import re
import socket
import sys
import threading
import urllib.error
import urllib.request
import weakref
from importlib import resources

import cv2
import numpy as np
import pytest

from engines.errors import UsageError
from realtime.frame import Kind
from realtime.pace.budget import Meter
from realtime.sinks.preview import PreviewSink
from realtime.thermal import Thermometer
from tests.realtime.sinks.pictures import bar_colours, bars, frame, noise

SIZE = (192, 64)


def make_report():
    meter = Meter(0)
    for i in range(10):
        meter.stage("swap", (i + 8) * 1_000_000)
        meter.age(30_000_000)
        meter.count("sent")
    return meter.report(2_000_000_000)


@pytest.fixture
def sink():
    sink = PreviewSink(0, make_report)
    sink.open(SIZE, 30)
    yield sink
    sink.close()


def get(sink, path="", method="GET"):
    request = urllib.request.Request(sink.url + path, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer, answer.read()


class Watcher:
    """A browser that watches the stream."""

    def __init__(self, sink):
        self.answer = urllib.request.urlopen(sink.url + "stream.mjpg", timeout=10)
        kind = self.answer.headers["Content-Type"]
        self.boundary = re.fullmatch(r"multipart/x-mixed-replace; boundary=(\S+)", kind)[1].encode()
        assert self.answer.readline().strip() == b"--" + self.boundary

    def picture(self):
        """The next picture, read to the boundary that ends it."""
        headers = {}
        while line := self.answer.readline().strip():
            name, value = line.split(b":")
            headers[name.lower()] = value.strip()
        assert headers[b"content-type"] == b"image/jpeg"
        jpeg = self.answer.read(int(headers[b"content-length"]))
        assert self.answer.readline() == b"\r\n"
        assert self.answer.readline().strip() == b"--" + self.boundary
        return cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)

    def close(self):
        self.answer.close()


class SlowEncoder:
    """Stands in for cv2.imencode and waits to be let through."""

    def __init__(self, monkeypatch):
        self.real = cv2.imencode
        self.threads, self.levels = [], []
        self.began, self.go = threading.Semaphore(0), threading.Semaphore(0)
        monkeypatch.setattr(cv2, "imencode", self)

    def __call__(self, suffix, image, options):
        self.threads.append(threading.current_thread())
        self.levels.append(int(image[0, 0, 0]))
        self.began.release()
        assert self.go.acquire(timeout=10)
        return self.real(suffix, image, options)


def grey(level):
    return frame(np.full((64, 192, 3), level, np.uint8), level)


def test_the_page_is_whole_and_asks_nobody_else(sink):
    answer, body = get(sink)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    text = body.decode()
    assert text == resources.files("realtime.sinks").joinpath("preview_page.html").read_text("utf-8")
    assert not re.search(r"(?:https?:)?//[a-z]", text), "nothing from elsewhere"
    for needed in ("stream.mjpg", "stats.json", "viewport", "prefers-color-scheme"):
        assert needed in text
    # Every place that the script fills is on the page.
    assert set(re.findall(r'at\("(\w+)"\)', text)) <= set(re.findall(r'id="(\w+)"', text))


def test_the_numbers_are_there_before_the_first_frame(sink):
    answer, body = get(sink, "stats.json")
    assert answer.headers["Content-Type"] == "application/json"
    stats = json.loads(body)
    assert stats["frame"] is None
    assert list(stats["stages"]) == ["capture", "track", "swap", "blend", "output"]
    swap = stats["stages"]["swap"]
    assert swap == {
        "n": 10,
        "p50_ms": 12.5,
        "p95_ms": 16.55,
        "p99_ms": 16.91,
        "max_ms": 17.0,
        "recent_ms": 13.5,
        "budget_ms": 12.0,
        "over": 5,
    }
    assert stats["frame_age"]["p50_ms"] == 30
    assert stats["counts"] == {"sent": 10}
    assert stats["fps"]["sent"] == 5


def test_the_numbers_say_how_warm_the_machine_is_where_that_is_known(tmp_path):
    chip = tmp_path / "hwmon" / "hwmon3"
    chip.mkdir(parents=True)
    (chip / "name").write_text("coretemp")
    (chip / "temp1_input").write_text("58000")
    for root, celsius in ((tmp_path, {"CPU": 58}), (tmp_path / "none", {})):
        sink = PreviewSink(0, make_report, Thermometer(root))
        sink.open((192, 64), 30)
        try:
            assert json.loads(get(sink, "stats.json")[1])["celsius"] == celsius
        finally:
            sink.close()


@pytest.mark.parametrize("kind", [Kind.SWAPPED, Kind.VEILED, Kind.SLATE, Kind.BARE])
def test_the_numbers_say_what_is_shown(sink, kind):
    sink.send(frame(bars(), 41, kind))
    stats = json.loads(get(sink, "stats.json")[1])
    assert stats["frame"] == {"kind": kind.value, "seq": 41, "size": [192, 64]}


def test_a_watcher_sees_the_frames(sink):
    sink.send(frame(bars()))
    watcher = Watcher(sink)
    want = bar_colours(bars())
    assert np.abs(bar_colours(watcher.picture()) - want).max() <= 12
    sink.send(frame(bars()[:, ::-1].copy()))
    assert np.abs(bar_colours(watcher.picture())[::-1] - want).max() <= 12
    watcher.close()


def test_a_watcher_who_came_first_waits_for_a_frame(sink):
    watcher = Watcher(sink)
    sink.send(frame(bars()))
    assert watcher.picture().shape == (64, 192, 3)
    watcher.close()


def test_nothing_is_encoded_while_nobody_watches_and_never_while_sending(sink, monkeypatch):
    encoder = SlowEncoder(monkeypatch)
    for level in range(5):
        sink.send(grey(level))
    assert encoder.levels == []
    watcher = Watcher(sink)
    assert encoder.began.acquire(timeout=10)
    assert threading.current_thread() not in encoder.threads
    encoder.go.release()
    watcher.picture()
    watcher.close()


def test_the_newest_frame_wins_and_a_slow_watcher_slows_nobody(sink, monkeypatch):
    encoder = SlowEncoder(monkeypatch)
    sink.send(grey(10))
    watcher = Watcher(sink)
    assert encoder.began.acquire(timeout=10)
    for level in range(20, 220, 10):
        sink.send(grey(level))  # returns while the encoder stands still
    encoder.go.release()
    assert abs(float(watcher.picture().mean()) - 10) < 3
    assert encoder.began.acquire(timeout=10)
    encoder.go.release()
    assert abs(float(watcher.picture().mean()) - 210) < 3
    assert encoder.levels == [10, 210]
    watcher.close()


def test_a_client_that_reads_nothing_holds_up_neither_frames_nor_the_end(sink):
    port = int(sink.url.rstrip("/").rpartition(":")[2])
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", port))
        deaf.sendall(b"GET /stream.mjpg HTTP/1.0\r\nHost: localhost\r\n\r\n")
        watcher = Watcher(sink)
        big = (1280, 720)
        for seq in range(30):
            sink.send(frame(noise(seq % 2, big), seq))
            watcher.picture()
        watcher.close()
        sink.close()


@pytest.mark.parametrize("says", [b"", b"GET ", b"GET / HTTP/1.0\r\nHost: localhost\r\n"])
def test_clients_that_never_finish_asking_do_not_hold_up_the_end(sink, says):
    port = int(sink.url.rstrip("/").rpartition(":")[2])
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    for client in clients:
        client.sendall(says)
    get(sink, "stats.json")  # so they were all accepted
    sink.close()
    for client in clients:
        client.close()


def test_too_many_clients_are_turned_away_and_the_others_stay(sink):
    sink.send(frame(bars()))
    watchers = [Watcher(sink) for _ in range(16)]
    with pytest.raises((OSError, http.client.HTTPException)):
        get(sink, "stats.json")
    for watcher in watchers:
        watcher.picture()
        watcher.close()


def test_a_watcher_that_leaves_makes_room(sink):
    sink.send(frame(bars()))
    for seq in range(40):
        watcher = Watcher(sink)
        watcher.picture()
        watcher.answer.fp.raw._sock.shutdown(socket.SHUT_RDWR)
        watcher.close()
        for again in range(3):
            sink.send(frame(bars(), seq * 3 + again))
        while sum(t.name == "preview-client" for t in threading.enumerate()) > 8:
            sink.send(frame(bars(), seq))


def ask(sink, headers):
    port = int(sink.url.rstrip("/").rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest("GET", "/stats.json", skip_host=True)
    for name, value in headers:
        connection.putheader(name, value.replace("PORT", str(port)))
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("host", ["127.0.0.1:PORT", "127.0.0.1", "localhost:PORT", "LocalHost"])
def test_this_machine_may_look(sink, host):
    assert ask(sink, [("Host", host)]) == 200
    assert ask(sink, [("Host", host), ("Sec-Fetch-Site", "same-origin")]) == 200


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Host", "")],
        [("Host", "evil.example")],
        [("Host", "evil.example:PORT")],
        [("Host", "127.0.0.1.evil.example:PORT")],
        [("Host", "localhost:1")],
        [("Host", "localhost@evil.example")],
        [("Host", "192.168.0.7:PORT")],
        [("Host", "localhost"), ("Host", "evil.example")],
        [("Host", "localhost"), ("Sec-Fetch-Site", "cross-site")],
        [("Host", "localhost"), ("Sec-Fetch-Site", "same-site")],
    ],
)
def test_other_sites_may_not_look(sink, headers):
    assert ask(sink, headers) == 403


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="all of 127.0.0.0/8 is here on Linux only")
def test_other_addresses_do_not_answer(sink):
    port = int(sink.url.rstrip("/").rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=10)


def test_other_pages_and_methods_are_refused(sink):
    for path, method, status in [("secret", "GET", 404), ("", "POST", 501), ("../etc/passwd", "GET", 404)]:
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(sink, path, method)
        assert caught.value.code == status
        caught.value.close()
    for path in ("", "stats.json", "stream.mjpg"):
        assert get(sink, path, "HEAD")[1] == b""


def test_a_report_that_fails_takes_nothing_down(capsys):
    def report():
        raise RuntimeError("no numbers")

    sink = PreviewSink(0, report)
    sink.open(SIZE, 30)
    with pytest.raises((OSError, http.client.HTTPException)):
        get(sink, "stats.json")
    assert get(sink)[0].status == 200
    sink.close()
    assert "no numbers" in capsys.readouterr().err


def test_a_port_that_is_taken(sink):
    port = int(sink.url.rstrip("/").rpartition(":")[2])
    other = PreviewSink(port, make_report)
    with pytest.raises(UsageError, match=str(port)) as caught:
        other.open(SIZE, 30)
    assert "preview:0" in caught.value.fix
    other.close()
    assert get(sink)[0].status == 200


def test_a_closed_sink_opens_again_on_its_port():
    first = PreviewSink(0, make_report)
    assert first.url == ""
    first.close()
    first.open(SIZE, 30)
    port = int(first.url.rstrip("/").rpartition(":")[2])
    watcher = Watcher(first)
    first.close()
    first.close()
    assert first.url == ""
    watcher.close()
    again = PreviewSink(port, make_report)
    for _ in range(2):
        again.open(SIZE, 30)
        assert again.url == f"http://127.0.0.1:{port}/"
        assert get(again)[0].status == 200
        again.close()


def test_closing_ends_the_stream_of_those_who_watch(sink):
    watchers = [Watcher(sink) for _ in range(3)]
    sink.close()
    for watcher in watchers:
        assert watcher.answer.read() == b""
        watcher.close()


def test_the_last_frame_is_let_go_at_the_end(sink):
    shown = frame(bars())
    sink.send(shown)
    gone = weakref.ref(shown)
    del shown
    assert gone() is not None
    sink.close()
    gc.collect()
    assert gone() is None


def test_sending_while_closed_and_sizes_that_are_none():
    sink = PreviewSink(0, make_report)
    with pytest.raises(ValueError, match="open"):
        sink.send(frame(bars()))
    with pytest.raises(UsageError, match="even"):
        sink.open((191, 64), 30)
    assert sink.url == ""
