"""A name or a file in, a swap generator out; and what is said of files that are none."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engines.catalogue.catalogue import Catalogue
from engines.catalogue.entry import Contract
from engines.catalogue.graph import read_graph
from engines.catalogue.store import Store
from engines.errors import DoppelcamError, EngineError, UsageError
from engines.open import Wanted, open_swapper
from engines.runtime.model.initializer import read_matrix
from engines.swap.neural.contract import find_roles
from engines.swap.neural.dfm import DFM
from engines.swap.neural.generator import find_generator, is_file_name
from engines.swap.neural.neural import NeuralOptions
from tests import networks
from tests.engines.scenes import ASSETS, face_in, portrait
from tests.networks import Export

PHOTO = ASSETS / "hopper.jpg"
CATALOGUE = Catalogue.load()


def contract(name) -> Contract:
    return CATALOGUE.entry(name).contract


@pytest.fixture
def store(tmp_path):
    """A folder with an embedder and a converter, under names of their own."""
    folder = tmp_path / "models"
    folder.mkdir()
    networks.embedder(folder / "my_arcface.onnx")
    networks.converter(folder / "crossface_ghost_mine.onnx", np.eye(512))
    return Store(folder, CATALOGUE)


class TestFinding:
    def test_inswapper_is_told_from_its_shapes_and_its_matrix(self, store, tmp_path):
        path = networks.generator(tmp_path / "a.onnx", contract("inswapper_128"), emap=np.eye(512))
        found = find_generator(str(path), store)
        assert found.contract == contract("inswapper_128")
        assert found.embedder == store.folder / "my_arcface.onnx" and found.converter is None
        without = networks.generator(tmp_path / "b.onnx", contract("inswapper_128"))
        with pytest.raises(EngineError, match="1×3×128×128") as caught:
            find_generator(str(without), store)
        assert "512×512" in str(caught.value)

    @pytest.mark.parametrize("name", ["uniface_256", "blendswap_256", "simswap_unofficial_512"])
    def test_others_whose_shapes_are_their_own_are_told_too(self, store, tmp_path, name):
        if name not in CATALOGUE.entries:
            name = next(
                one for one in CATALOGUE.entries if one.startswith(name.split("_")[0]) and "512" in one
            )
        for need in CATALOGUE.entry(name).needs:
            if CATALOGUE.entry(need).kind == "convert":
                networks.converter(store.folder / f"{need}_mine.onnx", np.eye(512))
        path = networks.generator(tmp_path / "x.onnx", contract(name))
        assert find_generator(str(path), store).contract == contract(name)

    def test_what_several_are_alike_in_has_to_be_named(self, store, tmp_path):
        path = networks.generator(tmp_path / "x.onnx", contract("ghost_1_256"))
        with pytest.raises(EngineError, match=r"hyperswap") as caught:
            find_generator(str(path), store)
        assert "ghost" in str(caught.value) and f"={path}" in caught.value.fix
        assert find_generator(f"ghost_1_256={path}", store).contract == contract("ghost_1_256")

    @pytest.mark.parametrize("morph", [True, False])
    @pytest.mark.parametrize("suffix", [".dfm", ".onnx"])
    def test_a_dfm_is_told_from_its_graph_and_needs_nothing(self, tmp_path, morph, suffix):
        path = networks.dfm(tmp_path / f"Somebody{suffix}", morph=morph)
        found = find_generator(str(path), Store(tmp_path / "nowhere", CATALOGUE))
        assert found.contract == DFM and found.embedder is None and found.roles.side == 64
        assert (found.roles.morph is not None) == morph

    def test_what_it_needs_and_is_not_there_is_named_with_what_to_type(self, tmp_path):
        path = networks.generator(tmp_path / "a.onnx", contract("inswapper_128"), emap=np.eye(512))
        with pytest.raises(EngineError, match="arcface_w600k_r50") as caught:
            find_generator(str(path), Store(tmp_path / "empty", CATALOGUE))
        assert "models pull arcface_w600k_r50" in caught.value.fix

    def test_a_name_whose_file_is_not_there(self, store):
        with pytest.raises(EngineError, match="hyperswap_1a_256") as caught:
            find_generator("hyperswap_1a_256", store)
        assert "models pull" in caught.value.fix

    def test_a_model_of_another_kind_does_not_swap(self, store):
        with pytest.raises(UsageError, match="does not put on a face"):
            find_generator("arcface_w600k_r50", store)
        with pytest.raises(UsageError, match="does not put on a face"):
            find_generator(f"arcface_w600k_r50={store.folder / 'my_arcface.onnx'}", store)

    @pytest.mark.parametrize(
        ("engine", "file"),
        [
            ("mesh", False),
            ("a.onnx", True),
            ("b/c.DFM", True),
            ("ghost_1=x.onnx", True),
            ("x.pth", False),
            ("", False),
        ],
    )
    def test_files_and_names_are_told_apart(self, engine, file):
        assert is_file_name(engine) == file


SAVED = helper.make_model(helper.make_graph([], "empty", [], [])).SerializeToString()


class TestBrokenFiles:
    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"", "empty"),
            (b"<!DOCTYPE html><html>404: Not Found</html>", "web page"),
            (b'{"error": "gated"}', "JSON"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "LFS"),
            (b"PK\x03\x04" + bytes(60), "ONNX"),
            (b"\x80\x02}q\x00.", "ONNX"),
            (bytes(4096), "ONNX"),
            (SAVED, "no graph"),
        ],
    )
    def test_each_gets_the_sentence_it_deserves(self, store, tmp_path, content, says):
        for name in ("m.onnx", "m.dfm"):
            path = tmp_path / name
            path.write_bytes(content)
            with pytest.raises(DoppelcamError, match=says) as caught:
                find_generator(str(path), store)
            assert name in str(caught.value) and caught.value.fix

    @pytest.mark.parametrize("part", [0.02, 0.3, 0.7, 0.999])
    def test_a_truncated_one(self, store, tmp_path, part):
        whole = networks.generator(
            tmp_path / "w.onnx", contract("inswapper_128"), emap=np.eye(512)
        ).read_bytes()
        path = tmp_path / "t.onnx"
        path.write_bytes(whole[: int(part * len(whole))])
        with pytest.raises(EngineError, match=r"t\.onnx.*whole ONNX model"):
            find_generator(str(path), store)

    def test_one_with_its_bytes_disturbed_ends_in_an_error_of_ours(self, tmp_path):
        whole = bytearray(networks.dfm(tmp_path / "w.dfm").read_bytes())
        rng = np.random.default_rng(0)
        image = portrait("astronaut").copy()
        face = face_in(image)
        for trial in range(40):
            broken = bytearray(whole)
            for place in rng.integers(0, len(whole), 6):
                broken[place] = rng.integers(0, 256)
            path = tmp_path / f"{trial}.dfm"
            path.write_bytes(broken)
            try:
                swapper = open_swapper(Wanted(str(path), models=tmp_path / "none"), [])
                try:
                    swapper.open(lambda line: None)
                    swapper.swap(image, face)
                finally:
                    swapper.close()
            except DoppelcamError:
                continue

    def test_a_folder_and_a_missing_file(self, store, tmp_path):
        (tmp_path / "f.onnx").mkdir()
        for name in ("f.onnx", "missing.onnx"):
            with pytest.raises(UsageError, match=name):
                find_generator(str(tmp_path / name), store)

    @pytest.mark.parametrize(
        "shapes",
        [
            [[1, 3, 128, 120], [1, 512]],
            [[1, 4, 128, 128], [1, 512]],
            [[1, 3, 128, 128], [1, 256]],
            [[1, 3, 128, 128]],
            [[1, 3, 128, 128], [1, 512], [1, 512]],
            [[1, 3, 64, 64], [1, 512]],
            [[3, 128, 128], [512]],
        ],
    )
    def test_wrong_shapes_are_listed_beside_the_right_ones(self, store, tmp_path, shapes):
        b = networks.Builder()
        values = [b.input(f"i{place}", shape) for place, shape in enumerate(shapes)]
        b.output(values[0], "o", shapes[0])
        path = b.save(tmp_path / "m.onnx")
        for engine in (str(path), f"inswapper_128={path}"):
            with pytest.raises(EngineError) as caught:
                find_generator(engine, store)
            assert "1×3×128×128" in str(caught.value) and "×".join(map(str, shapes[0])) in str(caught.value)

    @pytest.mark.parametrize("opset", [99, 1000])
    def test_a_wrong_opset_is_named(self, tmp_path, opset):
        path = networks.dfm(tmp_path / "m.dfm")
        model = onnx.load(str(path))
        model.opset_import[0].version = opset
        onnx.save(model, str(path))
        swapper = open_swapper(Wanted(str(path), models=tmp_path), [])
        with pytest.raises(EngineError, match=f"m.*opset {opset}") as caught:
            swapper.open(lambda line: None)
        assert caught.value.fix
        swapper.close()

    def test_a_picture_of_no_size(self, tmp_path):
        b = networks.Builder()
        b.output(b.input("x", ["n", "s", "s", 3]), "y", ["n", "s", "s", 3])
        path = b.save(tmp_path / "m.onnx")
        with pytest.raises(EngineError, match="size of its picture cannot be told"):
            find_roles("m", read_graph(path), DFM)


class TestMatrix:
    def test_none_is_said(self, tmp_path):
        path = networks.dfm(tmp_path / "d.onnx")
        with pytest.raises(EngineError, match="no weight emap"):
            read_matrix(path, "emap", (512, 512))

    def test_what_is_no_number_is_refused(self, tmp_path):
        matrix = np.eye(512, dtype=np.float32)
        matrix[3, 4] = np.nan
        path = networks.generator(tmp_path / "m.onnx", contract("inswapper_128"), emap=matrix)
        with pytest.raises(EngineError, match="not made of numbers"):
            read_matrix(path, "emap", (512, 512))

    @pytest.mark.parametrize(
        "location", ["../secret.bin", "/etc/passwd", "missing.bin", "", "sub/../../secret.bin"]
    )
    def test_weights_outside_of_the_folder_are_not_read(self, tmp_path, location):
        folder = tmp_path / "models"
        folder.mkdir()
        (tmp_path / "secret.bin").write_bytes(np.eye(512, dtype=np.float32).tobytes())
        with pytest.raises(EngineError, match="weight"):
            read_matrix(_external(folder / "m.onnx", location), "emap", (512, 512))

    def test_a_link_out_of_the_folder_is_not_followed(self, tmp_path):
        folder = tmp_path / "models"
        folder.mkdir()
        (tmp_path / "secret.bin").write_bytes(np.eye(512, dtype=np.float32).tobytes())
        (folder / "near.bin").symlink_to(tmp_path / "secret.bin")
        with pytest.raises(EngineError, match="a link that leaves its folder"):
            read_matrix(_external(folder / "m.onnx", "near.bin"), "emap", (512, 512))

    def test_weights_beside_the_file_are(self, tmp_path):
        matrix = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)
        (tmp_path / "near.bin").write_bytes(matrix.tobytes())
        np.testing.assert_array_equal(
            read_matrix(_external(tmp_path / "m.onnx", "near.bin"), "emap", (512, 512)), matrix
        )
        (tmp_path / "near.bin").write_bytes(matrix.tobytes()[:1000])
        with pytest.raises(EngineError, match="which is cut off"):
            read_matrix(tmp_path / "m.onnx", "emap", (512, 512))


def _external(path, location):
    """A model whose last weight lies in another file."""
    networks.generator(path, contract("inswapper_128"), emap=("emap", np.zeros((512, 512))))
    model = onnx.load(str(path))
    tensor = model.graph.initializer[-1]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(512 * 512 * 4))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    path.write_bytes(model.SerializeToString())
    return path


class TestWholeWay:
    """From what is typed to the painted frame, with the networks of the package before it."""

    @pytest.mark.parametrize("export", [Export(), Export(batch=True, names=("a", "b", "c", "d"))])
    def test_inswapper_from_a_file(self, store, tmp_path, export):
        path = networks.generator(tmp_path / "in.onnx", contract("inswapper_128"), export, emap=np.eye(512))
        wanted = Wanted(str(path), models=store.folder, neural=NeuralOptions(boost=2, fps=0.01))
        swapper = open_swapper(wanted, [PHOTO, ASSETS / "astronaut.png"])
        said = []
        swapper.open(said.append)
        assert any("hopper.jpg" in line for line in said)
        image = portrait("astronaut").copy()
        layer = swapper.swap(image, face_in(image))
        swapper.blend(image, layer)
        # The same face again, as sharp as twice 128 pixels are.
        assert 0 < np.abs(image.astype(int) - portrait("astronaut")).mean() < 3
        swapper.close()

    def test_a_dfm_needs_no_photo(self, tmp_path):
        path = networks.dfm(tmp_path / "Somebody.dfm", side=128)
        swapper = open_swapper(Wanted(str(path), models=tmp_path, neural=NeuralOptions(morph=1.0)), [])
        swapper.open(lambda line: None)
        image = portrait("astronaut").copy()
        swapper.blend(image, swapper.swap(image, face_in(image)))
        assert swapper.name == "Somebody.dfm"
        assert np.abs(image.astype(int) - portrait("astronaut")).mean() < 5
        swapper.close()

    def test_others_do(self, store, tmp_path):
        path = networks.generator(tmp_path / "in.onnx", contract("inswapper_128"), emap=np.eye(512))
        with pytest.raises(UsageError, match="No face"):
            open_swapper(Wanted(str(path), models=store.folder), [])
