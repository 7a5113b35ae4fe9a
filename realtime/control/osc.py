"""Open Sound Control for stream decks: a few messages that do what the page's buttons do. This machine only."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Self

from engines.errors import DoppelcamError, UsageError
from realtime.control.desk import Desk
from realtime.local_http import HOST

log = logging.getLogger(__name__)

_LARGEST: Final = 4096
_GLANCE_S: Final = 0.2
_PREFIX: Final = "/doppelcam/"
_SHARES: Final = ("shape", "smoothing", "morph")
_WORDS: Final = ("engine", "eyes", "mouth", "occluders", "mask", "colour")


class OscServer(AbstractContextManager["OscServer"]):
    """Listens while it is entered.

    Args:
        port: UDP port; 0 takes a free one.
        desk: What is steered.

    Raises:
        UsageError: When entered, if python-osc is missing or the port is taken.
    """

    def __init__(self, port: int, desk: Desk) -> None:
        self.port = port
        self._desk = desk
        self._ended = threading.Event()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._parse = _parser()
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            opened.bind((HOST, self.port))
        except OSError as error:
            opened.close()
            raise UsageError(
                f"OSC cannot listen on port {self.port}: {error.strerror}.", "Choose another --control-osc."
            ) from error
        opened.settimeout(_GLANCE_S)
        self.port, self._socket = opened.getsockname()[1], opened
        self._thread = threading.Thread(target=self._run, args=(opened,), name="control-osc", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._socket is not None:
            self._socket.close()

    def _run(self, opened: socket.socket) -> None:
        while not self._ended.is_set():
            try:
                data, _ = opened.recvfrom(_LARGEST)
            except TimeoutError:
                continue
            except OSError:
                return
            try:
                for address, values in self._parse(data):
                    obey(self._desk, address, values)
            except DoppelcamError as error:
                log.warning("OSC: %s", error)
            # A parser that is fed with anything may raise anything.
            except Exception as error:
                log.warning("OSC: a message was not understood (%s)", type(error).__name__)


def obey(desk: Desk, address: str, values: list[Any]) -> None:
    """Does what one message says.

    Args:
        desk: What is steered.
        address: ``/doppelcam/veil`` and the like.
        values: ``veil``, ``label``: 1, 0 or nothing, which turns it round. ``face``: its number from 0, or its name.
            ``shape``, ``smoothing``, ``morph``: 0…1. ``engine``, ``eyes``, ``mouth``, ``occluders``, ``mask``,
            ``colour``: a word. ``output``: its number, and 1 or 0.

    Raises:
        UsageError: There is no such message, or it cannot have these values.
    """
    if not address.startswith(_PREFIX):
        raise UsageError("There is no such OSC message.")
    name = address.removeprefix(_PREFIX)
    if name == "veil":
        desk.veil(_flag(values, desk.veiled))
    elif name == "label":
        desk.change({"label": _flag(values, bool(desk.steering.config.label))})
    elif name == "face" and len(values) == 1:
        desk.change({"face": _face(desk, values[0])})
    elif name in _SHARES and len(values) == 1 and isinstance(values[0], int | float):
        desk.change({name: float(values[0])})
    elif name in _WORDS and len(values) == 1 and isinstance(values[0], str):
        desk.change({name: values[0]})
    elif name == "output" and len(values) == 2 and isinstance(values[0], int):
        desk.switch(values[0], bool(values[1]))
    else:
        raise UsageError("There is no such OSC message.", "See docs/control.md.")


def _flag(values: list[Any], now: bool) -> bool:
    if not values:
        return not now
    if len(values) == 1 and isinstance(values[0], bool | int | float):
        return bool(values[0])
    raise UsageError("A switch takes 1, 0 or nothing.")


def _face(desk: Desk, wanted: Any) -> str:
    people = desk.gallery.people()
    if isinstance(wanted, int) and 0 <= wanted < len(people):
        return people[wanted].id
    found = next((person.id for person in people if person.name == wanted), None)
    if found is None:
        raise UsageError("There is no such face in the gallery.", "Give its number from 0, or its name.")
    return found


def _parser() -> Callable[[bytes], list[tuple[str, list[Any]]]]:
    try:
        from pythonosc.osc_bundle import OscBundle
        from pythonosc.osc_message import OscMessage
    except ImportError:
        raise UsageError(
            "OSC needs python-osc, which is not there.", "pip install 'doppelcam[osc]'"
        ) from None

    def flat(bundle: Any, depth: int = 0) -> list[tuple[str, list[Any]]]:
        found: list[tuple[str, list[Any]]] = []
        for content in bundle if depth < 4 else ():
            found += flat(content, depth + 1) if isinstance(content, OscBundle) else [_said(content)]
        return found

    def parse(data: bytes) -> list[tuple[str, list[Any]]]:
        if OscBundle.dgram_is_bundle(data):
            return flat(OscBundle(data))
        return [_said(OscMessage(data))]

    return parse


def _said(message: Any) -> tuple[str, list[Any]]:
    return str(message.address), list(message.params)
