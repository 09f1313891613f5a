"""Rejections of the Responses service (docs/internals/openai-responses.md): members, items, calls, tools, reasoning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dragoman.mock.answers.signatures import opened
from dragoman.mock.strict.common import (
    Issued,
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

_LEAST_CAP = 16
_MAX_ID_LENGTH = 64
# `client_metadata` is sent by the vendor's own agent.
_MEMBERS = words(
    "model input instructions previous_response_id conversation store background stream stream_options include "
    "max_output_tokens max_tool_calls tools tool_choice parallel_tool_calls text reasoning temperature top_p "
    "top_logprobs truncation context_management prompt metadata service_tier safety_identifier prompt_cache_key "
    "prompt_cache_options prompt_cache_retention moderation image access_programs multi_agent user client_metadata"
)
_INCLUDE = words(
    "reasoning.encrypted_content message.output_text.logprobs message.input_image.image_url "
    "web_search_call.action.sources web_search_call.results file_search_call.results code_interpreter_call.outputs "
    "computer_call_output.output.image_url"
)
_ITEMS: Mapping[str, tuple[str, ...]] = {
    "message": ("role", "content"),
    "reasoning": ("summary",),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("output",),
    "custom_tool_call": ("call_id", "name", "input"),
    "custom_tool_call_output": ("call_id", "output"),
    "web_search_call": (),
    "file_search_call": (),
    "code_interpreter_call": (),
    "image_generation_call": (),
    "computer_call": ("call_id",),
    "computer_call_output": ("call_id", "output"),
    "local_shell_call": ("action", "call_id"),
    "local_shell_call_output": ("output",),
    "shell_call": ("action", "call_id"),
    "shell_call_output": ("call_id", "output"),
    "apply_patch_call": ("operation", "call_id"),
    "apply_patch_call_output": ("call_id", "status"),
    "mcp_list_tools": (),
    "mcp_call": (),
    "mcp_approval_request": (),
    "mcp_approval_response": ("approval_request_id", "approve"),
    "tool_search_call": ("arguments",),
    "tool_search_output": ("tools",),
    "additional_tools": ("tools",),
    "configuration_update": (),
    "program": (),
    "program_output": (),
    "compaction": ("encrypted_content",),
    "compaction_trigger": (),
    "item_reference": ("id",),
}
_CALL_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
}
_PREFIXES = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "custom_tool_call": "ctc_"}
_ROLES = ("user", "assistant", "system", "developer")
_TOOLS = words(
    "function custom namespace web_search web_search_2025_08_26 web_search_preview web_search_preview_2025_03_11 "
    "file_search code_interpreter image_generation mcp computer computer_use_preview local_shell shell apply_patch "
    "tool_search programmatic_tool_calling"
)


def faults(body: JsonObject, headers: Mapping[str, str], issued: Issued) -> Iterator[str]:
    """Yield every reason for a 400."""
    for rule in (_members, _of_reasoners, _items, _pairs, _tools, _format):
        yield from rule(body)
    yield from reasoning_faults(body, issued)


def _members(body: JsonObject) -> Iterator[str]:
    for name in body.keys() - _MEMBERS:
        yield f"Unknown parameter: '{name}'."
    cap = body.get("max_output_tokens")
    if isinstance(cap, int) and cap < _LEAST_CAP:
        yield f"max_output_tokens: {cap} is below the minimum value"
    if not body.get("input") and body.get("prompt") is None:
        yield "input: missing"
    for name in ("store", "stream", "background", "parallel_tool_calls"):
        if body.get(name) is not None and not isinstance(body[name], bool):
            yield f"{name}: not a boolean"
    for value in listed(body.get("include")):
        if not among(value, _INCLUDE):
            yield f"include: {value!r} is not supported"
    if body.get("background") is True and body.get("store") is False:
        yield "background: requires store"
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        yield "Mutually exclusive parameters: 'previous_response_id' and 'conversation'."


def _of_reasoners(body: JsonObject) -> Iterator[str]:
    model = str(body.get("model")).lower()
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    if not is_reasoner(model) or (is_settable(model) and effort in (None, "none")):
        return
    for name in ("temperature", "top_p"):
        if body.get(name) is not None:
            yield f"Unsupported parameter: '{name}' is not supported with this model."


def _items(body: JsonObject) -> Iterator[str]:
    for count, item in enumerate(objects(body.get("input"))):
        kind = str(item.get("type", "message"))
        needed = _ITEMS.get(kind)
        if needed is None:
            yield f"input[{count}]: Invalid value: '{kind}'. Supported values are: {', '.join(sorted(_ITEMS))}."
            continue
        for name in needed:
            if item.get(name) is None:
                yield f"input[{count}]: Missing required parameter: 'input[{count}].{name}'."
        if kind == "message":
            yield from _message_faults(item, count)
        if kind == "compaction_trigger" and count < len(objects(body.get("input"))) - 1:
            yield f"input[{count}]: a compaction_trigger has to be the last item"
        if kind == "compaction" and opened(str(item.get("encrypted_content"))) is None:
            yield f"input[{count}]: invalid_encrypted_content: The encrypted content could not be verified."
        if item.get("id") is not None and len(str(item["id"])) > _MAX_ID_LENGTH:
            yield f"input[{count}].id: {item['id']!r} is too long"
        if item.get("id") is not None and not str(item["id"]).startswith(_PREFIXES.get(kind, "")):
            yield f"input[{count}].id: {item['id']!r} is no id of {kind}"


def _message_faults(item: JsonObject, count: int) -> Iterator[str]:
    role = str(item.get("role"))
    if role not in _ROLES:
        yield f"input[{count}].role: {role!r} is not supported"
    own = "output" if role == "assistant" else "input"
    for part in objects(item.get("content")):
        if not str(part.get("type")).startswith((own, "refusal")):
            yield f"input[{count}].content: {part.get('type')!r} is not supported for {role}"


def _pairs(body: JsonObject) -> Iterator[str]:
    items = objects(body.get("input"))
    called: list[str] = []
    answered: list[str] = []
    for count, item in enumerate(items):
        kind, name = str(item.get("type")), str(item.get("call_id") or item.get("id"))
        if kind in _CALL_OUTPUTS:
            called.append(name)
            # Models write any text, so only empty arguments are rejected.
            if kind == "function_call" and not item.get("arguments"):
                yield f"input[{count}].arguments: empty"
        elif kind in _CALL_OUTPUTS.values():
            answered.append(name)
            if name not in called:
                yield f"input[{count}]: No tool call found for function call output with call_id {name}."
    for left in sorted(set(called) - set(answered)):
        yield f"input: No tool output found for function call {left}."
    for name in repeated(called) + repeated(answered):
        yield f"input: the call id {name!r} is not unique"
    for name in repeated(item["id"] for item in items if item.get("id")):
        yield f"input: Duplicate item found with id {name}."


def _tools(body: JsonObject) -> Iterator[str]:
    tools = objects(body.get("tools"))
    yield from _group_faults(tools, "tools")
    inner = [tool for group in tools for tool in objects(group.get("tools"))]
    deferred = any(tool.get("defer_loading") is True for tool in [*tools, *inner])
    if deferred and not any(tool.get("type") == "tool_search" for tool in tools):
        yield "Invalid Value: 'tools.defer_loading'. Deferred tools require tools.tool_search."


def _group_faults(tools: list[JsonObject], at: str) -> Iterator[str]:
    for count, tool in enumerate(tools):
        if not among(tool.get("type"), _TOOLS):
            yield f"{at}[{count}].type: Invalid value: {tool.get('type')!r}."
        if tool.get("type") == "namespace":
            yield from name_faults([tool])
            yield from _group_faults(objects(tool.get("tools")), f"{at}[{count}].tools")
    yield from tool_faults([tool for tool in tools if tool.get("type") == "function"], "parameters", openai=True)
    customs = [tool for tool in tools if tool.get("type") == "custom"]
    yield from name_faults(customs)
    for tool in customs:
        yield from _grammar_faults(tool.get("format"), str(tool.get("name")))


def _grammar_faults(form: JsonValue, name: str) -> Iterator[str]:
    if not isinstance(form, dict) or form.get("type") == "text":
        return
    if form.get("type") != "grammar" or form.get("syntax") not in ("lark", "regex") or not form.get("definition"):
        yield f"tools.{name}.format: neither text nor a grammar"


def _format(body: JsonObject) -> Iterator[str]:
    text = body.get("text")
    if not isinstance(text, dict):
        return
    for name in text.keys() - {"format", "verbosity"}:
        yield f"Unknown parameter: 'text.{name}'."
    form = text.get("format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        if not form.get("name"):
            yield "Missing required parameter: 'text.format.name'."
        yield from schema_faults(form.get("schema"), "text.format.schema")
        if form.get("strict"):
            yield from closed_faults(form.get("schema"), "text.format.schema", all_required=True)


def reasoning_faults(body: JsonObject, issued: Issued) -> Iterator[str]:
    """Yield every reason for a 400 that concerns reasoning."""
    items = objects(body.get("input"))
    for count, item in enumerate(items):
        if item.get("type") == "reasoning":
            yield from _encrypted_content_faults(body, item, count, issued)
            yield from _follower_faults(items, count, issued)
        leader = issued.leaders.get(str(item.get("id")))
        if leader is not None and (count == 0 or items[count - 1].get("id") != leader):
            name = item.get("id")
            yield f"input[{count}]: Item {name!r} was provided without its required 'reasoning' item {leader!r}"


def _encrypted_content_faults(body: JsonObject, item: JsonObject, count: int, issued: Issued) -> Iterator[str]:
    name, encrypted = item.get("id"), item.get("encrypted_content")
    issued_item = issued.items.get(str(name))
    ours = isinstance(encrypted, str) and (
        opened(encrypted) is not None or (issued_item or {}).get("encrypted_content") == encrypted
    )
    if not encrypted and body.get("store") is False:
        yield f"input[{count}]: Items are not persisted when `store` is set to false, and there is no encrypted content"
    if encrypted and not ours:
        yield f"input[{count}]: invalid_encrypted_content: The encrypted content could not be verified: {encrypted!r}"
    if name is not None and issued_item is None and not (encrypted and ours):
        yield f"input[{count}]: Item with id {name!r} not found."
    if issued_item is not None and encrypted and encrypted != issued_item.get("encrypted_content"):
        yield f"input[{count}]: invalid_encrypted_content: it belongs to another item than {name!r}"
    if issued_item is not None and item.get("summary") != issued_item.get("summary"):
        yield f"input[{count}].summary: {item.get('summary')!r} was {issued_item.get('summary')!r}"


def _follower_faults(items: list[JsonObject], count: int, issued: Issued) -> Iterator[str]:
    """Reasoning must precede its followers: by ID if the mock issued it, else by type."""
    name = str(items[count].get("id"))
    after: JsonObject = items[count + 1] if count + 1 < len(items) else {"type": "nothing_output"}
    kind = str(after.get("type", "message"))
    follower = issued.items.get(issued.followers.get(name, ""))
    fits = not kind.endswith("_output") and after.get("role", "assistant") == "assistant"
    if fits and follower is not None:
        issued_item = issued.items.get(str(after.get("id")), follower)
        fits = kind == follower.get("type") and issued_item is follower
    if not fits:
        yield f"input[{count}]: Item {name!r} of type 'reasoning' was provided without its required following item."
