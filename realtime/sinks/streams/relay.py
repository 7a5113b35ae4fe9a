"""The process behind RTMP and UDP: a finished stream in at standard input, out to an address.

``python -m realtime.sinks.streams.relay`` reads a line of JSON (``url``, ``muxer``), then NUT until it ends. It says
when the other side takes the stream; trouble goes to standard error, and the exit code is 1.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from av.bitstream import BitStreamFilterContext
    from av.container import InputContainer, OutputContainer
    from av.packet import Packet
    from av.stream import Stream

    Outlet = tuple[Stream, BitStreamFilterContext | None]

READY: Final = "doppelcam: on air"
"""Said in a line of its own once the other side takes the stream."""
_INTERLEAVE_US: Final = "100000"
"""How long a picture waits for sound that does not come."""
_LONGEST: Final = 65536
_HANDLES: Final = 64
_KEPT: Final = 192 * 1024
"""Bytes that a socket keeps, of which Linux makes twice as many: less than a second of a usual stream."""


def read_hello() -> dict[str, Any]:
    """The first line of standard input, byte by byte: what follows it belongs to FFmpeg."""
    line = bytearray()
    while not line.endswith(b"\n") and len(line) < _LONGEST:
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    said = json.loads(line)
    if not isinstance(said, dict):
        raise ValueError("no hello")
    return said


def open_input() -> InputContainer:
    """The stream at standard input; it is not studied, since its header says everything."""
    import av

    options = {"probesize": "32", "analyzeduration": "0"}
    return av.open("pipe:0", format="nut", options=options)


def outlets(source: InputContainer, sink: OutputContainer) -> dict[int, Outlet]:
    """For each stream that comes in, where it goes and what it has to go through.

    A receiver that joins an MPEG-TS later needs the parameters before every keyframe; FLV has them in its header.
    """
    from av.bitstream import BitStreamFilterContext

    found: dict[int, Outlet] = {}
    for stream in (*source.streams.video, *source.streams.audio):
        into = sink.add_stream_from_template(stream)
        repeat = stream.type == "video" and sink.format.name == "mpegts"
        found[stream.index] = (
            into,
            BitStreamFilterContext("dump_extra=freq=keyframe", stream) if repeat else None,
        )
    return found


def send(packet: Packet[Any], outlet: Outlet, sink: OutputContainer) -> None:
    """Sends one packet."""
    into, through = outlet
    # A filter forgets on what clock a packet runs.
    base: Fraction = packet.time_base
    for one in [packet] if through is None else through.filter(packet):
        one.time_base = base
        one.stream = into
        sink.mux_one(one)


def narrow_sockets() -> None:
    """Lets the system keep little of what it cannot send yet: megabytes of it are many seconds of delay."""
    for handle in range(3, _HANDLES):
        try:
            if stat.S_ISSOCK(os.fstat(handle).st_mode):
                with socket.socket(fileno=os.dup(handle)) as found:
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KEPT)
        except OSError:
            continue


def main() -> int:
    """Relays until standard input ends."""
    import av
    import av.logging

    av.logging.set_level(av.logging.ERROR)
    hello = read_hello()
    try:
        source = open_input()
        sink = av.open(
            hello["url"], "w", format=hello["muxer"],
            container_options={
                "max_interleave_delta": _INTERLEAVE_US, "flush_packets": "1", "flvflags": "no_duration_filesize",
                "muxdelay": "0", "max_delay": "0", "omit_video_pes_length": "0",
            },
        )  # fmt: skip
        sink.metadata.update(source.metadata)
        ways = outlets(source, sink)
        sink.start_encoding()
        narrow_sockets()
        print(READY, flush=True)
        for packet in source.demux():
            if packet.size:
                send(packet, ways[packet.stream_index], sink)
        sink.close()
    except (av.FFmpegError, OSError, ValueError) as error:
        print(error, file=sys.stderr, flush=True)
        # Not the orderly way out: closing would wait for a server that is gone.
        os._exit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
