"""The mesh swapper on portraits: whose face it is, what stays live, and what is never touched."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import cv2
import numpy as np
import pytest

from engines.analysis.landmarks import region_of_points
from engines.analysis.topology import (
    LEFT_EYE_RINGS,
    LIPS_BETWEEN,
    LIPS_INNER,
    LIPS_OUTER,
    OVAL,
    RIGHT_EYE_RINGS,
    canonical,
)
from engines.errors import EngineError, PhotoError
from engines.faces import Face
from engines.swap.mesh.mesh import Looks, MeshSwapper
from tests.engines.scenes import face_in, identity, landmarks, mesh, placed, portrait, source

SIZE, WIDTH, AT = (640, 480), 210, (330, 250)
LOOP = (0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 14, 13, 12, 11, 10, 9)
LIP_LOOP = (*range(11), *range(19, 10, -1))
PAIRS = [("hopper", "astronaut"), ("astronaut", "hopper")]


@cache
def swapper_of(photo, eyes="mixed", points=468, shape=0.85):
    made = MeshSwapper(source(photo, points), looks=Looks(shape=shape, eyes=eyes), landmarks=points)
    made.open(lambda line: None)
    return made


@cache
def live_of(name, points=468):
    """A live frame, read-only, and the face in it."""
    image = placed(name, SIZE, WIDTH, AT)
    image.flags.writeable = False
    return image, detached(face_in(image, landmarks(points)))


def detached(face):
    """A face whose patch is not overwritten when the next one is read."""
    return replace(face, patch=replace(face.patch, image=face.patch.image.copy()))


def swapped(swapper, image, face, track=None):
    """What comes of a frame; every call is another person, so that nothing is remembered."""
    swapped.tracks += 1
    out = np.array(image)
    face = replace(face, track=swapped.tracks if track is None else track)
    swapper.blend(out, swapper.swap(out, face))
    return out


swapped.tracks = 1000


def filled(points, shape, grow=0):
    """(H, W) bool: the polygon of some points; grown, or shrunk if negative."""
    mask = np.zeros(shape[:2], np.uint8)
    cv2.fillPoly(mask, [np.rint(points[:, :2] * 16).astype(np.int32)], 1, cv2.LINE_8, 4)
    if grow:
        kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * abs(grow) + 1,) * 2)
        mask = cv2.dilate(mask, kernel) if grow > 0 else cv2.erode(mask, kernel)
    return mask > 0


def hull(points, shape, grow):
    return filled(cv2.convexHull(points[:, :2].astype(np.float32))[:, 0], shape, grow)


def change(before, after):
    return np.abs(after.astype(int) - before.astype(int)).max(2)


@pytest.mark.parametrize("eyes", ["live", "mixed", "photo"])
@pytest.mark.parametrize(("photo", "live"), PAIRS)
def test_outside_of_the_face_every_bit_stays(photo, live, eyes):
    image, face = live_of(live)
    out = swapped(swapper_of(photo, eyes), image, face)
    # The photo's proportions may push skin over the oval, by some hundredths of the face.
    outside = ~hull(face.points, image.shape, 8)
    assert (out[outside] == image[outside]).all()
    plain = swapped(swapper_of(photo, eyes, shape=0.0), image, face)
    outside = ~hull(face.points, image.shape, 2)
    assert (plain[outside] == image[outside]).all()
    assert change(image, out)[filled(face.points[list(OVAL)], image.shape, -25)].mean() > 5


@pytest.mark.parametrize(("photo", "live"), PAIRS)
def test_the_face_fades_in_from_its_border(photo, live):
    """No edge: the nearer to the oval, the smaller the change."""
    image, face = live_of(live)
    oval = face.points[list(OVAL)]
    rim = filled(oval, image.shape) & ~filled(oval, image.shape, -2)
    deep = filled(oval, image.shape, -20)
    off = change(image, swapped(swapper_of(photo, shape=0.0), image, face))
    assert off[rim].mean() < 0.12 * off[deep].mean()
    # The photo's proportions press the skin against the border here and there.
    off = change(image, swapped(swapper_of(photo), image, face))
    assert off[rim].mean() < 0.4 * off[deep].mean()


@pytest.mark.parametrize("points", [468, 478])
@pytest.mark.parametrize(("photo", "live"), PAIRS)
def test_it_is_the_photos_face(photo, live, points):
    """Cosines of an identity network. Two photos of one person give it 0.3 to 0.8, strangers 0.0 to 0.2."""
    image, face = live_of(live, points)
    out = swapped(swapper_of(photo, points=points), image, face)
    after = face_in(out, landmarks(points))
    who = identity(out, after.points)
    wanted, was = identity(portrait(photo), mesh(photo, points)), identity(image, face.points)
    assert was @ wanted < 0.25
    if photo == "hopper":
        assert who @ wanted > 0.5
        assert who @ wanted > who @ was + 0.15
    else:
        # The live hat and glasses of the other portrait stay, and the network goes by them.
        assert who @ wanted > was @ wanted + (0.2 if points == 468 else 0.1)
        assert who @ was < 0.75


@pytest.mark.parametrize(("photo", "live"), PAIRS)
def test_the_landmarks_follow_the_live_face(photo, live):
    """Pose and place are the live ones; only the proportions may be the photo's."""
    image, face = live_of(live)
    after = face_in(swapped(swapper_of(photo), image, face))
    off = np.linalg.norm((after.points - face.points)[:, :2], axis=1) / face.width
    assert off.mean() < 0.06
    assert np.linalg.norm((after.points - face.points)[list(OVAL), :2].mean(0)) / face.width < 0.04


