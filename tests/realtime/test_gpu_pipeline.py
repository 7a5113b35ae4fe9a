"""The pipeline on a GPU, or what stands in for one: one picture up, one down, none allocated; and never the real face.

The stand-in does what is put on a stream as late as CUDA might, when somebody waits for it: a wait that is missing
shows as a wrong picture.
"""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import replace

import cv2
import numpy as np
import pytest

from engines.errors import EngineError
from engines.kernels.canvas import HostEasel
from engines.kernels.gpu.canvas import GpuEasel
from engines.kernels.gpu.card import Card
from engines.open import easel_for
from engines.runtime.device import CPU, Device
from engines.swap.mesh.gpu import GpuMeshSwapper
from engines.swap.mesh.mesh import Looks, MeshSwapper
from realtime.clock import StopFlag
from realtime.frame import Frame, FramePool, Kind
from realtime.pace.budget import Meter
from realtime.pace.repeats import Repeats
from realtime.pipeline import Pipeline
from realtime.session import Session
from realtime.shown.guard import Guard
from realtime.shown.label import Label
from realtime.shown.veil import Veil
from realtime.sinks.i420 import I420
from tests.engines.kernels.cuda_host import needs_compiler
from tests.engines.kernels.cuda_stand_in import StandIn
from tests.engines.scenes import face_in, placed, source
from tests.realtime.fakes import MS, SECOND, FakeSource, FakeTracker, SoloClock, VirtualClock

pytestmark = needs_compiler
quiet = lambda line: None  # noqa: E731
SIZE = (480, 320)
PICTURE = SIZE[0] * SIZE[1] * 3
DOWN = PICTURE // 2 + 256


@pytest.fixture(scope="module")
def scene():
    image = placed("hopper", SIZE, 130, (240, 160), 0.1)
    return image, face_in(image)


class Bench:
    """A pipeline on a stand-in, and the same on the CPU; frames come from a pool, as a camera's do."""

    def __init__(self, scene, answer=None, label=True, repeats=False, **more):
        self.image, face = scene
        answer = answer or (lambda n: [face])
        self.cupy = StandIn(lazy=True)
        self.easel = GpuEasel(lambda: Card(cupy=self.cupy))
        self.clock, self.pool, self.n = SoloClock(), FramePool(SIZE), 0
        self.trackers = FakeTracker(answer), FakeTracker(answer)
        meshes = [MeshSwapper(source("astronaut"), looks=Looks(eyes="live")) for _ in range(2)]
        swappers = GpuMeshSwapper(meshes[0], self.easel), meshes[1]
        self.meter = Meter(0)
        self.gpu, self.cpu = (
            Pipeline(
                tracker, swapper, meter, self.clock, Label() if label else None, easel=easel,
                repeats=Repeats() if repeats else None, **more,
            )
            for tracker, swapper, meter, easel in zip(
                self.trackers, swappers, (self.meter, Meter(0)), (self.easel, None), strict=True
            )
        )  # fmt: skip
        self.gpu.open(quiet)
        self.cpu.open(quiet)

    def frame(self, image=None):
        lease = self.pool.lease()
        np.copyto(lease.buffer, self.image if image is None else image)
        self.n += 1
        return Frame(lease.buffer, self.n, self.n * 33 * MS, lease=lease)

    def sent(self, image=None):
        return self.gpu.send(self.frame(image))

    def ran(self, image=None):
        return self.gpu.process(self.sent(image))

    def expected(self, image=None):
        picture = (self.image if image is None else image).copy()
        outcome = self.cpu.process(Frame(picture, self.n, self.n * 33 * MS))
        return cv2.cvtColor(outcome.frame.image, cv2.COLOR_BGR2YUV_I420)


@pytest.fixture
def bench_of(scene):
    made = []

    def make(**more):
        made.append(Bench(scene, **more))
        return made[-1]

    yield make
    for bench in made:
        bench.gpu.close()
        bench.cpu.close()


def off(one, other):
    return int(np.abs(one.astype(int) - other).max())


