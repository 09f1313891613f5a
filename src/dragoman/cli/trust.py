"""`dragoman trust`: permits the use of a found configuration file in its present form. On a terminal other commands ask
for this permission."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

from dragoman.cli import documents
from dragoman.cli.terminal import printable
from dragoman.config.config_file import FILE_NAME, ConfigFile, FileOrigin, find_file
from dragoman.config.load import read_settings
from dragoman.config.parsing import parse
from dragoman.config.settings import Settings
from dragoman.config.trust import is_trusted, revoke, trust
from dragoman.config.trust_summary import describe
from dragoman.providers.catalogue import catalogue

# More rows would scroll off the screen before the question.
_MAX_ROWS = 18
# The lines of a description, wrapped with an indent: text from a file cannot begin a row of its own.
_NARROWEST = 40
_LINE, _GOES_ON = "  ", " " * 10


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "trust",
        help="permit the use of a dragoman.toml in the current directory",
        description=(
            "Show the effects of a configuration file, and permit its use where it is found, as long "
            "as it is not changed. It may be part of a checkout, and can send your keys to any "
            "address."
        ),
    )
    parser.add_argument("file", nargs="?", default=FILE_NAME, metavar="FILE", help=f"the file (default: {FILE_NAME})")
    parser.add_argument("--revoke", action="store_true", help="revoke the trust")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    path = Path(options.file)
    name = printable(str(path))
    if options.revoke:
        revoke(path, os.environ)
        _print(f"{name} is not trusted")
        return 0
    file = ConfigFile(path=path, origin=FileOrigin.FOUND)
    content = file.read()
    _print(_described(file, content))
    trust(path, content, os.environ)
    _print(f"{name} is trusted until it is changed")
    return 0


def configured(explicit: str | None) -> Settings:
    return read_settings(file_to_read(explicit), os.environ, catalogue())


def file_to_read(explicit: str | None) -> ConfigFile | None:
    """The file that a command reads. On a terminal it asks whether to trust a found one; otherwise the reader rejects
    it."""
    file = find_file(os.environ, explicit)
    if file is not None and file.origin is FileOrigin.FOUND and documents.may_ask():
        content = file.read()
        if not is_trusted(file, content, os.environ) and _agreed(_described(file, content)):
            # Trust the content that was shown, even if the file has changed.
            trust(file.path, content, os.environ)
    return file


def _described(file: ConfigFile, content: bytes) -> str:
    """The effects of a file, whose text may come from an attacker."""
    values, _ = parse(str(file), content)
    owner = file.path.stat().st_uid
    whose = f", which belongs to another user (uid {owner})," if os.name == "posix" and owner != os.geteuid() else ""
    head = f"If {file.path.absolute()}{whose} is used, it"
    import shutil

    width = max(_NARROWEST, shutil.get_terminal_size().columns - 1)
    rows = textwrap.wrap(printable(head), width, subsequent_indent=_GOES_ON)
    for line in describe(values, catalogue()):
        rows += textwrap.wrap(printable(line), width, initial_indent=_LINE, subsequent_indent=_GOES_ON)
    return "\n".join(rows)


def _agreed(description: str) -> bool:
    if description.count("\n") >= _MAX_ROWS:
        _print("a dragoman.toml was found here, which is too long to show: read it before you trust it")
        return False
    _print(f"A configuration was found in the current directory, and you have not trusted it.\n{description}")
    documents.prompt("Trust it?")
    answer = ""
    with suppress(KeyboardInterrupt, UnicodeError):
        answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        _print("")
    return documents.is_yes(answer)


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
