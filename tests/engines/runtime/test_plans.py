"""Plans of one machine and one user: what is loaded, and everything else that is refused by name."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engines.errors import EngineError
from engines.runtime.driver import Driver, Gpu
from engines.runtime.trt import folder as plan_folder
from engines.runtime.trt.bindings import Package
from engines.runtime.trt.folder import PlanFolder, default_plan_folder
from engines.runtime.trt.key import PlanKey, Target, driver_version, target_of, targets_of, why_stale
from engines.runtime.trt.parity import Verdict
from engines.runtime.trt.plans import Note, PlanStore, Unplanned

HERE = Target("tensorrt", "11.4.0.106", 12, "NVIDIA GeForce RTX 4090", "8.9", "570.86.10")
SHAPES = ((1, 3, 128, 128), (1, 512))
MODEL = "ab" * 32
GOOD = Verdict(True, "", {"output 0: mean error": 0.0004})
PLAN = b"ptrt" + bytes(range(256)) * 8

needs_links = pytest.mark.skipif(os.name == "nt", reason="links and modes are those of Unix")


def note(**changes):
    target = replace(HERE, **{name: changes.pop(name) for name in list(changes) if name in Target.__slots__})
    key = PlanKey(
        changes.pop("model", MODEL),
        changes.pop("recipe", "fp16 v1"),
        changes.pop("shapes", SHAPES),
        ("strong",),
        target,
    )
    return Note(
        "swap_128", key, "", 0, "", ("target", "source"), ("face",), changes.pop("verdict", GOOD), layers=7,
        seconds=3.5, built=changes.pop("built", "2026-11-30T10:00:00"),
    )  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return PlanStore(tmp_path / "plans")


def load(store, **changes):
    target = replace(HERE, **{name: changes.pop(name) for name in list(changes) if name in Target.__slots__})
    return store.load("swap_128", changes.get("model", MODEL), changes.get("shapes", SHAPES), target)


def why(store, **changes):
    with pytest.raises(Unplanned) as caught:
        load(store, **changes)
    assert caught.value.fix
    return f"{caught.value}"


def test_what_was_kept_is_what_is_loaded(store):
    kept = store.put(note(), PLAN, b"kernels")
    found = load(store)
    assert (found.plan, found.jit) == (PLAN, b"kernels")
    assert found.note == kept
    assert found.note.title == "TensorRT 11.4 FP16"
    assert [held.state for held in store.all(HERE)] == ["ready"]
    if os.name != "nt":
        assert store.folder.path.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in store.folder.path.iterdir()} == {0o600}


def test_where_there_is_none_it_says_how_to_build_one(store):
    assert not store.any()
    assert "There is no TensorRT plan of swap_128. Type: doppelcam engines build swap_128" in why(store)


STALE = {
    "model": ({"model": "cd" * 32}, "another model"),
    "shapes": (
        {"shapes": ((4, 3, 128, 128), (4, 512))},
        "another shapes: 1×3×128×128 1×512, and here it is 4×3×128×128",
    ),
    "flavour": ({"runtime": "tensorrt_rtx"}, "another TensorRT"),
    "version": (
        {"version": "11.5.0.1"},
        "another TensorRT: tensorrt 11.4.0.106, and here it is tensorrt 11.5.0.1",
    ),
    "CUDA": ({"cuda": 13}, "another CUDA"),
    "GPU": (
        {"gpu": "NVIDIA GeForce RTX 3060", "sm": "8.6"},
        "another GPU: NVIDIA GeForce RTX 4090 (SM 8.9), and here",
    ),
    "SM": ({"sm": "12.0"}, "another GPU"),
    "driver": ({"driver": "580.1"}, "another driver: 570.86.10, and here it is 580.1"),
}


@pytest.mark.parametrize("what", STALE)
def test_a_plan_for_something_else_is_stale_and_says_for_what(store, what):
    changes, text = STALE[what]
    store.put(note(), PLAN)
    assert text in why(store, **changes)
    assert "doppelcam engines build" in why(store, **changes)


def test_every_part_of_the_key_makes_another_plan():
    keys = [note(**dict(changes)).key for changes, _ in STALE.values()]
    keys += [note().key, note(recipe="fp32").key, replace(note().key, flags=("weak",))]
    assert len({key.digest for key in keys}) == len(keys)
    assert why_stale(note().key, MODEL, SHAPES, HERE) == ""


def test_half_precision_is_taken_before_full_and_the_newer_before_the_older(store):
    store.put(note(recipe="fp32", built="2026-12-02"), PLAN + b"full")
    assert load(store).plan == PLAN + b"full"
    store.put(note(built="2026-12-01"), PLAN)
    assert load(store).plan == PLAN
    store.put(note(recipe="fp16 v1, more", built="2026-12-03"), PLAN + b"newer")
    assert load(store).plan == PLAN + b"newer"


def test_a_plan_that_gives_other_pictures_is_never_loaded(store):
    store.put(note(verdict=Verdict(False, "it gives numbers that are none (NaN or infinity)")), PLAN)
    text = why(store)
    assert "compared with the model, it gives numbers that are none (NaN or infinity)" in text
    assert "--precision fp32" in text
    assert store.all(HERE)[0].state == "refused"
    store.put(note(recipe="fp32"), PLAN)
    assert load(store).note.key.recipe == "fp32"


def test_a_plan_that_was_never_compared_is_never_loaded(store):
    store.put(note(verdict=None), PLAN)
    assert "never compared" in why(store)
    assert store.all(HERE)[0].state == "unproven"


def test_building_again_replaces_the_old_one(store):
    store.put(note(), PLAN, b"old kernels")
    store.put(note(), PLAN + b"2")
    assert load(store).plan == PLAN + b"2"
    assert sorted(path.suffix for path in store.folder.path.iterdir() if path.suffix) == [".json", ".plan"]


def plan_file(store):
    return next(store.folder.path.glob("*.plan"))


def note_file(store):
    return next(store.folder.path.glob("*.json"))


def truncated(store):
    plan_file(store).write_bytes(PLAN[:-100])


def changed(store):
    plan_file(store).write_bytes(PLAN[:-1] + b"\x00")


def grown(store):
    plan_file(store).write_bytes(PLAN * 2)


def gone(store):
    plan_file(store).unlink()


def directory(store):
    plan_file(store).unlink()
    plan_file_path = store.folder.path / json.loads(note_file(store).read_text())["note"]["file"]
    plan_file_path.mkdir()


def link(store):
    real = plan_file(store)
    real.rename(store.folder.path.parent / "elsewhere")
    real.symlink_to(store.folder.path.parent / "elsewhere")


def hard_link(store):
    os.link(plan_file(store), store.folder.path.parent / "second name")


def pipe(store):
    path = plan_file(store)
    path.unlink()
    os.mkfifo(path)


def open_file(store):
    plan_file(store).chmod(0o666)


def open_to_the_group(store):
    plan_file(store).chmod(0o620)


def open_note(store):
    note_file(store).chmod(0o602)


def linked_note(store):
    real = note_file(store)
    real.rename(store.folder.path.parent / "note")
    real.symlink_to(store.folder.path.parent / "note")


def edited(**changes):
    def edit(store):
        table = json.loads(note_file(store).read_text())
        table["note"] |= changes
        note_file(store).write_text(json.dumps(table))

    return edit


def garbage(text):
    def write(store):
        note_file(store).write_text(text)

    return write


def from_another_machine(store):
    """A plan with a note that fits to the letter, as somebody else's program wrote it."""
    other = PlanStore(store.folder.path.parent / "other")
    other.put(note(), PLAN)
    for path in (*store.folder.path.glob("*.json"), *store.folder.path.glob("*.plan")):
        path.unlink()
    for path in other.folder.path.glob("swap*"):
        shutil.copy(path, store.folder.path / path.name)
        (store.folder.path / path.name).chmod(0o600)


