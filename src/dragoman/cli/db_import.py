"""`dragoman db import`: copies the file of one machine into the empty database that several machines share."""

from __future__ import annotations

import argparse
from pathlib import Path

from dragoman.cli import documents
from dragoman.cli.formatting import counted
from dragoman.cli.record_file import add_config, now_in_micro
from dragoman.cli.terminal import progress
from dragoman.cli.trust import configured
from dragoman.database_location import PostgresDatabase
from dragoman.errors import DragomanError


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "import",
        help="copy a file of records into the database of several machines",
        description="Copy a file of storage.path into the empty database of storage.database: gateway keys, stored "
        "responses and conversations, records, totals, sessions and the audit log, as they are. Its gateway must have "
        "stopped. All of it is copied, or nothing; the file stays as it is. The role must own the tables.",
    )
    parser.add_argument("file", metavar="FILE", help="the file, such as ~/.local/state/dragoman/state.db")
    add_config(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Import."""
    database = configured(options.config).storage.location
    if not isinstance(database, PostgresDatabase):
        raise DragomanError("storage.database is not set: name the database of PostgreSQL to import into")
    from dragoman.records.digest_key import secret_in
    from dragoman.records.journal_directory import directory_of
    from dragoman.records.journal_ingest import ingest_all
    from dragoman.store.file_import import check_import, import_file

    path = Path(options.file)
    with progress() as show_step:
        check_import(path, database)
        # Journals of the file that are not in its tables yet.
        ingest_all(str(path), now=now_in_micro())
        rows = import_file(path, database, show_step, secret_in(directory_of(str(path)))).rows
    words = ", ".join(
        counted(rows[table], noun)
        for table, noun in (("records", "record"), ("sessions", "session"), ("responses", "stored response"))
    )
    documents.write_text(f"imported {path} into {database}: {words}, {counted(rows['identities'], 'gateway key')}")
    return 0
