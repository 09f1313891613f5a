"""Changes of identities: computes a created, changed, rotated or revoked identity, and checks the maker's rights. Pure:
the time is an argument, and `store/identity_changes.py` reads and writes the rows in one transaction.

| State | Rotated | Changed | Revoked |
| --- | --- | --- | --- |
| active | the digest gets an end, a new one is added | yes | yes |
| rotated: the former digest has an end | the newer digest is replaced, the former keeps its end | yes | yes |
| expired | as active or rotated | a new end makes it active | yes |
| revoked | refused | refused | refused |
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from dragoman.identities.errors import BeyondMaker, InvalidMember, KeyExists, KeyMoved, KeyRevoked
from dragoman.identities.identity import (
    ADMIN,
    COMMAND_LINE_KEY,
    DATABASE,
    FIRST_KEY,
    NO_RIGHTS,
    AcceptedDigest,
    Identity,
    StoredIdentity,
)
from dragoman.identities.members import KeyMembers, KeyTerms, applied, name_problem
from dragoman.identities.permissions import uncovered

# Default and maximum seconds for which the former text of a rotated key is accepted.
DEFAULT_GRACE, MAX_GRACE = 24 * 3600.0, 90 * 86400.0
# Names that records use for clients without an identity of their own.
LOCAL_NAME = "local"
RESERVED_NAMES = frozenset({COMMAND_LINE_KEY, FIRST_KEY, LOCAL_NAME})


class Maker(Struct, frozen=True, kw_only=True):
    """The author of a change: its name in the audit log, and its key, whose rights the change may not exceed. Without a
    key there are no limits: changes on the gateway's machine."""

    name: str
    key: Identity | None = None


# `dragoman key` on the machine itself. A key name has no blank, so this cannot collide.
LOCAL_MAKER = Maker(name="dragoman key")


class ConfiguredNames(Struct, frozen=True, kw_only=True):
    """Names in the configuration: names of keys with their owners, digests with the names of their keys, and names in
    conditions of rules."""

    owners: Mapping[str, bytes] = {}
    digests: Mapping[bytes, str] = {}
    rule_names: frozenset[str] = frozenset()


class ImportedKey(Struct, frozen=True, kw_only=True):
    name: str
    digest: bytes
    members: KeyMembers


class ChangeContext(Struct, frozen=True, kw_only=True):
    """The maker, the time in Unix seconds, and the number of a change."""

    maker: Maker
    now: float
    generation: int


class KeyState(Enum):
    ACTIVE = "active"
    ROTATED = "rotated"
    EXPIRED = "expired"
    REVOKED = "revoked"


def state_of(identity: Identity, revoked: float | None, now: float) -> KeyState:
    if revoked is not None:
        return KeyState.REVOKED
    if identity.expires is not None and identity.expires <= now:
        return KeyState.EXPIRED
    return KeyState.ROTATED if former_until(identity, now) is not None else KeyState.ACTIVE


def former_until(identity: Identity, now: float) -> float | None:
    """The end of the time in which the former text of a rotated key is accepted, or None."""
    return next((each.until for each in identity.digests if each.until is not None and each.until > now), None)


def check_name(name: str, owner: bytes, configured: ConfiguredNames) -> None:
    """Reject the name of a new identity if it is invalid, reserved, or used in the configuration."""
    problem = name_problem(name)
    if problem is not None:
        raise problem
    if name in RESERVED_NAMES:
        raise KeyExists("name", f"{name} is reserved", "choose another name")
    if name in configured.owners:
        raise KeyExists("name", f"the configuration has a key {name}", "choose another name")
    if name in configured.rule_names:
        raise KeyExists("name", f"a rule of the configuration names the key {name}", "choose another name")
    if owner in configured.digests:
        raise KeyExists("", f"the configuration has the same key as {configured.digests[owner]}", "make another key")


def created(name: str, members: KeyMembers, digest: bytes, context: ChangeContext) -> StoredIdentity:
    terms = applied(members, KeyTerms(), context.now)
    check_maker(context, terms)
    return StoredIdentity(
        identity=Identity(
            name=name,
            owner=digest,
            digests=(AcceptedDigest(digest=digest),),
            rights=terms.rights,
            tags=terms.tags,
            expires=terms.expires,
            source=DATABASE,
        ),
        generation=context.generation,
        created=context.now,
        created_by=context.maker.name,
    )


def changed(before: StoredIdentity, members: KeyMembers, context: ChangeContext) -> StoredIdentity:
    _check_active(before)
    present = terms_of(before.identity)
    terms = applied(members, present, context.now)
    check_maker(context, present, terms)
    identity = replace(before.identity, rights=terms.rights, tags=terms.tags, expires=terms.expires)
    return replace(before, identity=identity, generation=context.generation)


def rotated(before: StoredIdentity, digest: bytes, grace: float, context: ChangeContext) -> StoredIdentity:
    """An identity with a new digest. The former digest is accepted for `grace` seconds, 0 for not at all. A former
    digest that has an end already keeps it."""
    _check_active(before)
    check_grace(grace)
    check_maker(context, terms_of(before.identity))
    digests = (AcceptedDigest(digest=digest), *_former(before.identity, grace, context.now))
    identity = replace(before.identity, digests=digests)
    return replace(before, identity=identity, generation=context.generation)


def check_grace(grace: float) -> None:
    if not 0 <= grace <= MAX_GRACE:
        raise InvalidMember("grace", f"expected 0 to {MAX_GRACE / 86400:g} days", "choose another duration")


def _former(identity: Identity, grace: float, now: float) -> tuple[AcceptedDigest, ...]:
    """The digest that stays accepted beside a new one."""
    if grace == 0:
        return ()
    ending = [each for each in identity.digests if each.until is not None and each.until > now]
    if ending:
        return (ending[0],)
    present = [each for each in identity.digests if each.until is None]
    return tuple(replace(each, until=now + grace) for each in present[:1])


def revoked(before: StoredIdentity, context: ChangeContext) -> StoredIdentity:
    """An identity without rights, for ever. It keeps its name and its digests."""
    _check_active(before)
    check_maker(context, terms_of(before.identity))
    identity = replace(before.identity, rights=NO_RIGHTS)
    return replace(before, identity=identity, generation=context.generation, revoked=context.now)


def terms_of(identity: Identity) -> KeyTerms:
    return KeyTerms(rights=identity.rights, tags=identity.tags, expires=identity.expires)


def check_maker(context: ChangeContext, *terms: KeyTerms) -> None:
    """Reject terms, before or after a change, that exceed the rights of its maker."""
    maker = context.maker.key
    if maker is None:
        return
    if maker.expires is not None and maker.expires <= context.now:
        raise BeyondMaker("", f"the key {maker.name} is expired", "use another administrator's key")
    if maker.rights.role != ADMIN:
        raise BeyondMaker("role", f"the key {maker.name} is no administrator's", f"use a key with the role {ADMIN}")
    for each in terms:
        member = uncovered(maker, each.rights, each.tags, each.expires)
        if member is not None:
            raise BeyondMaker(
                member,
                f"exceeds the rights of the key {maker.name}",
                "use a key with these rights, or dragoman key on the gateway's machine",
            )


def check_generation(before: StoredIdentity, expected: int | None) -> None:
    """Reject a change of an identity that was changed since the caller read it. None skips the check."""
    if expected is not None and expected != before.generation:
        raise KeyMoved("", f"the key {before.identity.name} was changed meanwhile", "read it again")


def _check_active(before: StoredIdentity) -> None:
    if before.revoked is not None:
        raise KeyRevoked("", f"the key {before.identity.name} is revoked, which is final", "create another key")
