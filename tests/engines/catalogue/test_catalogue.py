"""The catalogue that ships, and what is said of one that is wrong."""

from __future__ import annotations

import re
import tomllib
from dataclasses import FrozenInstanceError

import pytest

from engines.catalogue.catalogue import BUILT_IN, Catalogue
from engines.errors import EngineError, UsageError

CATALOGUE = Catalogue.load()

NAMES = [
    "inswapper_128", "inswapper_128_fp16", "hyperswap_1a_256", "hyperswap_1b_256", "hyperswap_1c_256",
    "ghost_1_256", "ghost_2_256", "ghost_3_256", "simswap_256", "simswap_unofficial_512",
    "hififace_unofficial_256", "uniface_256", "blendswap_256", "arcface_w600k_r50", "crossface_ghost",
    "crossface_simswap", "crossface_hififace", "scrfd_2.5g", "scrfd_10g", "yoloface_8n", "2dfan4", "2d106det",
    "xseg_1", "xseg_2", "xseg_3", "bisenet_resnet_18", "bisenet_resnet_34", "gfpgan_1.4", "gpen_bfr_256",
    "gpen_bfr_512", "codeformer",
]  # fmt: skip


def test_it_has_every_model_and_no_other():
    assert list(CATALOGUE.entries) == NAMES


@pytest.mark.parametrize("entry", [*CATALOGUE], ids=lambda entry: entry.name)
def test_every_entry_says_what_a_user_must_know(entry):
    assert entry.urls
    assert all(url.startswith("https://") for url in (*entry.urls, entry.terms))
    assert entry.licence
    assert entry.publisher
    assert (entry.sha256 is None) == (entry.size is None)
    assert entry.asks == (entry.commercial != "yes")
    assert len({entry.sha256, *entry.also}) == 1 + len(entry.also)
    # What sums there are look like sums of something: no row of the same sign, no counting up.
    for digest in filter(None, (entry.sha256, *entry.also)):
        assert len(set(digest)) > 8


def test_no_sum_stands_for_two_models():
    sums = [digest for entry in CATALOGUE for digest in (entry.sha256, *entry.also) if digest]
    assert len(set(sums)) == len(sums)
    assert sum(entry.sha256 is not None for entry in CATALOGUE) >= 15


SWAPS = {
    "inswapper_128": (128, "arcface_128", 0.0, 1.0, 0.0, 1.0, "emap"),
    "inswapper_128_fp16": (128, "arcface_128", 0.0, 1.0, 0.0, 1.0, "emap"),
    "hyperswap_1a_256": (256, "arcface_128", 0.5, 0.5, 0.5, 0.5, "embedding_normed"),
    "hyperswap_1b_256": (256, "arcface_128", 0.5, 0.5, 0.5, 0.5, "embedding_normed"),
    "hyperswap_1c_256": (256, "arcface_128", 0.5, 0.5, 0.5, 0.5, "embedding_normed"),
    "ghost_1_256": (256, "arcface_112_v1", 0.5, 0.5, 0.5, 0.5, "converted"),
    "ghost_2_256": (256, "arcface_112_v1", 0.5, 0.5, 0.5, 0.5, "converted"),
    "ghost_3_256": (256, "arcface_112_v1", 0.5, 0.5, 0.5, 0.5, "converted"),
    "simswap_256": (256, "arcface_112_v1", 0.485, 0.229, 0.0, 1.0, "converted_normed"),
    "simswap_unofficial_512": (512, "arcface_112_v1", 0.0, 1.0, 0.0, 1.0, "converted_normed"),
    "hififace_unofficial_256": (256, "mtcnn_512", 0.5, 0.5, 0.5, 0.5, "converted_normed"),
    "uniface_256": (256, "ffhq_512", 0.5, 0.5, 0.5, 0.5, "image"),
    "blendswap_256": (256, "ffhq_512", 0.0, 1.0, 0.0, 1.0, "image"),
}  # fmt: skip


