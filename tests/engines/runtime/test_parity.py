"""The gate: what passes, and every way in which a plan may give another picture than the model."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engines.errors import EngineError
from engines.runtime.ort.network import OnnxNetwork
from engines.runtime.trt.parity import (
    LEAST_COSINE,
    MOST_DRIFT,
    MOST_MAX,
    MOST_MEAN,
    Sample,
    judge,
    run_on,
    sample,
)
from tests.engines.runtime.graphs import double

RNG = np.random.default_rng(0)
PICTURES = [RNG.random((1, 3, 16, 16)).astype(np.float32) for _ in range(4)]
VECTORS = [RNG.standard_normal((1, 32)).astype(np.float32) for _ in range(4)]
SAMPLES = [Sample((), (picture, vector)) for picture, vector in zip(PICTURES, VECTORS, strict=True)]


def given(change=lambda picture: picture, turn=lambda vector: vector):
    return [
        (change(picture.copy()), turn(vector.copy()))
        for picture, vector in zip(PICTURES, VECTORS, strict=True)
    ]


def spot(value):
    def change(picture):
        picture[0, 0, 3, 3] = value
        return picture

    return change


def test_the_same_passes_with_nothing_measured():
    verdict = judge(SAMPLES, given())
    assert verdict.passed and verdict.why == ""
    assert verdict.figures["output 0: mean error"] == verdict.figures["output 0: largest error"] == 0
    assert verdict.figures["output 1: cosine"] == pytest.approx(1)
    assert verdict.figures["samples"] == 4


def test_half_precisions_own_error_passes():
    assert judge(SAMPLES, given(lambda p: p.astype(np.float16), lambda v: v.astype(np.float16))).passed


FAULTS = {
    "black": (lambda p: p * 0, lambda v: v, "on average"),
    "a shift of brightness": (lambda p: p + 2 * MOST_MEAN, lambda v: v, "on average"),
    "noise": (lambda p: p + RNG.normal(0, 0.02, p.shape), lambda v: v, "on average"),
    "another picture": (lambda p: p[..., ::-1], lambda v: v, "on average"),
    "one blot": (spot(1.0 + MOST_MAX * 2), lambda v: v, "in a place"),
    "one NaN": (spot(np.nan), lambda v: v, "NaN or infinity"),
    "one infinity": (spot(-np.inf), lambda v: v, "NaN or infinity"),
    "a NaN in a vector": (lambda p: p, lambda v: v * np.nan, "NaN or infinity"),
    "a turned vector": (lambda p: p, lambda v: v + 0.2 * np.roll(v, 1), "points elsewhere"),
    "no vector": (lambda p: p, lambda v: v * 0, "points elsewhere"),
    "another shape": (lambda p: p[..., :8], lambda v: v, "another shape"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_differs_is_refused_and_said(fault):
    change, turn, text = FAULTS[fault]
    verdict = judge(SAMPLES, given(change, turn))
    assert not verdict.passed
    assert text in verdict.why
    json.dumps(verdict.as_json(), allow_nan=False)


def test_a_fault_in_one_sample_of_many_is_enough():
    outputs = given()
    outputs[2] = (outputs[2][0] * 0.5, outputs[2][1])
    assert not judge(SAMPLES, outputs).passed


def test_a_model_that_is_broken_itself_is_said_to_be():
    broken = [Sample((), (np.full((1, 3, 4, 4), np.nan),))]
    assert "the model itself" in judge(broken, [broken[0].outputs]).why


def test_nothing_to_compare_is_no_pass():
    assert not judge([], []).passed
    assert not judge(SAMPLES, given()[:2]).passed
    assert not judge(SAMPLES, [outputs[:1] for outputs in given()]).passed


@pytest.mark.parametrize("scale", [1.0, 255.0, 2.0])
def test_errors_are_told_of_the_range_whatever_that_is(scale):
    samples = [Sample((), (picture * scale - scale / 2,)) for picture in PICTURES]
    off = [(picture * scale - scale / 2 + MOST_MEAN * scale * 0.9,) for picture in PICTURES]
    far = [(picture * scale - scale / 2 + MOST_MEAN * scale * 1.2,) for picture in PICTURES]
    assert judge(samples, off).passed
    assert not judge(samples, far).passed


def colour_of(picture):
    """A stand-in for an embedder."""
    return picture.reshape(3, -1).mean(1) - 0.4


def test_a_face_that_becomes_another_one_is_refused():
    assert judge(SAMPLES, given(), colour_of).figures["identity drift"] == pytest.approx(0, abs=1e-6)

    def other(picture):
        picture[:, 0] += 2.4 * MOST_MEAN  # a third of the picture: the mean error is still allowed
        return picture

    outputs = given(other)
    assert judge(SAMPLES, outputs).passed
    verdict = judge(SAMPLES, outputs, lambda picture: colour_of(picture) - 0.1)
    assert not verdict.passed and "another one" in verdict.why
    assert verdict.figures["identity drift"] > MOST_DRIFT


def test_what_an_embedder_refuses_is_no_face():
    def refuses(picture):
        raise EngineError("no numbers")

    assert "another one" in judge(SAMPLES, given(), refuses).why


def test_any_network_is_judged_by_the_model_on_the_cpu(tmp_path):
    model = OnnxNetwork(double(tmp_path / "double.onnx"))
    rng = np.random.default_rng(1)
    samples = [sample(model, [rng.random((1, 3, 4, 4))]) for _ in range(3)]
    assert len({one.outputs[0].tobytes() for one in samples}) == 3, "outputs are copied, not shared"
    assert judge(samples, [run_on(model, one.inputs) for one in samples]).passed
    with pytest.raises(EngineError, match="other shapes"):
        run_on(model, [np.zeros((1, 3, 5, 5))])
    with pytest.raises(EngineError, match="other shapes"):
        run_on(model, [])
    model.close()
    half = [Sample(one.inputs, (one.outputs[0] * 0.9,)) for one in samples]
    model = OnnxNetwork(double(tmp_path / "double.onnx"))
    assert not judge(half, [run_on(model, one.inputs) for one in half]).passed
    model.close()


def test_thresholds_are_what_the_page_says():
    assert (MOST_MEAN * 255, MOST_MAX * 255, LEAST_COSINE, MOST_DRIFT) == (1, 24, 0.999, 0.02)
