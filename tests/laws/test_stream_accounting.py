"""Law 6 for streams: a member or event that nobody knows is in the client's stream or in the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.folding import fold
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.response import Response
from dragoman.protocols.registry import codec_of
from dragoman.streaming import StreamPipeline
from dragoman.translate import LossLine, translate_response, translation_context
from dragoman.wire.json import decode
from dragoman.wire.sse import SseReader
from tests.laws.journey import asked, counting, events_of, parsed
from tests.laws.marking import Mark, Unresolved, holds, resolve
from tests.laws.shapes import Kind, Where, as_object, as_text, put
from tests.laws.strategies import CHAT, MESSAGES, PAIRS, PROTOCOLS, RESPONSES, Case, single_answers
from tests.laws.telling import frame, streams, tell

# Where objects that the library reads stand in an event; a number stands for every entry.
LEVELS: dict[str, tuple[tuple[str, ...], ...]] = {
    MESSAGES: ((), ("message",), ("content_block",), ("delta",)),
    CHAT: (
        (),
        ("choices", "*"),
        ("choices", "*", "delta"),
        ("choices", "*", "delta", "tool_calls", "*"),
        ("choices", "*", "delta", "tool_calls", "*", "function"),
        ("choices", "*", "delta", "tool_calls", "*", "custom"),
        ("choices", "*", "delta", "function_call"),
    ),
    RESPONSES: (
        (),
        ("response",),
        ("item",),
        ("item", "content", "*"),
        ("part",),
        ("response", "output", "*"),
        ("response", "output", "*", "content", "*"),
    ),
}


def places(value: JsonValue, level: tuple[str, ...], where: Where = ()) -> Iterator[Where]:
    """The objects at a level of an event."""
    if not level:
        if isinstance(value, dict):
            yield where
    elif level[0] == "*":
        for index, entry in enumerate(value if isinstance(value, list) else ()):
            yield from places(entry, level[1:], (*where, index))
    elif isinstance(value, dict) and level[0] in value:
        yield from places(value[level[0]], level[1:], (*where, level[0]))


class Events:
    """The events of a stream as they can be changed."""

    def __init__(self, protocol: str, stream: bytes) -> None:
        reader = SseReader()
        self.names: list[str | None] = []
        self.bodies: list[JsonValue] = []
        for one in [*reader.feed(stream), *reader.close()]:
            self.names.append(one.event)
            self.bodies.append(None if one.data == b"[DONE]" else json.loads(one.data))
        self.objects = [
            (number, where)
            for number, body in enumerate(self.bodies)
            for level in LEVELS[protocol]
            for where in places(body, level)
        ]

    def add(self, number: int, where: Where, name: str) -> None:
        """Put a member into one of the objects."""
        self.bodies[number] = put(self.bodies[number], (*where, name), {"said": 1})

    @property
    def stream(self) -> bytes:
        return b"".join(
            b"data: [DONE]\n\n" if body is None else frame(as_object(body), name)
            for name, body in zip(self.names, self.bodies, strict=True)
        )


def unaccounted(provider: str, client: str, stream: bytes, names: list[str]) -> list[str]:
    """The names that neither the client's stream nor the ledger holds."""
    request = asked(client, provider)
    translator = StreamPipeline(source=provider, target=client, request=request, mint=counting())
    written = translator.feed(stream) + translator.close()
    assert translator.failure is None
    reader = SseReader()
    told = [decode(one.data) for one in [*reader.feed(written), *reader.close()] if one.data != b"[DONE]"]
    response = fold(events_of(provider, stream, translation_context(request, codec_of(provider))), provider)
    assert isinstance(response, Response)
    lost = [*map(str, (loss["at"] for loss in translator.losses)), *_values(response, translator.losses)]
    return [name for name in names if not holds([told, lost], Mark(where=(), kind=Kind.TEXT, texts=(name,)))]


