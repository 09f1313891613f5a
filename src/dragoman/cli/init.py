"""`dragoman init`: finds keys and local servers, asks for the rest, and writes a first dragoman.toml."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.cli import documents
from dragoman.cli.terminal import printable
from dragoman.config.config_file import FILE_NAME, FILE_VARIABLE, config_directory
from dragoman.config.container import HOST, in_container
from dragoman.config.discovery import LOCAL
from dragoman.config.starter_file import UsableProvider, render_starter_file, with_keys
from dragoman.errors import DragomanError
from dragoman.identities.key_text import hash_text, new_key
from dragoman.launching.local_servers import find_local_models
from dragoman.providers.catalogue import CatalogueEntry, catalogue

_WIDTH = 79
_INDENT = " " * 16
_LOOPBACK = "127.0.0.1"
# The exit status if no file was written.
NOTHING = 1
_NOTHING_FOUND = (
    "Nothing found: no key of a known provider in the environment, and no running local "
    "server. Set a key, for example `export OPENAI_API_KEY=…` (`dragoman providers` lists "
    "the variables), or start Ollama, and run `dragoman init` again. `dragoman serve` works "
    "without: the built-in `echo` responds."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "init",
        help="write a first configuration",
        description=(
            "Find API keys in the environment and local servers, and write a dragoman.toml that uses "
            "them. It contains names of variables, but no keys. An existing file is never changed."
        ),
    )
    parser.add_argument(
        "--config", metavar="FILE", help="file to write (default: in the user's configuration directory)"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask: use all keys and servers that are found")
    parser.add_argument("--key", action="store_true", help="create a gateway key, too, without asking")
    parser.add_argument("--dry-run", action="store_true", help="print the file instead of writing it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    path = _config_path(options.config)
    if not options.dry_run and os.path.lexists(path):
        raise DragomanError(
            f"{path} exists and was not changed: `dragoman check` reads it, --config FILE writes another"
        )
    entries = catalogue()
    usable = [*with_keys(os.environ, entries), *_servers(entries)]
    if not usable:
        _print_lines(*textwrap.wrap(_NOTHING_FOUND, _WIDTH, break_on_hyphens=False))
        return NOTHING
    _print_lines("Found:")
    for number, each in enumerate(usable, 1):
        _print_lines(*_described(number, each))
    chosen, keyed = usable, options.key
    # Without a terminal, a question would wait for ever.
    if not options.yes and sys.stdin.isatty():
        try:
            chosen = _chosen(usable)
            keyed = keyed or _confirm("Require a gateway key?")
        except EOFError:
            _print_lines("", "No file was written.")
            return NOTHING
    key = new_key() if keyed else ""
    text = render_starter_file(chosen, [each for each in usable if each not in chosen], hash_text(key) if key else "")
    if options.dry_run:
        _print_lines("", *text.splitlines())
        return 0
    _write(path, text)
    _print_next_steps(path, options.config, chosen, key)
    return 0


def _config_path(named: str | None) -> Path:
    chosen = named or os.environ.get(FILE_VARIABLE)
    if chosen:
        return Path(chosen)
    directory = config_directory(os.environ)
    if directory is None:
        raise DragomanError("there is no home directory to write to: name a file with --config FILE")
    return directory / FILE_NAME


def _servers(entries: Mapping[str, CatalogueEntry]) -> list[UsableProvider]:
    """Running local servers; in a container those of its host, too."""
    addresses = {name: entries[name].endpoints[0].base_url for name in LOCAL if name in entries}
    models = find_local_models(addresses)
    moved: dict[str, str] = {}
    if in_container():
        others = {name: url.replace(_LOOPBACK, HOST) for name, url in addresses.items() if name not in models}
        there = find_local_models(others)
        moved = {name: others[name] for name in there}
        models |= there
    return [
        UsableProvider(
            name=name,
            title=entries[name].title,
            base_url=moved.get(name, addresses[name]),
            moved=name in moved,
            # Names with quotes or control characters are left out, because a terminal or file would misread them.
            models=tuple(model for model in models[name] if model.isprintable() and not set(model) & set("\"'\\")),
        )
        for name in addresses
        if name in models
    ]


def _described(number: int, provider: UsableProvider) -> list[str]:
    if provider.variable:
        words = f"{provider.variable} is set"
    else:
        models = f": {', '.join(provider.models[:6])}" if provider.models else ""
        words = f"answers at {provider.base_url.partition('//')[2].partition('/')[0]}{models}"
    text = f"  {number:2}  {provider.name:10}  {words}"
    return textwrap.wrap(text, _WIDTH, subsequent_indent=_INDENT, break_on_hyphens=False)


def _chosen(usable: Sequence[UsableProvider]) -> list[UsableProvider]:
    while True:
        words = _prompt("Which ones should be used? Numbers or names; empty means all: ").replace(",", " ").split()
        if not words or words == ["all"]:
            return list(usable)
        matches = [_find_provider(word, usable) for word in words]
        if None not in matches:
            return [each for each in usable if each in matches]
        wrong = next(word for word, each in zip(words, matches, strict=True) if each is None)
        _print_lines(f"{wrong} is none of them.")


def _find_provider(word: str, usable: Sequence[UsableProvider]) -> UsableProvider | None:
    if word.isascii() and word.isdigit():
        return usable[int(word) - 1] if 0 < int(word) <= len(usable) else None
    return next((each for each in usable if each.name == word), None)


def _confirm(question: str) -> bool:
    while True:
        answer = _prompt(f"{question} [y/N] ").strip().lower()
        if answer in ("", "n", "no"):
            return False
        if answer in ("y", "yes"):
            return True


def _prompt(question: str) -> str:
    sys.stdout.flush()
    return input(question)


def _write(path: Path, text: str) -> None:
    """Create the file, readable only by its user. An existing one stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise DragomanError(f"{path} exists and was not changed") from None
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
    except BaseException:
        path.unlink()
        raise


def _print_next_steps(path: Path, named: str | None, chosen: Sequence[UsableProvider], key: str) -> None:
    _print_lines("", f"Written: {path}")
    if key:
        _print_lines("The gateway key is shown this once; clients send it:", f"  export DRAGOMAN_KEY={key}")
    option = f" --config {named}" if named else ""
    if not named and Path(FILE_NAME).is_file():
        _print_lines(f"Note {FILE_NAME} in this directory: it is read instead of that one.")
    _print_lines("Next:", f"  dragoman check --live{option}", f"  dragoman serve{option}")
    model = next((f"{each.name}/{each.models[0]}" for each in chosen if each.models), "")
    if model:
        _print_lines(f"  dragoman launch claude{option} --model {model}")


def _print_lines(*lines: str) -> None:
    documents.write("".join(f"{printable(line)}\n" for line in lines).encode())
