"""Proxies of the environment, read once: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY. The lower-case name wins, as
in curl and the official SDKs. Loopback hosts never go through a proxy."""

from __future__ import annotations

import ipaddress
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from dragoman.errors import Unreachable
from dragoman.http.address import PORTS, Origin, host_name


class Proxy(NamedTuple):
    """An HTTP proxy; `authorization` is the value of Proxy-Authorization, or empty."""

    host: str
    port: int
    authorization: bytes

    def __repr__(self) -> str:
        """The address alone: credentials stay out of logs."""
        return f"Proxy({self.host!r}, {self.port!r})"


class Proxies:
    """Which proxy a call goes through."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # A CGI server puts a request's `Proxy` header into HTTP_PROXY: https://httpoxy.org
        cgi = "REQUEST_METHOD" in environment
        every = named(environment, "all_proxy")
        self._urls = {
            "http": (environment.get("http_proxy", "") if cgi else named(environment, "http_proxy")) or every,
            "https": named(environment, "https_proxy") or every,
        }
        listed = named(environment, "no_proxy").replace(" ", ",").split(",")
        self._exempt = [entry.lower() for entry in listed if entry]

    def of(self, origin: Origin) -> Proxy | None:
        """The proxy for an origin; None if it is called directly, `Unreachable` if its proxy cannot be used."""
        url = self._urls[origin.scheme]
        if not url or origin.loopback or any(covers(entry, origin) for entry in self._exempt):
            return None
        return parse(url)


def named(environment: Mapping[str, str], name: str) -> str:
    """A variable in either case."""
    return (environment.get(name) or environment.get(name.upper()) or "").strip()


def covers(entry: str, origin: Origin) -> bool:
    """Whether an entry of NO_PROXY, such as `*`, `example.org`, `.example.org:8080` or `10.0.0.0/8`, means a host."""
    if entry == "*":
        return True
    # httpx also takes entries with a scheme.
    scheme, separator, rest = entry.partition("://")
    if separator:
        if scheme not in ("all", origin.scheme):
            return False
        entry = rest
    try:
        return ipaddress.ip_address(origin.host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        # The entry or the host is a name: both are compared as text.
        pass
    name, port = split_port(entry)
    if port is not None and port != origin.port:
        return False
    name = name.strip("[]").removeprefix("*").removeprefix(".")
    return bool(name) and (origin.host == name or origin.host.endswith(f".{name}"))


def split_port(entry: str) -> tuple[str, int | None]:
    """A name and the port behind it, if there is one."""
    name, separator, port = entry.rpartition(":")
    return (name, int(port)) if separator and port.isdecimal() else (entry, None)


def parse(url: str) -> Proxy:
    """A proxy's URL; without a scheme it is http."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = PORTS["http"] if parts.port is None else parts.port
        host = host_name(parts.hostname or "")
    except ValueError as error:
        raise Unreachable("the proxy set in the environment has an address that cannot be used") from error
    if parts.scheme != "http":
        raise Unreachable("the proxy set in the environment is not an http:// proxy, and no other kind is supported")
    if parts.username is None:
        return Proxy(host, port, b"")
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(host, port, b"Basic " + b64encode(credentials.encode()))
