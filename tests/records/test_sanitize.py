"""Whatever comes in a record, a line can be written of it, and a row made of the line."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of
from dragoman.records.journal_entry import OPEN, CostBreakdown, TokenCounts
from dragoman.records.journal_ingest import Ingested, ingest_all
from dragoman.records.sanitize import sanitize_entry
from tests.records.invented import NOON, entry


def test_what_is_right_stays_as_it_is() -> None:
    assert sanitize_entry(entry(1)) == entry(1)


def test_a_name_without_a_form_in_utf_8_is_written_all_the_same(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    journal = Journal(directory_of(path))
    strange = replace(entry(1), requested_model="a \ud800 model", program="\udfff")
    journal.open(replace(strange, outcome=OPEN))
    assert journal.finalize(strange)
    assert ingest_all(path, now=NOON) == Ingested(rows=1)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT asked, program FROM records").fetchone() == ("a ? model", "?")


def test_numbers_that_no_column_holds_do_not_stop_those_behind_them(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    journal = Journal(directory_of(path))
    journal.finalize(entry(1))
    journal.finalize(
        replace(entry(2), tokens=TokenCounts(input=1 << 70, output=-(1 << 70)), cost=CostBreakdown(input=1 << 64))
    )
    journal.finalize(entry(3))
    assert ingest_all(path, now=NOON) == Ingested(rows=3)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*), min(input), max(input) FROM records").fetchone() == (3, 100, 1 << 51)
        assert db.execute("SELECT sum(requests), typeof(sum(cost)) FROM sums").fetchone() == (3, "integer")
