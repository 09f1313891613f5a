"""Faults of providers, as data: what each does with a connection or a request, and what is to become of that.

    FAULTS["overloaded"].says(Asked(protocol=MESSAGES, stream=True))   # its reply

`kind` is what became of the attempt (decision 25), `status` what a client hears if there is nobody else: a provider's
status, which the tables of `tests/gateway/says.py` translate, or 200 where the answer is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum

from msgspec import Struct

from dragoman.routing.attempt_outcome import AttemptOutcome
from tests.failover import sayings
from tests.failover.sayings import Says, answers, page, raw, refuses, speaks
from tests.gateway.harness import Step, stream, whole
from tests.gateway.says import opening, speaking
from tests.server.process import reset

# The timeouts, in seconds, of a gateway in front of providers that do not answer.
LIMIT = 1.5
# Seconds before a slow answer begins; shorter than any timeout.
LATE = 0.1
# Until the caller hangs up.
FOR_EVER = 3600.0
# Drops every fifth of the limit, so that no silence reaches it, for a minute.
_DROPS = int(60 / (LIMIT / 5))

# Set once the client has received the first words of the response that a provider writes.
HEARD: ContextVar[asyncio.Event] = ContextVar("HEARD")


async def heard() -> None:
    """A step of a reply: wait until a streaming client has received the words before it."""
    await HEARD.get().wait()


class Door(Enum):
    """What becomes of a connection."""

    OPEN = "open"
    # Nobody listens.
    SHUT = "shut"
    # Nobody is let in, since so many wait.
    CROWDED = "crowded"
    # Nobody speaks TLS there, which the gateway is told to do.
    PLAIN = "plain"


def never(count: int) -> bool:
    """No request."""
    return False


def always(count: int) -> bool:
    """Every request."""
    return True


def every_other(count: int) -> bool:
    """The second request, the fourth and so on."""
    return count % 2 == 1


def two_of_three(count: int) -> bool:
    """All but the first, the fourth and so on."""
    return count % 3 != 0


class Fault(Struct, frozen=True, kw_only=True):
    """What is wrong with a provider, and what becomes of a request to it."""

    kind: AttemptOutcome
    status: int
    says: Says = raw(None)
    door: Door = Door.OPEN
    # What is done with a connection as soon as it stands, without waiting for a request.
    greets: tuple[Step, ...] = ()
    # How long it takes to begin, in seconds.
    waits: float = 0.0
    # Whether a client that streams has heard words of an answer by then.
    spoken: bool = False
    # Whether only a time limit ends it.
    takes_time: bool = False
    # Whether its stream is against the grammar of its protocol.
    odd: bool = False
    # Which requests, in their order, are answered right all the same.
    right: Callable[[int], bool] = never


_TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x28"
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
_DRIP = (LIMIT / 5, b"x-more: y\r\n") * _DROPS
_PINGS = (LIMIT / 5, b": ping\n\n") * _DROPS

CONNECTIONS: dict[str, Fault] = {
    "refuses connections": Fault(kind=AttemptOutcome.UNREACHABLE, status=502, door=Door.SHUT),
    "lets nobody in": Fault(kind=AttemptOutcome.UNREACHABLE, status=504, door=Door.CROWDED, takes_time=True),
    "is no TLS server": Fault(
        kind=AttemptOutcome.UNREACHABLE, status=502, door=Door.PLAIN, greets=(b"hello\r\n", None)
    ),
    "speaks TLS": Fault(kind=AttemptOutcome.CONNECTION_LOST, status=502, greets=(_TLS_ALERT, None)),
    "accepts and closes": Fault(kind=AttemptOutcome.STREAM_BROKEN, status=502, greets=(None,)),
    "accepts and resets": Fault(kind=AttemptOutcome.STREAM_BROKEN, status=502, greets=(reset,)),
    "accepts and is silent": Fault(
        kind=AttemptOutcome.FIRST_BYTE_TIMEOUT, status=504, greets=(FOR_EVER,), takes_time=True
    ),
    "reads and closes": Fault(kind=AttemptOutcome.STREAM_BROKEN, status=502, says=raw(None)),
    "reads and resets": Fault(kind=AttemptOutcome.STREAM_BROKEN, status=502, says=raw(reset)),
    "never answers": Fault(kind=AttemptOutcome.FIRST_BYTE_TIMEOUT, status=504, says=raw(FOR_EVER), takes_time=True),
    "stops inside its headers": Fault(
        kind=AttemptOutcome.FIRST_BYTE_TIMEOUT,
        status=504,
        says=raw(b"HTTP/1.1 200 OK\r\ncontent-ty", FOR_EVER),
        takes_time=True,
    ),
    "drips its headers": Fault(
        kind=AttemptOutcome.FIRST_BYTE_TIMEOUT, status=504, says=raw(_HEAD, *_DRIP), takes_time=True
    ),
    "sends headers and is silent": Fault(
        kind=AttemptOutcome.FIRST_BYTE_TIMEOUT,
        status=504,
        says=raw(_HEAD + b"content-length: 1000\r\n\r\n", FOR_EVER),
        takes_time=True,
    ),
}
REFUSALS: dict[str, Fault] = {
    "500": Fault(kind=AttemptOutcome.CONNECTION_LOST, status=500, says=refuses(500, sayings.SERVER)),
    "502 with a page": Fault(kind=AttemptOutcome.CONNECTION_LOST, status=502, says=page(502)),
    "503": Fault(kind=AttemptOutcome.OVERLOADED, status=503, says=refuses(503, sayings.BUSY)),
    "503 with retry-after": Fault(
        kind=AttemptOutcome.OVERLOADED, status=503, says=refuses(503, sayings.BUSY, retry_after="1")
    ),
    "529": Fault(kind=AttemptOutcome.OVERLOADED, status=529, says=refuses(529, sayings.BUSY)),
    "429 with retry-after": Fault(
        kind=AttemptOutcome.RATE_LIMITED, status=429, says=refuses(429, sayings.OFTEN, retry_after="20")
    ),
    "429": Fault(kind=AttemptOutcome.RATE_LIMITED, status=429, says=refuses(429, sayings.OFTEN)),
    "no money": Fault(kind=AttemptOutcome.INSUFFICIENT_QUOTA, status=402, says=sayings.no_money),
    "402": Fault(kind=AttemptOutcome.INSUFFICIENT_QUOTA, status=402, says=refuses(402, sayings.UNPAID)),
    "401": Fault(kind=AttemptOutcome.INVALID_KEY, status=401, says=refuses(401, sayings.UNKNOWN, "invalid_api_key")),
    "403": Fault(kind=AttemptOutcome.INVALID_KEY, status=403, says=refuses(403, sayings.FORBIDDEN)),
    "404 of the model": Fault(
        kind=AttemptOutcome.UNKNOWN_MODEL,
        status=404,
        says=refuses(404, sayings.MISSING, "model_not_found", "model: unknown"),
    ),
    "400": Fault(kind=AttemptOutcome.INVALID_REQUEST, status=400, says=refuses(400, sayings.WRONG)),
    "400 too long": Fault(kind=AttemptOutcome.CONTEXT_LENGTH_EXCEEDED, status=400, says=sayings.overflow),
    "400 content filter": Fault(kind=AttemptOutcome.CONTENT_REFUSED, status=400, says=sayings.content_filter),
    "302": Fault(
        kind=AttemptOutcome.CONNECTION_LOST,
        status=502,
        says=lambda asked: whole({}, 302, location="http://127.0.0.1:9/elsewhere"),
    ),
}
BODIES: dict[str, Fault] = {
    "200 with an error": Fault(
        kind=AttemptOutcome.OVERLOADED, status=529, says=refuses(200, sayings.BUSY, "server_is_overloaded")
    ),
    "200 with nothing": Fault(kind=AttemptOutcome.CONNECTION_LOST, status=502, says=lambda asked: whole(b"")),
    "200 with a page": Fault(kind=AttemptOutcome.CONNECTION_LOST, status=502, says=page(200)),
    "200 with half a body": Fault(kind=AttemptOutcome.CONNECTION_LOST, status=502, says=sayings.half_a_body),
    "200 cut short": Fault(
        kind=AttemptOutcome.STREAM_BROKEN,
        status=502,
        says=raw(_HEAD + b"content-length: 1000\r\n\r\n", b'{"half":', None),
    ),
    "an empty stream": Fault(kind=AttemptOutcome.CONNECTION_LOST, status=502, says=lambda asked: stream()),
}
STREAMS: dict[str, Fault] = {
    "an error first": Fault(kind=AttemptOutcome.OVERLOADED, status=529, says=speaks(sayings.overloaded)),
    "its failure first": Fault(kind=AttemptOutcome.CONNECTION_LOST, status=500, says=speaks(sayings.failed), odd=True),
    "an opening, then overloaded": Fault(
        kind=AttemptOutcome.OVERLOADED, status=529, says=speaks(opening, sayings.overloaded)
    ),
    "pings, then silence": Fault(
        kind=AttemptOutcome.FIRST_BYTE_TIMEOUT,
        status=504,
        says=speaks(sayings.ping, sayings.ping, then=(FOR_EVER,)),
        takes_time=True,
    ),
    "pings for ever": Fault(
        kind=AttemptOutcome.FIRST_BYTE_TIMEOUT, status=504, says=speaks(then=_PINGS), takes_time=True
    ),
    "an opening, then silence": Fault(
        kind=AttemptOutcome.FIRST_BYTE_TIMEOUT, status=504, says=speaks(opening, then=(FOR_EVER,)), takes_time=True
    ),
    "an opening, then the end": Fault(kind=AttemptOutcome.STREAM_BROKEN, status=502, says=speaks(opening)),
    "an opening, then a cut": Fault(kind=AttemptOutcome.STREAM_BROKEN, status=502, says=speaks(opening, then=(None,))),
    "half an event, then a cut": Fault(
        kind=AttemptOutcome.STREAM_BROKEN, status=502, says=speaks(sayings.half_an_event, then=(None,))
    ),
    "noise": Fault(kind=AttemptOutcome.CONNECTION_LOST, status=502, says=speaks(then=(b"data: {nonsense\n\n",))),
    "words, then a cut": Fault(
        kind=AttemptOutcome.STREAM_BROKEN, status=502, says=speaks(speaking, then=(heard, None)), spoken=True
    ),
    "words, then a reset": Fault(
        kind=AttemptOutcome.STREAM_BROKEN, status=502, says=speaks(speaking, then=(heard, reset)), spoken=True
    ),
    "words, then silence": Fault(
        kind=AttemptOutcome.STREAM_BROKEN,
        status=504,
        says=speaks(speaking, then=(FOR_EVER,)),
        spoken=True,
        takes_time=True,
    ),
    "words, then overloaded": Fault(
        kind=AttemptOutcome.STREAM_BROKEN,
        status=529,
        says=speaks(speaking, sayings.overloaded, between=heard),
        spoken=True,
        odd=True,
    ),
    "no end": Fault(
        kind=AttemptOutcome.STREAM_BROKEN, status=502, says=speaks(sayings.all_but_the_end, then=(heard,)), spoken=True
    ),
}
MOODS: dict[str, Fault] = {
    "two openings": Fault(
        kind=AttemptOutcome.ANSWERED, status=200, says=speaks(sayings.opened_twice), right=always, odd=True
    ),
    "a slow start": Fault(kind=AttemptOutcome.ANSWERED, status=200, says=answers, waits=LATE, right=always),
    "flapping": Fault(
        kind=AttemptOutcome.CONNECTION_LOST, status=500, says=sayings.sometimes(every_other), right=every_other
    ),
    "one in three fails": Fault(
        kind=AttemptOutcome.CONNECTION_LOST, status=500, says=sayings.sometimes(two_of_three), right=two_of_three
    ),
}
FAULTS: dict[str, Fault] = CONNECTIONS | REFUSALS | BODIES | STREAMS | MOODS
