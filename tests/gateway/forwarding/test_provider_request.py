"""What reaches the provider: bodies in every coding, headers by allow-list, and refusals before it is called."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from hashlib import sha256

import brotli  # type: ignore[import-untyped]  # the package carries no types
import pytest
import zstandard
from msgspec.structs import replace

from dragoman.config.settings import Limits, RouteConfig, Server, Settings
from dragoman.gateway.forwarding.provider_request import DECISIVE, able
from dragoman.identities.identity import Rights
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.target import Target
from dragoman.wire.duplicate_keys import OBJECT
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    PROVIDER_KEY,
    RESPONSES,
    House,
    Reply,
    running,
    settings_for,
    whole,
)
from tests.gateway.pairwise import pairwise
from tests.gateway.says import (
    ABROAD,
    PAIRS,
    SAID,
    failure_of,
    message_of,
    model_of,
    question,
    streamed_text,
    streams,
    tells,
    text_of,
    turn,
    with_provider,
    with_settings,
)
from tests.identities.holders import holder
from tests.sdk.digging import dig_objects, dig_text
from tests.sdk.providers import answer

CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def small_bodies(port: int) -> Settings:
    """A gateway that takes bodies of a hundred kilobytes."""
    return settings_for(port, limits=Limits(request_body=100_000))


@pytest.mark.parametrize(("client", "provider", "coding"), pairwise(PROTOCOLS, PROTOCOLS, list(CODINGS)))
def test_pitfall_199_200_a_compressed_body_is_read_and_sent_on_plain(client: str, provider: str, coding: str) -> None:
    plain = json.dumps(question(client, provider)).encode()
    with running([tells(provider)]) as house:
        told = house.post(PATHS[client], CODINGS[coding](plain), content_encoding=coding)
        assert (told.status, text_of(client, told.json())) == (200, SAID)
        received = house.provider.received[0]
        assert received.header("content-encoding") is None
        assert received.header("content-length") == str(len(received.body))
        assert received.json()["model"] == "served"
        if client == provider:
            assert received.body == plain.replace(model_of(provider).encode(), b"served")


def test_pitfall_199_a_zstd_frame_without_its_size_is_read() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    body = compressor.compress(json.dumps(question(RESPONSES, CHAT)).encode()) + compressor.flush()
    with running([tells(CHAT)]) as house:
        assert house.post("/v1/responses", body, content_encoding="zstd").status == 200


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_199_a_bomb_is_a_413(client: str, coding: str) -> None:
    bomb = CODINGS[coding](b'{"model":"chat/served","messages":"' + b"0" * 2_000_000)
    with running((), small_bodies) as house:
        told = house.post(PATHS[client], bomb, content_encoding=coding)
        assert told.status == 413
        error = failure_of(client, told)
        assert "request_too_large" in (error["type"], error.get("code"))


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_199_a_broken_or_cut_body_is_a_400(client: str, coding: str) -> None:
    whole = CODINGS[coding](json.dumps(question(client, CHAT)).encode())
    with running() as house:
        for body in (b"this is not compressed", whole[:-5], whole[: len(whole) // 2], b""):
            told = house.post(PATHS[client], body, content_encoding=coding)
            assert (told.status, failure_of(client, told)["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(("client", "status"), [(MESSAGES, 400), (CHAT, 415), (RESPONSES, 415)])
def test_pitfall_199_an_unknown_coding_is_a_415_or_a_400(client: str, status: int) -> None:
    with running() as house:
        told = house.post(PATHS[client], question(client, CHAT), content_encoding="rot13")
        error = failure_of(client, told)
        assert (told.status, error["type"]) == (status, "invalid_request_error")
        assert client == MESSAGES or error["code"] == "unsupported_encoding"


def test_identity_is_no_coding() -> None:
    with running([tells(CHAT)]) as house:
        assert house.post("/v1/messages", question(MESSAGES, CHAT), content_encoding="identity").status == 200


@pytest.mark.parametrize("path", ["", "/count"])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_body_beyond_the_limit_is_a_413(client: str, path: str) -> None:
    with running((), small_bodies) as house:
        where = {MESSAGES: "/v1/messages/count_tokens", RESPONSES: "/v1/responses/input_tokens", CHAT: "/v1/embeddings"}
        told = house.post(where[client] if path else PATHS[client], question(client, CHAT, padding="x" * 200_000))
        error = failure_of(client, told)
        assert told.status == 413
        assert "request_too_large" in (error["type"], error.get("code"))


@pytest.mark.parametrize("coding", CODINGS)
def test_item_4_a_large_compressed_body_is_read_beside_the_loop(coding: str) -> None:
    padding = "x" * 3_000_000
    plain = json.dumps(question(CHAT, CHAT) | {"messages": [{"role": "user", "content": padding}]}).encode()
    with running([tells(CHAT)]) as house:
        told = house.post(PATHS[CHAT], CODINGS[coding](plain), content_encoding=coding)
        assert told.status == 200
        assert padding in house.provider.received[0].body.decode()
        broken = CODINGS[coding](plain)[:-2]
        assert house.post(PATHS[CHAT], broken, content_encoding=coding).status == 400


@pytest.mark.parametrize("layers", [2, 4])
def test_item_4_nested_codings_are_refused(layers: int) -> None:
    body = b"0" * 2_000_000
    for _ in range(layers):
        body = gzip.compress(body)
    with running((), small_bodies) as house:
        told = house.post(PATHS[CHAT], body, content_encoding=", ".join(["gzip"] * layers))
        assert told.status == (413 if layers == 2 else 415)


# Compressed answers.


@pytest.mark.parametrize(("client", "provider", "coding"), pairwise(PROTOCOLS, PROTOCOLS, list(CODINGS)))
def test_pitfall_200_a_compressed_answer_arrives_plain(client: str, provider: str, coding: str) -> None:
    plain = json.dumps(answer(provider, turn(provider))).encode()
    kind = (("content-type", "application/json"), ("content-encoding", coding))
    with running([Reply(headers=kind, steps=(CODINGS[coding](plain),))]) as house:
        told = house.post(PATHS[client], question(client, provider))
        assert (told.status, text_of(client, told.json())) == (200, SAID)
        assert told.header("content-encoding") is None
        assert told.complete
        if client == provider:
            assert told.body == plain


@pytest.mark.parametrize(("client", "provider", "coding"), pairwise(PROTOCOLS, PROTOCOLS, list(CODINGS)))
def test_pitfall_200_even_a_stream_that_nobody_asked_to_be_compressed(client: str, provider: str, coding: str) -> None:
    [data] = streams(provider).steps
    assert isinstance(data, bytes)
    kind = (("content-type", "text/event-stream"), ("content-encoding", coding))
    with running([Reply(headers=kind, steps=(CODINGS[coding](data),), chunked=True)]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
        assert streamed_text(client, told.body) == SAID
        assert house.provider.received[0].header("accept-encoding") == "identity"


# Headers.

NEVER = {
    "cookie": "session=1",
    "x_forwarded_for": "10.0.0.1",
    "forwarded": "for=10.0.0.1",
    "x_real_ip": "10.0.0.1",
    "x_stainless_lang": "python",
    "x_custom": "1",
    "x_claude_code_session": "1",
    "proxy_authorization": "Basic abc",
    "anthropic_dangerous_direct_browser_access": "true",
    "user_agent": "the client",
    "x_dragoman_strict": "0",
    "referer": "http://127.0.0.1/",
}


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_202_only_what_is_allowed_reaches_the_provider(client: str, provider: str) -> None:
    secrets = {"x_api_key": "client-secret-1", "authorization": "Bearer client-secret-2"}
    with running(
        [tells(provider)], lambda port: settings_for(port, keys=("client-secret-1", "client-secret-2"))
    ) as house:
        assert house.post(PATHS[client], question(client, provider), **NEVER, **secrets).status == 200
        received = house.provider.received[0]
        everything = str(received.headers) + received.body.decode()
        assert "client-secret" not in everything and "the client" not in everything
        names = {name for name, _ in received.headers}
        assert not names & {name.replace("_", "-") for name in NEVER} - {"user-agent"}
        assert (received.header("user-agent") or "").startswith("dragoman/")
        if provider == MESSAGES:
            assert (received.header("x-api-key"), received.header("authorization")) == (PROVIDER_KEY, None)
        else:
            assert (received.header("x-api-key"), received.header("authorization")) == (None, f"Bearer {PROVIDER_KEY}")
        allowed = {"host", "content-length", "content-type", "accept", "accept-encoding", "user-agent"}
        assert names <= allowed | {"x-api-key", "authorization", "anthropic-version", "anthropic-beta", "connection"}


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_203_headers_of_a_protocol_travel_with_it_alone(client: str, provider: str) -> None:
    given = {
        "anthropic_version": "2026-10-21",
        "anthropic_beta": "good-1, bad value, context-1m-2025-08-07,",
        "openai_beta": "assistants=v2",
        "idempotency_key": "once",
        "anthropic_new_feature": "on",
    }
    with running([tells(provider)]) as house:
        assert house.post(PATHS[client], question(client, provider), **given).status == 200
        received = house.provider.received[0]
    if client == provider:
        assert received.header("anthropic-beta") == "good-1,context-1m-2025-08-07"
        assert received.header("anthropic-version") == "2026-10-21"
        assert received.header("openai-beta") == "assistants=v2"
        assert len(received.header("idempotency-key") or "") == 64
        assert received.header("anthropic-new-feature") == "on"
    else:
        assert received.header("openai-beta") is None and received.header("idempotency-key") is None
        assert received.header("anthropic-new-feature") is None
        assert "good-1" not in (received.header("anthropic-beta") or "")
        assert (received.header("anthropic-version") is not None) == (provider == MESSAGES)


def test_pitfall_203_a_version_is_added_where_the_client_named_none() -> None:
    with running([tells(MESSAGES)]) as house:
        house.post("/v1/messages", question(MESSAGES, MESSAGES))
        assert house.provider.received[0].header("anthropic-version") == "2023-06-01"


def test_headers_of_an_agent_reach_only_its_makers_own_service() -> None:
    for own, told in ((True, "1"), (False, None)):
        with running([tells(MESSAGES)], with_provider(anthropic=own)) as house:
            house.post("/v1/messages", question(MESSAGES, MESSAGES), x_claude_code_session="1")
            assert house.provider.received[0].header("x-claude-code-session") == told


def test_pitfall_208_nothing_of_the_query_goes_on_but_beta_on_its_own_protocol() -> None:
    with running([tells(MESSAGES), tells(MESSAGES), tells(CHAT)]) as house:
        house.post("/v1/messages?beta=true", question(MESSAGES, MESSAGES))
        house.post("/v1/messages?beta=true&api_key=secret", question(MESSAGES, MESSAGES))
        house.post("/v1/messages?beta=true", question(MESSAGES, CHAT))
        targets = [received.target for received in house.provider.received]
    assert targets == ["/v1/messages?beta=true", "/v1/messages", "/v1/chat/completions"]


# Strictness.


def by_key(settings: Settings) -> Settings:
    """Strict for one key."""
    return replace(settings, keys=(holder("strict", sha256(b"strict-key-1").digest(), rights=Rights(strict=True)),))


def by_route(settings: Settings) -> Settings:
    """Strict for one route."""
    return replace(settings, routes=(RouteConfig(pattern="careful", targets=("messages/served",), strict=True),))


def by_server(settings: Settings) -> Settings:
    """Strict for everybody."""
    return replace(settings, server=Server(strict=True))


STRICT: dict[str, tuple[Callable[[Settings], Settings], dict[str, str], str]] = {
    "header": (lambda settings: settings, {"x_dragoman_strict": "1"}, "messages/served"),
    "header, in words": (lambda settings: settings, {"x_dragoman_strict": "True"}, "messages/served"),
    "key": (by_key, {"x_api_key": "strict-key-1"}, "messages/served"),
    "route": (by_route, {}, "careful"),
    "server": (by_server, {}, "messages/served"),
}


@pytest.mark.parametrize("who", STRICT)
@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_pitfall_212_a_loss_is_refused_before_the_provider_is_called(client: str, who: str) -> None:
    change, headers, model = STRICT[who]
    lossy = {"logit_bias": {"5": 1}, "seed": 3} if client == CHAT else {"truncation": "auto", "unheard_of": 1}
    with running((), with_provider(change)) as house:
        told = house.post(PATHS[client], question(client, MESSAGES) | lossy | {"model": model}, **headers)
        assert (told.status, failure_of(client, told)["type"]) == (400, "invalid_request_error")
        words = message_of(client, told)
        assert "refused" in words and all(name in words for name in list(lossy)[1:])
        assert not house.provider.received


def by_key_all(settings: Settings) -> Settings:
    """Strict about every loss for one key."""
    return replace(settings, keys=(holder("strict", sha256(b"strict-key-1").digest(), rights=Rights(strict="all")),))


def by_route_all(settings: Settings) -> Settings:
    """Strict about every loss for one route."""
    return replace(settings, routes=(RouteConfig(pattern="careful", targets=("chat/served",), strict="all"),))


def by_server_all(settings: Settings) -> Settings:
    """Strict about every loss for everybody."""
    return replace(settings, server=Server(strict="all"))


STRICT_ALL: dict[str, tuple[Callable[[Settings], Settings], dict[str, str], str]] = {
    "header": (lambda settings: settings, {"x_dragoman_strict": "all"}, "chat/served"),
    "header, in capitals": (lambda settings: settings, {"x_dragoman_strict": "ALL"}, "chat/served"),
    "header above the server": (by_server, {"x_dragoman_strict": "all"}, "chat/served"),
    "key": (by_key_all, {"x_api_key": "strict-key-1"}, "chat/served"),
    "route": (by_route_all, {}, "careful"),
    "route above the header": (by_route_all, {"x_dragoman_strict": "1"}, "careful"),
    "server": (by_server_all, {}, "chat/served"),
}
MARKED = [{"role": "user", "content": [{"type": "text", "text": "Hi.", "cache_control": {"type": "ephemeral"}}]}]


@pytest.mark.parametrize("who", STRICT_ALL)
def test_bookkeeping_is_refused_wherever_strict_is_all(who: str) -> None:
    change, headers, model = STRICT_ALL[who]
    with running((), with_provider(change)) as house:
        body = question(MESSAGES, CHAT) | {"messages": MARKED, "model": model}
        told = house.post("/v1/messages", body, **headers)
        assert told.status == 400
        assert "cache_breakpoint" in message_of(MESSAGES, told)
        assert not house.provider.received


def test_bookkeeping_is_not_refused_where_strict_is_on_and_the_header_has_it() -> None:
    with running([tells(CHAT)], with_provider(by_server)) as house:
        body = question(MESSAGES, CHAT) | {"messages": MARKED}
        told = house.post("/v1/messages", body, x_dragoman_strict="1")
        assert told.status == 200
        assert "cache_breakpoint" in str(told.header("x-dragoman-losses"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_strictness_does_not_touch_what_loses_nothing(protocol: str) -> None:
    with running([tells(protocol)]) as house:
        body = question(protocol, protocol, unheard_of=1)
        assert house.post(PATHS[protocol], body, x_dragoman_strict="1").status == 200


def test_thinking_that_nobody_signed_is_cut_out_on_the_relay() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": ""}
    messages = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "Hi."}]},
        {"role": "user", "content": "Go on."},
    ]
    with running([tells(MESSAGES)]) as house:
        body = question(MESSAGES, MESSAGES) | {"messages": messages}
        told = house.post("/v1/messages", body, x_dragoman_strict="1")
        assert told.status == 400 and not house.provider.received
        told = house.post("/v1/messages", body)
        assert "dropped:" in (told.header("x-dragoman-losses") or "")
        sent = dig_objects(house.provider.received[0].json(), "messages", 1, "content")
        assert [dig_text(block, "type") for block in sent] == ["text"]


# Liberal in.


@pytest.mark.parametrize("provider", [MESSAGES, CHAT, RESPONSES])
def test_pitfall_210_211_what_agents_leave_out_or_send_as_lists_is_taken(provider: str) -> None:
    items = [
        {"role": "user", "content": "Hello."},
        {"type": "reasoning", "id": "rs_1"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "a tree"}]},
    ]
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
    with running([tells(provider)]) as house:
        told = house.post("/v1/responses", question(RESPONSES, provider, tools=tools) | {"input": items})
        assert told.status == 200, told.body
        assert "a tree" in house.provider.received[0].body.decode()


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_stream_of_null_or_false_is_none(client: str) -> None:
    for said in (None, False):
        with running([tells(CHAT)]) as house:
            told = house.post(PATHS[client], question(client, CHAT) | {"stream": said})
            assert (told.status, told.header("content-type")) == (200, "application/json")


@pytest.mark.parametrize(("client", "provider"), ABROAD)
def test_a_request_always_asks_for_usage_of_a_translated_stream(client: str, provider: str) -> None:
    with running([streams(provider)]) as house:
        house.post(PATHS[client], question(client, provider, stream=True))
        options = house.provider.received[0].json().get("stream_options")
        assert options == ({"include_usage": True} if provider == CHAT else None)


def test_usage_that_the_gateway_asked_for_is_withheld_from_the_client() -> None:
    with running([streams(CHAT)], with_provider(include_usage=True)) as house:
        told = house.post("/v1/chat/completions", question(CHAT, CHAT, stream=True))
        assert house.provider.received[0].json()["stream_options"] == {"include_usage": True}
        assert b"prompt_tokens" not in told.body and b'"choices": []' not in told.body
        assert streamed_text(CHAT, told.body) == SAID
        assert '"input":11' in house.log.getvalue()


def test_a_route_may_lead_a_name_to_another_model() -> None:
    routes = (
        RouteConfig(pattern="fast", targets=("chat/served-2",)),
        RouteConfig(pattern="big-*", targets=("chat/*",)),
    )
    with running([tells(CHAT), tells(CHAT)], with_settings(routes=routes)) as house:
        for name in ("fast", "big-one"):
            assert house.post("/v1/chat/completions", question(CHAT, CHAT) | {"model": name}).status == 200
        assert [received.json()["model"] for received in house.provider.received] == ["served-2", "big-one"]


@pytest.mark.parametrize(
    ("body", "protocol"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}], "reasoning_effort": "low"}, RESPONSES),
        ({"tools": [{"type": "function", "function": {"name": "f"}}], "reasoning_effort": "none"}, CHAT),
        ({"tools": [], "reasoning_effort": "low"}, CHAT),
        ({"reasoning_effort": "low"}, CHAT),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, CHAT),
    ],
    ids=["both", "no effort", "an empty list of tools", "effort alone", "tools alone"],
)
@pytest.mark.parametrize("model", ["gpt-5.1", "o3-mini", "gpt-4.1"])
def test_pitfall_122_tools_with_reasoning_go_to_responses_where_chat_refuses_them(
    body: dict[str, object], protocol: str, model: str
) -> None:
    ends = tuple(Endpoint(protocol=name, base_url="https://example.org/v1") for name in (RESPONSES, CHAT))
    provider = Provider(name="openai", endpoints=ends)
    aim = Target(provider=provider, endpoint=ends[1], model=model, strict=False)
    gist = OBJECT.decode(json.dumps({"model": model, **body}))
    expected = CHAT if model == "gpt-4.1" else protocol
    assert able(aim, gist).endpoint.protocol == expected
    elsewhere = Target(provider=Provider(name="mine", endpoints=ends), endpoint=ends[1], model=model, strict=False)
    assert able(elsewhere, gist).endpoint.protocol == CHAT


@pytest.mark.parametrize(
    ("model", "member"),
    [("gpt-5.1", "max_completion_tokens"), ("o3", "max_completion_tokens"), ("qwen3", "max_tokens")],
)
def test_pitfall_124_the_cap_of_a_relayed_request_goes_by_the_name_that_the_model_takes(
    model: str, member: str
) -> None:
    with running([tells(CHAT)]) as house:
        asked = question(CHAT, CHAT) | {"model": f"chat/{model}", "max_tokens": 77}
        assert house.post("/v1/chat/completions", asked).status == 200
        sent = house.provider.received[0].json()
        assert {name: value for name, value in sent.items() if name.startswith("max_")} == {member: 77}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("member", sorted(DECISIVE))
def test_item_8_a_decisive_member_said_twice_or_in_other_letters_is_refused(protocol: str, member: str) -> None:
    asked = json.dumps(
        {**question(protocol, protocol), "model": model_of(protocol), member: None} | {"model": model_of(protocol)}
    )
    twice = [asked[:-1] + f', "{name}" : null }}' for name in (member, member.title(), member.upper())]
    escaped = asked[:-1] + f',"\\u{ord(member[0]):04x}{member[1:]}":null}}'
    with running() as house:
        for body in (*twice, escaped):
            told = house.post(PATHS[protocol], body.encode())
            error = failure_of(protocol, told)
            assert told.status == 400, body
            assert member.lower() in str(error["message"]).lower()
        assert not house.provider.received


def test_item_8_counting_and_compacting_refuse_it_too() -> None:
    with running() as house:
        body = b'{"model":"responses/served","input":"a","previous_response_id":"resp_a","previous_response_id":null}'
        for path in ("/v1/responses/input_tokens", "/v1/responses/compact"):
            assert house.post(path, body).status == 400
        assert not house.provider.received


def _two_keys(port: int) -> Settings:
    return settings_for(port, keys=("first-key", "second-key"))


@pytest.fixture(scope="module")
def two_keys() -> Iterator[House]:
    """A gateway with two keys, whose provider is never called."""
    with running((), _two_keys) as house:
        yield house


REFERENCES = {
    "a conversation's id twice": '"input":"a","conversation":{"id":"conv_1","id":"conv_2"}',
    "a conversation's id in other letters": '"input":"a","conversation":{"Id":"conv_1"}',
    "an item's type twice": '"input":[{"type":"item_reference","id":"msg_1","type":"message","role":"user"}]',
    "an item's type in other letters": '"input":[{"Type":"item_reference","id":"msg_1","role":"user","content":"a"}]',
    "an item's id twice": '"input":[{"role":"user","content":"a"},{"type":"item_reference","id":"msg_1","id":null}]',
    "an item's content twice": '"input":[{"type":"reasoning","id":"rs_1","summary":[],"content":[1],"content":[]}]',
}


@pytest.mark.parametrize("case", REFERENCES)
@pytest.mark.parametrize(
    "path", ["/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact", "/v1/chat/completions"]
)
def test_item_8_a_reference_to_what_a_provider_keeps_can_be_read_in_one_way_only(
    two_keys: House, case: str, path: str
) -> None:
    body = '{"model":"responses/served",' + REFERENCES[case] + "}"
    told = two_keys.post(path, body.encode(), x_api_key="first-key")
    assert (told.status, two_keys.provider.received) == (400, [])
    assert "given twice" in str(told.json())


UNREAD = {
    "an input that is an item": ('"input":{"type":"item_reference","id":"msg_1"}', "input"),
    "an input that is a number": ('"input":7', "input"),
    "an item that is a list": ('"input":[[{"type":"item_reference","id":"msg_1"}]]', "input"),
    "an item that is text": ('"input":["msg_1"]', "input"),
    "an id that is a list": ('"input":[{"type":"item_reference","id":["msg_1"]}]', "input"),
    "a type that is a list": ('"input":[{"type":["reasoning"],"role":"user","id":"rs_1"}]', "input"),
    "a previous response in a list": ('"input":"a","previous_response_id":["resp_1"]', "previous_response_id"),
    "a previous response in an object": ('"input":"a","previous_response_id":{"id":"resp_1"}', "previous_response_id"),
    "a conversation in a list": ('"input":"a","conversation":["conv_1"]', "conversation"),
    "a conversation without an id": ('"input":"a","conversation":{"name":"conv_1"}', "conversation"),
    "a conversation's id in a list": ('"input":"a","conversation":{"id":["conv_1"]}', "conversation"),
    "camelCase": ('"input":"a","previousResponseId":"resp_1"', "previous_response_id"),
    "dashes": ('"input":"a","previous-response-id":"resp_1"', "previous_response_id"),
    "one word": ('"input":"a","previousresponseid":"resp_1"', "previous_response_id"),
    "camelCase of an item": (
        '"input":[{"type":"reasoning","id":"rs_1","encrypted_content":"x","encryptedContent":null}]',
        "encrypted_content",
    ),
}


@pytest.mark.parametrize("case", UNREAD)
@pytest.mark.parametrize(
    "path", ["/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact", "/v1/chat/completions"]
)
def test_a_reference_that_is_not_read_here_reaches_no_provider_that_keeps_items(
    two_keys: House, case: str, path: str
) -> None:
    said, param = UNREAD[case]
    told = two_keys.post(path, b'{"model":"responses/served",%b}' % said.encode(), x_api_key="first-key")
    assert (told.status, two_keys.provider.received) == (400, [])
    assert dig_text({**told.json()}, "error", "param") == param


def test_a_name_that_cannot_be_read_hides_no_reference() -> None:
    with running((), _two_keys) as house:
        for item in (rb'{"type":"item_reference","id":"msg_1","\ud800":1}', b'{"id":"msg_1","\xff":1}'):
            told = house.post(
                "/v1/responses", b'{"model":"responses/served","input":[%b]}' % item, x_api_key="first-key"
            )
            assert (told.status, house.provider.received) == (400, [])


@pytest.mark.parametrize("said", ['"input":null,"previous_response_id":null', '"input":"a","conversation":null'])
def test_what_is_null_refers_to_nothing(said: str) -> None:
    with running([tells(RESPONSES)], _two_keys) as house:
        body = b'{"model":"responses/served",%b}' % said.encode()
        assert house.post("/v1/responses", body, x_api_key="first-key").status == 200


def test_options_that_an_sdk_says_in_both_ways_are_relayed() -> None:
    said = b'{"model":"chat/served","messages":[],"reasoningEffort":"high","reasoning_effort":"high","maxTokens":5}'
    with running([tells(CHAT)]) as house:
        assert house.post("/v1/chat/completions", said).status == 200


def _step_without_reasoning() -> Reply:
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return whole({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})


@pytest.mark.parametrize(
    ("model", "thinking"),
    [("claude-sonnet-4-5", {"type": "disabled"}), ("claude-sonnet-4-6", {"type": "adaptive"})],
)
def test_a_tool_loop_that_a_server_without_reasoning_began_goes_on_with_one_call(
    model: str, thinking: dict[str, str]
) -> None:
    tools = [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]
    budget = {"type": "enabled", "budget_tokens": 2048}
    asked = question(MESSAGES, CHAT, max_tokens=4096, tools=tools, thinking=budget)
    with running([_step_without_reasoning(), tells(MESSAGES)]) as house:
        step = house.post("/v1/messages", asked)
        content = json.loads(step.body)["content"]
        result = {"type": "tool_result", "tool_use_id": content[0]["id"], "content": "a hill"}
        history = [*dig_objects(asked, "messages"), {"role": "assistant", "content": content}]
        goes_on = {**asked, "model": f"messages/{model}", "messages": [*history, {"role": "user", "content": [result]}]}
        told = house.post("/v1/messages", goes_on)
        assert told.status == 200, told.body
        _, sent = (received.json() for received in house.provider.received)
    assert [block["type"] for block in content] == ["tool_use"]
    assert sent["thinking"] == thinking
    assert sent["messages"] == goes_on["messages"]
    assert "approximated:thinking" in (told.header("x-dragoman-losses") or "")
