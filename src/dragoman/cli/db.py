"""`dragoman db`: the database of a gateway: whether it is whole, its migration, and its records for other programs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import msgspec

from dragoman.cli import db_import, db_ingest, db_machines, db_migrate, documents
from dragoman.cli.record_file import add_config, find_record_file, ingest, now_in_micro, write_json
from dragoman.cli.terminal import GREEN, RED, YELLOW, Column, progress, screen_of, table
from dragoman.cli.usage import add_times
from dragoman.database_location import database_exists

WRONG = 1
_MICRO = 1_000_000
# Beyond every time that a row can have.
_EVER = (1 << 63) - 1
_FORMATS = ("jsonl", "csv")
_COLUMNS = (
    Column(heading="STATE", styles={"ok": GREEN, "note": YELLOW, "wrong": RED}),
    Column(heading="WHAT"),
    Column(heading="FOUND", least=24),
)
# A piece of a file that is written.
_BUFFER_BYTES = 1 << 16


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "db",
        help="check the database, migrate or import it, or export its records",
        description="The database of the gateway (storage.path or storage.database), and the journals of this machine.",
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="verify the records without changing them",
        description="See whether the database is whole, its sums agree with its rows and with each other, what is "
        "referred to is there, and journals can be read. Nothing is changed. The exit status is 1 if something is "
        "wrong.",
    )
    check.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    export = actions.add_parser(
        "export",
        help="write out every exchange",
        description="Write out all that is recorded of exchanges, one on each line, in the order of their times.",
    )
    add_times(export, "all")
    export.add_argument("--format", choices=_FORMATS, default=_FORMATS[0], help="JSON lines (default), or CSV")
    export.add_argument("--out", metavar="FILE", help="where to (default: standard output); for its user alone")
    for action, run in ((check, run_check), (export, run_export)):
        add_config(action)
        action.set_defaults(run=run)
    db_migrate.add(actions)
    db_import.add(actions)
    db_machines.add(actions)
    db_ingest.add(actions)


def run_check(options: argparse.Namespace) -> int:
    """Examine the database and the journals."""
    from dragoman.records.integrity_check import check_integrity

    record_file = find_record_file(options)
    if not database_exists(record_file.database):
        documents.complain(f"no requests recorded yet: {record_file.database} does not exist")
        if options.json:
            write_json({"findings": []})
        return 0
    with progress() as show_step:
        show_step(f"looking {record_file.database} through …")
        findings = list(check_integrity(record_file.database))
    if options.json:
        write_json({"findings": msgspec.to_builtins(findings)})
    else:
        screen = screen_of(sys.stdout, options.color)
        rows = [(each.state, each.subject, each.words) for each in findings]
        documents.write_text("\n".join(table(screen, _COLUMNS, rows)))
    return WRONG if any(each.state == "wrong" for each in findings) else 0


def run_export(options: argparse.Namespace) -> int:
    """Export the records."""
    from dragoman.records.export import as_csv, as_json_lines, csv_names, exchanges
    from dragoman.records.time_range import period_of, zone_of
    from dragoman.store.record_queries import Exports
    from dragoman.store.record_tables import open_record_tables

    record_file, now = find_record_file(options), now_in_micro()
    zone = record_file.zone if options.zone is None else zone_of(options.zone)
    period = period_of(zone, now // _MICRO, since=options.since, until=options.until, first=0)
    status = ingest(record_file.database)
    if not database_exists(record_file.database):
        documents.complain(f"no requests recorded yet: {record_file.database} does not exist")
    with closing(open_record_tables(record_file.database, read_only=True)) as tables:
        # Rows are cut at the requested time, since they have their own times; until now means all rows.
        until = period.requested_until * _MICRO if options.until else _EVER
        records = exchanges(Exports(tables.connection), period.requested_since * _MICRO, until)
        lines = as_json_lines(records) if options.format == "jsonl" else as_csv(csv_names(), records)
        if options.out is None:
            documents.write_all(lines)
        else:
            with _written(Path(options.out)) as file:
                file.writelines(lines)
    return status


@contextmanager
def _written(place: Path) -> Iterator[IO[bytes]]:
    """A file that appears complete, readable only by its user; an older file stays until then."""
    if place.exists() and not place.is_file():
        # A device, or a pipe.
        with place.open("wb", _BUFFER_BYTES) as file:
            yield file
        return
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb", _BUFFER_BYTES) as file:
            yield file
        beside.replace(place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
