"""Changes of identities in the file: all or nothing, numbered, and each with a row of the audit log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.identities.changes import LOCAL_MAKER, ConfiguredNames, ImportedKey, Maker
from dragoman.identities.errors import (
    BeyondMaker,
    ImportRefused,
    KeyChangeError,
    KeyExists,
    KeyMissing,
    KeyMoved,
    KeyRevoked,
)
from dragoman.identities.identity import ADMIN, VIEWER, Identity, Rights, StoredIdentity
from dragoman.identities.key_text import digest_of, new_key
from dragoman.identities.members import KeyMembers
from dragoman.identities.permissions import uncovered
from dragoman.store import StoreBusy, Tables
from dragoman.store.errors import StoreFull
from dragoman.store.identities import RETIRED
from tests.identities.holders import holder
from tests.store.opened import ALICE, Clock, opened, sqlite

pytestmark = pytest.mark.usefixtures("engine")

NOTHING = ConfiguredNames()
ANY = KeyMembers()


def digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def create(store: Tables, name: str, members: KeyMembers = ANY, maker: Maker = LOCAL_MAKER) -> Identity:
    changes = store.identity_changes
    return changes.create(name, members, digest(name), maker=maker, configured=NOTHING).identity


def maker_of(identity: Identity) -> Maker:
    return Maker(name=identity.name, key=identity)


def rows(store: Tables, table: str) -> list[tuple[object, ...]]:
    return store.connection.rows(f"SELECT * FROM {table} ORDER BY 1")


@pytest.fixture
def store() -> Iterator[Tables]:
    with opened() as store:
        yield store


def test_pitfall_733_each_change_has_a_number_and_a_row_in_the_audit_log(store: Tables) -> None:
    changes = store.identity_changes
    create(store, "ann", KeyMembers(models=("fast",), tags={"team": "web"}))
    changes.change("ann", KeyMembers(models=None), maker=LOCAL_MAKER)
    changes.rotate("ann", digest("ann 2"), 60, maker=LOCAL_MAKER)
    changes.revoke("ann", maker=LOCAL_MAKER)
    assert store.identities.generation() == 4
    entries = store.identities.audit()[::-1]
    assert [entry.action for entry in entries] == ["create", "change", "rotate", "revoke"]
    assert {(entry.actor, entry.subject) for entry in entries} == {("dragoman key", "ann")}
    # Each begins with what the one before it ended with.
    assert [entry.before for entry in entries] == [None, *(entry.after for entry in entries[:-1])]
    first, _, rotated, revoked = (entry.after for entry in entries)
    assert (first.rights.models, first.tags) == (("fast",), {"team": "web"})
    assert rotated.former_until == Clock().now + 60
    assert revoked.revoked == Clock().now


def test_a_refused_change_leaves_nothing(store: Tables) -> None:
    create(store, "ann")
    before = [rows(store, table) for table in ("identities", "digests", "generation", "audit", "key_names")]
    changes = store.identity_changes
    with pytest.raises(KeyExists, match="never given again"):
        create(store, "ann")
    with pytest.raises(KeyExists, match="the same key is or was that of ann"):
        changes.create("bob", ANY, digest("ann"), maker=LOCAL_MAKER, configured=NOTHING)
    with pytest.raises(KeyExists, match="the same key"):
        changes.rotate("ann", digest("ann"), 0, maker=LOCAL_MAKER)
    with pytest.raises(KeyMissing, match="no key bob"):
        changes.revoke("bob", maker=LOCAL_MAKER)
    with pytest.raises(KeyMoved):
        changes.change("ann", ANY, maker=LOCAL_MAKER, expected=2)
    assert [rows(store, table) for table in ("identities", "digests", "generation", "audit", "key_names")] == before


def test_names_and_digests_of_revoked_identities_are_never_given_again(store: Tables) -> None:
    create(store, "ann")
    changes = store.identity_changes
    changes.rotate("ann", digest("ann 2"), 0, maker=LOCAL_MAKER)
    changes.revoke("ann", maker=LOCAL_MAKER)
    with pytest.raises(KeyExists, match="is or was"):
        create(store, "ann")
    for text in ("ann", "ann 2"):
        with pytest.raises(KeyExists, match="is or was"):
            changes.create("bob", ANY, digest(text), maker=LOCAL_MAKER, configured=NOTHING)
    with pytest.raises(KeyRevoked):
        changes.change("ann", ANY, maker=LOCAL_MAKER)


def test_names_of_the_configuration_and_of_records_are_refused(store: Tables) -> None:
    changes = store.identity_changes
    configured = ConfiguredNames(owners={"ci": ALICE}, digests={ALICE: "ci"}, rule_names=frozenset({"bob"}))
    for name in ("ci", "bob", "launch", "first", "local"):
        with pytest.raises(KeyExists):
            changes.create(name, ANY, digest(name), maker=LOCAL_MAKER, configured=configured)
    with pytest.raises(KeyExists, match="same key as ci"):
        changes.create("ann", ANY, ALICE, maker=LOCAL_MAKER, configured=configured)
    store.identities.bind_names({"former": ALICE})
    store.connection.change(
        "INSERT INTO sums (quarter, key, client, provider, model) VALUES (1, 'recorded', '', '', '')"
    )
    for name in ("former", "recorded"):
        with pytest.raises(KeyExists, match="records have requests of another key"):
            create(store, name)
    # A key that moves from the configuration to the database keeps its name.
    moved = changes.create("former", ANY, ALICE, maker=LOCAL_MAKER, configured=NOTHING)
    assert (moved.identity.name, moved.identity.owner) == ("former", ALICE)


def test_the_maker_is_read_again_in_the_transaction(store: Tables) -> None:
    root = create(store, "root", KeyMembers(role=ADMIN))
    create(store, "ann", maker=maker_of(root))
    assert store.identities.audit()[0].actor == "root"
    store.identity_changes.change("root", KeyMembers(models=("fast",)), maker=LOCAL_MAKER)
    with pytest.raises(BeyondMaker, match="models"):
        create(store, "bob", maker=maker_of(root))
    store.identity_changes.change("root", KeyMembers(role=VIEWER, models=None), maker=LOCAL_MAKER)
    with pytest.raises(BeyondMaker, match="no administrator"):
        create(store, "bob", maker=maker_of(root))
    store.identity_changes.revoke("root", maker=LOCAL_MAKER)
    with pytest.raises(BeyondMaker, match="revoked"):
        create(store, "bob", maker=maker_of(root))
    # An administrator of the configuration is not in the file.
    admin = holder("file-admin", ALICE, rights=Rights(role=ADMIN))
    assert create(store, "bob", maker=maker_of(admin)).name == "bob"


def test_an_import_is_all_or_nothing_and_names_every_problem(store: Tables) -> None:
    create(store, "ann")
    changes = store.identity_changes
    keys = [
        ImportedKey(name=name, digest=digest(f"sk-{name}"), members=ANY) for name in ("bob", "cid", "ann", "launch")
    ]
    keys.append(ImportedKey(name="dan", digest=digest("sk-bob"), members=ANY))
    with pytest.raises(ImportRefused) as caught:
        changes.import_all(keys, maker=LOCAL_MAKER, configured=NOTHING)
    assert [problem.member for problem in caught.value.problems] == ["ann: name", "launch: name", "dan"]
    assert (store.identities.generation(), len(rows(store, "identities"))) == (1, 1)
    imported = changes.import_all(keys[:2], maker=LOCAL_MAKER, configured=NOTHING)
    assert [(each.identity.name, each.generation) for each in imported] == [("bob", 2), ("cid", 2)]
    assert [entry.action for entry in store.identities.audit(limit=2)] == ["import", "import"]
    assert [each.identity.name for each in store.identities.changes_since(1)] == ["bob", "cid"]


def test_two_administrators_cannot_lose_an_update(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with opened(file) as first, opened(file) as second:
        create(first, "ann")
        read = [store.identities.get("ann") for store in (first, second)]
        assert read[0] is not None and read[0] == read[1]
        expected = read[0].generation
        after = first.identity_changes.change("ann", KeyMembers(models=("fast",)), maker=LOCAL_MAKER, expected=expected)
        with pytest.raises(KeyMoved):
            second.identity_changes.change(
                "ann", KeyMembers(providers=("anthropic",)), maker=LOCAL_MAKER, expected=expected
            )
        assert second.identities.get("ann") == after
        # After it was read again, the other change is added to the first one.
        second.identity_changes.change(
            "ann", KeyMembers(providers=("anthropic",)), maker=LOCAL_MAKER, expected=after.generation
        )
        present = first.identities.get("ann")
        assert present is not None
        assert present.identity.rights == Rights(models=("fast",), providers=("anthropic",))


@pytest.mark.sqlite_only
def test_a_change_waits_for_no_other_process(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with opened(file) as store, closing(sqlite3.connect(file)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="locked"):
            create(store, "ann")
        other.rollback()
        assert create(store, "ann").name == "ann"


@pytest.mark.sqlite_only
def test_a_full_database_keeps_what_it_had(tmp_path: Path) -> None:
    with opened(tmp_path / "state.db") as store:
        create(store, "ann")
        pages = store.connection.number("PRAGMA page_count")
        store.connection.change(f"PRAGMA max_page_count = {pages}")
        keys = [ImportedKey(name=f"n{number}", digest=digest(str(number)), members=ANY) for number in range(1000)]
        with pytest.raises(StoreFull, match="full"):
            store.identity_changes.import_all(keys, maker=LOCAL_MAKER, configured=NOTHING)
        assert (store.identities.generation(), len(rows(store, "identities"))) == (1, 1)


@pytest.mark.sqlite_only
def test_pitfall_448_no_key_text_is_in_the_file(tmp_path: Path) -> None:
    texts = [new_key() for _ in range(3)]
    with opened(tmp_path / "state.db") as store:
        changes = store.identity_changes
        changes.create("ann", ANY, digest_of(texts[0]), maker=LOCAL_MAKER, configured=NOTHING)
        changes.rotate("ann", digest_of(texts[1]), 60, maker=LOCAL_MAKER)
        for text in texts[:2]:
            with pytest.raises(KeyExists) as caught:
                changes.create("bob", ANY, digest_of(text), maker=LOCAL_MAKER, configured=NOTHING)
            assert text not in str(caught.value) and digest_of(text).hex() not in str(caught.value)
        audit = "".join(str(row) for row in rows(store, "audit"))
        assert not any(digest_of(text).hex() in audit for text in texts)
        dump = "\n".join(sqlite(store.connection).iterdump())
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        assert not any(text.encode() in content or text in dump for text in texts), path


# Random changes against a model of what they must do.
NAMES = ("root", "ann", "bob")
LISTS = st.sampled_from([None, ("fast",), ("fast", "claude-*")])
MEMBERS = st.builds(KeyMembers, role=st.sampled_from(["client", ADMIN]), models=LISTS)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["create", "change", "rotate", "revoke"]),
        st.sampled_from(NAMES),
        st.sampled_from((None, *NAMES)),
        MEMBERS,
        st.integers(0, 6),
        st.sampled_from([0.0, 40.0]),
        st.sampled_from([0.0, 30.0]),
    ),
    max_size=25,
)


def do(store: Tables, action: str, name: str, maker: Maker, members: KeyMembers, text: int, grace: float) -> None:
    changes = store.identity_changes
    if action == "create":
        changes.create(name, members, digest(str(text)), maker=maker, configured=NOTHING)
    elif action == "change":
        changes.change(name, members, maker=maker)
    elif action == "rotate":
        changes.rotate(name, digest(str(text)), grace, maker=maker)
    else:
        changes.revoke(name, maker=maker)


def exceeds(maker: StoredIdentity, stored: StoredIdentity) -> str | None:
    identity = stored.identity
    return uncovered(maker.identity, identity.rights, identity.tags, identity.expires)


# The rules are no matter of the engine, and 150 examples take a minute of PostgreSQL.
@pytest.mark.sqlite_only
@settings(max_examples=150, deadline=None)
@given(CHANGES)
def test_pitfall_444_any_sequence_of_changes_keeps_every_rule(
    sequence: list[tuple[str, str, str | None, KeyMembers, int, float, float]],
) -> None:
    clock = Clock()
    # The identity that a digest had first.
    holders: dict[bytes, str] = {}
    done = 0
    with opened(clock=clock) as store:
        for action, name, maker_name, members, text, grace, pause in sequence:
            clock.now += pause
            maker = LOCAL_MAKER
            if maker_name is not None:
                known = store.identities.get(maker_name)
                maker = maker_of(holder(maker_name, b"none") if known is None else known.identity)
                # As a stale table would have it: the transaction reads the maker again.
                assert maker.key is not None
                maker = replace(maker, key=replace(maker.key, rights=Rights(role=ADMIN), source="database"))
            before = store.identities.get(name)
            before_maker = None if maker_name is None else store.identities.get(maker_name)
            try:
                do(store, action, name, maker, members, text, grace)
            except KeyChangeError:
                assert store.identities.get(name) == before
            else:
                done += 1
                after = store.identities.get(name)
                assert after is not None and after.generation == done
                assert before is None or after.identity.owner == before.identity.owner
                if maker_name is not None:
                    assert before_maker is not None and before_maker.revoked is None
                    for version in (before, None if after.revoked else after):
                        assert version is None or exceeds(before_maker, version) is None
            assert store.identities.generation() == done == len(rows(store, "audit"))
            for stored in store.identities.changes_since(0):
                digests = stored.identity.digests
                accepted = [each for each in digests if each.until != RETIRED]
                assert 1 <= len(accepted) <= 2
                assert [each.until is None for each in accepted] == [True, False][: len(accepted)]
                for each in digests:
                    assert holders.setdefault(each.digest, stored.identity.name) == stored.identity.name
            assert dict(store.connection.rows("SELECT digest, identity FROM digests")).keys() == holders.keys()
