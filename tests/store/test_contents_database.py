"""The file of the contents: its place and rights, made anew, moved aside, refused."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dragoman.database_location import MEMORY, PostgresDatabase
from dragoman.store.contents import ExchangeRow
from dragoman.store.contents_database import contents_path, move_aside, open_contents
from dragoman.store.errors import NewerContents, StoreReplaced
from dragoman.store.sqlite import connect


def test_the_file_is_beside_the_gateways_and_its_users_alone(tmp_path: Path) -> None:
    place = tmp_path / "new" / "state.db"
    open_contents(str(place)).close()
    path = place.with_name("contents.db")
    assert contents_path(str(place)) == path
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]
    assert not place.exists()
    assert contents_path(MEMORY) is None and contents_path("") is None
    assert contents_path(PostgresDatabase(address="", name="", path=str(place))) is None


def test_a_deleted_file_is_noticed_and_made_anew(tmp_path: Path) -> None:
    place = str(tmp_path / "state.db")
    tables = open_contents(place)
    tables.add_exchange(ExchangeRow(id="a", time=0, key="ann"))
    # What SQLite has beside the file stays, as after `rm contents.db`.
    (tmp_path / "contents.db").unlink()
    with pytest.raises(StoreReplaced), tables.transaction():
        tables.add_exchange(ExchangeRow(id="b", time=0, key="ann"))
    tables.forget_added()
    other = open_contents(place)
    assert other.count() == 0
    other.add_exchange(ExchangeRow(id="c", time=0, key="ann"))
    tables.close()
    other.close()
    again = open_contents(place)
    assert again.count() == 1
    again.close()


@pytest.mark.parametrize("damage", [b"no database at all" * 99, b"SQLite format 3\0" + b"\xff" * 4080])
def test_a_damaged_file_is_moved_aside(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "contents.db").write_bytes(damage)
    tables = open_contents(str(tmp_path / "state.db"))
    assert tables.count() == 0
    tables.close()
    aside = [path for path in tmp_path.iterdir() if ".damaged-" in path.name]
    assert [path.read_bytes() for path in aside] == [damage]


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    place, path = str(tmp_path / "state.db"), tmp_path / "contents.db"
    open_contents(place).close()
    db = connect(str(path), 1)
    db.change("PRAGMA user_version = 99")
    db.close()
    before = path.read_bytes()
    with pytest.raises(NewerContents, match="newer version"):
        open_contents(place)
    assert path.read_bytes() == before


def test_moving_aside_takes_all_files(tmp_path: Path) -> None:
    path = tmp_path / "contents.db"
    for suffix in ("", "-wal"):
        Path(f"{path}{suffix}").write_text("x")
    aside = move_aside(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([aside.name, f"{aside.name}-wal"])


def test_the_file_gets_shorter(tmp_path: Path) -> None:
    tables = open_contents(str(tmp_path / "state.db"))
    with tables.transaction():
        tables.add_piece(b"1", b"", 1, bytes(1_000_000))
    assert tables.wipe()
    size = (tmp_path / "contents.db").stat().st_size
    assert size > 1_000_000
    tables.connection.change("DELETE FROM pieces")
    assert tables.wipe()
    assert (tmp_path / "contents.db").stat().st_size < size - 900_000
    tables.close()
