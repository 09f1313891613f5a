"""Counting tokens: asked of providers that count, estimated for the others, and marked."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.tokens import request as local
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PROTOCOLS,
    RESPONSES,
    Answer,
    Reply,
    passing,
    running,
    settings_for,
    stay_silent,
    whole,
)
from tests.gateway.says import error_body, failure_of, log_lines, question, with_provider
from tests.sdk.digging import dig
from tests.waiting import wait_until

COUNTS = {MESSAGES: "/v1/messages/count_tokens", RESPONSES: "/v1/responses/input_tokens"}
TOOL = {"name": "look", "description": "Look around. " * 100, "input_schema": {"type": "object", "properties": {}}}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def counted(told: Answer) -> int:
    """The number that was told."""
    number = told.json()["input_tokens"]
    assert isinstance(number, int)
    return number


@pytest.mark.parametrize("provider", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_pitfall_182_a_provider_that_counts_is_asked(client: str, provider: str) -> None:
    with running([whole({"input_tokens": 728})], with_provider(counts_tokens=True)) as house:
        told = house.post(f"{COUNTS[client]}?beta=true", question(client, provider))
        assert (told.status, counted(told), told.header("x-dragoman-estimate")) == (200, 728, None)
        received = house.provider.received[0]
        assert received.target == COUNTS[provider]
        assert received.json()["model"] == "served"
        if client != provider:
            assert not {"max_tokens", "stream", "max_output_tokens", "store"} & set(received.json())
            assert client == MESSAGES or told.json() == {"object": "response.input_tokens", "input_tokens": 728}


@pytest.mark.parametrize("policy", ["fallback", "round-robin", "weighted", "fastest"])
def test_a_name_with_several_targets_is_counted_by_the_same_one_every_time(policy: str) -> None:
    weights = (1, 1) if policy == "weighted" else ()
    line = RouteConfig(pattern="both", targets=("messages/served", "responses/served"), policy=policy, weights=weights)

    def settings(port: int) -> Settings:
        return replace(with_provider(counts_tokens=True)(port), routes=(line,))

    with running(lambda received: whole({"input_tokens": 7}), settings) as house:
        for _ in range(3):
            told = house.post(COUNTS[MESSAGES], {**question(MESSAGES, MESSAGES), "model": "both"})
            assert (told.status, counted(told)) == (200, 7)
            assert told.header("x-dragoman-route") == "messages/served; protocol=anthropic-messages"
        assert [received.json()["model"] for received in house.provider.received] == ["served"] * 3


@pytest.mark.parametrize("protocol", [MESSAGES, RESPONSES])
def test_a_count_of_the_same_protocol_is_relayed_byte_for_byte(protocol: str) -> None:
    said = b'{ "input_tokens" : 728 , "context_management":{"original_input_tokens":900}}\n'
    body = json.dumps(question(protocol, protocol, odd=1.0)).encode()
    with running([whole(said)], with_provider(counts_tokens=True)) as house:
        told = house.post(COUNTS[protocol], body)
        assert told.body == said
        assert house.provider.received[0].body == body.replace(b"messages/served", b"served").replace(
            b"responses/served", b"served"
        )


@pytest.mark.parametrize("provider", PROTOCOLS)
@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_pitfall_182_a_provider_that_does_not_count_is_not_asked(client: str, provider: str) -> None:
    with running() as house:
        told = house.post(COUNTS[client], question(client, provider))
        assert (told.status, told.header("x-dragoman-estimate")) == (200, "tokenizer")
        assert counted(told) > 0
        assert not house.provider.received
        assert told.header("request-id" if client == MESSAGES else "x-request-id")


def test_chat_has_no_way_to_count_even_if_it_is_said_to() -> None:
    with running(settings=with_provider(counts_tokens=True)) as house:
        told = house.post(COUNTS[MESSAGES], question(MESSAGES, CHAT))
        assert told.header("x-dragoman-estimate") == "tokenizer"
        assert not house.provider.received


@pytest.mark.parametrize("provider", PROTOCOLS)
def test_pitfall_182_instructions_tools_and_pictures_count(provider: str) -> None:
    seen = [{"role": "user", "content": [{"type": "text", "text": "Hello."}, PICTURE]}]
    with running() as house:
        plain = counted(house.post(COUNTS[MESSAGES], question(MESSAGES, provider)))
        system = counted(house.post(COUNTS[MESSAGES], question(MESSAGES, provider, system="Be brief. " * 100)))
        tools = counted(house.post(COUNTS[MESSAGES], question(MESSAGES, provider, tools=[TOOL])))
        picture = counted(house.post(COUNTS[MESSAGES], question(MESSAGES, provider) | {"messages": seen}))
    assert 1 <= plain < 40
    assert system > plain + 150 and tools > plain + 200 and picture > plain + 500


def test_without_the_tokenizer_the_estimate_counts_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "count_by_tokenizer", lambda vocabulary, texts: None)
    with running() as house:
        told = house.post(COUNTS[MESSAGES], question(MESSAGES, CHAT))
        assert (told.status, told.header("x-dragoman-estimate")) == (200, "calibrated")
        assert 1 <= counted(told) < 40


@pytest.mark.parametrize("provider", PROTOCOLS)
def test_a_large_request_is_counted_like_a_small_one(provider: str) -> None:
    with running() as house:
        small = counted(house.post(COUNTS[MESSAGES], question(MESSAGES, provider, system="Be brief. " * 1000)))
        large = counted(house.post(COUNTS[MESSAGES], question(MESSAGES, provider, system="Be brief. " * 20_000)))
    assert 19 < large / small < 21


def test_max_tokens_is_not_required_of_a_count() -> None:
    body = question(MESSAGES, CHAT)
    del body["max_tokens"]
    with running() as house:
        assert house.post(COUNTS[MESSAGES], body).status == 200


@pytest.mark.parametrize(
    "reply",
    [
        whole(error_body(MESSAGES, "not_found_error", "no such path"), 404),
        whole(error_body(MESSAGES, "api_error", "oh"), 500),
        whole(b"<html>"),
        whole(b""),
        whole({"input_tokens": "many"}),
        whole({"input_tokens": True}),
        whole({"input_tokens": -1}),
        Reply(raw=True, steps=(None,)),
        Reply(raw=True, steps=(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", None)),
    ],
    ids=["404", "500", "a page", "nothing", "text", "a flag", "less than none", "closed", "cut"],
)
@pytest.mark.parametrize("provider", [MESSAGES, RESPONSES])
def test_a_provider_that_cannot_count_is_estimated_for(provider: str, reply: Reply) -> None:
    with running(lambda received: reply, with_provider(counts_tokens=True)) as house:
        told = house.post(COUNTS[MESSAGES], question(MESSAGES, provider))
        assert (told.status, told.header("x-dragoman-estimate")) == (200, "tokenizer")
        assert counted(told) > 0


def test_a_silent_provider_is_estimated_for_and_the_operator_is_told() -> None:
    with running([Reply(raw=True, steps=(passing(),))], with_provider(counts_tokens=True)) as house:
        assert house.post(COUNTS[MESSAGES], question(MESSAGES, MESSAGES)).header("x-dragoman-estimate") == "tokenizer"
        assert log_lines(house, "cannot count tokens at provider")
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_an_unknown_model_cannot_be_counted_for(client: str) -> None:
    with running() as house:
        told = house.post(COUNTS[client], question(client, CHAT) | {"model": "ehco/text"})
        assert told.status == 404
        assert "echo/text" in str(failure_of(client, told)["message"])


def test_the_embedded_provider_counts() -> None:
    with running() as house:
        told = house.post(COUNTS[MESSAGES], question(MESSAGES, CHAT) | {"model": "echo/text@anthropic-messages"})
        assert told.status == 200 and counted(told) > 0


def test_what_is_counted_is_what_would_be_sent() -> None:
    with running([whole({"input_tokens": 5})], with_provider(counts_tokens=True)) as house:
        told = house.post(COUNTS[MESSAGES], question(MESSAGES, RESPONSES, system="Be brief.", tools=[TOOL], top_k=3))
        sent = house.provider.received[0].json()
        assert (sent["instructions"], dig(sent, "tools", 0, "name")) == ("Be brief.", "look")
        assert "top_k" in (told.header("x-dragoman-losses") or "")


def test_pitfall_201_a_client_that_goes_away_ends_the_count() -> None:
    with running([Reply(raw=True, steps=(stay_silent,))], with_provider(counts_tokens=True)) as house:
        body = json.dumps(question(MESSAGES, MESSAGES)).encode()
        with house.connect() as connection:
            head = f"POST {COUNTS[MESSAGES]} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            wait_until(lambda: len(house.provider.received) == 1, "the provider receives the request")
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")


@pytest.mark.parametrize("status", [400, 401, 413, 429])
def test_what_a_provider_says_of_a_request_reaches_a_client_of_its_protocol(status: int) -> None:
    body = error_body(MESSAGES, "invalid_request_error", "not so")
    with running([whole(body, status)] * 2, with_provider(counts_tokens=True)) as house:
        told = house.post(COUNTS[MESSAGES], question(MESSAGES, MESSAGES))
        assert (told.status, told.json(), told.header("x-dragoman-estimate")) == (status, body, None)
        assert log_lines(house, "cannot count tokens at provider")


def test_pitfall_312_a_refused_key_is_estimated_for_where_clients_have_their_own() -> None:
    body = error_body(MESSAGES, "authentication_error", "who?")
    keys = settings_for(1, keys=["dg-right"]).keys
    settings = with_provider(lambda made: replace(made, keys=keys), counts_tokens=True)
    with running([whole(body, 401)], settings) as house:
        told = house.post(COUNTS[MESSAGES], question(MESSAGES, MESSAGES), x_api_key="dg-right")
        assert (told.status, told.header("x-dragoman-estimate")) == (200, "tokenizer")


@pytest.mark.parametrize("member", ["previous_response_id", "conversation"])
def test_nothing_is_counted_without_what_a_provider_keeps(member: str) -> None:
    with running([whole({"error": {"message": "no"}}, 404)], with_provider(counts_tokens=True)) as house:
        told = house.post(COUNTS[RESPONSES], question(RESPONSES, RESPONSES) | {member: "theirs_1"})
        assert (told.status, failure_of(RESPONSES, told)["param"]) == (400, member)
