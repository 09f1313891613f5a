"""What goes back to the client beside the answer: ids, routes, losses, limits, and nothing of a provider's secrets."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Server, Settings
from dragoman.gateway.exchange import client_responses
from dragoman.model.jsonvalue import JsonObject
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    PROVIDER_KEY,
    RESPONSES,
    Reply,
    running,
    settings_for,
    whole,
)
from tests.gateway.harness import stream as streamed
from tests.gateway.pairwise import pairwise
from tests.gateway.says import (
    ABROAD,
    MESSAGES_TYPES,
    NAMES,
    PAIRS,
    SAID,
    error_body,
    error_frame,
    failure_of,
    log_lines,
    message_of,
    opening,
    question,
    refusal,
    streamed_text,
    streams,
    tells,
    with_provider,
)
from tests.sdk.digging import dig, dig_objects
from tests.sdk.samples import events_of


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_an_answer_says_its_id_its_route_and_its_losses(client: str, provider: str) -> None:
    for streaming in (False, True):
        with running([(streams if streaming else tells)(provider, request_id="up_1", x_request_id="up_2")]) as house:
            told = house.post(PATHS[client], question(client, provider, stream=streaming))
            mine, other = ("request-id", "x-request-id") if client == MESSAGES else ("x-request-id", "request-id")
            assert (told.header(mine) or "").startswith("req_")
            assert told.header(other) is None
            assert told.header("x-dragoman-route") == f"{NAMES[provider]}/served; protocol={provider}"
            assert told.header("x-dragoman-losses") is not None
            line = log_lines(house)[0]
            assert (line["id"], line["provider_request_id"]) == (told.header(mine), "up_1")


LOSSY = {"logit_bias": {"50256": -100}, "seed": 7}


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_pitfall_212_what_is_lost_is_named_in_a_header(streaming: bool) -> None:
    with running([(streams if streaming else tells)(MESSAGES)]) as house:
        told = house.post("/v1/chat/completions", question(CHAT, MESSAGES, stream=streaming, **LOSSY))
        losses = told.header("x-dragoman-losses") or ""
        assert "dropped:" in losses and "seed" in losses
        assert dig(log_lines(house)[0], "losses") == len(losses.split(", "))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_relay_loses_nothing(protocol: str) -> None:
    with running([tells(protocol)]) as house:
        told = house.post(PATHS[protocol], question(protocol, protocol, unknown_member=1))
        assert told.header("x-dragoman-losses") == "none"


@pytest.mark.parametrize(("client", "provider"), ABROAD)
def test_the_full_ledger_is_told_at_the_end_of_a_whole_answer(client: str, provider: str) -> None:
    with running([tells(provider), streams(provider)]) as house:
        for _ in range(2):
            told = house.post(PATHS[client], question(client, provider, unheard_of=1), x_dragoman_report="full")
            assert told.status == 200, told.body
            *_, (name, report) = told.json().items()
            lost = dig_objects(report, "losses")
            assert name == "dragoman" and "unheard_of" in json.dumps(lost)
            assert all(set(line) == {"fate", "feature", "weight", "at", "note"} for line in lost)


@pytest.mark.parametrize(("client", "provider"), ABROAD)
def test_the_full_ledger_is_a_comment_at_the_end_of_a_stream(client: str, provider: str) -> None:
    with running([streams(provider), tells(provider)]) as house:
        for _ in range(2):
            body = question(client, provider, stream=True, unheard_of=1)
            told = house.post(PATHS[client], body, x_dragoman_report="full")
            *_, last, empty = told.body.split(b"\n\n")
            assert empty == b"" and last.startswith(b": dragoman {")
            assert dig_objects(json.loads(last.removeprefix(b": dragoman ")), "losses")
            assert streamed_text(client, told.body) == SAID


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_relay_has_no_report_in_its_bytes(protocol: str) -> None:
    reply = tells(protocol)
    with running([reply]) as house:
        told = house.post(PATHS[protocol], question(protocol, protocol), x_dragoman_report="full")
        assert told.body == reply.steps[0]


LIMITS = {
    MESSAGES: {
        "anthropic_ratelimit_requests_limit": "50",
        "anthropic_ratelimit_requests_remaining": "49",
        "anthropic_ratelimit_tokens_remaining": "1000",
    },
    CHAT: {
        "x_ratelimit_limit_requests": "50",
        "x_ratelimit_remaining_requests": "49",
        "x_ratelimit_remaining_tokens": "1000",
    },
}
LIMITS[RESPONSES] = LIMITS[CHAT]
LEAKS = {
    "set_cookie": "session=1",
    "anthropic_organization_id": "org-1",
    "openai_organization": "org-1",
    "openai_project": "proj-1",
    "server": "provider",
    "via": "1.1 provider",
    "cf_ray": "1",
    "location": "/there",
    "x_internal": "1",
}


@pytest.mark.parametrize(("client", "provider", "streaming"), pairwise(PROTOCOLS, PROTOCOLS, [False, True]))
def test_pitfall_189_202_limits_come_under_the_clients_names_and_nothing_else(
    client: str, provider: str, streaming: bool
) -> None:
    given = {**LIMITS[provider], **LEAKS, "retry_after": "7", "x_should_retry": "false"}
    with running([(streams if streaming else tells)(provider, **given)]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=streaming))
    for name, value in LIMITS[client].items():
        assert told.header(name.replace("_", "-")) == value
    assert (told.header("retry-after"), told.header("x-should-retry")) == ("7", "false")
    mine = {"content-type", "content-length", "transfer-encoding", "cache-control", "x-accel-buffering", "connection"}
    mine |= {"date", "request-id", "x-request-id", "x-dragoman-route", "x-dragoman-losses", "retry-after"}
    mine |= {"x-should-retry", *(name.replace("_", "-") for name in LIMITS[client])}
    assert {name for name, _ in told.headers} <= mine


DELAYS = ("30", "0", "Wed, 21 Oct 2026 07:28:00 GMT", None)


@pytest.mark.parametrize(
    ("client", "provider", "status", "delay"), pairwise(PROTOCOLS, PROTOCOLS, (429, 503, 529, 500, 400), DELAYS)
)
def test_pitfall_189_when_to_try_again_is_told_as_the_provider_told_it(
    client: str, provider: str, status: int, delay: str | None
) -> None:
    headers = {} if delay is None else {"retry_after": delay, "x_should_retry": "true"}
    with running([refusal(provider, status, **headers)]) as house:
        told = house.post(PATHS[client], question(client, provider))
    # None is invented.
    assert told.header("retry-after") == delay
    assert delay is None or told.header("x-should-retry") == "true"


def test_pitfall_189_milliseconds_become_seconds_for_a_messages_client() -> None:
    with running([refusal(CHAT, 429, retry_after_ms="1500")]) as house:
        assert house.post("/v1/messages", question(MESSAGES, CHAT)).header("retry-after") == "2"


def test_pitfall_189_resets_are_told_in_the_clients_own_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_responses, "time", SimpleNamespace(time=lambda: 1_700_000_000.0))
    with running([tells(CHAT, x_ratelimit_reset_requests="6m0s")]) as house:
        told = house.post("/v1/messages", question(MESSAGES, CHAT)).header("anthropic-ratelimit-requests-reset")
    assert told == "2023-11-14T22:19:20Z"


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_a_spent_quota_is_not_tried_again(client: str) -> None:
    with running([refusal(MESSAGES, 402, x_should_retry="true")]) as house:
        told = house.post(PATHS[client], question(client, MESSAGES))
    assert (told.status, failure_of(client, told)["code"]) == (429, "insufficient_quota")
    assert [value for name, value in told.headers if name == "x-should-retry"] == ["false"]


@pytest.mark.parametrize(("client", "provider", "status"), pairwise(PROTOCOLS, PROTOCOLS, (401, 403)))
def test_a_refused_key_of_the_gateways_own_is_not_tried_again(client: str, provider: str, status: int) -> None:
    """Agents try for minutes, in silence, with a key that will not become a good one."""
    with running([refusal(provider, status)]) as house:
        told = house.post(PATHS[client], question(client, provider))
    # No status by which the client doubts its own key.
    assert told.status == (status if client == provider else 502)
    assert [value for name, value in told.headers if name == "x-should-retry"] == ["false"]


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_312_whoever_has_a_gateway_key_is_not_told_that_it_is_bad(client: str, streaming: bool) -> None:
    """On the relay, too: no client's own key ever reaches a provider."""
    bad = refusal(client, 401)
    headers = {"x_api_key": "dg-right"} if client == MESSAGES else {"authorization": "Bearer dg-right"}
    with running(lambda received: bad, lambda port: settings_for(port, keys=["dg-right"])) as house:
        told = house.post(PATHS[client], question(client, client, stream=streaming), **headers)
        assert (told.status, bool(failure_of(client, told))) == (502, True)
        assert [value for name, value in told.headers if name == "x-should-retry"] == ["false"]
        (line,) = log_lines(house)
        # The operator has to act, whatever the status.
        assert (line["failure"], line["level"]) == ("upstream_auth", "error")
        if client == CHAT:
            told = house.post("/v1/images/generations", {"model": "chat/served"}, **headers)
            assert (told.status, failure_of(client, told)["code"]) == (502, "upstream_auth")
            assert told.header("x-should-retry") == "false"


