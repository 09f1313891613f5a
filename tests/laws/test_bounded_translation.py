"""Bounded work: a request of up to 100 KB, whatever its shape, is translated or repaired within 100 ms of CPU.

And what goes out is not many times what came in. `DRAGOMAN_ATTACK_SCALE` above 1 tries all pairs, members and strings.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator

import pytest

from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.protocols.registry import codec_of
from dragoman.rules.ids import MISTRAL_LIKE
from dragoman.tokens.request import count_request
from dragoman.translate import same_request, translate_request, translate_response
from dragoman.wire.json import decode_object, encode
from tests.laws.crowds import crowds
from tests.laws.shapes import as_object, places, put
from tests.laws.strategies import ANSWERS, FIELDS, PROTOCOLS, single_answers, single_requests

SCALE = int(os.environ.get("DRAGOMAN_ATTACK_SCALE", "1"))
SIZE = 100_000
LIMIT = 0.1
# So many times what came in, and as many bytes more, may go out.
TIMES, MORE = 6, 300_000
# Of an answer told as a stream each part, however small, makes several frames.
TIMES_STREAMED = 40


def repaired(body: bytes, protocol: str) -> bytes:
    """What the relay makes of a request on its way to a provider of the same protocol."""
    codec, ledger = codec_of(protocol), Ledger()
    sent = codec.repair_request(same_request(body, protocol=protocol, model="other").body, ledger)
    sent = codec.rename_calls(sent, MISTRAL_LIKE, ledger)
    if codec.without_telemetry is not None:
        sent = codec.without_telemetry(sent, ledger)
    if codec.rename_cap is not None:
        sent = codec.rename_cap(sent)
    sent = codec.ask_usage(sent) or sent
    return codec.without_reasoning(sent, ledger) or sent


def written(body: bytes, source: str, target: str) -> int:
    """How long the request is as it goes out; 0 if it is refused."""
    try:
        if source == target:
            return len(repaired(body, source))
        return len(translate_request(body, source=source, target=target).body)
    except DragomanError:
        return 0


def check(body: JsonObject, source: str, name: str) -> None:
    raw = encode(body)
    for target in PROTOCOLS:
        for attempt in range(3):
            before = time.thread_time()
            length = written(raw, source, target)
            taken = time.thread_time() - before
            if taken < LIMIT:
                break
            assert attempt < 2, f"{name}, to {target}: {taken * 1000:.0f} ms"
        assert length <= TIMES * len(raw) + MORE, f"{name}, to {target}: {len(raw)} became {length}"


def with_ids(value: JsonValue, number: int) -> JsonValue:
    """The same value with names and ids of its own."""
    if isinstance(value, list):
        return [with_ids(one, number) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"{one}{number}" if key in _IDS and isinstance(one, str) else with_ids(one, number)
        for key, one in value.items()
    }


_IDS = frozenset({"id", "call_id", "tool_use_id", "tool_call_id", "name"})
_LETTERS = ("a", " ", "\n", "{", '"', "\\", "é", "(", "1", "-", "/", "%41", "<think>", "&")


def larger(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """A value of the same kind, filled up to the size."""
    if isinstance(value, list) and value:
        count = SIZE // (len(encode(value)) + 1) + 1
        yield "repeated", value * count
        if SCALE == 1 and value == with_ids(value, 0):
            return
        yield "repeated with other ids", [with_ids(one, number) for number in range(count * 9 // 10) for one in value]
    elif isinstance(value, dict) and SCALE > 1:
        yield "with members", {**value, **{f"k{number}": number for number in range(SIZE // 14)}}
    elif isinstance(value, str) and SCALE > 1:
        for letter in _LETTERS:
            yield f"{letter!r} repeated", value + letter * (SIZE // len(letter))


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    """The collector looks at everything that these tests keep, again and again; nothing here is its work."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_crowd_of_small_things_is_bounded_work(protocol: str) -> None:
    for name, body in crowds(protocol, SIZE, every=SCALE > 1):
        check(body, protocol, name)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_any_member_that_is_large_is_bounded_work(protocol: str) -> None:
    seen: set[str] = set()
    for case in single_requests(protocol):
        for found in places(FIELDS[protocol], case.body):
            path = tuple(step for step in found.where if isinstance(step, str))
            sort = found.value[0] if isinstance(found.value, list) and found.value else found.value
            key = str((path, type(found.value), sort.get("type") if isinstance(sort, dict) else None))
            if not found.where or key in seen:
                continue
            seen.add(key)
            for name, value in larger(found.value):
                check(as_object(put(case.body, found.where, value)), protocol, f"{case}, {found.where}, {name}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True] if SCALE > 1 else [True])
def test_any_large_answer_is_bounded_work(protocol: str, stream: bool) -> None:
    seen: set[str] = set()
    for case in single_answers(protocol):
        for found in places(ANSWERS[protocol], case.body):
            sort = found.value[0] if isinstance(found.value, list) and found.value else None
            key = str((found.where, sort.get("type") if isinstance(sort, dict) else sort))
            if not isinstance(found.value, list) or key in seen:
                continue
            seen.add(key)
            for name, value in larger(found.value):
                raw = encode(put(case.body, found.where, value))
                for target in PROTOCOLS:
                    for attempt in range(3):
                        before = time.thread_time()
                        try:
                            told = translate_response(raw, source=protocol, target=target, stream=stream).body
                        except DragomanError:
                            told = b""
                        if time.thread_time() - before < LIMIT:
                            break
                        assert attempt < 2, (case, name, target)
                    assert len(told) <= TIMES_STREAMED * len(raw), (case, name, target)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_count_of_any_crowd_is_bounded_work(protocol: str) -> None:
    count_request({"input": "once, for the table"}, "gpt-5")
    for name, body in crowds(protocol, SIZE, every=False):
        for attempt in range(3):
            before = time.thread_time()
            count_request(decode_object(encode(body)), "gpt-5")
            if time.thread_time() - before < LIMIT:
                break
            assert attempt < 2, name
