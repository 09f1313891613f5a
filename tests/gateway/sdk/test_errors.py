"""Errors: the exception that a program gets is the one its own service would have caused."""

from __future__ import annotations

import re

import anthropic
import openai
import pytest
from msgspec import Struct

from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES, Reply, stream, whole
from tests.gateway.pairwise import pairwise
from tests.gateway.says import NAMES
from tests.gateway.sdk.desk import CLIENT_KEY, MODELS, Desk
from tests.gateway.sdk.speakers import EVENTS, HELPER, WAYS, WHOLE, Content, ask
from tests.sdk.digging import Object, dig, dig_object
from tests.sdk.providers import Turn
from tests.sdk.providers import stream as stream_of
from tests.sdk.samples import as_stream, events_of
from tests.sdk.test_conversations import ENDED

QUESTION = Content(text="Will it work?")
SAID = "messages.0: it does not work: “no” 🌩"
Error = anthropic.APIStatusError | openai.APIStatusError


class Told(Struct, frozen=True):
    """An error as a service of one protocol tells it."""

    status: int
    type: str
    code: str | None = None
    message: str = SAID


class Case(Struct, frozen=True, kw_only=True):
    """One condition: how each protocol tells it (mapping.md §21), and the class each SDK makes of it."""

    messages: Told
    chat: Told
    anthropic: type[anthropic.APIStatusError]
    openai: type[openai.APIStatusError]

    def told(self, protocol: str) -> Told:
        """The error in a protocol's words."""
        return self.messages if protocol == MESSAGES else self.chat

    def caught(self, protocol: str) -> type[Error]:
        """The exception of a protocol's SDK."""
        return self.anthropic if protocol == MESSAGES else self.openai


_INVALID = "invalid_request_error"
CASES = {
    "a bad request": Case(
        messages=Told(400, _INVALID),
        chat=Told(400, _INVALID),
        anthropic=anthropic.BadRequestError,
        openai=openai.BadRequestError,
    ),
    "an unknown model": Case(
        messages=Told(404, "not_found_error", message="model: no-such-model"),
        chat=Told(404, _INVALID, "model_not_found", message="model: no-such-model"),
        anthropic=anthropic.NotFoundError,
        openai=openai.NotFoundError,
    ),
    "a rate limit": Case(
        messages=Told(429, "rate_limit_error"),
        chat=Told(429, "rate_limit_error", "rate_limit_exceeded"),
        anthropic=anthropic.RateLimitError,
        openai=openai.RateLimitError,
    ),
    "a request too large": Case(
        messages=Told(413, "request_too_large"),
        chat=Told(413, _INVALID, "request_too_large"),
        anthropic=anthropic.ContentTooLargeError,
        openai=openai.APIStatusError,
    ),
    "an error of the service": Case(
        messages=Told(500, "api_error"),
        chat=Told(500, "server_error"),
        anthropic=anthropic.InternalServerError,
        openai=openai.InternalServerError,
    ),
    "too much to do": Case(
        messages=Told(529, "overloaded_error"),
        chat=Told(503, "service_unavailable_error", "server_is_overloaded"),
        anthropic=anthropic.OverloadedError,
        openai=openai.InternalServerError,
    ),
}
PAIRS = [(client, provider) for client in PROTOCOLS for provider in PROTOCOLS]
every_pair = pytest.mark.parametrize(("client", "provider"), PAIRS)
every_way = pytest.mark.parametrize("way", WAYS)


def refusal(protocol: str, told: Told, **headers: str) -> Reply:
    """A provider's error as its service sends it."""
    return whole(envelope(protocol, told), told.status, **headers)


def envelope(protocol: str, told: Told) -> Object:
    """The body of an error."""
    if protocol == MESSAGES:
        return {"type": "error", "error": {"type": told.type, "message": told.message}, "request_id": "req_upstream"}
    return {"error": {"message": told.message, "type": told.type, "param": None, "code": told.code}}


def caught(desk: Desk, client: str, provider: str, way: str, *script: Turn | Reply) -> Error:
    """The exception that a question ends in."""
    with desk.scripted(*script), pytest.raises((anthropic.APIStatusError, openai.APIStatusError)) as raised:
        ask(desk, client, MODELS[provider], QUESTION, way)
    error = raised.value
    assert isinstance(error, anthropic.APIStatusError | openai.APIStatusError)
    assert isinstance(error, anthropic.APIStatusError) == (client == MESSAGES)
    assert error.response.headers["content-type"] == "application/json"
    # What the SDK shows as the id is the gateway's, under the name of the client's protocol.
    assert error.request_id and error.request_id != "req_upstream"
    return error


def seen(error: Error) -> Told:
    """The error as the program reads it, whichever SDK it uses."""
    if isinstance(error, openai.APIStatusError):
        return Told(error.status_code, str(error.type), error.code, _plain(dig(error.body, "message")))
    inner = dig_object(error.body, "error")
    assert dig(error.body, "type") == "error" and dig(error.body, "request_id")
    return Told(error.status_code, str(inner["type"]), None, _plain(inner["message"]))


