"""PostgreSQL database: opens the database that several machines share. It is loaded if one is configured."""

from __future__ import annotations

from contextlib import closing

from dragoman.database_location import PostgresDatabase
from dragoman.errors import ConfigError
from dragoman.store.errors import StoreAway, StoreBusy, StoreError
from dragoman.store.migrations.postgres import STEPS, migrate
from dragoman.store.postgres import LOCK_TIMEOUT, SCHEMA, UNLIMITED, PostgresAddress, PostgresConnection

# Seconds that a statement may take.
TIMEOUT = 5.0
# Seconds that a statement of a client's request may take, so that the request fails in time.
STORE_TIMEOUT = 1.5
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


def inspecting(database: PostgresDatabase) -> PostgresConnection:
    """A connection that uses tables of any release, also before they are made."""
    return PostgresConnection(PostgresAddress(database.address), TIMEOUT)


def set_up(database: PostgresDatabase) -> None:
    """Make the tables of an empty database; those of another version stay as they are."""
    db = PostgresConnection(PostgresAddress(database.address), TIMEOUT)
    try:
        if db.versions == (0, 0):
            db.timeout = UNLIMITED
            migrate(db)
    finally:
        db.close()


def prepare(database: PostgresDatabase) -> None:
    """Make the tables of an empty database at a start; `ConfigError` if it has others than this release can use, or
    none. A server that is away is no error: the heartbeat keeps asking for it."""
    try:
        set_up(database)
        with closing(connect_to(database)) as db:
            db.ask(f"SELECT version FROM {SCHEMA}.schema_version")
    except (StoreAway, StoreBusy):
        return
    except StoreError as error:
        remedy = "dragoman doctor checks the database"
        raise ConfigError(key="storage.database", problem=str(error), remedy=remedy) from None
