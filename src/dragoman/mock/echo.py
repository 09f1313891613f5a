"""Echo: a provider inside the process, without key and network, that responds like a service of each protocol.

path                          protocols                      response
/messages                     anthropic-messages             a response, full or streamed
/messages/count_tokens        anthropic-messages             a count
/chat/completions             openai-chat                    a response, full or streamed
/responses                    openai-responses               a response, full or streamed
/responses/input_tokens       openai-responses               a count
/embeddings                   openai-chat, openai-responses  vectors
/models, /models/{id}         all                            the list of models

A path may begin with `/v1`. The same call always gets the same bytes, including IDs and times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.http.upstream_call import UpstreamRequest
from dragoman.mock.answers.delivery import (
    NOWHERE,
    MockHttpResponse,
    Outcome,
    TimedBytes,
    deliver,
    http_response,
    not_allowed,
    unreadable,
)
from dragoman.mock.answers.embeddings import EMBEDDING_MODEL, embed
from dragoman.mock.answers.last_turn import orphan, read_last_turn
from dragoman.mock.answers.models import CREATED, ECHO_MODELS, listed, one_listed
from dragoman.mock.answers.response import build_response
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES, check
from dragoman.mock.answers.tokens import counted
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.request import Request
from dragoman.protocols.codec import Mint
from dragoman.protocols.registry import codec_of
from dragoman.translate import derived_mint
from dragoman.wire.json import decode_object

_LISTED = {name: f"echo/{name}: {model.description}" for name, model in ECHO_MODELS.items()}


class _EchoRequest(Struct, frozen=True, kw_only=True):
    protocol: str
    body: bytes
    mint: Mint


def respond_to(call: UpstreamRequest, protocol: str) -> MockHttpResponse:
    path = call.url.removeprefix("echo:").partition("?")[0].removeprefix("/v1").rstrip("/")
    mint = replace(derived_mint(b" ".join((protocol.encode(), path.encode(), call.body))), now=lambda: CREATED)
    request_id = "req_" + mint.token(24)
    try:
        outcome = _handled(call.method, path, _EchoRequest(protocol=protocol, body=call.body, mint=mint))
    except (WireError, RecursionError) as error:
        outcome = unreadable(error)
    return http_response(outcome, protocol, request_id, mint)


def _handled(method: str, path: str, echo_request: _EchoRequest) -> Outcome:
    if path == "/models" or path.startswith("/models/"):
        name = path.removeprefix("/models").removeprefix("/")
        return _models(name, echo_request.protocol) if method == "GET" else not_allowed(method)
    handler = _HANDLERS.get((echo_request.protocol, path))
    if handler is None:
        return NOWHERE
    return handler(echo_request) if method == "POST" else not_allowed(method)


def _failure(kind: FailureKind, status: int, message: str, *, param: str | None = None) -> Failure:
    return Failure(kind=kind, status=status, message=message, param=param)


def _converse(echo_request: _EchoRequest) -> Outcome:
    request = codec_of(echo_request.protocol).decode_request(decode_object(echo_request.body))
    model = ECHO_MODELS.get(request.model)
    if model is None:
        return _unknown_model(request.model, echo_request.protocol)
    thoughts = check(request)
    if isinstance(thoughts, Failure):
        return thoughts
    objection = _objection(request)
    if objection is not None:
        return objection
    output = model.respond(read_last_turn(request, thoughts))
    if isinstance(output, Failure):
        return output
    response = build_response(request, output, echo_request.mint)
    delivery = deliver(response, request, echo_request.mint, pace=model.pace, ending=model.ending)
    if isinstance(delivery, Failure) or not delivery.streamed:
        return delivery
    return replace(delivery, pieces=_split(delivery.pieces))


def _split(pieces: Iterable[TimedBytes]) -> Iterator[TimedBytes]:
    """Yield frames one by one. JSON contains no line breaks, so a blank line always ends a frame."""
    for pace, frames in pieces:
        delay = pace
        for frame in frames.split(b"\n\n"):
            if frame:
                yield delay, frame + b"\n\n"
                delay = 0.0


def _unknown_model(name: str, protocol: str) -> Failure:
    model_names = ", ".join(ECHO_MODELS)
    if protocol == MESSAGES:
        return _failure(FailureKind.NOT_FOUND, 404, f"model: {name[:100]}; known are {model_names}")
    message = f"The model `{name[:100]}` does not exist; known are {model_names}."
    return _failure(FailureKind.NOT_FOUND, 404, message, param="model")


def _objection(request: Request) -> Failure | None:
    """The service's rejection of a well-formed request."""
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


def _count(echo_request: _EchoRequest) -> Outcome:
    request = codec_of(echo_request.protocol).decode_request(decode_object(echo_request.body))
    return counted(request) if request.model in ECHO_MODELS else _unknown_model(request.model, echo_request.protocol)


def _embed(echo_request: _EchoRequest) -> Outcome:
    body = decode_object(echo_request.body)
    model = body.get("model")
    if model != EMBEDDING_MODEL:
        message = f"The model `{str(model)[:100]}` does not exist; known is {EMBEDDING_MODEL}."
        return _failure(FailureKind.NOT_FOUND, 404, message, param="model")
    return embed(body)


def _models(name: str, protocol: str) -> Outcome:
    if not name:
        return listed(_LISTED, protocol)
    return one_listed(name, _LISTED[name], protocol) if name in _LISTED else _unknown_model(name, protocol)


_HANDLERS: dict[tuple[str, str], Callable[[_EchoRequest], Outcome]] = {
    (MESSAGES, "/messages"): _converse,
    (MESSAGES, "/messages/count_tokens"): _count,
    (CHAT, "/chat/completions"): _converse,
    (CHAT, "/embeddings"): _embed,
    (RESPONSES, "/responses"): _converse,
    (RESPONSES, "/responses/input_tokens"): _count,
    (RESPONSES, "/embeddings"): _embed,
}
