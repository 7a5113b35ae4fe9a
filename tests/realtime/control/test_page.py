"""The page in a real Chromium: load it, drop a photo, see the face change, press the veil, read the table.

Its picture comes by WebRTC where aiortc is installed, and as Motion JPEG elsewhere; ``test_page_picture.py`` tells the
two apart.
"""

import cv2
import numpy as np
import pytest

from tests.realtime.control.chromium import PROGRAM, chromium
from tests.realtime.control.live_page import FACE, camera, detail, eventually, pixels, settled
from tests.realtime.control.rig import ASTRONAUT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def link():
    with camera() as link:
        yield link


@pytest.fixture(scope="module")
def page(link):
    with chromium() as page:
        page.show(1280, 800, False)
        page.open(link)
        page.eventually("document.querySelector('#state')?.textContent === 'Live'", 90)
        page.eventually("document.querySelectorAll('.face').length === 1")
        # A video is compressed otherwise than a JPEG: what is compared later is of one kind.
        page.eventually("!state.webrtc || !document.querySelector('#after-live').hidden")
        eventually(lambda: detail(pixels(page)) > 3, "a picture")
        yield page


def test_the_token_is_gone_from_the_address(page):
    assert page.run("location.search") == ""
    assert page.run("document.cookie") == ""  # No script can read it.


def test_a_dropped_photo_is_put_on_and_seen_in_the_picture(page):
    before = settled(page)
    page.drop_file("#drop", str(ASTRONAUT))
    page.eventually("document.querySelectorAll('.face').length === 2")
    page.eventually("document.querySelectorAll('.face')[1].getAttribute('aria-pressed') === 'true'")

    def changed():
        return np.abs(pixels(page)[FACE].astype(int) - before[FACE]).mean() > 12

    eventually(changed, "another face in the picture")
    # Outside of the face nothing has changed.
    assert np.abs(pixels(page)[160:].astype(int) - before[160:]).mean() < 4  # Video is compressed.
    page.run("document.querySelectorAll('.face')[0].click()")
    eventually(
        lambda: np.abs(pixels(page)[FACE].astype(int) - before[FACE]).mean() < 8, "the first face again"
    )


def test_a_bad_photo_is_refused_with_its_reason_and_the_old_face_stays(page, tmp_path):
    wall = tmp_path / "wall.png"
    cv2.imwrite(str(wall), np.full((300, 300, 3), 120, np.uint8))
    before = pixels(page)
    page.choose_file("#file", str(wall))
    said = page.eventually(
        "!document.querySelector('#face-problem').hidden && document.querySelector('#face-problem').textContent"
    )
    assert "There is no face in wall.png" in said
    assert page.run("document.querySelectorAll('.face').length") == 2
    assert np.abs(pixels(page)[FACE].astype(int) - before[FACE]).mean() < 8


def test_the_veil_comes_with_the_button_and_with_the_key(page):
    seen = detail(pixels(page))
    pressed = "document.querySelector('#veil').getAttribute('aria-pressed')"
    page.run("document.querySelector('#veil').click()")
    eventually(lambda: detail(pixels(page)) < seen / 3, "the veil")
    page.eventually(f"{pressed} === 'true' && document.querySelector('#state').textContent === 'Veiled'")
    page.run("document.querySelector('#veil').click()")
    eventually(lambda: detail(pixels(page)) > seen / 1.5, "the face")
    page.press("v", "KeyV")
    page.press("v", "KeyV")  # Twice in a hurry: still veiled.
    eventually(lambda: detail(pixels(page)) < seen / 3, "the veil")
    page.press("V", "KeyV", modifiers=8)
    eventually(lambda: detail(pixels(page)) > seen / 1.5, "the face")


def test_the_real_face_is_on_the_page_only_while_it_is_wanted(page):
    assert page.run("document.querySelector('#before').getAttribute('src')") is None
    page.run("document.querySelector('#before-on').click()")
    page.eventually("!document.querySelector('#before-frame').hidden")
    page.eventually("document.querySelector('#before').naturalWidth")
    # It carries no label and no other face.
    eventually(
        lambda: np.abs(pixels(page, "before")[FACE].astype(int) - pixels(page)[FACE]).mean() > 4,
        "another face",
    )
    page.run("document.querySelector('#before-on').click()")
    page.eventually("document.querySelector('#before-frame').hidden")


def test_the_table_says_what_every_stage_took(page):
    rows = page.eventually(
        "document.querySelectorAll('#stages tr').length === 5 && "
        "[...document.querySelectorAll('#stages tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    assert [row[0] for row in rows] == ["Capture", "Track", "Swap", "Blend", "Output"]
    for row in rows:
        assert all(float(cell.replace(",", "")) >= 0 for cell in row[2:] if cell != "–")
    assert float(page.run("document.querySelector('#age').textContent")) > 0
    assert "CPUExecutionProvider" in page.run("document.querySelector('#providers').textContent")


def test_what_is_chosen_on_the_page_is_chosen(page):
    page.run("document.querySelector('input[name=mouth][value=photo]').click()")
    page.run(
        "(s => { s.value = 0.2; s.dispatchEvent(new Event('input')); })(document.querySelector('#smoothing'))"
    )
    page.run("document.querySelector('#label').click()")
    page.eventually(
        "fetch('/api/state').then(r => r.json()).then(s => s.settings)"
        ".then(s => s.mouth === 'photo' && s.smoothing === 0.2 && !s.label)"
    )


def test_every_control_is_reached_by_the_keyboard_and_has_a_name(page):
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = ("button", "checkbox", "switch", "slider", "radio", "combobox", "textbox", "link")
    nameless = [
        node for node in tree
        if not node["ignored"] and node["role"]["value"] in roles and not node.get("name", {}).get("value")
    ]  # fmt: skip
    assert not nameless
    page.run("document.activeElement.blur()")
    reached = set()
    for _ in range(60):
        page.press("Tab", "Tab")
        reached.add(page.run("(e => e.id || e.name || e.className || e.tagName)(document.activeElement)"))
    assert {
        "veil",
        "before-on",
        "file",
        "face",
        "engine",
        "shape",
        "eyes",
        "mouth",
        "occluders",
        "smoothing",
        "label",
    } <= reached


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_it_fits_and_can_be_read(page, width, dark):
    page.show(width, 800, dark)
    page.eventually(f"innerWidth === {width}")
    assert page.run("document.documentElement.scrollWidth") <= width
    # The veil is on the first screen, large enough for a thumb.
    box = page.run(
        "(r => [r.top, r.bottom, r.width, r.height])(document.querySelector('#veil').getBoundingClientRect())"
    )
    assert 0 <= box[0] < box[1] <= 800
    assert box[2] >= 200 and box[3] >= 44
    worst = page.run(_CONTRAST)
    assert worst[0] >= 4.5, worst


_CONTRAST = """(() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] > .6) return colour;
    }
  };
  let worst = [99, ""];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest(".hidden, .skip, kbd")) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < worst[0]) worst = [ratio, element.outerHTML.slice(0, 120)];
  }
  return worst;
})()"""


def test_the_console_stays_quiet(page):
    # That a photo was refused is in it, and nothing else.
    assert [line for line in page.complaints if "422" not in line] == []
