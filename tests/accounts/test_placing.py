"""Without rules an exchange belongs to no session and no thread."""

from __future__ import annotations

from contextlib import closing

from dragoman.accounts.placing import Placed, Placer
from dragoman.store.account_tables import open_account_tables
from tests.accounts.invented import entry


def test_an_exchange_belongs_to_none() -> None:
    with closing(open_account_tables(":memory:")) as tables:
        assert Placer(tables.speakers).place(entry(1)) == Placed(0, 0)
