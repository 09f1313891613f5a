"""Calls until one is answered: keys that take turns, and one more try without reasoning that was refused."""

from __future__ import annotations

import json
import re
import threading
import tracemalloc
from collections.abc import Callable, Mapping

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.gateway.exchange import attempt
from dragoman.gateway.exchange.exchange import Exchange
from dragoman.gateway.exchange.full_delivery import _read
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.observability.record import Record
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.thread_offload import INLINE
from dragoman.http.upstream_call import HeaderList
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.losses import Ledger
from dragoman.protocols.registry import codec_of
from dragoman.routing.attempt_outcome import AttemptOutcome
from tests.gateway.exchange.played import played_by
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    RESPONSES,
    House,
    Received,
    Reply,
    running,
    settings_for,
    stay_silent,
    stream,
    take_turns,
    whole,
)
from tests.gateway.pairwise import pairwise
from tests.gateway.routed import target_of
from tests.gateway.says import (
    ABROAD,
    NAMES,
    PAIRS,
    SAID,
    error_body,
    error_frame,
    failure_of,
    headers_named,
    log_lines,
    message_of,
    opening,
    question,
    streamed_text,
    streams,
    tells,
    text_of,
)
from tests.sdk.digging import Object, dig, dig_object, dig_objects
from tests.sdk.providers import SIGNATURE, Call, Turn, answer

FIRST, SECOND, THIRD = (f"sk-{name}-0123456789abcdef" for name in ("first", "second", "third"))


def pool(*keys: str) -> Callable[[int], Settings]:
    """A gateway whose providers have several keys."""
    return lambda port: settings_for(port, provider_keys=keys)


def key_of(received: Received) -> str:
    """The key that a call was made with."""
    return received.header("x-api-key") or (received.header("authorization") or "").removeprefix("Bearer ")


def refused(provider: str, status: int, message: str = "not with this key", **headers: str) -> Reply:
    """A refusal in the provider's own words."""
    about_the_key = status in (401, 402, 403)
    kind = "rate_limit_error" if status == 429 else "authentication_error" if about_the_key else "api_error"
    return whole(error_body(provider, kind, message), status, **headers)


@pytest.mark.parametrize(("client", "provider", "status"), pairwise(PROTOCOLS, PROTOCOLS, [401, 402, 403, 429]))
def test_a_key_that_is_refused_makes_room_for_the_next(client: str, provider: str, status: int) -> None:
    with running([refused(provider, status), streams(provider), tells(provider)], pool(FIRST, SECOND)) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
        assert (told.status, streamed_text(client, told.body)) == (200, SAID)
        assert [key_of(received) for received in house.provider.received] == [FIRST, SECOND]
        assert house.provider.received[0].body == house.provider.received[1].body
        assert log_lines(house)[0]["attempt_count"] == 2
        # The first key rests.
        assert house.post(PATHS[client], question(client, provider)).status == 200
        assert key_of(house.provider.received[2]) == SECOND


@pytest.mark.parametrize(("status", "key"), [(401, SECOND), (403, FIRST), (429, FIRST)])
def test_a_wrong_key_is_not_used_for_other_models_either(status: int, key: str) -> None:
    with running([refused(CHAT, status), tells(CHAT), tells(CHAT)], pool(FIRST, SECOND)) as house:
        asked = question(CHAT, CHAT)
        assert house.post(PATHS[CHAT], asked).status == 200
        assert house.post(PATHS[CHAT], {**asked, "model": f"{asked['model']}-2"}).status == 200
        assert [key_of(received) for received in house.provider.received] == [FIRST, SECOND, key]


