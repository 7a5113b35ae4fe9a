"""Pictures by WebRTC: the video that is made once for all, the slot of one peer, and connections on loopback."""

import asyncio
import contextlib
import json
import sys
import threading
import time
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from realtime.clock import SystemClock
from realtime.control import broadcast as broadcast_module
from realtime.control import webrtc
from realtime.control.broadcast import Broadcast, Vp8Encoder
from realtime.control.offer import read_offer
from realtime.control.pictures import Picture
from realtime.control.webrtc import Peers, Slot, available, only_from
from tests.realtime.control.rig import Feeder, Rig
from tests.realtime.control.test_offer import CHROMIUM, HOSTILE

SOON = 20
MS = 1_000_000

needs_aiortc = pytest.mark.skipif(not available(), reason="aiortc is not installed")


def until(look, what):
    deadline = time.monotonic() + SOON
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


# -- the video ------------------------------------------------------------------------------------------------


def scene(seed=0, size=(320, 180)):
    """Something smooth with colours in it, BGR."""
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 8, 3), np.uint8)
    return cv2.resize(coarse, size, interpolation=cv2.INTER_CUBIC)


def decoded(packets):
    from av import CodecContext, Packet

    decoder = CodecContext.create("libvpx", "r")
    return [
        frame.to_ndarray(format="bgr24") for one in packets for frame in decoder.decode(Packet(bytes(one)))
    ]


@pytest.mark.parametrize("size", [(320, 180), (321, 181), (64, 48), (640, 64), (90, 640)])
def test_what_is_encoded_is_seen(size):
    encoder = Vp8Encoder()
    image = scene(size=size)
    packets = [encoder.encode(image, n * 66 * MS, False) for n in range(12)]
    assert [one.is_keyframe for one in packets] == [True] + [False] * 11
    seen = decoded(packets)[-1]
    width, height = size[0] & ~1, size[1] & ~1
    assert seen.shape == (height, width, 3)
    assert np.abs(seen.astype(int) - image[:height, :width]).mean() < 8


def test_another_size_begins_anew():
    encoder = Vp8Encoder()
    packets = [encoder.encode(scene(size=size), n * 66 * MS, False) for n, size in
               enumerate([(320, 180), (320, 180), (180, 320), (180, 320), (320, 180)])]  # fmt: skip
    assert [one.is_keyframe for one in packets] == [True, False, True, False, True]
    assert [one.shape[:2] for one in decoded(packets)] == [(180, 320)] * 2 + [(320, 180)] * 2 + [(180, 320)]


def test_whole_pictures_come_when_they_are_asked_for_but_not_too_often():
    encoder, apart = Vp8Encoder(), broadcast_module._WHOLE_APART
    whole = [encoder.encode(scene(n), n * 66 * MS, True).is_keyframe for n in range(4 * apart + 1)]
    assert [n for n, one in enumerate(whole) if one] == [0, apart, 2 * apart, 3 * apart, 4 * apart]


def test_a_whole_picture_comes_now_and_then_though_nobody_asks():
    encoder, every = Vp8Encoder(), broadcast_module._WHOLE_EVERY
    whole = [encoder.encode(scene(), n * 66 * MS, False).is_keyframe for n in range(every + 2)]
    assert [n for n, one in enumerate(whole) if one] == [0, every]


def test_time_goes_on_whatever_the_clock_says():
    encoder = Vp8Encoder()
    stamps = [
        encoder.encode(scene(), at, False).pts for at in (5_000 * MS, 5_000 * MS, 4_000 * MS, 5_066 * MS)
    ]
    assert stamps == [450_000, 450_001, 450_002, 455_940]


class Watcher:
    def __init__(self):
        self.got, self.ended = [], threading.Event()

    def show(self, packet, whole):
        self.got.append((packet, whole))

    def end(self):
        self.ended.set()


@contextlib.contextmanager
def casting(wanted=lambda: True):
    picture = Picture(SystemClock())
    broadcast = Broadcast(picture, wanted, SystemClock())
    try:
        yield picture, broadcast
    finally:
        picture.close()
        broadcast.stop()


