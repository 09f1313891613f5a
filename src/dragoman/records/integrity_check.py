"""Integrity check: whether the database, its rollups and the journals are complete and agree. Nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from dragoman.database_location import DatabaseLocation
from dragoman.records.journal_directory import directory_of, journals_in
from dragoman.records.journal_reader import read_segment
from dragoman.store.errors import StoreError
from dragoman.store.integrity_check import IntegrityCheck, JournalOffset
from dragoman.store.record_tables import RecordTables, open_record_tables

State = Literal["ok", "note", "wrong"]


class IntegrityFinding(Struct, frozen=True):
    """One finding: its subject, state and text."""

    subject: str
    state: State
    words: str


class _Read(Struct, kw_only=True):
    """The content of journals, read as the ingester does."""

    journals: int = 0
    size: int = 0
    entries: int = 0
    # Not in the tables yet.
    waiting: int = 0


def check_integrity(database: DatabaseLocation) -> Iterator[IntegrityFinding]:
    """Look at everything, one after the other."""
    tables = open_record_tables(database, read_only=True)
    try:
        with tables.reading():
            yield from _file(tables, database)
            offsets = {offset.name: offset for offset in IntegrityCheck(tables.connection).offsets()}
    except StoreError as error:
        subject = "file" if isinstance(database, str) else "database"
        yield IntegrityFinding(subject, "wrong", f"cannot be read on: {error}")
        return
    finally:
        tables.close()
    yield from _journals(directory_of(database), offsets, is_shared=not isinstance(database, str))


def _file(tables: RecordTables, database: DatabaseLocation) -> Iterator[IntegrityFinding]:
    examination = IntegrityCheck(tables.connection)
    sizes = [f"{Path(each).name} {size} bytes" for each, size in _sizes(database)]
    found = "; ".join((f"version {examination.version()}", *((", ".join(sizes),) if sizes else ())))
    if isinstance(database, str):
        yield IntegrityFinding("file", "ok", found)
        problems = examination.problems()
        yield IntegrityFinding(
            "integrity", "wrong" if problems else "ok", "; ".join(problems) or "every page and index is intact"
        )
    else:
        # Pages and indexes are for the server to check.
        yield IntegrityFinding("database", "ok", found)
    yield IntegrityFinding(
        "tables", "ok", ", ".join(f"{count} {table}" for table, count in examination.counts().items())
    )
    agreement = examination.agreement()
    yield IntegrityFinding("rows", "ok", f"{agreement.matching} groups of rows come to their sums")
    if agreement.wrong:
        yield IntegrityFinding("rows", "wrong", f"{agreement.wrong} groups of rows do not come to their sums")
    if agreement.without_row:
        words = f"{agreement.without_row} exchanges are in sums alone: older than record_days, or forgotten"
        yield IntegrityFinding("rows", "note", words)
    mismatches = [(table, count) for table, count in examination.mismatched_rollups() if count]
    for table, count in mismatches:
        yield IntegrityFinding("sums", "wrong", f"{table}: {count} do not come to the same as other sums")
    if not mismatches:
        yield IntegrityFinding("sums", "ok", "those of threads, sessions, quarters, hours and days come to the same")
    orphans = [(words, count) for words, count in examination.orphans() if count]
    for words, count in orphans:
        yield IntegrityFinding("references", "wrong", f"{count} {words}")
    if not orphans:
        yield IntegrityFinding("references", "ok", "everything that is referred to is there")


def _sizes(database: DatabaseLocation) -> Iterator[tuple[str, int]]:
    if not isinstance(database, str):
        return
    for ending in ("", "-wal"):
        try:
            yield database + ending, Path(database + ending).stat().st_size
        except FileNotFoundError:
            continue


def _journals(directory: Path, offsets: Mapping[str, JournalOffset], *, is_shared: bool) -> Iterator[IntegrityFinding]:
    read = _Read()
    for journal in journals_in(directory):
        offset = offsets.get(journal.name, JournalOffset(journal.name, 0, 0))
        try:
            yield from _journal(journal, offset, read)
        except FileNotFoundError:
            # Done with, and removed, by a gateway that runs.
            continue
        except OSError as error:
            yield IntegrityFinding("journals", "wrong", f"{journal.name}: cannot be read: {error.strerror}")
    # A database that machines share has the offsets of journals on all of them.
    gone = [] if is_shared else [name for name in offsets if not (directory / name).exists()]
    if gone:
        words = f"marks of {len(gone)} that are not there any more, which the next start removes"
        yield IntegrityFinding("journals", "note", words)
    words = f"{read.journals} of {read.size} bytes with {read.entries} exchanges, of which {read.waiting} wait"
    yield IntegrityFinding("journals", "ok", words)


def _journal(journal: Path, offset: JournalOffset, read: _Read) -> Iterator[IntegrityFinding]:
    descriptor = os.open(journal, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        at, moved, damaged = _read(descriptor, 0, offset.applied)
        at, waiting, more = _read(descriptor, at, None)
    finally:
        os.close(descriptor)
    damaged += more
    read.journals += 1
    read.size += size
    read.entries += moved + waiting
    read.waiting += waiting
    if damaged:
        yield IntegrityFinding("journals", "wrong", f"{journal.name}: {damaged} lines before right ones cannot be read")
    if at < size:
        words = f"{journal.name}: its last {size - at} bytes are no whole line; they may be being written"
        yield IntegrityFinding("journals", "note", words)


def _read(descriptor: int, at: int, until: int | None) -> tuple[int, int, int]:
    """Read on as far as there are whole lines: up to where, how many exchanges, and how many lines that are wrong."""
    entries = damaged = 0
    while (segment := read_segment(descriptor, at, until=until)).end > at:
        entries += len(segment.entries)
        damaged += segment.damaged
        at = segment.end
    return at, entries, damaged
