"""Models, listed and shown in the shape of whoever asks."""

from __future__ import annotations

import pytest
from anthropic.types import ModelInfo
from msgspec.structs import replace
from openai.types import Model

from dragoman.config.settings import RouteConfig, RouteRule, Settings
from dragoman.routing.route import RuleCondition
from tests.gateway.harness import CHAT, MESSAGES, PROVIDER_KEY, Received, Reply, running, settings_for, whole
from tests.gateway.says import failure_of, log_lines, with_provider
from tests.sdk.digging import dig_objects

# Who asks how, and whose shape is expected (mapping.md §23).
CALLERS: dict[str, tuple[str, dict[str, str], str]] = {
    "nobody in particular": ("/v1/models", {}, CHAT),
    "a bearer": ("/v1/models", {"authorization": "Bearer some-key-1"}, CHAT),
    "a version": ("/v1/models", {"anthropic_version": "2023-06-01"}, MESSAGES),
    "a version and a bearer": (
        "/v1/models",
        {"anthropic_version": "2023-06-01", "authorization": "Bearer some-key-1"},
        MESSAGES,
    ),
    "an api key": ("/v1/models", {"x_api_key": "some-key-1"}, MESSAGES),
    "both keys": ("/v1/models", {"x_api_key": "some-key-1", "authorization": "Bearer some-key-1"}, CHAT),
    "the prefix of Anthropic": ("/anthropic/v1/models", {}, MESSAGES),
    "the prefix of OpenAI": ("/openai/v1/models", {"anthropic_version": "2023-06-01"}, CHAT),
    "a page of a list": ("/v1/models?limit=1000&after_id=x", {"anthropic_version": "2023-06-01"}, MESSAGES),
}


@pytest.mark.parametrize("caller", CALLERS)
def test_pitfall_209_the_list_has_the_shape_that_the_caller_expects(caller: str) -> None:
    path, headers, shape = CALLERS[caller]
    with running() as house:
        told = house.get(path, **headers)
    assert told.status == 200
    body, models = told.json(), dig_objects(told.json(), "data")
    names = [model["id"] for model in models]
    assert {"messages/served", "chat/served", "all/served", "echo/text"} <= set(names)
    assert len(set(names)) == len(names)
    if shape == MESSAGES:
        assert set(body) == {"data", "has_more", "first_id", "last_id"}
        assert (body["has_more"], body["first_id"], body["last_id"]) == (False, names[0], names[-1])
        assert all(set(model) >= {"type", "id", "display_name", "created_at"} for model in models)
        assert all(model["type"] == "model" for model in models)
        assert told.header("request-id")
    else:
        assert (set(body), body["object"]) == ({"object", "data"}, "list")
        assert all(set(model) == {"id", "object", "created", "owned_by"} for model in models)
        assert all(isinstance(model["created"], int) for model in models)
        assert told.header("x-request-id")


@pytest.mark.parametrize("caller", CALLERS)
def test_pitfall_209_and_so_has_a_single_model(caller: str) -> None:
    path, headers, shape = CALLERS[caller]
    path = path.partition("?")[0]
    with running() as house:
        for name in ("echo/text", "echo%2Ftext", "claude-sonnet-9", "chat/anything/at-all"):
            told = house.get(f"{path}/{name}", **headers)
            assert told.status == 200, told.body
            assert told.json()["id"] == name.replace("%2F", "/")
            assert ("display_name" in told.json()) == (shape == MESSAGES)


@pytest.mark.parametrize("caller", CALLERS)
def test_an_unknown_model_is_a_404_with_the_nearest_names(caller: str) -> None:
    path, headers, shape = CALLERS[caller]
    with running() as house:
        told = house.get(f"{path.partition('?')[0]}/ehco/text", **headers)
        error = failure_of(shape, told)
        assert (told.status, "echo/text" in str(error["message"])) == (404, True)
        assert error["type"] == ("not_found_error" if shape == MESSAGES else "invalid_request_error")
        assert house.get(f"{path.partition('?')[0]}/echo/no-such-model", **headers).status == 404


def test_a_list_can_be_asked_for_without_its_body() -> None:
    with running() as house:
        told = house.ask("HEAD", "/v1/models", b"")
        assert (told.status, told.body) == (200, b"")


