"""Proofs of calls and messages: through clients of every protocol, and back on the right call."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.protocols.openai_chat.call_signatures import spellings
from dragoman.rules import ids
from dragoman.rules.capabilities import capabilities_of
from dragoman.translate import translate_request, translate_response
from dragoman.wire.json import decode_object
from tests.protocols.openai_chat.room import A, C, ask, chunk, dig, heard, objects, told
from tests.protocols.openai_chat.second_turn import (
    CALL,
    CLIENTS,
    MODES,
    SIGNED,
    Conversation,
    Deltas,
    answered,
    call,
    lost,
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "members",
    [
        {"extra_content": SIGNED},
        {"provider_specific_fields": {"thought_signature": "sig-a"}},
        {"thought_signature": "sig-a"},
        {"function": {**CALL, "provider_specific_fields": {"thought_signature": "sig-a"}}},
    ],
    ids=["extra_content", "provider_specific_fields", "bare", "on the function"],
)
def test_item_2_a_proof_comes_back_on_its_call(client: str, mode: str, members: JsonObject) -> None:
    # Of parallel calls the first is proven; the proof must not move to another.
    calls: list[JsonObject] = [{**call("c1"), **members}, call("c2")]
    deltas: Deltas = [{"tool_calls": [{"index": 0, **calls[0]}]}, {"tool_calls": [{"index": 1, **calls[1]}]}]
    conversation = answered(
        client, mode, {"content": None, "tool_calls": JsonList(calls)}, deltas, "gemini-3-pro-preview", "google"
    )
    messages = conversation.messages()
    assert messages[1]["tool_calls"] == calls
    assert lost(conversation) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_item_2_a_proof_in_a_later_fragment_comes_back_on_its_call(client: str) -> None:
    opening: JsonObject = {"index": 0, "id": "c1", "type": "function", "function": {"name": "weather"}}
    conversation = answered(
        client,
        "streamed",
        {},
        [
            {"tool_calls": [opening]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":"Oslo"}'}}]},
            {"tool_calls": [{"index": 0, "extra_content": SIGNED}]},
            {"tool_calls": [{"index": 0, "extra_content": SIGNED}]},
        ],
        "gemini-3-pro-preview",
        "google",
    )
    assert conversation.messages()[1]["tool_calls"] == [call("c1", extra_content=SIGNED)]
    assert lost(conversation) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("client", CLIENTS)
def test_item_2_a_proof_of_the_text_comes_back_on_the_message(client: str, mode: str) -> None:
    conversation = Conversation(client, "gemini-3-pro-preview", "google")
    if mode == "whole":
        conversation.hears({"content": "Hello.", "extra_content": SIGNED}, finish="stop")
    else:
        conversation.streams({"content": "Hel"}, {"content": "lo.", "extra_content": SIGNED}, finish="stop")
    conversation.says("and now?")
    message = conversation.messages()[1]
    assert message == {"role": "assistant", "content": "Hello.", "extra_content": SIGNED}
    assert lost(conversation) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_item_2_a_proof_finds_its_call_although_the_id_was_changed(client: str) -> None:
    long = "call-" + "x" * 80 + ":0"
    conversation = answered(
        client, "whole", {"content": None, "tool_calls": [call(long, extra_content=SIGNED)]}, [], "gemini-3", "google"
    )
    (only,) = objects(conversation.messages()[1], "tool_calls")
    assert only["extra_content"] == SIGNED


def test_item_2_ids_match_whatever_rule_changed_them() -> None:
    long = "functions.weather:0" * 9
    assert all(ids.call_id(long, rule) in spellings(long) for rule in (ids.ANTHROPIC, ids.CHAT, ids.RESPONSES))
    assert "other" not in spellings(long)


@pytest.mark.parametrize("client", CLIENTS)
def test_item_2_another_model_does_not_get_the_proof(client: str) -> None:
    conversation = answered(
        client, "whole", {"content": None, "tool_calls": [call(extra_content=SIGNED)]}, [], "gemini-3-pro", "google"
    )
    conversation.model, conversation.upstream = "gpt-5", "openai"
    (only,) = objects(conversation.messages()[1], "tool_calls")
    assert "extra_content" not in only
    assert lost(conversation) == [("dropped", "thinking_signature")]


def test_item_2_a_proof_whose_call_is_gone_is_reported() -> None:
    conversation = answered(
        A, "whole", {"content": "x", "tool_calls": [call(extra_content=SIGNED)]}, [], "gemini-3-pro", "google"
    )
    kept = [block for block in objects(conversation.history[1], "content") if block["type"] != "tool_use"]
    conversation.history[1:] = [{"role": "assistant", "content": JsonList(kept)}, {"role": "user", "content": "so?"}]
    assert "extra_content" not in conversation.messages()[1]
    assert lost(conversation) == [("dropped", "thinking_signature")]


@pytest.mark.parametrize("client", CLIENTS)
def test_item_2_gemini_3_takes_a_stand_in_for_calls_of_another_model(client: str) -> None:
    conversation = answered(client, "whole", {"content": None, "tool_calls": [call("c1"), call("c2")]}, [])
    conversation.model, conversation.upstream = "gemini-3-pro-preview", "google"
    first, second = objects(conversation.messages()[1], "tool_calls")
    assert first["extra_content"] == {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert "extra_content" not in second
    assert lost(conversation) == [("invented", "thinking_signature")]


@pytest.mark.parametrize(
    ("model", "upstream", "wanted"),
    [
        ("gemini-3-pro-preview", "google", True),
        ("models/gemini-3.1-flash", "google", True),
        ("gemini-flash-latest", "google", True),
        ("gemini-2.5-pro", "google", False),
        ("google/gemini-3-pro-preview", "openrouter", False),
    ],
)
def test_item_2_who_takes_a_stand_in(model: str, upstream: str, wanted: bool) -> None:
    assert bool(capabilities_of(C, model, upstream).call_proof) is wanted


def test_item_2_a_chat_client_gets_the_proof_where_the_provider_put_it() -> None:
    body: JsonObject = {
        "id": "chatcmpl-u",
        "created": 7,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "Hm.",
                    "extra_content": {"google": {"thought_signature": "sig-m"}},
                    "tool_calls": [call("c1", extra_content=SIGNED), call("c2")],
                },
            }
        ],
    }
    frames = translate_response(body, source=C, target=C, stream=True).body
    deltas = [dig(one, "choices", 0, "delta") for one in _chunks(frames) if one["choices"]]
    openings = [
        fragment for delta in deltas if isinstance(delta, dict) for fragment in objects(delta.get("tool_calls") or [])
    ]
    proofs = {str(one["id"]): one.get("extra_content") for one in openings if "id" in one}
    assert proofs == {"c1": SIGNED, "c2": None}
    assert {"extra_content": {"google": {"thought_signature": "sig-m"}}} in deltas


def test_item_2_a_late_proof_reaches_a_chat_client_on_its_call() -> None:
    opening: JsonObject = {"index": 0, **call("c1")}
    asked = ask(origin=C, provider=C)
    events = heard(
        [chunk({"tool_calls": [opening]}), chunk({"tool_calls": [{"index": 0, "extra_content": SIGNED}]})], asked
    )
    deltas = [
        dig(one, "choices", 0, "delta") for one in told(events, asked) if isinstance(one, dict) and one["choices"]
    ]
    assert {"tool_calls": [{"index": 0, "extra_content": SIGNED}]} in deltas


def test_item_2_a_chat_client_s_own_proof_is_a_loss_abroad() -> None:
    message: JsonObject = {"role": "assistant", "content": None, "tool_calls": [call("c1", extra_content=SIGNED)]}
    result: JsonObject = {"role": "tool", "tool_call_id": "c1", "content": "rain"}
    body: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "hi"}, message, result]}
    asked = translate_request(body, source=C, target=A)
    assert ("dropped", "thinking_signature") in [(loss["fate"], loss["feature"]) for loss in asked.losses]


def _chunks(frames: bytes) -> list[JsonObject]:
    lines = [line[6:] for line in frames.split(b"\n") if line.startswith(b"data: {")]
    return [decode_object(line) for line in lines]


def test_item_2_a_proof_beside_reasoning_is_not_lost() -> None:
    conversation = Conversation(A, "gemini-3-pro", "google")
    conversation.streams(
        {"reasoning_content": "I greet", "extra_content": SIGNED}, {"content": "Hello."}, finish="stop"
    )
    conversation.says("and now?")
    assert conversation.messages()[1]["extra_content"] == SIGNED
