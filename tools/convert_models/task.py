"""Makes a bundle for MediaPipe's ``FaceLandmarker`` from the networks of its older package.

What is published as ``face_landmarker.task`` is newer; this one can be made from a package registry alone, so that
the real package can be run offline. It needs ``mediapipe`` for the schema of its own files:
``python -m tools.convert_models.task face_landmarker.task``.

The landmark network of the older package gives 468 points and each iris apart, as x and y; the task wants 478 of
x, y and z in one output. So both irises are reshaped, padded and joined to the mesh. What the task cannot know
otherwise, how a picture is to be normalised, is written into both networks.
"""

from __future__ import annotations

import argparse
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tools.convert_models.fetch import extract, fetch
from tools.convert_models.recipes import FACE_MESH

DETECTOR, LANDMARKS = "face_detection_short_range.tflite", "face_landmark_with_attention.tflite"
MEMBERS = {"face_detector.tflite": DETECTOR, "face_landmarks_detector.tflite": LANDMARKS}


def make(detector: bytes, landmarks: bytes, out: Path) -> None:
    """Writes a bundle.

    Args:
        detector: ``face_detection_short_range.tflite``.
        landmarks: ``face_landmark_with_attention.tflite``.
        out: Where to.
    """
    finder, reader = Model(detector), Model(landmarks)
    finder.normalise(127.5, 127.5)
    reader.joined()
    reader.normalise(0.0, 255.0)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as bundle:
        for name, model in zip(MEMBERS, (finder, reader), strict=True):
            # A fixed time, so that the same networks make the same bundle.
            bundle.writestr(zipfile.ZipInfo(name), model.data())


class Model:
    """One ``.tflite`` file, taken apart."""

    def __init__(self, data: bytes) -> None:
        from mediapipe.tasks.metadata import metadata_schema_py_generated, schema_py_generated

        self._schema: Any = schema_py_generated
        self._about: Any = metadata_schema_py_generated
        self.model = self._schema.ModelT.InitFromObj(self._schema.Model.GetRootAsModel(data, 0))
        self.graph = self.model.subgraphs[0]

    def data(self) -> bytes:
        """The file again."""
        import flatbuffers

        builder = flatbuffers.Builder(0)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def joined(self) -> None:
        """478 points in one output, and the presence in a second one."""
        sizes: dict[int, list[int]] = {
            int(np.prod(self.graph.tensors[i].shape)): [] for i in self.graph.outputs
        }
        for i in self.graph.outputs:
            sizes[int(np.prod(self.graph.tensors[i].shape))].append(i)
        # What the file calls left is on the left of the picture: the person's right eye, which comes first.
        first, second = sizes[10]
        kind = self._schema.BuiltinOperator
        points = [sizes[1404][0]]
        for iris in (first, second):
            pairs = self._reshaped(iris, (1, 1, 5, 2))
            padding = self._constant(np.array([[0, 0], [0, 0], [0, 0], [0, 1]], np.int32))
            triples = self._tensor((1, 1, 5, 3))
            self._op(kind.PAD, [pairs, padding], triples, "PadOptions")
            points.append(self._reshaped(triples, (1, 1, 1, 15)))
        mesh = self._tensor((1, 1, 1, 1434))
        self._op(kind.CONCATENATION, points, mesh, "ConcatenationOptions").axis = 3
        self.graph.outputs = [mesh, sizes[1][0]]
        self.model.signatureDefs = None

    def normalise(self, mean: float, std: float) -> None:
        """Writes how a picture is to be fed into the file: (x - mean) / std."""
        import flatbuffers

        about, schema = self._about, self._schema
        options = about.NormalizationOptionsT()
        options.mean, options.std = [mean], [std]
        step = about.ProcessUnitT()
        step.optionsType, step.options = about.ProcessUnitOptions.NormalizationOptions, options
        picture, content, rgb = about.TensorMetadataT(), about.ContentT(), about.ImagePropertiesT()
        rgb.colorSpace = about.ColorSpaceType.RGB
        content.contentPropertiesType, content.contentProperties = (
            about.ContentProperties.ImageProperties,
            rgb,
        )
        picture.name, picture.content, picture.processUnits = "image", content, [step]
        graph, whole = about.SubGraphMetadataT(), about.ModelMetadataT()
        graph.inputTensorMetadata = [picture]
        graph.outputTensorMetadata = [about.TensorMetadataT() for _ in self.graph.outputs]
        whole.name, whole.subgraphMetadata = "face", [graph]
        builder = flatbuffers.Builder(0)
        builder.Finish(whole.Pack(builder), b"M001")
        entry = schema.MetadataT()
        entry.name, entry.buffer = b"TFLITE_METADATA", self._buffer(bytes(builder.Output()))
        self.model.metadata = [one for one in self.model.metadata or [] if one.name != entry.name] + [entry]

    def _buffer(self, data: bytes) -> int:
        buffer = self._schema.BufferT()
        buffer.data = np.frombuffer(data, np.uint8)
        self.model.buffers.append(buffer)
        return len(self.model.buffers) - 1

    def _tensor(self, shape: tuple[int, ...], buffer: int = 0, whole: bool = False) -> int:
        tensor = self._schema.TensorT()
        tensor.shape, tensor.buffer = np.array(shape, np.int32), buffer
        tensor.type = self._schema.TensorType.INT32 if whole else self._schema.TensorType.FLOAT32
        tensor.name = f"made_{len(self.graph.tensors)}".encode()
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def _constant(self, values: np.ndarray) -> int:
        return self._tensor(values.shape, self._buffer(values.tobytes()), whole=True)

    def _reshaped(self, tensor: int, shape: tuple[int, ...]) -> int:
        target = self._constant(np.array(shape, np.int32))
        made = self._tensor(shape)
        options = self._op(self._schema.BuiltinOperator.RESHAPE, [tensor, target], made, "ReshapeOptions")
        options.newShape = np.array(shape, np.int32)
        return made

    def _op(self, kind: int, inputs: list[int], output: int, options: str) -> Any:
        schema = self._schema
        code = next((i for i, one in enumerate(self.model.operatorCodes) if _kind(one) == kind), None)
        if code is None:
            made = schema.OperatorCodeT()
            made.builtinCode = made.deprecatedBuiltinCode = kind
            made.version = 1
            self.model.operatorCodes.append(made)
            code = len(self.model.operatorCodes) - 1
        op = schema.OperatorT()
        op.opcodeIndex = code
        op.inputs, op.outputs = np.array(inputs, np.int32), np.array([output], np.int32)
        op.builtinOptionsType = getattr(schema.BuiltinOptions, options)
        op.builtinOptions = getattr(schema, f"{options}T")()
        self.graph.operators.append(op)
        return op.builtinOptions


def _kind(code: Any) -> int:
    return max(code.builtinCode, code.deprecatedBuiltinCode)


def main() -> None:
    """Fetches the package and writes the bundle."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="FILE.task")
    parser.add_argument("--cache", type=Path, help="folder of archives that were fetched before")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        archive = fetch(FACE_MESH, args.cache or Path(folder))
        parts = [extract(archive, f"!{name}", Path(folder)).read_bytes() for name in MEMBERS.values()]
        make(*parts, args.out)
    print(f"{args.out}: {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
