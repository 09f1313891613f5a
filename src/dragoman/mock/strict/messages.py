"""Rejections of the Messages service (docs/internals/anthropic-messages.md): members, turns, tools, caches, versions.
`thinking.py` has the rules of thinking."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dragoman.mock.strict.common import (
    Issued,
    Members,
    among,
    closed_faults,
    listed,
    name_faults,
    objects,
    repeated,
    schema_faults,
    tool_faults,
    words,
)
from dragoman.mock.strict.thinking import ThinkingRules, merged, model_named, thinking_faults
from dragoman.model.jsonvalue import JsonObject, JsonValue

VERSIONS = ("2023-06-01", "2026-10-21")
_MEMBERS = words(
    "model messages max_tokens system stream stop_sequences tools tool_choice thinking output_config cache_control "
    "metadata service_tier speed inference_geo container diagnostics user_profile_id temperature top_p top_k "
    "context_management compaction mcp_servers fallbacks fallback_credit_token thread output_format"
)
# Members that need a beta: the prefix of its name.
_BETAS = {
    "context_management": ("context-management-", "compact-"),
    "compaction": ("compact-",),
    "mcp_servers": ("mcp-client-",),
    "fallbacks": ("server-side-fallback-",),
    "fallback_credit_token": ("fallback-credit-",),
    "thread": ("message-threads-",),
}
# The list of betas is not public, so any name with a date is accepted.
_is_beta = re.compile(r"[a-z0-9][a-z0-9.-]*-\d{4}-?\d{2}-?\d{2}").fullmatch
_SAMPLING = ("temperature", "top_p", "top_k")
_MESSAGE = words("role content clear_at output_config")
_ROLES = ("user", "assistant", "system")
_is_call_id = re.compile(r"[a-zA-Z0-9_-]+").fullmatch
_UNSUPPORTED = frozenset({"minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems", "exclusiveMinimum"})
_MAX_CACHE_BREAKPOINTS = 4
_MAX_USER_ID_LENGTH = 256
_BLOCKS: Members = {
    kind: words(members)
    for kind, members in {
        "text": "text citations cache_control",
        "image": "source transformations cache_control",
        "document": "source title context citations cache_control",
        "search_result": "content source title citations cache_control",
        "thinking": "thinking signature",
        "redacted_thinking": "data",
        "tool_use": "id name input caller toolset_name cache_control",
        "tool_result": "tool_use_id content is_error toolset_name cache_control",
        "server_tool_use": "id name input caller cache_control",
        "web_search_tool_result": "tool_use_id content caller cache_control",
        "web_fetch_tool_result": "tool_use_id content caller cache_control",
        "code_execution_tool_result": "tool_use_id content cache_control",
        "bash_code_execution_tool_result": "tool_use_id content cache_control",
        "text_editor_code_execution_tool_result": "tool_use_id content cache_control",
        "tool_search_tool_result": "tool_use_id content cache_control",
        "container_upload": "file_id cache_control",
        "mcp_tool_use": "id name server_name input cache_control",
        "mcp_tool_result": "tool_use_id content is_error cache_control",
        "mcp_tool_listing": "mcp_server_name tools",
        "advisor_tool_result": "tool_use_id content cache_control",
        "compaction": "content encrypted_content signature tool_changes cache_control",
        "fallback": "from to trigger",
        "tool_addition": "tool cache_control",
        "tool_removal": "tool cache_control",
    }.items()
}
_IN_RESULTS = frozenset({"text", "image", "document", "search_result", "tool_reference", "browser_state"})
_TOOL = words(
    "type name input_schema description strict cache_control defer_loading allowed_callers input_examples "
    "eager_input_streaming"
)
_OWN_TOOL = re.compile(
    r"(bash|text_editor|memory|computer|computer_toolset|browser_toolset|web_search|web_fetch|code_execution|advisor)"
    r"_\d{8}|tool_search_tool_(regex|bm25)(_\d{8})?|mcp_toolset"
).fullmatch
_CACHE = frozenset({"type", "ttl", "scope"})


def faults(body: JsonObject, headers: Mapping[str, str], issued: Issued) -> Iterator[str]:
    """Yield every reason for a 400."""
    model = model_named(str(body.get("model")))
    for rule in (_members, _contents, _pairs, _tools, _format, _cache_breakpoints):
        yield from rule(body)
    yield from _version_faults(body, headers)
    yield from _role_faults(body, model)
    yield from _sampling_faults(body, model)
    yield from thinking_faults(body, model, issued)


def _members(body: JsonObject) -> Iterator[str]:
    for name in body.keys() - _MEMBERS:
        yield f"{name}: Extra inputs are not permitted"
    cap = body.get("max_tokens")
    if not isinstance(cap, int) or isinstance(cap, bool):
        yield "max_tokens: Field required"
    elif cap < 0:
        yield "max_tokens: Input should be greater than or equal to 0"
    for stop in listed(body.get("stop_sequences")):
        if not isinstance(stop, str) or not stop.strip():
            yield "stop_sequences: each stop sequence must contain non-whitespace"
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        for name in metadata.keys() - {"user_id"}:
            yield f"metadata.{name}: Extra inputs are not permitted"
        if len(str(metadata.get("user_id") or "")) > _MAX_USER_ID_LENGTH:
            yield f"metadata.user_id: String should have at most {_MAX_USER_ID_LENGTH} characters"


def _role_faults(body: JsonObject, model: ThinkingRules) -> Iterator[str]:
    messages = objects(body.get("messages"))
    for count, message in enumerate(messages):
        if message.get("role") not in _ROLES:
            yield f"messages.{count}.role: Input should be 'user' or 'assistant'"
        for name in message.keys() - _MESSAGE:
            yield f"messages.{count}.{name}: Extra inputs are not permitted"
        if message.get("role") == "system" and not model.late_system:
            yield f"messages.{count}.role: role 'system' is not supported on this model"
    roles = [message.get("role") for message in messages if message.get("role") != "system"]
    if not roles:
        yield "messages: at least one message is required"
        return
    compacted = objects(messages[0].get("content"))[:1]
    if roles[0] != "user" and not (compacted and compacted[0].get("type") == "compaction"):
        yield "messages: first message must use the user role"
    if roles[-1] != "user" and not (model.prefill and _may_be_led(body)) and not _is_paused(messages[-1]):
        yield "messages: this model does not support assistant message prefill"
    if roles[-1] != "user" and _trailing_text(messages[-1]) != _trailing_text(messages[-1]).rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


def _trailing_text(message: JsonObject) -> str:
    content = message.get("content")
    last = objects(content)[-1:]
    return content if isinstance(content, str) else str(last[0].get("text", "")) if last else ""


def _may_be_led(body: JsonObject) -> bool:
    """Whether a prefill is allowed: not with thinking or a format."""
    thinking, config = body.get("thinking"), body.get("output_config")
    thinks = isinstance(thinking, dict) and thinking.get("type") != "disabled"
    return not thinks and not (isinstance(config, dict) and config.get("format"))


def _is_paused(message: JsonObject) -> bool:
    """Whether the last assistant message is a paused turn or a compaction instead of a prefill."""
    last = objects(message.get("content"))[-1:]
    return any(str(block.get("type")).endswith(("_tool_result", "_tool_use", "compaction")) for block in last)


def _contents(body: JsonObject) -> Iterator[str]:
    messages = objects(body.get("messages"))
    for count, message in enumerate(messages):
        at, content = f"messages.{count}", message.get("content")
        if not content and message.get("role") != "system" and count < len(messages) - 1:
            yield f"{at}: content must be non-empty"
        elif not content and message.get("role") == "user":
            yield f"{at}: user messages must have non-empty content"
        for number, block in enumerate(objects(content)):
            yield from _block_faults(block, f"{at}.content.{number}", str(message.get("role")))
    for number, block in enumerate(objects(body.get("system"))):
        if block.get("type") != "text" or not str(block.get("text")):
            yield f"system.{number}: text content blocks must be non-empty"


def _block_faults(block: JsonObject, at: str, role: str) -> Iterator[str]:
    kind = str(block.get("type"))
    allowed = _BLOCKS.get(kind)
    if allowed is None:
        yield f"{at}: Input tag {kind!r} found using 'type' does not match any of the expected tags"
        return
    if kind in ("thinking", "redacted_thinking") and (role != "assistant" or "cache_control" in block):
        yield f"{at}: thinking stands only in assistant messages, without cache_control"
        return
    for name in block.keys() - allowed - {"type"}:
        yield f"{at}.{kind}.{name}: Extra inputs are not permitted"
    if kind == "text" and not str(block.get("text")).strip():
        yield f"{at}: text content blocks must be non-empty"
    if kind == "tool_result":
        for inner in objects(block.get("content")):
            if not among(inner.get("type"), _IN_RESULTS):
                yield f"{at}.content: Input tag {inner.get('type')!r} does not match any of the expected tags"
            elif inner.get("type") == "text" and not inner.get("text"):
                yield f"{at}.content: text content blocks must be non-empty"


def _pairs(body: JsonObject) -> Iterator[str]:
    messages = merged(body)
    used = [block for message in messages for block in message.blocks if block.get("type") == "tool_use"]
    for name in repeated(block.get("id") for block in used):
        yield f"messages: tool_use id {name!r} is not unique"
    for block in used:
        if not _is_call_id(str(block.get("id"))):
            yield f"messages: tool_use id {block.get('id')!r} does not match the pattern"
        if not isinstance(block.get("input"), dict):
            yield f"messages: tool_use {block.get('id')!r}: input should be an object"
    before: list[str] = []
    for message in messages:
        results = [str(block.get("tool_use_id")) for block in message.blocks if block.get("type") == "tool_result"]
        if sorted(results) != sorted(before):
            yield (
                f"messages.{message.at}: tool_use ids {before} need exactly their tool_result blocks next, "
                f"found {results}"
            )
        if any(block.get("type") != "tool_result" for block in message.blocks[: len(results)]):
            yield f"messages.{message.at}: tool_result blocks have to come first"
        before = [str(block.get("id")) for block in message.blocks if block.get("type") == "tool_use"]
    if before:
        yield f"messages: tool_use ids {before} were found without tool_result blocks immediately after"


def _tools(body: JsonObject) -> Iterator[str]:
    tools = objects(body.get("tools"))
    plain = [tool for tool in tools if tool.get("type") in (None, "custom")]
    others = [tool for tool in tools if tool.get("type") not in (None, "custom")]
    yield from tool_faults(plain, "input_schema", openai=False)
    yield from name_faults([tool for tool in others if "name" in tool])
    for count, tool in enumerate(plain):
        for name in tool.keys() - _TOOL:
            yield f"tools.{count}.custom.{name}: Extra inputs are not permitted"
    for tool in others:
        if not _OWN_TOOL(str(tool.get("type"))):
            yield f"tools: Input tag {tool.get('type')!r} does not match any of the expected tags"
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not tools:
        yield "tool_choice: may only be specified while providing tools"
    if (
        isinstance(choice, dict)
        and choice.get("type") == "tool"
        and choice.get("name") not in [tool.get("name") for tool in tools]
    ):
        yield f"tool_choice: {choice.get('name')!r} is not declared"


def _format(body: JsonObject) -> Iterator[str]:
    config = body.get("output_config")
    if not isinstance(config, dict):
        return
    for name in config.keys() - {"effort", "format", "task_budget"}:
        yield f"output_config.{name}: Extra inputs are not permitted"
    form = config.get("format")
    if isinstance(form, dict):
        yield from schema_faults(form.get("schema"), "output_config.format.schema")
        yield from closed_faults(form.get("schema"), "output_config.format.schema", all_required=False)
        for name in sorted(_keywords(form.get("schema")) & _UNSUPPORTED):
            yield f"output_config.format.schema: For this type, property '{name}' is not supported"


def _keywords(schema: JsonValue) -> set[str]:
    if isinstance(schema, list):
        return {name for inner in schema for name in _keywords(inner)}
    if not isinstance(schema, dict):
        return set()
    inside = {name for inner in schema.values() for name in _keywords(inner)}
    return inside | (set(schema) if "type" in schema or "anyOf" in schema else set())


def _cache_breakpoints(body: JsonObject) -> Iterator[str]:
    breakpoints = list(_find_breakpoints(body))
    if len(breakpoints) > _MAX_CACHE_BREAKPOINTS:
        yield f"cache_control: {len(breakpoints)} breakpoints, at most {_MAX_CACHE_BREAKPOINTS} are allowed"
    for cache_control in breakpoints:
        if (
            cache_control.get("type") != "ephemeral"
            or cache_control.get("ttl") not in (None, "5m", "1h")
            or cache_control.keys() - _CACHE
        ):
            yield f"cache_control: {cache_control} is no mark"


def _find_breakpoints(value: JsonValue) -> Iterator[JsonObject]:
    if isinstance(value, list):
        for item in value:
            yield from _find_breakpoints(item)
    elif isinstance(value, dict):
        cache_control = value.get("cache_control")
        if isinstance(cache_control, dict):
            yield cache_control
        for name, item in value.items():
            if name not in ("input", "input_schema", "schema", "cache_control"):
                yield from _find_breakpoints(item)


def _version_faults(body: JsonObject, headers: Mapping[str, str]) -> Iterator[str]:
    version = headers.get("anthropic-version")
    if version not in VERSIONS:
        yield f"anthropic-version: {version!r} is not a valid version"
    if version != VERSIONS[0]:
        yield from (f"{name}: not accepted by version {version}" for name in _SAMPLING if name in body)
        for count, message in enumerate(objects(body.get("messages"))):
            yield from _late_faults(message, f"messages.{count}")
    betas = [beta.strip() for beta in headers.get("anthropic-beta", "").split(",") if beta.strip()]
    for beta in betas:
        if not _is_beta(beta):
            yield f"Unexpected value(s) `{beta}` for the `anthropic-beta` header"
    for member, names in _BETAS.items():
        if body.get(member) is not None and not any(beta.startswith(names) for beta in betas):
            yield f"{member}: Extra inputs are not permitted"


def _late_faults(message: JsonObject, at: str) -> Iterator[str]:
    """Rejections of the later version in content."""
    for block in objects(message.get("content")):
        if block.get("type") == "text" and message.get("role") == "user" and block.get("citations"):
            yield f"{at}: citations are not permitted in user text"
        if block.get("type") == "document" and message.get("role") == "assistant":
            yield f"{at}: documents are not permitted in assistant messages"


def _sampling_faults(body: JsonObject, model: ThinkingRules) -> Iterator[str]:
    if not model.sampling:
        # Earlier versions accept the default value, which has no effect.
        yield from (f"{name}: not accepted by this model" for name in _SAMPLING if body.get(name, 1) != 1)
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool") and not model.forced:
        yield "tool_choice: forcing a tool is not supported by this model"
