"""Swap generators of every contract there is: what goes in comes out where it belongs, in its own colours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.analysis.align import TEMPLATES, crop_affine
from engines.analysis.source import SourceFace
from engines.catalogue.catalogue import Catalogue
from engines.catalogue.graph import read_graph
from engines.errors import EngineError
from engines.faces import Face, Patch
from engines.swap.masks.masks import outline_of
from engines.swap.neural.contract import find_roles
from engines.swap.neural.dfm import DFM, MASK_BLUR
from engines.swap.neural.generator import Generator
from engines.swap.neural.neural import NeuralOptions, NeuralSwapper
from tests import networks
from tests.engines.scenes import mesh
from tests.networks import CELLS, Export

ROWS = {
    entry.contract: name for name, entry in reversed(Catalogue.load().entries.items()) if entry.kind == "swap"
}
"""One model of each contract."""
BY_NAME = {name: contract for contract, name in ROWS.items()}
EXPORTS = {
    "published": Export(),
    "open batch": Export(batch=True),
    "open sizes": Export(batch=True, sizes=True),
    "nhwc": Export(layout="nhwc"),
    "half": Export(half=True),
    "other order and names": Export(source_first=False, names=("input_1", "src_2", "3071", "m")),
}
PLAIN = NeuralOptions(colour="none")
PUBLISHED = Export()


def slopes(width=480, height=400):
    """A picture whose channels rise in three directions: any resampling gives it back, and nothing else does."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    picture = np.stack([20 + 0.4 * x, 230 - 0.5 * y, 40 + 0.2 * x + 0.25 * y], 2)
    return np.rint(picture).astype(np.uint8)


def face_at(x, y, width, turn=0.0, track=1):
    """A face of this width, upright or turned by radians, with the proportions of a real one."""
    points = mesh("hopper").copy()
    points[:, :2] -= points[:, :2].mean(0)
    points *= width / np.ptp(points[:, 0])
    spin = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]], np.float32)
    points[:, :2] = points[:, :2] @ spin.T + np.float32([x, y])
    return Face(track, points, 1.0, Patch(np.zeros((4, 4, 3), np.float32), np.eye(2, 3, dtype=np.float32)))


FACE = face_at(240, 200, 190, 0.15)


def person(colour=(40, 90, 200), name="one.jpg"):
    """A photo of one colour with a face in it."""
    image = np.full((200, 200, 3), colour, np.uint8)
    return SourceFace(image, face_at(100, 100, 90).points, name)


@pytest.fixture
def opened(tmp_path):
    """Opens a swapper for a network that is written for the test, and closes it."""
    made = []

    def make(
        contract,
        export=PUBLISHED,
        options=PLAIN,
        sources=None,
        embedder=True,
        matrix=None,
        soften=0.0,
        **network,
    ):
        path = tmp_path / f"model{len(made)}.onnx"
        networks.generator(path, contract, export, **network)
        needs = {}
        if embedder and contract.source not in ("none", "image"):
            needs["embedder"] = networks.embedder(tmp_path / "embedder.onnx")
        if contract.source.startswith("converted"):
            needs["converter"] = networks.converter(
                tmp_path / "converter.onnx", np.eye(512) if matrix is None else matrix
            )
        roles = find_roles(path.name, read_graph(path), contract)
        swapper = NeuralSwapper(
            Generator("model", path, contract, roles, soften=soften, **needs),
            sources or [person()],
            options=options,
        )
        made.append(swapper)
        swapper.open(lambda line: None)
        return swapper

    yield make
    for swapper in made:
        swapper.close()


def painted(swapper, image, face=FACE):
    """The composite, or None where the swapper would not."""
    frame = image.copy()
    layer = swapper.swap(frame, face)
    assert (frame == image).all(), "swap must leave the frame as it is"
    if layer is None:
        return None
    swapper.blend(frame, layer)
    return frame


def off(one, other):
    return int(np.abs(one.astype(int) - other.astype(int)).max())


def emap_of(contract):
    return np.eye(512, dtype=np.float32) if contract.source == "emap" else None


