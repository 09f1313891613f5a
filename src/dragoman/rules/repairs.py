"""Repairs of a relayed request: what its provider would refuse for ever is cut out, every other byte stays.

The relay passes bytes on as they came; a short closed list of repairs is the exception (mapping.md §1, rule 1). Each is
found by a scan of the bytes, so that a body that needs none is not even taken apart. What is refused on each wire, and
where it stands there, is known in its room (`relay.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dragoman.model.jsonvalue import JsonValue
from dragoman.rules.envelope import is_envelope
from dragoman.wire.json_spans import JsonSpan, elements_of, gaps, replaced

# Whether the bytes between two places may need a repair.
Scan: TypeAlias = Callable[[bytes, int, int], bool]
# One entry of a list, and its number, to the entries that take its place: none cuts it out, None leaves it alone.
Rewrite: TypeAlias = Callable[[bytes, int], list[bytes] | None]


def rewritten(body: bytes, key: str, scan: Scan, rewrite: Rewrite) -> bytes | None:
    """The same bytes with some entries of a top-level list cut out or rewritten; None if there are none."""
    if not scan(body, 0, len(body)):
        return None
    cuts: list[JsonSpan] = []
    edits: list[tuple[JsonSpan, bytes]] = []
    for number, entry in elements_of(body, key):
        if not scan(body, entry.start, entry.end):
            continue
        instead = rewrite(body[entry.start : entry.end], number)
        if instead:
            edits.append((entry, b",".join(instead)))
        elif instead is not None:
            cuts.append(entry)
    if not cuts and not edits:
        return None
    return replaced(body, [*edits, *((gap, b"") for gap in gaps(body, cuts))])


# How a string begins that may be an envelope of ours: to the relay's provider none is native.
ENVELOPE = b'"rsv1'


def has_envelope(body: bytes, start: int, end: int) -> bool:
    """Whether a string here may be an envelope of ours."""
    return body.find(ENVELOPE, start, end) >= 0


def is_ours(token: JsonValue) -> bool:
    """Whether a member that proves something holds an envelope of ours, or what claims to be one."""
    return isinstance(token, str) and is_envelope(token)
