"""How a session can be watched from outside: lines of JSON, metrics, and bars on a terminal."""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import time
from contextlib import closing

import numpy as np
import pytest
from rich.console import Console

import realtime.cli.live
from engines.errors import UsageError
from realtime.cli import main
from realtime.cli.lines import JsonLines
from realtime.cli.live import line, view
from realtime.cli.sparks import BARS, WIDTH, History, bars
from realtime.clock import SystemClock
from realtime.frame import Frame, Kind
from realtime.metrics import MetricsServer, metrics_text
from realtime.pace.budget import Meter
from realtime.session import Snapshot
from realtime.sinks.null import NullSink
from realtime.sinks.streams.stream import StreamSettings, StreamSink
from realtime.thermal import Thermometer
from tests.realtime.fakes import MS, SECOND


def snapshot(seconds=1.0, frames=30, state="live", rung="", meter=None):
    meter = meter or Meter(0)
    for _ in range(frames):
        for name in ("captured", "processed", "sent"):
            meter.count(name)
        meter.stage("swap", 3 * MS)
        meter.age(12 * MS)
        meter.process(9 * MS)
    return Snapshot(state, True, meter.report(round(seconds * SECOND)), rung)


def lines_of(*moments):
    """Lines written when a session is looked at at these moments: (seconds, frames since the last one)."""
    written, meter = [], Meter(0)
    lines = JsonLines(written.append, 0)
    for seconds, frames in moments:
        lines.update(snapshot(seconds, frames, meter=meter), round(seconds * SECOND))
    return lines, [json.loads(one) for one in written]


def test_a_line_a_second_whatever_the_glances():
    _, written = lines_of(*[(n / 4, 7) for n in range(1, 41)])
    assert [one["seconds"] for one in written] == [float(n) for n in range(1, 11)]
    assert all(one["fps"]["sent"] == 28 for one in written)


def test_a_line_tells_everything_and_fps_of_its_own_second():
    _, written = lines_of((1, 30), (2, 10), (3, 0))
    first = written[0]
    assert {
        "schema",
        "state",
        "ready",
        "rung",
        "streams",
        "stages",
        "process",
        "frame_age",
        "counts",
        "fps",
        "seconds",
    } == set(first)
    assert (first["schema"], first["state"], first["ready"], first["rung"]) == (1, "live", True, "")
    assert first["stages"]["swap"]["p50_ms"] == 3.0
    assert first["frame_age"]["p99_ms"] == 12.0
    assert [one["fps"]["sent"] for one in written] == [30, 10, 0]
    assert [one["counts"]["sent"] for one in written] == [30, 40, 40]


def test_seconds_that_were_missed_are_not_made_up_for():
    _, written = lines_of((1, 30), (4.6, 60), (4.8, 6), (5.1, 9))
    assert [one["seconds"] for one in written] == [1.0, 4.6, 5.1]


def test_counting_that_begins_anew_is_no_negative_rate():
    written = []
    lines = JsonLines(written.append, 0)
    lines.update(snapshot(5, 100), 5 * SECOND)
    lines.update(snapshot(0.5, 15), 6 * SECOND)
    assert json.loads(written[1])["fps"]["sent"] == 30


def test_the_last_line_says_so_whenever_it_comes():
    written = []
    JsonLines(written.append, 0).end(snapshot(0.2, 3, rung="every second frame"))
    last = json.loads(written[0])
    assert (last["state"], last["rung"]) == ("ended", "every second frame")


def test_the_last_line_has_the_rates_of_the_whole_session():
    written = []
    lines, meter = JsonLines(written.append, 0), Meter(0)
    lines.update(snapshot(1, 30, meter=meter), SECOND)
    lines.end(snapshot(1.01, 2, meter=meter))
    assert [json.loads(one)["fps"]["sent"] for one in written] == [30, pytest.approx(31.68, abs=0.01)]


