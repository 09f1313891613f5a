"""Machines that share a database: each has a directory, a journal and an ingest thread of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dragoman.database_location import PostgresDatabase
from dragoman.records.ingest_thread import IngestThread
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of
from dragoman.records.machine import Machine, check_machine
from dragoman.store.integrity_check import IntegrityCheck
from dragoman.store.machines import MachineRow, Machines
from dragoman.store.postgres_database import connect_to, set_up
from dragoman.store.record_tables import open_record_tables
from tests.postgres import PostgresServer
from tests.waiting import LIMIT


class Worker:
    """The journal of a worker, and its thread."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.machine = Machine(database, lambda: "digest")
        self.journal = Journal(directory_of(database), machine=self.machine.owner)
        self.log: list[str] = []
        self.thread = IngestThread(
            database,
            self.journal,
            days=36500,
            tend=self._tend,
            log=lambda level, words: self.log.append(f"{level}: {words}"),
            every=0.01,
            machine=self.machine,
        )

    def _tend(self, rotate: bool) -> None:
        if rotate:
            self.journal.rotate()


@contextmanager
def running(database: PostgresDatabase) -> Iterator[Worker]:
    """A worker of the machine whose journals are beside a database's path."""
    worker = Worker(database)
    worker.thread.start()
    try:
        yield worker
    finally:
        worker.journal.close()
        assert worker.thread.stop(LIMIT)


def located(server: PostgresServer, name: str, directory: Path, zone: str = "") -> PostgresDatabase:
    """A database, with the directory of a machine that has been set up for it."""
    database = PostgresDatabase(
        address=server.address(name),
        name=name,
        path=str(directory / "state.db"),
        machine=directory.name,
        time_zone=zone,
    )
    set_up(database)
    check_machine(database)
    return database


def machines(database: PostgresDatabase) -> list[MachineRow]:
    """The rows of all machines."""
    with closing(connect_to(database)) as db:
        return Machines(db).all()


def numbers(database: PostgresDatabase) -> list[int]:
    """The sorted numbers of the entries, each a row, whose totals agree with them."""
    with closing(open_record_tables(database, read_only=True)) as tables, tables.reading():
        check = IntegrityCheck(tables.connection)
        agreement = check.agreement()
        assert (agreement.wrong, agreement.without_row) == (0, 0)
        assert [found for found in check.mismatched_rollups() if found[1]] == []
        assert [found for found in check.orphans() if found[1]] == []
        rows = tables.connection.rows("SELECT number, id FROM records ORDER BY number")
    assert [row[0] for row in rows] == [*range(1, len(rows) + 1)]
    return sorted(int(row[1][4:]) for row in rows)
