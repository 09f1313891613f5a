"""Speakers: rows of sessions, threads and tips."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from dragoman.store.errors import StoreError
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.session_tables import MAX_THREADS_PER_DIGEST, SessionRow, SessionTables, StoredThread
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(name="speakers")
def _speakers() -> Iterator[SessionTables]:
    with closing(opened_records()) as tables:
        yield tables.sessions


def session(number: int = 1, name: str = "s", key: str = "laptop") -> SessionRow:
    return SessionRow(number, key, name, "codex", 0, "", 10, 20)


def thread(number: int = 1, name: str = "main", *, of: int = 1, rules: int = 1) -> StoredThread:
    return StoredThread(number, of, name, "main", "", "large", 0, "said", 100, rules, 1, 10, 20, b"[]")


def test_a_session_is_found_by_its_key_and_name(speakers: SessionTables) -> None:
    number, other = 1, 2
    speakers.add_sessions([session(number), session(other, key="other")])
    # Until it has a thread it is only listed.
    assert speakers.session("laptop", "s") is None
    speakers.add_threads([thread(of=number)])
    found = speakers.session("laptop", "s")
    assert found is not None and found.id == number != other
    assert speakers.listed("laptop", "s") == found
    assert speakers.session_of(number) == found
    assert speakers.session("laptop", "S") is None
    found.origin, found.link, found.started, found.last = other, "fork", 5, 30
    speakers.save_sessions([found])
    assert speakers.session_of(number) == found


def test_listed_sessions_are_widened(speakers: SessionTables) -> None:
    speakers.add_sessions([session()])
    speakers.add_listed([("laptop", "s", "other", 5, 15), ("laptop", "t", "codex", 7, 8)])
    first, second = speakers.listed("laptop", "s"), speakers.listed("laptop", "t")
    assert first == SessionRow(1, "laptop", "s", "codex", 0, "", 5, 20)
    assert second is not None and second == SessionRow(second.id, "laptop", "t", "codex", 0, "", 7, 8)


def test_a_name_is_there_once_for_a_key() -> None:
    with closing(opened_records()) as tables:
        tables.sessions.add_sessions([session()])
        with pytest.raises(StoreError), tables.transaction():
            tables.sessions.add_sessions([session(2)])


def test_numbers_are_never_given_again() -> None:
    with closing(opened_records()) as tables:
        assert tables.sessions.numbers() == (0, 0)
        tables.sessions.add_sessions([session(3)])
        tables.sessions.add_threads([thread(7, of=3)])
        # What is forgotten has totals, as every thread has.
        tables.rollups.add_to_threads([(1, 7, *(1 for _ in MEASURES))])
        tables.connection.change("DELETE FROM sessions")
        tables.connection.change("DELETE FROM threads")
        assert tables.sessions.numbers() == (3, 7)


def test_a_thread_is_found_by_its_session_and_name(speakers: SessionTables) -> None:
    first = 1
    speakers.add_threads([thread(first), thread(2, of=2)])
    found = speakers.thread(1, "main")
    assert found is not None and found.id == first
    assert speakers.thread(1, "'; DROP TABLE threads; --") is None
    found.kind, found.label, found.model, found.parent, found.windows = "side", "l", "m", 2, 3
    found.rule, found.sure, found.rules, found.started, found.last = "r", 1, 2, 1, 90
    speakers.save_threads([found])
    assert speakers.thread_of(first) == found
    assert speakers.thread_of(99) is None


def test_tips_are_found_by_their_digests_the_oldest_threads_first(speakers: SessionTables) -> None:
    speakers.save_heads([("a", 2, 0, 5), ("a", 1, 2, 6), ("b", 3, 1, 7), ("c", 4, 0, 8)])
    assert speakers.heads(["a", "b", "x"]) == [("a", 1, 2, 6), ("a", 2, 0, 5), ("b", 3, 1, 7)]
    speakers.save_heads([("a", 1, 1, 9)])
    assert speakers.heads(["a"])[0] == ("a", 1, 1, 9)


@pytest.mark.parametrize("asked", [0, 1, 64, 65, 300])
def test_of_many_digests_it_is_known_which_were_heard_of(speakers: SessionTables, asked: int) -> None:
    speakers.save_heads([(f"d{number}", thread, 0, 5) for number in range(0, 300, 3) for thread in (1, 2)])
    digests = [f"d{number}" for number in range(asked)]
    assert speakers.stored_digests(digests) == set(digests[::3])


def test_of_many_that_are_alike_some_are_told(speakers: SessionTables) -> None:
    speakers.save_heads([("a", number, 0, 0) for number in range(1000)])
    assert len(speakers.heads(["a"])) == MAX_THREADS_PER_DIGEST


def test_old_tips_are_removed_in_steps(speakers: SessionTables) -> None:
    speakers.save_heads([("a", number, 0, number) for number in range(5)])
    assert [speakers.remove_heads(4, 3) for _ in range(3)] == [3, 1, 0]
    assert speakers.heads(["a"]) == [("a", 4, 0, 4)]


def test_old_tips_are_looked_for_in_one_part_of_the_table_after_the_other(
    speakers: SessionTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.store.session_tables._LOOKED_AT", 2)
    # A digest that has more threads than are looked at once is no end of it.
    old = [("a", 1, 0, 1), *[("b", number, 0, 1) for number in range(9)], ("d", 1, 0, 1), ("e", 1, 0, 1)]
    speakers.save_heads([*old, ("c", 1, 0, 9), ("f", 1, 0, 9)])
    removed = [speakers.remove_heads(5, 4) for _ in range(8)]
    assert sum(removed) == len(old) and max(removed) == 4
    assert speakers.heads(["a", "b", "c", "d", "e", "f"]) == [("c", 1, 0, 9), ("f", 1, 0, 9)]
    # And from its beginning again.
    speakers.save_heads([("a", 2, 0, 1)])
    assert sum(speakers.remove_heads(5, 4) for _ in range(3)) == 1


@pytest.mark.sqlite_only
def test_tips_of_a_file_that_has_an_index_of_them_by_time_are_kept_too() -> None:
    """As the step made them while it was written."""
    with closing(opened_records()) as tables:
        tables.connection.change("DROP TABLE tips")
        tables.connection.change(
            "CREATE TABLE tips (digest TEXT NOT NULL, thread INTEGER NOT NULL, state INTEGER NOT NULL,"
            " time INTEGER NOT NULL, PRIMARY KEY (digest, thread)) WITHOUT ROWID"
        )
        tables.connection.change("CREATE INDEX tips_by_time ON tips (time)")
        for state in (0, 2):
            tables.sessions.save_heads([(f"d{number:02}", 1, state, number) for number in range(40)])
        assert tables.sessions.heads(["d07"]) == [("d07", 1, 2, 7)]
        assert tables.sessions.remove_heads(30, 100) == 30


def test_threads_of_older_rules_are_told(speakers: SessionTables) -> None:
    speakers.add_threads([thread(number, rules=rules) for number, rules in enumerate((1, 2, 1, 3), 1)])
    assert [row.id for row in speakers.outdated(3, 2)] == [1, 2]
    assert len(speakers.outdated(2, 10)) == 2