def test_every_swap_generator_has_its_contract():
    found = {
        entry.name: (
            entry.contract.side, entry.contract.template, entry.contract.mean[0], entry.contract.std[0],
            entry.contract.out_mean[0], entry.contract.out_std[0], entry.contract.source,
        )
        for entry in CATALOGUE if entry.kind == "swap"
    }  # fmt: skip
    assert found == SWAPS
    for entry in CATALOGUE:
        if entry.kind == "swap":
            assert (entry.contract.channels, entry.contract.layout) == ("rgb", "nchw")
            kinds = [CATALOGUE.entry(name).kind for name in entry.needs]
            source = entry.contract.source
            assert ("embed" in kinds) == (source != "image")
            assert ("convert" in kinds) == source.startswith("converted")
    assert CATALOGUE.entry("simswap_256").contract.mean == (0.485, 0.456, 0.406)
    assert CATALOGUE.entry("uniface_256").contract.source_template == "ffhq_512"
    assert CATALOGUE.entry("uniface_256").contract.source_side == 256
    assert CATALOGUE.entry("blendswap_256").contract.source_template == "arcface_112_v2"
    assert CATALOGUE.entry("blendswap_256").contract.source_side == 112


def test_the_analysis_and_the_restorers_have_theirs():
    arcface = CATALOGUE.entry("arcface_w600k_r50").contract
    assert (arcface.side, arcface.template, arcface.mean[0], arcface.std[0]) == (
        112,
        "arcface_112_v2",
        0.5,
        0.5,
    )
    scrfd = CATALOGUE.entry("scrfd_10g").contract
    assert (scrfd.mean[0] * 255, scrfd.std[0] * 255) == pytest.approx((127.5, 128))
    assert CATALOGUE.entry("scrfd_2.5g").contract == scrfd
    xseg = CATALOGUE.entry("xseg_2").contract
    assert (xseg.side, xseg.layout, xseg.channels) == (256, "nhwc", "bgr")
    assert CATALOGUE.entry("gpen_bfr_256").contract.template == "arcface_128"
    assert CATALOGUE.entry("2d106det").contract.std[0] * 255 == pytest.approx(1)
    for name in ("gfpgan_1.4", "gpen_bfr_512", "codeformer"):
        wants = CATALOGUE.entry(name).contract
        assert (wants.side, wants.template, wants.mean[0], wants.out_std[0]) == (512, "ffhq_512", 0.5, 0.5)


def test_an_entry_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        CATALOGUE.entry("xseg_1").size = 3
    with pytest.raises(TypeError):
        CATALOGUE.entries["x"] = CATALOGUE.entry("xseg_1")


@pytest.mark.parametrize(("typed", "near"), [
    ("inswapper", "inswapper_128"), ("Ghost_1_256", "ghost_1_256"), ("gfpgan", "gfpgan_1.4"), ("xseg1", "xseg_1"),
])  # fmt: skip
def test_a_name_that_is_nearly_right_gets_its_neighbour(typed, near):
    with pytest.raises(UsageError, match=re.escape(repr(typed))) as found:
        CATALOGUE.entry(typed)
    assert found.value.fix == f"Did you mean {near}?"


@pytest.mark.parametrize("typed", ["", "zzzz", "../../etc/passwd", "\x1b[31m", "😀" * 100])
def test_any_other_name_is_told_where_the_names_are(typed):
    with pytest.raises(UsageError) as found:
        CATALOGUE.entry(typed)
    assert "doppelcam models list" in found.value.fix
    assert "\x1b" not in found.value.what


def test_what_a_model_needs_comes_before_it():
    assert [entry.name for entry in CATALOGUE.with_needs("ghost_3_256")] == [
        "arcface_w600k_r50", "crossface_ghost", "ghost_3_256",
    ]  # fmt: skip
    assert [entry.name for entry in CATALOGUE.with_needs("xseg_1")] == ["xseg_1"]


FAMILY = 'kind = "occlude"\nside = 4\n'
MODEL = """family = "f"
file = "a.onnx"
urls = ["https://a.example/a.onnx"]
publisher = "p"
licence = "l"
commercial = "yes"
"""


def _load(tmp_path, family=FAMILY, model=MODEL, rest=""):
    path = tmp_path / "models.toml"
    path.write_text(f"[family.f]\n{family}\n[model.a]\n{model}\n{rest}", "utf-8")
    return Catalogue.load(path)


def test_a_small_catalogue_is_read(tmp_path):
    entry = _load(tmp_path).entry("a")
    assert (entry.kind, entry.contract.side, entry.size, entry.sha256, entry.needs) == (
        "occlude",
        4,
        None,
        None,
        (),
    )


