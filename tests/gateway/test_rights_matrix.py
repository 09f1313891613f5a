"""Rights matrix: every role, at every endpoint, with each list of a key, for reading and for writing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product

import pytest
from msgspec.structs import replace

from dragoman.gateway.admin.endpoints import ENDPOINTS
from dragoman.gateway.admin.framework import PREFIX
from dragoman.gateway.paths import EndpointKind, api_path_of
from dragoman.identities.identity import ADMIN, CLIENT, ROLES, VIEWER, Rights
from tests.gateway.harness import MESSAGES
from tests.gateway.limited import KEY, limited_house, send
from tests.gateway.says import question

# What is sent to each endpoint: it names the model `fast`, whose targets are at the providers `messages` and `chat`.
REQUESTS: tuple[tuple[str, str], ...] = (
    ("POST", "/v1/messages"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/responses/input_tokens"),
    ("POST", "/v1/responses/compact"),
    ("GET", "/v1/responses/resp_1"),
    ("DELETE", "/v1/responses/resp_1"),
    ("POST", "/v1/responses/resp_1/cancel"),
    ("POST", "/v1/conversations"),
    ("GET", "/v1/conversations/conv_1"),
    ("DELETE", "/v1/conversations/conv_1"),
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/fast"),
    ("GET", "/model-names"),
    ("POST", "/route?model=fast"),
    ("POST", "/route?model=fast&check=1"),
    ("POST", "/route?model=fast&key=other"),
    ("GET", "/launches/x"),
    ("GET", "/metrics"),
    ("GET", "/status"),
    ("POST", "/status"),
    ("GET", "/nowhere"),
)
FIELDS: Mapping[str, Rights] = {
    "nothing": Rights(),
    "models": Rights(models=("slow",)),
    "providers": Rights(providers=("echo",)),
    "paths": Rights(paths=("files",)),
}
CALLERS, READERS = {CLIENT, ADMIN}, {VIEWER, ADMIN}
# Kinds of endpoints that call models, and who may use each request.
_CALLING = {
    EndpointKind.CONVERSATION,
    EndpointKind.COUNT,
    EndpointKind.COMPACT,
    EndpointKind.STORED,
    EndpointKind.CONVERSATIONS,
    EndpointKind.OTHER,
}
# Kinds that name the model; the lists of models and providers are about these.
_NAMING = {
    EndpointKind.CONVERSATION,
    EndpointKind.COUNT,
    EndpointKind.COMPACT,
    EndpointKind.OTHER,
    EndpointKind.MODEL,
    EndpointKind.ROUTE,
}
# Kinds that no list of paths is about.
_WITHOUT_PATHS = {EndpointKind.LAUNCH, EndpointKind.METRICS, EndpointKind.STATUS, EndpointKind.NOWHERE}


def _roles_of(method: str, path: str, kind: EndpointKind) -> set[str]:
    if kind in _CALLING:
        return CALLERS
    if (kind is EndpointKind.STATUS and method == "POST") or "check=1" in path:
        return {ADMIN}
    return READERS if kind in (EndpointKind.METRICS, EndpointKind.STATUS) or "key=" in path else {*ROLES}


def _is_refused(role: str, field: str, method: str, path: str) -> bool:
    kind = api_path_of(path.partition("?")[0]).kind
    if role not in _roles_of(method, path, kind):
        return True
    if field in ("models", "providers"):
        # A viewer uses no model, and lists show it all; `key=other` explains the requests of a key without limits.
        is_seen = (role == VIEWER and kind in (EndpointKind.MODEL, EndpointKind.ROUTE)) or "key=" in path
        return kind in _NAMING and not is_seen
    return field == "paths" and kind not in _WITHOUT_PATHS


@pytest.mark.parametrize(("role", "field"), [*product(ROLES, FIELDS)])
def test_each_request_is_refused_or_not_as_the_decision_says(role: str, field: str) -> None:
    with limited_house(replace(FIELDS[field], role=role)) as house:
        for method, path in REQUESTS:
            body = {**question(MESSAGES, MESSAGES), "model": "fast", "input": "x", "reset": "chat/x"}
            if "/status" in path:
                body = {"reset": "chat/x"}
            before = len(house.provider.received)
            status, message = send(house, method, path, body if method == "POST" else None)
            assert (status == 403) is _is_refused(role, field, method, path), (method, path, status, message)
            assert status != 403 or len(house.provider.received) == before, (method, path)


@pytest.mark.parametrize("role", ROLES)
def test_each_endpoint_of_the_admin_api_is_for_its_role_and_those_above(role: str) -> None:
    ranks = [CLIENT, VIEWER, ADMIN]
    with limited_house(Rights(role=role)) as house:
        for endpoint in ENDPOINTS:
            if endpoint.result is None:
                # A stream without an end; its role is compared in the same place.
                continue
            path = PREFIX + endpoint.path.replace("{id}", "x").replace("{name}", "nobody")
            answer = house.ask(endpoint.method, path, b"{" if endpoint.body else b"", authorization=f"Bearer {KEY}")
            is_refused = ranks.index(role) < ranks.index(endpoint.role)
            assert (answer.status == 403) is is_refused, (endpoint.method, path, answer.body)


@pytest.mark.parametrize("role", ROLES)
def test_what_a_key_may_is_told_to_itself(role: str) -> None:
    rights = Rights(role=role, models=("fast",), providers=("chat",), paths=("chat", "models"), strict=True)
    with limited_house(rights) as house:
        shown = json.loads(house.get(f"{PREFIX}/me", authorization=f"Bearer {KEY}").body)
        assert {name: shown[name] for name in ("role", "models", "providers", "paths", "strict")} == {
            "role": role,
            "models": ["fast"],
            "providers": ["chat"],
            "paths": ["chat", "models"],
            "strict": True,
        }
