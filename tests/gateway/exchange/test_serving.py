"""Whole exchanges in all nine pairs: answers and errors."""

from __future__ import annotations

import json

import pytest

from dragoman.config.settings import Limits, Settings
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    RESPONSES,
    Reply,
    running,
    settings_for,
    whole,
)
from tests.gateway.pairwise import pairwise
from tests.gateway.says import (
    MESSAGES_TOLD,
    OPENAI_TOLD,
    PAIRS,
    SAID,
    error_body,
    failure_of,
    headers_named,
    is_finished,
    log_lines,
    message_of,
    question,
    refusal,
    streamed_text,
    streams,
    tells,
    text_of,
    with_provider,
)
from tests.sdk.digging import dig_object, dig_text
from tests.sdk.oracles import check_answer
from tests.sdk.providers import Turn, answer
from tests.sdk.samples import events_of


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_an_answer_arrives_in_the_clients_own_form(client: str, provider: str, streaming: bool) -> None:
    with running([(streams if streaming else tells)(provider)]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=streaming))
        assert told.status == 200, told.body
        if streaming:
            assert (told.header("content-type") or "").startswith("text/event-stream")
            assert (streamed_text(client, told.body), is_finished(client, told.body)) == (SAID, True)
            assert told.complete
        else:
            assert told.header("content-type") == "application/json"
            check_answer(client, told.json())
            assert text_of(client, told.json()) == SAID
        received = house.provider.received[0]
        assert received.target == PATHS[provider]
        assert received.json()["model"] == "served"
        assert bool(received.json().get("stream")) is streaming


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_206_a_whole_answer_becomes_a_stream(client: str, provider: str) -> None:
    with running([tells(provider)]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
        assert (told.header("content-type") or "").startswith("text/event-stream")
        assert (streamed_text(client, told.body), is_finished(client, told.body)) == (SAID, True)


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_206_a_stream_becomes_a_whole_answer(client: str, provider: str) -> None:
    with running([streams(provider)]) as house:
        told = house.post(PATHS[client], question(client, provider))
        assert (told.status, told.header("content-type")) == (200, "application/json")
        check_answer(client, told.json())
        assert text_of(client, told.json()) == SAID


@pytest.mark.parametrize(
    ("client", "provider", "kind"), pairwise(PROTOCOLS, PROTOCOLS, ["text/plain", "application/json"])
)
def test_pitfall_206_a_stream_by_another_name_is_still_read(client: str, provider: str, kind: str) -> None:
    with running([streams(provider, content_type=kind), streams(provider, content_type=kind)]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
        assert (streamed_text(client, told.body), is_finished(client, told.body)) == (SAID, True)
        told = house.post(PATHS[client], question(client, provider))
        assert (told.status, text_of(client, told.json())) == (200, SAID)


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_206_a_provider_that_always_streams_is_asked_to(client: str, provider: str) -> None:
    with running([streams(provider)], with_provider(streaming="always")) as house:
        told = house.post(PATHS[client], question(client, provider))
        assert text_of(client, told.json()) == SAID
        assert house.provider.received[0].json()["stream"] is True
        assert house.provider.received[0].header("accept") == "text/event-stream"
        # What the answer cost is known although a stream of Chat tells it only when asked.
        usage = dig_object(told.json(), "usage")
        assert usage["prompt_tokens" if client == CHAT else "input_tokens"] == 11
        if provider == CHAT:
            assert house.provider.received[0].json()["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_206_a_provider_that_never_streams_is_not_asked_to(client: str, provider: str) -> None:
    more = {"stream_options": {"include_usage": True}} if client == CHAT else {}
    with running([tells(provider)], with_provider(streaming="never")) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True, **more))
        assert (streamed_text(client, told.body), is_finished(client, told.body)) == (SAID, True)
        sent = house.provider.received[0].json()
        assert not sent.get("stream")
        # Options of a stream are refused where there is none.
        assert "stream_options" not in sent


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", PROTOCOLS)
def test_pitfall_207_a_responses_body_on_the_chat_path_is_answered_as_chat(provider: str, streaming: bool) -> None:
    tools = [
        {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}},
        {"type": "custom", "name": "patch"},
    ]
    body = question(RESPONSES, provider, stream=streaming, tools=tools, instructions="Be brief.")
    with running([(streams if streaming else tells)(provider)]) as house:
        told = house.post("/v1/chat/completions", body)
        assert told.status == 200, told.body
        if streaming:
            assert streamed_text(CHAT, told.body) == SAID
            assert told.body.endswith(b"data: [DONE]\n\n")
            assert all(event["object"] == "chat.completion.chunk" for event in events_of(told.body))
        else:
            check_answer(CHAT, told.json())
            assert text_of(CHAT, told.json()) == SAID
        sent = house.provider.received[0]
        assert sent.target == PATHS[provider]
        assert ("input" if provider == RESPONSES else "messages") in sent.json()


