"""The gallery, the pictures, the switches, OSC and the document of the API."""

import json
import re
import threading

import cv2
import numpy as np
import pytest

from engines.analysis.source import SourceFace
from engines.errors import DeviceError, PhotoError, UsageError
from realtime.control.api import ROUTES
from realtime.control.gallery import MOST_FACES, Gallery, kept, plain_name, thumbnail
from realtime.control.osc import OscServer, obey
from realtime.control.pictures import WIDTH, PageSink, Picture, small
from realtime.control.route import PICTURES
from realtime.control.switch import Switch
from realtime.frame import FramePool, Kind
from tests.realtime.control.rig import ASTRONAUT, HOPPER, Feeder, QuietSink, Rig
from tests.realtime.fakes import MS, SoloClock, make_frame

SOON = 20


# -- gallery --------------------------------------------------------------------------------------------------


@pytest.fixture
def gallery():
    gallery = Gallery(468)
    yield gallery
    gallery.close()


def test_a_photo_is_read_once(gallery, monkeypatch):
    person = gallery.add_files([HOPPER])
    assert (person.name, person.own, gallery.wearing([HOPPER])) == ("hopper", False, person.id)
    monkeypatch.setattr(
        "realtime.control.gallery.SourceReader.read", lambda self, path: pytest.fail("read again")
    )
    first, second = (gallery.read([HOPPER], 468)[0] for _ in range(2))
    assert first is second


def test_a_dropped_photo_leaves_no_file_and_reads_like_the_file_itself(gallery, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dropped = gallery.add_upload("holiday.jpg", HOPPER.read_bytes())
    assert not list(tmp_path.iterdir())
    face, own = gallery.read(dropped.photos, 468)[0], gallery.read([HOPPER], 468)[0]
    assert np.array_equal(face.points, own.points)
    assert np.array_equal(face.image, own.image)
    assert face.name == "holiday.jpg"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.jpg", "a.jpg"), ("../../etc/passwd", "passwd"), ("C:\\me\\a.jpg", "a.jpg"), ("", "photo"), ("..", "photo"),
        ("/", "photo"), ("a\0b\n.jpg", "ab.jpg"), ("<img src=x>.jpg", "img srcx.jpg"), ("Zoë 1.jpg", "Zoë 1.jpg"),
        ("x" * 300 + ".jpg", "x" * 40 + "…" + "x" * 8 + ".jpg"), ("\u202egpj.exe", "gpj.exe"),
    ],
)  # fmt: skip
def test_names_of_photos_are_plain(name, said):
    assert plain_name(name) == said


def test_a_bad_photo_is_named_as_it_was_called(gallery):
    with pytest.raises(PhotoError) as found:
        gallery.add_upload("../notes.txt", b"no picture at all")
    assert "notes.txt" in found.value.what
    assert "doppelcam-" not in str(found.value)
    _, flat = cv2.imencode(".png", np.full((200, 200, 3), 90, np.uint8))
    with pytest.raises(PhotoError, match=r"no face in wall\.png"):
        gallery.add_upload("wall.png", flat.tobytes())
    assert gallery.people() == ()


def test_the_gallery_takes_so_many_and_no_more(gallery, monkeypatch):
    face = gallery.read([HOPPER], 468)[0]
    monkeypatch.setattr("realtime.control.gallery.SourceReader.read", lambda self, path: face)
    people = [gallery.add_upload(f"{n}.jpg", HOPPER.read_bytes()) for n in range(MOST_FACES)]
    with pytest.raises(UsageError, match="takes no more"):
        gallery.add_upload("one-more.jpg", HOPPER.read_bytes())
    gallery.remove(people[0].id)
    assert (
        len({person.id for person in (*people, gallery.add_upload("one-more.jpg", HOPPER.read_bytes()))})
        == 25
    )
    with pytest.raises(UsageError, match="configuration"):
        gallery.remove(gallery.add_files([HOPPER]).id)


@pytest.mark.parametrize(
    ("size", "face", "kept_size"),
    [
        ((4000, 3000), 2000, 2048),
        ((4000, 3000), 300, 4000),
        ((4000, 3000), 600, 3413),
        ((1000, 800), 300, 1000),
    ],
)
def test_of_a_large_photo_enough_is_kept(size, face, kept_size):
    rng = np.random.default_rng(0)
    image = np.zeros((size[1], size[0], 3), np.uint8)
    points = np.zeros((468, 3), np.float32)
    points[:, :2] = np.array(size) / 2 + rng.uniform(-face / 2, face / 2, (468, 2))
    alpha = np.full(image.shape[:2], 255, np.uint8)
    made = kept(SourceFace(image, points, "large.jpg", alpha=alpha))
    assert max(made.image.shape[:2]) == pytest.approx(kept_size, abs=60)
    assert made.alpha.shape == made.image.shape[:2]
    place = made.points[:, :2].mean(0) / (made.image.shape[1], made.image.shape[0])
    assert place == pytest.approx(points[:, :2].mean(0) / size, abs=1e-3)
    assert cv2.imdecode(np.frombuffer(thumbnail(made), np.uint8), 1).shape == (160, 160, 3)


