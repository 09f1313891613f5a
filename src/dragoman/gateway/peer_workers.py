"""Peer workers: each listens on loopback, at a port noted in the shared page, for the other workers of the gateway. A
caller proves that it knows their token (`handshake`), then gets counters, the tally of a launch or the state of
`WorkerChannel`, or sends a message for it. Other callers are disconnected."""

from __future__ import annotations

import asyncio
import secrets
from typing import TypeVar

import msgspec

from dragoman.gateway.observability.launch_counters import WorkerLaunchCount
from dragoman.gateway.observability.metrics import Metrics, Snapshot
from dragoman.gateway.workers.handshake import HOST, accept, dial
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.gateway.workers.worker_channel import SNAPSHOT, UPDATES, Malformed, WorkerChannel

T = TypeVar("T")
_COUNTERS = b"c"
# The length of the query follows: key and name.
_LAUNCH = b"l"
_LENGTH_BYTES = 2
_TIMEOUT = 2.0
_DECODER = msgspec.json.Decoder(Snapshot)
_LAUNCH_DECODER = msgspec.json.Decoder(WorkerLaunchCount)
_NAMED = msgspec.json.Decoder(tuple[str, str])
_ENCODER = msgspec.json.Encoder()
_LIMIT = 64 * 1024 * 1024
_CHUNK = 256 * 1024
TOKEN_BYTES = 32


def new_token() -> bytes:
    """The token by which workers of one gateway authenticate."""
    return secrets.token_bytes(TOKEN_BYTES)


class PeerWorkers:
    """The workers of one gateway, as one of them sees the others."""

    def __init__(self, page: SharedMemory, number: int, token: bytes, metrics: Metrics) -> None:
        self._page = page
        self._number = number
        self._token = token
        self._metrics = metrics
        self.channel = WorkerChannel(page, number, token)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self._page.set_port(self._number, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self._page.set_port(self._number, 0)
        self.channel.close()
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        while self._writers:
            await asyncio.sleep(0)

    async def snapshots(self) -> list[Snapshot]:
        """The counts of the other workers. One that does not respond has ended, and its successor starts at zero."""
        return await self._gather(_COUNTERS, _DECODER)

    async def launch_counts(self, key: str, name: str) -> list[WorkerLaunchCount]:
        named = _ENCODER.encode((key, name))
        return await self._gather(_LAUNCH + len(named).to_bytes(_LENGTH_BYTES) + named, _LAUNCH_DECODER)

    async def _gather(self, request: bytes, reads: msgspec.json.Decoder[T]) -> list[T]:
        others = (self._page.port(number) for number in range(self._page.workers) if number != self._number)
        responses = await asyncio.gather(*(_query(port, self._token, request, reads) for port in others if port))
        return [value for each in responses for value in each]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            async with asyncio.timeout(_TIMEOUT):
                if not await accept(reader, writer, self._token):
                    return
                wanted = await reader.readexactly(1)
                if wanted == _COUNTERS:
                    writer.write(_ENCODER.encode(self._metrics.snapshot()))
                elif wanted == _LAUNCH:
                    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
                    key, name = _NAMED.decode(await reader.readexactly(length))
                    writer.write(_ENCODER.encode(self._metrics.launch_count(key, name)))
                elif wanted == SNAPSHOT:
                    writer.write(self.channel.snapshot())
                await writer.drain()
            if wanted == UPDATES:
                await self.channel.listen(reader)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, Malformed, msgspec.DecodeError):
            # The peer sent an invalid request, or did not wait for the response.
            return
        finally:
            self._writers.discard(writer)
            writer.close()


async def _query(port: int, token: bytes, request: bytes, reads: msgspec.json.Decoder[T]) -> list[T]:
    """The counts of one worker; None if its response is invalid."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            reader, writer = await dial(port, token)
            try:
                writer.write(request)
                return [reads.decode(await _read(reader))]
            finally:
                writer.close()
    except (OSError, TimeoutError, msgspec.DecodeError, UnicodeError):
        return []


async def _read(reader: asyncio.StreamReader) -> bytes:
    """The whole response; empty if it exceeds the limit."""
    data = bytearray()
    while piece := await reader.read(_CHUNK):
        data += piece
        if len(data) > _LIMIT:
            return b""
    return bytes(data)
