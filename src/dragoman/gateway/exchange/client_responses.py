"""Replies: what goes back to the client over HTTP: whole answers, errors, and the headers of both.

The provider's own error passes as it is on the relay and in the client's words elsewhere; in either case without its
secrets (decision 14).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.gateway.advice import Advice
from dragoman.gateway.exchange import error_responses, header_forwarding
from dragoman.gateway.exchange.attempt import ErrorAnswer
from dragoman.gateway.exchange.client import ClientRequest
from dragoman.gateway.exchange.error_responses import EVENT_STREAM, JSON
from dragoman.gateway.exchange.full_response import report_comment, with_report
from dragoman.gateway.exchange.provider_request import ProviderRequest
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.observability.record import RecordChanges
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.paths import RESPONSES
from dragoman.gateway.runtime import Runtime
from dragoman.http.upstream_call import HeaderList, header
from dragoman.model.failure import Failure, FailureKind
from dragoman.routing.target import Target
from dragoman.streaming import StreamPipeline
from dragoman.translate import LossLine, translate_headers

# Kinds of failure by which a provider refuses the gateway's own credential; they say nothing about the client's.
_AUTH_KINDS = frozenset({FailureKind.UNAUTHENTICATED, FailureKind.FORBIDDEN})


class FullReply(Struct, frozen=True):
    """A whole reply, and what the record says of it."""

    status: int
    headers: HeaderList
    body: bytes
    noted: RecordChanges


class FailureText(Struct, frozen=True):
    """What is said of a failure beside its own words, or in their place if it stands `alone`."""

    text: str
    alone: bool = False

    def added(self, failure: Failure) -> Failure:
        """The same failure with these words."""
        told = self.text if self.alone or not failure.message else f"{failure.message} ({self.text})"
        return replace(failure, message=told)


class Replies(Struct, eq=False):
    """The replies of one exchange. What is told of a target is told with its own `prepared` request."""

    _service: Runtime
    _asked: ClientRequest
    _account: RecordBuilder
    # What is tried.
    course: RetryState | None = None

    @property
    def full_report(self) -> bool:
        """Whether the client wants to be told all that was lost."""
        return (self._asked.header(b"x-dragoman-report") or b"").lower() == b"full"

    def answer(
        self,
        prepared: ProviderRequest,
        provider_headers: HeaderList,
        kind: HeaderList,
        body: bytes,
        losses: Sequence[LossLine],
    ) -> FullReply:
        """A whole body: an answer, or a stream that is known as a whole."""
        noted = self._account.record.losses
        if losses and noted[-len(losses) :] != tuple(losses):
            noted = (*noted, *losses)
        if not prepared.relay and self.full_report:
            body = with_report(body, noted) if kind is not EVENT_STREAM else body + report_comment(noted)
        headers = self.headers(prepared, provider_headers, kind, noted)
        return FullReply(200, headers, body, {"status": 200, "first": self._service.clock(), "losses": noted})

    def headers(
        self,
        prepared: ProviderRequest,
        provider_headers: HeaderList,
        kind: HeaderList,
        losses: Sequence[LossLine] | None = None,
    ) -> HeaderList:
        """The headers of an answer: its kind, who gave it, what was lost, and the provider's limits."""
        record, target = self._account.record, prepared.target
        return [
            *kind,
            error_responses.id_header(prepared.client, record.id),
            self._route(target),
            error_responses.losses_header(record.losses if losses is None else losses),
            *self._limits(prepared, provider_headers),
            *self._service.guard.greeting(self._asked),
        ]

    def _route(self, target: Target) -> tuple[bytes, bytes]:
        provider, protocol = target.provider.name, target.endpoint.protocol
        course = self.course
        if course is None or not (course.policy or course.repeats):
            return error_responses.route_header(provider, target.shown, protocol)
        return error_responses.route_header(provider, target.shown, protocol, course.policy, course.tries)

    def pending(self) -> HeaderList:
        """The headers of a stream of which nobody knows yet who will answer, and what that loses."""
        id_header = error_responses.id_header(self._asked.api_path.protocol, self._account.record.id)
        return [*EVENT_STREAM, id_header, error_responses.PENDING, *self._service.guard.greeting(self._asked)]

    def _limits(self, prepared: ProviderRequest, provider_headers: HeaderList) -> HeaderList:
        provider, source = prepared.target.provider, prepared.target.endpoint.protocol
        # Where keys take turns, the limits of one of them say nothing about the next call.
        own = len(provider.keys) <= 1 or self._service.settings.server.pooled_limits
        if prepared.client == source:
            return header_forwarding.returned(provider_headers, limits=own)
        limits = header_forwarding.limits_of(provider_headers, limits=own)
        if not limits:
            return []
        now = int(time.time())
        return header_forwarding.written(translate_headers(limits, source=source, target=prepared.client, now=now))

    def read(self, advice: Advice) -> str:
        """An advice, as whoever asks may read it."""
        record = self._account.record
        is_operator = self._service.guard.is_operator(self._asked, record.address, record.key)
        return advice.operator if is_operator else advice.client

    def refusal(self, prepared: ProviderRequest, refusal: ErrorAnswer, advice: Advice | None = None) -> FullReply:
        """The provider's own error: as it is on the relay, in the client's words elsewhere (mapping.md §21)."""
        failure = self.blamed(refusal.failure, prepared)
        redactor = self._service.redactor(prepared.target.provider)
        if refusal.body is None or self._is_overflow_for_codex(prepared, failure):
            words = None if advice is None else FailureText(self.read(advice))
            return self.failure(failure, prepared, refusal.headers, words=words)
        told = self.headers(prepared, redactor.clean_headers(_few(refusal.headers)), [JSON])
        if failure.kind in _AUTH_KINDS and header(told, b"x-should-retry") is None:
            # No other key is left, and agents would try for minutes.
            told.append((b"x-should-retry", b"false"))
        if advice is not None:
            told.append(error_responses.advice_header(self.read(advice)))
        noted: RecordChanges = {"failure": failure.kind.value, "status": refusal.status}
        return FullReply(refusal.status, told, refusal.body, noted)

    def blamed(self, failure: Failure, prepared: ProviderRequest) -> Failure:
        """The same failure, but a credential that is refused is the gateway's own, not the client's."""
        if failure.kind in _AUTH_KINDS and not prepared.relay:
            return replace(failure, kind=FailureKind.UPSTREAM_AUTH, status=502)
        return failure

    def failure(
        self,
        failure: Failure,
        prepared: ProviderRequest | None = None,
        provider_headers: Sequence[tuple[bytes, bytes]] = (),
        *,
        final: bool = False,
        retry_after: int = 0,
        words: FailureText | None = None,
        lasting: bool = False,
    ) -> FullReply:
        """An HTTP error in the client's envelope; nothing of the provider's address or keys is in what it said.

        `prepared` is the request as the target got it that the failure is of; `final` says that to ask again is of no
        use; `words` are our own, and therefore said after the provider's were searched for secrets. What is `lasting`
        is told with a status by which agents end at once.
        """
        record, protocol = self._account.record, self._asked.api_path.protocol
        if prepared is not None:
            redactor = self._service.redactor(prepared.target.provider)
            failure = replace(failure, message=redactor.clean_text(failure.message[: redactor.longest]))
            extra = self.headers(prepared, redactor.clean_headers(_few([*provider_headers])), [JSON])
            if self._is_overflow_for_codex(prepared, failure):
                noted: RecordChanges = {"failure": failure.kind.value, "status": 200}
                return FullReply(200, [*EVENT_STREAM, *extra[1:]], self.failed_stream(prepared, failure), noted)
        else:
            extra = [JSON, error_responses.id_header(protocol, record.id), *self._service.guard.greeting(self._asked)]
        if words is not None:
            failure = words.added(failure)
        told = error_responses.told(failure, protocol, record.id, program=record.program, lasting=lasting)
        said = {**told.headers, "x-should-retry": "false"} if final else told.headers
        if retry_after:
            said = {**said, "retry-after": str(retry_after)}
        own = header_forwarding.written(said)
        # What the table says about trying again goes before what the provider said.
        kept = [pair for pair in extra if pair[0].decode("latin-1") not in said] if own else extra
        return FullReply(told.status, [*kept, *own], told.body, {"failure": failure.kind.value, "status": told.status})

    def _is_overflow_for_codex(self, prepared: ProviderRequest, failure: Failure) -> bool:
        """Whether an overflow must be told in the stream.

        OpenAI's service tells it there, and Codex compacts its conversation only then: a 400 would end every further
        turn of the session in the same way.
        """
        if failure.kind is not FailureKind.CONTEXT_OVERFLOW or not prepared.stream or prepared.client != RESPONSES:
            return False
        return (self._asked.header(b"originator") or b"").startswith(b"codex")

    def failed_stream(self, prepared: ProviderRequest | None, failure: Failure) -> bytes:
        """A stream that says nothing but its failure."""
        mint = self._service.mint_of(self._account.record)
        if prepared is None:
            protocol = self._asked.api_path.protocol
            return StreamPipeline(source=protocol, target=protocol, mint=mint).fail(failure)
        translator = StreamPipeline(
            source=prepared.target.endpoint.protocol,
            target=prepared.client,
            request=prepared.translated,
            mint=mint,
        )
        return translator.fail(failure)


def _few(provider_headers: HeaderList) -> HeaderList:
    """The headers of an error that a client may get: only they are worth searching for secrets."""
    return header_forwarding.returned(provider_headers, limits=True)
