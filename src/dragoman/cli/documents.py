"""Documents: where a command reads from and what it looks at first."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from dragoman.cli.terminal import Screen, printable, screen_of

_CHUNK = 65536


def read(name: str) -> bytes:
    """The whole of a file, or of the standard input for `-`."""
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


def chunks(name: str) -> Iterator[bytes]:
    """A file or the standard input as it comes."""
    if name == "-":
        # What has come so far, not a full buffer: a stream is translated as it comes.
        while chunk := os.read(sys.stdin.fileno(), _CHUNK):
            yield chunk
        return
    with Path(name).open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def complain(problem: str) -> None:
    """Tell what went wrong in one line; what came from outside reaches no terminal as it is."""
    print(screen_of(sys.stderr).shown(f"dragoman: {printable(problem)}"), file=sys.stderr)


def say(text: str, screen: Screen | None = None) -> None:
    """Write text to the standard output, with signs that it can show; JSON is for `write`."""
    write((screen or screen_of(sys.stdout)).encode(text) + b"\n")


def write(data: bytes) -> None:
    """Write to the standard output at once."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_all(pieces: Iterable[bytes]) -> None:
    """Write to the standard output what comes, some of it at a time: there may be any amount."""
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
