"""Addresses that clients were told to call: does anybody answer there?"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

# A machine nearby answers at once; one that does not exist may take for ever.
_PATIENCE = 2.0
_PORTS = {"http": 80, "https": 443}


def problem_at(url: str, patience: float = _PATIENCE) -> str:
    """Why nobody can be reached at an address, in words without the address; "" if somebody can."""
    try:
        place = urlsplit(url)
        host, port = place.hostname, place.port or _PORTS.get(place.scheme)
    except ValueError:
        host, port = None, None
    if not host or port is None:
        return "it is no address"
    try:
        socket.create_connection((host, port), timeout=patience).close()
    except ConnectionRefusedError:
        return "nobody listens there"
    except TimeoutError:
        return "nobody answers there in time"
    except socket.gaierror:
        return "its host has no address"
    except OSError as error:
        return f"it cannot be reached: {error.strerror}"
    return ""
