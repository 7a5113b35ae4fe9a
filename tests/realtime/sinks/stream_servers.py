"""Real servers for streams, on this machine and free ports, each ended with its test."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

RTMP_MODULE = Path("/usr/lib/nginx/modules/ngx_rtmp_module.so")
needs_nginx = pytest.mark.skipif(
    not (shutil.which("nginx") and RTMP_MODULE.exists()),
    reason="not installed: apt install nginx-light libnginx-mod-rtmp",
)
needs_ffmpeg = pytest.mark.skipif(not shutil.which("ffmpeg"), reason="not installed: apt install ffmpeg")
needs_aiortc = pytest.mark.skipif(not find_spec("aiortc"), reason="not installed: pip install aiortc")


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(true, seconds=20.0, meanwhile=lambda: time.sleep(0.02)):
    """Waits for something that another process does."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if true():
            return True
        meanwhile()
    return bool(true())


def listens(port, host="127.0.0.1"):
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((host, port)) == 0


class Program:
    """A process of a test."""

    def __init__(self, command, output):
        self.command, self.output = command, output
        self.process = None

    def start(self):
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=Path(__file__).parents[3]
            )
        return self

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)

    def end(self):
        """Lets it finish what it writes."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def lines(self):
        return self.output.read_text("utf-8", "replace").splitlines()


class Nginx(Program):
    """nginx with libnginx-mod-rtmp; records what it takes into its folder. ``denies`` refuses every publisher."""

    host = "127.0.0.1"

    def __init__(self, folder, denies=False):
        self.folder, self.port = folder, free_port()
        config = folder / "nginx.conf"
        config.write_text(f"""
load_module {RTMP_MODULE};
daemon off; master_process off; worker_processes 1;
pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
rtmp {{ server {{ listen 127.0.0.1:{self.port}; application live {{
    live on; record all; record_path {folder}; record_unique on; {"deny publish all;" if denies else ""}
}} }} }}
""")
        super().__init__(
            ["nginx", "-p", str(folder), "-c", str(config), "-e", str(folder / "early.log")], folder / "out"
        )

    def start(self):
        super().start()
        assert until(lambda: listens(self.port, self.host)), self.lines()
        return self

    def recordings(self):
        return sorted(self.folder.glob("*.flv"), key=lambda path: path.stat().st_mtime_ns)


class SrtListener(Program):
    """ffmpeg, which waits for one SRT caller and writes what it sends."""

    def __init__(self, folder, passphrase):
        self.port, self.file = free_port(socket.SOCK_DGRAM), folder / "received.ts"
        url = f"srt://127.0.0.1:{self.port}?mode=listener&passphrase={passphrase}"
        super().__init__(
            [
                "ffmpeg",
                "-hide_banner",
                "-nostats",
                "-y",
                "-i",
                url,
                "-c",
                "copy",
                "-f",
                "mpegts",
                str(self.file),
            ],
            folder / "srt.log",
        )


class WhipEndpoint(Program):
    def __init__(self, folder, token=""):
        self.port = free_port()
        super().__init__(
            [sys.executable, "-m", "tests.realtime.sinks.whip_endpoint", str(self.port), token],
            folder / "whip.log",
        )

    def start(self):
        super().start()
        assert until(lambda: any(line.startswith("port ") for line in self.lines())), self.lines()
        return self

    def received(self, kind):
        """Wall time, s, as a browser works it out, and brightness or loudness of everything of a kind."""
        words = [line.split() for line in self.lines()]
        (origin,) = (int(row[2]) for row in words if row[:2] == ["origin", kind])
        reports = [(int(row[2]), float(row[3])) for row in words if row[:2] == ["report", kind]]
        assert len(reports) >= 3
        rate = {"video": 90_000, "audio": 48_000}[kind]

        def wall(pts):
            at = origin + pts
            rtp, ntp = min(reports, key=lambda report: abs(report[0] - at))
            return ntp + (at - rtp) / rate

        return [(wall(int(row[1])), float(row[2])) for row in words if len(row) == 3 and row[0] == kind]


@contextlib.contextmanager
def running(program):
    program.start()
    try:
        yield program
    finally:
        program.kill()
