"""How far a download is: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class Showing:
    """Shows one download, on stderr.

    Args:
        name: Of the model.
        console: Where to show it.
    """

    def __init__(self, name: str, console: Console) -> None:
        self._name, self._console, self._said = name, console, -1
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
                TimeRemainingColumn(), console=console, transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task(name, total=None)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, done: int, total: int | None) -> None:
        """See :class:`~engines.catalogue.transfer.Progress`."""
        if self._bar:
            self._bar.update(self._task, completed=done, total=total)
            return
        # A log gets four lines of a file, however large it is; one whose length is not known, one per 100 MB.
        quarter = done * 4 // total if total else done // 100_000_000
        if quarter != self._said:
            self._said = quarter
            of = f" of {total / 1e6:,.0f}" if total else ""
            self._console.print(f"{self._name}: {done / 1e6:,.0f}{of} MB", markup=False)
