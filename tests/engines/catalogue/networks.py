"""Tiny networks with the inputs and outputs of real ones, and a catalogue of them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from engines.catalogue.catalogue import Catalogue
from engines.catalogue.entry import Entry


def network(inputs, outputs, weights=(), filling=0, dtype=TensorProto.FLOAT, legacy=False) -> bytes:
    """A model file: every output is made of the first input's largest value.

    Args:
        inputs: Shapes; a text for a size that is left open.
        outputs: The same.
        weights: Shapes of weights; the first is named emap.
        filling: Bytes of one more weight, to make the file that much larger.
        dtype: Of inputs and outputs.
        legacy: List the weights among the inputs, as old exporters do.
    """
    fed = [helper.make_tensor_value_info(f"in{n}", *_typed(shape, dtype)) for n, shape in enumerate(inputs)]
    given = [helper.make_tensor_value_info(f"out{n}", dtype, shape) for n, shape in enumerate(outputs)]
    nodes, stored = [helper.make_node("ReduceMax", ["in0"], ["most"], keepdims=0)], []
    for n, shape in enumerate(outputs):
        sizes = np.array([1 if isinstance(size, str) else size for size in shape], np.int64)
        stored.append(numpy_helper.from_array(sizes, f"sizes{n}"))
        nodes.append(helper.make_node("Expand", ["most", f"sizes{n}"], [f"out{n}"]))
    for n, shape in enumerate(weights):
        stored.append(numpy_helper.from_array(np.ones(shape, np.float32), f"weight{n}" if n else "emap"))
    if filling:
        noise = np.random.default_rng(filling).integers(0, 256, filling, np.uint8)
        stored.append(numpy_helper.from_array(noise, "filling"))
    if legacy:
        fed += [helper.make_tensor_value_info(one.name, one.data_type, list(one.dims)) for one in stored]
    graph = helper.make_graph(nodes, "tiny", fed, given, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 3 if legacy else 8
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _typed(shape: list, dtype: int) -> tuple[int, list]:
    """A type and sizes; the shape may end with its own type."""
    if shape[-1:] == ["float64"]:
        return TensorProto.DOUBLE, shape[:-1]
    return dtype, shape


def shaped(entry: Entry, free: int | str = 1, may: bool = False) -> bytes:
    """A model file that takes and gives what an entry of the catalogue says."""

    def sizes(text: str) -> list:
        words = text.split()
        return [free if word in ("*", "...") else int(word) if word.isdecimal() else word for word in words]

    inputs = [sizes(shape) for shape in entry.shapes.inputs]
    outputs = [sizes(shape) for shape in (*entry.shapes.outputs, *(entry.shapes.may if may else ()))]
    return network(inputs, outputs, [sizes(shape) for shape in entry.shapes.weights])


MODEL = network([[1, 3, 16, 16]], [[1, 512]], filling=200_000)
"""A model of some 200 kB."""

OTHER = network([[1, 3, 16, 16]], [[1, 512]], filling=200_001)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def catalogue_of(*entries: Entry) -> Catalogue:
    return Catalogue({entry.name: entry for entry in entries})


def entry_for(url: str = "", data: bytes = MODEL, known: bool = True, **changes) -> Entry:
    """An entry for a file on a test's own server."""
    base = Catalogue.load().entry("arcface_w600k_r50")
    made = replace(
        base, name="tiny", file="tiny.onnx", urls=(url,) if url else (), size=len(data) if known else None,
        sha256=digest(data) if known else None, also=(), needs=(),
    )  # fmt: skip
    return replace(made, **changes)


def put(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(data)
    return path
