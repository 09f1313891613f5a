"""Headers: allow-lists in both directions; what is not named does not pass."""

from __future__ import annotations

import pytest

from dragoman.gateway.forwarding import header_forwarding
from dragoman.gateway.forwarding.header_forwarding import (
    limits_of,
    provider_request_id,
    returned,
    safe,
    traced,
    written,
)
from dragoman.gateway.observability.record import Record
from dragoman.http.upstream_call import HeaderList
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.target import Target

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
PROTOCOLS = (MESSAGES, CHAT, RESPONSES)

NEVER_UP = (
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "cookie",
    "x-forwarded-for",
    "x-forwarded-host",
    "forwarded",
    "via",
    "x-real-ip",
    "x-stainless-os",
    "x-stainless-retry-count",
    "user-agent",
    "referer",
    "origin",
    "host",
    "connection",
    "te",
    "upgrade",
    "proxy-connection",
    "x-internal-user",
    "x-dragoman-report",
    "x-dragoman-provider",
    "x-dragoman-launch",
    "anthropic-dangerous-direct-browser-access",
)
ENTITY = ("content-encoding", "content-length", "transfer-encoding", "content-type", "content-md5", "digest", "expect")
NEVER_DOWN = (
    "set-cookie",
    "location",
    "openai-organization",
    "openai-project",
    "openai-processing-ms",
    "anthropic-organization-id",
    "anthropic-workspace-id",
    "request-id",
    "x-request-id",
    "server",
    "via",
    "cf-ray",
    "alt-svc",
    "strict-transport-security",
    "access-control-allow-origin",
    "www-authenticate",
    "x-envoy-upstream-service-time",
    "connection",
    "keep-alive",
)


def relayed(headers: HeaderList, target: Target, owner: bytes) -> HeaderList:
    return header_forwarding.relayed(headers, dict(headers), target, owner)


def aim(
    protocol: str = MESSAGES, *, anthropic: bool = False, name: str = "some", url: str = "http://a.example"
) -> Target:
    endpoint = Endpoint(protocol=protocol, base_url=url)
    provider = Provider(name=name, endpoints=(endpoint,), anthropic=anthropic)
    return Target(provider=provider, endpoint=endpoint, model="m", strict=False)


def sent(*names: str) -> HeaderList:
    return [(name.encode(), b"value") for name in names]


def names(headers: HeaderList) -> set[str]:
    return {name.decode() for name, _ in headers}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("anthropic", [True, False], ids=["to Anthropic", "to another"])
@pytest.mark.parametrize("name", NEVER_UP)
def test_pitfall_202_the_provider_does_not_get(name: str, anthropic: bool, protocol: str) -> None:
    assert name not in names(relayed(sent(name), aim(protocol, anthropic=anthropic), b""))


@pytest.mark.parametrize("name", NEVER_DOWN)
@pytest.mark.parametrize("limits", [True, False])
def test_pitfall_202_the_client_does_not_get(name: str, limits: bool) -> None:
    assert returned(sent(name), limits=limits) == []
    assert limits_of(sent(name), limits=limits) == {}


@pytest.mark.parametrize("name", ENTITY)
def test_pitfall_200_entity_headers_of_a_body_that_was_read_stay_behind(name: str) -> None:
    assert name not in names(relayed(sent(name), aim(MESSAGES, anthropic=True), b""))
    assert returned(sent(name), limits=True) == []


