"""Env file: variables for a service, which does not see those of the shell; `serve --env-file` reads it once.

One `NAME=value` per line, bare or in quotes; `#` and `;` begin comments. Only what systemd's `EnvironmentFile=` reads
the same way is accepted, or the two would disagree about a key. Values are written in double quotes.
https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#EnvironmentFile=
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from dragoman.config.config_file import open_without_waiting
from dragoman.errors import ConfigError, ConfigErrors

OPTION = "--env-file"
_MAX_FILE_BYTES = 1024 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Escapes inside double quotes; readers disagree about a backslash before other characters.
_ESCAPED = re.compile(r'(["\\`$])')
_BEHIND_BACKSLASH = r"\\\1"
_DOUBLE = re.compile(r'"((?:[^"\\]|\\["\\`$])*)"')
_SINGLE = re.compile(r"'([^'\\]*)'")
_BARE = re.compile(r"[^\"'\\]*")


def can_be_written(value: str) -> bool:
    """Whether a value fits on a line of the file: no line breaks, and valid UTF-8."""
    return value.isprintable()


def as_env_file(values: Mapping[str, str], heading: str) -> str:
    """The text of a file; the heading names its owner."""
    lines = (rf'{name}="{_ESCAPED.sub(_BEHIND_BACKSLASH, value)}"' for name, value in values.items())
    return "\n".join([f"# {heading}", *lines, ""])


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a file that only its user can read. No error contains a value."""
    return parse_env_file(str(path), _content(path))


def parse_env_file(file: str, content: bytes) -> dict[str, str]:
    """The variables of a text, or everything that is wrong with it."""
    values: dict[str, str] = {}
    problems: list[ConfigError] = []
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise _refused(file, "is not UTF-8", "write it again") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip()[0] in "#;":
            continue
        name, given, value = (part.strip() for part in line.partition("="))
        read = _value(value)
        if not given or not _NAME.fullmatch(name):
            problem, remedy = "is not NAME=value", "write one variable on each line, without `export`"
        elif read is not None and "\0" in read:
            problem, remedy = f"{name} holds a NUL, which no variable can", "write it again"
        elif read is None:
            problem = f"{name} has quotes or backslashes that are read in different ways"
            remedy = 'put it in double quotes, with a backslash before each of " \\ ` $ in it'
        else:
            values[name] = read
            continue
        problems.append(ConfigError(key=OPTION, problem=problem, remedy=remedy, file=file, line=number))
    if problems:
        raise ConfigErrors(problems)
    return values


def _value(text: str) -> str | None:
    """The value of a text; None for a value that shells read differently."""
    if match := _DOUBLE.fullmatch(text):
        return re.sub(r"\\(.)", r"\1", match[1])
    if match := _SINGLE.fullmatch(text):
        return match[1]
    return text if _BARE.fullmatch(text) else None


def _content(path: Path) -> bytes:
    try:
        file = io.FileIO(str(path), opener=open_without_waiting)
    except OSError as error:
        raise _refused(str(path), f"cannot be read: {error.strerror}", "name another, or create it") from None
    with file:
        # Of the open file, not of its name, which may refer to another file by now.
        file_stat = os.fstat(file.fileno())
        if not stat.S_ISREG(file_stat.st_mode):
            raise _refused(str(path), "is not a plain file", "name one")
        if file_stat.st_uid != os.geteuid():
            raise _refused(str(path), f"belongs to another user (uid {file_stat.st_uid})", "name a file of your own")
        if file_stat.st_mode & _OTHERS:
            raise _refused(str(path), "can be read or written by others", "chmod 600, and think of new keys")
        content = file.read(_MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise _refused(str(path), f"is larger than {_MAX_FILE_BYTES} bytes", "name another")
    return content


def _refused(file: str, problem: str, remedy: str) -> ConfigError:
    return ConfigError(key=OPTION, problem=problem, remedy=remedy, file=file)
