"""Changes of identities in the file. Each is one transaction: the number of the change first, then the rows, and one
row of the audit log. `identities/changes.py` decides the new value of an identity. Key texts never get here, only
their digests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from dragoman.identities import changes
from dragoman.identities.audit import CHANGE, CREATE, IMPORT, REVOKE, ROTATE, AuditedIdentity
from dragoman.identities.changes import ChangeContext, ConfiguredNames, ImportedKey, Maker, former_until
from dragoman.identities.errors import BeyondMaker, ImportRefused, KeyChangeError, KeyExists, KeyMissing
from dragoman.identities.identity import DATABASE, StoredIdentity
from dragoman.identities.members import KeyMembers
from dragoman.store.connection import KEYS, Connection, Transaction, exists
from dragoman.store.identities import RETIRED, Identities

T = TypeVar("T")
# Days have the fewest rows among the rollups.
_ROLLUP_NAMES = "SELECT DISTINCT key FROM long_sums WHERE span = 96"
_encode = msgspec.json.Encoder().encode


class IdentityChanges:
    """Creates, changes, rotates and revokes identities of one open file. Refusals are `KeyChangeError`."""

    def __init__(self, db: Connection, clock: Callable[[], float]) -> None:
        self._db = db
        self._clock = clock
        self._identities = Identities(db)

    def create(
        self, name: str, members: KeyMembers, digest: bytes, *, maker: Maker, configured: ConfiguredNames
    ) -> StoredIdentity:
        """Add an identity with a digest that no other has or had."""

        def add(context: ChangeContext) -> StoredIdentity:
            changes.check_name(name, digest, configured)
            self._check_new(name, digest, self._rollup_names())
            after = changes.created(name, members, digest, context)
            self._add(after, context, CREATE)
            return after

        return self._change(maker, add)

    def import_all(
        self, keys: Sequence[ImportedKey], *, maker: Maker, configured: ConfiguredNames
    ) -> list[StoredIdentity]:
        """Add identities of another gateway, all or none; `ImportRefused` has the problem of each refused one."""

        def add(context: ChangeContext) -> list[StoredIdentity]:
            problems: list[KeyChangeError] = []
            imported: list[StoredIdentity] = []
            rollup_names = self._rollup_names()
            for key in keys:
                try:
                    changes.check_name(key.name, key.digest, configured)
                    self._check_new(key.name, key.digest, rollup_names)
                    after = changes.created(key.name, key.members, key.digest, context)
                except KeyChangeError as error:
                    member = f"{key.name}: {error.member}" if error.member else key.name
                    problems.append(type(error)(member, error.problem, error.remedy))
                else:
                    self._add(after, context, IMPORT)
                    imported.append(after)
            if problems:
                raise ImportRefused(problems)
            return imported

        return self._change(maker, add)

    def change(self, name: str, members: KeyMembers, *, maker: Maker, expected: int | None = None) -> StoredIdentity:
        """Set members of an identity, if its generation is the expected one; None expects nothing."""
        return self._update(
            name, CHANGE, maker, expected, lambda before, context: changes.changed(before, members, context)
        )

    def rotate(
        self, name: str, digest: bytes, grace: float, *, maker: Maker, expected: int | None = None
    ) -> StoredIdentity:
        """Add a digest; the former one is accepted for `grace` seconds more."""

        def rotated(before: StoredIdentity, context: ChangeContext) -> StoredIdentity:
            self._check_digest(digest)
            return changes.rotated(before, digest, grace, context)

        return self._update(name, ROTATE, maker, expected, rotated)

    def revoke(self, name: str, *, maker: Maker, expected: int | None = None) -> StoredIdentity:
        """End an identity for ever."""
        return self._update(name, REVOKE, maker, expected, changes.revoked)

    def _update(
        self,
        name: str,
        action: str,
        maker: Maker,
        expected: int | None,
        change: Callable[[StoredIdentity, ChangeContext], StoredIdentity],
    ) -> StoredIdentity:
        def update(context: ChangeContext) -> StoredIdentity:
            before = self._identities.get(name)
            if before is None:
                raise KeyMissing("", f"the database has no key {name}", "dragoman key list shows all keys")
            changes.check_generation(before, expected)
            after = change(before, context)
            self._write(before, after)
            self._audit(context, action, before, after)
            return after

        return self._change(maker, update)

    def _change(self, maker: Maker, work: Callable[[ChangeContext], T]) -> T:
        """One transaction with the number of its change; the maker is read again in it."""
        db, now = self._db, self._clock()
        with Transaction(db, KEYS):
            db.change("UPDATE generation SET number = number + 1")
            context = ChangeContext(maker=self._present_maker(maker), now=now, generation=self._identities.generation())
            return work(context)

    def _present_maker(self, maker: Maker) -> Maker:
        """The maker with the rights that its key has now; keys of the configuration are not in the file."""
        if maker.key is None or maker.key.source != DATABASE:
            return maker
        present = self._identities.get(maker.key.name)
        if present is None or present.revoked is not None or present.identity.owner != maker.key.owner:
            raise BeyondMaker("", f"the key {maker.key.name} is revoked", "use another administrator's key")
        return replace(maker, key=present.identity)

    def _rollup_names(self) -> frozenset[str]:
        """Names that requests were recorded with."""
        return frozenset(row[0] for row in self._db.rows(_ROLLUP_NAMES))

    def _check_new(self, name: str, digest: bytes, rollup_names: frozenset[str]) -> None:
        db = self._db
        if exists(db, "SELECT 1 FROM identities WHERE name = ?", (name,)):
            raise KeyExists("name", f"there is or was a key {name}; a name is never given again", "choose another name")
        owner = self._identities.owner_of(name)
        # A key that moves from the configuration to the database takes its name and its records with it.
        if owner not in (None, digest) or (owner is None and name in rollup_names):
            raise KeyExists("name", f"records have requests of another key {name}", "choose another name")
        self._check_digest(digest)

    def _check_digest(self, digest: bytes) -> None:
        row = self._db.row(
            "SELECT i.name FROM digests d JOIN identities i ON i.id = d.identity WHERE d.digest = ?", (digest,)
        )
        if row is not None:
            raise KeyExists("", f"the same key is or was that of {row[0]}", "make another key")

    def _add(self, after: StoredIdentity, context: ChangeContext, action: str) -> None:
        identity = after.identity
        self._db.change(
            "INSERT INTO identities (name, owner, rights, tags, expires, created, created_by, revoked, generation)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (identity.name, identity.owner, *_members(after), after.created, after.created_by, *_ends(after)),
        )
        self._db.change(
            "INSERT INTO key_names (name, owner) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
            (identity.name, identity.owner),
        )
        self._add_digests(after)
        self._audit(context, action, None, after)

    def _write(self, before: StoredIdentity, after: StoredIdentity) -> None:
        name = before.identity.name
        self._db.change(
            "UPDATE identities SET rights = ?, tags = ?, expires = ?, revoked = ?, generation = ? WHERE name = ?",
            (*_members(after), *_ends(after), name),
        )
        if after.identity.digests != before.identity.digests:
            self._db.change(
                f"UPDATE digests SET until = {RETIRED} WHERE identity = (SELECT id FROM identities WHERE name = ?)",
                (name,),
            )
            self._add_digests(after)

    def _add_digests(self, after: StoredIdentity) -> None:
        identity = after.identity
        self._db.many(
            "INSERT INTO digests (digest, identity, until) VALUES (?, (SELECT id FROM identities WHERE name = ?), ?)"
            " ON CONFLICT (digest) DO UPDATE SET until = excluded.until WHERE digests.identity = excluded.identity",
            [(each.digest, identity.name, each.until) for each in identity.digests],
        )

    def _audit(self, context: ChangeContext, action: str, before: StoredIdentity | None, after: StoredIdentity) -> None:
        self._db.change(
            "INSERT INTO audit (time, actor, action, subject, before, after) VALUES (?, ?, ?, ?, ?, ?)",
            (
                context.now,
                context.maker.name,
                action,
                after.identity.name,
                None if before is None else _audited(before, context.now),
                _audited(after, context.now),
            ),
        )


def _members(stored: StoredIdentity) -> tuple[str, str, float | None]:
    """Rights, tags and end as their columns have them."""
    identity = stored.identity
    return _encode(identity.rights).decode(), _encode(dict(identity.tags)).decode(), identity.expires


def _ends(stored: StoredIdentity) -> tuple[float | None, int]:
    return stored.revoked, stored.generation


def _audited(stored: StoredIdentity, now: float) -> str:
    identity = stored.identity
    return _encode(
        AuditedIdentity(
            rights=identity.rights,
            tags=dict(identity.tags),
            expires=identity.expires,
            former_until=former_until(identity, now),
            revoked=stored.revoked,
        )
    ).decode()