@pytest.mark.parametrize("file", [
    "../a.onnx", "/etc/a.onnx", "..\\\\a.onnx", "C:a.onnx", "a/b.onnx", ".a.onnx", "a.exe", "a.onnx ", "",
    "a\\u0000.onnx",
    "a.onnx\\n", "con:.onnx", "~/a.onnx", "a.onnx/..",
])  # fmt: skip
def test_no_name_of_a_file_leads_out_of_the_folder(tmp_path, file):
    with pytest.raises(EngineError, match="entry 'a' is wrong"):
        _load(tmp_path, model=MODEL.replace("a.onnx", file, 1))


@pytest.mark.parametrize(("old", "new"), [
    ("https://a.example/a.onnx", "http://a.example/a.onnx"), ("https://a.example/a.onnx", "http://127.0.0.1/a.onnx"),
    ("https://a.example/a.onnx", "https://u:p@a.example/a.onnx"), ("https://a.example/a.onnx", "file:///a.onnx"),
    ('commercial = "yes"', 'commercial = "maybe"'), ('licence = "l"', 'licence = " "'), ('licence = "l"', ""),
    ('publisher = "p"', 'sha256 = "12"\npublisher = "p"'), ('publisher = "p"', 'size = -1\npublisher = "p"'),
    ('publisher = "p"', f'sha256 = "{"A" * 64}"\npublisher = "p"'), ('publisher = "p"', 'size = "1"\npublisher = "p"'),
    ('publisher = "p"', 'unknown = 1\npublisher = "p"'), ('family = "f"', 'family = "g"'), ('family = "f"', ""),
    ('publisher = "p"', 'needs = ["b"]\npublisher = "p"'), ('publisher = "p"', 'needs = ["a"]\npublisher = "p"'),
    ('publisher = "p"', 'also = ["xyz"]\npublisher = "p"'), ('publisher = "p"', 'urls2 = 1\npublisher = "p"'),
])  # fmt: skip
def test_an_entry_that_is_wrong_is_named(tmp_path, old, new):
    assert old in MODEL
    with pytest.raises(EngineError, match="entry 'a' is wrong"):
        _load(tmp_path, model=MODEL.replace(old, new))


@pytest.mark.parametrize("family", [
    'kind = "swim"', 'kind = "swap"\nsource = "magic"', 'kind = "swap"\nsource = "image"',
    'kind = "swap"\nstd = [0, 1, 1]',
    'kind = "swap"\nmean = [1, 2]', 'kind = "swap"\nmean = ["a", "b", "c"]', 'kind = "swap"\ntemplate = "none_128"',
    'kind = "swap"\nside = 99999', 'kind = "swap"\nside = -1', 'kind = "swap"\nchannels = "yuv"',
    'kind = "swap"\nlayout = "x"',
    'kind = "swap"\nmasks = ["hair"]', 'kind = "swap"\ninputs = [""]', 'kind = "swap"\ninputs = ["0 1"]',
    'kind = "swap"\ninputs = ["1 ..."]', 'kind = "swap"\nsource_side = 4', "side = 3", 'kind = "swap"\nmean = 3',
])  # fmt: skip
def test_a_contract_that_is_wrong_is_named(tmp_path, family):
    with pytest.raises(EngineError, match="entry 'a' is wrong"):
        _load(tmp_path, family=family)


def test_needs_in_a_circle_and_two_with_one_file_are_refused(tmp_path):
    b = MODEL.replace("a.onnx", "b.onnx")
    with pytest.raises(EngineError, match="needs"):
        _load(tmp_path, model=MODEL + 'needs = ["b"]', rest=f'[model.b]\n{b}needs = ["a"]')
    with pytest.raises(EngineError, match="same file"):
        _load(tmp_path, rest=f"[model.b]\n{MODEL.replace('a.onnx', 'A.onnx', 1)}")


@pytest.mark.parametrize("data", [b"\xff", b"[", b"\x00", None])
def test_a_catalogue_that_is_no_toml_is_refused(tmp_path, data):
    path = tmp_path / "models.toml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(EngineError, match=r"models\.toml"):
        Catalogue.load(path)


def test_it_ships_with_the_package():
    """The wheel takes whole packages; nothing may keep this file out of it."""
    project = tomllib.loads((BUILT_IN.parents[2] / "pyproject.toml").read_text("utf-8"))
    assert "engines" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    ignored = (BUILT_IN.parents[2] / ".gitignore").read_text("utf-8").split()
    assert not any(line in ("*.toml", "models.toml", "models/", "catalogue/") for line in ignored)
