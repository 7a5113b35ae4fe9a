"""From glass to the receiver of a stream."""

from __future__ import annotations

import json
import socket
from dataclasses import replace

import pytest

from engines.errors import DeviceError, UsageError
from realtime.bench.loopback import _compare, measure_loopback
from realtime.bench.measure import Task
from realtime.cli import main
from realtime.settings.config import BENCH
from tests.realtime.fakes import MS
from tests.realtime.sinks.stream_servers import Nginx, free_port, needs_nginx, running
from tests.realtime.test_bench import GOOD, TINY, made


def never(*_):
    raise AssertionError("nothing is measured")


@pytest.mark.parametrize("url", ["srt://127.0.0.1:9", "whip+http://127.0.0.1:9/x", "x"])
def test_what_cannot_be_read_back_is_refused_before_anything_is_measured(url):
    task = Task(replace(BENCH, sink=(f"stream:{url}",)), 1.0)
    with pytest.raises(UsageError):
        measure_loopback(task, "", never)


def test_a_stream_agrees_if_it_is_not_seen_before_it_was_sent():
    result = made(GOOD)
    taken = [n * 33 * MS for n in range(500)]
    age = result.report.frame_age.p50
    for later, agrees in ((25, True), (-5, False)):
        seen = [(n, at + round((age + later) * MS)) for n, at in enumerate(taken)]
        loopback = _compare(seen, taken, result, "udp://h:1", streamed=True)
        assert loopback.beyond == pytest.approx(later)
        assert loopback.agrees is agrees
    with pytest.raises(DeviceError, match="udp://h:1"):
        _compare([], taken, result, "udp://h:1", streamed=True)


def bench(url, capsys):
    quick = ["--seconds", "6", "--stream-keyframes", "0.5", "--json"]
    assert main([*TINY, *quick, "--loopback", "--sink", f"stream:{url}"]) == 0
    out, err = capsys.readouterr()
    return json.loads(out)["loopback"], out + err


@pytest.mark.slow
def test_numbers_go_through_udp(capsys):
    loopback, _ = bench(f"udp://127.0.0.1:{free_port(socket.SOCK_DGRAM)}", capsys)
    assert loopback["seen"] > 3
    assert loopback["agrees"]
    assert loopback["backwards"] == 0
    assert loopback["beyond_ms"] > 0


@pytest.mark.slow
@needs_nginx
def test_numbers_go_through_an_rtmp_server_and_the_key_is_not_shown(tmp_path, capsys):
    with running(Nginx(tmp_path)) as server:
        loopback, said = bench(f"rtmp://127.0.0.1:{server.port}/live/s3cret", capsys)
    assert loopback["seen"] > 3
    assert loopback["agrees"]
    assert "s3cret" not in said
    assert loopback["through"].endswith("/live/***")
