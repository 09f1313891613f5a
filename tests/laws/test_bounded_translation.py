"""Bounded work: a request or an answer, whatever its shape, is translated or repaired in steps linear in its size.

And what goes out is not many times what came in. At night all pairs, members and strings are tried. What 100 KB take in
seconds is measured by `make attack`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.protocols.registry import codec_of
from dragoman.rules.capabilities import Capabilities
from dragoman.tokens.request import count_request
from dragoman.translate import same_request, translate_request, translate_response
from dragoman.wire.json import decode_object, encode
from tests.laws.crowds import Crowd, crowds
from tests.laws.growth import WorkCounter, counting_work
from tests.laws.shapes import Shape, Where, places, put
from tests.laws.strategies import ANSWERS, FIELDS, PROTOCOLS, Case, single_answers, single_requests

# Bytes of what is compared.
SIZES = (1_000, 2_000, 4_000)
# So many times what came in, and as many bytes more, may go out.
TIMES, MORE = 9, 5_000
# A model that needs every repair.
PICKY = Capabilities(call_ids="mistral", max_completion_tokens=True, loops_need_thinking=True)
# Of an answer told as a stream each part, however small, makes several frames.
TIMES_STREAMED = 40

# A body of about so many bytes.
Body = Callable[[int], bytes]


@pytest.fixture(scope="module")
def counter() -> Iterator[WorkCounter]:
    with counting_work() as counter:
        yield counter


def repaired(body: bytes, protocol: str) -> bytes:
    """What the relay makes of a request on its way to a provider of the same protocol."""
    codec, ledger = codec_of(protocol), Ledger()
    sent = same_request(body, protocol=codec.name, model="other").body
    sent = codec.relay_request(sent, PICKY, "a vendor", ledger)
    sent = codec.include_usage(sent) or sent
    return codec.without_reasoning(sent, ledger) or sent


def written(body: bytes, source: str, target: str) -> int:
    """How long the request is as it goes out; 0 if it is refused."""
    try:
        if source == target:
            return len(repaired(body, source))
        return len(translate_request(body, source=source, target=target).body)
    except DragomanError:
        return 0


def answered(body: bytes, source: str, target: str, stream: bool) -> int:
    """How long the answer is as it goes out; 0 if it is refused."""
    try:
        return len(translate_response(body, source=source, target=target, stream=stream).body)
    except DragomanError:
        return 0


def check_request(counter: WorkCounter, body: Body, source: str, name: str) -> None:
    inputs = [body(size) for size in SIZES]
    large = inputs[-1]
    for target in PROTOCOLS:
        work = partial(written, source=source, target=target)
        counter.assert_linear(work, inputs, f"{name}, to {target}")
        length = written(large, source, target)
        assert length <= TIMES * len(large) + MORE, f"{name}, to {target}: {len(large)} became {length}"


def check_answer(counter: WorkCounter, body: Body, source: str, stream: bool, name: str) -> None:
    inputs = [body(size) for size in SIZES]
    large = inputs[-1]
    for target in PROTOCOLS:
        work = partial(answered, source=source, target=target, stream=stream)
        counter.assert_linear(work, inputs, f"{name}, to {target}")
        length = answered(large, source, target, stream)
        assert length <= TIMES_STREAMED * len(large), f"{name}, to {target}: {len(large)} became {length}"


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


def repeated(value: JsonList, size: int) -> JsonValue:
    return value * (size // (len(encode(value)) + 1) + 1)


def repeated_with_ids(value: JsonList, size: int) -> JsonValue:
    count = size * 9 // 10 // (len(encode(value)) + 1) + 1
    return [with_ids(one, number) for number in range(count) for one in value]


def with_members(value: JsonObject, size: int) -> JsonValue:
    return {**value, **{f"k{number}": number for number in range(size // 14)}}


def with_letters(value: str, letter: str, size: int) -> JsonValue:
    return value + letter * (size // len(letter))


def larger(value: JsonValue, *, every: bool) -> Iterator[tuple[str, Callable[[int], JsonValue]]]:
    """Ways to fill a value of the same kind up to a size: lists, and at night objects and strings, too."""
    if isinstance(value, list) and value:
        yield "repeated", partial(repeated, value)
        if every or value != with_ids(value, 0):
            yield "repeated with other ids", partial(repeated_with_ids, value)
    elif isinstance(value, dict) and every:
        yield "with members", partial(with_members, value)
    elif isinstance(value, str) and every:
        for letter in _LETTERS:
            yield f"{letter!r} repeated", partial(with_letters, value, letter)


def larger_bodies(cases: Sequence[Case], shape: Shape, *, every: bool) -> Iterator[tuple[str, Body]]:
    """The bodies of these cases with one member filled up; each sort of member at its place once."""
    seen: set[str] = set()
    for case in cases:
        for found in places(shape, case.body):
            path = tuple(step for step in found.where if isinstance(step, str))
            key = str((path, sort_of(found.value)))
            if found.where and key not in seen:
                seen.add(key)
                for name, value in larger(found.value, every=every):
                    yield f"{case}, {found.where}, {name}", partial(_put_in, case.body, found.where, value)


def sort_of(value: JsonValue) -> tuple[type, JsonValue]:
    """What tells a value from others at its place: its type, and that of what is in it first."""
    first = value[0] if isinstance(value, list) and value else value
    return type(value), first.get("type") if isinstance(first, dict) else None


def _put_in(body: JsonObject, where: Where, value: Callable[[int], JsonValue], size: int) -> bytes:
    return encode(put(body, where, value(size)))


EFFORTS = [False, pytest.param(True, marks=pytest.mark.nightly, id="every")]


@pytest.mark.parametrize("every", EFFORTS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_crowd_of_small_things_is_bounded_work(counter: WorkCounter, protocol: str, every: bool) -> None:
    def body(crowd: Crowd) -> Body:
        return lambda size: encode(crowd(size))

    for name, crowd in crowds(protocol, every=every).items():
        check_request(counter, body(crowd), protocol, name)


@pytest.mark.parametrize("every", EFFORTS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_any_member_that_is_large_is_bounded_work(counter: WorkCounter, protocol: str, every: bool) -> None:
    for name, body in larger_bodies(single_requests(protocol), FIELDS[protocol], every=every):
        check_request(counter, body, protocol, name)


@pytest.mark.parametrize("stream", [pytest.param(False, marks=pytest.mark.nightly), True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_any_large_answer_is_bounded_work(counter: WorkCounter, protocol: str, stream: bool) -> None:
    for name, body in larger_bodies(single_answers(protocol), ANSWERS[protocol], every=False):
        check_answer(counter, body, protocol, stream, name)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_count_of_any_crowd_is_bounded_work(counter: WorkCounter, protocol: str) -> None:
    for name, crowd in crowds(protocol, every=False).items():
        inputs = [encode(crowd(size)) for size in SIZES]
        counter.assert_linear(lambda raw: count_request(decode_object(raw), "gpt-5").tokens, inputs, name)
