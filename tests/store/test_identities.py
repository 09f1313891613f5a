"""Identities as the store's connection reads them from the file."""

from __future__ import annotations

import pytest

from dragoman.identities.audit import AuditedIdentity
from dragoman.identities.identity import DATABASE, AcceptedDigest, Identity, Rights, StoredIdentity
from tests.store.inserted_identities import insert
from tests.store.opened import ALICE, BOB, opened, sqlite

pytestmark = pytest.mark.usefixtures("engine")


def test_an_identity_is_read_with_its_digests_and_rights() -> None:
    with opened() as store:
        db = store.connection
        rights = '{"role":"viewer","models":["claude-*"],"strict":"all","concurrency":3}'
        insert(db, 1, "ann", (b"former", 70.0), (b"present", None), (b"retired", 0), rights=rights)
        assert store.identities.get("ann") == StoredIdentity(
            identity=Identity(
                name="ann",
                owner=b"former",
                digests=(
                    AcceptedDigest(digest=b"present"),
                    AcceptedDigest(digest=b"former", until=70.0),
                    AcceptedDigest(digest=b"retired", until=0),
                ),
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
            store.connection.change(
                "INSERT INTO audit VALUES (?, ?, 'root', 'create', 'ann', NULL, '{}')", (number, float(number))
            )
        page = store.identities.audit(limit=3)
        assert [each.id for each in page] == [4, 3, 2]
        (last,) = store.identities.audit(before=2)
        assert (last.id, last.time, last.actor, last.action, last.subject) == (1, 1.0, "root", "create", "ann")
        assert (last.before, last.after) == (None, AuditedIdentity())


def test_a_name_belongs_to_the_owner_that_had_it_first() -> None:
    with opened() as store:
        assert store.identities.bind_names({"ann": ALICE, "bob": BOB}) == []
        assert store.identities.bind_names({"ann": ALICE, "bob": ALICE}) == ["bob"]
        rows = store.connection.rows("SELECT name, owner FROM key_names ORDER BY name")
        assert rows == [("ann", ALICE), ("bob", BOB)]


@pytest.mark.sqlite_only
def test_pitfall_739_pages_and_changes_are_read_by_an_index() -> None:
    with opened() as store:
        statements: list[str] = []
        sqlite(store.connection).set_trace_callback(statements.append)
        store.identities.page("ann", 3)
        store.identities.changes_since(5)
        store.identities.audit(7, 3)
        store.identities.get("ann")
        sqlite(store.connection).set_trace_callback(None)
        assert len(statements) == 4
        for statement in statements:
            plan = [row[3] for row in store.connection.rows(f"EXPLAIN QUERY PLAN {statement}")]
            assert not [step for step in plan if step.startswith("SCAN") and " i" not in step], (statement, plan)
