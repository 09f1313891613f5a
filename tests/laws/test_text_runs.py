"""Runs of text deltas change nothing: with and without them, a client gets the same bytes and a tap the same events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from dragoman.model.events import ArgumentsDelta, ArgumentsRun, Event, PartGrew, TextDelta, TextRun
from dragoman.model.failure import Failure
from dragoman.model.response import Usage
from dragoman.rules import text_runs
from dragoman.streaming import StreamPipeline, Tap
from dragoman.translate import LossLine
from tests.golden.printing import stream_bytes
from tests.golden.story import read
from tests.laws.journey import asked, counting
from tests.laws.strategies import CHAT, MESSAGES, RESPONSES

GOLDEN = Path(__file__).parents[1] / "golden"
# The inside of JSON strings as servers write them: ordinary text and every kind of escape; and what is no string.
STRINGS = st.sampled_from(
    [
        b"a",
        b" and",
        b" ",
        b"",
        b'\\"}}',
        b"\\n\\n",
        b"\\\\",
        b"\\/",
        b"\\u0041",
        b"\\u001f",
        b"\\ud83d\\ude00",
        b"\\ud83d",
        b"\\ude00",
        "é😀".encode(),
        b"\xe2\x82",
        b"\xac",
        b"text_delta",
        b"content",
        b"<think>",
        b"}}",
        b"x" * 700,
        b"\\t",
        b"\\u2028",
        "\u200d\u2028\x7f".encode(),
    ]
) | st.text(max_size=4).map(lambda text: json.dumps(text)[1:-1].encode())
# Arguments in pieces: an object begins, ends, begins again, or is cut at a blank.
ARGUMENTS = st.sampled_from(
    [
        rb"{\"a\":\"",
        rb"\"b",
        b" a",
        b" a",
        b"c ",
        b"{",
        b"}",
        rb"\"}",
        rb"\n",
        rb"\\n",
        rb"\u00e9",
        b"[",
        b"{}",
        rb"{\"a\":1}",
        b"",
    ]
)
NO_STRINGS = st.sampled_from([b"\x01", b"\\", b"\\x", b'","text":"', b'"', b'"},"text":"'])


class Shape(Struct, frozen=True, kw_only=True):
    """Frames of a provider: how a stream begins, its deltas around a string, other frames, and frames that end it."""

    start: list[bytes]
    deltas: Callable[[st.SearchStrategy[bytes]], st.SearchStrategy[bytes]]
    plain: Callable[[int], bytes]
    others: list[bytes]
    ends: list[bytes]
    strings: st.SearchStrategy[bytes] = STRINGS


def _named(body: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (json.loads(body)["type"].encode(), body)


def _messages(string: bytes, index: int, kind: tuple[bytes, bytes], after: bytes) -> bytes:
    head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,' % index
    return head + b'"delta":{"type":"%b","%b":"%b"%b\n\n' % (*kind, string, after)


def _messages_deltas(strings: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    text, thinking, arguments = (
        (b"text_delta", b"text"),
        (b"thinking_delta", b"thinking"),
        (b"input_json_delta", b"partial_json"),
    )
    kinds = st.sampled_from([text, text, text, text, thinking, arguments])
    afters = [*[b"}}"] * 6, b"}  }", b"}   }  ", b'},"new":1}', b'},"index":1}']
    return st.builds(_messages, strings, st.sampled_from([0, 0, 0, 0, 1]), kinds, st.sampled_from(afters))


def _chat(string: bytes, member: bytes, model: bytes, after: bytes) -> bytes:
    head = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"%b","choices":[{"index":0,' % model
    return head + b'"delta":{"%b":"%b"%b\n\n' % (member, string, after)


def _chat_deltas(strings: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    afters = [
        *[b'},"finish_reason":null}]}'] * 6,
        b'},"logprobs":null,"finish_reason":null}]}',
        b'},"finish_reason":null}],"obfuscation":"Xa3"}',
        b'},"finish_reason":null}],"obfuscation":"b"}',
        b'},"finish_reason":null}],"usage":{"prompt_tokens":1,"completion_tokens":2}}',
        b',"role":"assistant"},"finish_reason":null}]}',
        b'},"finish_reason":null}],"new":1}',
    ]
    members = st.sampled_from([*[b"content"] * 5, b"reasoning_content", b"refusal"])
    return st.builds(_chat, strings, members, st.sampled_from([b"m", b"m", b"m", b"content"]), st.sampled_from(afters))


def _responses(string: bytes, number: int, place: int, form: tuple[bytes, bytes]) -> bytes:
    before, after = (one.replace(b"#", b"%d" % number) for one in form)
    head = (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",%b"item_id":"msg_1",' % before
    )
    return head + b'"output_index":0,"content_index":%d,"delta":"%b","logprobs":[]%b\n\n' % (place, string, after)


def _responses_deltas(strings: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    forms = [
        *[(b'"sequence_number":#,', b"}")] * 4,
        *[(b"", b',"sequence_number":#}')] * 4,
        (b'"sequence_number":#,', b',"obfuscation":"Xy"}'),
        (b"", b',"sequence_number":#,"new":1}'),
    ]
    return st.builds(_responses, strings, st.integers(0, 12), st.sampled_from([0, 0, 0, 0, 1]), st.sampled_from(forms))


_COMMENT = b": comment\n\n"
_MESSAGES_TEXT = _named(b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}')
SHAPES = {
    MESSAGES: Shape(
        start=[
            _named(
                b'{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m",'
                b'"content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}'
            ),
            _MESSAGES_TEXT,
        ],
        deltas=_messages_deltas,
        plain=lambda _: _messages(b" a", 0, (b"text_delta", b"text"), b"}}"),
        others=[
            _COMMENT,
            b"\n",
            _MESSAGES_TEXT,
            _named(b'{"type":"ping"}'),
            _named(b'{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":""}}'),
            _named(
                b'{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"run",'
                b'"input":{}}}'
            ),
            _named(b'{"type":"content_block_stop","index":0}'),
            _named(b'{"type":"content_block_stop","index":1}'),
            _named(b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}'),
        ],
        ends=[
            _named(b'{"type":"message_stop"}'),
            _named(b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}'),
        ],
    ),
    CHAT: Shape(
        start=[_chat(b"a", b"content", b"m", b'},"finish_reason":null}]}')],
        deltas=_chat_deltas,
        plain=lambda _: _chat(b" a", b"content", b"m", b'},"finish_reason":null}]}'),
        others=[
            _COMMENT,
            b"data:\n\n",
            b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t",'
            b'"type":"function","function":{"name":"run","arguments":"{}"}}]},"finish_reason":null}]}\n\n',
            b'data: {"id":"c","model":"m","choices":[{"index":1,"delta":{"content":"b"},"finish_reason":null}]}\n\n',
        ],
        ends=[
            b"data: [DONE]\n\n",
            b'data: {"error":{"message":"x"}}\n\n',
            b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
        ],
    ),
    RESPONSES: Shape(
        start=[
            _named(b'{"type":"response.created","response":{"id":"resp_1","model":"m","output":[]}}'),
            _named(
                b'{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message",'
                b'"role":"assistant","content":[]}}'
            ),
            _responses(b"a", 1, 0, (b"", b"}")),
        ],
        deltas=_responses_deltas,
        plain=lambda number: _responses(b" a", number, 0, (b'"sequence_number":#,', b',"obfuscation":"Xy"}')),
        others=[
            _COMMENT,
            _named(
                b'{"type":"response.output_text.done","item_id":"msg_1","output_index":0,"content_index":0,"text":"aa"}'
            ),
            _named(
                b'{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_1","type":"message",'
                b'"role":"assistant","content":[]}}'
            ),
            _named(
                b'{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":1,'
                b'"summary_index":0,"delta":"hm"}'
            ),
        ],
        ends=[
            _named(b'{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}'),
            _named(b'{"type":"response.failed","response":{"id":"resp_1","status":"failed"}}'),
            b"data: [DONE]\n\n",
        ],
    ),
}


def _one(write: Callable[[bytes, int], bytes]) -> Callable[[st.SearchStrategy[bytes]], st.SearchStrategy[bytes]]:
    """Deltas that differ in nothing but their strings and numbers."""
    return lambda strings: st.builds(write, strings, st.integers(0, 12))


def _messages_of(kind: bytes, member: bytes) -> Callable[[bytes, int], bytes]:
    return lambda string, _: _messages(string, 0, (kind, member), b"}}")


def _chat_arguments(string: bytes, _: int) -> bytes:
    return (
        b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
        b'{"tool_calls":[{"index":0,"function":{"arguments":"%b"}}]},"finish_reason":null}]}\n\n' % string
    )


def _chat_reasoning(string: bytes, _: int) -> bytes:
    return _chat(string, b"reasoning_content", b"m", b'},"finish_reason":null}]}')


def _responses_of(kind: bytes, member: bytes = b"") -> Callable[[bytes, int], bytes]:
    head = b'event: response.%b.delta\ndata: {"type":"response.%b.delta",' % (kind, kind)
    return lambda string, number: (
        head + b'"item_id":"it_1","output_index":0,%b"delta":"%b","sequence_number":%d}\n\n' % (member, string, number)
    )


def _also(
    name: str,
    start: list[bytes],
    write: Callable[[bytes, int], bytes],
    strings: st.SearchStrategy[bytes],
    others: Sequence[bytes] = (),
) -> Shape:
    """The shape of a protocol for other deltas than text."""
    shape = SHAPES[name]
    return Shape(
        start=start,
        deltas=_one(write),
        plain=lambda number: write(b" a", number),
        others=[*shape.others, *others],
        ends=shape.ends,
        strings=strings,
    )


_MESSAGE_START = SHAPES[MESSAGES].start[:1]
_RESPONSE_CREATED = SHAPES[RESPONSES].start[:1]
_INPUT = _messages_of(b"input_json_delta", b"partial_json")
_THINKING = _messages_of(b"thinking_delta", b"thinking")
_ITEM_ARGUMENTS = _responses_of(b"function_call_arguments")
_SUMMARY = _responses_of(b"reasoning_summary_text", b'"summary_index":0,')
_OPENED = rb"{\"a\":\""
REASONING_SHAPES = {
    MESSAGES: _also(
        MESSAGES,
        [
            *_MESSAGE_START,
            _named(b'{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}'),
        ],
        _THINKING,
        STRINGS,
    ),
    CHAT: _also(CHAT, [_chat_reasoning(b"a", 0)], _chat_reasoning, STRINGS),
    RESPONSES: _also(
        RESPONSES,
        [
            *_RESPONSE_CREATED,
            _named(
                b'{"type":"response.output_item.added","output_index":0,"item":{"id":"it_1","type":"reasoning",'
                b'"summary":[]}}'
            ),
            _SUMMARY(b"a", 1),
        ],
        _SUMMARY,
        STRINGS,
    ),
}
CALL_SHAPES = {
    MESSAGES: _also(
        MESSAGES,
        [
            *_MESSAGE_START,
            _named(
                b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"run",'
                b'"input":{}}}'
            ),
            _INPUT(_OPENED, 0),
        ],
        _INPUT,
        ARGUMENTS,
        # In another shape: such arguments may end the run of those before.
        [_messages(piece, 0, (b"input_json_delta", b"partial_json"), b'},"new":1}') for piece in (b"c", b"b ")],
    ),
    CHAT: _also(
        CHAT,
        [
            b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
            b'{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"run","arguments":""}}]},'
            b'"finish_reason":null}]}\n\n',
            _chat_arguments(_OPENED, 0),
        ],
        _chat_arguments,
        ARGUMENTS,
    ),
    RESPONSES: _also(
        RESPONSES,
        [
            *_RESPONSE_CREATED,
            _named(
                b'{"type":"response.output_item.added","output_index":0,"item":{"id":"it_1","type":"function_call",'
                b'"call_id":"t","name":"run","arguments":""}}'
            ),
            _ITEM_ARGUMENTS(_OPENED, 1),
        ],
        _ITEM_ARGUMENTS,
        ARGUMENTS,
    ),
}
KINDS = {"text": SHAPES, "reasoning": REASONING_SHAPES, "arguments": CALL_SHAPES}


def streams(shape: Shape) -> st.SearchStrategy[list[bytes]]:
    """Frames of one stream: mostly deltas, often the same several times; then perhaps an end, and more behind it."""
    deltas = shape.deltas(shape.strings)
    frames = st.one_of(
        st.tuples(deltas, st.integers(1, 4)).map(lambda pair: [pair[0]] * pair[1]),
        st.lists(deltas, min_size=1, max_size=4),
        st.sampled_from(shape.others).map(lambda one: [one]),
    )
    ends = st.sampled_from(shape.ends) | shape.deltas(NO_STRINGS)
    ending: st.SearchStrategy[list[bytes]] = st.tuples(ends, deltas, deltas).map(list) | st.just([])
    return st.tuples(st.lists(frames, min_size=4, max_size=20), ending).map(
        lambda pair: [*shape.start, *(frame for several in pair[0] for frame in several), *pair[1]]
    )


class Outcome(Struct, frozen=True):
    """What a client, a tap and the ledger get, and what is known of the stream after each read."""

    written: list[bytes]
    events: list[Event]
    losses: tuple[LossLine, ...]
    known: list[tuple[int, bool, bool]]
    usage: Usage | None
    failure: Failure | None


def texts_in(run: TextRun | ArgumentsRun) -> list[str]:
    texts = [json.loads(b'"%b"' % string) for string in run.strings]
    assert "".join(texts) == run.text
    return texts


def expanded(events: Sequence[Event]) -> list[Event]:
    """Events without runs."""
    single: list[Event] = []
    for event in events:
        if isinstance(event, PartGrew) and isinstance(event.delta, TextRun):
            single += [PartGrew(event.index, TextDelta(text)) for text in texts_in(event.delta)]
        elif isinstance(event, PartGrew) and isinstance(event.delta, ArgumentsRun):
            single += [PartGrew(event.index, ArgumentsDelta(text)) for text in texts_in(event.delta)]
        else:
            single.append(event)
    return single


def play(
    client: str, provider: str, chunks: list[bytes], *, collect: bool, limit: int, lessons: int, watched: bool = True
) -> Outcome:
    events: list[Event] = []
    take: Callable[[Sequence[Event]], None] = events.extend
    with patch.object(text_runs, "_LESSONS", lessons):
        pipeline = StreamPipeline(
            source=provider,
            target=client,
            request=asked(client, provider),
            mint=counting(),
            collect=collect,
            limit=limit,
            tap=Tap(events=take) if watched else None,
        )
    written, known = [], []
    for chunk in chunks:
        # As the gateway does it: what is nothing but content passes, anything else is fed.
        passed = pipeline.pass_content(chunk) if lessons else None
        written.append(pipeline.advance(chunk).out if passed is None else passed)
        known.append((pipeline.held, pipeline.finished, pipeline.is_past_opening))
    written.append(pipeline.close())
    return Outcome(written, expanded(events), pipeline.losses, known, pipeline.usage, pipeline.failure)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(place, len(stream)) for place in cuts})
    return [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]


def _with_returns(frames: list[bytes]) -> list[bytes]:
    return [frame.replace(b"\n", b"\r\n") for frame in frames]


def check_same(client: str, provider: str, kind: str, data: st.DataObject) -> None:
    """Compare a stream with runs to one without, cut in several ways."""
    frames = data.draw(streams(KINDS[kind][provider]))
    if data.draw(st.sampled_from([False, False, False, False, True])):
        frames = frames[: len(frames) // 2] + _with_returns(frames[len(frames) // 2 :])
    stream = b"".join(frames)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    collect = data.draw(st.sampled_from([False, False, False, True]))
    limit = data.draw(st.sampled_from([1 << 20, 1 << 20, 400]))
    for chunks in ([stream], frames, cut(stream, cuts)):
        with_runs = play(client, provider, chunks, collect=collect, limit=limit, lessons=32)
        assert with_runs == play(client, provider, chunks, collect=collect, limit=limit, lessons=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("provider", [CHAT, MESSAGES, RESPONSES])
@given(st.data())
def test_a_stream_is_the_same_with_runs_and_without(client: str, provider: str, kind: str, data: st.DataObject) -> None:
    check_same(client, provider, kind, data)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("provider", [CHAT, MESSAGES, RESPONSES])
@settings(max_examples=1250)
@given(st.data())
def test_100_000_streams_are_the_same(client: str, provider: str, kind: str, data: st.DataObject) -> None:
    # Three ways to cut each, 27 parameters.
    check_same(client, provider, kind, data)


def golden_streams() -> Iterator[tuple[str, bytes]]:
    """The streams of all golden stories, with their protocols."""
    for path in sorted(GOLDEN.glob("*.txtar")):
        for section in read(path).inputs:
            if section.words[:2] == ["in", "stream"]:
                yield section.words[2], stream_bytes(section.text, section.words[2])


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
def test_golden_streams_are_the_same_with_runs_and_without(client: str) -> None:
    told = 0
    for provider, stream in golden_streams():
        frames = [frame + b"\n\n" for frame in stream.split(b"\n\n") if frame]
        for chunks in ([stream], frames, cut(stream, [*range(0, len(stream), 37)])):
            with_runs = play(client, provider, chunks, collect=False, limit=1 << 20, lessons=32)
            assert with_runs == play(client, provider, chunks, collect=False, limit=1 << 20, lessons=0)
            told += len(with_runs.events)
    assert told > 1000


@pytest.mark.parametrize("provider", [CHAT, MESSAGES])
@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
def test_text_that_passed_a_chunk_at_a_time_is_in_the_story_as_a_whole(client: str, provider: str) -> None:
    shape = KINDS["text"][provider]
    chunks = [*shape.start, *map(shape.plain, range(200)), *shape.ends[:1]]
    passed = play(client, provider, chunks, collect=False, limit=1 << 20, lessons=32)
    assert passed == play(client, provider, chunks, collect=False, limit=1 << 20, lessons=0)
    assert sum(isinstance(event, PartGrew) for event in passed.events) >= 200


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
def test_a_delta_of_another_shape_ends_the_run_of_arguments(client: str) -> None:
    shape = CALL_SHAPES[MESSAGES]
    chunks = [*shape.start, _INPUT(b"b", 0), _INPUT(b"c", 0), *shape.others[-2:], _INPUT(b"d", 0), _INPUT(b"e", 0)]
    with_runs = play(client, MESSAGES, chunks, collect=False, limit=1 << 20, lessons=32)
    assert with_runs == play(client, MESSAGES, chunks, collect=False, limit=1 << 20, lessons=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", [CHAT, MESSAGES, RESPONSES])
@given(st.data())
def test_a_relay_forwards_every_byte_however_it_is_scanned(protocol: str, kind: str, data: st.DataObject) -> None:
    frames = data.draw(streams(KINDS[kind][protocol]))
    stream = b"".join(frames)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    for chunks in (frames, cut(stream, cuts)):
        scanned = play(protocol, protocol, chunks, collect=False, limit=1 << 20, lessons=32, watched=False)
        assert scanned == play(protocol, protocol, chunks, collect=False, limit=1 << 20, lessons=0, watched=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("provider", [CHAT, MESSAGES, RESPONSES])
def test_most_of_a_plain_stream_is_one_run(client: str, provider: str, kind: str) -> None:
    shape = KINDS[kind][provider]
    events: list[Event] = []
    pipeline = StreamPipeline(
        source=provider, target=client, request=asked(client, provider), tap=Tap(events=events.extend)
    )
    pipeline.feed(b"".join([*shape.start, *map(shape.plain, range(50))]))
    runs = [
        len(event.delta.strings)
        for event in events
        if isinstance(event, PartGrew) and isinstance(event.delta, TextRun | ArgumentsRun)
    ]
    # A relayed Responses stream is read frame by frame: its last number is needed.
    if client == provider == RESPONSES:
        assert runs == []
    else:
        assert runs in ([49], [50])
