"""The folder of journals: beside the file, for its user alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.records.journal_directory import (
    begun,
    directory_of,
    journals_in,
    make_directory,
    read_rotation_request,
    request_rotation,
)


def test_journals_lie_beside_the_file_also_where_a_link_leads_to_it(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "state.db"
    assert directory_of(str(file)) == tmp_path / "kept" / "state.db.records"
    link = tmp_path / "link.db"
    link.symlink_to(file)
    assert directory_of(str(link)) == tmp_path / "kept" / "state.db.records"


def test_in_memory_there_is_no_folder() -> None:
    with pytest.raises(ValueError, match="memory"):
        directory_of(":memory:")


def test_the_folder_is_its_users_alone_and_lists_journals_oldest_first(tmp_path: Path) -> None:
    folder = tmp_path / "state.db.records"
    assert journals_in(folder) == []
    make_directory(folder)
    make_directory(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    for name in ("0002-1.log", "0001-9.log", "rotate"):
        (folder / name).touch()
    assert [journal.name for journal in journals_in(folder)] == ["0001-9.log", "0002-1.log"]


def test_workers_are_asked_to_rotate_by_a_time(tmp_path: Path) -> None:
    assert read_rotation_request(tmp_path) == 0
    request_rotation(tmp_path, 12)
    request_rotation(tmp_path, 17)
    assert read_rotation_request(tmp_path) == 17
    assert [found.name for found in tmp_path.iterdir()] == ["rotate"]
    (tmp_path / "rotate").write_text("what?")
    assert read_rotation_request(tmp_path) == 0


def test_a_journal_without_a_time_is_an_old_one() -> None:
    assert begun("00000000000000042-7-1.log") == 42
    assert begun("notes.log") == 0
