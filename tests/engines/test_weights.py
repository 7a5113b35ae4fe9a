"""The carried networks are the documented ones, and what makes them again refuses bad input."""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import tarfile
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

from engines.runtime.ort.network import OnnxNetwork
from tools.convert_models import canonical, fetch
from tools.convert_models.recipes import RECIPES, ROOT, TEST_DATA, WEIGHTS, Package, expected_sums

# Input shape and the sizes of the outputs, by which the program tells them apart.
CONTRACTS = {
    "face_detection_short": ((1, 128, 128, 3), [896, 896 * 16]),
    "face_detection_full": ((1, 192, 192, 3), [2304, 2304 * 16]),
    "face_mesh_468": ((1, 192, 192, 3), [1, 1404]),
    "face_mesh_478": ((1, 192, 192, 3), [1, 10, 10, 142, 142, 160, 1404]),
}
NETWORKS = sorted(WEIGHTS.glob("*.onnx"))
DATA = [
    path
    for folder in (WEIGHTS, TEST_DATA)
    for path in sorted(folder.iterdir())
    if path.suffix in (".onnx", ".npz")
]


def _pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.name)
def test_a_carried_file_has_the_sum_it_is_listed_with(path):
    listed = dict(
        reversed(line.split("  ")) for line in (path.parent / "SHA256SUMS").read_text("ascii").splitlines()
    )
    assert listed[path.name] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_lists_recipes_and_files_name_the_same():
    carried = {path.name for path in DATA}
    assert set(expected_sums()) == carried
    assert {recipe.target for recipe in RECIPES} == set(DATA)
    assert len(RECIPES) == len(carried)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.target.name)
def test_the_notice_tells_source_version_and_sum_of_every_file(recipe):
    if recipe.target.parent == WEIGHTS:
        notice = (WEIGHTS / "NOTICE.md").read_text(encoding="utf-8")
        part = re.search(rf"^## {re.escape(recipe.target.name)}$(.*?)(?=^## )", notice, re.M | re.S)
        assert part, "no part of the notice is about it"
        text = part.group(1)
        assert expected_sums()[recipe.target.name] in text
        assert "Licence: " in text
        assert "Changes: " in text
    else:
        text = (ROOT / "NOTICE").read_text(encoding="utf-8")
        assert recipe.target.name in text
    assert recipe.package.name in text
    assert recipe.package.version in text
    assert Path(recipe.members[0].lstrip("!")).name in text


def test_packages_are_pinned_to_one_version_and_to_their_bytes():
    for recipe in RECIPES:
        assert re.fullmatch(r"\d+\.\d+\.\d+", recipe.package.version)
        assert re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", recipe.package.integrity)


def test_the_wheel_takes_the_networks_along():
    hatch = _pyproject()["tool"]["hatch"]["build"]
    wheel = hatch["targets"]["wheel"]
    assert "engines" in wheel["packages"]
    assert not {"exclude", "only-include", "include"} & set(wheel)
    assert "exclude" not in hatch
    ignored = [
        line.strip().strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    ]
    for path in WEIGHTS.iterdir():  # hatch leaves out what git ignores
        parts = path.relative_to(ROOT).parts
        assert not [rule for rule in ignored if rule and any(fnmatch(part, rule) for part in parts)], path


def test_the_licence_files_are_there_and_are_what_they_are_called():
    project = _pyproject()["project"]
    for pattern in project["license-files"]:
        assert list(ROOT.glob(pattern)), f"{pattern} is missing"
    assert "engines/weights/LICENSE-APACHE-2.0.txt" in project["license-files"]
    assert "GPL-2.0-or-later" in project["license"]
    gpl = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "GNU GENERAL PUBLIC LICENSE" in gpl
    assert "Version 2, June 1991" in gpl
    assert "either version 2 of the License, or (at your option)" in (ROOT / "NOTICE").read_text(
        encoding="utf-8"
    )
    assert "Version 2.0, January 2004" in (WEIGHTS / "LICENSE-APACHE-2.0.txt").read_text(encoding="utf-8")


def test_every_carried_picture_is_credited():
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    pictures = [p for p in (ROOT / "realtime" / "assets").iterdir() if p.suffix in (".png", ".jpg", ".jpeg")]
    assert pictures
    for picture in pictures:
        assert f"realtime/assets/{picture.name}" in notice


def test_every_network_has_a_contract_here():
    assert {path.stem for path in NETWORKS} == set(CONTRACTS)


