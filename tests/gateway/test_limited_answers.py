"""Answers to a limited key: lists, hints, explanations and errors hold no name that it may not use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.gateway.admin.endpoints import ENDPOINTS
from dragoman.gateway.admin.framework import PREFIX
from dragoman.identities.identity import ADMIN, CLIENT, VIEWER, Rights
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    RESPONSES,
    Answer,
    House,
    Received,
    Reply,
    running,
    settings_for,
    whole,
)
from tests.gateway.says import error_body, question
from tests.identities.holders import holder

KEY = "a-limited-key-of-this-gateway"
CANARY = "canary"


def _settings(rights: Rights) -> Callable[[int], Settings]:
    def settings(port: int) -> Settings:
        made = settings_for(port)
        named = replace(made.providers["chat"], name="canary-provider", models=("canary-second", "small"))
        chat = replace(made.providers["chat"], models=("small", "canary-model"))
        return replace(
            made,
            providers={**made.providers, "chat": chat, "canary-provider": named},
            routes=(
                RouteConfig(pattern="fast", targets=("chat/small",)),
                RouteConfig(pattern="mixed", targets=("canary-provider/small", "chat/small")),
                RouteConfig(pattern="canary-route", targets=("chat/small",)),
                RouteConfig(pattern="canary-pattern-*", targets=("chat/*",)),
                RouteConfig(pattern="hidden", targets=("canary-provider/small",)),
            ),
            keys=(
                holder("limited", sha256(KEY.encode()).digest(), rights=rights),
                holder("other", sha256(b"another-key-of-this-gateway").digest()),
            ),
        )

    return settings


RIGHTS = {
    "models": Rights(models=("fast", "chat/small")),
    "patterns": Rights(models=("f*", "chat/s*", "kanary*")),
    "providers": Rights(providers=("chat",)),
    "both": Rights(models=("fast", "mixed"), providers=("chat",)),
    "an admin": Rights(role=ADMIN, models=("fast", "chat/small"), providers=("chat",)),
}
# Names that come close to those that must not be named, and what leads nowhere.
NEAR = ("kanary-route", "kanary-pattern-1", "chat/kanary-model", "kanary-provider/small", "mixt", "fsat", "x", "chat/")


def _refusing(received: Received) -> Reply:
    """A provider that knows no model."""
    protocol = next((each for each, path in PATHS.items() if received.target == path), CHAT)
    return whole(error_body(protocol, "not_found_error", "no such model", "model_not_found"), 404)


def _answers(house: House, *, with_hints: bool = True) -> Iterator[tuple[str, Answer]]:
    def send(method: str, path: str, body: Mapping[str, object] | None = None, **headers: str) -> tuple[str, Answer]:
        data = b"" if body is None else json.dumps(body).encode()
        given = {"authorization": f"Bearer {KEY}", **headers}
        return f"{method} {path} {body} {headers}", house.ask(method, path, data, **given)

    for name in NEAR + (("fast", "chat/small", "mixed") if with_hints else ()):
        for protocol in PROTOCOLS:
            yield send("POST", PATHS[protocol], {**question(protocol, protocol), "model": name})
        more = {"model": name, "messages": [], "input": "x"}
        for path in ("/v1/messages/count_tokens", "/v1/responses/compact", "/v1/embeddings", "/v1/rerank"):
            yield send("POST", path, more)
        yield send("GET", f"/v1/models/{name}")
        yield send("GET", f"/v1/models/{name}", anthropic_version="2023-06-01")
        for query in (f"match={name}", f"name={name}"):
            yield send("GET", f"/model-names?{query}")
            yield send("GET", f"{PREFIX}/models?{query}")
        asked = {**question(CHAT, CHAT), "model": name}
        yield send("POST", f"/route?model={name}", asked)
        yield send("POST", "/route", asked)
        yield send("POST", "/v1/files", {}, x_dragoman_provider=name)
        yield send("POST", "/v1/conversations", {}, x_dragoman_provider=name)
    yield send("GET", "/v1/models")
    yield send("GET", "/v1/models", anthropic_version="2023-06-01")
    yield send("GET", "/v1/models", user_agent="claude-code/1")
    for path in ("/model-names", "/model-names?match=*", "/launches/x", "/nowhere", "/v1/files", "/v1/responses/r"):
        yield send("GET", path)
    yield send("GET", "/", accept="text/html")
    yield send("POST", "/v1/files", {})
    yield send("POST", "/v1/moderations", {"input": "x"})
    yield send("POST", "/v1/conversations", {})


@pytest.mark.parametrize("case", RIGHTS)
def test_no_answer_holds_a_name_that_the_key_may_not_use(case: str) -> None:
    with running(_refusing, _settings(RIGHTS[case])) as house:
        count = 0
        for sent, answer in _answers(house):
            # With a list of providers alone the other names of a permitted provider may be used.
            text = answer.body.decode() + str(answer.headers)
            if case == "providers":
                text = text.replace("canary-model", "").replace("canary-route", "").replace("canary-pattern-", "")
            assert CANARY not in text, (sent, answer)
            count += 1
        assert count > 100


def test_the_same_requests_name_them_to_a_key_without_lists() -> None:
    # Without this, the test above would prove nothing.
    with running(_refusing, _settings(Rights())) as house:
        found = {name for _, answer in _answers(house) for name in NAMED if name in answer.body.decode()}
        assert found == {*NAMED}


NAMED = ("canary-route", "canary-pattern-", "canary-provider/canary-second", "chat/canary-model")


@pytest.mark.parametrize("role", [CLIENT, VIEWER, ADMIN])
def test_the_admin_api_shows_a_client_what_it_may_use(role: str) -> None:
    rights = Rights(role=role, models=("fast",), providers=("chat",))
    with running(_refusing, _settings(rights)) as house:
        for endpoint in ENDPOINTS:
            if endpoint.method != "GET" or endpoint.result is None:
                continue
            path = PREFIX + endpoint.path.replace("{id}", "x").replace("{name}", "limited")
            answer = house.get(path, authorization=f"Bearer {KEY}")
            is_open = role == VIEWER or (role == ADMIN and endpoint.path != "/models")
            assert is_open or CANARY not in answer.body.decode(), (path, answer)
        names = json.loads(house.get(f"{PREFIX}/models", authorization=f"Bearer {KEY}").body)["names"]
        listed = {name["name"] for name in names}
        assert ("canary-route" in listed) is (role == VIEWER)
        assert "fast" in listed


def test_a_key_may_use_a_name_that_a_route_leads_elsewhere_and_sees_where_it_leads() -> None:
    with running(_refusing, _settings(RIGHTS["both"])) as house:
        told = house.post("/route?model=mixed", question(RESPONSES, CHAT), authorization=f"Bearer {KEY}").json()
        assert [each["target"] for each in told["candidates"]] == ["chat/small"]  # type: ignore[index,call-overload,union-attr]  # JSON of any kind
        assert house.post(PATHS[MESSAGES], {**question(MESSAGES, CHAT), "model": "hidden"}).status == 401
