"""``doppelcam engines build``, ``list`` and ``clean``: plans of TensorRT, built because somebody asked for it."""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from engines.catalogue.claim import claimed
from engines.catalogue.store import Store, default_folder
from engines.errors import EngineError, UsageError
from engines.prepare import Maker, Wish, described
from engines.runtime.driver import find_driver
from engines.runtime.trt.bindings import find_package
from engines.runtime.trt.build import LOCK, build
from engines.runtime.trt.fp16 import Precision
from engines.runtime.trt.key import Target, targets_of
from engines.runtime.trt.plans import Held, Note, PlanStore, parts_of
from realtime.cli.parser import given_flags
from realtime.cli.progress import Building
from realtime.settings.config import DEMO
from realtime.settings.load import load
from realtime.show import clean, facts, short_path, stderr, stdout, table
from realtime.sources.portrait import PACKAGED

_STATES: Final = {
    "ready": Text("✓ ready", "green"),
    "stale": Text("– stale", "yellow"),
    "unproven": Text("? unproven", "yellow"),
    "refused": Text("✗ refused", "bold red"),
    "broken": Text("✗ broken", "bold red"),
}
_PORTRAITS: Final = (*DEMO.face, PACKAGED)
"""Whose faces a plan is compared with the model on: those that ship with the program."""


def main(args: argparse.Namespace) -> int:
    """Does the action; without one it says which there are."""
    if args.action is None:
        print(args.usage())
        return 2
    store = PlanStore()
    if args.action == "list":
        return _list(store, args.json)
    if args.action == "clean":
        return _clean(store, args.all, args.json)
    config = load(given_flags(args), os.environ, args.config).config
    models = Store(config.models or default_folder())
    return _build(Maker(models, _PORTRAITS), store, _wish(args, config.device), args.again, args.json)


def _wish(args: argparse.Namespace, device: str) -> Wish:
    kind, _, number = device.partition(":")
    if kind == "cpu":
        raise UsageError("A plan is for a GPU, and --device cpu was given.", "Use --device cuda or cuda:N.")
    if args.precision not in ("fp16", "fp32"):
        raise UsageError(f"There is no precision {args.precision!r}.", "Use --precision fp16 or fp32.")
    precision: Precision = args.precision
    keep = tuple(one for one in args.keep_fp32.split(",") if one)
    if not all(one.isascii() and one.isalnum() for one in keep):
        raise UsageError(
            f"--keep-fp32 {args.keep_fp32!r} is no list of operators.",
            "Use names as ONNX has them: Conv,MatMul",
        )
    boost, batch = _count("--boost", args.boost), _count("--batch", args.batch)
    side = _count("--side", args.side) if args.side else None
    return Wish(args.model, precision, keep, boost, batch, side, int(number or 0) if kind == "cuda" else 0)


def _count(flag: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 4096):
        raise UsageError(f"{flag} {text!r} is no number from 1 to 4096.", f"Use a whole number: {flag} 1")
    return int(text)


