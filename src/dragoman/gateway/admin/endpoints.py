"""Endpoint table of the admin API, the source of dispatch, parsing, `openapi.json` and `docs/admin-api.md`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from msgspec import Raw

from dragoman.gateway.admin.framework import PREFIX, AdminCall, AdminEndpoint, AdminError, Nothing, endpoint
from dragoman.gateway.admin.gateway_state import ModelParameters, ModelsView, StatusView, me, models, status
from dragoman.gateway.admin.key_endpoints import KEY_ENDPOINTS
from dragoman.gateway.admin.live_events import EVENT_ENDPOINTS
from dragoman.gateway.admin.openapi import OpenApiDocument, openapi_document
from dragoman.gateway.admin.record_endpoints import RECORD_ENDPOINTS
from dragoman.identities.identity import CLIENT, VIEWER
from dragoman.identities.views import PermissionsView
from dragoman.wire.json import encode


async def openapi(call: AdminCall, _: Nothing) -> Raw:
    return _openapi()


ENDPOINTS: tuple[AdminEndpoint, ...] = (
    endpoint("GET", "/openapi.json", CLIENT, "this API as an OpenAPI document", openapi, Nothing, OpenApiDocument),
    endpoint("GET", "/me", CLIENT, "permissions of the calling key", me, Nothing, PermissionsView),
    endpoint("GET", "/models", CLIENT, "names of models that the key may use", models, ModelParameters, ModelsView),
    endpoint("GET", "/status", VIEWER, "health of providers and targets", status, Nothing, StatusView),
    *RECORD_ENDPOINTS,
    *EVENT_ENDPOINTS,
    *KEY_ENDPOINTS,
)


@cache
def _openapi() -> Raw:
    return Raw(encode(openapi_document(ENDPOINTS)))


def find_endpoint(method: str, path: str) -> tuple[AdminEndpoint, Mapping[str, str]]:
    """The endpoint of a request, and the values of its path parameters. Paths are compared as sent, without
    decoding."""
    segments = path.removeprefix(PREFIX).split("/") if path.startswith(f"{PREFIX}/") else []
    methods: list[str] = []
    for each in ENDPOINTS:
        values = _values(each.path.split("/"), segments)
        if values is None:
            continue
        if each.method == method:
            return each, values
        methods.append(each.method)
    if methods:
        allowed = ", ".join(methods)
        raise AdminError(405, f"this path takes {allowed}", "use this method", headers=[(b"allow", allowed.encode())])
    raise AdminError(404, "there is nothing at this path", f"{PREFIX}/openapi.json lists what there is")


def _values(pattern: list[str], segments: list[str]) -> Mapping[str, str] | None:
    """The path parameters of a pattern, or None if the path does not match."""
    if len(pattern) != len(segments):
        return None
    values: dict[str, str] = {}
    for part, segment in zip(pattern, segments, strict=True):
        if part.startswith("{") and segment:
            values[part[1:-1]] = segment
        elif part != segment:
            return None
    return values
