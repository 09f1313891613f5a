"""What the mock provider says, in all three protocols, built before the first request: only the mark is filled in."""

from __future__ import annotations

from functools import cache
from itertools import cycle, islice
from random import Random

from msgspec import Struct, json

from bench import prose
from bench.conversation import Step
from bench.streams import told
from bench.workloads import ANSWERS

# Text chunks of a stream; the opening, the usage and the terminator come on top.
CHUNKS = 200
SHORT_CHUNKS = 8
# Stands where the mark will be, and is as long as one.
PLACE = "markplace#############"
_TOKEN = "4mQ7tXcN0yKe2RbWvHs9ZaLd"
_HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    b"content-type: %b\r\n"
    b"request-id: req_4mQ7tXcN0yKe2RbWvHs9ZaLd\r\n"
    b"cache-control: no-cache\r\n"
    b"server: mock\r\n"
    b"%b\r\n\r\n"
)


class Answer(Struct, frozen=True, kw_only=True):
    """An answer as writes, and which of them hold the mark."""

    writes: tuple[bytes, ...]
    marked: frozenset[int]

    def filled(self, mark: bytes) -> list[bytes]:
        """The writes of this answer for the request with that mark."""
        place = PLACE.encode()
        return [
            write.replace(place, mark) if number in self.marked else write for number, write in enumerate(self.writes)
        ]


@cache
def whole(protocol: str) -> Answer:
    """A whole answer of about 2 KB."""
    body = json.encode(ANSWERS[protocol](_step(whole_text(PLACE))))
    return _answer((_HEAD % (b"application/json", b"content-length: %d" % len(body)) + body,))


@cache
def streamed(protocol: str) -> Answer:
    """A stream with one write for each frame; the head goes with the first, the end with the last."""
    return _answer(_frames(protocol, chunks(PLACE)))


@cache
def short(protocol: str) -> Answer:
    """A stream of few chunks in one write: a reader finds them all at once, each time."""
    return _answer((b"".join(_frames(protocol, chunks(PLACE)[:SHORT_CHUNKS])),))


@cache
def long(protocol: str, count: int) -> Answer:
    """A stream of so many chunks, with one write for each frame."""
    return _answer(_frames(protocol, long_chunks(PLACE, count)))


@cache
def held(protocol: str) -> Answer:
    """A short stream in two writes: to its first chunk, and the rest."""
    frames = _frames(protocol, chunks(PLACE)[:SHORT_CHUNKS])
    first = 1 + next(number for number, frame in enumerate(frames) if PLACE.encode() in frame)
    return _answer((b"".join(frames[:first]), b"".join(frames[first:])))


def whole_text(mark: str) -> str:
    """What a whole answer says to the request with that mark."""
    return f"{mark} {_prose()}"


def streamed_text(mark: str) -> str:
    """What a stream says to the request with that mark."""
    return "".join(chunks(mark))


def short_text(mark: str) -> str:
    """What a short stream says to the request with that mark."""
    return "".join(chunks(mark)[:SHORT_CHUNKS])


def chunks(mark: str) -> list[str]:
    """The text of a stream in its chunks: the mark comes first."""
    return [mark, *_pieces()]


def long_chunks(mark: str, count: int) -> list[str]:
    """The text of a stream of so many chunks: the mark comes first."""
    return [mark, *islice(cycle(_pieces()), count - 1)]


@cache
def _prose() -> str:
    return prose.sentences(Random(31), 1400)


@cache
def _pieces() -> tuple[str, ...]:
    random = Random(32)
    return tuple(prose.pieces(random, prose.sentences(random, 8 * CHUNKS))[: CHUNKS - 1])


def _frames(protocol: str, texts: list[str]) -> tuple[bytes, ...]:
    frames = [b"%x\r\n%b\r\n" % (len(frame), frame) for frame in told(protocol, texts)]
    frames[0] = _HEAD % (b"text/event-stream; charset=utf-8", b"transfer-encoding: chunked") + frames[0]
    frames[-1] += b"0\r\n\r\n"
    return tuple(frames)


def _step(text: str) -> Step:
    return Step(token=_TOKEN, thinking="", proof="", text=text, calls=())


def _answer(writes: tuple[bytes, ...]) -> Answer:
    place = PLACE.encode()
    return Answer(
        writes=writes, marked=frozenset(number for number, write in enumerate(writes) if write.count(place) > 0)
    )
