"""Worker: one process that serves: its loop, its signals, its configuration file.

SIGTERM, SIGINT   stop accepting, let running exchanges end within `timeouts.drain`, then end them in their own form
SIGHUP            read the configuration again
the file changes  likewise; a bad one is told and the old one stays
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from dragoman.config.reading import fingerprint
from dragoman.config.settings import Limits, Settings, Timeouts
from dragoman.errors import ConfigError
from dragoman.gateway.app import App
from dragoman.gateway.binding import check_binding
from dragoman.gateway.logs import Log
from dragoman.gateway.metrics import Metrics
from dragoman.gateway.service import Service
from dragoman.gateway.siblings import Siblings
from dragoman.http.server import Server, ServerLimits

_LOOK_EVERY = 1.0
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
        self._file = Path(settings.file) if settings.file else None
        self._seen = fingerprint(self._file) if self._file is not None else None

    async def run(self, listener: socket.socket, ready: Callable[[], None]) -> None:
        """Serve; return when everything that was under way has ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
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

    def reload(self) -> None:
        """Apply the configuration as it is now; what is under way goes on under the old one."""
        log = self._duty.log
        old = self._service.settings
        try:
            settings = self._duty.read()
            check_binding(settings, open_to_all=self._duty.open)
        except ConfigError as error:
            log.event("error", "the configuration was not changed: the new one has errors", problem=str(error))
            return
        if (settings.server.host, settings.server.port) != (old.server.host, old.server.port):
            log.event("warn", "host and port change only with a restart")
        before, self._service = self._service, Service(settings, self._metrics, log)
        self._app.service = self._service
        self._server.limits = server_limits(settings.limits, settings.timeouts)
        self._closing = asyncio.get_running_loop().create_task(before.close())
        log.event("info", "the configuration was changed", providers=len(settings.providers))

    async def _until_stopped(self) -> None:
        while not self._stop.is_set():
            try:
                await asyncio.wait_for(self._stop.wait(), _LOOK_EVERY)
            except TimeoutError:
                self._look()

    def _look(self) -> None:
        """Read the file again if it is another one than before, by its time, size or place on the disk."""
        if self._file is None:
            return
        now = fingerprint(self._file)
        if now != self._seen:
            self._seen = now
            self.reload()

    async def _drain(self) -> None:
        service, log = self._service, self._duty.log
        service.draining = True
        self._server.retire()
        if self._server.busy:
            log.event("info", "stopping when running exchanges have ended", running=self._server.busy)
        if not await self._server.wait_idle(service.settings.timeouts.drain):
            log.event("warn", "ending exchanges that still run", running=self._server.busy)
            self._server.cancel_all()
            await self._server.wait_idle(_LAST_MOMENTS)


def server_limits(limits: Limits, timeouts: Timeouts) -> ServerLimits:
    """What the server holds its clients to."""
    return ServerLimits(
        header_bytes=limits.header_bytes,
        header_count=limits.header_count,
        header_timeout=timeouts.client_headers,
        body_timeout=timeouts.client_body,
    )
