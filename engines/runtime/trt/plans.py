"""The plans that were built here: where they lie, whether they may be loaded, and why not."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from engines.errors import EngineError
from engines.files import quoted
from engines.runtime.trt.folder import PlanFolder, default_plan_folder
from engines.runtime.trt.key import PlanKey, Target, why_stale
from engines.runtime.trt.parity import Verdict
from engines.sums import Sums

State = Literal["ready", "stale", "refused", "unproven", "broken"]
"""``ready``: may be loaded. ``stale``: built for another model, machine or version. ``refused``: it gives other
pictures than the model. ``unproven``: it was never compared with the model. ``broken``: not what was built here."""

_SCHEMA: Final = 1
_LARGEST_PLAN: Final = 4 << 30
_LARGEST_NOTE: Final = 1 << 20
_PLAN_NAME: Final = re.compile(r"[\w.+-]{1,80}-[0-9a-f]{16}-[0-9a-f]{12}\.(?:plan|jit)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Note:
    """What is kept beside a plan.

    Attributes:
        name: Of the model, for a person.
        key: What the plan is for.
        file: The plan's own name.
        size: Its bytes.
        sha256: Its sum.
        inputs: Names of the inputs, in the model's order.
        outputs: Likewise.
        verdict: What came of the comparison with the model; None where there was none.
        jit: The file of kernels that TensorRT-RTX compiled here; empty where there is none.
        jit_sha256: Its sum.
        layers: Of the plan.
        seconds: What building took.
        built: When, as ISO 8601.
    """

    name: str
    key: PlanKey
    file: str
    size: int
    sha256: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    verdict: Verdict | None = None
    jit: str = ""
    jit_sha256: str = ""
    layers: int = 0
    seconds: float = 0.0
    built: str = ""

    @property
    def title(self) -> str:
        """What to call the plan where networks are listed."""
        short = ".".join(self.key.target.version.split(".")[:2])
        runtime = "TensorRT-RTX" if self.key.target.runtime == "tensorrt_rtx" else "TensorRT"
        return f"{runtime} {short} {self.key.recipe[:4].upper()}"


@dataclass(frozen=True, slots=True)
class Held:
    """One plan of the folder.

    Attributes:
        note_file: The name of the file beside it.
        state: See :data:`State`.
        why: Why it may not be loaded, as the end of a sentence.
        note: What is kept beside it; None where that cannot be read.
    """

    note_file: str
    state: State
    why: str = ""
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A plan that may be run.

    Attributes:
        note: What is kept beside it.
        plan: Its bytes, whose sum was checked.
        jit: Compiled kernels of TensorRT-RTX, whose sum was checked; empty where there are none.
    """

    note: Note
    plan: bytes = field(repr=False)
    jit: bytes = field(default=b"", repr=False)


class Unplanned(EngineError):
    """There is no plan that may be used."""


