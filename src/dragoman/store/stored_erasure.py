"""Stored erasure: deletes what the gateway stored for one owner, in small batches beside a running gateway. Each row is
found by its owner, so that a run after a killed one counts and deletes the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from dragoman.store.connection import Connection, Transaction

# Number of rows that are deleted at a time.
_AT_ONCE = 100


class StoredCount(Struct, frozen=True, kw_only=True):
    """The stored rows of one owner by their tables."""

    responses: int = 0
    conversations: int = 0
    items: int = 0
    events: int = 0
    turns: int = 0


class _Table(Struct, frozen=True, kw_only=True):
    """A table: its primary key, the rows that are deleted, and a statement for each of them, with its values: the names
    of columns."""

    key: tuple[str, ...]
    is_held: bool = False
    before: str = ""
    before_values: tuple[str, ...] = ()


# Of rows that a response or conversation holds, those are deleted whose holder is gone: a running gateway may have
# stored another one meanwhile, which stays whole. The owner is given for each.
_HOLDERS = ("responses", "conversations")
_IS_LEFT = "".join(f" AND NOT EXISTS (SELECT 1 FROM {of} h WHERE h.id = holder AND h.owner = ?)" for of in _HOLDERS)
# In the order of deletion.
_TABLES: Mapping[str, _Table] = {
    "responses": _Table(key=("id",), before="DELETE FROM promises WHERE holder = ?", before_values=("id",)),
    "conversations": _Table(key=("id",)),
    "items": _Table(key=("holder", "side", "position"), is_held=True),
    "events": _Table(key=("holder", "number"), is_held=True),
    "turns": _Table(
        key=("call_id",),
        before="UPDATE turns_total SET bytes = bytes - coalesce("
        "(SELECT size FROM turns WHERE owner = ? AND call_id = ?), 0)",
        before_values=("owner", "call_id"),
    ),
}


class StoredErasure:
    """Queries and deletions of stored data, on a connection that overwrites deleted rows."""

    def __init__(self, db: Connection, at_once: int = _AT_ONCE) -> None:
        self._db = db
        self._at_once = at_once

    def amount(self, owners: Sequence[bytes]) -> StoredCount:
        """The rows of some owners; reads every row."""
        rows: Counter[str] = Counter()
        for owner in owners:
            for name in _TABLES:
                rows[name] += self._db.number(f"SELECT count(*) FROM {name} WHERE owner = ?", (owner,))
        return StoredCount(**rows)

    def remove(self, owners: Sequence[bytes]) -> Iterator[StoredCount]:
        """Delete the rows of some owners; gives the number of deleted rows so far after each batch."""
        rows: Counter[str] = Counter()
        for owner in owners:
            for name, table in _TABLES.items():
                for removed in self._remove(name, table, owner):
                    rows[name] += removed
                    yield StoredCount(**rows)

    def _remove(self, name: str, table: _Table, owner: bytes) -> Iterator[int]:
        db, columns = self._db, ", ".join(table.key)
        marks = ", ".join("?" * len(table.key))
        query, owners = f"SELECT {columns} FROM {name} WHERE owner = ?", [owner]
        if table.is_held:
            query, owners = query + _IS_LEFT, [owner] * (1 + len(_HOLDERS))
        behind, last = "", ()
        while rows := db.rows(f"{query}{behind} ORDER BY {columns} LIMIT ?", (*owners, *last, self._at_once)):
            with Transaction(db, owner):
                if table.before:
                    keys = [{"owner": owner, **dict(zip(table.key, row, strict=True))} for row in rows]
                    db.many(table.before, [[key[column] for column in table.before_values] for key in keys])
                delete = f"DELETE FROM {name} WHERE owner = ? AND ({columns}) = ({marks})"
                removed = sum([db.change(delete, (owner, *row)) for row in rows])
            yield removed
            # Rows before these are not read again.
            behind, last = f" AND ({columns}) > ({marks})", rows[-1]
