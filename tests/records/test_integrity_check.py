"""An examination finds what is wrong with the file and with journals, and changes nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dragoman.errors import ConfigError
from dragoman.records.integrity_check import IntegrityFinding, check_integrity
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of
from dragoman.records.journal_ingest import ingest_all
from dragoman.store.migrations.sqlite import STEPS
from tests.records.filled import filled_file, some_entries
from tests.records.invented import NOON, entry
from tests.store.other_users import as_nobody


def wrong(found: list[IntegrityFinding]) -> list[str]:
    return [f"{each.subject}: {each.words}" for each in found if each.state == "wrong"]


def snapshot(folder: Path) -> dict[str, bytes]:
    """All that is kept; beside it readers of a file share what they need, and an empty log."""
    found = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and "-shm" not in path.name}
    return {name: content for name, content in found.items() if content}


def test_what_is_well_is_said_to_be_and_nothing_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled_file(file, some_entries(1, 100))
    with closing(Journal(directory_of(str(file)), clock=lambda: NOON * 1000)) as journal:
        for number in range(3):
            journal.finalize(entry(number))
        ingest_all(str(file), now=NOON)
        journal.finalize(entry(7))
        before = snapshot(tmp_path)
        found = list(check_integrity(str(file)))
        assert snapshot(tmp_path) == before
    assert wrong(found) == []
    words = {each.subject: each.words for each in found}
    assert words["file"].startswith(f"version {len(STEPS)}; state.db ")
    assert words["tables"].startswith("103 records, ")
    assert words["journals"].endswith(" bytes with 4 exchanges, of which 1 wait")
    assert [each.subject for each in found] == ["file", "integrity", "tables", "rows", "sums", "references", "journals"]


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled_file(file, [])
    with closing(Journal(directory_of(str(file)), clock=lambda: NOON * 1000)) as journal:
        for number in range(3):
            journal.finalize(entry(number))
        assert journal.path is not None
        lines = journal.path.read_bytes().splitlines(keepends=True)
        lines[1] = lines[1].replace(b"alice", b"malice")
        journal.path.write_bytes(b"".join(lines) + b"torn")
        found = list(check_integrity(str(file)))
    assert wrong(found) == [f"journals: {journal.path.name}: 1 lines before right ones cannot be read"]
    notes = [each.words for each in found if each.state == "note"]
    assert notes == [f"{journal.path.name}: its last 4 bytes are no whole line; they may be being written"]


def test_marks_without_their_journals_are_told(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled_file(file, [])
    with closing(sqlite3.connect(file)) as db:
        db.execute("INSERT INTO journals VALUES ('00000000000000007-1-1.log', 10, 0)")
        db.commit()
    notes = [each.words for each in check_integrity(str(file)) if each.state == "note"]
    assert notes == ["marks of 1 that are not there any more, which the next start removes"]


def test_sums_that_disagree_and_rows_that_went_are_told(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled_file(file, some_entries(1, 50))
    with closing(sqlite3.connect(file)) as db:
        db.execute("DELETE FROM records WHERE number <= 10")
        db.execute("UPDATE records SET cost = cost + 1 WHERE number = 20")
        db.execute("DELETE FROM thread_sums WHERE thread = 1")
        db.execute("DELETE FROM tips")
        db.execute("DELETE FROM threads WHERE id = 2")
        db.commit()
    found = list(check_integrity(str(file)))
    told = wrong(found)
    assert told[0] == "rows: 1 groups of rows do not come to their sums"
    assert [words.split(": ")[1] for words in told[1:4]] == ["thread_sums", "thread_totals", "session_totals"]
    assert told[4].endswith(" exchanges of a thread that is not there")
    assert [each.words for each in found if each.state == "note"] == [
        "10 exchanges are in sums alone: older than record_days, or forgotten"
    ]


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled_file(file, some_entries(1, 400))
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(file.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 8192] = b"Z" * 8192
    file.write_bytes(content)
    told = wrong(list(check_integrity(str(file))))
    assert told
    assert told[0].startswith(("integrity: ", "file: cannot be read on: "))


def test_a_file_of_the_future_and_one_that_is_none_are_told(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled_file(file, [])
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    with pytest.raises(ConfigError, match="written by a newer version"):
        list(check_integrity(str(file)))
    file.write_bytes(b"no database at all, " * 100)
    with pytest.raises(ConfigError, match="file is not a database"):
        list(check_integrity(str(file)))


def test_a_journal_that_may_not_be_read_is_told() -> None:
    # Not in the folder of the tests, which may be closed to other users.
    with TemporaryDirectory(prefix="dragoman-journal-") as folder:
        file = Path(folder) / "state.db"
        filled_file(file, [])
        with closing(Journal(directory_of(str(file)))) as journal:
            journal.finalize(entry(1))
            assert journal.path is not None
            for path in (*Path(folder).rglob("*"), Path(folder)):
                path.chmod(0o777)
            journal.path.chmod(0)
            with as_nobody():
                found = list(check_integrity(str(file)))
    assert wrong(found) == [f"journals: {journal.path.name}: cannot be read: Permission denied"]
