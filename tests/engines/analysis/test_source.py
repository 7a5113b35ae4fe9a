"""Source photos: whichever way they are turned, and what is said of those that cannot be used."""

from __future__ import annotations

import logging

import cv2
import numpy as np
import pytest

from engines.errors import PhotoError
from tests.engines.scenes import FILES, GREY, mesh, placed, portrait, reader


def find(image, name="photo.jpg"):
    return reader().find(np.ascontiguousarray(image), name)


@pytest.mark.parametrize("quarter", [0, 1, 2, 3])
@pytest.mark.parametrize("name", FILES)
def test_however_a_photo_is_turned_it_comes_out_upright(name, quarter):
    found = find(np.rot90(portrait(name), quarter))
    assert np.array_equal(found.image, portrait(name))
    np.testing.assert_allclose(found.points, mesh(name), atol=1e-3)
    assert found.note == ""


@pytest.mark.parametrize("name", FILES)
def test_read_from_a_file(name, tmp_path):
    path = tmp_path / "Fräulein 雪.png"
    path.write_bytes(cv2.imencode(".png", portrait(name))[1].tobytes())
    found = reader().read(path)
    assert found.name == path.name
    np.testing.assert_allclose(found.points, mesh(name), atol=1e-3)


@pytest.mark.parametrize("name", FILES)
def test_greyscale_and_dark_and_pale(name):
    grey = cv2.cvtColor(cv2.cvtColor(portrait(name), cv2.COLOR_BGR2GRAY), cv2.COLOR_GRAY2BGR)
    pale = (portrait(name) * 0.4 + 140).astype(np.uint8)
    dark = (portrait(name) * 0.3).astype(np.uint8)
    for image in (grey, pale, dark):
        off = np.abs(find(image).points - mesh(name))[:, :2].mean() / np.ptp(mesh(name)[:, 0])
        assert off < 0.03


@pytest.mark.parametrize(
    ("large_at", "small_at", "place"),
    [((220, 300), (720, 300), "at the left"), ((680, 300), (180, 300), "at the right"),
     ((450, 310), (90, 480), "in the middle")],
)  # fmt: skip
def test_of_two_faces_the_larger_one_is_taken_and_that_is_said(large_at, small_at, place, caplog):
    picture = placed("hopper", (900, 600), 200, large_at)
    x = small_at[0]
    columns = slice(max(0, x - 90), x + 90)
    picture[:, columns] = placed("astronaut", (900, 600), 110, small_at)[:, columns]
    with caplog.at_level(logging.INFO):
        found = find(picture, "party.jpg")
    assert found.note == f"party.jpg shows 2 faces; the largest one was taken, {place}."
    assert found.note in caplog.text
    np.testing.assert_allclose(found.points[:, 0].mean(), large_at[0], atol=40)


def drawn_smile():
    smile = np.full((400, 400, 3), 255, np.uint8)
    cv2.circle(smile, (200, 200), 120, (0, 220, 255), -1)
    cv2.circle(smile, (160, 170), 14, (0, 0, 0), -1)
    cv2.circle(smile, (240, 170), 14, (0, 0, 0), -1)
    cv2.ellipse(smile, (200, 220), (60, 45), 0, 20, 160, (0, 0, 0), 6)
    return smile


def test_no_face_is_said_by_name():
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (480, 640, 3), np.uint8)
    hills = cv2.resize(rng.integers(0, 256, (12, 16, 3), np.uint8), (640, 480), interpolation=cv2.INTER_CUBIC)
    for image in (noise, hills, np.full((300, 300, 3), 127, np.uint8), drawn_smile()):
        with pytest.raises(PhotoError, match=r"There is no face in cat.jpg"):
            find(image, "cat.jpg")
    with pytest.raises(PhotoError, match="drawings"):
        find(drawn_smile())


@pytest.mark.parametrize("edge", ["left", "right", "top", "bottom"])
@pytest.mark.parametrize("name", FILES)
def test_a_face_that_is_cut_off_is_refused_and_the_edge_is_named(name, edge):
    (x0, y0), (x1, y1) = mesh(name)[:, :2].min(0).astype(int), mesh(name)[:, :2].max(0).astype(int)
    for share in (0.15, 0.3):
        cut = int(share * (x1 - x0))
        part = {
            "left": np.s_[:, x0 + cut :], "right": np.s_[:, : x1 - cut],
            "top": np.s_[y0 + cut :], "bottom": np.s_[: y1 - cut],
        }[edge]  # fmt: skip
        with pytest.raises(PhotoError, match=f"half.png is cut off at the {edge} edge"):
            find(portrait(name)[part], "half.png")


@pytest.mark.parametrize("name", FILES)
def test_a_face_that_fills_the_picture_is_found(name):
    (x0, y0), (x1, y1) = mesh(name)[:, :2].min(0).astype(int), mesh(name)[:, :2].max(0).astype(int)
    m = int(0.03 * (x1 - x0))
    found = find(portrait(name)[y0 - m : y1 + m, x0 - m : x1 + m])
    off = np.linalg.norm(found.points[:, :2] + [x0 - m, y0 - m] - mesh(name)[:, :2], axis=1)
    assert off.mean() < 0.03 * (x1 - x0)


@pytest.mark.parametrize("name", FILES)
def test_a_face_that_is_too_small_is_refused_with_its_size(name):
    for width in (40, 30, 20):
        with pytest.raises(PhotoError, match=r"The face in far.png is only \d\d pixels wide") as caught:
            find(placed(name, (300, 300), width, (150, 150)), "far.png")
        assert "at least 48" in caught.value.fix
    assert np.ptp(find(placed(name, (300, 300), 60, (150, 150))).points[:, 0]) == pytest.approx(60, rel=0.1)


def test_a_small_face_in_a_large_photo_is_found():
    found = find(placed("astronaut", (3000, 2000), 300, (1900, 900)))
    np.testing.assert_allclose(found.points[:, :2].mean(0), [1900, 900], atol=40)


def test_the_photo_given_is_left_as_it_was():
    image = np.rot90(portrait("hopper")).copy()
    before = image.copy()
    find(image)
    assert (image == before).all()
    assert tuple(image[0, 0]) != GREY
