"""The provider: a call in one protocol to the reply that a service of that protocol would give.

    path                          protocols                      gives
    /messages                     anthropic-messages             an answer, whole or streamed
    /messages/count_tokens        anthropic-messages             a count
    /chat/completions             openai-chat                    an answer, whole or streamed
    /responses                    openai-responses               an answer, whole or streamed
    /responses/input_tokens       openai-responses               a count
    /embeddings                   openai-chat, openai-responses  vectors
    /models, /models/{id}         all                            the table of models

A path may begin with `/v1`. Everything follows from the call: the same one gets the same bytes, ids and times included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.http.flight import Call, HeaderList
from dragoman.mock.answers.embeddings import EMBEDDING_MODEL, embed
from dragoman.mock.answers.last_turn import hear, orphan
from dragoman.mock.answers.model_list import listed, one_listed
from dragoman.mock.answers.models import ECHO_MODELS, EchoModel, Ending
from dragoman.mock.answers.response import CREATED, answer_to, asked_of, events_of
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES, check
from dragoman.mock.answers.tokens import count_request
from dragoman.model.events import ArgumentsDelta, Failed, PartEnded, PartGrew, Stopped, TextDelta
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.request import Request
from dragoman.model.response import Response
from dragoman.protocols.codec import Mint
from dragoman.protocols.registry import codec_of
from dragoman.translate import derived_mint, translate_failure
from dragoman.wire.json import decode_object, encode

# A rest in seconds, and the bytes that come after it.
Piece: TypeAlias = tuple[float, bytes]

# After how many tokens an answer ends that does not end well; a shorter one ends so before it is whole.
_FEW = 2


class Reply(Struct, frozen=True, kw_only=True):
    """What is sent back: `wait` is the time before the head, `breaks` says that the end never comes."""

    status: int
    headers: HeaderList
    pieces: Iterator[Piece]
    wait: float = 0.0
    breaks: bool = False


class _Desk(Struct, frozen=True, kw_only=True):
    """One call as its handler sees it."""

    protocol: str
    body: bytes
    mint: Mint
    request_id: str


_Outcome: TypeAlias = Reply | Failure


def reply_to(call: Call, protocol: str) -> Reply:
    """Answer a call in a protocol."""
    path = call.url.removeprefix("echo:").partition("?")[0].removeprefix("/v1").rstrip("/")
    mint = replace(derived_mint(b" ".join((protocol.encode(), path.encode(), call.body))), now=lambda: CREATED)
    desk = _Desk(protocol=protocol, body=call.body, mint=mint, request_id="req_" + mint.token(24))
    try:
        outcome = _handled(call.method, path, desk)
    except WireError as error:
        return _failed(error, desk)
    except RecursionError:
        return _failed(WireError("", "JSON of bounded depth", "nesting beyond the limit"), desk)
    return outcome if isinstance(outcome, Reply) else _failed(outcome, desk)


def _handled(method: str, path: str, desk: _Desk) -> _Outcome:
    if path == "/models" or path.startswith("/models/"):
        return _models(path.removeprefix("/models").removeprefix("/"), desk) if method == "GET" else _no_method(method)
    handler = _HANDLERS.get((desk.protocol, path))
    if handler is None:
        return _failure(FailureKind.NOT_FOUND, 404, "There is nothing under this path.", native="invalid_request_error")
    return handler(desk) if method == "POST" else _no_method(method)


def _no_method(method: str) -> Failure:
    return _failure(FailureKind.OTHER, 405, f"Not allowed here: {method[:20]}.")


def _failure(kind: FailureKind, status: int, message: str, *, param: str | None = None, native: str = "") -> Failure:
    return Failure(kind=kind, status=status, message=message, param=param, native=native)


# Conversation.


def _answer(desk: _Desk) -> _Outcome:
    request = codec_of(desk.protocol).decode_request(decode_object(desk.body))
    model = ECHO_MODELS.get(request.model)
    if model is None:
        return _unknown_model(request.model, desk.protocol)
    thoughts = check(request)
    if isinstance(thoughts, Failure):
        return thoughts
    objection = _objection(request)
    if objection is not None:
        return objection
    said = model.answer(hear(request, thoughts))
    if isinstance(said, Failure):
        return said
    response = answer_to(request, said, desk.mint)
    return _streamed(response, request, model, desk) if request.stream else _whole(response, request, model, desk)


def _unknown_model(name: str, protocol: str) -> Failure:
    known = ", ".join(ECHO_MODELS)
    if protocol == MESSAGES:
        return _failure(FailureKind.NOT_FOUND, 404, f"model: {name[:100]}; known are {known}")
    message = f"The model `{name[:100]}` does not exist; known are {known}."
    return _failure(FailureKind.NOT_FOUND, 404, message, param="model")


def _objection(request: Request) -> Failure | None:
    """What a service of the protocol would not take, although it is well formed."""
    cap, protocol = request.max_tokens, request.origin
    if protocol == MESSAGES and cap is None and not request.prewarm:
        return _failure(FailureKind.INVALID, 400, "max_tokens: Field required")
    if protocol == MESSAGES and not request.messages:
        return _failure(FailureKind.INVALID, 400, "messages: at least one message is required")
    if request.choices is not None and request.choices != 1:
        return _failure(FailureKind.INVALID, 400, "n: an echo gives one answer", param="n")
    if request.continues is not None or request.conversation is not None:
        member = "conversation" if request.continues is None else "previous_response_id"
        return _failure(FailureKind.INVALID, 400, f"{member}: nothing is stored here", param=member)
    call_id = orphan(request)
    if call_id is not None:
        message = f"No tool call was made under the id {call_id[:64]!r} that a result answers."
        return _failure(FailureKind.INVALID, 400, message)
    return None


def _whole(response: Response, request: Request, model: EchoModel, desk: _Desk) -> _Outcome:
    if model.ending is Ending.FAILS:
        return replace(_OVERLOADED, status=529 if desk.protocol == MESSAGES else 503)
    codec = codec_of(desk.protocol)
    body = encode(codec.encode_response(response, asked_of(request), desk.mint, Ledger()))
    # A service generates first and answers then.
    wait = model.pace * (response.usage.output if response.usage is not None else 0)
    if model.ending is Ending.BREAKS:
        return _reply(desk, iter([(0.0, body[: len(body) // 2])]), breaks=True)
    return _reply(desk, iter([(0.0, body)]), wait=wait)


_OVERLOADED = Failure(kind=FailureKind.OVERLOADED, status=529, message="Overloaded: you asked for it.")


def _streamed(response: Response, request: Request, model: EchoModel, desk: _Desk) -> Reply:
    pieces = _frames(response, request, model, desk)
    # What cannot be written shows in the first frame, while the status can still say so.
    pieces = chain([next(pieces)], pieces)
    return _reply(desk, pieces, form=b"text/event-stream; charset=utf-8", breaks=model.ending is Ending.BREAKS)


def _frames(response: Response, request: Request, model: EchoModel, desk: _Desk) -> Iterator[Piece]:
    """The stream, frame by frame; before the tokens there is a rest."""
    encoder = codec_of(desk.protocol).stream_encoder(asked_of(request), desk.mint, Ledger())
    said = 0
    for event in events_of(response):
        is_token = isinstance(event, PartGrew) and isinstance(event.delta, TextDelta | ArgumentsDelta)
        is_time = (is_token and said >= _FEW) or isinstance(event, PartEnded | Stopped)
        if is_time and model.ending is not Ending.WHOLE:
            if model.ending is Ending.FAILS:
                yield from _split(encoder.feed(Failed(_OVERLOADED)), 0.0)
            return
        said += is_token
        yield from _split(encoder.feed(event), model.pace if is_token else 0.0)


def _split(frames: bytes, rest: float) -> Iterator[Piece]:
    """Frames one by one; JSON has no line breaks of its own, so that a blank line always ends one."""
    for frame in frames.split(b"\n\n"):
        if frame:
            yield rest, frame + b"\n\n"
            rest = 0.0


# Counting, embeddings, models.


def _count(desk: _Desk) -> _Outcome:
    request = codec_of(desk.protocol).decode_request(decode_object(desk.body))
    if request.model not in ECHO_MODELS:
        return _unknown_model(request.model, desk.protocol)
    body: JsonObject = {"input_tokens": count_request(request)}
    if desk.protocol == RESPONSES:
        body = {"object": "response.input_tokens", **body}
    return _reply(desk, iter([(0.0, encode(body))]))


def _embed(desk: _Desk) -> _Outcome:
    body = decode_object(desk.body)
    model = body.get("model")
    if model != EMBEDDING_MODEL:
        message = f"The model `{str(model)[:100]}` does not exist; known is {EMBEDDING_MODEL}."
        return _failure(FailureKind.NOT_FOUND, 404, message, param="model")
    return _reply(desk, iter([(0.0, encode(embed(body)))]))


def _models(name: str, desk: _Desk) -> _Outcome:
    if not name:
        return _reply(desk, iter([(0.0, encode(listed(desk.protocol)))]))
    if name not in ECHO_MODELS:
        return _unknown_model(name, desk.protocol)
    return _reply(desk, iter([(0.0, encode(one_listed(name, desk.protocol)))]))


_HANDLERS: dict[tuple[str, str], Callable[[_Desk], _Outcome]] = {
    (MESSAGES, "/messages"): _answer,
    (MESSAGES, "/messages/count_tokens"): _count,
    (CHAT, "/chat/completions"): _answer,
    (CHAT, "/embeddings"): _embed,
    (RESPONSES, "/responses"): _answer,
    (RESPONSES, "/responses/input_tokens"): _count,
    (RESPONSES, "/embeddings"): _embed,
}


# Replies.

_REQUEST_ID = {MESSAGES: "request-id", CHAT: "x-request-id", RESPONSES: "x-request-id"}
# In the common form: OpenAI's names, resets in seconds.
_LIMITS = {
    "x-ratelimit-limit-requests": "1000",
    "x-ratelimit-remaining-requests": "999",
    "x-ratelimit-reset-requests": "1",
    "x-ratelimit-limit-tokens": "1000000",
    "x-ratelimit-remaining-tokens": "999000",
    "x-ratelimit-reset-tokens": "1",
}
_JSON = b"application/json"
# Errors that are worth another try, and when.
_RETRIED = {429: "1", 503: "1", 529: "1"}


def _reply(
    desk: _Desk,
    pieces: Iterator[Piece],
    *,
    status: int = 200,
    form: bytes = _JSON,
    wait: float = 0.0,
    breaks: bool = False,
) -> Reply:
    limits = codec_of(desk.protocol).encode_limits(_LIMITS, CREATED)
    told = {_REQUEST_ID[desk.protocol]: desk.request_id, **limits}
    if status in _RETRIED:
        told["retry-after"] = _RETRIED[status]
    headers: HeaderList = [(b"content-type", form), *((key.encode(), value.encode()) for key, value in told.items())]
    return Reply(status=status, headers=headers, pieces=pieces, wait=wait, breaks=breaks)


def _failed(failure: Failure | WireError, desk: _Desk) -> Reply:
    """An error under the status that was meant, even where a client would be told another."""
    told = translate_failure(failure, target=desk.protocol, request_id=desk.request_id)
    status = failure.status if isinstance(failure, Failure) else told.status
    reply = _reply(desk, iter([(0.0, told.body)]), status=status)
    reply.headers.extend((name.encode(), value.encode()) for name, value in told.headers.items())
    return reply
