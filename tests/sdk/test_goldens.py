"""Whatever the golden stories come to, the official SDKs take it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sdk.digging import Object, dig_object, dig_objects, dig_text
from tests.sdk.names import CHAT, MESSAGES
from tests.sdk.oracles import check_answer, check_request, check_stream
from tests.sdk.stories import FILES, Outcome, outcomes


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".txtar"))
def test_the_sdks_take_every_outcome_of_a_story(path: Path) -> None:
    faults: list[str] = []
    for outcome in outcomes(path):
        try:
            _check(outcome)
        except AssertionError as fault:
            faults.append(f"{outcome.said} -> {outcome.kind} {outcome.target}\n{fault}")
    if faults:
        pytest.fail("\n\n".join(faults), pytrace=False)


def _check(outcome: Outcome) -> None:
    if outcome.kind == "request":
        check_request(outcome.target, json.loads(outcome.request), outcome.headers)
        return
    if outcome.failed:
        return
    whole = json.loads(outcome.answer)
    check_answer(outcome.target, whole)
    told = check_stream(outcome.target, outcome.stream)
    heard, meant = (_essence(outcome, body) for body in (told.body, whole))
    for name, value in meant.items():
        assert heard[name] == value, f"S12: {name} accumulated\n  {heard[name]}\nwhole\n  {value}"


def _essence(outcome: Outcome, answer: Object) -> Object:
    """What a client reads out of an answer: minted ids, times and what an SDK adds of its own are left out."""
    if outcome.target == MESSAGES:
        kept = {name: answer.get(name) for name in ("stop_reason", "stop_sequence", "stop_details", "usage")}
        # The tier is known when a stream ends, and only its start could tell it.
        kept["usage"] = _known(dig_object(answer, "usage"), "service_tier")
        return {**kept, "content": _blocks(outcome, dig_objects(answer, "content"))}
    if outcome.target == CHAT:
        choice = dig_objects(answer, "choices")[0]
        return {"message": _message(outcome, choice["message"]), "finish_reason": choice["finish_reason"]}
    items = [_item(outcome, item) for item in dig_objects(answer, "output")]
    kept = {name: answer.get(name) for name in ("status", "incomplete_details", "error", "usage")}
    return {**kept, "output": items}


def _known(block: Object, *unwanted: str) -> Object:
    return {name: value for name, value in block.items() if name not in unwanted and value is not None}


def _given(outcome: Outcome, identity: object) -> object:
    """An id of the provider's; those it left out are minted anew each time."""
    return identity if str(identity) in outcome.source else "minted"


def _blocks(outcome: Outcome, content: list[Object]) -> list[Object]:
    """Blocks with neighbouring texts as one: a stream attaches citations without splitting the text (§19)."""
    blocks: list[Object] = []
    for block in (_known(block, "parsed_output") for block in content):
        if "id" in block:
            block["id"] = _given(outcome, block["id"])
        if outcome.cut and block["type"] == "tool_use":
            # Cut arguments are repaired in a whole answer and left as they are in a stream (§17).
            del block["input"]
        if blocks and block["type"] == blocks[-1]["type"] == "text":
            before = blocks.pop()
            text = dig_text(before, "text") + dig_text(block, "text")
            cited = [*_list(before.get("citations")), *_list(block.get("citations"))]
            block = {"type": "text", "text": text, **({"citations": cited} if cited else {})}
        blocks.append(block)
    return blocks


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _message(outcome: Outcome, message: object) -> Object:
    assert isinstance(message, dict)
    kept = _known(message, "parsed")
    # A stream opens with empty content, a whole answer without text has null; calls are custom only when whole (§7).
    kept["content"] = kept.get("content") or None
    kept["tool_calls"] = [_call(outcome, call) for call in message.get("tool_calls") or []]
    for name in ("annotations", "reasoning_details"):
        if name in kept:
            kept[name] = [_known(entry, "index") for entry in dig_objects(kept, name)]
    return kept


def _call(outcome: Outcome, call: Object) -> tuple[object, object, object]:
    if call.get("type") == "custom":
        custom = call["custom"]
        assert isinstance(custom, dict)
        return _given(outcome, call["id"]), custom["name"], {"input": custom["input"]}
    function = call["function"]
    assert isinstance(function, dict)
    try:
        return _given(outcome, call["id"]), function["name"], json.loads(function["arguments"])
    except ValueError:
        return _given(outcome, call["id"]), function["name"], function["arguments"]


def _item(outcome: Outcome, item: Object) -> Object:
    kept = _known(item, "id", "parsed_arguments")
    if "call_id" in kept:
        kept["call_id"] = _given(outcome, kept["call_id"])
    if isinstance(kept.get("content"), list):
        kept["content"] = [_known(part, "parsed") for part in dig_objects(kept, "content")]
    return kept
