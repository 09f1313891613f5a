"""Binding: where the gateway may listen. Without keys it spends its owner's money for whoever reaches it."""

from __future__ import annotations

import errno
import socket

from dragoman.config.settings import Settings
from dragoman.config.values import is_loopback
from dragoman.errors import ConfigError

_LAST_PORT = 65535
# Whose fault it is that nobody can listen there, and what helps; what is not here is the address's.
_REMEDIES = {
    errno.EADDRINUSE: ("server.port", "stop what listens there, or choose another with --port"),
    errno.EACCES: ("server.port", "choose one above 1023 with --port"),
}
_OTHER_ADDRESS = ("server.host", "choose an address of this machine with --host, for example 127.0.0.1")


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
        raise _unusable(host, port, OSError(errno.EACCES, f"ports go from 0 to {_LAST_PORT}"))
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
    words, number = (error.strerror, error.errno) if isinstance(error, OSError) else (None, None)
    key, remedy = _REMEDIES.get(number or 0, _OTHER_ADDRESS)
    return ConfigError(key=key, problem=f"cannot listen on {host}:{port}: {words or error}", remedy=remedy)
