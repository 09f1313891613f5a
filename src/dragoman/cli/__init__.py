"""The command line: thin. Each command is a module with `add` (its arguments) and `run` (its work).

Exit statuses: 0 done, 1 the input was refused, 2 wrong usage, 3 strict mode found a loss, 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from dragoman.errors import ConfigErrors, DragomanError

INTERRUPTED = 130
try:
    from dragoman.cli import (
        check,
        documents,
        env,
        explain,
        key,
        launch,
        mock,
        models,
        prices,
        providers,
        route,
        serve,
        status,
        translate,
        trust,
    )
except KeyboardInterrupt:
    # This takes a good part of a command's first moments.
    sys.exit(INTERRUPTED)

COMMANDS = (serve, launch, env, status, route, check, trust, key, providers, models, prices, translate, explain, mock)

REFUSED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character is no reason to end: a gateway may already serve.
            stream.reconfigure(errors="backslashreplace")
    parser = argparse.ArgumentParser(
        prog="dragoman",
        description="One endpoint for Anthropic Messages, OpenAI Chat Completions and OpenAI Responses.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    ours, clients = launch.cut(sys.argv[1:] if arguments is None else arguments)
    options, unknown = parser.parse_known_args(ours)
    if unknown:
        hint = "; what is for the client stands behind --" if options.run is launch.run else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if clients:
        options.arguments = clients
    try:
        status: int = options.run(options)
    except ConfigErrors as error:
        for problem in error.problems:
            documents.complain(str(problem))
        return REFUSED
    except DragomanError as error:
        documents.complain(str(error))
        return REFUSED
    except OSError as error:
        documents.complain(f"{error.filename or 'output'}: {error.strerror}")
        if isinstance(error, BrokenPipeError):
            # The reader has gone: keep the interpreter from complaining about it once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return REFUSED
    return status
