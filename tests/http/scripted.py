"""A provider of a few lines: a real server on a real port that does what a test's script says."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple, TypeAlias

import uvloop

Script: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
# Generous: the machine may be busy, and a test that hangs must end all the same.
PATIENCE = 30.0


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
        self.tasks: set[asyncio.Task[None]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Play the script on one connection; a client that goes away ends it."""
        self.seen += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            await self.script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            self.tasks.discard(task)
            writer.transport.abort()

    def url(self, path: str = "/v1/answer", scheme: str = "http", host: str = "127.0.0.1") -> str:
        """The URL of a path of this server."""
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def provider(script: Script, context: ssl.SSLContext | None = None) -> AsyncIterator[Provider]:
    """A server that plays a script on every connection."""
    made = Provider(script)
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0, ssl=context, limit=1 << 20)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in list(made.tasks):
            task.cancel()
        while made.tasks:
            await asyncio.sleep(0.001)
        # Transports close their sockets a round later.
        await asyncio.sleep(0.01)


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


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that other callbacks bring about."""
    while not holds():
        await asyncio.sleep(0.002)
