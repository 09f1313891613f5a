"""A provider of a few lines: a real server on a real port that does what a test's script says."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import NamedTuple, TypeAlias

import uvloop

from tests.ports import bound_socket
from tests.waiting import LIMIT, reporting_state

Script: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
# Generous: the machine may be busy, and a test that hangs must end all the same.
PATIENCE = LIMIT


class Heard(NamedTuple):
    """A request as the provider read it."""

    line: bytes
    headers: dict[bytes, bytes]
    body: bytes


async def hear(reader: asyncio.StreamReader) -> Heard:
    """Read one request."""
    head = await reader.readuntil(b"\r\n\r\n")
    line, *rest = head[:-4].split(b"\r\n")
    headers = {}
    for entry in rest:
        name, _, value = entry.partition(b": ")
        assert name not in headers
        headers[name] = value
    return Heard(line, headers, await reader.readexactly(int(headers.get(b"content-length", b"0"))))


class Provider:
    """A running server: its port, and how many connections it has seen."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.port = 0
        self.seen = 0
        # Scripts that play, and besides them those whose socket is being closed.
        self.tasks: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Play the script on one connection; a client that goes away ends it."""
        self.seen += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        try:
            await self.script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            self.tasks.discard(task)
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def end(self) -> None:
        """End all scripts, and wait until their sockets are closed."""
        for task in self.tasks:
            task.cancel()
        if self._ending:
            _, late = await asyncio.wait(self._ending, timeout=PATIENCE)
            assert not late

    def state(self) -> str:
        """What to print if a wait gives up."""
        return f"provider on port {self.port}: {self.seen} connections seen, {len(self.tasks)} open"

    def url(self, path: str = "/v1/answer", scheme: str = "http", host: str = "127.0.0.1") -> str:
        """The URL of a path of this server."""
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def provider(script: Script, context: ssl.SSLContext | None = None) -> AsyncIterator[Provider]:
    """A server that plays a script on every connection."""
    made = Provider(script)
    # A connection beyond the backlog would be tried again after a second.
    server = await asyncio.start_server(made.handle, sock=bound_socket(), ssl=context, limit=1 << 20, backlog=1024)
    made.port = server.sockets[0].getsockname()[1]
    try:
        with reporting_state(made.state):
            yield made
    finally:
        server.close()
        await made.end()


@contextmanager
def provider_apart(script: Script) -> Iterator[Provider]:
    """A server on a loop and in a thread of its own, whose garbage holds nothing of the loop that calls it.

    A stream that was reset keeps its error, and by the error's frames a whole turn of its loop with the timers of
    everybody on it: asyncio's own doing, which nobody may take for a residue of the caller's.
    """
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    serving = provider(script)
    try:
        yield asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result(PATIENCE)
    finally:
        asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


def answering(*answers: bytes) -> Script:
    """A script that hears requests and gives these answers in turn, the last of them for ever."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count = 0
        while True:
            await hear(reader)
            writer.write(answers[min(count, len(answers) - 1)])
            await writer.drain()
            count += 1

    return script


def closing(answer: bytes) -> Script:
    """A script that hears one request, answers, and hangs up."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    return script


def run(test: Callable[[], Coroutine[None, None, None]], loop: str) -> None:
    """Run a test within bounded time on the standard loop or on uvloop."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await test()

    if loop == "uvloop":
        uvloop.run(bounded())
    else:
        asyncio.run(bounded())
