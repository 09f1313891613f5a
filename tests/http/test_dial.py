"""Dialling: TLS, names, addresses in turn, limits in time, and errors in words that name nobody."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import trustme

from dragoman.errors import (
    Exhausted,
    NotListening,
    TimedOut,
    Truncated,
    Unconnected,
    Unencrypted,
    Unnamed,
    Unreachable,
    Unresolved,
    Untrusted,
    UpstreamError,
)
from dragoman.http import dial as dialling
from dragoman.http.address import Origin
from dragoman.http.client import HttpClient
from dragoman.http.proxy import Proxy
from dragoman.http.upstream_call import UpstreamRequest
from tests.http.scripted import answering, closing, hear, provider, run
from tests.ports import CLOSED_PORT
from tests.waiting import wait_until_async

HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
MEBIBYTE = 1024 * 1024
both_loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse where Linux stays silent")

AUTHORITY = trustme.CA()


def served(name: str = "localhost") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2", "http/1.1"])
    AUTHORITY.issue_cert(name).configure_cert(context)
    return context


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return context


def make_client(context: ssl.SSLContext | None = None, connect_timeout: float = 10) -> HttpClient:
    return HttpClient(connect_timeout=connect_timeout, context=context, proxies={})


async def fetch(client: HttpClient, url: str, body: bytes = b"{}") -> bytes:
    flight = client.open(UpstreamRequest(method="POST", url=url, headers=[], body=body))
    try:
        await flight.head()
        return await flight.read(64 * MEBIBYTE)
    finally:
        flight.close()


async def refused(client: HttpClient, url: str, error: type[UpstreamError], words: str) -> None:
    with pytest.raises(error) as caught:
        await fetch(client, url)
    assert str(caught.value) == words
    await client.close()


# TLS


@both_loops
def test_tls_is_spoken_with_the_name_and_the_protocol_and_kept(loop: str) -> None:
    names: list[str | None] = []
    chosen: list[str | None] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await answering(HELLO)(reader, writer)

    async def test() -> None:
        context = served()
        context.sni_callback = lambda _, name, __: names.append(name)
        async with provider(script, context) as server:
            client = make_client(trusting())
            for _ in range(3):
                assert await fetch(client, server.url(scheme="https", host="localhost")) == b"hello"
            await client.close()
        assert (names, chosen) == (["localhost"], ["http/1.1"])

    run(test, loop)


@both_loops
def test_large_bodies_go_both_ways_over_tls(loop: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heard = await hear(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(heard.body))
            writer.write(heard.body)
            await writer.drain()

    async def test() -> None:
        async with provider(script, served()) as server:
            client = make_client(trusting())
            body = bytes(range(256)) * 4096 * 2
            for _ in range(2):
                assert await fetch(client, server.url(scheme="https", host="localhost"), body) == body
            assert server.seen == 1
            await client.close()

    run(test, loop)


@both_loops
def test_an_answer_that_breaks_off_under_tls_is_truncated(loop: str) -> None:
    async def test() -> None:
        async with provider(closing(HELLO[:-1]), served()) as server:
            client = make_client(trusting())
            with pytest.raises(Truncated):
                await fetch(client, server.url(scheme="https", host="localhost"))
            await client.close()

    run(test, loop)


@both_loops
def test_a_call_given_up_under_tls_is_seen_by_the_provider(loop: str) -> None:
    async def test() -> None:
        gone = asyncio.Event()

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await hear(reader)
            writer.write(HELLO[:-1])
            try:
                await reader.read()
            finally:
                gone.set()

        async with provider(script, served()) as server:
            client = make_client(trusting())
            flight = client.open(
                UpstreamRequest(method="POST", url=server.url(scheme="https", host="localhost"), headers=[], body=b"{}")
            )
            await flight.head()
            reading = asyncio.create_task(flight.read(100))
            await wait_until_async(lambda: flight._waiter is not None, "the call waits for the rest")
            reading.cancel()
            await asyncio.wait([reading])
            flight.close()
            await gone.wait()
            await client.close()

    run(test, loop)


NOT_TRUSTED = "the provider's certificate is not trusted or is not for its name"


@both_loops
@pytest.mark.parametrize(
    ("name", "context"),
    [("elsewhere.test", trusting), ("localhost", ssl.create_default_context)],
    ids=["for another name", "by an unknown authority"],
)
def test_a_certificate_that_does_not_prove_the_provider_is_refused(
    name: str, context: Callable[[], ssl.SSLContext], loop: str
) -> None:
    async def test() -> None:
        async with provider(answering(HELLO), served(name)) as server:
            url = server.url(scheme="https", host="localhost")
            await refused(make_client(context()), url, Unreachable, NOT_TRUSTED)

    run(test, loop)


@both_loops
def test_the_system_decides_whom_to_trust_if_nobody_else_does(loop: str) -> None:
    async def test() -> None:
        async with provider(answering(HELLO), served()) as server:
            await refused(make_client(), server.url(scheme="https", host="localhost"), Unreachable, NOT_TRUSTED)

    run(test, loop)


@both_loops
def test_a_server_without_tls_is_told_in_plain_words(loop: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        await reader.read()

    async def test() -> None:
        async with provider(script) as server:
            words = "the provider did not agree on a TLS connection"
            await refused(make_client(trusting()), server.url(scheme="https"), Unreachable, words)

    run(test, loop)


@both_loops
def test_a_server_that_hangs_up_during_the_handshake_is_unreachable(loop: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)

    async def test() -> None:
        async with provider(script) as server:
            client = make_client(trusting())
            with pytest.raises(Unreachable) as caught:
                await fetch(client, server.url(scheme="https"))
            assert str(server.port) not in str(caught.value)
            await client.close()

    run(test, loop)


# Names and addresses


@both_loops
def test_a_port_where_nobody_listens_is_told_in_plain_words(loop: str) -> None:
    async def test() -> None:
        url = f"http://127.0.0.1:{CLOSED_PORT}/"
        await refused(make_client(), url, Unreachable, "the provider refused the connection")

    run(test, loop)


@pytest.mark.parametrize("host", ["nobody.invalid", "a" * 64 + ".invalid"], ids=["no such name", "a label too long"])
def test_a_name_without_an_address_is_told_in_plain_words(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(name: str, *_: object, **__: object) -> list[object]:
        # No name server is asked; as the real function does, it refuses what is no name before it looks.
        name.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def test() -> None:
        monkeypatch.setattr(socket, "getaddrinfo", offline)
        await refused(make_client(), f"http://{host}/", Unreachable, "the provider's host name cannot be resolved")

    run(test, "asyncio")


# Whose fault it is that there is no connection.
BLAMED: dict[str, tuple[OSError | UnicodeError, type[Unreachable]]] = {
    "a refused connection": (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), NotListening),
    "no way there": (OSError(errno.EHOSTUNREACH, "no route"), Unreachable),
    "no TLS": (ssl.SSLError(1, "alert"), Unencrypted),
    "a certificate of somebody else": (ssl.SSLCertVerificationError(1, "wrong name"), Untrusted),
    "no such name": (socket.gaierror(socket.EAI_NONAME, "unknown"), Unnamed),
    "no name at all": (UnicodeError("label too long"), Unnamed),
    "name servers that are silent": (socket.gaierror(socket.EAI_AGAIN, "try again"), Unresolved),
    "no descriptor here": (OSError(errno.EMFILE, "too many open files"), Exhausted),
    "no descriptor on the machine": (OSError(errno.ENFILE, "too many open files"), Exhausted),
    "no port left": (OSError(errno.EADDRNOTAVAIL, "cannot assign"), Exhausted),
    "no memory": (OSError(errno.ENOMEM, "no memory"), Exhausted),
}


@pytest.mark.parametrize("case", BLAMED)
def test_pitfall_341_a_shortage_of_the_machine_is_told_from_a_provider_that_cannot_be_reached(case: str) -> None:
    error, kind = BLAMED[case]
    told = dialling.dial_error(error, dialling.DialRoute(Origin("https", "provider.test", 443), None, None))
    assert (type(told), told.address, told.proxied) == (kind, "provider.test", False)
    assert "provider.test" not in str(told)


def test_what_a_proxy_did_is_not_told_of_the_provider() -> None:
    route = dialling.DialRoute(
        Origin("https", "provider.test", 443), Proxy("proxy.test", 3128, b"Basic c2VjcmV0"), None
    )
    refused = dialling.dial_error(ConnectionRefusedError(errno.ECONNREFUSED, "refused"), route)
    assert (str(refused), refused.address, refused.proxied) == (
        "the proxy refused the connection",
        "proxy.test:3128",
        True,
    )
    # TLS is spoken with the provider, through the tunnel.
    untrusted = dialling.dial_error(ssl.SSLCertVerificationError(1, "wrong name"), route)
    assert (untrusted.address, untrusted.proxied) == ("provider.test", False)


def test_pitfall_341_a_machine_without_descriptors_says_what_it_always_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_: object, **__: object) -> socket.socket:
        raise OSError(errno.EMFILE, "too many open files")

    async def test() -> None:
        monkeypatch.setattr(dialling, "reach", without)
        await refused(make_client(), "http://127.0.0.1:1/", Exhausted, "no connection to the provider could be made")

    run(test, "asyncio")


def lead_to(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Make every name stand for these ports of this machine."""

    async def resolve(host: str, port: int) -> list[dialling.SocketAddress]:
        return [(socket.AF_INET, ("127.0.0.1", found)) for found in ports]

    monkeypatch.setattr(dialling, "resolve", resolve)


