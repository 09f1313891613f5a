"""Calls to the provider until one of them is answered, or the last one's error is the client's.

the provider answered           and then
2xx                             the answer is told
401, 402, 403, 429              with another key of the same provider, while there is one
a refusal of reasoning          once more without what was refused (V11), also where a 2xx told it before anything else
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
from dragoman.gateway.exchange.one_call import note_attempt
from dragoman.gateway.exchange.provider_request import ProviderRequest, abilities_at
from dragoman.gateway.exchange.time_limits import TimeLimits
from dragoman.gateway.large_work import beside_loop
from dragoman.gateway.records.account import Account
from dragoman.gateway.service import Service
from dragoman.gateway.value_limits import weigh_answer
from dragoman.http.flight import Flight, HeaderList, header
from dragoman.model.failure import Failure
from dragoman.protocols.registry import codec_of
from dragoman.providers.order import Order, Unframer
from dragoman.providers.transport import transport_of
from dragoman.rules.refused_reasoning import Remedy, remedy_for

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


class ErrorAnswer(Struct, frozen=True):
    """A provider's answer that is an error."""

    status: int
    headers: HeaderList
    body: bytes


class Calls:
    """The calls of one exchange. `flight` is the latest one, to be closed by whoever ends the exchange."""

    def __init__(self, service: Service, account: Account) -> None:
        self._service = service
        self._account = account
        self.time_limits = TimeLimits(asyncio.get_running_loop(), service.settings.timeouts, account.record.started)
        self.flight: Flight | None = None
        # What was asked last, and what was done about refusals of it.
        self._body = b""
        self._tried: list[Remedy] = []

    async def ask(self, prepared: ProviderRequest, again: bytes | None = None) -> Flight | ErrorAnswer:
        """Put the question until there is an answer or a final refusal; `again` is what resumes one that paused."""
        self._tried.clear()
        return await self._put(prepared, again or prepared.translated.body)

    def may_ask_again(self, prepared: ProviderRequest, failure: Failure) -> bool:
        """Whether a failure is one that another try may get rid of, where something may be lost by that."""
        remedy = None if prepared.strict else remedy_for(failure, self._body)
        return remedy is not None and self._tried.count(remedy) < remedy.tries

    async def ask_again(self, prepared: ProviderRequest, failure: Failure) -> Flight | ErrorAnswer | None:
        """Ask once more after an answer that was such a failure; None if there is nothing to change."""
        body = await self._relieved(prepared, failure)
        return None if body is None else await self._put(prepared, body)

    async def _put(self, prepared: ProviderRequest, body: bytes) -> Flight | ErrorAnswer:
        rotation = self._service.rotation(prepared.target.provider)
        codec = codec_of(prepared.target.endpoint.protocol)
        others = rotation.count - 1
        while True:
            self._body = body
            key = rotation.next()
            flight = await self._call(prepared, body, key)
            if flight.status < 300:
                return flight
            refusal = ErrorAnswer(flight.status, flight.headers, await self._beginning(flight))
            if refusal.status < 400:
                raise BadAnswer("the provider answered with a redirect, which is not followed")
            if refusal.status > 599:
                raise BadAnswer(f"the provider answered with the status {refusal.status}, which means nothing")
            if refusal.status in _KEY_STATUSES and key is not None and others > 0:
                others -= 1
                rotation.cool(key, _cooling(refusal.headers))
                continue
            relieved = await self._relieved(prepared, codec.decode_failure(refusal.status, refusal.body))
            if relieved is None:
                return refusal
            body = relieved

    async def _relieved(self, prepared: ProviderRequest, failure: Failure) -> bytes | None:
        """The last request without what a failure says was refused; None if that is not in it, or was tried."""
        remedy = remedy_for(failure, self._body)
        if remedy is None or not self.may_ask_again(prepared, failure):
            return None
        self._tried.append(remedy)
        body = self._body
        relieving = partial(_relieved, remedy, body, prepared)
        return await beside_loop(relieving, len(body), paid=True)

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
        time_limits, clock = self.time_limits, self._service.clock
        read = bytearray()

        def take(piece: bytes) -> None:
            time_limits.heard = clock()
            read.extend(piece)
            if len(read) > LONGEST_ERROR:
                raise _Enough

        time_limits.hearing()
        with suppress(_Enough):
            await flight.pump(take)
        return bytes(read[:LONGEST_ERROR])

    async def gather(self, flight: Flight, take: Callable[[bytes], None], so_far: int = 0) -> int:
        """Hand on an answer that somebody gathers, within the same limits; give how much it has come to."""
        limit = self._service.settings.limits.answer
        time_limits, clock = self.time_limits, self._service.clock
        size = so_far

        def measure(piece: bytes) -> None:
            nonlocal size
            time_limits.heard = clock()
            size += len(piece)
            if size > limit:
                raise BadAnswer("the provider's answer is larger than the limit")
            take(piece)

        time_limits.hearing()
        await flight.pump(measure)
        return size

    def end(self) -> None:
        """End whatever is still under way."""
        self.time_limits.stop()
        if self.flight is not None:
            self.flight.close()

    async def _call(self, prepared: ProviderRequest, body: bytes, key: str | None) -> Flight:
        if self.flight is not None:
            self.flight.close()
        target = prepared.target
        self.flight = flight = await self._service.open(
            Order(
                provider=target.provider,
                endpoint=target.endpoint,
                model=target.model,
                stream=prepared.streams,
                body=body,
                headers=prepared.headers,
                key=key,
                query=prepared.query,
            )
        )
        self.time_limits.follow(flight)
        started = self._service.clock()
        try:
            await flight.head()
        finally:
            note_attempt(self._service, self._account, target, flight, started)
        return flight


def _relieved(remedy: Remedy, body: bytes, prepared: ProviderRequest) -> bytes | None:
    codec, ledger = codec_of(prepared.target.endpoint.protocol), prepared.translated.ledger
    if remedy is Remedy.CALLS:
        return codec.prove_calls(body, ledger) if codec.prove_calls is not None else None
    cut = codec.without_reasoning(body, ledger) if remedy is Remedy.SEALS else body
    if cut is None or codec.settle_thinking is None:
        return cut if cut is not body else None
    demanded = remedy is Remedy.LOOP
    settled = codec.settle_thinking(cut, abilities_at(prepared.target), ledger, demanded=demanded)
    return settled if settled is not body else None


def is_stream(flight: Flight) -> bool:
    """Whether an answer is a stream that everybody reads."""
    kind = header(flight.headers, b"content-type")
    return kind is not None and kind.lower().startswith(b"text/event-stream")


def unframer_of(prepared: ProviderRequest, flight: Flight) -> Unframer | None:
    """What takes a provider's own framing off a stream, where it is not in one that everybody reads."""
    transport = prepared.target.provider.transport
    unframe = transport_of(transport).unframe if transport != "echo" and prepared.streams else None
    if unframe is None or (header(flight.headers, b"content-type") or b"").lower().startswith(_UNFRAMED):
        return None
    return unframe()


def _cooling(headers: HeaderList) -> float:
    """How long a key that was refused is left alone: as long as the provider says, else a minute."""
    told = header(headers, b"retry-after") or b""
    return min(float(told), _LONGEST_COOLING) if told.isdigit() else _COOLING
