"""A plain call is addressed as the official SDKs address it, and shows the key in one header alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import anthropic
import httpx2
import openai
import pytest

from dragoman import __version__
from dragoman.errors import ClientError, ConfigError
from dragoman.http.upstream_call import HeaderList, UpstreamRequest
from dragoman.providers.http_transport import TRANSPORT, check_path, filled, joined
from dragoman.providers.transport_interface import Order
from tests.providers.imitation import Answer, Seen, send, serving
from tests.providers.orders import BODY, order_to, provider_of


def called(order: Order) -> UpstreamRequest:
    return asyncio.run(TRANSPORT.call(order))


AGENT = (b"user-agent", b"dragoman/" + __version__.encode())
JSON = (b"content-type", b"application/json")
CODINGS = (b"accept-encoding", b"gzip, deflate, br, zstd")


@pytest.mark.parametrize(
    ("protocol", "base_url", "expected"),
    [
        ("anthropic-messages", "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("anthropic-messages", "https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("anthropic-messages", "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        ("anthropic-messages", "https://x.test/api/anthropic", "https://x.test/api/anthropic/v1/messages"),
        ("openai-chat", "https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        ("openai-chat", "https://api.deepseek.com", "https://api.deepseek.com/chat/completions"),
        ("openai-chat", "https://x.test/v1beta/openai/", "https://x.test/v1beta/openai/chat/completions"),
        ("openai-responses", "https://api.openai.com/v1/", "https://api.openai.com/v1/responses"),
    ],
)
def test_the_path_stands_below_the_base_url(protocol: str, base_url: str, expected: str) -> None:
    assert called(order_to(provider_of(base_url, protocol=protocol))).url == expected


def test_anthropics_own_sdk_uses_the_same_address_for_the_same_base_url() -> None:
    urls: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        urls.append(str(request.url))
        return httpx2.Response(400, json={})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        sdk = anthropic.Anthropic(api_key="k", base_url="https://x.test/some", http_client=client)
        with pytest.raises(anthropic.BadRequestError):
            sdk.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "hi"}])
    assert urls == [called(order_to(provider_of("https://x.test/some", protocol="anthropic-messages"))).url]


def test_openais_own_sdk_uses_the_same_addresses_for_the_same_base_url() -> None:
    urls: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        urls.append(str(request.url))
        return httpx2.Response(400, json={})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        sdk = openai.OpenAI(api_key="k", base_url="https://x.test/some/v1", http_client=client)
        with pytest.raises(openai.BadRequestError):
            sdk.chat.completions.create(model="m", messages=[])
        with pytest.raises(openai.BadRequestError):
            sdk.responses.create(model="m", input="hi")
    ours = [provider_of("https://x.test/some/v1", protocol=name) for name in ("openai-chat", "openai-responses")]
    assert urls == [called(order_to(provider)).url for provider in ours]


def test_a_whole_answer_may_be_compressed_and_a_stream_may_not() -> None:
    provider = provider_of("https://x.test/v1")
    whole, streamed = called(order_to(provider)), called(order_to(provider, stream=True))
    assert whole.headers == [AGENT, (b"accept", b"application/json"), CODINGS, JSON]
    assert streamed.headers == [AGENT, (b"accept", b"text/event-stream"), (b"accept-encoding", b"identity"), JSON]
    assert (whole.method, whole.body) == ("POST", BODY)


def test_a_post_with_the_same_headers_to_the_same_address_recurs() -> None:
    provider = provider_of("https://x.test/v1")
    beta: HeaderList = [(b"openai-beta", b"a")]

    def requests() -> list[UpstreamRequest]:
        orders = (
            order_to(provider),
            order_to(provider, headers=[*beta]),
            order_to(provider, headers=[(b"openai-beta", b"b")]),
            order_to(provider, query="beta=true"),
            order_to(provider, stream=True),
            order_to(provider, key="k"),
        )
        return [called(order) for order in orders]

    # In any order, so that none gets the headers of another.
    first, second = requests(), requests()
    assert all(request.is_recurring for request in first)
    assert all(one.headers is other.headers and one.url == other.url for one, other in zip(first, second, strict=True))
    assert len({id(request.headers) for request in first}) == len(first)
    assert first[1].headers == [*first[0].headers, *beta]
    assert [request.url for request in first].count("https://x.test/v1/chat/completions?beta=true") == 1


def test_other_calls_do_not_recur() -> None:
    provider = provider_of("https://x.test/v1")
    others = [
        order_to(provider, headers=[(b"traceparent", b"a")]),
        order_to(provider, headers=[(b"openai-beta", b"a"), (b"idempotency-key", b"a")]),
        order_to(provider, method="GET", body=b""),
        order_to(provider, path="/models"),
        order_to(provider_of("https://x.test/v1", headers={"X-Team": "blue"})),
    ]
    assert not any(called(order).is_recurring for order in others)
    assert called(others[1]).headers[-2:] == others[1].headers


@pytest.mark.parametrize(
    ("protocol", "auth", "key", "expected"),
    [
        ("anthropic-messages", "", "k", [(b"x-api-key", b"k")]),
        ("anthropic-messages", "bearer", "k", [(b"authorization", b"Bearer k")]),
        ("openai-chat", "", "k", [(b"authorization", b"Bearer k")]),
        ("openai-responses", "", "k", [(b"authorization", b"Bearer k")]),
        ("openai-chat", "x-api-key", "k", [(b"x-api-key", b"k")]),
        ("openai-chat", "api-key", "k", [(b"api-key", b"k")]),
        ("openai-chat", "none", "k", []),
        ("openai-chat", "", None, []),
        ("openai-chat", "bearer", "", []),
    ],
)
def test_the_key_stands_in_the_header_that_is_custom(
    protocol: str, auth: str, key: str | None, expected: HeaderList
) -> None:
    headers = called(order_to(provider_of("https://x.test", protocol=protocol, auth=auth), key=key)).headers
    assert headers[4:] == expected


def test_headers_of_the_same_name_replace_each_other_and_the_credentials_come_last() -> None:
    provider = provider_of("https://x.test", headers={"X-Team": "blue", "User-Agent": "mine", "Authorization": "no"})
    headers: HeaderList = [(b"openai-beta", b"a"), (b"x-team", b"red"), (b"content-type", b"multipart/form-data")]
    assert called(order_to(provider, headers=headers, key="k")).headers == [
        (b"accept", b"application/json"),
        CODINGS,
        (b"openai-beta", b"a"),
        (b"content-type", b"multipart/form-data"),
        (b"x-team", b"blue"),
        (b"user-agent", b"mine"),
        (b"authorization", b"Bearer k"),
    ]


def test_another_path_is_relayed_with_its_method_and_query() -> None:
    provider = provider_of("https://x.test/v1")
    call = called(order_to(provider, path="/models", method="GET", query="limit=2&after=a%20b", body=b""))
    assert (call.method, call.url) == ("GET", "https://x.test/v1/models?limit=2&after=a%20b")
    assert JSON not in call.headers


@pytest.mark.parametrize(
    ("base_url", "path", "expected"),
    [
        ("https://x.test", "/v1/messages/count_tokens", "https://x.test/v1/messages/count_tokens"),
        ("https://x.test/v1", "/v1/messages/count_tokens", "https://x.test/v1/messages/count_tokens"),
        ("https://x.test/v1", "/embeddings", "https://x.test/v1/embeddings"),
        ("https://x.test/v1", "/v1beta", "https://x.test/v1/v1beta"),
    ],
)
def test_a_version_in_both_stands_once(base_url: str, path: str, expected: str) -> None:
    assert joined(base_url, path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/../admin",
        "/a/%2e%2E/b",
        "/a/..;x/b",
        "/a/..%3Bx/b",
        "/a/..%2f..%2Fadmin",
        "/a/%2e%2e%5Cadmin",
        "/a/%252e%252e/b",
        "/a/..%252fb",
        "/.",
        "embeddings",
        "//x.test\\a",
        "/a?b",
        "/a#b",
        "/a b",
        "/a\r\nb",
        "/ä",
    ],
)
def test_a_path_that_would_leave_the_base_url_is_refused(path: str) -> None:
    with pytest.raises(ClientError) as refused:
        called(order_to(provider_of("https://x.test/v1"), path=path))
    assert refused.value.status == 404


def test_placeholders_of_the_base_url_are_the_providers_options() -> None:
    provider = provider_of("https://x.test/accounts/{account_id}/ai/v1/", options={"account_id": "a1"})
    assert called(order_to(provider)).url == "https://x.test/accounts/a1/ai/v1/chat/completions"


@pytest.mark.parametrize(
    ("base_url", "words"), [("https://{place}/v1", r"providers\.cloud\.place: missing"), ("https://{/v1", "base_url")]
)
def test_a_placeholder_that_nothing_fills_is_an_error_of_the_config(base_url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        filled(base_url, provider_of(base_url))


@pytest.mark.parametrize("key", ["s3cret\nx", "s3cret\n", " s3cret", "s3crét", "s3cret\x00"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key: str) -> None:
    provider = provider_of("https://x.test", keys=(key,))
    for attempt in (lambda: TRANSPORT.check(provider), lambda: called(order_to(provider, key=key))):
        with pytest.raises(ConfigError) as refused:
            attempt()
        assert "s3cr" not in str(refused.value)


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"": "c"}, {"a": "b\r\nc: d"}, {"a": "☂"}, {"ä": "b"}])
def test_headers_that_http_cannot_carry_are_an_error_of_the_config(headers: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"providers\.cloud\.headers"):
        TRANSPORT.check(provider_of("https://x.test", headers=headers))


def test_an_unknown_way_of_showing_the_key_is_an_error_of_the_config() -> None:
    with pytest.raises(ConfigError, match=r"api-key, bearer, none, x-api-key"):
        TRANSPORT.check(provider_of("https://x.test", auth="aws"))


def test_a_usable_provider_passes_the_check() -> None:
    TRANSPORT.check(provider_of("https://x.test/{a}", keys=("k",), headers={"X-Team": "blé"}, options={"a": "b"}))


def test_the_call_arrives_as_it_was_written() -> None:
    with serving(lambda seen: Answer(200, "application/json", b"{}")) as (url, arrived):
        provider = provider_of(url + "/v1", headers={"X-Team": "blue"})
        assert send(called(order_to(provider, key="k", body=b'{"temperature": 1.0}'))).status == 200
    assert arrived == [
        Seen(
            "POST",
            "/v1/chat/completions",
            {
                "host": url.removeprefix("http://"),
                "user-agent": f"dragoman/{__version__}",
                "accept": "application/json",
                "accept-encoding": "gzip, deflate, br, zstd",
                "content-type": "application/json",
                "x-team": "blue",
                "authorization": "Bearer k",
                "content-length": "20",
            },
            b'{"temperature": 1.0}',
        )
    ]


def test_only_the_paths_that_a_cloud_has_pass() -> None:
    provider = provider_of("https://x.test")
    for path in ("", "/a"):
        check_path(order_to(provider, path=path), frozenset({"/a"}))
    with pytest.raises(ClientError) as refused:
        check_path(order_to(provider, path="/b"), frozenset({"/a"}))
    assert refused.value.status == 404