# What to do about it follows the provider's words (decision 29).
_ADVICE = re.compile(r" \((?:messages|chat|responses) [a-z].*\)$")


def _plain(message: object) -> str:
    """The words of an error without the advice that follows them."""
    return _ADVICE.sub("", str(message))


@pytest.mark.parametrize(("client", "provider", "case", "way"), pairwise(PROTOCOLS, PROTOCOLS, list(CASES), WAYS))
def test_a_providers_error_is_the_clients_exception(
    desk: Desk, client: str, provider: str, case: str, way: str
) -> None:
    told = CASES[case].told(provider)
    error = caught(desk, client, provider, way, refusal(provider, told))
    assert isinstance(error, CASES[case].caught(client))
    assert seen(error) == CASES[case].told(client)


@every_pair
def test_a_rate_limit_says_when_to_come_back(desk: Desk, client: str, provider: str) -> None:
    told = CASES["a rate limit"].told(provider)
    limits = {
        MESSAGES: {
            "anthropic_ratelimit_requests_limit": "50",
            "anthropic_ratelimit_requests_remaining": "0",
        },
        CHAT: {"x_ratelimit_limit_requests": "50", "x_ratelimit_remaining_requests": "0"},
        RESPONSES: {"x_ratelimit_limit_requests": "50", "x_ratelimit_remaining_requests": "0"},
    }
    script = refusal(provider, told, retry_after="17", set_cookie="a=b", server="upstream", **limits[provider])
    error = caught(desk, client, provider, WHOLE, script)
    headers = error.response.headers
    assert headers["retry-after"] == "17"
    for name in limits[client]:
        assert headers[name.replace("_", "-")] == limits[client][name]
    assert "set-cookie" not in headers and headers.get("server") != "upstream"


@every_pair
def test_a_quota_that_is_used_up_is_not_tried_again(desk: Desk, client: str, provider: str) -> None:
    told = {
        MESSAGES: Told(402, "billing_error", None, "Your credit balance is too low."),
        CHAT: Told(429, "insufficient_quota", "insufficient_quota", "Your credit balance is too low."),
    }
    told[RESPONSES] = told[CHAT]
    error = caught(desk, client, provider, WHOLE, refusal(provider, told[provider]))
    assert seen(error) == told[client]
    if client != MESSAGES and client != provider:
        assert error.response.headers["x-should-retry"] == "false"


