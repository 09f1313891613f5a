"""Asking: calls to the provider until one of them is answered, or the last one's error is the client's.

the provider answered           and then
2xx                             the answer is told
401, 402, 403, 429              with another key of the same provider, while there is one
400, about sealed reasoning     once more without that reasoning (V11)
any other 4xx or 5xx            the error is told
3xx                             is none: a redirect followed with credentials would give them away
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct

from dragoman.errors import BadAnswer
from dragoman.gateway import headers
from dragoman.gateway.large_work import beside_loop
from dragoman.gateway.question import Question
from dragoman.gateway.record import Record
from dragoman.gateway.service import Service
from dragoman.gateway.watch import Watch
from dragoman.gateway.weighing import weigh_answer
from dragoman.http.flight import Flight, HeaderList, header
from dragoman.protocols.registry import codec_of
from dragoman.providers.order import Order, Unframer
from dragoman.providers.transport import transport_of
from dragoman.rules.repairs import is_seal_rejection

# Statuses that speak of the key that was used: another one may do better.
_KEY_STATUSES = frozenset({401, 402, 403, 429})
# Types of answers that no transport frames in its own way.
_UNFRAMED = (b"application/json", b"text/event-stream")
_COOLING = 60.0
_LONGEST_COOLING = 3600.0
# No error says more than this; what is longer is told by its beginning.
LONGEST_ERROR = 256 * 1024


class _Enough(Exception):
    """The rest of an error is not looked at."""


class Refusal(Struct, frozen=True):
    """A provider's answer that is an error."""

    status: int
    headers: HeaderList
    body: bytes


class Asking:
    """The calls of one exchange. `flight` is the latest one, to be closed by whoever ends the exchange."""

    def __init__(self, service: Service, record: Record) -> None:
        self._service = service
        self._record = record
        self.watch = Watch(asyncio.get_running_loop(), service.settings.timeouts, record.started)
        self.flight: Flight | None = None

    async def ask(self, question: Question, again: bytes | None = None) -> Flight | Refusal:
        """Put the question until there is an answer or a final refusal; `again` is what resumes one that paused."""
        rotation = self._service.rotation(question.aim.provider)
        codec = codec_of(question.aim.endpoint.protocol)
        body, sealed, others = again or question.translated.body, True, rotation.count - 1
        while True:
            key = rotation.next()
            flight = await self._call(question, body, key)
            if flight.status < 300:
                return flight
            refusal = Refusal(flight.status, flight.headers, await self._beginning(flight))
            if refusal.status < 400:
                raise BadAnswer("the provider answered with a redirect, which is not followed")
            if refusal.status > 599:
                raise BadAnswer(f"the provider answered with the status {refusal.status}, which means nothing")
            if refusal.status in _KEY_STATUSES and key is not None and others > 0:
                others -= 1
                rotation.cool(key, _cooling(refusal.headers))
                continue
            if refusal.status == 400 and sealed and is_seal_rejection(codec.decode_failure(400, refusal.body)):
                sealed = False
                cutting = partial(codec.without_reasoning, body, question.translated.ledger)
                cut = await beside_loop(cutting, len(body), paid=True)
                if cut is not None:
                    body = cut
                    continue
            return refusal

    async def read(self, flight: Flight) -> bytes:
        """The whole body of an answer, within the limits of time, size and weight."""
        # One buffer, because pieces of two bytes each would take thirty times their size.
        read = bytearray()
        await self.gather(flight, read.extend)
        body = bytes(read)
        del read
        await beside_loop(partial(weigh_answer, body), len(body), paid=True)
        return body

    async def _beginning(self, flight: Flight) -> bytes:
        """As much of an error's body as is looked at; one that goes on is broken off, and its connection with it."""
        watch, clock = self.watch, self._service.clock
        read = bytearray()

        def take(piece: bytes) -> None:
            watch.heard = clock()
            read.extend(piece)
            if len(read) > LONGEST_ERROR:
                raise _Enough

        watch.hearing()
        with suppress(_Enough):
            await flight.pump(take)
        return bytes(read[:LONGEST_ERROR])

    async def gather(self, flight: Flight, take: Callable[[bytes], None], so_far: int = 0) -> int:
        """Hand on an answer that somebody gathers, within the same limits; give how much it has come to."""
        limit = self._service.settings.limits.answer
        watch, clock = self.watch, self._service.clock
        size = so_far

        def measure(piece: bytes) -> None:
            nonlocal size
            watch.heard = clock()
            size += len(piece)
            if size > limit:
                raise BadAnswer("the provider's answer is larger than the limit")
            take(piece)

        watch.hearing()
        await flight.pump(measure)
        return size

    def end(self) -> None:
        """End whatever is still under way."""
        self.watch.stop()
        if self.flight is not None:
            self.flight.close()

    async def _call(self, question: Question, body: bytes, key: str | None) -> Flight:
        if self.flight is not None:
            self.flight.close()
        aim = question.aim
        self.flight = flight = await self._service.open(
            Order(
                provider=aim.provider,
                endpoint=aim.endpoint,
                model=aim.model,
                stream=question.streams,
                body=body,
                headers=question.headers,
                key=key,
                query=question.query,
            )
        )
        self._record.attempts += 1
        self.watch.follow(flight)
        await flight.head()
        named = headers.upstream_id(flight.headers)
        # Whatever a provider calls the exchange is logged: not if it is a secret.
        self._record.upstream_id = named and self._service.redactor(aim.provider).clean_text(named)
        return flight


def is_stream(flight: Flight) -> bool:
    """Whether an answer is a stream that everybody reads."""
    kind = header(flight.headers, b"content-type")
    return kind is not None and kind.lower().startswith(b"text/event-stream")


def unframer_of(question: Question, flight: Flight) -> Unframer | None:
    """What takes a provider's own framing off a stream, where it is not in one that everybody reads."""
    transport = question.aim.provider.transport
    unframe = transport_of(transport).unframe if transport != "echo" and question.streams else None
    if unframe is None or (header(flight.headers, b"content-type") or b"").lower().startswith(_UNFRAMED):
        return None
    return unframe()


def _cooling(headers: HeaderList) -> float:
    """How long a key that was refused is left alone: as long as the provider says, else a minute."""
    told = header(headers, b"retry-after") or b""
    return min(float(told), _LONGEST_COOLING) if told.isdigit() else _COOLING