@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
@pytest.mark.parametrize("contract", ROWS, ids=ROWS.values())
def test_a_crop_that_comes_back_unchanged_leaves_the_frame_unchanged(opened, contract, export):
    """Alignment, normalisation, order of channels, layout, masks and paste-back, of every row of the table."""
    swapper = opened(contract, export, emap=emap_of(contract), options=NeuralOptions())
    image = slopes()
    assert off(painted(swapper, image), image) <= 1


@pytest.mark.parametrize("channels", ["rgb", "bgr"])
@pytest.mark.parametrize("contract", ROWS, ids=ROWS.values())
def test_colours_go_in_in_the_order_of_the_contract(opened, contract, channels):
    """A picture that the network itself paints shows which channel it takes for which."""
    contract = replace(contract, channels=channels)
    side = contract.side
    pattern = np.zeros((side, side, 3), np.float32)
    pattern[:] = (0.2, 0.5, 0.8)
    swapper = opened(contract, emap=emap_of(contract), shows="pattern", pattern=pattern)
    frame = painted(swapper, slopes())
    inside = frame[190:210, 230:250].reshape(-1, 3)
    assert np.abs(inside - np.array([51, 127.5, 204])).max() <= 1.01


def test_noise_at_the_network_s_own_scale_comes_back_pixel_by_pixel(opened):
    """No pixel is moved: where crop and frame have the same pixels, the composite is the frame."""
    contract = BY_NAME["inswapper_128"]
    points = np.zeros((468, 3), np.float32)
    points[:] = mesh("hopper")
    affine = crop_affine("arcface_128", 128, points)
    points[:, :2] = points[:, :2] @ affine[:, :2].T + affine[:, 2] + np.float32([61, 40])
    face = Face(1, points, 1.0, FACE.patch)
    swapper = opened(contract, emap=emap_of(contract), options=NeuralOptions())
    image = np.random.default_rng(3).integers(0, 256, (240, 260, 3), np.uint8)
    assert np.abs(crop_affine("arcface_128", 128, points) - [[1, 0, -61], [0, 1, -40]]).max() < 1e-3
    assert off(painted(swapper, image, face), image) <= 1


@pytest.mark.parametrize("boost", [1, 2, 4])
@pytest.mark.parametrize("batch", [True, False])
def test_boosted_tiles_go_in_and_come_back_in_their_places(opened, boost, batch):
    contract = BY_NAME["inswapper_128"]
    swapper = opened(
        contract, Export(batch=batch), replace(PLAIN, boost=boost), emap=emap_of(contract)
    )  # fmt: skip
    image = slopes()
    assert off(painted(swapper, image), image) <= 1


@pytest.mark.parametrize("batch", [True, False])
def test_a_boost_keeps_detail_that_the_network_s_own_pixels_cannot(opened, batch):
    contract = BY_NAME["inswapper_128"]
    x = np.mgrid[0:400, 0:480][1]
    waves = np.rint(128 + 60 * np.sin(x * 2 * np.pi / 6)).astype(np.uint8)[..., None].repeat(3, 2)
    lost = []
    for boost in (1, 2, 4):
        swapper = opened(contract, Export(batch=batch), replace(PLAIN, boost=boost), emap=emap_of(contract))
        lost.append(np.abs(painted(swapper, waves).astype(int) - waves)[150:250, 190:290].mean())
    assert lost[0] > 2 * max(lost[1:])


def test_a_boost_runs_as_one_batch_where_the_network_takes_one(opened):
    contract = BY_NAME["inswapper_128"]
    for export, runs in ((Export(batch=True), 1), (Export(), 4)):
        swapper = opened(contract, export, replace(PLAIN, boost=2), emap=emap_of(contract))
        count, run = [], swapper._tiles.network.run
        swapper._tiles.network.run = lambda count=count, run=run: (count.append(1), run())
        assert painted(swapper, slopes()) is not None
        assert len(count) == runs == swapper._tiles.runs


