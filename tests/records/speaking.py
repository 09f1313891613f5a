"""A desk at which requests are placed, one after the other, and the tree that comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from dragoman.records.journal_entry import ANSWERED, CONVERSATION, JournalEntry
from dragoman.records.thread_assignment import AssignedThread, ThreadAssigner
from dragoman.sessions.facts import ExchangeFacts
from dragoman.store.record_tables import RecordTables
from dragoman.store.session_tables import SessionRow, StoredThread
from dragoman.wire.history_digest import digest
from tests.records.invented import NOON, entry
from tests.sessions.invented import SOUGHT, Asked, facts_of
from tests.store.opened import opened_records


class Node(Struct, frozen=True):
    """A thread as a person would draw it."""

    kind: str
    parent: str = ""
    windows: int = 1


class Desk:
    """Places what is asked, each in a transaction of its own."""

    def __init__(self, tables: RecordTables) -> None:
        self.tables = tables
        self._placer = ThreadAssigner(tables.sessions)
        self._count = 0

    def place(
        self,
        asked: Asked | ExchangeFacts,
        *,
        key: str = "laptop",
        outcome: str = ANSWERED,
        kind: str = CONVERSATION,
        time: int | None = None,
        answer: str = "",
        model: str = "large",
    ) -> AssignedThread:
        """Where a request is placed; `answer` is the id of the first call in its answer."""
        facts = (
            asked if isinstance(asked, ExchangeFacts) else facts_of(asked, replace(SOUGHT, key=f"{key:*<32}".encode()))
        )
        if answer:
            facts = replace(facts, answer_call=digest(f"{key:*<32}".encode(), "call", answer))
        self._count += 1
        moment = NOON + self._count * 1000 if time is None else time
        made = entry(self._count, key=key, outcome=outcome, kind=kind, time=moment, model=model)
        return self.put(replace(made, facts=facts))

    def put(self, made: JournalEntry) -> AssignedThread:
        """Where an entry is placed."""
        with self.tables.transaction():
            placed = self._placer.assign_thread(made)
            self._placer.finish()
        return placed

    def put_all(self, entries: list[JournalEntry]) -> list[AssignedThread]:
        """Where entries are placed that are drained together."""
        with self.tables.transaction():
            self._placer.expect(entries)
            placed = [self._placer.assign_thread(made) for made in entries]
            self._placer.finish()
        return placed

    def session(self, placed: AssignedThread) -> SessionRow:
        """The row of a session."""
        found = self.tables.sessions.session_of(placed.session)
        assert found is not None
        return found

    def thread(self, placed: AssignedThread) -> StoredThread:
        """The row of a thread."""
        found = self.tables.sessions.thread_of(placed.thread)
        assert found is not None
        return found

    def tree(self, placed: AssignedThread) -> dict[str, Node]:
        """The threads of a session by their names."""
        found = self.tables.connection.rows(
            "SELECT id, name, class, parent, windows FROM threads WHERE session = ? ORDER BY id", (placed.session,)
        )
        names = {number: name for number, name, _, _, _ in found}
        return {name: Node(kind, names.get(parent, ""), windows) for _, name, kind, parent, windows in found}

    def count(self, table: str) -> int:
        """How many rows a table has."""
        return self.tables.connection.number(f"SELECT count(*) FROM {table}")


@contextmanager
def desk() -> Iterator[Desk]:
    """An empty one."""
    tables = opened_records()
    try:
        yield Desk(tables)
    finally:
        tables.close()
