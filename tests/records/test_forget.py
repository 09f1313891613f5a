"""Whoever is forgotten is in no file any more, and sums are what they were."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.identities.identity import LOCAL_OWNER, Identity
from dragoman.records.forget import ErasureResult, ErasureScope, find, forget, owners_of
from dragoman.records.integrity_check import check_integrity
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import begun, directory_of, journals_in, read_rotation_request
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.journal_ingest import ingest_all
from dragoman.records.rows import Batch
from dragoman.records.thread_assignment import AssignedThread
from dragoman.records.time_range import period_of, zone_of
from dragoman.records.usage import usage
from dragoman.sessions.facts import ExchangeFacts, Shape
from dragoman.store.erasure import Erasure, ErasureCount
from dragoman.store.identities import Identities
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.responses import Item
from dragoman.store.stored_erasure import StoredCount
from dragoman.store.unassigned import RowScope
from dragoman.store.usage_queries import UsageQueries
from tests.records.filled import fill, speak
from tests.records.invented import NOON, entry
from tests.store.opened import kept, opened

MINUTE = 60_000_000
# What nobody else says.
MARKS = [b"req_of_alice", b"program-of-alice", b"model-of-alice", b"secret-session", b"fact-of-alice"]


class Clock:
    """Goes on by a minute each time it is looked at."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        self.now += MINUTE
        return self.now


def alices(number: int) -> JournalEntry:
    return replace(
        entry(number, key="alice"),
        id=f"req_of_alice_{number}",
        program=f"program-of-alice/{number}",
        requested_model=f"model-of-alice-{number}",
        facts=ExchangeFacts(session="secret-session", tip=f"fact-of-alice-{number}"),
    )


def filled(path: Path, rows: int = 300) -> None:
    with closing(open_record_tables(str(path))) as tables:
        speak(tables, [(1, "alice", "secret-session"), (2, "bob", "other")], [(1, 1), (2, 2)])
        # Side by side with others, on the same pages.
        both = (
            [(alices(number), AssignedThread(1, 1)), (entry(number, key="bob"), AssignedThread(2, 2))]
            for number in range(rows)
        )
        fill(tables, [row for pair in both for row in pair])
        tables.connection.change("UPDATE threads SET facts = ? WHERE id = 1", (b"fact-of-alice",))


