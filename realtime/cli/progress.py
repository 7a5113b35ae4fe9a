"""How far something long is, on stderr: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from realtime.show import clean

_QUARTER: Final = 4
_LINE_BYTES: Final = 100_000_000


class _Bar:
    """What both have: a bar that goes when the work ends, however it ends, or lines that are not said twice.

    Args:
        name: Of what is worked at.
        console: Where to show it.
        columns: Of the bar, behind its name.
    """

    def __init__(self, name: str, console: Console, *columns: ProgressColumn) -> None:
        self._name, self._console, self._said = name, console, ""
        self._bar: Progress | None = None
        if console.is_terminal:
            described = TextColumn("{task.description}", markup=False)
            self._bar = Progress(described, BarColumn(), *columns, console=console, transient=True)
            self._task = self._bar.add_task(clean(name), total=None)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def _say(self, line: str, once: str) -> None:
        """Puts a line into the log, unless the last one was said for the same."""
        if once != self._said:
            self._said = once
            self._console.print(f"{self._name}: {line}", markup=False)


class Downloading(_Bar):
    """Shows one download.

    Args:
        name: Of the model.
        console: Where to show it.
    """

    def __init__(self, name: str, console: Console) -> None:
        super().__init__(name, console, DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())

    def __call__(self, done: int, total: int | None) -> None:
        """See :class:`~engines.catalogue.transfer.Progress`."""
        if self._bar:
            self._bar.update(self._task, completed=done, total=total)
            return
        # A log gets four lines of a file, however large it is; one whose length is not known, one per 100 MB.
        of = f" of {total / 1e6:,.0f}" if total else ""
        self._say(
            f"{done / 1e6:,.0f}{of} MB", str(done * _QUARTER // total if total else done // _LINE_BYTES)
        )


class Building(_Bar):
    """Shows how far the plan of a model is.

    Args:
        name: Of the model.
        console: Where to show it.
    """

    def __init__(self, name: str, console: Console) -> None:
        super().__init__(name, console, TimeElapsedColumn())

    def __call__(self, doing: str, done: float | None) -> None:
        """See :data:`~engines.runtime.trt.build.Progress`."""
        if self._bar:
            shown = clean(f"{self._name}: {doing}")
            self._bar.update(
                self._task, description=shown, completed=done or 0, total=1 if done is not None else None
            )
            return
        line = f"building, {int(done * _QUARTER) * 100 // _QUARTER} %" if done is not None else doing
        self._say(line, line)
