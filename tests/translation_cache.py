"""A cache of translated parts for tests: the gateway's, as one key uses it, with a count of what it had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Raw

from dragoman.gateway.forwarding.client_translations import TranslationMatch
from dragoman.gateway.prefix_cache import PrefixCache, Scope


class CacheOfTests:
    """The cache as the requests of one key and protocol use it."""

    def __init__(self, prefixes: PrefixCache, protocol: str, key: str = "alice") -> None:
        self._prefixes = prefixes
        self._protocol = protocol
        self._key = key
        self.results: Counter[str] = Counter()
        self.members: Mapping[str, Raw] | None = None

    def match_tools(self, written: bytes) -> TranslationMatch:
        """Compare tools."""
        return self._match(f"{self._protocol} tools", written)

    def match_history(self, written: Raw) -> TranslationMatch:
        """Compare a history."""
        return self._match(self._protocol, bytes(written))

    def _match(self, protocol: str, written: bytes) -> TranslationMatch:
        return TranslationMatch(self._prefixes, self._prefixes.match(Scope(self._key, protocol), written))

    def count(self, result: str) -> None:
        """Count a look-up."""
        self.results[result] += 1
