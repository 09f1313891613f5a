"""Machine erasure: how each machine takes part in an erasure (decision 47). It begins another journal, ingests the
former ones, removes what it retains of them, and acknowledges; the command then removes the rows. A machine that comes
too late for that removes the rows that it has added itself."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from dragoman.records.deferred_assignment import assign_all
from dragoman.records.digest_key import key_of
from dragoman.records.journal_directory import begun, request_rotation
from dragoman.records.journal_ingest import Ingester
from dragoman.records.machine import Machine, shared_secret
from dragoman.store.connection import Transaction
from dragoman.store.erasure import Erasure
from dragoman.store.machines import ErasureOrder, Machines
from dragoman.store.record_tables import RecordTables

# Microseconds that the clock of a machine may be ahead of that of the server.
_AHEAD = 60_000_000
_SECOND = 1_000_000
# A time in microseconds after every other.
_EVER = (1 << 63) - 1


class MachineErasure:
    """The part of one worker; one thread uses it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # The erasure that is under way, and the journals that it waits for.
        self._number = 0
        self._waits_for: list[Path] = []

    def tend(self, ingester: Ingester, machine: Machine) -> None:
        """Begin with new erasures, and acknowledge them once no former journal is left."""
        number = machine.last_erasure
        if number <= machine.erased:
            return
        if number != self._number:
            self._begin(ingester, number)
        self._waits_for = [journal for journal in self._waits_for if journal.exists()]
        if self._waits_for:
            return
        carry_out(ingester, machine, number)

    def _begin(self, ingester: Ingester, number: int) -> None:
        self._number = number
        self._waits_for = ingester.journals_here()
        if self._waits_for:
            request_rotation(self._directory, max(begun(journal.name) for journal in self._waits_for) + 1)


def carry_out(ingester: Ingester, machine: Machine, number: int) -> None:
    """Remove what is retained, and acknowledge the erasures up to a number; all former journals are ingested. Rows of
    an erasure that is still open are removed by its command."""
    oldest = min((begun(journal.name) for journal in ingester.retained_here()), default=_EVER)
    ingester.remove_retained(_EVER)
    db = ingester.tables.connection
    applied: set[int] = set()
    while True:
        with Transaction(db):
            orders = Machines(db).erasures_after(machine.erased)
            late = [order for order in orders if order.is_closed and order.number not in applied]
            if not late:
                machine.acknowledge(db, number)
                return
        _apply(ingester.tables, late, oldest)
        applied.update(order.number for order in late)


def apply_erasures(tables: RecordTables, after: int, oldest: int) -> None:
    """Remove rows that were ingested after their erasure was closed, from journals that began at a time or later."""
    orders = Machines(tables.connection).erasures_after(after)
    _apply(tables, [order for order in orders if order.is_closed], oldest)


def _apply(tables: RecordTables, orders: list[ErasureOrder], oldest: int) -> None:
    for order in orders:
        before = int(order.asked * _SECOND) + _AHEAD
        if before > oldest:
            _erase(tables, order, before)


def _erase(tables: RecordTables, order: ErasureOrder, before: int) -> None:
    erasure = Erasure(tables.connection)
    if not order.session:
        assign_all(tables, order.key, 0)
        at: int | None = 0
        while at is not None:
            _, at = erasure.remove_rows_of_key(order.key, at, before)
        erasure.remove_sessions([session.number for session in erasure.sessions_of(order.key, before)])
        return
    secret = shared_secret(tables.connection)
    for session in erasure.sessions_of(order.key):
        if session_digest(secret, order.key, session.name) == order.session:
            assign_all(tables, order.key, session.number)
            while erasure.remove_rows_of_session(session.number, before):
                """Until none is left."""
    ended = erasure.sessions_of(order.key, before)
    erasure.remove_sessions(
        [each.number for each in ended if session_digest(secret, order.key, each.name) == order.session]
    )


def session_digest(secret: bytes, key: str, name: str) -> str:
    """What an erasure has in place of the name of a session, which is to be forgotten."""
    named = name.encode("utf-8", "surrogatepass")
    return blake2b(named, digest_size=16, key=key_of(secret, key)).hexdigest()
