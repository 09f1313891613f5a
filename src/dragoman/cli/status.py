"""`dragoman status`: how the gateway that runs and its providers are doing."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from dragoman.cli import documents
from dragoman.cli.env import named_gateway, settings_of, warn_of_clear_text
from dragoman.cli.ledger import printable
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.launching.gateway import addresses_of, find_running, is_running, status_of
from dragoman.launching.keys import find_key
from dragoman.model.jsonvalue import JsonObject
from dragoman.wire.json import encode_text

_GAP = "  "


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "status",
        help="show how providers are doing",
        description="Show what the gateway that runs knows of its providers and targets.",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--key-file", metavar="FILE", help="holds the gateway's key; left out, DRAGOMAN_KEY does")
    parser.add_argument("--config", metavar="FILE", help="configuration (default: dragoman.toml, if there is one)")
    parser.add_argument("--gateway", metavar="URL", help="a gateway that runs, here or elsewhere; left out, one here")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask the gateway, and show what it says."""
    settings = settings_of(options)
    address = _running(named_gateway(options), settings)
    key = find_key(settings, os.environ, options.key_file)
    warn_of_clear_text(address, key)
    told = status_of(address, "" if key.is_placeholder else key.text)
    text = encode_text(told) if options.json else as_text(address, told)
    documents.write(text.encode() + b"\n")
    return 0


def _running(named: str | None, settings: Settings) -> str:
    """The gateway that runs; an error says where none does."""
    if named is not None:
        if not is_running(named):
            raise DragomanError(f"no gateway is running at {named}")
        return named
    if not settings.server.port:
        raise DragomanError("the configuration lets the gateway take any free port; say where it is with --gateway URL")
    found = find_running(settings.server)
    if found is None:
        place = addresses_of(settings.server)[0]
        raise DragomanError(f"no gateway is running at {place}; start it with `dragoman serve`")
    return found


def as_text(address: str, told: JsonObject) -> str:
    """The status in words and tables."""
    head = f"dragoman {_text(told, 'version')} at {address}: "
    head += f"{_counted(told, 'workers')}, {_counted(told, 'in_flight', 'requests')} under way"
    providers = [
        (
            _text(row, "name"),
            _text(row, "keys"),
            _text(row, "calls"),
            _text(row, "concurrency") or "any",
            _text(row, "waiting"),
        )
        for row in _rows(told, "providers")
    ]
    targets = [(_text(row, "target"), _standing(row)) for row in _rows(told, "targets")]
    parts = [head, _table(("PROVIDER", "KEYS", "CALLS", "MOST", "WAITING"), providers)]
    parts.append(_table(("TARGET", "STANDING"), targets) if targets else "Nothing is known against any target.")
    return "\n\n".join(parts)


def _counted(row: JsonObject, name: str, words: str = "") -> str:
    count, words = _text(row, name), words or name
    return f"{count} {words.removesuffix('s') if count == '1' else words}"


def _standing(row: JsonObject) -> str:
    seconds = row.get("seconds")
    left = f" for another {seconds:g} s" if isinstance(seconds, (int, float)) and seconds > 0 else ""
    return _text(row, "standing") + left


def _rows(told: JsonObject, name: str) -> list[JsonObject]:
    found = told.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _text(row: JsonObject, name: str) -> str:
    """A member as it is shown; another gateway's words are not a terminal's commands."""
    value = row.get(name)
    return "" if value is None else printable(str(value))


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    sizes = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
    lines = []
    for row in (headings, *rows):
        # The first column is a name, and the others are numbers or words.
        cells = [row[0].ljust(sizes[0])]
        cells += [cell.rjust(size) if len(row) > 2 else cell for cell, size in zip(row[1:], sizes[1:], strict=True)]
        lines.append(_GAP.join(cells).rstrip())
    return "\n".join(lines)
