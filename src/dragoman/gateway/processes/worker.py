"""Worker: one process that serves: its loop, its signals, its configuration.

SIGTERM           `/readyz` fails, and all are served on for `timeouts.lame_duck`; then as SIGINT. A second one: at once
SIGINT            stop accepting, let running exchanges end within `timeouts.drain`, then end them in their own form
one of them more  end them now. A worker among several leaves the counting to its supervisor, which says so by SIGUSR1
SIGHUP            as `hangup.py` says: stop like SIGINT, however often it comes; or read the configuration again
the file changes  likewise, once it rests
lifeline ends     whoever watches over this process is gone: as SIGINT
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeVar
from weakref import WeakSet

from dragoman.config.settings import Limits, Settings, Timeouts
from dragoman.gateway.access.guard import Guard
from dragoman.gateway.access.identity_table import identity_table
from dragoman.gateway.access.key_names import bind_names
from dragoman.gateway.app import App
from dragoman.gateway.cooldown_persistence import PersistedCooldowns
from dragoman.gateway.health_checks import Checks
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.peer_workers import PeerWorkers
from dragoman.gateway.processes.config_reload import POLL_INTERVAL, Configuration, WorkerSettings
from dragoman.gateway.processes.contents_recording import contents_retention, contents_writer, redactor_of
from dragoman.gateway.processes.listen_socket import BACKLOG
from dragoman.gateway.processes.sighup import OnHangup
from dragoman.gateway.processes.watchdog import Watchdog
from dragoman.gateway.routing_state_sync import RoutingStateSync
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.stored_state import StoredState
from dragoman.gateway.telemetry_target import TelemetryTarget
from dragoman.gateway.thread_offload import share_interpreter
from dragoman.gateway.workers.worker_channel import WorkerChannel
from dragoman.http.server import HttpServer, ServerLimits
from dragoman.store.server_state import ServerState

if TYPE_CHECKING:
    from dragoman.contents.retention_thread import RetentionThread

T = TypeVar("T")
_LAST_MOMENTS = 5.0
# Limit for the last ingestion of records at shutdown, in seconds, and after a second signal. The rest stays in journals
# for the next start.
_LAST_INGEST_SECONDS, _SHORT_INGEST_SECONDS = 5.0, 1.0
# The supervisor's signal to end open exchanges now. A signal that terminals and init systems do not send.
END_NOW = signal.SIGUSR1
# Some programs signal a process and then its group: a repetition within this time is ignored.
SAME_SIGNAL = 0.3
# Most values of an exchange are short-lived and acyclic: the collector runs seldom, and never over loaded modules.
_GC_THRESHOLDS = (50_000, 20, 50)


class Worker:
    """Serves on a socket until it is stopped."""

    def __init__(self, worker_settings: WorkerSettings, settings: Settings) -> None:
        self._worker_settings = worker_settings
        self._configuration = Configuration(worker_settings, settings)
        self._metrics = Metrics()
        settings = self._configuration.settings
        storage, log = settings.storage, worker_settings.log
        server = ServerState(self._report_server) if storage.database is not None else None
        # One worker is enough to report what all of them read.
        self._identities = identity_table(
            storage,
            worker_settings.page,
            self._warn if worker_settings.number == 0 else None,
            reads_database=worker_settings.reads_key_database,
            server=server,
        )
        state = StoredState(storage, log, server=server)
        self._runtime = Runtime(settings, self._metrics, log, state, guard=self._guard())
        self._others = (
            PeerWorkers(worker_settings.page, worker_settings.number, worker_settings.token, self._metrics)
            if worker_settings.token
            else None
        )
        self.channel = (
            self._others.channel
            if self._others
            else WorkerChannel(worker_settings.page, worker_settings.number, worker_settings.token)
        )
        self._persisted_cooldowns = PersistedCooldowns(lambda: self._runtime, state.now)
        self._state_sync = RoutingStateSync(self.channel, lambda: self._runtime, self._persisted_cooldowns)
        self._checks = Checks(lambda: self._runtime)
        self._collector = TelemetryTarget(lambda: self._runtime)
        supervised = self._others is not None
        self._watchdog = Watchdog(
            worker_settings.page, worker_settings.number, worker_settings.max_turn_seconds, supervised=supervised
        )
        self._app = App(self._runtime, self._others)
        self._server = HttpServer(self._app, self._app.refuse, server_limits(settings.limits, settings.timeouts))
        # Stop; stop faster; and do not wait for open exchanges.
        self._stop, self._expedite, self._now = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._signalled_at = 0.0
        self._closing: asyncio.Task[None] | None = None
        self._binding: asyncio.Task[bool] | None = None
        # What removes old contents where none are stored any more.
        self._contents_retention: RetentionThread | None = None
        # Services of former configurations, as long as exchanges run under them.
        self._former: WeakSet[Runtime] = WeakSet()

    async def run(self, listener: socket.socket, ready: Callable[[], None]) -> None:
        """Serve; return when everything that was under way has ended."""
        loop = asyncio.get_running_loop()
        supervised = self._others is not None
        loop.add_signal_handler(signal.SIGTERM, self._stop.set if supervised else self._terminated)
        loop.add_signal_handler(signal.SIGINT, self._stop_at_once if supervised else self._interrupted)
        if supervised:
            loop.add_signal_handler(END_NOW, self._end_now)
        if self._worker_settings.hangup is OnHangup.RELOADS:
            loop.add_signal_handler(signal.SIGHUP, self.reload)
        elif self._worker_settings.hangup is OnHangup.ENDS and not supervised:
            loop.add_signal_handler(signal.SIGHUP, self._hung_up)
        if self._worker_settings.lifeline is not None:
            loop.add_reader(self._worker_settings.lifeline, self._cut_loose)
        if self._configuration.catch_up():
            self._apply()
        self._identities.load()
        await self._persisted_cooldowns.load()
        storage = self._runtime.settings.storage
        if storage.record_requests:
            self._runtime.session_facts.attach_records(storage.location, self._worker_settings.log)
        self._collector.follow()
        self._runtime.usage_recorder.start(self._collector.on_ingested)
        self._start_contents()
        if self._others is not None:
            await self._others.listen()
            await self.channel.catch_up()
            if self._worker_settings.page.workers > 1:
                self._state_sync.start()
        self._follow_checks()
        self._bind_names()
        self._identities.follow(loop.call_soon_threadsafe)
        accepting = await loop.create_server(self._server, sock=listener, backlog=BACKLOG)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        share_interpreter()
        self._watchdog.start()
        try:
            ready()
            await self._until_stopped()
            await self._serve_on()
            self._expedite.set()
            accepting.close()
            await self._drain()
            if self._others is not None:
                await self._others.close()
        finally:
            self._identities.stop()
            self._state_sync.stop()
            self._watchdog.stop()
            await self._checks.close()
        self._state_sync.broadcast()
        if self._app.admin is not None:
            self._app.admin.close()
        await self._runtime.close()
        await self._runtime.state.close(0.0)
        await self._runtime.usage_recorder.close(
            _LAST_INGEST_SECONDS if not self._now.is_set() else _SHORT_INGEST_SECONDS
        )
        if (contents := self._runtime.contents) is not None:
            await asyncio.to_thread(contents.close, _LAST_INGEST_SECONDS)
        if (retention := self._contents_retention) is not None:
            await asyncio.to_thread(retention.close, _LAST_INGEST_SECONDS)
        # The very end: what is not exported by now is in the records anyway.
        exporting = asyncio.ensure_future(self._collector.close())
        if not await self._wait_unless_ended(exporting):
            exporting.cancel()

    def reload(self) -> None:
        """Apply the configuration as it is now, if it may be."""
        if self._configuration.reload():
            self._apply()

    def _start_contents(self) -> None:
        """Begin to store contents, if that is enabled; one worker reports it."""
        settings, log = self._runtime.settings, self._worker_settings.log
        self._runtime.contents = contents = contents_writer(settings, log)
        if contents is not None:
            contents.start()
            if self._worker_settings.number == 0:
                log.event("warn", f"contents of conversations are stored for {settings.contents.days} days")
        elif self._worker_settings.number == 0 and (retention := contents_retention(settings, log)) is not None:
            self._contents_retention = retention
            retention.start()

    def _apply(self) -> None:
        """Apply the present settings; open exchanges continue with the old ones."""
        settings, old, log = self._configuration.settings, self._runtime, self._worker_settings.log
        self._former.add(old)
        self._app.runtime = self._runtime = Runtime(
            settings, self._metrics, log, old.state, guard=self._guard(), former=old
        )
        if self._runtime.contents is not None:
            self._runtime.contents.redactor = redactor_of(settings)
        self._server.limits = server_limits(settings.limits, settings.timeouts)
        # They know decisions of the former configuration.
        self._server.heads.clear()
        self._closing = asyncio.get_running_loop().create_task(old.close())
        self._follow_checks()
        self._bind_names()
        self._collector.follow()
        self._runtime.usage_recorder.set_on_ingested(self._collector.on_ingested)
        log.event("info", "configuration reloaded", providers=len(settings.providers))

    def _follow_checks(self) -> None:
        """Run health checks if configured: one worker does, and broadcasts the results."""
        if self._worker_settings.number == 0:
            self._checks.follow()

    def _bind_names(self) -> None:
        """Bind the names of configured keys: one worker is enough. A gateway of `launch` has a key of its own."""
        if self._worker_settings.number == 0 and self._worker_settings.reads_key_database:
            settings = self._configuration.settings
            self._binding = asyncio.ensure_future(bind_names(settings.storage, settings.keys, self._warn))

    def _bind_again(self) -> None:
        """Bind them once the server of the database answers, if it was away."""
        server, binding = self._runtime.state.server, self._binding
        if server is None or server.is_away or binding is None or not binding.done():
            return
        if binding.exception() is None and not binding.result():
            self._bind_names()

    def _guard(self) -> Guard:
        configuration = self._configuration
        return Guard(configuration.settings, configuration.protection, self._worker_settings.page, self._identities)

    def _report_server(self, message: str, reason: str) -> None:
        """Log that the server of the database is away, or answers again; its thread calls this."""
        if self._worker_settings.number == 0:
            self._worker_settings.log.event("warn", message, **({"reason": reason} if reason else {}))

    def _warn(self, message: str, fields: Mapping[str, str]) -> None:
        self._worker_settings.log.event("warn", message, **fields)

    def _terminated(self) -> None:
        if self._stop.is_set():
            self._interrupted()
        else:
            self._signalled_at = time.monotonic()
            self._stop.set()

    def _interrupted(self) -> None:
        now, before = time.monotonic(), self._signalled_at
        self._signalled_at = now
        if not self._expedite.is_set():
            self._stop_at_once()
        elif now - before > SAME_SIGNAL:
            self._end_now()

    def _hung_up(self) -> None:
        """Stop, because the terminal is gone. This signal may come twice without meaning a faster stop."""
        self._signalled_at = time.monotonic()
        self._stop_at_once()

    def _end_now(self) -> None:
        self._stop_at_once()
        self._now.set()

    def _stop_at_once(self) -> None:
        self._expedite.set()
        self._stop.set()

    def _cut_loose(self) -> None:
        """Stop, because the supervisor of this process is gone."""
        lifeline = self._worker_settings.lifeline
        assert lifeline is not None
        if has_ended(lifeline):
            asyncio.get_running_loop().remove_reader(lifeline)
            self._stop_at_once()

    async def _until_stopped(self) -> None:
        while not self._stop.is_set():
            try:
                await asyncio.wait_for(self._stop.wait(), POLL_INTERVAL)
            except TimeoutError:
                if self._configuration.poll():
                    self._apply()
                self._runtime.state.sweep()
                self._bind_again()
                self._persisted_cooldowns.follow()
                self._state_sync.broadcast()

    async def _serve_on(self) -> None:
        """Serve new requests while `/readyz` fails, until load balancers stop sending."""
        lame_duck = self._runtime.settings.timeouts.lame_duck
        if self._expedite.is_set() or not lame_duck:
            return
        self._app.lame_duck = True
        self._server.close_after_responses()
        self._worker_settings.log.event("info", "stopping soon: no longer ready, and still serving", seconds=lame_duck)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._expedite.wait(), lame_duck)

    async def _drain(self) -> None:
        runtime, log = self._runtime, self._worker_settings.log
        for running in (runtime, *self._former):
            running.draining = True
        self._server.retire()
        timeout = runtime.settings.timeouts.drain
        if self._others is not None:
            self._worker_settings.page.wait_for(self._worker_settings.number, self._server.busy)
        elif self._server.busy:
            log_waiting(self._worker_settings, self._server.busy, timeout)
        detached = asyncio.ensure_future(self._finish_background(timeout))
        idle = asyncio.ensure_future(self._server.wait_idle(timeout))
        if not (await self._wait_unless_ended(idle) and idle.result()):
            idle.cancel()
            log.event("warn", "cancelling requests that still run", running=self._server.busy)
            self._server.cancel_all()
            await self._server.wait_idle(_LAST_MOMENTS)
        await detached

    async def _finish_background(self, timeout: float) -> None:
        background = self._runtime.state.background
        finishing = asyncio.ensure_future(background.finish(timeout))
        if await self._wait_unless_ended(finishing):
            await finishing
        else:
            # It may wait longer for a busy store than there is time.
            finishing.cancel()
            await background.finish(0.0)

    async def _wait_unless_ended(self, work: asyncio.Future[T]) -> bool:
        """Wait for some work, or for the signal to end open exchanges; returns whether the work is done."""
        ended = asyncio.ensure_future(self._now.wait())
        either: tuple[asyncio.Future[T] | asyncio.Task[Literal[True]], ...] = (work, ended)
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        return work.done()


def log_waiting(worker_settings: WorkerSettings, running: int, seconds: float) -> None:
    """Log how many exchanges the shutdown waits for, and how to end them."""
    many = "1 request still runs" if running == 1 else f"{running} requests still run"
    again = "Ctrl-C again" if worker_settings.hangup is OnHangup.ENDS else "a second signal"
    message = f"stopping: {many}, and may for {seconds:g} s; {again} ends them at once"
    worker_settings.log.report("info", "stopping when running requests have ended", message, running=running)


def has_ended(lifeline: int) -> bool:
    """Whether a readable lifeline is at its end; its content is ignored."""
    return not os.read(lifeline, 4096)


def server_limits(limits: Limits, timeouts: Timeouts) -> ServerLimits:
    """The server's limits for clients."""
    return ServerLimits(
        header_bytes=limits.header_bytes,
        header_count=limits.header_count,
        header_timeout=timeouts.client_headers,
        body_timeout=timeouts.client_body,
        idle_timeout=timeouts.client_idle,
    )
