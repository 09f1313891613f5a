"""Line numbers of the keys of a TOML text, which `tomllib` does not give. The text is known to be well formed."""

from __future__ import annotations

import bisect
import re
import tomllib
from typing import TypeAlias

# A key from the root: names of tables and members, and positions in arrays.
KeyPath: TypeAlias = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
# The four kinds of strings; those of three quotes come first, and may end in up to two more of them.
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\r\n]+")


class Lines:
    """The lines of the keys of one document."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._line_numbers: dict[KeyPath, int] = {(): 1}
        # The number of tables of each array of tables so far.
        self._counts: dict[KeyPath, int] = {}
        self._document()

    def of(self, path: KeyPath) -> int:
        """The line of a key, or of the innermost table around it that is written down; 1 if there is none."""
        while path not in self._line_numbers:
            path = path[:-1]
        return self._line_numbers[path]

    def _document(self) -> None:
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._next() == "[":
                table = self._header()
            else:
                self._member(table)
            self._skip(_BLANK)

    def _header(self) -> KeyPath:
        start = self._at
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        names = self._key()
        self._at += 2 if is_array else 1
        path: KeyPath = ()
        for name in names[:-1]:
            path = self._latest((*path, name))
            self._record_line(path, start)
        path = (*path, names[-1])
        self._record_line(path, start)
        if not is_array:
            return self._latest(path)
        self._counts[path] = self._counts.get(path, 0) + 1
        path = self._latest(path)
        self._record_line(path, start)
        return path

    def _latest(self, path: KeyPath) -> KeyPath:
        """The last table of an array of tables, which a later header extends."""
        count = self._counts.get(path)
        return path if count is None else (*path, count - 1)

    def _member(self, table: KeyPath) -> None:
        start = self._at
        path = table
        for name in self._key():
            path = (*path, name)
            self._record_line(path, start)
        self._at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> list[str]:
        names: list[str] = []
        while True:
            self._skip(_SPACE)
            if self._next() in "\"'":
                written = self._skip(_STRING)
                names += tomllib.loads(f"{written}=0")
            else:
                names.append(self._skip(_BARE))
            self._skip(_SPACE)
            if self._next() != ".":
                return names
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        match self._next():
            case '"' | "'":
                self._skip(_STRING)
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case _:
                self._skip(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        self._skip(_BLANK)
        position = 0
        while self._next() != "]":
            self._record_line((*path, position), self._at)
            self._value((*path, position))
            position += 1
            self._separator()
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        self._skip(_BLANK)
        while self._next() != "}":
            self._member(path)
            self._separator()
        self._at += 1

    def _separator(self) -> None:
        self._skip(_BLANK)
        if self._next() == ",":
            self._at += 1
            self._skip(_BLANK)

    def _next(self) -> str:
        return self._text[self._at]

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _record_line(self, path: KeyPath, at: int) -> None:
        # The first mention counts: `[a.b]` names `a` too, but a line of its own for `a` may have come before.
        self._line_numbers.setdefault(path, bisect.bisect_left(self._ends, at) + 1)


_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dotted(path: KeyPath) -> str:
    """A key in TOML form; positions in arrays are in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += "." * bool(text) + (part if _PLAIN_KEY.fullmatch(part) else _quoted(part))
    return text


def _quoted(name: str) -> str:
    escaped = "".join(
        char if char.isprintable() and char not in '"\\' else f"\\u{ord(char):04X}" if ord(char) < 65536 else "?"
        for char in name
    )
    return f'"{escaped}"'
