"""Usage estimates of calls that reported nothing or broke off (decision 34). The request is counted as sent; a full
response by its body, a stream by the start of its content. Reported input counts; output that a stream reports before
its end does not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.gateway.thread_offload import INLINE
from dragoman.model.events import Event, PartGrew, PartStarted
from dragoman.model.failure import Failure
from dragoman.model.folding import unfold
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.response import INPUT, OUTPUT, Usage
from dragoman.protocols.codec import Codec
from dragoman.protocols.registry import codec_of
from dragoman.tokens.request import count_request, count_response
from dragoman.translate import derived_mint, translation_context
from dragoman.wire.json import decode_object
from dragoman.wire.sse import SseReader

# Bytes of a stream that are stored for the estimate: the content, and the chunk before it, in which the content may
# begin.
SAMPLE_BYTES = 64 * 1024
PREFIX_SAMPLE_BYTES = 1024 * 1024
# Choices that are counted, of one answer.
_MAX_CHOICES = 1024
# Approximate bytes around the data of an event.
_AROUND = len("event: \ndata: \n\n")
# To count takes longer than anything else that is done with so many bytes: it is never done on the loop.
LEAST = INLINE + 1


class _Choice(Struct):
    index: int = 0


class _Chunk(Struct):
    """Of a chunk, which choice it is of: protocols that have no choices have one."""

    choices: list[_Choice] = []


_CHUNK = msgspec.json.Decoder(_Chunk)


class Passed(Struct, eq=False):
    """The size of a stream, and the sample for its estimate. Some begin with megabytes that echo instructions and
    tools: only the last of those is retained, and content after them as if they were absent."""

    _size: int = 0
    # The last chunk before content, the content, and the maximum sample; 0 means not begun.
    before: bytearray = bytearray()
    chunks: list[bytes] = []
    max_size: int = 0
    # Chunks of content that `add` has not seen yet; the stream appends them itself.
    recent: list[bytes] = []

    @property
    def size(self) -> int:
        """The size of all pieces."""
        if self.recent:
            self._catch_up()
        return self._size

    def take(self, chunk: bytes) -> None:
        """Know of a piece."""
        self.hold(chunk)
        self.add(chunk)

    def add(self, chunk: bytes) -> None:
        """Know of a piece that is held already, where it has to be."""
        size = self.size
        # One read of a fast provider may exceed the sample.
        if size < self.max_size:
            self.chunks.append(chunk[: self.max_size - size])
        self._size = size + len(chunk)

    def _catch_up(self) -> None:
        chunk = b"".join(self.recent)
        # The list stays, because others add to it.
        self.recent.clear()
        self.add(chunk)

    def hold(self, chunk: bytes) -> None:
        """Store a chunk in which content may begin, until it has begun."""
        if not self.max_size:
            # One buffer, because pieces of two bytes each would take thirty times their size.
            self.before += chunk
            del self.before[:-PREFIX_SAMPLE_BYTES]

    def content_began(self) -> None:
        """Record that the data so far has content."""
        if not self.max_size:
            self.max_size = self.size + SAMPLE_BYTES

    @property
    def sample(self) -> bytes:
        """The sample."""
        if self.recent:
            self._catch_up()
        return b"".join([self.before, *self.chunks])

    @property
    def remainder(self) -> int:
        """The content size after the sample."""
        return max(self.size - self.max_size, 0) if self.max_size else 0


class Counting(Struct, frozen=True, kw_only=True):
    """The input of an estimate: a request, and its response so far."""

    protocol: str
    model: str
    request: bytes
    # The sample of a stream, or a full response in the client's protocol.
    passed: Passed
    full_body: bytes = b""
    client: str = ""
    # Reported usage, and whether it is final apart from missing members.
    reported: Usage | None = None
    final: bool = False

    @property
    def size(self) -> int:
        """The work of the estimate, in bytes."""
        return max(
            len(self.request) + len(self.full_body) + min(self.passed.size, PREFIX_SAMPLE_BYTES + SAMPLE_BYTES), LEAST
        )

    def count(self) -> Usage | None:
        """The estimated usage; None if that cannot be read."""
        reported = self.reported or Usage(unreported=(INPUT, OUTPUT))
        try:
            # A zero is a count (pitfall 388). At the start of a stream it only announces a later count.
            if reported.input or (self.final and INPUT not in reported.unreported):
                taken = reported.input
            else:
                taken = count_request(decode_object(self.request), self.model).tokens
        except (DragomanError, RecursionError, UnicodeError):
            return None
        output = reported.output if self.final and OUTPUT not in reported.unreported else self._output_tokens()
        if output is None:
            return None
        return replace(reported, input=taken, output=output, thinking=_capped(reported.thinking, output), unreported=())

    def _output_tokens(self) -> int | None:
        if self.full_body.lstrip().startswith(b"{"):
            choices = _safely(lambda: _full_response_events(codec_of(self.client), self.full_body))
            if choices is None:
                return None
            return sum(count_response(events, self.model).tokens for events in choices)
        if self.full_body:
            return self._streamed(self.client, self.full_body)
        return self._streamed(self.protocol, self.passed.sample)

    def _streamed(self, protocol: str, sample: bytes) -> int | None:
        """The output tokens of a stream, extrapolated from its sample; None if the content is outside the sample."""
        events, content_bytes, shares = _streamed(codec_of(protocol), sample)
        counted = count_response(events, self.model).tokens * shares
        if content_bytes:
            return round(counted * (1 + self.passed.remainder / content_bytes))
        return None if self.passed.max_size and self.passed.size > len(sample) else round(counted)


def _capped(count: int | None, limit: int) -> int | None:
    return None if count is None else min(count, limit)


def _safely(read: Callable[[], list[list[Event]] | None]) -> list[list[Event]] | None:
    try:
        return read()
    except (DragomanError, RecursionError, UnicodeError):
        return []


def _full_response_events(codec: Codec, body: bytes) -> list[list[Event]] | None:
    """The events of a full response, of all choices, since all are billed; None if it failed midway."""
    decoded = decode_object(body)
    choices = decoded.get("choices")
    parts: list[JsonObject] = [decoded]
    if isinstance(choices, list) and len(choices) > 1:
        parts = [{**decoded, "choices": [choice]} for choice in choices[:_MAX_CHOICES]]
    responses = [codec.decode_response(part, translation_context(None, codec), Ledger()) for part in parts]
    read = [list(unfold(answer)) for answer in responses if not isinstance(answer, Failure)]
    return read if len(read) == len(responses) else None


def _streamed(codec: Codec, beginning: bytes) -> tuple[list[Event], int, float]:
    """The readable events of a stream, their bytes from the first content on, and the factor for further choices."""
    decoder = codec.stream_decoder(translation_context(None, codec), derived_mint(b""), Ledger())
    reader = SseReader(limit=len(beginning))
    events: list[Event] = []
    content_bytes = 0
    choices: dict[int, int] = {}
    try:
        for frame in reader.feed(beginning):
            frame_events = decoder.feed(frame)
            events += frame_events
            if content_bytes or any(isinstance(event, PartStarted | PartGrew) for event in frame_events):
                content_bytes += len(frame.data) + len(frame.event or "") + _AROUND
                choice = _choice_in(frame.data)
                choices[choice] = choices.get(choice, 0) + len(frame.data)
        events += decoder.close()
    except (DragomanError, RecursionError, UnicodeError):
        # The sample ends here.
        pass
    first = next(iter(choices.values()), 0)
    return events, content_bytes, sum(choices.values()) / first if first else 1.0


def _choice_in(data: bytes) -> int:
    """The choice of a chunk; the first if it has none."""
    try:
        choices = _CHUNK.decode(data).choices
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return 0
    return choices[0].index if choices else 0
