"""Law 1: what was decoded in this protocol is encoded as it was, with nothing in the ledger."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.response import Response
from dragoman.protocols.anthropic_messages import CODEC, NAME
from dragoman.translate import translate_request
from dragoman.wire.json import decode_object, encode
from tests.protocols.anthropic_messages.support import asked, mint, plain
from tests.protocols.holding import unheld

MARK: JsonObject = {"type": "ephemeral", "ttl": "1h"}

REQUESTS: dict[str, JsonObject] = {
    "a plain question": {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]},
    "every kind of user content": {
        "model": "m",
        "max_tokens": 0,
        "system": [{"type": "text", "text": "be good", "cache_control": MARK}, {"type": "text", "text": "and brief"}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look", "cache_control": {"type": "ephemeral", "new": 1}},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
                        "transformations": {"oversized_image": "downsize"},
                    },
                    {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
                    {"type": "image", "source": {"type": "hologram", "data": 1}},
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "t"},
                        "title": "T",
                        "context": "C",
                        "citations": {"enabled": True},
                    },
                    {
                        "type": "document",
                        "source": {"type": "content", "content": [{"type": "text", "text": "p", "x": 1}]},
                    },
                    {"type": "document", "source": {"type": "file", "file_id": "f1"}},
                    {
                        "type": "search_result",
                        "source": "https://x",
                        "title": "S",
                        "content": [{"type": "text", "text": "b"}],
                    },
                    {"type": "container_upload", "file_id": "f2"},
                    {"type": "brand_new", "value": 1.50},
                ],
                "unheard": True,
            }
        ],
    },
    "a tool loop with thinking, hosted tools and citations": {
        "model": "m",
        "max_tokens": 100,
        "stream": True,
        "messages": [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "secret"},
                    {"type": "thinking", "thinking": "unsigned", "signature": ""},
                    {
                        "type": "text",
                        "text": "found",
                        "citations": [
                            {
                                "type": "web_search_result_location",
                                "url": "https://x",
                                "title": "X",
                                "cited_text": "c",
                                "encrypted_index": "e",
                            }
                        ],
                    },
                    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
                    {
                        "type": "web_search_tool_result",
                        "tool_use_id": "srvtoolu_1",
                        "content": [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "z"}],
                    },
                    {"type": "server_tool_use", "id": "srvtoolu_2", "name": "web_fetch", "input": {"url": "u"}},
                    {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": [{"name": "n", "input_schema": {}}]},
                    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "n", "server_name": "s", "input": {}},
                    {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": "fine"},
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "f",
                        "input": {"a": 1.0, "b": 10**20},
                        "caller": {"type": "direct"},
                    },
                    {
                        "type": "tool_use",
                        "id": "toolu_2",
                        "name": "screenshot",
                        "input": {},
                        "toolset_name": "computer",
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, "cache_control": MARK},
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "toolset_name": "computer",
                        "content": [
                            {"type": "tool_reference", "tool_name": "f"},
                            {
                                "type": "browser_state",
                                "tabs": [{"tab_id": "1", "title": "t", "url": "u", "active": True}],
                            },
                        ],
                    },
                ],
            },
            {"role": "system", "content": "now hurry", "clear_at": "next_user_message"},
            {"role": "system", "content": [], "output_config": {"effort": "low", "more": 1}},
            {
                "role": "system",
                "content": [
                    {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}},
                    {
                        "type": "tool_addition",
                        "tool": {"type": "tool_definition", "definition": {"name": "g", "input_schema": {}}},
                    },
                    {"type": "tool_removal", "tool": {"type": "mcp_toolset_reference", "server_name": "s"}},
                ],
            },
        ],
    },
    "every kind of tool": {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "go"}],
        "tools": [
            {
                "name": "f",
                "description": "d",
                "input_schema": {"type": "object", "properties": {"z": {"minimum": 1.50}, "a": {}}},
                "strict": True,
                "defer_loading": True,
                "allowed_callers": ["direct"],
                "input_examples": [{"z": 1}],
                "eager_input_streaming": True,
                "cache_control": MARK,
            },
            {"type": "bash_20250124", "name": "bash"},
            {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 5},
            {"type": "computer_20251124", "name": "computer", "display_width_px": 10, "display_height_px": 20},
            {"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}, "cache_control": MARK},
            {"type": "browser_toolset_20260801"},
            {"type": "web_search_20260318", "name": "web_search", "max_uses": 3, "response_inclusion": "full"},
            {"type": "web_fetch_20250910", "name": "web_fetch", "blocked_domains": ["x"]},
            {"type": "code_execution_20250825", "name": "code_execution"},
            {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
            {"type": "advisor_20260301", "name": "advisor", "model": "n"},
            {
                "type": "mcp_toolset",
                "mcp_server_name": "b",
                "default_config": {"enabled": False},
                "configs": {"x": {"enabled": True}},
            },
            {"type": "mcp_toolset", "mcp_server_name": "a"},
        ],
        "mcp_servers": [
            {"type": "url", "url": "https://a", "name": "a", "authorization_token": "t"},
            {"type": "url", "url": "https://b", "name": "b"},
            {"type": "url", "url": "https://c", "name": "c", "tool_configuration": {"allowed_tools": ["q"]}},
        ],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": False},
    },
    "every setting": {
        "model": "m",
        "max_tokens": 9000,
        "messages": [{"role": "user", "content": "go"}],
        "temperature": 0.70,
        "top_p": 1,
        "top_k": 5,
        "stop_sequences": ["a", "b"],
        "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted", "block_binding": {"x": 1}},
        "output_config": {
            "effort": "max",
            "format": {"type": "json_schema", "schema": {"type": "object"}},
            "task_budget": {"total": 1},
        },
        "metadata": {"user_id": "u", "more": "m"},
        "service_tier": "standard_only",
        "speed": "fast",
        "cache_control": {"type": "ephemeral"},
        "context_management": {
            "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 5}}]
        },
        "thread": {"type": "create"},
        "container": {"skills": []},
        "fallbacks": "default",
        "tool_choice": {"type": "none"},
    },
    "older spellings and mixed edits": {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "go"}],
        "output_format": {"type": "json_schema", "schema": {}},
        "context_management": {
            "edits": [{"type": "clear_tool_uses_20250919"}, {"type": "compact_20260112", "instructions": "i"}]
        },
        "system": "s",
    },
    "a compacted conversation": {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "compaction", "content": "so far", "encrypted_content": "e"}]},
        ],
    },
}

RESPONSES: dict[str, JsonObject] = {
    "an answer of every kind": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "text": "x", "citations": None},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "1"}},
            {
                "type": "code_execution_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": {
                    "type": "code_execution_result",
                    "stdout": "1",
                    "stderr": "",
                    "return_code": 0,
                    "content": [],
                },
            },
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
            {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "container": {"id": "c"},
        "usage": {
            "input_tokens": 1,
            "cache_creation_input_tokens": 2,
            "cache_read_input_tokens": 3,
            "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 4,
            "output_tokens_details": {"thinking_tokens": 1, "more": 0},
            "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
            "service_tier": "standard",
        },
    },
    "a refusal": {
        "id": "msg_2",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": "refusal",
        "stop_sequence": None,
        "stop_details": {"type": "refusal", "category": "bio", "explanation": "no", "recommended_model": "n"},
        "usage": {"input_tokens": 1, "output_tokens": 0},
    },
    "a stop string": {
        "id": "msg_3",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": ""}],
        "stop_reason": "stop_sequence",
        "stop_sequence": "END",
        "usage": {"input_tokens": 1, "output_tokens": 0},
    },
}


def normal(value: JsonValue) -> JsonValue:
    """A value without what the protocol itself calls equal: strings for one text block, null for absence."""
    if isinstance(value, list):
        return [normal(one) for one in value]
    if not isinstance(value, dict):
        return value
    members: JsonObject = {key: normal(one) for key, one in value.items() if one is not None}
    for key in ("content", "system"):
        if isinstance(members.get(key), str) and members.get("type") != "compaction":
            members[key] = [{"type": "text", "text": members[key]}]
    if members.get("content") == [] and members.get("role") == "system":
        del members["content"]
    return members


@pytest.mark.parametrize("body", REQUESTS.values(), ids=REQUESTS.keys())
def test_a_request_goes_on_as_it_came_and_is_read_whole(body: JsonObject) -> None:
    said = encode(body)
    went = translate_request(said, source=NAME, target=NAME, strict=True)
    assert (went.body, went.losses) == (said, ())
    wire = decode_object(said)
    missing = [one for one in unheld(wire, CODEC.decode_request(wire)) if one not in MEANT]
    assert missing == []


MEANT = (
    # A cap of nothing is a pre-warming, and what is cleared at the next message is transient.
    "max_tokens: 0.0",
    "messages.3.clear_at: 'next_user_message'",
    # A call's input is held as its text, in which this number is spelled out.
    "messages.1.content.10.input.b: 1e+20",
)


@pytest.mark.parametrize("body", RESPONSES.values(), ids=RESPONSES.keys())
def test_answers_come_home_as_they_were(body: JsonObject) -> None:
    ledger = Ledger()
    response = CODEC.decode_response(body, asked(), Ledger())
    assert isinstance(response, Response)
    assert normal(plain(CODEC.encode_response(response, asked(), mint(), ledger))) == normal(plain(body))
    assert not ledger.losses