def test_live_eyes_keep_their_pixels():
    """With ``eyes="live"`` nothing between the lids is painted."""
    image, face = live_of("astronaut")
    off = change(image, swapped(swapper_of("hopper", "live"), image, face))
    for ring in (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0]):
        opening = filled(face.points[[ring[i] for i in LOOP]], image.shape, -1)
        assert opening.sum() > 50
        assert off[opening].max() <= 12
        assert np.median(off[opening]) == 0


def opened_mouth(gap=30):
    """The astronaut's frame with the jaw let down: mesh and frame, with something in the mouth that is in no photo."""
    image, face = live_of("astronaut")
    points, rest = face.points.copy(), canonical()
    lips = [LIPS_INNER[i] for i in LIP_LOOP]
    lower = np.zeros(468, bool)
    lower[[vertex for ring in (LIPS_INNER, LIPS_OUTER, *LIPS_BETWEEN) for vertex in ring[1:10]]] = True
    lower |= rest[:, 1] > rest[list(LIPS_OUTER[1:10]), 1].min() + 0.5
    across = rest[:, 0] / (np.ptp(rest[lips, 0]) / 2)
    points[lower, 1] += gap * np.clip(1 - across[lower] ** 2, 0, 1)
    scene = np.array(image)
    inside = filled(points[lips], image.shape)
    noise = cv2.GaussianBlur(np.random.default_rng(0).normal(0, 1, image.shape), (0, 0), 4)
    scene[inside] = np.clip(128 + noise[inside] / noise.std() * 50, 0, 255)
    return scene, replace(face, points=points), points[lips]


def test_in_an_open_mouth_teeth_and_tongue_are_the_live_ones():
    scene, face, lips = opened_mouth()
    out = swapped(swapper_of("hopper"), scene, face)
    inside = filled(lips, scene.shape, -4)
    assert inside.sum() > 1000
    # The opening is carried along with the lips, so it may be resampled, but it is this and nothing else.
    middle = inside & (np.abs(np.arange(SIZE[0]) - lips[:, 0].mean()) < 0.3 * np.ptp(lips[:, 0]))
    live, seen = scene[middle].astype(float), out[middle].astype(float)
    assert np.corrcoef(live.ravel(), seen.ravel())[0, 1] > 0.8
    assert seen.std() > 0.8 * live.std()
    assert abs(seen.mean() - live.mean()) < 8


def test_the_gaze_stays_live():
    """Irises painted into the live eyes, to one side and to the other, are seen there after the swap."""
    image, face = live_of("astronaut")
    for eyes in ("mixed", "live"):
        for side in (-1, 1):
            scene = np.array(image)
            for ring in (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0]):
                border = face.points[[ring[i] for i in LOOP]]
                opening = filled(border, scene.shape)
                scene[opening] = (215, 220, 225)
                centre, half = border[:, :2].mean(0), np.ptp(border[:, 0]) / 2
                iris = np.zeros_like(opening, np.uint8)
                cv2.circle(
                    iris, np.rint(centre + np.array([side * 0.45 * half, 0])).astype(int).tolist(), 5, 1, -1
                )
                scene[opening & (iris > 0)] = (30, 30, 30)
            out = swapped(swapper_of("hopper", eyes), scene, face)
            for ring in (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0]):
                border = face.points[[ring[i] for i in LOOP]]
                opening = filled(border, scene.shape, -1)
                grey = cv2.cvtColor(out, cv2.COLOR_BGR2GRAY).astype(float)
                dark = np.clip(grey[opening].max() - grey, 0, None) * opening
                x = (dark.sum(0) * np.arange(SIZE[0])).sum() / dark.sum()
                assert side * (x - border[:, 0].mean()) > 0.08 * np.ptp(border[:, 0]), (eyes, side)


