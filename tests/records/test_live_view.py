"""What is open now, and what the last minute came to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec.structs import replace

from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of
from dragoman.records.journal_entry import OPEN, JournalEntry
from dragoman.records.journal_ingest import ingest_all
from dragoman.records.live_view import (
    LastMinute,
    LiveSnapshot,
    LiveView,
    OpenExchanges,
    figures_of,
    latest_by,
    opened_now,
    places_of,
    session_number,
    thread_number,
)
from dragoman.records.thread_status import Opened, ThreadStatus
from dragoman.sessions.facts import ExchangeFacts
from dragoman.store.record_queries import RecordFilter, RecordQueries
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.session_queries import SessionFigures
from tests.records.invented import NOON, entry, measures_of
from tests.records.kept_sessions import filling

SECOND, MINUTE = 1_000_000, 60_000_000


def opened(
    number: int, *, ago: int = SECOND, session: str = "", thread: str = "", model: str = "large"
) -> JournalEntry:
    """An exchange that was begun so long ago and is not settled."""
    facts = ExchangeFacts(session=session, thread=thread)
    return replace(entry(number, time=NOON - ago, model=model), outcome=OPEN, facts=facts, tokens=None, cost=None)


@contextmanager
def read(path: Path) -> Iterator[RecordTables]:
    with closing(open_record_tables(str(path), read_only=True)) as tables:
        yield tables


def ids(entries: list[JournalEntry]) -> list[int]:
    return [int(each.id[4:]) for each in entries]


def test_what_is_open_is_what_was_opened_and_not_settled(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    look = OpenExchanges(str(path)).look
    assert look() == []
    journal, other = Journal(directory_of(str(path))), Journal(directory_of(str(path)))
    journal.open(opened(1))
    other.open(opened(2, ago=9 * SECOND))
    assert ids(look()) == [2, 1]
    journal.finalize(entry(1))
    journal.open(opened(3))
    assert ids(look()) == [2, 3]
    other.finalize(entry(2))
    assert ids(look()) == [3]
    journal.close()
    other.close()


def test_what_a_full_journal_carried_over_is_open_once_and_settled_in_the_next(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    look = OpenExchanges(str(path)).look
    journal = Journal(directory_of(str(path)))
    journal.open(opened(1))
    journal.open(opened(2))
    assert ids(look()) == [1, 2]
    journal.rotate()
    assert ids(look()) == [1, 2]
    journal.finalize(entry(1))
    assert ids(look()) == [2]
    assert ids(OpenExchanges(str(path)).look()) == [2]
    ingest_all(str(path), now=NOON)
    assert ids(look()) == [2]
    journal.close()


def test_pitfall_524_what_crashed_is_not_open_any_more(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    look = OpenExchanges(str(path)).look
    journal = Journal(directory_of(str(path)))
    journal.open(opened(1))
    assert ids(look()) == [1]
    journal.close()
    ingest_all(str(path), now=NOON)
    assert look() == []
    with read(path) as tables:
        present = LiveView(str(path)).look(tables, NOON + SECOND)
    assert [(doing.status.state, doing.figures.errors) for doing in present.activities] == [("failed", 1)]


def filled(path: Path) -> None:
    with filling(path) as file:
        file.session(1, "5f0c", started=NOON - MINUTE, last=NOON)
        file.thread(10, 1, started=NOON - MINUTE, last=NOON)
        file.thread(11, 1, "subagent", name="agent-1", started=NOON - MINUTE, last=NOON)
        file.exchanges([replace(entry(1, time=NOON - 5 * SECOND), stop_reason="tool_call", duration=SECOND)], 1, 10)
        file.exchanges([replace(entry(2, time=NOON - 9 * SECOND, model="small"), stop_reason="end")], 1, 11)
        # It began long ago and has just ended; this one ended long ago.
        file.exchanges([replace(entry(3, time=NOON - 20 * MINUTE), duration=20 * MINUTE - SECOND)])
        file.exchanges([entry(4, time=NOON - 2 * MINUTE)])
        file.exchanges([entry(5, time=NOON - SECOND, outcome="failed", status=502, key="bob", money=None, tokens=None)])


def test_what_is_open_belongs_where_its_client_says_as_far_as_that_is_known(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    filled(path)
    entries = [
        opened(21, session="5f0c", ago=3 * SECOND),
        opened(22, session="5f0c", thread="agent-1"),
        opened(23, session="5f0c", thread="agent-7"),
        opened(24, session="5f"),
        opened(25),
        replace(opened(26, session="5f0c"), key="bob"),
        replace(opened(27), facts=ExchangeFacts(session="agent-1", parent="5f0c")),
    ]
    with read(path) as tables:
        places = places_of(tables, entries)
    numbers = {int(name[4:]): (session_number(place), thread_number(place)) for name, place in places.items()}
    assert numbers == {21: (1, 10), 22: (1, 11), 23: (1, 0), 24: (0, 0), 25: (0, 0), 26: (0, 0), 27: (1, 11)}
    assert latest_by(entries, places, session_number) == {1: NOON - SECOND}
    assert latest_by(entries, places, thread_number) == {10: NOON - 3 * SECOND, 11: NOON - SECOND}
    assert latest_by(entries, {}, session_number) == {}


def test_where_something_is_open_is_told_by_session_and_thread(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    filled(path)
    journal = Journal(directory_of(str(path)))
    journal.open(opened(31, session="5f0c", thread="agent-1"))
    journal.open(opened(32, session="5f0c", thread="agent-7", ago=0))
    with read(path) as tables:
        assert opened_now(tables, str(path)) == Opened(sessions={1: NOON}, threads={11: NOON - SECOND})
    journal.close()


def test_the_last_minute_has_what_was_settled_in_it_and_grows_and_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    filled(path)
    minute = LastMinute()

    def told(now: int) -> list[int]:
        with read(path) as tables:
            return sorted(int(row.id[4:]) for row in minute.look(tables, now))

    assert told(NOON) == [1, 2, 3, 5]
    with filling(path) as file:
        file.exchanges([entry(6, time=NOON + 10 * SECOND)])
    assert told(NOON + 20 * SECOND) == [1, 2, 3, 5, 6]
    assert told(NOON + MINUTE) == [6]
    assert told(NOON + 3 * MINUTE) == []


def test_a_row_adds_to_the_minute_what_its_entry_adds_to_sums(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    kinds = [
        entry(number, outcome=outcome, kind=kind)
        for number, (outcome, kind) in enumerate(
            (outcome, kind)
            for outcome in ("answered", "refused", "failed", "cancelled", "crashed")
            for kind in ("conversation", "count", "other")
        )
    ]
    with filling(path) as file:
        file.exchanges(kinds)
    with read(path) as tables:
        rows = RecordQueries(tables.connection).latest(RecordFilter(), 50)
    assert len(rows) == len(kinds)
    for row in rows:
        expected = SessionFigures(*measures_of(kinds[int(row.id[4:])]))
        assert figures_of(row) == expected


def looked(path: Path, *, by_model: bool = False, now: int = NOON) -> LiveSnapshot:
    with read(path) as tables:
        return LiveView(str(path), by_model=by_model).look(tables, now)


def test_who_does_what_is_told_by_thread_with_what_is_open_first(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    filled(path)
    journal = Journal(directory_of(str(path)))
    journal.open(opened(31, session="5f0c", thread="agent-1", ago=3 * SECOND))
    journal.open(opened(32, ago=3 * MINUTE))
    present = looked(path)
    journal.close()
    assert present.opened == 2
    told = [(d.key, thread_number(d.place), d.opened, d.status.state, d.figures.requests) for d in present.activities]
    assert told == [
        ("alice", 11, 1, "streaming", 1),
        ("alice", 0, 1, "stalled", 1),
        ("alice", 10, 0, "running tools", 1),
        ("bob", 0, 0, "failed", 1),
    ]
    assert (present.total.requests, present.total.errors, present.total.cost) == (4, 1, 4500)
    assert sum(doing.figures.cost for doing in present.activities) == 4500


def test_who_is_asked_is_told_by_model(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    filled(path)
    present = looked(path, by_model=True)
    assert [(doing.requested_model, doing.target, doing.figures.requests) for doing in present.activities] == [
        ("large", "anthropic/large", 3),
        ("small", "anthropic/small", 1),
    ]
    assert present.activities[0].status == ThreadStatus("failed", NOON - SECOND + 3000)


def test_nothing_goes_on_in_a_file_in_which_nothing_went_on(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with filling(path):
        pass
    assert looked(path) == LiveSnapshot(now=NOON, opened=0, activities=(), total=SessionFigures())
