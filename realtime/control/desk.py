"""What can be seen and done, as plain calls: the page, its HTTP API and OSC are doors to these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from engines.errors import DoppelcamError, UsageError
from realtime.control.gallery import Gallery, Person
from realtime.control.offer import read_offer
from realtime.control.pictures import Picture
from realtime.control.steering import WORDS, Steering
from realtime.control.switch import Switch
from realtime.control.webrtc import Peers
from realtime.control.worker import Worker
from realtime.session import Snapshot
from realtime.shown.guard import Curtain
from realtime.stats import stats_of

Nodes = Callable[[], Mapping[str, Mapping[str, int]]]


class Hidden(DoppelcamError):
    """What the camera sees is on no page now."""


class NoWebRtc(DoppelcamError):
    """There is only Motion JPEG."""


class Desk:
    """One session, seen and steered. Any thread may call anything.

    Args:
        snapshot: How the session is doing.
        nodes: Where every network really runs.
        steering: Changes faces and engines.
        gallery: Faces there are.
        worker: Prepares them.
        curtain: Hides everybody.
        switches: The outputs.
        after: What viewers see.
        before: What the camera sees; only ever shown on the page.
        peers: Browsers that are shown them by WebRTC; None where that is not there.
        source: What to call where frames come from.
        size: Of the frames: width and height, known once the source is open.

    Attributes:
        show_before: Whether the page may show the real face. Off until somebody on the page wants it.
    """

    def __init__(
        self, snapshot: Callable[[], Snapshot], nodes: Nodes, steering: Steering, gallery: Gallery, worker: Worker,
        curtain: Curtain, switches: Sequence[Switch], after: Picture, before: Picture, peers: Peers | None, source: str,
        size: Callable[[], tuple[int, int]],
    ) -> None:  # fmt: skip
        self.steering, self.gallery, self.after, self.before = steering, gallery, after, before
        self.show_before = False
        self._snapshot, self._nodes, self._worker = snapshot, nodes, worker
        self._curtain, self._switches = curtain, tuple(switches)
        self._peers, self._source, self._size = peers, source, size

    def state(self) -> dict[str, Any]:
        """Everything that the page shows, in words that JSON can hold."""
        snapshot = self._snapshot()
        return {
            "schema": 1,
            "state": snapshot.state,
            "ready": snapshot.ready,
            "rung": snapshot.rung,
            "veil": self._curtain.drawn,
            "before": self.show_before,
            "webrtc": self._peers is not None,
            "busy": self._worker.doing,
            "source": {"name": self._source, "size": list(self._size())},
            "settings": self.steering.settings(),
            "choices": self._choices(),
            "faces": [person_of(person) for person in self.gallery.people()],
            "outputs": [
                {"id": number, "name": switch.name, "on": switch.on, "problem": switch.problem}
                for number, switch in enumerate(self._switches)
            ],
            "providers": {name: dict(nodes) for name, nodes in self._nodes().items()},
            "stats": stats_of(snapshot.report),
        }

    def _choices(self) -> dict[str, list[str]]:
        return {"engine": list(self.steering.engines)} | {name: list(words) for name, words in WORDS.items()}

    def change(self, values: Mapping[str, Any]) -> Future[None]:
        """Changes settings; see :meth:`~realtime.control.steering.Steering.ask`."""
        return self.steering.ask(values)

    def drop(self, name: str, data: bytes) -> Future[Person]:
        """Reads a photo into the gallery."""
        return self.steering.drop(name, data)

    def forget(self, face: str) -> None:
        """Takes a photo out of the gallery. The face that is on stays on.

        Raises:
            UsageError: There is no such photo, or it is in the configuration.
        """
        self.gallery.remove(face)

    def veil(self, drawn: bool) -> None:
        """Hides everybody from the next frame on, or shows them again."""
        self._curtain.drawn = drawn

    @property
    def veiled(self) -> bool:
        """Whether somebody asked for the veil."""
        return self._curtain.drawn

    def watch(self, before: bool, sdp: object, address: str) -> str:
        """Shows a browser a picture by WebRTC.

        Args:
            before: What the camera sees, and not what viewers see.
            sdp: What the browser offers.
            address: Of this machine, by which it was reached.

        Returns:
            The answer, SDP.

        Raises:
            Hidden: What the camera sees is not to be shown.
            NoWebRtc: It is not installed.
            UsageError: The offer cannot be used.
            DoppelcamError: There is no room, or it took too long.
        """
        if before and not self.show_before:
            raise Hidden("What the camera sees is not shown until you ask for it.", "POST /api/before")
        if self._peers is None:
            raise NoWebRtc(
                "WebRTC is not installed here.", "pip install 'doppelcam[webrtc]', or use Motion JPEG."
            )
        offer = read_offer(sdp)
        if before:
            return self._peers.answer(self.before, lambda: self.show_before, offer, address)
        return self._peers.answer(self.after, lambda: True, offer, address)

    def switch(self, number: int, on: bool) -> None:
        """Turns an output on or off.

        Raises:
            UsageError: There is no such output.
        """
        if not 0 <= number < len(self._switches):
            raise UsageError(
                "There is no such output.", f"They are numbered from 0 to {len(self._switches) - 1}."
            )
        self._switches[number].problem = ""
        self._switches[number].on = on


def person_of(person: Person) -> dict[str, Any]:
    """Somebody in the gallery, in words that JSON can hold."""
    return {
        "id": person.id, "name": person.name, "note": person.note, "own": person.own,
        "thumbnail": f"/api/faces/{person.id}/thumbnail",
    }  # fmt: skip
