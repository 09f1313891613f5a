"""Calls made at once, told one after the other, for servers that want each result directly after its call."""

from __future__ import annotations

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger


def split_parallel_calls(messages: JsonList, ledger: Ledger) -> JsonList:
    """The same conversation, in which no message has two calls that both have results."""
    sequence: JsonList = []
    at = 0
    while at < len(messages):
        message = messages[at]
        end = at + 1
        while end < len(messages) and _result(messages[end]) is not None:
            end += 1
        calls = _calls(message)
        results = {_result(messages[place]): messages[place] for place in range(at + 1, end)}
        if (
            isinstance(message, dict)
            and len(calls) > 1
            and results.keys() == calls.keys()
            and len(calls) == end - at - 1
        ):
            ledger.approximated(
                Feature.PARALLEL_CALLS, ("messages",), "calls made at once are told one after the other"
            )
            sequence += _pairs(message, calls, results)
        else:
            sequence += messages[at:end]
        at = end
    return sequence


def _pairs(message: JsonObject, calls: dict[str, JsonValue], results: dict[str | None, JsonValue]) -> JsonList:
    pairs: JsonList = []
    for call_id, call in calls.items():
        # What was said and thought before the calls is said once.
        opening: JsonObject = {"role": "assistant", "content": None} if pairs else message
        pairs += [{**opening, "tool_calls": [call]}, results[call_id]]
    return pairs


def _calls(message: JsonValue) -> dict[str, JsonValue]:
    value = message.get("tool_calls") if isinstance(message, dict) else None
    calls = value if isinstance(value, list) else []
    return {str(call["id"]): call for call in calls if isinstance(call, dict)}


def _result(message: JsonValue) -> str | None:
    if isinstance(message, dict) and message.get("role") == "tool":
        return str(message.get("tool_call_id"))
    return None
