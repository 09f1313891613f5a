"""Moves of an exchange with a stream for a client that asked for one."""

from __future__ import annotations

from dragoman.errors import Truncated
from dragoman.gateway.exchange.attempt import (
    ResponseMode,
)
from dragoman.gateway.exchange.call_transitions import CallTransitions
from dragoman.gateway.exchange.events_commands import (
    AwaitOwner,
    AwaitStored,
    CountUsage,
    Done,
    End,
    ExchangeEvent,
    HangUp,
    HeartbeatDue,
    Limit,
    OwnerKnown,
    Stored,
    StoreStreamed,
    Translated,
    WaitFailed,
    Write,
)
from dragoman.gateway.exchange.failure_transitions import EMPTY
from dragoman.gateway.exchange.full_response import report_comment
from dragoman.gateway.exchange.states import SentState, State
from dragoman.gateway.exchange.timeouts import LimitPhase, Overstayed
from dragoman.gateway.stored_responses.response_writer import parted
from dragoman.model.failure import Failure, FailureKind
from dragoman.protocols.registry import codec_of
from dragoman.routing.attempt_outcome import AttemptOutcome

_NATIVE_FAILURE = b"response.failed"
_NO_EVENTS = Failure(
    kind=FailureKind.BAD_GATEWAY, status=502, message="the provider sent nothing but blank lines and comments"
)
# Members of an enumeration are slow to find, and these are looked for in every stream.
_CONTENT, _ALL, _ENDING, _FINALIZING = SentState.CONTENT, SentState.ALL, State.ENDING, State.FINALIZING
_ANSWERED, _LINGERING = AttemptOutcome.ANSWERED, Limit(LimitPhase.ENDING)


