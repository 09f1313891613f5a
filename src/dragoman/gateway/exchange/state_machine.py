"""The exchange as a machine: events in, commands out, no I/O (decision 23).

    state         waits for                             done ─▶
    FRESH         a client                              READING; CALLING if it was understood before
    READING       the body looked at                    RESOLVING, for the first target; PREPARING if it can refer to
                                                        nothing, and lacks nothing; CHOOSING on lines with several,
                                                        and LOCATING or WEIGHING before that if it refers to
                                                        anything
    LOCATING      who keeps what it refers to           CHOOSING; WEIGHING; RESOLVING; told ─▶ OVER if nobody can be
                                                        asked
    WEIGHING      what it refers to, where its size,    CHOOSING; PREPARING, with what was found; RESOLVING if nothing
                  what is in it or losses decide        was; told ─▶ OVER if nobody can be asked
    CHOOSING      what the choice of a target rests on  RESOLVING; PREPARING; told ─▶ OVER if nobody can be asked
    RESOLVING     what the request refers to, or lacks  PREPARING
    PREPARING     the request as the target gets it     RESERVING; CALLING if nothing of it is kept; RESOLVING or
                                                        PREPARING for the next one if this one cannot be asked
    RESERVING     the store tried, a conversation       CALLING; DETACHING for the background
    DETACHING     the background                        told ─▶ OVER; FOLLOWING for a client that wants a stream
    FOLLOWING     its end                               OVER
    CALLING       credentials, status and headers       STREAMING, COLLECTING or GATHERING; REFUSED; missed; after a
                                                        pause of a whole answer READING_ON or CONTINUING
    REFUSED       the beginning of an error             RELIEVING; missed
    RELIEVING     the request without what was refused  CALLING; missed
    BACKING_OFF   a pause, before a target is asked     RESOLVING, for the same target; PREPARING
                  again
    GATHERING     all of a whole answer                 JUDGING on the relay; TRANSLATING; FEEDING if it is events;
                                                        missed
    JUDGING       what a relayed answer says            NAMING; told ─▶ OVER if it is not kept; COUNTING; RELIEVING;
                                                        missed
    TRANSLATING   the answer in the client's words      NAMING; STORING_FULL; COUNTING; RESUMING; RELIEVING; missed
    COLLECTING    all of a stream for one answer        CLOSING; RESUMING; missed
    FEEDING       the same, that came as a whole        CLOSING; RESUMING
    CLOSING       its end                               NAMING; STORING_FULL; COUNTING; RELIEVING; missed
    NAMING        a relayed answer under our name       STORING_FULL
    STORING_FULL  the store                             told ─▶ OVER; COUNTING
    COUNTING      what an answer took that does not     told ─▶ OVER
                  say so
    RESUMING      the request that goes on after a      CALLING
                  pause
    CONTINUING    all of a stream that goes on          READING_ON
    READING_ON    what goes on as a whole answer        TRANSLATING
    STREAMING     the provider's end; pieces come in    its answer finished ─▶ FINALIZING or ENDING; ended ─▶ STORING or
                  between                               OVER; RESUMING; RELIEVING; MISSED, or missed
    MISSED        the same, of an answer that failed    RELIEVING; missed
                  before anything was said
    FINALIZING    the store, or what a stream took      kept ─▶ ENDING; ended ─▶ STORING
                  that does not say so, and the
                  provider's end
    STORING       the store, or that                    kept ─▶ told ─▶ OVER
    BREAKING      the store, for what failed in the     told however that went ─▶ OVER
                  middle of its stream
    ENDING        the provider's end, for a moment      OVER
    OVER          nothing

Missed: another key is tried, if it was that (CALLING); else what follows is a matter of kinds and chances: the same
target again (BACKING_OFF), the next one (RESOLVING, PREPARING), or the client is told why, by what it was told before:

    told        a failure is
    NOTHING     an HTTP error, in the client's envelope
    STATUS      the opening frames that were held, and the stream's own error form
    CONTENT     the stream's own error form
    ALL         nothing any more

A keep-alive is a heartbeat wherever a stream is told, and with several targets from the beginning; it commits the
status, and nothing that is held. That the client leaves, or the gateway stops, settles the exchange in every state.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.errors import DragomanError, bare
from dragoman.gateway.exchange.attempt import ResponseMode
from dragoman.gateway.exchange.events_commands import (
    Begin,
    ClientDisconnected,
    Collect,
    Command,
    Done,
    ExchangeEvent,
    HeartbeatDue,
    OwnerKnown,
    ReadFull,
    Resume,
    Stored,
    StreamThrough,
    Translated,
    WaitFailed,
    Waiting,
)
from dragoman.gateway.exchange.full_response_transitions import FullResponseTransitions
from dragoman.gateway.exchange.states import SentState, State
from dragoman.gateway.exchange.stream_transitions import StreamTransitions

# Members of an enumeration are slow to find, and these are looked for in every exchange.
_STREAMING, _GATHERING, _CONTENT = State.STREAMING, State.GATHERING, SentState.CONTENT
_UNKNOWN, _STREAM, _COLLECTED, _FULL = (
    ResponseMode.UNKNOWN,
    ResponseMode.STREAM,
    ResponseMode.COLLECTED,
    ResponseMode.FULL,
)


class Machine(FullResponseTransitions, StreamTransitions):
    """One exchange: `handle` makes the moves of the table."""

    def handle(self, event: ExchangeEvent) -> list[Command]:
        """Make the move that the table has for an event; give what is to be done, at most the last of which waits."""
        out = self._out = []
        transition: Callable[..., None] = TRANSITIONS[self.state, type(event)]
        while True:
            try:
                transition(self, event)
                break
            except DragomanError as error:
                if self._is_sending_failure:
                    # A failure that cannot be told cannot be told as another one either.
                    raise
                transition, event = Machine._failed, WaitFailed(bare(error))
            # It came to nothing, and with it what was to be waited for; what was said is said.
            out[:] = [command for command in out if not isinstance(command, Waiting)]
        self.flowing = self.state is _STREAMING and self.sent is _CONTENT
        return out

    def _dispatch(self, event: ExchangeEvent) -> None:
        TRANSITIONS[self.state, type(event)](self, event)

    def _read_response(self, *, is_full: bool) -> None:
        """The answer's content type decides how it is read, not what was asked (S12)."""
        attempt = self.attempt
        if attempt.mode is _UNKNOWN:
            if is_full:
                attempt.mode = _FULL
            else:
                attempt.mode = _STREAM if attempt.prepared.stream else _COLLECTED
                attempt.set_translator(self._translator(collect=attempt.mode is _COLLECTED))
            if attempt.mode is _STREAM:
                attempt.feed = self._feed()
        elif attempt.mode is not _FULL:
            attempt.translator.go_on()
        if attempt.mode is _STREAM:
            writer = self._storage.writer if attempt.prepared.relay else None
            command = StreamThrough(attempt.translator, attempt.feed, writer, attempt.unframer, attempt.prepared.relay)
            self._wait(_STREAMING, command)
        elif attempt.mode is _COLLECTED:
            self._wait(State.COLLECTING, self._collecting(attempt.collected, attempt.size))
        elif not attempt.earlier:
            self._wait(_GATHERING, ReadFull())
        elif is_full:
            self._wait(State.READING_ON, ReadFull())
        else:
            # What a provider goes on with, as a whole answer of its protocol, whatever the form it comes in.
            attempt.set_translator(self._native_collector())
            self._wait(State.CONTINUING, self._collecting([], 0))

    def _collecting(self, collected: list[bytes], size: int) -> Collect:
        attempt = self.attempt
        return Collect(attempt.translator, attempt.unframer, collected, size, attempt.passed)

    def _feed(self) -> Callable[[bytes], bytes]:
        translator, changed = self.attempt.translator, self._changed()
        return translator.feed if changed is None else lambda chunk: changed(translator.feed(chunk))


