"""Every option of the command line is told on a page and used in a test; pages name no option that is not there."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from dragoman import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What a command is called with on the pages, up to the end of the code or of its line, or to what is a client's.
_CALL = re.compile(r"\bdragoman ((?:[a-z]+ )*[a-z]+)\b((?:(?!`| -- | \| |\)\"|\bdragoman ).)*)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


@cache
def options() -> dict[str, dict[str, str]]:
    """The options of each command, and of the commands within it, with what `--help` says of them."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    for name in cli.COMMANDS:
        cli.declare(name, commands)
    return {name: dict(_options(found)) for name, found in commands.choices.items()}


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _options(inner)
        elif action.help != argparse.SUPPRESS:
            for option in action.option_strings:
                if option.startswith("--") and option != "--help":
                    yield option, action.help or ""


@cache
def _text(paths: tuple[Path, ...]) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def _is_in(option: str, paths: tuple[Path, ...]) -> bool:
    return re.search(rf"(?<![\w-]){option}\b", _text(paths)) is not None


EACH = sorted({option for known in options().values() for option in known})


@pytest.mark.parametrize("option", EACH)
def test_pitfall_667_every_option_is_told_on_a_page(option: str) -> None:
    assert _is_in(option, tuple(PAGES))


@pytest.mark.parametrize("option", EACH)
def test_pitfall_667_every_option_is_used_in_a_test(option: str) -> None:
    assert _is_in(option, tuple(sorted((ROOT / "tests").rglob("test_*.py"))))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pitfall_669_pages_name_options_as_the_command_has_them(page: Path) -> None:
    wrong = []
    for words, rest in _CALL.findall(page.read_text(encoding="utf-8")):
        known = options().get(words.split()[0])
        if known is not None:
            wrong += [f"{words} {option}" for option in _OPTION.findall(rest) if option not in known]
    assert wrong == []


@pytest.mark.parametrize("command", options())
def test_every_option_says_in_help_what_it_does(command: str) -> None:
    assert [option for option, words in options()[command].items() if not words] == []
