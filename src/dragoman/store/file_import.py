"""File import: copies the file of a gateway on one machine into an empty database of PostgreSQL, in one transaction.

All rows are copied as they are, with their ids and numbers, and rollups, too: of rows that were removed by age nothing
but rollups is left. Triggers that would add to them rest meanwhile, for which the role must own the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from dragoman.database_location import PostgresDatabase
from dragoman.errors import DragomanError
from dragoman.store import postgres_privileges
from dragoman.store.connection import RECORDS, Row, Transaction
from dragoman.store.errors import StoreBusy, StoreError
from dragoman.store.identity_file import check_owner
from dragoman.store.machines import HISTORY_SECRET, Machines
from dragoman.store.migrations import postgres, sqlite
from dragoman.store.migrations.contents import CONTENTS_SCHEMA
from dragoman.store.postgres import SCHEMA, PostgresConnection
from dragoman.store.postgres_database import administer
from dragoman.store.sqlite import SQLiteConnection, connect

# Tables with a row from the beginning, and tables that a file does not have.
_FILLED = ("generation", "turns_total")
_OWN = ("schema_version", "machines", "shared_settings", "erasures")
# Seconds within which a gateway that runs has renewed its row.
_SEEN_WITHIN = 15.0
# Microseconds.
_DAY = 86_400_000_000
# Rows between two reports of progress.
_REPORTED = 50_000


class ImportedFile(Struct, frozen=True, kw_only=True):
    """The number of rows of each table."""

    rows: dict[str, int]


def check_import(path: Path, database: PostgresDatabase) -> None:
    """Refuse a file that cannot be imported, or a database that it cannot be imported into; nothing is changed."""
    with closing(_opened(path)), closing(administer(database)) as db:
        postgres_privileges.check_owner(db, database)
        if postgres.is_present(db):
            _check_empty(db, database)


def import_file(
    path: Path, database: PostgresDatabase, report: Callable[[str], None], secret: bytes = b""
) -> ImportedFile:
    """Copy a file into a database, which gets its tables if it has none; all of it or nothing. Histories are recognised
    by the secret beside the file."""
    with closing(_opened(path)) as file, closing(administer(database)) as db:
        postgres_privileges.check_owner(db, database)
        postgres.migrate(db)
        sqlite.migrate(file)
        report(f"reading {path} …")
        months = [moment for (moment,) in file.rows(f"SELECT DISTINCT time / {_DAY} * {_DAY} FROM records")]
        with Transaction(db, RECORDS):
            tables = _tables(db)
            # Nothing is written by gateways until the end.
            db.script(f"LOCK TABLE {', '.join(tables)} IN EXCLUSIVE MODE")
            db.script("SET LOCAL idle_in_transaction_session_timeout = 0")
            _check_empty(db, database)
            for table in _FILLED:
                db.change(f"DELETE FROM {table}")
            for moment in months:
                db.rows("SELECT ensure_month(?)", (moment,))
            rows = _copy_all(file, db, tables, report)
            _set_sequences(file, db)
            if secret:
                db.change("DELETE FROM shared_settings WHERE name = ?", (HISTORY_SECRET,))
                Machines(db).shared(HISTORY_SECRET, secret.hex())
            db.script(f"ANALYZE {', '.join(tables)}")
        return ImportedFile(rows=rows)


def _opened(path: Path) -> SQLiteConnection:
    """The file, which no other process can open meanwhile."""
    if not path.is_file():
        raise DragomanError(f"{path} does not exist; nothing was changed: name the file of storage.path")
    check_owner(path)
    file = connect(str(path), 0)
    try:
        file.reserve()
        version = file.version
        if version > len(sqlite.STEPS):
            raise DragomanError(
                f"{path} was written by a newer version; nothing was changed: import it with the release that wrote it"
            )
        if not version:
            raise DragomanError(f"{path} has no records; nothing was changed: name the file of storage.path")
        problems = file.problems(1)
        if problems:
            raise StoreError(" ".join(problems[0].split()))
    except StoreBusy:
        file.close()
        raise DragomanError(
            f"{path} is in use by a gateway or a command; nothing was changed: stop it, and try again"
        ) from None
    except StoreError as error:
        file.close()
        raise DragomanError(
            f"{path} is damaged ({error}); nothing was changed: restore it from a backup, or repair it with sqlite3"
        ) from None
    except BaseException:
        file.close()
        raise
    return file


def _tables(db: PostgresConnection) -> dict[str, list[str]]:
    """The tables that both have, with their columns."""
    columns: dict[str, list[str]] = {}
    for table, column in db.rows(
        "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE c.relnamespace = CAST(? AS regnamespace) AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        " AND a.attnum > 0 AND NOT a.attisdropped"
        # A file has one machine.
        " AND c.relname NOT IN ('schema_version', 'machines', 'shared_settings', 'erasures')"
        " ORDER BY c.relname, a.attnum",
        (SCHEMA,),
    ):
        columns.setdefault(table, []).append(column)
    return columns


def _check_empty(db: PostgresConnection, database: PostgresDatabase) -> None:
    """Refuse a database with data in it, or one that a gateway uses."""
    machines = Machines(db)
    if any(machine.seen > machines.now() - _SEEN_WITHIN for machine in machines.all()):
        raise DragomanError(f"a gateway uses the database {database}; nothing was changed: stop it, and try again")
    for table in _tables(db):
        if table not in _FILLED and db.row(f"SELECT 1 FROM {SCHEMA}.{table} LIMIT 1") is not None:
            raise DragomanError(
                f"the database {database} is not empty: it has {table}; nothing was changed: import into a new one"
            )
    contents = f"{CONTENTS_SCHEMA}.exchanges"
    if db.rows("SELECT to_regclass(?) IS NOT NULL", (contents,)) == [(True,)] and db.row(
        f"SELECT 1 FROM {contents} LIMIT 1"
    ):
        raise DragomanError(
            f"the database {database} is not empty: it has contents; nothing was changed: import into a new one"
        )


def _copy_all(
    file: SQLiteConnection, db: PostgresConnection, tables: dict[str, list[str]], report: Callable[[str], None]
) -> dict[str, int]:
    """Copy the rows of all tables, while their triggers rest; give the number of rows of each."""
    with_triggers = db.rows(
        "SELECT DISTINCT c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal"
        " AND NOT c.relispartition AND c.relnamespace = CAST(? AS regnamespace)",
        (SCHEMA,),
    )
    for (name,) in with_triggers:
        db.script(f"ALTER TABLE {name} DISABLE TRIGGER USER")
    copied = {}
    for table, columns in tables.items():
        with closing(file.each(f"SELECT {', '.join(columns)} FROM {table}")) as rows:
            copied[table] = db.copy(table, columns, _counted(table, rows, report))
    for (name,) in with_triggers:
        db.script(f"ALTER TABLE {name} ENABLE TRIGGER USER")
    return copied


def _counted(table: str, rows: Iterable[Row], report: Callable[[str], None]) -> Iterable[Row]:
    for number, row in enumerate(rows):
        if not number % _REPORTED:
            report(f"copying {table}, row {number} …")
        yield row


def _set_sequences(file: SQLiteConnection, db: PostgresConnection) -> None:
    """Have the server number new rows after the greatest number that any row had, also a deleted one."""
    given = dict(file.rows("SELECT name, seq FROM sqlite_sequence"))
    for table, column in db.rows(
        "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE c.relnamespace = CAST(? AS regnamespace) AND NOT c.relispartition AND a.attidentity <> ''",
        (SCHEMA,),
    ):
        last = db.number(f"SELECT coalesce(max({column}), 0) FROM {table}")
        last = max(last, int(given.get(table, 0)))
        if last:
            db.rows("SELECT setval(pg_get_serial_sequence(?, ?), ?)", (f"{SCHEMA}.{table}", column, last))
