"""Server report: what a server of PostgreSQL, the role and the tables are like, for `dragoman doctor`. Nothing is
changed."""

from __future__ import annotations

import statistics
import time
from contextlib import closing

from msgspec import Struct

from dragoman.database_location import PostgresDatabase
from dragoman.store.migrations.postgres import STEPS
from dragoman.store.postgres import SCHEMA, PostgresConnection
from dragoman.store.postgres_database import inspecting
from dragoman.store.postgres_privileges import may_migrate, missing_privileges, role_of

# Questions of which the median is the round trip, and that find out whether a pooler changes the session.
_QUESTIONS = 7
_SETTINGS = """
    SELECT current_setting('max_connections')::bigint, current_setting('superuser_reserved_connections')::bigint,
        (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
        pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean
"""
_TABLES = f"""
    SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('{SCHEMA}')
        AND relname IN ('schema_version', 'machines')
"""
_MACHINES = f"SELECT count(*) FROM {SCHEMA}.machines WHERE seen > extract(epoch FROM clock_timestamp()) - 86400"


class ServerReport(Struct, frozen=True, kw_only=True):
    """The state of the server, as one connection finds it."""

    version: str
    is_encrypted: bool
    # Whether a pooler is between, and whether it gives transactions different sessions.
    has_pooler: bool
    changes_sessions: bool
    # Seconds.
    round_trip: float
    role: str
    # Privileges that `serve` needs and the role lacks.
    missing: tuple[str, ...]
    may_migrate: bool
    has_tables: bool
    # Versions of the tables and of the oldest release that can use them, 0 if they cannot be read; and of this release.
    tables: int
    oldest: int
    newest: int
    max_connections: int
    reserved_connections: int
    used_connections: int
    is_read_only: bool
    # Machines that were seen within a day.
    machines: int


def report_on(database: PostgresDatabase) -> ServerReport:
    """Look at a server; `StoreError` if it cannot be used at all."""
    with closing(inspecting(database)) as db, closing(inspecting(database)) as other:
        facts = db.facts()
        made = {name for (name,) in db.rows(_TABLES)}
        missing = missing_privileges(db) if made else []
        tables, oldest = (0, 0) if missing else db.versions
        limit, reserved, used, is_read_only = db.rows(_SETTINGS)[0]
        return ServerReport(
            version=facts.version,
            is_encrypted=facts.is_encrypted,
            has_pooler=_session(db) != facts.session,
            changes_sessions=_changes_sessions(db, other),
            round_trip=_round_trip(db),
            role=role_of(db),
            missing=tuple(missing),
            may_migrate=may_migrate(db),
            has_tables=bool(made),
            tables=tables,
            oldest=oldest,
            newest=len(STEPS),
            max_connections=limit,
            reserved_connections=reserved,
            used_connections=used,
            is_read_only=is_read_only,
            machines=0 if missing or "machines" not in made else db.number(_MACHINES),
        )


def _session(db: PostgresConnection) -> int:
    """The process of the server that has the session of the present transaction."""
    return int(db.ask("SELECT pg_backend_pid()")[0])


def _changes_sessions(db: PostgresConnection, other: PostgresConnection) -> bool:
    """Whether another session is used once the former one is taken by the transaction of another connection."""
    sessions = set()
    for _ in range(_QUESTIONS):
        sessions.add(_session(db))
        other.begin()
        sessions.add(_session(db))
        other.rollback()
    return len(sessions) > 1


def _round_trip(db: PostgresConnection) -> float:
    taken = []
    for _ in range(_QUESTIONS):
        begin = time.perf_counter()
        db.ask("SELECT 1")
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)
