"""Pure changes of identities: each state, each refusal, and never more than the maker has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from dragoman.identities.changes import (
    LOCAL_MAKER,
    MAX_GRACE,
    RESERVED_NAMES,
    ChangeContext,
    ConfiguredNames,
    KeyState,
    Maker,
    changed,
    check_generation,
    check_name,
    created,
    former_until,
    revoked,
    rotated,
    state_of,
)
from dragoman.identities.errors import BeyondMaker, InvalidMember, KeyChangeError, KeyExists, KeyMoved, KeyRevoked
from dragoman.identities.identity import ADMIN, NO_RIGHTS, AcceptedDigest, Identity, Rights, StoredIdentity
from dragoman.identities.members import KeyMembers
from tests.identities.holders import holder

NOW = 1_800_000_000.0
LATER = datetime(2027, 6, 1, tzinfo=UTC)
HERE = ChangeContext(maker=LOCAL_MAKER, now=NOW, generation=7)
NONE_CONFIGURED = ConfiguredNames()


def at(now: float, generation: int = 8) -> ChangeContext:
    return ChangeContext(maker=LOCAL_MAKER, now=now, generation=generation)


def by(key: Identity) -> ChangeContext:
    return ChangeContext(maker=Maker(name=key.name, key=key), now=NOW, generation=8)


def ann(members: KeyMembers | None = None) -> StoredIdentity:
    return created("ann", members or KeyMembers(), b"a1", HERE)


def state(stored: StoredIdentity, now: float = NOW) -> KeyState:
    return state_of(stored.identity, stored.revoked, now)


def test_a_created_identity_belongs_to_its_first_digest() -> None:
    stored = ann(KeyMembers(models=("fast",), tags={"team": "web"}, expires=LATER))
    identity = stored.identity
    assert (identity.name, identity.owner, identity.digests) == ("ann", b"a1", (AcceptedDigest(digest=b"a1"),))
    assert (identity.rights, identity.tags, identity.expires, identity.source) == (
        Rights(models=("fast",)),
        (("team", "web"),),
        LATER.timestamp(),
        "database",
    )
    assert (stored.generation, stored.created, stored.created_by, stored.revoked) == (7, NOW, "dragoman key", None)
    assert state(stored) is KeyState.ACTIVE


def test_a_change_keeps_all_other_members() -> None:
    before = ann(KeyMembers(models=("fast",), tags={"team": "web"}))
    after = changed(before, KeyMembers(models=None), at(NOW + 5))
    assert after == replace(before, identity=replace(before.identity, rights=Rights()), generation=8)


def test_an_expired_identity_becomes_active_by_a_new_end() -> None:
    before = ann(KeyMembers(expires=LATER))
    later = LATER.timestamp()
    assert state(before, later) is KeyState.EXPIRED
    after = changed(before, KeyMembers(expires=None), at(later + 1))
    assert state(after, later + 1) is KeyState.ACTIVE


def test_both_digests_of_a_rotated_identity_are_accepted_until_the_end_of_the_former() -> None:
    after = rotated(ann(), b"a2", 60, at(NOW))
    assert after.identity.digests == (AcceptedDigest(digest=b"a2"), AcceptedDigest(digest=b"a1", until=NOW + 60))
    assert after.identity.owner == b"a1"
    assert (state(after), former_until(after.identity, NOW)) == (KeyState.ROTATED, NOW + 60)
    assert (state(after, NOW + 60), former_until(after.identity, NOW + 60)) == (KeyState.ACTIVE, None)


def test_pitfall_730_a_rotation_during_a_rotation_replaces_the_newer_digest() -> None:
    first = rotated(ann(), b"a2", 60, at(NOW))
    second = rotated(first, b"a3", 9000, at(NOW + 30))
    assert second.identity.digests == (AcceptedDigest(digest=b"a3"), AcceptedDigest(digest=b"a1", until=NOW + 60))
    # After the end of the former digest, the present one gets an end.
    third = rotated(second, b"a4", 60, at(NOW + 60))
    assert third.identity.digests == (AcceptedDigest(digest=b"a4"), AcceptedDigest(digest=b"a3", until=NOW + 120))


def test_a_rotation_without_grace_ends_every_former_digest() -> None:
    for before in (ann(), rotated(ann(), b"a2", 60, at(NOW))):
        after = rotated(before, b"a3", 0, at(NOW + 1))
        assert (after.identity.digests, state(after)) == ((AcceptedDigest(digest=b"a3"),), KeyState.ACTIVE)


@pytest.mark.parametrize("grace", [-1.0, MAX_GRACE + 1])
def test_a_grace_beyond_its_bounds_is_refused(grace: float) -> None:
    with pytest.raises(InvalidMember, match="grace"):
        rotated(ann(), b"a2", grace, at(NOW))


def test_a_revoked_identity_has_no_rights_and_never_changes_again() -> None:
    after = revoked(ann(KeyMembers(tags={"team": "web"})), at(NOW + 1))
    assert (after.identity.rights, after.identity.tags, after.revoked) == (NO_RIGHTS, (("team", "web"),), NOW + 1)
    assert state(after) is KeyState.REVOKED
    refused: list[Callable[[], StoredIdentity]] = [
        lambda: changed(after, KeyMembers(), HERE),
        lambda: rotated(after, b"a2", 0, HERE),
        lambda: revoked(after, HERE),
    ]
    for change in refused:
        with pytest.raises(KeyRevoked, match="create another key"):
            change()


def test_names_that_are_taken_reserved_or_none() -> None:
    configured = ConfiguredNames(owners={"ci": b"c"}, digests={b"c": "ci"}, rule_names=frozenset({"bob"}))
    check_name("ann", b"a", configured)
    for name in RESERVED_NAMES:
        with pytest.raises(KeyExists, match="reserved"):
            check_name(name, b"a", NONE_CONFIGURED)
    for name, digest, words in (
        ("ci", b"a", "has a key ci"),
        ("bob", b"a", "a rule"),
        ("ann", b"c", "same key as ci"),
        ("a b", b"a", "cannot name a key"),
    ):
        with pytest.raises(KeyChangeError, match=words):
            check_name(name, digest, configured)


def test_a_stale_generation_is_refused() -> None:
    check_generation(ann(), None)
    check_generation(ann(), 7)
    with pytest.raises(KeyMoved, match="changed meanwhile"):
        check_generation(ann(), 6)


def test_a_change_never_exceeds_its_maker() -> None:
    admin = holder("root", b"r", rights=Rights(role=ADMIN, models=("claude-*",)))
    within = KeyMembers(models=("claude-opus",))
    assert created("bob", within, b"b", by(admin)).created_by == "root"
    with pytest.raises(BeyondMaker) as caught:
        created("bob", KeyMembers(), b"b", by(admin))
    assert caught.value.member == "models"
    # Neither what a key has before a change nor what it has after it may be more.
    wide, narrow = ann(), ann(within)
    refused: list[Callable[[], StoredIdentity]] = [
        lambda: changed(wide, within, by(admin)),
        lambda: changed(narrow, KeyMembers(models=None), by(admin)),
        lambda: rotated(wide, b"a2", 0, by(admin)),
        lambda: revoked(wide, by(admin)),
    ]
    for change in refused:
        with pytest.raises(BeyondMaker):
            change()
    assert revoked(narrow, by(admin)).revoked == NOW
    assert rotated(narrow, b"a2", 0, by(admin)).identity.digests == (AcceptedDigest(digest=b"a2"),)


def test_a_maker_that_is_no_administrator_or_expired_changes_nothing() -> None:
    for maker, words in (
        (holder("bob", b"b"), "no administrator"),
        (replace(holder("root", b"r", rights=Rights(role=ADMIN)), expires=NOW), "expired"),
    ):
        with pytest.raises(BeyondMaker, match=words):
            revoked(ann(), by(maker))
