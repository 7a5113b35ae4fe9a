"""Whether a plan gives what the model gives: the same crops through both, compared before a viewer sees a frame.

Half precision may turn a face black, into noise, or into a slightly other person. No rule tells in advance, so every
plan is compared with the model in float32 on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from engines.errors import EngineError
from engines.faces import Array, Floats
from engines.runtime.base import Network

MOST_MEAN: Final = 1 / 255
"""Mean error of a picture, of the range of its values: one level of grey, which a webcam's own noise exceeds."""

MOST_MAX: Final = 24 / 255
"""Largest error of a single value. Half precision shifts an edge by a fraction of a pixel, which is ten to twenty
levels there and unseen; a blot is more."""

LEAST_COSINE: Final = 0.999
"""Between vectors. Two photos of one person differ by 0.3 and more, and decisions are made at a tenth."""

MOST_DRIFT: Final = 0.02
"""How far the identity of a new face may turn: one minus the cosine of its embeddings. Neighbouring frames of one
person differ as much."""

_PICTURE_RANK: Final = 3
_TINY: Final = 1e-6

Embed = Callable[[Array], Floats]
"""A picture as the network gives it to an embedding."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a face.

    Attributes:
        inputs: For every input of the network its value.
        outputs: What the model gives for it in float32.
    """

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a comparison.

    Attributes:
        passed: Whether the plan may be used.
        why: What was wrong, as the end of a sentence; empty if nothing.
        figures: What was measured, by name.
    """

    passed: bool
    why: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For the file beside the plan."""
        return {"passed": self.passed, "why": self.why, "figures": dict(self.figures)}


def sample(network: Network, inputs: Sequence[Array]) -> Sample:
    """Runs a network on some inputs.

    Args:
        network: The model in float32, or whatever is to be compared.
        inputs: For every input its value.

    Raises:
        EngineError: The network failed, or takes other inputs.
    """
    return Sample(tuple(np.array(one) for one in inputs), run_on(network, inputs))


def run_on(network: Network, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """What a network gives for some inputs, copied.

    Raises:
        EngineError: The network failed, or takes other inputs.
    """
    if [one.shape for one in inputs] != [one.shape for one in network.inputs]:
        raise EngineError(f"{network.name} was compared with inputs of other shapes than its own.")
    for buffer, value in zip(network.inputs, inputs, strict=True):
        np.copyto(buffer, value, casting="unsafe")
    network.run()
    return tuple(np.array(out) for out in network.outputs)


def judge(samples: Sequence[Sample], given: Sequence[Sequence[Array]], embed: Embed | None = None) -> Verdict:
    """Judges outputs by those of the model in float32.

    Args:
        samples: Of the model.
        given: For each sample what is to be judged.
        embed: Tells whose face a picture shows, where an embedder is at hand.
    """
    if not samples or len(samples) != len(given):
        return Verdict(False, f"{len(given)} results were compared with {len(samples)} of the model")
    for which, outputs in (("the model itself", [one.outputs for one in samples]), ("it", given)):
        if not all(np.isfinite(out).all() for each in outputs for out in each):
            return Verdict(False, f"{which} gives numbers that are none (NaN or infinity)")
    figures: dict[str, float] = {"samples": float(len(samples))}
    faults: list[str] = []
    for number, right in enumerate(zip(*(one.outputs for one in samples), strict=True)):
        wrong = [each[number] if number < len(each) else np.zeros(0) for each in given]
        if any(one.shape != other.shape for one, other in zip(right, wrong, strict=True)):
            return Verdict(False, f"its output {number} has another shape than the model's", figures)
        _judge_output(number, np.stack(right), np.stack(wrong), figures, faults)
    if embed is not None:
        _judge_identity(samples, given, embed, figures, faults)
    return Verdict(not faults, "; ".join(faults), figures)


def _judge_output(
    number: int, right: Array, wrong: Array, figures: dict[str, float], faults: list[str]
) -> None:
    right, wrong = right.astype(np.float64), wrong.astype(np.float64)
    if right.ndim > _PICTURE_RANK:
        # Of the range of what the model gives: exporters differ in whether that is 0…1, -1…1 or 0…255.
        span = max(float(np.ptp(right)), _TINY)
        error = np.abs(right - wrong) / span
        mean, most = float(error.mean()), float(error.max())
        figures[f"output {number}: mean error"], figures[f"output {number}: largest error"] = mean, most
        off, about = f"its output {number} is off by", "of its range"
        if mean > MOST_MEAN:
            faults.append(f"{off} {mean:.2%} {about} on average, and {MOST_MEAN:.2%} is the most")
        elif most > MOST_MAX:
            faults.append(f"{off} {most:.1%} {about} in a place, and {MOST_MAX:.1%} is the most")
        return
    cosine = min(_cosine(one, other) for one, other in zip(right, wrong, strict=True))
    figures[f"output {number}: cosine"] = cosine
    if cosine < LEAST_COSINE:
        faults.append(
            f"its output {number} points elsewhere (cosine {cosine:.4f}, and {LEAST_COSINE} is the least)"
        )


def _judge_identity(
    samples: Sequence[Sample],
    given: Sequence[Sequence[Array]],
    embed: Embed,
    figures: dict[str, float],
    faults: list[str],
) -> None:
    drifts = []
    for one, each in zip(samples, given, strict=True):
        for right, wrong in zip(one.outputs, each, strict=True):
            if is_picture(right.shape):
                try:
                    drifts.append(1 - _cosine(embed(right), embed(wrong)))
                except EngineError:  # an embedder says so of what is no picture of anything
                    drifts.append(1.0)
    if not drifts:
        return
    figures["identity drift"] = max(drifts)
    if max(drifts) > MOST_DRIFT:
        drift = f"identity drifts by {max(drifts):.3f}, and {MOST_DRIFT} is the most"
        faults.append(f"the face becomes another one ({drift})")


def is_picture(shape: Sequence[int]) -> bool:
    """Whether a value is a picture of three channels, in either layout."""
    return len(shape) == 4 and 3 in (shape[1], shape[3])


def _cosine(one: Array, other: Array) -> float:
    first, second = one.astype(np.float64).ravel(), other.astype(np.float64).ravel()
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    # Two that are nothing are the same; something and nothing are not.
    return float(first @ second) / lengths if lengths > _TINY**2 else float(not (first.any() or second.any()))
