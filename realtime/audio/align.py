"""Puts sound where it belongs on the timeline of a stream, however the clocks of sound cards drift."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from realtime.audio.base import CHANNELS, RATE, AudioBlock, Samples

_JUMP_S: Final = 0.06
"""An error beyond this is mended at once, by silence or by leaving out; a smaller one unheard, by stretching."""
_STRETCH: Final = 0.005
"""How much a block is made longer or shorter at most: 9 cents of pitch."""
_PATIENCE_S: Final = 0.4
"""Sound that is later than this is taken for missing."""
_MOST_S: Final = 5.0
"""More sound than this is never kept."""


class Aligner:
    """Takes blocks with the time at which they were heard, and gives samples without gap or overlap.

    A block belongs at its time of capture plus the delay of the picture. The difference between that place and
    where the last block ended is the drift. Small drift is taken out by stretching by half a percent, which
    nobody hears; a jump is filled with silence or cut.

    Args:
        start_ns: Time of sample 0.
        silence_ns: So much silence comes first.
    """

    def __init__(self, start_ns: int, silence_ns: int = 0) -> None:
        self._start_ns = start_ns
        self._waiting: deque[Samples] = deque()
        self._head = 0
        self._tail = 0
        self.jumps = 0
        """How often a jump had to be mended; the first block is none."""
        self._fed = False
        self._add(np.zeros((silence_ns * RATE // 1_000_000_000, CHANNELS), np.float32))

    def push(self, block: AudioBlock, delay_ns: int) -> None:
        """Takes the next block.

        Args:
            block: Some sound.
            delay_ns: How much later than the sound its picture is shown.
        """
        count = len(block.samples)
        if not count:
            return
        place = round((block.captured_ns + delay_ns - self._start_ns) * RATE / 1e9)
        error = place - self._tail
        samples = np.nan_to_num(block.samples, nan=0.0, posinf=0.0, neginf=0.0)
        # The first block is put into its place at once: nothing is heard yet.
        if not self._fed or abs(error) > _JUMP_S * RATE:
            self.jumps += self._fed
            if error > 0:
                self._add(np.zeros((min(error, round(_MOST_S * RATE)), CHANNELS), np.float32))
                # Beyond what is kept the timeline itself moves on.
                self._skip_to(place)
            else:
                samples = samples[-error:]
        else:
            bend = round(_STRETCH * count)
            samples = _stretched(samples, count + max(-bend, min(bend, error)))
        self._fed = True
        self._add(samples)

    def pull(self, until_ns: int) -> tuple[int, Samples]:
        """Gives what is there up to a time, and silence for what should have come long ago.

        Args:
            until_ns: Up to here.

        Returns:
            Number of the first sample, and (n, 2) samples; n may be 0.
        """
        until = round((until_ns - self._start_ns) * RATE / 1e9)
        overdue = until - round(_PATIENCE_S * RATE)
        if self._tail < overdue:
            self._add(np.zeros((min(overdue - self._tail, round(_MOST_S * RATE)), CHANNELS), np.float32))
            self._skip_to(overdue)
        wanted, parts = until - self._head, []
        while self._waiting and wanted > 0:
            part = self._waiting.popleft()
            if len(part) > wanted:
                self._waiting.appendleft(part[wanted:])
                part = part[:wanted]
            parts.append(part)
            wanted -= len(part)
        first = self._head
        out = np.concatenate(parts) if parts else np.zeros((0, CHANNELS), np.float32)
        self._head += len(out)
        return first, out

    def _add(self, samples: Samples) -> None:
        if not len(samples):
            return
        self._waiting.append(samples)
        self._tail += len(samples)
        while self._tail - self._head > _MOST_S * RATE and len(self._waiting) > 1:
            self._head += len(self._waiting.popleft())

    def _skip_to(self, place: int) -> None:
        """The end of what waits is at ``place``; a longer gap than is kept is left out of the stream."""
        self._head += place - self._tail
        self._tail = place


def _stretched(samples: Samples, count: int) -> Samples:
    """The same sound in a few samples more or fewer, by linear interpolation."""
    if count == len(samples) or count < 2:
        return samples
    at = np.linspace(0, len(samples) - 1, count)
    steps = np.arange(len(samples))
    return np.stack(
        [np.interp(at, steps, samples[:, channel]) for channel in range(CHANNELS)], axis=1
    ).astype(np.float32)