def test_run_prints_json_and_nothing_else(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    from realtime.settings.config import BENCH

    run = ["run", "--face", str(BENCH.face[0]), "--source", "portrait", "--sink", "null", "--size", "320x240"]
    assert main([*run, "--fps", "15", "--duration", "1.5", "--json", "--metrics", "0"]) == 0
    out, err = capsys.readouterr()
    documents = [json.loads(one) for one in out.splitlines()]
    assert len(documents) >= 2
    assert documents[-1]["state"] == "ended"
    assert documents[-1]["counts"]["sent"] > 5
    assert "http://127.0.0.1:" in err


def fetch(server, path="/metrics", **headers):
    host, port = re.fullmatch(r"http://([\d.]+):(\d+)/metrics", server.url).groups()
    with closing(http.client.HTTPConnection(host, int(port), timeout=5)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


SAMPLE = re.compile(r'[a-z_]+(\{[a-z]+="[^"\\\n]*"(,[a-z]+="[^"\\\n]*")*\})? -?[0-9.e+-]+')


def test_metrics_are_served_to_this_machine_in_prometheus_own_format():
    with MetricsServer(0, snapshot) as server:
        status, headers, text = fetch(server)
        assert status == 200
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert text.endswith("\n")
        assert fetch(server, "/")[0] == 404
        url = server.url
    assert server.url == ""
    host, port = re.fullmatch(r"http://([\d.]+):(\d+)/metrics", url).groups()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), timeout=5)


@pytest.mark.parametrize("headers", [
    {"Host": "evil.example"}, {"Host": "evil.example:80"}, {"Host": ""},
    {"Host": "127.0.0.1.evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
])  # fmt: skip
def test_metrics_are_for_nobody_else(headers):
    with MetricsServer(0, snapshot) as server:
        status, _, text = fetch(server, **headers)
    assert status == 403
    assert "doppelcam_" not in text


def test_a_port_that_is_taken_is_said_with_its_number():
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=str(port)) as found, MetricsServer(port, snapshot):
            pass
    assert "--metrics 0" in found.value.fix


def test_every_metric_is_well_formed_has_a_type_and_the_right_unit():
    text = metrics_text(snapshot(2.0, 60, "veiled", "every second frame"))
    types = dict(re.findall(r"# TYPE (\S+) (gauge|counter)", text))
    samples = {}
    for row in text.splitlines():
        if row.startswith("#"):
            continue
        assert SAMPLE.fullmatch(row), row
        name, _, value = row.rpartition(" ")
        assert name.partition("{")[0] in types
        assert name not in samples
        samples[name] = float(value)
    assert samples['doppelcam_stage_seconds{stage="swap",quantile="0.5"}'] == pytest.approx(0.003)
    assert samples['doppelcam_frame_age_seconds{quantile="0.99"}'] == pytest.approx(0.012)
    assert samples['doppelcam_frame_seconds{quantile="1"}'] == pytest.approx(0.009)
    assert samples['doppelcam_frames_total{what="sent"}'] == 60
    assert samples['doppelcam_state{state="veiled"}'] == 1
    assert samples['doppelcam_state{state="live"}'] == 0
    assert samples['doppelcam_stage_budget_seconds{stage="swap"}'] == pytest.approx(0.012)
    # What was never timed has no quantile: 0 would be a lie.
    assert not any("track" in name and "quantile" in name for name in samples)
    assert all(kind == "counter" for name, kind in types.items() if name.endswith("_total"))


def test_the_ladder_is_a_metric():
    meter = Meter(0)
    meter.count("steps_down", 2)
    meter.count("steps_up")
    assert "\ndoppelcam_rungs 1\n" in metrics_text(snapshot(meter=meter))


@pytest.mark.parametrize("rung", ["", "every second frame"])
def test_what_has_given_way_is_shown(rung):
    console = Console(file=io.StringIO(), width=100)
    console.print(view(snapshot(rung=rung), "640×480"))
    assert ("every second frame" in console.file.getvalue()) == bool(rung)
    assert ("every second frame" in line(snapshot(rung=rung))) == bool(rung)


@pytest.mark.parametrize(("values", "budget", "expected"), [
    ([], 4.0, ""), ([0.0], 4.0, "▁"), ([4.0, 3.9, 2.0, 0.1], 4.0, "██▅▁"), ([400.0], 4.0, "█"),
    ([0.0, 0.0], 0.0, "▁▁"), ([1.0, 8.0], 0.0, "▂█"),
])  # fmt: skip
def test_bars_are_as_high_as_the_share_of_the_budget(values, budget, expected):
    assert bars(values, budget).plain == expected


def test_a_bar_over_its_budget_is_seen():
    shown = bars([3.0, 5.0, 3.0], 4.0)
    assert [(span.start, span.end) for span in shown.spans if span.style == "yellow"] == [(1, 2)]