def test_names_of_the_configuration_come_first() -> None:
    def settings(port: int) -> Settings:
        routes = (
            RouteConfig(pattern="fast", targets=("chat/served",)),
            RouteConfig(pattern="x-*", targets=("chat/*",)),
        )
        return replace(settings_for(port), routes=routes)

    with running((), settings) as house:
        names = [model["id"] for model in dig_objects(house.get("/v1/models").json(), "data")]
    assert names[0] == "fast"
    assert not any("*" in str(name) for name in names)


def test_a_name_with_several_targets_is_a_model_if_one_of_them_may_have_it() -> None:
    def settings(port: int) -> Settings:
        routes = (
            RouteConfig(pattern="both", targets=("echo/no-such-model", "chat/served")),
            RouteConfig(pattern="turns", targets=("echo/text", "chat/served"), policy="round-robin"),
            RouteConfig(pattern="none", targets=("echo/no-such-model", "echo/nor-this")),
        )
        return replace(settings_for(port), routes=routes)

    with running((), settings) as house:
        assert [house.get(f"/v1/models/{name}").status for name in ("both", "turns", "none")] == [200, 200, 404]
        names = [model["id"] for model in dig_objects(house.get("/v1/models").json(), "data")]
    assert names[:3] == ["both", "turns", "none"]


def listing(received: Received) -> Reply:
    """A provider that lists its models in its own shape."""
    assert received.method == "GET"
    if received.target == "/v1/models?limit=1000":
        assert received.header("x-api-key") == PROVIDER_KEY
        assert received.header("anthropic-version")
        return whole({"data": [{"type": "model", "id": "claude-x"}], "has_more": False})
    assert received.target == "/v1/models"
    assert received.header("authorization") == f"Bearer {PROVIDER_KEY}"
    return whole({"object": "list", "data": [{"id": "gpt-x"}, {"id": ""}, {"odd": 1}, 5]})


def test_a_provider_without_configured_models_is_asked_once_in_a_while() -> None:
    with running(listing, with_provider(models=None)) as house:
        for _ in range(3):
            names = {model["id"] for model in dig_objects(house.get("/v1/models").json(), "data")}
            assert {"messages/claude-x", "chat/gpt-x", "responses/gpt-x", "all/claude-x"} <= names
        assert len(house.provider.received) == 4


BROKEN: dict[str, Reply] = {
    "an error": whole({"error": {"message": f"bad key {PROVIDER_KEY}"}}, 401),
    "a page": whole(b"<html>", content_type="text/html"),
    "another shape": whole({"models": []}),
    "a closed connection": Reply(raw=True, steps=(None,)),
    "a redirect": whole(b"", 302, location="http://127.0.0.1:1/"),
}


@pytest.mark.parametrize("shape", BROKEN)
def test_a_provider_that_cannot_list_does_not_spoil_the_list(shape: str) -> None:
    with running(lambda received: BROKEN[shape], with_provider(models=None)) as house:
        told = house.get("/v1/models")
        assert told.status == 200
        assert "echo/text" in {model["id"] for model in dig_objects(told.json(), "data")}
        if shape != "another shape":
            assert log_lines(house, "cannot list models of provider")
        assert PROVIDER_KEY not in house.log.getvalue()


def test_a_list_without_end_is_told_by_its_beginning() -> None:
    def endless(received: Received) -> Reply:
        ids = [{"id": f"m{count}"} for count in range(6_000)]
        return whole({"object": "list", "data": [{"id": "x" * 1000}, *ids]})

    with running(endless, with_provider(models=None)) as house:
        names = [str(model["id"]) for model in dig_objects(house.get("/v1/models").json(), "data")]
        assert len([name for name in names if name.startswith("chat/m")]) == 5000
        assert max(map(len, names)) < 300


