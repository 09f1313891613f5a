"""Identities as they are read from the file: by the store's connection, and by a reader that never writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.identities.identity import DATABASE, AcceptedDigest, Identity, Rights, StoredIdentity
from dragoman.store import MEMORY, StoreError, migrations
from dragoman.store.identity_reader import IdentityReader
from dragoman.store.migrations import IDENTITIES_VERSION, STEPS
from tests.store.opened import ALICE, BOB, opened


def insert(
    db: sqlite3.Connection, number: int, name: str, *digests: tuple[bytes, float | None], rights: str = "{}"
) -> None:
    """An identity of the file, changed by the change of its number; without the code that writes them."""
    db.execute(
        "INSERT INTO identities (id, name, owner, rights, tags, expires, created, created_by, revoked, generation)"
        """ VALUES (?, ?, ?, ?, '{"team":"web","app":"x"}', 9.5, 1.5, 'dragoman key', NULL, ?)""",
        (number, name, digests[0][0], rights, number),
    )
    db.executemany("INSERT INTO digests VALUES (?, ?, ?)", [(digest, number, until) for digest, until in digests])
    db.execute("UPDATE generation SET number = ?", (number,))


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


def test_an_identity_is_read_with_its_digests_and_rights() -> None:
    with opened() as store:
        db = store.connection
        rights = '{"role":"viewer","models":["claude-*"],"strict":"all","concurrency":3}'
        insert(db, 1, "ann", (b"former", 70.0), (b"present", None), (b"retired", 0), rights=rights)
        assert store.identities.get("ann") == StoredIdentity(
            identity=Identity(
                name="ann",
                owner=b"former",
                digests=(AcceptedDigest(digest=b"present"), AcceptedDigest(digest=b"former", until=70.0)),
                rights=Rights(role="viewer", models=("claude-*",), strict="all", concurrency=3),
                tags=(("app", "x"), ("team", "web")),
                expires=9.5,
                source=DATABASE,
            ),
            generation=1,
            created=1.5,
            created_by="dragoman key",
        )
        assert store.identities.get("bob") is None


def test_changes_are_given_in_their_order_and_equal_rights_are_one_value() -> None:
    with opened() as store:
        assert (store.identities.generation(), store.identities.has_any()) == (0, False)
        for number, name in ((1, "ann"), (2, "bob"), (3, "cid")):
            insert(store.connection, number, name, (name.encode(), None))
        assert (store.identities.generation(), store.identities.has_any()) == (3, True)
        every = store.identities.changes_since(0)
        assert [each.identity.name for each in every] == ["ann", "bob", "cid"]
        assert every[0].identity.rights is every[2].identity.rights
        assert every[0].identity.tags is every[2].identity.tags
        assert [each.identity.name for each in store.identities.changes_since(1)] == ["bob", "cid"]
        assert store.identities.changes_since(3) == []


def test_pages_follow_the_names() -> None:
    with opened() as store:
        for number, name in enumerate(("dan", "ann", "cid", "bob"), 1):
            insert(store.connection, number, name, (name.encode(), None), (b"former " + name.encode(), 7.0))
        page = [each.identity.name for each in store.identities.page(limit=3)]
        assert page == ["ann", "bob", "cid"]
        assert [each.identity.name for each in store.identities.page(page[-1], 3)] == ["dan"]
        assert store.identities.page("dan", 3) == []


def test_pages_of_the_audit_log_go_back_in_time() -> None:
    with opened() as store:
        for number in range(1, 5):
            store.connection.execute(
                "INSERT INTO audit VALUES (?, ?, 'root', 'create', 'ann', NULL, '{}')", (number, float(number))
            )
        page = store.identities.audit(limit=3)
        assert [each.id for each in page] == [4, 3, 2]
        (last,) = store.identities.audit(before=2)
        assert (last.id, last.time, last.actor, last.action, last.subject) == (1, 1.0, "root", "create", "ann")
        assert last.before is None and last.after is not None and bytes(last.after) == b"{}"


def test_a_name_belongs_to_the_owner_that_had_it_first() -> None:
    with opened() as store:
        assert store.identities.bind_names({"ann": ALICE, "bob": BOB}) == []
        assert store.identities.bind_names({"ann": ALICE, "bob": ALICE}) == ["bob"]
        rows = store.connection.execute("SELECT name, owner FROM key_names ORDER BY name").fetchall()
        assert rows == [("ann", ALICE), ("bob", BOB)]


def test_a_reader_sees_each_change_and_writes_nothing(file: Path, reader: IdentityReader) -> None:
    assert (reader.generation(), reader.changes_since(0)) == (0, [])
    with opened(file) as store:
        insert(store.connection, 1, "ann", (b"a", None))
        assert reader.generation() == 1
        assert reader.changes_since(0) == store.identities.changes_since(0)
        # A commit that changes no identity.
        store.cooldowns.persist("target", 4e9, b"")
        assert (reader.generation(), reader.changes_since(1)) == (1, [])
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
        assert (reader.generation(), reader.changes_since(0)) == (None, [])
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
    assert reader.generation() == 2
    before = reader.file
    backup.replace(file)
    assert (reader.generation(), reader.file == before) == (2, False)
    assert [each.identity.name for each in reader.changes_since(0)] == ["bob"]


def test_a_file_of_an_older_version_has_no_identities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state.db"
    with monkeypatch.context() as before:
        before.setattr(migrations, "STEPS", STEPS[: IDENTITIES_VERSION - 1])
        with closing(sqlite3.connect(file, isolation_level=None)) as db:
            migrations.migrate(db)
    with closing(IdentityReader(str(file))) as reader:
        assert (reader.generation(), reader.changes_since(0)) == (0, [])
        with opened(file) as store:
            insert(store.connection, 1, "ann", (b"a", None))
            assert reader.generation() == 1
            assert [each.identity.name for each in reader.changes_since(0)] == ["ann"]


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
