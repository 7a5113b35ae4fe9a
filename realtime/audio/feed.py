"""One microphone for every stream: read by one thread while somebody listens."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from engines.errors import DoppelcamError
from realtime.audio.base import AudioBlock, AudioSource
from realtime.clock import Clock, StopFlag

log = logging.getLogger(__name__)

_KEEP: Final = 256
"""Blocks kept for who listens; older ones are lost. A block is 5…25 ms."""
_PAUSES_NS: Final = (1_000_000_000, 2_000_000_000, 5_000_000_000, 10_000_000_000)
_PATIENCE_S: Final = 1.0


class Ear:
    """What one listener has not heard yet."""

    def __init__(self) -> None:
        self._blocks: deque[AudioBlock] = deque(maxlen=_KEEP)

    def hear(self, block: AudioBlock) -> None:
        """Leaves a block."""
        self._blocks.append(block)

    def take(self) -> list[AudioBlock]:
        """Takes all blocks, oldest first."""
        blocks = []
        while True:
            try:
                blocks.append(self._blocks.popleft())
            except IndexError:
                return blocks


class AudioFeed:
    """Reads a source of sound while somebody listens; one that fails is named and tried again.

    Args:
        make: Makes the source; it ends its waits when the flag is raised.
        clock: Time.
    """

    def __init__(self, make: Callable[[StopFlag], AudioSource], clock: Clock) -> None:
        self._make, self._clock = make, clock
        self._lock = threading.Lock()
        self._ears: list[Ear] = []
        self._stop = StopFlag(clock)
        self._thread: threading.Thread | None = None

    def listen(self) -> Ear:
        """From now on, what is heard."""
        ear = Ear()
        with self._lock:
            self._ears.append(ear)
            if self._thread is None:
                self._stop = StopFlag(self._clock)
                self._thread = threading.Thread(
                    target=self._run, args=(self._make(self._stop), self._stop), name="audio", daemon=True
                )
                self._thread.start()
        return ear

    def leave(self, ear: Ear) -> None:
        """Listens no more; the last one to leave closes the source. May be called twice."""
        with self._lock:
            if ear in self._ears:
                self._ears.remove(ear)
            if self._ears or self._thread is None:
                return
            thread, self._thread = self._thread, None
            self._stop.set()
        thread.join(_PATIENCE_S)
        if thread.is_alive():
            log.warning("the audio does not return and is left behind")

    def _run(self, source: AudioSource, stop: StopFlag) -> None:
        failures = 0
        while not stop:
            try:
                source.open()
                while (block := source.read()) is not None:
                    failures = 0
                    for ear in tuple(self._ears):
                        ear.hear(block)
                return
            except DoppelcamError as error:
                if not failures:
                    log.warning("%s It is tried again; until then there is silence.", error)
                pause = _PAUSES_NS[min(failures, len(_PAUSES_NS) - 1)]
                failures += 1
            finally:
                source.close()
            if stop.wait_until(self._clock.now_ns() + pause):
                return
