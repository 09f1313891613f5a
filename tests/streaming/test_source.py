"""The provider's side of a stream: whatever it sends, it ends as a story."""

from __future__ import annotations

import json

import pytest

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.losses import Ledger
from dragoman.protocols.codec import Mint
from dragoman.protocols.registry import PROTOCOL_NAMES, codec_of
from dragoman.rules.pauses import PauseStage
from dragoman.streaming import StreamPipeline
from dragoman.streaming.relay import Relay
from dragoman.streaming.source import Source
from dragoman.translate import derived_mint, translate_request, translate_response, translation_context
from tests.byte_counting import ByteCounter, CountedBytearray
from tests.sdk.providers import Turn
from tests.sdk.providers import stream as stream_of
from tests.step_counting import StepCounter
from tests.streaming.support import CHAT, MESSAGES, QUESTIONS, RESPONSES, STOPS, chat_chunks, datas, sse, whole_answer


@pytest.mark.parametrize(("target", "mark"), [(MESSAGES, b"event: error"), (RESPONSES, b"response.failed")])
def test_pitfall_069_a_stream_cut_short_is_an_error_in_the_clients_form(target: str, mark: bytes) -> None:
    stream = StreamPipeline(source=CHAT, target=target)
    out = stream.feed(sse(*chat_chunks({"content": "half"}, finish=None), named=False)) + stream.close()
    assert mark in out
    assert b"ended unexpectedly" in out
    assert b"message_stop" not in out
    assert b"response.completed" not in out


@pytest.mark.parametrize("target", [MESSAGES, CHAT, RESPONSES])
@pytest.mark.parametrize(
    "garbage", [b"data: {oops\n\n", b"<html>bad gateway</html>", b"data: [1]\n\n", b'data: "x"\n\n', b""]
)
def test_garbage_is_never_a_finished_answer(target: str, garbage: bytes) -> None:
    source = CHAT if target != CHAT else MESSAGES
    stream = StreamPipeline(source=source, target=target)
    out = stream.feed(garbage) + stream.close()
    assert stream.failure is not None
    assert b"error" in out
    assert b"message_stop" not in out
    assert b"response.completed" not in out


def test_an_oversized_event_is_a_clear_error() -> None:
    stream = StreamPipeline(source=CHAT, target=MESSAGES, limit=1000)
    out = stream.feed(b"data: " + b"x" * 2000)
    out += stream.feed(b"x") + stream.close()
    assert b"event: error" in out
    assert stream.failure is not None