class PlanStore:
    """The plans of one user.

    Args:
        folder: Where they lie; None for the usual place.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = PlanFolder(folder or default_plan_folder())

    def any(self) -> bool:
        """Whether there is any plan at all."""
        return next(self.folder.names(".json"), None) is not None

    def sum_of(self, path: Path) -> str:
        """The sha256 of a model's file, which is read whole only when it has changed.

        Raises:
            EngineError: Others can write in the folder, and so what is remembered in it.
            UsageError: The file cannot be read.
        """
        self.folder.check()
        return Sums(self.folder.path).of(path)

    def load(
        self, name: str, model: str, shapes: Sequence[Sequence[int]], target: Target, source: str = ""
    ) -> Loaded:
        """The plan of a model, made sure of and read.

        Args:
            name: Of the model, for messages.
            model: Its sha256.
            shapes: Of its inputs.
            target: This machine.
            source: What to type for the model; its name by default.

        Raises:
            Unplanned: There is none that may be used; the sentence says why.
        """
        try:
            self.folder.check()
            held = [
                self._held(file, model, shapes, target)
                for file in self.folder.names(".json")
                if self._is_of(file, model, name)
            ]
        except EngineError as error:
            raise Unplanned(error.what, error.fix) from error
        ready = [one.note for one in held if one.state == "ready" and one.note]
        if ready:
            try:
                return self._read(max(ready, key=_preference))
            except EngineError as error:
                raise Unplanned(error.what, error.fix) from error
        build = f"Type: doppelcam engines build {source or name}"
        if not held:
            raise Unplanned(f"There is no TensorRT plan of {name}.", build)
        # What is nearest to being of use says most.
        nearest = min(held, key=lambda one: _NEARNESS.index(one.state))
        fix = f"{build} --precision fp32" if nearest.state == "refused" else f"{build} --again"
        raise Unplanned(f"The TensorRT plan of {name} is not used: {nearest.why}.", fix)

    def all(self, *targets: Target) -> list[Held]:
        """Every plan, as it is for this machine.

        Args:
            targets: This machine, once for each of its GPUs; none where it has no GPU, or no TensorRT, which makes no
                plan stale.

        Raises:
            EngineError: Others can write in the folder.
        """
        self.folder.check()
        found = []
        for file in self.folder.names(".json"):
            held = [self._held(file, None, None, target) for target in targets or (None,)]
            found.append(next((one for one in held if one.state != "stale"), held[0]))
        return found

    def put(self, note: Note, plan: bytes, jit: bytes = b"") -> Note:
        """Keeps a plan in place of the one for the same.

        Args:
            note: What to keep beside it; names, sizes and sums are filled in.
            plan: Its bytes.
            jit: Compiled kernels of TensorRT-RTX.

        Raises:
            EngineError: It cannot be written, or others can write in the folder.
        """
        self.folder.make()
        stem = f"{_plain(note.name)}-{note.key.digest[:16]}"
        sums = [hashlib.sha256(data).hexdigest() for data in (plan, jit)]
        note = replace(
            note, file=f"{stem}-{sums[0][:12]}.plan", size=len(plan), sha256=sums[0],
            jit=f"{stem}-{sums[1][:12]}.jit" if jit else "", jit_sha256=sums[1] if jit else "",
        )  # fmt: skip
        # Named by what is in it, so the note that is there goes on telling the truth until it is replaced.
        self.folder.write(note.file, plan)
        if jit:
            self.folder.write(note.jit, jit)
        body = asdict(note)
        signature = self.folder.sign(_canonical(body))
        text = json.dumps({"schema": _SCHEMA, "signature": signature, "note": body}, indent=1)
        self.folder.write(f"{stem}.json", text.encode())
        self._drop(stem, {note.file, note.jit, f"{stem}.json"})
        return note

    def remove(self, held: Held) -> int:
        """Removes a plan and what belongs to it; returns the bytes that became free."""
        return self._drop(held.note_file.removesuffix(".json"), set())

    def leftovers(self) -> list[str]:
        """Files of builds that were cut off, and plans that no note names; not to be asked for while one runs."""
        stems = {name.removesuffix(".json") for name in self.folder.names(".json")}
        lone = [
            name
            for ending in (".plan", ".jit")
            for name in self.folder.names(ending)
            if not any(name.startswith(f"{stem}-") for stem in stems)
        ]
        return (
            lone + [entry.name for entry in self.folder.path.glob(".*.part")]
            if self.folder.path.is_dir()
            else lone
        )

    def _drop(self, stem: str, but: set[str]) -> int:
        freed = 0
        for ending in (".json", ".plan", ".jit"):
            for name in list(self.folder.names(ending)):
                if (name == f"{stem}.json" or name.startswith(f"{stem}-")) and name not in but:
                    freed += self.discard(name)
        return freed

    def discard(self, name: str) -> int:
        """Removes one file of the folder; returns its bytes."""
        path = self.folder.path / name
        with contextlib.suppress(OSError):
            size = path.lstat().st_size
            path.unlink()
            return size
        return 0

    def _is_of(self, file: str, model: str, name: str) -> bool:
        """Whether a note is about a model: by its sum, or, where that changed or cannot be read, by its name."""
        if re.fullmatch(re.escape(_plain(name)) + r"-[0-9a-f]{16}\.json", file):
            return True
        with contextlib.suppress(EngineError, ValueError):
            return self._note(file).key.model == model
        return False

    def _held(
        self, file: str, model: str | None, shapes: Sequence[Sequence[int]] | None, target: Target | None
    ) -> Held:
        try:
            note = self._note(file)
        except EngineError as error:
            return Held(file, "broken", error.what.rstrip("."))
        if target is not None:
            stale = why_stale(note.key, model or note.key.model, shapes or note.key.shapes, target)
            if stale:
                return Held(file, "stale", stale, note)
        broken = self._broken(note)
        if broken:
            return Held(file, "broken", broken, note)
        if note.verdict is None:
            return Held(file, "unproven", "it was never compared with the model", note)
        if not note.verdict.passed:
            return Held(file, "refused", f"compared with the model, {note.verdict.why}", note)
        return Held(file, "ready", "", note)

    def _broken(self, note: Note) -> str:
        """What is wrong with a plan's file as far as a look at it tells."""
        path = self.folder.path / note.file
        try:
            about = path.lstat()
        except OSError:
            return f"its file {quoted(path)} is missing"
        if about.st_size != note.size:
            return f"its file has {about.st_size:,} bytes, and {note.size:,} were written: it is cut off or changed"
        return ""

    def _read(self, note: Note) -> Loaded:
        plan = self._summed(note.file, note.size, note.sha256)
        jit = b""
        if note.jit:
            # It only saves time, so what is wrong with it does not stop the plan.
            with contextlib.suppress(EngineError):
                jit = self._summed(note.jit, _LARGEST_PLAN, note.jit_sha256)
        return Loaded(note, plan, jit)

    def _summed(self, name: str, size: int, sha256: str) -> bytes:
        data = self.folder.read(name, size)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise EngineError(
                f"The plan {quoted(self.folder.path / name)} is not what was built here: its sum is another one.",
                "Type: doppelcam engines clean; then build it again.",
            )
        return data

    def _note(self, file: str) -> Note:
        """Reads what is kept beside a plan.

        Raises:
            EngineError: It was not written here, or is damaged.
        """
        path = quoted(self.folder.path / file)
        data = self.folder.read(file, _LARGEST_NOTE)
        try:
            table = json.loads(data)
            body, signature = table["note"], table["signature"]
            if table["schema"] != _SCHEMA or not isinstance(body, dict):
                raise ValueError("it is of another version")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise EngineError(f"The note {path} is damaged: {error}.") from error
        if not self.folder.signed(_canonical(body), signature):
            raise EngineError(f"The plan of {path} was not built here, or its note was changed.")
        try:
            note = _note_of(body)
        except (ValueError, KeyError, TypeError) as error:
            raise EngineError(f"The note {path} is damaged: {error}.") from error
        for name in filter(None, (note.file, note.jit)):
            if not _PLAN_NAME.fullmatch(name):
                raise EngineError(f"The note {path} names a file {name!r}, which is refused.")
        return note


_NEARNESS: Final = ("refused", "unproven", "broken", "stale", "ready")


def _preference(note: Note) -> tuple[bool, str]:
    """Half precision, as it is faster; then the newest."""
    return (note.key.recipe.startswith("fp16"), note.built)


def _note_of(body: Mapping[str, Any]) -> Note:
    key = body["key"]
    verdict = body["verdict"]
    return Note(
        **{
            **body,
            "key": PlanKey(
                key["model"], key["recipe"], tuple(tuple(map(int, shape)) for shape in key["shapes"]),
                tuple(key["flags"]), Target(**key["target"]),
            ),
            "inputs": tuple(body["inputs"]),
            "outputs": tuple(body["outputs"]),
            "verdict": Verdict(**verdict) if verdict is not None else None,
        }
    )  # fmt: skip


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _plain(name: str) -> str:
    return re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII)[:60].lstrip(".") or "model"


def parts_of(store: PlanStore) -> Iterator[Path]:
    """Folders of builds that were cut off."""
    if store.folder.path.is_dir():
        yield from (entry for entry in store.folder.path.glob(".building-*") if entry.is_dir())
