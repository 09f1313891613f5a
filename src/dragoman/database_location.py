"""Database location: where a gateway stores its data: in the file at a path, in `MEMORY`, or in a database of
PostgreSQL, which several machines share."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

# The value of `storage.path` without a file.
MEMORY = ":memory:"


class PostgresDatabase(Struct, frozen=True, kw_only=True):
    """A database of PostgreSQL. In messages it is its name, never its address."""

    # As the driver reads it; it may have a password.
    address: str
    # Hosts, ports and database.
    name: str
    # The path that this machine's journals are beside.
    path: str
    # Seconds for which ingested journals are retained, since a failover may take their rows.
    journal_keep: float = 3600.0
    # The name of this machine among the machines of the database, and the time zone of its days; "" is the system's.
    machine: str = ""
    time_zone: str = ""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"PostgresDatabase(name={self.name!r}, path={self.path!r})"


DatabaseLocation: TypeAlias = str | PostgresDatabase


def is_persistent(location: DatabaseLocation) -> bool:
    """Whether data outlives the process, and other processes see it."""
    return location not in ("", MEMORY)


def database_exists(location: DatabaseLocation) -> bool:
    """Whether there is a database: the first start makes a file."""
    return is_persistent(location) and (not isinstance(location, str) or Path(location).exists())


def path_of(location: DatabaseLocation) -> str:
    """The path of the file, or of what is beside it on this machine."""
    return location if isinstance(location, str) else location.path


def journal_keep_of(location: DatabaseLocation) -> float:
    """Seconds for which ingested journals are retained: a file loses nothing that it has."""
    return 0.0 if isinstance(location, str) else location.journal_keep
