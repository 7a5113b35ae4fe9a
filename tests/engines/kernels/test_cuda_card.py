"""The card itself: what it refuses, what it counts, and recipes that run with or without a CUDA graph."""

from __future__ import annotations

import builtins
import sys
import types

import cv2
import numpy as np
import pytest

from engines.errors import EngineError
from engines.kernels.gpu import card as gpu
from engines.kernels.gpu.card import Card, load_cupy
from engines.kernels.gpu.faces import regions_of
from engines.kernels.warp import inverse
from tests.engines.kernels import cuda_host
from tests.engines.kernels.cuda_host import needs_compiler
from tests.engines.kernels.cuda_stand_in import Desk, StandIn


class Refuses:
    """A CuPy that fails where it is told to."""

    def __init__(self, count=1, error=None, module=None):
        def devices():
            if error:
                raise error
            return count

        def compiled(**_):
            raise module or AssertionError("nothing was to be compiled")

        self.cuda = types.SimpleNamespace(
            runtime=types.SimpleNamespace(getDeviceCount=devices),
            Device=lambda index: StandIn().cuda.Device(index),
            Stream=StandIn().cuda.Stream,
        )
        self.RawModule = compiled


def test_without_cupy_the_sentence_says_what_to_type(monkeypatch):
    really = builtins.__import__

    def without(name, *rest):
        if name == "cupy":
            raise ImportError("No module named 'cupy'")
        return really(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EngineError, match=r"cannot be imported.*pip install 'doppelcam\[gpu\]'"):
        Card()


@pytest.mark.parametrize(
    ("cupy", "words"),
    [
        (
            Refuses(error=RuntimeError("cudaErrorInsufficientDriver")),
            "finds no GPU: cudaErrorInsufficientDriver",
        ),
        (Refuses(count=0), "finds no GPU on this machine"),
    ],
)
def test_without_a_card_the_sentence_says_so(monkeypatch, cupy, words):
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(EngineError, match=words):
        load_cupy()


def test_a_card_that_is_not_there_and_kernels_that_do_not_compile_are_told():
    for index in (1, -1, 99):
        with pytest.raises(EngineError, match=f"no GPU number {index}: this machine has 1"):
            Card(index, Refuses())
    with pytest.raises(EngineError, match="cannot be compiled: nvrtc: error"):
        Card(0, Refuses(module=ValueError("nvrtc: error")))


@needs_compiler
def test_every_kernel_of_the_text_is_known_and_the_other_way_round():
    kernels = {name: getattr(cuda_host.build(), f"launch_{name}") for name in gpu.KERNELS}
    assert len(kernels) == len(set(gpu.KERNELS))
    text = gpu.source()
    # Each is written once, or comes out of a macro that makes two.
    written = text.count('extern "C" __global__ void')
    macros = text.count('extern "C" __global__ void NAME(') + text.count('extern "C" __global__ void BAKE(')
    macros += text.count('extern "C" __global__ void PASTE(')
    assert written + macros == len(gpu.KERNELS)
    assert "#include" not in text


@needs_compiler
def test_a_launch_with_a_wrong_argument_is_found():
    desk = Desk()
    cells, image = desk.card.empty((2, 2, 3), np.float32), desk.card.empty((4, 4, 3), np.uint8)
    with pytest.raises(AssertionError, match="takes"):
        desk.card.launch(
            "bgr_to_i420", (1, 1, 1), (32, 8, 1), image, np.int32(4), np.int32(4), np.int64(12), image
        )
    with pytest.raises(AssertionError, match="takes"):
        desk.card.launch("bgr_to_i420", (1, 1, 1), (32, 8, 1), cells, *map(np.int32, (4, 4, 12)), image)


@needs_compiler
def test_copies_are_checked_and_counted():
    desk = Desk()
    card, counts = desk.card, desk.cupy.counts
    array = card.array(np.arange(6, dtype=np.int32).reshape(2, 3))
    other = card.empty((2, 3), np.int32)
    card.copy(array, other)
    host = card.pinned((2, 3), np.int32)
    card.download(other, host)
    assert host.tolist() == [[0, 1, 2], [3, 4, 5]]
    card.clear(other)
    card.download(other, host)
    assert (host == 0).all()
    assert (counts["uploads"], counts["downloads"], counts["copies"], counts["clears"]) == (1, 2, 1, 1)
    for wrong in (np.zeros((2, 3), np.int64), np.zeros((3, 2), np.int32), np.zeros((2, 6), np.int32)[:, ::2]):
        with pytest.raises(ValueError, match="copied"):
            card.upload(wrong, other)
        with pytest.raises(ValueError, match="copied"):
            card.download(other, wrong)
    with pytest.raises(ValueError, match="cleared"):
        card.clear(card.empty((4, 4), np.int32)[:, 1:2])
    assert card.name == "stand-in"


@needs_compiler
def test_what_the_driver_says_becomes_our_error():
    desk = Desk()

    def fail(error):
        def step():
            raise error

        return step

    with pytest.raises(EngineError, match="The GPU failed: cudaErrorIllegalAddress"):
        desk.card.do(fail(RuntimeError("cudaErrorIllegalAddress")))
    with pytest.raises(EngineError, match="not enough memory"):
        desk.card.do(fail(MemoryError("out of memory")))
    recipe = desk.card.record(lambda: desk.card.do(fail(RuntimeError("cudaErrorAssert"))))
    with pytest.raises(EngineError, match="cudaErrorAssert"):
        recipe.run()
    with pytest.raises(EngineError, match="inside another"):
        desk.card.record(lambda: desk.card.record(lambda: None))
    # And nothing is left half written.
    assert len(desk.card.record(lambda: None)) == 0


