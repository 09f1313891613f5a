"""Estimates: what a call took that told nothing of it, or was broken off before it could (decision 34).

The request is counted as the provider got it, an answer as far as it came: a whole one by its body, a stream by its
beginning, which stands for the rest. What was told of the input counts; what a stream tells of its output before its
end does not.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.gateway.large_work import INLINE
from dragoman.model.events import Event, PartGrew, PartStarted
from dragoman.model.failure import Failure
from dragoman.model.folding import unfold
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.response import Usage
from dragoman.protocols.codec import Codec
from dragoman.protocols.registry import codec_of
from dragoman.tokens.answer import count_answer
from dragoman.tokens.request import count_request
from dragoman.translate import asked_by, derived_mint
from dragoman.wire.json import decode_object
from dragoman.wire.sse import SseReader

# Bytes of a stream that are kept to count by, once it says something, and how long it may take to do so: some begin
# with instructions and tools as they were asked.
KEPT = 64 * 1024
LONGEST_OPENING = 1024 * 1024
# Choices that are counted, of one answer.
_MOST_CHOICES = 1024
# What stands around the data of an event, about.
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
    """What came of a stream: how it began, of which `most` bytes are kept, and how much it was in all."""

    size: int = 0
    chunks: list[bytes] = []
    most: int = LONGEST_OPENING
    is_spoken: bool = False

    def take(self, chunk: bytes) -> None:
        """Know of a piece."""
        # One read of a fast provider may be more than all that is kept.
        if self.size < self.most:
            self.chunks.append(chunk[: self.most - self.size])
        self.size += len(chunk)

    def spoken(self) -> None:
        """Know that something was said in what came until now."""
        if not self.is_spoken:
            self.is_spoken, self.most = True, self.size + KEPT

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
        return max(len(self.request) + len(self.whole) + min(self.passed.size, self.passed.most), LEAST)

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
            answers = _safely(lambda: _whole(codec_of(self.client), self.whole))
            return sum(count_answer(events, self.model).tokens for events in answers)
        if self.whole:
            return self._streamed(self.client, self.whole, len(self.whole))
        return self._streamed(self.protocol, self.passed.beginning, self.passed.size)

    def _streamed(self, protocol: str, beginning: bytes, size: int) -> int:
        """What was said in a stream: what is kept of it stands for the rest, from where something was said."""
        events, speech, shares = _streamed(codec_of(protocol), beginning)
        counted = count_answer(events, self.model).tokens * shares
        return round(counted * (1 + (size - len(beginning)) / speech)) if speech else round(counted)


def _most(count: int | None, most: int) -> int | None:
    return None if count is None else min(count, most)


def _safely(read: Callable[[], list[list[Event]]]) -> list[list[Event]]:
    try:
        return read()
    except (DragomanError, RecursionError, UnicodeError):
        return []


def _whole(codec: Codec, body: bytes) -> list[list[Event]]:
    """The events of a whole answer, of each choice by itself where there are several: all are paid for."""
    said = decode_object(body)
    choices = said.get("choices")
    parts: list[JsonObject] = [said]
    if isinstance(choices, list) and len(choices) > 1:
        parts = [{**said, "choices": [choice]} for choice in choices[:_MOST_CHOICES]]
    answers = [codec.decode_response(part, asked_by(None, codec), Ledger()) for part in parts]
    return [list(unfold(answer)) for answer in answers if not isinstance(answer, Failure)]


def _streamed(codec: Codec, beginning: bytes) -> tuple[list[Event], int, float]:
    """The events of a stream as far as it can be read, and their bytes, from the first that says something.

    Of several choices the first is read: all of them together are so many times that.
    """
    decoder = codec.stream_decoder(asked_by(None, codec), derived_mint(b""), Ledger())
    reader = SseReader(limit=len(beginning))
    events: list[Event] = []
    speech = 0
    choices: dict[int, int] = {}
    try:
        for frame in reader.feed(beginning):
            told = decoder.feed(frame)
            events += told
            if speech or any(isinstance(event, PartStarted | PartGrew) for event in told):
                speech += len(frame.data) + len(frame.event or "") + _AROUND
                choice = _choice_in(frame.data)
                choices[choice] = choices.get(choice, 0) + len(frame.data)
        events += decoder.close()
    except (DragomanError, RecursionError, UnicodeError):
        # What was read until here is what there is.
        pass
    first = next(iter(choices.values()), 0)
    return events, speech, sum(choices.values()) / first if first else 1.0


def _choice_in(data: bytes) -> int:
    """Which choice a chunk is of; the first where it does not say."""
    try:
        choices = _CHUNK.decode(data).choices
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return 0
    return choices[0].index if choices else 0