LIGHTS = {"dark": (0.45, 0.45, 0.45), "warm": (0.6, 0.9, 1.0), "cold": (1.0, 0.85, 0.6)}


@pytest.mark.parametrize("light", LIGHTS)
@pytest.mark.parametrize(("photo", "live"), PAIRS)
def test_the_skin_follows_the_light_of_the_room(photo, live, light):
    image, face = live_of(live)
    factors = np.float32(LIGHTS[light])
    lit = np.rint(image * factors).astype(np.uint8)
    patch = replace(face.patch, image=np.ascontiguousarray(face.patch.image * factors[::-1]))
    usual = swapped(swapper_of(photo), image, face)
    out = swapped(swapper_of(photo), lit, replace(face, patch=patch))
    for around in (50, 280, 151, 205, 425):
        # Cheeks and forehead.
        x, y = np.rint(face.points[around, :2]).astype(int)
        area = np.s_[y - 5 : y + 6, x - 5 : x + 6]
        ratio = out[area].mean((0, 1)) / usual[area].mean((0, 1))
        # Somebody who is seen in the dark from the first frame on is thought to have a darker skin, by 5 % at most.
        np.testing.assert_allclose(ratio, factors, rtol=0.16)


def test_the_skin_tone_is_the_live_one():
    """Over the whole face the swapped one is about as bright and as red as the live one, and not as the photo."""
    for photo, live in PAIRS:
        image, face = live_of(live)
        out, there = swapped(swapper_of(photo), image, face), source(photo)
        inner = filled(face.points[list(OVAL)], image.shape, -20)
        was, now = image[inner].mean(0), out[inner].mean(0)
        photos = there.image[filled(there.points[list(OVAL)], there.image.shape, -10)].mean(0)
        assert np.abs(now - was).max() < 22
        assert np.abs(now - was).max() < np.abs(photos - was).max() / 2


def test_a_change_of_light_is_followed_without_a_jump_and_without_delay():
    image, face = live_of("astronaut")
    patch = replace(face.patch, image=np.ascontiguousarray(face.patch.image * np.float32(0.5)))
    dark, darkened = (image * 0.5).astype(np.uint8), replace(face, patch=patch)
    swapper = swapper_of("hopper")
    cheek = np.rint(face.points[50, :2]).astype(int)
    area = np.s_[cheek[1] - 5 : cheek[1] + 6, cheek[0] - 5 : cheek[0] + 6]
    # Light changes and skin does not: of how fair it is, no more is learnt then.
    first = [swapped(swapper, image, face, track=1)[area].mean() for _ in range(15)][-1]
    levels = [swapped(swapper, dark, darkened, track=1)[area].mean() for _ in range(12)]
    assert first > levels[0] > levels[1] > levels[3] > levels[11] - 0.5
    assert levels[0] > 0.6 * first
    assert levels[11] == pytest.approx(0.5 * first, rel=0.06)


def test_nothing_depends_on_the_size_of_the_frame():
    """The same pixels in a larger frame give the same face, to the last bit."""
    image, face = live_of("astronaut")
    small = swapped(swapper_of("hopper"), image, face)
    large = np.full((720, 1280, 3), 40, np.uint8)
    large[96:576, 320:960] = image
    offset = np.float32([320, 96, 0])
    affine = face.patch.affine.copy()
    affine[:, 2] -= affine[:, :2] @ offset[:2]
    moved = replace(face, points=face.points + offset, patch=replace(face.patch, affine=affine))
    out = swapped(swapper_of("hopper"), large, moved)
    off = change(small, out[96:576, 320:960])
    # Coordinates are rounded elsewhere, by parts of a millionth.
    assert off.max() <= 6
    assert off.mean() < 0.02
    frame = np.ones((720, 1280), bool)
    frame[96:576, 320:960] = False
    assert (out[frame] == 40).all()


