"""Law 1 in this room: what was said comes back as it was, up to the protocol's own shorthands."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.response import Response
from dragoman.protocols.openai_responses import CODEC, NAME
from dragoman.translate import translate_request
from dragoman.wire.json import decode_object, encode
from tests.protocols.holding import unheld
from tests.protocols.openai_responses.asking import MINT, asked_here, response_body

TEXT: JsonObject = {"type": "input_text", "text": "x"}
REQUESTS: dict[str, JsonObject] = {
    "an agent's turn": {
        "model": "gpt-5",
        "instructions": "be brief",
        "input": [
            {"type": "message", "role": "developer", "content": [TEXT]},
            {"type": "message", "role": "user", "content": [TEXT, {"type": "input_image", "image_url": "https://a/i"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA", "status": "completed"},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{ }", "namespace": "n"},
            {"type": "function_call_output", "call_id": "c1", "output": "ok", "status": "completed"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "raw"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": [TEXT, TEXT]},
            {
                "type": "local_shell_call",
                "id": "l",
                "call_id": "c3",
                "action": {"type": "exec", "command": ["ls"], "env": {}},
            },
            {"type": "local_shell_call_output", "id": "l", "output": "a"},
            {"type": "item_reference", "id": "msg_9"},
        ],
        "tools": [
            {"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "function", "name": "f"}]},
            {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "g"}},
            {"type": "local_shell"},
        ],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "patch"}]},
        "parallel_tool_calls": True,
        "reasoning": {"effort": "high", "summary": "auto", "context": "all_turns"},
        "text": {"verbosity": "low", "format": {"type": "text"}, "new": 1},
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "store": False,
        "stream": True,
        "prompt_cache_key": "k",
    },
    "every scalar": {
        "model": "gpt-5",
        "input": [{"type": "message", "role": "user", "content": [TEXT]}],
        "previous_response_id": "resp_1",
        "max_output_tokens": 5,
        "max_tool_calls": 2,
        "temperature": 0.50,
        "top_p": 1,
        "frequency_penalty": 0,
        "top_logprobs": 3,
        "user": "u",
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "background": False,
        "truncation": "auto",
        "prompt": {"id": "p"},
        "moderation": {"model": "m"},
        "stream": False,
        "stream_options": {"include_obfuscation": False, "new": 1},
        "prompt_cache_options": {"mode": "implicit", "ttl": "30m", "prewarm": True, "comparison_response_id": "r"},
        "prompt_cache_retention": "24h",
        "context_management": [{"type": "compaction", "compact_threshold": 9}],
        "conversation": {"id": "c"},
        "something_new": {"deep": [None]},
    },
}


@pytest.mark.parametrize("body", REQUESTS.values(), ids=REQUESTS.keys())
def test_a_request_goes_on_as_it_came_and_is_read_whole(body: JsonObject) -> None:
    said = encode(body)
    went = translate_request(said, source=NAME, target=NAME, strict=True)
    assert (went.body, went.losses) == (said, ())
    wire = decode_object(said)
    missing = unheld(wire, CODEC.decode_request(wire))
    assert missing == []


def test_an_answer_comes_back() -> None:
    body = response_body(
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "incomplete",
            "phase": "commentary",
            "new": 1,
            "content": [{"type": "output_text", "text": "a", "annotations": [{"type": "file_path", "file_id": "f"}]}],
        },
        {"type": "message", "id": "msg_2", "role": "assistant", "status": "completed", "content": []},
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "", "status": "incomplete"},
        {"type": "shell_call", "id": "sh_1", "call_id": "d", "action": {"commands": ["ls"]}, "status": "completed"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "gA"},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAEC"},
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
        usage={"input_tokens": 1, "output_tokens": 2, "total_tokens": 9, "new": {}},
        tools=[],
        something_new=[1],
    )
    wire = decode_object(encode(body))
    response = CODEC.decode_response(wire, asked_here(), Ledger())
    assert isinstance(response, Response)
    assert decode_object(encode(CODEC.encode_response(response, asked_here(), MINT, Ledger()))) == wire
