"""What is taken of a browser's offer, and what is not."""

import pytest

from engines.errors import UsageError
from realtime.control.offer import LARGEST_OFFER, read_offer

FINGERPRINT = ":".join(["AB"] * 32)
CHROMIUM = f"""v=0
o=- 5170153453175854524 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0
a=extmap-allow-mixed
a=msid-semantic: WMS
m=video 9 UDP/TLS/RTP/SAVPF 96 97 102 103
c=IN IP4 0.0.0.0
a=rtcp:9 IN IP4 0.0.0.0
a=candidate:1 1 udp 2113937151 6b6f1c2e-7c2f-4c0e-8f3e-5d1c5f0b2f10.local 51999 typ host generation 0
a=candidate:2 1 udp 2113937151 8.8.8.8 53 typ srflx raddr 10.0.0.7 rport 9 generation 0
a=ice-ufrag:bmfm
a=ice-pwd:D3Jn1PrZhbe5uX2uNQ77mMNS
a=ice-options:trickle
a=fingerprint:sha-256 {FINGERPRINT}
a=setup:actpass
a=mid:0
a=extmap:1 urn:ietf:params:rtp-hdrext:toffset
a=recvonly
a=rtcp-mux
a=rtpmap:102 H264/90000
a=rtpmap:96 VP8/90000
a=rtcp-fb:96 nack pli
a=rtpmap:97 rtx/90000
a=fmtp:97 apt=96
""".replace("\n", "\r\n")
FIREFOX = f"""v=0
o=mozilla...THIS_IS_SDPARTA-99.0 7412344122712346 0 IN IP4 0.0.0.0
s=-
t=0 0
a=fingerprint:sha-256 {FINGERPRINT}
a=group:BUNDLE 0
a=ice-options:trickle
a=msid-semantic:WMS *
m=video 9 UDP/TLS/RTP/SAVPF 120 124 121
c=IN IP4 0.0.0.0
a=recvonly
a=fmtp:120 max-fs=12288;max-fr=60
a=ice-pwd:0123456789abcdef0123456789abcdef
a=ice-ufrag:0a1b2c3d
a=mid:0
a=rtcp-mux
a=rtpmap:120 VP8/90000
a=rtpmap:124 rtx/90000
a=rtpmap:121 VP9/90000
a=setup:actpass
""".replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("sdp", "user", "payload"), [(CHROMIUM, "bmfm", 96), (FIREFOX, "0a1b2c3d", 120)], ids=["one", "other"]
)
def test_browsers_are_understood(sdp, user, payload):
    offer = read_offer(sdp)
    assert (offer.mid, offer.user, offer.fingerprint, offer.payload) == ("0", user, FINGERPRINT, payload)
    # What was made of it says the same.
    assert read_offer(offer.text("127.0.0.1")) == offer
    assert read_offer(offer.text("::1")) == offer


def test_no_address_of_an_offer_is_taken():
    """Nobody is sent to for having been named, and no name is looked up."""
    text = read_offer(CHROMIUM).text("127.0.0.1")
    assert ".local" not in text
    assert "8.8.8.8" not in text
    assert [line for line in text.split("\r\n") if line.startswith("a=candidate")] == [
        "a=candidate:1 1 udp 1 127.0.0.1 9 typ host"
    ]


def changed(old, new):
    assert old in CHROMIUM
    return CHROMIUM.replace(old, new)


HOSTILE = {
    "none": None, "a number": 3, "a list": ["v=0"], "nothing": "", "no sdp": "GET / HTTP/1.1", "only a start": "v=0",
    "long": CHROMIUM + "a=x\r\n" * LARGEST_OFFER, "lines without end": "v=0\r\n" * 3000,
    "no video": changed("m=video 9", "m=audio 9"), "data": changed("m=video 9", "m=application 9"),
    "two videos": CHROMIUM + CHROMIUM[CHROMIUM.index("m=video"):], "sound too": CHROMIUM + "m=audio 9 RTP/AVP 0\r\n",
    "wants to send": changed("a=recvonly", "a=sendrecv"), "no direction": changed("a=recvonly\r\n", ""),
    "two directions": changed("a=recvonly", "a=recvonly\r\na=sendonly"),
    "an answer": changed("actpass", "active"), "no setup": changed("a=setup:actpass\r\n", ""),
    "no codec": changed("VP8/90000", "AV1/90000"), "another clock": changed("VP8/90000", "VP8/8000"),
    "a number that is none": changed("rtpmap:96", "rtpmap:9٣"), "a number of RTCP": changed("rtpmap:96", "rtpmap:72"),
    "a large number": changed("rtpmap:96", "rtpmap:255"),
    "no user": changed("a=ice-ufrag:bmfm\r\n", ""), "two users": changed("bmfm", "bmfm\r\na=ice-ufrag:other"),
    "a long user": changed("bmfm", "b" * 300), "a user with a space": changed("bmfm", "bm fm"),
    "a user of other letters": changed("bmfm", "bmf\u00fc"),
    "a short password": changed("D3Jn1PrZhbe5uX2uNQ77mMNS", "short"),
    "no certificate": changed(f"a=fingerprint:sha-256 {FINGERPRINT}\r\n", ""),
    "a weak one": changed("sha-256", "sha-1"),
    "a short one": changed(FINGERPRINT, "AB:CD"), "no mid": changed("a=mid:0\r\n", ""),
    "a mid with more": changed("a=mid:0", "a=mid:0 a=candidate:x"),
    "a long mid": changed("a=mid:0", "a=mid:" + "0" * 99),
    "other ends of lines": CHROMIUM.replace("\r\n", "\u2028"), "a null": changed("bmfm", "bmfm\0"),
}  # fmt: skip


@pytest.mark.parametrize("sdp", HOSTILE.values(), ids=HOSTILE)
def test_everything_else_is_refused_with_a_sentence(sdp):
    with pytest.raises(UsageError) as found:
        read_offer(sdp)
    assert found.value.what.endswith(".") or "characters" in found.value.what
    assert found.value.fix
    # What was sent is not said back.
    assert "bm" not in found.value.what
