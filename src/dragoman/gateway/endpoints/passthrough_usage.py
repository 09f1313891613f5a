"""Usage of responses on other paths, if their end reports it: embeddings, compactions, transcripts, images."""

from __future__ import annotations

import re
from collections import deque

from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.gateway.observability.costs import record_calls
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.runtime import Runtime
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.response import INPUT, OUTPUT, Usage
from dragoman.protocols.registry import codec_of, load_codecs
from dragoman.records.journal_entry import CostBreakdown
from dragoman.routing.target import Target
from dragoman.wire.json import decode_object

# Counts are at the end of a response, after vectors and images.
_TAIL_BYTES = 64 * 1024
_MAX_USAGE_BYTES = 4096
# Limits of the search, which runs on the event loop: candidates for counts, from the last one on, and possible ends of
# each.
_MAX_CANDIDATES = 8
_MAX_ENDS = 128
# Counts of other units than tokens.
_DURATION = "duration"
_find_usages = re.compile(rb'"usage"[ \t\r\n]*+:[ \t\r\n]*+(?=\{)').finditer


class Tail:
    """The last bytes of a forwarded response."""

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def take(self, piece: bytes) -> None:
        """Add a chunk, and drop bytes that are too far from the end."""
        self._pieces.append(piece)
        self._size += len(piece)
        while self._size - len(self._pieces[0]) >= _TAIL_BYTES:
            self._size -= len(self._pieces.popleft())

    def usage(self) -> JsonObject | None:
        """The last counts in these bytes."""
        data = b"".join(self._pieces)[-_TAIL_BYTES:]
        for match in list(_find_usages(data))[: -_MAX_CANDIDATES - 1 : -1]:
            value = _object_at(data, match.end())
            if value is not None:
                return value
        return None


def _object_at(data: bytes, start: int) -> JsonObject | None:
    """The object that begins at a position; None if it is unreadable."""
    end = start
    for _ in range(_MAX_ENDS):
        end = data.find(b"}", end, start + _MAX_USAGE_BYTES) + 1
        if not end:
            return None
        try:
            return decode_object(data[start:end])
        except WireError:
            # The end of a nested object.
            continue
    return None


def meter(runtime: Runtime, builder: RecordBuilder, target: Target, tail: Tail) -> None:
    """Record the usage of the last call, if it was reported. Without usage, a call of a model is unpriced, not free."""
    reported = tail.usage()
    attempts = builder.record.attempts
    if not attempts:
        return
    usage = None if reported is None else _read(reported, target.endpoint.protocol)
    if usage is not None:
        tokens, cost = runtime.costs.spent(target, usage)
        closed = replace(attempts[-1], tokens=tokens, cost=cost)
    elif reported is not None and reported.get("type") == _DURATION:
        closed = replace(attempts[-1], cost=CostBreakdown(unpriced=(_DURATION,)))
    elif target.model:
        closed = replace(attempts[-1], cost=runtime.costs.unreported(target))
    else:
        return
    record_calls(builder.record, (*attempts[:-1], closed))
    builder.record.usage = usage


def _read(reported: JsonObject, protocol: str) -> Usage | None:
    """Counts in the names of a protocol, or of another one: older paths have other names than newer ones."""
    if reported.get("type") == _DURATION:
        return None
    for codec in (codec_of(protocol), *load_codecs()):
        usage = codec.usage_of({"usage": reported})
        if usage is not None and usage.unreported != (INPUT, OUTPUT):
            return usage
    return None
