"""A WHIP endpoint made with aiortc: ``python -m tests.realtime.sinks.whip_endpoint PORT [TOKEN]``.

It prints its port and then, line by line, what it receives: kind, time of presentation in ticks of its clock,
brightness or loudness. ``origin`` is the first RTP time of a kind, ``report`` an RTP time and the wall time that the
sender gives for it: what a browser goes by to bring picture and sound together.
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np
from aiortc import RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from aiortc.rtp import RtcpSrPacket


def tap(receiver):
    """Notes what comes in before it is taken apart."""
    kind, rtp, rtcp = receiver.track.kind, receiver._handle_rtp_packet, receiver._handle_rtcp_packet
    seen = []

    async def handle_rtp(packet, arrival_time_ms):
        if not seen and packet.payload:
            seen.append(packet.timestamp)
            print("origin", kind, packet.timestamp, flush=True)
        await rtp(packet, arrival_time_ms=arrival_time_ms)

    async def handle_rtcp(packet):
        if isinstance(packet, RtcpSrPacket):
            info = packet.sender_info
            print("report", kind, info.rtp_timestamp, info.ntp_timestamp / 2**32, flush=True)
        await rtcp(packet)

    receiver._handle_rtp_packet, receiver._handle_rtcp_packet = handle_rtp, handle_rtcp


class Endpoint:
    def __init__(self, token):
        self.token = token
        self.peers, self.tasks = set(), set()

    async def consume(self, track):
        try:
            while True:
                frame = await track.recv()
                at = frame.pts
                if track.kind == "video":
                    print("video", at, round(float(frame.to_ndarray(format="gray").mean()), 1), flush=True)
                else:
                    print("audio", at, int(np.abs(frame.to_ndarray().astype(int)).max()), flush=True)
        except MediaStreamError:
            print("ended", track.kind, flush=True)

    async def answer(self, sdp):
        peer = RTCPeerConnection()
        self.peers.add(peer)
        peer.on("track", lambda track: self.tasks.add(asyncio.ensure_future(self.consume(track))))
        peer.on(
            "track",
            lambda track: [
                tap(one.receiver) for one in peer.getTransceivers() if one.receiver.track is track
            ],
        )
        peer.on("connectionstatechange", lambda: print("state", peer.connectionState, flush=True))
        await peer.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
        await peer.setLocalDescription(await peer.createAnswer())
        return peer.localDescription.sdp

    async def handle(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method = head[0].split(" ")[0]
        pairs = (line.split(":", 1) for line in head[1:] if ":" in line)
        fields = {name.lower(): value.strip() for name, value in pairs}
        body = await reader.readexactly(int(fields.get("content-length", "0")))
        status, more, out = "200 OK", "", b""
        if self.token and fields.get("authorization") != f"Bearer {self.token}":
            status = "401 Unauthorized"
        elif method == "POST":
            out = (await self.answer(body.decode())).encode()
            status, more = "201 Created", "Content-Type: application/sdp\r\nLocation: /whip/1\r\n"
        elif method == "DELETE":
            print("deleted", flush=True)
            for peer in self.peers:
                await peer.close()
        length = f"Content-Length: {len(out)}\r\nConnection: close\r\n\r\n"
        writer.write(f"HTTP/1.1 {status}\r\n{more}{length}".encode() + out)
        await writer.drain()
        writer.close()


async def main(port, token):
    endpoint = Endpoint(token)
    server = await asyncio.start_server(endpoint.handle, "127.0.0.1", port)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
