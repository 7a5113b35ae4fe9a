"""The page's server, asked nicely and otherwise."""

import contextlib
import http.client
import json
import re
import socket
import threading
import time

import pytest

from realtime import local_http
from realtime.control import server
from realtime.control.api import ROUTES
from realtime.control.gallery import LARGEST_UPLOAD
from realtime.control.route import LARGEST_JSON, PICTURES
from tests.realtime.control.rig import HOPPER, PASSWORD, Feeder, Rig


@pytest.fixture
def rig():
    with Rig() as rig:
        yield rig.enter()


def raw(rig, data, timeout=20.0):
    """Bytes as they are. Gives what came back until the server hung up."""
    with socket.create_connection(("127.0.0.1", rig.port), timeout) as client:
        client.sendall(data)
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while block := client.recv(1 << 16):
                said += block
        return said


def test_the_link_lets_in_once_and_for_all(rig):
    status, headers, body = rig.ask("GET", "/", headers={"Cookie": rig.cookie})
    assert status == 200
    assert b"Veil now" in body
    for path, kind in (
        ("/control.css", "text/css"),
        ("/control.js", "text/javascript"),
        ("/icon.svg", "image/svg+xml"),
    ):
        status, headers, _ = rig.ask("GET", path, headers={"Cookie": rig.cookie})
        assert (status, headers.get_content_type()) == (200, kind)


def test_the_cookie_is_for_this_page_and_its_server_only(rig):
    _, headers, _ = rig.ask("GET", f"/?token={rig.token}")
    assert re.fullmatch(r"doppelcam=[\w-]{43}; Path=/; HttpOnly; SameSite=Strict", headers["Set-Cookie"])
    assert rig.token not in headers["Set-Cookie"]


def test_nothing_inline_and_nothing_from_elsewhere_runs_on_the_page(rig):
    _, headers, body = rig.ask("GET", "/", headers={"Cookie": rig.cookie})
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert not re.search(rb"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=|https?://", body)
    assert headers["Referrer-Policy"] == "no-referrer"
    assert not [name for name in headers if name.lower().startswith("access-control")]


EVERYTHING = [(route.method, route.path.replace("{id}", "face-1")) for route in ROUTES] + [
    ("GET", path) for path in ("/", "/control.js", "/?token=wrong", "/?token=", *PICTURES)
]


@pytest.mark.parametrize(("method", "path"), EVERYTHING)
def test_a_stranger_gets_nothing(rig, method, path):
    body = b"{}" if method != "GET" else None
    for headers in ({}, {"Cookie": "doppelcam=guess"}, {"Authorization": "Bearer guess"}):
        status, answered, said = rig.ask(method, path, body, headers | {"Content-Type": "application/json"})
        assert status in (401, 403)
        assert "Set-Cookie" not in answered
        assert set(json.loads(said)) == {"error", "fix"}


@pytest.mark.parametrize(("method", "path"), EVERYTHING)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "192.168.1.1:{port}"]
)
def test_another_name_for_this_machine_is_turned_away_even_with_the_token(rig, method, path, host):
    headers = {"Authorization": f"Bearer {rig.token}", "Content-Type": "application/json"}
    host = host.format(port=rig.port)
    assert rig.ask(method, path, b"{}" if method != "GET" else None, headers, host=[host])[0] == 403


def test_no_host_and_two_hosts_are_turned_away(rig):
    own = f"127.0.0.1:{rig.port}"
    for hosts in ([], [own, own], [own, "evil.example"]):
        assert rig.ask("GET", "/", headers={"Cookie": rig.cookie}, host=hosts or [""])[0] == 403


CHANGES = [(route.method, route.path.replace("{id}", "0")) for route in ROUTES if route.changes]


