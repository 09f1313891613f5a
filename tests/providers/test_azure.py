"""A call to Azure is addressed as OpenAI's own Azure client addresses it."""

from __future__ import annotations

import asyncio

import httpx2
import openai
import pytest

from dragoman.errors import ClientError, ConfigError
from dragoman.http.upstream_call import UpstreamRequest, header
from dragoman.providers.azure import TRANSPORT
from dragoman.providers.provider import Provider
from dragoman.providers.transport_interface import Order
from tests.providers.orders import order_to, provider_of

RESOURCE = "https://mine.openai.azure.com"
DATED = {"api_version": "2025-04-01-preview"}


def called(order: Order) -> UpstreamRequest:
    return asyncio.run(TRANSPORT.call(order))


def azure(base_url: str = RESOURCE, protocol: str = "openai-chat", auth: str = "", **options: str) -> Provider:
    return provider_of(base_url, protocol=protocol, transport="azure", auth=auth, options=options)


@pytest.mark.parametrize("base_url", [RESOURCE, RESOURCE + "/", RESOURCE + "/openai", RESOURCE + "/openai/v1/"])
@pytest.mark.parametrize(
    ("protocol", "path"), [("openai-chat", "/chat/completions"), ("openai-responses", "/responses")]
)
def test_the_v1_style_is_the_same_however_the_resource_is_given(base_url: str, protocol: str, path: str) -> None:
    assert called(order_to(azure(base_url, protocol))).url == f"{RESOURCE}/openai/v1{path}"


def test_the_resource_may_be_an_option() -> None:
    provider = azure("https://{resource}.openai.azure.com/openai/v1", resource="mine")
    TRANSPORT.check(provider)
    assert called(order_to(provider)).url == f"{RESOURCE}/openai/v1/chat/completions"


def test_a_version_that_is_a_word_belongs_to_the_v1_style() -> None:
    provider = azure(protocol="openai-responses", api_version="preview")
    assert called(order_to(provider, query="a=b")).url == f"{RESOURCE}/openai/v1/responses?api-version=preview&a=b"


@pytest.mark.parametrize("base_url", [RESOURCE, RESOURCE + "/openai", RESOURCE + "/openai/v1"])
@pytest.mark.parametrize(
    ("protocol", "path", "expected"),
    [
        ("openai-chat", "", "/openai/deployments/gpt%2F5/chat/completions"),
        ("openai-chat", "/embeddings", "/openai/deployments/gpt%2F5/embeddings"),
        ("openai-chat", "/files", "/openai/files"),
        ("openai-responses", "", "/openai/responses"),
    ],
)
def test_the_classic_style_names_the_deployment_in_the_path(
    base_url: str, protocol: str, path: str, expected: str
) -> None:
    provider = azure(base_url, protocol, **DATED)
    call = called(order_to(provider, model="gpt/5", path=path))
    assert call.url == f"{RESOURCE}{expected}?api-version=2025-04-01-preview"


def test_the_official_client_uses_the_same_addresses_and_header() -> None:
    seen: list[tuple[str, str]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append((str(request.url), request.headers["api-key"]))
        return httpx2.Response(400, json={})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        sdk = openai.AzureOpenAI(
            api_key="k", azure_endpoint=RESOURCE, api_version=DATED["api_version"], http_client=client
        )
        with pytest.raises(openai.BadRequestError):
            sdk.chat.completions.create(model="gpt 5:a", messages=[])
        with pytest.raises(openai.BadRequestError):
            sdk.embeddings.create(model="gpt 5:a", input="x")
        with pytest.raises(openai.BadRequestError):
            sdk.responses.create(model="gpt 5:a", input="x")
    calls = [
        called(order_to(azure(protocol=protocol, **DATED), model="gpt 5:a", key="k", path=path))
        for protocol, path in (("openai-chat", ""), ("openai-chat", "/embeddings"), ("openai-responses", ""))
    ]
    assert seen == [(call.url, (header(call.headers, b"api-key") or b"").decode()) for call in calls]


@pytest.mark.parametrize(
    ("protocol", "auth", "name", "value"),
    [
        ("openai-chat", "", b"api-key", b"k"),
        ("openai-chat", "bearer", b"authorization", b"Bearer k"),
        ("anthropic-messages", "", b"x-api-key", b"k"),
        ("anthropic-messages", "bearer", b"authorization", b"Bearer k"),
    ],
)
def test_the_key_or_the_entra_token_stands_in_its_header(protocol: str, auth: str, name: bytes, value: bytes) -> None:
    credentials = {b"api-key", b"x-api-key", b"authorization"}
    headers = called(order_to(azure(protocol=protocol, auth=auth), key="k")).headers
    assert [pair for pair in headers if pair[0] in credentials] == [(name, value)]


def test_claude_on_the_same_platform_is_messages_as_anywhere() -> None:
    provider = azure("https://mine.services.ai.azure.com/anthropic/", "anthropic-messages", **DATED)
    assert called(order_to(provider)).url == "https://mine.services.ai.azure.com/anthropic/v1/messages"


@pytest.mark.parametrize("model", ["", ".", "..", "a\nb"])
def test_a_model_that_is_no_segment_of_a_path_is_unknown(model: str) -> None:
    with pytest.raises(ClientError) as refused:
        called(order_to(azure(**DATED), model=model))
    assert refused.value.status == 404


def test_what_azure_does_not_know_is_an_error_of_the_config() -> None:
    with pytest.raises(ConfigError, match=r"providers\.cloud\.auth"):
        TRANSPORT.check(azure(auth="google"))
    with pytest.raises(ConfigError, match=r"providers\.cloud\.resource: missing"):
        TRANSPORT.check(azure("https://{resource}.openai.azure.com"))
