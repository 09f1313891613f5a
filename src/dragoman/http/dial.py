"""Dialling: connect to an origin through DNS, proxies and TLS. Clients see the errors, so they name no host."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import deque
from collections.abc import Callable
from itertools import chain, zip_longest
from typing import NamedTuple, TypeAlias, TypeVar

from dragoman.errors import (
    Exhausted,
    NotListening,
    Unconnected,
    Unencrypted,
    Unnamed,
    Unreachable,
    Unresolved,
    Untrusted,
)
from dragoman.http.address import Origin
from dragoman.http.proxy import Proxy

# Time for an address before the next one is tried in parallel: RFC 8305, section 5.
STAGGER = 0.25
# Probes after a minute of silence keep address translators from forgetting a call that thinks for long.
KEEP_ALIVE_SECONDS = 60
MAX_TUNNEL_BYTES = 64 * 1024

# The exception for each network error, and its message. The first match wins, so classes precede their parents.
ERROR_MESSAGES: tuple[tuple[type[Exception], type[Unreachable], str], ...] = (
    (ssl.SSLCertVerificationError, Untrusted, "the provider's certificate is not trusted or is not for its name"),
    (ssl.SSLError, Unencrypted, "the provider did not agree on a TLS connection"),
    (socket.gaierror, Unnamed, "the provider's host name cannot be resolved"),
    (UnicodeError, Unnamed, "the provider's host name cannot be resolved"),
    (ConnectionRefusedError, NotListening, "the provider refused the connection"),
    (ConnectionError, Unreachable, "the provider broke off while the connection was made"),
    (OSError, Unreachable, "no connection to the provider could be made"),
)

# Shortages of this machine, which say nothing about the provider.
SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EAGAIN})
# Errors of name servers that do not respond, as opposed to missing names.
UNRESOLVED = frozenset({socket.EAI_AGAIN, socket.EAI_SYSTEM, socket.EAI_MEMORY})

SocketAddress: TypeAlias = tuple[socket.AddressFamily, tuple[str | int | bytes, ...]]
P = TypeVar("P", bound=asyncio.Protocol)


class DialRoute(NamedTuple):
    """The origin to reach, and its proxy."""

    origin: Origin
    proxy: Proxy | None
    context: ssl.SSLContext | None


async def dial(route: DialRoute, seconds: float, make: Callable[[socket.socket], P]) -> P:
    """A connected protocol, made from the socket below it; `Unreachable` or `Unconnected` if there is none."""
    try:
        async with asyncio.timeout(seconds):
            return await connect(route, make)
    except TimeoutError as error:
        place = route.origin.host_header
        raise Unconnected(f"no connection to the provider within {seconds:g} s", address=place) from error
    except (OSError, UnicodeError) as error:
        raise dial_error(error, route) from error


def dial_error(error: OSError | UnicodeError, route: DialRoute) -> Unreachable:
    """The error for a failed dial: the provider's, unless the machine, its name servers or a proxy failed."""
    kind, words = next((kind, words) for cause, kind, words in ERROR_MESSAGES if isinstance(error, cause))
    if isinstance(error, socket.gaierror):
        # Its numbers are of another kind, and may be the same as those below.
        kind = Unresolved if error.errno in UNRESOLVED else kind
    elif isinstance(error, OSError) and error.errno in SHORTAGES:
        kind = Exhausted
    origin, proxy, _ = route
    # Through a tunnel, TLS ends at the provider.
    if proxy is None or isinstance(error, ssl.SSLError):
        return kind(words, address=origin.host_header)
    address = Origin("http", proxy.host, proxy.port).host_header
    return kind(words.replace("the provider", "the proxy", 1), address=address, proxied=True)


async def connect(route: DialRoute, make: Callable[[socket.socket], P]) -> P:
    """The steps of dialling, each with its own errors."""
    origin, proxy, context = route
    loop = asyncio.get_running_loop()
    end = await reach(origin.host, origin.port) if proxy is None else await reach(proxy.host, proxy.port)
    made: list[P] = []

    def build() -> P:
        made.append(make(end))
        return made[0]

    try:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(end)
        if proxy is not None and context is not None:
            await tunnel(end, origin, proxy)
        name = origin.host if context is not None else None
        await loop.create_connection(build, sock=end, ssl=context, server_hostname=name)
    except BaseException:
        # Also on cancellation: the socket would stay open, and uvloop calls no protocol method for a connection
        # cancelled just then.
        end.close()
        for protocol in made:
            protocol.connection_lost(None)
        raise
    return made[0]


