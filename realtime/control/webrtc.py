"""The page's pictures by WebRTC, through aiortc: one connection for each picture that a browser shows.

Signalling is one request and its answer (:meth:`Peers.answer`). Everything else is UDP between the browser and the
address of this machine by which the page was reached: no STUN server, no other interface, no name that is looked up.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NotYet
from typing import Any, Final

from engines.errors import DoppelcamError, UsageError
from realtime.clock import Clock
from realtime.control.broadcast import Broadcast, VideoPacket
from realtime.control.offer import Offer
from realtime.control.pictures import Picture

log = logging.getLogger(__name__)

MOST_PEERS: Final = 6
"""Connections at once, all pictures together."""

_ANSWER_S: Final = 5.0
_CONNECT_S: Final = 10.0
_QUIET: Final = 6
"""Ticks without a word after which a browser is gone: one that ends in order says so, and one that crashed does not.
Browsers report what they received about once a second."""
_TICK_S: Final = 1.0
_CLOSE_S: Final = 2.0


class TooManyPeers(DoppelcamError):
    """No more connections are taken."""


def available() -> bool:
    """Whether aiortc is installed; it is not imported for that."""
    return importlib.util.find_spec("aiortc") is not None


class Slot:
    """The newest packet for one peer, and nothing behind it. Belongs to one loop; see :class:`Viewer`.

    Args:
        loop: Where :meth:`get` is waited in.
        missed: Called when a picture was not taken in time: those after it make no sense until a whole one comes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, missed: Callable[[], None]) -> None:
        self._loop, self._missed = loop, missed
        self._packet: VideoPacket | None = None
        self._waits_for_whole = False
        self._filled = asyncio.Event()
        self.ended = asyncio.Event()

    def show(self, packet: VideoPacket, whole: bool) -> None:
        """See :class:`~realtime.control.broadcast.Viewer`."""
        self._loop.call_soon_threadsafe(self._put, packet, whole)

    def end(self) -> None:
        """See :class:`~realtime.control.broadcast.Viewer`."""
        self._loop.call_soon_threadsafe(self.ended.set)

    async def get(self) -> VideoPacket:
        """Takes the newest packet, once there is one."""
        while (packet := self._packet) is None:
            self._filled.clear()
            await self._filled.wait()
        self._packet = None
        return packet

    def _put(self, packet: VideoPacket, whole: bool) -> None:
        self._waits_for_whole = not whole and (self._waits_for_whole or self._packet is not None)
        self._packet = None if self._waits_for_whole else packet
        self._filled.set()
        if self._waits_for_whole:
            self._missed()


