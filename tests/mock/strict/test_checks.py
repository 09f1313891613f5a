"""A refusal is the service's own failure, with every reason in it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dragoman.mock.answers.signatures import RESPONSES
from dragoman.mock.strict.checks import refusal
from dragoman.mock.strict.common import Issued
from dragoman.model.failure import FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.rules.refused_reasoning import Remedy, remedy_for
from dragoman.wire.json import decode_object
from tests.mock.calling import PROTOCOLS
from tests.mock.judging import HEADERS, good
from tests.sdk.digging import Object


def decoded(body: Object) -> JsonObject:
    return decode_object(json.dumps(body))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_good_request_is_not_refused(protocol: str) -> None:
    assert refusal(protocol, decoded(good(protocol)), HEADERS, Issued()) is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_all_reasons_are_told_up_to_a_bound(protocol: str) -> None:
    body = good(protocol)
    body.update({f"unknown_{number}": 1 for number in range(30)})
    failure = refusal(protocol, decoded(body), HEADERS, Issued())
    assert failure is not None
    assert (failure.kind, failure.status) == (FailureKind.INVALID, 400)
    assert 1 < len(failure.message.splitlines()) <= 10


JUNK: tuple[object, ...] = (None, 3, "x", [], [3], [[]], {}, [{}], [{"type": 3, "content": 3, "role": []}])


def with_junk(value: object, junk: object) -> Iterator[object]:
    """A value with each of its parts in turn replaced by something odd."""
    yield junk
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: odd} for odd in with_junk(inner, junk))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from ([*value[:at], odd, *value[at + 1 :]] for odd in with_junk(inner, junk))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("junk", JUNK, ids=str)
def test_no_value_of_any_member_is_too_odd_to_be_judged(protocol: str, junk: object) -> None:
    for body in with_junk(good(protocol), junk):
        if isinstance(body, dict):
            refusal(protocol, decoded(body), HEADERS, Issued())


def test_a_refused_proof_is_recognised_by_whoever_may_try_without() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": "x"}
    body = {"model": "gpt-5", "input": [item, {"role": "assistant", "content": "x"}]}
    failure = refusal(RESPONSES, decoded({**body}), HEADERS, Issued())
    assert failure is not None and remedy_for(failure) is Remedy.SEALS
