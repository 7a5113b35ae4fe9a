"""The HTTP API: every route once, with what it takes and gives; the server and the OpenAPI document read this table."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any, Final, TypeVar

from engines.errors import DoppelcamError, UsageError
from realtime.control.desk import Hidden, NoWebRtc, person_of
from realtime.control.route import Answer, Call, Route
from realtime.control.schemas import ANSWER, BEFORE, ERROR, FACE, OFFER, SETTINGS, STATE, SWITCH, VEIL
from realtime.control.webrtc import TooManyPeers

T = TypeVar("T")

PATIENCE_S: Final = 20.0
"""How long an answer waits for a change that is being prepared; after that it says that it goes on."""


_STATUS: Final = {Hidden: 403, NoWebRtc: 501, TooManyPeers: 503}


def refusal(error: Exception, status: int | None = None) -> Answer:
    """An error as an answer: what is wrong, and what mends it."""
    if isinstance(error, CancelledError):
        error = DoppelcamError("The session ended.")
    elif not isinstance(error, DoppelcamError):
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


def _watch(call: Call) -> Answer:
    body = json_body(call)
    if set(body) != {"sdp"}:
        raise UsageError('The body must be {"sdp": "…"}.')
    if call.names["id"] not in ("after", "before"):
        raise UsageError("There is no such picture.", "There are: after, before.")
    try:
        return Answer(200, {"sdp": call.desk.watch(call.names["id"] == "before", body["sdp"], call.address)})
    except (Hidden, NoWebRtc, TooManyPeers) as error:
        return refusal(error, _STATUS[type(error)])


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
    Route("POST", "/api/pictures/{id}", "Shows a picture, after or before, by WebRTC: answers the offer of one video "
          "that is received only, in VP8; before is refused until POST /api/before",
          _watch, {200: ANSWER, 409: ERROR, 422: ERROR, 501: ERROR, 503: ERROR}, takes=OFFER),
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
