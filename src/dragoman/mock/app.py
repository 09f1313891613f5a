"""App: what the server calls for every request: who asks, what for, and what the service would answer.

request ─▶ place ─▶ credentials ─▶ body ─▶ rules of the service ─▶ step of the script ─▶ answer, whole or streamed
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from dragoman.errors import ClientError, WireError
from dragoman.http.coding import decode_body
from dragoman.http.server import ServerRequest
from dragoman.http.upstream_call import HeaderList
from dragoman.mock.answers.embeddings import embed
from dragoman.mock.answers.model_list import listed, one_listed
from dragoman.mock.answers.models import ECHO_MODELS
from dragoman.mock.answers.replies import NOWHERE, MockReply, not_allowed, reply_of, unreadable
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.answers.tokens import count_request, counted
from dragoman.mock.paths import MockEndpointKind, MockPath, place_of
from dragoman.mock.recorder import Recorder, told_headers
from dragoman.mock.script_player import PREFIX, Play, play
from dragoman.mock.stored import conversations, responses, threads
from dragoman.mock.stored.memory import MockStore
from dragoman.mock.strict.checks import note, refusal
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

MOST_BYTES = 64 * 1024 * 1024
# Listed to begin with; any other name is answered too.
_CLAUDE = ("claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5", "claude-sonnet-4-5")
_GPT = ("gpt-5.1", "gpt-5", "gpt-5-mini", "gpt-4.1")


class _Ask(Struct, frozen=True, kw_only=True):
    """One request as its handler sees it."""

    place: MockPath
    protocol: str
    method: str
    query: str
    headers: dict[str, str]
    body: JsonObject
    size: int


class MockApp:
    """Answers requests; `lenient` leaves the rules of the services aside."""

    def __init__(self, mint: Mint, *, lenient: bool = False, recorder: Recorder | None = None) -> None:
        self._mint = mint
        self._lenient = lenient
        self._recorder = recorder
        self._memory = MockStore()
        self._handlers: dict[MockEndpointKind, Callable[[_Ask], JsonObject | MockTurn | Failure]] = {
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
            MockEndpointKind.HOME: self._home,
        }

    async def __call__(self, request: ServerRequest) -> None:
        """Serve one request."""
        place = place_of(request.path)
        protocol = place.protocol or _dialect(request)
        request_id = "req_" + self._mint.token(24)
        raw = b""
        outcome: JsonObject | MockTurn | Failure
        try:
            raw = decode_body(await request.body(MOST_BYTES), request.header(b"content-encoding") or b"", MOST_BYTES)
            outcome = self._outcome(request, place, protocol, raw)
        except ClientError as error:
            outcome = _as_failure(error)
        except (WireError, RecursionError) as error:
            outcome = unreadable(error)
        told = outcome.delivery if isinstance(outcome, MockTurn) else outcome
        reply = reply_of(told, protocol, request_id, self._mint)
        if self._recorder is not None:
            # Before a byte is sent: whoever was answered finds the line.
            self._recorder.note(
                protocol=protocol,
                method=request.method,
                path=request.path,
                query=request.query,
                headers=request.headers,
                body=_readable(raw),
                status=reply.status,
                answer=outcome.body if isinstance(outcome, MockTurn) else decode(reply.delivery.body),
            )
        await _send(request, reply)

    def refuse(self, status: int, message: str, path: str, peer: str) -> tuple[HeaderList, bytes]:
        """The reply to what never became a request."""
        protocol = (place_of(path).protocol if path else "") or CHAT
        told = translate_failure(_as_failure(ClientError(status, message)), target=protocol)
        return [(b"content-type", b"application/json")], told.body

    def _outcome(
        self, request: ServerRequest, place: MockPath, protocol: str, raw: bytes
    ) -> JsonObject | MockTurn | Failure:
        handler = self._handlers.get(place.kind)
        if handler is None:
            return NOWHERE
        if request.method not in place.methods:
            return not_allowed(request.method)
        failure = _credential_failure(request, protocol) if place.kind is not MockEndpointKind.HOME else None
        if failure is not None:
            return failure
        ask = _Ask(
            place=place,
            protocol=protocol,
            method=request.method,
            query=request.query,
            headers={name: str(value) for name, value in told_headers(request.headers).items()},
            body=decode_object(raw) if request.method == "POST" and raw else {},
            size=len(raw),
        )
        return handler(ask)

    # Handlers.

    def _converse(self, ask: _Ask) -> JsonObject | MockTurn | Failure:
        whole = self._expanded(ask)
        if isinstance(whole, Failure):
            return whole
        issued = self._memory.issued_in(ask.protocol)
        refused = None if self._lenient else refusal(ask.protocol, whole, ask.headers, issued)
        if refused is not None:
            return refused
        question = codec_of(ask.protocol).decode_request(whole)
        turn = turn_of(self._played(question, whole), question, self._mint)
        if isinstance(turn, Failure):
            return turn
        note(ask.protocol, turn.body, issued)
        if ask.protocol == MESSAGES:
            threads.remember(ask.body, whole, turn.body, self._memory, ask.size)
        elif ask.protocol == RESPONSES:
            if ask.body.get("conversation") is not None:
                new = objects(responses.input_items(ask.body.get("input")))
                conversations.remember(ask.body["conversation"], new, turn.body, self._memory, self._mint)
            now = responses.remember(whole, turn.body, self._memory, self._mint, ask.size)
            if now is not turn.body:
                return now
        return turn

    def _played(self, question: Question, whole: JsonObject) -> Play:
        if question.origin == RESPONSES and responses.is_compaction_asked(whole):
            item = responses.compaction(question, self._mint)
            return Play(parts=(Compaction(summary=None, seal=Seal(origin=RESPONSES, kind="compaction", body=item)),))
        return play(question, self._memory.once)

    def _expanded(self, ask: _Ask) -> JsonObject | Failure:
        """The request with the conversation that it only refers to."""
        if ask.protocol == MESSAGES:
            return threads.expanded(ask.body, self._memory)
        return responses.expanded(ask.body, self._memory) if ask.protocol == RESPONSES else ask.body

    def _count(self, ask: _Ask) -> JsonObject | Failure:
        whole = self._expanded(ask)
        return whole if isinstance(whole, Failure) else counted(codec_of(ask.protocol).decode_request(whole))

    def _compact(self, ask: _Ask) -> JsonObject | Failure:
        whole = self._expanded(ask)
        if isinstance(whole, Failure):
            return whole
        question = codec_of(ask.protocol).decode_request(whole)
        return responses.compacted(whole, question, count_request(question), self._mint)

    def _stored(self, ask: _Ask) -> JsonObject | Failure:
        name, memory = ask.place.name, self._memory
        return responses.deleted(name, memory) if ask.method == "DELETE" else responses.shown(name, memory)

    def _stored_input(self, ask: _Ask) -> JsonObject | Failure:
        return responses.inputs(ask.place.name, ask.query, self._memory)

    def _cancel(self, ask: _Ask) -> JsonObject | Failure:
        return responses.cancelled(ask.place.name, self._memory)

    def _held(self, ask: _Ask) -> JsonObject | Failure:
        name, memory, mint = ask.place.name, self._memory, self._mint
        match ask.place.kind:
            case MockEndpointKind.CONVERSATIONS:
                return conversations.created(ask.body, memory, mint)
            case MockEndpointKind.HELD:
                return conversations.whole(name, ask.method, ask.body, memory)
            case MockEndpointKind.HELD_ITEMS:
                return conversations.items(name, ask.method, ask.query, ask.body, memory, mint)
            case _:
                return conversations.item(name.replace("/items/", "/"), ask.method, memory)

    def _embed(self, ask: _Ask) -> JsonObject:
        return {**embed(ask.body), "model": ask.body.get("model")}

    def _models(self, ask: _Ask) -> JsonObject:
        names = (*(_CLAUDE if ask.protocol == MESSAGES else _GPT), *(PREFIX + name for name in ECHO_MODELS))
        return listed({name: name for name in names}, ask.protocol)

    def _model(self, ask: _Ask) -> JsonObject:
        return one_listed(ask.place.name, ask.place.name, ask.protocol)

    def _home(self, ask: _Ask) -> JsonObject:
        return {"name": "dragoman mock"}


async def _send(request: ServerRequest, reply: MockReply) -> None:
    delivery = reply.delivery
    if delivery.wait:
        await asyncio.sleep(delivery.wait)
    if not delivery.streamed and not delivery.breaks:
        request.respond(reply.status, reply.headers, delivery.body)
        return
    request.start(reply.status, reply.headers)
    for rest, piece in delivery.pieces:
        await asyncio.sleep(rest)
        request.write(piece)
        await request.drained()
    if delivery.breaks:
        # What was written goes out first: a cut is felt after the words before it.
        await asyncio.sleep(0)
        request.abort()
    else:
        request.end()


def _dialect(request: ServerRequest) -> str:
    """The protocol of a path that all have."""
    if request.header(b"anthropic-version") is not None:
        return MESSAGES
    if request.header(b"x-api-key") is not None and request.header(b"authorization") is None:
        return MESSAGES
    return CHAT


def _credential_failure(request: ServerRequest, protocol: str) -> Failure | None:
    """Any credential is good, but there has to be one."""
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
    """A body for the record: JSON, or its text."""
    try:
        return decode(raw) if raw else None
    except WireError:
        return raw.decode("utf-8", "replace")
