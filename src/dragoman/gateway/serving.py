"""Serving: the processes. One worker runs in this very process; several share a socket and are watched over by it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from dragoman.config.settings import Settings
from dragoman.gateway.logs import Log
from dragoman.gateway.worker import Duty, Worker

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_STEADY = 10.0


def serve(duty: Duty, settings: Settings, listener: socket.socket, ready: Callable[[], None]) -> int:
    """Serve until told to stop; give the exit status."""
    if settings.server.workers == 1:
        return _work(duty, settings, listener, ready)
    with tempfile.TemporaryDirectory(prefix="dragoman-") as directory:
        return Supervisor(replace(duty, siblings=Path(directory)), settings, listener).run(ready)


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
    """Starts the workers, starts anew those that die, and passes signals on."""

    def __init__(self, duty: Duty, settings: Settings, listener: socket.socket) -> None:
        self._duty = duty
        self._settings = settings
        self._listener = listener
        self._log: Log = duty.log
        # Process id -> the worker's number and when it was started.
        self._workers: dict[int, tuple[int, float]] = {}
        self._stopping = False
        self._pause = _FIRST_PAUSE

    def run(self, ready: Callable[[], None]) -> int:
        """Keep the workers running until told to stop."""
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, self._pass_on)
        for number in range(self._settings.server.workers):
            self._start(number)
        ready()
        while self._workers:
            try:
                pid, status = os.wait()
            except InterruptedError:
                continue
            except ChildProcessError:
                break
            self._ended(pid, status)
        return 0

    def _start(self, number: int) -> None:
        # What is buffered would be written by both.
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            self._workers[pid] = (number, time.monotonic())
            if self._stopping:
                os.kill(pid, signal.SIGTERM)
            return
        status = 1
        try:
            for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(name, signal.SIG_DFL)
            status = _work(replace(self._duty, name=str(number)), self._settings, self._listener, lambda: None)
        finally:
            # Whatever happened, a child never returns into its parent's code.
            sys.stderr.flush()
            os._exit(status)

    def _ended(self, pid: int, status: int) -> None:
        number, started = self._workers.pop(pid, (-1, 0.0))
        if self._stopping or number < 0:
            return
        self._pause = _FIRST_PAUSE if time.monotonic() - started > _STEADY else min(self._pause * 2, _LONGEST_PAUSE)
        self._log.event("error", "a worker died and is started anew", worker=number, status=status, pause=self._pause)
        time.sleep(self._pause)
        self._start(number)

    def _pass_on(self, number: int, frame: object) -> None:
        if number != signal.SIGHUP:
            self._stopping = True
        for pid in tuple(self._workers):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
