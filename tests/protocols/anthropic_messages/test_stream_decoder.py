"""Streams read from a provider: order, ends, and what is no error."""

from __future__ import annotations

import pytest

from dragoman.model.events import (
    ArgumentsDelta,
    Ended,
    Event,
    Failed,
    Heartbeat,
    PartEnded,
    PartGrew,
    PartStarted,
    SealSet,
    TextDelta,
    UsageReported,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.folding import fold
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Foreign, InputForm, Part, Text, Thinking, ToolCall
from dragoman.model.response import Response, Usage
from dragoman.model.tools import TextTool
from dragoman.protocols.anthropic_messages import CODEC, NAME
from dragoman.rules.tool_table import ToolTable, Wrapped
from dragoman.wire.json import encode
from dragoman.wire.sse import Frame
from tests.model.event_order import OrderCheck
from tests.protocols.anthropic_messages.support import (
    CLOSING,
    OPENING,
    asked,
    at,
    decoded_stream,
    delta,
    frames,
    mint,
    plain,
    start,
    stop,
)


def told(*blocks: JsonObject, given: list[JsonObject] | None = None) -> list[Event]:
    """The events of a whole stream around some blocks; they are legal in their order."""
    events = decoded_stream([OPENING, *blocks, *(CLOSING if given is None else given)])
    check = OrderCheck()
    for event in events:
        check(event)
    return events


def parts(events: list[Event]) -> tuple[Part, ...]:
    """The parts that a stream tells."""
    answer = fold(events, NAME)
    assert isinstance(answer, Response)
    return answer.parts


def test_text_is_announced_with_its_first_character() -> None:
    events = told(
        start(0, type="text", text=""), delta(0, "text_delta", text=""), delta(0, "text_delta", text="hi"), stop(0)
    )
    assert events[2:5] == [PartStarted(0, Text(text="")), PartGrew(0, TextDelta("hi")), PartEnded(0)]


def test_pitfall_016_an_empty_block_is_no_part() -> None:
    assert parts(told(start(0, type="text", text=""), stop(0))) == ()


def test_thinking_is_sealed_whole_at_its_end() -> None:
    events = told(
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="a"),
        delta(0, "thinking_delta", thinking="b"),
        delta(0, "signature_delta", signature="s"),
        stop(0),
    )
    sealed = events[5]
    assert isinstance(sealed, PartGrew)
    assert isinstance(sealed.delta, SealSet)
    assert sealed.delta.seal.body == {"type": "thinking", "thinking": "ab", "signature": "s"}


def test_pitfall_107_a_signed_block_without_text_is_kept() -> None:
    (part,) = parts(
        told(start(0, type="thinking", thinking="", signature=""), delta(0, "signature_delta", signature="s"), stop(0))
    )
    assert isinstance(part, Thinking)
    assert part.seal is not None


@pytest.mark.parametrize(
    ("pieces", "given", "arguments"),
    [
        ((), {}, "{}"),
        (("",), {}, "{}"),
        ((), {"a": 1}, '{"a":1}'),
        (('{"a"', ": 1}"), {}, '{"a": 1}'),
        (('{"a":1}',), {"b": 2}, '{"a":1}'),
    ],
    ids=[
        "pitfall 46: no delta",
        "pitfall 46: an empty one",
        "the whole input at the start",
        "two pieces",
        "pitfall 47: the start is no fragment",
    ],
)
def test_arguments(pieces: tuple[str, ...], given: JsonObject, arguments: str) -> None:
    (part,) = parts(
        told(
            start(0, type="tool_use", id="toolu_1", name="f", input=given),
            *(delta(0, "input_json_delta", partial_json=piece) for piece in pieces),
            stop(0),
        )
    )
    assert part == ToolCall(call_id="toolu_1", name="f", arguments=arguments)


SAID_AGAIN: dict[str, list[JsonObject]] = {
    "in the start and as deltas": [
        start(0, type="tool_use", id="t", name="f", input={"x": 1}),
        delta(0, "input_json_delta", partial_json='{"x":'),
        delta(0, "input_json_delta", partial_json="1}"),
    ],
    "in full after the deltas": [
        start(0, type="tool_use", id="t", name="f", input={}),
        delta(0, "input_json_delta", partial_json='{"x":1}'),
        delta(0, "input_json_delta", partial_json='{"x": 1}'),
    ],
    "after a stand-in": [
        start(0, type="tool_use", id="t", name="f", input={}),
        delta(0, "input_json_delta", partial_json="{}"),
        delta(0, "input_json_delta", partial_json='{"x":1}'),
    ],
    "a stand-in, and the start": [
        start(0, type="tool_use", id="t", name="f", input={"x": 1}),
        delta(0, "input_json_delta", partial_json="{}"),
    ],
    "a block begun twice": [
        start(0, type="tool_use", id="t", name="f", input={}),
        start(0, type="tool_use", id="t", name="f", input={"x": 1}),
    ],
    "a call said again at another index": [
        start(0, type="tool_use", id="t", name="f", input={}),
        delta(0, "input_json_delta", partial_json='{"x":1}'),
        stop(0),
        start(1, type="tool_use", id="t", name="f", input={}),
        delta(1, "input_json_delta", partial_json='{"x":'),
        delta(1, "input_json_delta", partial_json=" 1}"),
        stop(1),
    ],
    "at the index of no block": [
        start(0, type="tool_use", id="t", name="f", input={}),
        delta(1, "input_json_delta", partial_json='{"x":1}'),
    ],
}


