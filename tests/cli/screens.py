"""A command on a real terminal, and what a person sees there.

seen = on_screen(["providers"], tmp_path, columns=80)
assert seen.plain.splitlines()[0].startswith("NAME")
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from tests.server.process import PATIENCE, clean_environment

# Colours, and the one order that progress uses: clear the rest of the line.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

# What the terminal of whoever runs the tests is like is no matter.
_TERMINAL = frozenset({"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "LC_ALL", "LC_CTYPE", "LANG", "PYTHONIOENCODING"})


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


def on_screen(
    words: Sequence[str],
    place: Path,
    *,
    columns: int = 80,
    environ: Mapping[str, str] | None = None,
    stream: str = "stdout",
) -> Seen:
    """Run a command with one of its streams, or `both`, on a terminal of some width; nobody types anything."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    own = {name: value for name, value in clean_environment(place).items() if name not in _TERMINAL}
    environment = {**own, "TERM": "xterm", "PYTHONUTF8": "1", **(environ or {})}
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", *words],
        cwd=place,
        env=environment,
        stdin=subprocess.DEVNULL,
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
    try:
        return os.read(terminal, 65536)
    except OSError:
        # The end of a terminal is an error to those who read from it.
        return b""


def piped(words: Sequence[str], place: Path, environ: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run a command where there is no terminal: its status and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", *words],
        cwd=place,
        env={**clean_environment(place), **(environ or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()
