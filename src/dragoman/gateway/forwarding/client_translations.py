"""Client translations: the prefix cache as the translation of one key's requests uses it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from msgspec import Raw

from dragoman.gateway.prefix_cache import MIN_ARRAY, PrefixCache, PrefixMatch, Scope
from dragoman.rules.translated_parts import CachedState, GlancedRequest
from dragoman.wire.common_prefix import ArrayTail
from dragoman.wire.peek import length

if TYPE_CHECKING:
    from dragoman.gateway.runtime import Runtime


class ClientTranslations:
    """Translated tools and histories of a gateway key, for one request; no other key finds them. `glance` is that at
    the request's body, None if the body was changed since; `history` is its match, if there is one."""

    __slots__ = ("_history", "_key", "_protocol", "_runtime", "glance")

    def __init__(
        self,
        runtime: Runtime,
        key: str,
        protocol: str,
        glance: GlancedRequest | None = None,
        history: PrefixMatch | None = None,
    ) -> None:
        self.glance = glance
        self._history = history
        self._runtime = runtime
        self._key = key
        self._protocol = protocol

    def find_tools(self, written: bytes, slot: Hashable) -> CachedState | None:
        """The cached translation of the same tools."""
        return self._runtime.prefixes.find(Scope(self._key, f"{self._protocol} tools"), written, slot)

    def match_tools(self, written: bytes) -> TranslationMatch:
        """Compare the tools of a request with those of earlier ones, to cache their translation."""
        prefixes = self._runtime.prefixes
        return TranslationMatch(prefixes, prefixes.match(Scope(self._key, f"{self._protocol} tools"), written), least=0)

    def match_history(self, written: Raw) -> TranslationMatch:
        """Compare the history of a request with those of earlier ones, unless its session was recognized by that."""
        prefixes, scope, match = self._runtime.prefixes, Scope(self._key, self._protocol), self._history
        if (
            match is None
            or match.scope != scope
            or not prefixes.is_current(match)
            or len(match.written) != length(written)
            # Views would be compared byte by byte.
            or not match.written.startswith(written)
        ):
            match = prefixes.match(scope, bytes(written))
        return TranslationMatch(prefixes, match)

    def count(self, result: str) -> None:
        """Count a look-up."""
        self._runtime.metrics.count_cached_translation(result)


class TranslationMatch:
    """An array of a request compared with an earlier one of its key."""

    __slots__ = ("_least", "_match", "_prefixes")

    def __init__(self, prefixes: PrefixCache, match: PrefixMatch, *, least: int = MIN_ARRAY) -> None:
        self._prefixes = prefixes
        self._match = match
        self._least = least

    def state(self, slot: Hashable) -> tuple[int, CachedState] | None:
        """The cached translation of the earlier array, and the number of its elements that are unchanged."""
        return self._match.state(slot)

    def tail(self, count: int) -> ArrayTail:
        """The elements after the first `count`, which both arrays have."""
        return self._match.tail(count)

    def store(self, slot: Hashable, state: CachedState) -> None:
        """Cache the translation of the array for the next request."""
        self._prefixes.store(self._match, slot, state, least=self._least)
