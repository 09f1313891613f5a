"""The record of an exchange grows by replacement, and is settled once."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from dragoman.gateway.observability.record import Record, RecordChanges, RecordedAttempt
from dragoman.gateway.observability.record_builder import RecordBuilder

# Fields that are known when an exchange begins, or that `finalize` sets.
FIXED = ("id", "client_protocol", "path", "started", "time", "ended")
BEGUN = Record(id="req_1", client_protocol="openai-chat", path="/chat/completions", started=1.0, time=1000.0)


def opened(told: list[Record]) -> RecordBuilder:
    return RecordBuilder(BEGUN, lambda: 2.5, told.append)


def test_a_record_grows_by_replacement() -> None:
    account = opened([])
    call = RecordedAttempt(
        provider="p", model="m", protocol="openai-chat", started=1.5, status=200, provider_request_id="up_1"
    )
    account.update(requested_model="m", attempts=(call,))
    assert (account.record.requested_model, account.record.provider_request_id) == ("m", "up_1")
    assert (BEGUN.requested_model, BEGUN.provider_request_id, BEGUN.attempts) == ("", "", ())
    with pytest.raises(AttributeError):
        setattr(account.record, "requested_model", "other")  # noqa: B010 - a type checker would refuse the plain way


def test_changes_have_the_fields_of_a_record_with_their_types() -> None:
    changes, fields = get_type_hints(RecordChanges), get_type_hints(Record)
    assert changes == {name: kind for name, kind in fields.items() if name not in FIXED}


def test_it_is_settled_once_and_nothing_changes_it_any_more() -> None:
    told: list[Record] = []
    account = opened(told)
    account.finalize(status=200, failure="")
    account.update(failure="cancelled")
    account.finalize(status=500)
    account.adopt(BEGUN)
    assert told == [account.record]
    assert (account.record.status, account.record.failure, account.record.ended) == (200, "", 2.5)


def test_only_an_error_of_our_own_leaves_no_status_behind() -> None:
    account = opened([])
    account.finalize()
    assert account.record.status == 500
    noted = opened([])
    noted.update(status=200)
    noted.finalize(failure="truncated")
    assert (noted.record.status, noted.record.failure) == (200, "truncated")


def test_it_can_know_what_another_account_of_the_same_exchange_came_to() -> None:
    told: list[Record] = []
    account, other = opened(told), opened([])
    other.finalize(status=200, requested_model="m")
    account.adopt(other.record)
    account.finalize(status=502)
    assert [(record.requested_model, record.status) for record in told] == [("m", 502)]
