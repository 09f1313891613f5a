"""A terminal without a screen: a command runs in it as before a person, and its text can be read as it is shown."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

_ROWS = 40
_ESCAPE = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")
_PIECE = 65536


def shown(text: str) -> str:
    """What is left on the screen: without escapes, and of a line that was written over, its last form."""
    lines = _ESCAPE.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


class Terminal:
    """A shell's line in a terminal of its own; whatever still runs when it is closed gets a hang-up, then ends."""

    def __init__(self, line: str, folder: Path, environ: Mapping[str, str], columns: int) -> None:
        self._fd, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
        self._process = subprocess.Popen(
            ["bash", "-c", line],
            cwd=folder,
            env=environ,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            # It becomes the terminal of the new session, so that Ctrl-C and a hang-up reach it.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(other)
        self._said = b""
        self._read = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGHUP, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, number)
                self.wait(10.0)
        os.close(self._fd)
        self._process.wait()

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._fd, text.encode())

    def read_until(self, words: str, seconds: float) -> bool:
        """Read until these words are shown; whether they were."""
        end = time.monotonic() + seconds
        while words not in self.text():
            if not self._take(end):
                return False
        return True

    def wait(self, seconds: float) -> int | None:
        """Read until the command has ended, and give its status; None if it takes longer."""
        end = time.monotonic() + seconds
        while self._take(end):
            pass
        left = max(0.1, end - time.monotonic())
        try:
            return self._process.wait(left)
        except subprocess.TimeoutExpired:
            return None

    def text(self) -> str:
        """All that was shown."""
        return shown(self._said.decode(errors="replace"))

    def raw(self) -> str:
        """All that was shown, with its escapes."""
        return self._said.decode(errors="replace")

    def rest(self) -> str:
        """What was shown since this was last asked for."""
        while self._take(time.monotonic() + 0.2):
            pass
        new, self._read = self._said[self._read :], len(self._said)
        return shown(new.decode(errors="replace"))

    def _take(self, end: float) -> bool:
        """Read what comes next; False if nobody writes any more, or the time is over."""
        ready, _, _ = select.select([self._fd], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            piece = os.read(self._fd, _PIECE)
        except OSError:
            # The other end is closed: on Linux that is an error of the device.
            return False
        self._said += piece
        return bool(piece)