def test_one_up_one_down_none_allocated_and_the_picture_of_the_cpu(bench_of):
    bench = bench_of()
    for _ in range(3):
        # A sink shows the last one while the next is made.
        outcome = bench.ran()
        assert off(outcome.frame.i420, bench.expected()) <= 2
    for shift in (3, 7, 0):
        image = np.roll(bench.image, shift, 0)
        before, at = bench.cupy.counts.copy(), len(bench.cupy.sizes)
        outcome = bench.ran(image)
        spent, sizes = bench.cupy.counts - before, bench.cupy.sizes[at:]
        assert outcome.trusted
        assert off(outcome.frame.i420, bench.expected(image)) <= 2
        ups = [size for what, size in sizes if what == "uploads"]
        assert ups[0] == PICTURE
        assert sum(ups[1:]) < 48_000
        assert [size for what, size in sizes if what == "downloads"] == [DOWN]
        assert spent["allocations"] == spent["pinned"] == spent["locked"] == spent["events"] == 0
        assert spent["waits"] == 1


def test_the_order_on_the_streams(bench_of):
    bench = bench_of()
    for _ in range(2):
        bench.ran()
    bench.cupy.log.clear()
    bench.ran()
    log = bench.cupy.log
    (up,) = [i for i, step in enumerate(log) if step == ("uploads", 8)]
    # The place is free before the picture goes there; it is there before anything looks at it.
    assert log[up - 1][0][0] == "after"
    assert log[up - 1][1] == 8
    (kind, there), stream = log[up + 1]
    assert (kind, stream) == ("mark", 8)
    assert log[up + 2] == (("after", there), 7)
    assert all(stream == 7 for _, stream in log[up + 2 : -1])
    assert "bgr_to_i420" in [what for what, _ in log[up + 3 :]]
    down = log.index(("downloads", 7))
    assert log[down - 1] == ("bgr_to_i420", 7)
    # Marked as left, marked as done, and that is waited for before anybody sees it.
    (left, _), (done, number) = log[down + 1][0], log[down + 2][0]
    assert left == done == "mark"
    assert log[down + 3 :] == [("waits for", number)]


def test_the_next_picture_is_sent_while_this_one_is_worked_on_and_dropped_ones_cost_only_that(bench_of):
    bench = bench_of(label=False)
    pictures = [np.roll(bench.image, 2 * n, 0) for n in range(6)]
    first = bench.sent(pictures[0])
    for n in range(1, 6):
        # Two newer ones come while this one is worked on; the mailbox keeps the newest.
        dropped, following = bench.sent(np.zeros_like(bench.image)), bench.sent(pictures[n])
        del dropped
        outcome = bench.gpu.process(first)
        assert off(outcome.frame.i420, bench.expected(pictures[n - 1])) <= 2
        first = following
    assert bench.easel.work._plant.slots.allocated <= 4
    launched = bench.cupy.counts["launches"]
    for _ in range(20):
        bench.sent()
    assert bench.cupy.counts["launches"] == launched
    assert bench.easel.work._plant.slots.allocated <= 4


def test_one_and_four_faces_bystanders_and_odd_places(bench_of, scene):
    _, face = scene

    def moved(track, dx, dy, factor=1.0):
        points = face.points * np.float32(factor)
        points[:, :2] += np.float32([dx, dy])
        return replace(face, track=track, points=points)

    four = [moved(1, -120, -40), moved(2, 100, 30), moved(3, 180, -150), moved(4, -300, 200)]
    for faces, others in ((four, ()), ([moved(1, 0.4, 0.7)], (moved(9, 150, 60), moved(10, -230, 140)))):
        bench = bench_of(answer=lambda n, faces=faces: list(faces))
        for tracker in bench.trackers:
            tracker.others = others
        outcome = bench.ran()
        assert outcome.trusted
        assert outcome.faces == len(faces)
        # A mean of a cell may fall to either side, and so may what is drawn of it.
        assert off(outcome.frame.i420, bench.expected()) <= 2
        assert bench.ran().trusted


