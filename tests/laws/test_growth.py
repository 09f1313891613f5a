"""Growth of work: what is more than linear in steps, in bytes of JSON or in copies is seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman.wire import json
from tests.laws.growth import WorkCounter, assert_copies_little, counting_work
from tests.step_counting import StepCounter, TooManySteps

INPUTS = [b"[" + b"0," * count + b"0]" for count in (100, 200, 400)]


@pytest.fixture(scope="module")
def counter() -> Iterator[WorkCounter]:
    with counting_work() as counter:
        yield counter


def linear(body: bytes) -> int:
    json.decode(body)
    return sum(1 for _ in body)


def quadratic_in_steps(body: bytes) -> int:
    return sum(1 for end in range(len(body)) for _ in range(end))


def quadratic_in_json(body: bytes) -> int:
    for _ in body:
        json.decode(body)
    return len(body)


def quadratic_in_copies(body: bytes) -> int:
    gathered = b""
    for start in range(0, len(body), 2):
        gathered = added(gathered, body[start : start + 2] * 50)
    return len(gathered)


def added(text: bytes, more: bytes) -> bytes:
    return text + more


def endless(_: bytes) -> int:
    while True:
        pass


def test_linear_work_is_linear(counter: WorkCounter) -> None:
    counter.assert_linear(linear, INPUTS)
    assert_copies_little(linear, INPUTS[0], INPUTS[2])


def test_more_steps_than_bytes_are_seen(counter: WorkCounter) -> None:
    with pytest.raises(AssertionError, match=r"too much: \d+, \d+ and \d+ steps for 203, 403 and 803 bytes"):
        counter.assert_linear(quadratic_in_steps, INPUTS, "too much")


def test_documents_that_are_read_again_and_again_are_seen(counter: WorkCounter) -> None:
    with pytest.raises(AssertionError, match="bytes of JSON were read or written for 803 in"):
        counter.assert_linear(quadratic_in_json, INPUTS)


def test_copies_of_what_was_gathered_are_seen() -> None:
    with pytest.raises(AssertionError, match="bytes were copied in large pieces for 203 in"):
        assert_copies_little(quadratic_in_copies, INPUTS[0], INPUTS[2])


def test_work_without_end_is_ended() -> None:
    with pytest.raises(TooManySteps, match="more than 1000 steps, in endless"), StepCounter(limit=1000):
        endless(b"")
