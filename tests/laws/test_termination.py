"""Termination: any bytes, in any cuts, in any lane and direction, end in time linear in their number.

`DRAGOMAN_ATTACK_SCALE` makes the streams longer and measures every kind in every lane.
"""

from __future__ import annotations

import gc
import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from zlib import crc32

import pytest

from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.eventstream import EventStreamReader
from dragoman.streaming import StreamTranslator
from dragoman.translate import TranslatedRequest, translate_request
from dragoman.wire.spans import elements_of, object_members
from dragoman.wire.sse import SseReader
from tests.laws.floods import FLOODS, NOISE, Flood
from tests.laws.journey import question
from tests.laws.strategies import CHAT, MESSAGES, PROTOCOLS, RESPONSES

SCALE = int(os.environ.get("DRAGOMAN_ATTACK_SCALE", "1"))
# Four times as many bytes may take twice as long as four times would: a square takes sixteen times.
GROWTH, WORST = 4, 8.0
# Shorter times than this say nothing.
LEAST = 0.002
WHOLE = 1 << 30
LANES = ("streamed", "collected", "summary")
CUSTOM: dict[str, JsonObject] = {
    MESSAGES: {"name": "patch", "input_schema": {"type": "object"}},
    CHAT: {"type": "custom", "custom": {"name": "patch"}},
    RESPONSES: {"type": "custom", "name": "patch"},
}
# Where the square was found, or would be first: by provider, client and kind; all kinds are measured at greater scale.
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
]
EVERY = [(provider, client, kind) for provider in PROTOCOLS for kind in FLOODS[provider] for client in PROTOCOLS]


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
    translator = StreamTranslator(source=provider, target=client, request=request, collect=lane == "collected")
    length = sum(len(translator.feed(chunk)) for chunk in cut(stream, size)) + len(translator.close())
    assert translator.finished or translator.failure is not None
    return length + len(translator.losses)


def taken(work: Callable[[], object]) -> float:
    # The collector looks at everything that these tests keep, again and again; nothing here is its work.
    gc.disable()
    try:
        before = time.thread_time()
        work()
        return time.thread_time() - before
    finally:
        gc.enable()


def grows_evenly(work: Callable[[int], Callable[[], object]], count: int) -> bool:
    """Whether four times as much takes no more than eight times as long, at the second or third look too."""
    little, much = work(count), work(GROWTH * count)
    for _ in range(4):
        short = max(min(taken(little), taken(little)), LEAST)
        if taken(much) <= WORST * short:
            return True
    return False


@pytest.mark.parametrize(("provider", "client", "kind"), EVERY if SCALE > 1 else WATCHED)
def test_a_flood_takes_time_by_its_length(provider: str, client: str, kind: str) -> None:
    flood = FLOODS[provider][kind]
    for lane in LANES if SCALE > 1 else LANES[:1]:

        def work(count: int, lane: str = lane) -> Callable[[], object]:
            stream = flood(count)
            return lambda: told(provider, client, stream, lane=lane)

        assert grows_evenly(work, 500 * min(SCALE, 4)), lane


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_noise_in_tiny_cuts_takes_time_by_its_length(protocol: str, kind: str) -> None:
    def work(count: int) -> Callable[[], object]:
        # Long enough that a relay gives up to wait for the end of a frame, and reads it.
        stream = b"data: " + b"x" * 262_144 * (SCALE > 1) + NOISE[kind](count)
        return lambda: told(protocol, protocol, stream, size=2)

    assert grows_evenly(work, 60 * SCALE)


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("lane", LANES)
def test_noise_in_other_lanes_takes_time_by_its_length(lane: str, kind: str) -> None:
    for provider, client in ((CHAT, MESSAGES), (MESSAGES, RESPONSES), (RESPONSES, CHAT)):

        def work(count: int, provider: str = provider, client: str = client) -> Callable[[], object]:
            stream = NOISE[kind](count)
            return lambda: told(provider, client, stream, size=2, lane=lane)

        assert grows_evenly(work, 30 * SCALE)


def message(payload: bytes) -> bytes:
    head = struct.pack(">II", 16 + len(payload), 0)
    head += struct.pack(">I", crc32(head))
    return head + payload + struct.pack(">I", crc32(head + payload))


def fed(reader: SseReader | EventStreamReader, stream: bytes, size: int) -> None:
    try:
        for chunk in cut(stream, size):
            reader.feed(chunk)
        reader.close()
    except DragomanError:
        # Refusing the bytes is an end as well: only that there is one counts.
        return


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
def test_frames_of_a_cloud_take_time_by_their_length(flood: Flood, size: int) -> None:
    def work(count: int) -> Callable[[], object]:
        stream = flood(count)
        return lambda: fed(EventStreamReader(), stream, size)

    assert grows_evenly(work, 100 * SCALE)


@pytest.mark.parametrize("kind", NOISE)
def test_events_take_time_by_their_length(kind: str) -> None:
    def work(count: int) -> Callable[[], object]:
        stream = NOISE[kind](count)
        return lambda: fed(SseReader(), stream, 1)

    assert grows_evenly(work, 60 * SCALE)


@pytest.mark.parametrize(
    "body",
    [
        lambda n: b"{" + b",".join(b'"a":[%d]' % i for i in range(n)) + b"}",
        lambda n: b"{" + b",".join(b'"a":"' + b"x" * (i % 100) + b'"' for i in range(n)) + b"}",
        lambda n: b"{" + b",".join(b'"\\u0061":{"a":{}}' for i in range(n)) + b"}",
        lambda n: b'{"a":' + b"[" * min(n, 900) + b"]" * min(n, 900) + b"}",
        lambda n: b'{"a":[' + b",".join([b" \n 1"] * n) + b"]}",
        lambda n: b'{"a":"' + b"\\\\" * n + b'"}',
    ],
    ids=["duplicates", "texts", "escaped names", "depth", "white space", "backslashes"],
)
def test_spans_take_time_by_their_length(body: Callable[[int], bytes]) -> None:
    def work(count: int) -> Callable[[], object]:
        written = body(count)
        return lambda: (object_members(written), elements_of(written, "a"))

    assert grows_evenly(work, 4000 * SCALE)


RUN = """
from tests.laws.test_termination import run_mutated
run_mutated({provider!r}, {rounds})
"""


def run_mutated(provider: str, rounds: int) -> None:
    chance = Random(provider)
    for client in PROTOCOLS:
        for lane in LANES:
            for _ in range(rounds):
                size = chance.choice([1, 2, 7, 100, WHOLE])
                told(provider, client, mutated(chance, provider), size=size, lane=lane)


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


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (60 * SCALE, 60 * SCALE))
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


@pytest.mark.parametrize("provider", PROTOCOLS)
def test_mutated_streams_end_within_a_limit_of_time_and_memory(provider: str) -> None:
    """In a process of their own: what does not end would hold up the tests instead of failing."""
    command = [sys.executable, "-c", RUN.format(provider=provider, rounds=15 * SCALE)]
    run = subprocess.run(command, preexec_fn=limited, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-2000:]
