"""How the page's picture comes in a real Chromium: by WebRTC, and as Motion JPEG where that does not come up."""

import contextlib
import importlib.util
import re

import numpy as np
import pytest

from realtime.control.webrtc import Peers
from tests.realtime.control.chromium import PROGRAM, chromium
from tests.realtime.control.live_page import FACE, camera, detail, eventually, pixels
from tests.realtime.control.rig import ASTRONAUT, Feeder, Rig

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on this machine"),
    pytest.mark.skipif(importlib.util.find_spec("aiortc") is None, reason="aiortc is not installed"),
]

VIDEO = "!document.querySelector('#after-live').hidden"
JPEG = "document.querySelector('#after').naturalWidth > 0 && !document.querySelector('#after').hidden"
PLAYED = "document.querySelector('#after-live').getVideoPlaybackQuality().totalVideoFrames"


@contextlib.contextmanager
def opened(aiortc=True):
    """The page of a camera, once it shows something."""
    with camera(aiortc) as link, chromium() as page:
        page.show(1280, 800, False)
        page.open(link)
        page.eventually("document.querySelector('#state')?.textContent === 'Live'", 90)
        page.eventually("document.querySelectorAll('.face').length === 1")
        eventually(lambda: detail(pixels(page)) > 3, "a picture")
        yield page


def away(page, gone):
    """Another tab before this one, or not."""
    page.run(
        f"Object.defineProperty(document, 'hidden', {{ value: {str(gone).lower()}, configurable: true }});"
        "document.dispatchEvent(new Event('visibilitychange'));"
    )


def test_the_picture_plays_as_video_and_shows_what_is_done():
    with opened() as page:
        page.eventually(VIDEO)
        count = page.run(PLAYED)
        page.eventually(f"{PLAYED} > {count + 5}")
        assert page.run("document.querySelector('#after').getAttribute('src')") is None
        assert page.run("document.querySelector('#after-live').videoWidth") == 640

        # Another face in its pixels, and only there.
        before = pixels(page)
        page.drop_file("#drop", str(ASTRONAUT))
        page.eventually("document.querySelectorAll('.face')[1]?.getAttribute('aria-pressed') === 'true'")
        eventually(
            lambda: np.abs(pixels(page)[FACE].astype(int) - before[FACE]).mean() > 12, "another face in it"
        )
        assert np.abs(pixels(page)[160:].astype(int) - before[160:]).mean() < 4

        # The veil.
        seen = detail(pixels(page))
        page.press("v", "KeyV")
        eventually(lambda: detail(pixels(page)) < seen / 3, "the veil")
        page.press("V", "KeyV", modifiers=8)
        eventually(lambda: detail(pixels(page)) > seen / 1.5, "the face")

        # The real face, only while it is wanted.
        assert page.run("document.querySelector('#before').getAttribute('src')") is None
        page.run("document.querySelector('#before-on').click()")
        page.eventually("document.querySelector('#before').naturalWidth > 0")
        eventually(
            lambda: np.abs(pixels(page, "before")[FACE].astype(int) - pixels(page)[FACE]).mean() > 1,
            "the real face",
        )
        page.run("document.querySelector('#before-on').click()")
        page.eventually("document.querySelector('#before-frame').hidden")
        assert page.run("document.querySelector('#before').getAttribute('src')") is None

        # Nothing comes to a page that nobody looks at, and it comes again.
        away(page, True)
        assert page.run("document.querySelector('#after-live').srcObject") is None
        assert page.run("document.querySelector('#after').getAttribute('src')") is None
        away(page, False)
        page.eventually(VIDEO)
        assert not page.complaints


@contextlib.contextmanager
def beside(rig):
    """The page of a rig, that shows something."""
    with Feeder(rig.control.sinks[-1].send), chromium() as page:
        page.open(rig.control.link)
        page.eventually(f"{VIDEO} || {JPEG}")
        yield page


def test_what_breaks_is_shown_as_motion_jpeg():
    with Rig() as rig, beside(rig) as page:
        page.eventually(VIDEO)
        peers = rig.control._peers
        for task in tuple(peers._tasks):
            peers._loop.call_soon_threadsafe(task.cancel)
        page.eventually(JPEG)
        assert page.run("document.querySelector('#after-live').srcObject") is None
        # Once somebody looks again, it is tried again.
        away(page, True)
        away(page, False)
        page.eventually(VIDEO)


def test_where_no_way_leads_through_it_stays_motion_jpeg(monkeypatch):
    """As behind a tunnel that carries the page and no UDP."""
    asked, real = [], Peers.answer

    def elsewhere(*args):
        asked.append(1)
        return re.sub(r"(a=candidate:.* 127\.0\.0\.1) \d+", r"\1 9", real(*args))

    monkeypatch.setattr(Peers, "answer", elsewhere)
    with Rig() as rig, beside(rig) as page:
        page.eventually(JPEG)
        page.run("new Promise(done => setTimeout(done, LivePicture.PATIENCE_MS + 500))")
        assert asked
        assert page.run(JPEG)
        assert not page.run(VIDEO)
        assert page.run("document.querySelector('#after-live').srcObject") is None


def test_without_aiortc_it_is_motion_jpeg_and_nothing_else_is_tried():
    with opened(aiortc=False) as page:
        page.eventually(JPEG)
        assert page.run("state.webrtc") is False
        before = pixels(page)
        page.drop_file("#drop", str(ASTRONAUT))
        eventually(
            lambda: np.abs(pixels(page)[FACE].astype(int) - before[FACE]).mean() > 12, "another face in it"
        )
        assert not page.run(VIDEO)
        assert not page.complaints
