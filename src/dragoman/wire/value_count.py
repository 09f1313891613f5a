"""Value count: limits the number of values in JSON text before it is decoded. A value takes two bytes of text and a
hundred in memory, and the decoder holds the interpreter lock until it has built all. The count is the number of commas
and opening brackets (an empty list counts twice). If that exceeds the limit, it is counted again without strings.
Slices give other threads their turn. Invalid JSON is counted up to where a reader fails."""

from __future__ import annotations

# Bytes that are counted in one step, and bytes that are searched for strings in one step.
_SLICE = 256 * 1024
_CUT = 64 * 1024

VALUES = b",[{"
MEMBERS = b":"


def exceeds(body: bytes, limit: int, marks: bytes = VALUES) -> bool:
    """Whether a text has more than `limit` values (or members), in linear time."""
    if len(body) <= limit:
        return False
    return _may_exceed(body, limit, marks) and _does_exceed(body, limit, marks)


def _may_exceed(body: bytes, limit: int, marks: bytes) -> bool:
    """Whether the limit would be exceeded if bytes inside strings counted."""
    count = 0
    for start in range(0, len(body), _SLICE):
        for mark in marks:
            count += body.count(mark, start, start + _SLICE)
        if count > limit:
            return True
    return False


def _does_exceed(body: bytes, limit: int, marks: bytes) -> bool:
    """The same without the content of strings. A string may span slices."""
    count, at, within = 0, 0, 0
    while at < len(body):
        cut = body[at : at + _CUT]
        # An escape must not be cut in two. Backslashes occur only in strings.
        if cut[-1:] == b"\\" and (len(cut) - len(cut.rstrip(b"\\"))) % 2 and len(cut) > 1:
            cut = cut[:-1]
        at += len(cut)
        # Without escapes, every quote begins or ends a string.
        pieces = cut.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(pieces[within::2])
        within = (within + len(pieces) - 1) % 2
        for mark in marks:
            count += outside.count(mark)
        if count > limit:
            return True
    return False
