"""Addresses that clients were told to call: does anybody answer there?"""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit

# A machine nearby answers at once; one that does not exist may take for ever, and so may whoever knows the names.
_TIMEOUT = 2.0
_PORTS = {"http": 80, "https": 443}
_LATE = "nothing responds there in time"


def problem_at(url: str, timeout: float = _TIMEOUT) -> str:
    """Why nobody can be reached at an address, in words without the address; "" if somebody can."""
    try:
        place = urlsplit(url)
        host, port = place.hostname, place.port or _PORTS.get(place.scheme)
    except ValueError:
        host, port = None, None
    if not host or port is None:
        return "it is not an address"
    problems: list[str] = []
    # Looking a name up cannot be ended; nobody waits for it longer than for the rest.
    thread = threading.Thread(target=lambda: problems.append(_tried(host, port, timeout)), daemon=True)
    thread.start()
    thread.join(timeout)
    return problems[0] if problems else _LATE


def _tried(host: str, port: int, timeout: float) -> str:
    try:
        socket.create_connection((host, port), timeout=timeout).close()
    except ConnectionRefusedError:
        return "nothing listens there"
    except TimeoutError:
        return _LATE
    except socket.gaierror:
        return "its host has no address"
    except OSError as error:
        return f"it cannot be reached: {error.strerror}"
    return ""
