"""Conversations: items that any number of responses read and add to, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.store.connection import Connection, Transaction, exists
from dragoman.store.responses import INPUT_SIDE, ITEMS, Item, add_items

# Lifetime in seconds of the exclusive lease on a conversation, unless renewed: long enough for a busy store, short
# enough after a crash.
LEASE = 15


class LeaseLost(DragomanError):
    """Another response was given in the conversation since this one's lease had run out."""


class Leased(DragomanError):
    """A response is being given in the conversation."""


class Conversation(Struct, frozen=True):
    """A stored conversation; `metadata` is JSON."""

    id: str
    created: int
    metadata: bytes


class Conversations:
    """The table of conversations. Nothing is found for another owner, nor after its time."""

    def __init__(
        self,
        db: Connection,
        now: Callable[[], int],
        expiry: Callable[[], int],
        lease_time: Callable[[], float] | None = None,
    ) -> None:
        self._db = db
        self._now = now
        self._expiry = expiry
        # By which leases of others end.
        self._lease_time = lease_time or now

    def create(self, owner: bytes, conversation_id: str, metadata: bytes, items: Sequence[Item]) -> Conversation:
        created = self._now()
        with Transaction(self._db):
            self._db.change(
                "INSERT INTO conversations (id, owner, expires, created, metadata, busy, busy_until)"
                " VALUES (?, ?, ?, ?, ?, '', 0)",
                (conversation_id, owner, self._expiry(), created, metadata),
            )
            add_items(self._db, owner, conversation_id, INPUT_SIDE, items)
        return Conversation(id=conversation_id, created=created, metadata=metadata)

    def find(self, owner: bytes, conversation_id: str) -> Conversation | None:
        """The conversation, if it is this owner's."""
        row = self._db.row(
            "SELECT id, created, metadata FROM conversations WHERE id = ? AND owner = ? AND expires > ?",
            (conversation_id, owner, self._now()),
        )
        return None if row is None else Conversation(*row)

    def is_anothers(self, owner: bytes, conversation_id: str) -> bool:
        """Whether the conversation belongs to another owner."""
        return exists(self._db, "SELECT 1 FROM conversations WHERE id = ? AND owner <> ?", (conversation_id, owner))

    def change(self, owner: bytes, conversation_id: str, metadata: bytes) -> None:
        with Transaction(self._db):
            self._db.change(
                "UPDATE conversations SET metadata = ?, expires = ? WHERE id = ? AND owner = ?",
                (metadata, self._expiry(), conversation_id, owner),
            )

    def weight(self, conversation_id: str) -> tuple[int, int]:
        """The number of items of an existing conversation, and their bytes, without reading them."""
        rows = self._db.rows(
            "SELECT count(*), coalesce(sum(length(body)), 0) FROM items WHERE holder = ?",
            (conversation_id,),
        )
        return rows[0][0], rows[0][1]

    def items(self, conversation_id: str) -> list[Item]:
        """The items of an existing conversation, oldest first."""
        rows = self._db.rows(ITEMS, (conversation_id, INPUT_SIDE))
        return [Item(*row) for row in rows]

    def page(self, conversation_id: str, after: str, limit: int, *, newest_first: bool) -> list[Item] | None:
        """Items of a conversation that was found, behind one of them or from the start; None if that is not there."""
        nearest, beyond, order = ("min", "<", "DESC") if newest_first else ("max", ">", "ASC")
        bound, place = "", ()
        if after:
            (place,) = self._db.rows(
                f"SELECT {nearest}(position) FROM items WHERE holder = ? AND side = ? AND id = ?",
                (conversation_id, INPUT_SIDE, after),
            )
            if place[0] is None:
                return None
            bound = f" AND position {beyond} ?"
        rows = self._db.rows(
            f"SELECT id, body FROM items WHERE holder = ? AND side = ?{bound} ORDER BY position {order} LIMIT ?",
            (conversation_id, INPUT_SIDE, *place, limit),
        )
        return [Item(*row) for row in rows]

    def item(self, conversation_id: str, item_id: str) -> Item | None:
        """One item of a conversation that was found, the first of that id."""
        row = self._db.row(
            "SELECT id, body FROM items WHERE holder = ? AND side = ? AND id = ? ORDER BY position LIMIT 1",
            (conversation_id, INPUT_SIDE, item_id),
        )
        return None if row is None else Item(*row)

    def append(
        self,
        owner: bytes,
        conversation_id: str,
        items: Sequence[Item],
        holder: str | None = None,
        *,
        is_repeated: bool = False,
    ) -> bool:
        """Add items at the end; False if the conversation was deleted. If the addition `is_repeated`, a holder that has
        released its lease has added its items. A `holder` gets `LeaseLost` if another one took
        the lease since; without one, a held lease raises `Leased`: the running response does not know the items."""
        with Transaction(self._db):
            row = self._db.row(
                "SELECT busy, busy_until,"
                " (SELECT coalesce(max(position), -1) FROM items WHERE holder = conversations.id)"
                " FROM conversations WHERE id = ? AND owner = ?",
                (conversation_id, owner),
            )
            if row is None:
                return False
            if is_repeated and row[:2] == (holder, 0):
                return True
            if holder is not None and (row[0] != holder or row[1] == 0):
                raise LeaseLost("another response was given in the conversation meanwhile")
            if holder is None and row[0] and row[1] > int(self._lease_time()):
                raise Leased("a response is being given in the conversation")
            self._db.queue("UPDATE conversations SET expires = ? WHERE id = ?", [(self._expiry(), conversation_id)])
            add_items(self._db, owner, conversation_id, INPUT_SIDE, items, start=row[2] + 1)
            return True

    def remove(self, conversation_id: str, item_id: str) -> bool:
        """Take an item out of a conversation that was found."""
        with Transaction(self._db):
            removed = self._db.change("DELETE FROM items WHERE holder = ? AND id = ?", (conversation_id, item_id))
        return bool(removed)

    def lease(self, owner: bytes, conversation_id: str, holder: str) -> bool:
        """Have a conversation alone for a while; False while another one has it."""
        with Transaction(self._db):
            leased = self._db.change(
                "UPDATE conversations SET busy = ?, busy_until = ?"
                " WHERE id = ? AND owner = ? AND (busy IN ('', ?) OR busy_until <= ?)",
                (holder, self._now() + LEASE, conversation_id, owner, holder, int(self._lease_time())),
            )
        return bool(leased)

    def renew(self, leases: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Renew leases, each with its holder; returns those that another holder has by now."""
        lost: list[tuple[str, str]] = []
        until = self._now() + LEASE
        with Transaction(self._db):
            for conversation_id, holder in leases:
                renewed = self._db.change(
                    "UPDATE conversations SET busy_until = ? WHERE id = ? AND busy = ? AND busy_until > 0",
                    (until, conversation_id, holder),
                )
                if not renewed:
                    lost.append((conversation_id, holder))
        return lost

    def release(self, conversation_id: str, holder: str) -> None:
        """Let others have their turn. The holder stays recorded, so that what it did is not done again."""
        with Transaction(self._db):
            self._db.queue(
                "UPDATE conversations SET busy_until = 0 WHERE id = ? AND busy = ?", [(conversation_id, holder)]
            )

    def delete(self, owner: bytes, conversation_id: str) -> bool:
        """Delete a conversation and its items."""
        with Transaction(self._db):
            gone = self._db.change("DELETE FROM conversations WHERE id = ? AND owner = ?", (conversation_id, owner))
            if gone:
                self._db.change("DELETE FROM items WHERE holder = ?", (conversation_id,))
        return bool(gone)

    def has_outdated(self) -> bool:
        """Whether anything is out of date."""
        return exists(self._db, "SELECT 1 FROM conversations WHERE expires <= ? LIMIT 1", (self._now(),))

    def remove_outdated(self, most: int) -> int:
        """Delete expired ones, a part at a time."""
        rows = self._db.rows("SELECT id FROM conversations WHERE expires <= ? LIMIT ?", (self._now(), most))
        if rows:
            with Transaction(self._db):
                self._db.many("DELETE FROM items WHERE holder = ?", rows)
                self._db.many("DELETE FROM conversations WHERE id = ?", rows)
        return len(rows)
