"""Responses by ID, their items, and the chain that leads to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from dragoman.store.connection import Connection, Transaction, exists

# The side of a response's item.
INPUT_SIDE, OUTPUT_SIDE = 0, 1
# The states of a running response.
RUNNING = ("queued", "in_progress")
# The owner of an ID that a provider gave to two owners: neither of them.
_NO_OWNER = b"\x00"
ITEMS = "SELECT id, body FROM items WHERE holder = ? AND side = ? ORDER BY position"
# Seconds by which the expiry of a chain is extended beyond need, so that not every turn rewrites all of it.
_SPARE = 3600
# Copies of an item among which one is chosen.
_MAX_COPIES = 8


class Item(Struct, frozen=True):
    """One stored item: its ID, and its JSON."""

    id: str
    body: bytes


class StoredResponse(Struct, frozen=True):
    """A stored response: `body` is its JSON, "" where its provider keeps it."""

    id: str
    status: str
    previous: str | None
    background: bool
    provider: str
    alive: int
    body: bytes


class Responses:
    """The table of responses. Nothing is found for another owner, nor after its time."""

    def __init__(self, db: Connection, now: Callable[[], int], expiry: Callable[[], int]) -> None:
        self._db = db
        self._now = now
        self._expiry = expiry

    def find(self, owner: bytes, response_id: str) -> StoredResponse | None:
        """The response, if it is this owner's."""
        row = self._db.row(
            "SELECT id, status, previous, background, provider, coalesce(until, 0), body FROM responses"
            " LEFT JOIN promises ON holder = id WHERE id = ? AND owner = ? AND expires > ?",
            (response_id, owner, self._now()),
        )
        if row is None:
            return None
        return StoredResponse(row[0], row[1], row[2], bool(row[3]), row[4], row[5], row[6])

    def status_of(self, owner: bytes, response_id: str) -> tuple[str, int] | None:
        """The status of a response and until when it is looked after, without reading all of it."""
        row = self._db.row(
            "SELECT status, coalesce(until, 0) FROM responses LEFT JOIN promises ON holder = id"
            " WHERE id = ? AND owner = ? AND expires > ?",
            (response_id, owner, self._now()),
        )
        return (row[0], row[1]) if row is not None else None

    def exists(self, response_id: str) -> bool:
        """Whether the response exists for any owner."""
        return exists(self._db, "SELECT 1 FROM responses WHERE id = ?", (response_id,))

    def is_anothers(self, owner: bytes, response_id: str) -> bool:
        """Whether the response belongs to another owner, or to none."""
        return exists(self._db, "SELECT 1 FROM responses WHERE id = ? AND owner <> ?", (response_id, owner))

    def add(
        self,
        owner: bytes,
        response: StoredResponse,
        input_items: Sequence[Item] = (),
        output_items: Sequence[Item] = (),
        *,
        is_repeated: bool = False,
    ) -> bool:
        """Store a response with its items, and prolong its chain. False if its ID is taken: then it has no owner. If
        the addition `is_repeated`, the same response of the same owner is the one that it has added before."""
        expires = self._expiry()
        with Transaction(self._db):
            stored_owner, root = self._db.rows(
                "INSERT INTO responses (id, owner, expires, previous, root, status, background, provider, body)"
                " VALUES (?, ?, ?, ?, coalesce((SELECT root FROM responses WHERE id = ?), ?), ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET owner = CASE WHEN ? = 1 AND responses.owner = excluded.owner"
                " AND responses.body = excluded.body THEN excluded.owner ELSE ? END RETURNING owner, root",
                (
                    *(response.id, owner, expires, response.previous, response.previous, response.id),
                    *(response.status, response.background, response.provider, response.body),
                    *(is_repeated, _NO_OWNER),
                ),
            )[0]
            if stored_owner != owner:
                return False
            if response.alive:
                self._promise(response.id, response.alive)
            add_items(self._db, owner, response.id, INPUT_SIDE, input_items)
            add_items(self._db, owner, response.id, OUTPUT_SIDE, output_items)
            if root != response.id:
                self._db.queue(
                    "UPDATE responses SET expires = ? WHERE root = ? AND expires < ?",
                    [(expires + _SPARE, root, expires)],
                )
            return True

    def record_owner(self, owner: bytes, response_id: str, provider: str, items: Sequence[str] = ()) -> None:
        """Record the owner of a response that its provider stores, and of the IDs of its items. An ID that a provider
        gave to two owners has no owner. That of a response stored here stays unchanged."""
        with Transaction(self._db):
            changed = self._db.change(
                "INSERT INTO responses (id, owner, expires, previous, root, status, background, provider, body)"
                " VALUES (?, ?, ?, NULL, ?, '', 0, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET provider = excluded.provider, expires = excluded.expires,"
                " owner = CASE WHEN responses.owner = excluded.owner THEN excluded.owner ELSE ? END"
                " WHERE responses.body = excluded.body",
                (response_id, owner, self._expiry(), response_id, provider, b"", _NO_OWNER),
            )
            if changed:
                add_items(self._db, owner, response_id, OUTPUT_SIDE, [Item(item, b"") for item in items])

    def finish(self, owner: bytes, response: StoredResponse, output_items: Sequence[Item]) -> bool:
        """Write the end of a response that runs; False if it has ended otherwise, for example by cancellation."""
        with Transaction(self._db):
            changed = self._db.change(
                "UPDATE responses SET status = ?, body = ?, expires = ?"
                " WHERE id = ? AND owner = ? AND status IN (?, ?)",
                (response.status, response.body, self._expiry(), response.id, owner, *RUNNING),
            )
            if not changed:
                return False
            self._db.queue("DELETE FROM promises WHERE holder = ?", [(response.id,)])
            add_items(self._db, owner, response.id, OUTPUT_SIDE, output_items)
            return True

    def keep_alive(self, owner: bytes, response_id: str, until: int) -> bool:
        """Renew the lease of a running response; False if it has ended meanwhile."""
        with Transaction(self._db):
            row = self._db.row(
                "SELECT status FROM responses WHERE id = ? AND owner = ? AND status IN (?, ?)",
                (response_id, owner, *RUNNING),
            )
            if row is None:
                return False
            if row[0] != "in_progress":
                # Only once: the row holds all of the response.
                self._db.change("UPDATE responses SET status = 'in_progress' WHERE id = ?", (response_id,))
            self._promise(response_id, until)
            return True

    def _promise(self, response_id: str, until: int) -> None:
        self._db.queue(
            "INSERT INTO promises (holder, until) VALUES (?, ?)"
            " ON CONFLICT (holder) DO UPDATE SET until = excluded.until",
            [(response_id, until)],
        )

    def weight(self, owner: bytes, response_id: str) -> tuple[int, int]:
        """The number of items of a chain, and their bytes, without reading them."""
        rows = self._db.rows(
            f"{_WAY} SELECT count(*), coalesce(sum(length(items.body)), 0)"
            " FROM way JOIN items ON items.holder = way.id",
            self._way(owner, response_id),
        )
        return rows[0][0], rows[0][1]

    def chain(self, owner: bytes, response_id: str) -> list[Item] | None:
        """All items up to the end of a response, oldest first; None if any of it is not there."""
        way = self._way(owner, response_id)
        first = self._db.row(f"{_WAY} SELECT previous FROM way ORDER BY depth DESC LIMIT 1", way)
        if first is None or first[0] is not None:
            return None
        rows = self._db.rows(
            f"{_WAY} SELECT items.id, items.body FROM way JOIN items ON items.holder = way.id"
            " ORDER BY way.depth DESC, items.side, items.position",
            way,
        )
        return [Item(*row) for row in rows]

    def _way(self, owner: bytes, response_id: str) -> tuple[str, bytes, int, bytes, int]:
        """The values for `_WAY`."""
        now = self._now()
        return response_id, owner, now, owner, now

    def items(self, response_id: str, side: int) -> list[Item]:
        """The items on one side of a response or conversation that was found."""
        rows = self._db.rows(ITEMS, (response_id, side))
        return [Item(*row) for row in rows]

    def item(self, owner: bytes, item_id: str) -> bytes | None:
        """An item by its id; empty if its provider stores it. Of up to `_MAX_COPIES` copies the one that lives longest:
        an owner may store an id, and refer to it, any number of times."""
        row = self._db.row(
            """
            SELECT items.body FROM (
                SELECT items.holder, side, position, coalesce(responses.expires, conversations.expires) AS until
                FROM items LEFT JOIN responses ON responses.id = items.holder
                LEFT JOIN conversations ON conversations.id = items.holder
                WHERE items.id = ? AND items.owner = ? AND coalesce(responses.owner, conversations.owner) = items.owner
                AND coalesce(responses.expires, conversations.expires) > ? LIMIT ?
            ) copies JOIN items USING (holder, side, position) ORDER BY copies.until DESC LIMIT 1
            """,
            (item_id, owner, self._now(), _MAX_COPIES),
        )
        return row[0] if row is not None else None

    def is_given(self, owner: bytes, item_id: str) -> bool:
        """Whether a storing provider issued this ID to this owner, who may send any ID as an own one."""
        return exists(self._db, f"SELECT 1 {_GIVEN}", (item_id, owner, self._now()))

    def storing_provider(self, owner: bytes, response_id: str) -> str:
        """The provider that keeps a response of this owner's; "" if none is known to."""
        row = self._db.row(
            "SELECT provider FROM responses WHERE id = ? AND owner = ? AND expires > ? AND status = '' AND body = ?",
            (response_id, owner, self._now(), b""),
        )
        return row[0] if row is not None else ""

    def item_storing_provider(self, owner: bytes, item_id: str) -> str:
        """The provider that gave the id of an item to this owner; "" if none is known to."""
        row = self._db.row(
            f"SELECT responses.provider {_GIVEN} ORDER BY responses.expires DESC LIMIT 1",
            (item_id, owner, self._now()),
        )
        return row[0] if row is not None else ""

    def is_anothers_item(self, owner: bytes, item_id: str) -> bool:
        """Whether another owner has an item of this ID."""
        # Two ranges of the index: `<>` would read every copy that this owner has.
        one, other = (f"SELECT 1 FROM items WHERE id = ? AND owner {beyond} ?" for beyond in "<>")
        return exists(self._db, f"{one} UNION ALL {other} LIMIT 1", (item_id, owner, item_id, owner))

    def delete(self, owner: bytes, response_id: str) -> bool:
        """Delete a response and its items."""
        with Transaction(self._db):
            gone = self._db.change("DELETE FROM responses WHERE id = ? AND owner = ?", (response_id, owner))
            if gone:
                _forget(self._db, [response_id])
        return bool(gone)

    def has_outdated(self) -> bool:
        """Whether anything is out of date."""
        return exists(self._db, "SELECT 1 FROM responses WHERE expires <= ? LIMIT 1", (self._now(),))

    def remove_outdated(self, most: int) -> int:
        """Delete expired ones, a part at a time."""
        rows = self._db.rows("SELECT id FROM responses WHERE expires <= ? LIMIT ?", (self._now(), most))
        if rows:
            with Transaction(self._db):
                self._db.many("DELETE FROM responses WHERE id = ?", rows)
                _forget(self._db, [row[0] for row in rows])
        return len(rows)