@pytest.mark.parametrize(("method", "path"), CHANGES)
@pytest.mark.parametrize(
    "other",
    [
        {"Origin": None}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1"},
        {"Origin": "https://127.0.0.1:{port}"}, {"Origin": ["http://127.0.0.1:{port}", "http://evil.example"]},
        {"X_CSRF_Token": None}, {"X_CSRF_Token": "guess"}, {"X_CSRF_Token": ""},
        {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)  # fmt: skip
def test_another_site_changes_nothing(rig, method, path, other):
    filled = {
        name: [one.format(port=rig.port) for one in value] if isinstance(value, list)
        else value and value.format(port=rig.port)
        for name, value in other.items()
    }  # fmt: skip
    status, said = rig.send(method, path, {"on": True}, **filled)
    assert status == 403, said
    assert not rig.guard.curtain.drawn
    assert rig.control.sinks[0].on
    assert not rig.desk.show_before
    assert not rig.made


def test_a_program_needs_the_token_and_no_page_may_use_it(rig):
    bearer = {"Authorization": f"Bearer {rig.token}", "Content-Type": "application/json"}
    assert rig.ask("POST", "/api/veil", b'{"on": true}', bearer)[0] == 200
    assert rig.guard.curtain.drawn
    status, _, _ = rig.ask("POST", "/api/veil", b'{"on": false}', bearer | {"Origin": "http://evil.example"})
    assert status == 403
    assert rig.guard.curtain.drawn


def test_veil_now(rig):
    assert rig.send("POST", "/api/veil", {"on": True}) == (200, {"on": True})
    assert rig.guard.curtain.drawn
    assert rig.get("/api/state")["veil"]
    assert rig.send("POST", "/api/veil", {"on": False}) == (200, {"on": False})
    assert not rig.guard.curtain.drawn


BAD_JSON = [
    b"", b"{", b"[]", b"null", b"1", b'"on"', b"\xff\xfe", b"{}", b'{"on": 1}', b'{"on": "true"}', b'{"on": null}',
    b'{"on": true, "more": 1}', b"[" * 30_000, b'{"on": ' * 9_000, b'{"on": NaN}', b"\0" * 100,
]  # fmt: skip


@pytest.mark.parametrize("body", BAD_JSON, ids=lambda body: repr(body[:16]))
@pytest.mark.parametrize("path", ["/api/veil", "/api/before"])
def test_what_is_no_json_or_says_something_else_is_refused_with_a_sentence(rig, path, body):
    status, said = rig.send("POST", path, body)
    assert status == 422
    assert said["error"]
    assert not rig.guard.curtain.drawn


@pytest.mark.parametrize(
    "values",
    [
        {}, {"shape": 2}, {"shape": "much"}, {"shape": None}, {"shape": float("nan")}, {"shape": [1]}, {"shape": True},
        {"eyes": "blue"}, {"eyes": {}}, {"label": "perhaps"}, {"label": []}, {"engine": "/etc/passwd"},
        {"engine": "../x.onnx"}, {"engine": None}, {"engine": {"a": 1}}, {"face": "face-99"},
        {"face": "../../etc/passwd"}, {"face": 3},
        {"sink": ["file:/tmp/x.mp4"]}, {"models": "/etc"}, {"source": "file:/etc/passwd"}, {"__class__": 1},
        {"x" * 1000: 1}, {"on_lost": "passthrough"}, {"on-lost": ["passthrough"]}, {"shape": 0.5, "eyes": "x"},
    ],
    ids=lambda values: str(values)[:40],
)  # fmt: skip
def test_a_setting_that_cannot_be_changes_nothing(rig, values):
    before = rig.get("/api/state")["settings"]
    status, said = rig.send("PATCH", "/api/settings", values)
    assert status == 422
    assert said["error"]
    assert len(said["error"]) < 300
    assert rig.get("/api/state")["settings"] == before
    assert not rig.made


def test_what_can_be_changed_is_changed_and_answered(rig):
    values = {"shape": 0.25, "eyes": "live", "label": True, "smoothing": 1, "boost": 2}
    status, said = rig.send("PATCH", "/api/settings", values)
    assert status == 200
    assert values.items() <= said.items()
    assert rig.pipeline.label is not None
    assert rig.tracker.smoothing.beta == pytest.approx(60 / 8)
    assert rig.pipeline.swapper is rig.made[-1][0]
    assert rig.made[-1][1].shape == 0.25
    assert rig.swapper.closed == 1


@pytest.mark.parametrize(
    "path",
    [
        "/../realtime/settings/config.py", "/..%2f..%2fetc/passwd", "//etc/passwd", "/control.css/../api.py",
        "/assets/control.js",
        "/api/faces/../../etc/passwd/thumbnail", "/api/faces/%2e%2e/thumbnail", "/api/faces//thumbnail",
        "/api/outputs/",
        "/api/outputs/0x0", "/api/state/", "/%00", "/login/../api/state",
        "http://evil.example/api/state", "/index.html",
        "*", "/api/faces/" + "a" * 5000 + "/thumbnail", "/?token=a&token=b",
        "/?" + "&".join(f"a{n}=1" for n in range(50)),
    ],
    ids=lambda path: path[:30],
)  # fmt: skip
def test_there_is_nothing_beside_the_routes(rig, path):
    status, _, body = rig.ask("GET", path, headers={"Cookie": rig.cookie})
    assert status in (400, 401, 403, 404, 405, 422)
    assert b"root:" not in body
    assert b"import" not in body
    assert set(json.loads(body)) == {"error", "fix"}


def test_only_the_methods_of_a_route_are_taken(rig):
    for method, path in (
        ("PUT", "/api/veil"),
        ("OPTIONS", "/api/veil"),
        ("GET", "/api/veil"),
        ("DELETE", "/api/state"),
    ):
        status, headers, _ = rig.ask(method, path, b"{}" if method != "GET" else None, rig.manners())
        assert status == 405
        assert not [name for name in headers if name.lower().startswith("access-control")]
    for method in ("TRACE", "CONNECT", "GETT", "PROPFIND"):
        assert rig.ask(method, "/", headers=rig.manners())[0] == 501
    assert not rig.guard.curtain.drawn


@pytest.mark.parametrize("path", ["/", "/api/state", "/openapi.json", "/picture/after.mjpg"])
def test_head_is_get_without_a_body(rig, path):
    status, headers, body = rig.ask("HEAD", path, headers={"Cookie": rig.cookie})
    assert (status, body) == (200, b"")
    assert headers["Cache-Control"] == "no-store"


def test_no_websocket_is_opened(rig):
    said = rig.ask("GET", "/api/state", headers={
        "Cookie": rig.cookie, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    })  # fmt: skip
    assert said[0] == 400


def test_a_body_without_a_length_or_in_chunks_is_refused(rig):
    head = f"POST /api/veil HTTP/1.1\r\nHost: 127.0.0.1:{rig.port}\r\nAuthorization: Bearer {rig.token}\r\n"
    head += "Content-Type: application/json\r\n"
    for more in ("", "Content-Length: -1\r\n", "Content-Length: x\r\n", "Content-Length: 99999999999999999999\r\n",
                 "Content-Length: 12\r\nContent-Length: 12\r\n", "Transfer-Encoding: chunked\r\n"):  # fmt: skip
        said = raw(rig, f"{head}{more}\r\n".encode())
        assert re.match(rb"HTTP/1.0 4(00|11|13) ", said), said[:80]
    assert not rig.guard.curtain.drawn


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n", b"\0" * 4096, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 300,
        b"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", b"GET / HTTP/1.1\r\nA: " + b"b" * 70_000 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=lambda data: repr(data[:20]),
)  # fmt: skip
def test_noise_is_answered_or_hung_up_on_and_the_server_goes_on(rig, data):
    with socket.create_connection(("127.0.0.1", rig.port), 20) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while client.recv(1 << 16):
                pass
    assert rig.get("/api/state")["state"] == "live"


def test_an_upload_that_says_it_is_huge_is_refused_before_it_is_read(rig):
    for size in (LARGEST_UPLOAD + 1, 1 << 40):
        headers = rig.manners(Content_Type="image/jpeg", Content_Length=str(size))
        status, _, said = rig.ask("POST", "/api/faces?name=a.jpg", None, headers)
        assert status == 413
        assert "40960 KiB" in json.loads(said)["error"]
    headers = rig.manners(Content_Length=str(LARGEST_JSON + 1))
    assert rig.ask("POST", "/api/veil", None, headers)[0] == 413


def test_an_upload_of_another_kind_is_refused(rig):
    for kind in (
        "text/plain",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
        "application/json",
    ):
        status, _, _ = rig.ask("POST", "/api/faces", b"x", rig.manners(Content_Type=kind))
        assert status == 415
    # A form of another site could send these without asking.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert rig.ask("POST", "/api/veil", b'{"on": true}', rig.manners(Content_Type=kind))[0] == 415
    assert not rig.guard.curtain.drawn


def test_who_takes_too_long_is_hung_up_on(monkeypatch):
    """A byte at a time, before the end of the head and in the body: each byte comes in time, all of them do not."""
    monkeypatch.setattr(local_http, "_REQUEST_S", 0.3)
    monkeypatch.setattr(server, "_BODY_S", 0.3)
    with Rig() as rig:
        body = (
            f"POST /api/faces HTTP/1.1\r\nHost: 127.0.0.1:{rig.port}\r\nAuthorization: Bearer {rig.token}\r\n"
            "Content-Type: image/jpeg\r\nContent-Length: 9999\r\n\r\n"
        )
        for beginning in (b"GET / HT", body.encode()):
            with socket.create_connection(("127.0.0.1", rig.port), 20) as client:
                client.sendall(beginning)
                client.settimeout(0.02)
                ended = False
                for _ in range(500):
                    with contextlib.suppress(TimeoutError, ConnectionError):
                        client.sendall(b"x")
                        ended = client.recv(100) == b""
                    if ended:
                        break
                assert ended


def test_a_hundred_connections_harm_nobody(rig):
    clients = [socket.create_connection(("127.0.0.1", rig.port), 20) for _ in range(100)]
    for client in clients:
        client.close()
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if rig.get("/api/state")["state"] == "live":
                break
        assert time.monotonic() < deadline
    assert sum(thread.name == "control page-client" for thread in threading.enumerate()) <= 16


@contextlib.contextmanager
def watching(rig, path):
    """A browser that looks at a picture; gives a function for the next JPEG."""
    with socket.create_connection(("127.0.0.1", rig.port), 20) as client:
        client.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{rig.port}\r\nCookie: {rig.cookie}\r\n\r\n".encode()
        )
        stream = client.makefile("rb")
        head = b"".join(iter(stream.readline, b"\r\n"))

        def following():
            """The next JPEG; None at the end."""
            while line := stream.readline():
                if length := re.match(rb"Content-Length: (\d+)", line):
                    stream.readline()
                    return stream.read(int(length[1]))
            return None

        with stream:
            yield head, following


