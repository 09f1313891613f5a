"""The client: calls over HTTP/1.1 on pooled connections."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Coroutine, Mapping

from dragoman.http.address import Origin, check_name, locate, request_line
from dragoman.http.dial import DialRoute, dial
from dragoman.http.header_lines import LINE_END, WrittenLines
from dragoman.http.http_call import HttpCall
from dragoman.http.pool import Pool
from dragoman.http.proxy import Proxies, Proxy
from dragoman.http.reuse import Reuse
from dragoman.http.upstream_call import HeaderList, UpstreamRequest
from dragoman.http.upstream_connection import UpstreamConnection

# Methods whose requests have a body, be it empty.
WITH_BODY = frozenset(("POST", "PUT", "PATCH"))
_MAX_WRITTEN = 256


class HttpClient:
    """HTTP client of one event loop, with a pool per origin; `reuse` is carried over from an earlier client."""

    def __init__(
        self,
        *,
        connect_timeout: float,
        connections: int = 1024,
        idle: float = 20.0,
        context: ssl.SSLContext | None = None,
        proxies: Mapping[str, str] | None = None,
        reuse: Reuse | None = None,
    ) -> None:
        self._connect_timeout = connect_timeout
        self._connections = connections
        self._idle = idle
        self._tls = Tls(context)
        self.reuse = reuse or Reuse()
        self._proxies = Proxies(os.environ if proxies is None else proxies)
        self._pools: dict[Origin, tuple[Pool, Proxy | None]] = {}
        # Heads that come again, but for the length: pool and lines by the identity of the headers, which are held here.
        self._written: dict[int, tuple[HeaderList, Pool, bytes]] = {}
        self._closed = False

    def open(self, request: UpstreamRequest) -> HttpCall:
        """An `HttpCall`; `ValueError` if it cannot be written as HTTP, `Unreachable` if its proxy is unusable."""
        written = self._written.get(id(request.headers)) if request.is_recurring else None
        if written is None:
            origin, _ = locate(request.url)
            entry = self._pools.get(origin)
            pool, proxy = self._add(origin) if entry is None else entry
            lines = write_lines(request, proxy if origin.scheme == "http" else None)
            if request.is_recurring:
                if len(self._written) >= _MAX_WRITTEN:
                    self._written.clear()
                self._written[id(request.headers)] = request.headers, pool, lines
        else:
            _, pool, lines = written
        return HttpCall(pool, request, head_of(request, lines), pool.loop)

    async def close(self) -> None:
        """Close the connections at rest; calls under way are left to end."""
        self._closed = True
        for pool, _ in self._pools.values():
            pool.close()
        # The transports close their sockets in the next round of the loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _add(self, origin: Origin) -> tuple[Pool, Proxy | None]:
        proxy = self._proxies.of(origin)
        # No names of this client: a pool that knew it would be a cycle, and outlive it until a rare collection.
        tls, seconds = self._tls, self._connect_timeout

        def connect(pool: Pool) -> Coroutine[None, None, UpstreamConnection]:
            context = tls.context() if origin.scheme == "https" else None
            return dial(DialRoute(origin, proxy, context), seconds, lambda end: UpstreamConnection(pool, end))

        pool = Pool(connect, max_connections=self._connections, idle=self._idle, origin=origin, reuse=self.reuse)
        if self._closed:
            pool.close()
        self._pools[origin] = (pool, proxy)
        return pool, proxy


class Tls:
    """The context of all connections with TLS, made when the first is needed."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        if context is not None:
            context.set_alpn_protocols(["http/1.1"])

    def context(self) -> ssl.SSLContext:
        """The context; reading the system's certificates takes longer than anything else at the start."""
        if self._context is None:
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


def write_lines(request: UpstreamRequest, proxy: Proxy | None) -> bytes:
    """A request's line and headers but for its length; the proxy is one that reads them itself."""
    line, headers = request_line(request.method, request.url, proxy is not None), request.headers
    if proxy is not None and proxy.authorization:
        headers = [*headers, (b"proxy-authorization", proxy.authorization)]
    return b"".join((line, *map(_line_of, headers)))


def head_of(request: UpstreamRequest, lines: bytes) -> bytes:
    """The whole head."""
    size = len(request.body)
    return b"%bcontent-length: %d\r\n\r\n" % (lines, size) if size or request.method in WITH_BODY else lines + LINE_END


def _written(header: tuple[bytes, bytes]) -> bytes:
    check_name(header[0])
    line = b"%b: %b\r\n" % header
    if line.count(b"\n") != 1 or line.count(b"\r") != 1 or b"\0" in line:
        raise ValueError("a header value holds a line break or a null byte")
    return line


_line_of = WrittenLines(_written).__getitem__
