"""The command line. Each command is a module with `add` (its arguments) and `run`; `parser.py` has exit statuses."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from dragoman.errors import ConfigErrors, DragomanError, UsageError

INTERRUPTED = 130
try:
    from dragoman.cli import (
        check,
        completion,
        db,
        doctor,
        documents,
        env,
        explain,
        forget,
        init,
        key,
        launch,
        logs,
        mock,
        models,
        prices,
        providers,
        route,
        serve,
        service,
        session,
        sessions,
        status,
        top,
        translate,
        trust,
        usage,
    )
    from dragoman.cli.parser import (
        DONE,
        REFUSED,
        UNREAD,
        USAGE,
        Parser,
        add_common,
        children,
        command_at,
        new_parser,
        unknown,
    )
except KeyboardInterrupt:
    # This takes a good part of a command's first moments.
    sys.exit(INTERRUPTED)

COMMANDS = (
    *(init, serve, launch, env, status),
    *(logs, sessions, session, top, usage, db, forget),
    *(service, route, check, doctor, trust, key),
    *(providers, models, prices, translate, explain, mock, completion),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status."""
    _fill_standard_streams()
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
    except SystemExit as ended:
        # Help, or wrong usage.
        raise SystemExit(_flushed(ended.code if isinstance(ended.code, int) else DONE)) from None
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        status = UNREAD
    return _flushed(status)


def _flushed(status: int) -> int:
    """Write what is left to be written, here, where an error is not merely complained of; the status after that."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError as error:
            # The interpreter would try, and complain, once more at its end.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
            if isinstance(error, BrokenPipeError):
                status = UNREAD
            elif status == DONE:
                documents.complain(f"output: {error.strerror}")
                status = REFUSED
    return status


def _fill_standard_streams() -> None:
    """Open what is missing of them: else a socket takes the number of one, and gets what is written to it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # It takes the lowest number that is free, which is this one.
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w", errors="backslashreplace", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", errors="backslashreplace", closefd=False)


def tree() -> Parser:
    parser, commands = new_parser()
    for command in COMMANDS:
        command.add(commands)
    add_common(parser)
    return parser


def _run(words: Sequence[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character is no reason to end: a gateway may already serve.
            stream.reconfigure(errors="backslashreplace")
    parser = tree()
    at = command_at(words)
    ours, clients = launch.cut(words[at:])
    options, others = parser.parse_known_args([*words[:at], *_joined(ours, parser)])
    if others:
        hint = "; what is for the client stands behind --" if ours[:1] == [launch.NAME] else ""
        early = any(word in others for word in words[:at])
        unknown(parser if early else options.parser, others, hint)
    if "run" not in options:
        parser.print_help()
        return DONE
    if clients:
        options.arguments = clients
    try:
        status: int = options.run(options)
    except UsageError as error:
        # What only the command itself understands ends as what argparse refuses does.
        documents.complain(str(error))
        return USAGE
    except ConfigErrors as error:
        for problem in error.problems:
            documents.complain(str(problem))
        return REFUSED
    except DragomanError as error:
        documents.complain(str(error))
        return REFUSED
    except BrokenPipeError:
        raise
    except OSError as error:
        documents.complain(f"{error.filename or 'output'}: {error.strerror}")
        return REFUSED
    return status


def _joined(words: list[str], parser: Parser) -> list[str]:
    """The words, with those of a command whose name has two as one."""
    name = " ".join(words[:2])
    return [name, *words[2:]] if len(words) > 1 and name in children(parser) else words