def test_pitfall_312_what_is_forbidden_is_the_providers_to_say() -> None:
    """It may be about the request, and then it is no word about a key."""
    refused = refusal(CHAT, 403)
    with running([refused], lambda port: settings_for(port, keys=["dg-right"])) as house:
        told = house.post(PATHS[CHAT], question(CHAT, CHAT), authorization="Bearer dg-right")
        assert (told.status, told.body) == (403, refused.steps[0])


# What must not get out.

WORDS = (
    f"Incorrect API key provided: {PROVIDER_KEY}. Called http://127.0.0.1:PORT/v1/internal?x=1, "
    f"header 'Authorization: Bearer {PROVIDER_KEY}', shown as {PROVIDER_KEY[:14]}***cdef"
)


@pytest.mark.parametrize(
    ("client", "provider", "streaming", "status"), pairwise(PROTOCOLS, PROTOCOLS, [False, True], [401, 400, 500])
)
def test_pitfall_202_a_key_or_a_host_never_gets_out(client: str, provider: str, streaming: bool, status: int) -> None:
    with running() as house:
        words = WORDS.replace("PORT", str(house.provider.port))
        kind = MESSAGES_TYPES[status] if provider == MESSAGES else "some_error"
        responses = iter(
            [
                whole(error_body(provider, kind, words), status, x_request_id=f"at-{PROVIDER_KEY}"),
                whole(words.encode(), status, content_type="text/plain"),
                whole(error_body(provider, kind, words)),
            ]
        )
        house.provider._script = lambda received: next(responses)
        for _ in range(3):
            told = house.post(PATHS[client], question(client, provider, stream=streaming))
            assert told.status >= 400
            everything = told.body.decode() + str(told.headers) + house.log.getvalue()
            assert PROVIDER_KEY[:14] not in everything
            assert f":{house.provider.port}" not in everything
            assert "/v1/internal" not in everything
            assert "Incorrect API key provided" in message_of(client, told)


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_full_response_that_failed_keeps_secrets_too(client: str) -> None:
    with running() as house:
        words = WORDS.replace("PORT", str(house.provider.port))
        failed: JsonObject = {"id": "resp_1", "object": "response", "model": "served", "status": "failed"}
        failed |= {"output": [], "error": {"code": "server_error", "message": words}}
        house.provider._script = lambda received: whole(failed)
        told = house.post(PATHS[client], question(client, RESPONSES))
        everything = told.body.decode() + str(told.headers) + house.log.getvalue()
        assert PROVIDER_KEY[:14] not in everything
        assert f":{house.provider.port}" not in everything
        assert "Incorrect API key provided" in told.body.decode()


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_key_in_an_errors_headers_never_gets_out(client: str) -> None:
    reply = whole({"error": {"message": "no"}}, 429, retry_after=PROVIDER_KEY, x_ratelimit_reset=PROVIDER_KEY)
    with running([reply]) as house:
        told = house.post(PATHS[client], question(client, CHAT))
        assert told.status == 429
        assert PROVIDER_KEY not in str(told.headers)


