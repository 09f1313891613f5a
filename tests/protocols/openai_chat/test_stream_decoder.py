"""Streams of providers: chunks to events, with every liberty that servers take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.lib.streaming.chat._completions import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from dragoman.model.events import (
    ArgumentsDelta,
    Ended,
    Failed,
    PartGrew,
    Started,
    Stopped,
    TextDelta,
    UsageReported,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.folding import fold
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import InputForm, Part, Text, ToolCall
from dragoman.model.response import Response, StopReason
from dragoman.model.tools import TextTool
from dragoman.protocols.openai_chat import CODEC
from dragoman.protocols.openai_chat.stream_decoder import ChatStreamDecoder
from dragoman.wire.json import decode, encode
from dragoman.wire.sse import Frame
from tests.protocols.openai_chat.room import C, F, G, answer, ask, chunk, fragment, heard, kinds, mint


def calls(response: Response) -> list[tuple[str, str, str]]:
    return [(part.call_id, part.name, part.arguments) for part in response.parts if isinstance(part, ToolCall)]


MINTED = "call_" + "1".rjust(24, "t")
AGAIN = "call_" + "2".rjust(24, "t")

CALLS: dict[str, tuple[list[JsonObject], list[tuple[str, str, str]]]] = {
    "pitfall 053: one index, different ids": (
        [fragment(id="a", name="f", arguments='{"x":1}'), fragment(id="b", name="g", arguments='{"y":2}')],
        [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')],
    ),
    "pitfall 053: one index, no ids, a name with arguments after whole JSON": (
        [fragment(name="f", arguments='{"x":1}'), fragment(name="f", arguments='{"x":2}')],
        [(MINTED, "f", '{"x":1}'), (AGAIN, "f", '{"x":2}')],
    ),
    "pitfall 054: no index": (
        [
            fragment(None, id="a", name="f", arguments='{"x"'),
            fragment(None, arguments=":1}"),
            fragment(None, id="b", name="g", arguments="{"),
            fragment(None, id="b", arguments="}"),
        ],
        [("a", "f", '{"x":1}'), ("b", "g", "{}")],
    ),
    "pitfall 055: two indices interleave": (
        [
            fragment(0, id="a", name="f", arguments=""),
            fragment(1, id="b", name="g", arguments=""),
            fragment(0, arguments='{"x"'),
            fragment(1, arguments='{"y"'),
            fragment(0, arguments=":1}"),
            fragment(1, arguments=":2}"),
        ],
        [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')],
    ),
    "pitfall 056: the name in every chunk": (
        [fragment(id="a", name="f", arguments='{"x"'), fragment(id="a", name="f", arguments=":1}")],
        [("a", "f", '{"x":1}')],
    ),
    "the name in pieces": (
        [
            chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look"}}]}),
            fragment(name="up"),
            fragment(arguments="{}"),
        ],
        [("a", "lookup", "{}")],
    ),
    "pitfall 040: no id, then one that comes too late": (
        [fragment(name="f", arguments='{"x"'), fragment(id="late", name="f", arguments=":1}")],
        [(MINTED, "f", '{"x":1}')],
    ),
    "pitfall 040: an empty id": ([fragment(id="", name="f", arguments="{}")], [(MINTED, "f", "{}")]),
    "duplicate ids on two indices": (
        [fragment(0, id="a", name="f", arguments="{}"), fragment(1, id="a", name="g", arguments="{}")],
        [("a", "f", "{}"), (MINTED, "g", "{}")],
    ),
    "pitfall 048: everything in one chunk, arguments as an object": (
        [fragment(id="a", name="f", arguments={"x": 1})],
        [("a", "f", '{"x":1}')],
    ),
    "two ids at one index, told again by id": (
        [
            fragment(id="a", name="f", arguments='{"x"'),
            fragment(id="b", name="g", arguments="{"),
            fragment(id="a", name="f", arguments=":1}"),
            fragment(id="b", name="g", arguments="}"),
        ],
        [("a", "f", '{"x":1}'), ("b", "g", "{}")],
    ),
    "arguments before the name": (
        [
            chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{"}}]}),
            fragment(name="f", arguments="}"),
        ],
        [("a", "f", "{}")],
    ),
    "no arguments at all": ([fragment(id="a", name="f", arguments=None)], [("a", "f", "")]),
    "the legacy form": (
        [chunk({"function_call": {"name": "f", "arguments": "{"}}), chunk({"function_call": {"arguments": "}"}})],
        [(MINTED, "f", "{}")],
    ),
}


@pytest.mark.parametrize(("chunks", "expected"), CALLS.values(), ids=CALLS)
def test_pitfall_048_053_054_055_056_fragments_find_their_call(
    chunks: list[JsonObject], expected: list[tuple[str, str, str]]
) -> None:
    response = answer(*chunks, chunk({}, "tool_calls"))
    assert calls(response) == expected
    assert response.stop.reason is StopReason.TOOL_CALL


def test_a_complete_call_ends_when_something_else_comes() -> None:
    events = heard([fragment(id="a", name="f", arguments="{}"), chunk({"content": "x"})], ask(F))
    assert kinds(events)[1:6] == ["PartStarted0", "PartGrew0", "PartEnded0", "PartStarted1", "PartGrew1"]


def test_an_unfinished_call_stays_open_until_it_is_complete() -> None:
    events = heard(
        [
            fragment(id="a", name="f", arguments="{"),
            chunk({"content": "x"}),
            fragment(0, arguments="}"),
            chunk({"content": "y"}),
        ],
        ask(F),
    )
    told = kinds(events)
    assert told.index("PartEnded0") > told.index("PartStarted1")
    assert told.index("PartEnded0") < told.index("PartStarted2")


def test_a_declared_name_is_announced_at_once() -> None:
    decoder = CODEC.stream_decoder(ask(F), mint(), Ledger())
    events = decoder.feed(Frame(None, encode(fragment(id="a", name="f", arguments=""))))
    assert kinds(events) == ["Started", "PartStarted0"]


USAGE: JsonObject = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


@pytest.mark.parametrize(
    "tail",
    [
        [chunk({}, "stop"), {"choices": [], "usage": USAGE}],
        [chunk({"role": "assistant", "content": None}, "stop", usage=USAGE)],
        [
            {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 0}},
            chunk({"content": "!"}, "stop", usage=USAGE),
        ],
        [{"choices": []}, {"id": "x"}, chunk({}, "stop"), {"usage": USAGE}],
    ],
    ids=[
        "062 in a chunk of its own",
        "066 on the finish chunk",
        "065 on every chunk",
        "063 064 chunks without choices",
    ],
)
def test_pitfall_062_063_064_065_066_usage_is_taken_wherever_it_stands(tail: list[JsonObject]) -> None:
    response = answer(chunk({"content": "x"}), *tail)
    assert response.usage is not None
    assert (response.usage.input, response.usage.output) == (3, 2)
    assert response.stop.reason is StopReason.END


def test_pitfall_067_text_on_the_finish_chunk_counts() -> None:
    assert answer(chunk({"content": "a"}), chunk({"content": "b"}, "stop")).parts == (Text(text="ab"),)


def test_pitfall_068_done_without_a_finish_is_a_whole_answer() -> None:
    assert answer(chunk({"content": "a"})).stop.reason is StopReason.END
    assert answer(fragment(id="a", name="f", arguments="{}")).stop.reason is StopReason.TOOL_CALL


@pytest.mark.parametrize("words", [("length", "stop"), ("stop", "length"), ("length", "", "stop")])
def test_item_14_a_cut_that_is_said_before_or_after_a_plain_end_is_one(words: tuple[str, ...]) -> None:
    told = answer(chunk({"content": "a"}), *(chunk({"content": ""}, word) for word in words))
    assert told.stop.reason is StopReason.LENGTH


@pytest.mark.parametrize("place", ["0", 0.0, 1, None])
def test_item_7_the_only_choice_is_the_answer_whatever_its_index(place: JsonValue) -> None:
    chunks: list[JsonObject] = [{"choices": [{"index": place, "delta": {"content": text}}]} for text in ("a", "b")]
    end: JsonObject = {"choices": [{"index": place, "delta": {}, "finish_reason": "stop"}]}
    assert answer(*chunks, end).parts == (Text(text="ab"),)


def test_pitfall_069_a_closed_stream_is_whole_only_after_a_finish() -> None:
    assert answer(chunk({"content": "a"}, "stop"), done=False).parts == (Text(text="a"),)
    events = heard([chunk({"content": "a"})], done=False)
    assert isinstance(events[-1], Failed)
    assert events[-1].failure.message == "upstream stream ended unexpectedly"
    assert not any(isinstance(event, Stopped | Ended) for event in events)


def test_an_empty_stream_is_a_failure() -> None:
    for done in (True, False):
        (failed,) = heard([], done=done)
        assert isinstance(failed, Failed) and failed.failure.kind is FailureKind.BAD_GATEWAY


@pytest.mark.parametrize(
    "broken",
    [
        b"not json",
        b"[1]",
        b'{"choices":1}',
        b'{"choices":[1]}',
        b'{"choices":[{"delta":1}]}',
        b'{"choices":[{"delta":{"content":1}}]}',
        b'{"choices":[{"delta":{"tool_calls":[1]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"index":"x"}]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"function":1}]}}]}',
        b'{"choices":[{"delta":{"reasoning_content":1}}]}',
        b'{"choices":[{"finish_reason":1}]}',
    ],
)
def test_what_cannot_be_read_is_a_failure_and_the_end(broken: bytes) -> None:
    events = heard([broken, chunk({"content": "later"})])
    assert isinstance(events[-1], Failed) and events[-1].failure.status == 502


def test_pitfall_184_an_error_chunk_is_the_providers_failure() -> None:
    events = heard([chunk({"content": "a"}), {"error": {"message": "busy", "type": "overloaded_error"}}])
    assert isinstance(events[-1], Failed)
    assert (events[-1].failure.kind, events[-1].failure.message) == (FailureKind.OVERLOADED, "busy")


def test_a_finish_that_is_a_failure() -> None:
    events = heard([chunk({"content": "a"}, "abort")])
    assert isinstance(events[-1], Failed)


def test_the_event_name_means_nothing_and_blank_data_is_skipped() -> None:
    decoder = CODEC.stream_decoder(ask(), mint(), Ledger())
    assert decoder.feed(Frame("error", b"null")) == []
    assert isinstance(decoder.feed(Frame("ping", b'{"id":"1","model":"m","choices":[]}'))[0], Started)


def test_custom_input_is_unwrapped_as_it_arrives() -> None:
    patch = TextTool(name="patch")
    response = answer(
        fragment(id="a", name="patch", arguments='{"in'),
        fragment(arguments='put": "a\\'),
        fragment(arguments='nb"}'),
        asked=ask(patch),
    )
    (call,) = response.parts
    assert call == ToolCall(call_id="a", name="patch", arguments="a\nb", form=InputForm.TEXT)


def test_streamed_custom_calls_are_read() -> None:
    response = answer(
        chunk({"tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "p", "input": "x"}}]}),
        chunk({"tool_calls": [{"index": 0, "custom": {"input": "y"}}]}),
        asked=ask(TextTool(name="p")),
    )
    assert response.parts == (ToolCall(call_id="a", name="p", arguments="xy", form=InputForm.TEXT),)


def test_other_choices_are_left_out_and_reported() -> None:
    ledger = Ledger()
    other = chunk({"content": "b"}, index=1)
    events = heard([chunk({"content": "a"}), other, other], ledger=ledger)
    whole = fold(events, C)
    assert isinstance(whole, Response) and whole.parts == (Text(text="a"),)
    assert len(ledger) == 1


HEAD: JsonObject = {"id": "chatcmpl-u", "created": 7, "model": "m"}
STREAMS: dict[str, list[JsonObject]] = {
    "text": [chunk({"role": "assistant", "content": ""}), chunk({"content": "a"}), chunk({"content": "b"}, "stop")],
    "reasoning and calls": [
        chunk({"reasoning": "r"}),
        chunk({"content": "a"}),
        fragment(0, id="x", name="f", arguments='{"a"'),
        fragment(0, arguments=":1}"),
        fragment(1, id="y", name="g", arguments="{}"),
        chunk({}, "tool_calls"),
        {"choices": [], "usage": USAGE},
    ],
    "truncation": [fragment(0, id="x", name="f", arguments='{"a"'), chunk({}, "length")],
}


@pytest.mark.parametrize("chunks", STREAMS.values(), ids=STREAMS)
def test_the_stream_folds_to_the_whole_answer(chunks: list[JsonObject]) -> None:
    # Law 3: the official accumulator says what the whole answer would have been.
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for one in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate({"object": "chat.completion.chunk", **HEAD, **one}))
    whole = decode(state.current_completion_snapshot.model_dump_json(warnings=False))
    assert isinstance(whole, dict)
    expected = CODEC.decode_response(whole, ask(F, G), Ledger())
    found = answer(*chunks)
    assert isinstance(expected, Response)
    assert (found.parts, found.stop, found.usage) == (bare(expected.parts), expected.stop, expected.usage)


def bare(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Parts without what the accumulator adds to calls."""
    return tuple(replace(part, extras=None) if isinstance(part, ToolCall) else part for part in parts)