@pytest.mark.parametrize("asked", [False, True], ids=["not asked for", "asked for"])
@pytest.mark.parametrize("provider", PROTOCOLS)
def test_pitfall_207_usage_is_told_as_to_any_chat_client(provider: str, asked: bool) -> None:
    more = {"stream_options": {"include_usage": True}} if asked else {}
    with running([streams(provider)]) as house:
        told = house.post("/v1/chat/completions", question(RESPONSES, provider, stream=True) | more)
        assert streamed_text(CHAT, told.body) == SAID
        assert any(event["choices"] == [] for event in events_of(told.body)) is asked
        assert (b"prompt_tokens" in told.body) is asked
        assert "stream_options" not in (told.header("x-dragoman-losses") or "")
        # Responses has no such option, and Chat is always asked.
        sent = house.provider.received[0].json().get("stream_options")
        assert sent == ({"include_usage": True} if provider == CHAT else None)
        assert log_lines(house)[0]["input"] == 11


@pytest.mark.parametrize("provider", PROTOCOLS)
def test_pitfall_207_errors_of_such_a_body_are_in_chat_form_too(provider: str) -> None:
    with running([refusal(provider, 429)]) as house:
        told = house.post("/v1/chat/completions", question(RESPONSES, provider))
        assert (told.status, failure_of(CHAT, told)["message"]) == (429, "no, said the provider")


# Errors.


# For every status, each client and each provider once.
CYCLES = (
    ((MESSAGES, CHAT), (CHAT, RESPONSES), (RESPONSES, MESSAGES)),
    ((CHAT, MESSAGES), (RESPONSES, CHAT), (MESSAGES, RESPONSES)),
)


@pytest.mark.parametrize(
    ("client", "provider", "status"),
    [(*pair, status) for count, status in enumerate(MESSAGES_TOLD) for pair in CYCLES[count % 2]],
)
def test_pitfall_187_188_a_providers_error_is_told_by_the_table(client: str, provider: str, status: int) -> None:
    for streaming in (False, True):
        with running([refusal(provider, status)]) as house:
            told = house.post(PATHS[client], question(client, provider, stream=streaming))
        error = failure_of(client, told)
        if client == MESSAGES:
            assert (told.status, error["type"]) == MESSAGES_TOLD[status]
        elif status == 503 and provider == MESSAGES:
            # Overload is a 529 there, so a 503 is something else.
            assert (told.status, error["type"]) == (503, "service_unavailable_error")
        else:
            assert (told.status, error["type"], error["code"]) == OPENAI_TOLD[status]
        # What to do about it may follow (decision 29).
        assert str(error["message"]).startswith("no, said the provider")


@pytest.mark.parametrize("status", MESSAGES_TOLD)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_providers_error_is_relayed_as_it_is(protocol: str, status: int) -> None:
    reply = refusal(protocol, status)
    with running([reply]) as house:
        told = house.post(PATHS[protocol], question(protocol, protocol))
    assert (told.status, told.body) == (status, reply.steps[0])
    assert told.header("content-type") == "application/json"


@pytest.mark.parametrize(("client", "provider", "streaming"), pairwise(PROTOCOLS, PROTOCOLS, [False, True]))
def test_pitfall_184_185_an_error_inside_a_success_is_an_error(client: str, provider: str, streaming: bool) -> None:
    body = error_body(provider, "rate_limit_error", "slow down, please", "rate_limit_exceeded")
    with running([whole(body)]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=streaming))
    assert told.status == 429
    assert failure_of(client, told)["message"] == "slow down, please"