def _values(response: Response, losses: tuple[LossLine, ...]) -> Iterator[object]:
    for loss in losses:
        try:
            yield resolve(response, loss["at"])
        except Unresolved:
            # Members of frames are no members of the answer: the place names them.
            continue


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data())
def test_a_member_that_nobody_knows_is_accounted_for(provider: str, client: str, data: st.DataObject) -> None:
    events = Events(provider, data.draw(streams(provider, lying=True)).stream)
    number, where = data.draw(st.sampled_from(events.objects))
    events.add(number, where, "never_heard_of")
    assert unaccounted(provider, client, events.stream, ["never_heard_of"]) == []


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data())
def test_unknown_members_everywhere_are_accounted_for(provider: str, client: str, data: st.DataObject) -> None:
    events = Events(provider, data.draw(streams(provider)).stream)
    names = [f"never_heard_of_{index:04d}" for index in range(len(events.objects))]
    for (number, where), name in zip(events.objects, names, strict=True):
        events.add(number, where, name)
    assert unaccounted(provider, client, events.stream, names) == []


CASES = [(case, client) for provider, client in PAIRS for case in single_answers(provider)]


@pytest.mark.parametrize(("case", "client"), CASES, ids=str)
def test_every_event_of_every_shape_accounts_for_what_it_holds(case: Case, client: str) -> None:
    events = Events(case.protocol, tell(case.protocol, case.body).stream)
    names = [f"never_heard_of_{index:04d}" for index in range(len(events.objects))]
    for (number, where), name in zip(events.objects, names, strict=True):
        events.add(number, where, name)
    assert unaccounted(case.protocol, client, events.stream, names) == []


UNKNOWN: dict[str, JsonObject] = {
    MESSAGES: {"type": "never_heard_of", "index": 0},
    RESPONSES: {"type": "response.never_heard_of", "output_index": 0},
}


@pytest.mark.parametrize(("provider", "client"), [pair for pair in PAIRS if pair[0] in UNKNOWN])
@given(data=st.data())
def test_an_event_that_nobody_knows_is_reported_once(provider: str, client: str, data: st.DataObject) -> None:
    frames = list(data.draw(streams(provider)).frames)
    last = 1 if frames[-1].startswith(b"data: [DONE]") else 0
    kind = as_text(UNKNOWN[provider]["type"])
    unknown = frame(UNKNOWN[provider], kind)
    for place in data.draw(st.lists(st.integers(0, len(frames) - 1 - last), min_size=1, max_size=3)):
        frames.insert(place, unknown)
    translator = StreamPipeline(source=provider, target=client, request=asked(client, provider))
    translator.feed(b"".join(frames))
    translator.close()
    found = [loss["at"] for loss in translator.losses if "never_heard_of" in loss["at"]]
    assert found == [f"extras.{kind}"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_a_relay_loses_nothing(protocol: str, data: st.DataObject) -> None:
    events = Events(protocol, data.draw(streams(protocol, lying=True)).stream)
    for number, where in data.draw(st.lists(st.sampled_from(events.objects), max_size=5, unique=True)):
        events.add(number, where, "never_heard_of")
    stream = events.stream
    translator = StreamPipeline(source=protocol, target=protocol)
    assert translator.feed(stream) + translator.close() == stream
    assert translator.losses == ()


@pytest.mark.parametrize(("provider", "client"), PAIRS)
@given(data=st.data())
def test_a_stream_reports_no_unknown_that_the_whole_answer_does_not(
    provider: str, client: str, data: st.DataObject
) -> None:
    told = data.draw(streams(provider))
    request = asked(client, provider)
    translator = StreamPipeline(source=provider, target=client, request=request)
    translator.feed(told.stream)
    translator.close()
    whole = translate_response(told.answer, source=provider, target=client, request=request)
    answer = codec_of(provider).decode_response(
        parsed(told.answer), translation_context(request, codec_of(provider)), Ledger()
    )
    assert isinstance(answer, Response)
    known = [[loss["at"] for loss in whole.losses], list(_values(answer, whole.losses))]
    streamed = [loss["at"].rpartition(".")[2] for loss in translator.losses if loss["feature"] == "unknown_field"]
    assert [name for name in streamed if not holds(known, Mark(where=(), kind=Kind.TEXT, texts=(name,)))] == []
