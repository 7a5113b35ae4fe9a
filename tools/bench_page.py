"""What the picture on the control page costs: processor time of doppelcam with and without somebody who watches.

    python -m tools.bench_page [--size 1920x1080] [--fps 30] [--rounds 6] [--seconds 5] [--before]

Starts ``doppelcam run`` with the animated portrait as camera and watches its page without a browser, whose own work
would be in it: nobody, Motion JPEG and WebRTC in turn, several rounds. What a way costs is its turn less the mean of
the two turns of nobody around it, in percent of one core. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from realtime.control.webrtc import available, only_from

_FACE = Path(__file__).parents[1] / "realtime" / "assets" / "hopper.jpg"
_SETTLES_S = 1.0


class Page:
    """A running doppelcam and its page."""

    def __init__(self, size: str, fps: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "realtime", "run", "--source", "portrait", "--face", str(_FACE), "--sink", "null",
             "--size", size, "--fps", fps, "--control", "0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        link = self._link()
        self.port, self.token = int(link[1]), link[2].decode()
        assert self._process.stderr is not None
        # What it goes on to say must not fill the pipe.
        self._reader = threading.Thread(target=self._process.stderr.read, daemon=True)
        self._reader.start()

    def _link(self) -> re.Match[bytes]:
        assert self._process.stderr is not None
        said = b""
        for line in self._process.stderr:
            said += line
            if found := re.search(rb"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{43})", line):
                return found
        raise SystemExit(f"doppelcam does not start:\n{said.decode()}")

    def ask(self, method: str, path: str, value: object = None) -> dict[str, object]:
        """A request as a program makes it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(value) if value is not None else None, headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
        if answer.status != 200:
            raise SystemExit(f"{method} {path}: {answer.status} {said}")
        return dict(said)

    def cpu_s(self) -> float:
        """Processor time of the process until now."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait(30)
        self._reader.join(10)


@contextlib.contextmanager
def motion_jpeg(page: Page, name: str) -> Iterator[list[int]]:
    """Reads a picture as Motion JPEG; gives a list that counts the bytes of each block."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=20)
    connection.connect()
    sock = connection.sock
    connection.request("GET", f"/picture/{name}.mjpg", headers={"Authorization": f"Bearer {page.token}"})
    answer = connection.getresponse()
    got: list[int] = []

    def read() -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            while block := answer.read1(1 << 16):
                got.append(len(block))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield got
    finally:
        sock.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        answer.close()
        connection.close()


@contextlib.asynccontextmanager
async def web_rtc(page: Page, name: str) -> AsyncIterator[list[int]]:
    """Receives a picture by WebRTC; gives a list that grows by each."""
    from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
    from aiortc.mediastreams import MediaStreamError

    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    transceiver = peer.addTransceiver("video", "recvonly")
    only_from(transceiver, "127.0.0.1")
    await peer.setLocalDescription(await peer.createOffer())
    path, offer = f"/api/pictures/{name}", {"sdp": peer.localDescription.sdp}
    answer = await asyncio.to_thread(page.ask, "POST", path, offer)
    await peer.setRemoteDescription(RTCSessionDescription(str(answer["sdp"]), "answer"))
    got: list[int] = []

    async def receive() -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await transceiver.receiver.track.recv()
                got.append(frame.width)

    task = asyncio.create_task(receive())
    try:
        yield got
    finally:
        await peer.close()
        await task


def turn(page: Page, way: str, names: list[str], seconds: float) -> float:
    """Percent of one core that doppelcam takes while it is watched in one way."""

    def measured() -> float:
        time.sleep(_SETTLES_S)
        began, spent = time.monotonic(), page.cpu_s()
        time.sleep(seconds)
        return 100 * (page.cpu_s() - spent) / (time.monotonic() - began)

    async def watched() -> float:
        async with contextlib.AsyncExitStack() as stack:
            got = await stack.enter_async_context(web_rtc(page, names[0]))
            for name in names[1:]:  # As the page does.
                stack.enter_context(motion_jpeg(page, name))
            share = await asyncio.to_thread(measured)
            assert len(got) > 5 * seconds, "too few pictures came"
        return share

    if way == "WebRTC":
        return asyncio.run(watched())
    with contextlib.ExitStack() as stack:
        seen = [stack.enter_context(motion_jpeg(page, name)) for name in names if way == "Motion JPEG"]
        share = measured()
        assert all(sum(got) > 5 * seconds * 1000 for got in seen), "too few pictures came"
    return share


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="1920x1080")
    parser.add_argument("--fps", default="30")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument(
        "--before", action="store_true", help="what the camera sees as well, always as Motion JPEG"
    )
    args = parser.parse_args()
    names = ["after", "before"] if args.before else ["after"]
    ways = ["Motion JPEG", *(["WebRTC"] if available() else [])]
    page = Page(args.size, args.fps)
    try:
        page.ask("POST", "/api/before", {"on": args.before})
        while page.ask("GET", "/api/state")["state"] != "live":
            time.sleep(0.2)
        turn(page, ways[-1], names, _SETTLES_S)  # What is imported the first time is not counted.
        costs: dict[str, list[float]] = {way: [] for way in ways}
        bare = [turn(page, "nobody", names, args.seconds)]
        for number in range(args.rounds):
            for way in ways if number % 2 else reversed(ways):
                share = turn(page, way, names, args.seconds)
                bare.append(turn(page, "nobody", names, args.seconds))
                costs[way].append(share - (bare[-2] + bare[-1]) / 2)
    finally:
        page.close()
    print(f"nobody       {statistics.median(bare):5.1f} % of one core, {min(bare):.1f} to {max(bare):.1f}")
    for way, shares in costs.items():
        print(f"{way:12} {statistics.median(shares):+5.1f} %, {min(shares):+.1f} to {max(shares):+.1f}")


if __name__ == "__main__":
    main()
