"""Stream answer: a provider's stream to a client that asked for one, frame by frame.

    state      a piece of the provider's stream arrives                        a keep-alive is due
    HOLDING    opening events are held; content commits the status ─▶ FLOWING  commits ─▶ FLOWING
               an error first is a real HTTP error (S1) ─▶ raises `Unspoken`
    FLOWING    what is ready goes out in one write; the end ─▶ OVER,           the client's own heartbeat
               or SETTLING if it is to be kept and the store does not take it at once
    SETTLING   held, as the last frames are: on the relay it belongs to them   the client's own heartbeat
    OVER       on the relay what still comes belongs to the ending;            nothing
               in translation it is ignored

    SETTLING, and                   what becomes of the last frames
    the store takes the answer      they are told ─▶ OVER
    it fails, or stays busy         they are not; the stream ends in its error form ─▶ OVER
    the client hangs up             the store is tried once more
    the gateway stops               likewise; told if it took the answer, else the error form ─▶ OVER

The pieces come straight from the reading callback; nothing waits in between. A client that reads slowly pauses the
provider's socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Protocol, TypeAlias

from dragoman.errors import BadAnswer, DragomanError, Truncated
from dragoman.gateway.exchange.client import Client
from dragoman.gateway.exchange.redaction import Redactor
from dragoman.gateway.exchange.time_limits import Overstayed, TimeLimits
from dragoman.gateway.exchange.whole_answer import report_comment
from dragoman.gateway.records.account import Account
from dragoman.gateway.stored_responses.kept_answer import parted
from dragoman.http.flight import Flight, HeaderList
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.order import Unframer
from dragoman.streaming import StreamTranslator

_NATIVE_FAILURE = b"response.failed"
EMPTY = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="the provider's answer was empty")


# Asks the provider to go on from these blocks.
Again: TypeAlias = Callable[[tuple[JsonObject, ...]], Awaitable[tuple[Flight, Unframer | None]]]


class AnswerState(Enum):
    """Where the client's answer stands."""

    HOLDING = "holding"
    FLOWING = "flowing"
    SETTLING = "settling"
    OVER = "over"


class Keeper(Protocol):
    """Who writes an answer down before its client knows its end."""

    def keep_now(self, frames: bytes, *, at_last: bool = False) -> bool:
        """Write down the answer that the last frames hold, without waiting; whether that is done."""
        ...

    async def settle(self, frames: bytes) -> None:
        """Write it down as soon as that can be done; raises if it cannot."""
        ...

    def lost(self, frames: bytes, failure: Failure) -> bytes:
        """The end of the stream in its error form, in place of these frames."""
        ...


class Unspoken(DragomanError):
    """The provider failed before the client was told anything: it gets the failure as an HTTP error.

    `heard` says that there was content before the failure, which therefore is no refusal of the question.
    """

    def __init__(self, failure: Failure, *, heard: bool = False) -> None:
        self.failure = failure
        self.heard = heard
        super().__init__(failure.message)


class Cut(DragomanError):
    """The client's answer is complete before the provider's; its call is ended."""


