"""Termination: any bytes, in any cuts, in any lane and direction, end after steps linear in their number.

At night every kind of stream is tried in every lane. What streams take in seconds is measured by `make attack`.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache, partial
from random import Random
from zlib import crc32

import pytest

from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.eventstream import EventStreamReader
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedRequest, translate_request
from dragoman.wire.json_spans import elements_of, object_members
from dragoman.wire.sse import SseReader
from tests.laws.floods import FLOODS, NOISE, Flood
from tests.laws.growth import WorkCounter, assert_copies_little, counting_work
from tests.laws.journey import question
from tests.laws.strategies import CHAT, MESSAGES, PROTOCOLS, RESPONSES
from tests.step_counting import StepCounter

# Numbers of repeated things.
COUNTS = (30, 60, 120)
WHOLE = 1 << 30
LANES = ("streamed", "collected", "summary")
CUSTOM: dict[str, JsonObject] = {
    MESSAGES: {"name": "patch", "input_schema": {"type": "object"}},
    CHAT: {"type": "custom", "custom": {"name": "patch"}},
    RESPONSES: {"type": "custom", "name": "patch"},
}
# Where the square was found, or would be first: by provider, client and kind; all kinds are tried at night.
WATCHED = [
    *((MESSAGES, CHAT, kind) for kind in ("blocks", "cited blocks", "free text that never opens", "citations")),
    *((MESSAGES, RESPONSES, kind) for kind in ("blocks", "cited blocks", "blocks that were never begun")),
    *((MESSAGES, MESSAGES, kind) for kind in ("counts with ever more members", "one large count and many small")),
    (MESSAGES, RESPONSES, "one letter that begins a stop string"),
    *((CHAT, MESSAGES, kind) for kind in ("blank refusal", "blank text", "many details", "annotations")),
    *((CHAT, MESSAGES, kind) for kind in ("arguments that may be complete", "arguments in a list")),
    *((CHAT, MESSAGES, kind) for kind in ("the same call again and again", "calls that stay open")),
    *((CHAT, CHAT, kind) for kind in ("content between counts", "many details")),
    *((RESPONSES, CHAT, kind) for kind in ("a text told again and again", "parts", "summaries and reasoning")),
    # Item 22 A1: of very many calls, and of what is told beside one that is long.
    *((MESSAGES, CHAT, kind) for kind in ("calls that stay open", "calls with half of their arguments")),
    *((MESSAGES, CHAT, kind) for kind in ("arguments for no call", "blocks in the first event")),
    *((CHAT, MESSAGES, kind) for kind in ("calls in one chunk", "ends after calls", "ends between calls")),
    *((CHAT, MESSAGES, kind) for kind in ("calls told again as a message", "calls told again one by one")),
    *((CHAT, MESSAGES, f"calls, by index with ids {kind}") for kind in ("with a stand-in", "without names")),
    *((CHAT, MESSAGES, f"calls, at one index without ids {kind}") for kind in ("with a stand-in", "without arguments")),
    *((RESPONSES, CHAT, kind) for kind in ("messages beside a long one", "messages that end beside a long one")),
    *((RESPONSES, CHAT, kind) for kind in ("calls beside a long one", "summaries beside a long one")),
]
EVERY = [(provider, client, kind) for provider in PROTOCOLS for kind in FLOODS[provider] for client in PROTOCOLS]


@pytest.fixture(scope="module")
def counter() -> Iterator[WorkCounter]:
    with counting_work() as counter:
        yield counter


@cache
def asked(client: str, provider: str, lane: str) -> TranslatedRequest:
    body = question(client)
    if lane == "summary":
        said: JsonObject = {"role": "user", "content": "Look."}
        body["input"] = [said, {"type": "compaction_trigger"}]
    tools = body["tools"]
    assert isinstance(tools, list)
    body["tools"] = [*tools, CUSTOM[client]]
    if client == MESSAGES:
        body["stop_sequences"] = ["STOP", "a" * 15_000 + "b"]
    return translate_request(body, source=client, target=provider)


def cut(stream: bytes, size: int) -> Iterator[bytes]:
    return (stream[at : at + size] for at in range(0, len(stream), size))


def told(provider: str, client: str, stream: bytes, *, size: int = WHOLE, lane: str = "streamed") -> int:
    """How many bytes the client gets."""
    client = RESPONSES if lane == "summary" else client
    request = asked(client, provider, lane) if client != provider else None
    translator = StreamPipeline(source=provider, target=client, request=request, collect=lane == "collected")
    length = sum(len(translator.feed(chunk)) for chunk in cut(stream, size)) + len(translator.close())
    assert translator.finished or translator.failure is not None
    return length + len(translator.losses)


@pytest.mark.parametrize(("provider", "client", "kind"), WATCHED)
def test_a_flood_takes_steps_by_its_length(counter: WorkCounter, provider: str, client: str, kind: str) -> None:
    flood = FLOODS[provider][kind]
    counter.assert_linear(partial(told, provider, client), map(flood, COUNTS))


@pytest.mark.parametrize(("provider", "client", "kind"), WATCHED)
def test_nothing_of_a_flood_is_copied_again_and_again(provider: str, client: str, kind: str) -> None:
    flood = FLOODS[provider][kind]
    assert_copies_little(partial(told, provider, client), flood(100), flood(200))


@pytest.mark.nightly
@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize(("provider", "client", "kind"), EVERY)
def test_any_flood_takes_steps_by_its_length_in_any_lane(
    counter: WorkCounter, provider: str, client: str, kind: str, lane: str
) -> None:
    flood = FLOODS[provider][kind]
    counter.assert_linear(partial(told, provider, client, lane=lane), map(flood, COUNTS))
    assert_copies_little(partial(told, provider, client, lane=lane), flood(100), flood(200))


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_noise_in_tiny_cuts_takes_steps_by_its_length(counter: WorkCounter, protocol: str, kind: str) -> None:
    inputs = [b"data: " + NOISE[kind](count) for count in (3, 6, 12)]
    counter.assert_linear(partial(told, protocol, protocol, size=2), inputs)
    less, more = (b"data: " + NOISE[kind](count) for count in (100, 200))
    assert_copies_little(partial(told, protocol, protocol, size=50), less, more)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_noise_in_a_long_frame_takes_steps_by_its_length(counter: WorkCounter, protocol: str, kind: str) -> None:
    # Long enough that a relay gives up to wait for the end of a frame, and reads it.
    inputs = [b"data: " + b"x" * 262_144 + NOISE[kind](count) for count in (50, 100, 200)]
    counter.assert_linear(partial(told, protocol, protocol, size=1_000), inputs)


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("lane", LANES)
def test_noise_in_other_lanes_takes_steps_by_its_length(counter: WorkCounter, lane: str, kind: str) -> None:
    inputs = [NOISE[kind](count) for count in (3, 6, 12)]
    less, more = (NOISE[kind](count) for count in (100, 200))
    provider, client = ((CHAT, MESSAGES), (MESSAGES, RESPONSES), (RESPONSES, CHAT))[LANES.index(lane)]
    counter.assert_linear(partial(told, provider, client, size=2, lane=lane), inputs)
    assert_copies_little(partial(told, provider, client, size=50, lane=lane), less, more)


def message(payload: bytes) -> bytes:
    head = struct.pack(">II", 16 + len(payload), 0)
    head += struct.pack(">I", crc32(head))
    return head + payload + struct.pack(">I", crc32(head + payload))


def fed(reader: Callable[[], SseReader | EventStreamReader], size: int, stream: bytes) -> int:
    fresh = reader()
    try:
        for chunk in cut(stream, size):
            fresh.feed(chunk)
        fresh.close()
    except DragomanError:
        # Refusing the bytes is an end as well: only that there is one counts.
        return 0
    return 0


@pytest.mark.parametrize("size", [1, 2, WHOLE])
@pytest.mark.parametrize(
    "flood",
    [
        lambda n: message(b"x" * (100 * n)),
        lambda n: message(b"x") * (5 * n),
        lambda n: bytes(100 * n),
        lambda n: struct.pack(">I", 1 << 24) * (25 * n),
    ],
    ids=["one message", "messages", "nothing", "lies"],
)
def test_frames_of_a_cloud_take_steps_by_their_length(counter: WorkCounter, flood: Flood, size: int) -> None:
    counter.assert_linear(partial(fed, EventStreamReader, size), map(flood, (5, 10, 20)))


@pytest.mark.parametrize("kind", NOISE)
def test_events_take_steps_by_their_length(counter: WorkCounter, kind: str) -> None:
    counter.assert_linear(partial(fed, SseReader, 1), map(NOISE[kind], (5, 10, 20)))


@pytest.mark.parametrize(
    "body",
    [
        lambda n: b"{" + b",".join(b'"a":[%d]' % i for i in range(n)) + b"}",
        lambda n: b"{" + b",".join(b'"a":"' + b"x" * (i % 100) + b'"' for i in range(n)) + b"}",
        lambda n: b"{" + b",".join(b'"\\u0061":{"a":{}}' for i in range(n)) + b"}",
        lambda n: b'{"a":' + b"[" * n + b"]" * n + b"}",
        lambda n: b'{"a":[' + b",".join([b" \n 1"] * n) + b"]}",
        lambda n: b'{"a":"' + b"\\\\" * n + b'"}',
    ],
    ids=["duplicates", "texts", "escaped names", "depth", "white space", "backslashes"],
)
def test_spans_take_steps_by_their_length(counter: WorkCounter, body: Callable[[int], bytes]) -> None:
    def work(text: bytes) -> int:
        object_members(text)
        elements_of(text, "a")
        return 0

    counter.assert_linear(work, map(body, (100, 200, 400)))


# Streams of a few kilobytes: steps for each byte and beside them, and bytes of memory, that none of them reaches.
MAX_STEPS, MAX_STEPS_BESIDE, MAX_MEMORY = 400, 100_000, 8 * 1024 * 1024


@pytest.mark.parametrize("rounds", [2, pytest.param(30, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("provider", PROTOCOLS)
def test_mutated_streams_end_within_a_limit_of_steps_and_memory(provider: str, rounds: int) -> None:
    chance = Random(provider)
    for client in PROTOCOLS:
        for lane in LANES:
            for _ in range(rounds):
                size = chance.choice([1, 2, 7, 100, WHOLE])
                stream = mutated(chance, provider)
                with StepCounter(limit=MAX_STEPS * len(stream) + MAX_STEPS_BESIDE):
                    told(provider, client, stream, size=size, lane=lane)
                assert _peak(partial(told, provider, client, stream, size=size, lane=lane)) < MAX_MEMORY


def _peak(work: Callable[[], object]) -> int:
    """How many bytes of memory the work has at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def mutated(chance: Random, provider: str) -> bytes:
    """A flood with bytes taken out, doubled, made line ends or made up."""
    stream = bytearray(FLOODS[provider][chance.choice(sorted(FLOODS[provider]))](20))
    for _ in range(chance.randrange(30)):
        at, length = chance.randrange(len(stream) + 1), chance.randrange(40)
        piece = bytes(stream[at : at + length])
        stream[at : at + length] = chance.choice(
            [b"", piece * 2, b"\n" * chance.randrange(5), b"\r\n", chance.randbytes(length), b"data: ", piece[::-1]]
        )
    return bytes(stream)
