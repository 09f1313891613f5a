"""`dragoman db ingest`: ingests journals that were saved from a machine that is gone."""

from __future__ import annotations

import argparse
from pathlib import Path

from dragoman.cli import documents
from dragoman.cli.formatting import counted
from dragoman.cli.record_file import add_config, find_record_file, now_in_micro
from dragoman.cli.terminal import progress

INCOMPLETE = 1


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "ingest",
        help="ingest journals that were saved from another machine",
        description="Ingest the journals of a machine that is gone, from a copy of its directory of journals. Each "
        "request is recorded once, also if the command runs twice or the machine returns. The files stay as they are.",
    )
    parser.add_argument("directory", metavar="DIRECTORY", help="the saved directory of journals (PATH.records)")
    add_config(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ingest a directory."""
    from dragoman.records.saved_journals import ingest_saved

    record_file = find_record_file(options)
    with progress() as show_step:
        show_step(f"ingesting {options.directory} …")
        result = ingest_saved(record_file.database, Path(options.directory), now_in_micro())
    known = f"; {counted(result.known, 'journal')} had nothing new" if result.known else ""
    documents.write_text(
        f"{counted(result.rows, 'request')} of {counted(result.journals, 'journal')} recorded in"
        f" {record_file.database}{known}"
    )
    if result.damaged:
        documents.complain(f"cannot read {counted(result.damaged, 'line')} of journals; their requests are missing")
    for left in result.left:
        documents.complain(f"not ingested: {left}")
    return INCOMPLETE if result.left or result.damaged else 0
