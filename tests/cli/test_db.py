"""`dragoman db` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import stat
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of
from dragoman.records.thread_assignment import AssignedThread
from dragoman.store import StoreError
from dragoman.store.migrations.sqlite import STEPS
from dragoman.store.record_tables import open_record_tables
from tests.cli.machine import clean
from tests.cli.screens import on_screen
from tests.records.filled import fill, filled_file, some_entries
from tests.records.invented import NOON, entry


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The file as it is found if nobody names one, with some exchanges."""
    path = tmp_path / ".local/state/dragoman/state.db"
    filled_file(path, some_entries(1, 40))
    return path


def exported(*words: str, capfd: pytest.CaptureFixture[str]) -> str:
    assert main(["db", "export", *words]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    return captured.out


def test_a_file_that_is_well_is_told_so(state: Path, tmp_path: Path) -> None:
    for columns in (80, 140):
        seen = on_screen(["db", "check"], tmp_path, columns=columns)
        lines = seen.plain.splitlines()
        assert (seen.status, lines[0].split()) == (0, ["STATE", "WHAT", "FOUND"])
        assert max(map(len, lines)) <= columns
        assert {line.split()[0] for line in lines[1:] if not line.startswith(" ")} == {"ok"}
        assert "40 records" in seen.plain


def test_what_is_wrong_is_a_status(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(state)) as db, db:
        db.execute("UPDATE records SET cost = cost + 1 WHERE number = 3")
    assert main(["db", "check", "--json"]) == 1
    found = json.loads(capfd.readouterr().out)["findings"]
    wrong = [each for each in found if each["state"] == "wrong"]
    assert wrong == [{"subject": "rows", "state": "wrong", "words": "1 groups of rows do not come to their sums"}]


def test_a_check_leaves_journals_where_they_are(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with closing(Journal(directory_of(str(state)))) as journal:
        journal.finalize(entry(1))
    assert main(["db", "check"]) == 0
    assert "1 exchanges, of which 1 wait" in capfd.readouterr().out
    assert journal.path is not None
    assert journal.path.exists()


def test_where_nothing_was_ever_written_there_is_nothing_to_check_or_export(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for words in (["check"], ["check", "--json"], ["export"]):
        assert main(["db", *words]) == 0
        captured = capfd.readouterr()
        assert captured.err.startswith("dragoman: no requests recorded yet: ")
        assert captured.out in ("", '{"findings":[]}\n')
    assert list(tmp_path.rglob("*.db")) == []


def test_a_file_of_a_newer_version_is_told(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(state)) as db:
        db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    for words in (["check"], ["export"]):
        assert main(["db", *words]) == 1
        captured = capfd.readouterr()
        assert captured.out == ""
        assert "the file was written by a newer version" in captured.err
        assert captured.err.count("\n") == 1


def test_every_exchange_is_a_line_also_what_stands_in_journals(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with closing(Journal(directory_of(str(state)))) as journal:
        journal.finalize(entry(77))
        lines = [json.loads(line) for line in exported(capfd=capfd).splitlines()]
    assert len(lines) == 41
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    assert lines[0]["id"] == entry(77).id


def test_csv_says_the_same_and_no_cell_is_a_formula(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in exported("--format", "jsonl", capfd=capfd).splitlines()]
    rows = list(csv.DictReader(io.StringIO(exported("--format", "csv", capfd=capfd))))
    assert [row["id"] for row in rows] == [line["id"] for line in lines]
    assert "'=cmd" in {row["model"] for row in rows}
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@"))]


def test_an_export_is_cut_where_it_was_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / ".local/state/dragoman/state.db"
    with closing(open_record_tables(str(path))) as tables:
        # A minute apart, from eight o'clock on.
        fill(tables, [(entry(number, time=NOON + number * 60_000_000), AssignedThread()) for number in range(10)])
    words = ["--since", "2027-01-15T08:03", "--until", "2027-01-15T08:05", "--zone", "UTC"]
    ids = [json.loads(line)["id"] for line in exported(*words, capfd=capfd).splitlines()]
    assert ids == [entry(3).id, entry(4).id]
    assert main(["db", "export", "--since", "never"]) == 2
    assert capfd.readouterr().err.startswith("dragoman: --since: 'never' is no time; ")


def test_a_file_is_for_its_user_alone_and_whole(state: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "all.jsonl"
    out.write_text("what was there before", encoding="utf-8")
    assert main(["db", "export", "--out", str(out)]) == 0
    assert len(out.read_text(encoding="utf-8").splitlines()) == 40
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert main(["db", "export", "--out", os.devnull]) == 0
    assert not Path(os.devnull).is_file()
    assert main(["db", "export", "--out", str(tmp_path / "nowhere/all.jsonl")]) == 1
    assert "No such file or directory" in capfd.readouterr().err


def test_an_export_that_fails_leaves_what_was_there(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "all.jsonl"
    assert main(["db", "export", "--out", str(out)]) == 0

    def fail(kept: bytes) -> None:
        raise StoreError("disk I/O error")

    monkeypatch.setattr("dragoman.records.export.details_as_json", fail)
    assert main(["db", "export", "--out", str(out)]) == 1
    assert capfd.readouterr().err == "dragoman: disk I/O error\n"
    assert len(out.read_text(encoding="utf-8").splitlines()) == 40
    assert sorted(path.name for path in tmp_path.iterdir() if "all" in path.name) == ["all.jsonl"]


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path) -> None:
    path = tmp_path / ".local/state/dragoman/state.db"
    out = tmp_path / "all.jsonl"
    peaks = []
    for count in (500, 2500):
        with closing(open_record_tables(str(path))) as tables:
            fill(tables, some_entries(count, count))
        tracemalloc.start()
        try:
            assert main(["db", "export", "--out", str(out)]) == 0
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert out.stat().st_size > 2_500_000
    assert peaks[1] < peaks[0] + 1_000_000
