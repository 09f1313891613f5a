"""Command line: each command is a module with `add` (its arguments) and `run`. `parser.py` has the exit statuses."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TypeVar

INTERRUPTED = 130
try:
    from dragoman.cli import documents
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
    from dragoman.errors import ConfigErrors, DragomanError, UsageError
except KeyboardInterrupt:
    # Imports take most of a command's first moments.
    sys.exit(INTERRUPTED)

# The modules of the commands, whose names are prefixes of command names, in the order of the help. A command line
# imports only its own.
COMMANDS = (
    *("init", "serve", "launch", "env", "status"),
    *("logs", "sessions", "session", "top", "usage", "db", "forget"),
    *("service", "route", "check", "doctor", "trust", "key"),
    *("providers", "models", "prices", "translate", "explain", "mock", "completion"),
)
_LAUNCH = "launch"
P = TypeVar("P", bound=argparse.ArgumentParser)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    _fill_standard_streams()
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
    except SystemExit as ended:
        raise SystemExit(_flushed(ended.code if isinstance(ended.code, int) else DONE)) from None
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        status = UNREAD
    return _flushed(status)


def _flushed(status: int) -> int:
    """Flush the output here, where an error changes the status. Returns the status."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError as error:
            # Otherwise the interpreter would try again at its end, and print an error.
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
    """Open missing standard streams. Otherwise a socket would get the number of one, and its output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # It gets the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w", errors="backslashreplace", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", errors="backslashreplace", closefd=False)


def tree(words: Sequence[str] = ()) -> Parser:
    """The parser of a command line: of its command, or of all commands without one or before a help option."""
    at = command_at(words)
    is_general = any(word.startswith(("-h", "--h")) for word in words[:at])
    named = [name for name in words[at : at + 1] if name in COMMANDS and not is_general]
    parser, commands = new_parser()
    # `--version` needs no command.
    for name in () if words[:1] == ["--version"] else named or COMMANDS:
        declare(name, commands)
    add_common(parser)
    return parser


def declare(name: str, commands: argparse._SubParsersAction[P]) -> None:
    add: Callable[[argparse._SubParsersAction[P]], None] = import_module(f"{__name__}.{name}").add
    add(commands)


def _run(words: Sequence[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal cannot show must not end a running gateway.
            stream.reconfigure(errors="backslashreplace")
    parser = tree(words)
    at = command_at(words)
    ours, clients = cut(words[at:])
    options, others = parser.parse_known_args([*words[:at], *_joined(ours, parser)])
    if others:
        hint = "; arguments for the client go after --" if ours[:1] == [_LAUNCH] else ""
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
        # Invalid values end like errors of argparse.
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
    """The arguments, with a command of two words joined."""
    name = " ".join(words[:2])
    return [name, *words[2:]] if len(words) > 1 and name in children(parser) else words


def cut(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments of dragoman, and those for the client, which argparse must not read."""
    if _LAUNCH not in words[:1] or "--" not in words:
        return list(words), []
    end = words.index("--")
    return list(words[:end]), list(words[end + 1 :])
