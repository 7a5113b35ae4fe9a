"""The HTTP API: every route once, with what it takes and gives; the server and the OpenAPI document read this table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from engines.errors import DoppelcamError, UsageError
from realtime.control.desk import Desk, person_of
from realtime.control.gallery import LARGEST_UPLOAD
from realtime.control.schemas import BEFORE, ERROR, FACE, SETTINGS, STATE, SWITCH, VEIL, Schema

T = TypeVar("T")

PATIENCE_S: Final = 20.0
"""How long an answer waits for a change that is being prepared; after that it says that it goes on."""
LARGEST_JSON: Final = 64 * 1024
"""Bytes of a body that is not a photo."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request, from somebody who may make it.

    Attributes:
        desk: What it is about.
        names: What stands in the places of the path.
        query: Behind the question mark, each name once.
        body: What was sent.
    """

    desk: Desk
    names: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said to it.

    Attributes:
        status: Of HTTP.
        body: A JSON document, or bytes.
        kind: Content type of bytes.
    """

    status: int
    body: Any
    kind: str = "application/json"

    def encoded(self) -> bytes:
        """The body as it is sent."""
        return (
            self.body if isinstance(self.body, bytes) else json.dumps(self.body, ensure_ascii=False).encode()
        )


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that can be asked for.

    Attributes:
        method: GET, POST, PATCH or DELETE.
        path: With the names of its places in braces.
        summary: One line.
        answer: Does it.
        gives: Schemas of what is answered, by status; None for bytes of ``kind``.
        takes: Schema of a JSON body; None for none.
        uploads: Whether the body is a photo.
        query: What may stand behind the question mark, and what that is.
        kind: Content type of what is answered.
    """

    method: str
    path: str
    summary: str
    answer: Callable[[Call], Answer]
    gives: Mapping[int, Schema | None]
    takes: Schema | None = None
    uploads: bool = False
    query: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"

    @property
    def changes(self) -> bool:
        """Whether it changes anything, so that another site must not be able to ask for it."""
        return self.method != "GET"

    @property
    def largest(self) -> int:
        """Bytes of a body at most."""
        return LARGEST_UPLOAD if self.uploads else LARGEST_JSON

    def match(self, path: str) -> Mapping[str, str] | None:
        """What stands in the places of a path; None if it is another one."""
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[A-Za-z0-9_-]{1,64})", re.escape(self.path))
        found = re.fullmatch(pattern, path)
        return None if found is None else found.groupdict()


def refusal(error: Exception, status: int | None = None) -> Answer:
    """An error as an answer: what is wrong, and what mends it."""
    if not isinstance(error, DoppelcamError):
        # What went wrong inside is in the log, and nobody else's business.
        error = DoppelcamError("This failed inside of doppelcam.", "See its log.")
        status = 500
    usage = isinstance(error, UsageError)
    return Answer(status or (422 if usage else 409), {"error": error.what, "fix": error.fix})


def waited(future: Future[T], done: Callable[[T], Answer]) -> Answer:
    """The answer once a change is made, or that it goes on."""
    try:
        return done(future.result(PATIENCE_S))
    except NotYet:
        return Answer(202, {"pending": True})


def json_body(call: Call) -> dict[str, Any]:
    """The JSON object in a body.

    Raises:
        UsageError: There is none.
    """
    try:
        value = json.loads(call.body)
    except (ValueError, RecursionError):
        raise UsageError("The body is not JSON.", "Send an object, for example {}.") from None
    if not isinstance(value, dict):
        raise UsageError("The body is no JSON object.", "Send an object, for example {}.")
    return value


def _flag(call: Call, name: str) -> bool:
    body = json_body(call)
    if set(body) != {name} or not isinstance(body[name], bool):
        raise UsageError(f'The body must be {{"{name}": true}} or {{"{name}": false}}.')
    return bool(body[name])


def _state(call: Call) -> Answer:
    return Answer(200, call.desk.state())


def _settings(call: Call) -> Answer:
    return waited(call.desk.change(json_body(call)), lambda _: Answer(200, call.desk.steering.settings()))


def _veil(call: Call) -> Answer:
    call.desk.veil(_flag(call, "on"))
    return Answer(200, {"on": call.desk.veiled})


def _before(call: Call) -> Answer:
    call.desk.show_before = _flag(call, "on")
    return Answer(200, {"on": call.desk.show_before})


def _output(call: Call) -> Answer:
    on = _flag(call, "on")
    if not call.names["id"].isdecimal():
        raise UsageError("There is no such output.")
    call.desk.switch(int(call.names["id"]), on)
    return Answer(200, {"on": on})


def _drop(call: Call) -> Answer:
    if not call.body:
        raise UsageError("There is no photo in the body.")
    return waited(
        call.desk.drop(call.query.get("name", "photo"), call.body), lambda one: Answer(201, person_of(one))
    )


def _forget(call: Call) -> Answer:
    call.desk.forget(call.names["id"])
    return Answer(200, {})


def _thumbnail(call: Call) -> Answer:
    return Answer(200, call.desk.gallery.person(call.names["id"]).thumbnail, "image/jpeg")


def _openapi(call: Call) -> Answer:
    from realtime.control.openapi import document

    return Answer(200, document(ROUTES))


ROUTES: Final = (
    Route("GET", "/api/state", "How the session is doing, and everything that can be changed", _state, {200: STATE}),
    Route("PATCH", "/api/settings", "Changes face, engine and looks; answers once viewers see it",
          _settings, {200: SETTINGS, 202: {"type": "object"}, 409: ERROR, 422: ERROR}, takes=SETTINGS),
    Route("POST", "/api/veil", "Hides everybody from the next frame on, or shows them again",
          _veil, {200: VEIL, 422: ERROR}, takes=VEIL),
    Route("POST", "/api/before", "Lets the page show what the camera sees, or no longer",
          _before, {200: BEFORE, 422: ERROR}, takes=BEFORE),
    Route("PATCH", "/api/outputs/{id}", "Turns an output on or off", _output, {200: SWITCH, 422: ERROR}, takes=SWITCH),
    Route("POST", "/api/faces", "Reads a photo into the gallery; it is kept in memory only",
          _drop, {201: FACE, 202: {"type": "object"}, 409: ERROR, 422: ERROR}, uploads=True,
          query={"name": "what the photo is called"}),
    Route("DELETE", "/api/faces/{id}", "Takes a dropped photo out of the gallery",
          _forget, {200: {"type": "object"}, 422: ERROR}),
    Route("GET", "/api/faces/{id}/thumbnail", "A square around a face",
          _thumbnail, {200: None, 422: ERROR}, kind="image/jpeg"),
    Route("GET", "/openapi.json", "This document", _openapi, {200: {"type": "object"}}),
)  # fmt: skip

PICTURES: Final = {
    "/picture/after.mjpg": "What viewers see, as Motion JPEG",
    "/picture/before.mjpg": "What the camera sees, as Motion JPEG; refused until POST /api/before",
}
"""Pictures that have no end; the server itself sends them."""
