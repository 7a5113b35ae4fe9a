"""ONNX in float32 to ONNX in float16, with what cannot stand float16 left as it is.

TensorRT 11 takes every type as the file has it, so the file says what is computed in half precision. Left in float32
are normalisations: the sum of squares of a feature map passes 65504, float16's largest number, and the 1e-8 that keeps
a flat region from division by zero is none of float16's numbers. Both give black or broken faces.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from engines.errors import EngineError
from engines.files import quoted
from engines.runtime.trt.half import HalfGraph, constants_as_weights

Precision = Literal["fp16", "fp32"]

_VERSION: Final = 1
"""Of the rules below: a plan made by others is made again."""

NORMS: Final = (
    "Div", "Exp", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "Log", "LogSoftmax",
    "LpNormalization", "MeanVarianceNormalization", "Pow", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", "RMSNormalization", "Softmax",
    "Sqrt",
)  # fmt: skip
"""Operators whose intermediate sums or quotients leave float16's range."""

_NO_HALF: Final = (
    "CumSum", "DequantizeLinear", "NonMaxSuppression", "QuantizeLinear", "RandomNormal", "RandomNormalLike",
    "RandomUniform", "RandomUniformLike", "Range", "RoiAlign", "TopK",
)  # fmt: skip
"""Operators of which TensorRT or ONNX has no float16 form, or whose result is an order of numbers."""

_BESIDE: Final = ("Abs", "Add", "Ceil", "Clip", "Floor", "Max", "Min", "Mul", "Neg", "Round", "Sub", "Sum")
"""Operators between two of a normalisation: the square before the mean, the epsilon before the root."""

FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    # The nearest of 1024 codes is looked for by a difference of large numbers: half precision takes another one.
    "codeformer": ("ArgMax", "ArgMin", "Einsum"),
    "restoreformer": ("ArgMax", "ArgMin", "Einsum"),
    # The embedding's length is divided by at the end; a cosine is told to the third digit.
    "arcface": ("Gemm",),
    "crossface": ("Gemm",),
}
"""What more stays in float32, by the beginning of the model's name."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is made ready for TensorRT.

    Attributes:
        precision: ``fp16``, or ``fp32`` to leave it as it is.
        keep: Operators that stay in float32, sorted.
    """

    precision: Precision = "fp16"
    keep: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it in one line; two recipes with the same text make the same file."""
        return f"fp16 v{_VERSION}, float32: {' '.join(self.keep)}" if self.precision == "fp16" else "fp32"


def recipe_for(name: str, precision: Precision = "fp16", more: Sequence[str] = ()) -> Recipe:
    """The recipe of a model.

    Args:
        name: Of the model, as in the catalogue, or of its file.
        precision: Of its convolutions and matrices.
        more: Operators that stay in float32 besides those that always do.
    """
    if precision == "fp32":
        return Recipe("fp32")
    own = next((kinds for start, kinds in FAMILIES.items() if name.lower().startswith(start)), ())
    return Recipe("fp16", tuple(sorted({*NORMS, *_NO_HALF, *own, *more})))


def make_ready(path: Path, recipe: Recipe, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """Reads a model, fixes its shapes and converts it.

    Args:
        path: The ``.onnx`` or ``.dfm`` file, whose outline was read already.
        recipe: How.
        shapes: The whole shape of every input by its name.

    Returns:
        The model as ONNX, its inputs and outputs of the types that they had.

    Raises:
        EngineError: A package is missing, the file is broken, or it cannot be converted.
    """
    onnx = _package()
    try:
        model = onnx.load(str(path))
    except Exception as error:  # protobuf raises its own classes, which differ by version
        raise EngineError(
            f"{quoted(path)} is not a whole ONNX model: {error}.", "Download it again."
        ) from error
    try:
        _fix_shapes(model.graph, shapes)
        if recipe.precision == "fp16" and not is_half(model.graph):
            model = _converted(model, onnx, recipe)
        return bytes(model.SerializeToString())
    except Exception as error:  # of shape inference, which raises its own classes
        raise EngineError(
            f"{quoted(path)} cannot be made ready for TensorRT: {type(error).__name__}: {error}.",
            "Build it with --precision fp32, or run it without TensorRT.",
        ) from error


def is_half(graph: Any) -> bool:
    """Whether a model has its weights in float16 already: then whoever exported it has decided."""
    sizes = {_FLOAT: 0, _FLOAT16: 0}
    for weight in graph.initializer:
        if weight.data_type in sizes:
            sizes[weight.data_type] += math.prod(weight.dims)
    return sizes[_FLOAT16] > sizes[_FLOAT]


_FLOAT, _FLOAT16 = 1, 10
_FLOATS: Final = (_FLOAT, _FLOAT16, 11)


def _package() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise EngineError(
            "The package onnx is not installed, so no model can be made ready for TensorRT.",
            "Type: pip install onnx",
        ) from error
    return onnx


def _fix_shapes(graph: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    changed = False
    for given in graph.input:
        dims = given.type.tensor_type.shape.dim
        for dim, size in zip(dims, shapes.get(given.name, ()), strict=False):
            changed = changed or dim.dim_value != size
            dim.dim_value = size
    if changed:
        # They were worked out for sizes that were free, and would contradict.
        del graph.value_info[:]
        for out in graph.output:
            out.type.tensor_type.ClearField("shape")


def _converted(model: Any, onnx: Any, recipe: Recipe) -> Any:
    constants_as_weights(onnx, model.graph)
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"  # to tell them apart; exporters leave names out or repeat them
    model = onnx.shape_inference.infer_shapes(model)
    kinds, beside = set(recipe.keep), kept_beside(model.graph, recipe.keep)
    HalfGraph(
        onnx, model.graph, lambda node: node.op_type in kinds or node.name in beside or _counts(node)
    ).convert()
    return model


def _counts(node: Any) -> bool:
    """Whether a node makes whole numbers of floats: sizes and places, which half precision rounds from 2048 on."""
    return node.op_type == "Cast" and any(one.name == "to" and one.i not in _FLOATS for one in node.attribute)


def kept_beside(graph: Any, keep: Sequence[str]) -> set[str]:
    """Names of nodes that stay in float32 for what they stand beside.

    An elementwise node joins when all that take its result are kept, or when it stands between two that are: so the
    whole of ``d = x - mean(x); d / sqrt(mean(d * d) + 1e-8)`` stays but for the last product.

    Args:
        graph: Of nodes that have names.
        keep: Operators that are kept anyway.
    """
    takers: dict[str, list[Any]] = defaultdict(list)
    makers: dict[str, Any] = {}
    for node in graph.node:
        for value in node.input:
            takers[value].append(node)
        for value in node.output:
            makers[value] = node
    results = {value.name for value in graph.output}
    kinds, joined = set(keep), set[str]()

    def kept(node: Any) -> bool:
        return node.op_type in kinds or node.name in joined or _counts(node)

    # Once in the file's order and once backwards settles chains; a few times more costs nothing.
    for order in (reversed(graph.node), graph.node, reversed(graph.node), graph.node):
        for node in order:
            if node.op_type not in _BESIDE or kept(node):
                continue
            after = [taker for value in node.output for taker in takers[value]]
            before = [makers[value] for value in node.input if value in makers]
            only = bool(after) and all(map(kept, after)) and not results.intersection(node.output)
            if only or (any(map(kept, before)) and any(map(kept, after))):
                joined.add(node.name)
    return joined
