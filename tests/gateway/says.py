"""What clients and scripted providers of each protocol say, and how a client of each reads what it is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product

from msgspec.structs import replace

from dragoman.config.settings import Settings
from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES, Answer, House, Reply, settings_for, whole
from tests.gateway.harness import stream as streamed
from tests.sdk.digging import Object, dig, dig_object, dig_objects, dig_text
from tests.sdk.providers import Turn
from tests.sdk.providers import answer as answer_of
from tests.sdk.providers import stream as stream_of
from tests.sdk.samples import events_of

NAMES = {MESSAGES: "messages", CHAT: "chat", RESPONSES: "responses"}
STOPS = {MESSAGES: "end_turn", CHAT: "stop", RESPONSES: "completed"}
# Client, provider.
PAIRS = tuple(product(PROTOCOLS, PROTOCOLS))
ABROAD = tuple(pair for pair in PAIRS if pair[0] != pair[1])
# How many frames of a stream open it without saying anything.
_OPENINGS = {MESSAGES: 1, CHAT: 1, RESPONSES: 2}
PROVIDERS_ID = "req_of_the_provider"
SAID = "Guten Tag, said the provider."


def model_of(protocol: str) -> str:
    """A model's name that leads to the provider of a protocol."""
    return f"{NAMES[protocol]}/served"


def question(client: str, provider: str, *, stream: bool = False, **more: object) -> Object:
    """The least that a client of a protocol sends."""
    body: Object = {"model": model_of(provider)}
    if client == RESPONSES:
        body["input"] = "Hello."
    else:
        body["messages"] = [{"role": "user", "content": "Hello."}]
    if client == MESSAGES:
        body["max_tokens"] = 100
    if stream:
        body["stream"] = True
    return {**body, **more}


def turn(protocol: str, text: str = SAID) -> Turn:
    """One plain answer."""
    return Turn(stop=STOPS[protocol], text=text)


def tells(protocol: str, text: str = SAID, **headers: str) -> Reply:
    """A provider that answers with a whole body."""
    return whole(answer_of(protocol, turn(protocol, text)), 200, **headers)


def streams(protocol: str, text: str = SAID, **headers: str) -> Reply:
    """A provider that answers with a stream."""
    return streamed(stream_of(protocol, turn(protocol, text)), **headers)


def opening(protocol: str) -> bytes:
    """The frames of a stream that say nothing yet."""
    return b"".join(frames(protocol)[: _OPENINGS[protocol]])


def speaking(protocol: str) -> bytes:
    """The frames of a stream up to its first words, all of them read already."""
    return b"".join(frames(protocol)[: _OPENINGS[protocol] + 3])


def frames(protocol: str) -> list[bytes]:
    """A whole stream, frame by frame."""
    return [frame + b"\n\n" for frame in stream_of(protocol, turn(protocol)).split(b"\n\n")[:-1]]


def error_body(protocol: str, kind: str, message: str, code: str | None = None) -> Object:
    """An error as a provider of a protocol answers it."""
    if protocol == MESSAGES:
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": PROVIDERS_ID}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def error_frame(protocol: str, kind: str, message: str, code: str | None = None) -> bytes:
    """The same inside a stream."""
    if protocol == RESPONSES:
        event = {"type": "error", "code": code or kind, "message": message, "param": None, "sequence_number": 2}
        return b"event: error\ndata: " + json.dumps(event).encode() + b"\n\n"
    name = b"event: error\n" if protocol == MESSAGES else b""
    return name + b"data: " + json.dumps(error_body(protocol, kind, message, code)).encode() + b"\n\n"


def text_of(protocol: str, body: object) -> str:
    """What a whole answer says."""
    if protocol == MESSAGES:
        return "".join(dig_text(block, "text") for block in dig_objects(body, "content") if block["type"] == "text")
    if protocol == CHAT:
        return dig_text(body, "choices", 0, "message", "content")
    said = [item for item in dig_objects(body, "output") if item["type"] == "message"]
    return "".join(dig_text(part, "text") for item in said for part in dig_objects(item, "content"))


def streamed_text(protocol: str, body: bytes) -> str:
    """What a stream says, delta by delta."""
    said: list[str] = []
    for event in events_of(body):
        if protocol == MESSAGES and event.get("type") == "content_block_delta":
            said.append(dig_text(event, "delta", "text"))
        elif protocol == CHAT and event.get("choices"):
            said.append(str(dig_object(event, "choices", 0, "delta").get("content") or ""))
        elif protocol == RESPONSES and event.get("type") == "response.output_text.delta":
            said.append(dig_text(event, "delta"))
    return "".join(said)


