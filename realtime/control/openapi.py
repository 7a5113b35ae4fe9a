"""The API as an OpenAPI document, from the table that the server itself goes by."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from realtime import __version__
from realtime.control.route import PICTURES, Route
from realtime.control.schemas import ERROR


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """An OpenAPI 3.1 document.

    Args:
        routes: What there is.
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    for path, summary in PICTURES.items():
        mjpeg = {"description": "Pictures without an end", "content": {"multipart/x-mixed-replace": {}}}
        paths[path] = {"get": {"summary": summary, "responses": {"200": mjpeg, **_refusals(change=False)}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "doppelcam control",
            "version": __version__,
            "description": "Programs send the token of the page's address: Authorization: Bearer TOKEN.",
        },
        "paths": paths,
        "security": [{"token": []}, {"cookie": []}],
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "doppelcam"},
            }
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    made: dict[str, Any] = {
        "summary": route.summary,
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_"),
        "responses": {
            **{
                str(status): {
                    "description": HTTPStatus(status).phrase,
                    "content": {"application/json": {"schema": dict(schema)}}
                    if schema is not None
                    else {route.kind: {}},
                }
                for status, schema in route.gives.items()
            },
            **_refusals(route.changes),
        },
    }
    places = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]
    places += [
        {"name": name, "in": "query", "description": about, "schema": {"type": "string"}}
        for name, about in route.query.items()
    ]
    if places:
        made["parameters"] = places
    if route.uploads:
        made["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    elif route.takes is not None:
        made["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": dict(route.takes)}},
        }
    return made


def _refusals(change: bool) -> dict[str, Any]:
    """What anybody may be told who asks in the wrong way."""
    reasons = {"401": "Neither cookie nor token", "403": "Asked for from another page or host"}
    if change:
        reasons |= {"411": "No length", "413": "The body is too large", "415": "The body is of another kind"}
    return {
        status: {"description": reason, "content": {"application/json": {"schema": dict(ERROR)}}}
        for status, reason in reasons.items()
    }