def found_in_files(folder: Path) -> dict[str, list[bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            found[path.name] = [mark for mark in MARKS if mark in content]
    return {name: marks for name, marks in found.items() if marks}


def who(path: Path, key: str | None, session: str | None = None) -> ErasureScope:
    with closing(open_record_tables(str(path), read_only=True)) as tables:
        return find(Erasure(tables.connection), key, session)


def totals(path: Path) -> object:
    period = period_of(zone_of("UTC"), NOON // 1_000_000 + 86400, since="7d")
    with closing(open_record_tables(str(path), read_only=True)) as tables:
        return [usage(UsageQueries(tables.connection), [by], period).total for by in ("key", "session", "day")]


def done(
    path: Path, whom: ErasureScope, pause: Callable[[float], None] | None = None, patience: float = 0.0
) -> ErasureResult:
    return forget(str(path), whom, clock=Clock(), timeout=patience, pause=pause or (lambda seconds: None))


@pytest.mark.parametrize("by", ["key", "session"])
def test_pitfall_657_when_it_is_done_the_bytes_are_in_no_file(tmp_path: Path, by: str) -> None:
    file = tmp_path / "state.db"
    filled(file)
    assert set(found_in_files(tmp_path)["state.db"]) == set(MARKS)
    before = totals(file)
    whom = who(file, "alice", None if by == "key" else "secret-session")
    assert whom.amount == ErasureCount(rows=300, sessions=1, threads=1, heads=1)
    assert done(file, whom) == ErasureResult(rows=300)
    assert found_in_files(tmp_path) == {}
    # Sums stay, and so does everybody else.
    assert totals(file) == before
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT key, count(*) FROM records GROUP BY key").fetchall() == [("bob", 300)]
        assert db.execute("SELECT name FROM sessions").fetchall() == [("other",)]
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with pytest.raises(DragomanError, match="only usage totals are left" if by == "key" else "nothing is recorded"):
        who(file, "alice", None if by == "key" else "secret-session")


def test_pitfall_658_journals_that_a_worker_writes_are_followed_by_others(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with closing(Journal(directory_of(str(file)), clock=lambda: NOON * 1000)) as journal:
        assert journal.finalize(alices(1))
        ingest_all(str(file), now=NOON)
        whom = who(file, "alice")
        # The worker has not looked yet.
        told = done(file, whom)
        (left,) = told.remaining
        assert left.endswith(": a worker still writes to it")
        assert MARKS[0] in journals_in(directory_of(str(file)))[0].read_bytes()

    file = tmp_path / "other.db"
    now = NOON
    with closing(Journal(directory_of(str(file)), clock=lambda: now * 1000)) as journal:
        journal.finalize(alices(1))
        ingest_all(str(file), now=NOON)
        # Written after it was looked at, and before it is forgotten.
        journal.finalize(alices(2))
        whom = who(file, "alice")

        def look(seconds: float) -> None:
            nonlocal now
            now = read_rotation_request(directory_of(str(file)))
            assert now > journal.begun
            journal.rotate()

        assert done(file, whom, look, patience=60) == ErasureResult(rows=2)
        assert found_in_files(directory_of(str(file))) == {}
        assert [begun(path.name) for path in journals_in(directory_of(str(file)))] == [now]
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT count(*) FROM records").fetchone() == (0,)
        assert db.execute("SELECT sum(requests) FROM sums").fetchone() == (2,)


def test_a_clock_that_was_set_back_keeps_nobodys_bytes(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    folder = directory_of(str(file))
    hour = 3600 * 1_000_000
    # Two workers that began before the clock was set back, and go by it now.
    clocks = [NOON + hour, NOON + hour // 2]
    journals = [Journal(folder, clock=partial(lambda at: clocks[at] * 1000, at)) for at in range(2)]
    for number, journal in enumerate(journals):
        journal.finalize(alices(number))
    ingest_all(str(file), now=NOON)

    def look(seconds: float) -> None:
        for at, journal in enumerate(journals):
            clocks[at] = NOON
            if read_rotation_request(folder) > journal.begun:
                journal.rotate()

    assert done(file, who(file, "alice"), look, patience=60) == ErasureResult(rows=2)
    assert found_in_files(tmp_path) == {}
    for journal in journals:
        journal.close()


def test_a_journal_of_a_worker_that_is_gone_goes_too(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with closing(Journal(directory_of(str(file)), clock=lambda: NOON * 1000)) as journal:
        journal.finalize(alices(1))
    ingest_all(str(file), now=NOON)
    assert done(file, who(file, "alice")) == ErasureResult(rows=1)
    assert found_in_files(directory_of(str(file))) == {}


def test_others_who_read_are_told_of(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled(file, rows=3)
    whom = who(file, "alice")
    with closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM records").fetchone()
        told = forget(str(file), whom, clock=Clock(), timeout=0.0, lock_timeout=0.01)
        reader.execute("ROLLBACK")
    assert told == ErasureResult(
        rows=3, remaining=(f"{file}-wal: another process reads the file, and its log could not be emptied",)
    )


def test_pitfall_657_whoever_is_not_known_is_told(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled(file, rows=1)
    with closing(open_record_tables(str(file))) as tables:
        speak(tables, [(3, "bob", "secret-session")], [(3, 3)])
    for key, session, words in (
        ("carol", None, "nothing is recorded of a key 'carol'"),
        ("'; DROP TABLE records --", None, "nothing is recorded of a key"),
        (None, "third", "nothing is recorded of a session 'third'$"),
        ("bob", "third", "nothing is recorded of a session 'third' of the key 'bob'"),
        (
            None,
            "secret-session",
            "several keys have a session 'secret-session': say which with --key, of 'alice', 'bob'",
        ),
        (None, None, "needs --key NAME or --session ID"),
    ):
        with pytest.raises(DragomanError, match=words):
            who(file, key, session)
    assert who(file, "bob", "secret-session").session == 3


def test_steps_are_told(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled(file, rows=3)
    said: list[str] = []
    forget(str(file), who(file, "alice"), clock=Clock(), report_progress=said.append)
    assert said[0] == "asking workers to begin another journal …"
    assert "3 rows removed …" in said
    assert said[-1] == "writing over what was removed …"


@pytest.mark.parametrize("by", ["key", "session"])
def test_what_is_not_assigned_yet_is_forgotten_with_its_session(tmp_path: Path, by: str) -> None:
    file = tmp_path / "state.db"
    with closing(Journal(directory_of(str(file)), clock=lambda: NOON * 1000)) as journal:
        for number in range(3):
            assert journal.finalize(alices(number))
        # Found by its history alone.
        growing = ExchangeFacts(
            shape=Shape(), tip="fact-of-alice-9", before=("fact-of-alice-1",), opening="fact-of-alice-1"
        )
        assert journal.finalize(replace(alices(9), facts=growing))
        assert journal.finalize(replace(entry(5, key="bob"), facts=ExchangeFacts(session="bobs", tip="x")))
    ingest_all(str(file), now=NOON)
    with closing(open_record_tables(str(file))) as tables:
        assert tables.unassigned.count(RowScope()) == 5
    before = totals(file)
    whom = who(file, "alice", None if by == "key" else "secret-session")
    assert done(file, whom) == ErasureResult(rows=4)
    assert found_in_files(tmp_path) == {}
    assert totals(file) == before
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT key FROM records").fetchall() == [("bob",)]
        assert db.execute("SELECT count(*) FROM unassigned_relations r JOIN unassigned USING (number)").fetchone() != (
            0,
        )
        assert db.execute("SELECT count(*) FROM thread_sums WHERE thread = 0 AND requests > 1").fetchone() == (0,)


OWNERS = (b"a" * 32, b"c" * 32)


def stored(path: Path, owner: bytes, name: str) -> None:
    with opened(path) as tables:
        tables.responses.add(owner, kept(f"r{name}"), [Item(f"q{name}", MARKS[0])], [Item(f"a{name}", MARKS[3])])
        tables.conversations.create(owner, f"c{name}", b"{}", [Item(f"i{name}", MARKS[1])])
        tables.turns.add(owner, "call_0", MARKS[2])


def test_what_is_stored_for_a_key_is_forgotten_too(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled(file, rows=3)
    for number, owner in enumerate(OWNERS):
        stored(file, owner, str(number))
    with opened(file) as tables:
        tables.responses.add(b"b" * 32, kept("of_bob"), [Item("q", b"of bob")])
    with closing(open_record_tables(str(file))) as tables:
        scope = find(Erasure(tables.connection), "alice", None, OWNERS)
    each = StoredCount(responses=2, conversations=2, items=6, turns=2)
    assert scope.amount == ErasureCount(rows=3, sessions=1, threads=1, heads=1, stored=each)
    assert done(file, scope) == ErasureResult(rows=3, stored=each)
    assert found_in_files(tmp_path) == {}
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT id FROM responses").fetchall() == [("of_bob",)]
        assert db.execute("SELECT body FROM items").fetchall() == [(b"of bob",)]


def test_after_a_run_that_was_killed_the_rest_is_found_without_records(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled(file, rows=3)
    assert done(file, who(file, "alice")).rows == 3
    stored(file, OWNERS[0], "0")
    with closing(open_record_tables(str(file))) as tables:
        # A process that was killed between two steps.
        next(Erasure(tables.connection, at_once=1).stored.remove(OWNERS))
        scope = find(Erasure(tables.connection), "alice", None, OWNERS)
    left = StoredCount(conversations=1, items=3, turns=1)
    assert scope.amount == ErasureCount(stored=left)
    assert done(file, scope) == ErasureResult(stored=left)
    with (
        closing(open_record_tables(str(file))) as tables,
        pytest.raises(DragomanError, match="only usage totals are left"),
    ):
        find(Erasure(tables.connection), "alice", None, OWNERS)


def test_the_owners_of_a_key_are_those_of_its_name_and_of_the_configuration(tmp_path: Path) -> None:
    first, second = OWNERS
    keys = [
        Identity(name=name, owner=owner, digests=())
        for name, owner in (("alice", second), ("bob", b"b" * 32), ("launch", LOCAL_OWNER))
    ]
    with closing(open_record_tables(str(tmp_path / "state.db"))) as tables:
        db = tables.connection
        assert owners_of(db, "alice", ()) == owners_of(db, "launch", keys) == owners_of(db, "", keys) == ()
        assert owners_of(db, "alice", keys) == (second,)
        Identities(db).bind_names({"alice": first})
        assert owners_of(db, "alice", ()) == (first,)
        assert owners_of(db, "alice", keys) == (first, second)


def listed_now(tables: RecordTables, number: int, key: str, session: str) -> int:
    """Ingest an exchange of a session that is not assigned yet; give the number of the session."""
    batch = Batch()
    facts = ExchangeFacts(session=session, tip=f"tip-{number}", shape=Shape())
    batch.add_unassigned(replace(entry(number, key=key), facts=facts))
    with tables.transaction():
        batch.write_rows(tables)
        batch.write_rollups(tables)
    row = tables.sessions.listed(key, session)
    assert row is not None
    return row.id


def test_the_number_of_a_forgotten_session_is_not_given_again(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    with closing(open_record_tables(path)) as tables:
        first = listed_now(tables, 1, "alice", "secret")
        # Its rows expire before they are assigned, as in a gateway that is never idle.
        with tables.transaction():
            tables.records.remove_before(NOON + 1, 100)
        scope = find(Erasure(tables.connection), None, "secret")
    forget(path, scope, clock=lambda: NOON)
    with closing(open_record_tables(path)) as tables:
        assert listed_now(tables, 2, "bob", "another") != first


def test_an_erasure_that_was_confirmed_late_removes_nothing_of_another_key(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    with closing(open_record_tables(path)) as tables:
        listed_now(tables, 1, "alice", "secret")
        with tables.transaction():
            tables.records.remove_before(NOON + 1, 100)
        # What `dragoman forget` shows before it asks.
        scope = find(Erasure(tables.connection), None, "secret")
    forget(path, scope, clock=lambda: NOON)
    with closing(open_record_tables(path)) as tables:
        listed_now(tables, 2, "bob", "another")
    # The same erasure, for which a second terminal asked, and "yes" came only now.
    assert forget(path, scope, clock=lambda: NOON).rows == 0
    with closing(open_record_tables(path)) as tables:
        assert tables.sessions.listed("bob", "another") is not None


def test_a_session_that_is_listed_during_an_erasure_leaves_its_number_unused(tmp_path: Path) -> None:
    with closing(open_record_tables(str(tmp_path / "state.db"))) as tables:
        # What `forget --key` does after it assigned all rows: a request of the key came in between.
        first = listed_now(tables, 1, "alice", "secret")
        erasure = Erasure(tables.connection)
        erasure.remove_rows_of_key("alice", 0)
        erasure.remove_sessions([each.number for each in erasure.sessions_of("alice")])
        assert listed_now(tables, 2, "bob", "another") != first
    # Nobody has totals of sessions yet but the forgotten one.
    assert [each for each in check_integrity(str(tmp_path / "state.db")) if each.state == "wrong"] == []