class StreamAnswer:
    """One streamed answer on its way to the client."""

    def __init__(
        self,
        client: Client,
        translator: StreamTranslator,
        headers: HeaderList,
        *,
        relay: bool,
        redactor: Redactor,
        account: Account,
        time_limits: TimeLimits,
        clock: Callable[[], float],
        unframer: Unframer | None = None,
        changed: Callable[[bytes], bytes] | None = None,
        keeper: Keeper | None = None,
        report: bool = False,
        limit: int | None = None,
        curable: Callable[[Failure], bool] = lambda _: False,
    ) -> None:
        self._client = client
        self._translator = translator
        self._feed = translator.feed if changed is None else lambda chunk: changed(translator.feed(chunk))
        # What becomes of frames before they are told.
        self._changed = changed
        # Gets the last frames before the client does.
        self._keeper = keeper
        # Whether the full ledger follows the last frame.
        self._report = report
        self._headers = headers
        self._relay = relay
        self._redactor = redactor
        self._account = account
        self._time_limits = time_limits
        self._clock = clock
        self._heartbeat = translator.heartbeat
        self._unframer = unframer
        # How many bytes may still come of an answer that is gathered on its way.
        self._room = limit
        # Whether another question may be answered where this one failed.
        self._curable = curable
        self._held: list[bytes] = []
        self.state = AnswerState.HOLDING

    async def tell(self, flight: Flight, again: Again) -> None:
        """Hand on the whole stream; `again` resumes one that paused."""
        client, time_limits = self._client, self._time_limits
        time_limits.alive = self._keep_alive
        try:
            await self._hear_all(flight, again)
            if self.state is AnswerState.SETTLING:
                await self._settle()
        finally:
            client.on_pause = client.on_resume = None
            time_limits.alive = None
        self._finish()

    async def _hear_all(self, flight: Flight, again: Again) -> None:
        translator = self._translator
        try:
            await self._hear(flight)
            while translator.paused:
                flight, self._unframer = await again(translator.resume or ())
                translator.go_on()
                await self._hear(flight)
            self._close()
        except (Cut, Overstayed, Truncated):
            # Whether the story of a cut stream was complete is the translator's to say (S10).
            self._close()
        except DragomanError:
            # Whatever comes behind the last frame does no harm to an answer that is complete.
            if self.state is not AnswerState.SETTLING:
                raise

    async def _hear(self, flight: Flight) -> None:
        client = self._client
        client.on_pause, client.on_resume = flight.pause, flight.resume
        if client.paused:
            flight.pause()
        self._time_limits.hearing()
        try:
            await flight.pump(self.take)
            if self._unframer is not None:
                self.take(self._unframer.close(), framed=True)
            told = self._translator.call_ended()
            if told:
                self._took(told, self._clock())
        except Truncated:
            # A turn that paused has said all it had to say.
            if not self._translator.paused:
                raise

    def take(self, chunk: bytes, *, framed: bool = False) -> None:
        """Take what the provider sent, from the reading callback."""
        now = self._time_limits.heard = self._clock()
        if self._unframer is not None and not framed:
            chunk = self._unframer.feed(chunk)
        if self._room is not None:
            self._room -= len(chunk)
            if self._room < 0:
                raise BadAnswer("the provider's answer is larger than the limit")
        self._took(self._feed(chunk), now)

    def _took(self, out: bytes, now: float) -> None:
        translator = self._translator
        if self.state is AnswerState.FLOWING and not translator.finished:
            if out:
                self._time_limits.told = now
                self._client.write(out)
            return
        self._turn(out, now)

    def fail(self, failure: Failure) -> None:
        """End the client's stream in its own error form; before anything was said this is an HTTP error."""
        if self.state is AnswerState.SETTLING and self._keeper is not None:
            # The translator has told the end, which nobody has heard.
            self._note(failure)
            out = self._keeper.lost(b"".join(self._held), failure)
        else:
            out = self._translator.fail(failure)
            self._note(self._translator.failure or failure)
            if self.state is AnswerState.HOLDING:
                raise Unspoken(failure)
            if self._keeper is not None and self.state is AnswerState.FLOWING:
                self._keeper.keep_now(out, at_last=True)
        self._account.settle()
        self._write(self._redactor.clean(out))
        self.state = AnswerState.OVER
        self._client.end()

    def _turn(self, out: bytes, now: float) -> None:
        """Everything but the plain flow: the first content, the end, failures."""
        translator, failure = self._translator, self._translator.failure
        if failure is not None and self.state is not AnswerState.OVER:
            self._note(failure)
            out = self._redactor.clean(out)
            if self.state is AnswerState.HOLDING and (self._is_curable(failure) or not self._is_native(failure, out)):
                raise Unspoken(failure, heard=translator.answered)
        if self.state is AnswerState.HOLDING:
            if not translator.speaking:
                if out:
                    self._held.append(out)
                return
            self._commit(now)
        if not translator.finished or self.state is not AnswerState.FLOWING:
            self._go_on(out)
            return
        if self._end_with(out) and not self._relay:
            # Nothing that still comes is for the client; only the provider's connection may end well.
            self._finish()
        if translator.cut_short:
            raise Cut
        self._time_limits.ending()

    def _go_on(self, out: bytes) -> None:
        """Tell what is ready, or hold it with the last frames."""
        if self.state is AnswerState.SETTLING:
            self._held.append(out)
        else:
            self._write(out)

    def _end_with(self, out: bytes) -> bool:
        """Tell the last frames, if what they hold is kept or need not be; whether that is so."""
        if self._keeper is None or self._keeper.keep_now(out):
            self._settle_account()
            self._write(out)
            self.state = AnswerState.OVER
            return True
        # What says nothing of its end is no news that must be kept first; its error form needs a beginning, too.
        said, last = parted(out)
        self._write(said)
        self._held = [last]
        self.state = AnswerState.SETTLING
        return False

    async def _settle(self) -> None:
        """Tell the last frames as soon as what they hold is kept."""
        assert self._keeper is not None
        self._time_limits.settling()
        frames = b"".join(self._held)
        try:
            await self._keeper.settle(frames)
        except asyncio.CancelledError:
            if self._keeper.keep_now(frames, at_last=True):
                self._tell_held(frames)
                self._finish()
            raise
        self._tell_held(frames)

    def _tell_held(self, frames: bytes) -> None:
        self._held = []
        self._settle_account()
        self._write(frames)
        self.state = AnswerState.OVER

    def _is_curable(self, failure: Failure) -> bool:
        return not self._translator.answered and self._curable(failure)

    def _is_native(self, failure: Failure, out: bytes) -> bool:
        """Whether the provider told its failure as a whole answer of the client's own protocol, which is relayed."""
        # Of bytes that nobody can read the translator makes such an answer too, which has no name of the provider's.
        own = failure.kind is not FailureKind.BAD_GATEWAY or bool(failure.native)
        return own and self._relay and _NATIVE_FAILURE in out

    def _commit(self, now: float) -> None:
        """From here on the status is 200."""
        self._account.note(status=200, first=now)
        self.state = AnswerState.FLOWING
        self._client.start(200, self._headers)
        held, self._held = b"".join(self._held), []
        self._write(held)

    def _close(self) -> None:
        """The provider's side is over: end the client's as its protocol demands."""
        out = self._translator.close()
        if self._changed is not None:
            out = self._changed(out)
        failure = self._translator.failure
        if failure is not None:
            self._note(failure)
            out = self._redactor.clean(out)
        if self.state is AnswerState.HOLDING:
            if failure is not None or not self._translator.speaking:
                raise Unspoken(failure or EMPTY, heard=self._translator.answered)
            self._commit(self._clock())
        if self.state is AnswerState.FLOWING:
            self._end_with(out)
        else:
            self._go_on(out)

    def _finish(self) -> None:
        if not self._client.ended:
            if self._report:
                self._client.write(report_comment(self._account.record.losses))
            self._client.end()

    def _settle_account(self) -> None:
        """All is known before the client knows its answer complete."""
        translator, losses = self._translator, self._account.record.losses
        self._account.settle(usage=translator.usage, losses=(*losses, *translator.losses))

    def _keep_alive(self) -> None:
        if self.state is AnswerState.HOLDING:
            self._commit(self._clock())
        if self.state is AnswerState.FLOWING or self.state is AnswerState.SETTLING:
            self._client.write(self._heartbeat)

    def _note(self, failure: Failure) -> None:
        self._account.note(failure=failure.kind.value)

    def _write(self, data: bytes) -> None:
        if data:
            self._client.write(data)