def _build(maker: Maker, store: PlanStore, wish: Wish, again: bool, as_json: bool) -> int:
    console = stderr()
    with Building(Path(wish.model).name, console) as progress:
        progress("running the model on the CPU, to compare with", None)
        job = maker.job(wish)
        built = build(job, store, progress, again)
    note = built.note
    passed = note.verdict is not None and note.verdict.passed
    if as_json:
        document = {
            "schema": 1,
            **described(job),
            "new": built.new,
            "warned": list(built.warned),
            **_document(note),
        }
        print(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        for warning in built.warned:
            console.print(f"TensorRT warns: {warning}", markup=False)
        stdout().print(facts([*_about(note), ("", "" if built.new else "it was there already")]))
    if note.verdict is not None and not passed:
        raise EngineError(
            f"The plan of {note.name} was refused and will not be used: compared with the model, {note.verdict.why}.",
            f"Type: doppelcam engines build {wish.model} --precision fp32",
        )
    return 0


def _about(note: Note) -> list[tuple[str, str]]:
    verdict = note.verdict
    judged = "not compared with the model" if verdict is None else "passed" if verdict.passed else verdict.why
    rows = [
        ("plan", f"{note.name}, {note.title}"),
        ("for", f"{note.key.target.gpu}, driver {note.key.target.driver}"),
        ("size", f"{note.size / 1e6:,.1f} MB, {note.layers} layers, built in {note.seconds:.0f} s"),
        ("verdict", judged),
    ]
    figures = verdict.figures if verdict else {}
    return [*rows, *((f"  {name}", f"{value:.5f}") for name, value in figures.items() if name != "samples")]


def _list(store: PlanStore, as_json: bool) -> int:
    held = store.all(*_here())
    if as_json:
        print(json.dumps({"schema": 1, "folder": str(store.folder.path), "plans": [_listed(one) for one in held]},
                         ensure_ascii=False, indent=2))  # fmt: skip
        return 0
    console = stdout()
    made = table("plan", "", ">MB", "for", "shapes")
    for one in held:
        note, state = one.note, _STATES[one.state].copy()
        if one.why:
            state.append(f"\n  {clean(one.why)}", "default")
        if note is None:
            made.add_row(clean(one.note_file), state, "", "", "")
            continue
        shapes = " ".join("×".join(map(str, shape)) for shape in note.key.shapes)
        made.add_row(
            clean(f"{note.name}\n  {note.title}"),
            state,
            f"{note.size / 1e6:,.0f}",
            clean(note.key.target.gpu),
            shapes,
        )
    if held:
        console.print(made)
        console.print()
    else:
        console.print("There is no plan. Build one: doppelcam engines build NAME")
    console.print(Text(f"Folder: {short_path(store.folder.path)}", "dim"))
    return 0


def _clean(store: PlanStore, everything: bool, as_json: bool) -> int:
    """Removes what can never be used here again; a plan that is ready only with everything."""
    removed: list[dict[str, Any]] = []

    def gone(file: str, state: str, size: int = 0) -> None:
        removed.append({"file": file, "state": state, "bytes": size})

    if store.folder.path.is_dir():
        targets = _here()
        with claimed(store.folder.path / LOCK):
            for held in store.all(*targets):
                if everything or held.state != "ready":
                    gone(held.note_file, held.state, store.remove(held))
            for name in store.leftovers():
                gone(name, "left over", store.discard(name))
            for folder in list(parts_of(store)):
                shutil.rmtree(folder, ignore_errors=True)
                gone(folder.name, "left over")
            if everything:
                for name in list(store.folder.names(".timings")):
                    gone(name, "timings", store.discard(name))
    freed = sum(one["bytes"] for one in removed)
    if as_json:
        print(json.dumps({"schema": 1, "removed": removed, "bytes": freed}, ensure_ascii=False, indent=2))
        return 0
    for one in removed:
        stdout().print(f"removed {clean(one['file'])} ({one['state']})", markup=False)
    stdout().print(f"{freed / 1e6:,.1f} MB are free again.")
    return 0


def _here() -> tuple[Target, ...]:
    """This machine, as plans are bound to it."""
    return targets_of(find_driver(), find_package())


def _listed(held: Held) -> dict[str, Any]:
    document: dict[str, Any] = {"file": held.note_file, "state": held.state, "why": held.why}
    return document | (_document(held.note) if held.note else {})


def _document(note: Note) -> dict[str, Any]:
    target = note.key.target
    return {
        "name": note.name, "plan": note.file, "bytes": note.size, "plan_sha256": note.sha256, "model": note.key.model,
        "recipe": note.key.recipe, "shapes": [list(shape) for shape in note.key.shapes],
        "tensorrt": f"{target.runtime} {target.version}", "gpu": target.gpu, "sm": target.sm, "driver": target.driver,
        "cuda": target.cuda, "layers": note.layers, "seconds": note.seconds, "built": note.built,
        "verdict": note.verdict.as_json() if note.verdict else None,
    }  # fmt: skip
