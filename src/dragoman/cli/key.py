"""`dragoman key`: keys that open the gateway."""

from __future__ import annotations

import argparse

from dragoman.cli import documents
from dragoman.config.toml_lines import dotted
from dragoman.config.values import is_name
from dragoman.errors import UsageError
from dragoman.identities.key_text import hash_text, new_key
from dragoman.wire.json import encode_text


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "key", help="make a key that opens the gateway", description="Keys that open the gateway."
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    new = actions.add_parser(
        "new",
        help="make one",
        description="Print a new key, once, and the lines for the configuration: they hold its hash alone.",
    )
    new.add_argument("name", nargs="?", default="default", metavar="NAME", help="what to call it; default if left out")
    new.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    new.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if not is_name(options.name):
        raise UsageError("a key's name has letters, digits, hyphens, dots and underscores, and at most 64 of them")
    key = new_key()
    digest = hash_text(key)
    if options.json:
        text = encode_text({"name": options.name, "key": key, "hash": digest})
    else:
        text = (
            f"{key}\n\n# The key is shown this once. These lines go into dragoman.toml:\n"
            f'[keys.{dotted((options.name,))}]\nhash = "{digest}"'
        )
    documents.write_text(text)
    return 0