@pytest.mark.parametrize(
    "name",
    [
        "anthropic-new-feature",
        "anthropic-client-version",
        "anthropic-fast-mode",
        "openai-beta",
        "openai-new-feature",
        "openai-version",
        "openai-intent",
        "openai-poll-after-ms",
        "openai-service-tier",
        "openai-valid-grid",
        "openai-forged-image",
        "openai-designed-ideas",
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_new_features_travel_as_new_headers_on_the_same_protocol(name: str, protocol: str) -> None:
    assert (name.encode(), b"value") in relayed(sent(name), aim(protocol, anthropic=False), b"")


PERSONAL = (
    "openai-organization",
    "openai-organization-id",
    "openai-organisation",
    "openai-org",
    "openai-org-id",
    "openai-project",
    "openai-projects",
    "openai-projectid",
    "openai-user-id",
    "openai-admin",
    "openai-api-key",
    "openai-authorization",
    "openai-safety-token",
    "anthropic-organization-id",
    "anthropic-workspace-id",
    "anthropic-workspace",
    "anthropic-account-uuid",
    "anthropic-tenant",
    "anthropic-admin-key",
    "anthropic-api-key",
    "anthropic-auth-token",
    "anthropic-client-secret",
    "anthropic-user-profile-id",
    "x-claude-code-account-id",
    "openai-org_id",
    "openai-orgid",
    "openai-orgs",
    "openai_beta-org",
    "openai-x.org",
    "openai-proj",
    "openai-proj_id",
    "openai-projid",
    "openai-acct",
    "openai-group",
    "openai-groups-id",
    "openai-on-behalf-of",
    "openai-on_behalf_of",
    "openai-act-as",
    "openai-actas",
    "openai-assume-role",
    "openai-session",
    "openai-session_id",
    "openai-creds",
    "openai-subscription",
    "openai-enterprise",
    "openai-company",
    "openai-principal",
    "openai-bearer",
    "openai-id",
    "openai-anything_uuid",
    "anthropic-profile",
    "anthropic-member",
    "anthropic-orgid",
    "anthropic-worker-id",
    "x-claude-code-profile",
    "x-claude-code-org",
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", PERSONAL)
def test_what_chooses_an_account_is_the_operators_to_say(name: str, protocol: str) -> None:
    assert name not in names(relayed(sent(name), aim(protocol, anthropic=True), b""))


def test_gateway_keys_do_not_share_a_name_space_of_idempotency_keys() -> None:
    said = [(b"idempotency-key", b"order-1")]
    apart = [
        relayed(said, aim(CHAT), b""),
        relayed(said, aim(CHAT), b"laptop"),
        relayed(said, aim(CHAT), b"server"),
        relayed(said, aim(CHAT, name="other"), b"laptop"),
        relayed(said, aim(CHAT, url="http://b.example"), b"laptop"),
        relayed([(b"idempotency-key", b"order-2")], aim(CHAT), b"laptop"),
        # What stands where is part of it.
        relayed(said, aim(CHAT, name="somelaptop"), b""),
    ]
    values = [dict(passed)[b"idempotency-key"] for passed in apart]
    assert len(set(values)) == len(values)
    assert all(len(value) == 64 and value.isalnum() for value in values)
    assert relayed(said, aim(CHAT), b"laptop") == apart[1]


def test_the_first_of_several_idempotency_keys_counts_and_an_empty_one_is_none() -> None:
    first = relayed([(b"idempotency-key", b"a")], aim(CHAT), b"")
    assert relayed([(b"idempotency-key", b"a"), (b"idempotency-key", b"b")], aim(CHAT), b"") == first
    assert relayed([(b"idempotency-key", b"")], aim(CHAT), b"") == []


def test_what_an_agent_says_of_itself_is_for_its_own_provider() -> None:
    for name in (b"x-claude-code-session-id", b"x-claude-code-session", b"x-claude-code-mode"):
        header = (name, b"s")
        assert header in relayed([header], aim(MESSAGES, anthropic=True), b"")
        assert header not in relayed([header], aim(MESSAGES, anthropic=False), b"")


BETAS = {
    "one": (b"context-1m-2025-08-07", b"context-1m-2025-08-07"),
    "several": (b"a-1, b.2 ,c_3", b"a-1,b.2,c_3"),
    "a malformed one between good ones": (b"a,b c,d;e,,f\x80,g", b"a,g"),
    "nothing but malformed ones": (b"a b, ;, \xff", None),
    "nothing": (b"", None),
    "commas": (b",,,", None),
}


@pytest.mark.parametrize("case", BETAS)
def test_pitfall_203_betas_pass_on_the_native_route_if_they_are_well_formed(case: str) -> None:
    value, wanted = BETAS[case]
    passed = dict(relayed([(b"anthropic-beta", value)], aim(MESSAGES, anthropic=True), b""))
    assert passed.get(b"anthropic-beta") == wanted


def test_pitfall_203_betas_in_several_lines_all_pass() -> None:
    lines = [(b"anthropic-beta", b"a"), (b"anthropic-beta", b"b")]
    assert [
        value for name, value in relayed(lines, aim(MESSAGES, anthropic=True), b"") if name == b"anthropic-beta"
    ] == [
        b"a",
        b"b",
    ]


@pytest.mark.parametrize("version", [b"2023-06-01", b"2026-10-21"])
def test_the_version_is_as_the_client_sent_it(version: bytes) -> None:
    passed = relayed([(b"anthropic-version", version)], aim(MESSAGES, anthropic=True), b"")
    assert passed == [(b"anthropic-version", version)]


def test_a_missing_version_is_the_first_one_on_messages_alone() -> None:
    assert relayed([], aim(MESSAGES, anthropic=False), b"") == [(b"anthropic-version", b"2023-06-01")]
    assert relayed([], aim(CHAT, anthropic=False), b"") == []
    assert relayed([], aim(RESPONSES, anthropic=False), b"") == []


RETRY = ("retry-after", "retry-after-ms", "x-should-retry")
LIMITS = (
    "anthropic-ratelimit-requests-remaining",
    "anthropic-ratelimit-unified-status",
    "anthropic-priority-input-tokens-limit",
    "anthropic-fast-input-tokens-limit",
    "x-ratelimit-limit-tokens",
)


@pytest.mark.parametrize("name", RETRY)
@pytest.mark.parametrize("limits", [True, False])
def test_pitfall_189_when_to_retry_always_comes_back(name: str, limits: bool) -> None:
    assert returned(sent(name), limits=limits) == sent(name)


@pytest.mark.parametrize("name", LIMITS)
def test_pitfall_189_rate_limits_come_back_where_they_are_the_clients_own(name: str) -> None:
    assert returned(sent(name), limits=True) == sent(name)
    assert returned(sent(name), limits=False) == []


def test_pitfall_189_no_retry_is_invented() -> None:
    assert returned([(b"content-type", b"application/json")], limits=True) == []


def test_limits_are_read_as_text_whatever_bytes_they_are() -> None:
    assert limits_of([(b"retry-after", b"\xff3")], limits=False) == {"retry-after": "ÿ3"}


@pytest.mark.parametrize("name", ["request-id", "x-request-id", "x-amzn-requestid", "apim-request-id"])
def test_the_providers_own_id_is_kept_for_the_record(name: str) -> None:
    assert provider_request_id([(b"date", b"now"), (name.encode(), b"abc")]) == "abc"
    assert len(provider_request_id([(name.encode(), b"a" * 100_000)])) == 120


def test_no_id_of_the_provider_is_none() -> None:
    assert provider_request_id([(b"date", b"now")]) == ""


def test_headers_that_a_body_needs_are_written_beside_it() -> None:
    assert written({"anthropic-version": "2026-10-21"}) == [(b"anthropic-version", b"2026-10-21")]


HOSTILE = {
    "plain text as it is": ("openai/gpt-5.1 (new)", b"openai/gpt-5.1 (new)"),
    "line breaks": ("a\r\nset-cookie: b", b"a%0D%0Aset-cookie: b"),
    "a null": ("a\0b", b"a%00b"),
    "an escape sequence": ("\x1b[2J", b"%1B[2J"),
    "other scripts": ("é", b"%C3%A9"),
    "a line separator": ("\u2028", b"%E2%80%A8"),
    "a lone surrogate": ("\ud800", b"?"),
    "what looks encoded beside what is": ("é%0A", b"%C3%A9%250A"),
    "a tab": ("a\tb", b"a%09b"),
    "a delete": ("a\x7fb", b"a%7Fb"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_text_from_outside_becomes_a_legal_value(case: str) -> None:
    text, value = HOSTILE[case]
    assert safe(text) == value


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600"])
def test_text_from_outside_is_cut_before_it_is_looked_at(letter: str) -> None:
    assert len(safe(letter * 10_000_000)) < 4000


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_without_a_trace_and_a_collector_headers_stay_the_very_same() -> None:
    headers: HeaderList = [(b"accept", b"*/*")]
    assert traced(headers, Record(id="req_1", client_protocol=CHAT, path="", started=0.0, time=0), None) is headers


def test_a_trace_goes_on_beside_what_a_call_says() -> None:
    headers: HeaderList = [(b"accept", b"*/*")]
    record = Record(id="req_1", client_protocol=CHAT, path="", started=0.0, time=0, trace=TRACE, trace_state="a=1")
    assert traced(headers, record, None) == [*headers, (b"traceparent", TRACE.encode()), (b"tracestate", b"a=1")]
    (_, parent), _ = traced([], record, 1.0)
    assert parent.startswith(TRACE[:36].encode())
    assert parent != TRACE.encode()
    assert headers == [(b"accept", b"*/*")]
