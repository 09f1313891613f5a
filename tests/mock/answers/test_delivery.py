"""An answer is sent whole or token by token, with its rests, and ends as it should."""

from __future__ import annotations

import json

import pytest

from dragoman.errors import WireError
from dragoman.http.upstream_call import header
from dragoman.mock.answers.delivery import (
    NOWHERE,
    Delivery,
    MockHttpResponse,
    Outcome,
    at_once,
    deliver,
    http_response,
    not_allowed,
    unreadable,
)
from dragoman.mock.answers.models import Ending
from dragoman.mock.answers.response import build_response
from dragoman.mock.answers.signatures import MESSAGES
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.parts import Text
from dragoman.translate import derived_mint
from tests.mock.asking import request
from tests.mock.calling import PROTOCOLS
from tests.sdk.oracles import check_answer, check_stream


def delivered(
    protocol: str,
    *,
    stream: bool,
    pace: float = 0.0,
    ending: Ending = Ending.COMPLETE,
    text: str = "one two three four",
) -> Delivery | Failure:
    asked = request(protocol, "Go.", stream=stream)
    mint = derived_mint(b"")
    return deliver(build_response(asked, (Text(text=text),), mint), asked, mint, pace=pace, ending=ending)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_whole_answer_is_one_piece_after_the_time_of_all_its_tokens(protocol: str) -> None:
    found = delivered(protocol, stream=False, pace=0.5)
    assert isinstance(found, Delivery)
    assert found == at_once(found.body, 2.0)
    check_answer(protocol, json.loads(found.body))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_rests_before_each_token(protocol: str) -> None:
    found = delivered(protocol, stream=True, pace=0.5)
    assert isinstance(found, Delivery) and (found.streamed, found.wait, found.body) == (True, 0.0, b"")
    pieces = list(found.pieces)
    assert [rest for rest, _ in pieces if rest] == [0.5] * 4
    check_stream(protocol, b"".join(piece for _, piece in pieces))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_breaks_has_a_beginning(protocol: str) -> None:
    whole = delivered(protocol, stream=False, ending=Ending.BREAKS)
    assert isinstance(whole, Delivery) and whole.breaks
    assert list(whole.pieces) == [(0.0, whole.body[: len(whole.body) // 2])]
    streamed = delivered(protocol, stream=True, ending=Ending.BREAKS)
    assert isinstance(streamed, Delivery) and streamed.breaks
    said = b"".join(piece for _, piece in streamed.pieces)
    assert b"two" in said and b"three" not in said


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("text", ["one two three four", "one"])
def test_what_fails_says_so_before_it_is_whole(protocol: str, text: str) -> None:
    whole = delivered(protocol, stream=False, ending=Ending.FAILS, text=text)
    assert isinstance(whole, Failure) and whole.kind is FailureKind.OVERLOADED
    assert whole.status == (529 if protocol == MESSAGES else 503)
    streamed = delivered(protocol, stream=True, ending=Ending.FAILS, text=text)
    assert isinstance(streamed, Delivery) and not streamed.breaks
    told = check_stream(protocol, b"".join(piece for _, piece in streamed.pieces))
    assert told.error is not None and "Overloaded" in told.error


def replied(outcome: Outcome, protocol: str) -> MockHttpResponse:
    return http_response(outcome, protocol, "req_1", derived_mint(b""))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_body_is_sent_as_json_with_an_id_and_limits(protocol: str) -> None:
    reply = replied({"a": 1}, protocol)
    assert (reply.status, reply.delivery.body) == (200, b'{"a":1}')
    assert header(reply.headers, b"content-type") == b"application/json"
    assert header(reply.headers, b"request-id" if protocol == MESSAGES else b"x-request-id") == b"req_1"
    limit = "anthropic-ratelimit-requests-remaining" if protocol == MESSAGES else "x-ratelimit-remaining-requests"
    assert header(reply.headers, limit.encode()) == b"999"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_is_sent_as_one(protocol: str) -> None:
    delivery = Delivery(pieces=((0.0, b"data: 1"),), streamed=True)
    reply = replied(delivery, protocol)
    assert (reply.status, reply.delivery) == (200, delivery)
    assert header(reply.headers, b"content-type") == b"text/event-stream; charset=utf-8"


@pytest.mark.parametrize("status", [400, 429, 503, 529])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_keeps_the_status_that_was_meant_and_says_when_to_try_again(protocol: str, status: int) -> None:
    reply = replied(Failure(kind=FailureKind.OTHER, status=status, message="No."), protocol)
    assert reply.status == status
    assert header(reply.headers, b"retry-after") == (None if status == 400 else b"1")
    assert json.loads(reply.delivery.body)["error"]["message"] == "No."


def test_what_cannot_be_read_or_found_is_refused() -> None:
    wrong = unreadable(WireError("/messages/0", "object", "array"))
    assert (wrong.kind, wrong.param, wrong.message) == (
        FailureKind.INVALID,
        "messages.0",
        "messages[0]: expected an object, found a list",
    )
    outcomes = (wrong, unreadable(RecursionError()), NOWHERE, not_allowed("PUT" * 10))
    found = [replied(outcome, MESSAGES) for outcome in outcomes]
    assert [reply.status for reply in found] == [400, 400, 404, 405]
    assert b"bounded depth" in found[1].delivery.body
    assert b"PUTPUTPUTPUTPUTPUTPU." in found[3].delivery.body
