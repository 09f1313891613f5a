"""Public library: the typed translation functions (`docs/library.md`). Each only narrows the types of `translate.py`
and `streaming/`, which the gateway calls with protocol names from its configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dragoman import translate
from dragoman.errors import DragomanError
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Strict
from dragoman.model.response import Usage
from dragoman.protocols.codec import Mint, ProtocolName
from dragoman.rules.capabilities import Capabilities, CapabilityRow
from dragoman.streaming import DEFAULT_LIMIT, StreamPipeline
from dragoman.translate import LossLine, TranslatedRequest, TranslatedResponse


def translate_request(
    body: bytes | str | Mapping[str, object],
    *,
    target: ProtocolName,
    source: ProtocolName | None = None,
    model: str | None = None,
    vendor: str | None = None,
    capabilities: Capabilities | None = None,
    capability_rows: tuple[CapabilityRow, ...] = (),
    strict: Strict = False,
) -> TranslatedRequest:
    """Write a client's request in the provider's protocol. Without `source` the protocol is detected. `model` is the
    provider's name of the model; state it if it differs or if the URL names it. `vendor` is the provider's vendor.
    `capabilities` or `capability_rows` correct the built-in table. With `strict`, losses that change the response raise
    `StrictError`; with "all", every loss does."""
    return translate.translate_request(
        body,
        target=target,
        source=source,
        model=model,
        vendor=vendor,
        capabilities=capabilities,
        capability_rows=capability_rows,
        strict=strict,
    )


def translate_response(
    body: bytes | str | Mapping[str, object],
    *,
    source: ProtocolName,
    target: ProtocolName,
    request: TranslatedRequest | None = None,
    status: int = 200,
    request_id: str | None = None,
    stream: bool = False,
    mint: Mint | None = None,
    strict: Strict = False,
    earlier: Sequence[bytes] = (),
) -> TranslatedResponse:
    """Write a provider's response or error in the client's protocol. With `stream` the result is a full sequence of
    events. An error body is an error whatever the status. `earlier` are responses of the same turn after which the
    provider paused: the client gets one response."""
    return translate.translate_response(
        body,
        source=source,
        target=target,
        request=request,
        status=status,
        request_id=request_id,
        stream=stream,
        mint=mint,
        strict=strict,
        earlier=earlier,
    )


def translate_failure(
    failure: Failure | DragomanError, *, target: ProtocolName, request_id: str | None = None
) -> TranslatedResponse:
    """Write a failure, or an error of this library, in the client's protocol."""
    return translate.translate_failure(failure, target=target, request_id=request_id)


def translate_headers(
    headers: Mapping[str, str], *, source: ProtocolName, target: ProtocolName, now: int
) -> dict[str, str]:
    """Write a provider's rate-limit headers in the client's protocol. `now` is in Unix seconds."""
    return translate.translate_headers(headers, source=source, target=target, now=now)


class StreamTranslator:
    """Translates one streamed response; the bytes may be cut anywhere. `feed` takes the provider's bytes and returns
    the bytes for the client, possibly none. `close` returns the terminator, or an error if the provider broke off. With
    `collect`, for a client that did not request a stream, `feed` returns nothing and `close` the full response, to be
    sent with `status`. An event longer than `limit` bytes ends the stream with an error."""

    __slots__ = ("_pipeline", "feed")

    def __init__(
        self,
        *,
        source: ProtocolName,
        target: ProtocolName,
        request: TranslatedRequest | None = None,
        mint: Mint | None = None,
        collect: bool = False,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self._pipeline = StreamPipeline(
            source=source, target=target, request=request, mint=mint, collect=collect, limit=limit
        )
        # Bound once, because a method would cost one more call for each chunk.
        self.feed: Callable[[bytes], bytes] = self._pipeline.feed

    def close(self) -> bytes:
        return self._pipeline.close()

    @property
    def finished(self) -> bool:
        """Whether the client's stream is complete. If so, the provider's call may be cancelled."""
        return self._pipeline.finished

    @property
    def losses(self) -> tuple[LossLine, ...]:
        return self._pipeline.losses

    @property
    def usage(self) -> Usage | None:
        return self._pipeline.usage

    @property
    def failure(self) -> Failure | None:
        return self._pipeline.failure

    @property
    def resume(self) -> tuple[JsonObject, ...] | None:
        """The blocks to append as an assistant message and to send again, if the provider only paused."""
        return self._pipeline.resume

    @property
    def heartbeat(self) -> bytes:
        """Return a heartbeat in the client's protocol, for a silent provider."""
        return self._pipeline.heartbeat

    @property
    def status(self) -> int:
        return self._pipeline.status