class Peers:
    """Browsers that are shown a picture. Its loop has a thread, which the first of them begins and :meth:`close` ends.

    Args:
        clock: Time of the pictures.
        tick_s: How often is looked whether a peer is still there.
    """

    def __init__(self, clock: Clock, tick_s: float = _TICK_S) -> None:
        self._clock, self._tick_s = clock, tick_s
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._broadcasts: dict[Picture, Broadcast] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, picture: Picture, wanted: Callable[[], bool], offer: Offer, address: str) -> str:
        """Shows somebody a picture, for as long as it may be seen and somebody is there.

        Args:
            picture: Which.
            wanted: Whether it may be shown; asked before each.
            offer: What was offered.
            address: Of this machine, by which it was reached.

        Returns:
            The answer, SDP.

        Raises:
            TooManyPeers: There is no room.
            UsageError: The offer cannot be used.
            DoppelcamError: It took too long, or the session ended.
        """
        with self._lock:
            if self._closed:
                raise DoppelcamError("The session ended.")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop,), name="control-webrtc", daemon=True
                )
                self._thread.start()
            broadcast = self._broadcasts.get(picture)
            if broadcast is None:
                broadcast = self._broadcasts[picture] = Broadcast(picture, wanted, self._clock)
            done = asyncio.run_coroutine_threadsafe(self._welcome(broadcast, offer, address), self._loop)
        try:
            return done.result(_ANSWER_S)
        except NotYet:
            done.cancel()
            raise DoppelcamError("WebRTC did not answer in time.", "Use Motion JPEG.") from None
        except CancelledError:
            raise DoppelcamError("The session ended.") from None

    def close(self) -> None:
        """Hangs up on everybody and joins every thread. The pictures must be closed before."""
        with self._lock:
            self._closed = True
            thread, loop = self._thread, self._loop
            broadcasts = tuple(self._broadcasts.values())
        if thread is not None and loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
        for broadcast in broadcasts:
            broadcast.stop()

    # -- the loop's thread ----------------------------------------------------------------------------------

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            # First our own tasks, which end the library's in order; then what of those is left.
            loop.run_until_complete(_end(self._tasks))
            loop.run_until_complete(_end(asyncio.all_tasks(loop)))
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    async def _welcome(self, broadcast: Broadcast, offer: Offer, address: str) -> str:
        if len(self._tasks) >= MOST_PEERS:
            raise TooManyPeers("Too many watch already.", "Close another window.")
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._attend(broadcast, offer, address, answered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await answered

    async def _attend(
        self, broadcast: Broadcast, offer: Offer, address: str, answered: asyncio.Future[str]
    ) -> None:
        """One peer, from its offer to its end."""
        slot = Slot(asyncio.get_running_loop(), broadcast.whole_please)
        changed = asyncio.Event()
        peer: Any = None
        try:
            from aiortc import RTCConfiguration, RTCPeerConnection

            peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
            peer.on("connectionstatechange", changed.set)
            await _agree(peer, slot, offer, address, broadcast.whole_please)
            if not answered.done():
                answered.set_result(peer.localDescription.sdp)
            if await _connected(peer, changed):
                broadcast.join(slot)
                await self._until_gone(peer, slot)
        except Exception:
            log.warning("A picture by WebRTC ended", exc_info=True)
            if not answered.done():
                answered.set_exception(UsageError("The offer cannot be used.", "Use Motion JPEG."))
        finally:
            broadcast.leave(slot)
            answered.cancel()
            if peer is not None:
                await _bounded(peer.close(), _CLOSE_S)

    async def _until_gone(self, peer: Any, slot: Slot) -> None:
        """Returns once a peer hung up or says nothing more, or there is nothing more to see."""
        quiet, heard = 0, None
        while quiet < _QUIET and peer.connectionState == "connected" and not slot.ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(slot.ended.wait(), self._tick_s)
            said = await _last_report(peer)
            quiet, heard = (quiet + 1, heard) if said == heard else (0, said)


async def _agree(peer: Any, slot: Slot, offer: Offer, address: str, whole_please: Callable[[], None]) -> None:
    """Makes the answer: one video that is sent, in VP8, from one address."""
    from aiortc import RTCRtpSender, RTCSessionDescription

    transceiver = peer.addTransceiver(_track(slot), "sendonly")
    codecs = RTCRtpSender.getCapabilities("video").codecs
    transceiver.setCodecPreferences([codec for codec in codecs if codec.mimeType == "video/VP8"])
    only_from(transceiver, address)
    # What a browser asks for when it has missed a picture, the first one most often: it comes before the browser has
    # its keys. aiortc would tell an encoder of its own.
    transceiver.sender._send_keyframe = whole_please
    await peer.setRemoteDescription(RTCSessionDescription(offer.text(address), "offer"))
    await peer.setLocalDescription(await peer.createAnswer())


def only_from(transceiver: Any, address: str) -> None:
    """Has a connection use one address of this machine: aiortc itself takes all of them, but none of loopback."""
    connection = transceiver.sender.transport.transport.iceGatherer._connection
    gather = connection.get_component_candidates

    def from_one(component: int, addresses: list[str], timeout: int = 5) -> Coroutine[Any, Any, Any]:
        return gather(component=component, addresses=[address], timeout=timeout)  # type: ignore[no-any-return]

    connection.get_component_candidates = from_one


def _track(slot: Slot) -> Any:
    """A track of aiortc that gives packets as they come; aiortc sends them as they are."""
    from aiortc import MediaStreamTrack

    class Track(MediaStreamTrack):
        kind = "video"

        async def recv(self) -> VideoPacket:
            return await slot.get()

    return Track()


async def _connected(peer: Any, changed: asyncio.Event) -> bool:
    """Whether a peer came to be connected."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CONNECT_S):
            while peer.connectionState in ("new", "connecting"):
                changed.clear()
                await changed.wait()
    return bool(peer.connectionState == "connected")


async def _last_report(peer: Any) -> Any:
    """When a peer last said what it received; None before."""
    stats = (await peer.getStats()).values()
    return max((one.timestamp for one in stats if one.type == "remote-inbound-rtp"), default=None)


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    ending = tuple(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


async def _bounded(closing: Coroutine[Any, Any, None], seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(closing, seconds)
