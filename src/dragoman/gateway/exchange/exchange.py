"""One exchange, edge to provider and back, from the top.

    bytes ─▶ receive ─▶ look, route, recall, put (translate or repair) ─▶ ask ─▶ provider
    bytes ◀─ stream or whole answer, kept first ◀───────────────────────────── provider

Whatever happens, the client gets an answer in its own protocol, the provider's call is ended and the record is kept.
Nothing here is held by what it holds, so that all of it is gone with its end.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import BadAnswer, ConfigError, DragomanError, TimedOut, Truncated, UpstreamError
from dragoman.gateway.exchange import reply_parts as replies
from dragoman.gateway.exchange.calls import LONGEST_ERROR, Calls, ErrorAnswer, is_stream, unframer_of
from dragoman.gateway.exchange.client import Client, ClientRequest
from dragoman.gateway.exchange.client_reply import ClientReply
from dragoman.gateway.exchange.provider_request import ProviderRequest, able, asks_strictness
from dragoman.gateway.exchange.reply_parts import EVENT_STREAM, JSON
from dragoman.gateway.exchange.stream_answer import EMPTY, AnswerState, Cut, StreamAnswer, Unspoken
from dragoman.gateway.exchange.time_limits import Overstayed
from dragoman.gateway.exchange.whole_answer import relayed_answer
from dragoman.gateway.large_work import beside_loop
from dragoman.gateway.records.account import Account
from dragoman.gateway.service import Service
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.kept_answer import KeptAnswer
from dragoman.gateway.stored_responses.memory import Memory, look
from dragoman.gateway.stored_responses.store_retries import NotKept
from dragoman.gateway.stored_responses.stored_state import owner_of, unreadable
from dragoman.http.flight import Flight
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.registry import codec_of
from dragoman.providers.order import Unframer
from dragoman.rules.pauses import RESUMES
from dragoman.streaming import StreamTranslator
from dragoman.translate import LossLine, TranslatedResponse, translate_failure, translate_response
from dragoman.wire.json import encode

_SHUTTING_DOWN = Failure(kind=FailureKind.UNAVAILABLE, status=503, message="the gateway is shutting down")
# What is told of a client that went away; nobody receives it.
GONE = 499
# How an event stream begins.
_EVENTS = (b"data:", b"event:", b":")


class Begun(Struct, frozen=True):
    """A request that was understood before, and how its answer is kept."""

    prepared: ProviderRequest
    kept_answer: KeptAnswer


class Exchange:
    """One question and its answer."""

    def __init__(self, service: Service, asked: ClientRequest, client: Client, account: Account) -> None:
        self._service = service
        self._asked = asked
        self._client = client
        self._account = account
        self._calls = Calls(service, account)
        self._stream_answer: StreamAnswer | None = None
        self._memory = Memory(service, asked.api_path)
        self._reply = ClientReply(service, asked, client, account)

    async def run(self, said: Awaitable[bytes] | Begun) -> None:
        """Serve a request, whose body is still to come or which was begun before.

        Whatever goes wrong on the way ends here, in the client's own envelope.
        """
        try:
            if isinstance(said, Begun):
                self._memory.kept_answer = said.kept_answer
                await self._answer(said.prepared)
            else:
                await self._converse(await said)
        except Unspoken as error:
            failure = self._reply.blamed(error.failure)
            if self._stream_answer is not None and self._stream_answer.state is AnswerState.FLOWING:
                self._stream_answer.fail(failure)
            else:
                self._fail(failure)
        except DragomanError as error:
            self._break(error)
        except sqlite3.Error as error:
            self._break(unreadable(error, self._service.log))
        except asyncio.CancelledError:
            self._cancelled()
            raise
        finally:
            self._calls.end()
            self._memory.end()

    async def _converse(self, body: bytes) -> None:
        service, account, memory = self._service, self._account, self._memory
        asked, key = self._asked, self._asked.key
        size = len(body)
        looked = await beside_loop(partial(look, body, asked.api_path), size)
        account.note(asked=looked.model)
        target = able(service.routes.target(looked.model, asked.api_path.protocol), looked.outline)
        account.note(
            provider=target.provider.name,
            model=target.shown,
            served=target.endpoint.protocol,
            stream=bytes(looked.outline.stream) == b"true",
        )
        strict = service.settings.server.strict or target.strict or (key is not None and key.strict)
        strict = strict or asks_strictness(asked)
        renamed = target.model != looked.model
        found = await memory.recall(key, body, looked, target)
        putting = partial(
            memory.prepare,
            asked,
            body,
            looked,
            found,
            target,
            renamed=renamed,
            strict=strict,
            owner=owner_of(key),
        )
        prepared = await beside_loop(putting, size if found is None else size + found.size)
        self._reply.prepared = prepared
        prepared = await memory.begin(key, prepared)
        if memory.in_background:
            await self._leave(prepared)
        else:
            await self._answer(prepared)

    async def _leave(self, prepared: ProviderRequest) -> None:
        """Answer at once, and let the response run in the background."""
        service, account, kept_answer = self._service, self._account, self._memory.kept_answer
        assert kept_answer is not None
        detached = DetachedClient()
        its_own = service.account(
            replace(account.record, id=service.new_id(), started=service.clock(), time=time.time())
        )
        other = Exchange(service, replace(self._asked, query=""), detached, its_own)

        async def run() -> None:
            try:
                await other.run(Begun(prepared, kept_answer))
            finally:
                its_own.settle()

        begun = await self._memory.leave(prepared, detached, run)
        account.note(losses=prepared.translated.losses)
        if prepared.stream:
            headers = self._reply.headers(prepared, [], EVENT_STREAM)
            await self._memory.follow(self._asked, self._client, account, headers)
        else:
            self._reply.send(prepared, [], [JSON], encode(begun), prepared.translated.losses)

    async def _answer(self, prepared: ProviderRequest) -> None:
        """Ask the provider, and tell what it answers."""
        account = self._account
        self._reply.prepared = prepared
        answered = await self._calls.ask(prepared)
        while True:
            if len(prepared.translated.ledger):
                account.note(losses=prepared.translated.losses)
            try:
                await self._tell(prepared, answered)
            except Unspoken as error:
                # A refusal of reasoning in spite of the status, of which nobody has heard yet.
                curable = not self._client.started and not error.heard
                again = await self._calls.ask_again(prepared, error.failure) if curable else None
                if again is None:
                    raise
                answered, self._stream_answer = again, None
                account.note(failure="")
                self._memory.anew()
            else:
                return

    async def _tell(self, prepared: ProviderRequest, answered: Flight | ErrorAnswer) -> None:
        """Tell what the provider answered; raises `Unspoken` where that is an error that nobody was told."""
        if isinstance(answered, ErrorAnswer):
            self._reply.refuse(prepared, answered)
            return
        unframer = unframer_of(prepared, answered)
        # The answer's content type decides how it is read, not what was asked (S12).
        if unframer is None and not is_stream(answered):
            await self._answer_whole(prepared, answered)
        elif prepared.stream:
            await self._answer_stream(prepared, answered, unframer)
        else:
            await self._answer_collected(prepared, answered, unframer)

    # Answers.

    async def _answer_stream(self, prepared: ProviderRequest, flight: Flight, unframer: Unframer | None) -> None:
        service, memory = self._service, self._memory
        translator = self._translator(prepared, collect=False)
        self._stream_answer = stream_answer = StreamAnswer(
            self._client,
            translator,
            self._reply.headers(prepared, flight.headers, EVENT_STREAM),
            relay=prepared.relay,
            redactor=service.redactor(prepared.target.provider),
            account=self._account,
            time_limits=self._calls.time_limits,
            clock=service.clock,
            unframer=unframer,
            changed=self._changed(prepared),
            keeper=memory if memory.kept_answer is not None else None,
            report=self._reply.full_report and not prepared.relay,
            # What is only passed on is nowhere gathered.
            limit=None if prepared.relay else service.settings.limits.answer,
            curable=partial(self._calls.may_ask_again, prepared),
        )
        try:
            await stream_answer.tell(flight, partial(self._go_on, prepared))
        finally:
            self._note(translator)

    async def _answer_collected(self, prepared: ProviderRequest, flight: Flight, unframer: Unframer | None) -> None:
        """A stream for a client that did not ask for one."""
        translator = self._translator(prepared, collect=True)
        told: list[bytes] = []
        size = await self._gather(translator, flight, unframer, 0, told)
        await self._conclude(prepared, flight, translator, size, told)

    async def _conclude(
        self, prepared: ProviderRequest, flight: Flight, translator: StreamTranslator, size: int, told: list[bytes]
    ) -> None:
        """Tell at once a stream of this size that was read to its end, and resumed if that was a pause."""
        while translator.paused:
            flight, unframer = await self._go_on(prepared, translator.resume or ())
            translator.go_on()
            size = await self._gather(translator, flight, unframer, size, told)
        try:
            body = b"".join(told) + await beside_loop(translator.close, size, paid=True)
        except DragomanError:
            raise BadAnswer("the provider's answer could not be read") from None
        losses = self._note(translator)
        if translator.failure is not None:
            raise Unspoken(translator.failure, heard=translator.answered)
        changed = self._changed(prepared)
        if prepared.stream and changed is not None:
            body = changed(body)
        elif prepared.relay:
            body = await self._memory.named(body)
        await self._memory.keep(prepared, body)
        self._reply.send(prepared, flight.headers, EVENT_STREAM if prepared.stream else [JSON], body, losses)

    async def _gather(
        self,
        translator: StreamTranslator,
        flight: Flight,
        unframer: Unframer | None,
        size: int,
        told: list[bytes],
    ) -> int:
        """Read a stream to its end, which nobody is told before; give how much has come so far."""
        time_limits = self._calls.time_limits

        def take(chunk: bytes) -> None:
            nonlocal size
            size += len(chunk)
            if translator.finished:
                return
            told.append(translator.feed(unframer.feed(chunk) if unframer is not None else chunk))
            if translator.cut_short or translator.failure is not None:
                raise Cut
            if translator.finished:
                time_limits.ending()

        # Whether the story of a cut stream was complete is the translator's to say (S10).
        with suppress(Truncated, Cut, Overstayed):
            await self._calls.gather(flight, take, size)
            told.append(translator.call_ended())
        return size

    async def _go_on(self, prepared: ProviderRequest, blocks: tuple[JsonObject, ...]) -> tuple[Flight, Unframer | None]:
        """Ask a provider that paused to go on from what it said (mapping.md §13)."""
        codec = codec_of(prepared.target.endpoint.protocol)
        if codec.resume_request is None:
            raise BadAnswer("the provider paused in a protocol that knows no pauses")
        body = prepared.translated.body
        again = await beside_loop(partial(codec.resume_request, body, blocks), len(body), paid=True)
        answered = await self._calls.ask(prepared, again)
        if isinstance(answered, ErrorAnswer):
            raise Unspoken(self._reply.failure_in(prepared, answered))
        return answered, unframer_of(prepared, answered)

    async def _answer_whole(self, prepared: ProviderRequest, flight: Flight) -> None:
        raw = await self._calls.read(flight)
        if not raw.strip():
            raise Unspoken(EMPTY)
        if raw.lstrip().startswith(_EVENTS):
            # A stream that its content type does not call one; whoever asks the provider directly can read it.
            translator = self._translator(prepared, collect=not prepared.stream)
            told = await beside_loop(partial(translator.feed, raw), len(raw), paid=True)
            await self._conclude(prepared, flight, translator, len(raw), [told])
            return
        source = prepared.target.endpoint.protocol
        if prepared.relay and not prepared.stream:
            reading = partial(relayed_answer, raw, codec_of(source))
            usage, failure = await beside_loop(reading, len(raw), paid=True)
            self._account.note(usage=usage)
            if failure is not None and (len(raw) > LONGEST_ERROR or self._calls.may_ask_again(prepared, failure)):
                raise Unspoken(failure)
            if failure is not None:
                self._reply.refuse(prepared, ErrorAnswer(failure.status, flight.headers, raw))
            else:
                raw = await self._memory.named(raw)
                await self._memory.keep(prepared, raw)
                self._reply.send(prepared, flight.headers, [JSON], raw, ())
            return
        earlier: list[bytes] = []
        answer = await self._translated(prepared, raw, earlier)
        # A relayed pause is the client's own business.
        while answer.resume is not None and not prepared.relay and len(earlier) < RESUMES:
            earlier.append(raw)
            flight, unframer = await self._go_on(prepared, answer.resume)
            raw = await self._read_on(prepared, flight, unframer)
            answer = await self._translated(prepared, raw, earlier)
        self._account.note(usage=answer.usage)
        if answer.failure is not None:
            raise Unspoken(answer.failure)
        kind = EVENT_STREAM if prepared.stream else [JSON]
        body = await self._memory.named(answer.body) if prepared.relay else answer.body
        await self._memory.keep(prepared, body)
        self._reply.send(prepared, flight.headers, kind, body, answer.losses)

    async def _read_on(self, prepared: ProviderRequest, flight: Flight, unframer: Unframer | None) -> bytes:
        """What a provider goes on with, as a whole answer of its protocol, whatever the form it comes in."""
        if unframer is None and not is_stream(flight):
            return await self._calls.read(flight)
        source = prepared.target.endpoint.protocol
        limit = self._service.settings.limits.event
        translator = StreamTranslator(source=source, target=source, mint=self._service.mint, collect=True, limit=limit)
        size = await self._gather(translator, flight, unframer, 0, [])
        whole = await beside_loop(translator.close, size, paid=True)
        if translator.failure is not None:
            raise Unspoken(translator.failure)
        return whole

    def _changed(self, prepared: ProviderRequest) -> Callable[[bytes], bytes] | None:
        """What must be done to the frames of a relayed stream, if anything must."""
        if prepared.metered:
            return codec_of(prepared.client).withhold_usage
        kept_answer = self._memory.kept_answer
        return kept_answer.named if kept_answer is not None and prepared.relay else None

    async def _translated(self, prepared: ProviderRequest, raw: bytes, earlier: list[bytes]) -> TranslatedResponse:
        translating = partial(
            translate_response,
            raw,
            source=prepared.target.endpoint.protocol,
            target=prepared.client,
            request=prepared.translated,
            stream=prepared.stream,
            mint=self._service.mint,
            earlier=earlier,
        )
        size = len(raw) + sum(map(len, earlier))
        if size > self._service.settings.limits.answer:
            raise BadAnswer("the provider's answer is larger than the limit")
        try:
            return await beside_loop(translating, size, paid=True)
        except DragomanError:
            raise BadAnswer("the provider's answer could not be read") from None

    def _translator(self, prepared: ProviderRequest, *, collect: bool) -> StreamTranslator:
        return StreamTranslator(
            source=prepared.target.endpoint.protocol,
            target=prepared.client,
            request=prepared.translated,
            mint=self._service.mint,
            collect=collect,
            limit=self._service.settings.limits.event,
            resumes=RESUMES,
        )

    def _note(self, translator: StreamTranslator) -> Sequence[LossLine]:
        """Keep what a stream told beside its text."""
        losses = translator.losses
        self._account.note(usage=translator.usage, losses=(*self._account.record.losses, *losses))
        return losses

    # Errors.

    def _break(self, error: DragomanError) -> None:
        """Something broke: in the client's stream if that has begun, else as an HTTP error."""
        if isinstance(error, ConfigError):
            self._service.log.event("error", "a provider cannot be called", key=error.key, problem=error.problem)
            error = UpstreamError("the provider is not configured completely")
        failure = replies.failure_of(error)
        stream_answer = self._stream_answer
        if stream_answer is not None and stream_answer.state is not AnswerState.HOLDING:
            failure = failure or Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=str(error))
            if isinstance(error, TimedOut) and self._client.paused:
                # It was the client that stood still, and it would not read this either.
                self._account.settle(failure=failure.kind.value)
                self._client.abort()
            else:
                stream_answer.fail(failure)
            return
        if failure is None:
            # The client's own words could not be translated: the library says where.
            failure = translate_failure(error, target=self._asked.api_path.protocol).failure
        self._fail(failure or EMPTY, final=isinstance(error, NotKept))

    def _fail(self, failure: Failure, *, final: bool = False) -> None:
        """An HTTP error, with what the provider said about trying again."""
        flight = self._calls.flight
        self._reply.fail(failure, flight.headers if flight is not None else [], final=final)

    def _cancelled(self) -> None:
        """The client went away, or the gateway is shutting down under it."""
        stream_answer, account = self._stream_answer, self._account
        told = stream_answer is not None and stream_answer.state in (AnswerState.FLOWING, AnswerState.SETTLING)
        if not self._service.draining:
            account.settle(status=account.record.status or GONE, failure="cancelled")
            return
        status = account.record.status or (500 if self._memory.gave_up else 503)
        account.settle(status=status, failure="shutdown")
        if stream_answer is not None and told:
            stream_answer.fail(_SHUTTING_DOWN)
        elif not self._client.started and self._memory.gave_up:
            self._break(NotKept())
        elif not self._client.started:
            self._fail(_SHUTTING_DOWN)
