"""Servers that number items and content otherwise than the vendor, or not at all: everything is told, and once.

One answer, told as the vendor tells it, is changed by the habits of others; what is read of it stays the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import count

import pytest

from dragoman.model.events import PartGrew, PartStarted, TextDelta
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Text, Thinking, ThinkingKind, ToolCall
from tests.protocols.openai_responses.asking import read, response_body
from tests.protocols.openai_responses.numbering import (
    Stream,
    call,
    folded,
    meaning,
    message,
    text_part,
    told_call,
    vendor,
)


def final(stream: Stream) -> list[JsonObject]:
    response = stream[-1]["response"]
    assert isinstance(response, dict)
    output = response["output"]
    assert isinstance(output, list)
    items = [item for item in output if isinstance(item, dict)]
    assert len(items) == len(output)
    return items


def without(*keys: str) -> Callable[[Stream], Stream]:
    return lambda stream: [{key: value for key, value in one.items() if key not in keys} for one in stream]


def without_ids(stream: Stream) -> Stream:
    """Neither events nor items are named."""
    for one in stream:
        if isinstance(item := one.get("item"), dict):
            one["item"] = {key: value for key, value in item.items() if key != "id"}
    return without("item_id")(stream)


def no_names_at_all(stream: Stream) -> Stream:
    return without("output_index", "content_index", "summary_index")(without_ids(stream))


def all_at(index: int) -> Callable[[Stream], Stream]:
    def change(stream: Stream) -> Stream:
        return [{**one, "output_index": index} if "output_index" in one else one for one in stream]

    return change


def content_from(start: int) -> Callable[[Stream], Stream]:
    """The content is numbered from elsewhere, or through all items."""

    def change(stream: Stream) -> Stream:
        for one in stream:
            if isinstance(place := one.get("content_index"), int):
                one["content_index"] = place + start
        return stream

    return change


def one_content_index(stream: Stream) -> Stream:
    return [{**one, "content_index": 0} if "content_index" in one else one for one in stream]


def indexes_through_events(stream: Stream) -> Stream:
    """Announced and done at one index, told at another."""
    for one in stream:
        if "item_id" in one and isinstance(index := one["output_index"], int):
            one["output_index"] = index + 1
    return stream


def new_ids_in_every_event(stream: Stream) -> Stream:
    numbers = count()
    for one in stream:
        if "item_id" in one:
            one["item_id"] = f"x{next(numbers)}"
        if isinstance(item := one.get("item"), dict):
            one["item"] = {**item, "id": f"x{next(numbers)}"}
    return new_ids_at_the_end(stream)


def new_ids_at_the_end(stream: Stream) -> Stream:
    for number, item in enumerate(final(stream)):
        item = final(stream)[number] = {**item, "id": f"final_{number}"}
        if "call_id" in item:
            item["call_id"] = f"final_call_{number}"
    return stream


def trimmed(*kept: int) -> Callable[[Stream], Stream]:
    """The output at the end has only some of the items, perhaps by other names."""

    def change(stream: Stream) -> Stream:
        output = final(stream)
        output[:] = [output[number] for number in kept]
        return stream

    return change


def both(*changes: Callable[[Stream], Stream]) -> Callable[[Stream], Stream]:
    def change(stream: Stream) -> Stream:
        for one in changes:
            stream = one(stream)
        return stream

    return change


def announced_twice(stream: Stream) -> Stream:
    out: Stream = []
    for one in stream:
        out += [one, copy.deepcopy(one)] if one["type"] == "response.output_item.added" else [one]
    return out


def announced_again_elsewhere(stream: Stream) -> Stream:
    out: Stream = []
    for one in stream:
        out.append(one)
        if one["type"] == "response.output_item.added" and isinstance(index := one["output_index"], int):
            out.append({**one, "output_index": index + 10})
    return out


def never_announced(stream: Stream) -> Stream:
    return [one for one in stream if one["type"] != "response.output_item.added"]


def never_done(stream: Stream) -> Stream:
    return [one for one in stream if not str(one["type"]).endswith(".done")]


def never_done_nor_repeated(stream: Stream) -> Stream:
    stream = never_done(stream)
    final(stream).clear()
    return stream


def done_events_again_after_their_item(stream: Stream) -> Stream:
    """Each item is done, and then the ends of its parts are repeated."""
    out: Stream = []
    for one in stream:
        out.append(one)
        if one["type"] == "response.output_item.done":
            ends = [each for each in stream if str(each["type"]).endswith(".done") and "item_id" in each]
            out += [copy.deepcopy(each) for each in ends if each["output_index"] == one["output_index"]]
    return out


def only_done_items(stream: Stream) -> Stream:
    kept = ("response.created", "response.output_item.done", "response.completed")
    return [one for one in stream if one["type"] in kept]


def only_the_end(stream: Stream) -> Stream:
    return [stream[0], stream[-1]]


def joined(content: list[JsonValue]) -> str:
    return "".join(str(part["text"]) for part in content if isinstance(part, dict))


def other_white_space(stream: Stream) -> Stream:
    for one in stream:
        if str(one["type"]).endswith("done"):
            for key in ("text", "arguments"):
                if isinstance(text := one.get(key), str):
                    one[key] = text.replace(" ", "") + "\n"
    for item in final(stream):
        if "arguments" in item:
            item["arguments"] = str(item["arguments"]).replace(" ", "")
        elif isinstance(content := item.get("content"), list):
            item["content"] = [text_part(joined(content).strip() + "\n")]
    return stream


def content_in_one_part(stream: Stream) -> Stream:
    """What was told in two parts is one at the end."""
    for item in [*final(stream), *(one["item"] for one in stream if str(one["type"]).endswith("item.done"))]:
        assert isinstance(item, dict)
        if isinstance(content := item.get("content"), list) and len(content) > 1:
            item["content"] = [text_part(joined(content))]
    return stream


def one_message_at_the_end(stream: Stream) -> Stream:
    final(stream)[:] = [message("m", "Two things. Wait.Both asked."), *final(stream)[2:4]]
    return stream


HABITS: dict[str, Callable[[Stream], Stream]] = {
    "the vendor": lambda stream: stream,
    "no output_index": without("output_index"),
    "no content_index": without("content_index"),
    "no indexes": without("output_index", "content_index", "summary_index"),
    "no item_id": without("item_id"),
    "no ids": without_ids,
    "no ids, no indexes": no_names_at_all,
    "all at one output_index": all_at(0),
    "all at one output_index, no item_id": both(all_at(0), without("item_id")),
    "content from 1": content_from(1),
    "content from 5, no item_id": both(content_from(5), without("item_id")),
    "all at one content_index": one_content_index,
    "told at other indexes": indexes_through_events,
    "told at other indexes, no item_id": both(indexes_through_events, without("item_id")),
    "ids change with every event": new_ids_in_every_event,
    "other ids at the end": new_ids_at_the_end,
    "other ids at the end, reasoning left out": both(new_ids_at_the_end, trimmed(1, 2, 3, 4)),
    "only the last message at the end": both(new_ids_at_the_end, trimmed(4)),
    "only the calls at the end": trimmed(2, 3),
    "only the calls at the end, by other ids": both(new_ids_at_the_end, trimmed(3, 2)),
    "nothing at the end": trimmed(),
    "another order at the end": trimmed(4, 3, 2, 1, 0),
    "announced twice": announced_twice,
    "announced twice without ids": both(without_ids, announced_twice),
    "announced again elsewhere": announced_again_elsewhere,
    "never announced": never_announced,
    "done events repeated after their item": done_events_again_after_their_item,
    "only done items": only_done_items,
    "only done items at one index": both(only_done_items, all_at(0)),
    "only done items without ids": both(only_done_items, without_ids),
    "only the end": only_the_end,
    "never done": never_done,
    "never done, other ids": both(never_done, new_ids_at_the_end),
    "never done, no output": never_done_nor_repeated,
    "white space": other_white_space,
    "white space, other ids": both(other_white_space, new_ids_at_the_end),
    "white space, content from 1": both(other_white_space, content_from(1)),
    "content in one part": content_in_one_part,
    "one message at the end": one_message_at_the_end,
}


@pytest.mark.parametrize("habit", HABITS.values(), ids=list(HABITS))
def test_item_8_everything_is_told_once(habit: Callable[[Stream], Stream]) -> None:
    found = folded(read(habit(vendor())))
    assert meaning(found) == [
        "Two things. Wait.Both asked.",
        ["First I look."],
        [("look", '{"at": "here"}'), ("look", '{"at": "there"}')],
    ]
    calls = [part.call_id for part in found.parts if isinstance(part, ToolCall)]
    assert calls == ["call_1", "call_2"]


def test_item_8_parallel_calls_that_share_an_id_go_by_their_place() -> None:
    one, two = call("fc", "call_1", '{"a":1}'), call("fc", "call_2", '{"a":2}')
    first, second = told_call(0, one), told_call(1, two)
    stream = [vendor()[0], *[event for pair in zip(first, second, strict=True) for event in pair]]
    stream.append({"type": "response.completed", "response": response_body(one, two)})
    calls = [(part.call_id, part.arguments) for part in folded(read(stream)).parts if isinstance(part, ToolCall)]
    assert calls == [("call_1", '{"a":1}'), ("call_2", '{"a":2}')]


def test_item_8_an_event_of_another_kind_of_item_begins_its_own() -> None:
    item: JsonObject = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    found = read(
        [
            {"type": "response.created", "response": {"id": "resp_1"}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "x"},
            {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "a"},
            {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "y"},
        ],
        close=False,
    )
    assert found[1:] == [
        PartStarted(0, Thinking(text="", kind=ThinkingKind.SUMMARY)),
        PartGrew(0, TextDelta("x")),
        PartStarted(1, Text(text="", id="msg_1")),
        PartGrew(1, TextDelta("a")),
        PartGrew(0, TextDelta("y")),
    ]
