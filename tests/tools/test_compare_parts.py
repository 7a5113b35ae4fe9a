"""Clips, identity, observer, trials, tables and sheets: each by itself."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from dataclasses import replace

import cv2
import numpy as np
import pytest
from PIL import Image as Pillow

from engines.analysis.landmarks import LandmarkNetwork, region_of_points
from engines.errors import UsageError
from engines.faces import Face
from tests.engines import scenes
from tools.compare import clips, report, sheet
from tools.compare.identity import IdentityNetwork
from tools.compare.measures import Shift
from tools.compare.observe import Observer
from tools.compare.run import Row, mean_of
from tools.compare.trials import Trials


@pytest.fixture(scope="module")
def judge():
    network = IdentityNetwork()
    yield network
    network.close()


@pytest.fixture(scope="module")
def observer():
    eyes = Observer()
    yield eyes
    eyes.close()


# Identity.


def test_a_face_is_itself_in_any_place_and_nobody_else(judge):
    known = {name: judge.embed(scenes.portrait(name), scenes.mesh(name)) for name in ("astronaut", "hopper")}
    moved = scenes.placed("astronaut", (640, 480), 150, (300, 220), angle=0.3)
    again = judge.embed(moved, scenes.face_in(moved).points)
    assert again @ known["astronaut"] > 0.85
    assert again @ known["hopper"] < 0.3
    assert np.linalg.norm(again) == pytest.approx(1, abs=1e-5)


def test_a_network_that_is_missing_or_takes_something_else_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no identity network"):
        IdentityNetwork(tmp_path / "none.onnx")
    with pytest.raises(UsageError, match="1x112x112x3"):
        IdentityNetwork(scenes.ROOT / "engines" / "weights" / "face_mesh_468.onnx")


# Observer.


def test_the_observer_follows_loses_and_finds_again(observer):
    observer.forget()
    grey = np.full((360, 480, 3), 96, np.uint8)
    assert observer.follow(grey) is None
    for x in (200, 206, 212):
        points = observer.follow(scenes.placed("astronaut", (480, 360), 130, (x, 180)))
        assert points.shape == (468, 3)
        assert (points[:, 0].min() + points[:, 0].max()) / 2 == pytest.approx(x, abs=4)
    assert observer.follow(grey) is None
    far = scenes.placed("astronaut", (480, 360), 110, (350, 200))
    points = observer.follow(far)
    assert points[:, 0].mean() == pytest.approx(350, abs=15)
    assert observer.refined(far, points).shape == (478, 3)


# Clips.


def test_clips_by_name(tmp_path):
    video = tmp_path / "talk.mp4"
    video.write_bytes(b"a video, as far as its name goes")
    assert (clips.clip_of(str(video)).name, clips.clip_of(str(video)).animated) == ("talk", False)
    assert clips.clip_of("portrait").path == clips.PHOTOS[1]
    assert clips.clip_of(f"portrait:{clips.PHOTOS[0]}").name == "portrait of hopper"


@pytest.mark.parametrize("spec", ["none.mp4", "portrait:none.jpg", str(clips.PHOTOS[0])])
def test_what_is_no_clip_is_refused_by_name(spec):
    with pytest.raises(UsageError) as told:
        clips.clip_of(spec)
    assert spec.rpartition("/")[2].rpartition(":")[2] in str(told.value)


def test_a_portrait_ends_and_shows_its_own_photo_only(tmp_path):
    clip = clips.clip_of("portrait", (320, 240), 3)
    seen = list(clip.read())
    assert [round(seconds * 30) for _, seconds in seen] == [0, 1, 2]
    assert {frame.size for frame, _ in seen} == {(320, 240)}
    copy = tmp_path / "same person.png"
    copy.write_bytes(clips.PHOTOS[1].read_bytes())
    assert clip.shows(copy) and clip.shows(clips.PHOTOS[1]) and not clip.shows(clips.PHOTOS[0])


# Trials, on an engine that is late or trembles by a known amount.


class LateTracker:
    """Reads landmarks, and gives those of some frames ago, trembling."""

    def __init__(self, network, points, late, sigma):
        self.network, self.last, self.late, self.sigma = network, points, late, sigma
        self.past, self.rng = [], np.random.default_rng(5)

    def track(self, image, now_ns):
        found = self.network.read(image, region_of_points(self.last))
        self.last = found.points
        self.past.append(found.points)
        points = self.past[max(0, len(self.past) - 1 - self.late)].copy()
        points += self.sigma * self.rng.standard_normal(points.shape, np.float32)
        return [Face(1, points, found.presence, found.patch)]


class Layer:
    def __init__(self, xy):
        self.xy = xy


class LateRig:
    landmarks = 468

    def __init__(self, points, late=0, sigma=0.0):
        self.points, self.late, self.sigma = points, late, sigma

    @contextmanager
    def tracking(self):
        network = LandmarkNetwork(468)
        yield LateTracker(network, self.points, self.late, self.sigma)
        network.close()

    def paint(self, image, face):
        return image, Layer(face.points[:, :2])


def posed(width=120):
    image = scenes.placed("astronaut", (360, 360), width, (180, 180))
    return image, scenes.face_in(image).points.copy()


@pytest.fixture
def trials(observer):
    opened = []

    def make(rig):
        opened.append(Trials(rig, observer))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.mark.parametrize("late", [0, 2])
def test_an_engine_that_is_late_by_whole_frames_is_told_so(trials, late):
    image, points = posed()
    found = trials(LateRig(points, late)).lag(image, points, frames=60)
    assert found.filtered - found.raw == pytest.approx(1e3 * late / 30, abs=6)
    assert found.raw == pytest.approx(0, abs=12)


def test_an_engine_that_trembles_more_is_told_so(trials):
    image, points = posed()
    width = float(np.ptp(points[:, 0]))
    still = trials(LateRig(points)).stillness(image, points, frames=20)
    shaking = trials(LateRig(points, sigma=1.0)).stillness(image, points, frames=20)
    assert still.filtered == pytest.approx(still.raw, rel=0.05)
    assert shaking.raw == pytest.approx(still.raw, rel=0.05)
    expected = math.hypot(still.filtered, math.sqrt(2) * 430 / width)
    assert shaking.filtered == pytest.approx(expected, rel=0.1)


def test_an_engine_without_a_mesh_is_read_out_of_its_picture(trials):
    image, points = posed()

    class Painter(LateRig):
        def paint(self, image, face):
            return image, object()

    found = trials(Painter(points)).lag(image, points, frames=45)
    assert found.filtered == pytest.approx(0, abs=15)


def test_only_an_animated_portrait_commands_a_jaw(trials, tmp_path):
    video = tmp_path / "talk.mp4"
    video.write_bytes(b"a video, as far as its name goes")
    with pytest.raises(UsageError, match="talk"):
        trials(LateRig(None)).jaw(clips.clip_of(str(video)))


# Tables.


def row(**changes):
    usual = Row(
        photo="hopper", clip="blink", size=(480, 480), face=222.0, frames=216, bare=0, out_photo=0.5, out_live=0.3,
        live_photo=0.02, expression=0.005, gaze_median=0.04, gaze_p95=0.07, lids_r=0.9, lids_lag=0.2, blinks=4,
        blinks_seen=3, tremble=0.2, tremble_raw=0.6, lag_ms=9.0, lag_raw_ms=-1.0, seam=1.1, untouched=0.0,
        ms={"track": (3.0, 4.0), "swap": (2.0, 3.0), "blend": (1.0, 2.0), "all": (6.0, 9.0)},
    )  # fmt: skip
    return replace(usual, **changes)


ROWS = [row(), row(photo="astronaut", out_photo=0.7, tremble=math.nan, frames=100, untouched=3.0)]
JAWS = {"hopper": Shift(0.3, 0.98, 0.97), "astronaut": Shift(None, None, None)}


def test_the_mean_counts_what_was_measured_and_the_worst_of_untouched():
    mean = mean_of(ROWS)
    assert mean.out_photo == pytest.approx(0.6)
    assert mean.tremble == pytest.approx(0.2)
    assert (mean.frames, mean.blinks, mean.blinks_seen, mean.untouched) == (316, 8, 6, 3.0)


def test_json_has_every_figure_and_no_nan():
    document = report.as_json(ROWS, JAWS, {"engine": "mesh"})
    text = json.dumps(document, allow_nan=False)
    assert json.loads(text)["rows"][1]["tremble"] is None
    assert document["rows"][0]["ms"]["all"] == {"p50": 6.0, "p95": 9.0}
    assert document["mean"]["out_photo"] == pytest.approx(0.6)
    assert document["jaw"]["astronaut"]["lag"] is None


def test_markdown_is_made_of_tables_whose_rows_have_all_columns():
    lines = report.as_markdown(ROWS, JAWS).splitlines()
    assert sum(line.startswith("###") for line in lines) == len(report.TABLES)
    width = 0
    for line in lines:
        if not line.startswith("|"):
            width = 0
        else:
            assert width in (0, line.count("|"))
            width = line.count("|")
    assert any("0.600" in line and "mean" in line for line in lines)
    assert any("–" in line for line in lines)


def test_tables_go_into_their_place_and_nowhere_else(tmp_path):
    document = tmp_path / "quality.md"
    document.write_text(f"above\n{report.BEGIN}\nold\n{report.END}\nbelow\n", encoding="utf-8")
    report.into_document(document, "| new |\n")
    once = document.read_text(encoding="utf-8")
    assert once.startswith(f"above\n{report.BEGIN}") and once.endswith(f"{report.END}\nbelow\n")
    assert "| new |" in once and "old" not in once
    report.into_document(document, "| new |\n")
    assert document.read_text(encoding="utf-8") == once


@pytest.mark.parametrize("text", [None, "", "<!-- compare: begin -->", "<!-- compare: end -->"])
def test_a_document_without_a_place_is_left_as_it_is(tmp_path, text):
    document = tmp_path / "quality.md"
    if text is not None:
        document.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"quality\.md"):
        report.into_document(document, "| new |")
    assert (document.read_text(encoding="utf-8") if document.exists() else None) == text


# The contact sheet.


def filled(section, frames, swapped=True):
    image, points = posed()
    for number in range(frames):
        section.watch(number, image, cv2.flip(image, 1), points, swapped)
    return section


def test_every_nth_frame_is_on_the_sheet():
    section = filled(sheet.Section(clips.PHOTOS[0], "hopper on astronaut", 10), 35)
    assert [moment.number for moment in section.moments] == [0, 10, 20, 30]


@pytest.mark.parametrize("frames", [1, 16, 100, 1000])
def test_without_a_step_there_are_about_sixteen_moments_spread_evenly(frames):
    section = filled(sheet.Section(clips.PHOTOS[0], "hopper on astronaut", None), frames)
    numbers = [moment.number for moment in section.moments]
    assert min(frames, 16) <= len(numbers) < 32
    assert len(set(np.diff(numbers))) <= 1
    assert numbers[0] == 0 and numbers[-1] >= frames * 0.8 - 1


def test_the_sheet_shows_live_above_output(tmp_path):
    sections = [filled(sheet.Section(clips.PHOTOS[0], f"person {n}", 5, note="a note"), 50) for n in range(2)]
    path = tmp_path / "sheet.png"
    sheet.write(sections, path)
    with Pillow.open(path) as picture:
        assert "AI" in picture.info["Comment"]
        shown = np.asarray(picture.convert("RGB"))[:, :, ::-1]
    moment = sections[0].moments[0]
    tile = moment.live.shape[0]
    found = cv2.matchTemplate(shown, moment.live, cv2.TM_SQDIFF)
    _, _, (x, y), _ = cv2.minMaxLoc(found)
    assert (shown[y : y + tile, x : x + tile] == moment.live).all()
    below = shown[y + tile : y + 2 * tile + 20, x : x + tile]
    # The sum is of floats: the same picture gives hardly anything, another one millions.
    assert cv2.matchTemplate(below, moment.output, cv2.TM_SQDIFF).min() < 2000


def test_a_sheet_that_no_viewer_could_open_is_refused(tmp_path):
    section = filled(sheet.Section(clips.PHOTOS[0], "many", 1), 1200)
    with pytest.raises(UsageError, match="--sheet-every"):
        sheet.write([section], tmp_path / "sheet.png")
    assert not list(tmp_path.iterdir())
