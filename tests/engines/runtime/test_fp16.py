"""Half precision: what stays in float32, what comes out of it, and what TensorRT-RTX's own parser says of it."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from engines.errors import EngineError
from engines.runtime.ort.network import OnnxNetwork
from engines.runtime.trt import bindings as trt_package
from engines.runtime.trt.bindings import find_package
from engines.runtime.trt.compile import compile_plan
from engines.runtime.trt.fp16 import FAMILIES, NORMS, Recipe, is_half, kept_beside, make_ready, recipe_for
from tests.engines.runtime.graphs import double
from tests.networks import Builder

SHAPES = {"target": (1, 3, 32, 32), "source": (1, 16)}


def tanh(b, value):
    return b.op("Tanh", value)


def adain(b, x, source, channels, rng):
    """As inswapper has it: an instance normalisation by hand, and a scale and a shift of the source's."""
    d = b.op("Sub", x, b.op("ReduceMean", x, axes=[2, 3], keepdims=1))
    variance = b.op("ReduceMean", b.op("Mul", d, d), axes=[2, 3], keepdims=1)
    root = b.op("Sqrt", b.op("Add", variance, np.float32(1e-8)))
    y = b.op("Mul", d, b.op("Div", np.float32(1), root))
    weights = (rng.standard_normal((2 * channels, 16)) * 0.1).astype(np.float32)
    bias = np.r_[np.ones(channels), np.zeros(channels)].astype(np.float32)
    style = b.op("Reshape", b.op("Gemm", source, weights, bias, transB=1), np.int64([1, 2 * channels, 1, 1]))
    scale = b.op("Slice", style, np.int64([0]), np.int64([channels]), np.int64([1]))
    shift = b.op("Slice", style, np.int64([channels]), np.int64([2 * channels]), np.int64([1]))
    return b.op("Add", b.op("Mul", y, scale), shift)


def conv(b, x, out, into, rng, gain=1.0):
    weights = (rng.standard_normal((out, into, 3, 3)) * gain / np.sqrt(9 * into)).astype(np.float32)
    return b.op("Conv", x, weights, kernel_shape=[3, 3], pads=[1] * 4)


def swapper(path, batch=1, gain=1.0):
    """Of inswapper's build, small. With a large ``gain`` its features leave float16's squares."""
    b, rng = Builder(), np.random.default_rng(0)
    target, source = b.input("target", [batch, 3, 32, 32]), b.input("source", [batch, 16])
    x = b.op("LeakyRelu", conv(b, target, 8, 3, rng, gain), alpha=0.2)
    x = b.op("Add", x, b.op("Relu", adain(b, x, source, 8, rng)))
    x = b.op("Resize", x, "", np.float32([1, 1, 1, 1]), mode="linear")
    x = tanh(b, conv(b, adain(b, x, source, 8, rng), 3, 8, rng))
    b.output(b.op("Div", b.op("Add", x, np.float32(1)), np.float32(2)), "face", [batch, 3, 32, 32])
    return b.save(path)


def normed(path, kind):
    """One network for each way of normalising that exporters use."""
    b, rng = Builder(), np.random.default_rng(1)
    x = conv(b, b.input("target", [1, 3, 32, 32]), 8, 3, rng)
    ones, noughts = np.ones(8, np.float32), np.zeros(8, np.float32)
    if kind == "instance":
        x = b.op("InstanceNormalization", x, ones, noughts)
    elif kind == "batch":
        x = b.op("BatchNormalization", x, ones, noughts, noughts, ones)
    elif kind == "layer":
        flat = b.op("Transpose", b.op("Reshape", x, np.int64([1, 8, 1024])), perm=[0, 2, 1])
        flat = b.op("LayerNormalization", flat, ones, noughts, axis=-1)
        x = b.op("Reshape", b.op("Transpose", flat, perm=[0, 2, 1]), np.int64([1, 8, 32, 32]))
    elif kind == "demodulated":  # StyleGAN2: weights divided by their own length
        weights = b.op(
            "Mul", np.float32(rng.standard_normal((8, 8, 3, 3))), b.op("ReduceMean", x, axes=[2, 3])
        )
        length = b.op(
            "Sqrt",
            b.op(
                "Add", b.op("ReduceSum", b.op("Mul", weights, weights), np.int64([1, 2, 3])), np.float32(1e-8)
            ),
        )
        x = b.op("Mul", x, b.op("Reciprocal", b.op("Reshape", length, np.int64([1, 8, 1, 1]))))
    elif kind == "attention":
        flat = b.op("Reshape", x, np.int64([1, 8, 1024]))
        near = b.op("Softmax", b.op("MatMul", flat, b.op("Transpose", flat, perm=[0, 2, 1])), axis=-1)
        x = b.op("Reshape", b.op("MatMul", near, flat), np.int64([1, 8, 32, 32]))
    elif kind == "pow":
        d = b.op("Sub", x, b.op("ReduceMean", x, axes=[1], keepdims=1))
        v = b.op("ReduceMean", b.op("Pow", d, np.float32(2)), axes=[1], keepdims=1)
        x = b.op("Div", d, b.op("Sqrt", b.op("Add", v, np.float32(1e-5))))
    b.output(conv(b, x, 3, 8, rng), "face", [1, 3, 32, 32])
    return b.save(path)