@pytest.mark.parametrize("path", NETWORKS, ids=lambda path: path.stem)
def test_a_network_opens_runs_and_has_its_shapes(path):
    shape, sizes = CONTRACTS[path.stem]
    network = OnnxNetwork(path)
    try:
        (spec,) = network.input_specs
        assert spec.shape == shape
        assert spec.dtype == "float32"
        assert sorted(int(np.prod(out.shape)) for out in network.output_specs) == sorted(sizes)
        network.inputs[0][...] = 0.5
        network.run()
        assert all(np.isfinite(out).all() for out in network.outputs)
    finally:
        network.close()


def test_the_canonical_face_is_a_closed_description():
    with np.load(WEIGHTS / "canonical_face.npz") as face:
        vertices, triangles = face["V"], face["I"]
    assert vertices.shape == (468, 5)
    assert vertices.dtype == np.float32
    assert triangles.shape == (898, 3)
    assert np.isfinite(vertices).all()
    assert ((vertices[:, 3:] >= 0) & (vertices[:, 3:] <= 1)).all()
    assert set(triangles.ravel()) == set(range(468))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _message(vertices, corners, *, packed=False) -> bytes:
    floats = [struct.pack("<f", value) for value in np.ravel(vertices)]
    if packed:
        joined = b"".join(floats)
        buffer = _varint(3 << 3 | 2) + _varint(len(joined)) + joined
    else:
        buffer = b"".join(_varint(3 << 3 | 5) + value for value in floats)
    buffer += b"".join(_varint(4 << 3) + _varint(corner) for corner in corners)
    mesh = _varint(1 << 3) + b"\0" + buffer  # a vertex type first, which is passed over
    return _varint(2 << 3 | 2) + b"\x02ab" + _varint(1 << 3 | 2) + _varint(len(mesh)) + mesh


@pytest.mark.parametrize("packed", [False, True])
def test_a_mesh_message_is_read(packed):
    expected = np.arange(15, dtype=np.float32).reshape(3, 5)
    vertices, triangles = canonical.parse(_message(expected, [2, 0, 1], packed=packed))
    np.testing.assert_array_equal(vertices, expected)
    np.testing.assert_array_equal(triangles, [[2, 0, 1]])
    assert triangles.dtype == np.int64


def test_a_mesh_message_cut_anywhere_is_refused():
    whole = _message(np.zeros((3, 5)), [0, 1, 200 % 3])
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r"cut off|no mesh"):
            canonical.parse(whole[:length])


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (_message(np.zeros((3, 5)), [0, 1, 3]), "no vertex"),
        (_message(np.zeros(14), [0, 1, 2]), "no mesh"),
        (_message(np.zeros((3, 5)), [0, 1]), "no mesh"),
        (_message(np.zeros((3, 5)), []), "no mesh"),
        (b"\x0b", "unknown kind"),
        (b"\xff" * 30, "cut off"),
    ],
)
def test_a_message_that_is_no_mesh_is_refused(message, says):
    with pytest.raises(ValueError, match=says):
        canonical.parse(message)


def _archive(path: Path, files: dict[str, bytes]) -> Package:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return Package("@some/thing", "1.0.0", fetch.integrity(path.read_bytes()))


def test_a_package_in_the_cache_is_used_only_while_it_is_the_pinned_one(tmp_path):
    path = tmp_path / "some-thing-1.0.0.tgz"
    package = _archive(path, {"a": b"one"})
    assert fetch.fetch(package, tmp_path) == path
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(SystemExit, match=r"is not @some/thing@1\.0\.0"):
        fetch.fetch(package, tmp_path)


def test_files_come_out_of_a_package_and_out_of_its_packed_assets(tmp_path):
    files = (
        {"filename": "/deep/b.bin", "start": 3, "end": 6},
        {"filename": "/deep/c.bin", "start": 6, "end": 99},
    )
    loader = f"x; loadPackage({json.dumps({'files': files})});".encode()
    path = tmp_path / "p.tgz"
    _archive(
        path,
        {
            "models/a.json": b"{}",
            "face_mesh_solution_packed_assets.data": b"aaabbbccc",
            "face_mesh_solution_packed_assets_loader.js": loader,
        },
    )
    assert fetch.extract(path, "models/a.json", tmp_path) == tmp_path / "a.json"
    assert fetch.extract(path, "!b.bin", tmp_path).read_bytes() == b"bbb"
    for missing in ("models/none.json", "!none.bin", "!c.bin"):  # the last would end behind the assets
        with pytest.raises(SystemExit, match="no file"):
            fetch.extract(path, missing, tmp_path)
