"""Worker: one process that serves: its loop, its signals, its configuration file.

SIGTERM, SIGINT   stop accepting, let running exchanges end within `timeouts.drain`, then end them in their own form
SIGHUP            read the configuration again
the file changes  likewise, once it rests; a bad one is told and the old one stays
lifeline ends     whoever watches over this process is gone: as SIGTERM
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from weakref import WeakSet

from msgspec import Struct

from dragoman.config.finding import Fingerprint
from dragoman.config.settings import Limits, Settings, Storage, Timeouts
from dragoman.errors import ConfigError, ConfigErrors
from dragoman.gateway.app import App
from dragoman.gateway.binding import check_binding
from dragoman.gateway.logs import Log
from dragoman.gateway.metrics import Metrics
from dragoman.gateway.service import Service
from dragoman.gateway.siblings import Siblings
from dragoman.http.server import Server, ServerLimits

# A file that was found changed is read at the next look, if it rests by then: editors write in several steps.
_LOOK_EVERY = 0.5
_LAST_MOMENTS = 5.0
# Most values of an exchange die young and without cycles: the collector runs seldom, and never over what is loaded.
_GC_THRESHOLDS = (50_000, 20, 50)


class Duty(Struct, frozen=True, kw_only=True):
    """What a worker is told: how to read its settings again, and where its siblings are."""

    read: Callable[[], Settings]
    log: Log
    open: bool = False
    name: str = "0"
    siblings: Path | None = None
    # What changes when the settings have to be read again; None where there is no file.
    fingerprint: Callable[[], Fingerprint] | None = None
    # The same as it was before the settings were read, so that no change is missed.
    seen: Fingerprint | None = None
    # A pipe that ends with the process at its other side.
    lifeline: int | None = None


class Worker:
    """Serves on a socket until it is told to stop."""

    def __init__(self, duty: Duty, settings: Settings) -> None:
        self._duty = duty
        self._metrics = Metrics()
        self._service = Service(settings, self._metrics, duty.log)
        self._siblings = Siblings(duty.siblings, duty.name, self._metrics) if duty.siblings is not None else None
        self._app = App(self._service, self._siblings)
        self._server = Server(self._app, self._app.refuse, server_limits(settings.limits, settings.timeouts))
        self._stop = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        # Services of former configurations, as long as exchanges run under them.
        self._former: WeakSet[Service] = WeakSet()
        self._fingerprint = duty.fingerprint or _no_file
        self._read = self._seen = duty.seen or self._fingerprint()

    async def run(self, listener: socket.socket, ready: Callable[[], None]) -> None:
        """Serve; return when everything that was under way has ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        if self._duty.lifeline is not None:
            loop.add_reader(self._duty.lifeline, self._cut_loose)
        if self._fingerprint() != self._read:
            # A worker that is started anew begins with what its predecessor was started with.
            self.reload()
        if self._siblings is not None:
            await self._siblings.listen()
        accepting = await loop.create_server(self._server, sock=listener, backlog=1024)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        ready()
        await self._until_stopped()
        accepting.close()
        await self._drain()
        if self._siblings is not None:
            await self._siblings.close()
        await self._service.close()
        await self._service.state.close(0.0)

    def reload(self) -> None:
        """Apply the configuration as it is now; what is under way goes on under the old one."""
        log, old = self._duty.log, self._service
        self._read = self._seen = self._fingerprint()
        try:
            settings = self._duty.read()
            check_binding(settings, open_to_all=self._duty.open)
        except ConfigError as error:
            self._refuse(error)
            return
        if _fixed(settings) != _fixed(old.settings):
            log.event("warn", "host, port, workers and storage change only with a restart")
        for warning in settings.warnings:
            log.event("warn", warning)
        self._former.add(old)
        self._app.service = self._service = Service(settings, self._metrics, log, old.state)
        self._server.limits = server_limits(settings.limits, settings.timeouts)
        self._closing = asyncio.get_running_loop().create_task(old.close())
        log.event("info", "the configuration was changed", providers=len(settings.providers))

    def _refuse(self, error: ConfigError) -> None:
        """Tell every problem of a configuration that is not applied."""
        for problem in error.problems if isinstance(error, ConfigErrors) else (error,):
            self._duty.log.event(
                "error",
                "the configuration was not changed: the new one has errors",
                file=problem.file,
                line=problem.line,
                key=problem.key,
                problem=problem.problem,
                remedy=problem.remedy,
            )

    def _cut_loose(self) -> None:
        """Stop, because nobody watches over this process any more."""
        assert self._duty.lifeline is not None
        asyncio.get_running_loop().remove_reader(self._duty.lifeline)
        self._stop.set()

    async def _until_stopped(self) -> None:
        while not self._stop.is_set():
            try:
                await asyncio.wait_for(self._stop.wait(), _LOOK_EVERY)
            except TimeoutError:
                self._look()
                self._service.state.sweep()

    def _look(self) -> None:
        """Read the file again if it is another one than was read, by its time, size or place on the disk, and rests."""
        now = self._fingerprint()
        if now == self._seen and now != self._read:
            self.reload()
        self._seen = now

    async def _drain(self) -> None:
        service, log = self._service, self._duty.log
        for running in (service, *self._former):
            running.draining = True
        self._server.retire()
        if self._server.busy:
            log.event("info", "stopping when running exchanges have ended", running=self._server.busy)
        patience = service.settings.timeouts.drain
        detached = asyncio.ensure_future(service.state.background.finish(patience))
        if not await self._server.wait_idle(patience):
            log.event("warn", "ending exchanges that still run", running=self._server.busy)
            self._server.cancel_all()
            await self._server.wait_idle(_LAST_MOMENTS)
        await detached


def _no_file() -> Fingerprint:
    return ()


def _fixed(settings: Settings) -> tuple[str, int, int, Storage]:
    """What a running gateway cannot change."""
    return settings.server.host, settings.server.port, settings.server.workers, settings.storage


def server_limits(limits: Limits, timeouts: Timeouts) -> ServerLimits:
    """What the server holds its clients to."""
    return ServerLimits(
        header_bytes=limits.header_bytes,
        header_count=limits.header_count,
        header_timeout=timeouts.client_headers,
        body_timeout=timeouts.client_body,
    )