def _asked(number: int, turns: int = 1) -> Object:
    """A turn of a conversation that begins as no other does."""
    said = [{"role": "user", "content": f"Hello {number}."}]
    for _ in range(turns - 1):
        said += [{"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "Go on."}]
    return {**question(MESSAGES, CHAT), "messages": said}


def test_keys_take_turns_from_conversation_to_conversation() -> None:
    with running(lambda received: tells(CHAT), pool(FIRST, SECOND, THIRD)) as house:
        for number in range(6):
            house.post("/v1/messages", _asked(number))
        assert [key_of(received) for received in house.provider.received] == [FIRST, SECOND, THIRD] * 2


def test_pitfall_357_twenty_turns_of_a_name_with_one_target_have_one_key() -> None:
    with running(lambda received: tells(CHAT), pool(FIRST, SECOND, THIRD)) as house:
        for turns in range(1, 21):
            for number in range(2):
                house.post("/v1/messages", _asked(number, turns))
        assert [key_of(received) for received in house.provider.received] == [FIRST, SECOND] * 20


def test_pitfall_357_a_conversation_leaves_a_key_that_rests_and_stays_with_the_next() -> None:
    bad: set[str] = set()

    def script(received: Received) -> Reply:
        return refused(CHAT, 429, "slow down") if key_of(received) in bad else tells(CHAT)

    with running(script, pool(FIRST, SECOND, THIRD)) as house:
        house.post("/v1/messages", _asked(1))
        bad.add(FIRST)
        for turns in range(2, 5):
            assert house.post("/v1/messages", _asked(1, turns)).status == 200
        assert [key_of(received) for received in house.provider.received] == [FIRST, FIRST, *[SECOND] * 3]


def test_a_line_that_is_not_sticky_lets_keys_take_turns() -> None:
    def settings(port: int) -> Settings:
        line = RouteConfig(pattern="any", targets=("chat/served",), sticky=False)
        return replace(pool(FIRST, SECOND)(port), routes=(line,))

    with running(lambda received: tells(CHAT), settings) as house:
        for turns in range(1, 5):
            house.post("/v1/messages", {**_asked(1, turns), "model": "any"})
        assert [key_of(received) for received in house.provider.received] == [FIRST, SECOND] * 2


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_191_when_all_keys_are_refused_the_last_error_is_told(client: str, provider: str) -> None:
    limits = {"x_ratelimit_remaining_requests": "0", "anthropic_ratelimit_requests_remaining": "0"}
    replies = [
        refused(provider, 401, "the first is unknown"),
        refused(provider, 403, "the second is not allowed"),
        refused(provider, 429, "the third is tired", retry_after="9", **limits),
    ]
    with running(replies, pool(FIRST, SECOND, THIRD)) as house:
        told = house.post(PATHS[client], question(client, provider))
        assert (told.status, told.header("retry-after")) == (429, "9")
        assert message_of(client, told) == "the third is tired"
        assert headers_named(told, "x-ratelimit", "anthropic-ratelimit") == {}, "limits of one key of several"
        assert len(house.provider.received) == 3
        log = house.log.getvalue() + str(told)
        assert not any(key in log for key in (FIRST, SECOND, THIRD))


def test_pitfall_312_a_code_speaks_of_the_key_whatever_the_status() -> None:
    body = error_body(CHAT, "invalid_request_error", "API key not valid", "invalid_api_key")
    with running([whole(body, 400), tells(CHAT)], pool(FIRST, SECOND)) as house:
        assert house.post("/v1/chat/completions", question(CHAT, CHAT)).status == 200


def test_a_model_that_one_key_may_not_use_is_asked_for_with_the_next() -> None:
    body = error_body(CHAT, "invalid_request_error", "no access to this model", "model_not_found")
    with running([whole(body, 403), tells(CHAT)], pool(FIRST, SECOND)) as house:
        assert house.post("/v1/chat/completions", question(CHAT, CHAT)).status == 200
        assert [key_of(received) for received in house.provider.received] == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("status", "code"),
    [(429, "model_overloaded"), (403, "content_filter")],
    ids=["pitfall 316: overload", "what was said"],
)
def test_a_code_says_that_it_is_not_the_key_whatever_the_status(status: int, code: str) -> None:
    body = error_body(CHAT, "server_error", "not now", code)
    with running([whole(body, status)], pool(FIRST, SECOND)) as house:
        assert house.post("/v1/chat/completions", question(CHAT, CHAT)).status == status
        assert len(house.provider.received) == 1


@pytest.mark.parametrize("status", [400, 404, 413, 500, 503, 529])
def test_an_error_that_is_not_about_the_key_is_not_tried_with_another(status: int) -> None:
    with running([refused(CHAT, status)], pool(FIRST, SECOND)) as house:
        assert house.post("/v1/chat/completions", question(CHAT, CHAT)).status == status
        assert len(house.provider.received) == 1


def test_one_key_is_asked_once() -> None:
    with running([refused(CHAT, 429)]) as house:
        assert house.post("/v1/messages", question(MESSAGES, CHAT)).status == 429
        assert len(house.provider.received) == 1


# V11: reasoning that the provider refuses.

REFUSALS: dict[str, Object] = {
    MESSAGES: error_body(
        MESSAGES, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"
    ),
    CHAT: error_body(CHAT, "invalid_request_error", "Invalid `signature` in `thinking` block"),
    RESPONSES: error_body(
        RESPONSES,
        "invalid_request_error",
        "The encrypted content for item rs_1 could not be verified.",
        "invalid_encrypted_content",
    ),
}
# What a client sends again of the turn before.
REPLAYED: dict[str, Object] = {
    MESSAGES: {
        "messages": [
            {"role": "user", "content": "Hello."},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "a secret thought", "signature": SIGNATURE},
                    {"type": "text", "text": "Hi."},
                ],
            },
            {"role": "user", "content": "Go on."},
        ]
    },
    CHAT: {
        "messages": [
            {"role": "user", "content": "Hello."},
            {
                "role": "assistant",
                "content": "Hi.",
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "a secret thought", "signature": SIGNATURE, "index": 0}
                ],
            },
            {"role": "user", "content": "Go on."},
        ]
    },
    RESPONSES: {
        "input": [
            {"role": "user", "content": "Hello."},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "a secret thought"}],
                "encrypted_content": "gAAAAA==",
            },
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "Go on."},
        ]
    },
}


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reasoning_that_is_refused_on_the_relay_is_left_out_once(protocol: str, streaming: bool) -> None:
    body = question(protocol, protocol, stream=streaming) | REPLAYED[protocol]
    with running([whole(REFUSALS[protocol], 400), (streams if streaming else tells)(protocol)]) as house:
        told = house.post(PATHS[protocol], body)
        assert told.status == 200, told.body
        first, second = (received.body for received in house.provider.received)
        assert b"a secret thought" in first
        assert b"a secret thought" not in second and b"Hi." in second and b"Go on." in second
        assert "dropped:thinking" in (told.header("x-dragoman-losses") or "")
        assert log_lines(house)[0]["attempt_count"] == 2


