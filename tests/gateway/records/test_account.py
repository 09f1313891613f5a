"""The record of an exchange grows by replacement, and is settled once."""

from __future__ import annotations

import pytest

from dragoman.gateway.records.account import Account
from dragoman.gateway.records.record import Attempt, Record

BEGUN = Record(id="req_1", dialect="openai-chat", path="/chat/completions", started=1.0, time=1000.0)


def opened(told: list[Record]) -> Account:
    return Account(BEGUN, lambda: 2.5, told.append)


def test_a_record_grows_by_replacement() -> None:
    account = opened([])
    call = Attempt(provider="p", model="m", protocol="openai-chat", started=1.5, status=200, upstream_id="up_1")
    account.note(asked="m", attempts=(call,))
    assert (account.record.asked, account.record.upstream_id) == ("m", "up_1")
    assert (BEGUN.asked, BEGUN.upstream_id, BEGUN.attempts) == ("", "", ())
    with pytest.raises(AttributeError):
        setattr(account.record, "asked", "other")  # noqa: B010 - a type checker would refuse the plain way


def test_it_is_settled_once_and_nothing_changes_it_any_more() -> None:
    told: list[Record] = []
    account = opened(told)
    account.settle(status=200, failure="")
    account.note(failure="cancelled")
    account.settle(status=500)
    account.adopt(BEGUN)
    assert told == [account.record]
    assert (account.record.status, account.record.failure, account.record.ended) == (200, "", 2.5)


def test_only_an_error_of_our_own_leaves_no_status_behind() -> None:
    account = opened([])
    account.settle()
    assert account.record.status == 500
    noted = opened([])
    noted.note(status=200)
    noted.settle(failure="truncated")
    assert (noted.record.status, noted.record.failure) == (200, "truncated")


def test_it_can_know_what_another_account_of_the_same_exchange_came_to() -> None:
    told: list[Record] = []
    account, other = opened(told), opened([])
    other.settle(status=200, asked="m")
    account.adopt(other.record)
    account.settle(status=502)
    assert [(record.asked, record.status) for record in told] == [("m", 502)]
