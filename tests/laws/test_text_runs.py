"""Runs of text deltas change nothing: with and without them, a client gets the same bytes and a tap the same events."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from dragoman.model.events import Event, PartGrew, TextDelta, TextRun
from dragoman.model.failure import Failure
from dragoman.model.response import Usage
from dragoman.rules import text_runs
from dragoman.streaming import StreamPipeline, Tap
from dragoman.translate import LossLine
from tests.laws.journey import asked, counting
from tests.laws.strategies import CHAT, MESSAGES, RESPONSES

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
    ]
) | st.text(max_size=4).map(lambda text: json.dumps(text)[1:-1].encode())
NO_STRINGS = st.sampled_from([b"\x01", b"\\", b"\\x", b'","text":"', b'"', b'"},"text":"'])


class Shape(Struct, frozen=True, kw_only=True):
    """Frames of a provider: how a stream begins, its deltas around a string, other frames, and frames that end it."""

    start: list[bytes]
    deltas: Callable[[st.SearchStrategy[bytes]], st.SearchStrategy[bytes]]
    plain: Callable[[int], bytes]
    others: list[bytes]
    ends: list[bytes]


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


def streams(shape: Shape) -> st.SearchStrategy[list[bytes]]:
    """Frames of one stream: mostly deltas, often the same several times; then perhaps an end, and more behind it."""
    deltas = shape.deltas(STRINGS)
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


def expanded(events: Sequence[Event]) -> list[Event]:
    """Events without runs."""
    single: list[Event] = []
    for event in events:
        if isinstance(event, PartGrew) and isinstance(event.delta, TextRun):
            texts = [json.loads(b'"%b"' % string) for string in event.delta.strings]
            assert "".join(texts) == event.delta.text
            single += [PartGrew(event.index, TextDelta(text)) for text in texts]
        else:
            single.append(event)
    return single


def play(client: str, provider: str, chunks: list[bytes], *, collect: bool, limit: int, lessons: int) -> Outcome:
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
            tap=Tap(events=take),
        )
    written, known = [], []
    for chunk in chunks:
        written.append(pipeline.feed(chunk))
        known.append((pipeline.held, pipeline.finished, pipeline.is_past_opening))
    written.append(pipeline.close())
    return Outcome(written, expanded(events), pipeline.losses, known, pipeline.usage, pipeline.failure)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(place, len(stream)) for place in cuts})
    return [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("provider", [CHAT, MESSAGES, RESPONSES])
@given(st.data())
def test_a_stream_is_the_same_with_runs_and_without(client: str, provider: str, data: st.DataObject) -> None:
    frames = data.draw(streams(SHAPES[provider]))
    stream = b"".join(frames)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    collect = data.draw(st.sampled_from([False, False, False, True]))
    limit = data.draw(st.sampled_from([1 << 20, 1 << 20, 400]))
    for chunks in ([stream], frames, cut(stream, cuts)):
        with_runs = play(client, provider, chunks, collect=collect, limit=limit, lessons=32)
        assert with_runs == play(client, provider, chunks, collect=collect, limit=limit, lessons=0)


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("provider", [CHAT, MESSAGES, RESPONSES])
def test_most_of_a_plain_stream_is_one_run(client: str, provider: str) -> None:
    shape = SHAPES[provider]
    events: list[Event] = []
    pipeline = StreamPipeline(
        source=provider, target=client, request=asked(client, provider), tap=Tap(events=events.extend)
    )
    pipeline.feed(b"".join([*shape.start, *map(shape.plain, range(50))]))
    runs = [len(one.delta.strings) for one in events if isinstance(one, PartGrew) and isinstance(one.delta, TextRun)]
    # A relayed Responses stream is read frame by frame: its last number is needed.
    assert runs == ([] if client == provider == RESPONSES else [49])
