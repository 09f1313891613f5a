"""Mock application: checks path, credentials, body and the service's rules, and responds with a step of the script."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable

from msgspec import Struct

from dragoman.errors import ClientError, WireError
from dragoman.http.coding import decode_body
from dragoman.http.server import HttpServer, ServerLimits, ServerRequest
from dragoman.http.upstream_call import HeaderList
from dragoman.mock.answers.delivery import NOWHERE, MockHttpResponse, http_response, not_allowed, unreadable
from dragoman.mock.answers.embeddings import embed
from dragoman.mock.answers.models import ECHO_MODELS, listed, one_listed
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.answers.tokens import count_request, counted
from dragoman.mock.paths import MockEndpointKind, MockPath, resolve_path
from dragoman.mock.recorder import Recorder, redacted_headers
from dragoman.mock.script_player import PREFIX, Play, play
from dragoman.mock.stored import conversations, responses, threads
from dragoman.mock.stored.memory import MockStore
from dragoman.mock.strict.checks import record_response, refusal
from dragoman.mock.strict.common import objects
from dragoman.mock.turn import MockTurn, turn_of
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Compaction, Seal
from dragoman.model.request import Request as Question
from dragoman.protocols.codec import Mint
from dragoman.protocols.registry import codec_of
from dragoman.translate import translate_failure
from dragoman.wire.json import decode, decode_object

MAX_BODY_BYTES = 64 * 1024 * 1024
# Models of the list. Any other name works, too.
_CLAUDE = ("claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5", "claude-sonnet-4-5")
_GPT = ("gpt-5.1", "gpt-5", "gpt-5-mini", "gpt-4.1")


class _MockRequest(Struct, frozen=True, kw_only=True):
    path: MockPath
    protocol: str
    method: str
    query: str
    headers: dict[str, str]
    body: JsonObject
    size: int


class MockApp:
    """Serves requests. `lenient` disables the rules of the services."""

    def __init__(self, mint: Mint, *, lenient: bool = False, recorder: Recorder | None = None) -> None:
        self._mint = mint
        self._lenient = lenient
        self._recorder = recorder
        self._memory = MockStore()
        self._handlers: dict[MockEndpointKind, Callable[[_MockRequest], JsonObject | MockTurn | Failure]] = {
            MockEndpointKind.CONVERSATION: self._converse,
            MockEndpointKind.COUNT: self._count,
            MockEndpointKind.COMPACT: self._compact,
            MockEndpointKind.STORED: self._stored,
            MockEndpointKind.STORED_INPUT: self._stored_input,
            MockEndpointKind.CANCEL: self._cancel,
            MockEndpointKind.CONVERSATIONS: self._held,
            MockEndpointKind.HELD: self._held,
            MockEndpointKind.HELD_ITEMS: self._held,
            MockEndpointKind.HELD_ITEM: self._held,
            MockEndpointKind.EMBEDDINGS: self._embed,
            MockEndpointKind.MODELS: self._models,
            MockEndpointKind.MODEL: self._model,
            MockEndpointKind.INDEX: self._index,
        }

    async def __call__(self, request: ServerRequest) -> None:
        path = resolve_path(request.path)
        protocol = path.protocol or _protocol_of(request)
        request_id = "req_" + self._mint.token(24)
        raw = b""
        outcome: JsonObject | MockTurn | Failure
        try:
            raw = decode_body(
                await request.body(MAX_BODY_BYTES), request.header(b"content-encoding") or b"", MAX_BODY_BYTES
            )
            outcome = self._outcome(request, path, protocol, raw)
        except ClientError as error:
            outcome = _as_failure(error)
        except (WireError, RecursionError) as error:
            outcome = unreadable(error)
        content = outcome.delivery if isinstance(outcome, MockTurn) else outcome
        response = http_response(content, protocol, request_id, self._mint)
        if self._recorder is not None:
            # Logged before the first byte is sent, so that the line exists when the client has its response.
            line: JsonObject = {
                "protocol": protocol,
                "method": request.method,
                "path": request.path,
                "query": request.query,
                "headers": redacted_headers(request.headers),
                "body": _readable(raw),
                "status": response.status,
                "answer": outcome.body if isinstance(outcome, MockTurn) else decode(response.delivery.body),
            }
            self._recorder.record(line)
        await _send(request, response)

    def refuse(self, status: int, message: str, path: str, peer: str) -> tuple[HeaderList, bytes]:
        protocol = (resolve_path(path).protocol if path else "") or CHAT
        response = translate_failure(_as_failure(ClientError(status, message)), target=protocol)
        return [(b"content-type", b"application/json")], response.body

    def _outcome(
        self, request: ServerRequest, path: MockPath, protocol: str, raw: bytes
    ) -> JsonObject | MockTurn | Failure:
        handler = self._handlers.get(path.kind)
        if handler is None:
            return NOWHERE
        if request.method not in path.methods:
            return not_allowed(request.method)
        failure = _credential_failure(request, protocol) if path.kind is not MockEndpointKind.INDEX else None
        if failure is not None:
            return failure
        mock_request = _MockRequest(
            path=path,
            protocol=protocol,
            method=request.method,
            query=request.query,
            headers={name: str(value) for name, value in redacted_headers(request.headers).items()},
            body=decode_object(raw) if request.method == "POST" and raw else {},
            size=len(raw),
        )
        return handler(mock_request)

    def _converse(self, request: _MockRequest) -> JsonObject | MockTurn | Failure:
        full_request = self._expanded(request)
        if isinstance(full_request, Failure):
            return full_request
        issued = self._memory.issued_in(request.protocol)
        refused = None if self._lenient else refusal(request.protocol, full_request, request.headers, issued)
        if refused is not None:
            return refused
        question = codec_of(request.protocol).decode_request(full_request)
        turn = turn_of(self._played(question, full_request), question, self._mint)
        if isinstance(turn, Failure):
            return turn
        record_response(request.protocol, turn.body, issued)
        if request.protocol == MESSAGES:
            threads.remember(request.body, full_request, turn.body, self._memory, request.size)
        elif request.protocol == RESPONSES:
            if request.body.get("conversation") is not None:
                new = objects(responses.input_items(request.body.get("input")))
                conversations.remember(request.body["conversation"], new, turn.body, self._memory, self._mint)
            now = responses.remember(full_request, turn.body, self._memory, self._mint, request.size)
            if now is not turn.body:
                return now
        return turn

    def _played(self, question: Question, full_request: JsonObject) -> Play:
        if question.origin == RESPONSES and responses.is_compaction_requested(full_request):
            item = responses.compaction(question, self._mint)
            return Play(parts=(Compaction(summary=None, seal=Seal(origin=RESPONSES, kind="compaction", body=item)),))
        return play(question, self._memory.once)

    def _expanded(self, request: _MockRequest) -> JsonObject | Failure:
        if request.protocol == MESSAGES:
            return threads.expanded(request.body, self._memory)
        return responses.expanded(request.body, self._memory) if request.protocol == RESPONSES else request.body

    def _count(self, request: _MockRequest) -> JsonObject | Failure:
        full_request = self._expanded(request)
        return (
            full_request
            if isinstance(full_request, Failure)
            else counted(codec_of(request.protocol).decode_request(full_request))
        )

    def _compact(self, request: _MockRequest) -> JsonObject | Failure:
        full_request = self._expanded(request)
        if isinstance(full_request, Failure):
            return full_request
        question = codec_of(request.protocol).decode_request(full_request)
        return responses.compacted(full_request, question, count_request(question), self._mint)

    def _stored(self, request: _MockRequest) -> JsonObject | Failure:
        name, memory = request.path.name, self._memory
        return responses.deleted(name, memory) if request.method == "DELETE" else responses.retrieved(name, memory)

    def _stored_input(self, request: _MockRequest) -> JsonObject | Failure:
        return responses.inputs(request.path.name, request.query, self._memory)

    def _cancel(self, request: _MockRequest) -> JsonObject | Failure:
        return responses.cancelled(request.path.name, self._memory)

    def _held(self, request: _MockRequest) -> JsonObject | Failure:
        name, memory, mint = request.path.name, self._memory, self._mint
        match request.path.kind:
            case MockEndpointKind.CONVERSATIONS:
                return conversations.created(request.body, memory, mint)
            case MockEndpointKind.HELD:
                return conversations.conversation_object(name, request.method, request.body, memory)
            case MockEndpointKind.HELD_ITEMS:
                return conversations.items(name, request.method, request.query, request.body, memory, mint)
            case _:
                return conversations.item(name.replace("/items/", "/"), request.method, memory)

    def _embed(self, request: _MockRequest) -> JsonObject:
        return {**embed(request.body), "model": request.body.get("model")}

    def _models(self, request: _MockRequest) -> JsonObject:
        names = (*(_CLAUDE if request.protocol == MESSAGES else _GPT), *(PREFIX + name for name in ECHO_MODELS))
        return listed({name: name for name in names}, request.protocol)

    def _model(self, request: _MockRequest) -> JsonObject:
        return one_listed(request.path.name, request.path.name, request.protocol)

    def _index(self, request: _MockRequest) -> JsonObject:
        return {"name": "dragoman mock"}


async def _send(request: ServerRequest, response: MockHttpResponse) -> None:
    delivery = response.delivery
    if delivery.wait:
        await asyncio.sleep(delivery.wait)
    if not delivery.streamed and not delivery.breaks:
        request.respond(response.status, response.headers, delivery.body)
        return
    request.start(response.status, response.headers)
    for delay, piece in delivery.pieces:
        await asyncio.sleep(delay)
        request.write(piece)
        await request.drained()
    if delivery.breaks:
        # Written data is sent first: the connection breaks after the text before it.
        await asyncio.sleep(0)
        request.abort()
    else:
        request.end()


def _protocol_of(request: ServerRequest) -> str:
    if request.header(b"anthropic-version") is not None:
        return MESSAGES
    if request.header(b"x-api-key") is not None and request.header(b"authorization") is None:
        return MESSAGES
    return CHAT


def _credential_failure(request: ServerRequest, protocol: str) -> Failure | None:
    """The failure for missing credentials. Any credential is valid."""
    bearer = (request.header(b"authorization") or b"").lower().startswith(b"bearer ")
    if bearer or request.header(b"api-key") or (protocol == MESSAGES and request.header(b"x-api-key")):
        return None
    message = (
        "x-api-key header is required"
        if protocol == MESSAGES
        else "You didn't provide an API key. You need to provide your API key in an Authorization header "
        "using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
    )
    return Failure(kind=FailureKind.UNAUTHENTICATED, status=401, message=message)


def _as_failure(error: ClientError) -> Failure:
    kind = FailureKind.TOO_LARGE if error.status == 413 else FailureKind.INVALID
    return Failure(kind=kind, status=error.status, message=error.message)


def _readable(raw: bytes) -> JsonValue:
    try:
        return decode(raw) if raw else None
    except WireError:
        return raw.decode("utf-8", "replace")


_LIMITS = ServerLimits(header_bytes=64 * 1024, header_count=200, header_timeout=30.0, body_timeout=60.0)
# Seconds for open requests at shutdown: to finish, and to be cancelled.
_GRACE = 1.0


async def serve(app: MockApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        await serve_until(stop, app, listener, ready)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def serve_until(stop: asyncio.Event, app: MockApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    server = HttpServer(app, app.refuse, _LIMITS)
    accepting = await asyncio.get_running_loop().create_server(server, sock=listener, backlog=1024)
    try:
        ready()
        await stop.wait()
    finally:
        accepting.close()
        server.retire()
        if not await server.wait_idle(_GRACE):
            server.cancel_all()
            await server.wait_idle(_GRACE)
