"""Gets a model into the folder: from its addresses, a mirror or another folder, checked before it takes its place."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engines.catalogue.claim import claimed
from engines.catalogue.entry import Entry
from engines.catalogue.graph import read_graph
from engines.catalogue.store import Held, Store
from engines.catalogue.transfer import Failed, Limits, Progress, Transfer
from engines.catalogue.urls import WrongAddress, checked_https, checked_mirror, is_loopback
from engines.errors import DoppelcamError, EngineError, UsageError
from engines.files import open_regular, quoted, sha256_of

_SPARE: Final = 64 << 20
"""Bytes that have to stay free on the disk."""

_BLOCK: Final = 1 << 20
_MOST_TRIALS: Final = 100


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model that was got.

    Attributes:
        held: The file, as it is in the folder now.
        source: The address or the folder that it came from.
        pinned: Whether its sum was not known before and is pinned from now on.
    """

    held: Held
    source: str
    pinned: bool


class PullFailed(DoppelcamError):
    """A model could not be got; what was there before is still there."""


class Puller:
    """Gets models into a folder.

    Args:
        store: The folder.
        mirror: Address of a folder that has the files under their names in the catalogue; then nothing else is
            asked. Empty for the catalogue's own addresses.
        limits: What a download may take.
        now: Seconds, monotonic.
        wait: Waits so many seconds.

    Raises:
        UsageError: The mirror is no https address, or one of this machine.
    """

    def __init__(
        self, store: Store, mirror: str = "", limits: Limits | None = None,
        now: Callable[[], float] = time.monotonic, wait: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._store, self._limits, self._now, self._wait = store, limits or Limits(), now, wait
        try:
            self._mirror = checked_mirror(mirror) if mirror else ""
        except ValueError as error:
            raise UsageError(f"The mirror {error}.", "Give an https address.") from error

    def addresses(self, entry: Entry) -> tuple[str, ...]:
        """Where a model would be asked for, in this order."""
        if self._mirror:
            return (self._mirror + urllib.parse.quote(entry.file),)
        return entry.urls

    def pull(self, entry: Entry, progress: Progress) -> Pulled:
        """Downloads a model; one that is there is only replaced by a whole one with the right sum.

        Args:
            entry: The model.
            progress: Is told how far it is, on this thread.

        Raises:
            PullFailed: No address had it, or what came is not it.
            UsageError: The folder cannot be written.
            DoppelcamError: Another process is at it, or the disk is full.
        """
        target = self._target(entry)
        with claimed(target):
            said = []
            for url in self.addresses(entry):
                try:
                    if not is_loopback(url):
                        checked_https(url)
                    return self._from(entry, url, target, progress)
                except (Failed, WrongAddress) as error:
                    said.append(f"{url}: {error}")
                except OSError as error:
                    raise _disk(target, error) from error
        raise PullFailed(
            f"The model {entry.name} could not be got. {'; '.join(said) or 'It has no address.'}.",
            f"Try again later, or put the file there by hand: doppelcam models pull {entry.name} --from FOLDER",
        )

    def copy(self, entry: Entry, folder: Path, progress: Progress) -> Pulled:
        """Gets a model from another folder, where it has its name of the catalogue, checked the same way.

        Raises:
            PullFailed: What is there is not it.
            UsageError: It is not there, or a folder cannot be used.
            DoppelcamError: Another process is at it, or the disk is full.
        """
        target, origin = self._target(entry), folder / entry.file
        with claimed(target), open_regular(origin, "a model") as source:
            part = _part(target)
            total = os.fstat(source.fileno()).st_size
            self._check_space(total)
            try:
                with part.open("wb") as file:
                    done = 0
                    while block := source.read(_BLOCK):
                        file.write(block)
                        done += len(block)
                        progress(done, total)
                    file.flush()
                    os.fsync(file.fileno())
                return self._settle(entry, part, target, str(folder))
            except Failed as error:
                raise PullFailed(
                    f"{quoted(origin)} is not the model {entry.name}: {error.why}.",
                    "Get it from elsewhere, or leave --from out.",
                ) from error
            except OSError as error:
                raise _disk(target, error) from error
            finally:
                # Copying again costs little, and the rest of a copy is nothing to go on with.
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)

    def _target(self, entry: Entry) -> Path:
        try:
            self._store.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            text = error.strerror or str(error)
            raise UsageError(
                f"The folder {quoted(self._store.folder)} cannot be made: {text}.",
                "Choose another one with --models.",
            ) from error
        return self._store.folder / entry.file

    def _from(self, entry: Entry, url: str, target: Path, progress: Progress) -> Pulled:
        """Tries one address until it has the file or does not get on."""
        part = _part(target)
        expected = self._store.expected(entry)
        transfer = Transfer(url, part, entry.size, expected is not None, self._limits, self._now)
        self._check_space((entry.size or 0) - _size_of(part))
        self._bring(transfer, part, progress)
        try:
            pulled = self._settle(entry, part, target, url)
        except Failed:
            if not transfer.resumed:
                transfer.forget()
                raise
            # The part may have been of another file, or damaged: once more, all of it.
            transfer.forget()
            self._bring(transfer, part, progress)
            try:
                pulled = self._settle(entry, part, target, url)
            except Failed:
                transfer.forget()
                raise
        transfer.settle()
        return pulled

    def _bring(self, transfer: Transfer, part: Path, progress: Progress) -> None:
        fruitless = 0
        for trial in itertools.count(1):
            before = _size_of(part)
            try:
                transfer.run(progress)
                return
            except Failed as error:
                fruitless = 0 if _size_of(part) > before else fruitless + 1
                if not error.again or fruitless >= self._limits.attempts or trial >= _MOST_TRIALS:
                    raise
                pause = max(error.after_s, self._limits.pause_s * 2 ** max(fruitless - 1, 0))
                self._wait(min(pause, self._limits.longest_pause_s))

    def _settle(self, entry: Entry, part: Path, target: Path, source: str) -> Pulled:
        """Checks a whole file and gives it its place. Raises Failed where it is not the model."""
        actual, expected = sha256_of(part), self._store.expected(entry)
        if expected is not None and actual != expected:
            raise Failed(f"its sha256 is {actual}, and not {expected} as expected")
        try:
            read_graph(part)
        except EngineError as error:
            raise Failed(error.what.replace(quoted(part), "it").rstrip(".")) from error
        part.replace(target)
        _sync_folder(target.parent)
        self._store.remember(target, actual)
        held = Held(entry, "ready", target, actual, actual)
        if expected is None:
            held = self._store.pin(held, source)
        return Pulled(held, source, expected is None)

    def _check_space(self, needed: int) -> None:
        free = shutil.disk_usage(self._store.folder).free
        if needed + _SPARE > free:
            raise DoppelcamError(
                f"The disk of {quoted(self._store.folder)} has {free / 1e6:,.0f} MB free, "
                f"and {(needed + _SPARE) / 1e6:,.0f} MB are needed.",
                "Make room, or choose another folder with --models.",
            )


def _part(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _sync_folder(folder: Path) -> None:
    """Makes a rename outlast a power cut, where a system can do that for a folder."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _disk(target: Path, error: OSError) -> DoppelcamError:
    text = error.strerror or str(error)
    return DoppelcamError(
        f"{quoted(target)} cannot be written: {text}.", "Make room, or choose another folder with --models."
    )
