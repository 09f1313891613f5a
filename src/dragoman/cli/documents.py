"""Documents: the input and output of commands."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from dragoman.cli.terminal import OutputScreen, printable, screen_of, wrapped
from dragoman.errors import DragomanError, WireError
from dragoman.model.jsonvalue import JsonValue
from dragoman.wire.json import encode_text

_CHUNK = 65536
_INDENT = "  "


def read(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


def chunks(name: str) -> Iterator[bytes]:
    if name == "-":
        # Returns the data so far instead of waiting for a full buffer, so that streams are translated as they arrive.
        while chunk := os.read(sys.stdin.fileno(), _CHUNK):
            yield chunk
        return
    with Path(name).open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def complain(problem: str, command: str = "") -> None:
    """Write a message to standard error, without control characters. A `command` to copy gets a line of its own."""
    screen = screen_of(sys.stderr)
    lines = wrapped(screen, screen.displayable(f"dragoman: {printable(problem)}"), _INDENT, whole_words=True)
    if command:
        lines.append(_INDENT + screen.displayable(printable(command)))
    print("\n".join(lines), file=sys.stderr)


def request_problem(error: DragomanError) -> str:
    """The error text of a request. If only the model is missing, with the option that sets it."""
    is_nameless = isinstance(error, WireError) and (error.path, error.actual) == ("/model", "nothing")
    return f"{error}; --model NAME sets it" if is_nameless else str(error)


def may_ask() -> bool:
    """Whether a person can answer a question. Standard output may be redirected."""
    return os.isatty(0) and os.isatty(2)


def prompt(question: str) -> None:
    """Ask for confirmation on standard error. The caller reads the reply."""
    sys.stderr.write("\n".join(wrapped(screen_of(sys.stderr), f"{question} [y/N]", _INDENT)) + " ")
    sys.stderr.flush()


def agreed(question: str, yes: bool, unasked: str, refused: str) -> bool:
    """Ask for agreement. Without a terminal the result is False. `unasked` and `refused` are the messages."""
    if yes:
        return True
    if not all(map(os.isatty, range(3))):
        complain(unasked)
        return False
    prompt(question)
    if is_yes(sys.stdin.readline()):
        return True
    complain(refused)
    return False


def is_yes(answer: str) -> bool:
    return answer.strip().lower() in ("y", "yes")


def write_text(text: str, screen: OutputScreen | None = None) -> None:
    """Write text to standard output, with characters that it can show. Use `write` for JSON."""
    write((screen or screen_of(sys.stdout)).encode(text) + b"\n")


def show(options: argparse.Namespace, document: JsonValue, as_text: Callable[[OutputScreen], str]) -> None:
    """Write a result to standard output: a JSON document with `--json`, otherwise text."""
    if options.json:
        write(encode_text(document).encode() + b"\n")
    else:
        screen = screen_of(sys.stdout, options.color)
        write_text(as_text(screen), screen)


def write(data: bytes) -> None:
    """Write to standard output at once."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_all(pieces: Iterable[bytes]) -> None:
    """Write many chunks to standard output as they arrive, buffered."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _CHUNK:
            write(b"".join(waiting))
            waiting.clear()
            size = 0
    write(b"".join(waiting))
