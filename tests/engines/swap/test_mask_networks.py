"""Masks that networks and landmarks make: what they hide stays live, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

from engines.analysis.align import crop_affine
from engines.analysis.topology import LIPS_INNER, LIPS_OUTER, RIGHT_EYE_RINGS
from engines.catalogue.catalogue import Catalogue
from engines.catalogue.store import Store
from engines.errors import EngineError, UsageError
from engines.runtime.device import CPU
from engines.swap.masks.choice import REGIONS, USUAL_REGIONS, MaskChoice, read_masks
from engines.swap.masks.live_parts import LivePart
from engines.swap.masks.masks import Ellipse, Oval
from engines.swap.masks.open import make_masks
from engines.swap.masks.seen import Occluder, Regions
from engines.swap.neural.neural import NeuralOptions
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

SIDE = 256
PHASES: list[str] = []


def mask_of(source, crop, face=FACE, affine=None):
    """What a source writes for a crop."""
    source.open(PHASES.append)
    try:
        out = np.full(crop.shape[:2], -1, np.float32)
        kept = crop.copy()
        source.write(crop, face, np.eye(2, 3, dtype=np.float32) if affine is None else affine, out)
        assert (crop == kept).all() and crop.flags.c_contiguous
        return out
    finally:
        source.close()
        source.close()


def halves(side, left, right):
    """A crop whose halves have two colours, B, G, R."""
    crop = np.empty((side, side, 3), np.float32)
    crop[:, : side // 2], crop[:, side // 2 :] = left, right
    return crop


class TestOccluder:
    @pytest.mark.parametrize("layout", ["nhwc", "nchw"])
    @pytest.mark.parametrize("side", [128, 256, 512])
    def test_blue_is_blue_in_either_layout(self, tmp_path, layout, side):
        """Blue is first where channels are last, and last where they are first."""
        path = networks.occluder(tmp_path / "x.onnx", "blue", layout)
        crop = halves(side, (255, 0, 0), (0, 0, 255))
        got = mask_of(Occluder(path), crop)
        near = side // 16
        assert got[:, : side // 2 - near].min() > 0.99 and got[:, side // 2 + near :].max() < 0.01
        assert got.min() >= 0 and got.max() <= 1

    @pytest.mark.parametrize("layout", ["nhwc", "nchw"])
    def test_it_is_fed_nought_to_one(self, tmp_path, layout):
        """Six tenths of one are a fifth of what is sure."""
        path = networks.occluder(tmp_path / "x.onnx", "blue", layout)
        got = mask_of(Occluder(path), np.full((128, 128, 3), 0.6 * 255, np.float32))
        np.testing.assert_allclose(got, 0.2, atol=1e-3)

    @pytest.mark.parametrize("layout", ["nhwc", "nchw"])
    @pytest.mark.parametrize("model", ["inswapper_128", "hyperswap_1a_256", "uniface_256"])
    def test_a_half_that_is_hidden_stays_live_and_the_other_does_not(
        self,
        opened,
        tmp_path,
        layout,
        model,
    ):
        contract = BY_NAME[model]
        shown = np.zeros((SIDE, SIDE), np.float32)
        shown[:, : SIDE // 2] = 1
        path = networks.occluder(tmp_path / "x.onnx", shown, layout)
        options = NeuralOptions(colour="none", masks=(Occluder(path),))
        pattern = np.ones((contract.side, contract.side, 3), np.float32)
        face = face_at(240, 200, 190)
        swapper = opened(contract, emap=emap_of(contract), shows="pattern", pattern=pattern, options=options)
        assert path.stem in swapper.nodes
        image = np.full((400, 480, 3), (40, 80, 120), np.uint8)
        frame = painted(swapper, image, face)
        affine = crop_affine(contract.template, contract.side, face.points).astype(np.float64)
        y, x = np.mgrid[0:400, 0:480]
        across = (affine[0, 0] * x + affine[0, 1] * y + affine[0, 2]) / contract.side
        assert (frame[across > 0.52] == image[across > 0.52]).all()
        assert (frame[across < 0.46] == 255).all(1).sum() > 4000

    def test_what_is_no_number_is_not_trusted(self, opened, tmp_path):
        path = networks.occluder(tmp_path / "x.onnx", np.full((SIDE, SIDE), np.nan))
        contract = BY_NAME["inswapper_128"]
        swapper = opened(contract, emap=np.eye(512), options=NeuralOptions(masks=(Occluder(path),)))
        assert painted(swapper, slopes()) is None

    def test_a_face_that_is_hidden_altogether_is_not_trusted(self, opened, tmp_path):
        path = networks.occluder(tmp_path / "x.onnx", np.zeros((SIDE, SIDE)))
        contract = BY_NAME["inswapper_128"]
        swapper = opened(contract, emap=np.eye(512), options=NeuralOptions(masks=(Occluder(path),)))
        assert painted(swapper, slopes()) is None

    def test_other_files_are_told_what_was_found_and_what_was_expected(self, tmp_path):
        wrong = {
            "parser": networks.parser(tmp_path / "parser.onnx", np.zeros((64, 64)), side=64),
            "embedder": networks.embedder(tmp_path / "embedder.onnx"),
            "two": networks.occluder(tmp_path / "two.onnx", "blue", outputs=2),
            "weighed": networks.restorer(tmp_path / "weighed.onnx", 64, weight=[1]),
        }
        for name, path in wrong.items():
            with pytest.raises(
                EngineError, match=f"{name} is not an XSeg occluder: it takes 1×3×|it takes 1×256"
            ) as caught:
                Occluder(path).open(PHASES.append)
            assert "expected" in str(caught.value) and caught.value.fix

    def test_before_it_is_open_it_says_so(self, tmp_path):
        with pytest.raises(EngineError, match="before it was opened"):
            Occluder(tmp_path / "x.onnx").write(
                np.zeros((8, 8, 3), np.float32), FACE, np.eye(2, 3), np.zeros((8, 8))
            )


class TestRegions:
    @pytest.mark.parametrize("layout", ["nchw", "nhwc"])
    @pytest.mark.parametrize("more", [0, 2])
    def test_only_chosen_classes_are_shown(self, tmp_path, layout, more):
        """Nineteen strips, one of each class."""
        classes = np.repeat(np.arange(19), 27)[:512][None].repeat(512, 0)
        classes[:, 19 * 26 :] = 18
        path = networks.parser(tmp_path / "b.onnx", classes, layout, more=more)
        crop = np.full((512, 512, 3), 100, np.float32)
        for regions in (("skin",), ("lips", "nose"), USUAL_REGIONS, tuple(REGIONS)):
            got = mask_of(Regions(path, regions), crop)[256]
            shown = {number for region in regions for number in REGIONS[region]}
            for number in range(19):
                at = int(np.flatnonzero(classes[256] == number).mean())
                assert (got[at] > 0.75) == (number in shown), (regions, number)

    @pytest.mark.parametrize("layout", ["nchw", "nhwc"])
    def test_it_is_fed_red_first_with_imagenet_s_mean_and_deviation(self, tmp_path, layout):
        path = networks.parser(tmp_path / "b.onnx", None, layout)
        for level, shown in ((126, 0), (129, 1)):
            got = mask_of(Regions(path, ("skin",)), np.full((128, 128, 3), (0, 0, level), np.float32))
            np.testing.assert_allclose(got, shown, atol=1e-5)
        blue = mask_of(Regions(path, ("skin",)), np.full((128, 128, 3), (255, 255, 0), np.float32))
        assert not blue.any()

    def test_what_is_no_number_is_passed_on(self, tmp_path):
        classes = np.ones((512, 512))
        path = networks.parser(tmp_path / "b.onnx", classes)
        crop = np.full((64, 64, 3), 100, np.float32)
        crop[3, 4] = np.inf
        assert not np.isfinite(mask_of(Regions(path, ("skin",)), crop)).all()

    def test_other_files_are_told_what_was_found_and_what_was_expected(self, tmp_path):
        for number, path in enumerate((
            networks.parser(tmp_path / "a.onnx", np.zeros((64, 64)), side=64, count=18),
            networks.occluder(tmp_path / "b.onnx", "blue"),
        )):  # fmt: skip
            with pytest.raises(
                EngineError, match=r"is not a BiSeNet parser.*one of 19 was expected"
            ) as caught:
                Regions(path, ("skin",)).open(PHASES.append)
            assert ("1×18×64×64", "1×256×256×1")[number] in str(caught.value)


class TestLive:
    @pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
    def test_what_is_kept_live_lies_where_the_landmarks_say(self, scale):
        face = face_at(240, 200, 190, 0.3)
        affine = np.array([[scale, 0, 0], [0, scale, 0]], np.float32)
        crop = np.zeros((int(440 * scale), int(440 * scale), 3), np.float32)
        at = (face.points[:, :2] * scale).round().astype(int)
        mouth, eyes = (mask_of(LivePart(name), crop, face, affine) for name in ("live-mouth", "live-eyes"))
        lips = at[[*LIPS_INNER]]
        assert mouth[lips[:, 1], lips[:, 0]].max() < 0.5
        eye = at[[*RIGHT_EYE_RINGS[0]]].mean(0).round().astype(int)
        assert eyes[eye[1], eye[0]] < 0.05
        nose, brow = at[1], at[66]
        for one, other in (
            (mouth, eye),
            (eyes, at[13]),
            (mouth, nose),
            (eyes, nose),
            (mouth, brow),
            (eyes, brow),
        ):
            assert one[other[1], other[0]] > 0.99
        # Soft, and hardly larger than what it is about.
        outer = face.points[[*LIPS_OUTER], :2] * scale
        area = np.ptp(outer[:, 0]) * np.ptp(outer[:, 1])
        assert (mouth < 0.5).sum() < 1.2 * area
        assert ((mouth > 0.02) & (mouth < 0.98)).sum() > 2

    def test_a_live_mouth_comes_through_and_the_rest_does_not(self, opened):
        contract = BY_NAME["hyperswap_1a_256"]
        face = face_at(240, 200, 230)
        swapper = opened(
            contract, shows="pattern", pattern=np.ones((256, 256, 3), np.float32),
            options=NeuralOptions(colour="none", masks=(LivePart("live-mouth"),)),
        )  # fmt: skip
        image = np.full((400, 480, 3), (40, 80, 120), np.uint8)
        frame = painted(swapper, image, face)
        lips = face.points[[*LIPS_INNER], :2].mean(0).round().astype(int)
        nose = face.points[1, :2].round().astype(int)
        assert off(frame[lips[1], lips[0]], image[0, 0]) <= 1
        assert (frame[nose[1], nose[0]] == 255).all()


class TestChoice:
    def test_all_words_are_read(self):
        read = read_masks("oval, ellipse ,occlusion=a/b=c.onnx,regions:skin+nose=x.onnx,live-mouth,live-eyes")
        assert read == MaskChoice(
            ("oval", "ellipse"), ("live-mouth", "live-eyes"), "a/b=c.onnx", ("skin", "nose"), "x.onnx"
        )
        assert read_masks("regions").regions == USUAL_REGIONS
        assert read_masks("regions=m.onnx") == MaskChoice(regions=USUAL_REGIONS, parser="m.onnx")
        assert read_masks("occlusion").occlusion == "" and read_masks("box").occlusion is None
        assert read_masks("auto") == MaskChoice(("oval",), occlusion="", if_there=True)

    @pytest.mark.parametrize(
        "text",
        ["", "star", "oval,", "oval,oval", "auto,oval", "occlusion=", "regions:", "regions:skin=", "oval=x.onnx",
         "regions:tail", "regions:skin+", "oval:skin", "occlusion:skin", "live-mouth=x.onnx", ",", "OVAL"],
    )  # fmt: skip
    def test_anything_else_is_named(self, text):
        with pytest.raises(ValueError, match=r"."):
            read_masks(text)

    @pytest.fixture
    def store(self, tmp_path):
        return Store(tmp_path / "models", Catalogue.load())

    def test_automatic_takes_an_occluder_where_there_is_one(self, store):
        outline, more = make_masks(read_masks("auto"), "arcface_128", store, CPU)
        assert (outline, more) == ("oval", ())
        store.folder.mkdir()
        networks.occluder(store.folder / "my_xseg_2.onnx", "blue")
        outline, more = make_masks(read_masks("auto"), "arcface_128", store, CPU)
        assert outline == "oval" and [source.name for source in more] == ["occlusion"]

    def test_what_is_asked_for_and_not_there_is_named_with_what_to_type(self, store):
        for words, kind in (("occlusion", "occlude"), ("oval,regions", "parse")):
            with pytest.raises(EngineError, match=kind) as caught:
                make_masks(read_masks(words), "arcface_128", store, CPU)
            assert "models pull" in caught.value.fix
        with pytest.raises(EngineError, match="xseg_1") as caught:
            make_masks(read_masks("occlusion=xseg_1"), "arcface_128", store, CPU)
        assert "models pull xseg_1" in caught.value.fix
        with pytest.raises(UsageError, match="not occlude"):
            make_masks(read_masks("occlusion=gfpgan_1.4"), "arcface_128", store, CPU)

    def test_every_word_becomes_a_mask(self, store, tmp_path):
        path = networks.occluder(tmp_path / "x.onnx", "blue")
        parts = networks.parser(tmp_path / "b.onnx", np.zeros((512, 512)))
        words = f"ellipse,oval,live-eyes,occlusion={path},regions:hair={parts}"
        outline, more = make_masks(read_masks(words), "ffhq_512", store, CPU)
        assert outline == "ellipse"
        assert [type(one) for one in more] == [Oval, LivePart, Occluder, Regions]
        outline, more = make_masks(read_masks("box,ellipse"), "ffhq_512", store, CPU)
        assert outline == "box" and [type(one) for one in more] == [Ellipse]
        assert make_masks(read_masks("live-mouth"), "ffhq_512", store, CPU)[0] == "box"
