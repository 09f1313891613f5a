"""Live events: exchanges opened and finalized by any worker, as server-sent events. A ring buffer holds the latest
events, so that a client can continue after a lost connection with `Last-Event-ID`. IDs are `EPOCH-NUMBER`; each ring
has its own epoch.

The first event is `resync`, unless the client continues at a known event. The client then reads the state, for example
from `/exchanges`, and applies the events after it. Journals are read four times a second while a client listens, once
for all clients."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from time import time_ns

import msgspec
from msgspec import Struct

from dragoman.database_location import DatabaseLocation
from dragoman.gateway.admin.framework import NO_STORE, AdminCall, AdminEndpoint, AdminError, event_stream
from dragoman.gateway.admin.record_endpoints import records_of
from dragoman.identities.identity import VIEWER
from dragoman.mint import random_token
from dragoman.records.exchanges import unrecorded
from dragoman.records.journal_follower import ExchangeEvent, JournalFollower
from dragoman.records.views.exchanges import exchange_view

# Limits of the ring in events and bytes, and seconds between two reads of the journals.
RING, RING_BYTES = 1000, 8 * 1024 * 1024
EVERY = 0.25
COMMENT_SECONDS = 15.0
# Seconds for which a ring without clients is retained.
IDLE_SECONDS = 30.0
# Maximum streams of one worker, and of one key on it.
MAX_STREAMS, MAX_STREAMS_OF_KEY = 32, 8
# Events that are written at once, before checking that the client reads.
_AT_ONCE = 50
_EVENT_STREAM = (b"content-type", b"text/event-stream")
_RETRY = b"retry: 2000\n\n"
_COMMENT = b":\n\n"


class EventRing:
    """The latest events with their numbers, limited in number and bytes."""

    def __init__(self, epoch: str, most: int = RING, most_bytes: int = RING_BYTES) -> None:
        self._epoch = epoch
        self._most, self._most_bytes = most, most_bytes
        self._events: deque[bytes] = deque()
        self._bytes = 0
        # The number of the last event, counted from 1.
        self.last = 0

    def add(self, event: bytes) -> None:
        """Add an event without its ID."""
        self.last += 1
        event = self._id(self.last) + event
        self._events.append(event)
        self._bytes += len(event)
        while len(self._events) > self._most or self._bytes > self._most_bytes:
            self._bytes -= len(self._events.popleft())

    def resync(self) -> bytes:
        """The event after which a client continues with the next one."""
        return self._id(self.last) + b"event: resync\ndata: {}\n\n"

    def position_of(self, event_id: str) -> int | None:
        """The number in an event ID. None for an ID of another ring, and if a later event has left the ring."""
        epoch, _, number = event_id.rpartition("-")
        if epoch != self._epoch or not (number.isascii() and number.isdigit() and len(number) < 20):
            return None
        return int(number) if self.has_all_after(int(number)) else None

    def has_all_after(self, number: int) -> bool:
        return self.last - len(self._events) <= number <= self.last

    def after(self, number: int, most: int) -> list[bytes]:
        """Return the first `most` events after a number."""
        skipped = number - (self.last - len(self._events))
        return [self._events[at] for at in range(skipped, min(skipped + most, len(self._events)))]

    def _id(self, number: int) -> bytes:
        return f"id: {self._epoch}-{number}\n".encode()


class LiveEvents:
    """The events of one worker, and their streams."""

    def __init__(self, now: Callable[[], int] | None = None) -> None:
        self._now = now or (lambda: time_ns() // 1000)
        self._ring = EventRing("")
        self._follower: JournalFollower | None = None
        self._reading: asyncio.Future[list[bytes]] | None = None
        self._read_at = 0.0
        self._idle: asyncio.TimerHandle | None = None
        # Open streams by the name of their key.
        self._streams: Counter[str] = Counter()

    @property
    def streams(self) -> int:
        return self._streams.total()

    async def join(self, database: DatabaseLocation, key: str) -> EventRing:
        """Begin a stream for a key. Returns the ring, with all events until now."""
        if self._streams[key] >= MAX_STREAMS_OF_KEY:
            raise AdminError(429, f"{MAX_STREAMS_OF_KEY} streams of events of this key are open", "close one")
        if self.streams >= MAX_STREAMS:
            raise AdminError(429, f"{MAX_STREAMS} streams of events are open", "close one, or ask another worker")
        self._streams[key] += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        try:
            if self._follower is None:
                self._follower = JournalFollower(database)
                self._ring = EventRing(random_token(12))
            ring = self._ring
            await self.refresh()
        except OSError as error:
            self.leave(key)
            raise AdminError(503, f"journals cannot be read: {error.strerror}", "see their directory") from None
        except BaseException:
            self.leave(key)
            raise
        return ring

    def leave(self, key: str) -> None:
        """End a stream of a key. After the last one, journals are no longer read."""
        self._streams[key] -= 1
        if not self._streams[key]:
            del self._streams[key]
        if not self._streams:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.close)

    def close(self) -> None:
        """Discard everything. Later streams begin with another ring."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._follower is not None and self._reading is None:
            self._follower.close()
            self._follower = None

    async def refresh(self) -> None:
        """Read new events into the ring, unless they were read a moment ago."""
        loop = asyncio.get_running_loop()
        follower = self._follower
        assert follower is not None
        if self._reading is None:
            if loop.time() - self._read_at < EVERY / 2:
                return
            self._reading = asyncio.ensure_future(asyncio.to_thread(_encoded, follower, self._now()))
            self._reading.add_done_callback(self._has_read)
        await asyncio.shield(self._reading)

    def _has_read(self, reading: asyncio.Future[list[bytes]]) -> None:
        self._reading = None
        self._read_at = asyncio.get_running_loop().time()
        if not reading.cancelled() and reading.exception() is None:
            for event in reading.result():
                self._ring.add(event)