def test_a_large_request_is_changed_for_another_try_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    codec = codec_of(MESSAGES)

    def watched(body: bytes, ledger: Ledger) -> bytes | None:
        threads.append(threading.current_thread().name)
        return codec.without_reasoning(body, ledger)

    monkeypatch.setattr(attempt, "codec_of", lambda name: replace(codec, without_reasoning=watched))
    for system in ("short", "x" * INLINE):
        body = question(MESSAGES, MESSAGES, system=system) | REPLAYED[MESSAGES]
        with running([whole(REFUSALS[MESSAGES], 400), tells(MESSAGES)]) as house:
            assert house.post(PATHS[MESSAGES], body).status == 200
            assert b"a secret thought" not in house.provider.received[1].body
    assert [name.startswith("large-") for name in threads] == [False, True]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_second_refusal_is_the_clients(protocol: str) -> None:
    body = question(protocol, protocol) | REPLAYED[protocol]
    with running([whole(REFUSALS[protocol], 400), whole(REFUSALS[protocol], 400)]) as house:
        told = house.post(PATHS[protocol], body)
        assert (told.status, told.json()) == (400, REFUSALS[protocol])
        assert len(house.provider.received) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_where_there_is_no_reasoning_to_leave_out_nothing_is_tried_again(protocol: str) -> None:
    with running([whole(REFUSALS[protocol], 400)]) as house:
        assert house.post(PATHS[protocol], question(protocol, protocol)).status == 400
        assert len(house.provider.received) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_another_bad_request_is_not_tried_again(protocol: str) -> None:
    body = question(protocol, protocol) | REPLAYED[protocol]
    with running([whole(error_body(protocol, "invalid_request_error", "temperature is too high"), 400)]) as house:
        assert house.post(PATHS[protocol], body).status == 400
        assert len(house.provider.received) == 1


