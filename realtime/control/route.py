"""What a route of the HTTP API is: what it takes, what it gives, and what answers it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from realtime.control.desk import Desk
from realtime.control.gallery import LARGEST_UPLOAD
from realtime.control.schemas import Schema

LARGEST_JSON: Final = 64 * 1024
"""Bytes of a body that is not a photo."""
PICTURES: Final = {
    "/picture/after.mjpg": "What viewers see, as Motion JPEG",
    "/picture/before.mjpg": "What the camera sees, as Motion JPEG; refused until POST /api/before",
}
"""Pictures that have no end; the server itself sends them."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request, from somebody who may make it.

    Attributes:
        desk: What it is about.
        names: What stands in the places of the path.
        query: Behind the question mark, each name once.
        body: What was sent.
        address: Of this machine, by which it was reached.
    """

    desk: Desk
    names: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    address: str


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
