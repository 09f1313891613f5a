"""Finish reasons, decoded and encoded (mapping.md §17, §20). `rules/stop_reasons` has their values."""

from __future__ import annotations

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.model.response import Stop, StopReason
from dragoman.protocols.openai_chat.shapes import FINISH_REASONS, NAME
from dragoman.rules.extras import drop_extras
from dragoman.rules.stop_reasons import reason_of, stated_reason

# Members of a choice in which servers report the matched stop sequence.
STOP_SEQUENCE_MEMBERS = ("stop_reason", "matched_stop")

# Bound once: looking up an enum member is slow, and every response needs these.
_REFUSAL, _TOOL_CALL, _PAUSE = StopReason.REFUSAL, StopReason.TOOL_CALL, StopReason.PAUSE
# Stop reasons that win over the content.
_CUT = (StopReason.LENGTH, StopReason.CONTEXT_FULL, StopReason.FILTER)
_COMPLETE = (StopReason.TOOL_CALL, StopReason.END, StopReason.OTHER, StopReason.SEQUENCE)

# Azure's report about the prompt, in the first chunk of a response or next to its choices
# (https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter).
PROMPT_FILTER = "prompt_filter_results"


def is_filtered(results: JsonValue) -> bool:
    if isinstance(results, dict):
        return results.get("filtered") is True or any(is_filtered(member) for member in results.values())
    return isinstance(results, list) and any(is_filtered(member) for member in results)


def stop_sequence(choice: JsonObject) -> tuple[str, str] | None:
    """The matched stop sequence and its member, if the server reports it. Token IDs are ignored."""
    for key in STOP_SEQUENCE_MEMBERS:
        value = choice.get(key)
        if isinstance(value, str) and value:
            return key, value
    return None


def stop_of(finish_reason: str | None, *, calls: bool, refusal: str | None, sequence: tuple[str, str] | None) -> Stop:
    """The stop reason for the content (mapping.md §17): a truncated call must not run."""
    finish_reason = stated_reason(finish_reason)
    reason = reason_of(finish_reason)
    if reason not in _CUT:
        if refusal:
            reason = _REFUSAL
        elif calls:
            reason = _TOOL_CALL
        elif sequence is not None and finish_reason in ("stop", "stop_sequence"):
            extras = Extras(origin=NAME, fields={sequence[0]: sequence[1]})
            return Stop(reason=StopReason.SEQUENCE, native=finish_reason, sequence=sequence[1], extras=extras)
    return Stop(reason=reason, native=finish_reason, explanation=refusal)


def finish_reason_of(stop: Stop, *, calls: bool, refusal: bool, legacy: bool) -> str:
    """The finish reason of a response. A refusal in text ends normally, one by a classifier is `content_filter`
    (§20)."""
    reason = stop.reason
    if reason is _REFUSAL and refusal:
        return "stop"
    if calls and reason in _COMPLETE:
        return "function_call" if legacy else "tool_calls"
    return "stop" if reason is _TOOL_CALL else FINISH_REASONS[reason]


_BENT = {
    StopReason.CONTEXT_FULL: "a full context window is told as an answer cut at its length",
    StopReason.COMPACTED: "an answer that ends in a compaction is told as complete",
    StopReason.OTHER: "an end that is not known is told as complete",
}


def report_stop(stop: Stop, ledger: Ledger) -> None:
    if stop.reason is _PAUSE:
        ledger.approximated(Feature.PAUSE, ("stop",), "a pause is told as an answer cut at its length")
    elif stop.reason in _BENT:
        ledger.approximated(Feature.STOP_REASON, ("stop", "reason"), _BENT[stop.reason])
    if stop.sequence is not None:
        ledger.dropped(Feature.STOP_SEQUENCE, ("stop", "sequence"), "which stop string fired is not told here")
    if stop.category is not None:
        ledger.dropped(Feature.STOP_REASON, ("stop", "category"), "there is no category of refusals here")
    if stop.extras is not None and stop.extras.origin != NAME:
        drop_extras(stop.extras, ("stop",), ledger)