@pytest.mark.parametrize(("client", "provider"), [pair for pair in ABROAD if pair[1] != CHAT])
def test_reasoning_that_is_refused_in_translation_is_left_out_once(client: str, provider: str) -> None:
    stop = {MESSAGES: "end_turn", RESPONSES: "completed"}[provider]
    thinking = Turn(stop=stop, text="Hi.", reasoning="a secret thought")
    replies = [whole(answer(provider, thinking)), whole(REFUSALS[provider], 400), tells(provider)]
    with running(replies) as house:
        more = {"include": ["reasoning.encrypted_content"]} if client == RESPONSES else {}
        told = house.post(PATHS[client], question(client, provider) | more)
        told = house.post(PATHS[client], next_turn(client, provider, told.json()) | more)
        assert (told.status, text_of(client, told.json())) == (200, SAID), told.body
        _, first, second = (received.body for received in house.provider.received)
        assert b"a secret thought" in first
        assert b"a secret thought" not in second and b"Hi." in second
        assert "dropped:thinking" in (told.header("x-dragoman-losses") or "")


def next_turn(client: str, provider: str, told: Mapping[str, object]) -> Object:
    """The next request of a client that replays what it was told."""
    if client == RESPONSES:
        said: list[object] = [{"role": "user", "content": "Hello."}, *dig_objects(told, "output")]
        return question(client, provider) | {"input": [*said, {"role": "user", "content": "Go on."}]}
    turn: Object = {"role": "assistant", "content": told.get("content")}
    if client == CHAT:
        turn = dig_object(told, "choices", 0, "message")
    said = [{"role": "user", "content": "Hello."}, turn, {"role": "user", "content": "Go on."}]
    return question(client, provider) | {"messages": said}


OTHER_WORDS: dict[str, tuple[object, ...]] = {
    MESSAGES: (
        {"error": "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified"},
        {"detail": "Invalid `signature` in `thinking` block"},
        {"message": "The model returned the following errors: Invalid `signature` in `thinking` block"},
        ["Invalid `signature` in `thinking` block"],
    ),
    CHAT: (
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": '{"error":{"code":400,"message":"Corrupted thought signature."}}',
                    "provider_name": "Google",
                },
            }
        },
        [{"error": {"code": 400, "message": "Corrupted thought signature.", "status": "INVALID_ARGUMENT"}}],
    ),
    RESPONSES: (
        {"code": "invalid-argument", "error": "Could not decrypt the provided encrypted_content. Ensure it is whole."},
        {"error": {"message": "reasoning `encrypted_content` was not issued to this caller", "type": "x"}},
        "Could not decrypt the provided encrypted_content.",
        {"error": {"message": '{"error":{"message":"x","code":"invalid_encrypted_content"}}', "code": None}},
    ),
}


@pytest.mark.parametrize("status", [400, 422, 403, 500])
@pytest.mark.parametrize(
    ("protocol", "refusal"), [(protocol, words) for protocol in PROTOCOLS for words in OTHER_WORDS[protocol]]
)
def test_item_5_refusals_in_any_words_and_shape_are_answered_by_one_try_without(
    protocol: str, refusal: object, status: int
) -> None:
    body = question(protocol, protocol) | REPLAYED[protocol]
    with running([whole(refusal, status), tells(protocol)]) as house:
        assert house.post(PATHS[protocol], body).status == 200
        first, second = (received.body for received in house.provider.received)
        assert b"a secret thought" in first and b"a secret thought" not in second


