"""The journal of a worker: one write for each line, and a line that could not be written ends none but itself."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from dragoman.records.journal import Journal
from dragoman.records.journal_directory import journals_in
from dragoman.records.journal_entry import OPEN
from dragoman.records.journal_reader import read_before, read_contents, read_segment
from tests.records.invented import NOON, entry


class Disk:
    """Writes, until it has no room: then in part, or not at all."""

    def __init__(self) -> None:
        self.room: int | None = None
        self.writes: list[bytes] = []

    def write(self, descriptor: int, data: bytes) -> int:
        self.writes.append(data)
        if self.room is not None:
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            data = data[: self.room]
            self.room -= len(data)
        return os.write(descriptor, data)


def damaged(path: Path | None) -> int:
    assert path is not None
    with path.open("rb") as file:
        return read_segment(file.fileno(), 0).damaged


def ids(path: Path | None) -> list[str]:
    assert path is not None
    with path.open("rb") as file:
        return [found.id[-2:] for found in read_segment(file.fileno(), 0).entries]


def test_each_line_is_one_write_and_the_file_its_users_alone(tmp_path: Path) -> None:
    disk = Disk()
    journal = Journal(tmp_path / "state.db.records", write=disk.write)
    assert journal.is_bare
    assert journal.finalize(entry(1))
    assert len(disk.writes) == 2
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in disk.writes)
    assert journal.path is not None
    assert journal.path.read_bytes() == b"".join(disk.writes)
    assert journal.size == journal.path.stat().st_size
    assert journal.path.stat().st_mode & 0o777 == 0o600
    assert journal.path.parent.stat().st_mode & 0o777 == 0o700
    assert not journal.is_bare
    assert ids(journal.path) == ["01"]


def test_its_worker_holds_its_lock_until_it_lets_go(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.finalize(entry(1))
    assert journal.path is not None
    with journal.path.open("rb") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        journal.close()
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_one_without_a_line_goes_with_its_worker(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert len(journals_in(tmp_path)) == 1
    journal.close()
    assert journals_in(tmp_path) == []


def test_one_without_a_line_is_removed_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever drains could take it for an orphan otherwise, and make a database for nothing."""
    journal = Journal(tmp_path)
    held: list[bool] = []
    remove = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        assert path == journal.path and missing_ok
        held.append(journal.descriptor >= 0 and journal.is_closed)
        remove(path)

    monkeypatch.setattr(Path, "unlink", unlink)
    journal.close()
    assert held == [True]
    assert journal.descriptor < 0
    assert journals_in(tmp_path) == []


def test_pitfall_660_a_full_one_is_followed_by_another_that_begins_with_what_is_open(tmp_path: Path) -> None:
    retired: list[int] = []

    def retire(descriptor: int) -> None:
        retired.append(descriptor)
        os.close(descriptor)

    journal = Journal(tmp_path, max_bytes=3000, retire=retire, clock=lambda: NOON * 1000)
    journal.open(entry(99, outcome=OPEN))
    for number in range(12):
        assert journal.finalize(entry(number))
    files = journals_in(tmp_path)
    assert len(files) == len(retired) + 1 > 2
    assert [found for file in files for found in ids(file)] == [f"{number:02d}" for number in range(12)]
    names = [file.name for file in files]
    before: list[str | None] = []
    for file in files:
        with file.open("rb") as opened:
            before.append(read_before(opened.fileno()))
            assert [found.id for found in read_contents(opened.fileno()).open_entries] == [entry(99).id]
    assert before == ["", *names[:-1]]
    assert len(journal._open) == 1
    journal.finalize(entry(99))
    assert len(journal._open) == 0


def test_names_ascend_and_are_never_used_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, clock=lambda: NOON * 1000)
    seen = [journal.path]
    for _ in range(5):
        journal.rotate()
        seen.append(journal.path)
        assert journal.path is not None
    assert len(set(seen)) == 6
    assert sorted(map(str, seen)) == list(map(str, seen))


def test_pitfall_661_a_line_without_room_waits_and_nothing_before_it_is_lost(tmp_path: Path) -> None:
    disk = Disk()
    journal = Journal(tmp_path, write=disk.write)
    journal.finalize(entry(1))
    disk.room = 10
    assert not journal.finalize(entry(2))
    assert not journal.finalize(entry(3))
    journal.open(entry(4, outcome=OPEN))
    assert journal.problem == "no space left on device"
    assert ids(journal.path) == ["01"]
    disk.room = None
    assert journal.finalize(entry(5))
    assert journal.problem == ""
    assert journal.lost == 0
    assert ids(journal.path) == ["01", "02", "03", "05"]
    assert journal.path is not None
    assert journal.size == journal.path.stat().st_size
    assert damaged(journal.path) == 0


def test_a_part_of_a_line_that_cannot_be_taken_back_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(descriptor: int, size: int) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    disk = Disk()
    journal = Journal(tmp_path, write=disk.write)
    monkeypatch.setattr(os, "ftruncate", refused)
    disk.room = 10
    assert not journal.finalize(entry(1))
    disk.room = None
    assert journal.finalize(entry(2))
    assert ids(journal.path) == ["01", "02"]
    assert journal.path is not None
    assert journal.size == journal.path.stat().st_size


