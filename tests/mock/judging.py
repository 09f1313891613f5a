"""Requests as real agents send them, and ways to spoil them."""

from __future__ import annotations

import json
from collections.abc import Callable

from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.strict.checks import reasons
from dragoman.mock.strict.common import Issued
from dragoman.wire.json import decode_object
from tests.mock.calling import CITY
from tests.sdk.digging import Object

CLOSED: Object = {**CITY, "additionalProperties": False}
HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,"
    "message-threads-2026-08-12",
}
Spoil = Callable[[Object], object]
GRAMMAR: Object = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
# A mark of the prompt cache, as agents write it.
MARK: Object = {"type": "ephemeral", "ttl": "1h"}

GOOD: dict[str, Object] = {
    MESSAGES: {
        "model": "claude-opus-5",
        "max_tokens": 32000,
        "stream": True,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.0; cch=1;"},
            {"type": "text", "text": "You are an agent.", "cache_control": MARK},
        ],
        "metadata": {"user_id": "user_0_account__session_1"},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "tools": [
            {"name": "Bash", "description": "Runs.", "input_schema": CITY, "eager_input_streaming": True},
            {"name": "mcp__files__read", "input_schema": {"type": "object", "$schema": "x", "properties": {}}},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
            {"type": "mcp_toolset", "mcp_server_name": "x"},
        ],
        "tool_choice": {"type": "auto"},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "<system-reminder>"}]},
            {"role": "user", "content": "Go."},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"city": "Rome"}}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "18", "cache_control": MARK},
                    {"type": "text", "text": "Well?"},
                ],
            },
            {"role": "system", "content": "Be brief."},
        ],
    },
    CHAT: {
        "model": "gpt-5.1",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 32000,
        "reasoning_effort": "medium",
        "verbosity": "low",
        "store": False,
        "prompt_cache_key": "a",
        "tools": [
            {"type": "function", "function": {"name": "read", "parameters": CITY, "strict": False}},
            {"type": "custom", "custom": {"name": "patch", "format": {"type": "text"}}},
        ],
        "tool_choice": "auto",
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": CLOSED, "strict": True}},
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Go."},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "18"},
        ],
    },
    RESPONSES: {
        "model": "gpt-5.1-codex",
        "instructions": "You are an agent.",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "a",
        "client_metadata": {"x": "y"},
        "reasoning": {"effort": "medium", "summary": "auto"},
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "x", "schema": CLOSED, "strict": True}},
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "tools": [
            {"type": "function", "name": "shell", "description": "", "strict": False, "parameters": CITY},
            {
                "type": "custom",
                "name": "apply_patch",
                "format": {"type": "grammar", "syntax": "lark", "definition": "x"},
            },
            {"type": "namespace", "name": "files", "description": "", "tools": [{"type": "function", "name": "shell"}]},
            {"type": "local_shell"},
            {"type": "web_search", "external_web_access": False},
        ],
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]},
            {"type": "function_call", "call_id": "call_1", "name": "shell", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin"},
            {"type": "function_call_output", "call_id": "call_1", "output": "18"},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done."},
        ],
    },
}


def good(protocol: str) -> Object:
    """A request of an agent, to be changed at will."""
    body: Object = json.loads(json.dumps(GOOD[protocol]))
    return body


def judged(
    protocol: str, body: Object, issued: Issued | None = None, headers: dict[str, str] | None = None
) -> list[str]:
    """What the service would say against a request."""
    return reasons(protocol, decode_object(json.dumps(body)), headers or HEADERS, issued or Issued())


def spoiled(protocol: str, how: Spoil) -> list[str]:
    """What the service would say against a good request that was spoiled."""
    body = good(protocol)
    how(body)
    return judged(protocol, body)
