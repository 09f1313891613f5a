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
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TypeVar
from weakref import WeakSet

from dragoman.config.settings import Limits, Settings, Timeouts
from dragoman.gateway.access.guard import Guard
from dragoman.gateway.app import App
from dragoman.gateway.cooldown_persistence import PersistedCooldowns
from dragoman.gateway.health_checks import Checks
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.telemetry_target import TelemetryTarget
from dragoman.gateway.processes.config_reload import LOOK_EVERY, Configuration, WorkerSettings
from dragoman.gateway.processes.listen_socket import BACKLOG
from dragoman.gateway.processes.peer_workers import PeerWorkers
from dragoman.gateway.processes.sighup import OnHangup
from dragoman.gateway.processes.watchdog import Watchdog
from dragoman.gateway.processes.worker_channel import WorkerChannel
from dragoman.gateway.routing_state_sync import RoutingStateSync
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.thread_offload import share_interpreter
from dragoman.http.server import HttpServer, ServerLimits

T = TypeVar("T")
_LAST_MOMENTS = 5.0
# How long the accounts may take to be moved into their tables at the end, in seconds, and where somebody is impatient;
# what is left is in journals, for the next start.
_LAST_DRAIN, _SHORT_DRAIN = 5.0, 1.0
# By which a supervisor says that what runs is to end now. Whoever tells all processes does not send it.
END_NOW = signal.SIGUSR1
# Some tell a process and then its whole group: what comes again so soon has been heard.
SAME_SIGNAL = 0.3
# Most values of an exchange die young and without cycles: the collector runs seldom, and never over what is loaded.
_GC_THRESHOLDS = (50_000, 20, 50)


