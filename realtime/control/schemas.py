"""JSON Schemas of what the API takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from realtime.control.steering import STEERABLE, WORDS
from realtime.session import State
from realtime.settings.options import BY_NAME

Schema = Mapping[str, Any]


def _object(properties: Mapping[str, Schema], required: bool = True) -> Schema:
    made: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return made | {"required": list(properties)} if required else made


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
_SHARE: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 1}


def _setting(name: str) -> Schema:
    about = BY_NAME[name].help if name != "face" else "id of a face in the gallery"
    kind: Schema = {"type": "string", "enum": list(WORDS[name])} if name in WORDS else _TEXT
    kind = {"shape": _SHARE, "morph": _SHARE, "smoothing": _SHARE, "label": _FLAG}.get(name, kind)
    if name == "boost":
        kind = {"type": "integer", "enum": [int(word) for word in WORDS[name]]}
    if name == "mask":
        # What was typed at the start may be any of its forms; to be set are these.
        kind = {"type": "string", "examples": list(WORDS[name])}
    return {**kind, "description": about}


SETTINGS: Final = _object({name: _setting(name) for name in STEERABLE}, required=False)
ERROR: Final = _object({"error": _TEXT, "fix": _TEXT})
SWITCH: Final = _object({"on": _FLAG})
VEIL: Final = SWITCH
BEFORE: Final = SWITCH
OFFER: Final = _object({"sdp": _TEXT})
ANSWER: Final = OFFER
FACE: Final = _object({"id": _TEXT, "name": _TEXT, "note": _TEXT, "own": _FLAG, "thumbnail": _TEXT})
_OUTPUT: Final = _object({"id": {"type": "integer"}, "name": _TEXT, "on": _FLAG, "problem": _TEXT})
_COUNT: Final[Schema] = {"type": "integer"}

STATE: Final = _object(
    {
        "schema": {"const": 1},
        "state": {"type": "string", "enum": list(get_args(State))},
        "ready": _FLAG,
        "rung": {"type": "string", "description": "what has given way because frames take too long"},
        "veil": {"type": "boolean", "description": "whether somebody asked for the veil"},
        "before": {"type": "boolean", "description": "whether the page may show what the camera sees"},
        "webrtc": {"type": "boolean", "description": "whether pictures come by WebRTC too"},
        "busy": {"type": "string", "description": "what is being prepared"},
        "source": _object({"name": _TEXT, "size": _list(_COUNT)}),
        "settings": SETTINGS,
        "choices": {"type": "object", "additionalProperties": _list(_TEXT)},
        "faces": _list(FACE),
        "outputs": _list(_OUTPUT),
        "providers": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": _COUNT}},
        "stats": {"type": "object", "description": "as in doppelcam run --json"},
    }
)  # fmt: skip
