"""Whoever watches a stream sees all of it, and nobody else notices."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from dragoman.model.events import Ended, Event, Failed, PartGrew, TextDelta
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.folding import Fold, fold
from dragoman.model.parts import Part, Text, Thinking, ToolCall
from dragoman.model.response import Response
from dragoman.streaming import StreamPipeline, Tap
from dragoman.streaming.tap import Frames
from dragoman.translate import TranslatedRequest, translate_request, translate_response
from tests.sdk.providers import Call, Turn, answer, stream
from tests.streaming.support import CHAT, CLAUDE, MESSAGES, QUESTIONS, RESPONSES, whole_answer

PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
PAIRS = [(source, target) for source in PROTOCOLS for target in PROTOCOLS]
STOPS: dict[str, str] = {MESSAGES: "tool_use", CHAT: "tool_calls", RESPONSES: "completed"}
SIZES = (1, 7, 10**6)


class Watcher:
    """Keeps what it is handed."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.frames: list[bytes] = []

    def see(self, events: Sequence[Event]) -> None:
        self.events += events

    @property
    def texts(self) -> str:
        return "".join(
            event.delta.text
            for event in self.events
            if isinstance(event, PartGrew) and isinstance(event.delta, TextDelta)
        )


def _stream(protocol: str) -> bytes:
    calls = (Call("call_1", "look", '{"a":1}'), Call("call_2", "look"))
    return stream(protocol, Turn(stop=STOPS[protocol], reasoning="Hm, hm.", text="Let me look.", calls=calls))


def _asked(client: str, provider: str) -> TranslatedRequest:
    return translate_request(json.dumps(QUESTIONS[client]).encode(), source=client, target=provider, model="m")


def _fed(translator: StreamPipeline, data: bytes, size: int = 7) -> bytes:
    return b"".join(translator.feed(data[at : at + size]) for at in range(0, len(data), size)) + translator.close()


def _parts(events: Sequence[Event], origin: str) -> list[Part]:
    told = fold(events, origin)
    assert isinstance(told, Response)
    return list(told.parts)


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_events_tell_the_whole_answer_and_the_client_gets_the_same_bytes(
    source: str, target: str, size: int, collect: bool
) -> None:
    data, request = _stream(source), _asked(target, source)
    plain = StreamPipeline(source=source, target=target, request=request, collect=collect)
    watcher = Watcher()
    watched = StreamPipeline(
        source=source, target=target, request=request, collect=collect, tap=Tap(events=watcher.see)
    )
    assert _fed(watched, data, size) == _fed(plain, data, size)
    assert (watched.status, watched.usage, watched.losses) == (plain.status, plain.usage, plain.losses)
    assert isinstance(watcher.events[-1], Ended)
    parts = _parts(watcher.events, source)
    thinking, text, *calls = parts
    assert isinstance(thinking, Thinking) and thinking.text == "Hm, hm." and thinking.seal is not None
    assert isinstance(text, Text) and text.text == "Let me look."
    assert [call.call_id for call in calls if isinstance(call, ToolCall)] == ["call_1", "call_2"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_frames_are_the_providers_bytes_cut_between_frames(source: str, target: str, size: int) -> None:
    data = b": hello\n\n" + _stream(source) + b": the end\n\n"
    request = _asked(target, source)
    watcher = Watcher()
    plain = StreamPipeline(source=source, target=target, request=request)
    watched = StreamPipeline(source=source, target=target, request=request, tap=Tap(frames=watcher.frames.append))
    assert _fed(watched, data, size) == _fed(plain, data, size)
    assert b"".join(watcher.frames) == data
    assert all(frame.endswith(b"\n\n") for frame in watcher.frames)


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT])
def test_a_relay_hands_on_runs_of_frames_unread(protocol: str) -> None:
    """Frames of content go in one piece, though their deltas are many."""
    said = "word " * 200
    data = stream(protocol, Turn(stop="stop" if protocol == CHAT else STOPS[protocol], text=said))
    deltas = data.count(b"data: ")
    watcher = Watcher()
    tap = Tap(frames=watcher.frames.append)
    translator = StreamPipeline(source=protocol, target=protocol, tap=tap)
    assert translator.feed(data) + translator.close() == data
    assert b"".join(watcher.frames) == data
    assert len(watcher.frames) < deltas
    both = Watcher()
    reading = StreamPipeline(source=protocol, target=protocol, tap=Tap(events=both.see, frames=both.frames.append))
    assert reading.feed(data) + reading.close() == data
    assert both.texts == said and b"".join(both.frames) == data