def test_an_error_of_many_megabytes_is_told_by_its_beginning() -> None:
    with running([whole({"error": {"message": "no " * 2_000_000}}, 400)]) as house:
        told = house.post(PATHS[CHAT], question(CHAT, CHAT))
        assert (told.status, len(told.body) < 512 * 1024) == (400, True)


def test_a_provider_that_breaks_off_is_a_502_without_its_address() -> None:
    for client in PROTOCOLS:
        # A new connection is tried once more.
        with running([Reply(raw=True, steps=(None,))] * 2) as house:
            told = house.post(PATHS[client], question(client, CHAT))
            assert told.status == 502
            assert "127.0.0.1" not in message_of(client, told)


def test_a_provider_that_is_not_configured_completely_ends_a_client_at_once_with_a_line_in_the_log() -> None:
    with running(settings=with_provider(keys=("bad\nkey-of-a-provider",))) as house:
        told = house.post("/v1/messages", question(MESSAGES, CHAT))
        assert (told.status, told.header("x-should-retry")) == (502, "false")
        assert "bad" not in message_of(MESSAGES, told)
        assert log_lines(house, "cannot call provider")
        assert "key-of-a-provider" not in house.log.getvalue()


def test_a_log_line_has_neither_prompt_nor_answer_and_cannot_be_forged() -> None:
    evil = 'x"}\n{"event":"forged"\u2028\x1b[2J'
    with running([tells(CHAT, "the answer is secret"), tells(CHAT)]) as house:
        secret = [{"role": "user", "content": "the prompt is secret"}]
        house.post("/v1/messages", question(MESSAGES, CHAT) | {"messages": secret})
        house.post("/v1/messages", question(MESSAGES, CHAT) | {"model": evil})
        house.post("/v1/messages", question(MESSAGES, CHAT) | {"model": f"chat/{evil}"})
        log = house.log.getvalue()
        assert "secret" not in log
        assert len(log_lines(house)) == 3 == len(log.splitlines())
        assert not log_lines(house, "forged")


