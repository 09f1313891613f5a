"""The tables of sessions and threads stand in every file of accounts."""

from __future__ import annotations

from contextlib import closing

from dragoman.store.account_tables import open_account_tables
from dragoman.store.speakers import Speakers


def test_they_are_in_the_file() -> None:
    with closing(open_account_tables(":memory:")) as tables:
        assert isinstance(tables.speakers, Speakers)
        assert tables.connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
