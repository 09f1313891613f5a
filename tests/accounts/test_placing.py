"""Where an exchange is placed."""

from __future__ import annotations

from contextlib import closing

from dragoman.accounts.placing import NOWHERE, Placed, Placer
from dragoman.store.account_tables import open_account_tables
from tests.accounts.invented import entry


def test_nowhere_is_no_session_and_no_thread() -> None:
    assert Placed(session=0, thread=0) == NOWHERE


def test_an_exchange_belongs_to_none() -> None:
    with closing(open_account_tables(":memory:")) as tables:
        assert Placer(tables.speakers).place(entry(1)) == NOWHERE
