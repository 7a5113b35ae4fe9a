"""The folder: what is there, what a file is whatever its name, and what no longer is what it was."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from engines.catalogue.catalogue import Catalogue
from engines.catalogue.claim import claimed
from engines.catalogue.fits import describe, fitting
from engines.catalogue.graph import read_graph
from engines.catalogue.pins import LOCK_FILE, Pin, Pins
from engines.catalogue.store import Store, default_folder, how_to_mend, what_is_wrong
from engines.errors import DoppelcamError, EngineError, UsageError
from engines.files import sha256_of
from engines.sums import Sums
from tests.engines.catalogue.networks import (
    MODEL,
    OTHER,
    catalogue_of,
    digest,
    entry_for,
    network,
    put,
    shaped,
)

ALL = Catalogue.load()


def test_where_models_lie_on_each_system(monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    assert default_folder({}, "linux") == Path("/home/me/.local/share/doppelcam/models")
    assert default_folder({"XDG_DATA_HOME": "/data"}, "linux") == Path("/data/doppelcam/models")
    assert default_folder({"LOCALAPPDATA": "/local"}, "win32") == Path("/local/doppelcam/models")
    assert default_folder({}, "win32") == Path("/home/me/AppData/Local/doppelcam/models")
    assert default_folder({}, "darwin") == Path("/home/me/Library/Application Support/doppelcam/models")


def test_an_empty_folder_and_none_at_all(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        store = Store(folder)
        assert [held.state for held in store.all()] == ["missing"] * len(ALL.entries)
        assert store.path_of("xseg_1") is None
        assert list(store.strangers()) == []
        with pytest.raises(EngineError, match="xseg_1 is not in") as found:
            store.require("xseg_1")
        assert found.value.fix == "Type: doppelcam models pull xseg_1"
        with pytest.raises(UsageError, match="no model"):
            store.require("xseg_9")
    assert not (tmp_path / "none").exists()


def test_a_file_of_a_known_sum_is_ready(tmp_path):
    store = Store(tmp_path, catalogue_of(entry_for()))
    path = put(tmp_path, "tiny.onnx", MODEL)
    held = store.held("tiny")
    assert (held.state, held.path, held.expected, held.actual) == (
        "ready",
        path,
        digest(MODEL),
        digest(MODEL),
    )
    assert store.path_of("tiny") == store.require("tiny") == path


@pytest.mark.parametrize("data", [OTHER, MODEL[:-1], b"<html>404</html>", MODEL + b"x"])
def test_a_file_of_another_sum_is_named_with_both_sums_and_what_mends_it(tmp_path, data):
    store = Store(tmp_path, catalogue_of(entry_for()))
    put(tmp_path, "tiny.onnx", data)
    held = store.held("tiny")
    assert held.state == "wrong"
    assert store.path_of("tiny") is None
    with pytest.raises(EngineError) as found:
        store.require("tiny")
    for said in ("tiny.onnx", digest(MODEL), digest(data)):
        assert said in found.value.what
    assert "doppelcam models pull tiny --again" in found.value.fix


def test_another_export_that_is_known_is_ready(tmp_path):
    store = Store(tmp_path, catalogue_of(entry_for(also=(digest(OTHER),))))
    put(tmp_path, "tiny.onnx", OTHER)
    assert store.held("tiny").state == "ready"


def test_a_sum_that_nobody_knows_is_unpinned_until_it_is_pinned(tmp_path):
    store = Store(tmp_path, catalogue_of(entry_for(known=False)))
    path = put(tmp_path, "tiny.onnx", MODEL)
    held = store.held("tiny")
    assert (held.state, held.expected, held.actual) == ("unpinned", None, digest(MODEL))
    assert store.require("tiny") == path
    assert store.pin(held, "here").state == "ready"
    again = Store(tmp_path, store.catalogue)
    assert again.held("tiny").state == "ready"
    put(tmp_path, "tiny.onnx", OTHER)
    assert again.held("tiny").state == "wrong"
    with pytest.raises(EngineError, match=digest(MODEL)):
        again.require("tiny")


def test_nothing_that_is_not_there_is_pinned(tmp_path):
    store = Store(tmp_path, catalogue_of(entry_for(known=False)))
    with pytest.raises(ValueError, match="nothing to pin"):
        store.pin(store.held("tiny"))


def test_a_file_under_any_name_is_known_by_its_sum(tmp_path):
    store = Store(tmp_path, catalogue_of(entry_for()))
    path = put(tmp_path, "Mein Gesicht (1).onnx", MODEL)
    assert store.recognise(path).name == "tiny"
    held = store.held("tiny")
    assert (held.state, held.by, held.path) == ("ready", "hash", path)
    assert store.require("tiny") == path
    # The file of the usual name goes before it, even if it is wrong.
    put(tmp_path, "tiny.onnx", OTHER)
    assert store.held("tiny").state == "wrong"


UNIQUE = ("inswapper_128", "simswap_unofficial_512", "uniface_256", "blendswap_256", "arcface_w600k_r50", "yoloface_8n",
          "2dfan4", "2d106det", "codeformer", "gpen_bfr_256")  # fmt: skip


@pytest.mark.parametrize("name", UNIQUE)
@pytest.mark.parametrize("free", [1, "batch"])
def test_a_file_under_any_name_is_known_by_what_it_takes_and_gives(tmp_path, name, free):
    store = Store(tmp_path)
    path = put(tmp_path, "downloaded.onnx", shaped(ALL.entry(name), free))
    found = store.recognise(path)
    assert found is not None
    assert (found.kind, found.contract) == (ALL.entry(name).kind, ALL.entry(name).contract)
    held = store.recognised(path)
    assert (held.by, held.state) == ("contract", "unpinned")


@pytest.mark.parametrize("name", ["scrfd_10g", "xseg_2", "bisenet_resnet_34", "gfpgan_1.4", "gpen_bfr_512"])
def test_those_that_can_stand_for_each_other_are_told_by_their_kind_or_their_name(tmp_path, name):
    store, entry = Store(tmp_path), ALL.entry(name)
    found = store.recognise(put(tmp_path, "a.onnx", shaped(entry)))
    assert (found.kind, found.contract) == (entry.kind, entry.contract)
    assert store.recognise(put(tmp_path, f"my {name.upper()} v2.onnx", shaped(entry))).name == name


@pytest.mark.parametrize(
    "name", ["ghost_2_256", "simswap_256", "hififace_unofficial_256", "hyperswap_1b_256"]
)
def test_where_shapes_leave_several_the_name_decides_and_nothing_is_guessed(tmp_path, name):
    store = Store(tmp_path)
    data = shaped(ALL.entry(name))
    assert store.recognise(put(tmp_path, "a.onnx", data)) is None
    assert store.recognise(put(tmp_path, f"{name}-best.onnx", data)).name == name
    assert len(fitting(read_graph(tmp_path / "a.onnx"), ALL)) >= 4


@pytest.mark.parametrize("entry", [*ALL], ids=lambda entry: entry.name)
def test_every_model_fits_its_own_shapes_and_a_name_never_makes_up_for_wrong_ones(tmp_path, entry):
    for may in (False, True):
        graph = read_graph(put(tmp_path, "x.onnx", shaped(entry, may=may)))
        assert entry in fitting(graph, ALL)
    assert (
        Store(tmp_path).recognise(put(tmp_path, f"{entry.name}_x.onnx", network([[1, 7, 7]], [[1, 7]])))
        is None
    )


def test_an_inswapper_without_its_matrix_is_none(tmp_path):
    plain = network([[1, 3, 128, 128], [1, 512]], [[1, 3, 128, 128]])
    assert Store(tmp_path).recognise(put(tmp_path, "inswapper_128.x.onnx", plain)) is None


@pytest.mark.parametrize("data", [b"<html>", b"\x00" * 99, MODEL[:100]])
def test_what_is_no_model_is_nothing(tmp_path, data):
    assert Store(tmp_path).recognise(put(tmp_path, "inswapper_128 copy.onnx", data)) is None


def test_shapes_are_said_for_people(tmp_path):
    graph = read_graph(put(tmp_path, "a.onnx", network([["n", 3, 8, 8], [1, 512]], [[1, 3, 8, 8]])))
    assert describe(graph.inputs) == "?×3×8×8 float32, 1×512 float32"
    assert describe(()) == "nothing"


def test_only_model_files_are_looked_at(tmp_path):
    put(tmp_path, "notes.txt", MODEL)
    put(tmp_path, "tiny.onnx.part", MODEL)
    put(tmp_path, "b.DFM", MODEL)
    (tmp_path / "folder.onnx").mkdir()
    store = Store(tmp_path, catalogue_of(entry_for()))
    assert [path.name for path in store.strangers()] == ["b.DFM"]


def test_a_file_by_contract_that_was_pinned_and_changed_is_wrong(tmp_path):
    store = Store(tmp_path)
    path = put(tmp_path, "mine.onnx", shaped(ALL.entry("inswapper_128")))
    store.pin(store.recognised(path))
    assert store.held("inswapper_128").state == "ready"
    put(tmp_path, "mine.onnx", shaped(ALL.entry("inswapper_128"), "n"))
    held = store.held("inswapper_128")
    assert held.state == "wrong"
    assert "--pin" in how_to_mend(held)
    assert "mine.onnx" in what_is_wrong(held)
    assert store.path_of("inswapper_128") is None


@pytest.mark.parametrize("text", [
    "", "{", "[]", "null", '{"pins": 3}', '{"pins": {"a": 1}}', '{"pins": {"a": {"sha256": "x", "size": 1}}}',
    '{"pins": {"a": {"sha256": 5, "size": 1}}}', '{"pins": {"a": {"size": 1}}}', "x" * (1 << 21), "\x00",
])  # fmt: skip
def test_a_damaged_list_of_pins_is_never_taken_for_an_empty_one(tmp_path, text):
    put(tmp_path, LOCK_FILE, text.encode())
    put(tmp_path, "tiny.onnx", MODEL)
    with pytest.raises(UsageError, match=r"models\.lock\.json"):
        Store(tmp_path, catalogue_of(entry_for(known=False))).held("tiny")


def test_pins_stay_when_more_come(tmp_path):
    pins = Pins(tmp_path)
    pins.put("a.onnx", Pin("a" * 64, 1, "x"))
    pins.put("b.onnx", Pin("b" * 64, 2))
    assert pins.all() == {"a.onnx": Pin("a" * 64, 1, "x"), "b.onnx": Pin("b" * 64, 2, "")}
    assert pins.get("c.onnx") is None
    assert [p.name for p in tmp_path.iterdir()] == [LOCK_FILE]


def test_a_sum_is_remembered_until_the_file_changes(tmp_path, monkeypatch):
    path, read = put(tmp_path, "a.onnx", MODEL), []

    def counted(what):
        read.append(what)
        return sha256_of(what)

    monkeypatch.setattr("engines.sums.sha256_of", counted)
    assert [Sums(tmp_path).of(path) for _ in range(3)] == [digest(MODEL)] * 3
    assert len(read) == 1
    assert Sums(tmp_path).of(path, again=True) == digest(MODEL)
    path.write_bytes(OTHER)
    os.utime(path, ns=(1, 1))
    assert Sums(tmp_path).of(path) == digest(OTHER)
    assert len(read) == 3
    (tmp_path / ".seen.json").write_text(json.dumps({str(path): [1, 2, "junk"], "x": 3}))
    assert Sums(tmp_path).of(path) == digest(OTHER)
    for junk in ("{", "[" * 200_000, '{"a":' * 100_000, "[]", "\xff", " " * (1 << 21)):
        (tmp_path / ".seen.json").write_text(junk, encoding="latin-1")
        assert Sums(tmp_path).of(path) == digest(OTHER)


def test_a_folder_that_cannot_be_written_can_still_be_read(tmp_path):
    path = put(tmp_path, "tiny.onnx", MODEL)
    (tmp_path / ".seen.json").mkdir()
    assert Store(tmp_path, catalogue_of(entry_for())).require("tiny") == path


def test_a_claim_waits_if_asked_to_and_says_who_is_in_the_way(tmp_path):
    waits = []
    with claimed(tmp_path / "a"):
        with (
            pytest.raises(DoppelcamError, match="Another doppelcam"),
            claimed(tmp_path / "a", 4, waits.append),
        ):
            pass
        with claimed(tmp_path / "b"):
            pass
    assert waits == [0.1] * 3
    with claimed(tmp_path / "a"):
        pass
    with pytest.raises(UsageError, match="cannot be written"), claimed(tmp_path / "no" / "a"):
        pass


def test_models_of_a_kind_that_may_be_run_come_in_the_catalogues_order(tmp_path):
    known = [entry_for(name=name, file=f"{name}.onnx") for name in ("one", "two", "three", "four")]
    other = entry_for(name="other", file="other.onnx", kind="parse")
    store = Store(tmp_path, catalogue_of(*known, other))
    kind = known[0].kind
    assert store.first(kind) is None and list(store.usable(kind)) == []
    put(tmp_path, known[1].file, OTHER)  # Another sum than it should have.
    put(tmp_path, "other.onnx", MODEL)
    for entry in (known[3], known[2]):
        put(tmp_path, entry.file, MODEL)
    assert [name for name, _ in store.usable(kind)] == ["three", "four"]
    assert store.first(kind) == tmp_path / known[2].file
    assert [entry.name for entry in store.catalogue.of_kind(kind)] == ["one", "two", "three", "four"]


def test_a_folder_is_looked_through_once_for_all_models_that_are_missing(tmp_path, monkeypatch):
    put(tmp_path, "mine.onnx", MODEL)
    looks = []
    real = Store.strangers
    monkeypatch.setattr(Store, "strangers", lambda self: looks.append(1) or real(self))
    store = Store(tmp_path)
    assert not list(store.usable("swap")) and len(looks) == 1
    assert len(store.all()) == len(ALL.entries) and len(looks) == 2


@pytest.mark.parametrize("gone", ["missing", "folder", "empty"])
def test_what_has_no_sum_is_named(tmp_path, gone):
    path = tmp_path / "a.onnx"
    if gone == "folder":
        path.mkdir()
    elif gone == "empty":
        path.touch()
    for ask in (lambda: Sums(tmp_path).of(path), lambda: Sums(tmp_path).remember(path, "0" * 64)):
        with pytest.raises(UsageError, match=r"a\.onnx"):
            ask()
    assert not (tmp_path / ".seen.json").exists()
