"""Identities of the database: gateway keys with their digests, the number of the last change, and the audit log. This
module reads; `identity_changes.py` writes (decision 46)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import msgspec
from msgspec import Struct

from dragoman.identities.audit import AuditedIdentity, AuditEntry
from dragoman.identities.identity import DATABASE, AcceptedDigest, Identity, Rights, StoredIdentity, Tags
from dragoman.store.connection import KEYS, Connection, Transaction, exists

_COLUMNS = (
    "i.id, i.name, i.owner, i.rights, i.tags, i.expires, i.created, i.created_by, i.revoked, i.generation,"
    " d.digest, d.until"
)
# A digest without an end is the present one, and comes first; retired ones come last.
_ORDER = "d.until IS NOT NULL, d.until DESC, d.digest"
# The end of a digest that is accepted no more, and never given to another identity.
RETIRED = 0
# Beyond every id of a row.
_ANY = (1 << 63) - 1
_read_rights = msgspec.json.Decoder(Rights).decode
_read_tags = msgspec.json.Decoder(dict[str, str]).decode
_read_audited = msgspec.json.Decoder(AuditedIdentity).decode
_Row = tuple[
    int, str, bytes, str, str, float | None, float, str, float | None, int, bytes | None, float | None
]  # `_COLUMNS`


class IdentityCount(Struct, frozen=True, kw_only=True):
    """The number of identities, revoked and expired ones included, and of accepted ones."""

    total: int = 0
    accepted: int = 0


class Identities:
    """The tables of identities in one open file, to read. Every method sees one state of the file."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def generation(self) -> int:
        """The number of the last change; read it before `changes_since`, which may see later changes, too."""
        return int(self._db.number("SELECT number FROM generation"))

    def changes_since(self, generation: int) -> list[StoredIdentity]:
        """The identities that were changed after a generation, revoked ones included, in the order of their changes;
        0 gives all."""
        return list(self.each_change_since(generation))

    def each_change_since(self, generation: int) -> Iterator[StoredIdentity]:
        """The same one by one: 100,000 identities at a time are more than a worker has to hold."""
        return self._select("generation > ? ORDER BY generation, id", "i.generation, i.id", (generation,))

    def get(self, name: str) -> StoredIdentity | None:
        """The identity of a name."""
        return next(iter([*self._select("name = ?", "i.id", (name,))]), None)

    def page(self, after: str = "", limit: int = 100) -> list[StoredIdentity]:
        """Some identities in the order of their names, from behind a name."""
        return [*self._select("name > ? ORDER BY name LIMIT ?", "i.name", (after, limit))]

    def has_any(self) -> bool:
        """Whether there is any identity; a revoked one is one."""
        return exists(self._db, "SELECT 1 FROM identities LIMIT 1", ())

    def count(self, now: float) -> IdentityCount:
        """The number of identities."""
        accepted = "revoked IS NULL AND (expires IS NULL OR expires > ?)"
        (row,) = self._db.rows(f"SELECT count(*), count(CASE WHEN {accepted} THEN 1 END) FROM identities", (now,))
        return IdentityCount(total=row[0], accepted=row[1])

    def first_owner(self) -> bytes:
        """The owner of the first identity; b"" without one."""
        row = self._db.row("SELECT owner FROM identities ORDER BY id LIMIT 1")
        return b"" if row is None else bytes(row[0])

    def audit(self, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """Some changes, the latest first, from before the id of one."""
        rows = self._db.rows(
            "SELECT id, time, actor, action, subject, before, after FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?",
            (_ANY if before is None else before, limit),
        )
        return [
            AuditEntry(
                id=number,
                time=time,
                actor=actor,
                action=action,
                subject=subject,
                before=None if old is None else _read_audited(old),
                after=_read_audited(new),
            )
            for number, time, actor, action, subject, old, new in rows
        ]

    def owner_of(self, name: str) -> bytes | None:
        """The owner that a name belongs to for ever; None of one that is bound to none."""
        row = self._db.row("SELECT owner FROM key_names WHERE name = ?", (name,))
        return None if row is None else bytes(row[0])

    def bind_names(self, owners: Mapping[str, bytes]) -> list[str]:
        """Bind names of the configuration's keys to their owners, and give the names of other owners."""
        db = self._db
        with Transaction(db, KEYS):
            db.many("INSERT INTO key_names (name, owner) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", owners.items())
            return [name for name, owner in owners.items() if self.owner_of(name) != owner]

    def _select(self, which: str, order: str, given: tuple[object, ...]) -> Iterator[StoredIdentity]:
        rows = self._db.each(
            f"SELECT {_COLUMNS} FROM (SELECT * FROM identities WHERE {which}) i"
            f" LEFT JOIN digests d ON d.identity = i.id ORDER BY {order}, {_ORDER}",
            given,
        )
        return _stored(rows)


def _stored(rows: Iterable[_Row]) -> Iterator[StoredIdentity]:
    """Identities from rows in which those of one identity follow each other. Equal values are one object: there may be
    100,000 identities."""
    rights: dict[str, Rights] = {}
    tags: dict[str, Tags] = {}
    creators: dict[str, str] = {}
    for _, group in groupby(rows, key=lambda row: row[0]):
        digests = list(group)
        _, name, owner, rights_text, tags_text, expires, created, created_by, revoked, generation, _, _ = digests[0]
        if rights_text not in rights:
            rights[rights_text] = _read_rights(rights_text)
        if tags_text not in tags:
            tags[tags_text] = tuple(sorted(_read_tags(tags_text).items()))
        yield StoredIdentity(
            identity=Identity(
                name=name,
                owner=owner,
                digests=tuple(
                    AcceptedDigest(digest=owner if digest == owner else digest, until=until)
                    for *_, digest, until in digests
                    if digest is not None
                ),
                rights=rights[rights_text],
                tags=tags[tags_text],
                expires=expires,
                source=DATABASE,
            ),
            generation=generation,
            created=created,
            created_by=creators.setdefault(created_by, created_by),
            revoked=revoked,
        )
