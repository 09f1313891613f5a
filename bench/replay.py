"""The agent's conversation as it is when this library translated every earlier answer of it.

What a client sends back then carries the provider's proofs of reasoning in envelopes, and they have to be unpacked for
the provider: dearer, and in a long session more usual, than a history that comes from somewhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from msgspec import json

from bench.conversation import Step
from bench.workloads import ANSWERS, CHAT, MESSAGES, MODELS, RESPONSES, conversation, request
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.translate import translate_request, translate_response


@cache
def replayed(source: str, target: str) -> bytes:
    """The agent's request from a client of `source`, after a session with a provider of `target`."""
    said = request("agent", source)
    if source == target:
        return said
    question = translate_request(said, source=source, target=target, model=MODELS[target])

    def heard(step: Step) -> JsonObject:
        told = json.encode(ANSWERS[target](step))
        answer = translate_response(told, source=target, target=source, request=question)
        return _object(json.decode(answer.body))

    answers = (heard(step) for turn in conversation("agent").turns for step in turn.steps)
    body = _object(json.decode(said))
    member = "input" if source == RESPONSES else "messages"
    body[member] = _RETOLD[source](_list(body[member]), answers)
    return json.encode(body)


def _retold_messages(messages: JsonList, answers: Iterator[JsonObject]) -> JsonList:
    ids: dict[JsonValue, JsonValue] = {}
    for message in map(_object, messages):
        before = message["content"]
        if message["role"] == "assistant":
            message["content"] = after = _list(next(answers)["content"])
            ids.update(zip(_ids(_list(before), "id"), _ids(after, "id"), strict=True))
        elif isinstance(before, list):
            _rename(before, "tool_use_id", ids)
    return messages


def _retold_chat(messages: JsonList, answers: Iterator[JsonObject]) -> JsonList:
    ids: dict[JsonValue, JsonValue] = {}
    told: JsonList = []
    for message in map(_object, messages):
        if message["role"] == "assistant":
            choice = _object(_list(next(answers)["choices"])[0])
            after: JsonObject = {name: value for name, value in _object(choice["message"]).items() if value is not None}
            calls = _list(message.get("tool_calls", []))
            ids.update(zip(_ids(calls, "id"), _ids(_list(after.get("tool_calls", [])), "id"), strict=True))
            told.append(after)
        else:
            told.append(message)
    _rename(told, "tool_call_id", ids)
    return told


def _retold_items(items: JsonList, answers: Iterator[JsonObject]) -> JsonList:
    ids: dict[JsonValue, JsonValue] = {}
    told: JsonList = []
    calls: JsonList = []
    for item in map(_object, items):
        if item["type"] == "reasoning":
            # Every step of the agent begins with one: the whole step is said anew here.
            output = _list(next(answers)["output"])
            told += output
            calls = _ids(output, "call_id")
        elif item["type"] == "function_call":
            ids[item["call_id"]] = calls.pop(0)
        elif item.get("role") != "assistant":
            told.append(item)
    _rename(told, "call_id", ids)
    return told


def _ids(units: JsonList, member: str) -> JsonList:
    return [unit[member] for unit in map(_object, units) if member in unit]


def _rename(units: JsonList, member: str, ids: dict[JsonValue, JsonValue]) -> None:
    for unit in map(_object, units):
        if member in unit:
            unit[member] = ids.get(unit[member], unit[member])


def _object(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict)
    return value


def _list(value: JsonValue) -> JsonList:
    assert isinstance(value, list)
    return value


_RETOLD: dict[str, Callable[[JsonList, Iterator[JsonObject]], JsonList]] = {
    MESSAGES: _retold_messages,
    CHAT: _retold_chat,
    RESPONSES: _retold_items,
}
