"""Heartbeat: asks a database server twice a second how it is, in one statement, and reads changes of gateway keys. Its
connection is its own: ingestion waits for its turn, and a heartbeat never does (decision 47)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TypeVar

from dragoman.database_location import PostgresDatabase
from dragoman.identities.identity import StoredIdentity
from dragoman.store.connection import Row
from dragoman.store.errors import StoreError, StoreWithoutTables
from dragoman.store.identities import Identities, IdentityCount
from dragoman.store.postgres import SCHEMA
from dragoman.store.postgres_database import connect_to, set_up
from dragoman.store.postgres_privileges import may_migrate
from dragoman.store.server_state import ServerAnswer, ServerState

T = TypeVar("T")
# Intervals between two heartbeats at most, while none returns.
_MAX_PATIENCE = 10.0
# Seconds until a heartbeat has failed.
TIMEOUT = 2.0
_BEAT = f"""
    SELECT number, extract(epoch FROM clock_timestamp())::double precision,
        concat_ws(
            '-',
            (SELECT system_identifier FROM pg_control_system()),
            -- That of the control file is still the former one after a promotion.
            substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8),
            extract(epoch FROM pg_postmaster_start_time())
        ),
        (SELECT database FROM {SCHEMA}.schema_version)
    FROM {SCHEMA}.generation
"""


class ServerHeartbeat:
    """The heartbeat of one worker, and its reader of identities. One thread at a time may use it."""

    def __init__(self, database: PostgresDatabase, state: ServerState, timeout: float | None = None) -> None:
        self._state = state
        self._database = database
        self._db = connect_to(database, timeout=TIMEOUT if timeout is None else timeout)
        self._identities = Identities(self._db)
        # Heartbeats that failed, one after the other.
        self._failed = 0
        # Which server has answered. What was read from another one is read again: the numbers of its changes may be
        # given twice.
        self.file = (0, 0, 0)
        # Eight bytes that tell the database from another one.
        self.origin = b""

    @property
    def patience(self) -> float:
        """Intervals until the next heartbeat; more, and at random, while the server is away."""
        return random.uniform(0.5, 1.0) * min(2.0**self._failed, _MAX_PATIENCE) if self._failed else 1.0

    def generation(self) -> int:
        """Ask how the server is, and for the number of the last change of keys; `StoreError` if it is away."""
        try:
            generation, clock, epoch, database = self._beat()
        except StoreError as error:
            self._failed = min(self._failed + 1, 8)
            self._state.lost(str(error))
            raise
        self._failed = 0
        if epoch != self._state.epoch:
            self.file = (0, 0, self.file[2] + 1)
        self.origin = bytes(database)
        self._state.answered(ServerAnswer(clock=clock, epoch=epoch, database=self.origin.hex()))
        return int(generation)

    def _beat(self) -> Row:
        """The answer to a heartbeat; the tables of an empty database are made first."""
        try:
            return self._db.ask(_BEAT)
        except StoreWithoutTables:
            if self._state.database or not may_migrate(self._db):
                # It was another one before, or its owner makes the tables.
                raise
            # It was away at the start, which would have made them.
            set_up(self._database)
            return self._db.ask(_BEAT)

    def changes_since(self, generation: int, apply: Callable[[Iterator[StoredIdentity]], T]) -> T:
        """The result of `apply` for the identities that were changed after a generation, revoked ones included."""
        return apply(self._identities.each_change_since(generation))

    def has_any(self) -> bool:
        """Whether there is any identity; a revoked one is one."""
        return self._identities.has_any()

    def count(self, now: float) -> IdentityCount:
        """The number of identities."""
        return self._identities.count(now)

    def close(self) -> None:
        """Let go of the server."""
        self._db.close()
