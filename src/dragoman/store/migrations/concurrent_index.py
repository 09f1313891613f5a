"""Concurrent index: a step of a migration that builds an index while gateways write, by `CREATE INDEX CONCURRENTLY`
(decision 47).

The transaction of the step keeps other processes from it, and has neither a snapshot nor a lock on the table. The
statements run over a connection of their own, since no transaction may contain them. A process that is killed leaves an
invalid index or a server process that builds on: the next one waits for that, drops the invalid index and begins again.
"""

from __future__ import annotations

import time
from contextlib import closing

from msgspec import Struct

from dragoman.store.connection import Transaction
from dragoman.store.postgres import SCHEMA, PostgresConnection

# Seconds between two looks at another server process that builds the index.
_PAUSE = 0.1
# For the table itself, whose writers wait behind.
_LOCK_TIMEOUT = "3s"
_PARTITIONED = "p"


class ConcurrentIndex(Struct, frozen=True, kw_only=True):
    """An index of a table, and of all its partitions: the server adds it to later ones."""

    name: str
    table: str
    # In parentheses, and a condition if it has one.
    columns: str

    def build(self, db: PostgresConnection) -> None:
        """Build the index within the transaction of a step."""
        # The build may take longer than a transaction may rest. A query instead would keep its snapshot until the next
        # one, for whose end the build would wait.
        db.script("SET LOCAL idle_in_transaction_session_timeout = 0")
        with closing(db.beside()) as apart:
            if _is_partitioned(apart, self.table):
                self._build_parts(apart)
            else:
                _build(apart, self.name, self.table, self.columns)

    def _build_parts(self, db: PostgresConnection) -> None:
        """Build the index of each partition."""
        # Invalid until each partition has it. The server adds it to later partitions.
        with Transaction(db):
            db.script(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            db.script(f"CREATE INDEX IF NOT EXISTS {self.name} ON ONLY {SCHEMA}.{self.table} {self.columns}")
        for partition in _partitions(db, self.table):
            if not _has_part(db, partition, self.name):
                part = f"{partition}_{self.name}"
                _build(db, part, partition, self.columns)
                db.script(f"ALTER INDEX {SCHEMA}.{self.name} ATTACH PARTITION {SCHEMA}.{part}")


def _is_partitioned(db: PostgresConnection, table: str) -> bool:
    kind = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(?)"
    return db.row(kind, (f"{SCHEMA}.{table}",)) == (_PARTITIONED,)


def _partitions(db: PostgresConnection, table: str) -> list[str]:
    names = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass(?) ORDER BY 1"
    return [name for (name,) in db.rows(names, (f"{SCHEMA}.{table}",))]


def _has_part(db: PostgresConnection, partition: str, index: str) -> bool:
    """Whether a partition has its part of an index."""
    attached = (
        "SELECT count(*) FROM pg_inherits h JOIN pg_index i ON i.indexrelid = h.inhrelid"
        " WHERE h.inhparent = to_regclass(?) AND i.indrelid = to_regclass(?)"
    )
    return db.number(attached, (f"{SCHEMA}.{index}", f"{SCHEMA}.{partition}")) > 0


def _build(db: PostgresConnection, name: str, table: str, columns: str) -> None:
    """Build one index, unless it is there and valid."""
    place = f"{SCHEMA}.{name}"
    # A server process goes on after its client was killed.
    building = "SELECT count(*) FROM pg_stat_progress_create_index WHERE index_relid = to_regclass(?)"
    while db.number(building, (place,)):
        time.sleep(_PAUSE)
    row = db.row("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(?)", (place,))
    if row == (True,):
        return
    if row is not None:
        db.script(f"DROP INDEX CONCURRENTLY {place}")
    db.script(f"CREATE INDEX CONCURRENTLY {name} ON {SCHEMA}.{table} {columns}")