@pytest.mark.parametrize("shape", SAID_AGAIN)
def test_item_7_arguments_are_told_once(shape: str) -> None:
    (part,) = parts(told(*SAID_AGAIN[shape]))
    assert part == ToolCall(call_id="t", name="f", arguments='{"x":1}')


def test_item_7_an_id_said_twice_for_two_calls() -> None:
    first, second = parts(
        told(
            start(0, type="tool_use", id="t", name="f", input={"x": 1}),
            stop(0),
            start(1, type="tool_use", id="t", name="f", input={}),
            delta(1, "input_json_delta", partial_json='{"x":2}'),
            stop(1),
        )
    )
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert (first.call_id, first.arguments, second.arguments) == ("t", '{"x":1}', '{"x":2}')
    assert second.call_id not in ("", "t")


def _input(index: int, text: str) -> JsonObject:
    return delta(index, "input_json_delta", partial_json=text)


@pytest.mark.parametrize(
    ("pieces", "meant"),
    [
        ([_input(0, '{"x":1}')], ['{"x":1}', "{}"]),
        ([_input(1, '{"y":2}'), _input(0, '{"x":1}')], ['{"x":1}', '{"y":2}']),
        ([_input(0, '{"x"'), _input(1, '{"y"'), _input(0, ":1}"), _input(1, ":2}")], ['{"x":1}', '{"y":2}']),
    ],
)
def test_item_7_calls_told_side_by_side_keep_their_arguments(pieces: list[JsonObject], meant: list[str]) -> None:
    calls = [start(place, type="tool_use", id=f"t{place}", name="f", input={}) for place in (0, 1)]
    found = parts(told(*calls, *pieces, stop(0), stop(1)))
    assert [part.arguments for part in found if isinstance(part, ToolCall)] == meant


def test_item_7_what_begins_like_all_so_far_may_be_a_value_inside() -> None:
    call = start(0, type="tool_use", id="t", name="f", input={})
    inside = parts(told(call, *(_input(0, text) for text in ('{"x":', '{"x":1', "}", "}")), stop(0)))
    assert inside == (ToolCall(call_id="t", name="f", arguments='{"x":{"x":1}}'),)
    again = parts(told(call, *(_input(0, text) for text in ('{"x":', '{"x":1', '{"x":1}')), stop(0)))
    assert again == (ToolCall(call_id="t", name="f", arguments='{"x":1}'),)


def test_item_7_blocks_without_an_index_follow_each_other() -> None:
    numbered = [
        start(0, type="text", text=""),
        delta(0, "text_delta", text="Hi"),
        start(0, type="tool_use", id="t", name="f", input={}),
        _input(0, '{"x":1}'),
        stop(0),
    ]
    bare = [{name: value for name, value in one.items() if name != "index"} for one in numbered]
    assert parts(told(*bare)) == (Text(text="Hi"), ToolCall(call_id="t", name="f", arguments='{"x":1}'))


def test_a_block_without_an_index_never_takes_the_index_of_another() -> None:
    call, text = start(0, type="tool_use", id="t", name="f", input={}), start(0, type="text", text="")
    del text["index"]
    words: JsonObject = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}
    found = parts(told(call, text, words, _input(0, '{"x":1}'), stop(0)))
    assert found == (ToolCall(call_id="t", name="f", arguments='{"x":1}'), Text(text="Hi"))


@pytest.mark.parametrize("index", [0, 1])
def test_item_7_other_arguments_break_the_stream(index: int) -> None:
    events = told(
        start(0, type="tool_use", id="t", name="f", input={}),
        delta(0, "input_json_delta", partial_json='{"x":1}'),
        delta(index, "input_json_delta", partial_json='{"x":2}'),
    )
    assert isinstance(events[-1], Failed)


def test_item_7_arguments_after_a_call_without_any() -> None:
    call = start(0, type="tool_use", id="t", name="f", input={})
    events = told(call, stop(0), delta(0, "input_json_delta", partial_json='{"x":1}'))
    assert isinstance(events[-1], Failed)


def test_free_text_is_unwrapped_as_it_arrives() -> None:
    table = ToolTable()
    table.add(TextTool(name="p"), Wrapped.INPUT)
    events = decoded_stream(
        [
            OPENING,
            start(0, type="tool_use", id="toolu_1", name="p", input={}),
            *(delta(0, "input_json_delta", partial_json=piece) for piece in ('{"in', 'put": "a\\', "nb", '"}')),
            stop(0),
            *CLOSING,
        ],
        asked(table=table),
    )
    grown = [event.delta for event in events if isinstance(event, PartGrew)]
    assert grown == [ArgumentsDelta("a"), ArgumentsDelta("\nb")]
    assert parts(events) == (ToolCall(call_id="toolu_1", name="p", arguments="a\nb", form=InputForm.TEXT),)


