"""The process behind WHIP: a finished stream in at standard input, out by WebRTC through aiortc.

``python -m realtime.sinks.streams.whip`` reads a line of JSON (``url``, ``token``), then NUT until it ends: RFC 9725.
FFmpeg has a WHIP muxer too, but its handshake (of FFmpeg 8.1 with GnuTLS) is refused by aiortc.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from realtime.sinks.streams.relay import READY, open_input, read_hello

if TYPE_CHECKING:
    from av.packet import Packet

_ANSWER_S: Final = 8.0
_CONNECT_S: Final = 8.0
_MOST: Final = 1 << 20
_QUEUE: Final = 8
"""Packets that wait for the network; more are not read, and the camera's side sends fewer."""


class Refused(Exception):
    """The server does not take the stream; the text says why."""


def ask(url: str, token: str, method: str, sdp: str = "") -> tuple[str, str]:
    """One request of WHIP.

    Args:
        url: http or https.
        token: For the bearer; empty for none.
        method: ``POST`` or ``DELETE``.
        sdp: The offer.

    Returns:
        The answer, and where the session is, as an address.

    Raises:
        Refused: Anything but success.
    """
    headers = {"Content-Type": "application/sdp"} | ({"Authorization": f"Bearer {token}"} if token else {})
    # parse_target() lets only http and https through.
    request = urllib.request.Request(url, sdp.encode() or None, headers, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:  # noqa: S310
            body = answer.read(_MOST).decode("utf-8", "replace")
            return body, urllib.parse.urljoin(url, answer.headers.get("Location") or "")
    except urllib.error.HTTPError as error:
        error.close()
        raise Refused(f"HTTP {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        raise Refused(str(getattr(error, "reason", error)) or type(error).__name__) from None


class Packets:
    """Packets of one stream, from the thread that reads them to the loop that sends them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: asyncio.Queue[Packet[Any] | None] = asyncio.Queue(_QUEUE)

    def put(self, packet: Packet[Any] | None) -> None:
        """Leaves one, or None for the end; blocks while too many wait. Called by the reading thread."""
        asyncio.run_coroutine_threadsafe(self._queue.put(packet), self._loop).result()

    async def get(self) -> Packet[Any] | None:
        """Takes the next one."""
        return await self._queue.get()


def make_track(kind: str, packets: Packets) -> Any:
    """A track of aiortc that gives packets as they come."""
    from aiortc.mediastreams import MediaStreamError, MediaStreamTrack

    class Track(MediaStreamTrack):
        async def recv(self) -> Packet[Any]:
            packet = await packets.get()
            if packet is None:
                self.stop()
                raise MediaStreamError
            return packet

    track = Track()
    track.kind = kind
    return track


async def publish(url: str, token: str) -> None:
    """Publishes what comes in, until it ends.

    Raises:
        Refused: The server does not take it, or is gone.
    """
    from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

    loop = asyncio.get_running_loop()
    source = await loop.run_in_executor(None, open_input)
    ways = {stream.index: Packets(loop) for stream in (*source.streams.video, *source.streams.audio)}
    # No STUN server: the other side has an address, and nobody else needs to hear of us.
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connected: asyncio.Future[bool] = loop.create_future()
    ended: asyncio.Future[bool] = loop.create_future()

    def settle(well: bool) -> None:
        for future in (ended,) if well else (connected, ended):
            if not future.done():
                future.set_result(well)

    def changed() -> None:
        if peer.connectionState == "connected" and not connected.done():
            connected.set_result(True)
        if peer.connectionState in ("failed", "closed"):
            settle(False)

    peer.on("connectionstatechange", changed)
    for stream in (*source.streams.video, *source.streams.audio):
        transceiver = peer.addTransceiver(make_track(stream.type, ways[stream.index]), "sendonly")
        _only(transceiver, "video/H264" if stream.type == "video" else "audio/opus")
    await peer.setLocalDescription(await peer.createOffer())
    answer, session = await loop.run_in_executor(None, ask, url, token, "POST", peer.localDescription.sdp)
    try:
        await peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    except Exception as error:  # whatever a parser makes of a stranger's text
        raise Refused(f"the answer cannot be used: {error}") from None
    if not await _soon(connected, _CONNECT_S):
        raise Refused("DTLS or ICE failed: no media connection came about")
    print(READY, flush=True)

    def read() -> None:
        from av.bitstream import BitStreamFilterContext

        repeat = BitStreamFilterContext("dump_extra=freq=keyframe", source.streams.video[0])
        early: deque[Packet[Any]] = deque()
        for packet in source.demux():
            if not packet.size:
                continue
            if packet.stream.type != "video":
                early.append(packet)
                continue
            base, shown = packet.time_base, seconds(packet)
            for one in repeat.filter(packet):
                one.time_base = base
                ways[packet.stream_index].put(one)
            # A receiver takes for simultaneous what is sent at the same time: sound waits for its picture.
            while early and seconds(early[0]) <= shown:
                ways[early[0].stream_index].put(early.popleft())
        loop.call_soon_threadsafe(settle, True)

    # A daemon: a pipe that nobody closes must not keep the process.
    threading.Thread(target=read, name="read", daemon=True).start()
    alive = await ended
    if session != url:
        await loop.run_in_executor(None, _quietly, session, token)
    await _bounded(peer.close(), 1.0)
    if not alive:
        raise Refused("the connection was lost")


def seconds(packet: Packet[Any]) -> float:
    """When a packet is shown or heard."""
    return float((packet.pts or 0) * packet.time_base)


def _only(transceiver: Any, mime: str) -> None:
    """What is encoded already can be sent in one codec only."""
    from aiortc import RTCRtpSender

    kind = mime.partition("/")[0]
    wanted = [codec for codec in RTCRtpSender.getCapabilities(kind).codecs if codec.mimeType == mime]
    transceiver.setCodecPreferences(wanted)


async def _soon(future: asyncio.Future[bool], seconds: float) -> bool:
    try:
        return await asyncio.wait_for(asyncio.shield(future), seconds)
    except TimeoutError:
        return False


async def _bounded(closing: Coroutine[Any, Any, None], seconds: float) -> None:
    try:
        await asyncio.wait_for(closing, seconds)
    except TimeoutError:
        return


def _quietly(session: str, token: str) -> None:
    try:
        ask(session, token, "DELETE")
    except Refused:
        return


def main() -> int:
    """Publishes until standard input ends; 1 if that did not go well."""
    hello = read_hello()
    code = 0
    try:
        asyncio.run(publish(hello["url"], hello["token"]))
    except (Refused, OSError, ValueError, json.JSONDecodeError) as error:
        print(error, file=sys.stderr, flush=True)
        code = 1
    # What still waits in a thread of the loop must not hold up the end.
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
