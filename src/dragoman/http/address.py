"""Addresses: where a URL points, and the first lines of a request to it."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443}
# Everything visible in ASCII: a space or a line break in a target would end it early.
TARGET = re.compile(r"[!-~]+")
HOST = re.compile(r"[!-.0-9;A-Z\\_a-z~]+")
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Origin(NamedTuple):
    """The peer of a connection: calls to the same origin share connections. `host` has no brackets."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port as in a CONNECT request."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def host_header(self) -> str:
        """Host and, unless it is the default, port as in a Host header."""
        authority = self.authority
        return authority.rpartition(":")[0] if self.port == PORTS[self.scheme] else authority

    @property
    def loopback(self) -> bool:
        """Whether the host is this very machine."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return False


def locate(url: str) -> tuple[Origin, str]:
    """The origin and the target of an absolute URL; `ValueError` if it is none that may be called."""
    return (_located if len(url) <= _REMEMBERED else _locate)(url)


def _locate(url: str) -> tuple[Origin, str]:
    parts = urlsplit(url)
    # urlsplit drops tabs and line breaks silently: they are searched in its input.
    if not TARGET.fullmatch(url.partition("#")[0].partition("?")[2] or "-") or any(c in url for c in "\t\r\n"):
        raise ValueError("a URL holds characters that must be percent-encoded")
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("a URL must be absolute and begin with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("a URL may not hold credentials")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.startswith("/") or not TARGET.fullmatch(target):
        raise ValueError("a URL holds characters that must be percent-encoded")
    # `port` raises ValueError for an invalid port, but accepts 0.
    port = PORTS[parts.scheme] if parts.port is None else parts.port
    return Origin(parts.scheme, host_name(parts.hostname), port), target


def host_name(host: str) -> str:
    """A host in the form that goes over the wire; `ValueError` if it cannot be one."""
    if ":" in host:
        ipaddress.IPv6Address(host)
        return host
    # UnicodeError is a ValueError.
    name = host if host.isascii() else host.encode("idna").decode("ascii")
    if not HOST.fullmatch(name):
        raise ValueError("a URL's host holds characters that no host has")
    return name


def request_line(method: str, url: str, absolute: bool) -> bytes:
    """The request line and the Host header; `absolute` is the form that a proxy reads."""
    return (_lined if len(url) <= _REMEMBERED else _line)(method, url, absolute)


def _line(method: str, url: str, absolute: bool) -> bytes:
    if not TOKEN.fullmatch(method.encode("ascii")):
        raise ValueError("a method holds characters that no method has")
    origin, target = locate(url)
    place = f"{origin.scheme}://{origin.host_header}{target}" if absolute else target
    return f"{method} {place} HTTP/1.1\r\nhost: {origin.host_header}\r\n".encode("ascii")


# Clients choose paths and queries. Many long ones must not fill the memory.
_REMEMBERED = 512
_located = lru_cache(maxsize=1024)(_locate)
_lined = lru_cache(maxsize=1024)(_line)


def check_name(name: bytes) -> None:
    """`ValueError` for an invalid header name, or one that only the client may write."""
    if not TOKEN.fullmatch(name):
        raise ValueError("a header name holds characters that no name has")
    if name.lower() in (b"host", b"content-length", b"transfer-encoding"):
        raise ValueError("Host, Content-Length and Transfer-Encoding are written by the client itself")
