"""Estimates: what a call took that told nothing of it, or was broken off before it could (decision 34).

The request is counted as the provider got it, an answer as far as it came: a whole one by its body, a stream by its
beginning, which stands for the rest. What was told of the input counts; what a stream tells of its output before its
end does not.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.gateway.large_work import INLINE
from dragoman.model.events import Event
from dragoman.model.failure import Failure
from dragoman.model.folding import unfold
from dragoman.model.losses import Ledger
from dragoman.model.response import Usage
from dragoman.protocols.codec import Codec
from dragoman.protocols.registry import codec_of
from dragoman.tokens.answer import count_answer
from dragoman.tokens.request import count_request
from dragoman.translate import asked_by, derived_mint
from dragoman.wire.json import decode_object
from dragoman.wire.sse import SseReader

# Bytes of a stream that are kept to count by.
KEPT = 64 * 1024
# To count takes longer than anything else that is done with so many bytes: it is never done on the loop.
LEAST = INLINE + 1


class Passed(Struct, eq=False):
    """What came of a stream: how it began, and how much it was in all."""

    size: int = 0
    chunks: list[bytes] = []

    def take(self, chunk: bytes) -> None:
        """Know of a piece."""
        self.size += len(chunk)
        if self.size <= KEPT:
            self.chunks.append(chunk)

    @property
    def beginning(self) -> bytes:
        """The first of it."""
        return b"".join(self.chunks)


class Counting(Struct, frozen=True, kw_only=True):
    """What is to be counted: a request, and what came of its answer."""

    protocol: str
    model: str
    request: bytes
    # What came of a stream, or a whole answer in the client's protocol.
    passed: Passed
    whole: bytes = b""
    client: str = ""
    # What was told, and whether that is final but for what it leaves out.
    told: Usage | None = None
    final: bool = False

    @property
    def size(self) -> int:
        """How much work it is, in bytes."""
        return max(len(self.request) + len(self.whole) + min(self.passed.size, KEPT), LEAST)

    def count(self) -> Usage | None:
        """What it took; None if that cannot be read."""
        told = self.told or Usage()
        try:
            taken = told.input or count_request(decode_object(self.request), self.model).tokens
        except (DragomanError, RecursionError, UnicodeError):
            return None
        output = told.output if self.final and told.output else self._said()
        return replace(told, input=taken, output=output, thinking=_most(told.thinking, output))

    def _said(self) -> int:
        if self.whole.lstrip().startswith(b"{"):
            codec = codec_of(self.client)
            return count_answer(_safely(lambda: _whole(codec, self.whole)), self.model).tokens
        if self.whole:
            return self._streamed(self.client, self.whole[:KEPT], len(self.whole))
        return self._streamed(self.protocol, self.passed.beginning, self.passed.size)

    def _streamed(self, protocol: str, beginning: bytes, size: int) -> int:
        if not beginning:
            return 0
        codec = codec_of(protocol)
        counted = count_answer(_safely(lambda: _streamed(codec, beginning)), self.model).tokens
        return round(counted * size / len(beginning))


def _most(count: int | None, most: int) -> int | None:
    return None if count is None else min(count, most)


def _safely(read: Callable[[], list[Event]]) -> list[Event]:
    try:
        return read()
    except (DragomanError, RecursionError, UnicodeError):
        return []


def _whole(codec: Codec, body: bytes) -> list[Event]:
    answer = codec.decode_response(decode_object(body), asked_by(None, codec), Ledger())
    return [] if isinstance(answer, Failure) else list(unfold(answer))


def _streamed(codec: Codec, beginning: bytes) -> list[Event]:
    """The events of a stream as far as it can be read."""
    decoder = codec.stream_decoder(asked_by(None, codec), derived_mint(b""), Ledger())
    reader = SseReader(limit=len(beginning))
    events: list[Event] = []
    try:
        for frame in reader.feed(beginning):
            events += decoder.feed(frame)
        events += decoder.close()
    except (DragomanError, RecursionError, UnicodeError):
        # What was read until here is what there is.
        return events
    return events