def shifted(image, face, dx, dy):
    """The frame moved by whole pixels: the face may lie over its border."""
    matrix = np.float32([[1, 0, dx], [0, 1, dy]])
    moved = cv2.warpAffine(image, matrix, SIZE, flags=cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE)
    affine = face.patch.affine.copy()
    affine[:, 2] -= affine[:, :2] @ np.float32([dx, dy])
    patch = replace(face.patch, affine=affine)
    return moved, replace(face, points=face.points + np.float32([dx, dy, 0]), patch=patch)


@pytest.mark.parametrize("eyes", ["live", "mixed", "photo"])
def test_half_out_of_the_picture(eyes):
    """Over every edge and corner, and gone altogether: what is still there looks as it always does."""
    image, face = live_of("astronaut")
    whole = swapped(swapper_of("hopper", eyes), image, face)
    for dx, dy in ((-330, 0), (310, 0), (0, -250), (0, 230), (-330, -250), (310, 230), (-900, 0), (0, 2000)):
        scene, part = shifted(image, face, dx, dy)
        out = swapped(swapper_of("hopper", eyes), scene, part)
        rows, columns = slice(max(0, dy), min(480, 480 + dy)), slice(max(0, dx), min(640, 640 + dx))
        from_rows = slice(max(0, -dy), min(480, 480 - dy))
        from_columns = slice(max(0, -dx), min(640, 640 - dx))
        if out[rows, columns].size and whole[from_rows, from_columns].size:
            off = change(out[rows, columns], whole[from_rows, from_columns])
            assert off.mean() < 0.2
            assert (off > 24).mean() < 0.001
        outside = ~hull(part.points, scene.shape, 8)
        assert (out[outside] == scene[outside]).all()


@pytest.mark.parametrize("width", [24, 60, 120, 420])
def test_faces_of_every_size(width):
    """A smaller level of the texture is the same face in the same place."""
    image, face = live_of("astronaut")
    size = (1280, 960)
    scale = width / face.width
    matrix = np.float32([[scale, 0, 500 - scale * 330], [0, scale, 480 - scale * 250]])
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    scene = cv2.warpAffine(image, matrix, size, flags=how, borderMode=cv2.BORDER_REPLICATE)
    points = face.points * np.float32(scale)
    points[:, :2] += matrix[:, 2]
    affine = cv2.invertAffineTransform(matrix)
    patch_affine = (np.vstack([face.patch.affine, [0, 0, 1]]) @ np.vstack([affine, [0, 0, 1]]))[:2]
    there = Face(1, points, 1.0, replace(face.patch, affine=patch_affine.astype(np.float32)))
    out = swapped(swapper_of("hopper", "photo"), scene, there)
    usual = swapped(swapper_of("hopper", "photo"), image, face)
    expected = cv2.warpAffine(usual, matrix, size, flags=how, borderMode=cv2.BORDER_REPLICATE)
    inside = filled(points[list(OVAL)], scene.shape)
    off = np.abs(cv2.blur(out, (3, 3)).astype(int) - cv2.blur(expected, (3, 3)))[inside]
    assert off.mean() < 9


def test_turned_away_skin_is_not_painted():
    """A mesh that looks to the side: its far half must not be painted over the near one, nor beside the face."""
    image, face = live_of("astronaut")
    middle = face.points.mean(0)
    for degrees in (-85, -50, 50, 85):
        t = np.radians(degrees)
        spin = np.float32([[np.cos(t), 0, np.sin(t)], [0, 1, 0], [-np.sin(t), 0, np.cos(t)]])
        points = ((face.points - middle) @ spin.T + middle).astype(np.float32)
        out = swapped(swapper_of("hopper"), image, replace(face, points=points))
        off = change(image, out)
        assert (off[~hull(points, image.shape, 12)] == 0).all()


def test_the_face_and_the_frame_given_are_left_as_they_were():
    image, face = live_of("hopper")
    points, patch, affine = face.points.copy(), face.patch.image.copy(), face.patch.affine.copy()
    for eyes in ("live", "mixed", "photo"):
        # The frame is read-only: writing to it would raise.
        swapper_of("astronaut", eyes).swap(image, face)
    assert (face.points == points).all()
    assert (face.patch.image == patch).all()
    assert (face.patch.affine == affine).all()