@pytest.mark.parametrize(
    ("code", "status"), [(503, 503), (400, 400), ("429", 429), ("invalid_prompt", 400), ("whatever", 500), (None, 500)]
)
def test_an_error_inside_a_success_has_the_status_that_it_names(code: object, status: int) -> None:
    body = {"error": {"message": "odd", "code": code, "type": None}}
    for client in (CHAT, RESPONSES):
        with running([whole(body)]) as house:
            assert house.post(PATHS[client], question(client, CHAT)).status == status


@pytest.mark.parametrize("client", [MESSAGES, CHAT])
def test_a_whole_responses_answer_that_failed_is_an_error(client: str) -> None:
    body = {**answer(RESPONSES, Turn(stop="failed")), "error": {"code": "rate_limit_exceeded", "message": "slow down"}}
    with running([whole(body)]) as house:
        told = house.post(PATHS[client], question(client, RESPONSES))
    assert (told.status, failure_of(client, told)["message"]) == (429, "slow down")


def test_a_whole_responses_answer_that_failed_is_relayed_as_it_is() -> None:
    body = json.dumps({**answer(RESPONSES, Turn(stop="failed")), "error": {"code": "server_error", "message": "oh"}})
    with running([whole(body.encode())]) as house:
        told = house.post(PATHS[RESPONSES], question(RESPONSES, RESPONSES))
    assert (told.status, told.body) == (200, body.encode())


PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Welcome to the wifi</body></html>"
NO_ANSWERS: dict[str, Reply] = {
    "nothing": whole(b""),
    "white space": whole(b" \n\n"),
    "a page": whole(PAGE, content_type="text/html"),
    "a page that says it is JSON": whole(PAGE),
    "half an answer": whole(b'{"id": "x", "choices": [{"index": 0, "mess'),
    "a list": whole(b"[1, 2]"),
    "a word": whole(b'"hello"'),
    "null": whole(b"null"),
    "an empty object": whole(b"{}"),
    "an error in nobody's words": whole({"detail": "Not Found"}),
    "an error that calls itself an object": whole({"object": "error", "message": "no", "code": 40301}),
    "a status that means nothing": whole(b'{"error": {"message": "no"}}', 600),
    "a redirect": whole(b"{}", 302, location="https://elsewhere.example/v1"),
    "a permanent redirect": whole(b"", 308, location="/v2"),
    "not modified": Reply(status=304),
    "a body that breaks off": Reply(
        raw=True,
        steps=(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"id": "x"', None),
    ),
    "a chunked body that breaks off": Reply(
        raw=True,
        steps=(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
            b"10\r\n" + b'{"id":"x","a":1}' + b"\r\n",
            None,
        ),
    ),
    "no HTTP": Reply(raw=True, steps=(b"SSH-2.0-OpenSSH_9.6\r\n", None)),
    "a connection that closes": Reply(raw=True, steps=(None,)),
    "half a head": Reply(raw=True, steps=(b"HTTP/1.1 200 OK\r\ncontent-ty", None)),
    "broken gzip": whole(b"this is not gzip at all", content_encoding="gzip"),
    "an unknown coding": whole(b"{}", content_encoding="rot13"),
    "a picture": whole(b"\x89PNG\r\n\x1a\n\x00", content_type="image/png"),
}


@pytest.mark.parametrize(
    ("client", "provider", "shape", "streaming"), pairwise(PROTOCOLS, PROTOCOLS, list(NO_ANSWERS), (False, True))
)
def test_pitfall_185_what_is_no_answer_is_a_502(client: str, provider: str, shape: str, streaming: bool) -> None:
    with running([NO_ANSWERS[shape], NO_ANSWERS[shape]]) as house:
        # Asked by way of a proxy it is not the operator who asks.
        told = house.post(PATHS[client], question(client, provider, stream=streaming), via="1.1 proxy")
        assert told.status == 502, told
        error = failure_of(client, told)
        assert error["type"] == ("api_error" if client == MESSAGES else "server_error")
        assert "127.0.0.1" not in str(error) and "elsewhere.example" not in str(told)
        assert headers_named(told, "location") == {}


def test_a_redirect_is_never_followed() -> None:
    with running([whole(b"{}", 307, location="/v1/messages")]) as house:
        assert house.post("/v1/messages", question(MESSAGES, MESSAGES)).status == 502
        assert len(house.provider.received) == 1


@pytest.mark.parametrize("client", PROTOCOLS)
def test_an_answer_beyond_the_limit_is_a_502(client: str) -> None:
    def settings(port: int) -> Settings:
        return settings_for(port, limits=Limits(response_body=10_000))

    with running([tells(CHAT, "x" * 20_000)], settings) as house:
        assert house.post(PATHS[client], question(client, CHAT)).status == 502


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("streaming", [False, True], ids=["collected", "translated"])
def test_limits_answer_holds_for_a_stream_that_is_gathered(client: str, streaming: bool) -> None:
    def settings(port: int) -> Settings:
        return settings_for(port, limits=Limits(response_body=10_000))

    if streaming and client == CHAT:
        pytest.skip("what is only passed on is nowhere gathered")
    with running([streams(CHAT, "x" * 20_000)], settings) as house:
        told = house.post(PATHS[client], question(client, CHAT, stream=streaming))
    # Nothing was said before it was too much.
    assert told.status == 502
    assert "exceeds the limit" in message_of(client, told)


def test_limits_answer_does_not_end_a_stream_that_is_only_passed_on() -> None:
    def settings(port: int) -> Settings:
        return settings_for(port, limits=Limits(response_body=10_000))

    with running([streams(CHAT, "x" * 20_000)], settings) as house:
        told = house.post(PATHS[CHAT], question(CHAT, CHAT, stream=True))
    assert (told.status, b"[DONE]" in told.body) == (200, True)


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_187_a_page_as_an_error_keeps_its_status_and_never_its_form(client: str, provider: str) -> None:
    page = whole(PAGE, 500, content_type="text/html")
    with running([page]) as house:
        told = house.post(PATHS[client], question(client, provider))
    assert told.status == 500
    assert "Welcome to the wifi" in message_of(client, told)


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_187_an_error_without_words_gets_some(client: str, provider: str) -> None:
    with running([whole(b"", 429), whole({"error": {"message": ""}}, 429)]) as house:
        told = house.post(PATHS[client], question(client, provider))
        assert (told.status, message_of(client, told)) == (429, "upstream answered 429")
        if client != provider:
            told = house.post(PATHS[client], question(client, provider))
            assert (told.status, message_of(client, told)) == (429, "upstream answered 429")


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", [CHAT, RESPONSES])
def test_pitfall_190_a_context_that_is_too_long_is_told_in_the_words_agents_know(
    provider: str, streaming: bool
) -> None:
    words = "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."
    body = error_body(provider, "invalid_request_error", words, "context_length_exceeded")
    with running([whole(body, 400)]) as house:
        told = house.post("/v1/messages", question(MESSAGES, provider, stream=streaming))
    assert (told.status, failure_of(MESSAGES, told)["type"]) == (400, "invalid_request_error")
    assert message_of(MESSAGES, told).startswith("prompt is too long: 9000 tokens > 8192 maximum")


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_pitfall_190_and_in_the_code_of_the_other_protocols(client: str) -> None:
    body = error_body(MESSAGES, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
    with running([whole(body, 400)]) as house:
        told = house.post(PATHS[client], question(client, MESSAGES))
    assert (told.status, failure_of(client, told)["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize("client", PROTOCOLS)
def test_an_unknown_model_is_told_with_the_nearest_names(client: str) -> None:
    with running() as house:
        told = house.post(PATHS[client], question(client, CHAT) | {"model": "ehco/text"})
        error = failure_of(client, told)
        assert (told.status, "echo/text" in dig_text(error, "message")) == (404, True)
        assert error["type"] == ("not_found_error" if client == MESSAGES else "invalid_request_error")
        if client != MESSAGES:
            assert (error["code"], error["param"]) == ("model_not_found", "model")
        told = house.post(PATHS[client], question(client, CHAT) | {"model": "zzzzzzzz"})
        assert "messages, chat, responses, all, echo" in message_of(client, told)


# Headers.
