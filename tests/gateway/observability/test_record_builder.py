"""The record of an exchange grows, and is finalized once."""

from __future__ import annotations

from typing import get_type_hints

from msgspec.structs import replace

from dragoman.gateway.observability.record import Record, RecordChanges
from dragoman.gateway.observability.record_builder import RecordBuilder

# Fields that are known when an exchange begins, or that `finalize` sets.
FIXED = ("id", "client_protocol", "path", "started", "time", "ended")
BEGUN = Record(id="req_1", client_protocol="openai-chat", path="/chat/completions", started=1.0, time=1000.0)


def opened(told: list[Record]) -> RecordBuilder:
    return RecordBuilder(replace(BEGUN), lambda: 2.5, told.append)


def test_a_record_grows() -> None:
    account = opened([])
    account.update(requested_model="m")
    account.update(provider="p", stream=True)
    assert account.record == replace(BEGUN, requested_model="m", provider="p", stream=True)


def test_changes_have_the_fields_of_a_record_with_their_types() -> None:
    changes, fields = get_type_hints(RecordChanges), get_type_hints(Record)
    assert changes == {name: kind for name, kind in fields.items() if name not in FIXED}


def test_it_is_settled_once_and_nothing_changes_it_any_more() -> None:
    told: list[Record] = []
    account = opened(told)
    account.finalize(status=200, failure="")
    account.update(failure="cancelled")
    account.finalize(status=500)
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