def test_usage_events_come_before_the_stop_and_nothing_after_the_end() -> None:
    events = heard([chunk({"content": "a"}, "stop", usage=USAGE)])
    assert [type(event) for event in events[-3:]] == [UsageReported, Stopped, Ended]


def test_a_broken_relay_ends_with_an_error_frame() -> None:
    decoder = CODEC.stream_decoder(ask(), mint(), Ledger())
    frame = decoder.broken(Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="gone"))
    assert frame.startswith(b'data: {"error":{"message":"gone"') and b"[DONE]" not in frame


class SlowDecoder(ChatStreamDecoder):
    """Reads every chunk member by member."""

    def _next(self, chunk: JsonValue) -> PartGrew | None:
        return None


TEXT = st.sampled_from(["", "a", "<think>", "</think>", "b "])
FRAGMENTS: st.SearchStrategy[JsonValue] = st.lists(
    st.fixed_dictionaries(
        {
            "index": st.integers(0, 1),
            "function": st.fixed_dictionaries(
                {"arguments": st.sampled_from(["", "{", '"a":1', "}", "} ", " "])},
                optional={"name": st.sampled_from([None, "", "f", 0]), "more": st.just(1)},
            ),
        },
        optional={
            "id": st.sampled_from([None, "", "a", "b", 0]),
            "name": st.just("f"),
            "type": st.just("function"),
            "custom": st.sampled_from([None, {}]),
            "more": st.just(1),
        },
    ),
    max_size=2,
)
DELTA: st.SearchStrategy[JsonValue] = st.one_of(
    st.fixed_dictionaries({"content": TEXT}),
    st.fixed_dictionaries({"reasoning_content": TEXT}),
    st.fixed_dictionaries({"reasoning": TEXT}),
    st.fixed_dictionaries({"tool_calls": FRAGMENTS}),
    st.fixed_dictionaries({"": TEXT}),
    st.fixed_dictionaries(
        {},
        optional={
            "content": st.none() | TEXT,
            "reasoning_content": st.none() | TEXT,
            "refusal": st.none() | TEXT,
            "role": TEXT,
            "tool_calls": st.none() | FRAGMENTS,
            "more": st.just(1),
        },
    ),
    st.just({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}]}),
)
CHUNK = st.builds(
    chunk,
    DELTA,
    st.sampled_from([None, None, None, None, "stop"]),
    index=st.sampled_from([0, 0, 0, 1]),
    logprobs=st.sampled_from([None, None, {"content": [{"token": "a", "logprob": 0}]}]),
    service_tier=st.sampled_from([None, "default"]),
    usage=st.sampled_from([None, None, USAGE]),
)


