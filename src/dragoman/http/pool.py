"""Pool: the connections to one origin; those at rest, and a place in the queue when there are too many."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial

from dragoman.http.address import Origin
from dragoman.http.reuse import Reuse
from dragoman.http.upstream_connection import UpstreamConnection


class Pool:
    """Connections to one origin, last in first out: the fewest stay warm, the others run out of time."""

    def __init__(
        self,
        connect: Callable[[Pool], Coroutine[None, None, UpstreamConnection]],
        *,
        max_connections: int,
        idle: float,
        origin: Origin,
        reuse: Reuse,
    ) -> None:
        self._connect = connect
        self._max_connections = max_connections
        self._idle = idle
        self._origin = origin
        self._reuse = reuse
        self.loop = asyncio.get_running_loop()
        # In the order of their last use.
        self._idle_connections: list[UpstreamConnection] = []
        self._waiting: deque[asyncio.Future[UpstreamConnection]] = deque()
        # Calls that need an unused connection go first: they have waited before.
        self._renewing: deque[asyncio.Future[UpstreamConnection]] = deque()
        # Connections that exist or are being made.
        self._open = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def take(self) -> UpstreamConnection | None:
        """A connection at rest that can be used, if there is one."""
        while self._idle_connections:
            connection = self._idle_connections.pop()
            reusable = not (self._reuse.until and connection.reused) or self._reuse.allows(self._origin)
            # Checking the socket costs less than a failed call. Unrequested bytes in it must not become the next call's
            # response.
            if reusable and self.loop.time() - connection.idle_since < self._idle and connection.alive():
                return connection
            connection.dismiss()
        return None

    def reusable(self) -> bool:
        """Whether connections may serve more than one call."""
        return not self._reuse.until or self._reuse.allows(self._origin)

    def fits(self, connection: UpstreamConnection) -> bool:
        """Whether a connection that has rested, or served before, can serve a call."""
        return (self.reusable() or not connection.reused) and connection.alive()

    def obtain(self) -> asyncio.Future[UpstreamConnection]:
        """A connection to come: a new one, or one that another call gives back. Cancelling gives up the place."""
        waiter: asyncio.Future[UpstreamConnection] = self.loop.create_future()
        self._waiting.append(waiter)
        self._serve()
        return waiter

    def renew(self) -> asyncio.Future[UpstreamConnection]:
        """A connection to come that has neither served nor rested; where there is no room, one at rest makes it."""
        waiter: asyncio.Future[UpstreamConnection] = self.loop.create_future()
        self._renewing.append(waiter)
        if self._open >= self._max_connections and self._idle_connections:
            self._idle_connections[0].drop()
        else:
            self._serve()
        return waiter

    def release(self, connection: UpstreamConnection) -> None:
        """Give a connection to the first waiter, or pool it."""
        crowded = connection.reused and (self._renewing or self._reuse.until)
        ends = connection.closing() or (crowded and not self._welcome())
        waiter = self._next() if (self._waiting or self._renewing) and not ends else None
        if waiter is not None:
            waiter.set_result(connection)
        elif self._closed or ends:
            connection.drop()
        else:
            connection.was_pooled = True
            connection.idle_since = self.loop.time()
            self._idle_connections.append(connection)
            if self._timer is None:
                self._timer = self.loop.call_later(self._idle, self._sweep)

    def forget(self, connection: UpstreamConnection) -> None:
        """Remove a connection from the pool, and open a new one if a call waits."""
        self._open -= 1
        if connection in self._idle_connections:
            self._idle_connections.remove(connection)
        self._serve()

    def mistrust(self) -> None:
        """Disable reuse for a while: the other side sent unexpected data, perhaps on other connections too."""
        self._reuse.forbid(self._origin)
        self._drop_idle()

    def close(self) -> None:
        """Drop what rests; calls under way end in their own time and their connections do not come back."""
        self._closed = True
        self._drop_idle()

    def _drop_idle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._idle_connections:
            self._idle_connections.pop().drop()

    def _welcome(self) -> bool:
        """Whether a connection that has served may serve again, and does not make room for a new one."""
        while self._renewing and self._renewing[0].done():
            self._renewing.popleft()
        return not self._renewing and self._reuse.allows(self._origin)

    def _next(self) -> asyncio.Future[UpstreamConnection] | None:
        for queue in (self._renewing, self._waiting):
            while queue:
                waiter = queue.popleft()
                if not waiter.done():
                    return waiter
        return None

    def _serve(self) -> None:
        while self._open < self._max_connections:
            waiter = self._next()
            if waiter is None:
                return
            self._open += 1
            # A task, so that giving up the waiter can end it at any step; calls on pooled connections need none.
            task = self.loop.create_task(self._connect(self))
            task.add_done_callback(partial(self._dialled, waiter))
            waiter.add_done_callback(partial(give_up, task))

    def _dialled(self, waiter: asyncio.Future[UpstreamConnection], task: asyncio.Task[UpstreamConnection]) -> None:
        failed = None if task.cancelled() else task.exception()
        if failed is None and not task.cancelled():
            connection = task.result()
            connection.counted = True
            if waiter.done():
                self.release(connection)
            else:
                waiter.set_result(connection)
            return
        self._open -= 1
        if not waiter.done():
            if failed is None:
                waiter.cancel()
            else:
                waiter.set_exception(failed)
        self._serve()

    def _sweep(self) -> None:
        self._timer = None
        now = self.loop.time()
        while self._idle_connections and self._idle_connections[0].idle_since + self._idle <= now:
            self._idle_connections[0].drop()
        if self._idle_connections:
            self._timer = self.loop.call_at(self._idle_connections[0].idle_since + self._idle, self._sweep)


def give_up(task: asyncio.Task[UpstreamConnection], _: asyncio.Future[UpstreamConnection]) -> None:
    """Cancel the dialling of a call that no longer waits. A finished dial stays."""
    task.cancel()