KINDS = ("instance", "batch", "layer", "demodulated", "attention", "pow")


def converted(path, tmp_path, shapes=SHAPES, **recipe):
    ready = tmp_path / "ready.onnx"
    ready.write_bytes(make_ready(path, recipe_for(path.stem, **recipe), shapes))
    return ready


def run(path, scale=1.0):
    network, rng = OnnxNetwork(path), np.random.default_rng(2)
    for array in network.inputs:
        array[...] = rng.random(array.shape) * scale
    network.run()
    out = network.outputs[0].copy()
    network.close()
    return out


def kinds_by_type(model):
    """For each operator the types that it computes in."""
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {
        value.name: value.type.tensor_type.elem_type
        for value in (*inferred.graph.value_info, *inferred.graph.output)
    }
    found = {}
    for node in inferred.graph.node:
        found.setdefault(node.op_type, set()).add(types.get(node.output[0]))
    return found


def test_convolutions_are_half_and_norms_are_not(tmp_path):
    model = onnx.load(str(converted(swapper(tmp_path / "net.onnx"), tmp_path)))
    onnx.checker.check_model(model)
    found = kinds_by_type(model)
    assert found["Conv"] == found["Gemm"] == found["Resize"] == found["Tanh"] == {TensorProto.FLOAT16}
    for kind in ("ReduceMean", "Sqrt", "Div"):
        assert found[kind] == {TensorProto.FLOAT}
    assert [one.type.tensor_type.elem_type for one in (*model.graph.input, *model.graph.output)] == [1, 1, 1]


def test_what_stands_between_two_norms_stays_with_them(tmp_path):
    model = onnx.load(str(swapper(tmp_path / "net.onnx")))
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    beside = [node.op_type for node in model.graph.node if node.name in kept_beside(model.graph, NORMS)]
    # The difference, its square and the epsilon of both; the (x + 1) before the last division.
    assert sorted(beside) == ["Add", "Add", "Add", "Mul", "Mul", "Sub", "Sub"]
    assert kept_beside(model.graph, ()) == set()


def test_it_gives_the_same_picture(tmp_path):
    path = swapper(tmp_path / "net.onnx")
    assert np.abs(run(path) - run(converted(path, tmp_path))).max() < 0.004


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_of_normalising_survives(kind, tmp_path):
    path = normed(tmp_path / f"{kind}.onnx", kind)
    right, half = run(path), run(converted(path, tmp_path))
    assert np.isfinite(half).all()
    assert np.abs(right - half).max() < 0.01 * np.ptp(right)


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_squares_beyond_half_precision_and_flat_regions_come_out_right(scale, tmp_path):
    """Features of a thousand have squares that are none of float16's numbers; of a flat region the variance is 0."""
    path = swapper(tmp_path / "net.onnx", gain=2000.0)
    right, half = run(path, scale), run(converted(path, tmp_path), scale)
    assert np.isfinite(half).all()
    assert np.abs(right - half).max() < 0.01


def test_shapes_that_are_free_are_fixed(tmp_path):
    path = double(tmp_path / "free.onnx", shape=("n", 3, "h", "w"), out=("n", 3, "h", "w"))
    ready = onnx.load_from_string(make_ready(path, recipe_for("free"), {"x": (2, 3, 8, 8)}))
    assert [dim.dim_value for dim in ready.graph.input[0].type.tensor_type.shape.dim] == [2, 3, 8, 8]
    assert (run_bytes(tmp_path, ready, (2, 3, 8, 8)) == 2).all()


