"""Reasoning survives (mapping.md §27.3): the proof of a first answer is in the second request, byte for byte.

A provider thinks and calls a tool. The client, who speaks another protocol, echoes what it got and adds the result.
Whatever the provider issued must stand in what it is sent next, through whole answers and through streams.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.translate import TranslatedRequest, translate_request, translate_response
from dragoman.wire.json import decode_object
from tests.laws.journey import STEADY, asked, question, translated_stream
from tests.laws.official import accumulated
from tests.laws.shapes import as_list, as_object
from tests.laws.strategies import CHAT, MESSAGES, PAIRS, RESPONSES
from tests.laws.telling import tell

PROOFS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40) | st.sampled_from(
    ["EqQBCkYIBxgCKkA=", "x" * 3000, "line\nbreak\u2028 😀", "rsv1.not-an-envelope"]
)
THOUGHTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(str.strip)
_USAGE: dict[str, JsonObject] = {
    MESSAGES: {"input_tokens": 5, "output_tokens": 7},
    CHAT: {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    RESPONSES: {
        "input_tokens": 5,
        "output_tokens": 7,
        "total_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}
_CALL = {"id": "call_1", "name": "get_weather", "arguments": '{"city": "Köln"}'}


def _messages_answer(thought: JsonObject) -> JsonObject:
    call: JsonObject = {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Köln"}}
    return {
        "type": "message",
        "id": "msg_01AbCdEfGhIjKlMnOpQr",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [thought, {"type": "text", "text": "I look."}, call],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": _USAGE[MESSAGES],
    }


def _chat_answer(members: JsonObject) -> JsonObject:
    function: JsonObject = {"name": _CALL["name"], "arguments": _CALL["arguments"]}
    message: JsonObject = {
        "role": "assistant",
        "content": None,
        **members,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    return {
        "id": "chatcmpl-AbCdEfGhIjKlMnOpQr",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "deepseek-chat",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": _USAGE[CHAT],
    }


def _responses_answer(item: JsonObject) -> JsonObject:
    call: JsonObject = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": _CALL["name"],
        "arguments": _CALL["arguments"],
        "status": "completed",
    }
    return {
        "id": "resp_AbCdEfGhIjKlMnOpQr",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5",
        "output": [item, call],
        "usage": _USAGE[RESPONSES],
    }


def _thinking(text: str, proof: str) -> JsonObject:
    return {"type": "thinking", "thinking": text, "signature": proof}


def _withheld(text: str, proof: str) -> JsonObject:
    return {"type": "thinking", "thinking": "", "signature": proof}


def _redacted(text: str, proof: str) -> JsonObject:
    return {"type": "redacted_thinking", "data": proof}


def _item(text: str, proof: str) -> JsonObject:
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": text}, {"type": "summary_text", "text": "and more"}],
        "encrypted_content": proof,
    }


def _silent_item(text: str, proof: str) -> JsonObject:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": proof}


def _raw_item(text: str, proof: str) -> JsonObject:
    content: JsonValue = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": content, "encrypted_content": proof}


def _content(text: str, proof: str) -> JsonObject:
    return {"reasoning_content": text}


def _reasoning(text: str, proof: str) -> JsonObject:
    return {"reasoning": text}


def _details(text: str, proof: str) -> JsonObject:
    entry: JsonObject = {"type": "reasoning.text", "text": text, "signature": proof, "format": "unknown", "index": 0}
    return {"reasoning_details": [entry]}


ORIGINS = {
    (MESSAGES, "a signed block"): (_thinking, _messages_answer),
    (MESSAGES, "a signed block without text"): (_withheld, _messages_answer),
    (MESSAGES, "a redacted block"): (_redacted, _messages_answer),
    (RESPONSES, "an item with summaries"): (_item, _responses_answer),
    (RESPONSES, "an item without text"): (_silent_item, _responses_answer),
    (RESPONSES, "an item with its raw text"): (_raw_item, _responses_answer),
    (CHAT, "reasoning_content"): (_content, _chat_answer),
    (CHAT, "reasoning"): (_reasoning, _chat_answer),
    (CHAT, "reasoning_details"): (_details, _chat_answer),
}


def echoed(client: str, answer: JsonObject) -> JsonObject:
    """The client's next request: the question, the answer as it came, and the result of the call."""
    body = question(client)
    if client == MESSAGES:
        result: JsonValue = {"type": "tool_result", "tool_use_id": "call_1", "content": "18 degrees"}
        turn: list[JsonValue] = [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": [result]},
        ]
        return {**body, "messages": [*as_list(body["messages"]), *turn]}
    if client == CHAT:
        message = as_object(as_list(answer["choices"])[0])["message"]
        output: JsonValue = {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"}
        return {**body, "messages": [*as_list(body["messages"]), message, output]}
    first: JsonValue = {"type": "message", "role": "user", "content": "Look."}
    last: JsonValue = {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees"}
    return {**body, "input": [first, *as_list(answer["output"]), last]}


def said_again(provider: str, body: JsonObject) -> list[JsonValue]:
    """Every object of the second request in which the provider may find its proof."""
    if provider == MESSAGES:
        turns = [as_object(turn) for turn in as_list(body["messages"])]
        return [block for turn in turns if turn["role"] == "assistant" for block in as_list(turn["content"])]
    if provider == CHAT:
        return [turn for turn in as_list(body["messages"]) if as_object(turn)["role"] == "assistant"]
    return as_list(body["input"])


def first_answer(
    client: str, request: TranslatedRequest, provider: str, answer: JsonObject, streamed: bool
) -> JsonObject:
    if not streamed:
        told = translate_response(answer, source=provider, target=client, request=request, mint=STEADY)
        return decode_object(told.body)
    return accumulated(client, translated_stream(provider, client, tell(provider, answer, 4).stream, request))


CASES = [
    (provider, form, client, streamed)
    for provider, form in ORIGINS
    for upstream, client in PAIRS
    if upstream == provider
    for streamed in (False, True)
]


@pytest.mark.parametrize(("provider", "form", "client", "streamed"), CASES)
@given(text=THOUGHTS, proof=PROOFS)
def test_the_proof_comes_back_to_its_issuer(
    provider: str, form: str, client: str, streamed: bool, text: str, proof: str
) -> None:
    make, wrap = ORIGINS[(provider, form)]
    original = make(text, proof)
    request = asked(client, provider)
    answer = first_answer(client, request, provider, wrap(original), streamed)
    second = translate_request(echoed(client, answer), source=client, target=provider)
    found = said_again(provider, decode_object(second.body))
    if provider == CHAT:
        message = as_object(found[0])
        assert {name: message.get(name) for name in original} == original
    else:
        assert original in found
        order = [as_object(one)["type"] for one in found if as_object(one).get("type") != "message"]
        assert order.index(original["type"]) < order.index("tool_use" if provider == MESSAGES else "function_call")


@pytest.mark.parametrize(("provider", "form", "client", "streamed"), CASES)
def test_another_model_never_sees_the_proof(provider: str, form: str, client: str, streamed: bool) -> None:
    make, wrap = ORIGINS[(provider, form)]
    original = make("deep thoughts", "PROOFPROOF")
    request = asked(client, provider)
    answer = first_answer(client, request, provider, wrap(original), streamed)
    second = translate_request(echoed(client, answer), source=client, target=provider, model="another-model")
    assert original not in said_again(provider, decode_object(second.body))
    assert b"PROOFPROOF" not in second.body
    assert b"deep thoughts" not in second.body
    assert any(loss["feature"] in ("thinking", "thinking_signature") for loss in second.losses)
