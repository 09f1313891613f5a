"""A client that sends exactly the bytes it is told to, and a server on a free port for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest
import uvloop
from msgspec import Struct

from dragoman.http.flight import HeaderList
from dragoman.http.request import Request
from dragoman.http.server import Handler, Server, ServerLimits

Run = Callable[[Coroutine[None, None, None]], None]

# Bounds every wait in a test; a passing test never comes near it.
PATIENCE = 30.0

on_both_loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])

LIMITS = ServerLimits(header_bytes=8192, header_count=20, header_timeout=20.0, body_timeout=20.0)


class Reply(Struct, kw_only=True):
    """What came back: `headers` are the lines as they stood; `broken` if the connection ended before the body did."""

    status: int
    headers: list[bytes]
    body: bytes = b""
    broken: bool = False

    def value(self, name: bytes) -> bytes | None:
        for line in self.headers:
            key, _, value = line.partition(b": ")
            if key == name:
                return value
        return None


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def reply(self, *, bodiless: bool = False) -> Reply:
        """Read one reply, framed as it says it is."""
        async with asyncio.timeout(PATIENCE):
            lines = (await self.reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
            reply = Reply(status=int(lines[0].split()[1]), headers=lines[1:])
            length = reply.value(b"content-length")
            try:
                if bodiless or reply.status in (100, 204, 304):
                    pass
                elif reply.value(b"transfer-encoding") == b"chunked":
                    reply.body = await self._chunks()
                elif length is not None:
                    reply.body = await self.reader.readexactly(int(length))
                else:
                    reply.body = await self.reader.read()
            except (asyncio.IncompleteReadError, ConnectionResetError):
                reply.broken = True
            return reply

    async def _chunks(self) -> bytes:
        pieces = []
        while size := int((await self.reader.readuntil(b"\r\n"))[:-2], 16):
            pieces.append((await self.reader.readexactly(size + 2))[:-2])
        assert await self.reader.readexactly(2) == b"\r\n"
        return b"".join(pieces)

    async def ended(self) -> bool:
        """Whether the server closes the connection, having sent nothing more."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


class House:
    """A server that runs, and its clients."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.clients: list[Client] = []

    async def client(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    async def ask(self, data: bytes) -> Reply:
        """Send bytes on a new connection and read the first reply."""
        client = await self.client()
        client.send(data)
        return await client.reply()


def refuse(status: int, message: str, path: str, peer: str) -> tuple[HeaderList, bytes]:
    return [(b"content-type", b"text/plain"), (b"x-refused", path.encode())], f"{status} {message}".encode()


async def echo(request: Request) -> None:
    """Say what was understood."""
    body = await request.body(1_000_000)
    said = f"{request.method} {request.path} {request.query}|".encode() + body
    request.respond(200, [(b"content-type", b"text/plain")], said)


@asynccontextmanager
async def serving(handler: Handler = echo, limits: ServerLimits = LIMITS) -> AsyncIterator[House]:
    """Run a server; at the end nothing of it is left."""
    server = Server(handler, refuse, limits)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    house = House(server, listener.sockets[0].getsockname()[1])
    try:
        async with asyncio.timeout(PATIENCE * 2):
            yield house
    finally:
        listener.close()
        for client in house.clients:
            await client.close()
        server.retire()
        server.cancel_all()
        assert await server.wait_idle(PATIENCE)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that the other side does."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)