# Records.


@pytest.mark.parametrize(("client", "provider", "streaming"), pairwise(PROTOCOLS, PROTOCOLS, [False, True]))
def test_every_exchange_is_one_line_with_its_tokens(client: str, provider: str, streaming: bool) -> None:
    with running([(streams if streaming else tells)(provider)]) as house:
        house.post(PATHS[client], question(client, provider, stream=streaming))
        [line] = log_lines(house)
        assert (line["client_protocol"], line["provider_protocol"], line["provider"]) == (
            client,
            provider,
            NAMES[provider],
        )
        assert (line["status"], line["stream"], line["attempt_count"]) == (200, streaming, 1)
        assert (line["input"], line["output"]) == (11, 7)


def test_limits_of_a_pool_can_be_passed_on_if_configured() -> None:
    keys = ("sk-first-0123456789", "sk-second-0123456789")
    for pooled, told in ((False, None), (True, "49")):

        def settings(port: int, pooled: bool = pooled) -> Settings:
            return settings_for(port, provider_keys=keys, server=Server(forward_pooled_rate_limits=pooled))

        with running([tells(CHAT, **LIMITS[CHAT])], settings) as house:
            answer = house.post("/v1/chat/completions", question(CHAT, CHAT))
            assert answer.header("x-ratelimit-remaining-requests") == told


TOO_LONG = "prompt is too long: 213462 tokens > 200000 maximum"


@pytest.mark.parametrize("provider", PROTOCOLS)
def test_an_overflow_is_told_in_the_stream_to_an_agent_that_compacts_only_then(provider: str) -> None:
    asked = question(RESPONSES, provider, stream=True)
    with running([refusal(provider, 400, TOO_LONG)] * 3) as house:
        told = house.post(PATHS[RESPONSES], asked, originator="codex_exec")
        assert (told.status, told.header("content-type")) == (200, "text/event-stream; charset=utf-8")
        last = events_of(told.body)[-1]
        assert last["type"] == "response.failed"
        assert dig(last, "response", "error", "code") == "context_length_exceeded"
        assert log_lines(house)[0]["failure"] == "context_overflow"
        # Others are told by the status, and so is whoever asked for no stream.
        assert house.post(PATHS[RESPONSES], asked).status == 400
        whole_one = house.post(PATHS[RESPONSES], question(RESPONSES, provider), originator="codex_exec")
        assert whole_one.status == 400


