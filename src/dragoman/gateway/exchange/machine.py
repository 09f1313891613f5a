"""The exchange as a machine: events in, commands out, no I/O (decision 23).

    state         waits for                             done ─▶
    FRESH         a client                              READING; CALLING if it was understood before
    READING       the body looked at                    RECALLING, for the first target
    RECALLING     what the request refers to            PREPARING
    PREPARING     the request as the target gets it     RESERVING
    RESERVING     the store tried, a conversation       CALLING; LEAVING for the background
    LEAVING       the background                        told ─▶ OVER; FOLLOWING for a client that wants a stream
    FOLLOWING     its end                               OVER
    CALLING       credentials, status and headers       HEARING, COLLECTING or GATHERING; REFUSED; after a pause of a
                                                        whole answer READING_ON or CONTINUING
    REFUSED       the beginning of an error             CALLING with another key; RELIEVING; missed
    RELIEVING     the request without what was refused  CALLING; missed
    GATHERING     all of a whole answer                 JUDGING on the relay; TRANSLATING; FEEDING if it is events
    JUDGING       what a relayed answer says            NAMING; RELIEVING; missed
    TRANSLATING   the answer in the client's words      NAMING; KEEPING; RESUMING; RELIEVING; missed
    COLLECTING    all of a stream for one answer        CLOSING; RESUMING
    FEEDING       the same, that came as a whole        CLOSING; RESUMING
    CLOSING       its end                               NAMING; KEEPING; RELIEVING; missed
    NAMING        a relayed answer under our name       KEEPING
    KEEPING       the store                             told ─▶ OVER
    RESUMING      the request that goes on after a      CALLING
                  pause
    CONTINUING    all of a stream that goes on          READING_ON
    READING_ON    what goes on as a whole answer        TRANSLATING
    HEARING       the provider's end; pieces come in    its answer finished ─▶ SETTLING or ENDING; ended ─▶ STORING or
                  between                               OVER; RESUMING; RELIEVING; MISSED, or missed
    MISSED        the same, of an answer that failed    RELIEVING; missed
                  before anything was said
    SETTLING      the store, and the provider's end     kept ─▶ ENDING; ended ─▶ STORING
    STORING       the store                             kept ─▶ told ─▶ OVER
    ENDING        the provider's end, for a moment      OVER
    OVER          nothing

Missed: the next target is asked; after the last one the client is told why, by what it was told before:

    told        a failure is
    NOTHING     an HTTP error, in the client's envelope
    STATUS      the opening frames that were held, and the stream's own error form
    CONTENT     the stream's own error form
    ALL         nothing any more

A keep-alive is a heartbeat wherever a stream is told; it commits the status, and nothing that is held. That the client
leaves, or the gateway stops, settles the exchange in every state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial

from msgspec.structs import replace

from dragoman.errors import BadAnswer, DragomanError, Truncated
from dragoman.gateway.exchange import reply_parts
from dragoman.gateway.exchange.attempt import (
    LONGEST_ERROR,
    Attempt,
    ErrorAnswer,
    Lane,
    Missed,
    is_stream,
    unframer_of,
)
from dragoman.gateway.exchange.client import ClientRequest
from dragoman.gateway.exchange.provider_request import ProviderRequest, able, asks_strictness
from dragoman.gateway.exchange.replies import Replies, Reply
from dragoman.gateway.exchange.reply_parts import EVENT_STREAM, JSON
from dragoman.gateway.exchange.steps import (
    Abort,
    AwaitKept,
    Begin,
    Call,
    Collect,
    Command,
    Done,
    Due,
    End,
    Event,
    Failed,
    Follow,
    Gone,
    HangUp,
    Hear,
    Keep,
    KeepWhole,
    Kept,
    Leave,
    Limit,
    Name,
    ReadError,
    ReadWhole,
    Recall,
    Reserve,
    Respond,
    Resume,
    Settle,
    Start,
    Took,
    Waiting,
    Work,
    Write,
)
from dragoman.gateway.exchange.time_limits import LimitPhase, Overstayed
from dragoman.gateway.exchange.whole_answer import relayed_answer, report_comment
from dragoman.gateway.records.account import Account
from dragoman.gateway.routes import Target
from dragoman.gateway.service import Service
from dragoman.gateway.stored_responses.kept_answer import parted
from dragoman.gateway.stored_responses.memory import Look, Memory, look
from dragoman.gateway.stored_responses.recall import Found
from dragoman.gateway.stored_responses.store_retries import NotKept
from dragoman.gateway.stored_responses.stored_state import owner_of
from dragoman.http.flight import Flight
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.response import Usage
from dragoman.protocols.registry import codec_of
from dragoman.rules.pauses import RESUMES
from dragoman.streaming import StreamTranslator
from dragoman.translate import TranslatedResponse, translate_failure, translate_response

EMPTY = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="the provider's answer was empty")
_SHUTTING_DOWN = Failure(kind=FailureKind.UNAVAILABLE, status=503, message="the gateway is shutting down")
# What is told of a client that went away; nobody receives it.
GONE = 499
# How an event stream begins.
_EVENTS = (b"data:", b"event:", b":")
_NATIVE_FAILURE = b"response.failed"
_TOO_LARGE = "the provider's answer is larger than the limit"
_UNREADABLE = "the provider's answer could not be read"


class State(Enum):
    """What is waited for."""

    FRESH = "fresh"
    READING = "reading"
    RECALLING = "recalling"
    PREPARING = "preparing"
    RESERVING = "reserving"
    LEAVING = "leaving"
    FOLLOWING = "following"
    CALLING = "calling"
    REFUSED = "refused"
    RELIEVING = "relieving"
    GATHERING = "gathering"
    JUDGING = "judging"
    TRANSLATING = "translating"
    COLLECTING = "collecting"
    FEEDING = "feeding"
    CLOSING = "closing"
    NAMING = "naming"
    KEEPING = "keeping"
    RESUMING = "resuming"
    CONTINUING = "continuing"
    READING_ON = "reading on"
    HEARING = "hearing"
    MISSED = "missed"
    SETTLING = "settling"
    STORING = "storing"
    ENDING = "ending"
    OVER = "over"


class Told(Enum):
    """What the client was told."""

    NOTHING = "nothing"
    STATUS = "status"
    CONTENT = "content"
    ALL = "all"


class Machine:
    """One exchange. `flowing` is whether pieces of its stream go straight to the client."""

    def __init__(self, service: Service, asked: ClientRequest, account: Account, memory: Memory) -> None:
        self._service = service
        self._asked = asked
        self._account = account
        self._memory = memory
        self._replies = Replies(service, asked, account)
        self._out: list[Command] = []
        self._body = b""
        self._looked: Look | None = None
        self._targets: Iterator[Target] = iter(())
        self._attempt: Attempt | None = None
        self.state = State.FRESH
        self.told = Told.NOTHING
        self.flowing = False

    def handle(self, event: Event) -> list[Command]:
        """Make the move that the table has for an event; give what is to be done, at most the last of which waits."""
        out = self._out = []
        try:
            MOVES[self.state, type(event)](self, event)
        except DragomanError as error:
            self._fail(error)
        self.flowing = self.state is State.HEARING and self.told is Told.CONTENT
        return out

    @property
    def attempt(self) -> Attempt:
        """The present target."""
        assert self._attempt is not None
        return self._attempt

    def _do(self, *commands: Command) -> None:
        self._out += commands

    def _wait(self, state: State, command: Waiting) -> None:
        self.state = state
        self._out.append(command)

    # What the client wants.

    def _begin(self, event: Begin) -> None:
        self._body = event.body
        self._wait(State.READING, Work(partial(look, event.body, self._asked.api_path), len(event.body)))

    def _read(self, event: Done) -> None:
        assert isinstance(event.value, Look)
        self._looked = event.value
        self._account.note(asked=event.value.model, stream=bytes(event.value.outline.stream) == b"true")
        # One, for now.
        self._targets = iter((self._service.routes.target(event.value.model, self._asked.api_path.protocol),))
        self._try_next()

    def _resume(self, event: Resume) -> None:
        self._attempt = self._begun(event.prepared.target)
        self._attempt.prepared = self._replies.prepared = event.prepared
        self._ask(event.prepared.translated.body)

    # The request, as one target gets it.

    def _try_next(self) -> bool:
        """Ask the next target, if there is one."""
        target = next(self._targets, None)
        if target is None or self._looked is None:
            return False
        target = able(target, self._looked.outline)
        self._attempt = self._begun(target)
        self._account.note(
            provider=target.provider.name, model=target.shown, served=target.endpoint.protocol, failure=""
        )
        self._wait(State.RECALLING, Recall(self._body, self._looked, target))
        return True

    def _begun(self, target: Target) -> Attempt:
        return Attempt(target, self._service.rotation(target.provider))

    def _recalled(self, event: Done) -> None:
        found, looked, target = event.value, self._looked, self.attempt.target
        assert looked is not None and (found is None or isinstance(found, Found))
        key, server = self._asked.key, self._service.settings.server
        strict = server.strict or target.strict or (key is not None and key.strict) or asks_strictness(self._asked)
        preparing = partial(
            self._memory.prepare,
            self._asked,
            self._body,
            looked,
            found,
            target,
            renamed=target.model != looked.model,
            strict=strict,
            owner=owner_of(key),
        )
        size = len(self._body)
        self._wait(State.PREPARING, Work(preparing, size if found is None else size + found.size))

    def _prepared(self, event: Done) -> None:
        assert isinstance(event.value, ProviderRequest)
        self._replies.prepared = self.attempt.prepared = event.value
        self._wait(State.RESERVING, Reserve(self.attempt.prepared))

    def _reserved(self, event: Done) -> None:
        prepared = event.value
        assert isinstance(prepared, ProviderRequest)
        self._replies.prepared = self.attempt.prepared = prepared
        if self._memory.in_background:
            self._account.note(losses=prepared.translated.losses)
            self._wait(State.LEAVING, Leave(prepared))
        else:
            self._ask(prepared.translated.body)

    def _left(self, event: Done) -> None:
        """The client is told how the response begins, or follows its stream."""
        prepared = self.attempt.prepared
        assert isinstance(event.value, bytes)
        if prepared.stream:
            # From here on whoever follows it tells.
            self.told = Told.ALL
            self._wait(State.FOLLOWING, Follow(self._replies.headers(prepared, [], EVENT_STREAM)))
        else:
            self._respond(self._replies.answer(prepared, [], [JSON], event.value, prepared.translated.losses))
            self._over()

    def _followed(self, _: Done) -> None:
        self._over()

    # Calls.

    def _ask(self, body: bytes) -> None:
        self.attempt.ask(body)
        self._call()

    def _call(self) -> None:
        attempt = self.attempt
        self._wait(State.CALLING, Call(attempt.prepared, attempt.body, attempt.key))

    def _called(self, event: Done) -> None:
        flight: Flight = event.value  # type: ignore[assignment]  # as the driver gives it
        attempt = self.attempt
        attempt.status, attempt.headers = flight.status, flight.headers
        if attempt.status >= 300:
            self._wait(State.REFUSED, ReadError())
            return
        if attempt.lane is Lane.UNKNOWN:
            self._note_losses()
        attempt.unframer = unframer_of(attempt.prepared, flight)
        self._hear(comes_whole=attempt.unframer is None and not is_stream(flight))

    def _note_losses(self) -> None:
        translated = self.attempt.prepared.translated
        if len(translated.ledger):
            self._account.note(losses=translated.losses)

    def _refused(self, event: Done) -> None:
        attempt = self.attempt
        assert isinstance(event.value, bytes)
        if attempt.status < 400:
            raise BadAnswer("the provider answered with a redirect, which is not followed")
        if attempt.status > 599:
            raise BadAnswer(f"the provider answered with the status {attempt.status}, which means nothing")
        if attempt.has_another_key():
            attempt.use_key(attempt.body)
            self._call()
            return
        answer = ErrorAnswer(attempt.status, attempt.headers, event.value)
        failure = codec_of(attempt.target.endpoint.protocol).decode_failure(answer.status, answer.body)
        # What goes on after a pause is no answer of its own, and is told in the client's words.
        own = answer if attempt.lane is Lane.UNKNOWN else None
        missed = Missed(failure=failure if own is not None else self._replies.blamed(failure), answer=own)
        self._relieve(missed, failure)

    def _relieve(self, missed: Missed, failure: Failure) -> None:
        """Ask without what was refused, if that is what a failure says; else it has failed."""
        attempt = self.attempt
        remedy = attempt.remedy(failure)
        if remedy is None:
            self._miss(missed)
            return
        attempt.missed = missed
        self._wait(State.RELIEVING, Work(attempt.relieved(remedy), len(attempt.body), paid=True))

    def _relieved(self, event: Done) -> None:
        attempt, body = self.attempt, event.value
        assert attempt.missed is not None
        if not isinstance(body, bytes):
            self._miss(attempt.missed)
        elif attempt.status >= 400:
            attempt.use_key(body)
            self._call()
        else:
            # An error in spite of its status, of which nobody has heard.
            attempt.forget()
            self._account.note(failure="")
            self._memory.anew()
            attempt.ask(body, anew=False)
            self._call()

    # Answers.

    def _hear(self, *, comes_whole: bool) -> None:
        """The answer's content type decides how it is read, not what was asked (S12)."""
        attempt = self.attempt
        if attempt.lane is Lane.UNKNOWN:
            if comes_whole:
                attempt.lane = Lane.WHOLE
            else:
                attempt.lane = Lane.STREAM if attempt.prepared.stream else Lane.COLLECTED
                attempt.translator = self._translator(collect=attempt.lane is Lane.COLLECTED)
                attempt.heartbeat = attempt.translator.heartbeat
            if attempt.lane is Lane.STREAM:
                attempt.feed = self._feed()
        elif attempt.lane is not Lane.WHOLE:
            attempt.translator.go_on()
        match attempt.lane:
            case Lane.STREAM:
                self._wait(
                    State.HEARING, Hear(attempt.translator, attempt.feed, attempt.unframer, attempt.prepared.relay)
                )
            case Lane.COLLECTED:
                self._wait(State.COLLECTING, Collect(attempt.translator, attempt.unframer, attempt.told, attempt.size))
            case _ if not attempt.earlier:
                self._wait(State.GATHERING, ReadWhole())
            case _ if comes_whole:
                self._wait(State.READING_ON, ReadWhole())
            case _:
                # What a provider goes on with, as a whole answer of its protocol, whatever the form it comes in.
                source, limit = attempt.target.endpoint.protocol, self._service.settings.limits.event
                attempt.translator = StreamTranslator(
                    source=source, target=source, mint=self._service.mint, collect=True, limit=limit
                )
                self._wait(State.CONTINUING, Collect(attempt.translator, attempt.unframer, [], 0))

    def _translator(self, *, collect: bool) -> StreamTranslator:
        prepared = self.attempt.prepared
        return StreamTranslator(
            source=prepared.target.endpoint.protocol,
            target=prepared.client,
            request=prepared.translated,
            mint=self._service.mint,
            collect=collect,
            limit=self._service.settings.limits.event,
            resumes=RESUMES,
        )

    def _changed(self) -> Callable[[bytes], bytes] | None:
        """What must be done to the frames of a relayed stream, if anything must."""
        prepared = self.attempt.prepared
        if prepared.metered:
            return codec_of(prepared.client).withhold_usage
        kept_answer = self._memory.kept_answer
        return kept_answer.named if kept_answer is not None and prepared.relay else None

    def _feed(self) -> Callable[[bytes], bytes]:
        translator, changed = self.attempt.translator, self._changed()
        return translator.feed if changed is None else lambda chunk: changed(translator.feed(chunk))

    # Whole answers.

    def _gathered(self, event: Done) -> None:
        attempt, raw = self.attempt, event.value
        assert isinstance(raw, bytes)
        attempt.raw = raw
        if not raw.strip():
            self._unsaid(EMPTY)
        elif raw.lstrip().startswith(_EVENTS):
            # A stream that its content type does not call one; whoever asks the provider directly can read it.
            attempt.lane = Lane.COLLECTED
            attempt.translator = self._translator(collect=not attempt.prepared.stream)
            attempt.size = len(raw)
            self._wait(State.FEEDING, Work(partial(attempt.translator.feed, raw), len(raw), paid=True))
        elif attempt.prepared.relay and not attempt.prepared.stream:
            judging = partial(relayed_answer, raw, codec_of(attempt.target.endpoint.protocol))
            self._wait(State.JUDGING, Work(judging, len(raw), paid=True))
        else:
            self._translate()

    def _judged(self, event: Done) -> None:
        attempt = self.attempt
        judged: tuple[Usage | None, Failure | None] = event.value  # type: ignore[assignment]  # as it gives them
        usage, failure = judged
        self._account.note(usage=usage)
        if failure is None:
            self._wait(State.NAMING, Name(attempt.raw))
        elif len(attempt.raw) > LONGEST_ERROR or attempt.remedy(failure) is not None:
            self._unsaid(failure)
        else:
            self._miss(Missed(failure=failure, answer=ErrorAnswer(failure.status, attempt.headers, attempt.raw)))

    def _translate(self) -> None:
        attempt = self.attempt
        size = len(attempt.raw) + sum(map(len, attempt.earlier))
        if size > self._service.settings.limits.answer:
            raise BadAnswer(_TOO_LARGE)
        translating = partial(
            translate_response,
            attempt.raw,
            source=attempt.target.endpoint.protocol,
            target=attempt.prepared.client,
            request=attempt.prepared.translated,
            stream=attempt.prepared.stream,
            mint=self._service.mint,
            earlier=attempt.earlier,
        )
        self._wait(State.TRANSLATING, Work(partial(_readable, translating), size, paid=True))

    def _translated(self, event: Done) -> None:
        attempt, answer = self.attempt, event.value
        assert isinstance(answer, TranslatedResponse)
        # A relayed pause is the client's own business.
        if answer.resume is not None and not attempt.prepared.relay and len(attempt.earlier) < RESUMES:
            attempt.earlier.append(attempt.raw)
            self._go_on(answer.resume)
            return
        self._account.note(usage=answer.usage)
        if answer.failure is not None:
            self._unsaid(answer.failure)
            return
        attempt.losses = answer.losses
        self._name_or_keep(answer.body)

    def _name_or_keep(self, body: bytes) -> None:
        if self.attempt.prepared.relay:
            self._wait(State.NAMING, Name(body))
        else:
            self._keep(body)

    def _named(self, event: Done) -> None:
        assert isinstance(event.value, bytes)
        self._keep(event.value)

    def _keep(self, body: bytes) -> None:
        self.attempt.raw = body
        if self._memory.kept_answer is not None:
            self._wait(State.KEEPING, KeepWhole(self.attempt.prepared, body))
        else:
            self._send()

    def _was_kept(self, _: Done) -> None:
        self._send()

    def _send(self) -> None:
        attempt = self.attempt
        kind = EVENT_STREAM if attempt.prepared.stream else [JSON]
        self._respond(self._replies.answer(attempt.prepared, attempt.headers, kind, attempt.raw, attempt.losses))
        self._over()

    # Streams for one answer.

    def _fed(self, event: Done) -> None:
        assert isinstance(event.value, bytes)
        self.attempt.told.append(event.value)
        self._conclude()

    def _collected(self, event: Done) -> None:
        assert isinstance(event.value, int)
        self.attempt.size = event.value
        self._conclude()

    def _conclude(self) -> None:
        """Tell at once a stream that was read to its end, or go on if that was a pause."""
        attempt = self.attempt
        if attempt.translator.paused:
            self._go_on(attempt.translator.resume or ())
        else:
            closing = partial(_readable, attempt.translator.close)
            self._wait(State.CLOSING, Work(closing, attempt.size, paid=True))

    def _closed(self, event: Done) -> None:
        attempt = self.attempt
        assert isinstance(event.value, bytes)
        body = b"".join(attempt.told) + event.value
        self._note_translator()
        attempt.losses = attempt.translator.losses
        if (failure := attempt.translator.failure) is not None:
            self._unsaid(failure, heard=attempt.translator.answered)
            return
        changed = self._changed()
        if attempt.prepared.stream and changed is not None:
            self._keep(changed(body))
        else:
            self._name_or_keep(body)

    # Pauses.

    def _go_on(self, blocks: tuple[JsonObject, ...]) -> None:
        """Ask a provider that paused to go on from what it said (mapping.md §13)."""
        attempt = self.attempt
        codec = codec_of(attempt.target.endpoint.protocol)
        if codec.resume_request is None:
            raise BadAnswer("the provider paused in a protocol that knows no pauses")
        body = attempt.prepared.translated.body
        self._wait(State.RESUMING, Work(partial(codec.resume_request, body, blocks), len(body), paid=True))

    def _resumed(self, event: Done) -> None:
        assert isinstance(event.value, bytes)
        self._ask(event.value)

    def _continued(self, event: Done) -> None:
        assert isinstance(event.value, int)
        self._wait(State.READING_ON, Work(self.attempt.translator.close, event.value, paid=True))

    def _read_on(self, event: Done) -> None:
        attempt = self.attempt
        assert isinstance(event.value, bytes)
        if attempt.is_heard and (failure := attempt.translator.failure) is not None:
            self._unsaid(failure)
            return
        attempt.raw = event.value
        self._translate()

    # Streams for the client.

    def _took(self, event: Took) -> None:
        """Everything but the plain flow: the first content, the end, failures."""
        attempt, out = self.attempt, event.out
        translator = attempt.translator
        if (failure := translator.failure) is not None:
            self._account.note(failure=failure.kind.value)
            out = self._clean(out)
            curable = not translator.answered and attempt.remedy(failure) is not None
            if self.told is not Told.CONTENT and (curable or not self._is_native(failure, out)):
                attempt.error_form = out
                self.state = State.MISSED
                self._do(HangUp())
                return
        if self.told is not Told.CONTENT:
            if not translator.speaking:
                if out:
                    attempt.held.append(out)
                return
            self._commit(event.now)
        if not translator.finished:
            self._write(out)
            return
        self._end_with(out)
        if translator.cut_short:
            self._do(HangUp())
        else:
            self._do(Limit(LimitPhase.ENDING))

    def _is_native(self, failure: Failure, out: bytes) -> bool:
        """Whether the provider told its failure as a whole answer of the client's own protocol, which is relayed."""
        # Of bytes that nobody can read the translator makes such an answer too, which has no name of the provider's.
        own = failure.kind is not FailureKind.BAD_GATEWAY or bool(failure.native)
        return own and self.attempt.prepared.relay and _NATIVE_FAILURE in out

    def _open(self) -> None:
        """From here on the status is 200."""
        if self.told is Told.NOTHING:
            attempt = self.attempt
            self.told = Told.STATUS
            self._account.note(status=200)
            self._do(Start(self._replies.headers(attempt.prepared, attempt.headers, EVENT_STREAM)))

    def _commit(self, now: float) -> None:
        """Tell the first content, behind what was held."""
        attempt = self.attempt
        self._open()
        self.told = Told.CONTENT
        self._account.note(first=now)
        held, attempt.held = b"".join(attempt.held), []
        self._write(held)

    def _end_with(self, out: bytes) -> None:
        """Tell the last frames, if what they hold need not be kept; else as soon as it is."""
        if self._memory.kept_answer is None:
            self._tell_end(out)
            self.state = State.ENDING
            if not self.attempt.prepared.relay:
                # Nothing that still comes is for the client; only the provider's connection may end well.
                self._finish()
            return
        # What says nothing of its end is no news that must be kept first; its error form needs a beginning, too.
        said, last = parted(out)
        self._write(said)
        self.attempt.held = [last]
        self.state = State.SETTLING
        self._do(Keep(last))

    def _tell_end(self, out: bytes) -> None:
        """All is known before the client knows its answer complete."""
        self._do(Settle(self._heard()))
        self._write(out)
        self.told = Told.ALL

    def _ended(self, _: Done) -> None:
        """The provider has ended its stream: its answer is complete, or paused."""
        translator = self.attempt.translator
        if translator.paused:
            self._go_on(translator.resume or ())
        else:
            self._close()

    def _broke(self, event: Failed) -> None:
        """The provider's stream broke off; whether the story was complete is the translator's to say (S10)."""
        paused = self.attempt.translator.paused
        if isinstance(event.error, Truncated) and paused:
            # A turn that paused has said all it had to say.
            self._go_on(self.attempt.translator.resume or ())
        elif isinstance(event.error, Truncated | Overstayed):
            self._close()
        else:
            self._failed(event)

    def _close(self) -> None:
        attempt = self.attempt
        out = self._last_frames()
        failure = attempt.translator.failure
        if failure is not None:
            self._account.note(failure=failure.kind.value)
            out = self._clean(out)
        if self.told is not Told.CONTENT:
            if failure is not None or (self.told is Told.NOTHING and not attempt.translator.speaking):
                attempt.error_form = out
                self._unsaid(failure or EMPTY, heard=attempt.translator.answered)
                return
            self._commit(self._service.clock())
        self._end_with(out)
        if self.state is State.SETTLING:
            self._wait(State.STORING, AwaitKept())
        else:
            self._finish()
            self._over()

    def _last_frames(self) -> bytes:
        out, changed = self.attempt.translator.close(), self._changed()
        return out if changed is None else changed(out)

    def _hold(self, event: Took) -> None:
        """What comes behind the last frames belongs to them."""
        self.attempt.held.append(event.out)

    def _ended_settling(self, _: Event) -> None:
        """That the provider ends, or breaks off, does no harm to an answer that is complete."""
        self.attempt.held.append(self._last_frames())
        self._wait(State.STORING, AwaitKept())

    def _settled(self, event: Kept) -> None:
        """The store has taken the answer while the provider has not ended."""
        if not self._is_kept(event):
            return
        self.state = State.ENDING
        if not self.attempt.prepared.relay:
            self._finish()

    def _stored(self, event: Kept) -> None:
        if self._is_kept(event):
            self._finish()
            self._over()

    def _is_kept(self, event: Kept) -> bool:
        attempt = self.attempt
        if event.error is not None:
            self._fail(event.error)
            return False
        held, attempt.held = b"".join(attempt.held), []
        self._tell_end(held)
        return True

    def _follow_up(self, event: Took) -> None:
        """On the relay what comes behind the end is told."""
        if self.attempt.prepared.relay:
            self._write(event.out)

    def _linger_ended(self, _: Event) -> None:
        if self.attempt.prepared.relay:
            self._write(self._last_frames())
            self._finish()
        self._over()

    def _missed_ended(self, _: Event) -> None:
        translator = self.attempt.translator
        assert translator.failure is not None
        self._unsaid(translator.failure, heard=translator.answered)

    def _finish(self) -> None:
        """End the client's stream, with the full ledger if it asked for that."""
        if self._replies.full_report and not self.attempt.prepared.relay:
            self._do(Write(report_comment(self._account.record.losses)))
        self._do(End())

    def _keep_alive(self, _: Due) -> None:
        attempt = self._attempt
        if attempt is not None and attempt.lane is Lane.STREAM and self.told is not Told.ALL:
            self._open()
            self._do(Write(attempt.heartbeat))

    # Ends that are none.

    def _unsaid(self, failure: Failure, *, heard: bool = False) -> None:
        """An answer failed before the client was told anything of it.

        `heard` says that there was content before the failure, which therefore is no refusal of the request.
        """
        self._note_translator()
        missed = Missed(failure=self._replies.blamed(failure))
        if heard or self.told is Told.CONTENT:
            self._miss(missed)
        else:
            self._relieve(missed, failure)

    def _failed(self, event: Failed) -> None:
        if event.stalled and self.told in (Told.STATUS, Told.CONTENT):
            # It was the client that stood still, and it would not read an error either.
            self._note_translator()
            failure = reply_parts.failure_of(event.error)
            self._do(Settle({"failure": failure.kind.value if failure is not None else ""}), Abort())
            self._over()
        else:
            self._fail(event.error)

    def _fail(self, error: DragomanError) -> None:
        """Something broke."""
        failure = reply_parts.failure_of(error)
        if failure is None:
            if self.told is Told.NOTHING:
                # The client's own words could not be translated: the library says where.
                failure = translate_failure(error, target=self._asked.api_path.protocol).failure
            else:
                failure = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=str(error))
        self._miss(Missed(failure=failure or EMPTY, final=isinstance(error, NotKept)))

    def _miss(self, missed: Missed) -> None:
        """An attempt has failed: the next target may do better, unless the client has heard something of an answer."""
        if self.told is Told.CONTENT or not self._try_next():
            self._tell_failure(missed)

    def _tell_failure(self, missed: Missed) -> None:
        attempt = self._attempt
        headers = attempt.headers if attempt is not None else []
        if self.told is Told.NOTHING:
            if missed.answer is not None:
                self._note_losses()
                self._respond(self._replies.refusal(self.attempt.prepared, missed.answer))
            else:
                self._respond(self._replies.failure(missed.failure, headers, final=missed.final))
        elif self.told is not Told.ALL:
            self._break_off(missed.failure)
        self._over()

    def _break_off(self, failure: Failure) -> None:
        """End the client's stream in its own error form."""
        attempt = self.attempt
        if self.state in (State.SETTLING, State.STORING):
            # The translator has told the end, which nobody has heard.
            held, out = b"", self._memory.lost(b"".join(attempt.held), failure)
        elif attempt.is_heard:
            held, out = b"".join(attempt.held), attempt.error_form or attempt.translator.fail(failure)
            failure = attempt.translator.failure or failure
            if self._memory.kept_answer is not None and self.told is Told.CONTENT:
                self._do(Keep(out, at_last=True))
        else:
            held, out = b"", self._replies.failed_stream(attempt.prepared, failure)
        self._note_translator()
        self._do(Settle({"failure": failure.kind.value}))
        self._write(held)
        self._write(self._clean(out))
        self.told = Told.ALL
        self._do(End())

    def _gone(self, event: Gone) -> None:
        """The client went away, or the gateway is stopping under it."""
        self._note_translator()
        status = self._account.record.status
        if not event.stopping:
            self._do(Settle({"status": status or GONE, "failure": "cancelled"}))
        elif self.told is Told.NOTHING:
            failure = reply_parts.failure_of(NotKept()) if self._memory.gave_up else None
            headers = self._attempt.headers if self._attempt is not None else []
            reply = self._replies.failure(failure or _SHUTTING_DOWN, headers, final=failure is not None)
            self._respond(replace(reply, noted={**reply.noted, "failure": "shutdown"}))
        elif self.told is not Told.ALL:
            self._do(Settle({"failure": "shutdown"}))
            self._break_off(_SHUTTING_DOWN)
        self._over()

    def _nothing(self, _: Event) -> None:
        """Nothing comes of it."""

    # What several of them do.

    def _respond(self, reply: Reply) -> None:
        if self.told is Told.NOTHING:
            self._do(Settle(reply.noted), Respond(reply.status, reply.headers, reply.body))
        else:
            # The status is out, and this is a stream that came as a whole.
            self._do(Settle({**reply.noted, "status": 200}), Write(reply.body), End())
        self.told = Told.ALL

    def _note_translator(self) -> None:
        """Keep what a stream told beside its text."""
        if self._attempt is not None and self._attempt.is_heard:
            self._account.note(**self._heard())

    def _heard(self) -> dict[str, object]:
        translator, translated = self.attempt.translator, self.attempt.prepared.translated
        return {"usage": translator.usage, "losses": (*translated.losses, *translator.losses)}

    def _clean(self, out: bytes) -> bytes:
        return self._service.redactor(self.attempt.target.provider).clean(out)

    def _write(self, data: bytes) -> None:
        if data:
            self._do(Write(data))

    def _over(self) -> None:
        self.state = State.OVER
        self._do(HangUp())


