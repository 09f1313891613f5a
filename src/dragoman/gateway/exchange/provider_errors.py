"""Error answers: a provider's error is decoded and searched for secrets once, beside the loop if that takes long."""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.gateway.exchange.attempt import ErrorResponse, PreparedAttempt
from dragoman.gateway.exchange.full_response import is_envelope
from dragoman.gateway.forwarding.provider_request import ProviderRequest
from dragoman.gateway.forwarding.redaction import Redactor
from dragoman.gateway.thread_offload import offload
from dragoman.http.upstream_call import HeaderList
from dragoman.model.failure import Failure
from dragoman.protocols.registry import codec_of
from dragoman.rules.failures import bounded, error_body
from dragoman.rules.retry_delays import delay_of
from dragoman.wire.json import decode_object


class ErrorReader(Struct, frozen=True):
    """Reads the errors of one call; nothing here needs the loop."""

    prepared: ProviderRequest
    status: int
    headers: HeaderList
    redactor: Redactor

    def work(self, size: int) -> int:
        """The JSON work that corresponds to reading and searching an error of this size."""
        return size + self.redactor.work(size)

    def read(self, body: bytes, status: int = 0) -> ErrorResponse:
        """An error, of the call's own status unless another one is given."""
        status = status or self.status
        try:
            read, readable = decode_object(body), True
        except WireError:
            read, readable = error_body(body), False
        prepared = self.prepared
        failure = bounded(prepared.target.codec.decode_failure(status, read))
        # A cloud provider has an error envelope of its own, which clients cannot read.
        passes = readable and (prepared.target.provider.transport == "http" or is_envelope(read, prepared.client))
        # An error that is longer than the searched part is truncated.
        passes = passes and prepared.relay and len(body) <= self.redactor.max_error_bytes
        return ErrorResponse(
            status=status,
            headers=self.headers,
            failure=failure,
            delay=delay_of(failure, read),
            readable=readable,
            body=self.redactor.clean(body) if passes else None,
        )


def error_reader(attempt: PreparedAttempt) -> ErrorReader:
    """Reads the errors of the present call of an attempt."""
    return ErrorReader(attempt.prepared, attempt.status, attempt.headers, attempt.settings.redactor)


class PlainError(Struct, frozen=True):
    """An error of a path that is relayed: what failed, and its body without the provider's secrets."""

    failure: Failure
    body: bytes


async def read_plain_error(redactor: Redactor, protocol: str, status: int, body: bytes, key: str) -> PlainError:
    """Decode an error and search it for secrets, off the event loop if it is large; `key` names the gateway key."""

    def read() -> PlainError:
        failure = codec_of(protocol).decode_failure(status, body)
        return PlainError(failure, redactor.clean(body[: redactor.max_error_bytes]))

    return await offload(read, len(body) + redactor.work(len(body)), key, paid=True)


async def cleaned(redactor: Redactor, body: bytes, key: str) -> bytes:
    """An error without its provider's secrets, for the gateway key of this name."""
    return await offload(partial(redactor.clean, body), redactor.work(len(body)), key, paid=True)
