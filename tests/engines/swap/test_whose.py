"""Several people on one network: each gets their own face, and nothing is loaded twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.analysis.source import SourceFace
from engines.catalogue.graph import read_graph
from engines.errors import EngineError
from engines.open import Wanted, open_cast
from engines.swap.cast import Cast
from engines.swap.neural import latent, neural
from engines.swap.neural.contract import find_roles
from engines.swap.neural.generator import Generator
from engines.swap.neural.neural import NeuralOptions, NeuralSwapper
from tests import networks
from tests.engines.scenes import ASSETS
from tests.engines.swap.test_neural import BY_NAME, FACE, PLAIN, emap_of, face_at, painted, slopes
from tests.networks import Export

COLOURS = [(0, 0, 255), (255, 0, 0), (0, 255, 0)]


def photo(colour):
    """A photo that fills its crop with one colour."""
    return SourceFace(np.full((200, 200, 3), colour, np.uint8), face_at(100, 100, 90).points, "p.jpg")


@pytest.fixture
def cast(tmp_path, monkeypatch):
    """A swapper of three people, and how often a network was opened for it."""
    opened, made = [], []
    really = neural.open_network
    monkeypatch.setattr(
        neural, "open_network", lambda path, *a, **k: opened.append(path.name) or really(path, *a, **k)
    )

    def make(name, boost=1, batch=False):
        contract = BY_NAME[name]
        path = networks.generator(
            tmp_path / "g.onnx", contract, Export(batch=batch), shows="source", emap=emap_of(contract)
        )
        needs = {}
        if contract.source != "image":
            needs["embedder"] = networks.embedder(tmp_path / "e.onnx")
        generator = Generator("g", path, contract, find_roles("g", read_graph(path), contract), **needs)
        first, *others = [[photo(colour)] for colour in COLOURS]
        swapper = NeuralSwapper(generator, first, options=replace(PLAIN, boost=boost), others=others)
        made.append(swapper)
        swapper.open(lambda line: None)
        return swapper, opened

    yield make
    for swapper in made:
        swapper.close()


@pytest.mark.parametrize("boost", [1, 2])
@pytest.mark.parametrize("batch", [True, False])
def test_each_person_s_picture_is_told_and_one_network_is_opened(cast, boost, batch):
    swapper, opened = cast("uniface_256", boost, batch)
    assert len([name for name in opened if name == "g.onnx"]) == 1
    for number in (0, 1, 2, 2, 0, 1, 1, 0):
        frame = painted(swapper, slopes(), replace(FACE, person=number, track=5 - number))
        np.testing.assert_allclose(frame[200, 240], COLOURS[number], atol=1)


def test_each_person_s_vector_is_told(cast):
    """The embedding's numbers are the mean of red, green and blue."""
    swapper, opened = cast("inswapper_128")
    assert opened == ["g.onnx"]
    for number in (0, 1, 2, 0):
        assert painted(swapper, slopes(), replace(FACE, person=number)) is not None
        latent = swapper._tiles.network.inputs[0].reshape(-1)
        wanted = np.where(np.array(COLOURS[number][::-1]) > 0, 1, -1) / np.sqrt(3)
        np.testing.assert_allclose(latent[:3], wanted, atol=1e-3)


def test_their_embeddings_come_from_one_embedder_that_is_opened_once(cast, monkeypatch):
    opened, really = [], latent.open_embedder
    monkeypatch.setattr(latent, "open_embedder", lambda *a: opened.append(a[0].name) or really(*a))
    cast("inswapper_128")
    assert opened == ["e.onnx"]


@pytest.mark.parametrize("number", [-1, 3, 99])
def test_somebody_nobody_knows_is_an_error_and_not_somebody_else(cast, number):
    swapper, _ = cast("uniface_256")
    with pytest.raises(EngineError, match="Nobody knows"):
        painted(swapper, slopes(), replace(FACE, person=number))


def test_the_mesh_makes_a_cast_and_a_network_that_knows_somebody_needs_no_photo(tmp_path):
    photos = [[ASSETS / "hopper.jpg"], [ASSETS / "astronaut.png"]]
    assert isinstance(open_cast(Wanted("mesh"), photos), Cast)
    assert not isinstance(open_cast(Wanted("mesh"), photos[:1]), Cast)
    path = networks.dfm(tmp_path / "somebody.dfm", morph=False)
    swapper = open_cast(Wanted(str(path), models=tmp_path, neural=NeuralOptions(colour="none")), photos)
    swapper.open(lambda line: None)
    try:
        for number in (0, 1):
            assert painted(swapper, slopes(), replace(FACE, person=number)) is not None
    finally:
        swapper.close()