@pytest.mark.parametrize("silence", [b":\n\n", b"data\n\n", b"event: x\n\n", b"\n"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_frames_that_say_nothing_are_frames(protocol: str, silence: bytes) -> None:
    first, last = _stream(protocol).split(b"\n\n", 1)
    data = first + b"\n\n" + silence * 5 + last
    watcher = Watcher()
    translator = StreamPipeline(source=protocol, target=protocol, tap=Tap(frames=watcher.frames.append))
    assert _fed(translator, data) == data
    assert b"".join(watcher.frames) == data


@pytest.mark.parametrize("target", PROTOCOLS)
def test_what_belongs_to_no_frame_comes_last(target: str) -> None:
    watcher = Watcher()
    cut = CLAUDE[: CLAUDE.index(b"OP two")]
    tap = Tap(events=watcher.see, frames=watcher.frames.append)
    translator = StreamPipeline(source=MESSAGES, target=target, tap=tap)
    _fed(translator, cut)
    assert b"".join(watcher.frames) == cut
    assert not watcher.frames[-1].endswith(b"\n")
    assert isinstance(watcher.events[-1], Failed)


@pytest.mark.parametrize("target", PROTOCOLS)
def test_an_end_from_outside_is_an_event(target: str) -> None:
    watcher = Watcher()
    translator = StreamPipeline(source=MESSAGES, target=target, tap=Tap(events=watcher.see))
    translator.feed(CLAUDE[: CLAUDE.index(b"OP two")])
    failure = Failure(kind=FailureKind.TIMEOUT, status=504, message="too long")
    translator.fail(failure)
    assert watcher.events[-1] == Failed(failure)


def test_what_a_stop_string_cut_off_is_not_told_to_watchers_either() -> None:
    chat = {**QUESTIONS[CHAT], "stop": ["STOP"]}
    request = translate_request(json.dumps(chat).encode(), source=CHAT, target=RESPONSES, model="m")
    watcher = Watcher()
    translator = StreamPipeline(source=RESPONSES, target=CHAT, request=request, tap=Tap(events=watcher.see))
    _fed(translator, stream(RESPONSES, Turn(stop="completed", text="one STOP two")))
    assert watcher.texts == "one "


@pytest.mark.parametrize("source", [MESSAGES, RESPONSES])
def test_an_answer_that_came_whole_is_told_in_events_and_handed_on_as_it_came(source: str) -> None:
    data = json.dumps(answer(source, Turn(stop=STOPS[source], text="Hello."))).encode()
    watcher = Watcher()
    tap = Tap(events=watcher.see, frames=watcher.frames.append)
    translator = StreamPipeline(source=source, target=CHAT, request=_asked(CHAT, source), tap=tap)
    _fed(translator, data)
    assert watcher.texts == "Hello."
    assert watcher.frames == [data]


def test_half_a_frame_is_not_held_beyond_the_limit() -> None:
    seen: list[bytes] = []
    frames = Frames(seen.append, limit=10)
    frames.take(b"data: 1")
    assert seen == []
    frames.take(b"2345678")
    assert seen == [b"data: 12345678"]
    frames.close()
    assert len(seen) == 1


@pytest.mark.parametrize("source", [MESSAGES, RESPONSES])
def test_a_whole_answer_is_there_as_a_value(source: str) -> None:
    request = _asked(CHAT, source)
    data = json.dumps(whole_answer(source, STOPS[source])).encode()
    told = translate_response(data, source=source, target=CHAT, request=request)
    assert told.response is not None and told.response.origin == source
    assert isinstance(told.response.parts[0], Text) and told.response.parts[0].text == "Hello."
    assert translate_response(data, source=source, target=source).response is None


def test_a_watcher_can_fold_what_it_sees() -> None:
    folding = Fold(MESSAGES)
    translator = StreamPipeline(source=MESSAGES, target=CHAT, tap=Tap(events=folding.take))
    _fed(translator, CLAUDE)
    assert folding.response().parts == (Text(text="one STOP two"),)
