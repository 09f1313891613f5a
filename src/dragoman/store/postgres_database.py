"""PostgreSQL database: opens the database that several machines share. It is loaded if one is configured."""

from __future__ import annotations

from dragoman.database_location import PostgresDatabase
from dragoman.store.migrations.postgres import STEPS, migrate
from dragoman.store.postgres import LOCK_TIMEOUT, UNLIMITED, PostgresAddress, PostgresConnection

# Seconds that a statement may take.
TIMEOUT = 5.0
# Seconds that a command waits for a table, behind which its writers wait.
_ADMINISTERING_LOCK_TIMEOUT = 3.0


def connect_to(
    database: PostgresDatabase, *, timeout: float | None = None, lock_timeout: float = LOCK_TIMEOUT
) -> PostgresConnection:
    """A connection to a database whose tables this release can use; nothing is asked before its first statement."""
    seconds = TIMEOUT if timeout is None else timeout
    return PostgresConnection(PostgresAddress(database.address), seconds, lock_timeout, release=len(STEPS))


def administer(database: PostgresDatabase) -> PostgresConnection:
    """A connection for a command that makes, changes or fills tables, as long as that takes."""
    return PostgresConnection(PostgresAddress(database.address), UNLIMITED, _ADMINISTERING_LOCK_TIMEOUT)


def set_up(database: PostgresDatabase) -> None:
    """Make the tables of an empty database; those of another version stay as they are."""
    db = PostgresConnection(PostgresAddress(database.address), TIMEOUT)
    try:
        if db.versions == (0, 0):
            migrate(db)
    finally:
        db.close()
