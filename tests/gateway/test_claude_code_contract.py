"""What Claude Code asks of a gateway by its published contract, without the program itself.

https://code.claude.com/docs/en/llm-gateway-protocol, and what it serves under `/protocol` as a gateway itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings
from tests.gateway.harness import CHAT, MESSAGES, RESPONSES, Reply, running, settings_for, stream, whole
from tests.gateway.says import model_of, question, tells
from tests.sdk.digging import Object, dig_objects, dig_text

BILLING = "x-anthropic-billing-header: cc_version=2.1.325.463; cc_entrypoint=sdk-cli; cch=1f2e3;"
BETAS = (
    "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,"
    "mid-conversation-tool-changes-2026-07-01,advanced-tool-use-2025-11-20,effort-2025-11-24"
)
HEADERS = {
    "anthropic_version": "2023-06-01",
    "anthropic_beta": BETAS,
    "anthropic_something_new": "later",
    "x_claude_code_session_id": "0764b6f6-dc58-4558-b8b4-ff00218d6937",
    "x_app": "cli",
    "x_stainless_retry_count": "0",
}


def asks(provider: str, **more: object) -> Object:
    """A request as Claude Code sends them: what decides a route, and members that nobody here has to know."""
    return {
        **question(MESSAGES, provider),
        "system": [{"type": "text", "text": BILLING}, {"type": "text", "text": "You are an agent."}],
        "thinking": {"type": "adaptive", "display": "updates"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "metadata": {"user_id": '{"device_id":"3cf0","session_id":"0764"}'},
        **more,
    }


def anthropic(port: int) -> Settings:
    """A gateway whose provider `messages` is Anthropic itself."""
    settings = settings_for(port)
    provider = replace(settings.providers["messages"], vendor="anthropic", anthropic=True)
    return replace(settings, providers={**settings.providers, "messages": provider})


def test_anthropic_gets_the_body_the_headers_and_the_query_as_they_were_sent() -> None:
    with running([tells(MESSAGES)], anthropic) as house:
        body = json.dumps(asks(MESSAGES, safeguards=[{"type": "x"}], new_feature={"deep": [1.0]}), indent=1).encode()
        assert house.post("/v1/messages?beta=true", body, **HEADERS).status == 200
        (received,) = house.provider.received
        assert received.body == body.replace(b"messages/served", b"served")
        assert received.target == "/v1/messages?beta=true"
        for name in ("anthropic-version", "anthropic-beta", "anthropic-something-new", "x-claude-code-session-id"):
            assert received.header(name) == HEADERS[name.replace("-", "_")]


def test_pitfall_007_another_host_of_the_protocol_gets_everything_but_the_billing_line() -> None:
    with running([tells(MESSAGES)]) as house:
        body = json.dumps(asks(MESSAGES, new_feature={"deep": [1.0]})).encode()
        told = house.post("/v1/messages?beta=true", body, **HEADERS)
        assert "telemetry_line" in str(told.header("x-dragoman-losses"))
        (received,) = house.provider.received
        block = json.dumps({"type": "text", "text": BILLING}).encode() + b", "
        assert received.body == body.replace(b"messages/served", b"served").replace(block, b"")
        assert received.header("x-claude-code-session-id") is None


@pytest.mark.parametrize("provider", [CHAT, RESPONSES])
def test_pitfall_007_two_requests_with_other_billing_lines_are_one_to_other_providers(provider: str) -> None:
    with running([tells(provider), tells(provider)]) as house:
        for nonce in ("1f2e3", "aaaaa"):
            body = json.dumps(asks(provider)).replace("1f2e3", nonce).encode()
            assert house.post("/v1/messages?beta=true", body).status == 200
        first, second = house.provider.received
        assert first.body == second.body


@pytest.mark.parametrize("provider", [CHAT, RESPONSES])
def test_pitfall_007_a_count_is_the_same_with_another_billing_line(provider: str) -> None:
    with running() as house:
        bodies = [asks(provider), asks(provider)]
        bodies[1]["system"] = [{"type": "text", "text": "You are an agent."}]
        counts = [house.post("/v1/messages/count_tokens?beta=true", body).json() for body in bodies]
        assert counts[0] == counts[1]
        tokens = counts[0]["input_tokens"]
        assert isinstance(tokens, int)
        assert tokens > 0


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            400,
            b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 > 1"}, "x":1.0}',
        ),
        (413, b'{ "type":"error","error":{"type":"request_too_large","message":"too large"}}'),
        (429, b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"},"request_id":"req_1"}'),
        (529, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'),
    ],
)
def test_an_error_of_anthropic_comes_back_as_it_is(status: int, body: bytes) -> None:
    reply = whole(body, status, retry_after="7", anthropic_ratelimit_unified_status="rejected", x_should_retry="true")
    with running([reply], anthropic) as house:
        told = house.post("/v1/messages?beta=true", asks(MESSAGES))
        assert (told.status, told.body) == (status, body)
        assert (told.header("retry-after"), told.header("x-should-retry")) == ("7", "true")
        assert told.header("anthropic-ratelimit-unified-status") == "rejected"


@pytest.mark.parametrize("provider", [CHAT, RESPONSES])
@pytest.mark.parametrize(("given", "told"), [("2", "2"), ("0.4", "1")])
def test_pitfall_189_a_wait_is_told_in_whole_seconds(provider: str, given: str, told: str) -> None:
    error = {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
    with running([whole(error, 429, retry_after=given)]) as house:
        answer = house.post("/v1/messages", asks(provider))
        assert (answer.status, answer.header("retry-after")) == (429, told)
        assert dig_text(answer.json(), "error", "type") == "rate_limit_error"


OVERFLOWS: dict[str, Callable[[], Reply]] = {
    "Chat, whole": lambda: whole(
        {
            "error": {
                "message": "This model's maximum context length is 200000 tokens. However, your messages resulted in "
                "215000 tokens.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
        400,
    ),
    "Responses, whole": lambda: whole(
        {
            "error": {
                "message": "Your input exceeds the context window of this model.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
        400,
    ),
    "Responses, streamed": lambda: stream(
        b'event: error\ndata: {"type":"error","sequence_number":0,"code":"context_length_exceeded",'
        b'"message":"Your input exceeds the context window of this model.","param":null}\n\n'
    ),
}


@pytest.mark.parametrize("case", OVERFLOWS)
def test_pitfall_190_an_overflow_is_told_in_the_words_that_start_a_compaction(case: str) -> None:
    provider = CHAT if case.startswith("Chat") else RESPONSES
    with running([OVERFLOWS[case]()]) as house:
        told = house.post("/v1/messages", asks(provider, stream=True))
        assert told.status == 400
        message = dig_text(told.json(), "error", "message")
        assert message.startswith("prompt is too long")
        if provider == CHAT:
            assert "215000 tokens > 200000 maximum" in message


def test_pitfall_209_models_are_listed_as_discovery_reads_them() -> None:
    with running() as house:
        told = house.get("/v1/models?limit=1000", authorization="Bearer x", anthropic_version="2023-06-01")
        models = dig_objects(told.json(), "data")
        assert told.json()["has_more"] is False
        assert model_of(MESSAGES) in [model["id"] for model in models]
        assert all(isinstance(model["display_name"], str) and model["type"] == "model" for model in models)


def test_a_wrong_key_is_not_tried_again() -> None:
    with running((), lambda port: settings_for(port, keys=["dg-right"])) as house:
        for given in ({}, {"authorization": "Bearer dg-wrong"}, {"x_api_key": "dg-wrong"}):
            told = house.post("/v1/messages?beta=true", asks(MESSAGES), **given)
            assert (told.status, told.header("x-should-retry")) == (401, "false")
            assert dig_text(told.json(), "error", "type") == "authentication_error"


@pytest.mark.parametrize("provider", [CHAT, RESPONSES])
def test_a_check_that_nobody_runs_is_refused_by_its_name(provider: str) -> None:
    with running() as house:
        told = house.post("/v1/messages?beta=true", asks(provider, safeguards=[{"type": "dangerous_tool_use"}]))
        assert (told.status, dig_text(told.json(), "error", "type")) == (400, "invalid_request_error")
        assert "safeguards" in dig_text(told.json(), "error", "message")
        assert house.provider.received == []


@pytest.mark.parametrize("provider", [CHAT, RESPONSES])
def test_a_reminder_after_a_tool_result_stays_where_it_was_said(provider: str) -> None:
    spoken = [
        {"role": "user", "content": "Hello."},
        {"role": "system", "content": [{"type": "text", "text": "# Environment"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
        {"role": "system", "content": [{"type": "text", "text": "tokens left"}]},
    ]
    tools = [{"name": "Bash", "input_schema": {"type": "object"}}]
    with running([tells(provider)]) as house:
        assert house.post("/v1/messages?beta=true", asks(provider, tools=tools) | {"messages": spoken}).status == 200
        (received,) = house.provider.received
        wire = received.json()
        said = json.dumps(wire.get("messages", wire.get("input")))
        places = [said.index(words) for words in ("Hello.", "# Environment", '"Bash"', "done", "tokens left")]
        assert places == sorted(places)


def test_the_probes_of_a_start_are_answered_without_a_key_and_are_not_in_the_log() -> None:
    with running(settings=lambda port: settings_for(port, keys=["sesame-open"])) as house:
        for path in ("/api/hello", "/"):
            head, got = house.ask("HEAD", path, b""), house.ask("GET", path, b"")
            assert (head.status, head.body, got.status) == (200, b"", 200)
            assert head.header("content-length") == str(len(got.body))
        assert house.get("/api/hello").json() == {"message": "hello"}
        assert house.post("/api/hello", {}).status == 405
    (line,) = house.log.getvalue().splitlines()
    assert json.loads(line)["status"] == 405


@pytest.mark.parametrize("provider", [CHAT, RESPONSES])
def test_strict_mode_serves_claude_code_and_strict_all_refuses_it(provider: str) -> None:
    with running([tells(provider)]) as house:
        assert house.post("/v1/messages?beta=true", asks(provider), **HEADERS, x_dragoman_strict="1").status == 200
        told = house.post("/v1/messages?beta=true", asks(provider), **HEADERS, x_dragoman_strict="all")
        assert told.status == 400
        assert "context_management" not in str(told.json())