def test_calls_of_the_provider_are_told_whole() -> None:
    events = told(
        start(0, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"q"}'),
        stop(0),
    )
    opened = events[2]
    assert isinstance(opened, PartStarted)
    assert at(plain({"x": opened.part.extras.fields}), "x", "input") == {"query": "q"}  # type: ignore[union-attr]  # whole
    assert events[3] == PartEnded(0)


def test_pitfall_084_unknown_events_blocks_and_deltas_are_no_error() -> None:
    events = told(
        {"type": "brand_new"},
        start(0, type="hologram", data=1),
        delta(0, "hologram_delta", data=2),
        stop(0),
        start(1, type="text", text=""),
        delta(1, "sparkle_delta", x=1),
        delta(1, "text_delta", text="x"),
        stop(1),
        delta(7, "sparkle_delta", x=1),
    )
    first, second = parts(events)
    assert isinstance(first, Foreign)
    assert second == Text(text="x")


@pytest.mark.parametrize(
    ("blocks", "texts"),
    [
        ([delta(0, "text_delta", text="x"), stop(0)], ["x"]),
        ([start(0, type="text", text=""), stop(0), delta(0, "text_delta", text="late")], ["late"]),
        (
            [
                start(0, type="text", text=""),
                start(1, type="text", text=""),
                delta(0, "text_delta", text="a"),
                delta(1, "text_delta", text="b"),
                stop(0),
                stop(1),
            ],
            ["a", "b"],
        ),
    ],
    ids=["never begun", "over already", "side by side"],
)
def test_text_of_a_block_that_is_not_open_is_told(blocks: list[JsonObject], texts: list[str]) -> None:
    assert [part.text for part in parts(told(*blocks)) if isinstance(part, Text)] == texts


def test_arguments_without_a_call_are_reported() -> None:
    decoder = CODEC.stream_decoder(asked(), mint(), ledger := Ledger())
    for event in (OPENING, delta(3, "input_json_delta", partial_json="{}")):
        decoder.feed(Frame(str(event["type"]), encode(event)))
    assert [loss.at for loss in ledger.losses] == ["extras.input_json_delta"]


def test_pitfall_079_later_counts_overwrite_earlier_ones() -> None:
    usages = [event.usage for event in told() if isinstance(event, UsageReported)]
    assert usages == [Usage(input=7, output=1), Usage(input=7, output=9)]


def test_pitfall_083_a_ping_is_a_heartbeat() -> None:
    assert Heartbeat() in told({"type": "ping"})


@pytest.mark.parametrize(
    ("ending", "last"),
    [
        (CLOSING, Ended()),
        (CLOSING[:1], Ended()),
        (CLOSING[1:], Ended()),
        ([], None),
    ],
    ids=["complete", "a reason and no end", "an end and no reason", "pitfall 69: cut"],
)
def test_ends(ending: list[JsonObject], last: Event | None) -> None:
    final = told(start(0, type="text", text="x"), given=ending)[-1]
    if last is None:
        assert isinstance(final, Failed)
        assert final.failure.message == "upstream stream ended unexpectedly"
    else:
        assert final == last


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"null",
        b'{"type":"content_block_delta"}',
        b'{"type":"content_block_start","index":"x"}',
        b'{"type":"message_start"}',
    ],
)
def test_what_cannot_be_read_is_a_bad_gateway(data: bytes) -> None:
    decoder = CODEC.stream_decoder(asked(), mint(), Ledger())
    (event,) = decoder.feed(Frame("message", data))
    assert isinstance(event, Failed)
    assert event.failure.kind is FailureKind.BAD_GATEWAY
    assert decoder.feed(Frame("ping", encode({"type": "ping"}))) == []
    assert decoder.close() == []


def test_an_error_ends_the_stream() -> None:
    error: JsonObject = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    (*_, final) = told(given=[error, *CLOSING])
    assert isinstance(final, Failed)
    assert final.failure.status == 529


def test_a_relayed_stream_can_tell_that_it_broke() -> None:
    decoder = CODEC.stream_decoder(asked(), mint(), Ledger())
    (error,) = frames(decoder.broken(Failure(kind=FailureKind.TIMEOUT, message="late")))
    assert error == {"type": "error", "error": {"type": "timeout_error", "message": "late"}}


def test_pitfall_047_the_start_is_no_fragment_of_the_arguments() -> None:
    (part,) = parts(
        told(
            start(0, type="tool_use", id="toolu_1", name="f", input={}),
            delta(0, "input_json_delta", partial_json='{"a":1}'),
            stop(0),
        )
    )
    assert part == ToolCall(call_id="toolu_1", name="f", arguments='{"a":1}')