_ENDS = {MESSAGES: b"message_stop", CHAT: b'"finish_reason":"stop"', RESPONSES: b"response.completed"}


def is_finished(protocol: str, body: bytes) -> bool:
    """Whether a stream claims that its answer is whole."""
    return _ENDS[protocol] in body.replace(b'": "', b'":"') or (protocol == CHAT and b"[DONE]" in body)


def stream_failure(protocol: str, body: bytes) -> Object:
    """The error that a stream ends in, in the client's own form; nothing that means success comes with it."""
    assert not is_finished(protocol, body), body
    events = events_of(body)
    if protocol == RESPONSES:
        assert events[-1]["type"] == "response.failed", events
        assert dig_text(events[-1], "response", "error", "message")
        assert body.endswith(b"data: [DONE]\n\n")
        return next(event for event in events if event["type"] == "error")
    return dig_object(events[-1], "error")


def failure_of(protocol: str, answer: Answer) -> Object:
    """The error object of a reply, once its envelope is found to be the client's own."""
    assert answer.header("content-type") == "application/json", answer
    body = answer.json()
    error = dig_object(body, "error")
    assert error["message"], body
    if protocol == MESSAGES:
        assert body["type"] == "error" and set(error) >= {"type", "message"}, body
        # On the relay the provider's own bytes pass.
        assert body["request_id"] in (answer.header("request-id"), PROVIDERS_ID), answer
    else:
        assert set(error) == {"message", "type", "param", "code"}, body
        assert answer.header("x-request-id")
    return error


def message_of(protocol: str, answer: Answer) -> str:
    """What an error says."""
    return dig_text(failure_of(protocol, answer), "message")


def with_provider(change: Callable[[Settings], Settings] | None = None, **fields: object) -> Callable[[int], Settings]:
    """Settings whose providers have other members, and whatever `change` makes of the rest."""

    def settings(port: int) -> Settings:
        made = settings_for(port)
        providers = {
            name: replace(provider, **fields) if name != "echo" else provider
            for name, provider in made.providers.items()
        }
        made = replace(made, providers=providers)
        return change(made) if change is not None else made

    return settings


def with_settings(**fields: object) -> Callable[[int], Settings]:
    """Settings with some members changed."""
    return lambda port: replace(settings_for(port), **fields)


def log_lines(house: House, event: str = "exchange") -> list[Object]:
    """What was logged under one name."""
    lines = [json.loads(line) for line in house.log.getvalue().splitlines()]
    return [line for line in lines if dig(line, "event") == event]


def headers_named(answer: Answer, *starts: str) -> dict[str, str]:
    """The headers whose names begin so."""
    return {name: value for name, value in answer.headers if name.startswith(starts)}


# What a Messages client is told of a kind of error, and what an OpenAI client is told (mapping.md §21).
MESSAGES_TOLD = {
    400: (400, "invalid_request_error"),
    401: (502, "api_error"),
    402: (402, "billing_error"),
    403: (502, "api_error"),
    404: (404, "not_found_error"),
    409: (409, "conflict_error"),
    413: (413, "request_too_large"),
    429: (429, "rate_limit_error"),
    500: (500, "api_error"),
    502: (502, "api_error"),
    503: (529, "overloaded_error"),
    504: (504, "timeout_error"),
    529: (529, "overloaded_error"),
}
OPENAI_TOLD = {
    400: (400, "invalid_request_error", None),
    401: (502, "server_error", "upstream_auth"),
    402: (429, "insufficient_quota", "insufficient_quota"),
    403: (502, "server_error", "upstream_auth"),
    404: (404, "invalid_request_error", "model_not_found"),
    409: (409, "invalid_request_error", "conflict"),
    413: (413, "invalid_request_error", "request_too_large"),
    429: (429, "rate_limit_error", "rate_limit_exceeded"),
    500: (500, "server_error", None),
    502: (502, "server_error", "upstream_error"),
    503: (503, "service_unavailable_error", "server_is_overloaded"),
    504: (504, "server_error", "timeout"),
    529: (503, "service_unavailable_error", "server_is_overloaded"),
}
# The types under which providers tell those.
MESSAGES_TYPES = {status: kind for status, (_, kind) in MESSAGES_TOLD.items()} | {
    401: "authentication_error",
    403: "permission_error",
}


def refusal(provider: str, status: int, message: str = "no, said the provider", **headers: str) -> Reply:
    """A provider's error in its own words."""
    kind = MESSAGES_TYPES[status] if provider == MESSAGES else "some_error"
    return whole(error_body(provider, kind, message), status, **headers)


# Answers.