class Frame:
    """Everything that happens to a frame between camera and virtual camera, written down once."""

    def __init__(self, desk, size=(96, 64), faces=2, side=16):
        self.desk, card = desk, desk.card
        width, height = size
        self.camera = card.pinned((height, width, 3), np.uint8)
        self.sink = card.pinned((height * 3 // 2, width), np.uint8)
        # The only other traffic: all small numbers of a frame in one piece.
        self.small = card.pinned((faces * 14,), np.float64)
        image, picture = card.empty(self.camera.shape, np.uint8), card.empty(self.sink.shape, np.uint8)
        numbers = card.empty(self.small.shape, np.float64)
        backs, affines = (numbers[at : at + faces * 6].reshape(faces, 2, 3) for at in (0, faces * 6))
        # Floats of the host, whole numbers for the card: two in each.
        self.regions = self.small[faces * 12 :].view(np.int32).reshape(faces, 4)
        regions = card.empty((faces, 4), np.int32)
        net_in, net_out = (card.empty((faces, 3, side, side), np.float16) for _ in range(2))
        masks = card.array(np.ones((faces, side, side), np.float32))
        match = card.array(np.tile(np.float32([[255] * 3, [0] * 3]), (faces, 1, 1)))
        faults = card.array(np.zeros(faces, np.int32))
        textures = card.empty((faces, side, side, 4), np.uint8)
        self.faces, self.side, self.size = faces, side, size

        def job():
            card.upload(self.camera, image)
            card.upload(self.small, numbers)
            card.upload(self.regions, regions)
            pictures = net_in.transpose(0, 2, 3, 1)[..., ::-1]
            desk.faces.crop(image, backs, pictures, (1 / 255,) * 3, (0.0,) * 3)
            card.copy(net_in, net_out)
            made = net_out.transpose(0, 2, 3, 1)[..., ::-1]
            desk.faces.bake(made, masks, 1, match, faults, textures)
            desk.faces.paste(image, textures, affines, regions)
            desk.pictures.to_i420(image, picture)
            card.download(picture, self.sink)

        self.recipe = card.record(job)

    def place(self, affines):
        count = self.faces * 6
        self.small[:count] = np.concatenate([inverse(affine).ravel() for affine in affines])
        self.small[count : 2 * count] = np.concatenate([affine.ravel() for affine in affines])
        self.regions[:] = regions_of(np.stack(affines), (self.side, self.side), self.size)


def affines_at(x):
    return [
        np.array([[0.5, 0.05, -0.5 * x], [-0.05, 0.5, -0.5 * x]]),
        np.array([[0.8, 0, -20.0], [0, 0.8, -20.0]]),
    ]


@needs_compiler
@pytest.mark.parametrize("refuses", [False, True])
def test_a_frame_goes_up_once_and_comes_down_once_and_takes_no_memory(refuses):
    desk = Desk()
    desk.cupy.refuses_capture = refuses
    frame = Frame(desk)
    smooth = cv2.GaussianBlur(np.random.default_rng(0).integers(0, 256, (64, 96, 3), np.uint8), (0, 0), 4)
    pictures = []
    reason = ""
    for number in range(4):
        frame.camera[:] = np.roll(smooth, 5 * number, axis=1)
        frame.place(affines_at(3 * number))
        if number == 1:
            reason = frame.recipe.capture()
        before, taken = desk.cupy.counts.copy(), desk.cupy.bytes.copy()
        frame.recipe.run()
        desk.card.synchronize()
        spent, carried = desk.cupy.counts - before, desk.cupy.bytes - taken
        assert spent["allocations"] == spent["pinned"] == spent["compiled"] == 0
        assert spent["uploads"] == 3
        assert carried["uploads"] - frame.camera.nbytes <= 512
        assert (spent["downloads"], carried["downloads"]) == (1, frame.sink.nbytes)
        assert spent["graphs"] == (number >= 1 and not refuses)
        assert spent["waits"] == 1
        pictures.append(frame.sink.copy())
        # What was cropped was pasted where it had been: the frame as it was, to a few levels.
        expected = cv2.cvtColor(frame.camera, cv2.COLOR_BGR2YUV_I420)
        assert np.abs(frame.sink.astype(int) - expected).max() <= 6
        assert (frame.sink != expected).any()
    assert frame.recipe.captured is not refuses
    assert ("Unsupported" in reason) is refuses
    assert not (pictures[0] == pictures[1]).all()


@needs_compiler
def test_with_and_without_a_graph_every_byte_is_the_same():
    sinks = []
    for captured in (False, True):
        desk = Desk()
        frame = Frame(desk)
        frame.camera[:] = np.random.default_rng(1).integers(0, 256, frame.camera.shape, np.uint8)
        frame.place(affines_at(4))
        if captured:
            assert not frame.recipe.capture()
        frame.recipe.run()
        desk.card.synchronize()
        sinks.append(frame.sink.tobytes())
    assert sinks[0] == sinks[1]


@needs_compiler
def test_a_step_that_fails_while_it_is_captured_leaves_the_recipe_as_it_was():
    desk = Desk()
    mistakes = [RuntimeError("cudaErrorStreamCaptureInvalidated")]
    ran = []

    def step():
        if mistakes:
            raise mistakes.pop()
        ran.append(1)

    recipe = desk.card.record(lambda: desk.card.do(step))
    assert "Invalidated" in recipe.capture()
    assert desk.cupy.captured is None
    recipe.run()
    assert ran
    assert not recipe.captured
