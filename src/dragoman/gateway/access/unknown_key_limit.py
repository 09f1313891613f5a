"""Unknown key limit: attempts with unknown keys from one address. Beyond 20 a minute they get a 429, which is neither
logged nor recorded. A known key is never refused, since it is looked up before."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable

MAX_ATTEMPTS = 20
WINDOW_SECONDS = 60.0
# Addresses that are counted at a time; beyond that the one that began first is forgotten.
MAX_ADDRESSES = 4096
# The part of an IPv6 address that one holder of many addresses cannot change.
_IPV6_PREFIX = 64


class UnknownKeyLimit:
    """Counts attempts by address, in windows that begin with an address's first attempt."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # When the window began, and the attempts in it.
        self._attempts: dict[str, tuple[float, int]] = {}

    def count(self, address: str) -> int:
        """Count an attempt; give the seconds until another is judged, 0 if this one is."""
        now, counted = self._clock(), _counted_as(address)
        began, attempts = self._attempts.get(counted, (now, 0))
        if now - began >= WINDOW_SECONDS:
            del self._attempts[counted]
            began, attempts = now, 0
        if counted not in self._attempts and len(self._attempts) >= MAX_ADDRESSES:
            del self._attempts[next(iter(self._attempts))]
        self._attempts[counted] = (began, attempts + 1)
        return 0 if attempts < MAX_ATTEMPTS else max(1, math.ceil(began + WINDOW_SECONDS - now))


def _counted_as(address: str) -> str:
    """An address as it is counted: of IPv6 the network."""
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address.partition("%")[0], _IPV6_PREFIX), strict=False))
