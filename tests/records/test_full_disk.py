"""A disk without room, as the system says it: nothing that was there is lost, and what comes later is whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT

# A process may not make files larger than so; then it may.
_JOURNAL = """
import resource, sys
from pathlib import Path
from dragoman.records.journal_ingest import ingest_all
from dragoman.records.journal_directory import directory_of
from dragoman.records.journal import Journal
from tests.records.invented import NOON, entry

path = sys.argv[1]
journal = Journal(directory_of(path))
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, most))
written = [journal.finalize(entry(number)) for number in range(20)]
assert written[0] and not written[-1] and journal.problem == "file too large", (written, journal.problem)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
assert journal.tend() and not journal.problem and journal.lost == 0
ingested = ingest_all(path, now=NOON)
assert ingested.rows == 20 and ingested.damaged <= 1, ingested
"""
_DATABASE = """
import resource, sqlite3, sys
from dragoman.records.journal_ingest import Ingester
from dragoman.records.journal_directory import directory_of
from dragoman.records.journal import Journal
from dragoman.store import StoreError
from dragoman.store.record_tables import open_record_tables
from tests.records.invented import NOON, entry

path = sys.argv[1]
tables = open_record_tables(path)
tables.connection.change("PRAGMA wal_checkpoint(TRUNCATE)")
journal = Journal(directory_of(path))
for number in range(2000):
    journal.finalize(entry(number))
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, most))
ingester = Ingester(tables, directory_of(path))
try:
    ingester.ingest(journal.path)
except StoreError as error:
    assert "full" in str(error) or "I/O" in str(error), error
else:
    raise AssertionError("there was room")
assert tables.records.count() == ingester.rows < 2000
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
ingester.ingest(journal.path)
assert tables.records.count() == ingester.rows == 2000
assert tables.connection.row("SELECT sum(requests) FROM sums") == (2000,)
"""


@pytest.mark.parametrize("program", [_JOURNAL, _DATABASE], ids=["the journal", "the tables"])
def test_pitfall_661_what_finds_no_room_is_there_later_and_once(tmp_path: Path, program: str) -> None:
    came = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "state.db")], capture_output=True, text=True, timeout=LIMIT
    )
    assert came.returncode == 0, came.stderr