def test_the_picture_comes_while_somebody_watches(rig):
    after = rig.control.sinks[-1]
    assert not rig.desk.after.watched
    with Feeder(after.send), watching(rig, "/picture/after.mjpg") as (head, following):
        assert b"multipart/x-mixed-replace" in head
        for _ in range(3):
            assert following()[:3] == b"\xff\xd8\xff"
        assert rig.desk.after.watched
    deadline = time.monotonic() + 10
    with Feeder(after.send):
        while rig.desk.after.watched:
            assert time.monotonic() < deadline


def test_the_real_face_is_shown_on_the_page_only_once_it_was_asked_for(rig):
    path = "/picture/before.mjpg"
    assert rig.ask("GET", path, headers={"Cookie": rig.cookie})[0] == 403
    assert rig.send("POST", "/api/before", {"on": True}) == (200, {"on": True})
    with Feeder(rig.control.captured), watching(rig, path) as (_, following):
        assert following()[:3] == b"\xff\xd8\xff"
        rig.desk.show_before = False
        assert [following() for _ in range(5)][-1] is None
    assert rig.ask("GET", path, headers={"Cookie": rig.cookie})[0] == 403


def test_more_watchers_than_there_is_room_for_are_told_so(rig):
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(watching(rig, "/picture/after.mjpg"))
        status, _, said = rig.ask("GET", "/picture/after.mjpg", headers={"Cookie": rig.cookie})
        assert status == 503
        assert "Too many" in json.loads(said)["error"]


