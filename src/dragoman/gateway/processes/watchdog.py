"""Watchdog: ends a process whose loop hangs, with a traceback by `faulthandler`, which needs no interpreter. The loop
records a turn each second in shared memory. The supervisor, whose clock accounts for sleep, first signals a worker to
print its stacks, then ends it. A single process postpones its own end with each turn."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import stat
import sys

from dragoman.gateway.workers.shared_memory import SharedMemory

_BEAT = 1.0
_STDERR = 2
# Seconds for writing the traceback, which may block: sockets cannot be made non-blocking. Then a system timer ends the
# process.
_GRACE = 2.0
# Requests the traceback of one worker among several.
DUMP_SIGNAL = signal.SIGUSR2


def register_stack_dump() -> None:
    """Make this process write the stacks of all threads at each `DUMP_SIGNAL`."""
    faulthandler.register(DUMP_SIGNAL, file=_without_waiting(_STDERR), all_threads=True)


class Watchdog:
    """The watchdog of a worker. Without a limit, or with a supervisor, it only records turns of the loop."""

    def __init__(
        self, page: SharedMemory, worker: int, max_turn_seconds: float | None, *, supervised: bool = False
    ) -> None:
        self._page = page
        self._worker = worker
        self._limit = None if supervised else max_turn_seconds
        self._pace = _BEAT if max_turn_seconds is None else min(_BEAT, max_turn_seconds / 4)
        self._out = _STDERR if self._limit is None else _without_waiting(_STDERR)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._limit is not None:
            # A program that is stopped on a terminal has no stalled loop.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTSTP, self._suspend)
            # It ends the process by default, unless the parent process set it to be ignored.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self._turn()

    def stop(self) -> None:
        """Stop watching: shutdown may take its time."""
        if self._timer is not None:
            self._timer.cancel()
        self._disarm()
        self._page.set_ending(self._worker)
        if self._out != _STDERR:
            os.close(self._out)
            self._out = _STDERR

    def _turn(self) -> None:
        self._page.turn(self._worker)
        if self._limit is not None:
            faulthandler.dump_traceback_later(self._limit, exit=True, file=self._out)
            signal.setitimer(signal.ITIMER_REAL, self._limit + _GRACE)
        self._timer = asyncio.get_running_loop().call_later(self._pace, self._turn)

    def _disarm(self) -> None:
        if self._limit is not None:
            faulthandler.cancel_dump_traceback_later()
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _suspend(self) -> None:
        """Stop as the signal requests, and continue when the process does."""
        if self._timer is not None:
            self._timer.cancel()
        self._disarm()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._turn()


def _without_waiting(out: int) -> int:
    """A descriptor for the same output that never blocks, if the system supports it. The flag belongs to the open file,
    which others share, so the file is opened again. A file on disk stays as it is: two writers would overwrite each
    other."""
    try:
        kind = os.fstat(out).st_mode
        if not (stat.S_ISFIFO(kind) or stat.S_ISCHR(kind)) or not sys.platform.startswith("linux"):
            return out
        return os.open(f"/proc/self/fd/{out}", os.O_WRONLY | os.O_NONBLOCK | os.O_APPEND | os.O_NOCTTY)
    except OSError:
        return out