def run_bytes(tmp_path, model, shape):
    path = tmp_path / "again.onnx"
    path.write_bytes(model.SerializeToString())
    network = OnnxNetwork(path)
    assert network.input_specs[0].shape == shape
    network.inputs[0][...] = 1
    network.run()
    out = network.outputs[0].copy()
    network.close()
    return out


def test_the_recipe_is_a_text_that_changes_with_what_it_does():
    plain = recipe_for("inswapper_128")
    assert plain.text == recipe_for("hyperswap_1a_256").text
    texts = {
        plain.text, recipe_for("x", "fp32").text, recipe_for("x", more=("Conv",)).text, recipe_for("codeformer").text,
    }  # fmt: skip
    assert len(texts) == 4
    assert set(FAMILIES["codeformer"]) <= set(recipe_for("CodeFormer-mine").keep)
    assert recipe_for("x", more=("Conv", "Sqrt")).keep == tuple(sorted({*plain.keep, "Conv"}))


def test_full_precision_leaves_the_file_as_it_is(tmp_path):
    path = swapper(tmp_path / "net.onnx")
    model = onnx.load(str(converted(path, tmp_path, precision="fp32")))
    assert not is_half(model.graph)
    assert TensorProto.FLOAT16 not in set().union(*kinds_by_type(model).values())
    assert np.array_equal(run(path), run(tmp_path / "ready.onnx"))


def test_what_its_exporter_made_half_stays_as_it_is(tmp_path):
    once = converted(swapper(tmp_path / "net.onnx"), tmp_path)
    model = onnx.load(str(once))
    assert is_half(model.graph)
    assert make_ready(once, recipe_for("net"), SHAPES) == model.SerializeToString()


def test_weights_that_are_too_small_or_large_for_half_become_the_nearest(tmp_path):
    b = Builder()
    x = b.op("Mul", b.input("target", [1, 4]), np.float32([1e-12, -1e-12, 0, 1e9]))
    b.output(x, "face", [1, 4])
    model = onnx.load_from_string(
        make_ready(b.save(tmp_path / "n.onnx"), recipe_for("n"), {"target": (1, 4)})
    )
    half = numpy_helper.to_array(model.graph.initializer[0])
    assert half.dtype == np.float16
    assert half[0] > 0 > half[1] and half[2] == 0 and half[3] == 65504


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_scales_of_a_resize_stay_in_float32(constant, shared, tmp_path):
    """ONNX allows nothing else; and a weight may be a scale here and a factor there."""
    b = Builder()
    x = conv(b, b.input("target", [1, 3, 4, 4]), 4, 3, np.random.default_rng(0))
    scales = np.float32([1, 1, 2, 2])
    name = b.op("Constant", value=numpy_helper.from_array(scales)) if constant else b.weight(scales)
    x = b.op("Resize", x, "", name, mode="linear")
    if shared:
        x = b.op("Mul", x, b.op("Reshape", name, np.int64([1, 4, 1, 1])))
    b.output(x, "face", [1, 4, 8, 8])
    path = b.save(tmp_path / "net.onnx")
    ready = converted(path, tmp_path, {"target": (1, 3, 4, 4)})
    onnx.checker.check_model(onnx.load(str(ready)), full_check=True)
    assert np.abs(run(path) - run(ready)).max() < 0.01