class StreamTransitions(CallTransitions):
    """A stream that is told as it comes; its last frames when what they hold is kept."""

    # Whether it is being counted what the answer took, before all is known of it.
    _is_counting = False

    def _stream_translated(self, event: Translated) -> None:
        """Everything but the plain flow: the first content, the end, failures."""
        attempt, out = self.attempt, event.out
        translator = attempt.translator
        if (failure := translator.failure) is not None:
            self._builder.update(failure=failure.kind.value)
            out = self._clean_failed(out)
            if self.sent is not _CONTENT and self._is_missed(failure, out):
                self.state = State.MISSED
                self._do(HangUp())
                return
        if self.sent is not _CONTENT:
            if not translator.is_past_opening or self._storage.recording_owner is not None:
                attempt.hold(out)
                if translator.is_past_opening:
                    # Its id is told only when it is known whose it is.
                    self._do(AwaitOwner())
                elif attempt.held_size > self._runtime.settings.limits.stream_event:
                    self._overflow(event.now)
                return
            self._commit(event.now)
        if not translator.finished:
            self._write(out)
            return
        self._end_with(out)
        if translator.cut_short:
            self._do(HangUp())
        else:
            self._do(_LINGERING)

    def _overflow(self, now: float) -> None:
        """Hold no more of a stream without content: its opening goes out; blank lines and comments are no answer."""
        attempt = self.attempt
        if attempt.translator.started is not None:
            self._commit(now)
            return
        attempt.held = []
        attempt.error_form = attempt.translator.fail(_NO_EVENTS)
        self.state = State.MISSED
        self._do(HangUp())

    def _is_missed(self, failure: Failure, out: bytes) -> bool:
        """Whether a failure of which nobody has heard is no answer; one that is goes on if nothing else can be done."""
        attempt = self.attempt
        is_native = self._is_native(failure, b"".join([*attempt.held, out]))
        curable = not attempt.translator.answered and attempt.remedy(failure) is not None
        if is_native and not curable and not self._may_go_on(failure):
            return False
        attempt.error_form, attempt.is_native_failure = out, is_native and not curable
        return True

    def _owner_known(self, event: OwnerKnown) -> None:
        held = self.attempt.held
        if self.sent is not _CONTENT and self.attempt.translator.is_past_opening:
            out, self.attempt.held = b"".join(held), []
            self._stream_translated(Translated(out, event.now))

    def _is_native(self, failure: Failure, out: bytes) -> bool:
        """Whether the provider told its failure as a whole answer of the client's own protocol, which is relayed."""
        # Of bytes that nobody can read the translator makes such an answer too, which has no name of the provider's.
        own = failure.kind is not FailureKind.BAD_GATEWAY or bool(failure.native)
        return own and self.attempt.prepared.relay and _NATIVE_FAILURE in out

    def _commit(self, now: float) -> None:
        """Tell the first content, behind what was held."""
        attempt = self.attempt
        self._open(first=now)
        self.sent = _CONTENT
        attempt.first = now
        self._runtime.routing_state.record_content_start(attempt.target, attempt.permit, now)
        if attempt.held:
            held, attempt.held = b"".join(attempt.held), []
            self._write(held)

    def _end_with(self, out: bytes) -> None:
        """Tell the last frames, if what they hold need not be kept, or counted; else as soon as it is."""
        attempt = self.attempt
        if attempt.translator.answered and attempt.lacks_counts:
            attempt.held, self._is_counting = [out], True
            self.state = State.FINALIZING
            self._do(CountUsage(attempt.counting))
            return
        if self._storage.writer is None:
            self._send_end(out)
            self.state = _ENDING
            if not self.attempt.prepared.relay:
                # Nothing that still comes is for the client; only the provider's connection may end well.
                self._finish()
            return
        # What says nothing of its end is no news that must be kept first; its error form needs a beginning, too.
        before, last = parted(out)
        self._write(before)
        self.attempt.held = [last]
        self.state = _FINALIZING
        self._do(StoreStreamed(last))

    def _send_end(self, out: bytes) -> None:
        """All is known before the client knows its answer complete."""
        self._cache_turn()
        failed = self.attempt.translator.failure
        self._finalize(_ANSWERED if failed is None else self.attempt.kind_of(failed), self._stream_changes())
        self._write(out)
        self.sent = _ALL

    def _ended(self, _: Done) -> None:
        """The provider has ended its stream: its answer is complete, or paused."""
        translator = self.attempt.translator
        if translator.paused:
            self._go_on(translator.resume or ())
        else:
            self._close()

    def _broke(self, event: WaitFailed) -> None:
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
            self._builder.update(failure=failure.kind.value)
            out = self._clean_failed(out)
        if self.sent is not _CONTENT:
            if failure is not None or not attempt.translator.is_past_opening:
                attempt.error_form = out
                self._fail_unsent(failure or EMPTY, has_content=attempt.translator.answered)
                return
            self._commit(self._runtime.clock())
        self._end_with(out)
        if self.state is _FINALIZING:
            self._wait(State.STORING, AwaitStored())
        else:
            if attempt.prepared.relay:
                self._finish()
            self._over()

    def _last_frames(self) -> bytes:
        translator = self.attempt.translator
        out = translator.close()
        return out if translator.is_closed_ahead else self._as_sent(out)

    def _hold(self, event: Translated) -> None:
        """What comes behind the last frames belongs to them."""
        # Whatever comes behind the end was not looked at.
        self.attempt.held.append(self._clean(event.out))

    def _ended_finalizing(self, _: ExchangeEvent) -> None:
        """That the provider ends, or breaks off, does no harm to an answer that is complete."""
        self.attempt.held.append(self._last_frames())
        self._wait(State.STORING, AwaitStored())

    def _finalized(self, event: Stored) -> None:
        """The store has taken the answer, or it is known what that took, while the provider has not ended."""
        if self._is_counting:
            self._was_counted()
            return
        if not self._send_if_stored(event):
            return
        self.state = _ENDING
        if not self.attempt.prepared.relay:
            self._finish()

    def _was_counted(self) -> None:
        self._is_counting = False
        held, self.attempt.held = b"".join(self.attempt.held), []
        self._end_with(held)

    def _stored(self, event: Stored) -> None:
        if self._is_counting:
            self._was_counted()
            if self.state is State.FINALIZING:
                # Who waits for one goes on to wait for the other.
                self.state = State.STORING
                return
            if self.attempt.prepared.relay:
                self._finish()
            self._over()
            return
        if self._send_if_stored(event):
            self._finish()
            self._over()

    def _send_if_stored(self, event: Stored) -> bool:
        attempt = self.attempt
        if event.error is not None:
            self._fail(event.error)
            return False
        held, attempt.held = b"".join(attempt.held), []
        self._send_end(held)
        return True

    def _follow_up(self, event: Translated) -> None:
        """On the relay what comes behind the end is told."""
        if self.attempt.prepared.relay:
            self._write(self._clean(event.out))

    def _linger_ended(self, _: ExchangeEvent) -> None:
        if self.attempt.prepared.relay:
            self._write(self._last_frames())
            self._finish()
        self._over()

    def _missed_ended(self, _: ExchangeEvent) -> None:
        translator = self.attempt.translator
        assert translator.failure is not None
        self._fail_unsent(translator.failure, has_content=translator.answered)

    def _finish(self) -> None:
        """End the client's stream, with the full ledger if it asked for that."""
        if not self.attempt.prepared.relay and self._responses.full_report:
            self._do(Write(report_comment(self._builder.record.losses)))
        self._do(End())

    def _heartbeat_due(self, _: HeartbeatDue) -> None:
        streams = self._is_held or (self.has_attempt and self.attempt.mode is ResponseMode.STREAM)
        if self.sent is SentState.STATUS or (streams and self.sent is not _ALL):
            self._open(pending=self._is_held)
            self._do(Write(codec_of(self._client_request.api_path.protocol).heartbeat))