# -- pictures -------------------------------------------------------------------------------------------------


def test_nobody_watches_and_nothing_is_done():
    clock = SoloClock()
    picture = Picture(clock)
    sink = PageSink(picture)
    pool = FramePool((64, 48))
    for _ in range(20):
        lease = pool.lease()
        frame = make_frame()
        sink.send(frame.__class__(lease.buffer, 0, 0, Kind.SWAPPED, lease))
        del frame, lease
    assert pool.allocated == 1
    assert picture._number == 0


def test_fifteen_a_second_of_thirty_and_of_sixty():
    for fps in (30, 60):
        clock = SoloClock()
        picture = Picture(clock)
        with picture.watch():
            for n in range(fps):
                picture.offer(make_frame(n))
                clock.pass_by(round(1e9 / fps))
            assert 14 <= picture._number <= 21


def test_every_watcher_gets_the_same_jpeg_and_it_is_made_once(monkeypatch):
    clock, made = SoloClock(), []
    picture = Picture(clock)
    real = cv2.imencode
    monkeypatch.setattr(cv2, "imencode", lambda *a: made.append(1) or real(*a))
    with picture.watch(), picture.watch():
        picture.offer(make_frame())
        one, other = picture.newer_than(0), picture.newer_than(0)
        assert one is other
        assert made == [1]
        clock.pass_by(100 * MS)
        picture.offer(make_frame(1))
        assert picture.newer_than(one[0])[0] == 2
    assert picture.newer_than(1)[0] == 2
    picture.close()
    assert picture.newer_than(0) is None


def test_who_looks_next_is_not_shown_what_the_last_one_saw():
    picture = Picture(SoloClock())
    with picture.watch():
        picture.offer(make_frame())
        assert picture.newer_than(0)[1]
    with picture.watch():
        assert picture.newer_than(0) == (1, b"")


def test_what_is_painted_over_is_made_small_before():
    picture = Picture(SoloClock(), painted=True)
    with picture.watch():
        frame = make_frame(size=(320, 240))
        frame.image[:] = 200
        picture.offer(frame)
        frame.image[:] = 0
        jpeg = cv2.imdecode(np.frombuffer(picture.newer_than(0)[1], np.uint8), 1)
        assert jpeg.min() > 190


@pytest.mark.parametrize(
    "size", [(1920, 1080), (3840, 2160), (1280, 720), (1080, 1920), (64, 48), (641, 63), (7680, 64)]
)
def test_small_pictures_have_the_shape_of_the_large_ones(size):
    made = small(np.full((size[1], size[0], 3), 77, np.uint8))
    assert max(made.shape[:2]) == min(WIDTH, max(size))
    assert made.shape[1] / made.shape[0] == pytest.approx(size[0] / size[1], rel=0.15)
    assert (made == 77).all()


def test_a_watcher_that_waits_is_let_go_at_the_end():
    picture, got = Picture(SoloClock()), []

    def watch():
        with picture.watch():
            got.append(picture.newer_than(0))

    thread = threading.Thread(target=watch)
    thread.start()
    while not picture.watched:
        pass
    picture.close()
    thread.join(SOON)
    assert got == [None]
    with picture.watch() as room:
        assert not room


# -- switches -------------------------------------------------------------------------------------------------


def switched(off, **kw):
    sink = QuietSink(**kw)
    switch = Switch(sink, off, SoloClock())
    switch.open((64, 48), 30)
    switch.send(make_frame(kind=Kind.SWAPPED))
    switch.on = False
    for _ in range(3):
        switch.send(make_frame(kind=Kind.SWAPPED))
    return switch, sink


@pytest.mark.parametrize(
    ("off", "kinds", "opened"),
    [
        ("slate", [Kind.SWAPPED, Kind.SLATE, Kind.SLATE, Kind.SLATE, Kind.SWAPPED], 1),
        ("pause", [Kind.SWAPPED, Kind.SWAPPED], 1),
        ("close", [Kind.SWAPPED, Kind.SWAPPED], 2),
    ],
)
def test_while_an_output_is_off_nobody_is_seen_there(off, kinds, opened):
    switch, sink = switched(off)
    switch.on = True
    switch.send(make_frame(kind=Kind.SWAPPED))
    switch.close()
    assert (sink.kinds, sink.opened) == (kinds, opened)
    assert sink.closed == opened


