"""Nobody can be recognised behind the veil, and it says what it is."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from realtime.frame import Frame, Kind
from realtime.shown.veil import Veil
from tests.realtime.fakes import MS, SECOND, make_frame

ROOT = Path(__file__).parents[2]
TEMPLATE = np.float32(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)
# Eyes, nose tip and corners of the mouth; then the box of the face: left, top, right, bottom.
PORTRAITS = {
    "astronaut.png": (
        np.float32([[203.5, 102.4], [246.6, 104.7], [222.6, 131.5], [200.4, 139.1], [246.0, 141.9]]),
        (178, 69, 273, 177),
    ),
    "hopper.jpg": (
        np.float32([[219.9, 192.4], [308.3, 188.5], [268.0, 244.9], [232.1, 278.3], [303.5, 275.0]]),
        (171, 133, 356, 335),
    ),
}


@cache
def network():
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    path = ROOT / "tests/data/mobileface.onnx"
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


@cache
def portrait(name):
    return cv2.imread(str(ROOT / "realtime/assets" / name))


def aligned(image, five):
    matrix, _ = cv2.estimateAffinePartial2D(five, TEMPLATE, method=cv2.LMEDS)
    return cv2.warpAffine(image, matrix, (112, 112)).astype(np.float32)


def identity(crop):
    vector = network().run(None, {network().get_inputs()[0].name: crop[None, :, :, ::-1]})[0].ravel()
    return vector / np.linalg.norm(vector)


def real(name):
    return identity(aligned(portrait(name), PORTRAITS[name][0]))


def scene(name, share, size, place):
    """The portrait with a face of this share of the frame's height, its middle at ``place``."""
    five, (left, top, right, bottom) = PORTRAITS[name]
    scale = share * size[1] / (bottom - top)
    matrix = np.float32(
        [
            [scale, 0, place[0] - scale * (left + right) / 2],
            [0, scale, place[1] - scale * (top + bottom) / 2],
        ]
    )
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    image = cv2.warpAffine(portrait(name), matrix, size, flags=how, borderMode=cv2.BORDER_REPLICATE)
    return image, five @ matrix[:, :2].T + matrix[:, 2]


def stranger():
    first, second = (real(name) for name in PORTRAITS)
    return float(first @ second)


def test_the_measure_itself_knows_a_face_when_it_sees_one():
    image, five = scene("astronaut.png", 0.5, (640, 360), (300, 180))
    assert identity(aligned(image, five)) @ real("astronaut.png") > 0.8
    assert stranger() < 0.3


@pytest.mark.parametrize("size", [(640, 360), (640, 480), (360, 640)])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("name", PORTRAITS)
def test_a_veiled_face_is_no_more_like_the_real_one_than_a_stranger(name, share, size):
    # Beside the middle as well, and without the caption, which would hide some of the face.
    for place in ((size[0] * 0.5, size[1] * 0.5), (size[0] * 0.37, size[1] * 0.44)):
        image, five = scene(name, share, size, place)
        veiled = Veil(caption=()).show(Frame(image, 0, 0), 0)
        assert identity(aligned(veiled.image, five)) @ real(name) <= stranger()


@pytest.mark.parametrize("refresh_ns", [200 * MS, 0], ids=["as it is", "if every frame were drawn"])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("name", PORTRAITS)
def test_many_veiled_frames_together_say_no_more(name, share, refresh_ns):
    """Someone who knows where the face was lays sixty frames of a moving face over each other."""
    size, rng = (640, 360), np.random.default_rng(5)
    veil = Veil(refresh_ns, caption=(), blend=0.5 if refresh_ns else 1.0)
    total = np.zeros((112, 112, 3), np.float32)
    for n in range(60):
        place = np.array(size) / 2 + rng.uniform(-size[0] / 16, size[0] / 16, 2)
        image, five = scene(name, share, size, place)
        total += aligned(veil.show(Frame(image, n, 0), n * 33 * MS).image, five)
    assert identity(total / 60) @ real(name) <= stranger()


@pytest.mark.parametrize("size", [(160, 120), (640, 480), (1920, 1080), (720, 1280), (3840, 2160), (66, 50)])
def test_it_has_few_cells_at_every_size(size):
    """At most eight on the longer side: as coarse as the picture is when it is made that small and large again."""
    veiled = Veil(caption=()).show(make_frame(size=size), 0)
    assert veiled.size == size
    assert veiled.image.std() > 0.5  # Not flat: something is there.
    cells = (round(size[0] * 8 / max(size)), round(size[1] * 8 / max(size)))
    few = cv2.resize(veiled.image, cells, interpolation=cv2.INTER_AREA)
    again = cv2.resize(few, size, interpolation=cv2.INTER_NEAREST)
    different = np.abs(again.astype(int) - veiled.image).max(2) > 2
    assert different.mean() < 0.5  # The soft edges only.


def test_it_says_what_it_is_in_letters_that_can_be_read():
    for size in ((160, 120), (1280, 720), (3840, 2160)):
        grey = np.full((size[1], size[0], 3), 128, np.uint8)
        plain, said = (Veil(caption=c).show(Frame(grey, 0, 0), 0).image for c in ((), ("Camera veiled",)))
        rows = np.flatnonzero((said.astype(int) - plain > 60).all(2).any(1))
        assert rows[-1] - rows[0] >= max(8, size[1] // 60)
        assert abs((rows[0] + rows[-1]) / 2 - size[1] / 2) < size[1] * 0.05


def test_it_changes_a_few_times_a_second_only():
    veil = Veil()
    rng = np.random.default_rng(0)
    pictures = []
    for n in range(30):
        live = Frame(rng.integers(0, 255, (48, 64, 3), np.uint8) // (1 + n % 3), n, n * 33 * MS)
        shown = veil.show(live, n * 33 * MS)
        assert (shown.kind, shown.seq, shown.captured_ns) == (Kind.VEILED, n, n * 33 * MS)
        pictures.append(shown.image.copy())
    changes = sum(not np.array_equal(a, b) for a, b in pairwise(pictures))
    assert 3 <= changes <= 5


def test_after_a_pause_nothing_of_the_old_scene_is_left():
    def grey(value):
        return Frame(np.full((48, 64, 3), value, np.uint8), 0, 0)

    once = Veil(caption=()).show(grey(200), 0).image
    veil = Veil(caption=())
    veil.show(grey(0), 0)
    assert not np.array_equal(veil.show(grey(200), SECOND // 4).image, once)
    assert np.array_equal(veil.show(grey(200), 3 * SECOND).image, once)


def test_frames_of_another_size_are_veiled_in_that_size():
    veil = Veil()
    for size in ((64, 48), (128, 72), (64, 48)):
        assert veil.show(make_frame(size=size), 0).size == size


def test_a_veiled_frame_that_is_still_shown_is_not_painted_over():
    veil = Veil()
    kept = veil.show(make_frame(), 0)
    before = kept.image.copy()
    for n in range(1, 20):
        veil.show(Frame(np.full((48, 64, 3), n * 10, np.uint8), n, 0), n * SECOND)
    assert np.array_equal(kept.image, before)
    assert not kept.image.flags.writeable
