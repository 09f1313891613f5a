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
# What stands between two objects that may be elements: clients write no white space there, or one space.
_BETWEEN = (b'},{"', b'}, {"')
# Objects from the end of an array before which an end of an element is looked for, how often, and bytes after which
# fewer will do.
_LATEST, _FEWEST, _TRIES, _ENOUGH = 12, 4, 16, 64 * 1024


class IndexedArray(Struct, frozen=True):
    """A JSON array from bracket to bracket, and the offsets at which its elements end, from the one that is number
    `first` on, counted from 1."""

    written: bytes
    ends: array[int]
    first: int = 1

    @property
    def count(self) -> int:
        """How many elements there are."""
        return self.first + len(self.ends) - 1

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


def latest_indexed(written: bytes, count: int) -> IndexedArray | None:
    """Index the last elements of a valid JSON array of `count` elements, without reading those before. If no end of an
    element is found by the look of the objects, a short array is read as a whole; of a long one the index is None.

    If the bytes after a comma and a bracket are a valid array, the comma ends an element. Inside a string no bytes are:
    each quote would open a string for one reader where it closes one for the other, to the end. In an inner list or
    object they would close more than they open."""
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
    """The ends of the elements after a comma; None if it ends none."""
    try:
        return _element_ends(b"[" + memoryview(written)[comma + 1 :], comma)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def common_count(earlier: IndexedArray, written: bytes) -> int:
    """How many leading elements of a valid JSON array are byte for byte those of an earlier one, white space between
    them included; 0 if they are fewer than those whose end is known."""
    ends, view = earlier.ends, memoryview(earlier.written)
    count, end, beyond = 0, 0, len(ends) + 1
    if not ends or not written.startswith(view[: ends[0]]):
        return 0
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
    return earlier.first + count - 1 if count else 0


def tail_after(earlier: IndexedArray, count: int, written: bytes) -> ArrayTail:
    """The elements of an array after the first `count`, which it has in common with an earlier one."""
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
    """Index an array whose first `count` elements are those of an earlier one: only the tail is read."""
    if not count:
        return indexed_array(written)
    ends = earlier.ends[: count - earlier.first + 1] + _element_ends(tail.written, tail.offset)
    return IndexedArray(written, ends, earlier.first)


def _element_ends(written: bytes, offset: int) -> array[int]:
    lengths = [len(element) for element in _ELEMENTS.decode(written)]
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