@pytest.mark.parametrize("asked", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), [pair for pair in PAIRS if pair[0] == pair[1] or pair[1] != CHAT])
def test_item_5_a_refusal_inside_a_good_answer_is_tried_again_before_anything_is_told(
    client: str, provider: str, asked: bool
) -> None:
    words, code = failure_words(provider)
    kind = "invalid_request_error"
    refusal = whole(error_body(provider, kind, words, code))
    if asked:
        refusal = stream(opening(provider), error_frame(provider, kind, words, code))
    stop = {MESSAGES: "end_turn", RESPONSES: "completed", CHAT: "stop"}[provider]
    before = whole(answer(provider, Turn(stop=stop, text="Hi.", reasoning="a secret thought")))
    more: Object = {"include": ["reasoning.encrypted_content"]} if client == RESPONSES else {}
    with running([before, refusal, (streams if asked else tells)(provider)]) as house:
        told = house.post(PATHS[client], question(client, provider) | more)
        said = REPLAYED[client] if client == provider else next_turn(client, provider, told.json())
        body = question(client, provider, stream=asked) | said | {"model": f"{NAMES[provider]}/served"}
        told = house.post(PATHS[client], body | more)
        assert told.status == 200, told.body
        assert (streamed_text(client, told.body) if asked else text_of(client, told.json())) == SAID
        first, second = (received.body for received in house.provider.received[-2:])
        assert b"a secret thought" in first and b"a secret thought" not in second
        assert "failure" not in log_lines(house)[-1]


@pytest.mark.parametrize("asked", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_item_5_where_nothing_may_be_lost_a_refusal_is_the_clients(protocol: str, asked: bool) -> None:
    words, code = failure_words(protocol)
    refusal = whole(REFUSALS[protocol], 400)
    if asked:
        refusal = stream(opening(protocol), error_frame(protocol, "invalid_request_error", words, code))
    with running([refusal]) as house:
        body = question(protocol, protocol, stream=asked) | REPLAYED[protocol]
        told = house.post(PATHS[protocol], body, x_dragoman_strict="1")
        assert (told.status, len(house.provider.received)) == (400, 1)
        assert message_of(protocol, told) == words


def failure_words(provider: str) -> tuple[str, str | None]:
    """How a provider refuses proof, and by which code."""
    error = dig_object(REFUSALS[provider], "error")
    code = error.get("code")
    return str(error["message"]), code if isinstance(code, str) else None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_item_5_a_stream_that_is_refused_twice_is_an_error(protocol: str) -> None:
    body = question(protocol, protocol, stream=True) | REPLAYED[protocol]
    words, code = failure_words(protocol)
    refusal = stream(opening(protocol), error_frame(protocol, "invalid_request_error", words, code))
    with running([refusal, refusal]) as house:
        told = house.post(PATHS[protocol], body)
        assert (told.status, len(house.provider.received)) == (400, 2)
        assert message_of(protocol, told) == words


def test_item_5_a_relayed_response_that_failed_for_its_reasoning_is_tried_again() -> None:
    failed: Object = {"id": "resp_1", "object": "response", "status": "failed", "output": []}
    error = {"code": "invalid_encrypted_content", "message": "The encrypted content could not be verified."}
    events: list[Object] = [
        {"type": "response.created", "response": failed | {"status": "in_progress"}, "sequence_number": 0},
        {"type": "response.failed", "response": failed | {"error": error}, "sequence_number": 1},
    ]
    frames = b"".join(b"event: %b\ndata: %b\n\n" % (str(e["type"]).encode(), json.dumps(e).encode()) for e in events)
    body = question(RESPONSES, RESPONSES, stream=True) | REPLAYED[RESPONSES]
    with running([stream(frames), streams(RESPONSES)]) as house:
        told = house.post(PATHS[RESPONSES], body)
        assert (told.status, streamed_text(RESPONSES, told.body)) == (200, SAID)
    with running([stream(frames), stream(frames)]) as house:
        told = house.post(PATHS[RESPONSES], body)
        assert (told.status, told.body) == (200, frames)


# The provider changes inside a tool loop (V5).

LOOP: list[Object] = [
    {"role": "user", "content": "What is 2+2?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "a secret thought", "signature": SIGNATURE},
            {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 2, "b": 2}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "4"}]},
]
BUDGET: Object = {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 2048}}


