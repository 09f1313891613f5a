"""Runs a command and returns what it wrote: in this process, or as a process of its own, with or without a terminal.

    seen = on_screen(["providers"], tmp_path, columns=80)
    assert seen.plain.splitlines()[0].startswith("NAME")

A start of the interpreter takes longer than most commands. `piped` and `on_screen` therefore call the command line in
this process, with the environment, the directory and the standard streams of a process of its own. `test_processes.py`
compares both for every command. `run_process` and `process_on_screen` start a process, for tests of signals, encodings
and the end of streams.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import IO
from unittest import mock

from msgspec import Struct

from dragoman.cli import main
from tests.cli.machine import signals_restored
from tests.server.process import PATIENCE, clean_environment

# Colours, and the one order that progress uses: clear the rest of the line.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

# What the terminal of whoever runs the tests is like is no matter.
_TERMINAL = frozenset({"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "LC_ALL", "LC_CTYPE", "LANG", "PYTHONIOENCODING"})
# Ctrl-D.
_END_OF_INPUT = b"\x04"
_ON_TERMINAL = {"stdout": {1}, "stderr": {2}, "both": {1, 2}}


class Seen(Struct, frozen=True, kw_only=True):
    """What came of a command: its status, what the terminal was sent, and what went to the other stream, if it is one
    of its own."""

    status: int
    raw: str
    other: str

    @property
    def plain(self) -> str:
        """The text without colours, with the lines as a person sees them."""
        return _COLOUR.sub("", self.raw).replace("\r\n", "\n")

    @property
    def coloured(self) -> bool:
        """Whether there were any."""
        return _COLOUR.search(self.raw) is not None


def piped(
    words: Sequence[str],
    place: Path,
    environ: Mapping[str, str] | None = None,
    *,
    stdin: bytes = b"",
    now: int | None = None,
) -> tuple[int, str, str]:
    """Call a command without a terminal: its status, standard output and standard error.

    `now` is the time in microseconds for commands that show records; None is the clock of the machine.
    """
    with ExitStack() as stack:
        inputs, out, err = (stack.enter_context(TemporaryFile()) for _ in range(3))
        inputs.write(stdin)
        inputs.seek(0)
        status = call(words, place, (inputs, out, err), environ, now)
        return status, _content(out), _content(err)


def on_screen(
    words: Sequence[str],
    place: Path,
    *,
    columns: int = 80,
    environ: Mapping[str, str] | None = None,
    stream: str = "stdout",
    typed: bytes | None = None,
    now: int | None = None,
) -> Seen:
    """Call a command with one of its output streams, or `both`, on a terminal of some width.

    `typed` makes the terminal its input, too: what was typed before the command asks, after which the input ends.
    `now` is that of `piped`.
    """
    with ExitStack() as stack:
        master, slave = (stack.enter_context(os.fdopen(number, "r+b", buffering=0)) for number in pty.openpty())
        termios.tcsetwinsize(slave, (24, columns))
        other = stack.enter_context(TemporaryFile())
        screen = _TerminalStream(slave.fileno())
        inputs: IO[bytes] = slave
        if typed is None:
            inputs = stack.enter_context(TemporaryFile())
        else:
            _type(master.fileno(), slave.fileno(), typed)
        out, err = (screen if number in _ON_TERMINAL[stream] else other for number in (1, 2))
        status = _call(words, place, (inputs, out, err), _terminal_environment(place, environ), now)
        return Seen(status=status, raw=screen.written(), other=_content(other))


class _TerminalStream(io.TextIOWrapper):
    """A text stream that has the descriptor, and so the width, of a terminal, and writes into memory.

    A terminal itself holds a few KiB only, so that a thread would have to read what a command writes.
    """

    def __init__(self, descriptor: int) -> None:
        self._memory = io.BytesIO()
        self._descriptor = descriptor
        super().__init__(self._memory, encoding="utf-8", newline="\n", write_through=True)

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return True

    def written(self) -> str:
        """All that was written."""
        return self._memory.getvalue().decode()


def _type(master: int, slave: int, keys: bytes) -> None:
    """Type something and the end of input, without echo: it would stand on the screen before the question."""
    attributes = termios.tcgetattr(slave)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    os.write(master, keys + _END_OF_INPUT)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _terminal_environment(place: Path, environ: Mapping[str, str] | None) -> dict[str, str]:
    own = {name: value for name, value in clean_environment(place).items() if name not in _TERMINAL}
    return {**own, "TERM": "xterm", "PYTHONUTF8": "1", **(environ or {})}


def call(
    words: Sequence[str],
    place: Path,
    streams: tuple[IO[bytes], IO[bytes], IO[bytes]],
    environ: Mapping[str, str] | None = None,
    now: int | None = None,
) -> int:
    """Call a command with these files as its standard streams, and return its status."""
    return _call(words, place, streams, {**clean_environment(place), **(environ or {})}, now)


def _call(
    words: Sequence[str],
    place: Path,
    streams: tuple[IO[bytes], IO[bytes] | _TerminalStream, IO[bytes] | _TerminalStream],
    environ: Mapping[str, str],
    now: int | None,
) -> int:
    """Call a command, and put everything back that a process has of its own."""
    with ExitStack() as stack:
        stack.enter_context(signals_restored())
        stack.enter_context(_descriptors([stream.fileno() for stream in streams]))
        stack.enter_context(mock.patch.dict(os.environ, environ, clear=True))
        stack.enter_context(_time_zone())
        stack.enter_context(_directory(place))
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            stream: io.TextIOWrapper | IO[bytes] = streams[number]
            if not isinstance(stream, _TerminalStream):
                # Closed before the descriptors are put back: nothing of it is to be written elsewhere later.
                mode = "w" if number else "r"
                stream = stack.enter_context(os.fdopen(number, mode, encoding="utf-8", closefd=False))
            stack.enter_context(mock.patch.object(sys, name, stream))
        if now is not None:
            clock = SimpleNamespace(time_ns=lambda: now * 1000)
            stack.enter_context(mock.patch("dragoman.cli.record_file.time", clock))
        try:
            return main(words)
        except SystemExit as ended:
            assert isinstance(ended.code, int)
            return ended.code


@contextmanager
def _descriptors(numbers: Sequence[int]) -> Iterator[None]:
    """Make these the first three descriptors, which programs that the command starts inherit."""
    saved = [os.dup(number) for number in range(3)]
    try:
        for target, number in enumerate(numbers):
            os.dup2(number, target)
        yield
    finally:
        for target, number in enumerate(saved):
            os.dup2(number, target)
            os.close(number)


@contextmanager
def _time_zone() -> Iterator[None]:
    """Have the C library read `TZ` again, as it does at the start of a process."""
    time.tzset()
    try:
        yield
    finally:
        time.tzset()


@contextmanager
def _directory(place: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


def process_on_screen(
    words: Sequence[str],
    place: Path,
    *,
    columns: int = 80,
    environ: Mapping[str, str] | None = None,
    stream: str = "stdout",
    typed: bytes | None = None,
) -> Seen:
    """Run a command as a process with one of its output streams, or `both`, on a terminal of some width.

    `typed` is that of `on_screen`.
    """
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    if typed is not None:
        _type(ours, theirs, typed)
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", *words],
        cwd=place,
        env=_terminal_environment(place, environ),
        stdin=subprocess.DEVNULL if typed is None else theirs,
        stdout=subprocess.PIPE if stream == "stderr" else theirs,
        stderr=subprocess.PIPE if stream == "stdout" else theirs,
    )
    os.close(theirs)
    raw = b""
    try:
        while piece := _read(ours):
            raw += piece
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
    return Seen(status=process.returncode, raw=raw.decode(), other=(out or err or b"").decode())


def _read(terminal: int) -> bytes:
    """Read what a process wrote to a terminal; nothing once the process has ended."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        # The end of a terminal is an error to those who read from it.
        return b""


def run_process(
    words: Sequence[str], place: Path, environ: Mapping[str, str] | None = None, *, stdin: bytes = b""
) -> tuple[int, str, str]:
    """Run a command as a process without a terminal: its status, standard output and standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", *words],
        cwd=place,
        env={**clean_environment(place), **(environ or {})},
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()