def test_sinks_take_what_there_is(bench_of):
    bench = bench_of()
    frame = bench.ran().frame.sealed(Kind.SWAPPED)
    assert frame.size == SIZE
    assert not frame.i420.flags.writeable
    assert I420(SIZE).of(frame) is frame.i420
    assert frame.image.shape == (SIZE[1], SIZE[0], 3)
    assert not frame.image.flags.writeable
    # Made once, and the same as if it had been converted here.
    assert frame.image.ctypes.data == frame.image.ctypes.data
    assert (frame.image == cv2.cvtColor(frame.i420, cv2.COLOR_YUV2BGR_I420)).all()
    # Colours of two by two pixels are one.
    assert np.abs(frame.sample(60, 40).astype(int) - frame.image[::8, ::8]).max() <= 2
    assert frame.sent is None
    assert frame.lease is None
    with pytest.raises(ValueError, match="for a sink"):
        I420((64, 48)).of(frame)
    # Of the picture as it was captured nothing is left in it.
    live = cv2.cvtColor(bench.image, cv2.COLOR_BGR2YUV_I420)
    face = (slice(110, 200), slice(190, 290))
    assert np.abs(frame.i420[face].astype(int) - live[face]).mean() > 8


def test_a_veil_over_a_picture_that_came_down_is_a_veil(bench_of):
    bench = bench_of(label=False)
    frame = bench.ran().frame
    veiled = Veil(caption=()).show(frame, 0)
    plain = Veil(caption=()).show(Frame(frame.image, 0, 0), 0)
    assert veiled.kind is Kind.VEILED
    assert np.abs(veiled.image.astype(int) - plain.image).max() <= 3
    guard = Guard()
    guard.curtain.drawn = True
    assert guard.judge(bench.ran(), 0).kind is Kind.VEILED


def test_a_repeated_frame_is_answered_with_the_picture_that_came_down(bench_of):
    bench = bench_of(repeats=True)
    first = bench.ran()
    before = len(bench.cupy.sizes)
    again = bench.ran()
    assert again.frame.picture is first.frame.picture
    assert [size for _, size in bench.cupy.sizes[before:]] in ([], [PICTURE])


def test_without_a_face_nothing_comes_down(bench_of):
    bench = bench_of(answer=lambda n: [])
    before = bench.cupy.counts["downloads"]
    outcome = bench.ran()
    assert not outcome.trusted
    assert bench.cupy.counts["downloads"] == before
    assert outcome.frame.kind is Kind.LIVE
    assert Guard().judge(outcome, 0).kind is Kind.VEILED


@pytest.mark.parametrize("what", ["uploads", "mesh_shade", "bgr_to_i420", "downloads", "waits", "clears"])
@pytest.mark.parametrize("fault", [RuntimeError("cudaErrorLaunchFailure"), MemoryError("out of memory")])
def test_whatever_the_card_refuses_is_not_trusted_and_the_next_frame_is(bench_of, what, fault):
    bench = bench_of()
    assert bench.ran().trusted
    bench.cupy.fault, bench.cupy.faulty = fault, (what,)
    for _ in range(3):
        outcome = bench.ran()
        assert not outcome.trusted
        assert isinstance(outcome.error, EngineError)
        shown = Guard().judge(outcome, 0)
        assert shown.kind is Kind.VEILED
    bench.cupy.fault = None
    outcome = bench.ran()
    assert outcome.trusted
    assert off(outcome.frame.i420, bench.expected()) <= 2


def test_a_picture_that_failed_half_way_does_not_spoil_the_one_that_takes_its_place(bench_of):
    bench = bench_of(label=False)
    bench.ran()
    bench.expected()
    for _ in range(6):
        bench.cupy.fault, bench.cupy.faulty = RuntimeError("cudaError"), ("bgr_to_i420",)
        frame = bench.sent()
        assert not bench.gpu.process(frame).trusted
        bench.expected()
        del frame
        bench.cupy.fault = None
        assert off(bench.ran().frame.i420, bench.expected()) <= 2


