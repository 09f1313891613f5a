"""Shared erasure: the request of a command that all machines of a database erase a scope from their journals, and their
acknowledgements (decision 47)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from dragoman.database_location import PostgresDatabase
from dragoman.records.journal_directory import directory_of
from dragoman.records.journal_ingest import Ingester
from dragoman.records.machine import UNSEEN_AFTER, Machine, shared_secret
from dragoman.records.machine_erasure import carry_out, session_digest
from dragoman.records.machine_file import read_machine_file
from dragoman.records.time_range import zone_of
from dragoman.store.connection import Transaction
from dragoman.store.machines import MachineRow, Machines
from dragoman.store.postgres_database import connect_to
from dragoman.store.record_tables import RecordTables

# Seconds between two looks.
_POLL_INTERVAL = 0.1


class SharedErasure:
    """One erasure of a gateway key, or of a session of it, which is requested when this is made."""

    def __init__(self, database: PostgresDatabase, key: str, session: str) -> None:
        self._database = database
        with closing(connect_to(database)) as db, Transaction(db):
            digest = session_digest(shared_secret(db), key, session) if session else ""
            self._number = Machines(db).add_erasure(key, digest)

    def wait(self, timeout: float, pause: Callable[[float], None]) -> list[str]:
        """Wait until all machines that run have acknowledged, up to some seconds; returns in words which machines have
        not. From then on machines remove the rows that they add late."""
        ends = time.monotonic() + timeout
        with closing(connect_to(self._database)) as db:
            self._acknowledge_here(RecordTables(db))
            machines = Machines(db)
            while self._running(machines) and time.monotonic() < ends:
                pause(_POLL_INTERVAL)
            machines.close_erasure(self._number)
            return [_without_answer(row) for row in machines.all() if row.erased < self._number]

    def _running(self, machines: Machines) -> list[MachineRow]:
        """The machines that run and have not acknowledged yet."""
        since = machines.now() - UNSEEN_AFTER
        return [row for row in machines.all() if row.erased < self._number and row.seen >= since]

    def _acknowledge_here(self, tables: RecordTables) -> None:
        """Acknowledge for this machine if it has no journals left, where no gateway may run."""
        directory = directory_of(self._database)
        if read_machine_file(directory) is None:
            return
        machine = Machine(self._database)
        ingester = Ingester(tables, directory, machine=machine)
        if machine.is_joined(tables.connection) and not ingester.journals_here():
            carry_out(ingester, machine, self._number)


def _without_answer(row: MachineRow) -> str:
    seen = zone_of("").local(int(row.seen)).strftime("%Y-%m-%d %H:%M:%S")
    return f"machine {row.name}, last seen {seen}: it erases its journals when it runs again"
