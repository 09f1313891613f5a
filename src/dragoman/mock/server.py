"""Server: the mock on a socket, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable

from dragoman.http.server import HttpServer, ServerLimits
from dragoman.mock.app import MockApp

_LIMITS = ServerLimits(header_bytes=64 * 1024, header_count=200, header_timeout=30.0, body_timeout=60.0)
# What still runs when the end is near: a moment to finish, and one to be cancelled.
_GRACE = 1.0


async def serve(app: MockApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        await serve_until(stop, app, listener, ready)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def serve_until(stop: asyncio.Event, app: MockApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    server = HttpServer(app, app.refuse, _LIMITS)
    accepting = await asyncio.get_running_loop().create_server(server, sock=listener, backlog=1024)
    try:
        ready()
        await stop.wait()
    finally:
        accepting.close()
        server.retire()
        if not await server.wait_idle(_GRACE):
            server.cancel_all()
            await server.wait_idle(_GRACE)
