"""Value count of a JSON text before it is decoded: a value takes two bytes of text and a hundred in memory, and a JSON
reader holds the interpreter lock until it has built all. The count is that of commas and opening brackets, one before
every value but the first (an empty list counts twice); if those might be too many, without those in strings. Slices
give other threads their turn. Invalid JSON is counted as far as a reader would get."""

from __future__ import annotations

# Bytes that are counted in one step, and that are searched for strings in one.
_SLICE = 256 * 1024
_CUT = 64 * 1024

# The bytes before a value, and before a member's value.
VALUES = b",[{"
MEMBERS = b":"


def exceeds(body: bytes, limit: int, marks: bytes = VALUES) -> bool:
    """Whether a text holds more than so many values (or members), in time linear in its length."""
    if len(body) <= limit:
        return False
    return _may_exceed(body, limit, marks) and _does_exceed(body, limit, marks)


def _may_exceed(body: bytes, limit: int, marks: bytes) -> bool:
    """Whether there would be too many if all of these bytes counted, those within strings too."""
    count = 0
    for start in range(0, len(body), _SLICE):
        for mark in marks:
            count += body.count(mark, start, start + _SLICE)
        if count > limit:
            return True
    return False


def _does_exceed(body: bytes, limit: int, marks: bytes) -> bool:
    """The same without the content of strings; one may begin in one slice and end in a later one."""
    count, at, within = 0, 0, 0
    while at < len(body):
        cut = body[at : at + _CUT]
        # An escape is not cut in two; backslashes occur only in strings.
        if cut[-1:] == b"\\" and (len(cut) - len(cut.rstrip(b"\\"))) % 2 and len(cut) > 1:
            cut = cut[:-1]
        at += len(cut)
        # Without its escapes, a quote is where a string begins or ends.
        pieces = cut.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(pieces[within::2])
        within = (within + len(pieces) - 1) % 2
        for mark in marks:
            count += outside.count(mark)
        if count > limit:
            return True
    return False