def keep_alive(end: socket.socket) -> None:
    """Turn on probes of a silent connection."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # macOS has no TCP_KEEPIDLE in Python 3.11.
    if hasattr(socket, "TCP_KEEPIDLE"):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_SECONDS)


async def resolve(host: str, port: int) -> list[SocketAddress]:
    """The addresses of a name, families taking turns so that a broken one costs little: RFC 8305, section 4."""
    loop = asyncio.get_running_loop()
    try:
        # A literal address needs no thread.
        address_infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        address_infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    families: dict[socket.AddressFamily, list[SocketAddress]] = {}
    for family, _, _, _, address in address_infos:
        families.setdefault(family, []).append((family, address))
    turns = chain.from_iterable(zip_longest(*families.values()))
    return [address for address in turns if address is not None]


async def reach(host: str, port: int) -> socket.socket:
    """A socket connected to the first address that answers; a slow one gets company after a moment."""
    waiting = deque(await resolve(host, port))
    if len(waiting) == 1:
        return await attempt(waiting[0])
    outcome = await race(waiting)
    if isinstance(outcome, socket.socket):
        return outcome
    try:
        raise outcome
    finally:
        # An error that knows a frame which knows the error is left to the collector.
        del outcome


async def race(waiting: deque[SocketAddress]) -> socket.socket | Exception:
    """The first socket that connects, or the last error."""
    running: set[asyncio.Task[socket.socket]] = set()
    problem: Exception = OSError("a name without addresses")
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(attempt(waiting.popleft())))
            timeout = STAGGER if waiting else None
            done, _ = await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                running.discard(task)
                failed = task.exception()
                if failed is None:
                    running |= done - {task}
                    return task.result()
                if isinstance(failed, Exception):
                    problem = failed
        return problem
    finally:
        for task in running:
            abandon(task)


def abandon(task: asyncio.Task[socket.socket]) -> None:
    """Drop an attempt that lost: also one that connected at the very same moment."""
    if not task.cancel() and not task.cancelled() and task.exception() is None:
        task.result().close()


async def attempt(address: SocketAddress) -> socket.socket:
    """A socket connected to one address."""
    family, place = address
    end = socket.socket(family, socket.SOCK_STREAM)
    try:
        end.setblocking(False)
        await asyncio.get_running_loop().sock_connect(end, place)
    except BaseException:
        # As above.
        end.close()
        raise
    return end


async def tunnel(end: socket.socket, origin: Origin, proxy: Proxy) -> None:
    """Make a proxy forward everything to the origin: RFC 9110, section 9.3.6."""
    loop = asyncio.get_running_loop()
    place = origin.authority.encode("ascii")
    credentials = b"proxy-authorization: " + proxy.authorization + b"\r\n" if proxy.authorization else b""
    await loop.sock_sendall(end, b"CONNECT " + place + b" HTTP/1.1\r\nhost: " + place + b"\r\n" + credentials + b"\r\n")
    received = bytearray()
    seen = 0
    while received.find(b"\r\n\r\n", max(seen - 3, 0)) < 0:
        seen = len(received)
        data = await loop.sock_recv(end, 4096)
        received += data
        if not data or len(received) > MAX_TUNNEL_BYTES:
            raise Unreachable("the proxy did not open a way to the provider")
    response = bytes(received)
    version, _, rest = response.partition(b" ")
    status = rest[:3]
    if not version.startswith(b"HTTP/1.") or not status.isdigit():
        raise Unreachable("the proxy did not respond in HTTP")
    # Nothing can follow before TLS has begun from this side.
    if not status.startswith(b"2") or not response.endswith(b"\r\n\r\n"):
        raise Unreachable(f"the proxy refused to open a way to the provider (status {status.decode()})")
