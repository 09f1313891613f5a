"""Replying: what goes back to the client over HTTP: whole answers, errors, and the headers of both.

The provider's own error passes as it is on the relay and in the client's words elsewhere; in either case without its
secrets (decision 14).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from dragoman.gateway import headers as allowed
from dragoman.gateway import replies
from dragoman.gateway.asking import Refusal
from dragoman.gateway.paths import RESPONSES, Place
from dragoman.gateway.question import Question
from dragoman.gateway.record import Record
from dragoman.gateway.replies import EVENT_STREAM, JSON
from dragoman.gateway.service import Service
from dragoman.gateway.whole import is_envelope, is_object, report_comment, with_report
from dragoman.http.flight import HeaderList, header
from dragoman.http.server import Request
from dragoman.model.failure import Failure, FailureKind
from dragoman.protocols.registry import codec_of
from dragoman.streaming import StreamTranslator
from dragoman.translate import LossLine, translate_headers

# Kinds of failure by which a provider refuses the gateway's own credential; they say nothing about the client's.
_AUTH_KINDS = frozenset({FailureKind.UNAUTHENTICATED, FailureKind.FORBIDDEN})


class Replying:
    """The client's side of one exchange. `question` is set once the request was understood."""

    def __init__(self, service: Service, request: Request, place: Place, record: Record) -> None:
        self._service = service
        self._request = request
        self._place = place
        self._record = record
        self.question: Question | None = None
        self.full_report = (request.header(b"x-dragoman-report") or b"").lower() == b"full"

    def send(
        self,
        question: Question,
        provider_headers: HeaderList,
        kind: HeaderList,
        body: bytes,
        losses: Sequence[LossLine],
    ) -> None:
        """Send a whole body: an answer, or a stream that is known as a whole."""
        record = self._record
        if losses and record.losses[-len(losses) :] != tuple(losses):
            record.losses = (*record.losses, *losses)
        if self.full_report and not question.relay:
            body = (
                with_report(body, record.losses) if kind is not EVENT_STREAM else body + report_comment(record.losses)
            )
        record.status = 200
        record.first = self._service.clock()
        self._request.respond(200, self.headers(question, provider_headers, kind), body)

    def headers(self, question: Question, provider_headers: HeaderList, kind: HeaderList) -> HeaderList:
        """The headers of an answer: its kind, who gave it, what was lost, and the provider's limits."""
        record, aim = self._record, question.aim
        return [
            *kind,
            replies.id_header(question.client, record.id),
            replies.route_header(aim.provider.name, aim.shown, aim.endpoint.protocol),
            replies.losses_header(record.losses),
            *self._limits(question, provider_headers),
            *self._service.guard.greeting(self._request),
        ]

    def _limits(self, question: Question, provider_headers: HeaderList) -> HeaderList:
        provider, source = question.aim.provider, question.aim.endpoint.protocol
        # Where keys take turns, the limits of one of them say nothing about the next call.
        own = len(provider.keys) <= 1 or self._service.settings.server.pooled_limits
        if question.client == source:
            return allowed.returned(provider_headers, limits=own)
        limits = allowed.limits_of(provider_headers, limits=own)
        if not limits:
            return []
        return allowed.written(translate_headers(limits, source=source, target=question.client, now=int(time.time())))

    def refuse(self, question: Question, refusal: Refusal) -> None:
        """The provider's own error: as it is on the relay, in the client's words elsewhere (mapping.md §21)."""
        failure = self.failure_in(question, refusal)
        redactor = self._service.redactor(question.aim.provider)
        # What is longer than is searched for secrets is told by its beginning.
        native = question.relay and len(refusal.body) <= redactor.longest and self._is_native(question, refusal.body)
        if not native or self._is_overflow_for_codex(question, failure):
            self.fail(failure, refusal.headers)
            return
        self._record.failure, self._record.status = failure.kind.value, refusal.status
        told = self.headers(question, redactor.clean_headers(_few(refusal.headers)), [JSON])
        if failure.kind in _AUTH_KINDS and header(told, b"x-should-retry") is None:
            # No other key is left, and agents would try for minutes.
            told.append((b"x-should-retry", b"false"))
        self._request.respond(refusal.status, told, redactor.clean(refusal.body))

    def _is_native(self, question: Question, body: bytes) -> bool:
        """Whether an error may pass as it is; a cloud around a model has an envelope of its own, which nobody reads."""
        if question.aim.provider.transport == "http":
            return is_object(body)
        return is_envelope(body, question.client)

    def failure_in(self, question: Question, refusal: Refusal) -> Failure:
        return self.blamed(codec_of(question.aim.endpoint.protocol).decode_failure(refusal.status, refusal.body))

    def blamed(self, failure: Failure) -> Failure:
        """The same failure, but a credential that is refused is the gateway's own, not the client's."""
        if failure.kind in _AUTH_KINDS and self.question is not None and not self.question.relay:
            return replace(failure, kind=FailureKind.UPSTREAM_AUTH, status=502)
        return failure

    def fail(self, failure: Failure, provider_headers: HeaderList, *, final: bool = False) -> None:
        """An HTTP error in the client's envelope; nothing of the provider's address or keys is in it.

        `final` says that to ask again would cost the same again.
        """
        record, question = self._record, self.question
        extra: HeaderList = []
        if question is not None:
            redactor = self._service.redactor(question.aim.provider)
            failure = replace(failure, message=redactor.clean_text(failure.message[: redactor.longest]))
            extra = self.headers(question, redactor.clean_headers(_few(provider_headers)), [JSON])
        else:
            extra = [
                JSON,
                replies.id_header(self._place.protocol, record.id),
                *self._service.guard.greeting(self._request),
            ]
        if question is not None and self._is_overflow_for_codex(question, failure):
            record.failure, record.status = failure.kind.value, 200
            self._request.respond(200, [*EVENT_STREAM, *extra[1:]], self._failed_stream(question, failure))
            return
        told = replies.told(failure, self._place.protocol, record.id)
        record.failure, record.status = failure.kind.value, told.status
        said = {**told.headers, "x-should-retry": "false"} if final else told.headers
        own = allowed.written(said)
        # What the table says about trying again goes before what the provider said.
        kept = [pair for pair in extra if pair[0].decode("latin-1") not in said] if own else extra
        self._request.respond(told.status, [*kept, *own], told.body)

    def _is_overflow_for_codex(self, question: Question, failure: Failure) -> bool:
        """Whether an overflow must be told in the stream.

        OpenAI's service tells it there, and Codex compacts its conversation only then: a 400 would end every further
        turn of the session in the same way.
        """
        if failure.kind is not FailureKind.CONTEXT_OVERFLOW or not question.stream or question.client != RESPONSES:
            return False
        return (self._request.header(b"originator") or b"").startswith(b"codex")

    def _failed_stream(self, question: Question, failure: Failure) -> bytes:
        translator = StreamTranslator(
            source=question.aim.endpoint.protocol,
            target=question.client,
            request=question.translated,
            mint=self._service.mint,
        )
        return translator.fail(failure)


def _few(provider_headers: HeaderList) -> HeaderList:
    """The headers of an error that a client may get: only they are worth searching for secrets."""
    return allowed.returned(provider_headers, limits=True)
