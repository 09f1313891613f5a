"""Delivery of a stream to a client that wants one: a small state machine, because its events come by callback.

A chunk goes from the provider's read callback through the translator to one write, without a task switch. The table
is what runs (`_ON_CHUNK`, `_stored`, `_ON_END`):

    phase       a chunk came                     the store is done               the provider ended, or broke off
    STREAMING   held until there is content,     –                               complete ─▶ OVER, STORING;
                then written; the last frame                                     paused ─▶ Paused;
                ─▶ ENDING, FINALIZING; a                                         nothing was sent: Unsent
                failure before content ─▶
                FAILED
    FAILED      ignored                          –                               Unsent
    FINALIZING  held behind the last frames      last frames sent ─▶ ENDING      ─▶ STORING
    STORING     –                                last frames sent ─▶ OVER        –
    ENDING      written on the relay             –                               ─▶ OVER
    OVER        ignored                          ignored                         –

The store is written before the last frames are sent, if the response is stored. Missing token counts are estimated
first. While nothing but the opening was received, nothing is sent, and another target may still be tried.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from enum import IntEnum

from dragoman.errors import DragomanError, Oversized, Truncated, bare
from dragoman.gateway.exchange.attempt import PreparedAttempt
from dragoman.gateway.exchange.client_responses import SentState
from dragoman.gateway.exchange.exchange import Exchange, Paused, Unsent
from dragoman.gateway.exchange.failing import EMPTY, failed, may_go_on, send_failure, unsent
from dragoman.gateway.exchange.full_response import report_comment
from dragoman.gateway.exchange.large_events import LargeEvents
from dragoman.gateway.exchange.response_reader import TOO_LARGE, HungUp
from dragoman.gateway.exchange.timeouts import Overstayed
from dragoman.gateway.exchange.usage_estimate import Passed
from dragoman.gateway.stored_responses.response_writer import parted
from dragoman.http.upstream_call import UpstreamCall
from dragoman.model.failure import Failure, FailureKind
from dragoman.providers.transport_interface import Unframer
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.streaming import Flow, StreamPipeline

_NATIVE_FAILURE = b"response.failed"
_NO_EVENTS = Failure(
    kind=FailureKind.BAD_GATEWAY, status=502, message="the provider sent nothing but blank lines and comments"
)
# Bytes that a stream may hold before it is charged, and from then on between two charges.
_UNCHARGED = 1024 * 1024
# Bytes of plain content that pass without a check of the buffer.
_UNLOOKED = 64 * 1024


class Phase(IntEnum):
    """The phase of a stream."""

    STREAMING = 1
    FAILED = 2
    FINALIZING = 3
    STORING = 4
    ENDING = 5
    OVER = 6


# Members of an enumeration are slow to find, and these are looked for with every chunk.
_STREAMING, _FINALIZING, _ENDING, _OVER = Phase.STREAMING, Phase.FINALIZING, Phase.ENDING, Phase.OVER
_CONTENT, _ALL = SentState.CONTENT, SentState.ALL
_BROUGHT_CONTENT, _BROUGHT_END = Flow.CONTENT, Flow.OVER


class StreamDelivery:
    """One stream of one attempt, also through pauses."""

    def __init__(self, exchange: Exchange, attempt: PreparedAttempt, translator: StreamPipeline) -> None:
        self.exchange = exchange
        self.attempt = attempt
        self.translator = translator
        self.phase = _STREAMING
        # Chunks on their way to the translator, while the provider is read.
        self.events: LargeEvents | None = None
        # Bytes that are charged to the key's budget.
        self.charged = 0
        # Bytes of content that may pass from `_take` to the client: none unless the last chunk was content.
        self._flowing: float = 0
        self._may_flow = False
        self._limits, self._client = exchange.limits, exchange.client
        self._pass_content = translator.pass_content
        chunks: list[bytes] = []
        self._flowed = chunks.append
        self._is_relay = attempt.prepared.relay
        self._passed = Passed()
        self._unframer: Unframer | None = None
        # A relayed stream is collected nowhere.
        limit = exchange.runtime.settings.limits.response_body
        self._max_bytes: float = math.inf if self._is_relay else limit
        self._clock = exchange.runtime.clock
        self._is_counting = False
        self._has_hung_up = False
        # The write of the response's owner, before which its id is not sent.
        self._owner_recording: asyncio.Future[bool] | None = None

    @property
    def is_finalizing(self) -> bool:
        """Whether the last frames wait for the store or a token count."""
        return self.phase in (_FINALIZING, Phase.STORING)

    @property
    def is_lingering(self) -> bool:
        """Whether the response is complete and its provider has not ended yet."""
        return self.phase is _ENDING

    async def deliver(self, call: UpstreamCall) -> Unsent | Paused | None:
        """Deliver the stream of a call."""
        try:
            await self._pump(call)
        except HungUp:
            error = None
        except DragomanError as caught:
            error = bare(caught)
        else:
            error = None
        return await _ON_END[self.phase](self, error)

    # The provider's bytes.

    async def _pump(self, call: UpstreamCall) -> None:
        exchange, translator = self.exchange, self.translator
        client, limits = exchange.client, exchange.limits
        # After a pause, what came before counts as well.
        self._max_bytes -= self._passed.size
        self._passed = self.attempt.passed = passed = Passed()
        self._flowed = passed.recent.append
        self._unframer, self._has_hung_up = self.attempt.unframer, False
        writer = exchange.storage.writer if self._is_relay else None
        # A stored stream gets other names on its way.
        self._may_flow = writer is None
        self._flowing = 0
        self.events = events = LargeEvents(
            call,
            translator,
            self._translated,
            exchange.builder.record.key,
            limits,
            writer=writer,
            is_held=self._is_held_up,
        )
        client.on_pause, client.on_resume = self._slowed, events.resume
        if client.paused:
            call.pause()
        limits.alive = exchange.heartbeat_due
        if translator.is_past_opening:
            limits.reading(stream=True)
            passed.content_began()
        else:
            limits.opening()
        try:
            await events.pump(self._take if self._unframer is None else self._take_framed)
            if (unframer := self._unframer) is not None:
                self._unframer = None
                self._take(unframer.close())
                await events.wait_delivered()
            out = await events.run(translator.call_ended, translator.held)
            if out:
                limits.received_at = self._clock()
                self._handle(out, self._flow())
            await self._wait_for_owner()
            await events.close_ahead()
        except DragomanError as error:
            await self._wait_for_owner()
            if isinstance(error, Truncated | Overstayed):
                await events.close_ahead()
            if translator.answered:
                await exchange.count_unfinished()
            raise
        except HungUp:
            await self._wait_for_owner()
            if translator.answered:
                await exchange.count_unfinished()
            raise
        finally:
            client.on_pause = client.on_resume = None
            self.events = None

    def _flow(self) -> Flow:
        """What the stream has delivered so far."""
        translator = self.translator
        return Flow.OVER if translator.finished else Flow.CONTENT if translator.is_past_opening else Flow.OPENING

    def _take(self, chunk: bytes) -> None:
        """Take a chunk, from the provider's read callback. One of nothing but content, the usual, passes at once."""
        now = self._clock()
        if len(chunk) < self._flowing and (out := self._pass_content(chunk)) is not None:
            self._flowing -= len(chunk)
            self._flowed(chunk)
            self._limits.content_passed(now)
            self._client.write(out)
            return
        self._flowing = 0
        self._limits.received_at = now
        passed, events = self._passed, self.events
        assert events is not None
        if passed.size + len(chunk) > self._max_bytes:
            raise Oversized(TOO_LARGE)
        passed.add(chunk)
        events.take(chunk)
        # An unfinished event, held frames, and what the end of the stream repeats.
        held = events.held + self.attempt.held_size
        if held > self.charged + _UNCHARGED:
            self.exchange.open_charge().add(held - self.charged)
            self.charged = held

    def _take_framed(self, chunk: bytes) -> None:
        """Take a chunk in a provider's own framing."""
        assert self._unframer is not None
        self._take(self._unframer.feed(chunk))

    def _translated(self, chunk: bytes, out: bytes, flow: Flow) -> None:
        """Send the translation of a chunk."""
        exchange = self.exchange
        limits = exchange.limits
        if flow >= _BROUGHT_CONTENT:
            limits.content_received()
        if self.phase is _STREAMING and exchange.sent is _CONTENT and flow is not _BROUGHT_END:
            if out:
                limits.sent_at = limits.received_at
                exchange.client.write(out)
            if flow is _BROUGHT_CONTENT and self._may_flow and self.events is not None and self.events.task is None:
                self._flowing = min(_UNLOOKED, self._max_bytes - self._passed.size)
            return
        self._passed.hold(chunk)
        self._handle(out, flow)

    def _handle(self, out: bytes, flow: Flow) -> None:
        """Everything but the plain flow of content."""
        _ON_CHUNK[self.phase](self, out, flow)
        if flow is not Flow.OPENING or (self.phase is _STREAMING and self.exchange.sent is _CONTENT):
            self._passed.content_began()
        if self._has_hung_up:
            raise HungUp

    def _slowed(self) -> None:
        """The client reads more slowly than the provider sends: the speed of the provider is unknown then."""
        self.attempt.is_slowed = True
        call = self.exchange.call
        assert call is not None
        call.pause()

    def _is_held_up(self) -> bool:
        """Whether the provider is not read on: the client is slow, or the key's budget is used up."""
        charge = self.exchange.charge
        return self.exchange.client.paused or (charge is not None and charge.is_paused)

    # The owner of a stored response.

    def _await_owner(self) -> None:
        recording = self.exchange.storage.recording_owner
        if recording is not None and recording is not self._owner_recording:
            self._owner_recording = recording
            recording.add_done_callback(self._owner_recorded)

    def _owner_recorded(self, recording: asyncio.Future[bool]) -> None:
        task = None if self.events is None else self.events.task
        if task is not None:
            # A thread has the translator now.
            task.add_done_callback(lambda _: self._owner_known(recording))
        else:
            self._owner_known(recording)

    def _owner_known(self, recording: asyncio.Future[bool]) -> None:
        if recording is not self._owner_recording:
            return
        self._owner_recording = None
        attempt = self.attempt
        if self.phase is _STREAMING and self.exchange.sent is not _CONTENT and self.translator.is_past_opening:
            out, attempt.held = b"".join(attempt.held), []
            self.exchange.limits.received_at = self._clock()
            self._stream(out, self._flow())

    async def _wait_for_owner(self) -> None:
        if self._owner_recording is not None:
            await asyncio.wait({self._owner_recording})

    # Handle a chunk.

    def _stream(self, out: bytes, flow: Flow) -> None:
        """The first content, the end, and failures."""
        exchange, attempt, translator = self.exchange, self.attempt, self.translator
        if flow is _BROUGHT_END and (failure := translator.failure) is not None:
            exchange.builder.record.failure = failure.kind.value
            out = self._clean_failed(out)
            if exchange.sent is not _CONTENT and self._is_unsent(failure, out):
                self.phase, self._has_hung_up = Phase.FAILED, True
                return
        if exchange.sent is not _CONTENT:
            if flow is Flow.OPENING or exchange.storage.recording_owner is not None:
                attempt.hold(out)
                if flow is not Flow.OPENING:
                    # The response's id is sent only when its owner is stored.
                    self._await_owner()
                elif attempt.held_size > exchange.runtime.settings.limits.stream_event:
                    self._overflow()
                return
            self._commit()
        if flow is not _BROUGHT_END:
            exchange.write(out)
            return
        self._end_with(out)
        if translator.cut_short:
            self._has_hung_up = True
        else:
            exchange.limits.ending()

    def _overflow(self) -> None:
        """Hold no more of a stream without content: its opening is sent; blank lines and comments are a failure."""
        if self.translator.started is not None:
            self._commit()
            return
        self.attempt.held = []
        self.attempt.error_form = self.translator.fail(_NO_EVENTS)
        self.phase, self._has_hung_up = Phase.FAILED, True

    def _is_unsent(self, failure: Failure, out: bytes) -> bool:
        """Whether a failure of which the client got nothing is no response that the relay passes on."""
        attempt = self.attempt
        is_native = self._is_native(failure, b"".join([*attempt.held, out]))
        is_curable = not self.translator.answered and attempt.remedy(failure) is not None
        if is_native and not is_curable and not may_go_on(self.exchange, attempt, failure):
            return False
        attempt.error_form, attempt.is_native_failure = out, is_native and not is_curable
        return True

    def _is_native(self, failure: Failure, out: bytes) -> bool:
        """Whether the provider reported its failure as a response of the client's own protocol, which is relayed."""
        # The translator makes such a response of unreadable bytes too, which has no name of the provider's.
        is_own = failure.kind is not FailureKind.BAD_GATEWAY or bool(failure.native)
        return is_own and self._is_relay and _NATIVE_FAILURE in out

    def _hold(self, out: bytes, flow: Flow) -> None:
        """Hold data after the last frames, which was not searched for secrets."""
        self.attempt.held.append(self.exchange.clean(out))

    def _write_behind(self, out: bytes, flow: Flow) -> None:
        """On the relay, send data after the end."""
        if self._is_relay:
            self.exchange.write(self.exchange.clean(out))

    def _ignore(self, out: bytes, flow: Flow) -> None:
        """Ignore a chunk of a response that has failed or is over."""

    def _commit(self) -> None:
        """Send the first content, after buffered data."""
        exchange, attempt = self.exchange, self.attempt
        now = exchange.limits.received_at
        exchange.open(first=now)
        exchange.sent = _CONTENT
        attempt.first = now
        exchange.runtime.routing_state.record_content_start(attempt.target, attempt.permit, now)
        if attempt.held:
            held, attempt.held = b"".join(attempt.held), []
            exchange.write(held)

    # The end.

    def _end_with(self, out: bytes) -> None:
        """Send the last frames, as soon as tokens are counted and the response is stored, where either is needed."""
        exchange, attempt = self.exchange, self.attempt
        if self.translator.answered and attempt.lacks_counts():
            attempt.held, self._is_counting = [out], True
            self.phase = _FINALIZING
            counting = asyncio.ensure_future(exchange.count(attempt, attempt.counting))
            exchange.watch(counting, self._stored)
            return
        if exchange.storage.writer is None:
            self._send_end(out)
            self.phase = _ENDING
            if not self._is_relay:
                # Nothing that still comes is for the client; only the provider's connection may end well.
                self._finish()
            return
        # Frames before the end need not wait for the store; the error form needs a beginning, too.
        before, last = parted(out)
        exchange.write(before)
        attempt.held = [last]
        self.phase = _FINALIZING
        exchange.store_streamed(last, self._stored)

    def _send_end(self, out: bytes) -> None:
        """Finalize the record, then send the last frames."""
        exchange, attempt, failure = self.exchange, self.attempt, self.translator.failure
        if attempt.fold is not None:
            exchange.cache_turn(attempt)
        outcome = AttemptOutcome.ANSWERED if failure is None else attempt.kind_of(failure)
        exchange.record_stream()
        exchange.finalize(outcome)
        exchange.write(out)
        exchange.sent = _ALL

    def _finish(self) -> None:
        """End the client's stream, with the full ledger if it wants that."""
        exchange = self.exchange
        if not self._is_relay and exchange.responses.has_full_report():
            exchange.write(report_comment(exchange.builder.record.losses))
        exchange.client.end()

    def _last_frames(self) -> bytes:
        translator, named = self.translator, self.exchange.renamed_frames(self.attempt)
        out = translator.close()
        return out if named is None or translator.is_closed_ahead else named(out)

    def _clean_failed(self, out: bytes) -> bytes:
        """Frames of a failed stream without secrets; the translator's frames were searched already."""
        failure = self.translator.failure
        is_native = failure is not None and (failure.kind is not FailureKind.BAD_GATEWAY or bool(failure.native))
        return self.exchange.clean(out) if self._is_relay and is_native else out

    # The store is done.

    def _stored(self, error: DragomanError | None) -> None:
        """Tokens are counted, or the store has taken the response, or has failed to."""
        if self.exchange.is_over or not self.is_finalizing:
            return
        attempt, has_ended = self.attempt, self.phase is Phase.STORING
        if self._is_counting:
            self._is_counting = False
            held, attempt.held = b"".join(attempt.held), []
            self._end_with(held)
            if self.phase is _FINALIZING:
                # The store is next.
                self.phase = Phase.STORING if has_ended else _FINALIZING
                return
            if has_ended:
                if self._is_relay:
                    self._finish()
                self.phase = _OVER
            return
        if error is not None:
            missed = failed(self.exchange, error)
            if missed is not None:
                self.exchange.end_call(missed.kind)
                send_failure(self.exchange, missed)
            self.phase, self._has_hung_up = _OVER, True
            return
        held, attempt.held = b"".join(attempt.held), []
        self._send_end(held)
        self.phase = _OVER if has_ended else _ENDING
        if has_ended or not self._is_relay:
            self._finish()

    # The provider ended, or broke off.

    async def _ended(self, error: DragomanError | None) -> Unsent | Paused | None:
        """The stream is complete, paused or broken; the translator knows which (S10)."""
        if error is not None and not isinstance(error, Truncated | Overstayed):
            raise error
        if self.translator.paused and not isinstance(error, Overstayed):
            return Paused(self.translator.resume or ())
        exchange, attempt, translator = self.exchange, self.attempt, self.translator
        out = self._last_frames()
        failure = translator.failure
        if failure is not None:
            exchange.builder.record.failure = failure.kind.value
            out = self._clean_failed(out)
        if exchange.sent is not _CONTENT:
            if failure is not None or not translator.is_past_opening:
                attempt.error_form = out
                return unsent(exchange, attempt, failure or EMPTY, has_content=translator.answered)
            exchange.limits.received_at = self._clock()
            self._commit()
        self._end_with(out)
        if self.phase is _FINALIZING:
            self.phase = Phase.STORING
            await exchange.await_stored()
        else:
            if self._is_relay:
                self._finish()
            self.phase = _OVER
        return None

    async def _ended_failed(self, error: DragomanError | None) -> Unsent:
        failure = self.translator.failure
        assert failure is not None
        return unsent(self.exchange, self.attempt, failure, has_content=self.translator.answered)

    async def _ended_finalizing(self, error: DragomanError | None) -> None:
        """An end or break of the provider's stream does not harm a complete response."""
        self.attempt.held.append(self._last_frames())
        self.phase = Phase.STORING
        await self.exchange.await_stored()

    async def _ended_lingering(self, error: DragomanError | None) -> None:
        if self._is_relay:
            self.exchange.write(self._last_frames())
            self._finish()
        self.phase = _OVER

    async def _ended_over(self, error: DragomanError | None) -> None:
        """Nothing is left to do."""


_ON_CHUNK: dict[Phase, Callable[[StreamDelivery, bytes, Flow], None]] = {
    Phase.STREAMING: StreamDelivery._stream,
    Phase.FAILED: StreamDelivery._ignore,
    Phase.FINALIZING: StreamDelivery._hold,
    Phase.ENDING: StreamDelivery._write_behind,
    Phase.OVER: StreamDelivery._ignore,
}
_ON_END: dict[Phase, Callable[[StreamDelivery, DragomanError | None], Awaitable[Unsent | Paused | None]]] = {
    Phase.STREAMING: StreamDelivery._ended,
    Phase.FAILED: StreamDelivery._ended_failed,
    Phase.FINALIZING: StreamDelivery._ended_finalizing,
    Phase.ENDING: StreamDelivery._ended_lingering,
    Phase.OVER: StreamDelivery._ended_over,
}
