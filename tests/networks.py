"""Small networks with the true contracts of public ones, whose weights do something that can be told.

A swap generator that gives its crop back unchanged proves alignment, normalisation, order of channels, masks and
paste-back at once: whatever of them is wrong shows in the composite. One that paints proves geometry; one that shows
the vector it was given proves the embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from engines.catalogue.entry import Contract

LENGTH = 512
CELLS = (16, 32)
"""Rows and columns of the picture that :func:`generator` makes of a vector: cell ``i`` is number ``i``, row by row."""


@dataclass(frozen=True)
class Export:
    """What differs between exporters of one model.

    Attributes:
        layout: ``nchw`` or ``nhwc``; None for the contract's own.
        batch: Whether the number of pictures is left open.
        sizes: Whether the pictures' sizes are.
        half: Whether inputs and outputs are float16.
        source_first: Whether the source comes before the target.
        names: Of target, source, face and mask.
    """

    layout: str | None = None
    batch: bool = False
    sizes: bool = False
    half: bool = False
    source_first: bool = True
    names: tuple[str, str, str, str] = ("target", "source", "output", "mask")


class Builder:
    """Puts a graph together, operation by operation."""

    def __init__(self):
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []

    def op(self, kind, *inputs, out=None, **attributes):
        names = [one if isinstance(one, str) else self.weight(one) for one in inputs]
        name = out or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return name

    def weight(self, array, name=None):
        name = name or f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def input(self, name, shape, half=False):
        """A value in float32, whatever the file's input is."""
        kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return self.op("Cast", name, to=TensorProto.FLOAT) if half else name

    def output(self, value, name, shape, half=False):
        kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
        self.op("Cast", value, out=name, to=kind)
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def model(self, opset=17):
        graph = helper.make_graph(self.nodes, "test", self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 8
        return model

    def save(self, path, opset=17):
        onnx.save(self.model(opset), str(path))
        return path


def generator(
    path,
    contract: Contract,
    export=Export(),
    *,
    shows="crop",
    emap=None,
    mask=None,
    side=None,
    opset=17,
    pattern=None,
):
    """A swap generator.

    Args:
        path: Where to write it.
        contract: Which is kept to the letter.
        export: As whom it was exported.
        shows: ``crop``: what it was given, unchanged. ``pattern``: the picture ``pattern``. ``source``: the
            vector it was given as a picture of :data:`CELLS`, or the picture of the source.
        emap: (512, 512) matrix that is put into the file, as its last weight; or a pair of its name and itself.
        mask: (S, S) 0…1: a second output. A network with two masks gives it, and ones.
        side: Of its picture, where the contract leaves it open.
        opset: Of ONNX.
        pattern: (S, S, 3) float32, B, G, R, 0…1.
    """
    b, side = Builder(), contract.side or side
    layout = export.layout or contract.layout
    first = "n" if export.batch else 1
    free = "s" if export.sizes else side

    def shape(channels, size=free):
        return [first, channels, size, size] if layout == "nchw" else [first, size, size, channels]

    def source():
        if contract.source == "none":
            return None
        if contract.source == "image":
            size = "t" if export.sizes else contract.source_side
            return b.input(export.names[1], shape(3, size), export.half)
        return b.input(export.names[1], [first, LENGTH], export.half)

    given = source() if export.source_first else None
    target = b.input(export.names[0], shape(3), export.half)
    given = given if export.source_first else source()
    # 0…1, as the contract says, and back.
    plain = b.op("Add", b.op("Mul", target, channels(contract.std, layout)), channels(contract.mean, layout))
    if shows == "pattern":
        picture = pattern[..., ::-1] if contract.channels == "rgb" else pattern
        picture = picture.transpose(2, 0, 1) if layout == "nchw" else picture
        plain = b.op("Add", b.op("Mul", plain, np.float32(0)), picture[None].astype(np.float32))
    elif shows == "source" and contract.source == "image":
        plain = resized(b, given, layout, side / contract.source_side)
    elif shows == "source":
        cells = b.op("Reshape", given, np.array([-1, 1, *CELLS], np.int64))
        plain = b.op("Concat", *[scaled(b, cells, side / CELLS[0], side / CELLS[1])] * 3, axis=1)
        if layout == "nhwc":
            plain = b.op("Transpose", plain, perm=[0, 2, 3, 1])
    face = b.op(
        "Div", b.op("Sub", plain, channels(contract.out_mean, layout)), channels(contract.out_std, layout)
    )
    masks = [] if mask is None else [mask, np.ones_like(mask)][: max(1, len(contract.masks))]
    axis = 1 if layout == "nchw" else 3

    def put_mask(number, picture):
        one = b.op("ReduceMax", b.op("Mul", target, np.float32(0)), axes=[axis], keepdims=1)
        picture = picture[None, None] if layout == "nchw" else picture[None, :, :, None]
        name = export.names[3] + (str(number) if number else "")
        b.output(b.op("Add", one, picture.astype(np.float32)), name, shape(1), export.half)

    # Of two masks one comes before the face, as DeepFaceLab exports it.
    before, after = (masks[:1], masks[1:]) if len(masks) > 1 else ([], masks)
    for number, one in enumerate(before):
        put_mask(number, one)
    b.output(face, export.names[2], shape(3), export.half)
    for number, one in enumerate(after, len(before)):
        put_mask(number, one)
    if emap is not None:
        name, matrix = emap if isinstance(emap, tuple) else ("buff2fs", emap)
        b.weight(matrix.astype(np.float32), name)
    return b.save(path, opset)


def dfm(path, side=64, *, morph=True, mask=None, layout="nhwc"):
    """A DFM that gives its crop back: darker, the less it morphs, where it has a value for that."""
    b = Builder()

    def shape(channels):
        return ["n", side, side, channels] if layout == "nhwc" else ["n", channels, side, side]

    face = b.input("in_face:0", shape(3))
    shown = b.op("Mul", face, b.input("morph_value:0", [1])) if morph else face
    picture = np.ones((side, side), np.float32) if mask is None else mask.astype(np.float32)
    picture = picture[None, :, :, None] if layout == "nhwc" else picture[None, None]
    axis = 3 if layout == "nhwc" else 1
    nought = b.op("ReduceMax", b.op("Mul", face, np.float32(0)), axes=[axis], keepdims=1)
    b.output(b.op("Add", nought, np.ones_like(picture)), "out_face_mask:0", shape(1))
    b.output(shown, "out_celeb_face:0", shape(3))
    b.output(b.op("Add", nought, picture), "out_celeb_face_mask:0", shape(1))
    return b.save(path)


def embedder(path, side=112):
    """An ArcFace that tells the mean colour it sees: numbers 0, 1, 2 are R, G, B in its own range, the rest nought."""
    b = Builder()
    mean = b.op(
        "Reshape", b.op("GlobalAveragePool", b.input("input.1", [1, 3, side, side])), np.array([1, 3])
    )
    b.output(b.op("MatMul", mean, np.eye(3, LENGTH, dtype=np.float32)), "683", [1, LENGTH])
    return b.save(path)


def converter(path, matrix):
    """Turns an embedding into another network's: times a matrix of 512×512."""
    b = Builder()
    b.output(b.op("MatMul", b.input("input", [1, LENGTH]), matrix.astype(np.float32)), "output", [1, LENGTH])
    return b.save(path)


def channels(values, layout):
    """Numbers of three channels, to be broadcast over a picture."""
    return np.asarray(values, np.float32).reshape((1, 3, 1, 1) if layout == "nchw" else (1, 1, 1, 3))


def scaled(b, value, down, across):
    """A picture in NCHW with each pixel repeated."""
    return b.op(
        "Resize", value, "", np.array([1, 1, down, across], np.float32), mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip


def resized(b, value, layout, by):
    """A picture of another size."""
    if layout == "nhwc":
        value = b.op("Transpose", value, perm=[0, 3, 1, 2])
    value = b.op(
        "Resize", value, "", np.array([1, 1, by, by], np.float32), mode="linear",
        coordinate_transformation_mode="half_pixel",
    )  # fmt: skip
    return b.op("Transpose", value, perm=[0, 2, 3, 1]) if layout == "nhwc" else value


def occluder(path, shows, layout="nhwc", side=256, outputs=1):
    """An XSeg: shows how blue each pixel is, or a mask of (S, S) 0…1."""
    b = Builder()
    picture = b.input("in_face:0", [1, side, side, 3] if layout == "nhwc" else [1, 3, side, side])
    axis = 3 if layout == "nhwc" else 1
    if isinstance(shows, str):
        place = 0 if layout == "nhwc" else 2
        mask = b.op("Gather", picture, np.array([place], np.int64), axis=axis)
    else:
        nought = b.op("ReduceMax", b.op("Mul", picture, np.float32(0)), axes=[axis], keepdims=1)
        shown = shows.astype(np.float32)
        mask = b.op("Add", nought, shown[None, :, :, None] if layout == "nhwc" else shown[None, None])
    for number in range(outputs):
        b.output(mask, f"out_mask:{number}", [1, side, side, 1] if layout == "nhwc" else [1, 1, side, side])
    return b.save(path)


def parser(path, classes, layout="nchw", side=512, count=19, more=0):
    """A BiSeNet that sees (S, S) classes; or, if they are None, skin where there is more than half of the red."""
    b = Builder()
    shape = [1, 3, side, side] if layout == "nchw" else [1, side, side, 3]
    picture = b.input("input", shape)
    if classes is None:
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        plain = b.op("Add", b.op("Mul", picture, channels(std, layout)), channels(mean, layout))
        axis = 1 if layout == "nchw" else 3
        red = b.op("Gather", plain, np.array([0], np.int64), axis=axis)
        pick = np.zeros(count, np.float32)
        pick[1] = 1
        rest = np.full(count, 0.5, np.float32)
        rest[1] = 0
        shaped = [1, count, 1, 1] if layout == "nchw" else [1, 1, 1, count]
        scores = b.op("Add", b.op("Mul", red, pick.reshape(shaped)), rest.reshape(shaped))
    else:
        one = (np.arange(count)[:, None, None] == classes).astype(np.float32) * 8
        one = one[None] if layout == "nchw" else one.transpose(1, 2, 0)[None]
        axis = 1 if layout == "nchw" else 3
        nought = b.op("ReduceMax", b.op("Mul", picture, np.float32(0)), axes=[axis], keepdims=1)
        scores = b.op("Add", nought, one)
    out = [1, count, side, side] if layout == "nchw" else [1, side, side, count]
    b.output(scores, "output", out)
    for number in range(more):
        b.output(b.op("Neg", scores), f"aux{number}", out)
    return b.save(path)


def restorer(
    path,
    side=512,
    *,
    shows="same",
    colour=(0, 0, 0),
    layout="nchw",
    weight=None,
    half=False,
    more=False,
    out=None,
):
    """A GFPGAN, GPEN or CodeFormer.

    Args:
        path: Where to write it.
        side: Of its picture, pixels.
        shows: ``same``: what it was given. ``colour``: a picture of one colour. ``brighter``: a tenth added.
            ``weight``: the number it was given, as grey. ``nothing``: what is no number.
        colour: B, G, R, 0…1.
        layout: Of both pictures.
        weight: Shape of a float64 input; None for none.
        half: Whether pictures are float16.
        more: Whether it gives something else besides, as CodeFormer does.
        out: Side of what it gives, if it is another.
    """
    b = Builder()
    shape = [1, 3, side, side] if layout == "nchw" else [1, side, side, 3]
    picture = b.input("input", shape, half)
    if weight is not None:
        b.inputs.append(helper.make_tensor_value_info("weight", TensorProto.DOUBLE, weight))
        number = b.op("Reshape", b.op("Cast", "weight", to=TensorProto.FLOAT), np.array([1, 1, 1, 1]))
    nought = b.op("Mul", picture, np.float32(0))
    if shows == "same":
        made = picture
    elif shows == "brighter":
        made = b.op("Add", picture, np.float32(0.2))
    elif shows == "weight":
        made = b.op("Add", nought, b.op("Sub", b.op("Mul", number, np.float32(2)), np.float32(1)))
    elif shows == "nothing":
        made = b.op("Div", nought, np.float32(0))
    else:
        made = b.op("Add", nought, channels(np.array(colour[::-1]) * 2 - 1, layout))
    if more:
        none = b.op("ReduceMax", nought, axes=[0, 1, 2, 3], keepdims=0)
        b.output(b.op("Add", none, np.zeros((1, 256, 512), np.float32)), "logits", [1, 256, 512])
    if out:
        made = resized(b, made, layout, out / side)
        shape = [1, 3, out, out] if layout == "nchw" else [1, out, out, 3]
    b.output(made, "output", shape, half)
    return b.save(path)
