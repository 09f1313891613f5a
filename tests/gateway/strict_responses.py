"""What the Responses service refuses beyond the types of its SDK (docs/protocols/openai-responses.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from tests.gateway.strict_common import (
    Issued,
    closed_faults,
    is_json_object,
    objects,
    repeated,
    schema_faults,
    text_of,
    tool_faults,
)
from tests.sdk.digging import Object

MODELS = ("gpt-5",)
_LEAST_CAP = 16
_SAMPLING = ("temperature", "top_p")
_PREFIXES = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_"}
_LONGEST_ID = 64


def faults(body: Object, headers: Mapping[str, str], issued: Issued) -> Iterator[str]:
    """Everything the service would answer with a 400."""
    for rule in _RULES:
        yield from rule(body)
    yield from _issued_faults(body, issued)


def _members(body: Object) -> Iterator[str]:
    for name in _SAMPLING:
        if name in body:
            yield f"Unsupported parameter: '{name}' is not supported with this model"
    cap = body.get("max_output_tokens")
    if isinstance(cap, int) and cap < _LEAST_CAP:
        yield f"max_output_tokens: {cap} is below the minimum value"
    if not body.get("input"):
        yield "input: missing"
    if "store" in body and not isinstance(body["store"], bool):
        yield "store: not a boolean"


def _pairs(body: Object) -> Iterator[str]:
    items = objects(body.get("input"))
    called: list[object] = []
    answered: list[object] = []
    for count, item in enumerate(items):
        if item.get("type") == "function_call":
            called.append(item.get("call_id"))
            # Text of any kind is taken, as models write it; only no text at all is not.
            if not item.get("arguments"):
                yield f"input[{count}].arguments: empty"
        elif item.get("type") == "function_call_output":
            answered.append(item.get("call_id"))
            if item.get("call_id") not in called:
                yield f"input[{count}]: No tool call found for function call output with call_id {item.get('call_id')}"
    for left in set(map(str, called)) - set(map(str, answered)):
        yield f"input: No tool output found for function call {left}"
    for name in repeated(called) + repeated(answered):
        yield f"input: the call id {name!r} is not unique"
    for name in repeated(item["id"] for item in items if item.get("id")):
        yield f"input: Duplicate item found with id {name}"


def _contents(body: Object) -> Iterator[str]:
    for count, item in enumerate(objects(body.get("input"))):
        own = "output" if item.get("role") == "assistant" else "input"
        for part in objects(item.get("content")) if item.get("type", "message") == "message" else ():
            if not str(part.get("type")).startswith((own, "refusal")):
                yield f"input[{count}].content: {part.get('type')!r} is not supported for {item.get('role')}"


def _tools(body: Object) -> Iterator[str]:
    tools = [tool for tool in objects(body.get("tools")) if tool.get("type") == "function"]
    yield from tool_faults(tools, "parameters", openai=True)
    for tool in tools:
        # What is absent is tried strictly, which changes the arguments a model may leave out.
        if tool.get("strict") is None:
            yield from closed_faults(tool.get("parameters"), f"tools.{tool.get('name')}", all_required=True)


def _format(body: Object) -> Iterator[str]:
    text = body.get("text")
    form = text.get("format") if isinstance(text, dict) else None
    if isinstance(form, dict) and form.get("type") == "json_schema":
        yield from schema_faults(form.get("schema"), "text.format.schema")
        if form.get("strict"):
            yield from closed_faults(form.get("schema"), "text.format.schema", all_required=True)


def _issued_faults(body: Object, issued: Issued) -> Iterator[str]:
    items = objects(body.get("input"))
    leaders = {follower: leader for leader, follower in issued.followers.items()}
    for count, item in enumerate(items):
        name, kind = item.get("id"), str(item.get("type", "message"))
        if kind == "reasoning":
            yield from _reasoning_faults(body, count, items, issued)
        if name is None:
            continue
        if not str(name).startswith(_PREFIXES.get(kind, "")):
            yield f"input[{count}].id: {name!r} is no id of {kind}"
        if len(str(name)) > _LONGEST_ID:
            yield f"input[{count}].id: {name!r} is too long"
        # What was never stored cannot be looked up: only reasoning proves who issued it.
        said = issued.items.get(str(name))
        if said is not None and _core(item) != _core(said):
            yield f"input[{count}]: {item} was {said}"
        if said is None and kind == "reasoning":
            yield f"input[{count}]: Item with id {name!r} not found"
        leader = leaders.get(str(name))
        if leader is not None and (count == 0 or items[count - 1].get("id") != leader):
            yield f"input[{count}]: Item {name!r} was provided without its required 'reasoning' item {leader!r}"


def _reasoning_faults(body: Object, count: int, items: list[Object], issued: Issued) -> Iterator[str]:
    item = items[count]
    said = issued.items.get(str(item.get("id")), {})
    proof = item.get("encrypted_content")
    if not proof and body.get("store") is False:
        yield f"input[{count}]: Items are not persisted when `store` is set to false, and there is no encrypted content"
    if proof and proof != said.get("encrypted_content"):
        yield f"input[{count}]: invalid_encrypted_content: {proof!r}"
    if item.get("summary") != said.get("summary"):
        yield f"input[{count}].summary: {item.get('summary')} was {said.get('summary')}"
    follower = issued.items.get(issued.followers.get(str(item.get("id")), ""), {})
    after = items[count + 1] if count + 1 < len(items) else {}
    if not after or _core(after) != _core(follower):
        yield f"input[{count}]: 'reasoning' was provided without its required following item: {after} is not {follower}"


def _core(item: Object) -> list[object]:
    """What makes an item the same, whichever of its spellings is used."""
    kind = item.get("type", "message")
    if kind == "message":
        return [kind, item.get("role"), text_of(item.get("content"))]
    arguments = item.get("arguments")
    given = json.loads(arguments) if isinstance(arguments, str) and is_json_object(arguments) else arguments
    return [kind, given, *(item.get(name) for name in ("call_id", "name", "encrypted_content"))]


_RULES: tuple[Callable[[Object], Iterator[str]], ...] = (_members, _pairs, _contents, _tools, _format)
