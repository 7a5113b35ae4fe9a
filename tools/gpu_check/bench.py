"""How long something takes on a card."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engines.kernels.gpu.card import Card, Recipe


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one run.

    Attributes:
        ms: The median.
        spread: Half the distance between the tenth and the ninetieth percentile.
        note: Why there was no CUDA graph, where one was wanted.
    """

    ms: float
    spread: float
    note: str = ""


class Bench:
    """Runs things on a card and times them.

    Args:
        card: Which.
        runs: How often each is timed.
        inner: How often it is done in each, where it is short.
        clock: Seconds.
    """

    def __init__(
        self, card: Card, runs: int = 30, inner: int = 100, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.card, self._runs, self._inner, self._clock = card, runs, inner, clock

    def short(self, job: Callable[[], None]) -> Timing:
        """Work of microseconds: done many times in one CUDA graph, so that the processor's launches do not count."""

        def many() -> None:
            for _ in range(self._inner):
                job()

        recipe = self.card.record(many)
        recipe.run()
        self.card.synchronize()
        note = recipe.capture()
        timing = self.whole(recipe.run)
        note = f"with the processor's launches: {note}" if note else ""
        return Timing(timing.ms / self._inner, timing.spread / self._inner, note)

    def whole(self, run: Callable[[], None]) -> Timing:
        """From the first launch until everything is done, as a frame experiences it."""
        for _ in range(3):
            run()
        self.card.synchronize()
        times = []
        for _ in range(self._runs):
            start = self._clock()
            run()
            self.card.synchronize()
            times.append((self._clock() - start) * 1e3)
        return summary(times)

    def recipe(self, recipe: Recipe) -> Timing:
        """A recipe as it is, captured or not."""
        return self.whole(recipe.run)


def summary(times: Sequence[float]) -> Timing:
    """Of single runs in milliseconds."""
    low, middle, high = np.percentile(times, [10, 50, 90]).tolist()
    return Timing(middle, (high - low) / 2)