def test_what_the_network_paints_lands_where_the_template_says(opened):
    """A spot at each of the template's five points lies on the eyes, the nose and the mouth of the face."""
    for name in ("inswapper_128", "ghost_1_256", "hififace_unofficial_256", "uniface_256"):
        contract = BY_NAME.get(name) or next(
            c for c, row in ROWS.items() if row.startswith(name.split("_")[0])
        )
        side = contract.side
        y, x = np.mgrid[0:side, 0:side]
        pattern = np.zeros((side, side, 3), np.float32)
        for px, py in TEMPLATES[contract.template] * side:
            pattern += (np.hypot(x - px, y - py) < 0.02 * side)[..., None]
        face = face_at(240, 200, 230, -0.3)
        swapper = opened(contract, emap=emap_of(contract), shows="pattern", pattern=pattern)
        frame = painted(swapper, np.zeros((400, 480, 3), np.uint8), face)
        affine = crop_affine(contract.template, side, face.points).astype(np.float64)
        turn, move = affine[:, :2], affine[:, 2]
        for point in TEMPLATES[contract.template] * side:
            u, v = np.linalg.solve(turn, point - move)
            assert frame[round(v), round(u)].min() > 200, name
        assert frame.max(2).mean() < 10


def test_nothing_outside_of_the_masks_is_touched(opened):
    contract = BY_NAME["inswapper_128"]
    pattern = np.ones((128, 128, 3), np.float32)
    swapper = opened(contract, emap=emap_of(contract), shows="pattern", pattern=pattern)
    image = np.random.default_rng(0).integers(0, 200, (400, 480, 3), np.uint8)
    frame = painted(swapper, image)
    changed = (frame != image).any(2)
    ys, xs = np.nonzero(changed)
    outline = outline_of(FACE, np.eye(2, 3, dtype=np.float32))
    assert xs.min() >= outline[:, 0].min() - 2 and xs.max() <= outline[:, 0].max() + 2
    assert ys.min() >= outline[:, 1].min() - 2 and ys.max() <= outline[:, 1].max() + 2
    assert 0.6 < changed.sum() / (0.785 * np.ptp(outline[:, 0]) * np.ptp(outline[:, 1])) < 1.1


@pytest.mark.parametrize("at", [(0, 200), (240, 5), (475, 395), (240, 200)])
@pytest.mark.parametrize("width", [24, 190, 460])
def test_a_face_half_outside_is_swapped_with_the_border_going_on(opened, at, width):
    contract = BY_NAME["hyperswap_1a_256"]
    swapper = opened(contract)
    for size in ((480, 400), (479, 399)):
        image = np.full((size[1], size[0], 3), (30, 120, 210), np.uint8)
        frame = painted(swapper, image, face_at(*at, width, 0.4))
        assert off(frame, image) <= 1


