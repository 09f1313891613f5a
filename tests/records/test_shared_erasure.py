"""An erasure reaches the journals of every machine, or the command names the machines that it did not reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.database_location import PostgresDatabase
from dragoman.records import ingest_thread, machine
from dragoman.records.forget import ErasureResult, find, forget
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of, machine_of
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.machine_erasure import session_digest
from dragoman.records.saved_journals import ingest_saved
from dragoman.sessions.facts import ExchangeFacts
from dragoman.store import postgres_database
from dragoman.store.erasure import Erasure
from dragoman.store.postgres_database import connect_to
from dragoman.store.record_tables import open_record_tables
from tests.postgres import PostgresServer
from tests.records.invented import NOON, entry
from tests.records.machines import Worker, located, machines, running
from tests.waiting import LIMIT, wait_until

# Before every clock of today.
EARLY = 1_790_000_000_000_000
MARK = b"secret-session"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_database, "TIMEOUT", LIMIT)
    monkeypatch.setattr(ingest_thread, "_LOCK_TIMEOUT", LIMIT)
    monkeypatch.setattr(machine, "_RENEW_EVERY", 0.02)


@pytest.fixture
def both(postgres: PostgresServer, tmp_path: Path) -> Iterator[tuple[PostgresDatabase, PostgresDatabase]]:
    """One database with the directories of two machines."""
    name = postgres.create()
    yield located(postgres, name, tmp_path / "one"), located(postgres, name, tmp_path / "other")
    postgres.drop(name)


def spoken(number: int, key: str = "alice", time: int = EARLY) -> JournalEntry:
    facts = ExchangeFacts(session=MARK.decode(), tip=f"tip-{key}-{number}")
    return replace(entry(number, key=key, time=time), facts=facts)


def rows(database: PostgresDatabase) -> list[tuple[str, int]]:
    with closing(connect_to(database)) as db:
        return [(row[0], row[1]) for row in db.rows("SELECT key, time FROM records ORDER BY key, time")]


def totals(database: PostgresDatabase) -> dict[str, int]:
    with closing(connect_to(database)) as db:
        return dict(db.rows("SELECT key, sum(requests) FROM sums GROUP BY key"))


def forgotten(database: PostgresDatabase, *, by_session: bool = False, timeout: float = LIMIT) -> ErasureResult:
    with closing(open_record_tables(database, read_only=True)) as tables:
        scope = find(Erasure(tables.connection), "alice", MARK.decode() if by_session else None)
    return forget(database, scope, clock=lambda: EARLY, timeout=timeout, lock_timeout=LIMIT)


def is_named(worker: Worker) -> bool:
    path = worker.journal.path
    return path is not None and machine_of(path.name)[1] > 0


def files_with_mark(tmp_path: Path) -> list[str]:
    found = [path for path in tmp_path.rglob("*.log") if MARK in path.read_bytes()]
    return [str(path.relative_to(tmp_path)) for path in found]


@pytest.mark.parametrize("by_session", [False, True])
def test_an_erasure_reaches_the_journals_of_all_machines(
    both: tuple[PostgresDatabase, PostgresDatabase], tmp_path: Path, by_session: bool
) -> None:
    one, other = both
    with running(one) as first, running(other) as second:
        for number, worker in enumerate((first, second, first, second)):
            worker.journal.finalize(spoken(number))
            worker.journal.finalize(entry(number + 10, key="bob", time=EARLY))
        wait_until(lambda: first.thread.rows + second.thread.rows == 8, "all rows")
        assert len(files_with_mark(tmp_path)) >= 2
        done = forgotten(one, by_session=by_session)
        assert (done.rows, done.remaining) == (4, ())
        assert files_with_mark(tmp_path) == []
        assert rows(one) == [("bob", EARLY)] * 4
        assert totals(one) == {"alice": 4, "bob": 4}
        # Both go on.
        first.journal.finalize(spoken(20))
        second.journal.finalize(spoken(21))
        wait_until(lambda: len(rows(one)) == 6, "later rows")


@pytest.mark.parametrize("by_session", [False, True])
def test_a_machine_that_was_away_erases_what_it_brings(
    both: tuple[PostgresDatabase, PostgresDatabase], tmp_path: Path, by_session: bool
) -> None:
    one, other = both
    with running(other) as second:
        wait_until(lambda: is_named(second), "it has joined")
    with closing(Journal(directory_of(other), machine=second.machine.owner)) as journal:
        for number, (key, time) in enumerate((("alice", EARLY), ("bob", EARLY), ("alice", NOON))):
            journal.finalize(spoken(number, key, time))
    with running(one) as first:
        first.journal.finalize(spoken(10))
        wait_until(lambda: first.thread.rows == 1, "a row")
        wait_until(lambda: is_named(first), "it has joined")
        with closing(connect_to(one)) as db:
            db.change("UPDATE machines SET seen = seen - 7200 WHERE name = 'other'")
        done = forgotten(one, by_session=by_session)
        assert done.rows == 1
        (left,) = done.remaining
        assert left.startswith("machine other, last seen ")
        assert rows(one) == []
        with running(other):
            wait_until(lambda: all(row.erased == 1 for row in machines(one)), "the machine has answered")
        assert rows(one) == [("alice", NOON), ("bob", EARLY)]
        assert totals(one) == {"alice": 3, "bob": 1}
    assert [path for path in files_with_mark(tmp_path) if path.startswith("other") and "ingested" not in path] == []


def test_journals_that_were_saved_bring_nothing_back(
    both: tuple[PostgresDatabase, PostgresDatabase], tmp_path: Path
) -> None:
    one, _ = both
    with closing(Journal(tmp_path / "saved")) as journal:
        journal.finalize(spoken(1))
        journal.finalize(spoken(2, "bob"))
    with running(one) as first:
        first.journal.finalize(spoken(10))
        wait_until(lambda: first.thread.rows == 1, "a row")
        assert forgotten(one).remaining == ()
        assert ingest_saved(one, tmp_path / "saved", EARLY).rows == 2
        assert rows(one) == [("bob", EARLY)]


def test_an_erasure_without_any_running_gateway_reaches_this_machine(
    both: tuple[PostgresDatabase, PostgresDatabase], tmp_path: Path
) -> None:
    one, _ = both
    with running(one) as first:
        first.journal.finalize(spoken(1))
        wait_until(lambda: first.thread.rows == 1, "a row")
        wait_until(lambda: is_named(first), "it has joined")
    assert files_with_mark(tmp_path) != []
    assert forgotten(one).remaining == ()
    assert (rows(one), files_with_mark(tmp_path)) == ([], [])


def test_the_request_has_a_digest_in_place_of_the_name_of_a_session(
    both: tuple[PostgresDatabase, PostgresDatabase],
) -> None:
    one, _ = both
    with running(one) as first:
        first.journal.finalize(spoken(1))
        wait_until(lambda: first.thread.rows == 1, "a row")
        forgotten(one, by_session=True)
    with closing(connect_to(one)) as db:
        ((key, digest),) = db.rows("SELECT key, session FROM erasures")
    assert key == "alice" and len(digest) == 32
    digests = {session_digest(bytes(32), *named) for named in (("a", "x"), ("b", "x"), ("a", "y"))}
    assert len(digests) == 3
