"""One exchange, edge to provider and back, from the top.

    bytes ─▶ receive ─▶ look, route, recall, put (translate or repair) ─▶ ask ─▶ provider
    bytes ◀─ telling (streams) or whole, kept first ◀─────────────────────────── provider

Whatever happens, the client gets an answer in its own protocol, the provider's call is ended and the record is kept.
Nothing here is held by what it holds, so that all of it is gone with its end.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from dragoman.config.settings import Key
from dragoman.errors import BadAnswer, ConfigError, DragomanError, TimedOut, Truncated, UpstreamError
from dragoman.gateway import replies
from dragoman.gateway.asking import LONGEST_ERROR, Asking, Refusal, is_stream, unframer_of
from dragoman.gateway.detached import Detached
from dragoman.gateway.keeping import Keeping
from dragoman.gateway.large_work import beside_loop
from dragoman.gateway.paths import Place
from dragoman.gateway.patience import NotKept
from dragoman.gateway.question import Question, able, asks_strictness, receive
from dragoman.gateway.record import Record
from dragoman.gateway.remembering import Remembering, look
from dragoman.gateway.replies import EVENT_STREAM, JSON
from dragoman.gateway.replying import Replying
from dragoman.gateway.service import Service
from dragoman.gateway.state import owner_of, unreadable
from dragoman.gateway.telling import EMPTY, Cut, State, Telling, Unspoken
from dragoman.gateway.watch import Overstayed
from dragoman.gateway.whole import relayed_answer, report_comment
from dragoman.http.flight import Flight
from dragoman.http.server import Request
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
_GONE = 499
# How an event stream begins.
_EVENTS = (b"data:", b"event:", b":")


class Exchange:
    """One question and its answer."""

    def __init__(self, service: Service, request: Request, place: Place, record: Record) -> None:
        self._service = service
        self._request = request
        self._place = place
        self._record = record
        self._asking = Asking(service, record)
        self._telling: Telling | None = None
        self._remembering = Remembering(service, place)
        self._replying = Replying(service, request, place, record)

    async def run(self, key: Key | None) -> None:
        """Serve the request."""
        await self._guarded(self._converse(key))

    async def say(self, key: Key | None, body: bytes) -> None:
        """Serve a request whose body is known."""
        await self._guarded(self._said(key, body))

    async def answer(self, question: Question, keeping: Keeping) -> None:
        """Serve a request that was understood before."""
        self._remembering.keeping = keeping
        await self._guarded(self._answer(question))

    async def _guarded(self, serving: Awaitable[None]) -> None:
        """Whatever goes wrong on the way ends here, in the client's own envelope."""
        try:
            await serving
        except Unspoken as error:
            failure = self._replying.blamed(error.failure)
            if self._telling is not None and self._telling.state is State.FLOWING:
                self._telling.fail(failure)
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
            self._asking.end()
            self._remembering.end()

    async def _converse(self, key: Key | None) -> None:
        await self._said(key, await receive(self._request, self._service.settings.limits.body))

    async def _said(self, key: Key | None, body: bytes) -> None:
        service, record, remembering = self._service, self._record, self._remembering
        size = len(body)
        looked = await beside_loop(partial(look, body, self._place), size)
        record.asked = looked.model
        aim = able(service.routes.aim(record.asked, self._place.protocol), looked.gist)
        record.provider, record.model, record.served = aim.provider.name, aim.shown, aim.endpoint.protocol
        strict = service.settings.server.strict or aim.strict or (key is not None and key.strict)
        strict = strict or asks_strictness(self._request)
        renamed = aim.model != record.asked
        found = await remembering.recall(key, body, looked, aim)
        putting = partial(
            remembering.put,
            self._request,
            body,
            looked,
            found,
            aim,
            renamed=renamed,
            strict=strict,
            owner=owner_of(key),
        )
        question = await beside_loop(putting, size if found is None else size + found.size)
        record.stream = question.stream
        self._replying.question = question
        question = await remembering.begin(key, question)
        if remembering.in_background:
            await self._leave(question)
        else:
            await self._answer(question)

    async def _leave(self, question: Question) -> None:
        """Answer at once, and let the response run in the background."""
        service, record, keeping = self._service, self._record, self._remembering.keeping
        assert keeping is not None
        detached = Detached(self._request, self._request.path)
        its_record = record.anew(service.new_id(), service.clock())
        other = Exchange(service, detached, self._place, its_record)

        async def run() -> None:
            try:
                await other.answer(question, keeping)
            finally:
                service.finish(its_record)

        begun = await self._remembering.leave(question, detached, run)
        record.losses = question.translated.losses
        if question.stream:
            headers = self._replying.headers(question, [], EVENT_STREAM)
            await self._remembering.follow(self._request, record, headers)
        else:
            self._replying.send(question, [], [JSON], encode(begun), question.translated.losses)

    async def _answer(self, question: Question) -> None:
        """Ask the provider, and tell what it answers."""
        record = self._record
        self._replying.question = question
        answered = await self._asking.ask(question)
        while True:
            if len(question.translated.ledger):
                record.losses = question.translated.losses
            try:
                await self._tell(question, answered)
            except Unspoken as error:
                # A refusal of reasoning in spite of the status, of which nobody has heard yet.
                curable = not self._request.started and not error.heard
                again = await self._asking.ask_again(question, error.failure) if curable else None
                if again is None:
                    raise
                answered, self._telling, record.failure = again, None, ""
                self._remembering.anew()
            else:
                return

    async def _tell(self, question: Question, answered: Flight | Refusal) -> None:
        """Tell what the provider answered; raises `Unspoken` where that is an error that nobody was told."""
        if isinstance(answered, Refusal):
            self._replying.refuse(question, answered)
            return
        unframer = unframer_of(question, answered)
        # The answer's content type decides how it is read, not what was asked (S12).
        if unframer is None and not is_stream(answered):
            await self._answer_whole(question, answered)
        elif question.stream:
            await self._answer_stream(question, answered, unframer)
        else:
            await self._answer_collected(question, answered, unframer)

    # Answers.

    async def _answer_stream(self, question: Question, flight: Flight, unframer: Unframer | None) -> None:
        service, remembering = self._service, self._remembering
        translator = self._translator(question, collect=False)
        self._telling = telling = Telling(
            self._request,
            translator,
            self._replying.headers(question, flight.headers, EVENT_STREAM),
            relay=question.relay,
            redactor=service.redactor(question.aim.provider),
            record=self._record,
            watch=self._asking.watch,
            clock=service.clock,
            unframer=unframer,
            changed=self._changed(question),
            keeper=remembering if remembering.keeping is not None else None,
            report=_report if self._replying.full_report and not question.relay else None,
            # What is only passed on is nowhere gathered.
            limit=None if question.relay else service.settings.limits.answer,
            curable=partial(self._asking.may_ask_again, question),
        )
        try:
            await telling.tell(flight, partial(self._go_on, question))
        finally:
            self._note(translator)

    async def _answer_collected(self, question: Question, flight: Flight, unframer: Unframer | None) -> None:
        """A stream for a client that did not ask for one."""
        translator = self._translator(question, collect=True)
        told: list[bytes] = []
        size = await self._gather(translator, flight, unframer, 0, told)
        await self._conclude(question, flight, translator, size, told)

    async def _conclude(
        self, question: Question, flight: Flight, translator: StreamTranslator, size: int, told: list[bytes]
    ) -> None:
        """Tell at once a stream of this size that was read to its end, and resumed if that was a pause."""
        while translator.paused:
            flight, unframer = await self._go_on(question, translator.resume or ())
            translator.go_on()
            size = await self._gather(translator, flight, unframer, size, told)
        try:
            body = b"".join(told) + await beside_loop(translator.close, size, paid=True)
        except DragomanError:
            raise BadAnswer("the provider's answer could not be read") from None
        losses = self._note(translator)
        if translator.failure is not None:
            raise Unspoken(translator.failure, heard=translator.answered)
        changed = self._changed(question)
        if question.stream and changed is not None:
            body = changed(body)
        elif question.relay:
            body = await self._remembering.named(body)
        await self._remembering.keep(question, body)
        self._replying.send(question, flight.headers, EVENT_STREAM if question.stream else [JSON], body, losses)

    async def _gather(
        self,
        translator: StreamTranslator,
        flight: Flight,
        unframer: Unframer | None,
        size: int,
        told: list[bytes],
    ) -> int:
        """Read a stream to its end, which nobody is told before; give how much has come so far."""
        watch = self._asking.watch

        def take(chunk: bytes) -> None:
            nonlocal size
            size += len(chunk)
            if translator.finished:
                return
            told.append(translator.feed(unframer.feed(chunk) if unframer is not None else chunk))
            if translator.cut_short or translator.failure is not None:
                raise Cut
            if translator.finished:
                watch.ending()

        # Whether the story of a cut stream was complete is the translator's to say (S10).
        with suppress(Truncated, Cut, Overstayed):
            await self._asking.gather(flight, take, size)
            told.append(translator.call_ended())
        return size

    async def _go_on(self, question: Question, blocks: tuple[JsonObject, ...]) -> tuple[Flight, Unframer | None]:
        """Ask a provider that paused to go on from what it said (mapping.md §13)."""
        codec = codec_of(question.aim.endpoint.protocol)
        if codec.resume_request is None:
            raise BadAnswer("the provider paused in a protocol that knows no pauses")
        body = question.translated.body
        again = await beside_loop(partial(codec.resume_request, body, blocks), len(body), paid=True)
        answered = await self._asking.ask(question, again)
        if isinstance(answered, Refusal):
            raise Unspoken(self._replying.failure_in(question, answered))
        return answered, unframer_of(question, answered)

    async def _answer_whole(self, question: Question, flight: Flight) -> None:
        raw = await self._asking.read(flight)
        if not raw.strip():
            raise Unspoken(EMPTY)
        if raw.lstrip().startswith(_EVENTS):
            # A stream that its content type does not call one; whoever asks the provider directly can read it.
            translator = self._translator(question, collect=not question.stream)
            told = await beside_loop(partial(translator.feed, raw), len(raw), paid=True)
            await self._conclude(question, flight, translator, len(raw), [told])
            return
        source = question.aim.endpoint.protocol
        if question.relay and not question.stream:
            reading = partial(relayed_answer, raw, codec_of(source))
            self._record.usage, failure = await beside_loop(reading, len(raw), paid=True)
            if failure is not None and (len(raw) > LONGEST_ERROR or self._asking.may_ask_again(question, failure)):
                raise Unspoken(failure)
            if failure is not None:
                self._replying.refuse(question, Refusal(failure.status, flight.headers, raw))
            else:
                raw = await self._remembering.named(raw)
                await self._remembering.keep(question, raw)
                self._replying.send(question, flight.headers, [JSON], raw, ())
            return
        earlier: list[bytes] = []
        answer = await self._translated(question, raw, earlier)
        # A relayed pause is the client's own business.
        while answer.resume is not None and not question.relay and len(earlier) < RESUMES:
            earlier.append(raw)
            flight, unframer = await self._go_on(question, answer.resume)
            raw = await self._read_on(question, flight, unframer)
            answer = await self._translated(question, raw, earlier)
        self._record.usage = answer.usage
        if answer.failure is not None:
            raise Unspoken(answer.failure)
        kind = EVENT_STREAM if question.stream else [JSON]
        body = await self._remembering.named(answer.body) if question.relay else answer.body
        await self._remembering.keep(question, body)
        self._replying.send(question, flight.headers, kind, body, answer.losses)

    async def _read_on(self, question: Question, flight: Flight, unframer: Unframer | None) -> bytes:
        """What a provider goes on with, as a whole answer of its protocol, whatever the form it comes in."""
        if unframer is None and not is_stream(flight):
            return await self._asking.read(flight)
        source = question.aim.endpoint.protocol
        limit = self._service.settings.limits.event
        translator = StreamTranslator(source=source, target=source, mint=self._service.mint, collect=True, limit=limit)
        size = await self._gather(translator, flight, unframer, 0, [])
        whole = await beside_loop(translator.close, size, paid=True)
        if translator.failure is not None:
            raise Unspoken(translator.failure)
        return whole

    def _changed(self, question: Question) -> Callable[[bytes], bytes] | None:
        """What must be done to the frames of a relayed stream, if anything must."""
        if question.metered:
            return codec_of(question.client).withhold_usage
        keeping = self._remembering.keeping
        return keeping.named if keeping is not None and question.relay else None

    async def _translated(self, question: Question, raw: bytes, earlier: list[bytes]) -> TranslatedResponse:
        translating = partial(
            translate_response,
            raw,
            source=question.aim.endpoint.protocol,
            target=question.client,
            request=question.translated,
            stream=question.stream,
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

    def _translator(self, question: Question, *, collect: bool) -> StreamTranslator:
        return StreamTranslator(
            source=question.aim.endpoint.protocol,
            target=question.client,
            request=question.translated,
            mint=self._service.mint,
            collect=collect,
            limit=self._service.settings.limits.event,
            resumes=RESUMES,
        )

    def _note(self, translator: StreamTranslator) -> Sequence[LossLine]:
        """Keep what a stream told beside its text."""
        record = self._record
        record.usage = translator.usage
        losses = translator.losses
        if losses:
            record.losses = (*record.losses, *losses)
        return losses

    # Errors.

    def _break(self, error: DragomanError) -> None:
        """Something broke: in the client's stream if that has begun, else as an HTTP error."""
        if isinstance(error, ConfigError):
            self._service.log.event("error", "a provider cannot be called", key=error.key, problem=error.problem)
            error = UpstreamError("the provider is not configured completely")
        failure = replies.failure_of(error)
        telling = self._telling
        if telling is not None and telling.state is not State.HOLDING:
            failure = failure or Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=str(error))
            if isinstance(error, TimedOut) and self._request.paused:
                # It was the client that stood still, and it would not read this either.
                self._record.failure = failure.kind.value
                self._request.abort()
            else:
                telling.fail(failure)
            return
        if failure is None:
            # The client's own words could not be translated: the library says where.
            failure = translate_failure(error, target=self._place.protocol).failure
        self._fail(failure or EMPTY, final=isinstance(error, NotKept))

    def _fail(self, failure: Failure, *, final: bool = False) -> None:
        """An HTTP error, with what the provider said about trying again."""
        flight = self._asking.flight
        self._replying.fail(failure, flight.headers if flight is not None else [], final=final)

    def _cancelled(self) -> None:
        """The client went away, or the gateway is shutting down under it."""
        telling, record = self._telling, self._record
        record.status, record.failure = record.status or _GONE, "cancelled"
        if self._service.draining:
            if telling is not None and telling.state in (State.FLOWING, State.SETTLING):
                telling.fail(_SHUTTING_DOWN)
            elif not self._request.started and self._remembering.gave_up:
                self._break(NotKept())
            elif not self._request.started:
                self._fail(_SHUTTING_DOWN)
            record.failure = "shutdown"


def _report(record: Record, translator: StreamTranslator) -> bytes:
    """The full ledger, for a client that asked for it, at the end of a stream."""
    return report_comment((*record.losses, *translator.losses))