def test_memory_stays_flat_over_a_thousand_faces_and_closing_frees_all(bench_of):
    bench = bench_of()
    made = GpuMeshSwapper(MeshSwapper(source("hopper")), bench.easel)
    made.open(quiet)
    texture = made._mesh.texture
    made.close()

    class Quick(GpuMeshSwapper):
        """Unwrapping a photo takes long, and has nothing to do with the card."""

        def open(self, progress):
            self._mesh.open = lambda progress: setattr(self._mesh, "_texture", texture)
            super().open(progress)

        def swap(self, image, face):
            return layers[0]

    layers = [bench.gpu.swapper.swap(bench.easel.begin(bench.image, None), bench.trackers[0].answer(0)[0])]
    held, here = [], []
    for n in range(1000):
        swapper = Quick(MeshSwapper(source("hopper")), bench.easel)
        swapper.open(quiet)
        bench.gpu.replace_swapper(swapper).close()
        if n % 100 == 0:
            assert bench.ran().trusted
            gc.collect()
            held.append(bench.cupy.held)
            here.append(bench.cupy.held_here)
    assert len(set(held[1:])) == 1
    assert len(set(here[1:])) == 1
    bench.gpu.close()
    bench.gpu.close()
    bench.gpu.replace_swapper(bench.cpu.swapper)
    layers.clear()
    del swapper, made
    bench.gpu = bench.cpu
    gc.collect()
    assert bench.cupy.held == bench.cupy.held_here == 0
    assert bench.cupy.counts["released"] == 2
    assert not bench.cupy.locked


def test_page_locking_that_is_refused_costs_time_and_nothing_else(bench_of):
    bench = bench_of()
    bench.cupy.refuses_lock = True
    for _ in range(3):
        assert off(bench.ran().frame.i420, bench.expected()) <= 2


def test_times_come_from_the_card(bench_of):
    bench = bench_of()
    bench.ran()
    stages = bench.meter.report(1).stages
    assert stages["swap"].spread.n == stages["blend"].spread.n == 1
    # The stand-in's clock goes on by a millisecond with every event that is passed.
    assert stages["swap"].spread.max == stages["blend"].spread.max == 1


def test_a_card_that_is_lost_in_mid_run_ends_the_session_after_the_veil(scene):
    bench = Bench(scene, label=False)
    clock = VirtualClock()
    stop = StopFlag(clock)
    camera = FakeSource(clock, stop, size=SIZE)
    camera._picture = bench.image
    kinds = Counter()
    order = []

    class Sink:
        name = "sink"

        def open(self, size, fps):
            pass

        def send(self, frame):
            kinds[frame.kind] += 1
            order.append(frame.kind)
            if len(order) == 20:
                bench.cupy.fault = RuntimeError("cudaErrorDeviceUnavailable")

        def close(self):
            pass

    pipeline = Pipeline(bench.trackers[0], bench.gpu.swapper, Meter(0), clock, None, easel=bench.easel)
    session = Session(camera, pipeline, Guard(), [Sink()], Meter(0), clock, 30.0, stop, progress=quiet)
    session.start()
    try:
        clock.run_until(4 * SECOND)
    finally:
        session.stop()
    with pytest.raises(EngineError, match="30 frames in a row") as caught:
        session.check()
    assert caught.value.exit_code == 4
    assert kinds[Kind.SWAPPED] >= 10
    assert kinds[Kind.LIVE] == kinds[Kind.BARE] == 0
    after = order[len(order) - 1 - order[::-1].index(Kind.SWAPPED) :]
    assert Kind.VEILED in after
    assert after[-1] is Kind.SLATE
    bench.cupy.fault = None
    bench.cpu.close()


def test_what_pictures_are_painted_on_follows_the_device():
    def broken():
        raise EngineError("CuPy is not there.", "Install it.")

    said = []
    assert isinstance(easel_for(CPU, lambda: 0), HostEasel)
    assert isinstance(easel_for(Device("cuda:0"), lambda: 0, StandIn), GpuEasel)
    with pytest.raises(EngineError, match="CuPy is not there"):
        easel_for(Device("cuda:0"), lambda: 0, broken)
    assert isinstance(
        easel_for(Device("cuda:0", may_fall_back=True), lambda: 0, broken, said.append), HostEasel
    )
    assert "CuPy is not there" in said[0]
    with pytest.raises(EngineError, match="before it was opened"):
        GpuEasel(lambda: Card(cupy=StandIn())).begin(np.zeros((4, 4, 3), np.uint8), None)
    with pytest.raises(EngineError, match="was to be painted on the CPU"):
        HostEasel().begin(np.zeros((4, 4, 3), np.uint8), object())
