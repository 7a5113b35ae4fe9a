"""A session with its control page: what has to be put around the outputs before, and beside the session after."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Final, Self

from engines.catalogue.store import Store, default_folder
from engines.errors import UsageError
from engines.shipped import SWAPPERS
from engines.swap.base import AnySwapper
from realtime.clock import Clock
from realtime.control.desk import Desk, Nodes
from realtime.control.gallery import Gallery
from realtime.control.osc import OscServer
from realtime.control.pictures import PageSink, Picture
from realtime.control.security import Access, password_from
from realtime.control.server import ControlHttp
from realtime.control.steering import Another, Smoothed, Steering
from realtime.control.switch import OFF, Switch
from realtime.control.wanted import is_loopback
from realtime.control.webrtc import Peers, available
from realtime.control.worker import Worker
from realtime.frame import Frame
from realtime.pipeline import Pipeline
from realtime.session import Session
from realtime.settings.config import Config
from realtime.shown.guard import Guard
from realtime.sinks.base import Sink
from realtime.sources.base import Source

log = logging.getLogger(__name__)

USUAL_PORT: Final = 8766


class Control(AbstractContextManager["Control"]):
    """The page of one session. Made before the session, entered once there is one.

    Args:
        config: What runs.
        sinks: The outputs.
        pipeline: Gets other swappers.
        tracker: Gets another smoothing.
        guard: Gets veiled.
        source: Where frames come from.
        another: Makes swappers.
        replace_swapper: Puts one in the place of another, between two frames.
        nodes: Where every network really runs.
        clock: Time.
        environ: Where the password may stand.

    Attributes:
        sinks: What the session has to send to in place of ``sinks``.

    Raises:
        UsageError: The page is to be seen from other machines and there is no password, or one that is too short.
    """

    def __init__(
        self, config: Config, sinks: Sequence[Sink], pipeline: Pipeline, tracker: Smoothed, guard: Guard,
        source: Source, another: Another, replace_swapper: Callable[[AnySwapper], AnySwapper], nodes: Nodes,
        clock: Clock, environ: Mapping[str, str] = os.environ,
    ) -> None:  # fmt: skip
        password = password_from(environ, config.control_password_file)
        if password is None and not is_loopback(config.control_host):
            raise UsageError(
                "A control page that other machines can reach needs a password.",
                "Set DOPPELCAM_CONTROL_PASSWORD or --control-password-file, or leave --control-host out.",
            )
        self._config, self._pipeline, self._tracker, self._guard = config, pipeline, tracker, guard
        self._source, self._another, self._nodes = source, another, nodes
        self._replace_swapper = replace_swapper
        self._access = Access(password, lambda: clock.now_ns() / 1e9)
        self._after, self._before = Picture(clock), Picture(clock, painted=True)
        self._peers = Peers(clock) if available() else None
        kinds = [spec.partition(":")[0] for spec in config.sink]
        self._switches = [
            Switch(sink, OFF.get(kind, "pause"), clock) for sink, kind in zip(sinks, kinds, strict=False)
        ]
        others = sinks[len(self._switches) :]
        self.sinks: Sequence[Sink] = (*self._switches, *others, PageSink(self._after))
        self._serving = ExitStack()
        self._http: ControlHttp | None = None
        self._osc: OscServer | None = None

    def captured(self, frame: Frame) -> None:
        """Shown every captured frame before it is painted into; see :class:`~realtime.session.Session`."""
        self._before.offer(frame)

    def begin(self, session: Session) -> Self:
        """Serves the page of this session, until :meth:`__exit__`.

        Raises:
            UsageError: A port is taken.
            DeviceError: There is no such address on this machine.
        """
        config = self._config
        gallery = Gallery(self._pipeline.swapper.landmarks)
        worker = Worker(gallery.close)
        steering = Steering(
            config, engines_of(config), self._pipeline, self._tracker, self._another, self._replace_swapper,
            session.between_frames, gallery, worker,
        )  # fmt: skip
        self.desk = Desk(
            session.snapshot, self._nodes, steering, gallery, worker, self._guard.curtain, self._switches,
            self._after, self._before, self._peers, self._source.name, lambda: self._source.size,
        )  # fmt: skip
        with ExitStack() as serving:
            if config.control != "off":
                self._http = self._listen(config)
                serving.callback(self._http.stop)
            if config.control_osc is not None:
                self._osc = serving.enter_context(OscServer(config.control_osc, self.desk))
            # Ended in this order: nobody watches any more, nothing more is prepared, nobody asks.
            serving.callback(worker.stop)
            if self._peers is not None:
                serving.callback(self._peers.close)
            serving.callback(self._before.close)
            serving.callback(self._after.close)
            worker.start()
            if config.face and not config.person:
                steering.remember()
            if self._http is not None:
                self._http.start()
            self._serving = serving.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._serving.close()

    @property
    def link(self) -> str:
        """Where the page is, with its token; empty where there is only OSC."""
        return self._http.link if self._http is not None else ""

    @property
    def osc_port(self) -> int | None:
        """Where OSC messages go; None for nowhere."""
        return self._osc.port if self._osc is not None else None

    def _listen(self, config: Config) -> ControlHttp:
        make: Callable[[int], ControlHttp] = lambda port: ControlHttp(  # noqa: E731
            port, config.control_host, self.desk, self._access
        )
        if config.control != "auto":
            return make(int(config.control))
        try:
            return make(USUAL_PORT)
        except UsageError:
            return make(0)  # Another camera runs on this machine.


def engines_of(config: Config) -> list[str]:
    """Engines that can be chosen while it runs: the embedded one, those the user has, and the one that is on."""
    store = Store(config.models or default_folder())
    return list(dict.fromkeys((config.engine, *SWAPPERS, *(name for name, _ in store.usable("swap")))))
