"""Choosing whom, from the command line's words to the pixels: photos in, people covered or swapped."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import cv2
import numpy as np
import pytest

from engines.analysis.detect import Detector
from engines.analysis.embed import Embedder
from engines.analysis.open import open_embedder
from engines.catalogue.store import Store
from engines.errors import EngineError, UsageError
from engines.runtime.device import CPU
from realtime.assemble import assemble
from realtime.choosing import people as choosing
from realtime.clock import ManualClock
from realtime.frame import Frame
from realtime.settings.config import Config, contradiction
from realtime.settings.load import load
from realtime.settings.options import typed
from realtime.settings.values import Pair
from realtime.tracking.seeing import seeing_of
from tests import detectors
from tests.engines.scenes import ASSETS, FILES
from tests.realtime.stage import FRAME, scene

HOPPER, ASTRONAUT = (ASSETS / FILES[name] for name in ("hopper", "astronaut"))
BASE = {"source": "pattern", "sink": ("null",), "governor": False, "label": False}
PAIR = (("hopper", 180, 180, 110), ("astronaut", 460, 180, 100))


@pytest.fixture
def who(tmp_path):
    return str(detectors.arcface(tmp_path / "who.onnx"))


@pytest.fixture
def run(tmp_path):
    """Assembles a configuration and shows it scenes; gives the last outcome and picture."""
    opened = []

    class Show:
        def __init__(self, **options):
            self.parts = assemble(
                Config(models=tmp_path / "none", **{**BASE, **options}), clock=ManualClock()
            )
            self.parts.pipeline.open(lambda line: None)
            opened.append(self.parts)
            self.at = 0

        def __call__(self, *people, frames=12):
            for _ in range(frames):
                self.at += FRAME
                picture = scene(*people)
                # A moving corner, so that no frame is a repeat.
                picture[:8, :8] = self.at // FRAME % 251
                outcome = self.parts.pipeline.process(Frame(picture, self.at // FRAME, self.at))
            return outcome, outcome.frame.image

    yield Show
    for parts in opened:
        parts.pipeline.close()


def region(picture, x, y, half=45):
    return picture[y - half : y + half, x - half : x + half].astype(np.float32)


def detail(picture, x, y):
    """How much fine detail there is; a mosaic has next to none."""
    return float(cv2.Laplacian(region(picture, x, y), cv2.CV_32F).std())


def changed(picture, people, which):
    _, x, y, _ = people[which]
    return float(np.abs(region(picture, x, y) - region(scene(*people), x, y)).mean())


def test_each_person_gets_their_own_photo_and_a_stranger_is_covered(run, who):
    show = run(person=(Pair(HOPPER, ASTRONAUT),), embedder=who)
    outcome, picture = show(*PAIR)
    assert outcome.faces == 1
    assert outcome.trusted
    assert changed(picture, PAIR, 0) > 5
    assert detail(picture, 460, 180) < 0.3 * detail(scene(*PAIR), 460, 180)
    assert detail(picture, 180, 180) > 0.3 * detail(scene(*PAIR), 180, 180)


def test_two_people_get_two_photos(run, who):
    """Each gets the other's face: it then looks like it, to an identity network."""
    show = run(person=(Pair(HOPPER, ASTRONAUT), Pair(ASTRONAUT, HOPPER)), embedder=who)
    outcome, picture = show(*PAIR)
    assert outcome.faces == 2
    assert outcome.trusted
    assert changed(picture, PAIR, 0) > 5
    assert changed(picture, PAIR, 1) > 5
    # The other one's colours, too: they are known by where they stand, not by who came first.
    again, _ = run(person=(Pair(ASTRONAUT, HOPPER), Pair(HOPPER, ASTRONAUT)), embedder=who)(*PAIR)
    np.testing.assert_allclose(region(again.frame.image, 180, 180), region(picture, 180, 180), atol=25)


def test_a_stranger_alone_is_never_shown(run, who):
    show = run(select="reference", reference=(HOPPER,), face=(ASTRONAUT,), embedder=who)
    outcome, picture = show(("astronaut", 460, 180, 100))
    assert not outcome.trusted
    assert outcome.faces == 0
    assert detail(picture, 460, 180) < 0.3 * detail(scene(*PAIR), 460, 180)


def test_an_owner_is_confirmed_and_the_cost_is_counted(run, who):
    show = run(face=(ASTRONAUT,), embedder=who)
    outcome, _ = show(("hopper", 180, 180, 110), frames=40)
    assert outcome.trusted
    report = show.parts.meter.report(FRAME)
    assert 4 <= report.counts["recognitions"] <= 7
    assert "who" in show.parts.nodes()
    for _ in range(3):
        outcome, _ = show(("astronaut", 180, 180, 110))
        assert not outcome.trusted


@pytest.mark.parametrize("choice", ["largest", "center"])
def test_no_identity_network_is_opened_for_a_choice_in_which_nobody_is_recognised(run, who, choice):
    show = run(face=(ASTRONAUT,), embedder=who, select=choice)
    outcome, _ = show(("hopper", 180, 180, 110))
    assert outcome.trusted
    assert "who" not in show.parts.nodes()


