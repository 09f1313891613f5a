"""The log's own file: for its owner alone, bounded, and shared by workers."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.gateway.observability.log_file import MAX_LOG_BYTES, LogFile
from dragoman.gateway.observability.logs import Log

Opened = Callable[..., LogFile]
LINE = "x" * 99 + "\n"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Opens the log, and closes it behind the test, as the end of its process does."""
    files: list[LogFile] = []

    def open_log(largest: int = MAX_LOG_BYTES) -> LogFile:
        files.append(LogFile(tmp_path / "log", largest))
        return files[-1]

    yield open_log
    for file in files:
        os.close(file.out.fileno())


def written(file: LogFile, times: int = 1) -> None:
    for _ in range(times):
        file.make_room(len(LINE))
        os.write(file.out.fileno(), LINE.encode())


def test_it_is_for_its_owner_alone_and_added_to(tmp_path: Path, opened: Opened) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    path.chmod(0o644)
    written(opened())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "before\n" + LINE


def test_what_is_full_becomes_the_one_before(tmp_path: Path, opened: Opened) -> None:
    path = tmp_path / "log"
    written(opened(350), 8)
    before = tmp_path / "log.1"
    assert (path.read_text(), before.read_text()) == (LINE * 2, LINE * 3)
    assert stat.S_IMODE(before.stat().st_mode) == 0o600


def test_one_line_that_is_too_large_is_written_all_the_same(tmp_path: Path, opened: Opened) -> None:
    path = tmp_path / "log"
    written(opened(10))
    assert path.read_text() == LINE


def test_who_comes_second_takes_nothing_away(tmp_path: Path, opened: Opened) -> None:
    path = tmp_path / "log"
    one, other = opened(350), opened(350)
    written(one, 3)
    written(one)
    written(other)
    assert (path.read_text(), (tmp_path / "log.1").read_text()) == (LINE * 2, LINE * 3)


def test_a_file_that_somebody_took_away_is_begun_anew(tmp_path: Path, opened: Opened) -> None:
    path = tmp_path / "log"
    file = opened(350)
    written(file, 3)
    path.unlink()
    written(file)
    assert path.read_text() == LINE


@pytest.mark.parametrize("kind", ["folder", "link", "fifo"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(path)
    with pytest.raises(OSError, match="log"):
        LogFile(path)


def test_a_log_makes_room_before_it_writes(tmp_path: Path, opened: Opened) -> None:
    file = opened(150)
    log = Log(file.out)
    log.bound(file.make_room)
    for number in range(3):
        log.event("info", "something happened", number=number)
        log.close()
    lines = [(tmp_path / name).read_text() for name in ("log.1", "log")]
    assert ['"number":1' in lines[0], '"number":2' in lines[1]] == [True, True]
