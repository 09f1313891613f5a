"""Recording: hands the bytes of an exchange to the contents writer as they pass (decision 48).

    client request      what `understanding` reads: the decoded body
    provider request    the body of each call
    provider response   what each call gives, without a cloud's own framing, which would hide credentials
    client response     the body that is sent, with heartbeats, however it ends

Calls and clients are wrapped where contents are recorded. Without that, an exchange takes no step for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from dragoman.contents.capture import Capture
from dragoman.contents.exchange_contents import BodySide
from dragoman.gateway.exchange.attempt import PreparedAttempt, unframer_of
from dragoman.gateway.forwarding.client import Client, ClientRequest
from dragoman.gateway.observability.record import Record
from dragoman.http.body import ByteCharge
from dragoman.http.upstream_call import HeaderList, UpstreamCall
from dragoman.providers.transport_interface import Unframer

if TYPE_CHECKING:
    from dragoman.contents.writer import ContentsWriter

_HEADER = b"x-dragoman-record"


def records_contents(client_request: ClientRequest) -> bool:
    """Whether a client lets its contents be recorded where that is on."""
    return client_request.table.get(_HEADER, b"").strip().lower() != b"off"


class Recording:
    """The capture of one exchange."""

    def __init__(self, writer: ContentsWriter, record: Record, client_request: ClientRequest) -> None:
        self._writer = writer
        self._capture = writer.begin(record.id, record.time, record.key)
        header = client_request.table.get
        self._capture.credentials = (
            header(b"authorization", b""),
            header(b"x-api-key", b""),
            header(b"api-key", b""),
            header(b"x-goog-api-key", b""),
        )

    def client(self, client: Client) -> Client:
        """The client, with its responses recorded."""
        capture = self._capture
        return RecordedClient(client, capture.receiver(capture.body(BodySide.CLIENT_RESPONSE)))

    def request(self, body: bytes | Awaitable[bytes]) -> bytes | Awaitable[bytes]:
        """The body of the request, recorded when it is there."""
        if isinstance(body, bytes):
            self._capture.add(BodySide.CLIENT_REQUEST, body)
            return body
        return self._received(body)

    async def _received(self, body: Awaitable[bytes]) -> bytes:
        data = await body
        self._capture.add(BodySide.CLIENT_REQUEST, data)
        return data

    def call(self, call: UpstreamCall, attempt: PreparedAttempt) -> UpstreamCall:
        """A call of an attempt, with its request and its response recorded."""
        capture = self._capture
        capture.attempts += 1
        capture.add(BodySide.PROVIDER_REQUEST, attempt.body, capture.attempts)
        unframe = attempt.settings.unframe if attempt.prepared.streams else None
        return RecordedCall(call, capture, unframe)

    def end(self) -> None:
        """Have the exchange written."""
        self._writer.submit(self._capture)


class RecordedCall:
    """An upstream call whose body is recorded."""

    __slots__ = ("_call", "_take", "_unframe", "headers", "renewed", "status")

    def __init__(self, call: UpstreamCall, capture: Capture, unframe: Callable[[], Unframer] | None) -> None:
        self._call = call
        self._take = capture.receiver(capture.body(BodySide.PROVIDER_RESPONSE, capture.attempts))
        self._unframe = unframe
        self.status, self.headers, self.renewed = call.status, call.headers, call.renewed

    async def head(self) -> None:
        call = self._call
        try:
            await call.head()
        finally:
            self.status, self.headers, self.renewed = call.status, call.headers, call.renewed

    async def read(self, limit: int) -> bytes:
        body = await self._call.read(limit)
        self._take(body)
        return body

    def take_complete(self) -> bytes | None:
        body = self._call.take_complete()
        if body is not None:
            self._take(body)
        return body

    async def pump(self, take: Callable[[bytes], None]) -> None:
        record = self._take
        unframer = None if self._unframe is None else unframer_of(self._unframe, self._call)
        if unframer is None:

            def taken(chunk: bytes) -> None:
                record(chunk)
                take(chunk)

            await self._call.pump(taken)
            return
        framed = unframer

        def unframed(chunk: bytes) -> None:
            record(framed.feed(chunk))
            take(chunk)

        await self._call.pump(unframed)

    def pause(self) -> None:
        self._call.pause()

    def resume(self) -> None:
        self._call.resume()

    def abort(self, error: Exception) -> None:
        self._call.abort(error)

    def close(self) -> None:
        self._call.close()


class RecordedClient:
    """A client whose response is recorded."""

    __slots__ = ("_client", "_take")

    def __init__(self, client: Client, take: Callable[[bytes], None]) -> None:
        self._client = client
        self._take = take

    @property
    def started(self) -> bool:
        return self._client.started

    @started.setter
    def started(self, started: bool) -> None:
        self._client.started = started

    @property
    def ended(self) -> bool:
        return self._client.ended

    @ended.setter
    def ended(self, ended: bool) -> None:
        self._client.ended = ended

    @property
    def paused(self) -> bool:
        return self._client.paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._client.paused = paused

    @property
    def on_pause(self) -> Callable[[], None] | None:
        return self._client.on_pause

    @on_pause.setter
    def on_pause(self, call: Callable[[], None] | None) -> None:
        self._client.on_pause = call

    @property
    def on_resume(self) -> Callable[[], None] | None:
        return self._client.on_resume

    @on_resume.setter
    def on_resume(self, call: Callable[[], None] | None) -> None:
        self._client.on_resume = call

    @property
    def gone(self) -> bool:
        return self._client.gone

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        self._take(body)
        self._client.respond(status, headers, body)

    def start(self, status: int, headers: HeaderList) -> None:
        self._client.start(status, headers)

    def write(self, data: bytes) -> None:
        self._take(data)
        self._client.write(data)

    def end(self) -> None:
        self._client.end()

    def abort(self) -> None:
        self._client.abort()

    def take_charge(self) -> ByteCharge | None:
        return self._client.take_charge()

    def after_sending(self, call: Callable[[], None]) -> None:
        self._client.after_sending(call)
