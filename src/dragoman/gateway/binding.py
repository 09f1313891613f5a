"""Binding: where the gateway may listen. Without keys it spends its owner's money for whoever reaches it."""

from __future__ import annotations

import ipaddress
import socket

from dragoman.config.settings import Settings
from dragoman.errors import ConfigError

_LAST_PORT = 65535


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host in ("localhost", ""):
        return host == "localhost"
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_binding(settings: Settings, *, open_to_all: bool) -> None:
    """Refuse to listen for others without keys, unless the operator insists."""
    if settings.keys or open_to_all or is_loopback(settings.server.host):
        return
    raise ConfigError(
        key="server.host",
        problem=f"{settings.server.host} is reached from other machines, and no gateway key is configured",
        remedy="make one with `dragoman key new`, listen on 127.0.0.1, or insist with --open",
        file=settings.file,
    )


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, to be shared by all workers."""
    if not 0 <= port <= _LAST_PORT:
        # The resolver takes larger ones, too, and leaves out what does not fit.
        raise _unusable(host, port, OSError(f"ports go from 0 to {_LAST_PORT}"))
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise _unusable(host, port, error) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
        listener.setblocking(False)
        listener.set_inheritable(True)
    except OSError as error:
        listener.close()
        raise _unusable(host, port, error) from None
    return listener


def _unusable(host: str, port: int, error: Exception) -> ConfigError:
    words = error.strerror if isinstance(error, OSError) else None
    return ConfigError(
        key="server.port",
        problem=f"cannot listen on {host}:{port}: {words or error}",
        remedy="stop what listens there, or choose another with --port",
    )
