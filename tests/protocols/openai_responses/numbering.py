"""An answer with reasoning, words and calls, told as the vendor tells it, and what is read of a stream."""

from __future__ import annotations

import copy
from typing import TypeAlias

from dragoman.model.events import Event
from dragoman.model.folding import fold
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Refusal, Text, Thinking, ToolCall
from dragoman.model.response import Response
from dragoman.protocols.openai_responses import NAME
from tests.protocols.openai_responses.asking import response_body

Stream: TypeAlias = list[JsonObject]


def event(kind: str, index: int, item_id: str, **members: JsonValue) -> JsonObject:
    return {"type": "response." + kind, "output_index": index, "item_id": item_id, **members}


def item_event(kind: str, index: int, item: JsonObject) -> JsonObject:
    return {"type": "response.output_item." + kind, "output_index": index, "item": item}


def text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": []}


def message(name: str, *texts: str) -> JsonObject:
    return {"type": "message", "id": name, "role": "assistant", "content": [text_part(text) for text in texts]}


def call(name: str, call_id: str, arguments: str) -> JsonObject:
    return {"type": "function_call", "id": name, "call_id": call_id, "name": "look", "arguments": arguments}


def told_message(index: int, whole: JsonObject) -> Stream:
    name, found = str(whole["id"]), whole["content"]
    assert isinstance(found, list)
    stream = [item_event("added", index, {**whole, "content": []})]
    for place, part in enumerate(found):
        assert isinstance(part, dict)
        text, at = str(part["text"]), {"content_index": place}
        stream += [
            event("content_part.added", index, name, part=text_part(""), **at),
            event("output_text.delta", index, name, delta=text[:3], **at),
            event("output_text.delta", index, name, delta=text[3:], **at),
            event("output_text.done", index, name, text=text, **at),
            event("content_part.done", index, name, part=part, **at),
        ]
    return [*stream, item_event("done", index, whole)]


def told_call(index: int, whole: JsonObject) -> Stream:
    name, text = str(whole["id"]), str(whole["arguments"])
    kind = "function_call_arguments."
    return [
        item_event("added", index, {**whole, "arguments": ""}),
        event(kind + "delta", index, name, delta=text[:4]),
        event(kind + "delta", index, name, delta=text[4:]),
        event(kind + "done", index, name, arguments=text),
        item_event("done", index, whole),
    ]


def told_reasoning(index: int, whole: JsonObject) -> Stream:
    name = str(whole["id"])
    return [
        item_event("added", index, {**whole, "summary": []}),
        event("reasoning_summary_text.delta", index, name, summary_index=0, delta="First I "),
        event("reasoning_summary_text.delta", index, name, summary_index=0, delta="look."),
        event("reasoning_summary_text.done", index, name, summary_index=0, text="First I look."),
        item_event("done", index, whole),
    ]


REASONING: JsonObject = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First I look."}],
}
OUTPUT: list[JsonObject] = [
    REASONING,
    message("msg_1", "Two things.", " Wait."),
    call("fc_1", "call_1", '{"at": "here"}'),
    call("fc_2", "call_2", '{"at": "there"}'),
    message("msg_2", "Both asked."),
]


def vendor() -> Stream:
    """The answer as the vendor tells it."""
    output = copy.deepcopy(OUTPUT)
    return [
        {"type": "response.created", "response": {"id": "resp_1", "model": "m"}},
        *told_reasoning(0, output[0]),
        *told_message(1, output[1]),
        *told_call(2, output[2]),
        *told_call(3, output[3]),
        *told_message(4, output[4]),
        {"type": "response.completed", "response": response_body(*output)},
    ]


def folded(events: list[Event]) -> Response:
    response = fold(events, NAME)
    assert isinstance(response, Response), response
    return response


def meaning(response: Response) -> list[object]:
    """Words and calls in their order; how the words are divided is the server's."""
    texts = "".join(part.text for part in response.parts if isinstance(part, Text | Refusal))
    thoughts = [part.text for part in response.parts if isinstance(part, Thinking)]
    calls = [(part.name, part.arguments) for part in response.parts if isinstance(part, ToolCall)]
    return [texts, thoughts, calls]