@both_loops
def test_addresses_are_tried_in_turn(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with provider(answering(HELLO)) as server:
            lead_to(monkeypatch, CLOSED_PORT, CLOSED_PORT, server.port)
            client = make_client()
            assert await fetch(client, "http://provider.test/") == b"hello"
            await client.close()

    run(test, loop)


@both_loops
def test_the_last_address_to_fail_gives_the_words(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        lead_to(monkeypatch, CLOSED_PORT, CLOSED_PORT)
        await refused(make_client(), "http://provider.test/", Unreachable, "the provider refused the connection")

    run(test, loop)


def test_a_name_without_addresses_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        lead_to(monkeypatch)
        words = "no connection to the provider could be made"
        await refused(make_client(), "http://provider.test/", Unreachable, words)

    run(test, "asyncio")


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that neither takes nor refuses a connection: its queue is full."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            end = stack.enter_context(socket.socket())
            end.setblocking(False)
            end.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


@on_linux
@both_loops
def test_a_silent_address_gets_company_after_a_moment(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with provider(answering(HELLO)) as server:
            with silent_port() as silent:
                lead_to(monkeypatch, silent, server.port)
                client = make_client()
                assert await fetch(client, "http://provider.test/") == b"hello"
                await client.close()

    run(test, loop)


@on_linux
@both_loops
def test_no_connection_within_the_limit_is_timed_out(loop: str) -> None:
    async def test() -> None:
        with silent_port() as silent:
            words = "no connection to the provider within 0.2 s"
            await refused(make_client(connect_timeout=0.2), f"http://127.0.0.1:{silent}/", Unconnected, words)

    run(test, loop)


async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take everything and say nothing."""
    while await reader.read(1000):
        pass


@both_loops
def test_a_handshake_without_end_is_timed_out(loop: str) -> None:
    async def test() -> None:
        async with provider(mute) as server:
            client = make_client(trusting(), connect_timeout=0.2)
            words = "no connection to the provider within 0.2 s"
            await refused(client, server.url(scheme="https"), Unconnected, words)
            await wait_until_async(lambda: not server.tasks, "the provider has no open connection")

    run(test, loop)


@both_loops
@pytest.mark.parametrize("how", ["abort", "cancel", "close"])
def test_a_call_can_be_ended_while_it_connects(how: str, loop: str) -> None:
    async def test() -> None:
        async with provider(mute) as server:
            client = make_client(trusting())
            flight = client.open(UpstreamRequest(method="GET", url=server.url(scheme="https"), headers=[]))
            heading = asyncio.create_task(flight.head())
            await wait_until_async(lambda: bool(server.tasks), "the provider has an open connection")
            problem = TimedOut("no answer within the limit")
            if how == "abort":
                flight.abort(problem)
                with pytest.raises(TimedOut) as caught:
                    await heading
                assert caught.value is problem
            elif how == "cancel":
                heading.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await heading
            else:
                flight.close()
                with pytest.raises(UpstreamError):
                    await heading
            flight.close()
            # The provider sees the end of the connection.
            await wait_until_async(lambda: not server.tasks, "the provider has no open connection")
            await client.close()

    run(test, loop)


def test_addresses_of_both_families_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    four, six = socket.AF_INET, socket.AF_INET6
    found = [(six, ("::1", 1, 0, 0)), (six, ("::2", 1, 0, 0)), (six, ("::3", 1, 0, 0)), (four, ("10.0.0.1", 1))]

    def getaddrinfo(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(family, socket.SOCK_STREAM, 6, "", place) for family, place in found]

    async def test() -> None:
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        assert await dialling.resolve("provider.test", 1) == [found[0], found[3], found[1], found[2]]

    run(test, "asyncio")
