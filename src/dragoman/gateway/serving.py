"""Serving: the processes. One worker runs in this very process; several share a socket and are watched over by it."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from dragoman.config.settings import Settings
from dragoman.gateway.binding import listen
from dragoman.gateway.configuration import LOOK_EVERY, Configuration, Duty
from dragoman.gateway.logs import Log
from dragoman.gateway.mishaps import Mishaps, places
from dragoman.gateway.shared import Page
from dragoman.gateway.worker import Worker

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_STEADY = 10.0
_MOST_FILES = 65_536
_WATCHED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD})


def serve(duty: Duty, settings: Settings, listener: socket.socket, ready: Callable[[], None]) -> int:
    """Serve until told to stop; give the exit status."""
    raise_file_limit()
    logging.getLogger().addHandler(Mishaps(duty.log))
    listen(listener)
    duty = replace(duty, page=Page(settings.server.workers))
    if settings.server.workers == 1:
        return _work(duty, settings, listener, ready)
    with tempfile.TemporaryDirectory(prefix="dragoman-") as directory:
        return Supervisor(replace(duty, siblings=Path(directory)), settings, listener).run(ready)


def raise_file_limit() -> None:
    """Take as many open files as the system allows: the customary 1024 are used up by 500 streams, two sockets each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            # Some systems allow less than they say; then what there was must do.
            return


def _work(duty: Duty, settings: Settings, listener: socket.socket, ready: Callable[[], None]) -> int:
    async def main() -> None:
        await Worker(duty, settings).run(listener, ready)

    factory = _loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The faster loop where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


class Supervisor:
    """Starts the workers, starts anew those that die, follows the file for them, and passes signals on.

    The workers hold one end of a pipe, the lifeline: it ends with this process, however that ends, and they with it.
    """

    def __init__(self, duty: Duty, settings: Settings, listener: socket.socket) -> None:
        self._duty = duty
        # What a worker that is started anew begins with: what the others have, not what was true at the start.
        self._configuration = Configuration(duty, settings, quiet=True)
        self._listener = listener
        self._log: Log = duty.log
        # Process id -> the worker's number and when it was started.
        self._workers: dict[int, tuple[int, float]] = {}
        self._lifeline, self._held = os.pipe()
        # Signals arrive here as bytes, so that waiting for them and for the time is one thing.
        self._signals, self._wake = socket.socketpair()
        self._stopping = False
        self._pauses = [_FIRST_PAUSE] * settings.server.workers
        # When which worker is due to be started anew.
        self._due: dict[int, float] = {}

    def run(self, ready: Callable[[], None]) -> int:
        """Keep the workers running until told to stop."""
        self._signals.setblocking(False)
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno())
        for name in _WATCHED:
            signal.signal(name, _noted)
        try:
            for number in range(self._duty.page.workers):
                self._start(number)
            ready()
            while self._workers or self._due:
                self._wait()
        finally:
            signal.set_wakeup_fd(-1)
            self._let_go()
        return 0

    def _wait(self) -> None:
        """Wait for a signal or until a worker is due, and do what is to be done."""
        now = time.monotonic()
        patience = max(0.0, min([LOOK_EVERY, *(due - now for due in self._due.values())]))
        if select.select([self._signals], [], [], patience)[0]:
            for number in self._signals.recv(4096):
                if number == signal.SIGHUP:
                    self._configuration.reload()
                if number != signal.SIGCHLD:
                    self._pass_on(number)
        self._bury()
        if not self._stopping:
            self._configuration.look()
        now = time.monotonic()
        for number in [number for number, due in self._due.items() if due <= now]:
            del self._due[number]
            self._start(number)

    def _start(self, number: int) -> None:
        # What is buffered would be written by both. A full disk is no reason to have no workers.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        # A worker hears no signal before it knows what to do with one.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        pid = os.fork()
        if pid:
            self._workers[pid] = (number, time.monotonic())
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for name in _WATCHED:
                signal.signal(name, signal.SIG_DFL)
            lifeline = os.dup(self._lifeline)
            self._let_go()
            configuration = self._configuration
            duty = replace(
                self._duty,
                number=number,
                lifeline=lifeline,
                protection=configuration.protection,
                seen=configuration.seen,
            )
            status = _work(duty, configuration.settings, self._listener, _unblocked)
        except BaseException as error:
            # The outermost edge of a process: nobody above would tell it.
            self._log.event("error", "a worker failed", error=type(error).__name__, at=places(error))
        finally:
            # Whatever happened, a child never returns into its parent's code.
            os._exit(status)

    def _let_go(self) -> None:
        """Close what belongs to the supervisor alone."""
        os.close(self._lifeline)
        os.close(self._held)
        self._signals.close()
        self._wake.close()

    def _bury(self) -> None:
        """Take note of every worker that has ended."""
        while self._workers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            number, started = self._workers.pop(pid)
            if self._stopping:
                continue
            steady = time.monotonic() - started > _STEADY
            pause = self._pauses[number] = _FIRST_PAUSE if steady else min(self._pauses[number] * 2, _LONGEST_PAUSE)
            status = os.waitstatus_to_exitcode(status)
            self._log.event("error", "a worker died and is started anew", worker=number, status=status, pause=pause)
            self._due[number] = time.monotonic() + pause

    def _pass_on(self, number: int) -> None:
        if number != signal.SIGHUP:
            self._stopping = True
            self._due.clear()
            # As long as anybody holds it open, the system accepts connections that nobody serves.
            self._listener.close()
        # Those that have ended stay their parent's until they are buried: no other process has these numbers.
        for pid in self._workers:
            os.kill(pid, number)


def _noted(number: int, frame: object) -> None:
    """Nothing: a signal with a handler is written to the wake-up socket, and one without is not."""


def _unblocked() -> None:
    """Let a worker hear its signals: from here on it knows what to do with them."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