def test_a_photo_is_dropped_chosen_and_taken_away(rig):
    status, face = rig.drop("..%2F..%2Fme%20(1).jpg", HOPPER.read_bytes())
    assert (status, face["name"], face["own"]) == (201, "me (1)", True)
    status, headers, jpeg = rig.ask("GET", face["thumbnail"], headers={"Cookie": rig.cookie})
    assert (status, headers["Content-Type"], jpeg[:3]) == (200, "image/jpeg", b"\xff\xd8\xff")
    status, settings = rig.send("PATCH", "/api/settings", {"face": face["id"]})
    assert (status, settings["face"]) == (200, face["id"])
    assert rig.made[-1][2][0].points.shape == (468, 3)
    assert rig.ask("DELETE", f"/api/faces/{face['id']}", None, rig.manners())[0] == 200
    assert rig.get("/api/state")["faces"] == []
    assert rig.send("DELETE", f"/api/faces/{face['id']}", b"")[0] == 422


@pytest.mark.parametrize(
    "data", [b"", b"no photo", b"\x89PNG\r\n\x1a\n" + b"\0" * 50, b"GIF89a" + b"\xff" * 99]
)
def test_a_bad_photo_is_refused_with_its_reason_and_the_old_face_stays(rig, data):
    """Case 29."""
    status, said = rig.drop("holiday.jpg", data)
    assert status == 422
    assert "holiday.jpg" in said["error"] or not data
    assert "/tmp" not in said["error"]
    assert rig.pipeline.swapper is rig.swapper
    assert rig.get("/api/state")["faces"] == []


