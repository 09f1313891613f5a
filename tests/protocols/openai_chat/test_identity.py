"""Law 1: what this protocol said comes back as it was said, with nothing in the ledger."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.model.request import Reasoning, Request
from dragoman.model.response import Response
from dragoman.model.tools import ChoiceMode, ToolChoice, ToolRef
from dragoman.protocols.codec import TranslationContext
from dragoman.protocols.openai_chat import CODEC
from dragoman.rules.tool_table import ToolTable
from dragoman.translate import translate_request
from dragoman.wire.json import decode_object, encode
from tests.protocols.holding import unheld
from tests.protocols.openai_chat.room import C, mint, target

_PDF = "data:application/pdf;base64,AAAA"

REQUESTS: dict[str, JsonObject] = {
    "every scalar member": {
        "model": "m",
        "messages": [{"role": "user", "content": "hi", "name": "ann", "x_message": 1}],
        "stream": True,
        "stream_options": {"include_usage": True, "include_obfuscation": False, "x": 1},
        "max_completion_tokens": 10,
        "n": 2,
        "temperature": 0.5,
        "top_p": 1,
        "top_k": 4,
        "min_p": 0.1,
        "frequency_penalty": 0.1,
        "presence_penalty": -1,
        "stop": ["a", "b"],
        "seed": 7,
        "logit_bias": {"1": 5},
        "logprobs": True,
        "top_logprobs": 3,
        "response_format": {"type": "json_object"},
        "reasoning_effort": "low",
        "verbosity": "high",
        "modalities": ["text", "audio"],
        "audio": {"voice": "v", "format": "wav"},
        "prediction": {"type": "content", "content": "p"},
        "web_search_options": {
            "search_context_size": "low",
            "user_location": {"type": "approximate", "approximate": {"city": "Bern"}},
        },
        "moderation": {"model": "x"},
        "metadata": {"k": "v"},
        "store": True,
        "service_tier": "flex",
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
        "prompt_cache_retention": "24h",
        "safety_identifier": "s",
        "user": "u",
        "provider": {"order": ["x"]},
    },
    "a tool loop with reasoning": {
        "model": "m",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "because",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"a": 1.0}'},
                        "extra_content": {"google": {"thought_signature": "s"}},
                    },
                    {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "raw"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
            {"role": "tool", "tool_call_id": "c2", "content": "", "name": "g"},
            {
                "role": "assistant",
                "content": "done",
                "reasoning_content": "think\n\nmore",
                "reasoning_details": [
                    {
                        "index": 0,
                        "type": "reasoning.text",
                        "text": "think",
                        "signature": "sig",
                        "format": "anthropic-claude-v1",
                        "model": "claude-x",
                    },
                    {"index": 1, "type": "reasoning.encrypted", "data": "d", "format": "anthropic-claude-v1"},
                    {
                        "index": 2,
                        "type": "reasoning.summary",
                        "summary": "more",
                        "id": "rs_1",
                        "format": "openai-responses-v1",
                    },
                    {
                        "index": 3,
                        "type": "reasoning.encrypted",
                        "data": "e",
                        "id": "rs_1",
                        "format": "openai-responses-v1",
                    },
                ],
            },
            {"role": "assistant", "content": "x", "audio": {"id": "a1"}, "refusal": "no"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "d",
                    "parameters": {"type": "object"},
                    "strict": False,
                    "y": 1,
                },
                "x": 2,
            },
            {
                "type": "custom",
                "custom": {
                    "name": "g",
                    "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}},
                },
            },
            {"type": "other", "config": 1},
        ],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
        },
        "parallel_tool_calls": False,
        "max_tokens": 9,
        "user": "u",
    },
    "media": {
        "model": "m",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "https://x/y", "detail": "original", "z": 1}},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
                    {"type": "file", "file": {"file_data": _PDF, "filename": "f.pdf"}},
                    {"type": "file", "file": {"file_id": "file-1"}},
                    {"type": "text", "text": "t", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
                    {"type": "video_url", "video_url": {"url": "https://x"}},
                ],
            }
        ],
    },
    "the legacy form": {
        "model": "m",
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "r"},
            {"role": "function", "name": "g", "content": "orphan"},
        ],
        "functions": [{"name": "f", "parameters": {"type": "object"}}],
        "function_call": "auto",
        "thinking": {"type": "enabled", "budget_tokens": 5000},
    },
    "reasoning under one roof": {
        "model": "m",
        "messages": [{"role": "assistant", "content": "x", "reasoning": "r", "reasoning_content": "r"}],
        "reasoning": {"effort": "high", "max_tokens": 10, "exclude": True},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True, "q": 1}},
        "tool_choice": "none",
    },
}

RESPONSES: dict[str, JsonObject] = {
    "text, citations, reasoning and usage": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 5,
        "model": "m",
        "system_fingerprint": "fp",
        "service_tier": "default",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "native_finish_reason": "STOP",
                "stop_reason": "END",
                "logprobs": {
                    "content": [{"token": "h", "logprob": -0.1, "bytes": None, "top_logprobs": []}],
                    "refusal": None,
                },
                "message": {
                    "role": "assistant",
                    "content": "hi",
                    "refusal": None,
                    "reasoning": "r",
                    "reasoning_details": [{"type": "reasoning.text", "text": "r", "index": 0, "format": "unknown"}],
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 2},
                        }
                    ],
                    "provider_specific_fields": {"a": 1},
                },
            },
            {"index": 1, "finish_reason": "length", "message": {"role": "assistant", "content": "ho"}},
        ],
        "usage": {
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 1, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 1, "accepted_prediction_tokens": 0},
            "cost": 0.5,
        },
    },
    "calls": {
        "id": "chatcmpl-2",
        "object": "chat.completion",
        "created": 5,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}},
                        {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}},
                    ],
                },
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 4,
            "total_tokens": 12,
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
    },
}


def tidy(value: JsonValue) -> JsonValue:
    """The value without nulls, which count as absence here, and with one-part text as a string."""
    if isinstance(value, dict):
        return {key: tidy(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [tidy(member) for member in value]
    return value


@pytest.mark.parametrize("body", REQUESTS.values(), ids=REQUESTS)
def test_a_request_goes_on_as_it_came_and_is_read_whole(body: JsonObject) -> None:
    said = encode(body)
    went = translate_request(said, source=C, target=C, strict=True)
    assert (went.body, went.losses) == (said, ())
    wire = decode_object(said)
    missing = [one for one in unheld(wire, CODEC.decode_request(wire)) if one not in MEANT]
    assert missing == []


MEANT = (
    # Words of closed sets are enumerations.
    "function_call: 'auto'",
    "tool_choice: 'none'",
    # The text beside the details that repeats them is held by these.
    "messages.5.reasoning_content: 'think\\n\\nmore'",
)


@pytest.mark.parametrize("body", RESPONSES.values(), ids=RESPONSES)
def test_an_answer_comes_home_as_it_was(body: JsonObject) -> None:
    asked = TranslationContext(request=Request(origin=C, model="alias"), target=target(), table=ToolTable())
    ledger = Ledger()
    response = CODEC.decode_response(body, asked, Ledger())
    assert isinstance(response, Response)
    assert tidy(CODEC.encode_response(response, asked, mint(), ledger)) == tidy(body)
    assert len(ledger) == 0


@pytest.mark.parametrize(
    ("members", "reasoning"),
    [
        (
            {"reasoning": {"effort": "low"}, "thinking": {"type": "enabled", "budget_tokens": 4096}},
            Reasoning(effort="low", budget=4096),
        ),
        (
            {"reasoning_effort": "low", "thinking": {"type": "enabled", "budget_tokens": 4096}},
            Reasoning(effort="low", budget=4096),
        ),
        ({"thinking": {"type": "disabled"}}, Reasoning(effort="none")),
        (
            {"reasoning": {"effort": "low", "max_tokens": 9, "mood": 1}},
            Reasoning(effort="low", budget=9, extras=Extras(origin=C, fields={"reasoning": {"mood": 1}})),
        ),
        ({"reasoning_effort": "low", "thinking_budget": 9}, Reasoning(effort="low", budget=9)),
    ],
)
def test_every_spelling_of_reasoning_is_read(members: JsonObject, reasoning: Reasoning) -> None:
    request = CODEC.decode_request({"model": "m", "messages": [{"role": "user", "content": "hi"}], **members})
    assert (request.reasoning, request.extras) == (reasoning, None)


@pytest.mark.parametrize(
    ("members", "choice"),
    [
        ({"function_call": "none"}, ToolChoice(mode=ChoiceMode.NONE)),
        (
            {"function_call": {"name": "f"}, "functions": [{"name": "f"}]},
            ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name="f")),
        ),
    ],
)
def test_the_older_choice_is_read(members: JsonObject, choice: ToolChoice) -> None:
    request = CODEC.decode_request({"model": "m", "messages": [{"role": "user", "content": "hi"}], **members})
    assert (request.tool_choice, request.extras) == (choice, None)