def test_the_same_frame_gives_the_same_face():
    image, face = live_of("hopper")
    assert (
        swapped(swapper_of("astronaut"), image, face) == swapped(swapper_of("astronaut"), image, face)
    ).all()


def test_one_person_does_not_change_another():
    """What is learnt of one track is not put on the next one."""
    first, second = live_of("hopper"), live_of("astronaut")
    alone = swapped(swapper_of("astronaut"), *first)
    swapper = swapper_of("astronaut")
    for _ in range(4):
        swapped(swapper, *second, track=7)
    assert (swapped(swapper, *first) == alone).all()


def test_memory_of_people_is_bounded():
    image, face = live_of("hopper")
    swapper = swapper_of("astronaut")
    for track in range(60):
        swapper.swap(image, replace(face, track=5000 + track))
    assert len(swapper._people) <= 16


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_landmarks_that_are_no_numbers_are_refused(bad):
    image, face = live_of("hopper")
    points = face.points.copy()
    points[77, 1] = bad
    with pytest.raises(EngineError, match="not numbers"):
        swapper_of("astronaut").swap(image, replace(face, points=points))


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("scale", [1e12, 1e17, 1e19, 1e25, 1e34])
def test_a_mesh_too_large_to_have_directions_covers_nothing_and_teaches_nothing(scale):
    image, face = live_of("hopper")
    swapper = swapper_of("astronaut")
    huge = (face.points - face.points.mean(0)) * np.float32(scale)
    assert np.isfinite(huge).all()
    assert swapper.swap(image, replace(face, points=huge)) is None
    assert (swapped(swapper, image, face) == swapped(swapper_of("astronaut"), image, face)).all()


def test_before_open_and_after_close_it_says_so():
    image, face = live_of("hopper")
    swapper = MeshSwapper(source("astronaut"))
    with pytest.raises(EngineError, match="before it was opened"):
        swapper.swap(image, face)
    swapper.open(lambda line: None)
    swapper.swap(image, face)
    swapper.close()
    swapper.close()
    with pytest.raises(EngineError, match="before it was opened"):
        swapper.swap(image, face)


def test_a_region_read_again_gives_the_same_light():
    """The patch may be cut a little wider or turned: the colours of the skin stay."""
    image, face = live_of("hopper")
    usual = swapped(swapper_of("astronaut"), image, face)
    region = region_of_points(face.points)
    found = landmarks().read(image, replace(region, size=region.size * 1.1, angle=region.angle + 0.1))
    other = replace(face, patch=found.patch)
    off = change(usual, swapped(swapper_of("astronaut"), image, other))
    assert off[hull(face.points, image.shape, -20)].mean() < 4


@pytest.mark.parametrize("yaw", [0, 40, 70])
def test_a_turned_head_is_still_covered(yaw):
    image, face = live_of("astronaut")
    assert swapper_of("hopper").swap(image, replace(face, points=yawed(face.points, yaw))) is not None


@pytest.mark.parametrize("yaw", [120, 180])
def test_a_mesh_that_is_turned_away_covers_nothing_and_says_so(yaw):
    image, face = live_of("astronaut")
    assert swapper_of("hopper").swap(image, replace(face, points=yawed(face.points, yaw))) is None


def test_a_mirrored_mesh_is_a_mistake_and_covers_nothing():
    image, face = live_of("astronaut")
    points = face.points * np.float32([-1, 1, 1]) + np.float32([2 * face.points[:, 0].mean(), 0, 0])
    assert swapper_of("hopper").swap(image, replace(face, points=points)) is None


def test_a_photo_of_which_hardly_any_skin_is_seen_is_refused():
    noise = np.random.default_rng(0).integers(0, 255, portrait("hopper").shape, dtype=np.uint8)
    hidden = replace(source("hopper"), image=noise, points=yawed(source("hopper").points, 150))
    with pytest.raises(PhotoError, match="too little"):
        MeshSwapper(hidden).open(lambda _line: None)


def yawed(points, degrees):
    """The mesh turned about its upright axis."""
    t = np.radians(degrees)
    spin = np.float32([[np.cos(t), 0, np.sin(t)], [0, 1, 0], [-np.sin(t), 0, np.cos(t)]])
    middle = points.mean(0)
    return np.ascontiguousarray((points - middle) @ spin.T + middle, np.float32)