def without_key(store):
    (store.folder.path / ".key").unlink()


HOSTILE = {
    "truncated": (truncated, "cut off or changed"),
    "one byte changed": (changed, "its sum is another one"),
    "grown": (grown, "cut off or changed"),
    "gone": (gone, "is missing"),
    "a directory": (directory, "cut off or changed"),
    "a link": (link, "cut off or changed|is a link"),
    "a second name": (hard_link, "second name"),
    "a pipe": (pipe, "cut off or changed"),
    "open to all": (open_file, "can be written by others"),
    "open to the group": (open_to_the_group, "can be written by others"),
    "a note open to all": (open_note, "can be written by others"),
    "a note that is a link": (linked_note, "is a link"),
    "another sum in the note": (edited(sha256="0" * 64), "not built here, or its note was changed"),
    "a verdict that was turned round": (
        edited(verdict={"passed": True, "why": "", "figures": {}}),
        "not built here",
    ),
    "a path out of the folder": (edited(file="../../etc/passwd"), "not built here"),
    "from another machine": (from_another_machine, "not built here"),
    "the key is gone": (without_key, "not built here"),
    "no JSON": (garbage("not json"), "damaged"),
    "empty JSON": (garbage("{}"), "damaged"),
    "a list": (garbage("[1, 2]"), "damaged"),
    "deeply nested": (garbage("[" * 100_000), "damaged"),
    "a note of text": (garbage('{"schema": 1, "note": "x", "signature": "y"}'), "damaged"),
    "no signature": (garbage('{"schema": 1, "note": {}, "signature": null}'), "not built here"),
    "of another version": (garbage('{"schema": 2, "note": {}, "signature": ""}'), "damaged"),
    "much too large": (garbage(" " * (2 << 20)), "expected at most"),
}


