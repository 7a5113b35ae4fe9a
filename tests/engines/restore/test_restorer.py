"""Restorers of every contract: only what they change is seen, as far and as often as was asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.catalogue.catalogue import Catalogue
from engines.catalogue.store import Store
from engines.errors import EngineError, UsageError
from engines.open import Wanted, open_swapper
from engines.restore.choice import RestoreChoice, read_restore
from engines.restore.kinds import LARGE, SMALL, make_restorer
from engines.restore.restorer import Restorer
from engines.restore.ways import RARER
from engines.runtime.device import CPU
from engines.swap.neural.neural import NeuralOptions
from realtime.pace.rungs import HasRungs, ladder
from tests import networks
from tests.engines.swap.test_neural import (
    BY_NAME,
    FACE,
    emap_of,
    face_at,
    off,
    painted,
    slopes,
)

LOG: list[str] = []
KINDS = {
    "gfpgan": ({}, LARGE),
    "nhwc": ({"layout": "nhwc"}, LARGE),
    "half": ({"half": True}, LARGE),
    "codeformer": ({"weight": [1], "more": True}, LARGE),
    "codeformer with a bare number": ({"weight": []}, LARGE),
    "gpen 256": ({"side": 256}, SMALL),
}


def waves(side, length=0.4):
    """A smooth picture, (S, S, 3) 0…1."""
    y, x = np.mgrid[0:side, 0:side] / side
    turn = 2 * np.pi / length
    return np.stack([0.5 + 0.35 * np.sin(turn * x + c) * np.cos(turn * y - c) for c in range(3)], 2).astype(
        np.float32
    )


def flat(side, colour):
    return np.full((side, side, 3), colour, np.float32)


@pytest.fixture
def restored(opened, tmp_path):
    """A swapper whose generator paints a picture and whose restorer comes next; without one, for comparison."""

    def make(
        model="hyperswap_1a_256", picture=None, strength=1.0, every=1, contract=LARGE, colour="none",
        boost=1, without=False, network=None, **restorer,
    ):  # fmt: skip
        generator = BY_NAME[model]
        made = None
        if not without:
            path = networks.restorer(
                tmp_path / f"r{len(list(tmp_path.iterdir()))}.onnx", **(network or {}), **restorer
            )
            made = Restorer(path, contract, strength, every)
        shows = {"shows": "crop"} if picture is None else {"shows": "pattern", "pattern": picture}
        options = NeuralOptions(colour=colour, restorer=made, boost=boost)
        return opened(generator, emap=emap_of(generator), options=options, **shows)

    return make


def counted(swapper):
    """Every run of the restorer is put into this list."""
    runs = []
    network = swapper._options.restorer._network.network
    run = network.run
    network.run = lambda: (runs.append(1), run())
    return runs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["inswapper_128", "hyperswap_1a_256", "uniface_256"])
def test_one_that_changes_nothing_leaves_the_composite_as_it_was(restored, kind, model):
    options, contract = KINDS[kind]
    picture = waves(BY_NAME[model].side)
    frames = [
        painted(restored(model, picture, contract=contract, without=without, **options), slopes())
        for without in (True, False)
    ]
    assert off(*frames) <= 1
    assert off(frames[0], slopes()) > 50


@pytest.mark.parametrize("colour", ["match", "none"])
@pytest.mark.parametrize("boost", [1, 4])
@pytest.mark.parametrize("kind", ["gfpgan", "gpen 256"])
def test_nor_does_it_with_finer_crops_and_matched_colours(restored, kind, boost, colour):
    options, contract = KINDS[kind]
    made = {"picture": waves(128), "colour": colour, "boost": boost, "contract": contract, **options}
    frames = [painted(restored("inswapper_128", without=one, **made), slopes()) for one in (True, False)]
    assert off(*frames) <= 1


@pytest.mark.parametrize("at", [(10, 200), (240, 5), (470, 395)])
@pytest.mark.parametrize("width", [24, 190, 460])
def test_a_face_half_outside_is_restored_with_the_border_going_on(restored, at, width):
    image = np.full((400, 480, 3), (30, 120, 210), np.uint8)
    swapper = restored()
    frame = painted(swapper, image, face_at(*at, width, 0.4))
    assert off(frame, image) <= 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strength", [0.0, 0.25, 0.5, 1.0])
def test_its_picture_counts_as_far_as_was_asked(restored, kind, strength):
    """One colour on another: the order of channels, the range and the strength, in one number."""
    options, contract = KINDS[kind]
    new, better = np.array([0.2, 0.4, 0.8]), np.array([0.9, 0.6, 0.1])
    swapper = restored(
        picture=flat(256, new), strength=strength, contract=contract,
        network={"shows": "colour", "colour": better}, **options,
    )  # fmt: skip
    frame = painted(swapper, slopes())
    wanted = 255 * (new + strength * (better - new))
    inside = frame[190:210, 230:250].reshape(-1, 3)
    assert np.abs(inside - wanted).max() <= 1
    assert off(frame[:20], slopes()[:20]) == 0


def test_without_strength_nothing_runs_and_nothing_is_opened(restored):
    picture = waves(256)
    with_none = restored(picture=picture, strength=0.0, network={"shows": "brighter"})
    assert with_none._options.restorer._network is None and not with_none.gives_way
    assert off(painted(with_none, slopes()), painted(restored(picture=picture, without=True), slopes())) == 0


def test_codeformer_is_told_how_much_likeness_counts(restored):
    swapper = restored(picture=flat(256, 0.1), weight=[1], network={"shows": "weight"})
    frame = painted(swapper, slopes())
    np.testing.assert_allclose(frame[200, 240], 255 * 0.7, atol=1)


class TestEvery:
    @pytest.mark.parametrize("every", [1, 2, 3, 7])
    def test_it_runs_on_every_so_many_frames_of_a_face(self, restored, every):
        swapper = restored(picture=flat(256, 0.5), every=every, network={"shows": "brighter"})
        runs = counted(swapper)
        seen = [painted(swapper, slopes()) for _ in range(15)]
        assert len(runs) == -(-15 // every)
        # A face that does not change keeps what was restored.
        assert all(off(frame, seen[0]) == 0 for frame in seen)
        np.testing.assert_allclose(seen[0][200, 240], 255 * 0.6, atol=1)

    def test_each_face_has_a_turn_of_its_own(self, restored):
        swapper = restored(picture=flat(256, 0.5), every=4, network={"shows": "brighter"})
        runs = counted(swapper)
        for number in range(8):
            painted(swapper, slopes())
            if number >= 2:
                painted(swapper, slopes(), replace(FACE, track=2))
        assert len(runs) == 2 + 2

    def test_more_faces_than_are_remembered_are_all_restored(self, restored):
        swapper = restored(picture=flat(256, 0.5), every=30, network={"shows": "brighter"})
        runs = counted(swapper)
        for track in range(40):
            np.testing.assert_allclose(
                painted(swapper, slopes(), replace(FACE, track=track))[200, 240], 255 * 0.6, atol=1
            )
        assert len(runs) == 40 and len(swapper._options.restorer._tracks) <= 8

    def test_details_are_dropped_where_the_face_looks_different(self, restored):
        """A mouth that opens is not given the lips of a closed one; what stays as it was keeps its own."""
        swapper = restored(every=10, network={"shows": "brighter"})
        plain = np.full((400, 480, 3), 100, np.uint8)
        painted(swapper, plain)
        other = plain.copy()
        other[:, 240:] = 180
        frame = painted(swapper, other)
        np.testing.assert_allclose(frame[200, 190:225], 100 + 25.5, atol=1)
        np.testing.assert_allclose(frame[200, 256:290], 180, atol=1)

    def test_noise_of_a_camera_keeps_them(self, restored):
        swapper = restored(every=10, network={"shows": "brighter"})
        rng = np.random.default_rng(1)
        frames = [np.rint(100 + rng.normal(0, 3, (400, 480, 3))).astype(np.uint8) for _ in range(2)]
        painted(swapper, frames[0])
        seen = painted(swapper, frames[1])[180:220, 220:260].mean()
        assert abs(seen - frames[1][180:220, 220:260].mean() - 25.5) < 1


class TestGivesWay:
    def test_first_it_runs_more_rarely_then_not_at_all_and_all_of_it_comes_back(self, restored):
        picture = waves(256)
        swapper = restored(picture=picture, network={"shows": "brighter"})
        bare = painted(restored(picture=picture, without=True), slopes())
        assert isinstance(swapper, HasRungs)
        rungs = ladder(_Tracker(), 468, 30, [swapper])
        rarely, never = rungs[:2]
        assert ["restorer" in rung.name for rung in rungs[:3]] == [True, True, False]
        assert all(0 < rung.saves < 1 for rung in (rarely, never))
        runs = counted(swapper)

        def frames(count):
            before = len(runs)
            last = [painted(swapper, slopes()) for _ in range(count)][-1]
            return len(runs) - before, off(last, bare) > 20

        assert frames(4) == (4, True)
        rarely.engage()
        assert frames(2 * RARER) == (2, True)
        never.engage()
        assert frames(5) == (0, False)
        never.release()
        rarely.release()
        assert frames(3) == (3, True)

    def test_without_a_restorer_nothing_of_it_gives_way(self, restored):
        assert list(restored(without=True).gives_way) == []


class _Tracker:
    attention = None


class TestHostile:
    def test_what_is_no_number_is_not_shown(self, restored):
        swapper = restored(picture=flat(256, 0.5), network={"shows": "nothing"})
        assert painted(swapper, slopes()) is None
        assert painted(swapper, slopes()) is None

    def test_what_is_no_number_is_not_kept_either(self, restored):
        swapper = restored(picture=flat(256, 0.5), every=30, network={"shows": "brighter"})
        network = swapper._options.restorer._network.network
        run = network.run

        def broken():
            run()
            network.outputs[0][0, 1, 200, 200] = np.inf

        network.run = broken
        assert painted(swapper, slopes()) is None
        network.run = run
        np.testing.assert_allclose(painted(swapper, slopes())[200, 240], 255 * 0.6, atol=1)

    def test_a_failure_leaves_nothing_behind(self, restored):
        swapper = restored(picture=flat(256, 0.5), every=30, network={"shows": "brighter"})
        network = swapper._options.restorer._network.network
        run = network.run

        def fails():
            raise EngineError("no memory")

        network.run = fails
        with pytest.raises(EngineError, match="no memory"):
            painted(swapper, slopes())
        network.run = run
        np.testing.assert_allclose(painted(swapper, slopes())[200, 240], 255 * 0.6, atol=1)

    @pytest.mark.parametrize(
        "wrong",
        [{"side": 256}, {"side": 384}, {"side": 512, "out": 1024}],
        ids=["another model's side", "nobody's", "larger out than in"],
    )
    def test_wrong_files_are_told_what_was_found_and_what_was_expected(self, tmp_path, wrong):
        path = networks.restorer(tmp_path / "r.onnx", **wrong)
        restorer = Restorer(path, LARGE)
        with pytest.raises(EngineError, match=f"r is not a restorer of faces.*1×3×{wrong['side']}") as caught:
            restorer.open(LOG.append, "arcface_128", 128)
        assert "512 pixels" in str(caught.value) and caught.value.fix
        restorer.close()

    def test_so_are_networks_of_another_kind(self, tmp_path):
        for path in (
            networks.occluder(tmp_path / "a.onnx", "blue"),
            networks.embedder(tmp_path / "b.onnx"),
            networks.converter(tmp_path / "c.onnx", np.eye(512)),
        ):
            with pytest.raises(EngineError, match="is not a restorer of faces") as caught:
                Restorer(path, (LARGE, SMALL)).open(LOG.append, "arcface_128", 128)
            assert "expected" in str(caught.value)

    def test_before_it_is_open_it_says_so(self, tmp_path):
        restorer = Restorer(tmp_path / "r.onnx", LARGE)
        with pytest.raises(EngineError, match="before it was opened"):
            restorer.bake(slopes(), FACE, None, None, None, None, None)


def test_where_it_runs_and_what_it_takes_is_said(opened, tmp_path):
    contract = BY_NAME["hyperswap_1a_256"]
    path = networks.restorer(tmp_path / "my_gfpgan.onnx")
    swapper = opened(contract, options=NeuralOptions(restorer=Restorer(path, LARGE, every=2), fps=1e6))
    assert set(swapper.nodes) >= {"my_gfpgan"} and sum(swapper.nodes["my_gfpgan"].values()) > 0
    assert swapper.advice and swapper._options.restorer.ms > 0
    swapper.close()
    swapper.close()


class TestChoice:
    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("gfpgan_1.4", RestoreChoice("gfpgan_1.4")),
            ("gfpgan_1.4:0.5", RestoreChoice("gfpgan_1.4", 0.5)),
            ("codeformer:0.8:3", RestoreChoice("codeformer", 0.8, 3)),
            ("C:\\models\\g.onnx:1:30", RestoreChoice("C:\\models\\g.onnx", 1.0, 30)),
            ("C:\\models\\g.onnx", RestoreChoice("C:\\models\\g.onnx")),
            ("a:b.onnx:0", RestoreChoice("a:b.onnx", 0.0)),
        ],
    )
    def test_it_is_read(self, text, wanted):
        assert read_restore(text) == wanted

    @pytest.mark.parametrize(
        "text", ["", ":0.5", "g:1.5", "g:-1", "g:1:0", "g:1:31", "g:1:1.5", "g:0.5:2:", "g:9:2"]
    )
    def test_anything_else_is_not(self, text, tmp_path):
        try:
            choice = read_restore(text)
        except ValueError as error:
            assert str(error)
            return
        # What is no number may be part of a name; then there is no such model.
        with pytest.raises(UsageError):
            make_restorer(choice, Store(tmp_path, Catalogue.load()), CPU)

    def test_a_wrong_file_is_told_before_anything_that_takes_long(self, tmp_path):
        generator, wrong = networks.dfm(tmp_path / "a.dfm"), networks.embedder(tmp_path / "w.onnx")
        wanted = Wanted(str(generator), models=tmp_path, restore=RestoreChoice(str(wrong)))
        swapper, said = open_swapper(wanted, []), []
        with pytest.raises(EngineError, match="w is not a restorer"):
            swapper.open(said.append)
        swapper.close()
        assert said and not any("warming up" in line for line in said)

    def test_a_name_or_a_file_is_found_and_its_size_tells_its_kind(self, tmp_path, restored):
        store = Store(tmp_path / "models", Catalogue.load())
        store.folder.mkdir()
        networks.restorer(store.folder / "gfpgan_1.4_mine.onnx")
        small = networks.restorer(tmp_path / "any.onnx", side=256)
        for named in ("gfpgan_1.4", str(small)):
            restorer = make_restorer(RestoreChoice(named), store, CPU)
            restorer.open(LOG.append, "arcface_128", 128)
            restorer.close()
        with pytest.raises(EngineError, match="codeformer") as caught:
            make_restorer(RestoreChoice("codeformer"), store, CPU)
        assert "models pull codeformer" in caught.value.fix
        with pytest.raises(UsageError, match="not restore"):
            make_restorer(RestoreChoice("xseg_1"), store, CPU)
        with pytest.raises(UsageError):
            make_restorer(RestoreChoice(str(tmp_path / "nowhere.onnx")), store, CPU)