def test_photos_that_are_no_face_are_named(run, who, tmp_path):
    blank = tmp_path / "blank.png"
    cv2.imwrite(str(blank), np.full((200, 200, 3), 127, np.uint8))
    for options in ({"person": (Pair(blank, HOPPER),)}, {"reference": (HOPPER, blank), "face": (ASTRONAUT,)}):
        with pytest.raises(UsageError, match=r"no face in blank\.png"):
            run(embedder=who, **options)


def test_without_an_identity_network_it_says_how_to_get_one(run):
    with pytest.raises(UsageError, match="identity network") as caught:
        run(person=(Pair(HOPPER, ASTRONAUT),))
    assert "doppelcam models pull arcface_w600k_r50" in caught.value.fix
    assert "--embedder" in caught.value.fix


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"embedder": "nonesuch"}, UsageError, "nonesuch"),
        ({"embedder": "scrfd_10g"}, UsageError, "of the kind detect, not embed"),
        ({"embedder": "arcface_w600k_r50"}, (UsageError, EngineError), "arcface_w600k_r50"),
        ({"detector": "scrfd_10g"}, (UsageError, EngineError), "scrfd_10g"),
        ({"detector": "arcface_w600k_r50"}, UsageError, "of the kind embed, not detect"),
        ({"landmarker": "2dfan4"}, UsageError, "paints a mesh of 468 points, and 2dfan4 gives"),
        ({"landmarker": "mediapipe:/nowhere.task"}, UsageError, r"no file '/nowhere\.task'"),
    ],
)
def test_a_network_that_is_not_there_or_of_no_use_is_named(run, options, error, said):
    with pytest.raises(error, match=said) as caught:
        run(face=(HOPPER,), **options)
    assert caught.value.fix


def test_a_detector_of_ones_own_finds_the_faces(run, tmp_path):
    """A detector that sees red squares: the mesh is then read where it says, and nowhere else."""
    path = detectors.yoloface(tmp_path / "own.onnx")
    show = run(face=(ASTRONAUT,), detector=str(path))
    outcome, _ = show(("hopper", 180, 180, 110))
    assert not outcome.trusted
    assert set(show.parts.tracker.nodes) == {"own", "face_mesh_468"}


def test_a_landmarker_of_ones_own_is_opened_for_an_engine_that_is_aligned_by_it(tmp_path):
    path, store = detectors.fan(tmp_path / "own.onnx"), Store(tmp_path / "none")
    config = Config(landmarker=str(path), governor=True, landmarks=478)
    seeing = seeing_of(config, CPU, store, None, mesh=False)
    assert (seeing.landmarks, seeing.can_shrink) == (478, True)
    networks = seeing.open(478, 2)
    assert networks.landmarker.points == 68
    assert len(networks.plain) == 2
    networks.close()
    with pytest.raises(UsageError, match=r"own\.onnx gives only the few"):
        seeing_of(config, CPU, store, None, mesh=True)


def test_mediapipe_gives_478_points_and_never_fewer(tmp_path):
    seeing = seeing_of(Config(landmarker="mediapipe:face.task"), CPU, Store(tmp_path), None, mesh=True)
    assert (seeing.landmarks, seeing.can_shrink) == (478, False)


def test_where_one_network_cannot_be_opened_none_stays_open(tmp_path, monkeypatch):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"<html>404</html>")
    closed = []
    monkeypatch.setattr(Detector, "close", lambda self: closed.append(self))
    seeing = seeing_of(
        Config(embedder=str(path)), CPU, Store(tmp_path / "none"), lambda: open_embedder(path), mesh=True
    )
    with pytest.raises(EngineError, match=r"broken"):
        seeing.open(468, 1)
    assert len(closed) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"person": (Pair(HOPPER, ASTRONAUT),), "face": (HOPPER,)}, "face and reference do not go with it"),
        (
            {"person": (Pair(HOPPER, ASTRONAUT),), "reference": (HOPPER,)},
            "face and reference do not go with it",
        ),
        ({"reference": (HOPPER,), "select": "largest"}, "select largest does not go"),
        ({"person": (Pair(HOPPER, ASTRONAUT),), "select": "center"}, "select center does not go"),
        ({"select": "reference"}, "needs a photo"),
        ({"landmarker": "mediapipe:a.task", "detector": "scrfd_10g"}, "finds faces by itself"),
    ],
)
def test_what_does_not_go_together_is_said(options, said):
    assert said in contradiction(Config(**options))


def test_what_goes_together_is_let_be():
    for options in (
        {"reference": (HOPPER,)}, {"reference": (HOPPER,), "select": "reference"},
        {"person": (Pair(HOPPER, ASTRONAUT),)}, {"person": (Pair(HOPPER, ASTRONAUT),), "select": "reference"},
        {"embedder": "x.onnx"}, {"landmarker": "mediapipe:a.task"},
    ):  # fmt: skip
        assert contradiction(Config(**options)) == ""


