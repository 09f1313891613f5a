"""`dragoman db machines`: the machines that share the database."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from dragoman.cli import documents, formatting
from dragoman.cli.record_file import add_config, write_json
from dragoman.cli.terminal import YELLOW, Column, screen_of, table
from dragoman.cli.trust import configured
from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonValue
from dragoman.rules.timestamps import format_instant

if TYPE_CHECKING:
    from dragoman.store.machines import MachineRow

_MICRO = 1_000_000
_COLUMNS = (
    Column(heading="MACHINE"),
    Column(heading="SEEN", styles={"not": YELLOW}),
    Column(heading="VERSION"),
    Column(heading="CONFIGURATION"),
    Column(heading="BACKLOG", right=True),
    Column(heading="ID"),
)


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "machines",
        help="list the machines that share the database",
        description="List the machines that share the database of storage.database: when each was seen, the version of "
        "its gateway, the digest of its configuration, and the bytes of its journals that are not ingested yet.",
    )
    parser.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    add_config(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List the machines."""
    database = configured(options.config).storage.database
    if database is None:
        raise DragomanError("storage.database is not set: one machine has the file of storage.path")
    from dragoman.records.machine import UNSEEN_AFTER
    from dragoman.store.machines import Machines
    from dragoman.store.postgres_database import connect_to

    with closing(connect_to(database)) as db:
        machines = Machines(db)
        rows, now = machines.all(), machines.now()
    if options.json:
        write_json({"machines": [_as_json(row, now - row.seen <= UNSEEN_AFTER) for row in rows]})
        return 0
    if not rows:
        documents.complain(f"no machine has joined {database} yet: dragoman serve does")
        return 0
    screen = screen_of(sys.stdout, options.color)
    cells = [
        (
            row.name,
            _seen(now - row.seen, now - row.seen <= UNSEEN_AFTER),
            row.version,
            row.configuration,
            str(row.backlog),
            row.id,
        )
        for row in rows
    ]
    documents.write_text("\n".join(table(screen, _COLUMNS, cells)))
    return 0


def _seen(ago: float, runs: bool) -> str:
    span = formatting.span(max(int(ago), 0) * _MICRO)
    return f"{span} ago" if runs else f"not for {span}"


def _as_json(row: MachineRow, runs: bool) -> JsonValue:
    return {
        "name": row.name,
        "id": row.id,
        "seen": format_instant(int(row.seen)),
        "running": runs,
        "version": row.version,
        "configuration": row.configuration,
        "backlog": row.backlog,
    }
