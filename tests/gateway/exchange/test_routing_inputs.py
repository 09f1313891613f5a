"""What must be seen of a request before one of several targets is chosen, and nothing else."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, RouteRule, Settings
from dragoman.gateway.exchange.routing_inputs import (
    conversation_of,
    required_features,
    seen_in,
    storing_providers,
    with_provider_storage,
)
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.stored_responses.exchange_storage import parse_request
from dragoman.gateway.thread_offload import INLINE
from dragoman.http.upstream_call import HeaderList
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Seal
from dragoman.prices.book import Override
from dragoman.routing.needs import RequiredFeatures
from dragoman.routing.route import Route, RuleCondition
from dragoman.rules.seals import to_envelope
from tests.gateway.harness import CHAT, MESSAGES, PATHS, RESPONSES, House, running, settings_for, whole
from tests.gateway.says import tells

LINES = (
    RouteConfig(pattern="two", targets=("chat/m", "messages/m")),
    RouteConfig(pattern="turns", targets=("chat/m", "messages/m"), policy="round-robin", sticky=False),
    RouteConfig(pattern="fast", targets=("chat/m", "messages/m"), policy="fastest"),
    RouteConfig(pattern="cheap", targets=("chat/m", "messages/m"), policy="cheapest"),
    RouteConfig(pattern="kept", targets=("chat/m", "responses/m", "echo/text", "all/m")),
    RouteConfig(pattern="alike", targets=("chat/m", "chat/n")),
    RouteConfig(pattern="faithful", targets=("messages/m", "chat/m"), policy="least-loss"),
)
API_PATH = api_path_of(PATHS[CHAT])


def _lined(settings: Settings) -> Settings:
    return replace(settings, routes=(*settings.routes, *LINES))


def _route(house: House, name: str) -> Route:
    return house.app.runtime.routes.route(name, CHAT, ALL_RIGHTS)


def _wants(house: House, name: str, body: bytes, *, pinned: bool = False, protocol: str = CHAT) -> RequiredFeatures:
    asked = ClientRequest(api_path_of(PATHS[protocol]), [], {})
    return required_features(body, asked, _route(house, name), has_affinities=pinned)


def _body(**more: object) -> bytes:
    asked = {"model": "two", "messages": [{"role": "user", "content": "Hello."}], **more}
    return json.dumps(asked).encode()


@pytest.mark.parametrize(
    ("name", "wants"),
    [
        ("two", RequiredFeatures()),
        ("turns", RequiredFeatures()),
        ("fast", RequiredFeatures(conversation_start=True)),
        ("cheap", RequiredFeatures(request_features=True, conversation_start=True)),
        ("faithful", RequiredFeatures(conversation_start=True, losses=True)),
    ],
)
def test_a_line_asks_for_what_its_policy_needs(name: str, wants: RequiredFeatures) -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        found = _wants(house, name, _body())
        # Prices decide ties, too.
        assert found == (replace(wants, request_features=True) if name == "faithful" else wants)


def test_where_conversations_were_moved_each_is_looked_for() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        large = _body(user="x" * INLINE)
        assert _wants(house, "two", _body(), pinned=True).conversation_start
        assert _wants(house, "two", large).conversation_start
        assert not _wants(house, "turns", large, pinned=True).conversation_start


def test_pitfall_357_where_keys_take_turns_each_conversation_is_looked_for() -> None:
    keys = ("sk-1-0123456789abcdef", "sk-2-0123456789abcdef")
    with running((), lambda port: _lined(settings_for(port, provider_keys=keys))) as house:
        assert _wants(house, "two", _body()) == RequiredFeatures(conversation_start=True)
        assert _wants(house, "turns", _body()) == RequiredFeatures()


def test_losses_are_counted_for_each_target() -> None:
    body = _body(seed=7, logit_bias={"1": 2})
    with running((), lambda port: _lined(settings_for(port))) as house:
        route = _route(house, "faithful")
        asked = ClientRequest(API_PATH, [], {})
        seen = seen_in(body, asked, parse_request(body, API_PATH), route, RequiredFeatures(losses=True))
        assert seen.losses["chat/m"].all == 0 < seen.losses["messages/m"].changes
        assert not seen.refused


def test_what_some_provider_keeps_is_seen() -> None:
    part = {"type": "file", "file": {"file_id": "file-1"}}
    kept = _body(messages=[{"role": "user", "content": [part]}])
    schema = {"type": "object", "properties": {"file_id": {"type": "string"}, "container": {"type": "string"}}}
    declared = _body(tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}])
    with running((), lambda port: _lined(settings_for(port))) as house:
        assert not _wants(house, "two", _body()).request_features
        for body, alone in ((kept, True), (declared, False)):
            route, asked = _route(house, "two"), ClientRequest(API_PATH, [], {})
            wants = _wants(house, "two", body)
            assert wants.request_features
            assert seen_in(body, asked, parse_request(body, API_PATH), route, wants).alone is alone


@pytest.mark.parametrize(
    ("protocol", "members"),
    [
        (CHAT, ["file_id"]),
        (MESSAGES, ["file_id", "container"]),
        (RESPONSES, ["file_id", "container", "vector_store_ids"]),
    ],
)
def test_each_protocol_has_members_of_its_own_for_what_is_kept(protocol: str, members: list[str]) -> None:
    every = ["file_id", "container", "vector_store_ids"]
    with running((), lambda port: _lined(settings_for(port))) as house:
        found = [
            name for name in every if _wants(house, "two", _body(**{name: "x"}), protocol=protocol).request_features
        ]
    assert found == members


def test_seals_are_looked_for_only_where_somebody_speaks_another_protocol() -> None:
    body = _body(messages=[{"role": "user", "content": "rsv1.x"}])
    with running((), lambda port: _lined(settings_for(port))) as house:
        asked = ClientRequest(API_PATH, [], {})
        route = house.app.runtime.routes.route
        found = [
            required_features(body, asked, route(name, CHAT, ALL_RIGHTS), has_affinities=False).issuer
            for name in ("two", "alike", "turns")
        ]
        assert found == [True, False, False]


def _sealed(model: str, upstream: str, origin: str = RESPONSES) -> str:
    body: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque" * 300}
    return to_envelope(Seal(origin=origin, kind="item", body=body, model=model, vendor=upstream))


@pytest.mark.parametrize(
    ("seals", "issuer"),
    [
        ([], ""),
        ([_sealed("m", "responses")], "responses/m"),
        ([_sealed("m", "all")], "all/m"),
        # The latest was said by whoever has the conversation now.
        ([_sealed("m", "responses"), _sealed("m", "all")], "all/m"),
        # Another provider of the model may be able to open it; another model, or another protocol, is not.
        ([_sealed("m", "gone")], "responses/m"),
        ([_sealed("n", "responses")], ""),
        ([_sealed("m", "responses", CHAT)], "chat/m"),
        ([_sealed("m", "all"), "rsv1.nothing", "rsv1z.", "rsv1"], "all/m"),
        ([_sealed("m", "all"), *["rsv1.nothing"] * 4], ""),
    ],
)
def test_pitfall_359_who_sealed_the_reasoning_of_a_request_is_seen(seals: list[str], issuer: str) -> None:
    said = [{"role": "assistant", "content": "", "reasoning_details": [{"data": seal}]} for seal in seals]
    body = _body(messages=[{"role": "user", "content": 'a "rsv1.x" b'}, *said])
    with running((), lambda port: _lined(settings_for(port))) as house:
        route = house.app.runtime.routes.route("kept", RESPONSES, ALL_RIGHTS)
        asked = ClientRequest(API_PATH, [], {})
        wants = required_features(body, asked, route, has_affinities=False)
        assert wants.issuer and not _wants(house, "turns", body, pinned=True).issuer
        assert seen_in(body, asked, parse_request(body, API_PATH), route, wants).issuer == issuer


def test_pitfall_359_reasoning_is_taken_to_whoever_sealed_it_and_left_out_elsewhere() -> None:
    lines = (
        RouteConfig(pattern="line", targets=("messages/other", "chat/m", "responses/m")),
        RouteConfig(pattern="others", targets=("messages/other", "messages/another")),
    )
    answers = {
        "/v1/messages": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "other",
            "content": [{"type": "text", "text": "Yes."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        "/v1/responses": {"id": "resp_1", "object": "response", "status": "completed", "output": [], "model": "m"},
    }
    thought = {"type": "thinking", "thinking": "", "signature": _sealed("m", "responses")}
    said = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "Hi."}]},
        {"role": "user", "content": "And?"},
    ]
    with running(
        lambda received: whole(answers[received.target]), lambda port: replace(settings_for(port), routes=lines)
    ) as house:
        told = house.post("/v1/messages", {"model": "line", "max_tokens": 5, "messages": said})
        assert (told.header("x-dragoman-route") or "").startswith("responses/m;")
        told = house.post("/v1/messages", {"model": "line", "max_tokens": 5, "messages": said[2:]})
        assert (told.header("x-dragoman-route") or "").startswith("messages/other;")
        told = house.post("/v1/messages", {"model": "others", "max_tokens": 5, "messages": said})
        assert "thinking_signature" in (told.header("x-dragoman-losses") or "")
        assert b"rsv1" not in house.provider.received[-1].body


def test_a_conversation_is_known_by_its_session_or_its_beginning_and_never_to_others() -> None:
    def known(body: bytes, headers: HeaderList | None = None, line: str = "fast") -> str:
        asked = ClientRequest(API_PATH, headers or [], dict(headers or []))
        with running((), lambda port: _lined(settings_for(port))) as house:
            seen = seen_in(
                body,
                asked,
                parse_request(body, API_PATH),
                _route(house, "fast"),
                RequiredFeatures(conversation_start=True),
            )
        return conversation_of(asked, parse_request(body, API_PATH), seen.conversation_start, line)

    first = _body()
    later = _body(
        messages=[
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "And now?"},
        ]
    )
    assert known(first) == known(later) != ""
    assert known(first) != known(_body(messages=[{"role": "user", "content": "Other."}]))
    session = [(b"x-dragoman-session", b"s")]
    assert known(first, session) == known(_body(messages=[]), session) != known(first)
    # A session may use several lines, each of which has its own place.
    assert known(first, session) != known(first, session, "two")


def test_an_image_is_no_text_that_a_window_must_hold() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBO" * 40_000}}

    def settings(port: int) -> Settings:
        small = Override(context_window=8192)
        return replace(_lined(settings_for(port)), prices={"chat/m": small, "messages/m": small})

    with running(lambda _: tells(CHAT), settings) as house:
        told = house.post(PATHS[CHAT], _body(messages=[{"role": "user", "content": [part]}]))
        assert told.status == 200, told.body
        told = house.post(PATHS[CHAT], _body(messages=[{"role": "user", "content": "word " * 40_000}]))
        assert told.status == 400
        assert b"chat/m: its window is too small; messages/m: its window is too small" in told.body


def test_only_providers_that_keep_anything_may_keep_what_a_request_refers_to() -> None:
    path = api_path_of(PATHS[RESPONSES])
    referring = parse_request(b'{"model":"kept","input":"x","previous_response_id":"resp_1"}', path)
    silent = parse_request(b'{"model":"kept","input":"x"}', path)
    with running((), lambda port: _lined(settings_for(port))) as house:
        routes = house.app.runtime.routes
        kept, two = routes.route("kept", RESPONSES, ALL_RIGHTS), routes.route("two", RESPONSES, ALL_RIGHTS)
        assert storing_providers(kept, referring) == {"responses", "all"}
        assert not storing_providers(two, referring) and not storing_providers(kept, silent)
        assert not storing_providers(kept, parse_request(_body(), API_PATH))
        here = kept.targets[1]
        assert (
            here.stored_here
            and with_provider_storage(here).stores_at_provider
            and with_provider_storage(here).id == here.id
        )


@pytest.mark.parametrize("refers", ["previous_response_id", "conversation"])
def test_what_is_kept_here_is_said_in_full_before_losses_are_weighed(refers: str) -> None:
    call: JsonObject = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message: JsonObject = {"role": "assistant", "content": None, "tool_calls": [call]}
    calls: JsonObject = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    }
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}]
    line = RouteConfig(pattern="line", targets=("chat/m", "chat/n"), policy="least-loss", strict=True)
    with running(
        [whole(calls), tells(CHAT, "It is there.")], lambda port: replace(settings_for(port), routes=(line,))
    ) as house:
        conversation = house.post("/v1/conversations", {}).json()["id"]
        referring = {"conversation": conversation} if refers == "conversation" else {}
        body: dict[str, object] = {"model": "line", "input": "Where is it?", "tools": tools, **referring}
        told = house.post(PATHS[RESPONSES], body)
        assert told.status == 200, told.body
        if refers == "previous_response_id":
            referring = {refers: told.json()["id"]}
        # What it says itself is the result of a call that nobody would know of.
        result = {"type": "function_call_output", "call_id": "call_1", "output": "Here."}
        body = {"model": "line", "input": [result], "tools": tools, **referring}
        explained = house.post("/route?model=line", body).json()
        assert (explained["chosen"], explained["because"]) == ("chat/m", "the conversation is there")
        told = house.post(PATHS[RESPONSES], body)
        assert told.status == 200, told.body
        said = house.provider.received[-1].json()["messages"]
        assert isinstance(said, list)
        assert [each["role"] for each in said if isinstance(each, dict)] == ["user", "assistant", "tool"]


def test_what_runs_here_is_weighed_without_its_wish_to_run_behind_the_scenes() -> None:
    line = RouteConfig(pattern="line", targets=("chat/m", "messages/m"), policy="least-loss")
    with running(lambda _: tells(CHAT), lambda port: replace(settings_for(port), routes=(line,))) as house:
        told = house.post(PATHS[RESPONSES], {"model": "line", "input": "Hello.", "background": True})
        assert (told.status, told.json()["status"]) == (200, "queued"), told.body


def test_who_goes_on_from_nothing_is_told_so_where_losses_are_weighed() -> None:
    body = {"model": "faithful", "input": "x", "previous_response_id": "resp_1"}
    with running((), lambda port: _lined(settings_for(port))) as house:
        for path in (PATHS[RESPONSES], "/route?model=faithful"):
            told = house.post(path, body)
            error = told.json()["error"]
            assert told.status == 400 and isinstance(error, dict)
            assert error["message"] == "Previous response with id `resp_1` not found."
        assert '"requested_model":"faithful"' in house.log.getvalue()
        assert not house.provider.received


def test_what_the_one_provider_keeps_of_which_nothing_is_noted_it_goes_on_from() -> None:
    line = RouteConfig(pattern="line", targets=("chat/m", "responses/m"))

    def settings(port: int) -> Settings:
        found = settings_for(port)
        # One that keeps responses, and no gateway keys.
        providers = {name: provider for name, provider in found.providers.items() if name != "all"}
        return replace(found, providers=providers, routes=(line,))

    with running(lambda _: tells(RESPONSES), settings) as house:
        assert not house.app.runtime.records_ids
        first = house.post(PATHS[RESPONSES], {"model": "responses/m", "input": "Hello."}).json()
        body = {"model": "line", "input": "And?", "previous_response_id": first["id"]}
        assert house.post("/route?model=line", body).json()["chosen"] == "responses/m"
        told = house.post(PATHS[RESPONSES], body)
        assert told.status == 200, told.body
        assert (told.header("x-dragoman-route") or "").startswith("responses/m;")
        assert house.provider.received[-1].json()["previous_response_id"] == first["id"]


@pytest.mark.parametrize("target", ["chat/m", "chat/n"])
def test_a_conversation_that_comes_under_a_rule_on_its_way_stays_under_it(target: str) -> None:
    rule = RouteRule(when=RuleCondition(tools=True), targets=("chat/ruled",), weights=())
    line = RouteConfig(pattern="line", targets=("chat/m", "chat/n"), weights=(1, 1), policy="weighted", rules=(rule,))
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}

    def served(house: House, **more: object) -> str:
        told = house.post(PATHS[CHAT], _body(model="line", **more))
        return (told.header("x-dragoman-route") or "").partition(";")[0]

    with running(lambda _: tells(CHAT), lambda port: replace(settings_for(port), routes=(line,))) as house:
        house.app.runtime.routing_state.rng = lambda: 0.0 if target == "chat/m" else 0.9
        assert [served(house), served(house)] == [target, target]
        assert served(house, tools=[tool]) == "chat/ruled"
        # It crosses a boundary once, and not to and fro.
        assert [served(house), served(house)] == ["chat/ruled", "chat/ruled"]


@pytest.mark.parametrize("by", ["previous_response_id", "conversation"])
def test_what_a_request_goes_on_from_counts_for_rules_of_its_size(by: str) -> None:
    rule = RouteRule(when=RuleCondition(input_tokens_over=2000), targets=("chat/roomy",), weights=())
    line = RouteConfig(pattern="line", targets=("chat/m", "chat/n"), policy="fallback", rules=(rule,))
    with running(lambda _: tells(CHAT), lambda port: replace(settings_for(port), routes=(line,))) as house:

        def asked(words: str, **referring: JsonValue) -> tuple[JsonValue, str, JsonValue]:
            body: JsonObject = {"model": "line", "input": words, **referring}
            explained = house.post("/route?model=line", body).json()["chosen"]
            told = house.post(PATHS[RESPONSES], body)
            assert told.status == 200, told.body
            return explained, (told.header("x-dragoman-route") or "").partition(";")[0], told.json()["id"]

        began = {} if by != "conversation" else {by: house.post("/v1/conversations", {}).json()["id"]}
        *first, response = asked("Hello. " * 900, **began)
        assert first == ["chat/m", "chat/m"]
        # Each is short enough, and both together are not.
        *then, _ = asked("And? " * 900, **(began or {by: response}))
        assert then == ["chat/roomy", "chat/roomy"]


def test_pictures_that_a_request_goes_on_from_are_seen_and_are_no_text() -> None:
    rules = (
        RouteRule(when=RuleCondition(input_tokens_over=2000), targets=("chat/roomy",), weights=()),
        RouteRule(when=RuleCondition(images=True), targets=("chat/sees",), weights=()),
    )
    line = RouteConfig(pattern="line", targets=("chat/m", "chat/n"), policy="fallback", rules=rules)
    picture: JsonObject = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 40_000}
    with running(lambda _: tells(CHAT), lambda port: replace(settings_for(port), routes=(line,))) as house:
        said: JsonObject = {"model": "chat/m", "input": [{"role": "user", "content": [picture]}]}
        first = house.post(PATHS[RESPONSES], said).json()
        told = house.post(PATHS[RESPONSES], {"model": "line", "input": "What?", "previous_response_id": first["id"]})
        assert (told.header("x-dragoman-route") or "").partition(";")[0] == "chat/sees", told.body


def test_a_file_of_an_earlier_turn_does_not_keep_a_request_from_who_can_be_told_it() -> None:
    rule = RouteRule(when=RuleCondition(tools=True), targets=("responses/m",), weights=())
    line = RouteConfig(
        pattern="line", targets=("chat/m", "responses/m"), policy="fallback", sticky=False, rules=(rule,)
    )
    tool: JsonObject = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    picture: JsonObject = {"type": "input_image", "file_id": "file-abc"}
    with running(lambda _: tells(RESPONSES), lambda port: replace(settings_for(port), routes=(line,))) as house:
        began: JsonObject = {"model": "line", "input": [{"role": "user", "content": [picture]}], "tools": [tool]}
        first = house.post(PATHS[RESPONSES], began)
        assert first.status == 200, first.body
        body: JsonObject = {"model": "line", "input": "And?", "previous_response_id": first.json()["id"]}
        told = house.post(PATHS[RESPONSES], body)
        assert told.status == 200, told.body
        assert (told.header("x-dragoman-route") or "").startswith("responses/m;")
