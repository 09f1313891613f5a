"""The plain reading of streams: pieces put together as servers send them."""

from __future__ import annotations

import pytest

from tools.replaying.protocols import CHAT, MESSAGES, RESPONSES, Object, written
from tools.replaying.said import CALLS, STOP, Call, Counts, Said
from tools.replaying.stream import CUT, read_stream


def _read(protocol: str, *events: Object, closed: bool = True) -> Said:
    return read_stream(protocol, written(protocol, list(events), closed=closed))


def _chunk(delta: Object, reason: str | None = None) -> Object:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def _piece(index: int | None, call_id: str | None, name: str | None, arguments: str) -> Object:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


END = _chunk({}, "tool_calls")

PIECES: dict[str, tuple[list[Object], list[Call]]] = {
    "by index": (
        [
            _piece(0, "a", "f", ""),
            _piece(1, "b", "g", ""),
            _piece(0, None, None, '{"x":'),
            _piece(1, None, None, "{}"),
            _piece(0, None, None, "1}"),
        ],
        [Call("a", "f", {"x": 1}), Call("b", "g", {})],
    ),
    "an id beats an index": (
        [
            _piece(0, "a", "f", ""),
            _piece(1, "b", "g", ""),
            _piece(1, "a", None, '{"x":1}'),
            _piece(0, "b", None, '{"y":2}'),
        ],
        [Call("a", "f", {"x": 1}), Call("b", "g", {"y": 2})],
    ),
    "one index for all": (
        [_piece(0, "a", "f", '{"x":1}'), _piece(0, "b", "f", '{"x":2}')],
        [Call("a", "f", {"x": 1}), Call("b", "f", {"x": 2})],
    ),
    "an index that was never opened": (
        [_piece(0, "a", "f", ""), _piece(1, None, None, '{"x":1}')],
        [Call("a", "f", {"x": 1})],
    ),
    "a whole call said again": (
        [_piece(0, "a", "f", '{"x":1}'), _piece(0, "a", "f", '{"x":1}')],
        [Call("a", "f", {"x": 1})],
    ),
    "no index at all": (
        [_piece(None, "a", "f", "{}"), _piece(None, "b", "g", "{}")],
        [Call("a", "f", {}), Call("b", "g", {})],
    ),
}


@pytest.mark.parametrize("case", PIECES)
def test_calls_of_chat(case: str) -> None:
    pieces, calls = PIECES[case]
    said = _read(CHAT, *(_chunk({"tool_calls": [piece]}) for piece in pieces), END)
    assert (said.calls, said.end, said.error) == (calls, CALLS, None)


def test_chat() -> None:
    usage: Object = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    said = _read(
        CHAT, _chunk({"reasoning_content": "h"}), _chunk({"content": "a"}), _chunk({"content": "b"}, "stop"), usage
    )
    assert (said.text, said.reasoning, said.end, said.counts) == ("ab", "h", STOP, Counts(3, 2, None))


def test_chat_seal_in_pieces() -> None:
    parts = [{"index": 0, "type": "reasoning.encrypted", "data": data} for data in ("se", "al")]
    said = _read(CHAT, *(_chunk({"reasoning_details": [part]}) for part in parts), _chunk({}, "stop"))
    assert said.seals == ["seal"]


def test_chat_without_a_reason_is_whole_if_it_says_so() -> None:
    assert _read(CHAT, _chunk({"content": "a"})).error is None
    assert _read(CHAT, _chunk({"content": "a"}), closed=False).error == CUT


def test_messages() -> None:
    said = _read(
        MESSAGES,
        {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        },
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"x":1}'}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )
    assert (said.reasoning, said.seals, said.calls) == ("hm", ["s"], [Call("t", "f", {"x": 1})])
    assert (said.end, said.counts) == (CALLS, Counts(3, 5, None))


def test_messages_start_may_hold_everything() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}
    start: Object = {"type": "message_start", "message": {"content": [call], "stop_reason": "tool_use"}}
    said = _read(MESSAGES, start, {"type": "message_stop"})
    assert (said.calls, said.end) == ([Call("t", "f", {"x": 1})], CALLS)


def test_messages_second_start_is_a_broken_stream() -> None:
    start: Object = {"type": "message_start", "message": {"id": "a"}}
    other: Object = {"type": "message_start", "message": {"id": "b"}}
    assert _read(MESSAGES, start, other).error == "a second message began"
    assert _read(MESSAGES, start, start, {"type": "message_stop"}).error is None
    block: Object = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    assert _read(MESSAGES, start, block, start).error == "a second message began"


def test_responses_items_are_told_once() -> None:
    item: Object = {"id": "m", "type": "message", "content": [{"type": "output_text", "text": "ab"}]}
    delta: Object = {"type": "response.output_text.delta", "item_id": "m", "output_index": 7, "delta": "ab"}
    done: Object = {"type": "response.output_item.done", "item": item}
    end: Object = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    said = _read(RESPONSES, {"type": "response.created", "response": {}}, delta, done, end)
    assert (said.text, said.end, said.shortened) == ("ab", STOP, False)
    assert _read(RESPONSES, {"type": "response.created", "response": {}}, delta, end).text == "ab"


def test_responses_shortened_by_hand() -> None:
    item: Object = {"id": "m", "type": "message", "content": [{"type": "output_text", "text": "a long text"}]}
    said = _read(
        RESPONSES,
        {"type": "response.created", "response": {}},
        {"type": "response.output_text.delta", "item_id": "m", "delta": "a text"},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"status": "completed"}},
    )
    assert said.shortened


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"type": "error", "message": "no"}, "no"),
        ({"type": "response.failed", "response": {"status": "failed", "error": {"message": "no"}}}, "no"),
        ({"type": "response.in_progress"}, CUT),
    ],
)
def test_responses_failures(event: Object, text: str) -> None:
    assert _read(RESPONSES, {"type": "response.created", "response": {}}, event).error == text


def test_halves_of_a_character_in_two_pieces() -> None:
    said = _read(CHAT, _chunk({"content": "a\ud83d"}), _chunk({"content": "\ude00", "reasoning": "\ud83d"}, "stop"))
    assert said.text == "a😀"