# What Claude Code reads of a subscription, and what has no place in another protocol.
UNIFIED = {
    "anthropic_ratelimit_unified_status": "allowed_warning",
    "anthropic_ratelimit_unified_reset": "1792567680",
    "anthropic_ratelimit_unified_5h_utilization": "0.91",
    "anthropic_ratelimit_unified_representative_claim": "five_hour",
}
OWN_LIMITS = {
    MESSAGES: {**LIMITS[MESSAGES], **UNIFIED, "anthropic_ratelimit_input_tokens_remaining": "7"},
    CHAT: {**LIMITS[CHAT], "x_ratelimit_reset_tokens": "6m0s", "x_ratelimit_remaining_project_tokens": "3"},
}
OWN_LIMITS[RESPONSES] = OWN_LIMITS[CHAT]


@pytest.mark.parametrize("way", ["whole", "streamed", "refused", "refused at the start of a stream"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pitfall_380_a_providers_limits_pass_unchanged_on_every_answer(protocol: str, way: str) -> None:
    given = OWN_LIMITS[protocol]
    first = error_frame(protocol, "rate_limit_error", "no", "rate_limit_exceeded")
    reply = {
        "whole": lambda: tells(protocol, **given),
        "streamed": lambda: streams(protocol, **given),
        "refused": lambda: refusal(protocol, 429, **given),
        "refused at the start of a stream": lambda: streamed(opening(protocol), first, **given),
    }[way]()
    with running([reply]) as house:
        told = house.post(PATHS[protocol], question(protocol, protocol, stream="stream" in way))
    assert told.status == (429 if "refused" in way else 200)
    for name, value in given.items():
        assert told.header(name.replace("_", "-")) == value, name


def test_pitfall_380_a_count_and_its_refusal_have_the_providers_limits_too() -> None:
    def counting(port: int) -> Settings:
        made = settings_for(port)
        asked = replace(made.providers["messages"], counts_tokens=True)
        return replace(made, providers={**made.providers, "messages": asked})

    given = {**OWN_LIMITS[MESSAGES], "retry_after": "9"}
    responses = [whole({"input_tokens": 3}, 200, **given), refusal(MESSAGES, 429, **given)]
    with running(responses, counting) as house:
        for status in (200, 429):
            told = house.post("/v1/messages/count_tokens", question(MESSAGES, MESSAGES))
            assert told.status == status
            assert {name: told.header(name.replace("_", "-")) for name in given} == given


IN_WORDS = "Rate limit reached. Please try again in 17s."


@pytest.mark.parametrize(("client", "provider", "stream"), pairwise(PROTOCOLS, PROTOCOLS, [False, True]))
def test_pitfall_382_a_delay_that_only_the_words_tell_is_in_the_header(
    client: str, provider: str, stream: bool
) -> None:
    with running([refusal(provider, 429, IN_WORDS)]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=stream))
    assert (told.status, told.header("retry-after")) == (429, "17")
    assert IN_WORDS.encode() in told.body


@pytest.mark.parametrize(("client", "provider", "before"), pairwise(PROTOCOLS, PROTOCOLS, [b"", None]))
def test_pitfall_382_so_is_one_at_the_start_of_a_stream(client: str, provider: str, before: bytes | None) -> None:
    first = error_frame(provider, "rate_limit_error", IN_WORDS, "rate_limit_exceeded")
    held = opening(provider) if before is None else before
    with running([streamed(held + first)]) as house:
        told = house.post(PATHS[client], question(client, provider, stream=True))
    assert (told.status, told.header("retry-after")) == (429, "17")
    assert IN_WORDS.encode() in told.body


def test_pitfall_382_a_delay_in_a_member_is_told_to_the_millisecond_where_that_is_read() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}
    body = {"error": {"code": 429, "message": "no", "status": "RESOURCE_EXHAUSTED", "details": [info]}}
    for client in PROTOCOLS:
        with running([whole(body, 429)]) as house:
            told = house.post(PATHS[client], question(client, CHAT))
        assert (told.status, told.header("retry-after"), told.header("retry-after-ms")) == (429, "2", "1500")


def test_pitfall_382_what_the_header_says_goes_before_the_words() -> None:
    with running([refusal(CHAT, 429, IN_WORDS, retry_after="3")]) as house:
        assert house.post("/v1/messages", question(MESSAGES, CHAT)).header("retry-after") == "3"