class TestWhose:
    """The person in the photos reaches the network as its contract says."""

    def test_the_matrix_in_the_file_maps_the_embedding(self, opened):
        """A colour that only red has becomes one cell, and the matrix says which."""
        matrix = np.random.default_rng(5).normal(0, 0.01, (512, 512)).astype(np.float32)
        matrix[0] = 0
        matrix[0, 8 * CELLS[1] + 16] = 1
        for emap in (("emap", matrix), matrix):
            swapper = opened(
                BY_NAME["inswapper_128"], emap=emap, shows="source", sources=[person((127.5, 127.5, 255))]
            )
            latent = swapper._tiles.network.inputs[0].reshape(-1)
            embedding = np.zeros(512)
            embedding[:3] = [1, 0, 0]
            # Grey of 127 is not quite the middle of a network's range.
            embedding[1:3] = -0.5 / 127.5
            wanted = embedding / np.linalg.norm(embedding) @ matrix
            np.testing.assert_allclose(latent, wanted / np.linalg.norm(wanted), atol=1e-4)
            frame = painted(swapper, np.zeros((400, 480, 3), np.uint8))
            lit = np.argwhere(frame.max(2) > 128)
            affine = crop_affine("arcface_128", 128, FACE.points)
            cell = (lit[:, ::-1] @ affine[:, :2].T + affine[:, 2]).mean(0) / [128 / CELLS[1], 128 / CELLS[0]]
            np.testing.assert_allclose(cell, [16.4, 8.4], atol=0.3)

    def test_by_name_comes_before_the_last_weight(self, opened, tmp_path):
        from engines.runtime.model.initializer import read_matrix

        right, wrong = np.eye(512, dtype=np.float32) * 2, np.eye(512, dtype=np.float32) * 3
        b = networks.Builder()
        b.weight(right, "emap")
        b.output(b.op("Identity", b.input("x", [1, 512])), "y", [1, 512])
        b.weight(wrong, "last")
        path = b.save(tmp_path / "m.onnx")
        np.testing.assert_array_equal(read_matrix(path, "emap", (512, 512)), right)
        np.testing.assert_array_equal(read_matrix(path, "other", (512, 512)), wrong)

    @pytest.mark.parametrize("kind", ["embedding", "embedding_normed", "converted", "converted_normed"])
    def test_embeddings_are_averaged_converted_and_normed(self, opened, kind):
        contract = replace(BY_NAME["hyperswap_1a_256"], source=kind)
        matrix = np.random.default_rng(2).normal(0, 1, (512, 512)).astype(np.float32)
        photos = [
            person((0, 0, 255), "red.jpg"),
            person((255, 255, 0), "cyan.jpg"),
            person((255, 255, 255), "white.jpg"),
        ]
        swapper = opened(contract, sources=photos, matrix=matrix)
        seen = np.array([[1, -1, -1], [-1, 1, 1], [1, 1, 1]], np.float64).mean(0)
        wanted = np.zeros(512)
        wanted[:3] = seen
        if kind.startswith("converted"):
            wanted = wanted @ matrix
        if kind.endswith("normed"):
            wanted /= np.linalg.norm(wanted)
        np.testing.assert_allclose(swapper._tiles.network.inputs[0].reshape(-1), wanted, atol=1e-3, rtol=1e-3)

    @pytest.mark.parametrize("layout", ["nchw", "nhwc"])
    @pytest.mark.parametrize("name", ["uniface_256", "blendswap_256"])
    def test_a_source_that_is_a_picture_is_aligned(self, opened, name, layout):
        contract = BY_NAME[name]
        image = slopes(400, 400)
        source = SourceFace(image, face_at(200, 200, 150, 0.2).points, "p.jpg")
        swapper = opened(contract, Export(layout=layout), sources=[person(), source], shows="source")
        place = swapper._generator.roles.source
        given = swapper._tiles.network.inputs[place][0]
        given = given if layout == "nchw" else given.transpose(2, 0, 1)
        side = contract.source_side
        affine = crop_affine(contract.source_template, side, source.points).astype(np.float64)
        y, x = np.mgrid[0:side, 0:side]
        back = np.linalg.inv(np.vstack([affine, [0, 0, 1]]))
        u, v = (back[i, 0] * x + back[i, 1] * y + back[i, 2] for i in (0, 1))
        wanted = np.stack([40 + 0.2 * u + 0.25 * v, 230 - 0.5 * v, 20 + 0.4 * u]) / 255
        assert np.abs(given - wanted).max() < 1.2 / 255

    def test_without_an_embedder_it_says_so(self, opened):
        with pytest.raises(EngineError, match="needs an embedder"):
            opened(BY_NAME["hyperswap_1a_256"], embedder=False)


