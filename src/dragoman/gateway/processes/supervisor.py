"""Supervisor: runs a single worker in its own process; several workers are forked, share a socket, and are restarted
when they die or stall."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage
from dragoman.errors import ConfigError
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.unexpected_errors import UnexpectedErrors, traceback_summary
from dragoman.gateway.peer_workers import new_token
from dragoman.gateway.processes.config_reload import POLL_INTERVAL, Configuration, WorkerSettings
from dragoman.gateway.processes.listen_socket import listen
from dragoman.gateway.processes.sighup import OnHangup
from dragoman.gateway.processes.watchdog import DUMP_SIGNAL, register_stack_dump
from dragoman.gateway.processes.worker import END_NOW, SAME_SIGNAL, Worker, has_ended, log_waiting
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.model.jsonvalue import JsonObject
from dragoman.prices.table import own_table
from dragoman.protocols.registry import load_codecs
from dragoman.store import open_tables
from dragoman.tokens.table import fitted_table

# A loop that has not turned for this long is stalled. An outside watcher waits a little longer, so that the process can
# print its traceback.
MAX_TURN_SECONDS = 15.0
_GRACE = 2.0
# Seconds until a worker's loop must turn for the first time; and seconds to end, beyond its other limits.
MAX_START_SECONDS = 60.0
LAST_MOMENTS = 10.0
# Interval of the checks. After a longer gap the machine was asleep, and the clock proves nothing about other processes.
_MAX_GAP_SECONDS = 5.0
_STARTUP_POLL_INTERVAL = 0.02
# Timeout for the workers' counts of open exchanges, in seconds.
_MAX_COUNT_SECONDS = 1.0
_FIRST_PAUSE, _MAX_PAUSE = 0.5, 30.0
_STEADY = 10.0
_MAX_FILES = 65_536
_WATCHED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD})
# Signals that a worker blocks until its handlers are installed.
_HELD_BACK = _WATCHED | {END_NOW}


def _load_early(workers: int) -> None:
    """Import modules and tables that requests need, once for all workers."""
    load_codecs()
    own_table()
    if workers > 1:
        # Four megabytes that workers share. A single worker reads them within milliseconds when it first counts tokens.
        fitted_table()


def serve(
    worker_settings: WorkerSettings,
    settings: Settings,
    listener: socket.socket,
    ready: Callable[[], None],
    max_turn_seconds: float = MAX_TURN_SECONDS,
    max_start_seconds: float = MAX_START_SECONDS,
    last_moments: float = LAST_MOMENTS,
) -> int:
    """Serve on a bound socket until stopped. Returns the exit status. `ready` is called when all workers serve."""
    _load_early(settings.server.workers)
    raise_file_limit()
    logging.getLogger().addHandler(UnexpectedErrors(worker_settings.log))
    try:
        # Checked before the first client: a gateway whose store cannot be opened does not start.
        check_store(settings.storage)
        listen(listener)
        workers = settings.server.workers
        worker_settings = replace(worker_settings, page=SharedMemory(workers), max_turn_seconds=max_turn_seconds)
        if workers == 1:
            return _work(worker_settings, settings, listener, ready)
        worker_settings = replace(worker_settings, token=new_token())
        return Supervisor(worker_settings, settings, listener, max_start_seconds, last_moments).run(ready)
    finally:
        # A thread writes log lines up to 50 ms later, and ends with the process.
        worker_settings.log.close()


def check_store(storage: Storage) -> None:
    """Open and close the store. A failure raises `ConfigError` with the reason. A database server may be
    unavailable."""
    if storage.store_responses and storage.is_persistent and storage.database is None:
        open_tables(storage.location, storage.response_days).close()


def raise_file_limit() -> None:
    """Raise the limit of open files: the usual 1024 are used up by 500 streams with two sockets each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            # Some systems allow less than they report; the limit then stays.
            return


def _work(
    worker_settings: WorkerSettings, settings: Settings, listener: socket.socket, ready: Callable[[], None]
) -> int:
    async def main() -> None:
        await Worker(worker_settings, settings).run(listener, ready)

    factory = _loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The faster event loop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


class WorkerProcess(Struct, frozen=True):
    number: int
    started: float