@pytest.mark.parametrize(
    ("target", "way"),
    [(MESSAGES, "ended"), (CHAT, "ended"), (MESSAGES, "cut short"), (CHAT, "cut short"), (MESSAGES, "full")],
)
def test_an_event_with_too_many_values_is_refused(target: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.streaming.source.MAX_EVENT_VALUES", 1000)
    answer = whole_answer(CHAT, "stop") if way == "full" else chat_chunks({"content": "Hello."}, finish="stop")[0]

    def outcome(values: int, reader: StreamPipeline) -> bytes:
        data = json.dumps({**answer, "more": [0] * values, "text": "," * 2000}).encode()
        out = reader.feed(data if way == "full" else b"data: " + data + (b"\n\n" if way == "ended" else b"\n"))
        return out + reader.call_ended() + reader.close()

    few, many = (StreamPipeline(source=CHAT, target=target) for _ in range(2))
    # Commas in a text are no values.
    assert b"values" not in outcome(900, few)
    assert b"at most 1000 values" in outcome(1001, many)
    assert many.failure is not None and many.failure.kind is FailureKind.BAD_GATEWAY


def test_pitfall_184_an_error_inside_a_stream_is_the_clients_error() -> None:
    stream = StreamPipeline(source=CHAT, target=MESSAGES)
    out = stream.feed(b'data: {"error":{"message":"overloaded","type":"server_error","code":503}}\n\n') + stream.close()
    assert datas(out)[-1]["type"] == "error"
    assert stream.failure is not None
    assert stream.failure.message == "overloaded"


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("target", [CHAT, MESSAGES])
def test_a_long_frame_in_small_reads_is_searched_once(target: str, returns: bool) -> None:
    frame = b'data: {"id":"' + b"x" * 200_000 + b'"}\n\n'
    if returns:
        # Such a stream is not skimmed.
        frame = b":\r\n\r\n" + frame
    stream = StreamPipeline(source=CHAT, target=target)
    counter = ByteCounter()
    stream._rest = CountedBytearray(counter)
    stream._source._reader.pending = CountedBytearray(counter)
    if isinstance(stream._client_side, Relay):
        stream._client_side._held = CountedBytearray(counter)
    out = b"".join(stream.feed(frame[at : at + 100]) for at in range(0, len(frame), 100))
    assert (out == frame) is (target == CHAT)
    # It is copied where it is whole, and its last bytes are searched with every read.
    assert counter.examined < 6 * len(frame)


@pytest.mark.parametrize("target", list(PROTOCOL_NAMES))
@pytest.mark.parametrize("source", list(PROTOCOL_NAMES))
def test_an_error_of_megabytes_is_told_by_its_beginning(source: str, target: str) -> None:
    words = "no room for this " * 200_000
    error: dict[str, object] = {"type": "error", "error": {"type": "overloaded_error", "message": words}}
    if source == "openai-responses":
        error = {"type": "error", "code": "server_error", "message": words, "param": None, "sequence_number": 0}
    translator = StreamPipeline(source=source, target=target)
    told = translator.feed(sse(error, named=source != "openai-chat")) + translator.close()
    assert translator.failure is not None
    assert b"no room for this" in told
    assert len(told) < 64 * 1024


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("target", list(PROTOCOL_NAMES))
@pytest.mark.parametrize("source", list(PROTOCOL_NAMES))
@pytest.mark.parametrize("silence", [b":\n\n", b"a\n\n", b"event: ping\n\n", b":\r\n\r\n"])
def test_a_flood_of_comments_costs_next_to_nothing(silence: bytes, source: str, target: str, collect: bool) -> None:
    count = 64 * 1024 // len(silence)
    flood = silence * count
    said = stream_of(source, Turn(stop="end_turn", text="Hello there, " * 50))
    for before in (b"", said[: said.find(b"\n\n", len(said) // 2) + 2]):
        translator = StreamPipeline(source=source, target=target, collect=collect)
        translator.feed(before)
        with StepCounter() as counter:
            out = translator.feed(flood)
        # To read every one of them takes several steps for each.
        assert counter.steps < count
        assert out == (flood if source == target and not collect else b"")


@pytest.mark.parametrize("client", [MESSAGES, CHAT, RESPONSES])
@pytest.mark.parametrize(("provider", "stop"), [(name, stop) for name, stops in STOPS.items() for stop in stops])
def test_item_18_a_whole_answer_is_told_as_the_stream_that_was_asked_for(provider: str, stop: str, client: str) -> None:
    if provider == client:
        return
    request = translate_request(json.dumps(QUESTIONS[client]), source=client, target=provider)
    body = json.dumps(whole_answer(provider, stop), indent=1).encode()
    mint = Mint(token=lambda length: "A" * length, now=lambda: 1)
    told = translate_response(body, source=provider, target=client, request=request, stream=True, mint=mint)
    for size in (len(body), 1):
        translator = StreamPipeline(source=provider, target=client, request=request, mint=mint)
        frames = b"".join(translator.feed(body[at : at + size]) for at in range(0, len(body), size))
        assert frames == b""
        assert translator.call_ended() + translator.close() == told.body
    assert b"Hello." in told.body


@pytest.mark.parametrize("client", [MESSAGES, CHAT, RESPONSES])
def test_item_18_an_error_in_place_of_a_stream_is_one(client: str) -> None:
    translator = StreamPipeline(source=MESSAGES, target=client, collect=client == MESSAGES)
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"too busy"}}'
    assert b"too busy" in translator.feed(body) + translator.close()
    assert translator.failure is not None and translator.failure.message == "too busy"


_OPENED = {"input_tokens": 8, "output_tokens": 1}
_MESSAGE: dict[str, object] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
_RESPONSE: dict[str, object] = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
_SILENT: dict[str, tuple[dict[str, object], ...]] = {
    MESSAGES: (
        {"type": "message_start", "message": {**_MESSAGE, "stop_reason": None, "usage": _OPENED}},
        {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ),
    RESPONSES: (
        {"type": "response.created", "response": {**_RESPONSE, "status": "in_progress"}, "sequence_number": 0},
        {
            "type": "response.completed",
            "response": {**_RESPONSE, "status": "completed", "usage": {"input_tokens": 8, "output_tokens": 5}},
            "sequence_number": 1,
        },
    ),
}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("target", [MESSAGES, CHAT, RESPONSES])
@pytest.mark.parametrize("source", [MESSAGES, RESPONSES])
def test_the_counts_at_the_end_of_an_answer_that_says_nothing_are_its_counts(
    source: str, target: str, at_once: bool
) -> None:
    stream = StreamPipeline(source=source, target=target)
    frames = [sse(event) for event in _SILENT[source]]
    for piece in [b"".join(frames)] if at_once else frames:
        stream.feed(piece)
    stream.close()
    assert stream.failure is None
    assert stream.is_counted
    assert stream.usage is not None
    assert (stream.usage.input, stream.usage.output) == (8, 5)


def test_what_the_opening_of_an_answer_counts_is_not_its_count() -> None:
    stream = StreamPipeline(source=MESSAGES, target=MESSAGES)
    start, end, _ = _SILENT[MESSAGES]
    said = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Well"}}
    stream.feed(sse(start, said))
    assert not stream.is_counted
    stream.feed(sse({"type": "content_block_stop", "index": 0}, {**end, "usage": None}))
    assert not stream.is_counted


def _chunk(delta: dict[str, object], finish: str | None = None, place: int = 0) -> dict[str, object]:
    return {"id": "c", "model": "m", "choices": [{"index": place, "delta": delta, "finish_reason": finish}]}


_COUNTS = {"prompt_tokens": 8, "completion_tokens": 5, "total_tokens": 13}
_SOME = {"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10}
_HELLO, _STOP = _chunk({"content": "Hello."}), _chunk({}, "stop")
_TEXT: tuple[dict[str, object], ...] = (
    {"type": "message_start", "message": {**_MESSAGE, "stop_reason": None, "usage": _OPENED}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
    {"type": "content_block_stop", "index": 0},
)
_DELTA: dict[str, object] = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
_SPENT = {"usage": {"output_tokens": 5}}

# What was told before the end: of which protocol, and whether it is known what all of the answer took.
_UNENDED: dict[str, tuple[str, bool, tuple[dict[str, object], ...]]] = {
    "usage behind the finish reason": (CHAT, True, (_HELLO, _STOP, {"id": "c", "choices": [], "usage": _COUNTS})),
    "usage without choices": (CHAT, True, (_HELLO, _STOP, {"id": "c", "usage": _COUNTS})),
    "usage with the finish reason": (CHAT, True, (_HELLO, {**_STOP, "usage": _COUNTS})),
    "usage all the time": (CHAT, True, ({**_HELLO, "usage": _SOME}, {**_STOP, "usage": _COUNTS})),
    "usage before the finish reason": (CHAT, False, ({**_HELLO, "usage": _SOME}, _STOP)),
    "no finish reason": (CHAT, False, (_HELLO, {"id": "c", "choices": [], "usage": _SOME})),
    "usage behind all choices": (
        CHAT,
        True,
        (_HELLO, _chunk({"content": "Hi."}, place=1), _STOP, {"id": "c", "choices": [], "usage": _COUNTS}),
    ),
    "a delta with both": (MESSAGES, True, (*_TEXT, {**_DELTA, **_SPENT})),
    "a delta for each": (MESSAGES, True, (*_TEXT, _DELTA, {**_DELTA, "delta": {}, **_SPENT})),
    "a reason alone": (MESSAGES, False, (*_TEXT, _DELTA)),
    "counts alone": (MESSAGES, False, (*_TEXT, {**_DELTA, "delta": {}, **_SPENT})),
}


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("target", [MESSAGES, CHAT, RESPONSES])
@pytest.mark.parametrize("case", _UNENDED)
def test_counts_that_come_with_the_reason_for_the_end_are_those_of_all(case: str, target: str, collect: bool) -> None:
    source, known, events = _UNENDED[case]
    stream = StreamPipeline(source=source, target=target, collect=collect)
    for event in events:
        stream.feed(sse(event, named=source == MESSAGES))
    assert not stream.finished
    assert stream.is_counted is known
    if known:
        assert stream.usage is not None and (stream.usage.input, stream.usage.output) == (8, 5)
        # However it ends, that is what it took.
        stream.fail(Failure(kind=FailureKind.TIMEOUT, status=504, message="too late"))
        assert stream.is_counted
        assert stream.usage is not None and (stream.usage.input, stream.usage.output) == (8, 5)


@pytest.mark.parametrize("target", [MESSAGES, RESPONSES])
def test_counts_that_come_while_another_choice_goes_on_are_not_those_of_all(target: str) -> None:
    stream = StreamPipeline(source=CHAT, target=target)
    for chunk in (_HELLO, _chunk({"content": "Hi."}, place=1), {**_STOP, "usage": _SOME}):
        stream.feed(sse(chunk, named=False))
    assert not stream.is_counted
    stream.feed(sse({"id": "c", "choices": [], "usage": _COUNTS}, named=False))
    assert stream.is_counted


@pytest.mark.parametrize("target", [MESSAGES, RESPONSES])
def test_counts_that_came_before_another_choice_are_not_those_of_all(target: str) -> None:
    stream = StreamPipeline(source=CHAT, target=target)
    for chunk in (_HELLO, {**_STOP, "usage": _SOME}, _chunk({"content": "Hi."}, place=1)):
        stream.feed(sse(chunk, named=False))
    assert not stream.is_counted


@pytest.mark.parametrize("target", [MESSAGES, RESPONSES])
def test_counts_that_cannot_be_read_end_nothing(target: str) -> None:
    stream = StreamPipeline(source=CHAT, target=target)
    for chunk in ({**_HELLO, "usage": _SOME}, {**_STOP, "usage": "n/a"}):
        stream.feed(sse(chunk, named=False))
    assert not stream.is_counted


def test_what_a_pause_told_is_counted_once_though_nothing_goes_on() -> None:
    codec = codec_of(MESSAGES)
    source = Source(
        lambda: codec.stream_decoder(translation_context(None, codec), derived_mint(b""), Ledger()), (), 1 << 20, None
    )
    source.pauses = PauseStage(MESSAGES, 3)
    paused: dict[str, object] = {**_DELTA, "delta": {"stop_reason": "pause_turn"}, **_SPENT}
    ended: dict[str, object] = {"type": "message_stop"}
    for event in (*_TEXT, paused, ended):
        source.feed(sse(event, named=True))
    assert source.pauses.paused
    source.fail(Failure(kind=FailureKind.TIMEOUT, status=504, message="too late"))
    assert source.usage is not None and (source.usage.input, source.usage.output) == (8, 5)
