"""Passthrough fallback: a request to which all providers of its model respond alike (such as embeddings) may go to any
of them. Failures are handled by the table of decision 25. Each target is tried once, and the model never changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from dragoman.errors import DragomanError, RefusedError
from dragoman.gateway.advice import redirected
from dragoman.gateway.exchange.attempt import Attempt, ErrorResponse, Missed
from dragoman.gateway.exchange.call_log import Calls
from dragoman.gateway.exchange.one_call import one_call
from dragoman.gateway.exchange.provider_errors import read_plain_error
from dragoman.gateway.exchange.response_reader import read_error
from dragoman.gateway.exchange.retry_state import MAX_UPSTREAM_CALLS, RetryState
from dragoman.gateway.exchange.timeouts import TimeLimits
from dragoman.gateway.forwarding.error_responses import failure_of
from dragoman.gateway.runtime import Incoming
from dragoman.http.upstream_call import UpstreamCall
from dragoman.model.failure import Failure, FailureKind
from dragoman.providers.transport_interface import Order
from dragoman.routing.attempt_outcome import TABLE, AttemptOutcome, NextStep, SentSoFar
from dragoman.routing.cooldown import cooldown_of, hint_of, names_the_key
from dragoman.routing.target import Target

# Paths whose responses depend only on the model, and for which no provider stores anything.
PATHS = frozenset({"/embeddings", "/moderations", "/rerank"})

Ended = Callable[[AttemptOutcome], None]
OnResponse = Callable[[Target, UpstreamCall, TimeLimits, Ended], Awaitable[None]]
_UNKNOWN = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="the provider could not be called")


class SameModel:
    """One request and its targets: those of `retry_state`, otherwise those of one model, the healthy ones first."""

    def __init__(
        self,
        incoming: Incoming,
        targets: tuple[Target, ...] = (),
        retry_state: RetryState | None = None,
    ) -> None:
        runtime = self._runtime = incoming.runtime
        builder = self._builder = incoming.builder
        self._incoming = incoming
        if retry_state is None:
            order = tuple(sorted(targets, key=lambda target: not runtime.routing_state.is_healthy(target)))
            settings = runtime.settings
            retry_state = RetryState(order, settings.routing, None, None, runtime.routing_state, settings.timeouts)
            retry_state.several = True
        self.retry_state = retry_state
        retry_state.never_retries = True
        self._calls = Calls(runtime, builder, conversation=False)
        self._errors: dict[Attempt, DragomanError] = {}
        self._has_key_cooldown = False

    async def run(self, order_of: Callable[[Target, str | None], Order], on_response: OnResponse) -> Missed | None:
        """Call targets in order until one succeeds. Returns the last failure, unless the gateway caused it."""
        retry_state = self.retry_state
        while (target := retry_state.next()) is not None:
            retry_state.tries += 1
            record = self._builder.record
            record.set_target(target)
            # The failure of an earlier target does not belong to this one.
            record.failure = record.refusal = record.advice = ""
            record.losses = ()
            attempt = Attempt(target, self._runtime.target_settings(target))
            try:
                missed = await self._try(attempt, order_of, on_response)
            except RefusedError as refused:
                if not retry_state.leave_out(target, refused):
                    raise
                continue
            finally:
                # Whatever ended it, content that was sent stays.
                self._calls.close(attempt, AttemptOutcome.CLIENT_DISCONNECTED)
                retry_state.give_back()
            if missed is None:
                return None
            retry_state.miss(missed)
            next_step = self._next_step(missed)
            retry_state.take(next_step, missed)
            if next_step is not NextStep.NEXT_TARGET:
                break
        decisive = retry_state.decisive()
        if decisive is None or decisive.attempt is None:
            raise retry_state.no_target_error()
        error = self._errors.get(decisive.attempt)
        if error is not None:
            raise error
        self._builder.record.set_target(decisive.attempt.target)
        return decisive

    async def _try(
        self, attempt: Attempt, order_of: Callable[[Target, str | None], Order], on_response: OnResponse
    ) -> Missed | None:
        """Call one target, with each of its keys if they are rejected. Returns None if it has responded."""
        target = attempt.target
        attempt.begin_request(b"")
        while True:
            self._calls.begin()
            attempt.permit = attempt.permit or self.retry_state.use_permit()
            try:
                order = order_of(target, attempt.key)
                # The call starts once it has a slot and its gateway key is still valid.
                self._calls.queued()
                called = one_call(self._incoming, target, order, on_admitted=self._calls.admitted)
                async with called as (call, limits):
                    attempt.status, attempt.headers = call.status, call.headers
                    if 300 <= call.status < 400:
                        raise redirected(call.headers)
                    if call.status < 400:
                        await on_response(target, call, limits, partial(self._calls.close, attempt))
                        return None
                    body = await read_error(call, limits, self._runtime.clock)
            except DragomanError as error:
                self._errors[attempt] = error
                failure = failure_of(error) or _UNKNOWN
                missed = Missed(failure=failure, attempt=attempt, kind=attempt.kind_of(error))
            else:
                redactor, key = self._runtime.redactor(target.provider), self._builder.record.key
                plain = await read_plain_error(redactor, target.endpoint.protocol, attempt.status, body, key)
                failure = plain.failure
                response = ErrorResponse(
                    status=attempt.status, headers=attempt.headers, failure=failure, body=plain.body
                )
                missed = Missed(failure=failure, attempt=attempt, response=response, kind=attempt.kind_of(failure))
                self._cool_down_key(missed)
            self._calls.close(attempt, missed.kind)
            may_call = self._calls.count < MAX_UPSTREAM_CALLS - self.retry_state.others
            if not (may_call and TABLE[missed.kind].keys and attempt.has_another_key):
                return missed
            attempt.change_key()

    def _cool_down_key(self, missed: Missed) -> None:
        """Put a rejected key into cooldown: one key per request, unless the failure names the key as its cause."""
        attempt = missed.attempt
        if attempt is None or not TABLE[missed.kind].keys:
            return
        hint = hint_of(attempt.headers, self._runtime.mint.now())
        cooldown = cooldown_of(missed.kind, missed.failure, hint)
        if cooldown is not None and (not self._has_key_cooldown or names_the_key(missed.failure)):
            self._has_key_cooldown = True
            attempt.cool_key(cooldown, missed.kind, hint.wait)

    def _next_step(self, missed: Missed) -> NextStep:
        runtime = self._runtime
        remaining = self._builder.record.started + runtime.settings.timeouts.effective_total - runtime.clock()
        wall = runtime.mint.now()
        return self.retry_state.next_step(
            missed, SentSoFar.NOTHING, calls=self._calls.count, seconds=remaining, wall=wall
        )
