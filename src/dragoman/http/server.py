"""Server: what a gateway hands to the event loop, and what all its connections share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from dragoman.http.client_connection import ClientConnection
from dragoman.http.known_heads import KnownHeads
from dragoman.http.request import ServerLimits, ServerRequest
from dragoman.http.upstream_call import HeaderList

__all__ = ["Handler", "HttpServer", "Refuse", "ServerLimits", "ServerRequest"]

Handler: TypeAlias = Callable[[ServerRequest], Awaitable[None]]
# Builds headers and body of a refusal from its status, reason, path (as far as it was read) and peer address.
Refuse: TypeAlias = Callable[[int, str, str, str], tuple[HeaderList, bytes]]

# Interval of checks for passed limits: a fraction of the smallest limit, and its bounds in seconds.
SWEEPS_PER_LIMIT = 4
MIN_SWEEP_SECONDS, MAX_SWEEP_SECONDS = 0.02, 1.0
# Delay per tiny body chunk before the next connection of this kind is read: ten times a chunk's cost leaves nine tenths
# of the loop.
CHUNK_TIME = 2e-6


class HttpServer:
    """A factory of connections for `loop.create_server`. `limits` may be replaced while it runs."""

    def __init__(self, handler: Handler, refuse: Refuse, limits: ServerLimits) -> None:
        self.handler = handler
        self.refuse = refuse
        self.limits = limits
        self.heads = KnownHeads()
        # Exchanges under way: handlers that have not returned.
        self.busy = 0
        self.retired = False
        # Whether what still runs is being cancelled.
        self.stopping = False
        self._connections: set[ClientConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        # Waiters for the end of all exchanges.
        self.waiting: list[asyncio.Future[None]] = []
        # Until when connections have their turns whose bodies come in tiny chunks.
        self._turns_until = 0.0

    def __call__(self) -> asyncio.Protocol:
        """A protocol for a new connection."""
        return ClientConnection(self)

    def turn_after(self, chunks: int) -> float:
        """When a connection is read on that has brought so many chunks at once; such connections take turns."""
        self._turns_until = max(self._turns_until, asyncio.get_running_loop().time()) + chunks * CHUNK_TIME
        return self._turns_until

    def close_after_responses(self) -> None:
        """Let each connection end with the reply that is under way on it, if there is one."""
        for connection in self._connections:
            if connection.current is not None:
                connection.current.closes = True

    def retire(self) -> None:
        """Close idle connections now, and the others after their reply."""
        self.retired = True
        for connection in tuple(self._connections):
            connection.retire()
        self.changed()

    async def wait_idle(self, timeout: float) -> bool:
        """Wait until no exchange is open and, once retired, no connection; returns whether that happened in time."""
        if self._is_idle():
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(waiter)
        await asyncio.wait([waiter], timeout=timeout)
        if not waiter.done():
            self.waiting.remove(waiter)
            return False
        return True

    def cancel_all(self) -> None:
        """Cancel every handler and close every connection; replies that have not begun become 503."""
        self.stopping = True
        for connection in tuple(self._connections):
            connection.stop()

    def add(self, connection: ClientConnection) -> None:
        """Note a new connection."""
        self._connections.add(connection)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(self._pace(), self._sweep)

    def remove(self, connection: ClientConnection) -> None:
        """Note that a connection is closed."""
        self._connections.discard(connection)
        if not self._connections and self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self.changed()

    def changed(self) -> None:
        """Wake the waiter for an idle server if it is idle."""
        if self.waiting and self._is_idle():
            waiters, self.waiting = self.waiting, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _is_idle(self) -> bool:
        return self.busy == 0 and not (self.retired and self._connections)

    def _sweep(self) -> None:
        """Look at every connection once: no timer is set or moved when bytes arrive."""
        loop = asyncio.get_running_loop()
        self._sweeper = loop.call_later(self._pace(), self._sweep)
        now = loop.time()
        for connection in tuple(self._connections):
            connection.check_limits(now)

    def _pace(self) -> float:
        limits = self.limits
        smallest = min(limits.header_timeout, limits.body_timeout, limits.idle_timeout, limits.unread_timeout)
        return min(max(smallest / SWEEPS_PER_LIMIT, MIN_SWEEP_SECONDS), MAX_SWEEP_SECONDS)