def test_it_is_encoded_once_for_all_and_not_at_all_for_nobody(monkeypatch):
    made, real = [], Vp8Encoder.encode
    monkeypatch.setattr(Vp8Encoder, "encode", lambda *a: made.append(1) or real(*a))
    offered = []
    with casting() as (picture, broadcast), Feeder(lambda frame: offered.append(1) or picture.offer(frame)):
        assert not picture.watched
        one, other = Watcher(), Watcher()
        broadcast.join(one)
        until(lambda: len(one.got) >= 2, "a picture")
        broadcast.join(other)
        until(lambda: any(whole for _, whole in other.got), "a whole picture for who came later")
        until(lambda: len(other.got) >= 3, "more")
        assert {id(packet) for packet, _ in other.got} <= {id(packet) for packet, _ in one.got} | {
            id(other.got[-1][0])
        }
        broadcast.leave(one)
        broadcast.leave(other)
        until(lambda: not picture.watched, "nobody watches")
        until(lambda: not any(thread.name == "control-video" for thread in threading.enumerate()), "its end")
        count, before, seen = len(made), len(offered), len(one.got)
        until(lambda: len(offered) > before + 20, "more that could be shown")
        assert len(made) == count
        # Somebody comes back, and the one who left is shown nothing.
        broadcast.join(other)
        other.got.clear()
        until(lambda: other.got, "a picture again")
        assert other.got[0][1]
        assert len(one.got) == seen
    assert other.ended.is_set()
    assert not one.ended.is_set()


def test_what_may_be_seen_no_more_ends():
    wanted = threading.Event()
    wanted.set()
    with casting(wanted.is_set) as (picture, broadcast), Feeder(picture.offer):
        viewer = Watcher()
        broadcast.join(viewer)
        until(lambda: viewer.got, "a picture")
        wanted.clear()
        assert viewer.ended.wait(SOON)
        seen = len(viewer.got)
        until(lambda: not picture.watched, "its end")
        assert len(viewer.got) == seen


def test_without_room_a_viewer_is_told_so():
    with casting() as (picture, broadcast), contextlib.ExitStack() as stack:
        for _ in range(6):
            assert stack.enter_context(picture.watch())
        viewer = Watcher()
        broadcast.join(viewer)
        assert viewer.ended.wait(SOON)


