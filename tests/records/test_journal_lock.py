"""The lock of a journal: one has it, until whoever opened the file is gone."""

from __future__ import annotations

from pathlib import Path

from dragoman.records.journal_lock import lock, lock_one_that_is_there


def test_one_has_it_until_the_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.touch()
    with path.open("rb+") as other:
        with path.open("rb+") as worker:
            assert lock(worker.fileno())
            assert not lock(other.fileno())
        assert lock(other.fileno())


def test_one_that_was_removed_is_nobodys(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.touch()
    with path.open("rb+") as file:
        assert lock_one_that_is_there(file.fileno())
        path.unlink()
        assert not lock_one_that_is_there(file.fileno())
