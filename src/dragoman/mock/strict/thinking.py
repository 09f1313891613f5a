"""Rejections of the Messages service about thinking: by the family of the model, and for changed thinking."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from msgspec import Struct

from dragoman.mock.strict.common import Issued, objects, repeated
from dragoman.mock.turn import is_signed
from dragoman.model.jsonvalue import JsonObject, JsonValue

_LEAST_BUDGET = 1024


class ThinkingRules(Struct, frozen=True, kw_only=True):
    """The accepted thinking of a model (docs/internals/anthropic-messages.md §23)."""

    thinking: tuple[str, ...] = ("adaptive", "disabled")
    efforts: tuple[str, ...] = ("low", "medium", "high", "xhigh", "max")
    sampling: bool = False
    forced: bool = True
    late_system: bool = False
    prefill: bool = False


_OLD = ThinkingRules(thinking=("enabled", "disabled"), efforts=(), sampling=True, prefill=True)
_UNKNOWN = ThinkingRules()
_FOREIGN = ThinkingRules(thinking=("enabled", "disabled"), efforts=(), sampling=True)
_ANYTHING = ThinkingRules(
    thinking=("adaptive", "enabled", "disabled", "between_tools"), sampling=True, late_system=True, prefill=True
)
MODELS: tuple[tuple[str, ThinkingRules], ...] = (
    ("mock-*", _ANYTHING),
    ("*claude*fable-5[-.]1*", ThinkingRules(thinking=("adaptive",), forced=False, late_system=True)),
    ("*claude*mythos-5[-.]1*", ThinkingRules(thinking=("adaptive",), forced=False, late_system=True)),
    ("*claude*fable-5*", ThinkingRules(thinking=("adaptive",), late_system=True)),
    ("*claude*mythos-5*", ThinkingRules(thinking=("adaptive",), late_system=True)),
    ("*claude*opus-5[-.]5*", ThinkingRules(thinking=("adaptive",), forced=False, late_system=True)),
    ("*claude*sonnet-5[-.]5*", ThinkingRules(thinking=("adaptive", "between_tools"), forced=False, late_system=True)),
    ("*claude*haiku-5[-.]5*", ThinkingRules(late_system=True)),
    ("*claude*opus-5*", ThinkingRules(late_system=True)),
    ("*claude*opus-4[-.]8*", ThinkingRules(late_system=True)),
    (
        "*claude*-4[-.]6*",
        ThinkingRules(
            thinking=("adaptive", "enabled", "disabled"), efforts=("low", "medium", "high", "max"), sampling=True
        ),
    ),
    (
        "*claude*opus-4[-.]5*",
        ThinkingRules(thinking=("enabled", "disabled"), efforts=("low", "medium", "high"), sampling=True, prefill=True),
    ),
    ("*claude*-4[-.][0-5]*", _OLD),
    ("*claude*-4-20*", _OLD),
    ("*claude-3*", _OLD),
    ("*claude*", _UNKNOWN),
)


def model_named(name: str) -> ThinkingRules:
    lowered = name.lower()
    return next((model for pattern, model in MODELS if fnmatchcase(lowered, pattern)), _FOREIGN)


class Merged(Struct, frozen=True):
    """Adjacent messages of one role, as the service reads them. `at` is the location of the first one."""

    at: int
    role: str
    blocks: list[JsonObject]


def merged(body: JsonObject) -> list[Merged]:
    """The turns of a request. Instructions between messages do not count."""
    turns: list[Merged] = []
    for count, message in enumerate(objects(body.get("messages"))):
        role = str(message.get("role"))
        if role == "system":
            continue
        content = message.get("content")
        blocks: list[JsonObject] = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
        if turns and turns[-1].role == role:
            turns[-1].blocks.extend(blocks)
        else:
            turns.append(Merged(count, role, list(blocks)))
    return turns


def thinking_faults(body: JsonObject, model: ThinkingRules, issued: Issued) -> Iterator[str]:
    """Yield every reason for a 400 that concerns thinking."""
    yield from _config_faults(body, model)
    turns = merged(body)
    for turn in turns:
        yield from _turn_faults(turn, issued)
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled" or len(turns) < 2:
        return
    steps = [*_loop(turns)]
    if steps and not any(block.get("type") in ("thinking", "redacted_thinking") for step in steps for block in step):
        yield "messages: when thinking is enabled, the assistant turn of a tool loop must start with a thinking block"


def _loop(turns: list[Merged]) -> Iterator[list[JsonObject]]:
    """The assistant's steps of a tool loop in progress, the last one first. One of them must have thinking."""
    for results, step in zip(turns[::-2], turns[-2::-2], strict=False):
        if not any(block.get("type") == "tool_result" for block in results.blocks):
            return
        yield step.blocks


def _config_faults(body: JsonObject, model: ThinkingRules) -> Iterator[str]:
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
    if kind in ("disabled", "between_tools") and thinking.get("display") is not None:
        yield f"thinking.display: not accepted with {kind!r}"
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


def _turn_faults(turn: Merged, issued: Issued) -> Iterator[str]:
    thoughts = [block for block in turn.blocks if block.get("type") == "thinking"]
    for name in repeated(block.get("signature") for block in thoughts):
        yield f"messages.{turn.at}: signature {name!r} is not unique"
    for block in turn.blocks:
        if block.get("type") == "redacted_thinking":
            yield f"messages.{turn.at}: Invalid `data` in `redacted_thinking` block"
    for block in thoughts:
        signature = str(block.get("signature"))
        issued_blocks = issued.turns.get(signature)
        if issued_blocks is None and not is_signed(str(block.get("thinking")), signature):
            yield f"messages.{turn.at}: Invalid `signature` in `thinking` block: {signature!r}"
        elif issued_blocks is not None and not _holds(turn.blocks, issued_blocks):
            blocks = f"{turn.blocks} was {issued_blocks}"
            yield f"messages.{turn.at}: `thinking` blocks in the turn cannot be modified: {blocks}"


# The input of a call is not compared, because clients fill in the defaults of its schema.
_CORES = {"thinking": ("thinking", "signature"), "text": ("text",), "tool_use": ("id", "name")}


def _holds(blocks: list[JsonObject], issued_blocks: list[JsonObject]) -> bool:
    """Whether a turn contains the issued blocks contiguously. A user's turn may combine several of the service's."""
    length = len(issued_blocks)
    return any(
        all(_same(block, before) for block, before in zip(blocks[start : start + length], issued_blocks, strict=True))
        for start in range(len(blocks) - length + 1)
    )


def _same(block: JsonObject, issued_block: JsonObject) -> bool:
    kind = str(issued_block.get("type"))
    if kind == "thinking" and issued_block.get("thinking") == "":
        return block.get("type") == kind and block.get("signature") == issued_block.get("signature")
    return _core(block) == _core(issued_block)


def _core(block: JsonObject) -> list[JsonValue]:
    kind = str(block.get("type"))
    return [kind, *(block.get(name) for name in _CORES.get(kind, ()))]