@pytest.mark.parametrize("origin", [CHAT, RESPONSES])
def test_item_4_a_relayed_loop_without_its_thinking_is_not_asked_to_think(origin: str) -> None:
    tools = [{"name": "add", "input_schema": {"type": "object", "properties": {}}}]
    stop = {CHAT: "tool_calls", RESPONSES: "completed"}[origin]
    calling = Turn(stop=stop, reasoning="a secret thought", calls=(Call("call_1", "add", '{"a":2}'),))
    with running([whole(answer(origin, calling)), tells(MESSAGES)]) as house:
        told = house.post("/v1/messages", question(MESSAGES, origin, tools=tools) | BUDGET)
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": "4"}
        turn = {"role": "assistant", "content": told.json()["content"]}
        said: Object = {"messages": [LOOP[0], turn, {"role": "user", "content": [result]}]}
        told = house.post("/v1/messages", question(MESSAGES, MESSAGES, tools=tools) | BUDGET | said)
        sent = house.provider.received[1].json()
        assert told.status == 200
        assert sent["thinking"] == {"type": "disabled"}
        assert dig(sent, "messages", 1, "content", 0, "type") == "tool_use"
        assert "approximated:thinking" in (told.header("x-dragoman-losses") or "")


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_item_4_a_try_without_reasoning_does_not_ask_for_it_in_a_loop(streaming: bool) -> None:
    body = question(MESSAGES, MESSAGES, stream=streaming) | BUDGET | {"messages": LOOP}
    with running([whole(REFUSALS[MESSAGES], 400), (streams if streaming else tells)(MESSAGES)]) as house:
        assert house.post("/v1/messages", body).status == 200
        first, second = (received.json() for received in house.provider.received)
        assert (first["thinking"], second["thinking"]) == (BUDGET["thinking"], {"type": "disabled"})


def test_item_4_a_translated_try_without_reasoning_does_not_ask_for_it_in_a_loop() -> None:
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
    calling = Turn(stop="tool_use", reasoning="a secret thought", calls=(Call("toolu_1", "add", '{"a":2}'),))
    replies = [whole(answer(MESSAGES, calling)), whole(REFUSALS[MESSAGES], 400), tells(MESSAGES)]
    with running(replies) as house:
        asked = question(CHAT, MESSAGES, tools=tools, max_tokens=4096, reasoning_effort="low")
        turn = dig_object(house.post(PATHS[CHAT], asked).json(), "choices", 0, "message")
        said = [LOOP[0], turn, {"role": "tool", "tool_call_id": "toolu_1", "content": "4"}]
        assert house.post(PATHS[CHAT], asked | {"messages": said}).status == 200
        _, first, second = (received.json() for received in house.provider.received)
        assert dig(first, "thinking", "type") == "enabled"
        assert second["thinking"] == {"type": "disabled"}


def test_item_4_a_loop_that_never_had_thinking_is_asked_for_it_once() -> None:
    bare: Object = {"role": "assistant", "content": [*dig_objects(LOOP[1], "content")[1:]]}
    wanted = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
    body = question(MESSAGES, MESSAGES) | BUDGET | {"messages": [LOOP[0], bare, LOOP[2]]}
    with running([whole(error_body(MESSAGES, "invalid_request_error", wanted), 400), tells(MESSAGES)]) as house:
        told = house.post("/v1/messages", body)
        assert told.status == 200
        first, second = (received.json() for received in house.provider.received)
        assert (first["thinking"], second["thinking"]) == (BUDGET["thinking"], {"type": "disabled"})
        assert "approximated:thinking" in (told.header("x-dragoman-losses") or "")


