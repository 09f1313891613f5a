"""The retention thread removes what is too old, makes no file, and reports what it cannot do."""

from __future__ import annotations

from pathlib import Path

from dragoman.contents.archive import open_archive
from dragoman.contents.exchange_contents import ExchangeContents
from dragoman.contents.redaction import ContentsRedactor
from dragoman.contents.retention import RetentionLimits
from dragoman.contents.retention_thread import RetentionThread
from tests.waiting import wait_until

DAY = 86_400_000_000


def started(place: Path, logged: list[tuple[str, str]]) -> RetentionThread:
    thread = RetentionThread(
        str(place / "state.db"),
        RetentionLimits(days=30),
        lambda level, words: logged.append((level, words)),
        clock=lambda: 40 * 86_400.0,
    )
    thread.start()
    return thread


def test_what_is_too_old_is_removed_without_the_encryption_key(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path / "state.db"), ContentsRedactor(), key="a key of the former settings")
    for day in range(40):
        archive.write(ExchangeContents(id=f"{day:02}", time=day * DAY, key="ann", reason="too large"))
    logged: list[tuple[str, str]] = []
    thread = started(tmp_path, logged)
    wait_until(lambda: thread.removed == 10, "the retention")
    assert thread.close(60.0) and logged == []
    assert archive.tables.oldest(1) == ["10"]
    archive.close()


def test_no_file_is_made(tmp_path: Path) -> None:
    logged: list[tuple[str, str]] = []
    assert started(tmp_path, logged).close(60.0)
    assert (list(tmp_path.iterdir()), logged) == ([], [])


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    (tmp_path / "contents.db").mkdir()
    logged: list[tuple[str, str]] = []
    thread = started(tmp_path, logged)
    wait_until(lambda: bool(logged), "the log")
    assert thread.close(60.0)
    assert [level for level, _ in logged] == ["warn"]
    assert logged[0][1].startswith("cannot remove contents that are too old: ")
