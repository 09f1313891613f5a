"""Missing reasoning: adapts a request whose last turn lacks the thinking that a thinking budget requires (V5).

thinking: enabled   the last assistant turn of a tool loop, or a prefill, must begin with thinking; without it
                    adaptive models get `adaptive`, which requires none, and others `disabled`
                    (https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking)
clear_thinking      a context edit that is rejected if thinking is disabled; removed
                    (https://github.com/anthropics/claude-code/issues/11971)
"""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.rules.capabilities import Capabilities
from dragoman.rules.effort import effort_for, nearest
from dragoman.wire.json import decode, encode
from dragoman.wire.json_spans import (
    Member,
    elements_of,
    last_value,
    named,
    object_members,
    replaced,
    with_member,
    without,
)

_SEALED = frozenset({"thinking", "redacted_thinking"})
_ADAPTIVE_TOO = ("display", "block_binding")
_WHY = "because the reasoning behind the last turn is not there"
_OFF: JsonObject = {"type": "disabled"}
# Markers of a tool loop with a thinking budget. Most bodies lack one, which is detected without parsing.
_MANUAL_LOOP = (b'"enabled"', b'"tool_result"')


def repair_reasoning(
    body: bytes, capabilities: Capabilities, ledger: Ledger, *, demanded: bool = False, intact: bool = False
) -> bytes:
    """Reduce thinking to what the last turn allows; the same bytes if it is allowed. `demanded`: the provider has
    rejected the request; some providers also check earlier turns, and think by default. `intact`: no part was removed.
    Then only a tool loop without any thinking is changed: steps without thinking after one with thinking are the
    provider's own, which it accepts. A prefill is the client's own (T6)."""
    if intact and not (capabilities.loops_need_thinking and all(map(body.__contains__, _MANUAL_LOOP))):
        return body
    lacks_thinking = _loop_lacks_thinking if intact else _turn_lacks_thinking
    thinking = named(object_members(body), "thinking")
    settings = last_value(body, thinking)
    mode = settings.get("type") if isinstance(settings, dict) else None
    if mode == "disabled" or not (demanded or (mode == "enabled" and lacks_thinking(body))):
        return body
    if mode == "enabled" and isinstance(settings, dict) and "adaptive" in capabilities.thinking:
        ledger.approximated(Feature.THINKING, ("reasoning",), f"adaptive, {_WHY}")
        return _adaptive(body, thinking, settings, capabilities)
    if "disabled" not in capabilities.thinking:
        return body
    ledger.approximated(Feature.THINKING, ("reasoning",), f"off, {_WHY}")
    off = _put(body, thinking, _OFF) if thinking else with_member(body, "thinking", encode(_OFF))
    return _without_clearing(off, ledger)


def _turn_lacks_thinking(body: bytes) -> bool:
    """Whether the turn that the response continues (a prefill, or calls with results) begins with another block."""
    first_type: JsonValue = None
    user = has_results = False
    for role, types in _from_the_end(body):
        if role == "assistant":
            if user and not has_results:
                return False
            first_type = types[0] if types else first_type
        elif first_type is not None:
            break
        else:
            user, has_results = True, has_results or "tool_result" in types
    return first_type is not None and first_type not in _SEALED and (not user or _loop_lacks_thinking(body, first=2))


def _loop_lacks_thinking(body: bytes, *, first: int = 1) -> bool:
    """Whether the last message has results of calls, and no step since the user's last message has thinking. Steps
    before `first` do not count. With thinking off the provider rejects a loop that has some:
    https://github.com/BerriAI/litellm/issues/18926."""
    steps = 0
    has_results = False
    before = ""
    for role, types in _from_the_end(body):
        if role == "assistant":
            if before != role:
                if not has_results:
                    break
                steps, has_results = steps + 1, False
            if steps >= first and not _SEALED.isdisjoint(types):
                return False
        else:
            has_results = has_results or "tool_result" in types
        before = role
    return steps > 0


def _from_the_end(body: bytes) -> Iterator[tuple[str, list[str]]]:
    """Role and block types of each message, the last one first, without instructions between messages."""
    for _, span in reversed(elements_of(body, "messages")):
        message = decode(body[span.start : span.end])
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(message, dict) or role == "system":
            continue
        content = message.get("content")
        yield str(role), [str(_type(block)) for block in content] if isinstance(content, list) else ["text"]


def _adaptive(body: bytes, thinking: list[Member], settings: JsonObject, capabilities: Capabilities) -> bytes:
    """Replace the budget by adaptive thinking of the same depth."""
    preserved: JsonObject = {name: value for name, value in settings.items() if name in _ADAPTIVE_TOO}
    body = _put(body, thinking, {"type": "adaptive", **preserved})
    budget = settings.get("budget_tokens")
    if capabilities.efforts == () or not isinstance(budget, int):
        return body
    wanted = effort_for(budget)
    effort = encode(nearest("low" if wanted == "minimal" else wanted, capabilities.efforts))
    configs = named(object_members(body), "output_config")
    if not configs:
        return with_member(body, "output_config", b'{"effort":' + effort + b"}")
    config = last_value(body, configs)
    if not isinstance(config, dict) or config.get("effort") is not None:
        return body
    return with_member(body, "effort", effort, configs[-1].value_end)


def _without_clearing(body: bytes, ledger: Ledger) -> bytes:
    for member in reversed(named(object_members(body), "context_management")):
        management = last_value(body, [member])
        edits = management.get("edits") if isinstance(management, dict) else None
        if not isinstance(edits, list):
            continue
        spans = elements_of(body, "edits", member.value_start, member.value_end)
        kinds = [str(_type(decode(body[span.start : span.end]))) for _, span in spans]
        clearing = [span for (_, span), kind in zip(spans, kinds, strict=True) if kind.startswith("clear_thinking_")]
        if clearing:
            note = "thinking that is off cannot be cleared"
            ledger.dropped(Feature.CONTEXT_MANAGEMENT, ("context_management",), note)
            body = without(body, [member.whole] if len(clearing) == len(spans) else clearing)
    return body


def _put(body: bytes, members: list[Member], value: JsonObject) -> bytes:
    return replaced(body, [(member.value, encode(value)) for member in members])


def _type(block: JsonValue) -> JsonValue:
    return block.get("type") if isinstance(block, dict) else None
