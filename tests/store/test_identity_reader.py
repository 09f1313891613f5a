"""The reader of identities: sees each change of a file that may be missing, replaced or damaged, and never writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.database_location import MEMORY
from dragoman.store import StoreError
from dragoman.store.identities import IdentityCount
from dragoman.store.identity_reader import IdentityReader, count_identities
from dragoman.store.migrations import sqlite as migrations
from dragoman.store.migrations.sqlite import IDENTITIES_VERSION, STEPS
from dragoman.store.sqlite import connect
from tests.store.inserted_identities import insert
from tests.store.opened import opened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with the tables of today."""
    file = tmp_path / "state.db"
    with opened(file):
        pass
    return file


@pytest.fixture
def reader(file: Path) -> Iterator[IdentityReader]:
    with closing(IdentityReader(str(file))) as reader:
        yield reader


def test_a_reader_sees_each_change_and_writes_nothing(file: Path, reader: IdentityReader) -> None:
    assert (reader.generation(), reader.origin, reader.changes_since(0, list)) == (0, b"", [])
    with opened(file) as store:
        insert(store.connection, 1, "ann", (b"a", None))
        assert (reader.generation(), reader.origin) == (1, b"a")
        assert reader.changes_since(0, list) == store.identities.changes_since(0)
        # A commit that changes no identity.
        store.cooldowns.persist("target", 4e9, b"")
        assert (reader.generation(), reader.changes_since(1, list)) == (1, [])
        db = reader._opened()
        assert db is not None
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("DELETE FROM identities")


def test_a_reader_asks_for_the_generation_only_after_a_commit(file: Path, reader: IdentityReader) -> None:
    reader.generation()
    db = reader._opened()
    assert db is not None
    statements: list[str] = []
    db.set_trace_callback(statements.append)
    reader.generation()
    assert statements == ["PRAGMA data_version"]
    with opened(file) as store:
        insert(store.connection, 1, "ann", (b"a", None))
    reader.generation()
    assert "SELECT number FROM generation" in statements


def test_a_missing_file_is_no_error_and_is_seen_when_it_is_made(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with closing(IdentityReader(str(file))) as reader:
        assert (reader.generation(), reader.changes_since(0, list)) == (None, [])
        assert not file.exists()
        with opened(file) as store:
            insert(store.connection, 1, "ann", (b"a", None))
            assert reader.generation() == 1
        file.unlink()
        assert reader.generation() is None
    with closing(IdentityReader(MEMORY)) as reader:
        assert reader.generation() is None


def test_a_restored_file_is_another_file(tmp_path: Path, file: Path, reader: IdentityReader) -> None:
    backup = tmp_path / "backup.db"
    with opened(backup) as store:
        insert(store.connection, 2, "bob", (b"b", None))
    with opened(file) as store:
        insert(store.connection, 2, "ann", (b"a", None))
    assert (reader.generation(), reader.origin) == (2, b"a")
    before = reader.file
    backup.replace(file)
    assert (reader.generation(), reader.file == before, reader.origin) == (2, False, b"b")
    assert [each.identity.name for each in reader.changes_since(0, list)] == ["bob"]


def test_a_file_that_was_overwritten_in_place_is_another_file(
    tmp_path: Path, file: Path, reader: IdentityReader
) -> None:
    backup = tmp_path / "backup.db"
    with opened(backup) as store:
        insert(store.connection, 2, "carl", (b"c", None))
    with opened(file) as store:
        insert(store.connection, 2, "bob", (b"b", None))
        assert reader.generation() == 2
    before, inode = reader.file, file.stat().st_ino
    # The reader still has the files of the former log open.
    for name in ("-wal", "-shm"):
        file.with_name(file.name + name).unlink()
    file.write_bytes(backup.read_bytes())
    assert (reader.generation(), reader.file == before, file.stat().st_ino == inode) == (2, False, True)
    assert [each.identity.name for each in reader.changes_since(0, list)] == ["carl"]


def test_a_file_is_opened_again_from_time_to_time(
    file: Path, reader: IdentityReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(file) as store:
        insert(store.connection, 1, "ann", (b"a", None))
        assert reader.generation() == 1
        first, before = reader._db, reader.file
        assert reader.generation() == 1 and reader._db is first
        monkeypatch.setattr("dragoman.store.identity_reader._MAX_AGE", 0.0)
        assert reader.generation() == 1 and reader._db is not first
        assert reader.file == before


def test_a_file_of_an_older_version_has_no_identities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state.db"
    with monkeypatch.context() as before:
        before.setattr(migrations, "STEPS", STEPS[: IDENTITIES_VERSION - 1])
        with closing(connect(str(file), 0)) as db:
            migrations.migrate(db)
    with closing(IdentityReader(str(file))) as reader:
        assert (reader.generation(), reader.changes_since(0, list)) == (0, [])
        with opened(file) as store:
            insert(store.connection, 1, "ann", (b"a", None))
            assert reader.generation() == 1
            assert [each.identity.name for each in reader.changes_since(0, list)] == ["ann"]


def test_a_file_that_cannot_be_read_is_an_error_until_it_is_repaired(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(b"no database " * 1000)
    with closing(IdentityReader(str(file))) as reader:
        with pytest.raises(StoreError, match="not a database"):
            reader.generation()
        file.write_bytes(whole)
        assert reader.generation() == 0
        with closing(sqlite3.connect(file)) as db:
            db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
        with pytest.raises(StoreError, match="newer version"):
            reader.generation()


def test_identities_are_counted_without_making_a_file(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    assert [count_identities(path, 100.0) for path in ("", MEMORY, str(file))] == [IdentityCount()] * 3
    assert not file.exists()
    with opened(file) as store:
        for number, name in enumerate(("ann", "bob", "cid"), 1):
            insert(store.connection, number, name, (name.encode(), None), expires=None)
        store.connection.change("UPDATE identities SET expires = 100 WHERE id = 1")
        store.connection.change("UPDATE identities SET expires = 101 WHERE id = 2")
        assert count_identities(str(file), 100.0) == IdentityCount(total=3, accepted=2)
        store.connection.change("UPDATE identities SET revoked = 1 WHERE id = 3")
        assert count_identities(str(file), 100.0) == IdentityCount(total=3, accepted=1)