def test_an_output_that_does_not_come_on_again_says_why_and_ends_nothing():
    switch, sink = switched("close")
    sink.refuse = DeviceError("The camera is busy.", "Close the other program.")
    switch.on = True
    switch.send(make_frame(kind=Kind.SWAPPED))
    assert not switch.on
    assert "busy" in switch.problem
    sink.refuse = None
    switch.on = True
    switch.send(make_frame(kind=Kind.SWAPPED))
    assert (switch.on, switch.problem, sink.kinds) == (True, "", [Kind.SWAPPED] * 2)
    switch.close()


def test_what_cannot_be_opened_at_first_ends_the_session_as_ever():
    switch = Switch(QuietSink(refuse=DeviceError("Not there.")), "close", SoloClock())
    with pytest.raises(DeviceError):
        switch.open((64, 48), 30)


def test_outputs_are_switched_by_their_number():
    with Rig() as rig:
        rig.desk.switch(0, False)
        assert not rig.control.sinks[0].on
        for wrong in (-1, 1, 99):
            with pytest.raises(UsageError, match="no such output"):
                rig.desk.switch(wrong, True)


# -- OSC ------------------------------------------------------------------------------------------------------


def test_messages_do_what_buttons_do():
    with Rig(face=(HOPPER,)) as rig:
        rig.desk.change({"label": False}).result(SOON)  # The face of the configuration was read before.
        for values, drawn in (
            ([1], True),
            ([0], False),
            ([], True),
            ([], False),
            ([True], True),
            ([0.0], False),
        ):
            obey(rig.desk, "/doppelcam/veil", values)
            assert rig.guard.curtain.drawn is drawn
        dropped = rig.desk.drop("astronaut.png", ASTRONAUT.read_bytes()).result(SOON)
        obey(rig.desk, "/doppelcam/face", ["astronaut"])
        obey(rig.desk, "/doppelcam/eyes", ["live"])
        obey(rig.desk, "/doppelcam/smoothing", [1])
        obey(rig.desk, "/doppelcam/label", [])
        obey(rig.desk, "/doppelcam/output", [0, 0])
        rig.desk.change({"mouth": "photo"}).result(SOON)
        settings = rig.desk.state()["settings"]
        assert (settings["face"], settings["eyes"], settings["smoothing"], settings["label"]) == (
            dropped.id,
            "live",
            1,
            True,
        )
        obey(rig.desk, "/doppelcam/face", [0])
        rig.desk.change({"mouth": "live"}).result(SOON)
        assert rig.desk.state()["settings"]["face"] != dropped.id
        assert not rig.control.sinks[0].on


@pytest.mark.parametrize(
    ("address", "values"),
    [
        ("/other/veil", [1]), ("/doppelcam/", []), ("/doppelcam/nothing", [1]), ("/doppelcam/veil", ["on"]),
        ("/doppelcam/veil", [1, 2]), ("/doppelcam/face", []), ("/doppelcam/face", [99]),
        ("/doppelcam/face", ["nobody"]),
        ("/doppelcam/shape", ["x"]), ("/doppelcam/shape", [float("nan")]), ("/doppelcam/shape", [2.0]),
        ("/doppelcam/engine", ["/etc/passwd"]), ("/doppelcam/output", [0]), ("/doppelcam/output", ["a", 1]),
        ("/doppelcam/output", [9, 1]), ("/doppelcam/face", [b"blob"]), ("/doppelcam/face", [-1]),
    ],
)  # fmt: skip
def test_wrong_messages_are_named(address, values):
    with Rig() as rig, pytest.raises(UsageError):
        obey(rig.desk, address, values)


