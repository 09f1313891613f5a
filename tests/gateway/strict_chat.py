"""What a strict Chat server refuses beyond the types of the SDK (docs/protocols/openai-chat-completions.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.gateway.strict_common import (
    Issued,
    closed_faults,
    objects,
    repeated,
    schema_faults,
    tool_faults,
)
from tests.sdk.digging import Object

MODELS = ("llama-4",)
# A compatible server that knows the core of the protocol and nothing else (mapping.md §1.1).
_MEMBERS = frozenset(
    [
        "model",
        "messages",
        "stream",
        "stream_options",
        "max_tokens",
        "temperature",
        "top_p",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "reasoning_effort",
        "user",
    ]
)
_ROLES = ("system", "user", "assistant", "tool")
_MEMBERS_OF = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "reasoning_content"},
    "tool": {"role", "content", "tool_call_id"},
}
_LONGEST_ID = 40


def faults(body: Object, headers: Mapping[str, str], issued: Issued) -> Iterator[str]:
    """Everything the service would answer with a 400."""
    for rule in _RULES:
        yield from rule(body)
    yield from _reasoning_faults(body, issued)


def _members(body: Object) -> Iterator[str]:
    for name in body.keys() - _MEMBERS:
        yield f"Unrecognized request argument supplied: {name}"
    if "stream_options" in body and body.get("stream") is not True:
        yield "stream_options: only allowed when stream is enabled"


def _messages(body: Object) -> Iterator[str]:
    messages = objects(body.get("messages"))
    if not messages:
        yield "messages: too short"
    for count, message in enumerate(messages):
        role = message.get("role")
        if role not in _ROLES:
            yield f"messages[{count}].role: {role!r} is not supported"
            continue
        for name in message.keys() - _MEMBERS_OF[str(role)]:
            yield f"messages[{count}].{name}: unknown member"
        if message.get("content") is None and not message.get("tool_calls") and not message.get("refusal"):
            yield f"messages[{count}].content: expected a string, got null"
        if message.get("tool_calls") == []:
            yield f"messages[{count}].tool_calls: empty array"


def _pairs(body: Object) -> Iterator[str]:
    waiting: set[object] = set()
    called: list[object] = []
    for count, message in enumerate(objects(body.get("messages"))):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in waiting:
                yield f"messages[{count}]: role 'tool' must be a response to a preceding message with 'tool_calls'"
            waiting.discard(message.get("tool_call_id"))
            continue
        if waiting:
            yield f"messages[{count}]: tool_call_ids without response messages: {sorted(map(str, waiting))}"
        calls = objects(message.get("tool_calls"))
        waiting = {call.get("id") for call in calls}
        called += (call.get("id") for call in calls)
        for call in calls:
            if not 0 < len(str(call.get("id"))) <= _LONGEST_ID:
                yield f"messages[{count}].tool_calls: id {call.get('id')!r} is empty or too long"
    if waiting:
        yield f"messages: tool_call_ids without response messages: {sorted(map(str, waiting))}"
    for name in repeated(called):
        yield f"messages: the call id {name!r} is not unique"


def _tools(body: Object) -> Iterator[str]:
    tools = objects(body.get("tools"))
    if body.get("tools") == []:
        yield "tools: empty array"
    functions = [tool["function"] for tool in tools if isinstance(tool.get("function"), dict)]
    yield from tool_faults(objects(functions), "parameters", openai=True)
    if not tools and ("tool_choice" in body or "parallel_tool_calls" in body):
        yield "tool_choice, parallel_tool_calls: only allowed when tools are specified"


def _format(body: Object) -> Iterator[str]:
    form = body.get("response_format")
    inner = form.get("json_schema") if isinstance(form, dict) else None
    if isinstance(inner, dict):
        yield from schema_faults(inner.get("schema"), "response_format.json_schema.schema")
        if inner.get("strict"):
            yield from closed_faults(inner.get("schema"), "response_format.json_schema.schema", all_required=True)


def _reasoning_faults(body: Object, issued: Issued) -> Iterator[str]:
    for count, message in enumerate(objects(body.get("messages"))):
        told = message.get("reasoning_content")
        if told is not None and told not in issued.reasoning:
            yield f"messages[{count}].reasoning_content: not what was said: {told!r}"


_RULES: tuple[Callable[[Object], Iterator[str]], ...] = (_members, _messages, _pairs, _tools, _format)