# What providers say of one model, each in the form of its protocol.
CLAUDE: dict[str, object] = {
    "type": "model",
    "id": "claude-x",
    "display_name": "Claude X",
    "created_at": "2023-11-14T22:13:20Z",
    "lifecycle": "active",
    "line": "opus",
    "max_input_tokens": 200_000,
    "max_tokens": 64_000,
    "capabilities": {"batch": {"supported": True}},
}
GPT: dict[str, object] = {
    "id": "gpt-x",
    "object": "model",
    "created": 1_700_000_000,
    "owned_by": "them",
    "context_length": 131_072,
    "top_provider": {"max_completion_tokens": 16_384},
    "root": "/data/gpt-x",
}


def telling(received: Received) -> Reply:
    """A provider that says much of its models."""
    return whole({"data": [CLAUDE if "limit" in received.target else GPT]})


def told_of(name: str, *, messages: bool = False, by_list: bool = True) -> dict[str, object]:
    """What a caller is told of a model whose provider says much of it."""

    def lines(settings: Settings) -> Settings:
        return replace(
            settings,
            routes=(
                RouteConfig(pattern="mine", targets=("messages/claude-x",)),
                RouteConfig(pattern="both", targets=("messages/claude-x", "chat/gpt-x")),
                RouteConfig(pattern="half", targets=("chat/nobody-knows", "messages/claude-x")),
                RouteConfig(
                    pattern="ruled",
                    targets=("messages/claude-x",),
                    rules=(RouteRule(when=RuleCondition(images=True), targets=("chat/gpt-x",)),),
                ),
            ),
        )

    path = "/anthropic/v1/models" if messages else "/v1/models"
    with running(telling, with_provider(lines, models=None)) as house:
        if not by_list:
            return dict(house.get(f"{path}/{name}").json())
        models = dig_objects(house.get(path).json(), "data")
    (model,) = [model for model in models if model["id"] == name]
    return dict(model)


WAYS = pytest.mark.parametrize("by_list", [True, False], ids=["in the list", "alone"])


@WAYS
def test_what_a_provider_said_is_told_to_those_of_its_own_protocol_as_it_said_it(by_list: bool) -> None:
    told = told_of("messages/claude-x", by_list=by_list, messages=True)
    # Another provider has one of the same title.
    title = "Claude X (messages/claude-x)" if by_list else "Claude X"
    assert told == {**CLAUDE, "id": "messages/claude-x", "display_name": title}
    told = told_of("chat/gpt-x", by_list=by_list)
    assert told == {**{name: value for name, value in GPT.items() if name != "root"}, "id": "chat/gpt-x"}


@WAYS
def test_to_others_it_is_told_by_the_members_that_their_protocol_has(by_list: bool) -> None:
    told = told_of("chat/gpt-x", by_list=by_list, messages=True)
    assert told == {
        "type": "model",
        "id": "chat/gpt-x",
        "display_name": "chat/gpt-x",
        "created_at": "2023-11-14T22:13:20Z",
        "lifecycle": "active",
        "max_input_tokens": 131_072,
        "max_tokens": 16_384,
    }
    told = told_of("messages/claude-x", by_list=by_list)
    assert told == {
        "id": "messages/claude-x",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "messages",
    }


@WAYS
@pytest.mark.parametrize(
    ("name", "window", "cap"),
    [("mine", 200_000, 64_000), ("both", 131_072, 16_384), ("half", 200_000, 64_000), ("ruled", 131_072, 16_384)],
)
def test_a_name_takes_and_says_the_least_of_its_targets(name: str, window: int, cap: int, by_list: bool) -> None:
    told = told_of(name, by_list=by_list, messages=True)
    assert (told["max_input_tokens"], told["max_tokens"], told["display_name"]) == (window, cap, name)
    assert ("capabilities" in told) == (name == "mine")


def test_the_official_sdks_read_what_is_told() -> None:
    found = ModelInfo.model_validate(told_of("both", messages=True))
    assert (found.max_input_tokens, found.max_tokens) == (131_072, 16_384)
    model = Model.model_validate(told_of("responses/gpt-x"))
    assert (model.created, model.owned_by) == (1_700_000_000, "them")


def test_a_provider_is_asked_for_its_list_when_one_of_its_models_is_asked_for() -> None:
    with running(telling, with_provider(models=None)) as house:
        house.get("/v1/models/chat/gpt-x")
        house.get("/v1/models/chat/another")
        assert [received.target for received in house.provider.received] == ["/v1/models"]
