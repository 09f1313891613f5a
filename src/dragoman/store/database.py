"""Database: the file with all stored data, opened once per process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.database_location import DatabaseLocation, PostgresDatabase, is_persistent
from dragoman.errors import ConfigError
from dragoman.store.connection import Connection, Transaction
from dragoman.store.conversations import Conversations
from dragoman.store.cooldowns import Cooldowns
from dragoman.store.errors import StoreError
from dragoman.store.identities import Identities
from dragoman.store.identity_changes import IdentityChanges
from dragoman.store.migrations.sqlite import migrate, remedy_of
from dragoman.store.recent_turn_owners import RecentTurnOwners, SharedTurns, TurnOwners
from dragoman.store.responses import Events, Responses
from dragoman.store.sqlite import SQLiteConnection, connect
from dragoman.store.turn_cache import Turns
from dragoman.store.write_errors import not_writable

if TYPE_CHECKING:
    from dragoman.store.server_state import ServerState

# Behind the name of the file, whose neighbour it is.
_TURN_OWNERS_SUFFIX = "-turns"
# Seconds that a starting process waits for another writer.
_LOCK_TIMEOUT = 5.0
# The owner of a trial write.
_NOBODY = b"\0"
# Number of expired rows that are removed at a time, and interval of searches in seconds.
_SWEEP = 10
_SWEPT_TURNS = 100
_SWEEP_EVERY = 60.0


class StoredBytes(Struct, frozen=True, kw_only=True):
    """Stored bytes of one owner and of all; turns have a limit of their own and are not included."""

    own: int
    total: int
    is_outdated: bool


class Tables:
    """All tables of one file; `days` is how long responses and conversations are stored after the last addition."""

    def __init__(
        self,
        db: Connection,
        days: float,
        clock: Callable[[], float] = time.time,
        recent_turn_owners: TurnOwners | None = None,
        lease_clock: Callable[[], float] | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        # By which leases of others end; another one where they may have been unable to renew them.
        self.lease_time = lease_clock or clock
        # Whether the work at hand may have been done before, by a commit whose result is not known.
        self.is_repeated = False
        self._retention_seconds = int(days * 86400)
        # The first time to look is at once.
        self._swept = -_SWEEP_EVERY
        self.responses = Responses(db, self._now, self._expiry)
        self.conversations = Conversations(db, self._now, self._expiry, self.lease_time)
        self.events = Events(db)
        self.turns = Turns(db, self._now, recent_turn_owners=recent_turn_owners)
        self.cooldowns = Cooldowns(db, clock)
        self.identities = Identities(db)
        self.identity_changes = IdentityChanges(db, clock)

    def sweep(self) -> int:
        """Remove some expired rows, if a check is due; returns how many."""
        now = self._clock()
        if now - self._swept < _SWEEP_EVERY:
            return 0
        removed = self.remove_outdated()
        removed += self.turns.remove_outdated(_SWEPT_TURNS) + self.cooldowns.remove_outdated(_SWEPT_TURNS)
        if removed < _SWEEP:
            self._swept = now
        return removed

    def remove_outdated(self) -> int:
        """Remove some responses and conversations that are out of date; give how many."""
        return self.responses.remove_outdated(_SWEEP) + self.conversations.remove_outdated(_SWEEP)

    def bytes_by_owner(self) -> dict[bytes, int]:
        """Stored bytes by owner."""
        return dict(self._db.rows("SELECT owner, bytes FROM stored_bytes"))

    def stored(self, owner: bytes) -> StoredBytes:
        """The stored bytes, and whether any expired."""
        own = self._db.row("SELECT bytes FROM stored_bytes WHERE owner = ?", (owner,))
        # A row for each owner.
        total = self._db.number("SELECT coalesce(sum(bytes), 0) FROM stored_bytes")
        is_outdated = self.responses.has_outdated() or self.conversations.has_outdated()
        return StoredBytes(own=0 if own is None else own[0], total=total, is_outdated=is_outdated)

    def write_trial(self, size: int) -> None:
        """Write what an answer of a size does; it is out of date from the start, should it stay."""
        with self.transaction():
            # Remains of a process that was killed meanwhile.
            self.remove_trial()
            self._db.change(
                "INSERT INTO responses (id, owner, expires, root, status, background, provider, body)"
                " VALUES ('', ?, 0, '', '', 0, '', ?)",
                (_NOBODY, b""),
            )
            self._db.change(
                "INSERT INTO items (holder, side, position, id, owner, body) VALUES ('', 0, 0, '', ?, ?)",
                (_NOBODY, bytes(size)),
            )

    def remove_trial(self) -> None:
        """Remove the row of a trial write."""
        with self.transaction():
            self._db.change("DELETE FROM responses WHERE id = ''")
            self._db.change("DELETE FROM items WHERE holder = ''")

    @property
    def connection(self) -> Connection:
        """The connection, for the code that runs transactions."""
        return self._db

    def transaction(self) -> Transaction:
        """Several writes that are one."""
        return Transaction(self._db)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def _now(self) -> int:
        return int(self._clock())

    def _expiry(self) -> int:
        return self._now() + self._retention_seconds


def open_server_tables(database: PostgresDatabase, days: float, server: ServerState) -> Tables:
    """Open the tables of a server, whose clock they use; nothing is asked of it now."""
    from dragoman.store.postgres_database import STORE_TIMEOUT, connect_to

    db = connect_to(database, timeout=STORE_TIMEOUT)
    return Tables(db, days, server.now, SharedTurns(), server.lease_time)


def open_tables(database: DatabaseLocation, days: float, clock: Callable[[], float] = time.time) -> Tables:
    """Open the database, or create the file, readable only by its user. One thread at a time may use it, whichever that
    is."""
    if not isinstance(database, str):
        from dragoman.store.server_state import ServerState

        return open_server_tables(database, days, ServerState(wall_clock=clock))
    db: SQLiteConnection | None = None
    try:
        if is_persistent(database):
            place = Path(database)
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Made here, since SQLite would let the user's group and others read it; a link may lead to nothing yet.
            os.close(os.open(os.path.realpath(place), os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600))
        db = connect(database, _LOCK_TIMEOUT)
        db.guards_reads = True
        if is_persistent(database):
            db.know(Path(database).absolute())
        # Readers do not wait for a writer, and a killed process loses no committed data.
        db.configure(_LOCK_TIMEOUT, is_durable=False)
        migrate(db)
        # From now on locks are never waited for: waiting would block the whole loop.
        db.set_lock_timeout(0)
        recent_turn_owners = RecentTurnOwners(
            os.path.realpath(database) + _TURN_OWNERS_SUFFIX if is_persistent(database) else None
        )
    except (OSError, StoreError) as error:
        if db is not None:
            db.close()
        otherwise = "set store_responses = false"
        elsewhere = f"name a file elsewhere, or {otherwise}"
        refused = not_writable(Path(database), error, key="storage.path", otherwise=elsewhere)
        raise refused or ConfigError(
            key="storage.path",
            problem=f"the file cannot be opened: {error}",
            remedy=remedy_of(error, otherwise),
        ) from None
    tables = Tables(db, days, clock, recent_turn_owners)
    # Turns from before there were marks.
    tables.turns.announce_all()
    return tables
