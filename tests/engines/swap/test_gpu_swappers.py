"""Swappers on a card, the stand-in for one, against the same swappers on the CPU: within two levels, and at no more
traffic than is said."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import cv2
import numpy as np
import pytest

from engines.catalogue.graph import read_graph
from engines.errors import EngineError
from engines.kernels.gpu.canvas import GpuEasel
from engines.kernels.gpu.card import Card
from engines.runtime.ort.network import OnnxNetwork
from engines.runtime.shapes import Sizes
from engines.swap.masks.masks import Oval
from engines.swap.mesh.cover import Cover
from engines.swap.mesh.gpu import GpuMeshSwapper
from engines.swap.mesh.mesh import Looks, MeshSwapper
from engines.swap.neural import neural
from engines.swap.neural.contract import find_roles
from engines.swap.neural.generator import Generator
from engines.swap.neural.gpu import GpuNeuralSwapper
from engines.swap.neural.neural import NeuralOptions, NeuralSwapper
from tests import networks
from tests.engines.kernels.cuda_host import needs_compiler
from tests.engines.kernels.cuda_stand_in import StandIn
from tests.engines.scenes import face_in, placed, source
from tests.engines.swap.test_neural import BY_NAME, EXPORTS, FACE, face_at, person, slopes

pytestmark = needs_compiler
quiet = lambda line: None  # noqa: E731
SIZE = (480, 320)


class Bench:
    """An easel on a stand-in that does everything as late as it may."""

    def __init__(self):
        self.cupy = StandIn(lazy=True)
        self.easel = GpuEasel(lambda: Card(cupy=self.cupy))
        self.easel.open(quiet)
        self.spent, self.sizes, self.live = Counter(), [], None

    def painted(self, swapper, image, *faces):
        """The frame as it comes down, or None where a swapper would not; ``spent`` and ``sizes`` tell at what cost."""
        if self.live is None or self.live.shape != image.shape:
            self.live = np.empty_like(image)
        live = self.live
        np.copyto(live, image)
        before, at = self.cupy.counts.copy(), len(self.cupy.sizes)
        canvas = self.easel.begin(live, self.easel.send(live, True))
        try:
            for face in faces:
                layer = swapper.swap(canvas, face)
                if layer is None:
                    return None
                swapper.blend(canvas, layer)
            shown = canvas.finish().i420
        finally:
            canvas.drop()
        self.spent, self.sizes = self.cupy.counts - before, self.cupy.sizes[at:]
        assert (live == image).all(), "the live picture stays as it is"
        return shown


def on_cpu(swapper, image, *faces):
    frame = image.copy()
    for face in faces:
        layer = swapper.swap(frame, face)
        if layer is None:
            return None
        swapper.blend(frame, layer)
    return cv2.cvtColor(frame, cv2.COLOR_BGR2YUV_I420)


def off(one, other):
    return int(np.abs(one.astype(int) - other).max())


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.easel.close()


@pytest.fixture(scope="module")
def scene():
    image = placed("hopper", SIZE, 130, (240, 160), 0.1)
    return image, face_in(image)


def on_card(bench, make):
    swapper = GpuMeshSwapper(make(), bench.easel)
    swapper.open(quiet)
    return swapper


def opened(swapper):
    swapper.open(quiet)
    return swapper


@pytest.mark.parametrize(
    "looks",
    [Looks(), Looks(eyes="photo", mouth="photo"), Looks(eyes="live", occluders="cover")],
    ids=["live", "photo", "cover"],
)
def test_the_mesh_like_the_processor(bench, scene, looks):
    image, face = scene
    make = lambda: MeshSwapper(source("astronaut"), looks=looks)  # noqa: E731
    gpu, cpu = on_card(bench, make), opened(make())
    for _ in range(3):
        shown, expected = bench.painted(gpu, image, face), on_cpu(cpu, image, face)
        assert off(shown, expected) <= 2
        assert off(expected, cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420)) > 50
    # One picture up and one down; beside that one parcel of small numbers; nothing allocated, one wait.
    picture = SIZE[0] * SIZE[1] * 3
    assert next(size for what, size in bench.sizes if what == "uploads") == picture
    assert bench.spent["uploads"] == 2
    assert sum(size for what, size in bench.sizes if what == "uploads") - picture < 48_000
    assert [(what, size) for what, size in bench.sizes if what == "downloads"] == [
        ("downloads", picture // 2 + 256)
    ]
    assert (bench.spent["allocations"], bench.spent["pinned"], bench.spent["waits"]) == (0, 0, 1)


def test_the_mesh_over_every_border(bench, scene):
    image, face = scene
    make = lambda: MeshSwapper(source("astronaut"))  # noqa: E731
    gpu, cpu = on_card(bench, make), opened(make())
    for x in (2, 240, 470):
        for y in (3, 160, 318):
            points = face.points.copy()
            points[:, :2] += np.float32([x - 240, y - 160])
            moved = replace(face, points=points)
            assert off(bench.painted(gpu, image, moved), on_cpu(cpu, image, moved)) <= 2


def test_four_faces_some_over_others(bench, scene):
    image, face = scene
    faces = []
    for track, by in enumerate(((-150, -60), (-100, 50), (120, -30), (140, 60))):
        points = face.points.copy()
        points[:, :2] += np.float32(by)
        faces.append(replace(face, track=track, points=points))
    # Eyes keep their colours: those are told from the live picture, here as there, and not from one that is painted.
    make = lambda: MeshSwapper(source("astronaut"), looks=Looks(eyes="live"))  # noqa: E731
    gpu, cpu = on_card(bench, make), opened(make())
    assert off(bench.painted(gpu, image, *faces), on_cpu(cpu, image, *faces)) <= 2
    assert bench.spent["uploads"] == 5
    assert bench.spent["downloads"] == 1


class Covered:
    """A mesh swapper before whose face something is."""

    def __init__(self, mesh, cover):
        self._mesh, self._cover = mesh, cover
        self.name, self.landmarks = mesh.name, mesh.landmarks

    def __getattr__(self, name):
        return getattr(self._mesh, name)

    def swap(self, image, face):
        return replace(self._mesh.swap(image, face), cover=self._cover)


@pytest.mark.parametrize("at", [(200, 120), (-40, -30), (430, 280), (900, 900)])
def test_what_is_before_the_face_stays(bench, scene, at):
    image, face = scene
    mask = np.zeros((96, 96), np.uint8)
    cv2.circle(mask, (50, 40), 30, 255, -1, cv2.LINE_AA)
    turn = np.float32([[0.8, 0.2, 0], [-0.2, 0.8, 0]])
    turn[:, 2] = 48 - turn[:, :2] @ np.float32(at)
    cover = Cover(mask, turn, np.zeros(468, np.float32))
    make = lambda: Covered(MeshSwapper(source("astronaut"), looks=Looks(occluders="cover")), cover)  # noqa: E731
    gpu, cpu = on_card(bench, make), opened(make())
    assert off(bench.painted(gpu, image, face), on_cpu(cpu, image, face)) <= 2


@pytest.mark.parametrize(
    "window", [(100, 20, 300, 200), (50, 0, 590, 480)], ids=["small", "as large as the room"]
)
def test_what_was_drawn_in_the_frame_itself_stays(bench, window):
    """A mask of a part of the frame, pixel by pixel, beside the numbers that are sent: neither is written over."""
    image = placed("hopper", (640, 480), 130, (240, 50), 0.1)
    left, top, right, bottom = window
    whole = np.random.default_rng(2).integers(0, 256, (bottom - top, right - left + 1), np.uint8)
    there = np.float32([[1, 0, -left], [0, 1, -top]])
    cover = Cover(whole[:, :-1], there, np.zeros(468, np.float32), window=window)
    make = lambda: Covered(MeshSwapper(source("astronaut"), looks=Looks(occluders="cover")), cover)  # noqa: E731
    gpu, cpu, face = on_card(bench, make), opened(make()), face_in(image)
    for _ in range(2):
        assert off(bench.painted(gpu, image, face), on_cpu(cpu, image, face)) <= 2
    assert bench.spent["uploads"] == 2


def test_a_mesh_that_is_not_open_or_shows_no_face_says_so(bench, scene):
    image, face = scene
    gpu = on_card(bench, lambda: MeshSwapper(source("astronaut")))
    away = face.points * np.float32([-1, 1, -1]) + np.float32([480, 0, 0])
    assert bench.painted(gpu, image, replace(face, points=away)) is None
    gpu.close()
    gpu.close()
    with pytest.raises(EngineError, match="before it was opened"):
        bench.painted(gpu, image, face)


class OnCard:
    """A small network that says that it runs on a GPU, and does, as far as the stand-in has one: on its stream."""

    def __init__(self, bench, network):
        self._bench, self._network = bench, network
        self.name, self.nodes = network.name, {"CUDAExecutionProvider": 1}
        self.input_specs, self.output_specs = network.input_specs, network.output_specs
        self.inputs, self.outputs = network.inputs, network.outputs
        self.bound = ()

    def bind(self, inputs, outputs):
        self.bound = tuple(inputs), tuple(outputs)
        self._network.bind(inputs, outputs)

    def run(self):
        if self.bound:
            self._bench.cupy.streams[7].put("network", self._network.run)
        else:
            self._network.run()  # what it gives is copied to the host, and waited for

    def close(self):
        self._network.close()


@pytest.fixture
def made(bench, tmp_path, monkeypatch):
    """Opens a generator on the CPU and on the card, and closes both."""
    opened = []
    files = iter(range(100))
    real = neural.open_network
    nets = []

    def on_gpu(path, device, *, batch=1, shapes=None, stream=0, progress=None):
        assert stream == 7
        network = OnnxNetwork(path, sizes=Sizes(batch, None, shapes or {}))
        nets.append(OnCard(bench, network))
        return nets[-1]

    def make(contract, export=networks.Export(), options=None, on="gpu", soften=0.0, **network):  # noqa: B008
        path = tmp_path / f"model{next(files)}.onnx"
        if contract.source == "emap":
            network.setdefault("emap", np.eye(512, dtype=np.float32))
        networks.generator(path, contract, export, **network)
        needs = {}
        if contract.source not in ("none", "image"):
            needs["embedder"] = networks.embedder(tmp_path / "embedder.onnx")
        if contract.source.startswith("converted"):
            needs["converter"] = networks.converter(tmp_path / "converter.onnx", np.eye(512))
        generator = Generator(
            "model", path, contract, find_roles(path.name, read_graph(path), contract), soften=soften, **needs
        )
        for gpu in (True, False):
            monkeypatch.setattr(neural, "open_network", on_gpu if gpu and on == "gpu" else real)
            given = generator, [person()]
            swapper = (
                GpuNeuralSwapper(bench.easel, *given, options=options)
                if gpu
                else NeuralSwapper(*given, options=options)
            )
            opened.append(swapper)
            swapper.open(make.said.append)
        return opened[-2:]

    make.networks, make.said = nets, []
    yield make
    for swapper in opened:
        swapper.close()


QUICK = "inswapper_128", "hyperswap_1a_256"
"""One that is told by a vector, and one with a mask of its own; the others differ from these in what they are fed."""


@pytest.mark.parametrize(
    "model", [pytest.param(one, marks=[] if one in QUICK else pytest.mark.slow) for one in sorted(BY_NAME)]
)
def test_every_contract_like_the_processor(bench, made, model):
    gpu, cpu = made(BY_NAME[model])
    image = slopes()
    for number in range(2):
        face = face_at(240 + 5 * number, 200, 190, 0.15)
        shown, expected = bench.painted(gpu, image, face), on_cpu(cpu, image, face)
        assert off(shown, expected) <= 2
    network = made.networks[-1]
    assert len(network.bound[1]) == len(network.outputs)
    # The picture and two parcels up; the sums of colours and the picture down; no pixel of the host's in between.
    picture = image.nbytes
    ups = [size for what, size in bench.sizes if what == "uploads"]
    downs = [size for what, size in bench.sizes if what == "downloads"]
    assert ups[0] == picture
    assert len(ups) == 3
    assert sum(ups[1:]) < 4096
    assert downs == [13 * 8, picture // 2 + 256]
    assert (bench.spent["allocations"], bench.spent["pinned"], bench.spent["waits"]) == (0, 0, 2)


@pytest.mark.parametrize(
    ("export", "boost"),
    [
        pytest.param(one, 1 + (one != "nhwc"), marks=[] if one in ("half", "nhwc") else pytest.mark.slow)
        for one in sorted(EXPORTS)
    ],
)
def test_every_export_and_boost_like_the_processor(bench, made, export, boost):
    gpu, cpu = made(BY_NAME["hyperswap_1a_256"], EXPORTS[export], NeuralOptions(boost=boost))
    image = slopes()
    assert off(bench.painted(gpu, image, FACE), on_cpu(cpu, image, FACE)) <= 2


@pytest.mark.parametrize(("shape", "colour"), [("oval", "none"), ("ellipse", "match"), ("box", "match")])
def test_outlines_colours_and_places_like_the_processor(bench, made, shape, colour):
    gpu, cpu = made(
        BY_NAME["hyperswap_1a_256"], options=NeuralOptions(shape=shape, colour=colour), soften=5.0
    )
    image = slopes()
    for face in (FACE, face_at(20, 380, 230, -0.5), face_at(200, 200, 30), face_at(470, 5, 90)):
        assert off(bench.painted(gpu, image, face), on_cpu(cpu, image, face)) <= 2


def test_four_faces_and_the_same_one_twice(bench, made):
    gpu, cpu = made(BY_NAME["inswapper_128"])
    image = slopes()
    faces = [face_at(100 + 90 * n, 150 + 40 * (n % 2), 110, 0.1 * n, n) for n in range(4)]
    for _ in range(2):
        assert off(bench.painted(gpu, image, *faces), on_cpu(cpu, image, *faces)) <= 2
    assert bench.spent["downloads"] == 5
    assert bench.spent["allocations"] == 0


class Half(Oval):
    """A mask that looks at the crop."""

    outline = None
    name = "half"

    def write(self, crop, face, affine, out):
        assert crop.max() > 0
        out[:] = 1
        out[:, : out.shape[1] // 3] = 0


@pytest.mark.parametrize("where", ["mask", "network"])
def test_what_works_on_the_host_is_pasted_on_the_card(bench, made, where):
    options = NeuralOptions(masks=(Half(),)) if where == "mask" else NeuralOptions()
    gpu, cpu = made(BY_NAME["inswapper_128"], options=options, on="gpu" if where == "mask" else "cpu")
    assert any(f"pasted on the GPU: the {where}" in line for line in made.said)
    image = slopes()
    for _ in range(2):
        assert off(bench.painted(gpu, image, FACE), on_cpu(cpu, image, FACE)) <= 2
    # The picture and the face that was made, which is small; and one picture down.
    assert bench.spent["uploads"] == 2
    assert bench.spent["downloads"] == 1


def test_numbers_that_are_none_are_never_shown(bench, made):
    gpu, _ = made(BY_NAME["inswapper_128"])
    tiles = gpu._tiles
    run = tiles.network.run
    whole = gpu._making._whole[tiles.roles.face]

    def broken():
        run()
        bench.cupy.streams[7].put("broken", lambda: whole._memory.fill(np.nan))

    tiles.network.run = broken
    assert bench.painted(gpu, slopes(), FACE) is None

    def broken_in_one_pixel():
        run()
        # Between the pixels that the colours are taken of.
        bench.cupy.streams[7].put("broken", lambda: whole._memory.__setitem__((0, 0, 63, 63), np.inf))

    tiles.network.run = broken_in_one_pixel
    with pytest.raises(EngineError, match="not made of numbers"):
        bench.painted(gpu, slopes(), FACE)
    tiles.network.run = run
    assert bench.painted(gpu, slopes(), FACE) is not None


def test_poisson_is_refused(bench, tmp_path):
    path = networks.generator(tmp_path / "m.onnx", BY_NAME["uniface_256"], networks.Export())
    contract = BY_NAME["uniface_256"]
    generator = Generator("m", path, contract, find_roles("m", read_graph(path), contract))
    swapper = GpuNeuralSwapper(bench.easel, generator, [person()], options=NeuralOptions(colour="poisson"))
    with pytest.raises(EngineError, match="Poisson"):
        swapper.open(quiet)