def test_a_line_that_takes_two_writes_is_whole(tmp_path: Path) -> None:
    halves: list[int] = []

    def slow(descriptor: int, data: bytes) -> int:
        halves.append(len(data))
        return os.write(descriptor, data[: len(data) // 2] if len(halves) % 2 == 0 else data)

    journal = Journal(tmp_path, write=slow)
    assert journal.finalize(entry(1))
    assert len(halves) == 3
    assert (ids(journal.path), journal.problem) == (["01"], "")
    assert damaged(journal.path) == 0


def test_an_opening_line_in_part_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    disk = Disk()
    journal = Journal(tmp_path, write=disk.write)
    disk.room = 7
    journal.open(entry(1, outcome=OPEN))
    disk.room = None
    assert journal.finalize(entry(1))
    assert ids(journal.path) == ["01"]
    assert damaged(journal.path) == 0


def test_what_waits_has_a_bound_and_what_is_beyond_it_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.records.journal._MAX_WAITING_BYTES", 2000)
    disk = Disk()
    journal = Journal(tmp_path, write=disk.write)
    disk.room = 0
    for number in range(20):
        journal.finalize(entry(number))
    lost = journal.lost
    assert 0 < lost < 20
    disk.room = None
    assert journal.tend()
    assert len(ids(journal.path)) == 20 - lost


def test_another_that_cannot_be_begun_leaves_the_present_one(tmp_path: Path) -> None:
    disk = Disk()
    journal = Journal(tmp_path, write=disk.write)
    journal.finalize(entry(1))
    path = journal.path
    disk.room = 5
    journal.rotate()
    assert journal.path == path
    assert journals_in(tmp_path) == [path]
    disk.room = None
    journal.finalize(entry(2))
    assert ids(path) == ["01", "02"]


def test_one_that_is_gone_is_not_written_any_more_and_what_is_open_goes_on_in_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    now = [NOON * 1000]
    journal = Journal(folder, clock=lambda: now[0])
    journal.open(entry(1, outcome=OPEN))
    journal.finalize(entry(2))
    gone = journal.path
    assert gone is not None
    shutil.rmtree(folder)
    folder.write_text("no folder")
    assert journal.is_gone
    journal.rotate()
    assert journal.problem == "file exists"
    assert journal.descriptor == -1
    assert not journal.is_gone
    assert not journal.finalize(entry(3))
    # What it held can still be read.
    ((path, descriptor),) = journal.removed
    assert path == gone
    assert [found.id for found in read_segment(descriptor, 0).entries] == [entry(2).id]
    os.close(descriptor)
    folder.unlink()
    now[0] += 2_000_000_000
    assert journal.tend()
    assert journal.problem == ""
    assert ids(journal.path) == ["03"]
    assert journal.path is not None
    with journal.path.open("rb") as file:
        assert [found.id for found in read_contents(file.fileno()).open_entries] == [entry(1).id]
    journal.close()


def test_one_that_cannot_be_looked_for_is_not_gone_and_nobody_who_settles_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    journal = Journal(tmp_path, max_bytes=10)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", fail)
        assert not journal.is_gone
        journal.rotate()
        assert journal.finalize(entry(1))
    assert not journal.removed
    assert [ids(path) for path in journals_in(tmp_path)] == [["01"]]
    journal.close()


def test_one_that_is_gone_serves_on_until_it_can_be_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    folder = tmp_path / "records"
    journal = Journal(folder, max_bytes=10)
    gone = journal.path
    shutil.rmtree(folder)
    with monkeypatch.context() as patched:
        patched.setattr(os, "dup", fail)
        assert journal.finalize(entry(1))
        assert journal.path == gone
        assert not journal.removed
    assert journal.finalize(entry(2))
    ((path, descriptor),) = journal.removed
    assert path == gone
    assert [found.id for found in read_segment(descriptor, 0).entries] == [entry(1).id, entry(2).id]
    os.close(descriptor)
    journal.close()


@pytest.mark.parametrize("full", [False, True])
def test_one_that_is_gone_when_its_worker_ends_is_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    def fail(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    journal = Journal(tmp_path / "records")
    shutil.rmtree(tmp_path / "records")
    journal.finalize(entry(1))
    if full:
        monkeypatch.setattr(os, "dup", fail)
    journal.close()
    ((path, descriptor),) = journal.removed
    assert path == journal.path
    assert [found.id for found in read_segment(descriptor, 0).entries] == [entry(1).id]
    os.close(descriptor)


def test_neither_a_file_that_cannot_be_closed_nor_one_that_cannot_be_removed_fails_who_settles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def retire(descriptor: int) -> None:
        os.close(descriptor)
        raise OSError(errno.EIO, "Input/output error")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    disk = Disk()
    journal = Journal(tmp_path, max_bytes=10, write=disk.write, retire=retire)
    assert journal.finalize(entry(1))
    monkeypatch.setattr(Path, "unlink", fail)
    disk.room = 0
    journal.rotate()
    disk.room = None
    assert journal.finalize(entry(2))
    journal.close()
    assert [ids(path) for path in journals_in(tmp_path)] == [["01"], ["02"], [], [], []]


@pytest.mark.parametrize("later", [2, -3600])
def test_a_folder_that_cannot_be_made_is_told_and_tried_again(tmp_path: Path, later: int) -> None:
    place = tmp_path / "file"
    place.write_text("no folder")
    now = [NOON * 1000]
    journal = Journal(place, clock=lambda: now[0])
    assert journal.problem
    assert journal.descriptor == -1
    journal.open(entry(1, outcome=OPEN))
    assert not journal.finalize(entry(1))
    place.unlink()
    # Not at every line.
    assert not journal.finalize(entry(2))
    now[0] += later * 1_000_000_000
    assert journal.finalize(entry(3))
    assert ids(journal.path) == ["01", "02", "03"]
    journal.close()
    journal.rotate()
    assert not journal.finalize(entry(4))
    assert journal.descriptor == -1