def _readable(work: Callable[[], object]) -> object:
    try:
        return work()
    except DragomanError:
        raise BadAnswer(_UNREADABLE) from None


_DONE: dict[State, Callable[[Machine, Done], None]] = {
    State.READING: Machine._read,
    State.RECALLING: Machine._recalled,
    State.PREPARING: Machine._prepared,
    State.RESERVING: Machine._reserved,
    State.LEAVING: Machine._left,
    State.FOLLOWING: Machine._followed,
    State.CALLING: Machine._called,
    State.REFUSED: Machine._refused,
    State.RELIEVING: Machine._relieved,
    State.GATHERING: Machine._gathered,
    State.JUDGING: Machine._judged,
    State.TRANSLATING: Machine._translated,
    State.COLLECTING: Machine._collected,
    State.FEEDING: Machine._fed,
    State.CLOSING: Machine._closed,
    State.NAMING: Machine._named,
    State.KEEPING: Machine._was_kept,
    State.RESUMING: Machine._resumed,
    State.CONTINUING: Machine._continued,
    State.READING_ON: Machine._read_on,
    State.HEARING: Machine._ended,
    State.MISSED: Machine._missed_ended,
    State.SETTLING: Machine._ended_settling,
    State.ENDING: Machine._linger_ended,
}
_FAILED: dict[State, Callable[[Machine, Failed], None]] = {
    **dict.fromkeys(_DONE, Machine._failed),
    State.HEARING: Machine._broke,
    State.MISSED: Machine._missed_ended,
    State.SETTLING: Machine._ended_settling,
    State.ENDING: Machine._linger_ended,
}
_TOOK: dict[State, Callable[[Machine, Took], None]] = {
    State.HEARING: Machine._took,
    State.MISSED: Machine._nothing,
    State.SETTLING: Machine._hold,
    State.ENDING: Machine._follow_up,
    State.OVER: Machine._nothing,
}
_KEPT: dict[State, Callable[[Machine, Kept], None]] = {
    State.SETTLING: Machine._settled,
    State.STORING: Machine._stored,
    # Whoever waited for it has gone.
    State.OVER: Machine._nothing,
}
# What is done when an event comes in a state; of the rest there is none.
MOVES: dict[tuple[State, type[Event]], Callable[..., None]] = {
    (State.FRESH, Begin): Machine._begin,
    (State.FRESH, Resume): Machine._resume,
    **{(state, Done): move for state, move in _DONE.items()},
    **{(state, Failed): move for state, move in _FAILED.items()},
    **{(state, Took): move for state, move in _TOOK.items()},
    **{(state, Kept): move for state, move in _KEPT.items()},
    (State.FRESH, Failed): Machine._failed,
    **{(state, Due): Machine._keep_alive for state in State},
    **{(state, Gone): Machine._gone for state in State},
    **{(State.OVER, event): Machine._nothing for event in (Done, Failed, Due, Gone)},
}