class TestDfm:
    @pytest.mark.parametrize("layout", ["nhwc", "nchw"])
    @pytest.mark.parametrize("side", [64, 224])
    def test_it_takes_blue_first_and_any_size(self, opened, side, layout):
        swapper = opened(
            DFM, Export(layout=layout), side=side, mask=np.ones((side, side)), soften=MASK_BLUR, sources=[]
        )
        image = slopes()
        assert off(painted(swapper, image), image) <= 1

    @pytest.mark.parametrize("morph", [0.0, 0.75, 1.0])
    def test_the_morph_value_reaches_it(self, tmp_path, morph):
        path = networks.dfm(tmp_path / "p.dfm")
        image = np.full((400, 480, 3), (200, 100, 60), np.uint8)
        frame = _dfm_frame(path, image, NeuralOptions(morph=morph, colour="none"))
        assert off(frame[190:210, 230:250], np.rint(morph * image[190:210, 230:250])) <= 1

    def test_without_one_it_is_not_asked(self, tmp_path):
        path = networks.dfm(tmp_path / "p.dfm", morph=False)
        image = slopes()
        assert off(_dfm_frame(path, image, NeuralOptions(morph=0.1)), image) <= 1

    def test_the_smaller_of_both_masks_counts_shrunk_and_soft(self, tmp_path):
        mask = np.zeros((64, 64))
        mask[:, 32:] = 1
        path = networks.dfm(tmp_path / "p.dfm", mask=mask, morph=True)
        image = np.full((400, 480, 3), 200, np.uint8)
        frame = _dfm_frame(path, image, NeuralOptions(morph=0.0, colour="none"), face_at(240, 200, 190))
        row = frame[215, :, 0].astype(int)
        affine = crop_affine("dfl_whole_face", 64, face_at(240, 200, 190).points)
        middle = (31.5 - affine[0, 2] - affine[0, 1] * 215) / affine[0, 0]
        pixel = 1 / affine[0, 0]
        assert (row[: round(middle - 1 * pixel)] > 190).all()
        assert row[round(middle + 8 * pixel)] < 20
        # Half of it lies two pixels farther in than the edge was.
        half = np.argmax(row[round(middle - 4 * pixel) :] < 100) + round(middle - 4 * pixel)
        assert abs((half - middle) / pixel - 2) < 0.8


def _dfm_frame(path, image, options, face=FACE):
    roles = find_roles(path.name, read_graph(path), DFM)
    swapper = NeuralSwapper(Generator("p", path, DFM, roles, soften=MASK_BLUR), [], options=options)
    swapper.open(lambda line: None)
    try:
        return painted(swapper, image, face)
    finally:
        swapper.close()


class TestTrust:
    def test_a_network_that_gives_no_numbers_is_not_shown(self, opened):
        for bad in (np.nan, np.inf):
            pattern = np.full((256, 256, 3), 0.5, np.float32)
            pattern[200, 100, 1] = bad
            for options in (PLAIN, NeuralOptions()):
                swapper = opened(
                    BY_NAME["hyperswap_1a_256"], shows="pattern", pattern=pattern, options=options
                )
                assert painted(swapper, slopes()) is None

    @pytest.mark.parametrize(("covers", "shown"), [(0.0, False), (0.2, False), (1.0, True), (np.nan, False)])
    def test_a_mask_that_leaves_the_face_bare_is_not_trusted(self, opened, covers, shown):
        mask = np.full((256, 256), covers)
        swapper = opened(BY_NAME["hyperswap_1a_256"], mask=mask)
        assert (painted(swapper, slopes()) is not None) == shown

    def test_the_network_s_own_mask_is_kept_to(self, opened):
        mask = np.ones((256, 256))
        mask[:128] = 0
        pattern = np.ones((256, 256, 3), np.float32)
        swapper = opened(BY_NAME["hyperswap_1a_256"], mask=mask, shows="pattern", pattern=pattern)
        face = face_at(240, 200, 190)
        frame = painted(swapper, np.zeros((400, 480, 3), np.uint8), face)
        affine = crop_affine("arcface_128", 256, face.points)
        y, x = np.mgrid[0:400, 0:480]
        across, down = (
            affine[0, 0] * x + affine[0, 1] * y + affine[0, 2],
            affine[1, 0] * x + affine[1, 1] * y + affine[1, 2],
        )
        assert frame[down < 126.5].max() == 0
        assert frame[(down > 130) & (down < 180) & (abs(across - 128) < 30)].min() > 250

    def test_landmarks_that_are_no_numbers_are_an_error(self, opened):
        swapper = opened(BY_NAME["hyperswap_1a_256"])
        face = face_at(240, 200, 190)
        face.points[5, 0] = np.nan
        with pytest.raises(EngineError, match="not numbers"):
            swapper.swap(slopes(), face)

    @pytest.mark.parametrize("where", [(1e7, 0), (-1e6, 3), (240, 200)])
    def test_points_in_one_place_or_far_away_do_not_hurt(self, opened, where):
        swapper = opened(BY_NAME["hyperswap_1a_256"])
        points = np.zeros((468, 3), np.float32)
        points[:, :2] = where
        image = slopes()
        assert swapper.swap(image, Face(1, points, 1.0, FACE.patch)) is None
        frame = painted(swapper, image, face_at(*where, 190))
        assert frame is None or off(frame, image) <= 1

    def test_before_it_is_open_and_after_it_is_closed_it_refuses(self, opened):
        swapper = opened(BY_NAME["hyperswap_1a_256"])
        swapper.close()
        swapper.close()
        with pytest.raises(EngineError, match="before it was opened"):
            swapper.swap(slopes(), FACE)


