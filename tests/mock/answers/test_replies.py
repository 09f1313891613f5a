"""Everything is sent back under the status and the headers of a service."""

from __future__ import annotations

import json

import pytest

from dragoman.errors import WireError
from dragoman.http.upstream_call import header
from dragoman.mock.answers.delivery import Delivery
from dragoman.mock.answers.replies import NOWHERE, MockHttpResponse, Outcome, http_response, not_allowed, unreadable
from dragoman.mock.answers.signatures import MESSAGES
from dragoman.model.failure import Failure, FailureKind
from dragoman.translate import derived_mint
from tests.mock.calling import PROTOCOLS


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
