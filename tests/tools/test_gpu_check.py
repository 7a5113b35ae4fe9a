"""The check for the day a card is at hand: its tables, its rooflines and its isolation, on the stand-in."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.engines.kernels.cuda_host import needs_compiler
from tests.engines.kernels.cuda_stand_in import Desk
from tools.gpu_check import __main__ as program
from tools.gpu_check import golden, measured, network, onnx_net
from tools.gpu_check.apart import MARK, in_a_process, run_all
from tools.gpu_check.bench import Bench, summary
from tools.gpu_check.rows import Row, floor_ms, report, table, to_json
from tools.gpu_check.scene import Scene
from tools.gpu_check.shape import SIDE, inswapper

ROOT = Path(__file__).parents[2]
SMALL = {"small": (192, 108), "odd halves": (70, 54)}


def bench_on(desk, step=0.001):
    """A bench whose clock goes on by a millisecond whenever it is looked at."""
    ticks = itertools.count()
    return Bench(desk.card, runs=3, inner=4, clock=lambda: next(ticks) * step)


# --- the roofline and what is written down


def test_the_floor_is_the_slowest_of_what_goes_on_at_once_and_the_bus_comes_on_top():
    rates = {"memory": 100.0, "up": 10.0, "fp16": 2.0}
    assert floor_ms({"memory": 1e8}, rates) == (1.0, "memory")
    assert floor_ms({"memory": 1e8, "fp16": 4e9}, rates) == (2.0, "fp16")
    assert floor_ms({"memory": 1e8, "fp16": 1e9, "up": 3e7}, rates) == (4.0, "up")
    assert floor_ms({"up": 1e7}, rates) == (1.0, "up")


@pytest.mark.parametrize("work", [{}, {"fp32": 1e9}, {"memory": 1e6, "down": 1e6}])
def test_without_a_rate_there_is_no_floor(work):
    assert floor_ms(work, {"memory": 100.0, "down": 0.0}) is None


ROWS = [
    Row("rates", "memory", value=100.0, unit="GB/s"),
    Row("rates", "fp16", note="no PyTorch with a card here", ran=False),
    Row("kernels", "paste", good=True, value=1.0, unit="off, at most 1"),
    Row("kernels", "crops", good=False, value=math.inf, unit="off, at most 0"),
    Row("stages", "1080p: I420", 2.0, 0.1, {"memory": 1e8}),
    Row("stages", "1080p: crop", 2.0, 0.1, {"fp16": 1e8}),
]


def test_power_is_the_floor_over_the_time_and_only_where_both_are_known():
    found = report({"card": "x"}, ROWS)
    lines = {line["name"]: line for line in found["rows"]}
    assert lines["1080p: I420"]["power"] == pytest.approx(0.5)
    assert lines["1080p: I420"]["floor_of"] == "memory"
    assert "power" not in lines["1080p: crop"]
    assert found["wrong"] == ["kernels: crops"]
    assert found["not_run"] == ["rates: fp16: no PyTorch with a card here"]
    assert found["rates"] == {"memory": 100.0}


def test_the_json_is_json_even_of_numbers_that_it_does_not_know():
    text = to_json(report({"card": "x"}, ROWS))
    again = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert again["rows"][3]["value"] is None
    assert text.endswith("}\n")


def test_the_table_tells_every_row_what_is_wrong_and_what_was_not_run():
    text = table(report({"card": "a card"}, ROWS))
    assert text.startswith("card: a card\n")
    for row in ROWS:
        assert row.name in text
    line = next(line for line in text.splitlines() if "I420" in line)
    assert line.split()[-4:] == ["2.000", "0.100", "1.000", "50%"]
    assert "WRONG:\n  kernels: crops" in text
    assert "could not be run:\n  rates: fp16: no PyTorch" in text
    assert "WRONG:" not in table(report({}, ROWS[:3]))


# --- isolation


def child(body):
    return sys.executable, "-c", body


PRINTS = (
    "from tools.gpu_check.rows import Row; from tools.gpu_check.apart import hand_over; import os, time, sys;"
)
ONE = PRINTS + "print('noise'); print(hand_over([Row('p', 'a', 1.5, work={'up': 2.0})]), flush=True);"


def test_a_part_hands_its_rows_over_through_any_noise():
    assert in_a_process("p", 30, child(ONE)) == [Row("p", "a", 1.5, work={"up": 2.0})]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (ONE + "os._exit(7)", "ended with 7: no word why"),
        (ONE + "raise RuntimeError('cudaErrorIllegalAddress')", "RuntimeError: cudaErrorIllegalAddress"),
        (ONE + "os.abort()", "ended with -"),
        (ONE + f"print({MARK!r} + '[{{\"part\": 1', flush=True); sys.exit(3)", "ended with 3"),
        (ONE + f"print({MARK!r} + '[{{\"wrong\": 1}}]', flush=True); sys.exit(3)", "ended with 3"),
    ],
)
def test_what_a_part_found_before_it_died_is_kept_and_the_rest_is_told(body, why):
    first, rest = in_a_process("p", 30, child(body))
    assert (first.name, first.ms) == ("a", 1.5)
    assert not rest.ran
    assert why in rest.note


def test_a_part_that_hangs_is_ended_and_one_that_says_nothing_is_told():
    first, rest = in_a_process("p", 1.5, child(ONE + "time.sleep(60)"))
    assert first.name == "a"
    assert "not done after 2 s" in rest.note
    (nothing,) = in_a_process("p", 30, child("pass"))
    assert "told nothing" in nothing.note


def test_one_part_leaves_the_others_and_all_keep_the_time():
    now, said = [0.0], []

    def run(part, seconds):
        said.append((part, seconds))
        now[0] += {"first": 50, "second": 30, "third": 15}.get(part, 0)
        if part == "second":
            raise OSError("no such file")
        return [Row(part, "done")]

    parts = {"first": 60.0, "second": 60.0, "third": 60.0, "fourth": 60.0}
    rows = run_all(parts, 98, run, lambda _: None, lambda: now[0])
    assert said == [("first", 60), ("second", 48), ("third", 18)]
    assert [(row.part, row.ran) for row in rows] == [
        ("first", True), ("second", False), ("third", True), ("fourth", False)
    ]  # fmt: skip
    assert "no such file" in rows[1].note
    assert "no time was left" in rows[3].note


def test_all_parts_fit_into_eight_minutes():
    assert program.LIMITS.keys() == program.PARTS.keys()
    assert program.SECONDS <= 470


# --- the parts


@needs_compiler
def test_the_kernels_of_the_stand_in_are_right():
    desk = Desk()
    rows = list(golden.compare(desk.card, ((322, 182),)))
    assert len(rows) == len(golden.Golden(desk.card, (322, 182)).checks())
    assert not [row for row in rows if not row.ran or not row.good]


@needs_compiler
def test_a_kernel_that_is_wrong_and_one_that_fails_are_told_apart(monkeypatch):
    desk = Desk()
    monkeypatch.setattr(golden.PictureKernels, "to_i420", lambda *_: None)
    monkeypatch.setattr(golden.FaceKernels, "erode", lambda *_: 1 / 0)
    for slow in ("moments",):
        monkeypatch.setattr(golden.Golden, slow, lambda _: (0.0, 0.0))
    rows = {row.name.split(",")[0]: row for row in golden.compare(desk.card, ((322, 182),))}
    assert rows["BGR to I420"].good is False
    assert not rows["erosion and blur"].ran
    assert "ZeroDivisionError" in rows["erosion and blur"].note
    assert rows["paste-back"].good


@needs_compiler
def test_rates_are_bytes_over_time():
    desk = Desk()
    rows = {row.name: row for row in measured.rates(bench_on(desk), megabytes=1)}
    assert rows["up"].value == pytest.approx((1 << 20) / 1e6)
    assert rows["memory"].value == pytest.approx(2 * (1 << 20) / 1e6)
    assert not rows["fp16"].ran
    assert {"up", "down", "up pageable", "down pageable", "memory"} <= {
        name for name, row in rows.items() if row.ran
    }


@needs_compiler
def test_stages_are_timed_one_by_one_with_what_they_move():
    desk = Desk()
    rows = list(measured.stages(bench_on(desk), {"small": (192, 108)}))
    names = [row.name.removeprefix("small, ") for row in rows]
    one = ["upload", "crop", "network", "bake", "paste", "I420", "download"]
    assert names == [*(f"1 face: {name}" for name in one), *(f"4 faces: {name}" for name in one[1:5])]
    assert all(row.ms == pytest.approx(0.25) for row in rows)
    assert rows[0].work == {"up": 3 * 192 * 108}
    assert rows[6].work == {"down": 1.5 * 192 * 108}
    # Four faces move four times as much as one.
    assert rows[7].work["memory"] == pytest.approx(4 * rows[1].work["memory"], rel=1e-6)


@needs_compiler
def test_whole_frames_give_the_same_bytes_with_and_without_a_graph():
    desk = Desk()
    rows = list(measured.frames(bench_on(desk), SMALL))
    assert [row.name for row in rows if row.good] == [
        f"{size}, {faces}, graph" for size in SMALL for faces in ("1 face", "4 faces")
    ]
    assert desk.cupy.counts["graphs"] > 0
    assert all(row.ran and row.ms == pytest.approx(1.0) for row in rows)


@needs_compiler
@pytest.mark.parametrize("fault", ["bytes", "memory"])
def test_a_graph_that_changes_the_picture_or_takes_memory_is_wrong(fault):
    desk = Desk()
    scene, times = Scene(desk.card, (70, 54), 1, 16), itertools.count()

    def wrong_in_time():
        # Six runs without a graph, one while it is captured, six with it.
        if next(times) < 6:
            return
        if fault == "bytes":
            scene.net_out._memory[:] = 0
        else:
            desk.cupy.held += 64

    def network():
        desk.card.copy(scene.net_in, scene.net_out)
        desk.card.do(lambda: desk.cupy.happens("networks", wrong_in_time))

    scene.network = network
    plain, graph = measured.whole_frame(bench_on(desk), scene, "x", "frames")
    assert plain.ran
    assert graph.good is False
    assert {"bytes": "other bytes", "memory": "were taken"}[fault] in graph.note


@needs_compiler
def test_a_card_that_refuses_graphs_is_told_and_timed_without():
    desk = Desk()
    desk.cupy.refuses_capture = True
    plain, graph = measured.whole_frame(bench_on(desk), Scene(desk.card, (70, 54), 1, 16), "x", "frames")
    assert plain.ran
    assert not graph.ran
    assert "Unsupported" in graph.note
    assert "launches" in bench_on(desk).short(lambda: None).note


@needs_compiler
def test_a_scene_shows_the_face_that_its_network_made():
    """The stand-in for the network gives the crop back, so that the frame stays what it was."""
    desk = Desk()
    scene = Scene(desk.card, (192, 108), 2, 32)
    ramp = np.linspace(40, 200, 192, dtype=np.float32)
    scene.camera[:] = ramp[None, :, None]
    for stage in scene.stages():
        stage.job()
    desk.card.synchronize()
    luma = scene.sink[:108].astype(int)
    assert np.abs(luma - (16 + ramp * 219 / 255)).max() <= 3


def test_the_median_and_the_spread_of_times():
    timing = summary([1.0, 2.0, 3.0, 4.0, 105.0])
    assert timing.ms == 3.0
    assert timing.spread > 1


# --- the network's shape


def test_the_shape_is_the_published_one():
    shape = inswapper()
    assert shape.parameters == pytest.approx(138e6, rel=0.01)
    assert shape.operations == pytest.approx(2 * 175e9, rel=0.01)


@pytest.mark.parametrize("half", [False, True])
def test_the_onnx_file_has_that_shape_and_runs(tmp_path, half):
    shape = inswapper(thinner=64)
    path = tmp_path / "thin.onnx"
    onnx_net.write(onnx, path, shape, 2, half)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    weights = sum(math.prod(each.dims) for each in model.graph.initializer)
    assert weights == pytest.approx(shape.parameters, rel=0.02)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    kind = np.float16 if half else np.float32
    pictures = np.random.default_rng(0).uniform(0, 1, (2, 3, SIDE, SIDE)).astype(kind)
    (made,) = session.run(None, {"target": pictures, "source": np.full((2, 512), 512**-0.5, kind)})
    assert made.shape == (2, 3, SIDE, SIDE)
    assert made.dtype == kind
    assert np.isfinite(made).all()
    assert 0 <= made.min() < made.max() <= 1
    # Norms compute in single precision.
    single = {node.output[0] for node in model.graph.node if node.op_type == "Cast"}
    norms = [node for node in model.graph.node if node.op_type == "ReduceMean"]
    assert len(norms) == 24
    assert sum(node.input[0] in single for node in norms) == 12


@needs_compiler
def test_the_programs_own_runtime_is_timed_and_says_where_it_ran():
    rows = list(network.through_the_program(bench_on(Desk()), inswapper(thinner=128), "cpu"))
    assert [row.ran for row in rows] == [True, True]
    assert all("CPU" in row.note for row in rows)
    assert rows[1].work["fp16"] == pytest.approx(4 * rows[0].work["fp16"])


@needs_compiler
def test_what_cannot_be_run_says_why():
    bench = bench_on(Desk())
    (program_row,) = network.through_the_program(bench, inswapper(thinner=128), "cuda:77")
    (torch_row,) = network.through_torch(bench, None)
    assert not program_row.ran
    assert "cuda:77" in program_row.note
    assert not torch_row.ran
    assert "PyTorch" in torch_row.note


class Tensor:
    """A tensor on an array of the stand-in."""

    def __init__(self, array):
        self.array = array

    def copy_(self, other):
        self.array._memory[:] = other.array._memory

    def __matmul__(self, other):
        return self


class Torch:
    """As much of PyTorch as the check uses, on the stand-in."""

    float16, float32 = np.float16, np.float32

    def __init__(self, desk, finite=True):
        self._finite, self.streams = finite, []
        self.cuda = types.SimpleNamespace(
            ExternalStream=lambda pointer: pointer, stream=self._stream, synchronize=lambda: None,
            Event=lambda enable_timing: types.SimpleNamespace(record=lambda: None, elapsed_time=lambda _: 1000.0),
        )  # fmt: skip

    def _stream(self, pointer):
        self.streams.append(pointer)
        return contextlib.nullcontext()

    def from_dlpack(self, array):
        return Tensor(array)

    def isfinite(self, tensor):
        return types.SimpleNamespace(all=lambda: self._finite)

    def randn(self, size, dtype, device):
        assert device == "cuda"
        return Tensor(None)


@needs_compiler
@pytest.mark.parametrize("finite", [True, False])
def test_pytorch_is_timed_alone_and_within_whole_frames(monkeypatch, finite):
    desk = Desk()
    torch = Torch(desk, finite)
    monkeypatch.setattr(network, "SIZES", SMALL)
    monkeypatch.setattr(network.torch_net, "build", lambda *_: lambda pictures: pictures)
    rows = {row.name: row for row in network.through_torch(bench_on(desk), torch)}
    frames = [f"whole frame, {size}, {people}, PyTorch" for people in ("1 face", "4 faces") for size in SMALL]
    assert {f"PyTorch, batch {n}, {how}" for n in (1, 4) for how in ("graph", "no graph")} <= rows.keys()
    assert {f"{frame}, {how}" for frame in frames for how in ("graph", "no graph")} <= rows.keys()
    assert rows["PyTorch, batch 4, no graph"].good is finite
    assert rows["PyTorch, batch 4, graph"].work["fp16"] == pytest.approx(4 * inswapper().operations)
    assert rows[f"{frames[0]}, graph"].work["fp16"] == pytest.approx(inswapper().operations)
    # On the card's own stream, or the frame would not wait for it.
    assert set(torch.streams) == {desk.card.stream.ptr}


@needs_compiler
def test_arithmetic_is_operations_over_time():
    rows = {row.name: row for row in measured.rates(bench_on(Desk()), 1, Torch(None))}
    assert rows["fp16"].value == rows["fp32"].value == pytest.approx(10 * 2 * 8192**3 / 1e12)


# --- the program


def test_parts_are_named_in_our_order_and_unknown_ones_refused():
    assert program.only("rates,kernels") == ["kernels", "rates"]
    with pytest.raises(argparse.ArgumentTypeError, match="no part 'wrong'"):
        program.only("kernels,wrong")


def test_without_a_card_it_ends_with_4_and_a_sentence(tmp_path):
    """In a process of its own, with CuPy hidden even where it is installed."""
    (tmp_path / "cupy.py").write_text("raise ImportError('hidden')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    for arguments in ([], ["--part", "rates"]):
        done = subprocess.run(
            [sys.executable, "-m", "tools.gpu_check", *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 4, done.stderr
        assert done.stderr.startswith(
            "error: The GPU is reached through CuPy, which cannot be imported: hidden."
        )
        assert len(done.stderr.splitlines()) == 1
        assert not done.stdout


@pytest.mark.parametrize(("rows", "code"), [(ROWS[:3], 0), (ROWS, 1), (ROWS[1:2], 1)])
def test_the_program_writes_table_and_json_and_its_exit_says_what_was_found(
    monkeypatch, capsys, tmp_path, rows, code
):
    properties = {"name": b"a card", "major": 9, "minor": 0, "multiProcessorCount": 132}
    runtime = types.SimpleNamespace(
        getDeviceProperties=lambda _: properties,
        driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 13000,
    )
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime), __version__="14")
    monkeypatch.setattr(program, "load_cupy", lambda: cupy)
    monkeypatch.setattr(program, "run_all", lambda parts, *_: rows if list(parts) == ["kernels"] else [])
    path = tmp_path / "card.json"
    assert program.main(["--only", "kernels", "--json", str(path)]) == code
    assert "card: a card" in capsys.readouterr().out
    assert json.loads(path.read_text())["about"]["compute capability"] == "9.0"
