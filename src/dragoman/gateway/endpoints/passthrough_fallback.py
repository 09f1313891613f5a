"""Same model: a request that all providers of its model answer alike (embeddings above all) may go to any of them.

What follows a failure is in the table of decision 25, as for conversations, and so are its caps; the model never
changes, since what two models compute cannot be compared. A target is asked once: clients repeat by themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from dragoman.errors import DragomanError, RefusedError
from dragoman.gateway.advice import redirected
from dragoman.gateway.exchange.attempt import Attempt, ErrorAnswer, Missed
from dragoman.gateway.exchange.call_log import Calls
from dragoman.gateway.exchange.error_responses import failure_of
from dragoman.gateway.exchange.one_call import one_call
from dragoman.gateway.exchange.provider_errors import read_plain_error
from dragoman.gateway.exchange.response_reader import read_error
from dragoman.gateway.exchange.retry_state import MOST_CALLS, RetryState
from dragoman.gateway.exchange.timeouts import TimeLimits
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.runtime import Runtime
from dragoman.http.upstream_call import UpstreamCall
from dragoman.model.failure import Failure, FailureKind
from dragoman.providers.transport_interface import Order
from dragoman.routing.attempt_outcome import TABLE, AttemptOutcome, NextStep, SentSoFar
from dragoman.routing.cooldown import hint_of, names_the_key, rest_of
from dragoman.routing.target import Target

# Paths whose answers hang on nothing but the model, and of which no provider keeps anything.
PATHS = frozenset({"/embeddings", "/moderations", "/rerank"})

Ended = Callable[[AttemptOutcome], None]
Answered = Callable[[Target, UpstreamCall, TimeLimits, Ended], Awaitable[None]]
_UNKNOWN = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="the provider could not be asked")


class SameModel:
    """One request, and the targets that it may go to; without a `course` those of one model, the healthy ones first."""

    def __init__(
        self,
        service: Runtime,
        account: RecordBuilder,
        targets: tuple[Target, ...] = (),
        course: RetryState | None = None,
    ) -> None:
        self._service = service
        self._account = account
        if course is None:
            order = tuple(sorted(targets, key=lambda target: not service.traffic.is_good(target)))
            settings = service.settings
            course = RetryState(order, settings.routing, traffic=service.traffic, timeouts=settings.timeouts)
            course.several = True
        self.course = course
        course.asks_once = True
        self._calls = Calls(service, account, conversation=False)
        self._errors: dict[Attempt, DragomanError] = {}
        self._has_rested = False

    async def ask(self, order_of: Callable[[Target, str | None], Order], answered: Answered) -> Missed | None:
        """Have it answered by the first who can; what is told if nobody does, unless that is an error of ours."""
        course = self.course
        while (target := course.next()) is not None:
            course.tries += 1
            self._account.update(
                provider=target.provider.name,
                model=target.shown,
                served=target.endpoint.protocol,
                # What an earlier target failed with is not this one's.
                failure="",
                why="",
                advice="",
                losses=(),
            )
            attempt = Attempt(target, self._service.rotation(target.provider))
            try:
                missed = await self._try(attempt, order_of, answered)
            except RefusedError as refused:
                if not course.leave_out(target, refused):
                    raise
                continue
            finally:
                # Whatever ended it; what was said before stays.
                self._calls.close(attempt, AttemptOutcome.LEFT)
                course.give_back()
            if missed is None:
                return None
            course.miss(missed)
            then = self._then(missed)
            course.take(then, missed)
            if then is not NextStep.NEXT:
                break
        decisive = course.decisive()
        if decisive is None or decisive.attempt is None:
            raise course.nobody()
        error = self._errors.get(decisive.attempt)
        if error is not None:
            raise error
        told = decisive.attempt.target
        self._account.update(provider=told.provider.name, model=told.shown, served=told.endpoint.protocol)
        return decisive

    async def _try(
        self, attempt: Attempt, order_of: Callable[[Target, str | None], Order], answered: Answered
    ) -> Missed | None:
        """Ask one target, with each of its keys if they are refused; None if it has answered."""
        target = attempt.target
        attempt.ask(b"")
        while True:
            self._calls.begin()
            attempt.permit = attempt.permit or self.course.use_permit()
            try:
                order = order_of(target, attempt.key)
                called = one_call(self._service, self._account, target, order, placed=self._calls.admitted)
                async with called as (flight, limits):
                    attempt.status, attempt.headers = flight.status, flight.headers
                    if 300 <= flight.status < 400:
                        raise redirected(flight.headers)
                    if flight.status < 400:
                        await answered(target, flight, limits, partial(self._calls.close, attempt))
                        return None
                    body = await read_error(flight, limits, self._service.clock)
            except DragomanError as error:
                self._errors[attempt] = error
                failure = failure_of(error) or _UNKNOWN
                missed = Missed(failure=failure, attempt=attempt, kind=attempt.kind_of(error))
            else:
                redactor, key = self._service.redactor(target.provider), self._account.record.key
                plain = await read_plain_error(redactor, target.endpoint.protocol, attempt.status, body, key)
                failure = plain.failure
                answer = ErrorAnswer(status=attempt.status, headers=attempt.headers, failure=failure, body=plain.body)
                missed = Missed(failure=failure, attempt=attempt, answer=answer, kind=attempt.kind_of(failure))
                self._rest_key(missed)
            self._calls.close(attempt, missed.kind)
            may_call = self._calls.count < MOST_CALLS - self.course.others
            if not (may_call and TABLE[missed.kind].keys and attempt.has_another_key):
                return missed
            attempt.change_key()

    def _rest_key(self, missed: Missed) -> None:
        """Leave a key alone that was refused: of one request one key, unless it is named as the cause."""
        attempt = missed.attempt
        if attempt is None or not TABLE[missed.kind].keys:
            return
        hint = hint_of(attempt.headers, self._service.mint.now())
        rest = rest_of(missed.kind, missed.failure, hint)
        if rest is not None and (not self._has_rested or names_the_key(missed.failure)):
            self._has_rested = True
            attempt.rest_key(rest, missed.kind, hint.wait)

    def _then(self, missed: Missed) -> NextStep:
        service = self._service
        left = self._account.record.started + service.settings.timeouts.whole - service.clock()
        wall = service.mint.now()
        return self.course.then(missed, SentSoFar.NOTHING, calls=self._calls.count, seconds=left, wall=wall)
