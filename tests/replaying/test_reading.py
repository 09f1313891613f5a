"""The plain reading of whole answers, in the ways in which servers differ."""

from __future__ import annotations

import json

import pytest

from tools.replaying.protocols import CHAT, MESSAGES, RESPONSES, Object
from tools.replaying.reading import read_failure, read_whole
from tools.replaying.said import CALLS, FILTERED, LENGTH, STOP, Call, Counts


def _chat(message: Object, **members: object) -> Object:
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **members}


def test_messages() -> None:
    said = read_whole(
        MESSAGES,
        {
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s1"},
                {"type": "redacted_thinking", "data": "s2"},
                {"type": "text", "text": "a"},
                {"type": "server_tool_use", "id": "x"},
                {"type": "text", "text": "b"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}},
            ],
            "stop_reason": "tool_use",
            "usage": {
                "input_tokens": 1,
                "cache_read_input_tokens": 2,
                "cache_creation_input_tokens": 4,
                "output_tokens": 8,
            },
        },
    )
    assert (said.texts, said.reasoning, said.seals) == (["a", "b"], "hm", ["s1", "s2"])
    assert (said.calls, said.end, said.foreign) == ([Call("t1", "f", {"x": 1})], CALLS, ["server_tool_use"])
    assert said.counts == Counts(7, 8, 2)


def test_messages_refusal_tells_why() -> None:
    body: Object = {"content": [], "stop_reason": "refusal", "stop_details": {"explanation": "no"}}
    said = read_whole(MESSAGES, body)
    assert (said.text, said.end) == ("no", FILTERED)


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_text": "hm"},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
    ],
)
def test_chat_reasoning_has_many_names(message: Object) -> None:
    assert read_whole(CHAT, _chat(message)).reasoning == "hm"


def test_chat_seals() -> None:
    call = {
        "id": "c",
        "function": {"name": "f", "arguments": ""},
        "extra_content": {"google": {"thought_signature": "s3"}},
    }
    said = read_whole(
        CHAT,
        _chat(
            {
                "reasoning_opaque": "s0",
                "reasoning_details": [{"type": "reasoning.encrypted", "data": "s1"}],
                "thinking_blocks": [{"thinking": "", "signature": "s2"}],
                "tool_calls": [call],
            }
        ),
    )
    assert said.seals == ["s0", "s1", "s2", "s3"]
    assert said.calls == [Call("c", "f", {})]


def test_chat_empty_function_call_is_none() -> None:
    said = read_whole(CHAT, _chat({"content": "a", "function_call": {"name": "", "arguments": ""}}))
    assert (said.calls, said.text) == ([], "a")


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 3}, Counts(9, 1, 3)),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}, Counts(9, 1, 4)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 1,
                "total_tokens": 15,
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            Counts(9, 6, None),
        ),
    ],
)
def test_chat_counts(usage: Object, counts: Counts) -> None:
    assert read_whole(CHAT, _chat({"content": "a"}, usage=usage)).counts == counts


def test_chat_counts_elsewhere() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    assert read_whole(CHAT, _chat({}, x_groq={"usage": usage})).counts == Counts(9, 1, None)
    body: Object = {"choices": [{"message": {}, "usage": usage}]}
    assert read_whole(CHAT, body).counts == Counts(9, 1, None)


@pytest.mark.parametrize(
    ("reason", "end"), [("model_length", LENGTH), ("function_call", CALLS), ("", None), ("content_filter", FILTERED)]
)
def test_chat_ends(reason: str, end: str | None) -> None:
    assert read_whole(CHAT, {"choices": [{"message": {}, "finish_reason": reason}]}).end == end


def test_responses() -> None:
    said = read_whole(
        RESPONSES,
        {
            "status": "completed",
            "output": [
                {"type": "reasoning", "summary": [{"text": "h"}, {"text": "m"}], "encrypted_content": "s"},
                {
                    "type": "message",
                    "content": [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
                },
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"x":1}'},
                {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "raw"},
                {"type": "web_search_call"},
            ],
            "usage": {"input_tokens": 3, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 1}},
        },
    )
    assert (said.reasoning, said.seals, said.text, said.refused) == ("hm", ["s"], "ab", True)
    assert said.calls == [Call("c", "f", {"x": 1}), Call("d", "g", "raw")]
    assert (said.end, said.counts, said.foreign) == (CALLS, Counts(3, 4, 1), ["web_search_call"])


def test_responses_vendor_calls_wait_until_they_are_answered() -> None:
    call: Object = {"type": "shell_call", "call_id": "c"}
    assert read_whole(RESPONSES, {"status": "completed", "output": [call]}).end == CALLS
    answered: Object = {"status": "completed", "output": [call, {"type": "shell_call_output", "call_id": "c"}]}
    assert read_whole(RESPONSES, answered).end == STOP


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "no"}}, "no"),
        ({"error": "no"}, "no"),
        ({"detail": "no"}, "no"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": '{"error":{"message":"no"}}'}}}, "no"),
    ],
)
def test_failures(body: Object, text: str) -> None:
    assert read_failure(json.dumps(body).encode()).error == text


def test_failure_that_is_no_json_is_its_own_message() -> None:
    assert read_failure(b"upstream gone").error == "upstream gone"
