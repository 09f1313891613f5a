"""App: what the server calls for every request: who asks, what for, and what the service would answer.

request ─▶ place ─▶ credentials ─▶ body ─▶ rules of the service ─▶ step of the script ─▶ answer, whole or streamed
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from dragoman.errors import ClientError, WireError
from dragoman.http.coding import decode_body
from dragoman.http.flight import HeaderList
from dragoman.http.server import Request
from dragoman.mock.answers.embeddings import embed
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.answers.tokens import count_request
from dragoman.mock.listing import listed, one_listed
from dragoman.mock.paths import Kind, Place, place_of
from dragoman.mock.recorder import Recorder, told_headers
from dragoman.mock.script_player import Play, play
from dragoman.mock.stored import conversations, responses, threads
from dragoman.mock.stored.memory import Memory
from dragoman.mock.strict.checks import note, refusal
from dragoman.mock.strict.common import objects
from dragoman.mock.telling import Told, tell
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Compaction, Seal
from dragoman.model.request import Request as Question
from dragoman.protocols.codec import Mint
from dragoman.protocols.registry import codec_of
from dragoman.translate import translate_failure
from dragoman.wire.json import decode, decode_object, encode

MOST_BYTES = 64 * 1024 * 1024
_JSON = (b"content-type", b"application/json")
_STREAM = (b"content-type", b"text/event-stream; charset=utf-8")
_REQUEST_ID = {MESSAGES: b"request-id", CHAT: b"x-request-id", RESPONSES: b"x-request-id"}
# In the common form: OpenAI's names, resets in seconds.
_LIMITS = {
    "x-ratelimit-limit-requests": "1000",
    "x-ratelimit-remaining-requests": "999",
    "x-ratelimit-reset-requests": "1",
    "x-ratelimit-limit-tokens": "1000000",
    "x-ratelimit-remaining-tokens": "999000",
    "x-ratelimit-reset-tokens": "1",
}
# Errors that are worth another try, and when.
_RETRIED = {429: b"1", 503: b"1", 529: b"1"}


class _Reply(Struct, frozen=True, kw_only=True):
    """What goes back: `answer` is what is recorded, `told` how it is sent if it is more than that."""

    status: int
    headers: HeaderList
    answer: JsonValue
    told: Told | None = None


class _Ask(Struct, frozen=True, kw_only=True):
    """One request as its handler sees it."""

    place: Place
    protocol: str
    method: str
    request_id: str
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
        self._memory = Memory()
        self._handlers: dict[Kind, Callable[[_Ask], _Reply | Failure]] = {
            Kind.CONVERSATION: self._converse,
            Kind.COUNT: self._count,
            Kind.COMPACT: self._compact,
            Kind.STORED: self._stored,
            Kind.STORED_INPUT: self._stored_input,
            Kind.CANCEL: self._cancel,
            Kind.CONVERSATIONS: self._held,
            Kind.HELD: self._held,
            Kind.HELD_ITEMS: self._held,
            Kind.HELD_ITEM: self._held,
            Kind.EMBEDDINGS: self._embed,
            Kind.MODELS: self._models,
            Kind.MODEL: self._model,
            Kind.HOME: self._home,
        }

    async def __call__(self, request: Request) -> None:
        """Serve one request."""
        place = place_of(request.path)
        protocol = place.protocol or _dialect(request)
        request_id = "req_" + self._mint.token(24)
        raw = b""
        try:
            raw = decode_body(await request.body(MOST_BYTES), request.header(b"content-encoding") or b"", MOST_BYTES)
            outcome = self._outcome(request, place, protocol, request_id, raw)
        except (ClientError, WireError) as error:
            outcome = self._failed(_as_failure(error), protocol, request_id)
        except RecursionError:
            deep = WireError("", "JSON of bounded depth", "nesting beyond the limit")
            outcome = self._failed(_as_failure(deep), protocol, request_id)
        if self._recorder is not None:
            # Before a byte is sent: whoever was answered finds the line.
            self._recorder.note(
                protocol=protocol,
                method=request.method,
                path=request.path,
                query=request.query,
                headers=request.headers,
                body=_readable(raw),
                status=outcome.status,
                answer=outcome.answer,
            )
        await _send(request, outcome)

    def refuse(self, status: int, message: str, path: str) -> tuple[HeaderList, bytes]:
        """The reply to what never became a request."""
        protocol = (place_of(path).protocol if path else "") or CHAT
        told = translate_failure(_as_failure(ClientError(status, message)), target=protocol)
        return [_JSON], told.body

    def _outcome(self, request: Request, place: Place, protocol: str, request_id: str, raw: bytes) -> _Reply:
        handler = self._handlers.get(place.kind)
        failure: Failure | None = None
        if handler is None:
            failure = Failure(
                kind=FailureKind.NOT_FOUND,
                status=404,
                message="There is nothing under this path.",
                native="invalid_request_error",
            )
        elif request.method not in place.methods:
            failure = Failure(kind=FailureKind.OTHER, status=405, message=f"Not allowed here: {request.method[:20]}.")
        elif place.kind is not Kind.HOME:
            failure = _credential_failure(request, protocol)
        if failure is not None or handler is None:
            assert failure is not None
            return self._failed(failure, protocol, request_id)
        ask = _Ask(
            place=place,
            protocol=protocol,
            method=request.method,
            request_id=request_id,
            query=request.query,
            headers={name: str(value) for name, value in told_headers(request.headers).items()},
            body=decode_object(raw) if request.method == "POST" and raw else {},
            size=len(raw),
        )
        outcome = handler(ask)
        return self._failed(outcome, protocol, request_id) if isinstance(outcome, Failure) else outcome

    # Handlers.

    def _converse(self, ask: _Ask) -> _Reply | Failure:
        whole = self._expanded(ask)
        if isinstance(whole, Failure):
            return whole
        issued = self._memory.issued_in(ask.protocol)
        refused = None if self._lenient else refusal(ask.protocol, whole, ask.headers, issued)
        if refused is not None:
            return refused
        question = codec_of(ask.protocol).decode_request(whole)
        told = tell(self._played(question, whole), question, self._mint)
        if isinstance(told, Failure):
            return told
        note(ask.protocol, told.body, issued)
        if ask.protocol == MESSAGES:
            threads.remember(ask.body, whole, told.body, self._memory, ask.size)
        elif ask.protocol == RESPONSES:
            if ask.body.get("conversation") is not None:
                new = objects(responses.input_items(ask.body.get("input")))
                conversations.remember(ask.body["conversation"], new, told.body, self._memory, self._mint)
            now = responses.remember(whole, told.body, self._memory, self._mint, ask.size)
            if now is not told.body:
                return self._reply(ask, now)
        return self._told(ask, told)

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

    def _count(self, ask: _Ask) -> _Reply | Failure:
        whole = self._expanded(ask)
        if isinstance(whole, Failure):
            return whole
        body: JsonObject = {"input_tokens": count_request(codec_of(ask.protocol).decode_request(whole))}
        if ask.protocol == RESPONSES:
            body = {"object": "response.input_tokens", **body}
        return self._reply(ask, body)

    def _compact(self, ask: _Ask) -> _Reply | Failure:
        whole = self._expanded(ask)
        if isinstance(whole, Failure):
            return whole
        question = codec_of(ask.protocol).decode_request(whole)
        return self._reply(ask, responses.compacted(whole, question, count_request(question), self._mint))

    def _stored(self, ask: _Ask) -> _Reply | Failure:
        name, memory = ask.place.name, self._memory
        found = responses.deleted(name, memory) if ask.method == "DELETE" else responses.shown(name, memory)
        return found if isinstance(found, Failure) else self._reply(ask, found)

    def _stored_input(self, ask: _Ask) -> _Reply | Failure:
        found = responses.inputs(ask.place.name, ask.query, self._memory)
        return found if isinstance(found, Failure) else self._reply(ask, found)

    def _cancel(self, ask: _Ask) -> _Reply | Failure:
        found = responses.cancelled(ask.place.name, self._memory)
        return found if isinstance(found, Failure) else self._reply(ask, found)

    def _held(self, ask: _Ask) -> _Reply | Failure:
        name, memory, mint = ask.place.name, self._memory, self._mint
        found: JsonObject | Failure
        match ask.place.kind:
            case Kind.CONVERSATIONS:
                found = conversations.created(ask.body, memory, mint)
            case Kind.HELD:
                found = conversations.whole(name, ask.method, ask.body, memory)
            case Kind.HELD_ITEMS:
                found = conversations.items(name, ask.method, ask.query, ask.body, memory, mint)
            case _:
                found = conversations.item(name.replace("/items/", "/"), ask.method, memory)
        return found if isinstance(found, Failure) else self._reply(ask, found)

    def _embed(self, ask: _Ask) -> _Reply | Failure:
        return self._reply(ask, {**embed(ask.body), "model": ask.body.get("model")})

    def _models(self, ask: _Ask) -> _Reply | Failure:
        return self._reply(ask, listed(ask.protocol))

    def _model(self, ask: _Ask) -> _Reply | Failure:
        return self._reply(ask, one_listed(ask.place.name, ask.protocol))

    def _home(self, ask: _Ask) -> _Reply | Failure:
        return self._reply(ask, {"name": "dragoman mock"})

    # Replies.

    def _reply(self, ask: _Ask, body: JsonObject, status: int = 200) -> _Reply:
        return _Reply(status=status, headers=[_JSON, *self._common(ask.protocol, ask.request_id)], answer=body)

    def _told(self, ask: _Ask, told: Told) -> _Reply:
        headers: HeaderList = [_STREAM if told.streamed else _JSON, *self._common(ask.protocol, ask.request_id)]
        return _Reply(status=200, headers=headers, answer=told.body, told=told)

    def _failed(self, failure: Failure, protocol: str, request_id: str) -> _Reply:
        """An error under the status that was meant, even where a client would be told another."""
        told = translate_failure(failure, target=protocol, request_id=request_id)
        headers: HeaderList = [_JSON, *self._common(protocol, request_id)]
        if failure.status in _RETRIED:
            headers.append((b"retry-after", _RETRIED[failure.status]))
        headers += ((name.encode(), value.encode()) for name, value in told.headers.items())
        return _Reply(status=failure.status, headers=headers, answer=decode(told.body))

    def _common(self, protocol: str, request_id: str) -> HeaderList:
        limits = codec_of(protocol).encode_limits(_LIMITS, self._mint.now())
        return [
            (_REQUEST_ID[protocol], request_id.encode()),
            *((name.encode(), value.encode()) for name, value in limits.items()),
        ]


async def _send(request: Request, reply: _Reply) -> None:
    told = reply.told
    if told is None:
        request.respond(reply.status, reply.headers, encode(reply.answer))
        return
    if told.wait:
        await asyncio.sleep(told.wait)
    if not told.streamed and not told.breaks:
        request.respond(reply.status, reply.headers, b"".join([piece for _, piece in told.pieces]))
        return
    request.start(reply.status, reply.headers)
    for rest, piece in told.pieces:
        await asyncio.sleep(rest)
        request.write(piece)
        await request.drained()
    if told.breaks:
        # What was written goes out first: a cut is felt after the words before it.
        await asyncio.sleep(0)
        request.abort()
    else:
        request.end()


def _dialect(request: Request) -> str:
    """The protocol of a path that all have."""
    if request.header(b"anthropic-version") is not None:
        return MESSAGES
    if request.header(b"x-api-key") is not None and request.header(b"authorization") is None:
        return MESSAGES
    return CHAT


def _credential_failure(request: Request, protocol: str) -> Failure | None:
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


def _as_failure(error: ClientError | WireError) -> Failure:
    if isinstance(error, WireError):
        path = error.path.lstrip("/").replace("/", ".") or None
        return Failure(kind=FailureKind.INVALID, status=400, message=str(error), param=path)
    kind = FailureKind.TOO_LARGE if error.status == 413 else FailureKind.INVALID
    return Failure(kind=kind, status=error.status, message=error.message)


def _readable(raw: bytes) -> JsonValue:
    """A body for the record: JSON, or its text."""
    try:
        return decode(raw) if raw else None
    except WireError:
        return raw.decode("utf-8", "replace")
