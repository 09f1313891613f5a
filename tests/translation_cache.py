"""A cache of translated parts for tests: the gateway's, as one key uses it, with a count of what it had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from msgspec import Raw

from dragoman.gateway.forwarding.client_translations import TranslationMatch
from dragoman.gateway.prefix_cache import PrefixCache, Scope
from dragoman.rules.translated_parts import CachedState, GlancedRequest


class CacheOfTests:
    """The cache as the requests of one key and protocol use it."""

    def __init__(self, prefixes: PrefixCache, protocol: str, key: str = "alice") -> None:
        self._prefixes = prefixes
        self._protocol = protocol
        self._key = key
        self.results: Counter[str] = Counter()
        self.glance: GlancedRequest | None = None

    def find_tools(self, written: bytes, slot: Hashable) -> CachedState | None:
        """Find tools."""
        return self._prefixes.find(Scope(self._key, f"{self._protocol} tools"), written, slot)

    def match_tools(self, written: bytes) -> TranslationMatch:
        """Compare tools."""
        scope = Scope(self._key, f"{self._protocol} tools")
        return TranslationMatch(self._prefixes, self._prefixes.match(scope, written), least=0)

    def match_history(self, written: Raw) -> TranslationMatch:
        """Compare a history."""
        return TranslationMatch(self._prefixes, self._prefixes.match(Scope(self._key, self._protocol), bytes(written)))

    def count(self, result: str) -> None:
        """Count a look-up."""
        self.results[result] += 1