@needs_links
@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_not_what_was_built_here_is_refused_by_name(store, what):
    spoil, text = HOSTILE[what]
    store.put(note(), PLAN)
    load(store)
    spoil(store)
    said = why(store)
    assert any(part in said for part in text.split("|")), said
    assert "swap_128" in said
    # Listing goes on, whatever lies there, and cleaning removes it.
    held = store.all(HERE)
    assert len(held) == 1
    store.remove(held[0])
    assert not store.all(HERE)


def signed(store, **changes):
    """A note that our own key signed; so the checks behind the signature are reached."""
    body = json.loads(note_file(store).read_text())["note"] | changes
    from engines.runtime.trt.plans import _canonical

    text = {"schema": 1, "signature": store.folder.sign(_canonical(body)), "note": body}
    note_file(store).write_text(json.dumps(text))


@pytest.mark.parametrize(
    "changes",
    [
        {"file": "../../etc/passwd"}, {"file": "/etc/passwd"}, {"file": ".key"}, {"file": "swap.json"}, {"jit": "../x"},
        {"key": {}}, {"key": None}, {"verdict": {"passed": True, "surprise": 1}}, {"surprise": 1},
    ],
)  # fmt: skip
def test_even_a_signed_note_leads_nowhere_else(store, changes):
    store.put(note(), PLAN)
    signed(store, **changes)
    assert "refused" in why(store) or "damaged" in why(store)


def test_kernels_that_were_changed_are_left_out(store):
    store.put(note(), PLAN, b"kernels")
    next(store.folder.path.glob("*.jit")).write_bytes(b"evil!!!")
    assert load(store).jit == b""


@needs_links
def test_a_folder_that_others_can_write_is_refused(store, tmp_path):
    store.put(note(), PLAN)
    store.folder.path.chmod(0o777)
    assert "Others can write in the folder of plans" in why(store)
    for use in (lambda: store.put(note(), PLAN), lambda: store.all(HERE), store.folder.make):
        with pytest.raises(EngineError, match="Others can write"):
            use()
    store.folder.path.chmod(0o700)
    load(store)
    tmp_path.chmod(0o777)
    try:
        said = why(store)
    finally:
        tmp_path.chmod(0o700)
    assert "replace the folder of plans" in said
    assert "chmod go-w" in said
    tmp_path.chmod(0o1777)  # as /tmp is: nobody can rename what is another's
    load(store)
    tmp_path.chmod(0o700)


@needs_links
@pytest.mark.parametrize("own", [True, False])
def test_a_group_may_write_above_it_only_if_it_is_the_users_own(store, tmp_path, monkeypatch, own):
    """Some systems make a group for each user, and folders open to it."""
    store.put(note(), PLAN)
    asked = []
    monkeypatch.setattr(plan_folder, "_own_group", lambda gid: asked.append(gid) or own)
    tmp_path.chmod(0o770)
    try:
        if own:
            load(store)
        else:
            assert "replace the folder of plans" in why(store)
    finally:
        tmp_path.chmod(0o700)
    assert asked[0] == tmp_path.stat().st_gid


@needs_links
def test_a_folder_that_is_a_link_or_a_file_is_refused(store, tmp_path):
    store.put(note(), PLAN)
    store.folder.path.rename(tmp_path / "moved")
    store.folder.path.symlink_to(tmp_path / "moved")
    assert "is a link" in why(store)
    store.folder.path.unlink()
    store.folder.path.write_text("")
    with pytest.raises(EngineError, match=r"no folder|cannot be made"):
        store.folder.make()


@needs_links
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_a_folder_or_a_file_of_another_user_is_refused(store):
    store.put(note(), PLAN)
    os.chown(plan_file(store), 12345, 12345)
    assert "belongs to another user" in why(store)
    os.chown(plan_file(store), 0, 0)
    os.chown(store.folder.path, 12345, 12345)
    assert "belongs to another user" in why(store)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "/etc/passwd"])
