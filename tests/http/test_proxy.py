"""Proxies: what the environment says, whom it leaves out, and calls that go through one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress

import pytest
import trustme

from dragoman.errors import Unreachable
from dragoman.http.address import locate
from dragoman.http.client import HttpClient
from dragoman.http.proxy import Proxies, Proxy
from dragoman.http.upstream_call import UpstreamRequest
from tests.http.scripted import Heard, Provider, Script, answering, hear, provider, run

HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
both_loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
ONE = Proxy("one", 1, b"")
TWO = Proxy("two", 2, b"")


@pytest.mark.parametrize(
    ("environment", "url", "expected"),
    [
        ({}, "https://host/", None),
        ({"HTTPS_PROXY": "http://one:1"}, "https://host/", ONE),
        ({"https_proxy": "http://one:1"}, "https://host/", ONE),
        ({"https_proxy": "http://one:1", "HTTPS_PROXY": "http://two:2"}, "https://host/", ONE),
        ({"HTTPS_PROXY": "http://one:1"}, "http://host/", None),
        ({"HTTP_PROXY": "http://one:1"}, "http://host/", ONE),
        ({"HTTP_PROXY": "http://one:1"}, "https://host/", None),
        ({"ALL_PROXY": "http://one:1", "HTTP_PROXY": "http://two:2"}, "https://host/", ONE),
        ({"ALL_PROXY": "http://one:1", "HTTP_PROXY": "http://two:2"}, "http://host/", TWO),
        ({"ALL_PROXY": "one:1"}, "http://host/", ONE),
        ({"ALL_PROXY": "one"}, "http://host/", Proxy("one", 80, b"")),
        ({"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"}, "http://host/", None),
        ({"http_proxy": "http://one:1", "REQUEST_METHOD": "GET"}, "http://host/", ONE),
        ({"HTTPS_PROXY": ""}, "https://host/", None),
        ({"HTTPS_PROXY": "http://a%40b:c%3Ad@one:1/"}, "https://host/", Proxy("one", 1, b"Basic YUBiOmM6ZA==")),
        ({"ALL_PROXY": "http://user@one:1/"}, "https://host/", Proxy("one", 1, b"Basic dXNlcjo=")),
        ({"ALL_PROXY": "http://[::1]:1"}, "https://host/", Proxy("::1", 1, b"")),
        ({"ALL_PROXY": "one:1"}, "http://localhost/", None),
        ({"ALL_PROXY": "one:1"}, "http://127.0.0.1/", None),
        ({"ALL_PROXY": "one:1"}, "http://[::1]/", None),
    ],
)
def test_the_environment_says_which_proxy(environment: dict[str, str], url: str, expected: Proxy | None) -> None:
    assert Proxies(environment).of(locate(url)[0]) == expected


@pytest.mark.parametrize(
    ("exempt", "url", "direct"),
    [
        ("*", "https://host/", True),
        ("host", "https://host/", True),
        ("HOST", "https://host/", True),
        ("other, host", "https://host/", True),
        ("example.org", "https://api.example.org/", True),
        ("example.org", "https://badexample.org/", False),
        (".example.org", "https://api.example.org/", True),
        ("*.example.org", "https://api.example.org/", True),
        ("api.example.org", "https://example.org/", False),
        ("host:443", "https://host/", True),
        ("host:444", "https://host/", False),
        ("10.0.0.0/8", "https://10.1.2.3/", True),
        ("10.0.0.0/8", "https://11.1.2.3/", False),
        ("10.1.2.3", "https://10.1.2.3:99/", True),
        ("fd00::/8", "https://[fd00::1]/", True),
        ("[fd00::1]", "https://[fd00::1]/", True),
        ("https://host", "https://host/", True),
        ("http://host", "https://host/", False),
        ("all://host", "https://host/", True),
        (",", "https://host/", False),
    ],
)
def test_hosts_are_left_out(exempt: str, url: str, direct: bool) -> None:
    proxies = Proxies({"ALL_PROXY": "one:1", "NO_PROXY": exempt})
    assert (proxies.of(locate(url)[0]) is None) is direct


@pytest.mark.parametrize("url", ["socks5://one:1", "https://one:1", "http://one:x", "http://", "http://o ne"])
def test_a_proxy_that_cannot_be_used_is_not_left_out_in_silence(url: str) -> None:
    with pytest.raises(Unreachable, match="proxy set in the environment") as caught:
        Proxies({"ALL_PROXY": url}).of(locate("https://host/")[0])
    assert "one" not in str(caught.value).split()


def test_credentials_stay_out_of_the_representation() -> None:
    assert "c2VjcmV0" not in repr(Proxy("one", 1, b"Basic c2VjcmV0"))


def make_client(proxy: Provider, context: ssl.SSLContext | None = None, credentials: str = "") -> HttpClient:
    url = f"http://{credentials}127.0.0.1:{proxy.port}"
    return HttpClient(connect_timeout=10, context=context, proxies={"ALL_PROXY": url})


async def fetch(client: HttpClient, url: str) -> bytes:
    flight = client.open(UpstreamRequest(method="POST", url=url, headers=[], body=b"{}"))
    try:
        await flight.head()
        return await flight.read(1000)
    finally:
        flight.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def tunnelling(port: int, heard: list[Heard]) -> Script:
    """A proxy that leads every way to one local port."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await hear(reader))
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\nvia: 1.1 proxy\r\n\r\n")
        try:
            await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))
        finally:
            there_writer.transport.abort()

    return script


