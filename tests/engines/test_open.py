"""A name and photos in, a swapper out; and what is said when that cannot be."""

from __future__ import annotations

import pytest

from engines.errors import EngineError, PhotoError, UsageError
from engines.open import Wanted, landmarks_of, open_swapper
from engines.runtime.device import Device
from engines.shipped import SWAPPERS, paints_all, runs_on
from engines.swap.base import PaintsAll
from tests.engines.scenes import ASSETS, face_in, portrait

PHOTO = ASSETS / "hopper.jpg"


@pytest.mark.parametrize("name", SWAPPERS)
def test_every_name_opens_and_swaps(name):
    said = []
    swapper = open_swapper(Wanted(name), [PHOTO])
    swapper.open(said.append)
    assert swapper.name == name
    assert swapper.landmarks in (468, 478)
    assert said
    assert all(line and "\n" not in line for line in said)
    image = portrait("astronaut").copy()
    swapper.blend(image, swapper.swap(image, face_in(image)))
    assert (image != portrait("astronaut")).any()
    swapper.close()
    swapper.close()


@pytest.mark.parametrize(
    ("name", "device", "photos", "kind", "says"),
    [
        ("dream", "cpu", [PHOTO], EngineError, "no engine 'dream'"),
        ("mesh", "cuda:7", [PHOTO], EngineError, "cuda:7"),
        ("mesh", "cpu", [], UsageError, "No face"),
        ("mesh", "cpu", [PHOTO, PHOTO.parent / "second.jpg"], PhotoError, r"second\.jpg"),
        ("mesh", "cpu", [PHOTO.parent / "nobody.jpg"], PhotoError, r"nobody\.jpg"),
        ("nowhere.onnx", "cpu", [PHOTO], UsageError, r"nowhere\.onnx"),
        ("inswapper_128", "cpu", [PHOTO], EngineError, "inswapper_128 is not in"),
    ],
)
def test_what_cannot_be_is_said_with_a_fix(name, device, photos, kind, says, tmp_path):
    with pytest.raises(kind, match=says) as caught:
        open_swapper(Wanted(name, Device(device), models=tmp_path), photos)
    assert caught.value.fix


@pytest.mark.parametrize("name", SWAPPERS)
def test_what_is_said_of_an_engine_in_advance_is_so(name):
    swapper = open_swapper(Wanted(name, landmarks=landmarks_of(name)), [PHOTO])
    assert paints_all(name) == isinstance(swapper, PaintsAll)
    assert swapper.landmarks == landmarks_of(name)
    assert not paints_all("inswapper_128") and landmarks_of("inswapper_128") == 468


def test_what_an_engine_runs_on():
    assert runs_on("mesh") == ("cpu",)
    assert runs_on("mesh", "cuda:0") == ("cpu", "cuda") and runs_on("portrait", "cuda:0") == ("cpu",)
    assert "cuda" in runs_on("inswapper_128") and "cuda" in runs_on("a.dfm")
