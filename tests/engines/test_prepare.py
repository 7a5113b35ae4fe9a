"""What is needed to build a plan, from a name or a file and two photos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import realtime
from engines import prepare
from engines.catalogue.store import Store
from engines.errors import EngineError, UsageError
from engines.prepare import Maker, Wish
from engines.runtime.trt.bindings import Package
from engines.runtime.trt.build import build
from engines.runtime.trt.parity import judge
from engines.runtime.trt.plans import PlanStore
from engines.swap.neural import latent
from tests import networks
from tests.engines.runtime.graphs import double
from tests.engines.runtime.test_build import child, silent
from tests.engines.runtime.test_open import DRIVER

ASSETS = Path(realtime.__file__).parent / "assets"
PHOTOS = (ASSETS / "astronaut.png", ASSETS / "hopper.jpg")
PACKAGE = Package("tensorrt", "11.4.0.106", 12)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Under names of their own, so that they are told by what they take and give."""
    folder = tmp_path_factory.mktemp("models")
    contract = Store(folder).catalogue.entry("inswapper_128").contract
    networks.generator(folder / "my_swap.onnx", contract, networks.Export(batch=True), emap=np.eye(512))
    networks.embedder(folder / "my_arcface.onnx")
    networks.dfm(folder / "somebody.dfm")
    double(folder / "double.onnx", shape=("n", 3, "h", "w"), out=("n", 3, "h", "w"))
    (folder / "broken.onnx").write_bytes(b"<!doctype html>")
    return folder


@pytest.fixture(scope="module")
def maker(models):
    return Maker(Store(models), PHOTOS, DRIVER, "570.86", PACKAGE)


@pytest.mark.parametrize("boost", [1, 2])
def test_a_swap_generator_gets_faces_embeddings_and_all_its_tiles(maker, models, boost):
    job = maker.job(Wish(str(models / "my_swap.onnx"), boost=boost))
    batch = boost * boost
    assert sorted(job.shapes.values()) == [(batch, 3, 128, 128), (batch, 512)]
    place = list(job.shapes.values()).index((batch, 512))
    latents = {one.inputs[place].tobytes() for one in job.samples}
    assert len(job.samples) == 6 and len(latents) == 2, "each face gets the other's"
    for one in job.samples:
        np.testing.assert_allclose(np.linalg.norm(one.inputs[place], axis=1), 1, atol=1e-4)
        picture = one.inputs[1 - place]
        assert (picture == picture[:1]).all() and picture.std() > 0.03
    # The embedder tells colours; the generator gives its crop back.
    assert (
        judge(job.samples, [one.outputs for one in job.samples], job.embed).figures["identity drift"] < 1e-6
    )
    blue = [(one.outputs[0] * np.float32([1, 1, 0.6]).reshape(1, 3, 1, 1),) for one in job.samples]
    assert judge(job.samples, blue, job.embed).figures["identity drift"] > 1e-3


def test_the_embedder_is_opened_twice_in_all_for_the_samples_and_for_the_verdict(maker, models, monkeypatch):
    opened = []
    for module in (latent, prepare):
        really = module.open_embedder
        monkeypatch.setattr(module, "open_embedder", lambda *a, f=really: opened.append(a[0].name) or f(*a))
    job = maker.job(Wish(str(models / "my_swap.onnx")))
    assert judge(job.samples, [one.outputs for one in job.samples], job.embed).passed
    assert opened == ["my_arcface.onnx"] * 2


def test_a_dfm_is_shown_both_faces_in_several_lights(maker, models):
    job = maker.job(Wish(str(models / "somebody.dfm")))
    assert job.name == "somebody" and job.outputs[1] == "out_celeb_face:0"
    assert job.shapes["in_face:0"] == (1, 64, 64, 3)
    assert len(job.samples) == 6
    pictures = [one.inputs[0] for one in job.samples]
    assert len({picture.tobytes() for picture in pictures}) == 6
    assert all(picture.min() >= 0 and picture.max() <= 1 and picture.std() > 0.03 for picture in pictures)
    np.testing.assert_allclose(pictures[1][0], pictures[0][0, :, ::-1], atol=1e-5)
    assert pictures[2].mean() < 0.6 * pictures[0].mean()
    assert judge(job.samples, [one.outputs for one in job.samples], job.embed).passed
    assert job.key.target.gpu == DRIVER.gpus[0].name
    assert job.embed is None


def test_any_other_network_is_shown_them_too(maker, models):
    job = maker.job(Wish(str(models / "double.onnx"), "fp32", batch=2, side=32, keep=("Conv",)))
    assert job.shapes == {"x": (2, 3, 32, 32)}
    assert job.recipe.text == "fp32"
    assert len(job.samples) == 6
    np.testing.assert_allclose(job.samples[0].outputs[0], 2 * job.samples[0].inputs[0])
    assert job.samples[0].inputs[0].std() > 0.05


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        (Wish("nobody"), "nobody"),
        (Wish("broken.onnx"), "web page"),
        (Wish("none.onnx"), "none"),
        (Wish("double.onnx"), "size is left free"),
        (Wish("somebody.dfm", gpu=3), "cuda:3"),
        (Wish("somebody.dfm", boost=3), "3 times finer"),
    ],
)
def test_what_cannot_be_built_is_said(maker, models, wish, text):
    model = str(models / wish.model) if "." in wish.model else wish.model
    with pytest.raises((EngineError, UsageError), match=text):
        maker.job(Wish(model, boost=wish.boost, gpu=wish.gpu))


def test_without_tensorrt_nothing_is_built(models):
    with pytest.raises(EngineError, match="not installed"):
        Maker(Store(models), PHOTOS, DRIVER, "", None).job(Wish("inswapper_128"))


def test_a_plan_of_a_dfm_goes_the_whole_way(maker, models, tmp_path):
    job = maker.job(Wish(str(models / "somebody.dfm")))
    store = PlanStore(tmp_path / "plans")
    # A process that answers each sample with what the model gives, and one with black.
    np.savez(tmp_path / "right.npz", **{
        f"{number}_{place}": out for number, one in enumerate(job.samples) for place, out in enumerate(one.outputs)
    })  # fmt: skip
    answer = "plan(); RESULTS = 1; d = np.load({!r}); np.savez('results.npz', **{{n: d[n] * {} for n in d.files}}); "
    answer += "done()"
    right, black = (child(answer.format(str(tmp_path / "right.npz"), factor)) for factor in (1, 0))
    assert not build(job, store, silent, command=black).note.verdict.passed
    assert build(job, store, silent, again=True, command=right).note.verdict.passed
