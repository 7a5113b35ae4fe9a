"""Files that are no usable model: each gets a sentence with its name, size and sha256, and the fix."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import zipfile

import numpy as np
import pytest

from engines.analysis.topology import WEIGHTS
from engines.errors import EngineError
from engines.runtime.model.file import SHIPPED, Hint, read_model_file
from engines.runtime.open import open_network
from tests.engines.runtime.graphs import double, load, with_external

MESH = WEIGHTS / "face_mesh_468.onnx"
PULL = Hint("Type: doppelcam models pull some_net", "ab" * 32)


def _zip():
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    return kept.getvalue()


LFS = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0f' * 32}\nsize 554253681\n".encode()
STRANGERS = {
    "html": (b"<!DOCTYPE html>\n<html><title>404</title></html>", "web page"),
    "html after a mark and blanks": (b"\xef\xbb\xbf \r\n<HTML>", "web page"),
    "xml": (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "web page"),
    "json": (b'{"error": "Not found"}', "JSON"),
    "lfs": (LFS, r"Git LFS pointer to a file of 554,253,681 bytes with sha256 (0f){32}"),
    "lfs, odd": (b"version https://git-lfs.github.com/spec/v1\noid md5:12\n", "Git LFS pointer"),
    "zeros": (b"\0" * 4096, "zeros"),
    "zip": (_zip(), "ZIP archive or a PyTorch checkpoint"),
    "gzip": (gzip.compress(b"x" * 100), "gzip"),
    "pickle": (pickle.dumps({"weights": 1}, 2), "pickle"),
    "png": (b"\x89PNG\r\n\x1a\n" + b"x" * 50, "PNG"),
    "plan": (b"ptrt\x00\x00\x01\x02" * 9, "TensorRT plan"),
    "ort": (b"\x20\x00\x00\x00ORTM" + b"\x00" * 50, "ONNX Runtime's own format"),
    "tflite": (b"\x20\x00\x00\x00TFL3" + b"\x00" * 50, "TensorFlow Lite"),
    "safetensors": (b"\x50\x00\x00\x00\x00\x00\x00\x00" + b'{"weight":{"dtype":"F32"}}', "safetensors"),
    "text": (b"This model has moved to another server.", "not an ONNX model"),
    "noise": (bytes(range(255, 0, -1)) * 9, "not an ONNX model"),
    "half": (MESH.read_bytes()[:50_000], r"cut off: at least [\d,]+ bytes"),
    "nearly all": (MESH.read_bytes()[:-1000], r"cut off: at least [\d,]+ bytes"),
}


@pytest.mark.parametrize(("content", "said"), STRANGERS.values(), ids=STRANGERS)
def test_what_is_no_model_is_called_by_its_name(tmp_path, content, said):
    path = tmp_path / "my model ü.onnx"
    path.write_bytes(content)
    with pytest.raises(EngineError, match=said) as caught:
        open_network(path)
    assert "my model ü.onnx" in caught.value.what
    assert f"{len(content):,} bytes" in caught.value.what
    assert hashlib.sha256(content).hexdigest() in caught.value.what
    assert caught.value.fix == "Copy or download it again."
    assert caught.value.exit_code == 4
    with pytest.raises(EngineError, match=f"the right one has sha256 {PULL.sha256}") as caught:
        open_network(path, hint=PULL)
    assert hashlib.sha256(content).hexdigest() in caught.value.what
    assert caught.value.fix == PULL.fix


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "is missing"),
        (lambda path: path.touch(), r"is empty \(0 bytes\)"),
        (lambda path: path.mkdir(), "is a directory"),
    ],
    ids=["missing", "empty", "directory"],
)
def test_what_is_no_file_is_said(tmp_path, make, said):
    path = tmp_path / "nowhere.onnx"
    make(path)
    with pytest.raises(EngineError, match=f"nowhere\\.onnx' {said}") as caught:
        open_network(path)
    assert caught.value.fix
    with pytest.raises(EngineError, match=said) as caught:
        open_network(path, hint=SHIPPED)
    assert caught.value.fix == "Install doppelcam again: it ships with it."


def test_a_name_cannot_write_on_the_terminal(tmp_path):
    with pytest.raises(EngineError) as caught:
        open_network(tmp_path / "a\x1b[31m\nb.onnx")
    assert not {"\x1b", "\n"} & set(caught.value.what)


def test_damage_that_only_the_sum_shows_is_shown(tmp_path):
    """The bytes still make a model of sorts, and the runtime's complaint would lead nowhere."""
    path = double(tmp_path / "net.onnx")
    path.write_bytes(path.read_bytes().replace(b"Mul", b"Mvl"))
    with pytest.raises(EngineError, match="operator Mvl, which opset 17 does not have") as caught:
        open_network(path)
    assert "standard operators" in caught.value.fix
    with pytest.raises(EngineError, match=f"the right one has sha256 {PULL.sha256}") as caught:
        open_network(path, hint=PULL)
    assert caught.value.fix == PULL.fix
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(EngineError, match="operator Mvl") as caught:
        open_network(path, hint=Hint(PULL.fix, digest))
    assert "the right one" not in caught.value.what
    assert "standard operators" in caught.value.fix


