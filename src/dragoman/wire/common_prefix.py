"""Common prefix of two JSON arrays: counts the leading elements whose bytes are equal. Agents resend their history with
every call, so results for these elements can be reused. The bytes are compared, because digests could collide."""

from __future__ import annotations

import re
from array import array
from itertools import accumulate

import msgspec
from msgspec import Raw, Struct

_ELEMENTS = msgspec.json.Decoder(list[Raw])
_skip_comma = re.compile(rb"[ \t\n\r]*+(?:,[ \t\n\r]*+)?").match
# The end of an element. It may be missing after a number: `1` is a prefix of `12`, but not its element.
_separator = re.compile(rb"[ \t\n\r]*+([,\]])").match
_COMMA = b","
_EMPTY = b"[]"
# The bytes between two objects that may be elements. Clients write no white space there, or one space.
_BETWEEN = (b'},{"', b'}, {"')
# Limits of the search for the last elements: objects to index, the fewest that suffice, attempts, and the bytes after
# which the fewest suffice.
_LATEST, _FEWEST, _TRIES, _ENOUGH = 12, 4, 16, 64 * 1024


class IndexedArray(Struct, frozen=True):
    """A JSON array with its brackets, and the offsets at which its elements end. The first offset belongs to element
    `first`, counted from 1."""

    written: bytes
    ends: array[int]
    first: int = 1

    @property
    def count(self) -> int:
        return self.first + len(self.ends) - 1

    @property
    def size(self) -> int:
        """Memory size in bytes, estimated."""
        return len(self.written) + 8 * len(self.ends)


class ArrayTail(Struct, frozen=True):
    """The last elements of an array, as an array of their own. `offset` is its position in the original."""

    written: bytes
    offset: int


def indexed_array(written: bytes) -> IndexedArray:
    """Index a valid JSON array. Other text raises `msgspec.DecodeError`."""
    return IndexedArray(written, _element_ends(written, 0))


def latest_indexed(written: bytes, count: int) -> IndexedArray | None:
    """Index the last elements of a valid JSON array of `count` elements, without reading the earlier ones. If no end of
    an element is recognised, a short array is read in full, and the index of a long one is None.

    If the bytes after a comma, with a bracket before them, are a valid array, the comma ends an element. A comma inside
    a string, list or object cannot pass this test, because the quotes or brackets after it would not match."""
    for between in _BETWEEN:
        end = at = len(written)
        for number in range(_LATEST + _TRIES):
            at = written.rfind(between, 0, at)
            if at < 0:
                break
            if number >= _LATEST or (number >= _FEWEST and end - at >= _ENOUGH):
                ends = _ends_after(written, at + 1)
                if ends is not None:
                    return IndexedArray(written, array("Q", (at + 1,)) + ends, count - len(ends))
    return indexed_array(written) if len(written) <= _ENOUGH else None


def _ends_after(written: bytes, comma: int) -> array[int] | None:
    """The ends of the elements after a comma, or None if it does not end an element."""
    try:
        return _element_ends(b"[" + memoryview(written)[comma + 1 :], comma)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def common_count(earlier: IndexedArray, written: bytes) -> int:
    """Count the leading elements of a valid JSON array whose bytes, with white space, equal those of an earlier array.
    The result is 0 if the count is below the first indexed element."""
    ends, view = earlier.ends, memoryview(earlier.written)
    count, end, beyond = 0, 0, len(ends) + 1
    if not ends or not written.startswith(view[: ends[0]]):
        return 0
    # An agent usually appends, so the probe begins with all of the earlier elements.
    probe = len(ends)
    while beyond - count > 1:
        if written.startswith(view[end : ends[probe - 1]], end):
            count, end = probe, ends[probe - 1]
        else:
            beyond = probe
        probe = (count + beyond) // 2
    if count and _separator(written, end) is None:
        count -= 1
    return earlier.first + count - 1 if count else 0


def tail_after(earlier: IndexedArray, count: int, written: bytes) -> ArrayTail:
    """The elements after the first `count`, which both arrays have in common."""
    if not count:
        return ArrayTail(written, 0)
    if count < earlier.first:
        earlier = indexed_array(earlier.written)
    separator = _separator(written, earlier.ends[count - earlier.first])
    if separator is None:
        raise ValueError("the arrays do not have so many elements in common")
    if separator[1] != _COMMA:
        return ArrayTail(_EMPTY, separator.start(1))
    return ArrayTail(b"[" + memoryview(written)[separator.end() :], separator.start(1))


def extended_array(earlier: IndexedArray, count: int, written: bytes, tail: ArrayTail) -> IndexedArray:
    """Index an array whose first `count` elements are those of an earlier array. Only the tail is read."""
    if not count:
        return indexed_array(written)
    ends = earlier.ends[: count - earlier.first + 1] + _element_ends(tail.written, tail.offset)
    return IndexedArray(written, ends, earlier.first)


def _element_ends(written: bytes, offset: int) -> array[int]:
    lengths = [len(element) for element in _ELEMENTS.decode(written)]
    if sum(lengths) + len(lengths) + 1 == len(written):
        # One byte before each element, its bracket or comma: there is no white space.
        ends = array("Q", accumulate([length + 1 for length in lengths], initial=offset))
        return ends[1:]
    ends, at = array("Q"), 1
    for length in lengths:
        separator = _skip_comma(written, at)
        assert separator is not None
        at = separator.end() + length
        ends.append(offset + at)
    return ends