def test_what_fails_inside_says_nothing_of_the_inside(rig, monkeypatch):
    def fail():
        raise RuntimeError("secret path /home/me")

    monkeypatch.setattr(rig.desk, "state", fail)
    status, _, said = rig.ask("GET", "/api/state", headers={"Cookie": rig.cookie})
    assert status == 500
    assert b"secret" not in said


# -- other machines -------------------------------------------------------------------------------------------


@pytest.fixture
def wide():
    with Rig({"DOPPELCAM_CONTROL_PASSWORD": PASSWORD}, control_host="0.0.0.0") as rig:
        yield rig


def login(rig, password, origin=None, **more):
    headers = {
        "Origin": origin or f"http://127.0.0.1:{rig.port}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    return rig.ask("POST", "/login", f"password={password}".encode(), headers | more)


def test_the_password_lets_in_and_a_wrong_one_does_not(wide):
    status, _, body = wide.ask("GET", "/")
    assert status == 200
    assert b"password" in body
    assert b"Veil" not in body
    assert login(wide, "wrong")[0] == 403
    status, headers, _ = login(wide, "correct+horse")
    assert status == 303
    wide.cookie = headers["Set-Cookie"].partition(";")[0]
    assert wide.get("/api/state")["state"] == "live"


def test_another_site_cannot_log_in_here(wide):
    assert login(wide, "correct+horse", "http://evil.example")[0] == 403
    assert login(wide, "correct+horse", **{"Sec-Fetch-Site": "cross-site"})[0] == 403


def test_guessing_is_slowed_down(wide):
    assert [login(wide, f"guess{n}")[0] for n in range(5)] == [403, 403, 403, 429, 429]
    assert login(wide, "correct+horse")[0] == 429


def test_without_a_password_there_is_no_way_in_by_one(rig):
    assert login(rig, "")[0] == 403
    assert rig.ask("GET", "/")[0] == 401
