"""The rules of the house: who may import whom, and when."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("engines", "realtime")
LONGEST = 450

WRAPPERS = {
    "onnxruntime": {"engines/runtime/ort/bindings.py"},
    "tensorrt": {"engines/runtime/trt/bindings.py"},
    "tensorrt_rtx": {"engines/runtime/trt/bindings.py"},
    "cupy": {"engines/kernels/gpu/card.py"},
    "onnx": {"engines/runtime/trt/fp16.py", "engines/runtime/model/initializer.py"},
    "mediapipe": {"engines/analysis/mediapipe.py"},
    "pyvirtualcam": {"realtime/sinks/virtualcam.py"},
    "av": {
        "realtime/sinks/bt709.py",
        "realtime/sinks/file.py",
        "realtime/sources/file.py",
        "realtime/doctor/doctor.py",
        "realtime/audio/decode.py",
        "realtime/sinks/streams/mux.py",
        "realtime/sinks/streams/relay.py",
        "realtime/sinks/streams/whip.py",
        "realtime/bench/reader.py",
        "realtime/control/broadcast.py",
    },
    "PIL": {"engines/analysis/photo.py", "realtime/picture.py"},
    "pillow_heif": {"engines/analysis/photo.py"},
    "aiortc": {"realtime/sinks/streams/whip.py", "realtime/control/webrtc.py"},
    "pythonosc": {"realtime/control/osc.py"},
}
"""What not every machine has, and the files that may import it, inside of a function."""

PLAIN = {"numpy", "cv2", "numba", "llvmlite", "rich", *PACKAGES}
"""What may be imported at the top of any file, besides the standard library."""

DOWNWARDS = ("realtime.cli", "realtime.assemble", "realtime.session", "realtime.pipeline", "realtime.frame")


@cache
def sources() -> dict[str, Path]:
    """Every module of both packages by its name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(sources()[module].read_text(encoding="utf-8"))


def imports(module: str, whole: bool) -> Iterator[tuple[str, int]]:
    """What a module imports and in which line: at its top level as it runs, or anywhere."""

    later = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

    def walk(node: ast.AST) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, child.lineno) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert not child.level, f"{module}:{child.lineno} imports by dots"
                for alias in child.names:
                    full = f"{child.module}.{alias.name}"
                    yield (full if full in sources() else str(child.module), child.lineno)
            elif whole or not (isinstance(child, later) or _for_type_checkers(child)):
                yield from walk(child)

    yield from walk(tree_of(module))


def _for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def test_the_packages_are_there():
    assert len(sources()) > 50
    assert {"engines.open", "realtime.session", "realtime.cli"} <= sources().keys()


def test_engines_know_nothing_of_what_keeps_time():
    wrong = [
        f"{module}:{line} imports {name}"
        for module in sources()
        if module.split(".")[0] == "engines"
        for name, line in imports(module, whole=True)
        if name.split(".")[0] in ("realtime", "socket", "queue")
    ]
    assert not wrong


def test_nothing_that_ships_needs_what_does_not():
    wrong = [
        f"{module}:{line} imports {name}"
        for module in sources()
        for name, line in imports(module, whole=True)
        if name.split(".")[0] in ("tests", "tools", "pytest")
    ]
    assert not wrong


@cache
def graph() -> dict[str, set[str]]:
    """For each module those that it imports while it is being imported."""
    edges = {}
    for module in sources():
        names = {name for name, _ in imports(module, whole=False)}
        edges[module] = {name for name in names if name in sources()} - {module}
    return edges


def reached_from(start: str) -> set[str]:
    seen, todo = set(), [start]
    while todo:
        for following in graph()[todo.pop()] - seen:
            seen.add(following)
            todo.append(following)
    return seen


def test_imports_form_no_cycle():
    cycles = sorted(module for module in sources() if module in reached_from(module))
    assert not cycles


@pytest.mark.parametrize("place", range(1, len(DOWNWARDS)))
def test_imports_point_one_way(place):
    reached = reached_from(DOWNWARDS[place])
    above = [
        module for module in reached for upper in DOWNWARDS[:place] if f"{module}.".startswith(f"{upper}.")
    ]
    assert not above


@pytest.mark.parametrize("library", WRAPPERS)
def test_what_not_every_machine_has_is_wrapped(library):
    """Never imported at the top of a file, and only in the files that wrap it."""
    early, strays = [], []
    for module, path in sources().items():
        where = path.relative_to(ROOT).as_posix()
        early += [
            f"{where}:{line}" for name, line in imports(module, whole=False) if name.split(".")[0] == library
        ]
        strays += [
            f"{where}:{line}"
            for name, line in imports(module, whole=True)
            if name.split(".")[0] == library and where not in WRAPPERS[library]
        ]
    assert not early
    assert not strays


def test_the_top_of_a_file_imports_nothing_unheard_of():
    wrong = [
        f"{module}:{line} imports {name}"
        for module in sources()
        for name, line in imports(module, whole=False)
        if name.split(".")[0] not in PLAIN | set(sys.stdlib_module_names)
    ]
    assert not wrong


BARE_MACHINE = """
import importlib, sys, traceback

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(f"{name} is not on this machine")

BLOCKED = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Blocker())
failed = 0
for module in sys.argv[2].split(","):
    try:
        importlib.import_module(module)
    except BaseException:
        failed += 1
        print(module)
        traceback.print_exc(limit=-2, file=sys.stdout)
print("threads:", __import__("threading").active_count())
sys.exit(failed > 0)
"""


def test_every_module_imports_on_a_machine_that_has_none_of_it():
    """And leaves no thread behind."""
    modules = [module for module in sources() if not module.endswith("__main__")]
    done = subprocess.run(
        [sys.executable, "-c", BARE_MACHINE, ",".join(WRAPPERS), ",".join(modules)],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["threads:", "1"]


def test_nothing_is_changed_through_a_global_statement():
    wrong = [
        f"{module}:{node.lineno}"
        for module in sources()
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Global)
    ]
    assert not wrong


def test_no_file_is_too_long_to_be_read():
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sources().values()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST
    }
    assert not long


def test_threads_are_made_in_one_place():
    """The session owns every thread of the live path; what serves or waits for others may have its own."""
    kinds = ("Thread", "Timer", "ThreadPoolExecutor")
    makers = {
        module
        for module in sources()
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in kinds
    }
    assert makers <= {
        "realtime.session",
        "realtime.local_http",
        "realtime.control.osc",
        "realtime.control.worker",
        "realtime.control.broadcast",
        "realtime.control.webrtc",
        "realtime.doctor.round_trip",
        "realtime.audio.feed",
        "realtime.sinks.streams.stream",
        "realtime.sinks.streams.link",
        "realtime.sinks.streams.whip",
    }