def test_messages_come_by_udp_and_noise_harms_nothing():
    builder = pytest.importorskip("pythonosc.osc_message_builder")
    bundles = pytest.importorskip("pythonosc.osc_bundle_builder")
    import socket
    import time

    def message(address, *values):
        made = builder.OscMessageBuilder(address)
        for value in values:
            made.add_arg(value)
        return made.build()

    with (
        Rig() as rig,
        OscServer(0, rig.desk) as osc,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        rng = np.random.default_rng(0)
        veil = message("/doppelcam/veil", 1).dgram
        noise = [
            b"",
            b"\0",
            b"#bundle\0",
            b"/doppelcam/veil",
            veil[:-2],
            b"#bundle\0" + b"\xff" * 40,
            b"x" * 4000,
        ]
        for data in (*noise, *(rng.bytes(n) for n in range(1, 200, 7)), message("/doppelcam/nothing").dgram):
            client.sendto(data, ("127.0.0.1", osc.port))
        bundle = bundles.OscBundleBuilder(bundles.IMMEDIATELY)
        bundle.add_content(message("/doppelcam/output", 0, 0))
        bundle.add_content(message("/doppelcam/veil", 1))
        client.sendto(bundle.build().dgram, ("127.0.0.1", osc.port))
        deadline = time.monotonic() + SOON
        while not rig.guard.curtain.drawn:
            assert time.monotonic() < deadline
        assert not rig.control.sinks[0].on


def test_a_port_that_is_taken_is_named():
    pytest.importorskip("pythonosc")
    with (
        Rig() as rig, OscServer(0, rig.desk) as osc, pytest.raises(UsageError, match=f"port {osc.port}"),
        OscServer(osc.port, rig.desk),
    ):  # fmt: skip
        pass


# -- the document ---------------------------------------------------------------------------------------------


def fits(value, schema, where="it"):
    """A small part of JSON Schema: what the document uses."""
    if "const" in schema:
        assert value == schema["const"], where
    if "enum" in schema:
        assert value in schema["enum"], where
    kind = schema.get("type")
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "integer": int,
        "number": (int, float),
    }
    if kind:
        assert isinstance(value, kinds[kind]), where
        assert kind == "boolean" or not isinstance(value, bool), where
    if kind == "object":
        known = schema.get("properties", {})
        for name, one in value.items():
            other = schema.get("additionalProperties", True)
            assert name in known or other is not False, f"{where}.{name}"
            fits(one, known.get(name, other if isinstance(other, dict) else {}), f"{where}.{name}")
        assert set(schema.get("required", ())) <= set(value), where
    if kind == "array":
        for one in value:
            fits(one, schema["items"], f"{where}[]")
    assert schema.get("minimum", value) <= value <= schema.get("maximum", value) if kind == "number" else True


def test_the_document_has_every_route_and_no_other():
    with Rig() as rig:
        made = rig.enter().get("/openapi.json")
    said = {(method.upper(), path) for path, methods in made["paths"].items() for method in methods}
    assert said == {(route.method, route.path) for route in ROUTES} | {("GET", path) for path in PICTURES}
    assert made["openapi"] == "3.1.0"
    operations = [one for methods in made["paths"].values() for one in methods.values()]
    ids = [one["operationId"] for one in operations if "operationId" in one]
    assert len(set(ids)) == len(ids) == len(ROUTES)
    for path, methods in made["paths"].items():
        for one in methods.values():
            assert one["summary"]
            places = {place["name"] for place in one.get("parameters", ()) if place["in"] == "path"}
            assert places == set(re.findall(r"\{(\w+)\}", path))
            assert {"401", "403"} <= set(one["responses"])


def test_every_answer_is_as_the_document_says():
    with Rig(face=(HOPPER,)) as rig:
        rig.enter()
        rig.desk.change({"label": True}).result(SOON)
        document = rig.get("/openapi.json")

        def check(method, path, template, value=None, **other):
            kind = {"Content_Type": "image/jpeg"} if isinstance(value, bytes) else {}
            body = (
                value
                if isinstance(value, bytes)
                else json.dumps(value).encode()
                if value is not None
                else None
            )
            status, headers, said = rig.ask(method, path, body, rig.manners(**kind, **other))
            answers = document["paths"][template][method.lower()]["responses"]
            content = answers[str(status)]["content"]
            assert headers.get_content_type() in content
            if headers.get_content_type() == "application/json":
                found = json.loads(said)
                found.pop("csrf", None)
                fits(found, content["application/json"].get("schema", {}))
            return status

        assert check("GET", "/api/state", "/api/state") == 200
        for values, status in (({"shape": 0.5}, 200), ({"shape": 5}, 422)):
            assert check("PATCH", "/api/settings", "/api/settings", values) == status
        assert check("PATCH", "/api/settings", "/api/settings", {}, Origin="http://evil.example") == 403
        for path in ("/api/veil", "/api/before"):
            assert check("POST", path, path, {"on": True}) == 200
            assert check("POST", path, path, {"on": 1}) == 422
        assert check("PATCH", "/api/outputs/0", "/api/outputs/{id}", {"on": True}) == 200
        assert check("PATCH", "/api/outputs/7", "/api/outputs/{id}", {"on": True}) == 422
        assert check("POST", "/api/faces?name=a.png", "/api/faces", ASTRONAUT.read_bytes()) == 201
        assert check("POST", "/api/faces?name=a.png", "/api/faces", b"nothing") == 422
        face = rig.get("/api/state")["faces"][-1]["id"]
        assert check("GET", f"/api/faces/{face}/thumbnail", "/api/faces/{id}/thumbnail") == 200
        assert check("DELETE", f"/api/faces/{face}", "/api/faces/{id}") == 200
        assert check("DELETE", f"/api/faces/{face}", "/api/faces/{id}") == 422


def test_pictures_that_nobody_takes_hold_no_buffer_for_long():
    picture = Picture(SoloClock())
    with picture.watch():
        picture.offer(make_frame())
        assert picture._newest is not None
        picture.newer_than(0)
        assert picture._newest is None
    with picture.watch(), Feeder(picture.offer):
        pass
    assert picture._newest is None
