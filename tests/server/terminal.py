"""`dragoman serve` in a terminal of its own: a window of some width, which can be made wider and closed.

The process has it for its controlling terminal, as one that a person has started there: what it says on standard
output and on standard error is on the same screen, and it hears of it when the window is closed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.gateway.harness import Received, Reply
from tests.server.process import (
    NO_CONSTANTS,
    NO_LINES,
    QUICK,
    Constants,
    Lines,
    Process,
    Served,
    clean_environment,
    provided,
    reporting_until_closed,
    with_constants,
)

# Takes standard input for its controlling terminal, and becomes another program.
_IN_TERMINAL = "import os, sys; os.login_tty(0); os.execvp(sys.argv[1], sys.argv[1:])"


class TerminalProcess(Process):
    """A command of ours in a terminal. `out` and `log` are both what is on the screen."""

    def __init__(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str] | None = None,
        under: Sequence[str] = NO_LINES,
        columns: int = 80,
        constants: Constants = NO_CONSTANTS,
    ) -> None:
        self._window, theirs = pty.openpty()
        self.resize(columns)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _IN_TERMINAL, *under, sys.executable, "-m", "dragoman", "serve", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=directory,
            env=with_constants({**_plain_environment(directory), **(environment or {})}, {**QUICK, **constants}),
            start_new_session=True,
        )
        os.close(theirs)
        self.pid = self._process.pid
        ours, shown = os.pipe()
        self.out = self.log = Lines(os.fdopen(ours, "rb"), self._abort)
        self._closing, self._close = os.pipe()
        self._thread = threading.Thread(target=self._show, args=(shown,), daemon=True)
        self._thread.start()
        self._reporting = reporting_until_closed(self._report)

    def resize(self, columns: int) -> None:
        """Make the window as wide as this."""
        fcntl.ioctl(self._window, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._window, keys)

    def close_window(self) -> None:
        """Close the window, and return when it is closed."""
        if self._thread.is_alive():
            os.write(self._close, b"x")
            self._thread.join()

    def end(self) -> None:
        """End it if it still runs, in whatever way it takes, and close the window."""
        if self.running:
            self.send(signal.SIGKILL)
        self.close_window()
        self.wait()
        os.close(self._close)
        os.close(self._closing)

    def _show(self, shown: int) -> None:
        """Pass on what comes, until nobody has the terminal any more or the window is to be closed."""
        while True:
            heard = select.select([self._window, self._closing], [], [])[0]
            try:
                # A window that is closed shows no more.
                piece = b"" if self._closing in heard else os.read(self._window, 65536)
            except OSError:
                piece = b""
            if not piece:
                break
            os.write(shown, piece)
        os.close(shown)
        os.close(self._window)


def _plain_environment(directory: Path) -> dict[str, str]:
    """An environment that says nothing of colours or widths but that the terminal is a usual one."""
    left_out = ("NO_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE")
    environment = {name: value for name, value in clean_environment(directory).items() if name not in left_out}
    return environment | {"TERM": "xterm-256color", "PYTHONUTF8": "1"}


@contextmanager
def serving_in_terminal(
    script: Callable[[Received], Reply],
    more: str = "",
    *,
    arguments: Sequence[str] = NO_LINES,
    environment: Mapping[str, str] | None = None,
    under: Sequence[str] = NO_LINES,
    columns: int = 80,
    constants: Constants = NO_CONSTANTS,
) -> Iterator[tuple[Served, TerminalProcess]]:
    """A gateway in a terminal, in front of a provider that follows a script; and the terminal."""
    with provided(script, more) as house:
        given = ["--config", str(house.file), "--port", "0", *arguments]
        house.process = terminal = TerminalProcess(given, house.directory, environment, under, columns, constants)
        try:
            house.port = terminal.listening()
            yield house, terminal
        finally:
            terminal.end()
