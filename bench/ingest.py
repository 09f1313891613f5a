"""Measures ingestion of new conversations, their later assignment, and the wait of a command that shows some of them.

python -m bench.ingest                      2,000 conversations in batches of 250, then 100,000 outside of a range
python -m bench.ingest --rows 5000 --outside 1000000
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from bench.records import NOW, entries
from dragoman.records.deferred_assignment import DeferredAssigner, assign_scope
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.rows import Batch
from dragoman.records.sessions import listing
from dragoman.records.thread_status import Opened
from dragoman.sessions.facts import ExchangeFacts, Shape
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.unassigned import RowScope

_BATCH = 250
_HOUR = 3_600_000_000
# Conversations within the hour that is asked for.
_INSIDE = 500


def conversations(rows: int, until: int) -> Iterator[JournalEntry]:
    """Exchanges that each begin a conversation; the last one is at a time, in microseconds."""
    for number, (entry, _) in enumerate(entries(rows, 1.0)):
        digest = blake2b(b"%d %d" % (until, number), digest_size=16).hexdigest()
        facts = ExchangeFacts(shape=Shape(1200, 0, 1), opening=digest, tip=digest)
        yield replace(entry, time=until - (rows - number) * 1000, facts=facts)


def ingest(tables: RecordTables, made: Iterator[JournalEntry]) -> None:
    """Ingest conversations in batches."""
    while some := list(islice(made, _BATCH)):
        batch = Batch()
        with tables.transaction():
            for entry in some:
                batch.add_unassigned(entry)
            batch.write_rows(tables)
            batch.write_rollups(tables)


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))


def measure(path: Path, rows: int) -> str:
    """Ingest and assign, in processor time and in bytes of the file and its log."""
    with closing(open_record_tables(str(path))) as tables:
        # Statements are prepared once.
        ingest(tables, conversations(_BATCH, NOW * 1_000_000))
        made = list(conversations(rows, NOW * 1_000_000))
        began = time.process_time()
        ingest(tables, iter(made))
        ingested, size = time.process_time() - began, _size(path)
        began = time.process_time()
        assigner = DeferredAssigner(tables)
        while assigner.assign_oldest():
            """Until none is left."""
        assigned = time.process_time() - began
    count = rows + _BATCH
    return (
        f"{rows:,} conversations: ingestion {ingested / rows * 1e6:.0f} us, {size / count:.0f} bytes of file and log;"
        f" assignment {assigned / count * 1e6:.0f} us, then {_size(path) / count:.0f} bytes of the file"
    )


def waited(path: Path, outside: int) -> str:
    """How long the sessions of the last hour take, with many unassigned conversations before it."""
    now, took = NOW * 1_000_000, list[float]()
    # As a gateway that runs, which has the file open all the time.
    with closing(open_record_tables(str(path))) as gateway:
        ingest(gateway, conversations(outside, now - 2 * _HOUR))
        ingest(gateway, conversations(_INSIDE, now))
        gateway.connection.wipe()
        for _ in range(3):
            began = time.process_time()
            left = assign_scope(str(path), RowScope(since=now - _HOUR))
            with closing(open_record_tables(str(path), read_only=True)) as tables:
                shown = len(listing(tables, now - _HOUR, None, 50, Opened(), now).lines)
            took.append(time.process_time() - began)
    return (
        f"{outside:,} unassigned outside of an hour with {_INSIDE}: {took[0] * 1000:.0f} ms of processor time, then"
        f" {min(took[1:]) * 1000:.0f} ms; {shown} shown, {left} left"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both in files of their own."""
    parser = argparse.ArgumentParser(prog="bench.ingest", description="Measure ingestion and assignment.")
    parser.add_argument("--rows", type=int, default=2000, metavar="COUNT", help="how many conversations")
    parser.add_argument("--outside", type=int, default=100_000, metavar="COUNT", help="how many outside of the range")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="dragoman-ingest-") as folder:
        print(measure(Path(folder) / "ingested.db", options.rows))
        print(waited(Path(folder) / "waited.db", options.outside))
    return 0


if __name__ == "__main__":
    sys.exit(main())
