"""Listening socket of the gateway. `protection.py` decides whether the gateway may serve there without keys."""

from __future__ import annotations

import errno
import socket

from dragoman.errors import ConfigError
from dragoman.gateway.processes.port_conflict import holder_of

_LAST_PORT = 65535
BACKLOG = 1024
# The setting to blame and the remedy, by error. Other errors concern the address.
_REMEDIES = {
    # The process at the port is reported separately.
    errno.EADDRINUSE: ("server.port", ""),
    errno.EACCES: ("server.port", "choose one above 1023 with --port"),
}
_OTHER_ADDRESS = ("server.host", "choose an address of this machine with --host, for example 127.0.0.1")


def bind(host: str, port: int) -> socket.socket:
    """A socket to be shared by all workers. It is bound here, and listens only after all checks."""
    if not 0 <= port <= _LAST_PORT:
        # The resolver accepts larger ports, too, and truncates them.
        raise _unusable(host, port, OSError(errno.EACCES, f"ports go from 0 to {_LAST_PORT}"))
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise _unusable(host, port, error) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _unusable(host, port, error) from None
    return listener


def listen(listener: socket.socket) -> None:
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        host, port, *_ = listener.getsockname()
        raise _unusable(host, port, error) from None


def _unusable(host: str, port: int, error: Exception) -> ConfigError:
    message, number = (error.strerror, error.errno) if isinstance(error, OSError) else (None, None)
    key, remedy = _REMEDIES.get(number or 0, _OTHER_ADDRESS)
    if number == errno.EADDRINUSE:
        holder = holder_of(host, port)
        message, remedy = f"{message} by {holder.description}" if holder.description else message, holder.remedy
    return ConfigError(key=key, problem=f"cannot listen on {host}:{port}: {message or error}", remedy=remedy)
