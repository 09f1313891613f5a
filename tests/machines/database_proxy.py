"""Database proxy: a TCP port in front of the socket of a PostgreSQL server, with the faults of a network.

    proxy = DatabaseProxy(lambda: server.socket)
    await proxy.start()
    proxy.stall()            # nothing passes in either direction; what was sent arrives after `heal`
    proxy.slow(0.2)          # each answer comes so many seconds later
    proxy.refuse()           # connections are reset, and new ones are closed at once
    proxy.heal()

It lives on the loop of a thread. Its methods that do not wait may be called from any thread.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_AT_ONCE = 65536
_RESET = struct.pack("ii", 1, 0)


class DatabaseProxy:
    """One port. `upstream` gives the socket's path for each connection, so that another server can take its place."""

    def __init__(self, upstream: Callable[[], Path], watched: bytes = b"") -> None:
        self._upstream = upstream
        self._watched = watched
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._refusing = False
        # Set unless the network is stalled.
        self._passable = asyncio.Event()
        self._passable.set()
        self._delay = 0.0
        self.port = 0
        # Connections accepted so far.
        self.accepted = 0
        # How often each open connection has sent the watched bytes.
        self.seen: dict[int, int] = {}

    async def start(self) -> None:
        """Listen."""
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close all connections, and listen no more."""
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def open(self) -> int:
        """The number of open connections."""
        return len(self._tasks)

    def stall(self) -> None:
        """Let nothing pass; neither side learns of it."""
        self._soon(self._passable.clear)

    def slow(self, seconds: float) -> None:
        """Delay each answer."""
        self._delay = seconds

    def refuse(self) -> None:
        """Reset all connections, and close new ones at once."""
        self._refusing = True
        self.reset()

    def reset(self) -> None:
        """Reset all connections; new ones are accepted."""
        self._soon(self._reset)

    def heal(self) -> None:
        """Let everything pass at once."""
        self._refusing, self._delay = False, 0.0
        self._soon(self._passable.set)

    def _soon(self, switch: Callable[[], object]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(switch)

    def _reset(self) -> None:
        for writer in tuple(self._writers):
            _abort(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            _abort(writer)
            return
        self.accepted += 1
        number = self.accepted
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._connect(number, reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            # Either side is gone, or nobody listens: the other one learns it the same way.
            _abort(writer)
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            self.seen.pop(number, None)
            writer.close()

    async def _connect(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._passable.wait()
        their_reader, their_writer = await asyncio.open_unix_connection(self._upstream())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(number, reader, their_writer))
                group.create_task(self._answers(their_reader, writer))
        except* OSError as errors:
            raise ConnectionResetError from errors
        finally:
            their_writer.close()

    async def _requests(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._watched:
            self.seen[number] = 0
        while data := await reader.read(_AT_ONCE):
            if self._watched and self._watched in data:
                self.seen[number] += 1
            await self._passable.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_AT_ONCE):
            if self._delay:
                await asyncio.sleep(self._delay)
            await self._passable.wait()
            writer.write(data)
            await writer.drain()
        # What the server said last has arrived before the end.
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        raise ConnectionResetError


def _abort(writer: asyncio.StreamWriter) -> None:
    """End a connection so that the other side gets a reset."""
    own = writer.get_extra_info("socket")
    with suppress(OSError):
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
