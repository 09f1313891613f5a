"""HTTP responses for the client: full responses, errors, and the headers of both. A relay forwards the provider's own
error, a translation rewrites it; both without its secrets (decision 14)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from dragoman.gateway.advice import Advice
from dragoman.gateway.exchange.attempt import ErrorResponse
from dragoman.gateway.exchange.full_response import report_comment, with_report
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.forwarding import error_responses, header_forwarding
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.forwarding.error_responses import EVENT_STREAM, JSON
from dragoman.gateway.forwarding.provider_request import ProviderRequest
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.paths import RESPONSES
from dragoman.gateway.runtime import Runtime
from dragoman.http.upstream_call import HeaderList, header
from dragoman.model.failure import Failure, FailureKind
from dragoman.streaming import StreamPipeline
from dragoman.translate import LossLine, translate_headers

# Kinds of failure by which a provider refuses the gateway's own credential; they say nothing about the client's.
_AUTH_KINDS = frozenset({FailureKind.UNAUTHENTICATED, FailureKind.FORBIDDEN})


class SentState(Enum):
    """What was sent to the client. It decides how a failure is reported (`failing`)."""

    NOTHING = "nothing"
    STATUS = "status"
    CONTENT = "content"
    ALL = "all"


class ClientResponse(Struct, frozen=True):
    """A full response, and the kind of failure that it is; "" if it is none."""

    status: int
    headers: HeaderList
    body: bytes
    failure: str = ""


class FailureText(Struct, frozen=True):
    """The text of a failure next to its own message, or in its place if it is `alone`."""

    text: str
    alone: bool = False

    def added(self, failure: Failure) -> Failure:
        """The same failure with this text."""
        message = self.text if self.alone or not failure.message else f"{failure.message} ({self.text})"
        return replace(failure, message=message)


class ClientResponses(Struct, eq=False):
    """The replies of one exchange. Headers of a target are sent with its own `prepared` request."""

    _runtime: Runtime
    _client_request: ClientRequest
    _builder: RecordBuilder
    # Targets and attempts.
    retry_state: RetryState | None = None

    def has_full_report(self) -> bool:
        """Whether the client requested all losses."""
        return self._client_request.table.get(b"x-dragoman-report", b"").lower() == b"full"

    def full_response(
        self,
        prepared: ProviderRequest,
        provider_headers: HeaderList,
        kind: HeaderList,
        body: bytes,
        losses: Sequence[LossLine],
    ) -> ClientResponse:
        """A whole body: an answer, or a stream that is known as a whole."""
        record = self._builder.record
        all_losses = record.losses
        if losses and all_losses[-len(losses) :] != tuple(losses):
            all_losses = (*all_losses, *losses)
        if not prepared.relay and self.has_full_report():
            body = with_report(body, all_losses) if kind is not EVENT_STREAM else body + report_comment(all_losses)
        headers = self.headers(prepared, provider_headers, kind, all_losses)
        record.losses, record.first_content = all_losses, self._runtime.clock()
        return ClientResponse(200, headers, body)

    def headers(
        self,
        prepared: ProviderRequest,
        provider_headers: HeaderList,
        kind: HeaderList,
        losses: Sequence[LossLine] | None = None,
    ) -> HeaderList:
        """Headers of a response: content type, target, losses, and the provider's limits."""
        record, retry_state = self._builder.record, self.retry_state
        settings = self._runtime.target_settings(prepared.target)
        route = settings.route_header
        if retry_state is not None and (retry_state.policy or retry_state.may_retry):
            target, policy, attempts = prepared.target, retry_state.policy, retry_state.tries
            name, model, protocol = target.provider.name, target.printable_model, target.endpoint.protocol
            route = error_responses.route_header(name, model, protocol, policy, attempts)
        if losses is None:
            losses = record.losses
        headers = [
            *kind,
            error_responses.id_header(prepared.client, record.id),
            route,
            error_responses.losses_header(losses) if losses else error_responses.NO_LOSSES,
        ]
        if prepared.relay:
            headers += header_forwarding.returned(provider_headers, limits=settings.returns_limits)
        else:
            headers += _translated_limits(prepared, provider_headers, limits=settings.returns_limits)
        if b"origin" in self._client_request.table:
            headers += self._runtime.guard.greeting(self._client_request)
        return headers

    def pending(self) -> HeaderList:
        """The headers of a stream before its target and losses are known."""
        id_header = error_responses.id_header(self._client_request.api_path.protocol, self._builder.record.id)
        return [*EVENT_STREAM, id_header, error_responses.PENDING, *self._runtime.guard.greeting(self._client_request)]

    def read(self, advice: Advice) -> str:
        """The advice as this client may read it."""
        record = self._builder.record
        is_operator = self._runtime.guard.is_operator(self._client_request, record.address, record.key)
        return advice.operator if is_operator else advice.client

    def refusal(
        self, prepared: ProviderRequest, refusal: ErrorResponse, advice: Advice | None = None
    ) -> ClientResponse:
        """The provider's own error: as it is on the relay, in the client's words elsewhere (mapping.md §21)."""
        failure = self.blamed(refusal.failure, prepared)
        redactor = self._runtime.redactor(prepared.target.provider)
        if refusal.body is None or self._is_overflow_for_codex(prepared, failure):
            text = None if advice is None else FailureText(self.read(advice))
            return self.failure(failure, prepared, refusal.headers, text=text)
        headers = self.headers(prepared, redactor.clean_headers(_few(refusal.headers)), [JSON])
        if failure.kind in _AUTH_KINDS and header(headers, b"x-should-retry") is None:
            # No other key is left, and agents would try for minutes.
            headers.append((b"x-should-retry", b"false"))
        if advice is not None:
            headers.append(error_responses.advice_header(self.read(advice)))
        return ClientResponse(refusal.status, headers, refusal.body, failure.kind.value)

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
        text: FailureText | None = None,
        is_permanent: bool = False,
    ) -> ClientResponse:
        """An HTTP error in the client's envelope, without the provider's address or keys. `prepared` is the failed
        request. `final`: a retry is useless. `text` is our own, so it is added after the search for secrets. An
        `is_permanent` failure gets a status at which agents stop at once."""
        record, protocol = self._builder.record, self._client_request.api_path.protocol
        if prepared is not None:
            redactor = self._runtime.redactor(prepared.target.provider)
            failure = replace(failure, message=redactor.clean_text(failure.message[: redactor.max_error_bytes]))
            extra = self.headers(prepared, redactor.clean_headers(_few([*provider_headers])), [JSON])
            if self._is_overflow_for_codex(prepared, failure):
                body = self.failed_stream(prepared, failure)
                return ClientResponse(200, [*EVENT_STREAM, *extra[1:]], body, failure.kind.value)
        else:
            extra = [
                JSON,
                error_responses.id_header(protocol, record.id),
                *self._runtime.guard.greeting(self._client_request),
            ]
        if text is not None:
            failure = text.added(failure)
        translated = error_responses.encode_error(
            failure, protocol, record.id, program=record.program, is_permanent=is_permanent
        )
        error_headers = {**translated.headers, "x-should-retry": "false"} if final else translated.headers
        if retry_after:
            error_headers = {**error_headers, "retry-after": str(retry_after)}
        own = header_forwarding.written(error_headers)
        # The retry time of the table wins over the provider's.
        other_headers = [pair for pair in extra if pair[0].decode("latin-1") not in error_headers] if own else extra
        return ClientResponse(translated.status, [*other_headers, *own], translated.body, failure.kind.value)

    def _is_overflow_for_codex(self, prepared: ProviderRequest, failure: Failure) -> bool:
        """Whether to send an overflow in the stream, as OpenAI does: a 400 would end every further turn of Codex."""
        if failure.kind is not FailureKind.CONTEXT_OVERFLOW or not prepared.stream or prepared.client != RESPONSES:
            return False
        return (self._client_request.header(b"originator") or b"").startswith(b"codex")

    def failed_stream(self, prepared: ProviderRequest | None, failure: Failure) -> bytes:
        """A stream that contains only its failure."""
        mint = self._runtime.mint_of(self._builder.record)
        if prepared is None:
            protocol = self._client_request.api_path.protocol
            return StreamPipeline(source=protocol, target=protocol, mint=mint).fail(failure)
        translator = StreamPipeline(
            source=prepared.target.endpoint.protocol,
            target=prepared.client,
            request=prepared.translated,
            mint=mint,
        )
        return translator.fail(failure)


def _translated_limits(prepared: ProviderRequest, provider_headers: HeaderList, *, limits: bool) -> HeaderList:
    """The provider's headers as the client's protocol names them."""
    reported = header_forwarding.limits_of(provider_headers, limits=limits)
    if not reported:
        return []
    source, now = prepared.target.endpoint.protocol, int(time.time())
    return header_forwarding.written(translate_headers(reported, source=source, target=prepared.client, now=now))


def _few(provider_headers: HeaderList) -> HeaderList:
    """The headers of an error that a client may get: only they are worth searching for secrets."""
    return header_forwarding.returned(provider_headers, limits=True)