def test_only_plain_names_are_read(tmp_path, name):
    with pytest.raises(EngineError, match="no plain name"):
        PlanFolder(tmp_path).read(name, 100)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    folder = PlanFolder(tmp_path)
    folder.write("a", b"first")

    def fails(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(EngineError, match="No space left"):
        folder.write("a", b"second")
    assert folder.read("a", 100) == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_names_that_begin_alike_are_not_mixed_up(store):
    store.put(replace(note(), name="swap_128-big"), PLAN + b"big")
    assert "There is no TensorRT plan" in why(store, model="cd" * 32)
    assert load(store).plan == PLAN + b"big"  # of the same bytes, under another name
    for odd in ("../../evil", "a b\n", "ü" * 300, ".", ""):
        kept = store.put(replace(note(), name=odd, key=replace(note().key, model=odd)), PLAN)
        assert Path(kept.file).name == kept.file


def test_what_nobody_needs_is_found(store):
    store.put(note(), PLAN)
    for name in ("x-0123456789abcdef-0123456789ab.plan", ".a.plan.1234.part"):
        (store.folder.path / name).write_bytes(b"12345")
    assert sorted(store.leftovers()) == [".a.plan.1234.part", "x-0123456789abcdef-0123456789ab.plan"]
    assert sum(store.discard(name) for name in store.leftovers()) == 10
    assert store.leftovers() == []
    load(store)


@pytest.mark.parametrize(
    ("platform", "environ", "end"),
    [
        ("linux", {"XDG_CACHE_HOME": "/c"}, "/c/doppelcam/engines"),
        ("linux", {}, ".cache/doppelcam/engines"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/doppelcam/engines"),
        ("darwin", {}, "Library/Caches/doppelcam/engines"),
    ],
)
def test_the_folder_is_the_systems_own(platform, environ, end):
    assert default_plan_folder(environ, platform).as_posix().endswith(end)


class Nvml:
    def __init__(self, version=b"570.86.10", init=0):
        self.version, self.init, self.shut = version, init, 0

    def nvmlInit_v2(self):
        return self.init

    def nvmlSystemGetDriverVersion(self, text, length):
        text.value = self.version
        return 0

    def nvmlShutdown(self):
        self.shut += 1


def nothing(name):
    raise OSError(name)


def test_the_drivers_version_comes_from_nvml_or_the_kernel_module(tmp_path):
    nvml = Nvml()
    assert driver_version(lambda name: nvml) == "570.86.10"
    assert nvml.shut == 1
    proc = tmp_path / "version"
    proc.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.51.02  Release Build\nGCC version: 13"
    )
    for load_it in (nothing, lambda name: Nvml(init=9), lambda name: object()):
        assert driver_version(load_it, str(proc)) == "575.51.02"
    assert driver_version(nothing, str(tmp_path / "none")) == ""


def test_a_machine_is_what_a_plan_is_bound_to():
    driver = Driver((Gpu(0, "RTX", 24000, (8, 9)), Gpu(1, "T4", 15000, (7, 5))), (12, 8))
    package = Package("tensorrt", "11.4.0.106", 12)
    assert target_of(driver, 1, package, lambda: "570.1") == Target(
        "tensorrt", "11.4.0.106", 12, "T4", "7.5", "570.1"
    )
    assert target_of(driver, 0, replace(package, cuda=0), lambda: "").driver == "CUDA 12.8"
    with pytest.raises(EngineError, match="cuda:2"):
        target_of(driver, 2, package, lambda: "")
    with pytest.raises(EngineError, match="no NVIDIA driver"):
        target_of(Driver(why_not="there is no NVIDIA driver"), 0, package, lambda: "")


def test_a_plan_of_the_second_gpu_is_not_stale(store):
    other = replace(HERE, gpu="NVIDIA T4", sm="7.5")
    store.put(note(gpu="NVIDIA T4", sm="7.5"), PLAN)
    assert [held.state for held in store.all(HERE, other)] == ["ready"]
    assert [held.state for held in store.all(HERE)] == ["stale"]
    driver = Driver((Gpu(0, HERE.gpu, 24000, (8, 9)), Gpu(1, "NVIDIA T4", 15000, (7, 5))), (12, 8))
    package = Package("tensorrt", HERE.version, 12)
    assert targets_of(driver, package, lambda: HERE.driver) == (HERE, other)
    assert targets_of(driver, None) == targets_of(Driver(), package) == ()
