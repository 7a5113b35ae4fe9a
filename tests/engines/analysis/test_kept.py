"""What is kept with a photo."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from engines.analysis.kept import Kept
from engines.analysis.source import SourceFace

SOON = 20


def face():
    return SourceFace(np.zeros((8, 8, 3), np.uint8), np.zeros((468, 3), np.float32), "x.jpg")


def test_made_once_for_each_key_and_the_latest_is_held():
    kept, made = Kept(), []
    for key in ("a", "a", "b", "b", "a"):
        assert kept.latest(key, lambda key=key: made.append(key) or key.upper()) == key.upper()
    assert made == ["a", "b", "a"]


def test_what_cannot_be_made_leaves_nothing_behind():
    kept = Kept()
    kept.latest("a", lambda: 1)
    with pytest.raises(ZeroDivisionError):
        kept.latest("b", lambda: 1 // 0)
    assert kept.latest("b", lambda: 2) == 2
    assert kept.latest("a", lambda: 3) == 3


def test_two_threads_that_ask_at_once_make_it_once():
    kept, made, began, go = Kept(), [], threading.Event(), threading.Event()

    def make():
        began.set()
        assert go.wait(SOON)
        made.append(1)
        return len(made)

    found = []
    asking = [threading.Thread(target=lambda: found.append(kept.latest("a", make))) for _ in range(3)]
    for thread in asking:
        thread.start()
    assert began.wait(SOON)
    go.set()
    for thread in asking:
        thread.join(SOON)
    assert found == [1, 1, 1]


def test_another_photo_takes_nothing_over():
    one = face()
    one.kept.latest("a", lambda: 1)
    other = replace(one, image=one.image + 1)
    assert other.kept is not one.kept
    assert other.kept.latest("a", lambda: 2) == 2
    assert "kept" not in repr(one)
