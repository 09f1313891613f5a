"""Worker channel: best-effort broadcast of small messages under a topic. Messages are batched for 0.2 s and sent over
pooled connections. A worker that does not listen or read loses messages, and a new worker queries the others once
(`catch_up`). Messages must therefore tolerate repetition, delay, reordering and loss."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from dragoman.gateway.workers.handshake import dial
from dragoman.gateway.workers.shared_memory import SharedMemory

T = TypeVar("T")

# The kind of connection, sent after the handshake.
UPDATES = b"t"
SNAPSHOT = b"a"
# Seconds between two batches, and timeout for another worker.
_FLUSH_INTERVAL = 0.2
_TIMEOUT = 2.0
# Maximum bytes of a message; maximum messages of a topic in a batch, the oldest of which are dropped; maximum bytes of
# a batch, and of a snapshot.
MAX_MESSAGE_BYTES = 4096
MAX_BATCH_MESSAGES = 1000
_MAX_BATCH_BYTES = 16 * 1024 * 1024
_MAX_SNAPSHOT_BYTES = 64 * 1024 * 1024
# Maximum unsent bytes to one worker.
_MAX_UNSENT_BYTES = 4 * 1024 * 1024
_SIZE = struct.Struct(">I")


class WorkerMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message: its topic and its encoded value."""

    topic: str
    payload: bytes


_ENCODER = msgspec.msgpack.Encoder()
_BATCH = msgspec.msgpack.Decoder(list[WorkerMessage])


class Malformed(ValueError):
    """The message is not valid."""


class WorkerChannel:
    """Messages between workers. A single worker sends nothing."""

    def __init__(self, page: SharedMemory, number: int, token: bytes) -> None:
        self._page = page
        self._number = number
        self._token = token
        self._handlers: dict[str, Callable[[bytes], None]] = {}
        self._sources: dict[str, Callable[[], Iterable[object]]] = {}
        # Queued messages by topic, and the timer of the next batch.
        self._outbox: dict[str, deque[bytes]] = {}
        self._due: asyncio.TimerHandle | None = None
        self._flushed_at = float("-inf")
        self._links: dict[int, _Link] = {}
        self._closed = False
        # Messages that were dropped: too large, or too many at a time.
        self.dropped = 0

    def subscribe(self, topic: str, kind: type[T], handler: Callable[[T], None]) -> None:
        """Call `handler` with every message of another worker under a topic."""
        decoder = msgspec.msgpack.Decoder(kind)
        self._handlers[topic] = lambda said: handler(decoder.decode(said))

    def offer(self, topic: str, source: Callable[[], Iterable[object]]) -> None:
        """Register the source of the messages under a topic for a new worker."""
        self._sources[topic] = source

    @property
    def is_alone(self) -> bool:
        return self._page.workers < 2

    def broadcast(self, topic: str, value: object) -> None:
        """Send to the other workers with the next batch. A message that is too large is dropped."""
        if self.is_alone or self._closed:
            return
        payload = _ENCODER.encode(value)
        if len(payload) > MAX_MESSAGE_BYTES:
            self.dropped += 1
            return
        messages = self._outbox.get(topic)
        if messages is None:
            messages = self._outbox[topic] = deque(maxlen=MAX_BATCH_MESSAGES)
        if len(messages) == MAX_BATCH_MESSAGES:
            self.dropped += 1
        messages.append(payload)
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_at(max(loop.time(), self._flushed_at + _FLUSH_INTERVAL), self._flush)

    async def catch_up(self) -> None:
        if not self._handlers:
            return
        others = await asyncio.gather(*(self._fetch_snapshot(port) for _, port in self._others()))
        for batch in others:
            try:
                self.receive(batch)
            except Malformed:
                # A worker without a response is treated as one without state.
                continue

    def close(self) -> None:
        self._closed = True
        if self._due is not None:
            self._due.cancel()
            self._due = None
        for link in self._links.values():
            link.close()
        self._links.clear()

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Receive batches until the end. Invalid messages raise `Malformed`."""
        while True:
            try:
                (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
            except asyncio.IncompleteReadError:
                return
            if size > _MAX_BATCH_BYTES:
                raise Malformed("a batch is too large")
            self.receive(await reader.readexactly(size))

    def snapshot(self) -> bytes:
        return _ENCODER.encode(
            [
                WorkerMessage(topic, _ENCODER.encode(value))
                for topic, source in self._sources.items()
                for value in source()
            ]
        )

    def receive(self, batch: bytes) -> None:
        try:
            for message in _BATCH.decode(batch):
                handler = self._handlers.get(message.topic)
                if handler is not None:
                    handler(message.payload)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise Malformed(str(error)) from error

    def _others(self) -> list[tuple[int, int]]:
        """The other workers that listen, with their ports."""
        page = self._page
        numbers = (number for number in range(page.workers) if number != self._number)
        return [(number, port) for number in numbers if (port := page.port(number))]

    def _flush(self) -> None:
        self._due = None
        self._flushed_at = asyncio.get_running_loop().time()
        batch = _ENCODER.encode(
            [WorkerMessage(topic, payload) for topic, many in self._outbox.items() for payload in many]
        )
        self._outbox.clear()
        data = _SIZE.pack(len(batch)) + batch
        for number, port in self._others():
            link = self._links.get(number)
            if link is None or link.port != port or link.over:
                if link is not None:
                    link.close()
                link = self._links[number] = _Link(port, self._token)
            link.send(data)

    async def _fetch_snapshot(self, port: int) -> bytes:
        data = bytearray()
        try:
            async with asyncio.timeout(_TIMEOUT):
                reader, writer = await dial(port, self._token)
                try:
                    writer.write(SNAPSHOT)
                    while piece := await reader.read(256 * 1024):
                        data += piece
                        if len(data) > _MAX_SNAPSHOT_BYTES:
                            return b""
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return b""
        return bytes(data)


class _Link:
    """A connection to another worker. Only the other side receives."""

    def __init__(self, port: int, token: bytes) -> None:
        self.port = port
        self.over = False
        self._transport: asyncio.WriteTransport | None = None
        # Data to send once there is a connection.
        self._early = bytearray(UPDATES)
        self._task = asyncio.get_running_loop().create_task(self._run(token))

    def send(self, data: bytes) -> None:
        """Send data, unless the other side has stopped reading."""
        transport = self._transport
        unsent = len(self._early) if transport is None else transport.get_write_buffer_size()
        if unsent > _MAX_UNSENT_BYTES:
            self.close()
        elif transport is None:
            self._early += data
        else:
            transport.write(data)

    def close(self) -> None:
        """Close, and drop unsent data."""
        self.over = True
        self._early.clear()
        self._task.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _run(self, token: bytes) -> None:
        """Connect, send queued data, and wait for the end."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                reader, writer = await dial(self.port, token)
        except (OSError, TimeoutError):
            # Other workers get the message anyway, and the next batch reconnects.
            self.over = True
            return
        self._transport = writer.transport
        try:
            writer.write(bytes(self._early))
            self._early.clear()
            # The other worker sends nothing, so any data is the end.
            await reader.read(1)
        except OSError:
            # The listener has ended.
            return
        finally:
            self.over, self._transport = True, None
            writer.transport.abort()