_DONE: dict[State, Callable[[Machine, Done], None]] = {
    State.READING: Machine._read,
    State.LOCATING: Machine._located,
    State.WEIGHING: Machine._weighed,
    State.CHOOSING: Machine._chosen,
    State.RESOLVING: Machine._references_resolved,
    State.PREPARING: Machine._prepared,
    State.RESERVING: Machine._reserved,
    State.DETACHING: Machine._detached,
    State.FOLLOWING: Machine._followed,
    State.CALLING: Machine._called,
    State.REFUSED: Machine._refused,
    State.RELIEVING: Machine._relieved,
    State.BACKING_OFF: Machine._again,
    State.GATHERING: Machine._gathered,
    State.JUDGING: Machine._judged,
    State.TRANSLATING: Machine._translated,
    State.COLLECTING: Machine._collected,
    State.FEEDING: Machine._fed,
    State.CLOSING: Machine._closed,
    State.NAMING: Machine._named,
    State.STORING_FULL: Machine._was_stored,
    State.COUNTING: Machine._counted,
    State.RESUMING: Machine._resumed,
    State.CONTINUING: Machine._continued,
    State.READING_ON: Machine._read_on,
    State.STREAMING: Machine._ended,
    State.MISSED: Machine._missed_ended,
    State.FINALIZING: Machine._ended_finalizing,
    State.ENDING: Machine._linger_ended,
}
_FAILED: dict[State, Callable[[Machine, WaitFailed], None]] = {
    **dict.fromkeys(_DONE, Machine._failed),
    State.STREAMING: Machine._broke,
    State.MISSED: Machine._missed_ended,
    State.FINALIZING: Machine._ended_finalizing,
    State.ENDING: Machine._linger_ended,
}
_TRANSLATED: dict[State, Callable[[Machine, Translated], None]] = {
    State.STREAMING: Machine._stream_translated,
    State.MISSED: Machine._nothing,
    State.FINALIZING: Machine._hold,
    State.ENDING: Machine._follow_up,
    # Whoever hears it has gone; only the store is waited for.
    State.BREAKING: Machine._nothing,
    State.OVER: Machine._nothing,
}
_STORED: dict[State, Callable[[Machine, Stored], None]] = {
    State.FINALIZING: Machine._finalized,
    State.STORING: Machine._stored,
    State.BREAKING: Machine._was_broken,
    # Whoever waited for it has gone.
    State.OVER: Machine._nothing,
}
# What is done when an event comes in a state; of the rest there is none.
TRANSITIONS: dict[tuple[State, type[ExchangeEvent]], Callable[..., None]] = {
    (State.FRESH, Begin): Machine._begin,
    (State.FRESH, Resume): Machine._resume,
    **{(state, Done): move for state, move in _DONE.items()},
    **{(state, WaitFailed): move for state, move in _FAILED.items()},
    **{(state, Translated): move for state, move in _TRANSLATED.items()},
    **{(state, Stored): move for state, move in _STORED.items()},
    (State.FRESH, WaitFailed): Machine._failed,
    **{(state, OwnerKnown): Machine._nothing for state in State},
    (State.STREAMING, OwnerKnown): Machine._owner_known,
    **{(state, HeartbeatDue): Machine._heartbeat_due for state in State},
    **{(state, ClientDisconnected): Machine._client_disconnected for state in State},
    **{(State.OVER, event): Machine._nothing for event in (Done, WaitFailed, HeartbeatDue, ClientDisconnected)},
}