# Items of an id that providers gave to an owner.
_GIVEN = (
    "FROM items JOIN responses ON responses.id = items.holder WHERE items.id = ? AND items.owner = ?"
    " AND length(items.body) = 0 AND responses.owner = items.owner AND responses.expires > ?"
)
# From a response to the first one of its chain.
_WAY = """
    WITH RECURSIVE way (id, previous, depth) AS (
        SELECT id, previous, 0 FROM responses WHERE id = ? AND owner = ? AND expires > ?
        UNION ALL
        SELECT responses.id, responses.previous, depth + 1 FROM way
        JOIN responses ON responses.id = way.previous AND owner = ? AND expires > ?
    )
"""


def add_items(db: Connection, owner: bytes, holder: str, side: int, items: Sequence[Item], start: int = 0) -> None:
    """Put items behind one another."""
    if not items:
        return
    db.queue(
        "INSERT INTO items (holder, side, position, id, owner, body) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (holder, side, position)"
        " DO UPDATE SET id = excluded.id, owner = excluded.owner, body = excluded.body",
        [(holder, side, start + count, item.id, owner, item.body) for count, item in enumerate(items)],
    )


def _forget(db: Connection, holders: list[str]) -> None:
    for table in ("items", "events", "promises"):
        db.many(f"DELETE FROM {table} WHERE holder = ?", [(holder,) for holder in holders])


# Pieces that are read at a time, so that a long stream is not in memory as a whole for each follower.
_AT_ONCE = 64


class Events:
    """The table of events: `number` counts the pieces of one response."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def add(self, response_id: str, number: int, data: bytes) -> None:
        """Keep the next piece, whole frames; of a response that has ended, or is forgotten, there is none."""
        with Transaction(self._db):
            self._db.queue(
                "INSERT INTO events (holder, number, data, owner)"
                " SELECT id, ?, ?, owner FROM responses WHERE id = ? AND status IN (?, ?)"
                " ON CONFLICT (holder, number) DO UPDATE SET data = excluded.data",
                [(number, data, response_id, *RUNNING)],
            )

    def streamed(self, response_id: str) -> bool:
        """Whether there is a stream of a response, be it empty."""
        return exists(self._db, "SELECT 1 FROM events WHERE holder = ? LIMIT 1", (response_id,))

    def after(self, response_id: str, number: int) -> list[tuple[int, bytes]]:
        """The next pieces behind a number, in order; none if there is none yet."""
        return self._db.rows(
            "SELECT number, data FROM events WHERE holder = ? AND number > ? ORDER BY number LIMIT ?",
            (response_id, number, _AT_ONCE),
        )