class TestColour:
    def test_the_live_face_s_colours_are_put_on(self, opened):
        pattern = np.random.default_rng(0).normal(0.6, 0.05, (256, 256, 3)).astype(np.float32)
        image = np.clip(np.random.default_rng(1).normal((60, 90, 120), 12, (400, 480, 3)), 0, 255).astype(
            np.uint8
        )
        swapper = opened(
            BY_NAME["hyperswap_1a_256"], shows="pattern", pattern=pattern, options=NeuralOptions()
        )
        frame = painted(swapper, image)
        inside = frame[180:220, 200:280].reshape(-1, 3)
        np.testing.assert_allclose(inside.mean(0), (60, 90, 120), atol=3)

    def test_it_follows_slowly_and_for_each_track_alone(self, opened):
        pattern = np.full((256, 256, 3), 0.5, np.float32)
        swapper = opened(
            BY_NAME["hyperswap_1a_256"], shows="pattern", pattern=pattern, options=NeuralOptions()
        )
        dark, light = (np.full((400, 480, 3), value, np.uint8) for value in (100, 150))
        assert abs(int(painted(swapper, dark)[200, 240, 0]) - 100) <= 1
        first = int(painted(swapper, light)[200, 240, 0])
        assert 105 < first < 145
        assert abs(int(painted(swapper, light, face_at(240, 200, 190, track=2))[200, 240, 0]) - 150) <= 1
        for _ in range(12):
            last = painted(swapper, light)
        assert abs(int(last[200, 240, 0]) - 150) <= 1

    def test_gradients_are_blended_without_a_seam(self, opened):
        """Poisson: a face of another colour takes on that of what is around it, and keeps its own relief."""
        y, x = np.mgrid[0:256, 0:256]
        pattern = np.repeat((0.5 + 0.1 * np.sin(x / 9) * np.sin(y / 9))[..., None], 3, 2).astype(np.float32)
        image = np.full((400, 480, 3), (90, 130, 60), np.uint8)
        swapper = opened(BY_NAME["hyperswap_1a_256"], shows="pattern", pattern=pattern,
                         options=NeuralOptions(colour="poisson"))  # fmt: skip
        frame = painted(swapper, image)
        inside = frame[170:230, 200:280].reshape(-1, 3).astype(float)
        np.testing.assert_allclose(inside.mean(0), (90, 130, 60), atol=12)
        assert inside.std(0).min() > 6
        changed = (frame != image).any(2)
        assert not changed[:40].any() and not changed[:, :60].any()
        # Cut off by the frame it is pasted plainly.
        assert painted(swapper, image, face_at(0, 200, 190)) is not None


class TestTelling:
    def test_what_it_says_while_it_opens(self, tmp_path):
        contract = BY_NAME["hyperswap_1a_256"]
        path = networks.generator(tmp_path / "m.onnx", contract)
        said = []
        roles = find_roles("m", read_graph(path), contract)
        embedder = networks.embedder(tmp_path / "e.onnx")
        swapper = NeuralSwapper(Generator("m", path, contract, roles, embedder), [person()],
                                options=NeuralOptions(fps=1e6))  # fmt: skip
        swapper.open(said.append)
        assert any("one.jpg" in line for line in said)
        assert all(line and "\n" not in line for line in said)
        assert "--engine mesh" in swapper.advice
        assert any("ms a face" in line for line in said)
        assert set(swapper.nodes) == {"m"} and "CPUExecutionProvider" in swapper.nodes["m"]
        swapper.close()

    def test_one_that_keeps_the_rate_needs_no_advice(self, opened):
        swapper = opened(BY_NAME["inswapper_128"], emap=np.eye(512), options=NeuralOptions(fps=0.01))
        assert swapper.advice == ""
