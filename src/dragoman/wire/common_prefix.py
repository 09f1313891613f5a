"""Common prefix: how many leading elements of a JSON array have the same bytes in an earlier array. Agents resend their
history with every call, so what was made of these elements still holds. The bytes themselves are compared: a digest
could collide."""

from __future__ import annotations

import re
from array import array
from itertools import accumulate

import msgspec
from msgspec import Raw, Struct

_ELEMENTS = msgspec.json.Decoder(list[Raw])
# What may stand before an element: white space, after a comma or after none.
_skip_comma = re.compile(rb"[ \t\n\r]*+(?:,[ \t\n\r]*+)?").match
# What follows an element. After a number it may be missing: `1` is a prefix of `12`, and no element of it.
_separator = re.compile(rb"[ \t\n\r]*+([,\]])").match
_COMMA = b","
_EMPTY = b"[]"


class IndexedArray(Struct, frozen=True):
    """A JSON array from bracket to bracket, and the offset at which each of its elements ends."""

    written: bytes
    ends: array[int]

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, about."""
        return len(self.written) + 8 * len(self.ends)


class ArrayTail(Struct, frozen=True):
    """The elements of an array after its first ones, as an array of their own; `offset` is where that would begin."""

    written: bytes
    offset: int


def indexed_array(written: bytes) -> IndexedArray:
    """Index a valid JSON array; a text that is none raises a `msgspec.DecodeError`."""
    return IndexedArray(written, _element_ends(written, 0))


def common_count(earlier: IndexedArray, written: bytes) -> int:
    """How many leading elements of a valid JSON array are byte for byte those of an earlier one, white space between
    them included."""
    ends, view = earlier.ends, memoryview(earlier.written)
    count, end, beyond = 0, 0, len(ends) + 1
    # An agent usually appends: then all of the earlier elements are there.
    probe = len(ends)
    while beyond - count > 1:
        if written.startswith(view[end : ends[probe - 1]], end):
            count, end = probe, ends[probe - 1]
        else:
            beyond = probe
        probe = (count + beyond) // 2
    if count and _separator(written, end) is None:
        count -= 1
    return count


def tail_after(earlier: IndexedArray, count: int, written: bytes) -> ArrayTail:
    """The elements of an array after the first `count`, which it has in common with an earlier one."""
    if not count:
        return ArrayTail(written, 0)
    separator = _separator(written, earlier.ends[count - 1])
    if separator is None:
        raise ValueError("the arrays do not have so many elements in common")
    if separator[1] != _COMMA:
        return ArrayTail(_EMPTY, separator.start(1))
    return ArrayTail(b"[" + memoryview(written)[separator.end() :], separator.start(1))


def extended_array(earlier: IndexedArray, count: int, written: bytes, tail: ArrayTail) -> IndexedArray:
    """Index an array whose first `count` elements are those of an earlier one: only the tail is read."""
    return IndexedArray(written, earlier.ends[:count] + _element_ends(tail.written, tail.offset))


def _element_ends(written: bytes, offset: int) -> array[int]:
    lengths = [memoryview(element).nbytes for element in _ELEMENTS.decode(written)]
    if sum(lengths) + len(lengths) + 1 == len(written):
        # One byte stands before each element, its bracket or comma: there is no white space.
        ends = array("Q", accumulate([length + 1 for length in lengths], initial=offset))
        return ends[1:]
    ends, at = array("Q"), 1
    for length in lengths:
        separator = _skip_comma(written, at)
        assert separator is not None
        at = separator.end() + length
        ends.append(offset + at)
    return ends