@pytest.mark.parametrize(
    ("how", "said", "fix"),
    [
        (
            {"ir": 40},
            r"version 40 of the ONNX format, and this ONNX Runtime reads up to \d+",
            "pip install -U",
        ),
        ({"opset": 40}, r"uses opset 40, which is newer", "pip install -U"),
    ],
)
def test_a_file_from_the_future_says_what_to_update(tmp_path, how, said, fix):
    path = double(tmp_path / "new.onnx", **how)
    with pytest.raises(EngineError, match=said) as caught:
        open_network(path)
    assert fix in caught.value.fix
    assert "onnxruntime_src" not in caught.value.what


@pytest.mark.parametrize("harm", ["no such input", "no graph", "cycle"])
def test_a_graph_that_makes_no_sense_is_an_engine_error(tmp_path, harm):
    path = double(tmp_path / "net.onnx")
    model = load(path)
    if harm == "no such input":
        model.graph.node[0].input[0] = "nobody"
    elif harm == "cycle":
        model.graph.node[0].input[0] = "y"
    else:
        model.ClearField("graph")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(EngineError, match=r"net\.onnx"):
        open_network(path)


def _weights(path, count=1000):
    np.arange(count, dtype=np.float32).tofile(path)


def test_weights_in_a_second_file_are_used(tmp_path):
    _weights(tmp_path / "w.bin")
    network = open_network(with_external(tmp_path / "net.onnx", "w.bin"))
    network.inputs[0][:] = 1
    network.run()
    np.testing.assert_array_equal(network.outputs[0], np.arange(1000, dtype=np.float32) + 1)
    network.close()


@pytest.mark.parametrize(
    "location",
    ["../w.bin", "sub/../../w.bin", "/etc/passwd", "\\\\server\\share\\w.bin", "..\\w.bin", "C:\\w.bin", "C:w.bin", "",
     "w.bin\0.onnx"],
)  # fmt: skip
def test_a_model_reads_nothing_outside_of_its_folder(tmp_path, location):
    inside = tmp_path / "models"
    inside.mkdir()
    _weights(tmp_path / "w.bin")
    with pytest.raises(EngineError, match="outside of its folder") as caught:
        read_model_file(with_external(inside / "net.onnx", location))
    assert "\0" not in caught.value.what
    assert "who made it" in caught.value.fix


def test_nor_through_a_link(tmp_path):
    inside = tmp_path / "models"
    inside.mkdir()
    _weights(tmp_path / "w.bin")
    (inside / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(EngineError, match="link that leaves its folder"):
        open_network(with_external(inside / "net.onnx", "link.bin"))


def test_weights_that_are_missing_or_too_short_are_named(tmp_path):
    path = with_external(tmp_path / "net.onnx", "w.bin")
    with pytest.raises(EngineError, match=r"second file, 'w\.bin', which is not beside it"):
        open_network(path)
    (tmp_path / "w.bin").mkdir()
    with pytest.raises(EngineError, match="not beside it"):
        open_network(path)
    (tmp_path / "w.bin").rmdir()
    _weights(tmp_path / "w.bin", 10)
    with pytest.raises(EngineError, match=r"cut off: 40 of at least 4,000 bytes"):
        open_network(path)


def test_a_good_file_is_read_once_and_not_summed(tmp_path, monkeypatch):
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("half a gigabyte read for nothing"))
    found = read_model_file(MESH, PULL)
    assert found.size == MESH.stat().st_size
    assert found.outline.inputs[0].shape is not None
