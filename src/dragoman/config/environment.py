"""Environment: variables in settings (`$NAME`), and valid texts of keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dragoman.config.values import invalid
from dragoman.errors import ConfigError

_REFERENCE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_VISIBLE = re.compile(r"[!-~]+")
_VALUE = re.compile(r"[\t -~]*")


class Unset(ConfigError):
    """A setting that names an environment variable which is not set, or empty."""

    def __init__(self, variable: str, *, is_empty: bool = False, instead: str = "") -> None:
        self.variable = variable
        problem = f"the environment variable {variable} is {'empty' if is_empty else 'not set'}"
        remedy = f"{instead} or export {variable}=…" if instead else f"export {variable}=…"
        super().__init__(key="", problem=problem, remedy=remedy)


def resolved(text: str, environ: Mapping[str, str]) -> str:
    """The text itself, or the environment's for `$NAME` and `${NAME}`; `$$` is a dollar sign."""
    if text.startswith("$$"):
        return text[1:]
    if not text.startswith("$"):
        return text
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise invalid(
            "expected $NAME or ${NAME}, got another string that begins with $",
            "name one environment variable, or write $$ for a dollar sign",
        )
    name = match[1] or match[2]
    value = environ.get(name, "").strip()
    if not value:
        raise Unset(name, is_empty=name in environ)
    return value


def names_in(value: object) -> Iterator[str]:
    """The variables that a value, or whatever is in it, names."""
    if isinstance(value, str):
        if match := _REFERENCE.fullmatch(value):
            yield match[1] or match[2]
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from names_in(member)
    elif isinstance(value, list):
        for member in value:
            yield from names_in(member)


def is_literal(text: str) -> bool:
    """Whether the text is literal, instead of naming an environment variable."""
    return not text.startswith("$") or text.startswith("$$")


def secret(text: str, environ: Mapping[str, str]) -> str:
    """A key in any setting; no error contains it."""
    return visible(resolved(text, environ))


def visible(value: str) -> str:
    """The same text, checked to be something that can be sent in a header as a key."""
    if not _VISIBLE.fullmatch(value):
        raise invalid(
            "holds a character that no key has: a blank, a line break or a letter beyond ASCII", "copy it again"
        )
    return value


def header_value(text: str, environ: Mapping[str, str]) -> str:
    """A header's value, checked to stay on its line; it may be secret and is in no error."""
    value = resolved(text, environ)
    if not _VALUE.fullmatch(value):
        raise invalid("holds a character that no header can carry", "use printable ASCII on one line")
    return value
