"""Repairs of a relayed request: removes what its provider would always reject, and leaves every other byte unchanged
(mapping.md §1, rule 1). Each defect is found by a scan of the bytes, so a body without defects is never parsed. The
protocol packages (`relay.py`) list what providers reject. Call IDs are repaired for all protocols (N2): a client may
switch providers inside a tool loop, so an ID that this provider rejects, or that a server repeats in every turn, is
changed as in a translation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonValue
from dragoman.model.losses import Ledger
from dragoman.rules.envelope import is_envelope
from dragoman.rules.ids import ANY, IdRule, call_id
from dragoman.wire.json import decode, encode
from dragoman.wire.json_spans import JsonSpan, elements_of, gaps, replaced

# Whether the bytes between two positions may need a repair.
Scan: TypeAlias = Callable[[bytes, int, int], bool]
# Maps an entry of a list and its index to its replacement entries: none removes it, None leaves it unchanged.
Rewrite: TypeAlias = Callable[[bytes, int], list[bytes] | None]


def rewritten(body: bytes, key: str, scan: Scan, rewrite: Rewrite) -> bytes | None:
    """Remove or replace entries of a top-level list; None if nothing changes."""
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


# The start of a string that may be an envelope. No provider of a relay issues these.
ENVELOPE = b'"rsv1'


def has_envelope(body: bytes, start: int, end: int) -> bool:
    return body.find(ENVELOPE, start, end) >= 0


def is_ours(token: JsonValue) -> bool:
    """Whether a signature member holds an envelope, by its prefix."""
    return isinstance(token, str) and is_envelope(token)


class Ids(Struct, frozen=True):
    """Where a protocol has call IDs: the list, the member of results, and the spans of both in an entry."""

    entries: str
    results: Callable[[bytes], list[bytes]]
    spans: Callable[[bytes], tuple[list[JsonSpan], list[JsonSpan]]]
    # How often an ID may occur in that member. In some protocols calls have it, too.
    times: int = 1


def finder_of(name: bytes) -> Callable[[bytes], list[bytes]]:
    """Return a finder of a member's values by its quoted name, at any depth."""
    value_at = re.compile(rb'[ \t\n\r]*+:[ \t\n\r]*+("(?!")[^"\\]*+(?:\\.[^"\\]*+)*+")', re.DOTALL).match
    length = len(name)

    def values_in(body: bytes) -> list[bytes]:
        values: list[bytes] = []
        # A plain search is four times as fast as a regular expression that begins with the name.
        start = body.find(name)
        while start >= 0:
            value = value_at(body, start + length)
            if value is not None:
                values.append(value[1])
            start = body.find(name, start + length)
        return values

    return values_in


def refuses(ids: Sequence[str], rule: IdRule, times: int = 1) -> bool:
    """Whether a rule rejects one of the result IDs, or one occurs more often than `times`."""
    if rule is ANY:
        return False
    # Nearly always each ID occurs once, which this check shows without counting.
    if len(ids) > 1 and len(set(ids)) != len(ids) and max(Counter(ids).values()) > times:
        return True
    return not all(map(rule.pattern.fullmatch, ids))


def rename_ids(body: bytes, rule: IdRule, ids: Ids, ledger: Ledger) -> bytes:
    """Replace the IDs of calls if the rule rejects them or an earlier call has them."""
    # Every call has a result, and results are fewer, so only their IDs are checked.
    if rule is ANY or not refuses([one for one in map(_read, ids.results(body)) if one], rule, ids.times):
        return body
    calls: Counter[str] = Counter()
    results: Counter[str] = Counter()

    def rewrite(entry: bytes, number: int) -> list[bytes] | None:
        edits: list[tuple[JsonSpan, bytes]] = []
        for spans, count in zip(ids.spans(entry), (calls, results), strict=True):
            for span in spans:
                original = _read(entry[span.start : span.end])
                if not original:
                    # An empty ID stays unchanged.
                    continue
                count[original] += 1
                which = count[original] if count is calls else min(count[original], calls[original])
                if which > 1 and count is calls:
                    note = "this id stood before, and is not taken twice"
                    ledger.approximated(Feature.CALL_ID, ("messages", number), note)
                given = original if which < 2 else f"{original}_{which}"
                if which > 1 or (given and rule.pattern.fullmatch(given) is None):
                    edits.append((span, encode(call_id(given, rule))))
        return [replaced(entry, edits)] if edits else None

    return rewritten(body, ids.entries, _may_have_some, rewrite) or body


def _read(value: bytes) -> str:
    """The ID of a value. The provider judges an invalid one."""
    try:
        text = decode(value) if value.startswith(b'"') else None
    except WireError:
        return ""
    return text if isinstance(text, str) else ""


def _may_have_some(body: bytes, start: int, end: int) -> bool:
    return body.find(b'id"', start, end) >= 0
