"""Argument parser: argparse that prints the usage of the failing command and suggests the nearest name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from dragoman import __version__
from dragoman.cli.terminal import AUTO, CHOICES, printable, screen_of, wrapped
from dragoman.config.nearest_name import nearest
from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# Exit statuses, on which scripts rely; docs/cli.md has the same table. `UsageError` and errors of argparse end with 2,
# all other errors with 1.
STATUSES = (
    (0, "done"),
    (1, "failed, or found a problem; the reason is on standard error"),
    (2, "invalid command line, no effect"),
    (3, "strict mode rejected a loss"),
    (130, "interrupted"),
    (141, "output pipe closed (SIGPIPE)"),
)
DONE, REFUSED, USAGE, LOST, INTERRUPTED, UNREAD = (status for status, _ in STATUSES)


class Parser(argparse.ArgumentParser):
    def __init__(self, **said: object) -> None:
        # argparse creates the parsers of commands with the same keyword arguments.
        super().__init__(**said)  # type: ignore[arg-type]  # whatever argparse itself hands on
        # Later Pythons colour help by rules of their own.
        self.color = False

    def error(self, message: str) -> NoReturn:
        """Report wrong usage, with this command's own usage and a reference to its help."""
        self.print_usage(sys.stderr)
        lines = wrapped(screen_of(sys.stderr), f"{self.prog}: {printable(message)}", "  ", whole_words=True)
        self.exit(USAGE, "\n".join([*lines, f"try `{self.prog} --help`", ""]))

    def format_usage(self) -> str:
        return screen_of(sys.stderr).displayable(super().format_usage())

    def format_help(self) -> str:
        return screen_of(sys.stdout).displayable(super().format_help())

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # A write error is reported to the caller; argparse would hide it.
        (file or sys.stderr).write(message)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        choices = action.choices or ()
        if not choices or value in choices:
            return
        # The names of commands of two words have a blank.
        names = [name for name in map(str, choices) if " " not in name]
        close = nearest(str(value), names)
        hint = f"did you mean {close}?" if close else f"there are {', '.join(names)}"
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, f"there is no command {value}; {hint}")
        raise argparse.ArgumentError(action, f"{value!r} is unknown; {hint}")


def add_all_losses(parser: argparse.ArgumentParser, where: str) -> None:
    """Declare the option that also shows bookkeeping losses (decision 38)."""
    parser.add_argument(
        "--all-losses",
        action="store_true",
        help=f"{where}: include losses that do not change the response (bookkeeping)",
    )


def add_common(parser: argparse.ArgumentParser) -> None:
    """Declare the options that every command has, in this parser and all below it."""
    parser.add_argument(
        "--color",
        choices=CHOICES,
        default=argparse.SUPPRESS,
        metavar="WHEN",
        help="use colours: always, never, or on terminals that support them (auto)",
    )
    parser.set_defaults(parser=parser)
    for child in children(parser).values():
        add_common(child)


def children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    commands: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands |= action.choices
    return commands


def options_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            yield action


def new_parser() -> tuple[Parser, argparse._SubParsersAction[Parser]]:
    """The parser of the entire command line, and the action to which commands are added."""
    statuses = "\n".join(f"  {status:3}  {words}" for status, words in STATUSES)
    parser = Parser(
        prog="dragoman",
        description="One endpoint for Anthropic Messages, OpenAI Chat Completions and\nOpenAI Responses.",
        epilog=f"exit status:\n{statuses}\n  `launch` ends with the exit status of the client.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dragoman {__version__}")
    parser.set_defaults(color=AUTO)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", parser_class=Parser)
    return parser, commands


def command_at(words: Sequence[str]) -> int:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] == "--color" else 1
    return min(at, len(words))


def unknown(parser: argparse.ArgumentParser, words: Sequence[str], hint: str) -> NoReturn:
    """Reject unknown options, with suggestions."""
    names = [name for action in options_of(parser) for name in action.option_strings]
    matches = [nearest(word.partition("=")[0], names) for word in words if word.startswith("--")]
    close = " ".join(name for name in matches if name is not None)
    did_you_mean = f"; did you mean {close}?" if close else ""
    parser.error(f"unrecognized arguments: {' '.join(words)}{did_you_mean}{hint}")


def refuse_windows() -> None:
    """Reject Windows, which lacks the processes and signals that the gateway uses."""
    if sys.platform == "win32":
        raise DragomanError(
            "the gateway does not run on Windows: use WSL, where it runs as on Linux (`wsl --install` sets it up)"
        )
