"""Whether two ONNX files are the same network. Runs by itself in the converter's environment.

tf2onnx walks sets of objects that Python orders by their address in memory. Two runs over one source thus
give the same nodes and the same constants, but number the constants differently, list them in another
order, and where two nodes compute the same thing keep the one or the other. No seed fixes that, so the
bytes of a first run come back only with its names.

This program therefore matches the rebuilt network with the carried one from the outputs upwards: same
operators, same attributes to the byte, same wiring, same constants to the byte, one to one. Only then does
it write the *rebuilt* network with the carried one's names and order. Names carry no numbers: where the
SHA-256 of that file is the expected one, every weight in the carried file is the package's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


class DifferentError(Exception):
    """The two are not the same network; says where."""


def _attributes(node: Any) -> list[bytes]:
    return sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)


def _constant(tensor: Any) -> bytes:
    bare = type(tensor)()
    bare.CopyFrom(tensor)
    bare.ClearField("name")
    return bytes(bare.SerializeToString(deterministic=True))


def _header(model: Any) -> list[object]:
    graph = model.graph
    described = [value.SerializeToString(deterministic=True) for value in (*graph.input, *graph.output)]
    opsets = sorted((opset.domain, opset.version) for opset in model.opset_import)
    return [model.ir_version, opsets, described, len(graph.node), len(graph.initializer)]


class _Side:
    """One network, with what makes each of its tensors."""

    def __init__(self, model: Any) -> None:
        self.graph = model.graph
        self.maker = {name: (node, i) for node in self.graph.node for i, name in enumerate(node.output)}
        self.constant = {tensor.name: tensor for tensor in self.graph.initializer}

    def kind(self, name: str) -> tuple[object, ...]:
        """Everything about a tensor's origin that names do not say."""
        if name in self.constant:
            return ("constant", _constant(self.constant[name]))
        if name in self.maker:
            node, index = self.maker[name]
            sizes = (len(node.input), len(node.output))
            return (node.domain, node.op_type, index, sizes, tuple(_attributes(node)))
        return ("input", name)


def match(rebuilt: Any, carried: Any) -> dict[str, str]:
    """Name of every tensor of `carried` to that of the same tensor of `rebuilt`.

    Raises:
        DifferentError: They are not the same network.
    """
    if _header(rebuilt) != _header(carried):
        raise DifferentError("inputs, outputs, operator sets or numbers of nodes and constants differ")
    mine, theirs = _Side(rebuilt), _Side(carried)
    pairs: dict[str, str] = {}
    back: dict[str, str] = {}
    todo = [(value.name, value.name) for value in carried.graph.output]
    while todo:
        name, own = todo.pop()
        if name in pairs or own in back:
            if pairs.get(name) != own or back.get(own) != name:
                raise DifferentError(f"the wiring at {name} differs")
            continue
        if theirs.kind(name) != mine.kind(own):
            raise DifferentError(f"{name} is made in another way, or is another constant")
        pairs[name], back[own] = own, name
        if name in theirs.maker:
            one, other = theirs.maker[name][0], mine.maker[own][0]
            todo += zip([*one.input, *one.output], [*other.input, *other.output], strict=True)
    missed = [name for name in (*theirs.maker, *theirs.constant) if name not in pairs]
    if missed:
        raise DifferentError(f"{missed[0]} reaches no output, so it cannot be compared")
    return pairs


def renamed(rebuilt: Any, carried: Any) -> Any:
    """`rebuilt` with the names and the order of `carried`; every number is `rebuilt`'s.

    Raises:
        DifferentError: They are not the same network.
    """
    pairs = match(rebuilt, carried)
    mine = _Side(rebuilt)
    model = type(rebuilt)()
    model.CopyFrom(rebuilt)
    graph = model.graph
    del graph.node[:], graph.initializer[:]
    for node in carried.graph.node:
        graph.node.add().CopyFrom(mine.maker[pairs[node.output[0]]][0])
        graph.node[-1].name = node.name
        graph.node[-1].input[:] = node.input
        graph.node[-1].output[:] = node.output
        if not node.name:
            graph.node[-1].ClearField("name")
    for tensor in carried.graph.initializer:
        graph.initializer.add().CopyFrom(mine.constant[pairs[tensor.name]])
        graph.initializer[-1].name = tensor.name
    # Says which path the first run read; no part of the network.
    graph.doc_string = carried.graph.doc_string
    return model


def main() -> None:
    """``python -m ... REBUILT CARRIED TARGET``; ends with 1 and the reason where the two differ."""
    import onnx

    rebuilt, carried = onnx.load(sys.argv[1]), onnx.load(sys.argv[2])
    try:
        model = renamed(rebuilt, carried)
    except DifferentError as error:
        raise SystemExit(str(error)) from error
    Path(sys.argv[3]).write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
