"""A recording beside a camera: what a crash leaves, and what a full disk takes."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import av
import numpy as np
import pytest

from engines.errors import DeviceError, UsageError
from realtime.clock import StopFlag
from realtime.metrics import metrics_text
from realtime.pace.budget import Meter
from realtime.session import Snapshot
from realtime.show import counts_line
from realtime.sinks.file import FileSink
from realtime.sinks.open import open_sink
from realtime.sinks.spare import SpareSink
from realtime.stats import stats_of
from tests.realtime.fakes import FakeSink, SoloClock
from tests.realtime.live import Live
from tests.realtime.sinks.pictures import bars, frame

SIZE = (192, 64)

RECORDER = """
import sys
import numpy as np
from pathlib import Path
from realtime.frame import Frame, Kind
from realtime.sinks.file import FileSink

sink = FileSink(Path(sys.argv[1]), {})
sink.open((192, 64), 10)
rng = np.random.default_rng(1)
for seq in range(10_000):
    sink.send(Frame(rng.integers(0, 256, (64, 192, 3), np.uint8), seq, 0, Kind.SWAPPED))
    if seq == 99:
        print("a hundred", flush=True)
        sys.stdin.read(1)
"""


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
def test_a_killed_process_leaves_a_file_that_plays(tmp_path, suffix):
    """Ten seconds are in; at most the fragment that was being written is lost."""
    path = tmp_path / f"killed{suffix}"
    process = subprocess.Popen(
        [sys.executable, "-c", RECORDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    with process:
        assert process.stdout.readline() == b"a hundred\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    pictures = []
    with av.open(str(path)) as container, contextlib.suppress(av.InvalidDataError):
        pictures.extend(picture.pts * picture.time_base for picture in container.decode(video=0))
    # Keyframes are two seconds apart, and what the encoder looks ahead comes on top.
    assert len(pictures) >= 40
    assert np.allclose(np.diff([float(at) for at in pictures]), 0.1, atol=0.002)


class Failing(FakeSink):
    def __init__(self, after, at_close=False):
        clock = SoloClock()
        super().__init__(clock, "the fake file", self.fail)
        self.after, self.at_close = after, at_close
        self.stop = StopFlag(clock)

    def fail(self, n):
        if n >= self.after:
            raise DeviceError("The disk takes no more of it.", "Free some space.")

    def close(self):
        super().close()
        if self.at_close:
            raise DeviceError("The end could not be written.", "Free some space.")


def test_a_full_disk_is_named_once_and_ends_only_the_recording(caplog):
    inner, lost = Failing(after=3, at_close=True), []
    sink = SpareSink(inner, lambda: lost.append(1))
    sink.open(SIZE, 30)
    for seq in range(20):
        sink.send(frame(bars(), seq))
    sink.close()
    assert len(inner.sent) == 3
    assert inner.closed >= 1
    assert "takes no more" in sink.lost
    assert lost == [1]
    assert len([r for r in caplog.records if "goes on without" in r.message]) == 1


def test_an_end_that_cannot_be_written_is_named(caplog):
    sink = SpareSink(Failing(after=9, at_close=True))
    sink.open(SIZE, 30)
    sink.send(frame(bars()))
    sink.close()
    assert "could not be written" in caplog.text


def test_what_is_wrong_at_the_start_is_an_error(tmp_path):
    sink = SpareSink(FileSink(tmp_path / "none" / "a.mp4", {}))
    with pytest.raises(UsageError, match="no folder"):
        sink.open(SIZE, 30)
    sink.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk to write to")
def test_a_really_full_disk(tmp_path, caplog):
    path = tmp_path / "a.mkv"
    path.symlink_to("/dev/full")
    sink = SpareSink(FileSink(path, {}))
    sink.open(SIZE, 30)
    rng = np.random.default_rng(1)
    for seq in range(400):
        sink.send(frame(rng.integers(0, 256, (64, 192, 3), np.uint8), seq))
    sink.close()
    assert "disk takes no more" in caplog.text


def test_the_camera_goes_on_when_its_recording_ends():
    live = Live(sinks=2)
    inner = live.sinks[1]

    def work(n):
        if n >= 30:
            raise DeviceError("The disk takes no more of it.", "Free some space.")

    inner.work = work
    live.session._sinks = (live.sinks[0], SpareSink(inner))
    live.play(5)
    live.session.check()
    assert len(inner.sent) == 30
    assert len(live.sinks[0].sent) > 120


def test_recordings_that_are_lost_stand_where_everything_is_counted(tmp_path):
    meter = Meter(0)
    assert "recordings" not in counts_line(meter.report(1))
    for name in ("a.mp4", "b.mp4"):
        sink = open_sink(
            f"file:{tmp_path / name}", clock=SoloClock(), report=lambda: meter.report(1), metadata={},
            beside=True, lost=partial(meter.count, "recordings_lost"),
        )  # fmt: skip
        sink.sink = Failing(after=1)
        sink.open(SIZE, 30)
        for seq in range(5):
            sink.send(frame(bars(), seq))
        sink.close()
    report = meter.report(1)
    assert "2 recordings lost" in counts_line(report)
    assert stats_of(report)["counts"]["recordings_lost"] == 2
    assert 'what="recordings_lost"} 2' in metrics_text(Snapshot("live", True, report))
