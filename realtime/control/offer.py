"""What a browser says when it wants to be shown a picture by WebRTC (SDP, RFC 8866 and 8829).

Of an offer only six words are taken, each of a shape that is known; the rest is thrown away, and what speaks WebRTC is
given an offer made anew from them. So nothing that somebody wrote reaches its parser, and no address: sent to is who
asks, with the words of the offer, from where it really is.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from engines.errors import UsageError

LARGEST_OFFER: Final = 16 * 1024
"""Characters; browsers need about 6,000 for one video."""

_FIX: Final = "Offer one video that is received only, with VP8, as the page's own script does."

_USER: Final = re.compile(r"a=ice-ufrag:([A-Za-z0-9+/]{4,256})")
_PASSWORD: Final = re.compile(r"a=ice-pwd:([A-Za-z0-9+/]{22,256})")
_FINGERPRINT: Final = re.compile(r"a=fingerprint:sha-256 ([0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){31})")
_MID: Final = re.compile(r"a=mid:([A-Za-z0-9]{1,16})")
_DIRECTION: Final = re.compile(r"a=(sendrecv|sendonly|recvonly|inactive)")
_SETUP: Final = re.compile(r"a=setup:(\w{1,16})")
_VP8: Final = re.compile(r"a=rtpmap:([0-9]{2,3}) VP8/90000")

_NOWHERE: Final = 9
"""The port of the discard service: a place to look for the browser where it is not, until it has asked itself."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What is needed of an offer.

    Attributes:
        mid: What the browser calls the video.
        user: Its name for ICE.
        password: Its password for ICE.
        fingerprint: Of the certificate it will show, SHA-256.
        payload: Its number for VP8.
    """

    mid: str
    user: str
    password: str
    fingerprint: str
    payload: int

    def text(self, address: str) -> str:
        """The offer made anew.

        Args:
            address: Of this machine. It stands for the browser's own, which only its first packet tells.
        """
        version = ipaddress.ip_address(address).version
        lines = (
            "v=0", f"o=- 0 0 IN IP{version} {address}", "s=-", "t=0 0", f"a=group:BUNDLE {self.mid}",
            f"m=video {_NOWHERE} UDP/TLS/RTP/SAVPF {self.payload}", f"c=IN IP{version} {address}",
            f"a=candidate:1 1 udp 1 {address} {_NOWHERE} typ host", "a=end-of-candidates",
            f"a=ice-ufrag:{self.user}", f"a=ice-pwd:{self.password}", f"a=fingerprint:sha-256 {self.fingerprint}",
            "a=setup:actpass", f"a=mid:{self.mid}", "a=recvonly", "a=rtcp-mux",
            f"a=rtpmap:{self.payload} VP8/90000", f"a=rtcp-fb:{self.payload} nack",
        )  # fmt: skip
        return "".join(f"{line}\r\n" for line in lines)


def read_offer(sdp: object) -> Offer:
    """Takes out of an offer what is needed.

    Args:
        sdp: What was sent.

    Raises:
        UsageError: It is no offer, or of something else than one video to be received.
    """
    if not isinstance(sdp, str) or not sdp.startswith("v=0"):
        raise UsageError("This is no offer of WebRTC.", _FIX)
    if len(sdp) > LARGEST_OFFER:
        raise UsageError(f"The offer is too long: at most {LARGEST_OFFER} characters.", _FIX)
    lines = re.split(r"\r?\n", sdp)
    if [line.split(" ")[0] for line in lines if line.startswith("m=")] != ["m=video"]:
        raise UsageError("The offer is not of one video.", _FIX)
    if _only(lines, _DIRECTION, "direction") != "recvonly" or _only(lines, _SETUP, "setup") != "actpass":
        raise UsageError("The offer is not of a video that is received.", _FIX)
    numbers = [int(found[1]) for line in lines if (found := _VP8.fullmatch(line))]
    payload = next((number for number in numbers if 96 <= number < 128 or 35 <= number < 64), None)
    if payload is None:
        raise UsageError("The offer has no VP8.", _FIX)
    return Offer(
        _only(lines, _MID, "mid"), _only(lines, _USER, "ice-ufrag"), _only(lines, _PASSWORD, "ice-pwd"),
        _only(lines, _FINGERPRINT, "fingerprint"), payload,
    )  # fmt: skip


def _only(lines: list[str], pattern: re.Pattern[str], name: str) -> str:
    """What a line says that is there once, or again and again in the same words."""
    values = {found[1] for line in lines if (found := pattern.fullmatch(line))}
    if len(values) != 1:
        raise UsageError(f"The offer has no {name}, or more than one.", _FIX)
    return values.pop()
