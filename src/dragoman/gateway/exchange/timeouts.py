"""Time limits of one exchange, by one timer that is moved only when it fires and that the next exchange reuses.

phase     what may take how long
WAITING   the provider's status and headers: `first_byte`
OPENING   the first content of its stream, however much it says before that: what is left of `first_byte`
STREAMING   the next bytes of its answer: `idle`; the next content of its stream: `content`; beside it, and beside
          OPENING, a silent client gets a keep-alive
ENDING    the answer is whole, its connection may still end well: a moment
PAUSING   nobody is asked just now: no limit; a silent client gets a keep-alive, if it was told anything
FINALIZING  the answer is being kept, which has a limit of its own; a silent client gets a keep-alive
always    the exchange as a whole: `total`, but for FINALIZING; a stream that says something, only if that is configured

While the gateway pauses reading for lack of room, the limits of WAITING, OPENING and STREAMING pause.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

from dragoman.config.settings import Timeouts
from dragoman.errors import NoContent, Overdue, Stalled, TimedOut
from dragoman.gateway.timers import Timer, Timers
from dragoman.http.upstream_call import UpstreamCall


class LimitPhase(Enum):
    """The present phase of the limits."""

    WAITING = "waiting"
    OPENING = "opening"
    READING = "hearing"
    ENDING = "ending"
    STORING = "settling"
    PAUSING = "pausing"


class Overstayed(TimedOut):
    """The answer is whole, but the provider does not end it."""


# Members of an enumeration are slow to find, and these are looked for in every exchange.
_WAITING, _OPENING = LimitPhase.WAITING, LimitPhase.OPENING
_READING, _ENDING = LimitPhase.READING, LimitPhase.ENDING
# Nothing is waited for of a provider. Members of an enumeration are slow to hash, too, and quick to compare.
_UNLIMITED = (LimitPhase.STORING, LimitPhase.PAUSING)
# Seconds for the end of a full response's connection, so that it can be reused.
_LINGER = 1.0


class TimeLimits:
    """Ends a flight that takes too long. `received_at` and `sent_at` are set by readers and writers."""

    __slots__ = (
        "_content_at",
        "_deadline",
        "_first_byte",
        "_is_held",
        "_loop",
        "_since",
        "_soonest",
        "_suspended",
        "_timeouts",
        "_timer",
        "_timers",
        "_upstream_call",
        "alive",
        "phase",
        "received_at",
        "sent_at",
    )

    def __init__(self, timers: Timers, timeouts: Timeouts, started: float) -> None:
        self._timers = timers
        self._loop = timers.loop
        self._timeouts = timeouts
        self._since = started
        # When the whole must be over.
        self._deadline = started + timeouts.effective_total
        self._first_byte = timeouts.first_byte
        self._upstream_call: UpstreamCall | None = None
        self._timer: Timer | None = None
        self._is_held = False
        # Time of the last content; only streams have this limit.
        self._content_at = math.inf
        self._soonest = timeouts.soonest
        # Since when the provider is not read.
        self._suspended: float | None = None
        self.phase = _WAITING
        # Time of the last data from the provider, and of the last data to the client.
        self.received_at = started
        self.sent_at = started
        # Called after a silence towards the client; only streams have it.
        self.alive: Callable[[], None] | None = None

    def follow(self, call: UpstreamCall, first_byte: float | None = None) -> None:
        """Wait for the first bytes of a call, by default with the configured limit."""
        wanted = self._timeouts.first_byte if first_byte is None else first_byte
        if wanted != self._first_byte:
            self._first_byte = wanted
            self._soonest = min(wanted, self._timeouts.soonest)
        self._upstream_call = call
        self.phase = _WAITING
        self._suspended = None
        self._since = self.received_at = now = self._loop.time()
        self._arm(now)

    def opening(self) -> None:
        """The response has begun, perhaps without content. Before that there is no status to send."""
        self.phase = _OPENING
        self.received_at = now = self._loop.time()
        if not self._is_held:
            self.sent_at = now
        self._arm(now)

    def content_received(self) -> None:
        """The last data is content: from now on only silence is limited."""
        self._content_at = self.received_at
        if self.phase is _OPENING:
            # The timer fires soon enough for either limit.
            self.phase = _READING
            self._go_on()

    def content_passed(self, now: float) -> None:
        """More content was received, and sent at once."""
        self._content_at = self.sent_at = self.received_at = now

    def _go_on(self) -> None:
        """Remove the total limit of a healthy stream, unless it is configured (pitfall 334)."""
        if self._timeouts.total is None:
            self._deadline = math.inf

    def reading(self, *, stream: bool = False) -> None:
        """The response has begun. Before that there is no status to send (decision 15)."""
        if stream:
            self._go_on()
        self.phase = _READING
        self._since = self.received_at = now = self._loop.time()
        self._content_at = now if stream else math.inf
        if not self._is_held:
            self.sent_at = now
        # The timer of the previous phase fires early enough, unless heartbeats are due.
        if self._timer is None or self.alive is not None:
            self._arm(now)

    def suspend(self) -> None:
        """The provider is not read on: that it is silent is not its doing."""
        if self._suspended is None:
            self._suspended = self._loop.time()

    def resume(self) -> None:
        """The provider is read on, and has as much time left as it had."""
        if self._suspended is not None:
            now = self._loop.time()
            self._since += now - self._suspended
            self._content_at += now - self._suspended
            self.received_at = now
            self._suspended = None

    def ending(self) -> None:
        """The answer is whole."""
        self._enter(_ENDING, self._loop.time())

    def storing(self) -> None:
        """The response is being stored. The provider is no longer waited for."""
        self._upstream_call = None
        self._enter(LimitPhase.STORING, self._loop.time())

    def hold(self, seconds: float) -> None:
        """Send heartbeats to a silent client after this time, whichever target is called, and however often."""
        self._is_held = True
        self.sent_at = self._loop.time() + seconds - self._timeouts.heartbeat
        self.pausing()

    def pausing(self) -> None:
        """No call is in progress. A client that got headers gets heartbeats."""
        self._upstream_call = None
        self.phase = LimitPhase.PAUSING
        if self.alive is not None:
            self._arm(self._loop.time())

    def stop(self) -> None:
        """Nothing is waited for any more."""
        timer = self._timer
        if timer is not None:
            self._timer = None
            timer.hand_on()
        self._upstream_call = None
        self.phase = _WAITING

    def _enter(self, phase: LimitPhase, now: float) -> None:
        self.phase = phase
        self._suspended = None
        self._since = self.received_at = now
        self._arm(now)

    def _due(self) -> tuple[float, TimedOut]:
        """The next limit, and the error after it."""
        timeouts = self._timeouts
        total = self._deadline
        match self.phase:
            case LimitPhase.WAITING | LimitPhase.OPENING:
                due = self._since + self._first_byte
                error = TimedOut(f"the provider did not begin to respond within {self._first_byte:g} s")
            case LimitPhase.READING:
                due = self.received_at + timeouts.idle
                error = Stalled(f"the provider fell silent for {timeouts.idle:g} s")
                if self._content_at + timeouts.content < due:
                    due = self._content_at + timeouts.content
                    error = NoContent(f"the provider sent no content for {timeouts.content:g} s")
            case LimitPhase.ENDING:
                return min(self._since + _LINGER, total), Overstayed("the provider did not end its response")
            case LimitPhase.STORING | LimitPhase.PAUSING:
                return math.inf, TimedOut("nothing is waited for")
        if total <= due or self._suspended is not None:
            return total, Overdue(f"the exchange took longer than {timeouts.effective_total:g} s")
        return due, error

    def _arm(self, now: float, limit: float = math.inf) -> None:
        # No limit of any phase but the last is nearer, and no sign of life, unless little is left of the whole: the
        # timer fires no later than needed, and looks again then.
        phase = self.phase
        if phase in _UNLIMITED:
            due = now + self._timeouts.heartbeat
        else:
            due = now + (_LINGER if phase is _ENDING else self._soonest)
            if due > self._deadline or due > limit:
                due = min(self._deadline, limit)
        if self.alive is not None and phase is not _ENDING:
            due = min(due, self.sent_at + self._timeouts.heartbeat)
        timer = self._timer
        if timer is not None:
            if now < timer.when <= due:
                return
            timer.cancel()
        self._timer = self._timers.take(now, due, self._check)

    def _check(self) -> None:
        self._timer = None
        call = self._upstream_call
        if call is None and self.phase not in _UNLIMITED:
            return
        now = self._loop.time()
        due, error = self._due()
        if now >= due and call is not None:
            self._upstream_call = None
            call.abort(error)
            return
        silent = now >= self.sent_at + self._timeouts.heartbeat
        if silent and self.alive is not None and self.phase is not _ENDING:
            self.sent_at = now
            self.alive()
        self._arm(now, due)
