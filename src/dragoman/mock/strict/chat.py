"""Rejections of a Chat service (docs/internals/openai-chat-completions.md). OpenAI's models are checked like at OpenAI,
except that reasoning is sent and must return as `reasoning_content`, unchanged. Any other model is a compatible server
that supports only the core of the protocol (mapping.md §1.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dragoman.mock.strict.common import (
    Issued,
    Members,
    among,
    closed_faults,
    is_reasoner,
    is_settable,
    listed,
    name_faults,
    objects,
    repeated,
    schema_faults,
    tool_faults,
    words,
)
from dragoman.model.jsonvalue import JsonObject, JsonValue

_is_openai = re.compile(r"(.*/)?(gpt-|chatgpt-|o\d|codex-|mock-).*").fullmatch
_CORE = words(
    "model messages stream stream_options max_tokens temperature top_p stop seed presence_penalty frequency_penalty "
    "logit_bias logprobs top_logprobs tools tool_choice parallel_tool_calls response_format reasoning_effort user"
)
_OPENAI = _CORE | words(
    "max_completion_tokens n functions function_call verbosity modalities audio prediction web_search_options "
    "moderation metadata store service_tier prompt_cache_key prompt_cache_options prompt_cache_retention "
    "safety_identifier"
)
_CORE_MESSAGES: Members = {
    "system": words("role content name"),
    "user": words("role content name"),
    "assistant": words("role content name refusal tool_calls reasoning_content"),
    "tool": words("role content tool_call_id"),
}
_OPENAI_MESSAGES: Members = {
    **_CORE_MESSAGES,
    "developer": words("role content name"),
    # OpenAI's SDK adds `annotations` and `parsed` to a message that is sent back unchanged.
    "assistant": words("role content name refusal tool_calls reasoning_content audio function_call annotations parsed"),
    "tool": words("role content tool_call_id name"),
    "function": words("role content name"),
}
_PARTS: Members = {"user": words("text image_url input_audio file"), "assistant": words("text refusal")}
_TEXT = words("text")
_MAX_ID_LENGTH = 40
_MAX_TOOLS = 128
_MAX_STOPS = 4


def faults(body: JsonObject, headers: Mapping[str, str], issued: Issued) -> Iterator[str]:
    """Yield every reason for a 400."""
    for rule in (_members, _of_reasoners, _messages, _pairs, _tools, _format):
        yield from rule(body)
    yield from _reasoning_faults(body, issued)


def _is_official(body: JsonObject) -> bool:
    return _is_openai(str(body.get("model")).lower()) is not None


def _members(body: JsonObject) -> Iterator[str]:
    for name in body.keys() - (_OPENAI if _is_official(body) else _CORE):
        yield f"Unrecognized request argument supplied: {name}"
    if body.get("stream_options") is not None and body.get("stream") is not True:
        yield "stream_options: only allowed when stream is enabled"
    if len(listed(body.get("stop"))) > _MAX_STOPS:
        yield f"stop: at most {_MAX_STOPS} sequences"
    if body.get("top_logprobs") is not None and body.get("logprobs") is not True:
        yield "top_logprobs: only allowed when logprobs is enabled"


def _of_reasoners(body: JsonObject) -> Iterator[str]:
    model = str(body.get("model")).lower()
    if not is_reasoner(model):
        return
    if body.get("max_tokens") is not None:
        yield "Unsupported parameter: 'max_tokens' is not supported with this model, but 'max_completion_tokens' is."
    if body.get("stop") is not None:
        yield "Unsupported parameter: 'stop' is not supported with this model."
    if is_settable(model) and body.get("reasoning_effort") in (None, "none"):
        return
    for name in ("temperature", "top_p"):
        if body.get(name) not in (None, 1):
            yield f"Unsupported value: '{name}' does not support {body[name]!r} with this model, only the default (1)."


def _messages(body: JsonObject) -> Iterator[str]:
    members = _OPENAI_MESSAGES if _is_official(body) else _CORE_MESSAGES
    messages = objects(body.get("messages"))
    if not messages:
        yield "messages: too short"
    for count, message in enumerate(messages):
        role = str(message.get("role"))
        if role not in members:
            yield f"messages[{count}].role: {role!r} is not supported"
            continue
        for name in message.keys() - members[role]:
            yield f"messages[{count}].{name}: unknown member"
        bare = not message.get("tool_calls") and not message.get("refusal") and not message.get("function_call")
        if message.get("content") is None and bare and role != "function" and not message.get("audio"):
            yield f"messages[{count}].content: expected a string, got null"
        if message.get("tool_calls") == []:
            yield f"messages[{count}].tool_calls: empty array"
        for part in objects(message.get("content")):
            if not among(part.get("type"), _PARTS.get(role, _TEXT)):
                yield f"messages[{count}].content: {part.get('type')!r} is not supported for {role}"


def _pairs(body: JsonObject) -> Iterator[str]:
    waiting: set[str] = set()
    called: list[JsonValue] = []
    for count, message in enumerate(objects(body.get("messages"))):
        if message.get("role") == "tool":
            answered = str(message.get("tool_call_id"))
            if answered not in waiting:
                yield f"messages[{count}]: role 'tool' must be a response to a preceding message with 'tool_calls'"
            waiting.discard(answered)
            continue
        if waiting:
            yield f"messages[{count}]: tool_call_ids without response messages: {sorted(waiting)}"
        calls = objects(message.get("tool_calls"))
        waiting = {str(call.get("id")) for call in calls}
        called += [call.get("id") for call in calls]
        for call in calls:
            if not 0 < len(str(call.get("id"))) <= _MAX_ID_LENGTH:
                yield f"messages[{count}].tool_calls: id {call.get('id')!r} is empty or too long"
            if call.get("type") not in ("function", "custom"):
                yield f"messages[{count}].tool_calls: type {call.get('type')!r} is not supported"
    if waiting:
        yield f"messages: tool_call_ids without response messages: {sorted(waiting)}"
    for name in repeated(called):
        yield f"messages: the call id {name!r} is not unique"


def _tools(body: JsonObject) -> Iterator[str]:
    tools = objects(body.get("tools"))
    if body.get("tools") == []:
        yield "tools: empty array"
    if len(tools) > _MAX_TOOLS:
        yield f"tools: {len(tools)} are too many, at most {_MAX_TOOLS} are allowed"
    types = ("function", "custom") if _is_official(body) else ("function",)
    for count, tool in enumerate(tools):
        if tool.get("type") not in types or not isinstance(tool.get(str(tool.get("type"))), dict):
            yield f"tools[{count}].type: {tool.get('type')!r} is not supported"
    yield from tool_faults(objects([tool.get("function") for tool in tools]), "parameters", openai=True)
    yield from name_faults(objects([tool.get("custom") for tool in tools]))
    if not tools and (body.get("tool_choice") is not None or body.get("parallel_tool_calls") is not None):
        yield "tool_choice, parallel_tool_calls: only allowed when tools are specified"


def _format(body: JsonObject) -> Iterator[str]:
    form = body.get("response_format")
    inner = form.get("json_schema") if isinstance(form, dict) else None
    if isinstance(inner, dict):
        yield from schema_faults(inner.get("schema"), "response_format.json_schema.schema")
        if inner.get("strict"):
            yield from closed_faults(inner.get("schema"), "response_format.json_schema.schema", all_required=True)


def _reasoning_faults(body: JsonObject, issued: Issued) -> Iterator[str]:
    for count, message in enumerate(objects(body.get("messages"))):
        reasoning = message.get("reasoning_content")
        # An empty text means that there was none.
        if reasoning and (not isinstance(reasoning, str) or reasoning not in issued.reasoning):
            yield f"messages[{count}].reasoning_content: not what was said: {reasoning!r}"
