"""Client address for the log: the peer of the connection, or the address that a trusted proxy
(`server.trusted_proxies`) reports. Proxies append to the right end of `X-Forwarded-For`; anything left of the last
trusted one may be invented. `Forwarded` is not read: a proxy that writes one header passes the other on unchanged."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

from dragoman.config.values import is_loopback
from dragoman.http.server import ServerRequest
from dragoman.identities.permissions import IPAddress

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_FORWARDED = b"x-forwarded-for"
# As many bytes as are looked at, from the right; no honest chain is longer.
_MAX_FORWARDED_BYTES = 1024
_MAPPED = "::ffff:"
# Headers by which a proxy states that it forwards for another client.
PROXIED = frozenset(
    {
        b"x-forwarded-for",
        b"forwarded",
        b"via",
        b"x-real-ip",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"x-forwarded",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"cf-connecting-ip",
        b"fly-client-ip",
        b"true-client-ip",
    }
)


class Headed(Protocol):
    """Whatever has headers."""

    def header(self, name: bytes) -> bytes | None:
        """The first value under a lower-case name."""
        ...


def networks(names: Iterable[str]) -> tuple[Network, ...]:
    """The proxies of a configuration."""
    return tuple(ipaddress.ip_network(name) for name in names)


def client_address(request: ServerRequest, proxies: Sequence[Network]) -> str:
    """Where a request comes from, as far as that is known for sure; nothing but an address."""
    if not proxies:
        # As the system wrote it: nothing to check, and nearly every gateway.
        return request.peer.removeprefix(_MAPPED)
    address = read_address(request.peer)
    if address is None:
        return ""
    hops = _forwarded_hops(request)
    while hops and any(address in network for network in proxies):
        hop = _address(hops.pop())
        if hop is None:
            # Entries to the left of it cannot be trusted.
            break
        address = hop
    return str(address)


def certain_address(request: ServerRequest, proxies: Sequence[Network]) -> str:
    """Client address for lists of addresses, which a forged header must not pass; "" unless it is certain. It is
    uncertain if a trusted proxy names no client, or if another peer sends proxy headers."""
    if not proxies:
        # Nearly every gateway.
        return request.peer if request.table.keys().isdisjoint(PROXIED) else ""
    peer = read_address(request.peer)
    if peer is None or not any(peer in network for network in proxies):
        return request.peer if request.table.keys().isdisjoint(PROXIED) else ""
    for written in reversed(_forwarded_hops(request)):
        hop = _address(written)
        if hop is None or not any(hop in network for network in proxies):
            return "" if hop is None else str(hop)
    return ""


def peer_address(peer: str, proxies: Sequence[Network]) -> str:
    """Where a connection comes from on which there was no request; "" if it is the address of a proxy."""
    address = read_address(peer)
    return "" if address is None or any(address in network for network in proxies) else str(address)


def is_local_client(request: Headed, address: str) -> bool:
    """Whether a request comes from this machine and was not forwarded by a proxy on it."""
    return is_loopback(address) and all(request.header(name) is None for name in PROXIED)


def _forwarded_hops(request: ServerRequest) -> list[str]:
    """The addresses in `X-Forwarded-For`, the client's end first."""
    forwarded = b",".join(value for name, value in request.headers if name == _FORWARDED)
    # The first entry after the cut may be half an address.
    hops = forwarded[-_MAX_FORWARDED_BYTES:].split(b",")[len(forwarded) > _MAX_FORWARDED_BYTES :]
    return [hop.decode("latin-1").strip() for hop in hops]


def read_address(peer: str) -> IPAddress | None:
    """The address of a connection; None for a socket without one."""
    return _address(peer.partition("%")[0])


def _address(text: str) -> IPAddress | None:
    """An address, with or without a port; IPv4 as such, however it was written."""
    if text.startswith("["):
        text, _, port = text[1:].partition("]")
    elif text.count(":") == 1:
        text, _, port = text.partition(":")
    else:
        port = ""
    if port.lstrip(":").strip("0123456789") or "%" in text:
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