def _encoded(follower: JournalFollower, now: int) -> list[bytes]:
    """New journal entries as events without IDs."""
    return [_encode(event) for event in follower.read(now)]


def _encode(event: ExchangeEvent) -> bytes:
    view = exchange_view(unrecorded(event.entry))
    return b"event: %b\ndata: %b\n\n" % (event.kind.encode(), msgspec.json.encode(view))


class EventsParameters(Struct, frozen=True, forbid_unknown_fields=True):
    """The data of the events `opened` and `finalized` are exchanges, without a session yet. The first event is
    `resync`, unless `Last-Event-ID` is still known: read the present state, then apply the events. Comments are sent
    every 15 s."""


async def send_events(call: AdminCall, _: EventsParameters) -> None:
    """Send events of all workers, until the key is revoked or the gateway shuts down."""
    events, request = call.services.events, call.request
    ring = await events.join(records_of(call), call.name)
    try:
        position = ring.position_of((request.header(b"last-event-id") or b"").decode("latin-1"))
        request.start(200, [_EVENT_STREAM, NO_STORE])
        request.write(_RETRY)
        loop = asyncio.get_running_loop()
        written_at = loop.time()
        while call.is_current() and not request.gone:
            if position is None or not ring.has_all_after(position):
                some, position = [ring.resync()], ring.last
            else:
                some = ring.after(position, _AT_ONCE)
                position += len(some)
            if some or loop.time() - written_at >= COMMENT_SECONDS:
                request.write(b"".join(some) or _COMMENT)
                written_at = loop.time()
            await request.drained()
            if position == ring.last:
                await asyncio.sleep(EVERY)
                await events.refresh()
        request.end()
    except OSError as error:
        call.runtime.log.event("warn", f"cannot follow journals: {error.strerror}")
        request.abort()
    finally:
        events.leave(call.name)


EVENT_ENDPOINTS: tuple[AdminEndpoint, ...] = (
    event_stream(
        "/events", VIEWER, "exchanges opened and finalized, as server-sent events", send_events, EventsParameters
    ),
)