def test_what_cannot_be_encoded_ends_and_is_in_the_log(monkeypatch, caplog):
    monkeypatch.setattr(broadcast_module, "open_codec", lambda *_: 1 // 0)
    with casting() as (picture, broadcast), Feeder(picture.offer):
        viewer = Watcher()
        broadcast.join(viewer)
        assert viewer.ended.wait(SOON)
    assert "cannot be encoded" in caplog.text


# -- one peer -------------------------------------------------------------------------------------------------


def taken(puts, take_after):
    """What a peer gets that takes a packet after each of these numbers of packets, and how often it missed one."""

    async def run():
        missed, got = [], []
        slot = Slot(asyncio.get_running_loop(), lambda: missed.append(1))
        for number, whole in enumerate(puts, 1):
            slot._put(number, whole)
            if number in take_after:
                with contextlib.suppress(TimeoutError):
                    got.append(await asyncio.wait_for(slot.get(), 0.001))
        return got, len(missed)

    return asyncio.run(run())


def test_a_peer_gets_every_packet_that_it_takes_in_time():
    assert taken([True, False, False, False], {1, 2, 3, 4}) == ([1, 2, 3, 4], 0)


def test_a_peer_that_stalls_has_one_packet_waiting_and_goes_on_with_a_whole_one():
    # 2 was not taken when 3 came: 3 to 5 make no sense to it, and 6 is whole.
    assert taken([True, False, False, False, False, True, False], {1, 3, 4, 5, 6, 7}) == ([1, 6, 7], 3)
    assert taken([True, False, True], {3}) == ([3], 1)
    assert taken([True] * 5, {5}) == ([5], 0)


def test_what_is_replaced_while_a_peer_wakes_up_harms_nothing():
    async def run():
        slot = Slot(asyncio.get_running_loop(), lambda: None)
        waits = asyncio.create_task(slot.get())
        await asyncio.sleep(0)
        slot._put(1, True)
        slot._put(2, False)  # Before the one that waits has taken 1: neither makes sense to it.
        await asyncio.sleep(0)
        assert not waits.done()
        slot._put(3, True)
        return await asyncio.wait_for(waits, SOON)

    assert asyncio.run(run()) == 3


class SilentPeer:
    """What is known of a connection: what it reports at each look, and when it hangs up."""

    def __init__(self, reports, hangs_up=99):
        self.reports, self.hangs_up, self.looks = reports, hangs_up, 0

    @property
    def connectionState(self):
        return "connected" if self.looks < self.hangs_up else "closed"

    async def getStats(self):
        self.looks += 1
        at = self.reports[min(self.looks, len(self.reports)) - 1]
        other = SimpleNamespace(type="outbound-rtp", timestamp=self.looks)
        return {"a": other} | ({"b": SimpleNamespace(type="remote-inbound-rtp", timestamp=at)} if at else {})


@pytest.mark.parametrize(
    ("peer", "looks"),
    [
        (SilentPeer([None]), 6), (SilentPeer([1, 2, 3]), 9), (SilentPeer(list(range(1, 40)), hangs_up=30), 30),
        (SilentPeer([1, 1, 1, 1, 1, 2]), 12),
    ],
)  # fmt: skip
def test_who_says_nothing_for_a_while_is_gone(peer, looks):
    async def run():
        slot = Slot(asyncio.get_running_loop(), lambda: None)
        await Peers(SystemClock(), tick_s=0)._until_gone(peer, slot)

    asyncio.run(run())
    assert peer.looks == looks


# -- connections ----------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def browser(rig, which="after"):
    """Watches as a browser does. Gives the answer, the connection and the track."""
    from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    try:
        transceiver = peer.addTransceiver("video", "recvonly")
        only_from(transceiver, "127.0.0.1")
        await peer.setLocalDescription(await peer.createOffer())
        status, said = await asyncio.to_thread(
            rig.send, "POST", f"/api/pictures/{which}", {"sdp": peer.localDescription.sdp}
        )
        assert status == 200, said
        await peer.setRemoteDescription(RTCSessionDescription(said["sdp"], "answer"))
        yield said["sdp"], peer, transceiver.receiver.track
    finally:
        await peer.close()


async def brightness(track):
    frame = await asyncio.wait_for(track.recv(), SOON)
    return float(frame.to_ndarray(format="gray").mean())


@pytest.fixture
def rig():
    with Rig() as rig:
        yield rig.enter()


@needs_aiortc
def test_the_picture_comes_by_webrtc_over_loopback_alone(rig):
    async def run():
        async with browser(rig) as (answer, _, track):
            candidates = [
                line.split(" ")[4] for line in answer.split("\r\n") if line.startswith("a=candidate")
            ]
            assert candidates == ["127.0.0.1"]
            assert "a=sendonly" in answer
            return [await brightness(track) for _ in range(5)]

    assert rig.get("/api/state")["webrtc"]
    with Feeder(rig.control.sinks[-1].send):
        seen = asyncio.run(run())
        assert len(set(seen)) > 1
        # Who hung up is encoded for no more.
        until(lambda: not rig.desk.after.watched, "the end")


@needs_aiortc
def test_the_real_face_comes_only_once_it_was_asked_for_and_ends_with_that(rig):
    status, said = rig.send("POST", "/api/pictures/before", {"sdp": CHROMIUM})
    assert (status, said["fix"]) == (403, "POST /api/before")

    async def run():
        from aiortc.mediastreams import MediaStreamError

        async with browser(rig, "before") as (_, _, track):
            await brightness(track)
            await asyncio.to_thread(rig.send, "POST", "/api/before", {"on": False})
            # Else there is another picture, or none within so many seconds.
            with pytest.raises(MediaStreamError):
                while True:
                    await asyncio.wait_for(track.recv(), SOON)

    assert rig.send("POST", "/api/before", {"on": True})[0] == 200
    with Feeder(rig.control.captured):
        asyncio.run(run())
        until(lambda: not rig.desk.before.watched, "the end")
    assert rig.send("POST", "/api/pictures/before", {"sdp": CHROMIUM})[0] == 403


@needs_aiortc
def test_a_browser_that_missed_something_asks_for_a_whole_picture(rig, monkeypatch):
    asked, real = threading.Event(), Broadcast.whole_please
    monkeypatch.setattr(Broadcast, "whole_please", lambda self: asked.set() or real(self))

    async def run():
        async with browser(rig) as (answer, peer, track):
            await brightness(track)
            ssrc = next(
                line.split(":")[1].split(" ")[0]
                for line in answer.split("\r\n")
                if line.startswith("a=ssrc:")
            )
            asked.clear()
            # RTCP: a picture was lost.
            await peer.getReceivers()[0]._send_rtcp_pli(int(ssrc))
            return await asyncio.to_thread(asked.wait, SOON)

    with Feeder(rig.control.sinks[-1].send):
        assert asyncio.run(run())


@needs_aiortc
def test_two_watch_and_one_hangs_up(rig):
    async def run():
        async with browser(rig) as (_, _, one):
            async with browser(rig) as (_, _, other):
                await brightness(one)
                await brightness(other)
            await asyncio.sleep(0)
            return [await brightness(one) for _ in range(3)]

    with Feeder(rig.control.sinks[-1].send):
        assert len(asyncio.run(run())) == 3


@needs_aiortc
def test_there_are_so_many_and_no_more_and_who_never_comes_is_no_watcher(rig, monkeypatch):
    monkeypatch.setattr(webrtc, "MOST_PEERS", 2)
    with Feeder(rig.control.sinks[-1].send):
        for _ in range(2):
            assert rig.send("POST", "/api/pictures/after", {"sdp": CHROMIUM})[0] == 200
        status, said = rig.send("POST", "/api/pictures/after", {"sdp": CHROMIUM})
        assert status == 503
        assert "Too many" in said["error"]
        assert not rig.desk.after.watched


@needs_aiortc
def test_who_never_comes_gives_up_its_place(rig, monkeypatch):
    monkeypatch.setattr(webrtc, "MOST_PEERS", 1)
    monkeypatch.setattr(webrtc, "_CONNECT_S", 0.05)
    for _ in range(3):
        until(lambda: rig.send("POST", "/api/pictures/after", {"sdp": CHROMIUM})[0] == 200, "room again")


@pytest.mark.parametrize("sdp", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_offer_is_refused_and_opens_nothing(rig, sdp, monkeypatch):
    monkeypatch.setattr(rig.desk, "_peers", rig.desk._peers or Peers(SystemClock()))
    status, said = rig.send("POST", "/api/pictures/after", {"sdp": sdp})
    assert status in (413, 422)
    assert set(said) == {"error", "fix"}
    assert rig.desk._peers._thread is None


@pytest.mark.parametrize("body", [{}, {"sdp": CHROMIUM, "more": 1}, {"type": "offer"}], ids=str)
def test_a_body_that_says_something_else_is_refused(rig, body):
    assert rig.send("POST", "/api/pictures/after", body)[0] == 422


def test_there_are_two_pictures(rig):
    for which in ("both", "before.mjpg", "Before", "0"):
        assert rig.send("POST", f"/api/pictures/{which}", {"sdp": CHROMIUM})[0] in (404, 422)


def test_an_offer_is_small(rig):
    status, _ = rig.send("POST", "/api/pictures/after", json.dumps({"sdp": "v=0" * 40_000}).encode())
    assert status == 413


def test_without_aiortc_it_is_said_so(monkeypatch):
    monkeypatch.setattr("realtime.control.control.available", lambda: False)
    with Rig() as rig:
        rig.enter()
        assert not rig.get("/api/state")["webrtc"]
        status, said = rig.send("POST", "/api/pictures/after", {"sdp": CHROMIUM})
        assert status == 501
        assert "webrtc" in said["fix"]


def test_what_is_broken_in_aiortc_is_an_answer_and_nothing_stays(rig, monkeypatch):
    """Its private parts may be other ones some day."""
    if not available():
        pytest.skip("aiortc is not installed")

    def fail(*_):
        raise AttributeError("_connection")

    monkeypatch.setattr(webrtc, "only_from", fail)
    status, said = rig.send("POST", "/api/pictures/after", {"sdp": CHROMIUM})
    assert status == 422
    assert "_connection" not in said["error"]
    until(lambda: not rig.desk._peers._tasks, "its end")


def test_an_aiortc_that_is_there_and_cannot_be_loaded_is_an_answer(monkeypatch):
    """Of another version than what it needs, for instance."""
    monkeypatch.setattr("realtime.control.control.available", lambda: True)
    monkeypatch.setitem(sys.modules, "aiortc", None)
    with Rig() as rig:
        status, said = rig.enter().send("POST", "/api/pictures/after", {"sdp": CHROMIUM})
        assert (status, said["fix"]) == (422, "Use Motion JPEG.")
        until(lambda: not rig.desk._peers._tasks, "its end")


@needs_aiortc
def test_the_end_hangs_up_on_everybody_and_nothing_is_left():
    """Threads and sockets that stay fail it by themselves."""

    async def run(rig):
        async with browser(rig) as (_, _, track):
            await brightness(track)
            await asyncio.to_thread(rig.control.__exit__, None, None, None)

    with Rig() as rig:
        rig.enter()
        assert rig.send("POST", "/api/pictures/after", {"sdp": CHROMIUM})[0] == 200  # Never comes.
        with Feeder(rig.control.sinks[-1].send):
            asyncio.run(run(rig))
    peers = rig.desk._peers
    assert peers._loop.is_closed()
    assert not peers._thread.is_alive()
    with pytest.raises(Exception, match="The session ended"):
        peers.answer(rig.desk.after, lambda: True, read_offer(CHROMIUM), "127.0.0.1")


@needs_aiortc
def test_where_the_page_was_reached_is_where_the_picture_comes_from():
    with Rig({"DOPPELCAM_CONTROL_PASSWORD": "correct horse"}, control_host="::") as rig:
        # Who comes by IPv4 to a server of both is answered by IPv4.
        status, said = rig.enter().send("POST", "/api/pictures/after", {"sdp": CHROMIUM})
    assert status == 200
    assert {line.split(" ")[4] for line in said["sdp"].split("\r\n") if line.startswith("a=candidate")} == {
        "127.0.0.1"
    }