class Worker:
    """Serves on a socket until it is told to stop."""

    def __init__(self, duty: WorkerSettings, settings: Settings) -> None:
        self._duty = duty
        self._configuration = Configuration(duty, settings)
        self._metrics = Metrics()
        settings = self._configuration.settings
        self._service = Runtime(settings, self._metrics, duty.log, guard=self._guard())
        self._others = PeerWorkers(duty.page, duty.number, duty.token, self._metrics) if duty.token else None
        self.channel = self._others.channel if self._others else WorkerChannel(duty.page, duty.number, duty.token)
        self._kept = PersistedCooldowns(lambda: self._service, time.time)
        self._news = RoutingStateSync(self.channel, lambda: self._service, self._kept)
        self._checks = Checks(lambda: self._service)
        self._collector = TelemetryTarget(lambda: self._service)
        supervised = self._others is not None
        self._watchdog = Watchdog(duty.page, duty.number, duty.longest_turn, supervised=supervised)
        self._app = App(self._service, self._others)
        self._server = HttpServer(self._app, self._app.refuse, server_limits(settings.limits, settings.timeouts))
        # It is to stop; to lose no time over it; and not to wait for what runs.
        self._stop, self._hurry, self._now = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._told = 0.0
        self._closing: asyncio.Task[None] | None = None
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
        if self._duty.hangup is OnHangup.RELOADS:
            loop.add_signal_handler(signal.SIGHUP, self.reload)
        elif self._duty.hangup is OnHangup.ENDS and not supervised:
            loop.add_signal_handler(signal.SIGHUP, self._hung_up)
        if self._duty.lifeline is not None:
            loop.add_reader(self._duty.lifeline, self._cut_loose)
        if self._configuration.catch_up():
            self._apply()
        await self._kept.take_up()
        storage = self._service.settings.storage
        if storage.records:
            self._service.listener.keep(storage.path, self._duty.log)
        self._collector.follow()
        self._service.accounting.start(self._collector.told)
        if self._others is not None:
            await self._others.listen()
            await self.channel.catch_up()
            if self._duty.page.workers > 1:
                self._news.start()
        self._follow_checks()
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
            self._hurry.set()
            accepting.close()
            await self._drain()
            if self._others is not None:
                await self._others.close()
        finally:
            self._news.stop()
            self._watchdog.stop()
            await self._checks.close()
        self._news.tell()
        await self._service.close()
        await self._service.state.close(0.0)
        await self._service.accounting.close(_LAST_DRAIN if not self._now.is_set() else _SHORT_DRAIN)
        # The very last: what is not told by now is in the accounts all the same.
        telling = asyncio.ensure_future(self._collector.close())
        if not await self._before_told(telling):
            telling.cancel()

    def reload(self) -> None:
        """Apply the configuration as it is now, if it may be."""
        if self._configuration.reload():
            self._apply()

    def _apply(self) -> None:
        """Serve by the settings as they are now; what is under way goes on under the old ones."""
        settings, old, log = self._configuration.settings, self._service, self._duty.log
        self._former.add(old)
        self._app.service = self._service = Runtime(
            settings, self._metrics, log, old.state, guard=self._guard(), former=old
        )
        self._server.limits = server_limits(settings.limits, settings.timeouts)
        self._closing = asyncio.get_running_loop().create_task(old.close())
        self._follow_checks()
        self._collector.follow()
        self._service.accounting.hear(self._collector.told)
        log.event("info", "the configuration was changed", providers=len(settings.providers))

    def _follow_checks(self) -> None:
        """Check providers as the configuration says: one worker is enough, and tells the others what it found."""
        if self._duty.number == 0:
            self._checks.follow()

    def _guard(self) -> Guard:
        configuration = self._configuration
        return Guard(configuration.settings, configuration.protection, self._duty.page)

    def _terminated(self) -> None:
        if self._stop.is_set():
            self._interrupted()
        else:
            self._told = time.monotonic()
            self._stop.set()

    def _interrupted(self) -> None:
        now, before = time.monotonic(), self._told
        self._told = now
        if not self._hurry.is_set():
            self._stop_at_once()
        elif now - before > SAME_SIGNAL:
            self._end_now()

    def _hung_up(self) -> None:
        """Stop, because the terminal is gone. That may be told twice, and nobody is impatient."""
        self._told = time.monotonic()
        self._stop_at_once()

    def _end_now(self) -> None:
        self._stop_at_once()
        self._now.set()

    def _stop_at_once(self) -> None:
        self._hurry.set()
        self._stop.set()

    def _cut_loose(self) -> None:
        """Stop, because nobody watches over this process any more."""
        lifeline = self._duty.lifeline
        assert lifeline is not None
        if has_ended(lifeline):
            asyncio.get_running_loop().remove_reader(lifeline)
            self._stop_at_once()

    async def _until_stopped(self) -> None:
        while not self._stop.is_set():
            try:
                await asyncio.wait_for(self._stop.wait(), LOOK_EVERY)
            except TimeoutError:
                if self._configuration.look():
                    self._apply()
                self._service.state.sweep()
                self._news.tell()

    async def _serve_on(self) -> None:
        """Serve all who come, and tell those who ask that it will not be for long: a balancer sends nobody any more."""
        retries = self._service.settings.timeouts.lame_duck
        if self._hurry.is_set() or not retries:
            return
        self._app.lame_duck = True
        self._server.close_after_replies()
        self._duty.log.event("info", "stopping soon: no longer ready, and still serving", seconds=retries)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), retries)

    async def _drain(self) -> None:
        service, log = self._service, self._duty.log
        for running in (service, *self._former):
            running.draining = True
        self._server.retire()
        retries = service.settings.timeouts.drain
        if self._others is not None:
            self._duty.page.wait_for(self._duty.number, self._server.busy)
        elif self._server.busy:
            tell_waiting(self._duty, self._server.busy, retries)
        detached = asyncio.ensure_future(self._finish_background(retries))
        idle = asyncio.ensure_future(self._server.wait_idle(retries))
        if not (await self._before_told(idle) and idle.result()):
            idle.cancel()
            log.event("warn", "ending exchanges that still run", running=self._server.busy)
            self._server.cancel_all()
            await self._server.wait_idle(_LAST_MOMENTS)
        await detached

    async def _finish_background(self, retries: float) -> None:
        background = self._service.state.background
        finishing = asyncio.ensure_future(background.finish(retries))
        if await self._before_told(finishing):
            await finishing
        else:
            # It may wait for a store that is busy for longer than there is time.
            finishing.cancel()
            await background.finish(0.0)

    async def _before_told(self, work: asyncio.Future[T]) -> bool:
        """Wait for some work, or to be told that what runs is to end now; tell whether it is done."""
        told = asyncio.ensure_future(self._now.wait())
        either: tuple[asyncio.Future[T] | asyncio.Task[Literal[True]], ...] = (work, told)
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        return work.done()


def tell_waiting(duty: WorkerSettings, running: int, seconds: float) -> None:
    """Say how many exchanges the end waits for, and how to end them."""
    many = "1 exchange still runs" if running == 1 else f"{running} exchanges still run"
    again = "Ctrl-C again" if duty.hangup is OnHangup.ENDS else "a second signal"
    words = f"stopping: {many}, and may for {seconds:g} s; {again} ends them at once"
    duty.log.say("info", "stopping when running exchanges have ended", words, running=running)


def has_ended(lifeline: int) -> bool:
    """Whether a lifeline that can be read from has nothing more to read; what is said there means nothing."""
    return not os.read(lifeline, 4096)


def server_limits(limits: Limits, timeouts: Timeouts) -> ServerLimits:
    """What the server holds its clients to."""
    return ServerLimits(
        header_bytes=limits.header_bytes,
        header_count=limits.header_count,
        header_timeout=timeouts.client_headers,
        body_timeout=timeouts.client_body,
        idle_timeout=timeouts.client_idle,
    )