class Supervisor:
    """Starts workers, restarts workers that die or stall, follows the file for them, and forwards signals. Workers hold
    one end of a pipe, the lifeline: it closes with this process, and they end."""

    def __init__(
        self,
        worker_settings: WorkerSettings,
        settings: Settings,
        listener: socket.socket,
        max_start_seconds: float = MAX_START_SECONDS,
        last_moments: float = LAST_MOMENTS,
    ) -> None:
        self._worker_settings = worker_settings
        self._max_start_seconds, self._last_moments = max_start_seconds, last_moments
        self._page = worker_settings.page
        # The configuration of a restarted worker: that of the other workers, not that of the start.
        self._configuration = Configuration(worker_settings, settings, quiet=True)
        self._listener = listener
        self._log: Log = worker_settings.log
        self._workers: dict[int, WorkerProcess] = {}
        # The lifeline of this process, and that of the workers.
        self._above = worker_settings.lifeline
        self._lifeline, self._held = os.pipe()
        # Signals arrive here as bytes, so that one wait covers signals and time.
        self._signals, self._wake = socket.socketpair()
        # Whether all workers have served once, and whether one ended before that.
        self._begun = self._failed = False
        self._stopping = False
        # When workers were last asked to stop, and when remaining ones are killed.
        self._stop_sent_at = 0.0
        self._end_by: float | None = None
        # When the drain began, and whether the number of open exchanges was logged.
        self._drain_began: float | None = None
        self._counted = False
        # When to close the socket, after the workers have stopped accepting.
        self._last_call: float | None = None
        self._pauses = [_FIRST_PAUSE] * settings.server.workers
        # Stalled workers, and when their traceback was requested.
        self._dump_requested_at: dict[int, float] = {}
        # When each worker is due to be restarted.
        self._due: dict[int, float] = {}
        # The last check of this process, and the time since which there was no gap.
        self._looked = self._awake = time.monotonic()

    def run(self, ready: Callable[[], None]) -> int:
        """Keep the workers running until stopped. Returns the exit status."""
        self._signals.setblocking(False)
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno())
        for name in _WATCHED:
            if name != signal.SIGHUP or self._worker_settings.hangup is not OnHangup.IGNORED:
                signal.signal(name, _wake_only)
        try:
            for number in range(self._page.workers):
                self._start(number)
            if not self._have_begun():
                return 1
            if not self._stopping:
                ready()
            while self._workers or self._due:
                self._wait(POLL_INTERVAL)
        finally:
            signal.set_wakeup_fd(-1)
            self._let_go()
        return 0

    def _have_begun(self) -> bool:
        """Wait until every worker serves. False if one ended before that."""
        while not all(self._page.turned(number) for number in range(self._page.workers)):
            self._wait(_STARTUP_POLL_INTERVAL)
            if self._stopping:
                break
            if self._failed:
                self._stop(signal.SIGINT)
                while self._workers:
                    self._wait(POLL_INTERVAL)
                return False
        self._begun = True
        return True

    def _wait(self, timeout: float) -> None:
        """Wait for a signal or a timeout, and handle due events."""
        now = time.monotonic()
        due = [*self._due.values(), *(() if self._last_call is None else (self._last_call,))]
        if self._is_draining() and not self._counted:
            timeout = _STARTUP_POLL_INTERVAL
        timeout = max(0.0, min([timeout, *(at - now for at in due)]))
        readable = [self._signals, *(() if self._above is None else (self._above,))]
        readable = select.select(readable, [], [], timeout)[0]
        if self._above is not None and self._above in readable and has_ended(self._above):
            self._above = None
            if not self._is_draining():
                self._stop(signal.SIGINT)
        if self._signals in readable:
            for number in self._signals.recv(4096):
                if number == signal.SIGHUP:
                    self._hung_up()
                elif number != signal.SIGCHLD:
                    self._stop(signal.Signals(number))
        self._bury()
        now = time.monotonic()
        self._end_still(now)
        if not self._counted:
            self._log_waiting(now)
        if self._last_call is not None and now >= self._last_call:
            self._close()
        if not self._stopping:
            self._configuration.poll()
        for number in [number for number, at in self._due.items() if at <= now]:
            del self._due[number]
            self._start(number)

    def _start(self, number: int) -> None:
        configuration = self._configuration
        # A worker gets no signal before its handlers are installed.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
        pid = os.fork()
        if pid:
            self._workers[pid] = WorkerProcess(number, time.monotonic())
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for name in _WATCHED:
                signal.signal(name, signal.SIG_DFL)
            if self._worker_settings.hangup is not OnHangup.RELOADS:
                # A terminal signals all its processes. Later signals come from the supervisor of this process.
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            register_stack_dump()
            lifeline = os.dup(self._lifeline)
            self._let_go()
            worker_settings = replace(
                self._worker_settings,
                number=number,
                lifeline=lifeline,
                protection=configuration.protection,
                seen=configuration.seen,
            )
            status = _work(worker_settings, configuration.settings, self._listener, _unblocked)
        except BaseException as error:
            # The outermost edge of the process: no caller could report the error.
            self._log.event("error", "worker failed", **_error_fields(error))
        finally:
            self._log.close()
            # A child must never return into its parent's code.
            os._exit(status)

    def _let_go(self) -> None:
        """Close the supervisor's own resources."""
        os.close(self._lifeline)
        os.close(self._held)
        self._signals.close()
        self._wake.close()

    def _bury(self) -> None:
        """Reap every worker that has ended."""
        while self._workers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            worker, now = self._workers.pop(pid), time.monotonic()
            stood_still = self._dump_requested_at.pop(pid, None) is not None
            self._page.clear(worker.number)
            if self._stopping:
                continue
            status = os.waitstatus_to_exitcode(status)
            if not self._begun:
                self._failed = True
                self._log.event("error", "worker exited before it was ready", worker=worker.number, status=status)
                continue
            steady = now - worker.started > _STEADY
            pause = _FIRST_PAUSE if steady else min(self._pauses[worker.number] * 2, _MAX_PAUSE)
            self._pauses[worker.number] = pause
            message = "worker stalled and is replaced" if stood_still else "worker exited and is restarted"
            self._log.event("error", message, worker=worker.number, status=status, pause=pause)
            self._due[worker.number] = now + pause

    def _end_still(self, now: float) -> None:
        """Kill workers that are stalled, once they could print their traceback, and workers that take too long to
        stop."""
        gap = now - self._looked
        self._looked = now
        if gap > _MAX_GAP_SECONDS:
            self._awake = now
            if self._end_by is not None:
                self._end_by += gap
        late = self._end_by is not None and now > self._end_by
        for pid, worker in self._workers.items():
            if not self._stands_still(worker, now):
                self._dump_requested_at.pop(pid, None)
            elif pid not in self._dump_requested_at:
                self._dump_requested_at[pid] = now
                os.kill(pid, DUMP_SIGNAL)
            if late or now - self._dump_requested_at.get(pid, now) > _GRACE:
                os.kill(pid, signal.SIGKILL)

    def _stands_still(self, worker: WorkerProcess, now: float) -> bool:
        limit, since = self._worker_settings.max_turn_seconds, self._page.turned(worker.number)
        if not since:
            # Its loop does not run yet; its start has a limit of its own. Such a worker serves no requests, so its end
            # is not awaited.
            limit, since = (
                (self._last_moments, self._stop_sent_at)
                if self._stopping
                else (self._max_start_seconds, worker.started)
            )
        return limit is not None and since > 0 and now - max(since, self._awake) > limit

    def _hung_up(self) -> None:
        """Reload the configuration, or stop because the terminal is gone. The signal may come twice."""
        if self._worker_settings.hangup is OnHangup.RELOADS:
            self._configuration.reload()
            self._pass_on(signal.SIGHUP)
        elif not self._is_draining():
            self._stop(signal.SIGINT)

    def _log_waiting(self, now: float) -> None:
        """Log how many exchanges the shutdown waits for, once all workers have reported, or after a timeout."""
        if not self._is_draining():
            return
        if self._drain_began is None:
            self._drain_began = now
        counts = [self._page.waits_for(worker.number) for worker in self._workers.values()]
        reported = [count for count in counts if count is not None]
        if len(reported) < len(counts) and now - self._drain_began < _MAX_COUNT_SECONDS:
            return
        self._counted = True
        if sum(reported):
            log_waiting(self._worker_settings, sum(reported), self._configuration.settings.timeouts.drain)

    def _stop(self, number: signal.Signals) -> None:
        """Stop the workers: at once at the second signal, and at SIGINT; a further one ends running exchanges. Workers
        do not count signals themselves, because a key press reaches them directly, too."""
        timeouts = self._configuration.settings.timeouts
        now, before = time.monotonic(), self._stop_sent_at
        if self._is_draining():
            if now - before <= SAME_SIGNAL:
                return
            passed, lame_duck, drain = END_NOW, 0.0, 0.0
        elif self._stopping or number == signal.SIGINT:
            passed, lame_duck, drain = signal.SIGINT, 0.0, timeouts.drain
        else:
            passed, lame_duck, drain = signal.SIGTERM, timeouts.lame_duck, timeouts.drain
        self._stop_sent_at, self._stopping = now, True
        self._due.clear()
        # While any process holds the socket open, the kernel accepts connections. It must not outlive the workers.
        self._last_call = now + lame_duck
        self._end_by = now + lame_duck + drain + self._last_moments
        if not lame_duck:
            self._close()
        self._pass_on(passed)

    def _is_draining(self) -> bool:
        """Whether new connections are rejected."""
        return self._stopping and self._last_call is None

    def _close(self) -> None:
        self._last_call = None
        self._listener.close()

    def _pass_on(self, number: signal.Signals) -> None:
        # An ended child keeps its process ID until it is reaped, so the ID cannot belong to another process.
        for pid in self._workers:
            os.kill(pid, number)


def _error_fields(error: BaseException) -> JsonObject:
    """Log fields of an error: type and location, and the message if it is Dragoman's own."""
    fields: JsonObject = {"error": type(error).__name__, "at": traceback_summary(error)}
    if isinstance(error, ConfigError):
        fields |= {"key": error.key, "problem": error.problem, "remedy": error.remedy}
    return fields


def _wake_only(number: int, frame: object) -> None:
    """Do nothing. Only a signal with a handler is written to the wake-up socket."""


def _unblocked() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_BACK)