def test_pairs_in_a_file_are_relative_to_it_and_shown_as_they_are_typed(tmp_path):
    file = tmp_path / "studio.toml"
    file.write_text('person = ["anna.jpg=one.jpg", "/x/ben.jpg=~/two.jpg"]\n', "utf-8")
    config = load({}, {}, file).config
    assert config.person == (
        Pair(tmp_path / "anna.jpg", tmp_path / "one.jpg"),
        Pair(Path("/x/ben.jpg"), Path("~/two.jpg").expanduser()),
    )
    assert typed(config.person[:1]) == f"{tmp_path / 'anna.jpg'}={tmp_path / 'one.jpg'}"
    given = load({"person": ["a.jpg=b.jpg", "c.jpg=b.jpg"]}, {"XDG_CONFIG_HOME": str(tmp_path)}).config
    assert [str(pair) for pair in given.person] == ["a.jpg=b.jpg", "c.jpg=b.jpg"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("person", ["a.jpg"], "LIVE=PHOTO"),
        ("person", ["=b.jpg"], "LIVE=PHOTO"),
        ("person", ["a.jpg="], "LIVE=PHOTO"),
        ("person", ["a=b.jpg=c.jpg"], "one '=' in it"),
        ("person", ["a.jpg=b.jpg", "a.jpg=b.jpg"], "given twice"),
        ("reference-distance", "2.5", "from 0 to 2"),
        ("reference-distance", "nan", "from 0 to 2"),
        ("landmarker", "mediapipe:", "needs a bundle"),
        ("landmarker", "mediapipe", "needs a bundle"),
        ("select", "me", "reference"),
        ("embedder", " ", "identity network"),
    ],
)
def test_what_is_typed_wrong_is_said(tmp_path, name, value, said):
    with pytest.raises(UsageError, match=said):
        load({name: value}, {"XDG_CONFIG_HOME": str(tmp_path)})


@pytest.mark.parametrize("options", [
    {"person": (Pair(HOPPER, ASTRONAUT),)},
    {"select": "reference", "reference": (HOPPER, HOPPER), "face": (ASTRONAUT,)},
    {"face": (ASTRONAUT,)},
])  # fmt: skip
def test_the_identity_network_is_opened_once_for_photos_and_faces(run, who, monkeypatch, options):
    opened = []
    monkeypatch.setattr(
        choosing, "open_embedder", lambda *given: opened.append(given) or open_embedder(*given)
    )
    made = assemble(Config(embedder=who, **{**BASE, **options}), clock=ManualClock())
    assert not opened  # Devices are not touched yet.
    made.pipeline.open(lambda line: None)
    made.pipeline.close()
    assert len(opened) == 1


def test_an_identity_network_that_cannot_tell_a_photo_is_closed(who, monkeypatch):
    closed = []
    real = Embedder.close
    monkeypatch.setattr(Embedder, "close", lambda self: closed.append(self) or real(self))

    def fails(self, photos):
        raise EngineError("It has no direction.")

    monkeypatch.setattr(Embedder, "person", fails)
    made = assemble(Config(embedder=who, **BASE, person=(Pair(HOPPER, ASTRONAUT),)), clock=ManualClock())
    with pytest.raises(EngineError, match="no direction"):
        made.pipeline.open(lambda line: None)
    made.pipeline.close()
    assert len(closed) == 1


@pytest.mark.parametrize("option", ["embedder", "detector", "landmarker"])
@pytest.mark.parametrize("what", ["folder", "socket", "pipe", "empty", "nothing"])
def test_a_network_that_is_no_file_is_named_before_anything_runs(tmp_path, monkeypatch, option, what):
    monkeypatch.chdir(tmp_path)  # The path of a socket must be short.
    path = Path("net.onnx")
    with contextlib.ExitStack() as stack:
        if what == "folder":
            path.mkdir()
        elif what == "socket":
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(str(path))
        elif what == "pipe":
            os.mkfifo(path)
        elif what == "empty":
            path.touch()
        engine = {"engine": "inswapper_128"} if option == "landmarker" else {}
        with pytest.raises(UsageError, match=r"net\.onnx") as caught:
            assemble(Config(face=(HOPPER,), **BASE, **engine, **{option: str(path)}), clock=ManualClock())
    assert caught.value.exit_code == 2 and caught.value.fix


@pytest.mark.parametrize("sinks", [("null",), ("virtualcam", "file:a.mp4"), ("preview:0",)])
@pytest.mark.parametrize("audio", ["mic", "mic:USB"])
def test_sound_that_nothing_carries_is_refused(sinks, audio):
    with pytest.raises(UsageError, match="streams only") as caught:
        assemble(Config(face=(HOPPER,), **{**BASE, "sink": sinks}, audio=audio), clock=ManualClock())
    assert "--sink stream:URL" in caught.value.fix and caught.value.exit_code == 2


def test_sound_that_a_stream_carries_is_taken():
    sinks = ("null", "stream:udp://127.0.0.1:9")
    made = assemble(Config(face=(HOPPER,), **{**BASE, "sink": sinks}, audio="mic"), clock=ManualClock())
    assert len(made.sinks) == 2
