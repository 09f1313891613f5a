"""An exchange whose provider and client are a test: no sockets, no sleep, virtual time."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine
from functools import partial
from typing import cast
from unittest.mock import patch

from msgspec.structs import replace

from dragoman.config.settings import Settings
from dragoman.gateway import thread_offload
from dragoman.gateway.exchange.attempt import Attempt
from dragoman.gateway.exchange.exchange import Exchange
from dragoman.gateway.exchange.serving import serve
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.observability.record import Record
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.runtime import Runtime
from dragoman.http.body import ByteCharge
from dragoman.http.client import HttpClient
from dragoman.http.upstream_call import HeaderList, UpstreamRequest
from tests.gateway.harness import CHAT, PATHS, new_service, settings_for
from tests.virtual_time import run, virtual_loop

# Where the providers would listen.
NO_PORT = 9
JSON, EVENTS = b"application/json", b"text/event-stream"

BODY = b'{"model":"messages/served","stream":true,"messages":[{"role":"user","content":"Hello."}]}'
OPENING = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
)
OPENING += b'"model":"served","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
CONTENT = b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text",'
CONTENT += b'"text":""}}\n\nevent: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
CONTENT += b'"delta":{"type":"text_delta","text":"Hi"}}\n\n'
STOPPED = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\nevent: message_delta\n'
STOPPED += b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}\n\n'
END = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class ScriptedCall:
    """A call whose provider is the test."""

    renewed = 0

    def __init__(self, request: UpstreamRequest) -> None:
        self.request = request
        self.status = 0
        self.headers: HeaderList = []
        self.is_closed = self.is_paused = False
        self._complete: bytes | None = None
        self._take: Callable[[bytes], None] | None = None
        loop = asyncio.get_running_loop()
        self._head: asyncio.Future[None] = loop.create_future()
        self._end: asyncio.Future[None] = loop.create_future()

    async def head(self) -> None:
        await self._head

    async def read(self, limit: int) -> bytes:
        raise AssertionError("an exchange never reads a body this way")

    def take_complete(self) -> bytes | None:
        return self._complete

    async def pump(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        if self._complete is not None:
            take(self._complete)
            return
        await self._end

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def abort(self, error: Exception) -> None:
        self.fail(error)

    def close(self) -> None:
        self.is_closed = True

    # What the provider does.

    def respond(self, status: int = 200, kind: bytes = EVENTS, body: bytes | None = None, *headers: bytes) -> None:
        """Send the head, and the whole body if there is one."""
        self.status, self._complete = status, body
        pairs = [tuple(header.split(b": ", 1)) for header in headers]
        self.headers = [(b"content-type", kind), *((name, value) for name, value in pairs)]
        self._head.set_result(None)

    def send(self, chunk: bytes) -> None:
        """Send a chunk of a stream."""
        assert self._take is not None
        try:
            self._take(chunk)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Break off."""
        waiting = self._end if self._head.done() else self._head
        if not waiting.done():
            waiting.set_exception(error)

    def end(self) -> None:
        """End the stream."""
        if not self._end.done():
            self._end.set_result(None)


class SentClient:
    """A client that remembers what it was sent."""

    started = ended = paused = aborted = gone = False
    on_pause: Callable[[], None] | None = None
    on_resume: Callable[[], None] | None = None

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.chunks: list[bytes] = []

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        self.start(status, headers)
        self.write(body)
        self.end()

    def start(self, status: int, headers: HeaderList) -> None:
        assert not self.started, "a response begins once"
        self.started, self.status, self.headers = True, status, dict(headers)

    def write(self, data: bytes) -> None:
        assert self.started and not self.ended, "nothing is written outside of a response"
        self.chunks.append(data)

    def end(self) -> None:
        assert not self.ended, "a response ends once"
        self.ended = True

    def abort(self) -> None:
        self.aborted = True

    def take_charge(self) -> ByteCharge | None:
        return None

    def after_sending(self, call: Callable[[], None]) -> None:
        call()


class Played:
    """One exchange, and the calls that it makes."""

    def __init__(self, service: Runtime, *, headers: HeaderList | None = None, protocol: str = CHAT) -> None:
        self.client_request = ClientRequest(api_path_of(PATHS[protocol]), headers or [], dict(headers or []))
        self.builder = service.builder_of(
            Record(id="req_1", client_protocol=protocol, path="", started=service.clock(), time=0)
        )
        # As it was when it was finalized.
        self.final: list[Record] = []
        self.builder.on_finalized = lambda: self.final.append(replace(self.builder.record))
        self.client = SentClient()
        self.calls: list[ScriptedCall] = []
        service.client = cast(HttpClient, self)
        self.exchange = Exchange(service, self.client_request, self.client, self.builder)
        self.task: asyncio.Task[None] | None = None

    def open(self, request: UpstreamRequest) -> ScriptedCall:
        """Make a call, as `HttpClient` does."""
        self.calls.append(ScriptedCall(request))
        return self.calls[-1]

    @property
    def record(self) -> Record:
        return self.final[0] if self.final else self.builder.record

    @property
    def attempt(self) -> Attempt:
        assert self.exchange.attempt is not None
        return self.exchange.attempt

    @property
    def is_over(self) -> bool:
        assert self.task is not None
        return self.task.done()

    async def begin(self, body: bytes = BODY) -> ScriptedCall:
        """Serve a request until its first call waits for a response."""

        async def received() -> bytes:
            return body

        self.task = asyncio.create_task(serve(self.exchange, received()))
        await self.quiet()
        return self.calls[-1]

    async def quiet(self) -> None:
        """Wait until all has happened that happens without time."""
        await virtual_loop().quiet()

    async def fail(self, error: Exception) -> None:
        """Let the present call break off."""
        self.calls[-1].fail(error)
        await self.quiet()

    async def leave(self) -> None:
        """Disconnect."""
        assert self.task is not None
        self.client.gone = True
        self.task.cancel()
        await self.quiet()


def played_by(
    story: Callable[[Runtime], Coroutine[None, None, None]],
    settings: Callable[[int], Settings] = settings_for,
    *,
    threads: bool = False,
) -> None:
    """Play a story with the working parts of a gateway whose providers are the test, in virtual time.

    Without `threads`, the loop does what they would do, at its next turn.
    """

    async def play() -> None:
        service = new_service(settings(NO_PORT), io.StringIO())
        client = service.client
        try:
            await story(service)
        finally:
            service.client = client
            await service.close()
            await service.state.close(0.0)

    submit = partial(_run_in_thread, thread_offload._threads.submit) if threads else _run_soon
    with patch.object(thread_offload._threads, "submit", submit):
        run(play())


def _run_in_thread(submit: Callable[[thread_offload._Job[object]], None], job: thread_offload._Job[object]) -> None:
    virtual_loop().hold(job._future)
    submit(job)


def _run_soon(job: thread_offload._Job[object]) -> None:
    asyncio.get_running_loop().call_soon(job.run, lambda _: None)