@pytest.mark.parametrize("half", [False, True])
def test_casts_and_branches_of_the_file_keep_their_sense(half, tmp_path):
    """Indices that were floats, a graph inside of a node, an output that is read again, and one that is an input."""
    b = Builder()
    x = b.input("target", [1, 3, 4, 4], half)
    y = conv(b, x, 4, 3, np.random.default_rng(0))
    size = b.op("Cast", b.op("Shape", y), to=TensorProto.FLOAT)
    count = b.op("Cast", b.op("Mul", size, np.float32(4097)), to=TensorProto.INT64)  # 16388: no half is that
    then = onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", [y], ["negated"])],
        "then",
        [],
        [onnx.helper.make_tensor_value_info("negated", 1, None)],
    )
    other = onnx.helper.make_graph(
        [onnx.helper.make_node("Abs", [y], ["absolute"])],
        "else",
        [],
        [onnx.helper.make_tensor_value_info("absolute", 1, None)],
    )
    z = b.op(
        "If",
        b.op("Greater", b.op("ReduceMax", y, keepdims=0), np.float32(-1e9)),
        then_branch=then,
        else_branch=other,
    )
    b.output(b.op("Add", z, y), "face", [1, 4, 4, 4], half)
    b.output(b.op("Relu", "face" if not half else y), "again", [1, 4, 4, 4], half)
    b.outputs.append(onnx.helper.make_tensor_value_info(count, TensorProto.INT64, [4]))
    path = b.save(tmp_path / "net.onnx")
    ready = converted(path, tmp_path, {"target": (1, 3, 4, 4)})
    model = onnx.load(str(ready))
    onnx.checker.check_model(model, full_check=True)
    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    assert [one.type.tensor_type.elem_type for one in (*model.graph.input, *model.graph.output)] == [
        kind
    ] * 3 + [7]
    assert np.abs(run(path).astype(float) - run(ready)).max() < 0.01
    for name in (path, ready):
        network = OnnxNetwork(name)
        network.run()
        assert network.outputs[2].tolist() == [4097, 16388, 16388, 16388]
        network.close()


def test_a_broken_file_and_a_missing_package_are_said(tmp_path, monkeypatch):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\x08\x07garbage")
    with pytest.raises(EngineError, match=r"broken\.onnx"):
        make_ready(broken, recipe_for("x"), {})
    bad = swapper(tmp_path / "net.onnx")
    with pytest.raises(EngineError, match=r"net\.onnx"):
        make_ready(bad, recipe_for("x"), {"target": (1, 3, "wide", 2)})
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(EngineError, match="onnx is not installed") as caught:
        make_ready(bad, recipe_for("x"), {})
    assert "pip install" in caught.value.fix


@pytest.fixture(scope="module")
def rtx():
    package = find_package()
    if package is None or package.name != "tensorrt_rtx":
        pytest.skip("tensorrt-rtx is not installed: pip install tensorrt-rtx-cu12")
    return trt_package.load(package)


def plan(rtx, path, shapes=SHAPES, report=lambda done, doing: True, **recipe):
    ready = make_ready(path, recipe_for(path.stem, **recipe), shapes)
    return compile_plan(rtx, ready, path.stem, report, for_this_gpu=False)


@pytest.mark.parametrize("family", ["", *FAMILIES])
def test_tensorrt_builds_each_recipe_without_a_warning(rtx, family, tmp_path):
    built = plan(rtx, swapper(tmp_path / f"{family or 'net'}.onnx"))
    assert len(built.plan) > 10_000
    assert built.layers > 20
    assert built.warned == ()


@pytest.mark.parametrize("kind", KINDS)
def test_tensorrt_builds_each_norm_without_a_warning(rtx, kind, tmp_path):
    assert plan(rtx, normed(tmp_path / f"{kind}.onnx", kind)).warned == ()


def test_without_the_rules_tensorrt_would_warn(rtx, tmp_path):
    """So the silence above means something."""
    ready = make_ready(swapper(tmp_path / "net.onnx"), Recipe("fp16", ()), SHAPES)
    built = compile_plan(rtx, ready, "net", lambda done, doing: True, for_this_gpu=False)
    assert any("layernorm" in text for text in built.warned)


def test_progress_rises_to_the_end_and_can_stop_the_build(rtx, tmp_path):
    path = swapper(tmp_path / "net.onnx")
    told = []
    plan(rtx, path, report=lambda done, doing: told.append((done, doing)) or True)
    shares = [done for done, _ in told]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < 0.5 and shares[-1] > 0.8
    assert all(doing for _, doing in told)
    with pytest.raises(EngineError, match="stopped"):
        plan(rtx, path, report=lambda done, doing: False)

    def fails(done, doing):
        raise OSError("nobody listens")

    with pytest.raises(EngineError, match="stopped"):
        plan(rtx, path, report=fails)


def test_what_tensorrt_cannot_read_is_named(rtx, tmp_path):
    b = Builder()
    b.output(b.op("NobodyKnowsThis", b.input("target", [1, 3, 4, 4])), "face", [1, 3, 4, 4])
    for text in (b.model().SerializeToString(), b"garbage", b""):
        with pytest.raises(EngineError, match="cannot read odd"):
            compile_plan(rtx, text, "odd", lambda done, doing: True, for_this_gpu=False)
