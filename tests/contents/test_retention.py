"""Retention by age and size in small steps, and erasure for good."""

from __future__ import annotations

from pathlib import Path

from dragoman.contents.archive import Archive, open_archive
from dragoman.contents.exchange_contents import BodySide, ExchangeContents, StoredBody
from dragoman.contents.redaction import ContentsRedactor
from dragoman.contents.retention import RetentionLimits, begin_erasure, erase, retain
from dragoman.store.contents_database import move_aside
from dragoman.store.sqlite import connect_to_read

DAY = 86_400_000_000
MARKER = b"q7Zk3Vx9Lw2Rf8Tn"


def opened(place: str) -> Archive:
    return open_archive(place, ContentsRedactor())


def write(archive: Archive, name: str, *, time: int = 0, key: str = "ann", data: bytes = b"") -> None:
    body = StoredBody(side=BodySide.CLIENT_REQUEST, data=data or name.encode() * 400)
    archive.write(ExchangeContents(id=name, time=time, key=key, bodies=(body,)))


def retained(archive: Archive, limits: RetentionLimits, now: int) -> list[str]:
    while retain(archive.tables, limits, now):
        pass
    return archive.tables.oldest(100)


def test_the_oldest_go_first_by_age_and_by_size(tmp_path: Path) -> None:
    archive = opened(str(tmp_path / "state.db"))
    for day in range(30):
        write(archive, f"{day:02}", time=day * DAY)
    assert retain(archive.tables, RetentionLimits(days=10), 30 * DAY) <= 10
    limits = RetentionLimits(days=10)
    assert retained(archive, limits, 30 * DAY) == [f"{day:02}" for day in range(20, 30)]
    small = RetentionLimits(days=10, max_bytes=archive.tables.total_bytes() - 1)
    assert retained(archive, small, 30 * DAY) == []
    assert archive.tables.total_bytes() == 0
    archive.close()


def test_erased_text_is_in_no_file(tmp_path: Path) -> None:
    place = str(tmp_path / "state.db")
    archive = opened(place)
    write(archive, "a", data=MARKER)
    write(archive, "b", data=MARKER, key="ben")
    write(archive, "c", key="ben")
    assert erase(place, ["a", "unknown"]).exchanges == 1
    assert archive.tables.oldest(9) == ["b", "c"]
    done = erase(place, key="ben", timeout=0)
    assert (done.exchanges, done.remaining) == (2, ())
    assert not any(MARKER in path.read_bytes() for path in tmp_path.iterdir())
    archive.close()


def test_a_reader_that_stays_is_waited_for_and_reported(tmp_path: Path) -> None:
    place = str(tmp_path / "state.db")
    archive = opened(place)
    write(archive, "a", data=MARKER)
    reader = connect_to_read(tmp_path / "contents.db", 1)
    reader.begin(writes=False)
    assert reader.number("SELECT count(*) FROM exchanges") == 1
    waited: list[float] = []
    done = erase(place, ["a"], timeout=0, pause=waited.append)
    assert done.exchanges == 1 and "another process reads" in done.remaining[0]

    def release(seconds: float) -> None:
        reader.rollback()

    reader.rollback()
    reader.begin(writes=False)
    reader.number("SELECT count(*) FROM exchanges")
    write(archive, "b")
    assert erase(place, ["b"], pause=release).remaining == ()
    assert not any(MARKER in path.read_bytes() for path in tmp_path.iterdir())
    reader.close()
    archive.close()


def test_without_contents_nothing_is_made(tmp_path: Path) -> None:
    assert erase(str(tmp_path / "state.db"), ["a"]).exchanges == 0
    assert list(tmp_path.iterdir()) == []


def test_an_erasure_makes_a_file_only_where_one_could_be_made(tmp_path: Path) -> None:
    place = str(tmp_path / "state.db")
    begin_erasure(place, "ann", 0, creates=False)
    assert list(tmp_path.iterdir()) == []
    begin_erasure(place, "ann", 0, creates=True)
    archive = opened(place)
    write(archive, "a")
    assert archive.read("a") is None
    archive.close()


def test_an_erasure_ends_when_no_exchange_still_runs(tmp_path: Path) -> None:
    place = str(tmp_path / "state.db")
    begin_erasure(place, "ann", DAY, creates=True)
    archive = opened(place)
    retained(archive, RetentionLimits(), 8 * DAY)
    write(archive, "early", time=DAY)
    assert archive.read("early") is None
    retained(archive, RetentionLimits(), 8 * DAY + 1)
    write(archive, "late", time=DAY)
    assert archive.read("late") is not None
    archive.close()


def test_the_contents_of_clients_without_a_key_are_erased(tmp_path: Path) -> None:
    place = str(tmp_path / "state.db")
    archive = opened(place)
    write(archive, "a", key="")
    write(archive, "b")
    assert erase(place, key="").exchanges == 1
    assert archive.tables.oldest(9) == ["b"]
    archive.close()


def test_damaged_files_that_were_moved_aside_are_reported(tmp_path: Path) -> None:
    archive = opened(str(tmp_path / "state.db"))
    write(archive, "a")
    archive.close()
    aside = move_aside(tmp_path / "contents.db")
    assert erase(str(tmp_path / "state.db"), ["a"]).remaining == (
        f"{aside}: a damaged file that was moved aside may have the text: remove it",
    )