OVERFLOWS = {
    MESSAGES: Told(400, _INVALID, None, "prompt is too long: 213462 tokens > 200000 maximum"),
    CHAT: Told(
        400,
        _INVALID,
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 140313 tokens.",
    ),
    RESPONSES: Told(
        400,
        _INVALID,
        "context_length_exceeded",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
}
# What agents of Messages look for before they compact a conversation (O1).
WORDED = {
    MESSAGES: OVERFLOWS[MESSAGES].message,
    CHAT: f"prompt is too long: 140313 tokens > 128000 maximum ({OVERFLOWS[CHAT].message})",
    RESPONSES: f"prompt is too long ({OVERFLOWS[RESPONSES].message})",
}


@every_way
@every_pair
def test_a_context_that_is_too_long_is_worded_for_the_client(desk: Desk, client: str, provider: str, way: str) -> None:
    error = caught(desk, client, provider, way, refusal(provider, OVERFLOWS[provider]))
    assert isinstance(error, anthropic.BadRequestError | openai.BadRequestError)
    if client == MESSAGES:
        assert seen(error) == Told(400, _INVALID, None, WORDED[provider])
    else:
        assert seen(error) == Told(400, _INVALID, "context_length_exceeded", OVERFLOWS[provider].message)


@every_way
@every_pair
def test_a_refused_key_of_the_gateway_is_not_the_clients(desk: Desk, client: str, provider: str, way: str) -> None:
    told = {
        MESSAGES: Told(401, "authentication_error", None, "invalid x-api-key"),
        CHAT: Told(401, _INVALID, "invalid_api_key", "Incorrect API key provided: [redacted]."),
    }
    told[RESPONSES] = told[CHAT]
    sent = {MESSAGES: "invalid x-api-key", CHAT: "Incorrect API key provided: sk-provider-0123456789abcdef."}
    script = Told(401, told[provider].type, told[provider].code, sent.get(provider, sent[CHAT]))
    error = caught(desk, client, provider, way, refusal(provider, script))
    # On the relay, too: the client has a gateway key, and would look for the fault in that (decision 14).
    assert isinstance(error, anthropic.InternalServerError | openai.InternalServerError)
    kind, code = ("api_error", None) if client == MESSAGES else ("server_error", "upstream_auth")
    assert seen(error) == Told(502, kind, code, told[provider].message)
    assert f"({NAMES[provider]} refused the key that the gateway has for it)" in str(error.body)
    assert "sk-provider" not in str(error.body)


@every_way
@pytest.mark.parametrize("client", PROTOCOLS)
def test_an_unknown_key_is_the_clients_own_fault(desk: Desk, client: str, way: str) -> None:
    known = desk.anthropic.api_key, desk.openai.api_key
    desk.anthropic.api_key = desk.openai.api_key = "sk-nobody"
    try:
        error = caught(desk, client, CHAT, way)
    finally:
        desk.anthropic.api_key, desk.openai.api_key = known[0], known[1]
    assert isinstance(error, anthropic.AuthenticationError | openai.AuthenticationError)
    kind, code = ("authentication_error", None) if client == MESSAGES else (_INVALID, "invalid_api_key")
    assert (seen(error).type, seen(error).code) == (kind, code)
    assert desk.provider.asked == [] and CLIENT_KEY not in str(error.body)


@every_way
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_model_that_leads_nowhere_is_not_found(desk: Desk, client: str, way: str) -> None:
    with desk.scripted(), pytest.raises((anthropic.NotFoundError, openai.NotFoundError)) as raised:
        ask(desk, client, "no-such-model", QUESTION, way)
    assert "no-such-model" in str(raised.value)
    assert desk.provider.asked == []


# On the relay a native `response.failed` passes as it is (S1).
TRANSLATED = [pair for pair in PAIRS if pair != (RESPONSES, RESPONSES)]


@pytest.mark.parametrize("way", [HELPER, EVENTS])
@pytest.mark.parametrize(("client", "provider"), TRANSLATED)
def test_an_error_at_the_head_of_a_stream_is_an_http_error(desk: Desk, client: str, provider: str, way: str) -> None:
    told = CASES["too much to do"].told(provider)
    error = caught(desk, client, provider, way, stream(as_stream(provider, [_event(provider, told)], done=False)))
    expected = CASES["too much to do"].told(client)
    assert (seen(error).status, seen(error).message) == (expected.status, SAID)


@pytest.mark.parametrize("way", [HELPER, EVENTS])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_flat_error_at_the_head_of_a_stream_is_an_http_error_too(desk: Desk, client: str, way: str) -> None:
    told: Object = {"type": "error", "code": "server_is_overloaded", "message": SAID, "param": None}
    frames = as_stream(RESPONSES, [{**told, "sequence_number": 0}], done=False)
    error = caught(desk, client, RESPONSES, way, stream(frames))
    expected = CASES["too much to do"].told(client)
    assert (seen(error).status, seen(error).message) == (expected.status, SAID)


@pytest.mark.parametrize("way", [HELPER, EVENTS])
@every_pair
def test_an_error_within_a_stream_ends_it_in_an_exception(desk: Desk, client: str, provider: str, way: str) -> None:
    said = Turn(stop=ENDED[provider], text="Halfway through the answer")
    begun = [event for event in events_of(stream_of(provider, said)) if not _is_ending(provider, event)]
    told = CASES["too much to do"].told(provider)
    frames = as_stream(provider, [*begun, _event(provider, told)], done=False)
    failures = (anthropic.APIError, openai.APIError, _Cut)
    with desk.scripted(stream(frames)), pytest.raises(failures) as raised:
        _listen(desk, client, MODELS[provider], way)
    error = raised.value
    assert SAID in str(error)
    if isinstance(error, anthropic.APIError):
        assert dig(error.body, "error", "type") == "overloaded_error"
    elif isinstance(error, openai.APIError):
        assert client == RESPONSES or error.code == "server_is_overloaded"


class _Cut(Exception):
    """What a program makes of `response.failed`, which the SDK tells as an event."""


def _listen(desk: Desk, client: str, model: str, way: str) -> None:
    if client != RESPONSES:
        ask(desk, client, model, QUESTION, way)
        return
    heard: list[str] = []
    responses = desk.openai.responses
    if way == HELPER:
        with responses.stream(model=model, input=QUESTION.text) as helped:
            for told in helped:
                if told.type == "response.failed":
                    raise _Cut(told.response.error.message if told.response.error is not None else "")
    with responses.create(model=model, input=QUESTION.text, stream=True) as events:
        for event in events:
            if event.type == "response.output_text.delta":
                heard.append(event.delta)
            elif event.type == "response.failed":
                assert "".join(heard) == "Halfway through the answer"
                raise _Cut(event.response.error.message if event.response.error is not None else "")


def _event(provider: str, told: Told) -> Object:
    if provider == RESPONSES:
        response: Object = {
            **dig_object(events_of(stream_of(RESPONSES, Turn(stop="completed", text="x")))[0], "response"),
            "status": "failed",
            "error": {"code": told.code, "message": told.message},
        }
        return {"type": "response.failed", "sequence_number": 99, "response": response}
    body = envelope(provider, told)
    return {"type": "error", "error": body["error"]} if provider == MESSAGES else body


def _is_ending(provider: str, event: Object) -> bool:
    if provider == CHAT:
        choices = event["choices"]
        return not choices or bool(dig(choices, 0, "finish_reason"))
    return str(event["type"]) in (
        "content_block_stop",
        "message_delta",
        "message_stop",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    )
