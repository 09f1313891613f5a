"""A client that sends exactly the bytes it is told to, and a server for it: on a free port, or in virtual time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
import uvloop
from msgspec import Struct

from dragoman.http.request import ServerRequest
from dragoman.http.server import Handler, HttpServer, ServerLimits
from dragoman.http.upstream_call import HeaderList
from tests.virtual_time import VirtualLoop
from tests.waiting import LIMIT, reporting_state

Run = Callable[[Coroutine[None, None, None]], None]
AnyHouse = TypeVar("AnyHouse", bound="House")

# Bounds every wait in a test; a passing test never comes near it.
PATIENCE = LIMIT

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

    def __init__(self, server: HttpServer, port: int) -> None:
        self.server = server
        self.port = port
        self.clients: list[Client] = []

    async def client(self) -> Client:
        client = Client(*await self._connect())
        self.clients.append(client)
        return client

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, data: bytes) -> Reply:
        """Send bytes on a new connection and read the first reply."""
        client = await self.client()
        client.send(data)
        return await client.reply()


class VirtualHouse(House):
    """A server in virtual time: each of its clients has one end of a socket pair, which delivers at once."""

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server, 0)

    async def connect(self) -> socket.socket:
        """The client's end of a new connection."""
        near, far = socket.socketpair()
        near.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self.server(), far)
        return near

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(sock=await self.connect())


def refuse(status: int, message: str, path: str, peer: str) -> tuple[HeaderList, bytes]:
    return [(b"content-type", b"text/plain"), (b"x-refused", path.encode())], f"{status} {message}".encode()


async def echo(request: ServerRequest) -> None:
    """Say what was understood."""
    body = await request.body(1_000_000)
    said = f"{request.method} {request.path} {request.query}|".encode() + body
    request.respond(200, [(b"content-type", b"text/plain")], said)


@asynccontextmanager
async def serving(handler: Handler = echo, limits: ServerLimits = LIMITS) -> AsyncIterator[House]:
    """Run a server; at the end nothing of it is left."""
    server = HttpServer(handler, refuse, limits)
    # A connection beyond the backlog would be tried again after a second.
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, backlog=1024)
    try:
        async with _running(House(server, listener.sockets[0].getsockname()[1])) as house:
            yield house
    finally:
        listener.close()


@asynccontextmanager
async def serving_virtually(handler: Handler = echo, limits: ServerLimits = LIMITS) -> AsyncIterator[VirtualHouse]:
    """Run a server in virtual time; at the end nothing of it is left."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop)
    async with _running(VirtualHouse(HttpServer(handler, refuse, limits))) as house:
        yield house


@asynccontextmanager
async def _running(house: AnyHouse) -> AsyncIterator[AnyHouse]:
    server = house.server

    def state() -> str:
        phases = [connection.phase.value for connection in server._connections]
        return f"server on port {house.port}: {server.busy} exchanges, connections {phases}"

    try:
        with reporting_state(state):
            async with asyncio.timeout(PATIENCE * 2):
                yield house
    finally:
        for client in house.clients:
            await client.close()
        server.retire()
        server.cancel_all()
        assert await server.wait_idle(PATIENCE)


async def loop_turns(count: int = 50) -> None:
    """Let the loop turn: what is ready happens, and what could be read is read."""
    for _ in range(count):
        await asyncio.sleep(0)
