"""Prefix cache: the latest message arrays of each gateway key, with their translations. The next request of a
conversation begins with the same elements, byte for byte, and continues from there.

    a scope      a gateway key and a protocol: no request finds an array of another one
    a slot       one kind of state: session hints, or the translation for one target and one generation of settings
    a state      of the first elements of an array; a longer array, which replaces it, takes it over

All states share one budget; the arrays that were not used for longest go first. Threads that read large bodies use it,
too."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Protocol

from msgspec import Struct

from dragoman.wire.common_prefix import (
    ArrayTail,
    IndexedArray,
    common_count,
    extended_array,
    indexed_array,
    latest_indexed,
    tail_after,
)

# Bytes of all arrays and states of one worker.
MAX_BYTES = 32 * 1024 * 1024
# Smaller histories are read faster than they are continued; of larger ones two would fill the budget.
MIN_ARRAY, _LARGE_PART = 4096, 4
# Arrays are found by a hash of some bytes, spread evenly, before each of these offsets: from some offset on they differ
# from conversation to conversation. Of equal hashes the latest arrays are compared.
_OFFSETS = tuple(MIN_ARRAY * 4**power for power in range(6, -1, -1))
_SAMPLES, _FEW_SAMPLES = 256, 32
_MAX_CANDIDATES = 4
# An array that differs in no more than its last elements is one of the same conversation: clients move the cache
# breakpoint and reminders there.
_MAX_CHANGED = 4
# Approximate bytes of an entry besides its array and states.
_OVERHEAD = 1024

_HashKey = tuple[Hashable, int, int]


class Scope(Struct, frozen=True):
    """The gateway key whose requests share arrays, and their protocol."""

    key: str
    protocol: str


class PrefixState(Protocol):
    """Something that was made of the first elements of an array, with the bytes that it takes."""

    @property
    def size(self) -> int: ...


class _Entry:
    """An array with its states, each with the number of leading elements that it is made of at most."""

    __slots__ = ("array", "hash_keys", "size", "states")

    def __init__(self, array: IndexedArray, hash_keys: tuple[_HashKey, ...]) -> None:
        self.array = array
        self.hash_keys = hash_keys
        self.states: dict[Hashable, tuple[int, PrefixState]] = {}
        self.size = 0


class Generation:
    """The entries of one cache from one `clear` to the next: it is equal to no other."""

    __slots__ = ()


class PrefixMatch:
    """The array of one request, with the earlier array that has most elements in common with it, if there is one."""

    __slots__ = ("_array", "count", "earlier", "generation", "scope", "stored", "written")

    def __init__(
        self, scope: Scope, written: bytes, earlier: _Entry | None, count: int, generation: Generation
    ) -> None:
        self.scope = scope
        self.written = written
        self.generation = generation
        # Leading elements that both arrays have.
        self.count = count
        self.earlier = earlier
        # The stored entry of this request.
        self.stored: _Entry | None = None
        self._array: IndexedArray | None = None

    def state(self, slot: Hashable) -> tuple[int, PrefixState] | None:
        """The state of the earlier array, with the number of leading elements for which it holds here."""
        if self.earlier is None:
            return None
        made = self.earlier.states.get(slot)
        return None if made is None else (min(made[0], self.count), made[1])

    def tail(self, count: int) -> ArrayTail:
        """The elements after the first `count`, which both arrays have."""
        if self.earlier is None or not count:
            return ArrayTail(self.written, 0)
        return tail_after(self.earlier.array, count, self.written)

    def array(self, count: int | None = None) -> IndexedArray | None:
        """The array of the request with the ends of its elements. Only new elements are parsed. Of an array of `count`
        elements that continues none, only the latest ones are, or None if they are not found."""
        if self._array is None:
            if self.earlier is None or not self.count:
                self._array = indexed_array(self.written) if count is None else latest_indexed(self.written, count)
            else:
                tail = self.tail(self.count)
                self._array = extended_array(self.earlier.array, self.count, self.written, tail)
        return self._array


class HandedMatch:
    """The match of the history of one request, handed from its first user to its last one, who takes it: it is as large
    as the request."""

    __slots__ = ("_match",)

    def __init__(self, match: PrefixMatch | None = None) -> None:
        self._match = match

    def take(self) -> PrefixMatch | None:
        """The match, only once."""
        match, self._match = self._match, None
        return match


class PrefixCache:
    """The arrays of one worker."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        # The one that was not used for longest first.
        self._entries: OrderedDict[_Entry, None] = OrderedDict()
        self._by_hash: dict[_HashKey, list[_Entry]] = {}
        self._generation = Generation()
        # Bytes of all arrays and states.
        self.size = 0

    def match(self, scope: Scope, written: bytes) -> PrefixMatch:
        """Compare the array of a request, which must be valid JSON, with earlier ones of its scope."""
        # Before the lookup: entries that are cleared meanwhile are not current.
        generation = self._generation
        earlier, count = None, 0
        for hash_key in _hash_keys(scope, written):
            with self._lock:
                candidates = tuple(self._by_hash.get(hash_key, ()))
            for entry in candidates:
                common = common_count(entry.array, written)
                if common > count:
                    earlier, count = entry, common
            if earlier is not None:
                self._touch(earlier)
                break
        return PrefixMatch(scope, written, earlier, count, generation)

    def find(self, scope: Scope, written: bytes, slot: Hashable) -> PrefixState | None:
        """The state of an array of which every byte is the same: of tools, which a client offers in each request. It
        may have been made of an earlier array, of which not all elements are the same."""
        small = len(written) < MIN_ARRAY
        hash_key = _small_hash_key(scope, written) if small else next(_hash_keys(scope, written))
        for entry in self._by_hash.get(hash_key, ()):
            if entry.array.written == written:
                self._touch(entry)
                made = entry.states.get(slot)
                return None if made is None else made[1]
        return None

    def is_current(self, match: PrefixMatch) -> bool:
        """Whether a match was made here, and nothing was cleared since."""
        return match.generation is self._generation

    def store(
        self,
        match: PrefixMatch,
        slot: Hashable,
        state: PrefixState,
        count: int | None = None,
        *,
        least: int = MIN_ARRAY,
    ) -> None:
        """Store the array of a request with its translation, for the next request of its conversation. To know how many
        elements there are (`count`) saves reading all of them. Arrays of fewer than `least` bytes are not stored."""
        array = match.array(count) if len(match.written) >= least else None
        if array is None or array.size + state.size > self._max_bytes // _LARGE_PART:
            return
        hash_keys = tuple(_hash_keys(match.scope, match.written)) if match.stored is None else match.stored.hash_keys
        with self._lock:
            if match.generation is not self._generation:
                # What is forgotten does not come back by a request that was under way.
                return
            entry = match.stored
            if entry is None or entry not in self._entries:
                entry = match.stored = _Entry(array, hash_keys)
                self._take_over(entry, match)
                self._add(entry)
            entry.states[slot] = (array.count, state)
            self._resize(entry)
            self._evict()

    def clear(self) -> None:
        """Remove all arrays; those of requests that are under way are not stored."""
        with self._lock:
            self._generation = Generation()
            self._entries.clear()
            self._by_hash.clear()
            self.size = 0

    def _take_over(self, entry: _Entry, match: PrefixMatch) -> None:
        """Give an entry the states of the earlier one that it continues, which it replaces if few elements differ."""
        earlier = match.earlier
        if earlier is not None:
            entry.states = {slot: (min(count, match.count), made) for slot, (count, made) in earlier.states.items()}
            if earlier.array.count - match.count <= _MAX_CHANGED:
                self._remove(earlier)

    def _touch(self, entry: _Entry) -> None:
        """Count an entry as used, unless it was removed: tools that never change are stored once and found with every
        call."""
        try:
            self._entries.move_to_end(entry)
        except KeyError:
            # Another thread removed it.
            return

    def _add(self, entry: _Entry) -> None:
        self._entries[entry] = None
        for hash_key in entry.hash_keys:
            same = self._by_hash.setdefault(hash_key, [])
            # The latest first.
            same.insert(0, entry)
            del same[_MAX_CANDIDATES:]

    def _resize(self, entry: _Entry) -> None:
        size = _OVERHEAD + entry.array.size + sum([state.size for _, state in entry.states.values()])
        self.size += size - entry.size
        entry.size = size

    def _evict(self) -> None:
        while self.size > self._max_bytes:
            # In one step: `_touch` takes no lock.
            entry, _ = self._entries.popitem(last=False)
            self._discard(entry)

    def _remove(self, entry: _Entry) -> None:
        """Remove an entry, unless it was removed before."""
        if entry in self._entries:
            del self._entries[entry]
            self._discard(entry)

    def _discard(self, entry: _Entry) -> None:
        self.size -= entry.size
        for hash_key in entry.hash_keys:
            same = [other for other in self._by_hash.get(hash_key, ()) if other is not entry]
            if same:
                self._by_hash[hash_key] = same
            else:
                self._by_hash.pop(hash_key, None)


def _hash_keys(scope: Scope, written: bytes) -> Iterator[_HashKey]:
    """The hashes by which an array is found, the one of most bytes first; a small one is found as a whole."""
    if len(written) < MIN_ARRAY:
        yield _small_hash_key(scope, written)
    for offset in _OFFSETS:
        if offset <= len(written):
            yield scope, offset, hash(written[: offset : offset // _SAMPLES])


def _small_hash_key(scope: Scope, written: bytes) -> _HashKey:
    size = len(written)
    return scope, size, hash(written[:: size // _FEW_SAMPLES + 1])
