"""Saved journals: journals of a machine that is gone, ingested by another one. Offsets have their names, so that each
exchange is recorded once, also if they are ingested twice or if their machine returns (decision 47)."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from dragoman.database_location import DatabaseLocation
from dragoman.errors import DragomanError
from dragoman.records.journal_directory import ASIDE, begun, directory_of, journals_in, machine_of
from dragoman.records.journal_ingest import Ingester
from dragoman.records.journal_lock import lock
from dragoman.records.retained_journals import FOLDER
from dragoman.store.record_tables import RecordTables, open_record_tables


class SavedResult(Struct, frozen=True, kw_only=True):
    """The result: journals with new rows and without, rows, unreadable lines, and journals that were left alone, each
    with the reason."""

    journals: int = 0
    known: int = 0
    rows: int = 0
    damaged: int = 0
    left: tuple[str, ...] = ()


def ingest_saved(database: DatabaseLocation, directory: Path, now: int) -> SavedResult:
    """Ingest the journals of a directory, at a time in microseconds. The files stay as they are."""
    if directory.resolve() == directory_of(database).resolve():
        raise DragomanError(f"{directory} has the journals of this machine, which its gateway ingests")
    folders = [folder for folder in (directory, directory / ASIDE) if journals_in(folder)]
    if not folders and not journals_in(directory / FOLDER):
        raise DragomanError(f"no journals in {directory}: name the directory that was saved (PATH.records)")
    with closing(open_record_tables(database)) as tables:
        running = _running(tables, database)
        results = [_ingest(tables, folder, running, now) for folder in dict.fromkeys((directory, *folders))]
        _apply_erasures(tables, database, [directory, directory / ASIDE, directory / FOLDER])
    return SavedResult(
        journals=sum(each.journals for each in results),
        known=sum(each.known for each in results),
        rows=sum(each.rows for each in results),
        damaged=sum(each.damaged for each in results),
        left=tuple(reason for each in results for reason in each.left),
    )


def _running(tables: RecordTables, database: DatabaseLocation) -> dict[tuple[str, int], str]:
    """The names of the machines that run, by id and epoch: they ingest their journals themselves."""
    if isinstance(database, str):
        return {}
    from dragoman.records.machine import UNSEEN_AFTER
    from dragoman.store.machines import Machines

    machines = Machines(tables.connection)
    since = machines.now() - UNSEEN_AFTER
    return {(row.id, row.epoch): row.name for row in machines.all() if row.seen >= since}


def _ingest(tables: RecordTables, folder: Path, running: dict[tuple[str, int], str], now: int) -> SavedResult:
    ingester = Ingester(tables, folder)
    known, journals, left = 0, 0, []
    for journal in sorted((*journals_in(folder), *journals_in(folder / FOLDER)), key=lambda path: path.name):
        name = running.get(machine_of(journal.name))
        if name is not None:
            left.append(f"{journal}: its machine {name} runs, and ingests it")
            continue
        descriptor = os.open(journal, os.O_RDONLY)
        try:
            if not lock(descriptor):
                left.append(f"{journal}: a worker writes to it")
                continue
            before = ingester.rows
            ingester.complete(descriptor, journal, now, is_saved=True)
            journals, known = journals + (ingester.rows > before), known + (ingester.rows == before)
        finally:
            os.close(descriptor)
    return SavedResult(journals=journals, known=known, rows=ingester.rows, damaged=ingester.damaged, left=tuple(left))


def _apply_erasures(tables: RecordTables, database: DatabaseLocation, folders: list[Path]) -> None:
    """Remove rows that were to be erased before they were ingested."""
    if isinstance(database, str):
        return
    from dragoman.records.machine_erasure import apply_erasures

    times = [begun(journal.name) for folder in folders for journal in journals_in(folder)]
    apply_erasures(tables, 0, min(times, default=0))
