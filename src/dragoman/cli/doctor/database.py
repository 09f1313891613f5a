"""The database of several machines: whether its server, the role of this gateway and the tables are as `serve` needs
them."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.cli.doctor.report import SERVER, DoctorFinding, Section
from dragoman.config.settings import Settings
from dragoman.database_location import PostgresDatabase
from dragoman.store.errors import StoreError
from dragoman.store.server_report import ServerReport, report_on

_TITLE = "Database"
# Seconds. A stored response takes up to four round trips.
_SLOW = 0.02
# Connections of a worker beside those for responses: for ingestion, and for its heartbeat.
_OWN_CONNECTIONS = 2


def database(settings: Settings, location: PostgresDatabase) -> Section:
    """Whether the database can be used."""
    try:
        report = report_on(location)
    except StoreError as error:
        problem, _, remedy = str(error).partition(": ")
        advice = remedy or "start the server, or correct storage.database"
        return Section(_TITLE, (("database", str(location)),), findings=(DoctorFinding(problem, advice, SERVER),))
    facts = (
        ("database", str(location)),
        ("server", f"PostgreSQL {report.version}"),
        ("round trip", f"{report.round_trip * 1000:.3g} ms"),
        ("pooler", _pooler(report)),
        ("encryption", "TLS" if report.is_encrypted else "none"),
        ("role", f"{report.role}, which may{'' if report.may_migrate else ' not'} change tables"),
        ("tables", _tables(report)),
        ("connections", f"{_needed(settings, report)}; {report.used_connections} of {report.max_connections} used"),
    )
    return Section(_TITLE, facts, findings=tuple(_findings(settings, location, report)))


def _pooler(report: ServerReport) -> str:
    if not report.has_pooler:
        return "none"
    return "in transaction mode" if report.changes_sessions else "yes, in session mode or with a free session"


def _tables(report: ServerReport) -> str:
    if not report.has_tables:
        return "none yet"
    return f"version {report.tables} of {report.newest}" if report.tables else "cannot be read"


def _machines(report: ServerReport) -> int:
    """The machines that share the database, at least this one."""
    return max(report.machines, 1)


def _connections(settings: Settings, report: ServerReport) -> int:
    """The connections that all machines may have, if they are configured as this one."""
    return (settings.storage.connections + _OWN_CONNECTIONS) * settings.server.workers * _machines(report)


def _needed(settings: Settings, report: ServerReport) -> str:
    machines, workers = _machines(report), settings.server.workers
    return (
        f"{_connections(settings, report)} = {settings.storage.connections + _OWN_CONNECTIONS} × {workers} workers × "
        f"{machines} machines"
    )


def _findings(settings: Settings, location: PostgresDatabase, report: ServerReport) -> Iterator[DoctorFinding]:
    name = str(location)
    if report.is_read_only:
        yield _wrong(f"{name} is read-only, as a replica is", "name the primary in storage.database, or all its hosts")
    if not report.has_tables:
        advice = "the first start makes them" if report.may_migrate else "run dragoman db migrate as another role"
        yield DoctorFinding(f"{name} has no tables yet", advice, wrong=not report.may_migrate)
    elif 0 < report.tables < report.newest:
        yield _wrong(f"the tables of {name} are older than this release", "run dragoman db migrate")
    elif report.oldest > report.newest:
        yield _wrong(f"the tables of {name} are newer than this release", "update dragoman on this machine")
    if report.missing:
        more = f" and {len(report.missing) - 3} more" if len(report.missing) > 3 else ""
        yield _wrong(
            f"the role {report.role} lacks {', '.join(report.missing[:3])}{more}",
            f"run dragoman db migrate --grant {report.role} as the owner of the tables",
        )
    available = report.max_connections - report.reserved_connections
    if not report.has_pooler and _connections(settings, report) > available:
        yield _wrong(
            f"the gateways may have {_needed(settings, report)} connections, and the server admits {available}",
            "raise max_connections, lower storage.connections or workers, or use a pooler in transaction mode",
        )
    if report.round_trip > _SLOW:
        yield DoctorFinding(
            f"a round trip to {name} takes {report.round_trip * 1000:.0f} ms, of which a stored response takes four",
            "run gateways near the primary of the database",
            wrong=False,
        )
    if not report.is_encrypted and settings.storage.allow_unverified_database:
        yield DoctorFinding(
            f"the connection to {name} is not encrypted", "add sslmode=verify-full to the address", wrong=False
        )


def _wrong(message: str, advice: str) -> DoctorFinding:
    return DoctorFinding(message, advice, SERVER)