@given(st.lists(CHUNK, max_size=8), st.booleans())
def test_the_short_way_tells_the_same(chunks: list[JsonObject], inline: bool) -> None:
    asked = ask(F, G, inline_thinking=inline)
    quick, slow = CODEC.stream_decoder(asked, mint(), Ledger()), SlowDecoder(asked, mint(), Ledger())
    for one in [*map(encode, chunks), b"[DONE]"]:
        assert quick.feed(Frame(None, one)) == slow.feed(Frame(None, one))


def test_a_delta_that_continues_takes_the_short_way() -> None:
    decoder = ChatStreamDecoder(ask(F), mint(), Ledger())
    decoder.feed(Frame(None, encode(chunk({"content": "a"}))))
    assert decoder._next(chunk({"content": "b"})) == PartGrew(0, TextDelta("b"))
    beside: JsonObject = {"role": "assistant", "content": "c", "reasoning_content": None, "tool_calls": []}
    assert decoder._next(chunk(beside)) == PartGrew(0, TextDelta("c"))
    assert decoder._next(chunk({**beside, "refusal": "no"})) is None


def test_arguments_that_continue_take_the_short_way() -> None:
    decoder = ChatStreamDecoder(ask(F), mint(), Ledger())
    decoder.feed(Frame(None, encode(fragment(0, id="x", name="f", arguments='{"a"'))))
    grew = PartGrew(0, ArgumentsDelta(":1"))
    assert decoder._next(fragment(0, arguments=":1")) == grew
    assert decoder._next(fragment(0, id=None, type="function", name="", arguments=":1")) == grew
    assert decoder._next(fragment(0, id="y", type="function", name="f", arguments=":1")) is None
