"""`dragoman forget`: erases the rows and names of a key or a session, and the data stored for the key, after a
confirmation. Usage totals stay."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from dragoman.cli import documents
from dragoman.cli.formatting import counted
from dragoman.cli.record_file import add_config, name_of, now_in_micro, record_file_of
from dragoman.cli.terminal import progress, screen_of, wrapped
from dragoman.cli.trust import configured
from dragoman.database_location import DatabaseLocation, database_exists
from dragoman.errors import DragomanError, UsageError

if TYPE_CHECKING:
    from dragoman.contents.retention import RemovedContents
    from dragoman.records.forget import ErasureResult, ErasureScope
    from dragoman.store.stored_erasure import StoredCount

REFUSED = 1
_ELSEWHERE = "Not deleted: data of providers, logs of the gateway, telemetry, exports, backups"
_NO_OWNER = "The database does not know the owner of this key: the data stored for it stays, and expires."
_STORED_STAYS = "stored responses, which expire (storage.response_days)"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "forget",
        help="delete the data of a key, or the records of a session",
        description="Delete all records of a key or of a session, with the names of its sessions and threads, from the "
        "database and the journals, and the stored responses and conversations of the key. Totals stay. The command "
        "shows the extent and asks for confirmation.",
    )
    parser.add_argument("--key", metavar="NAME", help="the name of a key, or the key of the session")
    parser.add_argument("--session", metavar="ID", help="a session, by the client's own ID")
    parser.add_argument("--yes", action="store_true", help="do it without confirmation")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    add_config(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the extent, ask for confirmation, and delete."""
    from dragoman.records.deferred_assignment import assign_scope, assign_session
    from dragoman.records.forget import find, owners_of
    from dragoman.records.journal_ingest import ingest_all
    from dragoman.store.erasure import Erasure
    from dragoman.store.record_tables import open_record_tables
    from dragoman.store.unassigned import RowScope

    if options.key is None and options.session is None:
        raise UsageError("needs --key NAME or --session ID")
    settings = configured(options.config)
    record_file = record_file_of(settings)
    ingest_all(record_file.database, now=now_in_micro())
    if not database_exists(record_file.database):
        raise DragomanError(f"no requests recorded yet: {record_file.database} does not exist")
    key, session = name_of(options.key), name_of(options.session)
    if session is None:
        assign_scope(record_file.database, RowScope(key=key))
    else:
        assign_session(record_file.database, session, key)
    with closing(open_record_tables(record_file.database, read_only=True)) as tables:
        owners = owners_of(tables.connection, key, settings.keys) if session is None and key is not None else ()
        scope = find(Erasure(tables.connection), key, session, owners)
    amount = scope.amount
    much = (
        f"{counted(amount.rows, 'row')} of exchanges, {counted(amount.sessions, 'session')} with "
        f"{counted(amount.threads, 'thread')}, and {counted(amount.heads, 'end')} of histories"
    )
    _print(f"This deletes the records of {scope.description}: {much}. Totals stay.")
    if session is None:
        _print(f"It deletes what is stored for the key: {_stored(amount.stored)}." if owners else _NO_OWNER)
    if options.dry_run:
        return 0
    unasked = "nothing is deleted without confirmation (--yes)"
    if not documents.agreed("Remove it?", options.yes, unasked, "nothing was deleted"):
        return REFUSED
    done, contents = _forgotten(record_file.database, scope, records_contents=settings.records_contents)
    stored = f", and of stored data {_stored(done.stored)}" if owners else ""
    _print(
        f"{counted(done.rows, 'row')} deleted{stored}; {record_file.database} has only totals of {scope.description}."
    )
    if contents.exchanges:
        _print(f"Contents of {counted(contents.exchanges, 'request')} deleted.")
    remaining = (*done.remaining, *contents.remaining)
    for left in remaining:
        documents.complain(f"not reached: {left}")
    _print(f"{_ELSEWHERE}." if owners else f"{_ELSEWHERE}, and {_STORED_STAYS}.")
    return REFUSED if remaining else 0


def _forgotten(
    database: DatabaseLocation, scope: ErasureScope, *, records_contents: bool
) -> tuple[ErasureResult, RemovedContents]:
    """Delete the scope's contents and records. Contents that are stored before the erasure begins are of exchanges that
    the journals have by then; what is not stored yet never is."""
    from dragoman.contents.retention import RemovedContents, begin_erasure, erase
    from dragoman.records.forget import forget

    contents = RemovedContents()

    def erase_contents(exchanges: Sequence[str]) -> None:
        nonlocal contents
        contents = erase(database, exchanges, key=None if scope.session else scope.key)

    key = scope.session_key if scope.session else scope.key
    with progress() as show_step:
        begin_erasure(database, key, now_in_micro(), creates=records_contents)
        done = forget(database, scope, clock=now_in_micro, report_progress=show_step, erase_contents=erase_contents)
    return done, contents


def _stored(stored: StoredCount) -> str:
    return (
        f"{counted(stored.responses, 'response')}, {counted(stored.conversations, 'conversation')}, "
        f"{counted(stored.items, 'item')}, {counted(stored.events, 'event')}, {counted(stored.turns, 'cached turn')}"
    )


def _print(text: str) -> None:
    screen = screen_of(sys.stdout)
    documents.write_text("\n".join(wrapped(screen, text)), screen)