def test_the_last_ten_seconds_are_kept_and_no_more():
    history, meter = History(), Meter(0)
    for n in range(100):
        for _ in range(8):
            meter.stage("track", (n % 8) * MS // 2)
            meter.age(20 * MS)
        history.notice(meter.report(SECOND))
    console = Console(file=io.StringIO(), width=80)
    console.print(history.table())
    rows = console.file.getvalue().splitlines()
    assert [row.split()[0] for row in rows] == ["track", "frame"]
    assert sum(rows[0].count(bar) for bar in BARS) == WIDTH
    assert set(rows[0]) >= set(BARS[:6])
    assert rows[0].rstrip().endswith("1.50 ms")
    assert max(map(len, rows)) <= 80


def test_recent_is_of_the_latest_frames_only():
    meter = Meter(0, window=16)
    for ms in [*[50] * 100, 1, 2, 3, 4, 5, 6, 7, 8]:
        meter.stage("swap", ms * MS)
    assert meter.report(1).stages["swap"].spread.recent == 4.5
    meter.reset(0)
    meter.stage("swap", 7 * MS)
    assert meter.report(1).stages["swap"].spread.recent == 7


def test_providers_are_each_told_once_and_the_busiest_first():
    nodes = {"a": {"CPUExecutionProvider": 3, "CUDAExecutionProvider": 90}, "b": {"CPUExecutionProvider": 5}}
    assert realtime.cli.live.providers(nodes) == "CUDAExecutionProvider, CPUExecutionProvider"
    assert realtime.cli.live.providers({}) == ""


def test_on_a_terminal_it_says_what_it_runs_on_and_how_warm_that_is(tmp_path):
    chip = tmp_path / "hwmon" / "hwmon0"
    chip.mkdir(parents=True)
    (chip / "name").write_text("k10temp")
    (chip / "temp1_input").write_text("71600")
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with realtime.cli.live._OnTerminal(
        console, "640×480", "CPUExecutionProvider", Thermometer(tmp_path)
    ) as shown:
        shown.update(snapshot(), 0)
    assert "CPUExecutionProvider · CPU 72 °C" in console.file.getvalue()


class Dead:
    """A connection that never comes about."""

    def __init__(self, target, clock):
        raise OSError("Connection refused")


@pytest.fixture
def stream():
    """A stream nobody takes, after its first try."""
    sink = StreamSink("rtmp://h.example/live/KEY", StreamSettings(), SystemClock(), Dead)
    sink.open((64, 64), 30.0)
    try:
        sink.send(Frame(np.zeros((64, 64, 3), np.uint8), 0, 0, kind=Kind.SLATE))
        until = time.monotonic() + 20
        while sink.status.state != "waiting" and time.monotonic() < until:
            time.sleep(0.005)
        yield sink
    finally:
        sink.close()


def test_everywhere_it_is_said_how_a_stream_is_doing_and_never_its_key(stream):
    said = "rtmp://h.example/live/*** · waiting: Nobody takes streams at h.example."
    written, log = [], Console(file=io.StringIO(), width=200)
    JsonLines(written.append, 0, [NullSink(), stream]).update(snapshot(), SECOND)
    (told,) = json.loads(written[0])["streams"]
    assert (told["state"], told["sent"], told["breaks"]) == ("waiting", 0, 1)
    realtime.cli.live._Plain(log, 0, [stream]).update(snapshot(), 10 * SECOND)
    assert said in log.file.getvalue()
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    with realtime.cli.live._OnTerminal(console, "", sinks=[NullSink(), stream]) as shown:
        shown.update(snapshot(), 0)
    assert said in console.file.getvalue()
    for text in (written[0], log.file.getvalue(), console.file.getvalue()):
        assert "KEY" not in text


def test_how_a_stream_ended_is_still_told_when_it_is_closed(stream):
    stream.close()
    written = []
    JsonLines(written.append, 0, [stream]).end(snapshot())
    (told,) = json.loads(written[0])["streams"]
    assert (told["state"], told["breaks"]) == ("ended", 1)


def test_on_a_terminal_the_bars_follow_the_table():
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with realtime.cli.live._OnTerminal(console, "640×480") as shown:
        for _ in range(3):
            shown.update(snapshot(rung="every second frame"), 0)
    assert BARS[2] * 3 in console.file.getvalue()
