"""Points that somebody marked in a drawing, and what a hostile file of them can do: nothing."""

from __future__ import annotations

import tomllib

import cv2
import numpy as np
import pytest

from engines.analysis.marks import EXAMPLE, MARKS, marks_of, read_marks
from engines.analysis.source import SourceReader
from engines.analysis.topology import triangles
from engines.errors import PhotoError
from tests.engines.scenes import mesh

SIZE = (600, 600)


def written(tmp_path, text):
    path = tmp_path / "mascot.points.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def toml(marks):
    return "\n".join(
        f"{group} = {{ {', '.join(f'{name} = {value}' for name, value in points.items())} }}"
        for group, points in marks.items()
    )


def example():
    return tomllib.loads(EXAMPLE)


def test_the_example_is_a_face_that_goes_through_its_marks(tmp_path):
    points = read_marks(written(tmp_path, EXAMPLE), SIZE)
    assert points.shape == (478, 3)
    assert points.dtype == np.float32
    for group, names in MARKS.items():
        for name, landmark in names.items():
            assert np.linalg.norm(points[landmark, :2] - example()[group][name]) < 6, f"{group}.{name}"
    assert np.ptp(points[:, 2]) > 50


@pytest.mark.parametrize("name", ["astronaut", "hopper"])
def test_marks_of_a_real_face_give_its_landmarks(tmp_path, name):
    true = mesh(name)
    marks = {g: {n: true[i, :2].tolist() for n, i in names.items()} for g, names in MARKS.items()}
    points = read_marks(written(tmp_path, toml(marks)), (2000, 2000))
    apart = np.linalg.norm(points[:468, :2] - true[:, :2], axis=1) / np.ptp(true[:, 0])
    assert np.median(apart) < 0.03
    assert apart.max() < 0.12


def test_little_is_folded_where_eyes_are_as_large_as_in_cartoons(tmp_path):
    marks = example()
    marks["right_eye"] = {"outer": [140, 250], "top": [210, 160], "inner": [285, 250], "bottom": [210, 330]}
    marks["left_eye"] = {"outer": [460, 250], "top": [390, 160], "inner": [315, 250], "bottom": [390, 330]}
    for side, x in (("right", 1), ("left", -1)):
        marks[f"{side}_brow"] = {n: [300 - x * d, y] for n, d, y in (("outer", 150, 150), ("middle", 90, 130),
                                                                     ("inner", 30, 145))}  # fmt: skip
    points = read_marks(written(tmp_path, toml(marks)), SIZE).astype(np.float64)
    a, b, c = (points[triangles()[:, i], :2] for i in range(3))
    area = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
    assert np.abs(area[area > 0]).sum() < 0.25 * np.abs(area).sum()


@pytest.mark.parametrize("group, name", [(g, n) for g, names in MARKS.items() for n in names])
def test_a_point_that_is_missing_is_named_and_an_example_shown(tmp_path, group, name):
    marks = example()
    del marks[group][name]
    with pytest.raises(PhotoError, match=rf"lacks the point {group}\.{name}") as caught:
        read_marks(written(tmp_path, toml(marks)), SIZE)
    assert EXAMPLE.strip() in str(caught.value)


@pytest.mark.parametrize("value", [
    "nan", "[1, nan]", "[inf, 2]",
    "[1]", "[1, 2, 3]", "'1, 2'", "[true, false]", "['1', '2']", "[1e300, 1]", "[-5000, 1]",
    "[9999999999999999999999999999, 1]", "{}", "[[1, 2], [3, 4]]",
])  # fmt: skip
def test_values_that_are_no_place(tmp_path, value):
    text = EXAMPLE.replace("chin = [300, 500]", f"chin = {value}")
    assert text != EXAMPLE
    with pytest.raises(PhotoError, match=r"outline\.chin"):
        read_marks(written(tmp_path, text), SIZE)


@pytest.mark.parametrize("text", [
    b"\xff\xfe\x00", b"right_eye = [", b"right_eye = 3", b"[right_eye]\nouter = 1", b"a" * 70_000,
    b"x = " + b"[" * 3000, EXAMPLE.encode() + b"\nnosee = { tip = [1, 2] }",
    EXAMPLE.encode().replace(b"forehead", b"fore_head"), EXAMPLE.encode() + b'\n"\x1b[31m" = 1',
    EXAMPLE.encode() + b"\nnose = {}", EXAMPLE.encode() + b"\nnose = { tip = [1, 2], top = [3, 4] }",
])  # fmt: skip
def test_files_that_are_none(tmp_path, text):
    with pytest.raises(PhotoError) as caught:
        read_marks(written(tmp_path, text), SIZE)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("exchanged, said", [
    (("right_eye", "left_eye"), "eye"), (("outline.right", "outline.left"), "outline"),
    (("outline.forehead", "outline.chin"), "outline"), (("mouth.right", "mouth.left"), "mouth"),
    (("right_eye.outer", "right_eye.inner"), "right_eye"),
])  # fmt: skip
def test_left_and_right_mistaken(tmp_path, exchanged, said):
    marks = example()
    one, other = (name.split(".") for name in exchanged)
    if len(one) == 1:
        marks[one[0]], marks[other[0]] = marks[other[0]], marks[one[0]]
    else:
        table, a, b = marks[one[0]], one[1], other[1]
        table[a], table[b] = table[b], table[a]
    with pytest.raises(PhotoError, match=said):
        read_marks(written(tmp_path, toml(marks)), SIZE)


def test_any_points_at_all_give_a_face_or_a_sentence(tmp_path):
    random = np.random.default_rng(5)
    for _ in range(60):
        marks = {g: {n: random.uniform(0, 600, 2).tolist() for n in names} for g, names in MARKS.items()}
        try:
            points = read_marks(written(tmp_path, toml(marks)), SIZE)
        except PhotoError:
            continue
        assert np.isfinite(points).all()


def test_a_drawing_with_marks_beside_it_is_read_and_one_without_is_told_how(tmp_path):
    picture = tmp_path / "mascot.png"
    drawn = np.zeros((600, 600, 4), np.uint8)
    cv2.circle(drawn, (300, 300), 220, (60, 160, 240, 255), -1)
    cv2.imwrite(str(picture), drawn)
    reader = SourceReader(468)
    try:
        with pytest.raises(PhotoError, match=r"mascot\.points\.toml"):
            reader.read(picture)
        assert marks_of(picture) is None
        written(tmp_path, EXAMPLE)
        face = reader.read(picture)
    finally:
        reader.close()
    assert face.marked
    assert face.points.shape == (468, 3)
    assert face.alpha.shape == (600, 600)
    assert face.alpha[300, 300] == 255
    assert face.alpha[0, 0] == 0
