"""Privileges of the role that serves: they are listed, given as a whole, and enough for everything that it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from dragoman.config.configured_keys import configured_names
from dragoman.config.settings import Settings
from dragoman.contents.archive import open_archive
from dragoman.contents.exchange_contents import BodySide, ExchangeContents, StoredBody
from dragoman.contents.redaction import ContentsRedactor
from dragoman.contents.retention import RetentionLimits, erase, retain
from dragoman.database_location import PostgresDatabase
from dragoman.errors import DragomanError
from dragoman.identities.changes import LOCAL_MAKER
from dragoman.identities.members import KeyMembers
from dragoman.records.rows import Batch
from dragoman.store import postgres_database
from dragoman.store.contents_database import open_contents
from dragoman.store.database import open_tables
from dragoman.store.heartbeat import ServerHeartbeat
from dragoman.store.migrations.postgres import migrate
from dragoman.store.postgres import PostgresConnection
from dragoman.store.postgres_database import administer
from dragoman.store.postgres_privileges import grant_to, may_migrate, missing_privileges, role_of
from dragoman.store.record_tables import open_record_tables
from dragoman.store.server_state import ServerState
from tests.records.invented import NOON, entry
from tests.store.opened import ALICE, item, kept
from tests.waiting import LIMIT

_ROLE = 'se"rve'


@pytest.fixture
def owner(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresConnection]:
    """The owner of the tables, and beside it the role of `serve`."""
    monkeypatch.setattr(postgres_database, "TIMEOUT", LIMIT)
    location = PostgresDatabase(address=database, name="", path="")
    open_contents(location, timeout=LIMIT).close()
    with closing(administer(location)) as db:
        migrate(db)
        db.script('CREATE ROLE "se""rve" LOGIN')
        yield db
        db.script('DROP OWNED BY "se""rve"; DROP ROLE "se""rve"')


@pytest.fixture
def location(database: str) -> PostgresDatabase:
    return PostgresDatabase(address=f"{database} user='{_ROLE}'", name="db1", path="state.db")


def test_what_a_role_lacks_is_named(owner: PostgresConnection, location: PostgresDatabase) -> None:
    with closing(administer(location)) as serving:
        assert role_of(serving) == _ROLE
        missing = missing_privileges(serving)
        assert "USAGE on schema dragoman" in missing
        assert {"SELECT on schema_version", "DELETE on records"} <= set(missing)
        assert {"USAGE on schema dragoman_contents", "INSERT on dragoman_contents.exchanges"} <= set(missing)
        assert "UPDATE on schema_version" not in missing and "UPDATE on dragoman_contents.schema_version" not in missing
        grant_to(owner, _ROLE)
        assert missing_privileges(serving) == []
        owner.script('REVOKE INSERT ON dragoman.audit FROM "se""rve"')
        assert missing_privileges(serving) == ["INSERT on audit"]
        assert (may_migrate(owner), may_migrate(serving)) == (True, False)


def test_tables_of_later_migrations_are_included(owner: PostgresConnection, location: PostgresDatabase) -> None:
    grant_to(owner, _ROLE)
    owner.script("CREATE TABLE dragoman.later (id bigint)")
    owner.script("CREATE TABLE dragoman_contents.later (id bigint)")
    with closing(administer(location)) as serving:
        assert missing_privileges(serving) == []
        serving.change("INSERT INTO later (id) VALUES (1)")
        serving.change("INSERT INTO dragoman_contents.later (id) VALUES (1)")


def test_a_role_that_does_not_exist_gets_nothing(owner: PostgresConnection) -> None:
    with pytest.raises(DragomanError, match="there is no role other"):
        grant_to(owner, "other")


def test_everything_that_serve_does_is_permitted(owner: PostgresConnection, location: PostgresDatabase) -> None:
    grant_to(owner, _ROLE)
    with closing(ServerHeartbeat(location, ServerState(), LIMIT)) as heartbeat:
        assert heartbeat.generation() == 0
    with closing(open_tables(location, 30)) as tables:
        assert tables.responses.add(ALICE, kept("resp_1"), [item("msg_1")])
        assert tables.conversations.create(ALICE, "conv_1", b"{}", [item("msg_2")])
        assert tables.conversations.lease(ALICE, "conv_1", "resp_1")
        tables.events.add("resp_1", 0, b"event")
        tables.turns.add(ALICE, "call", b"turn")
        tables.cooldowns.persist("target", 1.0, b"{}")
        created = tables.identity_changes.create(
            "laptop", KeyMembers(), b"l" * 32, maker=LOCAL_MAKER, configured=configured_names(Settings())
        )
        tables.identity_changes.revoke(created.identity.name, maker=LOCAL_MAKER)
        assert tables.identities.bind_names({"configured": b"c" * 32}) == []
        tables.sweep()
        assert tables.responses.delete(ALICE, "resp_1")
    with closing(open_record_tables(location)) as records:
        batch = Batch()
        batch.add_unassigned(entry(1))
        with records.transaction():
            batch.write_rows(records)
            batch.write_rollups(records)
            assert records.offsets.move("journal", 0, 1)
            records.offsets.remove("journal")
        assert records.connection.rows("SELECT drop_month(?)", (NOON,)) == [(True,)]


def test_a_role_that_only_serves_stores_and_erases_contents(
    owner: PostgresConnection, location: PostgresDatabase
) -> None:
    grant_to(owner, _ROLE)
    body = StoredBody(side=BodySide.CLIENT_REQUEST, data=b'{"messages":[{"content":"Hi."}]}')
    with closing(open_archive(location, ContentsRedactor())) as archive:
        for name in ("a", "b"):
            archive.write(ExchangeContents(id=name, time=0, key="ann", bodies=(body,)))
        assert archive.read("a") is not None
        assert retain(archive.tables, RetentionLimits(days=1), 1) == 0
    assert erase(location, ["a"]).exchanges == 1
    assert erase(location, key="ann").exchanges == 1


def test_without_tables_of_contents_a_role_that_only_serves_has_nothing_to_erase(
    owner: PostgresConnection, location: PostgresDatabase
) -> None:
    grant_to(owner, _ROLE)
    owner.script("DROP SCHEMA dragoman_contents CASCADE")
    with closing(administer(location)) as serving:
        assert missing_privileges(serving) == []
    assert erase(location, ["a"], key="ann").exchanges == 0
    assert owner.row("SELECT 1 FROM pg_namespace WHERE nspname = 'dragoman_contents'") is None
