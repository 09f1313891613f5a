"""Parsing: the bytes of a file to TOML values, or a problem in words that help. A hostile file ends soon, too."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable

from dragoman.config.toml_lines import KeyPath, Lines, dotted
from dragoman.errors import ConfigError, ConfigErrors

# The position in tomllib's message; newer versions of Python also have attributes.
_POSITION = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")
# tomllib takes time by the square of a key's parts; ours have five at most.
_MAX_KEY_PARTS = 32
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_MAX_KEY_PARTS}}}")
# Ours are five deep; each level more makes the places of all that is in it longer.
_MAX_DEPTH = 16
# TOML promises no more, and Python gives up on printing much larger ones.
_INTEGER_LIMIT = 2**63


def parse(name: str, content: bytes) -> tuple[dict[str, object], Lines]:
    """The values of a file, and their locations; `ConfigErrors` if it is not TOML."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeError:
        raise _only(file=name, problem="is not text in UTF-8", remedy="save it as UTF-8") from None
    # As a file is read that is opened as text.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    long_key = _LONG_KEY.search(text)
    if long_key is not None:
        line = text.count("\n", 0, long_key.start()) + 1
        raise _only(
            file=name, line=line, problem=f"has a key of more than {_MAX_KEY_PARTS} parts", remedy="write it flat"
        )
    try:
        values = tomllib.loads(text)
        large = _large_number(values)
        lines = Lines(text)
    except ValueError as error:
        # Also raised, with another message, for numbers of thousands of digits.
        raise _syntax(name, text, str(error)) from None
    except RecursionError:
        raise _only(file=name, problem="is nested too deeply", remedy="write it flat") from None
    if large is not None:
        problem, remedy = "is an integer of more than 64 bits", "write a smaller one"
        raise ConfigErrors(
            [ConfigError(key=dotted(large), problem=problem, remedy=remedy, file=name, line=lines.of(large))]
        )
    return values, lines


def _large_number(values: dict[str, object]) -> KeyPath | None:
    """The place of an integer that is larger than TOML allows, if there is one; too deep a place is an error."""
    large: KeyPath | None = None
    rest: list[tuple[KeyPath, object]] = [((), values)]
    while rest:
        path, value = rest.pop()
        if len(path) > _MAX_DEPTH:
            raise RecursionError
        if isinstance(value, dict | list):
            members = value.items() if isinstance(value, dict) else enumerate(value)
            rest += (((*path, key), member) for key, member in members)
        elif isinstance(value, int) and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
            large = path
    return large


def _syntax(name: str, text: str, message: str) -> ConfigErrors:
    position = _POSITION.search(message)
    line = int(position[1]) if position and position[1] else text.count("\n") + 1
    message = message[: position.start()] if position else message
    written = text.split("\n")[line - 1].partition("#")[0].rstrip()
    remedy = next((remedy for is_so, remedy in _SLIPS if is_so(message, written)), _SYNTAX)
    return _only(file=name, line=line, problem=f"is not TOML: {message}", remedy=remedy)


def _only(*, file: str, problem: str, remedy: str, line: int = 0) -> ConfigErrors:
    return ConfigErrors([ConfigError(key="", problem=problem, remedy=remedy, file=file, line=line)])


# Frequent mistakes, by the parser's message and the line.
_SLIPS: tuple[tuple[Callable[[str, str], bool], str], ...] = (
    (lambda words, _: "twice" in words or "overwrite" in words, "keep one of the two"),
    (
        lambda words, line: words.startswith("Expected newline") and line.endswith(","),
        "take the comma away: lines have none at their ends",
    ),
    (lambda _, line: line.startswith("{"), "this looks like JSON: write [server] above port = 8484 instead"),
)
_SYNTAX = 'write keys as name = "string", name = 1 or name = true; names with dots or * need quotes'