def test_item_5_reasoning_that_a_chat_provider_missed_is_empty_and_then_off() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    said = [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
    ]
    words = "The `reasoning_content` in the thinking mode must be passed back to the API."
    missed = whole(error_body(CHAT, "invalid_request_error", words), 400)
    for refusals in (1, 2, 3):
        with running([*[missed] * refusals, *[tells(CHAT)] * (refusals < 3)]) as house:
            told = house.post(PATHS[CHAT], question(CHAT, CHAT) | {"messages": said})
            sent = [received.json() for received in house.provider.received]
            assert (told.status, len(sent)) == ((200, refusals + 1) if refusals < 3 else (400, 3))
            assert dig(sent[1], "messages", 1, "reasoning_content") == ""
            assert [body.get("thinking") for body in sent[2:]] == [{"type": "disabled"}] * (len(sent) - 2)


def test_item_5_calls_that_lack_their_proof_get_what_stands_for_one() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    said = [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
    ]
    missed = [{"error": {"code": 400, "message": "Function call is missing a thought_signature in its parts."}}]
    with running([whole(missed, 400), tells(CHAT)]) as house:
        assert house.post(PATHS[CHAT], question(CHAT, CHAT) | {"messages": said}).status == 200
        sent = house.provider.received[1].json()
        proof = dig(sent, "messages", 1, "tool_calls", 0, "extra_content", "google", "thought_signature")
        assert proof == "skip_thought_signature_validator"


@pytest.mark.parametrize(
    ("transport", "kind"),
    [("http", AttemptOutcome.FORBIDDEN), ("echo", AttemptOutcome.FORBIDDEN), ("bedrock", AttemptOutcome.INVALID_KEY)],
)
def test_only_a_cloud_forbids_by_its_credentials_alone(transport: str, kind: AttemptOutcome) -> None:
    async def story(service: Runtime) -> None:
        known = target_of(service.routes, "chat/served", CHAT)
        target = replace(known, provider=replace(known.provider, transport=transport))
        tried = attempt.Attempt(target, service.target_settings(target))
        assert tried.kind_of(Failure(kind=FailureKind.FORBIDDEN, status=403, message="no")) is kind

    played_by(story)


def test_a_refused_key_and_refused_reasoning_may_meet() -> None:
    body = question(MESSAGES, MESSAGES) | REPLAYED[MESSAGES]
    replies = [refused(MESSAGES, 429), whole(REFUSALS[MESSAGES], 400), tells(MESSAGES)]
    with running(replies, pool(FIRST, SECOND)) as house:
        assert house.post("/v1/messages", body).status == 200
        assert b"a secret thought" not in house.provider.received[2].body


def test_pitfall_191_the_error_of_the_only_provider_is_never_replaced_by_a_summary() -> None:
    with running([refused(CHAT, 429, "slow down, this is the reason")]) as house:
        told = house.post("/v1/messages", question(MESSAGES, CHAT))
        assert failure_of(MESSAGES, told)["message"] == "slow down, this is the reason"
        assert told.header("x-dragoman-route") == f"{NAMES[CHAT]}/served; protocol={CHAT}"


@pytest.mark.parametrize(("client", "provider", "status"), pairwise(PROTOCOLS, PROTOCOLS, [400, 429]))
def test_an_error_that_goes_on_for_long_is_told_by_its_beginning_and_broken_off(
    client: str, provider: str, status: int
) -> None:
    # It once was read up to the limit of answers, and then decoded, up to three times.
    long = b'{"error":{"message":"the reason","junk":[' + b"[%b]," % (b"1," * 499 + b"1") * 300
    reply = Reply(
        status=status, headers=(("content-type", "application/json"),), steps=(long, stay_silent), chunked=True
    )
    with running([reply, tells(provider)]) as house:
        told = house.post(PATHS[client], question(client, provider))
        assert (told.status, "the reason" in message_of(client, told)) == (status, True)
        assert text_of(client, house.post(PATHS[client], question(client, provider)).json()) == SAID


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT])
def test_a_long_error_in_a_successful_answer_is_told_in_the_clients_envelope(protocol: str) -> None:
    error = {**error_body(protocol, "invalid_request_error", "the reason"), "junk": "x" * 300_000}
    with running([whole(error)]) as house:
        told = house.post(PATHS[protocol], question(protocol, protocol))
        assert (told.status, message_of(protocol, told), len(told.body) < 1000) == (400, "the reason", True)


