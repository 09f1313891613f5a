"""The database that several machines share, as it is opened."""

from __future__ import annotations

from contextlib import closing

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.store import postgres_database
from dragoman.store.database import open_tables
from dragoman.store.errors import StoreAway, StoreError
from dragoman.store.identity_reader import count_identities, has_identities
from dragoman.store.postgres_database import connect_to, set_up
from dragoman.store.record_tables import open_record_tables
from tests.store.opened import ALICE, kept
from tests.waiting import LIMIT


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer for a statement than a gateway waits."""
    monkeypatch.setattr(postgres_database, "TIMEOUT", LIMIT)


def _location(address: str) -> PostgresDatabase:
    return PostgresDatabase(address=address, name="db1:5432/dragoman", path="state.db")


def test_what_one_connection_stores_another_one_finds(database: str) -> None:
    location = _location(database)
    set_up(location)
    # It changes nothing that is there.
    set_up(location)
    with closing(open_tables(location, 30)) as one, closing(open_tables(location, 30)) as other:
        assert one.responses.add(ALICE, kept("r1"))
        assert other.responses.find(ALICE, "r1") == kept("r1")
        assert other.stored(ALICE).own == one.stored(ALICE).total > 0
        # Who has turns is known to the machine that got them alone.
        assert other.turns.may_have(ALICE)
        one.turns.add(ALICE, "call", b"turn")
        assert other.turns.find(ALICE, ["call"]) == {"call": b"turn"}
    with closing(open_record_tables(location)) as tables, tables.transaction():
        assert tables.offsets.move("journal", 0, 10)
    with closing(open_record_tables(location, read_only=True)) as tables, tables.reading():
        assert tables.offsets.all() == {"journal": 10}
    assert not has_identities(location) and count_identities(location, 0.0).total == 0


def test_tables_that_this_release_cannot_use_are_refused_with_the_remedy(database: str) -> None:
    location = _location(database)
    with closing(connect_to(location)) as db, pytest.raises(StoreError, match="run dragoman db migrate"):
        db.number("SELECT 1")
    set_up(location)
    with closing(connect_to(location)) as db:
        assert db.number("SELECT 1") == 1
        db.change("UPDATE schema_version SET version = 1000")
    # A later release says which earlier ones can go on, while its machines are updated one after the other.
    with closing(connect_to(location)) as db:
        assert db.number("SELECT 1") == 1
        db.change("UPDATE schema_version SET oldest = 1000")
    for _ in range(2):
        with closing(connect_to(location)) as db, pytest.raises(StoreError, match="newer version: update"):
            db.number("SELECT 1")
    set_up_again = _location(database)
    with pytest.raises(StoreError, match="newer version"), closing(open_tables(set_up_again, 30)) as tables:
        tables.responses.find(ALICE, "r1")


def test_nothing_is_asked_before_the_first_statement() -> None:
    location = _location("host=/nowhere dbname=dragoman password=canary")
    open_record_tables(location).close()
    with closing(open_tables(location, 30)) as tables, pytest.raises(StoreAway) as raised:
        tables.responses.find(ALICE, "r1")
    assert "canary" not in str(raised.value) + repr(location) + str(location)
    assert str(location) == "db1:5432/dragoman"
