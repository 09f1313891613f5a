"""A short look at the questions to records: they are asked of what was written, and add up."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from bench import records
from dragoman.records.integrity_check import check_integrity
from dragoman.records.usage import GROUPS, UsageReport
from dragoman.store.record_tables import open_record_tables


def test_everything_is_asked_once_and_adds_up(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with closing(open_record_tables(str(file))) as tables:
        records.fill(tables, 500, 20.0)
        asked = {words: ask() for words, _, ask in records.questions(tables)}
        totals = [found.total for found in asked.values() if isinstance(found, UsageReport)]
        # Those of sessions and threads are asked for in part, as a whole, and told.
        assert len(totals) == len(GROUPS) + 4
        assert all(total == totals[0] for total in totals)
        assert totals[0].requests > 400
        assert [each.words for each in records.measure(tables)] == list(asked)
    assert [each.words for each in check_integrity(str(file)) if each.state == "wrong"] == []


def test_what_was_measured_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert records.main(["--rows", "100", "--days", "2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("100 exchanges in 2 days: 100 records, ")
    assert "usage of 30 days by day " in said