class Crumbs:
    """A provider's answer that comes two bytes at a time."""

    status = 200
    headers: HeaderList
    renewed = 0

    def __init__(self, count: int) -> None:
        self.headers = []
        self._count = count

    async def head(self) -> None: ...

    async def read(self, limit: int) -> bytes:
        raise AssertionError("it is pumped")

    def take_complete(self) -> None: ...

    async def pump(self, take: Callable[[bytes], None]) -> None:
        for count in range(self._count):
            take(b"%02d" % (count % 100))

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def abort(self, error: Exception) -> None: ...

    def close(self) -> None: ...


def test_an_answer_in_tiny_pieces_takes_no_more_than_a_few_times_its_size() -> None:
    # Two-byte chunks: 8 MiB cost 227 MiB.
    count = 50_000

    async def read(house: House) -> tuple[int, int]:
        service = house.app.runtime
        record = Record(id="req_1", client_protocol=CHAT, path="", started=service.clock(), time=0)
        asked = ClientRequest(api_path_of(PATHS[CHAT]), [], {})
        exchange = Exchange(service, asked, DetachedClient(), service.builder_of(record))
        exchange.call = Crumbs(count)
        tracemalloc.start()
        try:
            body = await _read(exchange)
            return len(body), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            exchange.end()

    with running() as house:
        size, peak = house.run(read(house))
    assert size == 2 * count
    assert peak < 4 * size


@pytest.mark.parametrize("origin", [CHAT, RESPONSES])
def test_item_10_a_loop_goes_on_at_a_provider_that_refuses_the_ids_of_the_last(origin: str) -> None:
    tools = [{"name": "add", "input_schema": {"type": "object", "properties": {}}}]
    stop = {CHAT: "tool_calls", RESPONSES: "completed"}[origin]
    calling = Turn(stop=stop, calls=(Call("functions.add:0", "add", '{"a":2}'),))
    with running([whole(answer(origin, calling)), tells(MESSAGES), whole(answer(origin, calling))]) as house:
        told = house.post("/v1/messages", question(MESSAGES, origin, tools=tools) | BUDGET)
        result = {"type": "tool_result", "tool_use_id": "functions.add:0", "content": "4"}
        turn = {"role": "assistant", "content": told.json()["content"]}
        said: Object = {"messages": [LOOP[0], turn, {"role": "user", "content": [result]}]}
        assert house.post("/v1/messages", question(MESSAGES, MESSAGES, tools=tools) | said).status == 200
        sent = house.provider.received[1].json()
        changed = dig(sent, "messages", 1, "content", 0, "id")
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(changed))
        assert dig(sent, "messages", 2, "content", 0, "tool_use_id") == changed
        # Whoever said it sees it as it was said.
        house.post("/v1/messages", question(MESSAGES, origin, tools=tools) | said)
        assert b'"functions.add:0"' in house.provider.received[2].body


@pytest.mark.parametrize("apart", [False, True], ids=["at once", "apart"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_item_5_nothing_is_asked_again_after_content(protocol: str, apart: bool) -> None:
    words, code = failure_words(protocol)
    said = b"".join(step for step in streams(protocol).steps if isinstance(step, bytes))
    # Whether they come in one piece is chance, and must not decide.
    at = said.index(SAID.encode()[:4])
    begun, broken = said[: said.index(b"\n\n", at) + 2], error_frame(protocol, "invalid_request_error", words, code)
    with running([stream(begun, take_turns, broken) if apart else stream(begun + broken), streams(protocol)]) as house:
        told = house.post(PATHS[protocol], question(protocol, protocol, stream=True) | REPLAYED[protocol])
        assert len(house.provider.received) == 1
        assert words.encode() in told.body.replace(b"\\u0060", b"`")
