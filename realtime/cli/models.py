"""``doppelcam models list``, ``info``, ``pull`` and ``verify``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from engines.catalogue.catalogue import Catalogue
from engines.catalogue.entry import KINDS, Entry
from engines.catalogue.fits import describe, fitting
from engines.catalogue.graph import read_graph
from engines.catalogue.pull import Puller
from engines.catalogue.store import Held, Store, default_folder, how_to_mend, what_is_wrong
from engines.errors import UsageError
from engines.files import quoted
from realtime.cli.parser import given_flags
from realtime.cli.progress import Downloading
from realtime.settings.config import Config
from realtime.settings.load import did_you_mean, load
from realtime.show import clean, facts, short_path, stderr, stdout, table

_STATES: Final = {
    "missing": Text("–", "dim"),
    "ready": Text("✓ there", "green"),
    "unpinned": Text("? there, sum not known", "yellow"),
    "wrong": Text("✗ another sum", "bold red"),
}
_COMMERCIAL: Final = {
    "yes": "commercial use allowed",
    "no": "no commercial use",
    "unknown": "commercial use: not stated",
}


def main(args: argparse.Namespace) -> int:
    """Does the action; without one it says which there are."""
    if args.action is None:
        print(args.usage())
        return 2
    config = load(given_flags(args), os.environ, args.config).config
    store = Store(config.models or default_folder())
    if args.action == "list":
        return _list(store, args.kind, args.json)
    if args.action == "info":
        return _info(store, args.name, args.json)
    if args.action == "verify":
        return _verify(store, args.names, args.pin, args.json)
    return _pull(store, config, args)


def _list(store: Store, kind: str | None, as_json: bool) -> int:
    if kind is not None and kind not in KINDS:
        hint = did_you_mean(kind, list(KINDS)) or f"Use one of {', '.join(KINDS)}."
        raise UsageError(f"There is no kind of model {kind!r}.", hint)
    held = [one for one in store.all() if kind in (None, one.entry.kind)]
    unknown = [path for path in store.strangers() if store.recognised(path) is None]
    if as_json:
        document = {"schema": 1, "folder": str(store.folder), "models": [_document(one) for one in held],
                    "unknown_files": [str(path) for path in unknown]}  # fmt: skip
        print(json.dumps(document, ensure_ascii=False, indent=2))
        return 0
    made = table("model", "for", "", ">MB", "licence")
    for one in held:
        entry = one.entry
        state = _STATES[one.state].copy()
        if one.path is not None and one.path.name != entry.file:
            state.append(f"\n  {clean(one.path.name)}")
        licence = Text(entry.licence, "" if entry.commercial == "yes" else "yellow")
        size = one.path.stat().st_size if one.path else entry.size
        made.add_row(entry.name, entry.kind, state, f"{size / 1e6:,.0f}" if size else "?", licence)
    console = stdout()
    console.print(made)
    console.print()
    console.print(Text(f"Folder: {short_path(store.folder)}", "dim"))
    for path in unknown:
        console.print(
            Text(f"Not known: {clean(path.name)} (see: doppelcam models info {clean(str(path))})", "dim")
        )
    return 0


def _info(store: Store, name: str, as_json: bool) -> int:
    if "/" in name or "\\" in name or name.lower().endswith((".onnx", ".dfm")):
        return _info_of_file(store, Path(name).expanduser(), as_json)
    held = store.held(name)
    if as_json:
        print(json.dumps({"schema": 1, **_document(held)}, ensure_ascii=False, indent=2))
        return 0
    stdout().print(facts([*_about(held.entry), *_wants(held.entry), *_there(held)]))
    return 0


def _info_of_file(store: Store, path: Path, as_json: bool) -> int:
    """What a file is, by its sum or by what it takes and gives."""
    graph, held = read_graph(path), store.recognised(path)
    could_be = [entry.name for entry in fitting(graph, store.catalogue)]
    if as_json:
        document = {
            "schema": 1, "file": str(path), "inputs": describe(graph.inputs),
            "outputs": describe(graph.outputs), "nodes": graph.nodes, "opset": graph.opset, "fits": could_be,
            "model": _document(held) if held else None,
        }  # fmt: skip
        print(json.dumps(document, ensure_ascii=False, indent=2))
        return 0
    rows = [
        ("file", short_path(path)),
        ("takes", describe(graph.inputs)),
        ("gives", describe(graph.outputs)),
        ("graph", f"{graph.nodes:,} nodes, opset {graph.opset}"),
        ("fits", ", ".join(could_be) or "no model of the catalogue"),
    ]
    if held:
        rows += [("is", f"{held.entry.name}, told by its {held.by}"), *_wants(held.entry), *_there(held)]
    elif could_be:
        rows.append(("is", "one of these; put the name of the right one into the file's name"))
    stdout().print(facts(rows))
    return 0


def _about(entry: Entry) -> list[tuple[str, str]]:
    rows = [
        ("model", entry.name),
        ("for", entry.kind),
        ("publisher", entry.publisher),
        ("licence", f"{entry.licence} ({_COMMERCIAL[entry.commercial]})"),
        ("terms", entry.terms),
        ("from", "\n".join(entry.urls)),
        ("size", f"{entry.size:,} bytes" if entry.size else "not known here"),
        ("sha256", entry.sha256 or "not known here: the first download is recorded and pinned"),
        ("needs", ", ".join(entry.needs)),
        ("note", entry.note),
    ]
    return [row for row in rows if row[1]]


def _wants(entry: Entry) -> list[tuple[str, str]]:
    wants = entry.contract
    picture = (
        f"{wants.side}×{wants.side} {wants.channels.upper()} {wants.layout.upper()}" if wants.side else ""
    )
    rows = [
        ("picture", f"{picture} {wants.template}".strip()),
        ("takes", f"(value − {_numbers(wants.mean)}) / {_numbers(wants.std)}, of 0…1" if wants.side else ""),
        ("source", wants.source if wants.source != "none" else ""),
        ("masks", ", ".join(wants.masks)),
    ]
    return [row for row in rows if row[1]]


def _numbers(three: Sequence[float]) -> str:
    return f"{three[0]:.4g}" if len(set(three)) == 1 else "(" + ", ".join(f"{one:.4g}" for one in three) + ")"


def _there(held: Held) -> list[tuple[str, str]]:
    if held.path is None:
        return [("here", "no")]
    rows = [
        ("here", f"{short_path(held.path)}, {_STATES[held.state].plain}"),
        ("its sha256", held.actual or ""),
    ]
    if held.state == "wrong":
        rows += [("expected", held.expected or ""), ("fix", how_to_mend(held))]
    return rows


def _pull(store: Store, config: Config, args: argparse.Namespace) -> int:
    wanted = _wanted(store.catalogue, args.names)
    held = {entry.name: store.held(entry.name) for entry in wanted}
    todo = [entry for entry in wanted if args.again or not held[entry.name].usable]
    console = stderr()
    for entry in wanted:
        if entry not in todo:
            console.print(
                f"{entry.name} is there: {short_path(held[entry.name].path or store.folder)}", markup=False
            )
    puller = Puller(store, config.mirror or "", wait=_patient)
    for entry in todo:
        source = args.origin or "\n".join(puller.addresses(entry))
        console.print(facts([*(row for row in _about(entry) if row[0] != "from"), ("from", str(source))]))
        console.print()
    if not args.accept_licence:
        _ask(todo)
    for entry in todo:
        with Downloading(entry.name, console) as progress:
            pulled = (
                puller.copy(entry, args.origin, progress) if args.origin else puller.pull(entry, progress)
            )
        console.print(f"{entry.name} is in {short_path(pulled.held.path or store.folder)}", markup=False)
        if pulled.pinned:
            console.print(
                f"  Its sum was not known before. From now on it has to be sha256 {pulled.held.actual}",
                markup=False,
            )
        stdout().print(str(pulled.held.path), markup=False)
    return 0


def _wanted(catalogue: Catalogue, names: Iterable[str]) -> list[Entry]:
    """The named ones and what they need, each once, what is needed first."""
    return list(dict.fromkeys(entry for name in names for entry in catalogue.with_needs(name)))


def _patient(seconds: float) -> None:
    stderr().print(f"The connection failed; once more in {seconds:.0f} s …", markup=False)
    time.sleep(seconds)


def _ask(todo: Sequence[Entry]) -> None:
    """Asks whether the licences are accepted that do not allow everything.

    Raises:
        UsageError: They are not, or nobody is there to be asked.
    """
    asked = [entry for entry in todo if entry.asks]
    if not asked:
        return
    names = ", ".join(entry.name for entry in asked)
    if not sys.stdin.isatty():
        raise UsageError(
            f"The licence of {names} has to be accepted before the download.",
            "Read it above, and type the same with --accept-licence.",
        )
    console = stderr()
    console.print(f"These licences do not allow commercial use, or do not say: {names}", markup=False)
    console.print("Do you accept them? Type yes: ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("The licence was not accepted; nothing was downloaded.", "Choose another model.")


def _verify(store: Store, names: Sequence[str], pin: bool, as_json: bool) -> int:
    found = [store.held(name, again=True) for name in names] if names else list(store.all(again=True))
    held = [one for one in found if names or one.path is not None]
    if pin:
        held = [_pinned(store, one) for one in held]
    bad = [one for one in held if one.state in ("wrong", "missing")]
    if as_json:
        print(json.dumps({"schema": 1, "folder": str(store.folder), "ok": not bad,
                          "models": [_document(one) for one in held]}, ensure_ascii=False, indent=2))  # fmt: skip
        return 1 if bad else 0
    console = stdout()
    for one in held:
        name, state = one.path.name if one.path else one.entry.file, _STATES[one.state]
        console.print(Text.assemble(state, f"  {one.entry.name}  {clean(name)}"))
        if one.state == "wrong":
            console.print(f"    {clean(what_is_wrong(one))}", markup=False)
            console.print(f"    → {how_to_mend(one)}", markup=False)
        elif one.state == "missing":
            console.print(f"    It is not in {quoted(store.folder)}.", markup=False)
            console.print(f"    → doppelcam models pull {one.entry.name}", markup=False)
        else:
            console.print(f"    sha256 {one.actual}", markup=False)
        if one.state == "unpinned":
            console.print(
                f"    → If you trust it: doppelcam models verify {one.entry.name} --pin", markup=False
            )
    if not held:
        console.print(f"There is no model in {short_path(store.folder)}.", markup=False)
    return 1 if bad else 0


def _pinned(store: Store, held: Held) -> Held:
    """Pins a file whose sum nobody publishes; a sum that is published cannot be overruled."""
    own = held.state == "unpinned" or (held.state == "wrong" and held.entry.sha256 is None)
    changed = held.state == "wrong" and held.by == "contract"
    return store.pin(held) if own or changed else held


def _document(held: Held) -> dict[str, Any]:
    entry, wants = held.entry, held.entry.contract
    return {
        "name": entry.name, "kind": entry.kind, "state": held.state,
        "path": str(held.path) if held.path else None, "expected_sha256": held.expected,
        "actual_sha256": held.actual, "told_by": held.by if held.path else None, "publisher": entry.publisher,
        "licence": entry.licence, "commercial_use": entry.commercial, "terms": entry.terms,
        "urls": list(entry.urls), "size": entry.size, "needs": list(entry.needs), "note": entry.note,
        "contract": {field: _plain(getattr(wants, field)) for field in type(wants).__slots__},
    }  # fmt: skip


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