def contexts(name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = trustme.CA()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(served)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    return served, trusting


@both_loops
def test_https_goes_through_a_tunnel_that_is_kept(loop: str) -> None:
    async def test() -> None:
        served, trusting = contexts("provider.test")
        heard: list[Heard] = []
        async with provider(answering(HELLO), served) as server, provider(tunnelling(server.port, heard)) as proxy:
            client = make_client(proxy, trusting, "user:p%40ss@")
            for _ in range(3):
                assert await fetch(client, "https://provider.test/v1") == b"hello"
            await client.close()
            assert len(heard) == 1
            assert heard[0].line == b"CONNECT provider.test:443 HTTP/1.1"
            assert heard[0].headers == {
                b"host": b"provider.test:443",
                b"proxy-authorization": b"Basic dXNlcjpwQHNz",
            }

    run(test, loop)


@both_loops
def test_http_is_asked_of_the_proxy_itself(loop: str) -> None:
    heard: list[Heard] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heard.append(await hear(reader))
            writer.write(HELLO)

    async def test() -> None:
        async with provider(script) as proxy:
            client = make_client(proxy, credentials="user:pass@")
            assert await fetch(client, "http://provider.test:81/v1?a=b") == b"hello"
            await client.close()
        assert heard[0].line == b"POST http://provider.test:81/v1?a=b HTTP/1.1"
        assert heard[0].headers[b"host"] == b"provider.test:81"
        assert heard[0].headers[b"proxy-authorization"] == b"Basic dXNlcjpwYXNz"

    run(test, loop)


def test_a_loopback_host_is_called_directly() -> None:
    async def test() -> None:
        async with provider(answering(HELLO)) as server, provider(answering(b"")) as proxy:
            client = make_client(proxy)
            assert await fetch(client, server.url()) == b"hello"
            assert proxy.seen == 0
            await client.close()

    run(test, "asyncio")


def saying(answer: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(answer)
        await writer.drain()
        writer.close()

    return script


@both_loops
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 407 Who?\r\n\r\n", "the proxy refused to open a way to the provider (status 407)"),
        (b"HTTP/1.1 302 There\r\nlocation: /\r\n\r\n", "the proxy refused to open a way to the provider (status 302)"),
        (b"", "the proxy did not open a way to the provider"),
        (b"HTTP/1.1 200 OK\r\n", "the proxy did not open a way to the provider"),
        (b"x" * 100_000, "the proxy did not open a way to the provider"),
        (b"SSH-2.0\r\n\r\n", "the proxy did not respond in HTTP"),
    ],
)
def test_a_proxy_that_opens_no_way_is_told_in_plain_words(answer: bytes, words: str, loop: str) -> None:
    async def test() -> None:
        async with provider(saying(answer)) as proxy:
            client = make_client(proxy, credentials="user:secret@")
            with pytest.raises(Unreachable) as caught:
                await fetch(client, "https://provider.test/v1")
            assert str(caught.value) == words
            await client.close()

    run(test, loop)
