"""Contents tables: bodies of exchanges, which refer to lists of pieces that are stored once (decision 48). What is
stored is opaque here: it was redacted, compressed and perhaps encrypted before. A node has uses for each child and each
exchange with its list, a piece for each node; what has none is removed by `sweep`."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from msgspec import Struct

from dragoman.store.connection import Connection, Transaction, exists

# The lock of transactions that write contents.
CONTENTS = b"contents"
# The parent of the first node of a list.
NO_NODE = b""
# Bytes that a row takes besides what is stored in it, about.
_ROW = 100
_SELECTED = 50
_TOTAL = "contents"


class BodyRow(Struct, frozen=True, kw_only=True):
    """One body, or the reason why it is missing. `size` is that of the body that the recipe gives."""

    exchange: str
    attempt: int
    side: int
    size: int = 0
    digest: bytes = b""
    recipe: bytes = b""
    reason: str = ""


class ExchangeRow(Struct, frozen=True, kw_only=True):
    """One exchange whose contents are stored, or the reason why none of them are."""

    id: str
    time: int
    key: str
    reason: str = ""


class ElementRow(Struct, frozen=True):
    """One element of a list: the piece's digest and body, and how the element differs from it."""

    piece: bytes
    size: int
    body: bytes
    difference: bytes


class ContentsTables:
    """The tables of one database."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        # Bytes that the open transaction adds.
        self._added = 0

    @property
    def connection(self) -> Connection:
        """The connection, for the code that opened it."""
        return self._db

    def transaction(self) -> Transaction:
        """Several writes that are one."""
        return Transaction(self._db, CONTENTS)

    # What the database was made with.

    def value(self, name: str) -> bytes | None:
        """A value that is stored once."""
        row = self._db.row("SELECT value FROM meta WHERE name = ?", (name,))
        return None if row is None else row[0]

    def set_value(self, name: str, value: bytes) -> None:
        """Store a value once: an earlier one stays."""
        self._db.change("INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, value))

    # Writes, within a transaction.

    def add_exchange(self, row: ExchangeRow) -> bool:
        """Add an exchange; False if it is there already."""
        added = self._db.change(
            "INSERT INTO exchanges (id, time, key, reason) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            (row.id, row.time, row.key, row.reason),
        )
        self._added += _ROW * added
        return added > 0

    def add_body(self, row: BodyRow) -> None:
        """Add a body."""
        self._db.change(
            "INSERT INTO bodies (exchange, attempt, side, size, digest, recipe, reason) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row.exchange, row.attempt, row.side, row.size, row.digest, row.recipe, row.reason),
        )
        self._added += _ROW + len(row.recipe)

    def add_list(self, exchange: str, node: bytes) -> None:
        """Have an exchange use a list, however many of its bodies do."""
        added = self._db.change(
            "INSERT INTO lists (exchange, node) VALUES (?, ?) ON CONFLICT (exchange, node) DO NOTHING", (exchange, node)
        )
        if added:
            self._db.change("UPDATE nodes SET uses = uses + 1 WHERE digest = ?", (node,))

    def has_node(self, node: bytes) -> bool:
        """Whether a list is there, and so all that it begins with."""
        return exists(self._db, "SELECT 1 FROM nodes WHERE digest = ?", (node,))

    def add_node(self, node: bytes, parent: bytes, piece: bytes, difference: bytes) -> None:
        """Add the list that has one element more than its parent, whose piece was used or added for it."""
        self._db.change(
            "INSERT INTO nodes (digest, parent, piece, difference, uses) VALUES (?, ?, ?, ?, 0)",
            (node, parent, piece, difference),
        )
        if parent:
            self._db.change("UPDATE nodes SET uses = uses + 1 WHERE digest = ?", (parent,))
        self._added += _ROW + len(difference)

    def use_piece(self, digest: bytes) -> bytes | None:
        """Use a piece once more: the digest of its bytes, None if there is no such piece."""
        if not self._db.change("UPDATE pieces SET uses = uses + 1 WHERE digest = ?", (digest,)):
            return None
        row = self._db.row("SELECT spelling FROM pieces WHERE digest = ?", (digest,))
        return None if row is None else row[0]

    def add_piece(self, digest: bytes, spelling: bytes, size: int, body: bytes) -> None:
        """Add a piece that is used once."""
        self._db.change(
            "INSERT INTO pieces (digest, spelling, size, body, uses) VALUES (?, ?, ?, ?, 1)",
            (digest, spelling, size, body),
        )
        self._added += _ROW + len(body)

    def add_to_total(self) -> None:
        """Add what the open transaction has added to the total, at its end."""
        if self._added:
            self._db.change("UPDATE totals SET bytes = bytes + ? WHERE name = ?", (self._added, _TOTAL))
        self._added = 0

    def forget_added(self) -> None:
        """Begin to count anew: the transaction was taken back."""
        self._added = 0

    def is_erased(self, key: str, time: int) -> bool:
        """Whether an exchange of a key began before an erasure, so that it may not be added."""
        return exists(self._db, "SELECT 1 FROM erasures WHERE scope = ? AND asked >= ?", (_scope(key), time))

    # Reads.

    def piece(self, digest: bytes) -> tuple[int, bytes]:
        """Size and body of a piece that is there."""
        row = self._db.rows("SELECT size, body FROM pieces WHERE digest = ?", (digest,))[0]
        return row[0], row[1]

    def exchange(self, exchange: str) -> ExchangeRow | None:
        """An exchange by its id."""
        row = self._db.row("SELECT id, time, key, reason FROM exchanges WHERE id = ?", (exchange,))
        return None if row is None else ExchangeRow(id=row[0], time=row[1], key=row[2], reason=row[3])

    def bodies(self, exchange: str) -> list[BodyRow]:
        """The bodies of an exchange."""
        rows = self._db.rows(
            "SELECT attempt, side, size, digest, recipe, reason FROM bodies WHERE exchange = ? ORDER BY attempt, side",
            (exchange,),
        )
        return [
            BodyRow(exchange=exchange, attempt=a, side=b, size=c, digest=d, recipe=e, reason=f)
            for a, b, c, d, e, f in rows
        ]

    def elements(self, node: bytes, count: int) -> list[ElementRow]:
        """The elements of a list of so many, from the first one."""
        rows = self._db.rows(
            "WITH RECURSIVE chain (parent, piece, difference, place) AS ("
            " SELECT parent, piece, difference, 1 FROM nodes WHERE digest = ?"
            " UNION ALL SELECT n.parent, n.piece, n.difference, c.place + 1 FROM chain c"
            " JOIN nodes n ON n.digest = c.parent WHERE c.place < ?"
            ") SELECT c.piece, p.size, p.body, c.difference FROM chain c JOIN pieces p ON p.digest = c.piece"
            " ORDER BY c.place DESC",
            (node, count),
        )
        return [ElementRow(*row) for row in rows]

    def span(self) -> tuple[int, int] | None:
        """The times of the oldest and the newest exchange."""
        row = self._db.rows("SELECT min(time), max(time) FROM exchanges")[0]
        return None if row[0] is None else (row[0], row[1])

    def count(self) -> int:
        """How many exchanges there are."""
        return self._db.number("SELECT count(*) FROM exchanges")

    def total_bytes(self) -> int:
        """Bytes that are stored, about."""
        return self._db.number("SELECT bytes FROM totals WHERE name = ?", (_TOTAL,))

    def oldest(self, most: int, before: int | None = None) -> list[str]:
        """Ids of the oldest exchanges, only those of before a time if it is given."""
        if before is None:
            rows = self._db.rows("SELECT id FROM exchanges ORDER BY time, id LIMIT ?", (most,))
        else:
            statement = "SELECT id FROM exchanges WHERE time < ? ORDER BY time, id LIMIT ?"
            rows = self._db.rows(statement, (before, most))
        return [row[0] for row in rows]

    def of_key(self, key: str, most: int) -> list[str]:
        """Ids of exchanges of a key."""
        return [row[0] for row in self._db.rows("SELECT id FROM exchanges WHERE key = ? LIMIT ?", (key, most))]

    # Deletions: each of these is a small transaction.

    def begin_erasure(self, key: str, asked: int) -> None:
        """Have no exchange of a key added that began at this time or before, whichever process has captured it."""
        with self.transaction():
            self._db.change(
                "INSERT INTO erasures (scope, asked) VALUES (?, ?)"
                " ON CONFLICT (scope) DO UPDATE SET asked = excluded.asked WHERE erasures.asked < excluded.asked",
                (_scope(key), asked),
            )

    def end_erasures(self, before: int) -> None:
        """Remove erasures of before a time."""
        with self.transaction():
            self._db.change("DELETE FROM erasures WHERE asked < ?", (before,))

    def remove(self, exchanges: Sequence[str]) -> int:
        """Remove exchanges; what they alone use is then without uses. Returns how many there were."""
        removed = freed = 0
        with self.transaction():
            for exchange in exchanges:
                rows = "SELECT count(*), coalesce(sum(length(recipe)), 0) FROM bodies WHERE exchange = ?"
                count, size = self._db.rows(rows, (exchange,))[0]
                self._db.change(
                    "UPDATE nodes SET uses = uses - 1 WHERE digest IN (SELECT node FROM lists WHERE exchange = ?)",
                    (exchange,),
                )
                self._db.change("DELETE FROM lists WHERE exchange = ?", (exchange,))
                self._db.change("DELETE FROM bodies WHERE exchange = ?", (exchange,))
                gone = self._db.change("DELETE FROM exchanges WHERE id = ?", (exchange,))
                removed += gone
                freed += _ROW * (count + gone) + size
            self._subtract(freed)
        return removed

    def sweep(self) -> int:
        """Remove some nodes and pieces without uses; returns how many, 0 if none is left."""
        with self.transaction():
            nodes = self._db.rows(
                "SELECT digest, parent, piece, length(difference) FROM nodes WHERE uses = 0 LIMIT ?", (_SELECTED,)
            )
            for node, parent, piece, _ in nodes:
                self._db.change("DELETE FROM nodes WHERE digest = ?", (node,))
                self._db.change("UPDATE nodes SET uses = uses - 1 WHERE digest = ?", (parent,))
                self._db.change("UPDATE pieces SET uses = uses - 1 WHERE digest = ?", (piece,))
            pieces = self._db.rows("SELECT digest, length(body) FROM pieces WHERE uses = 0 LIMIT ?", (_SELECTED,))
            for piece, _ in pieces:
                self._db.change("DELETE FROM pieces WHERE digest = ?", (piece,))
            self._subtract(sum(_ROW + row[-1] for row in (*nodes, *pieces)))
        return len(nodes) + len(pieces)

    def _subtract(self, size: int) -> None:
        self._db.change("UPDATE totals SET bytes = bytes - ? WHERE name = ?", (size, _TOTAL))

    def wipe(self) -> bool:
        """Overwrite deleted data wherever the engine has it; False if others are reading."""
        return self._db.wipe()

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()


def _scope(key: str) -> bytes:
    """What an erasure has in place of the name of its key."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16, person=b"erasure").digest()
