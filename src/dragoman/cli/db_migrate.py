"""`dragoman db migrate`: brings the tables of the database to the version of this release."""

from __future__ import annotations

import argparse
from contextlib import closing

from dragoman.cli import documents
from dragoman.cli.record_file import add_config
from dragoman.cli.terminal import progress
from dragoman.cli.trust import configured
from dragoman.database_location import PostgresDatabase
from dragoman.errors import DragomanError


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "migrate",
        help="make the tables of the database, or bring them to this release",
        description="Bring the tables of the database to the version of this release, while gateways run: each change "
        "is compatible with the release before. A database of PostgreSQL needs a role that may change tables; the role "
        "of serve need not. Several may run at once, and one that was interrupted can be run again.",
    )
    parser.add_argument(
        "--grant", metavar="ROLE", help="give a role of PostgreSQL the privileges that serve needs, and no others"
    )
    add_config(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Migrate."""
    database = configured(options.config).storage.location
    if isinstance(database, PostgresDatabase):
        _migrate_server(database, options.grant)
    elif options.grant is not None:
        raise DragomanError("--grant needs storage.database: a file has no roles")
    else:
        _migrate_file(database)
    return 0


def _migrate_server(database: PostgresDatabase, role: str | None) -> None:
    from dragoman.store.contents_database import has_present_schema, open_contents
    from dragoman.store.errors import StoreBusy
    from dragoman.store.migrations.postgres import is_present, migrate
    from dragoman.store.postgres_database import administer
    from dragoman.store.postgres_privileges import check_owner, grant_to, may_migrate, missing_privileges

    with closing(administer(database)) as db:
        # A role that only serves finds out that there is nothing to do.
        if may_migrate(db) or missing_privileges(db) or not is_present(db) or not has_present_schema(database):
            check_owner(db, database)
        is_changed = not (is_present(db) and has_present_schema(database))
        with progress() as show_step:
            show_step(f"migrating {database} …")
            try:
                migrate(db)
                # Also while contents are off, since the role of serve cannot make them later.
                open_contents(database).close()
            except StoreBusy as error:
                raise DragomanError(f"{error}; the step was taken back: run dragoman db migrate again") from None
        version, _ = db.versions
        _report(str(database), version, is_changed=is_changed)
        if role is not None:
            grant_to(db, role)
            documents.write_text(f"{role} has the privileges of serve")


def _migrate_file(path: str) -> None:
    from dragoman.database_location import database_exists, is_persistent
    from dragoman.store.record_tables import is_outdated, open_record_tables

    if not is_persistent(path):
        raise DragomanError("storage.path names no file: each start makes the tables in memory")
    is_changed = not database_exists(path) or is_outdated(path)
    with closing(open_record_tables(path)) as tables:
        _report(path, tables.connection.version, is_changed=is_changed)


def _report(place: str, version: int, *, is_changed: bool) -> None:
    documents.write_text(f"{place}: tables of version {version}, {'migrated' if is_changed else 'no change'}")
