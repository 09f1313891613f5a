"""Tap: an observer of a stream's events, its frames, or both. `events` are the client's, after pauses and stop
sequences. `frames` are the provider's bytes, cut between frames. The tap does not change the stream. A relay forwards
content frames unread, unless there is a tap for events. Text that takes the fast path (`StreamPipeline.pass_content`)
reaches an event tap later than the client, several deltas as one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from dragoman.model.events import Event
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.streaming.client_side import ClientSide
from dragoman.streaming.relay import last_frame_end

PlainEnd: TypeAlias = Callable[[bytes, int], int]


class Tap(Struct, frozen=True, kw_only=True):
    """The observers. They must neither raise nor block."""

    events: Callable[[Sequence[Event]], None] | None = None
    frames: Callable[[bytes], None] | None = None


class Watched:
    def __init__(self, client_side: ClientSide, tap: Tap, limit: int) -> None:
        self._client_side = client_side
        self._events = tap.events
        self._frames = Frames(tap.frames, limit) if tap.frames is not None else None

    def skimmed(self, plain_end: PlainEnd | None) -> PlainEnd | None:
        """How a relay may forward frames unread. With an event tap it may not; a frame tap gets the frames, too."""
        if self._events is not None or plain_end is None:
            return None
        if self._frames is None:
            return plain_end
        hand_on = self._frames.take

        def handed_on(chunk: bytes, start: int) -> int:
            end = plain_end(chunk, start)
            if end > start:
                hand_on(chunk[start:end])
            return end

        return handed_on

    def take(self, chunk: bytes, events: list[Event]) -> bytes:
        if self._frames is not None:
            self._frames.take(chunk)
        if self._events is not None and events:
            self._events(events)
        return self._client_side.take(chunk, events)

    def forward(self, chunk: bytes) -> bytes:
        if self._frames is not None:
            self._frames.take(chunk)
        return self._client_side.forward(chunk)

    def end(self, events: list[Event]) -> bytes:
        if self._events is not None and events:
            self._events(events)
        if self._frames is not None:
            self._frames.close()
        return self._client_side.end(events)

    @property
    def status(self) -> int:
        return self._client_side.status

    @property
    def waiting(self) -> int:
        return self._client_side.waiting

    @property
    def resume(self) -> tuple[JsonObject, ...] | None:
        return self._client_side.resume

    @property
    def failure(self) -> Failure | None:
        return self._client_side.failure


class Frames:
    """Splits a stream's bytes, cut anywhere, into full frames. A partial frame beyond `limit` is forwarded as it is."""

    __slots__ = ("_hand_on", "_held", "_limit")

    def __init__(self, hand_on: Callable[[bytes], None], limit: int) -> None:
        self._hand_on = hand_on
        self._limit = limit
        self._held = bytearray()

    def take(self, chunk: bytes) -> None:
        held = self._held
        if not chunk:
            return
        if not held and chunk.endswith(b"\n\n"):
            self._hand_on(chunk)
            return
        start = len(held) - 1
        held += chunk
        end = last_frame_end(held, start)
        if not end and len(held) > self._limit:
            end = len(held)
        if end:
            self._hand_on(bytes(held[:end]))
            del held[:end]

    def close(self) -> None:
        if self._held:
            self._hand_on(bytes(self._held))
            self._held.clear()
