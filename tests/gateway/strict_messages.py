"""What the Messages service refuses beyond the types of its SDK (docs/protocols/anthropic-messages.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from msgspec import Struct

from tests.gateway.strict_common import (
    Issued,
    closed_faults,
    objects,
    repeated,
    schema_faults,
    tool_faults,
)
from tests.sdk.digging import Object

VERSIONS = ("2023-06-01", "2026-10-21")
_MEMBERS = frozenset(
    [
        "model",
        "messages",
        "max_tokens",
        "system",
        "stream",
        "stop_sequences",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "cache_control",
        "metadata",
        "service_tier",
        "speed",
        "inference_geo",
        "container",
        "diagnostics",
        "user_profile_id",
        "temperature",
        "top_p",
        "top_k",
    ]
)
_SAMPLING = ("temperature", "top_p", "top_k")
_is_call_id = re.compile(r"[a-zA-Z0-9_-]+").fullmatch
_UNSUPPORTED = frozenset({"minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems", "exclusiveMinimum"})
_LEAST_BUDGET = 1024
_MOST_MARKS = 4


class Model(Struct, frozen=True):
    """What a model takes."""

    thinking: tuple[str, ...]
    efforts: tuple[str, ...]
    sampling: bool


MODELS = {
    "claude-opus-5": Model(("adaptive", "disabled"), ("low", "medium", "high", "xhigh", "max"), False),
    "claude-sonnet-4-5": Model(("enabled", "disabled"), (), True),
}


def faults(body: Object, headers: Mapping[str, str], issued: Issued) -> Iterator[str]:
    """Everything the service would answer with a 400."""
    for rule in _RULES:
        yield from rule(body)
    yield from _version_faults(body, headers)
    yield from _model_faults(body)
    yield from _thinking_faults(body, issued)


def _members(body: Object) -> Iterator[str]:
    for name in body.keys() - _MEMBERS:
        yield f"{name}: Extra inputs are not permitted"
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens: Field required"


def _roles(body: Object) -> Iterator[str]:
    roles = [message.get("role") for message in objects(body.get("messages"))]
    if not roles:
        yield "messages: at least one message is required"
        return
    if roles[0] != "user":
        yield "messages: first message must use the user role"
    if roles[-1] != "user":
        yield "messages: this model does not support assistant message prefill"
    for count, (before, after) in enumerate(pairwise(roles)):
        if before == after:
            yield f"messages.{count + 1}: roles must alternate"


def _contents(body: Object) -> Iterator[str]:
    for count, message in enumerate(objects(body.get("messages"))):
        content = message.get("content")
        if not content:
            yield f"messages.{count}: content must be non-empty"
        for block in objects(content):
            if block.get("type") == "text" and not str(block.get("text")).strip():
                yield f"messages.{count}: text content blocks must be non-empty"
            if block.get("type") == "text" and message.get("role") == "user" and block.get("citations"):
                yield f"messages.{count}: citations are not permitted in user text"
            if block.get("type") in ("thinking", "redacted_thinking") and (
                message.get("role") != "assistant" or "cache_control" in block
            ):
                yield f"messages.{count}: thinking stands only in assistant messages, without cache_control"


def _pairs(body: Object) -> Iterator[str]:
    messages = objects(body.get("messages"))
    used = [
        block for message in messages for block in objects(message.get("content")) if block.get("type") == "tool_use"
    ]
    for name in repeated(block.get("id") for block in used):
        yield f"messages: tool_use id {name!r} is not unique"
    for block in used:
        if not _is_call_id(str(block.get("id"))):
            yield f"messages: tool_use id {block.get('id')!r} does not match the pattern"
        if not isinstance(block.get("input"), dict):
            yield f"messages: tool_use {block.get('id')!r}: input should be an object"
    before: list[object] = []
    for count, message in enumerate(messages):
        blocks = objects(message.get("content"))
        results = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
        if sorted(map(str, results)) != sorted(map(str, before)):
            yield f"messages.{count}: tool_use ids {before} need exactly their tool_result blocks next, found {results}"
        if any(block.get("type") != "tool_result" for block in blocks[: len(results)]):
            yield f"messages.{count}: tool_result blocks have to come first"
        before = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
    if before:
        yield f"messages: tool_use ids {before} were found without tool_result blocks"


def _tools(body: Object) -> Iterator[str]:
    tools = objects(body.get("tools"))
    yield from tool_faults(tools, "input_schema", openai=False)
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


def _format(body: Object) -> Iterator[str]:
    config = body.get("output_config")
    form = config.get("format") if isinstance(config, dict) else None
    if isinstance(form, dict):
        yield from schema_faults(form.get("schema"), "output_config.format.schema")
        yield from closed_faults(form.get("schema"), "output_config.format.schema", all_required=False)
        for name in sorted(_keywords(form.get("schema")) & _UNSUPPORTED):
            yield f"output_config.format.schema: For this type, property '{name}' is not supported"


def _keywords(schema: object) -> set[str]:
    if isinstance(schema, list):
        return {name for inner in schema for name in _keywords(inner)}
    if not isinstance(schema, dict):
        return set()
    inside = {name for inner in schema.values() for name in _keywords(inner)}
    return inside | (set(schema) if "type" in schema or "anyOf" in schema else set())


def _cache_marks(body: Object) -> Iterator[str]:
    def marks(value: object) -> int:
        if isinstance(value, dict):
            inner = sum(marks(item) for name, item in value.items() if name not in ("input", "input_schema", "schema"))
            return inner + (value.get("cache_control") is not None)
        return sum(map(marks, value)) if isinstance(value, list) else 0

    if marks(body) > _MOST_MARKS:
        yield f"cache_control: {marks(body)} breakpoints, at most {_MOST_MARKS} are allowed"


def _version_faults(body: Object, headers: Mapping[str, str]) -> Iterator[str]:
    version = headers.get("anthropic-version")
    if version not in VERSIONS:
        yield f"anthropic-version: {version!r} is not a valid version"
    if version != VERSIONS[0]:
        yield from (f"{name}: not accepted by version {version}" for name in _SAMPLING if name in body)


def _model_faults(body: Object) -> Iterator[str]:
    model = MODELS[str(body["model"])]
    if not model.sampling:
        yield from (f"{name}: not accepted by this model" for name in _SAMPLING if name in body)
    config = body.get("output_config")
    effort = config.get("effort") if isinstance(config, dict) else None
    if effort is not None and effort not in model.efforts:
        yield f"output_config.effort: {effort!r} is not accepted by this model"
    thinking = body.get("thinking")
    if not isinstance(thinking, dict):
        return
    kind, budget, cap = thinking.get("type"), thinking.get("budget_tokens"), body.get("max_tokens")
    if kind not in model.thinking:
        yield f"thinking.type: {kind!r} is not accepted by this model"
    if kind == "enabled":
        if not isinstance(budget, int) or budget < _LEAST_BUDGET:
            yield f"thinking.budget_tokens: {budget!r} has to be at least {_LEAST_BUDGET}"
        elif not isinstance(cap, int) or cap <= budget:
            yield f"max_tokens: {cap!r} must be greater than thinking.budget_tokens {budget}"
        if body.get("temperature", 1) != 1 or "top_k" in body:
            yield "temperature: may only be 1 when thinking is enabled"
        choice = body.get("tool_choice")
        if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
            yield "tool_choice: thinking may not be enabled when tool use is forced"


def _thinking_faults(body: Object, issued: Issued) -> Iterator[str]:
    """A turn with a signature comes back as it was said, block for block."""
    messages = objects(body.get("messages"))
    for count, message in enumerate(messages):
        blocks = objects(message.get("content"))
        signatures = [str(block.get("signature")) for block in blocks if block.get("type") == "thinking"]
        for name in repeated(signatures):
            yield f"messages.{count}: signature {name!r} is not unique"
        for signature in signatures:
            said = issued.turns.get(signature)
            if said is None:
                yield f"messages.{count}: Invalid `signature` in `thinking` block: {signature!r}"
            elif [_core(block) for block in blocks] != [_core(block) for block in said]:
                yield f"messages.{count}: `thinking` blocks in the turn cannot be modified: {blocks} was {said}"
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled" or len(messages) < 2:
        return
    last = objects(messages[-2].get("content"))
    loop = any(block.get("type") == "tool_result" for block in objects(messages[-1].get("content")))
    if loop and (not last or last[0].get("type") not in ("thinking", "redacted_thinking")):
        yield "messages: when thinking is enabled, the assistant turn of a tool loop must start with a thinking block"


_CORES = {"thinking": ("thinking", "signature"), "text": ("text",), "tool_use": ("id", "name", "input")}


def _core(block: Object) -> list[object]:
    kind = str(block.get("type"))
    return [kind, *(block.get(name) for name in _CORES.get(kind, ()))]


_RULES: tuple[Callable[[Object], Iterator[str]], ...] = (
    _members,
    _roles,
    _contents,
    _pairs,
    _tools,
    _format,
    _cache_marks,
)
