"""Repairs of a relayed request: what its provider would always refuse is cut out, every other byte stays (mapping.md
§1, rule 1). Each is found by a scan of the bytes, so a body that needs none is never parsed. The protocol packages
(`relay.py`) list what providers refuse, and where. Call ids are a repair of all protocols (N2): a client may move to
another provider in mid tool loop, so an id that this one refuses, or that some servers repeat in every turn, is changed
as on translation."""

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


# The start of a string that may be an envelope: none is native to the relay's provider.
ENVELOPE = b'"rsv1'


def has_envelope(body: bytes, start: int, end: int) -> bool:
    """Whether a string here may be an envelope of ours."""
    return body.find(ENVELOPE, start, end) >= 0


def is_ours(token: JsonValue) -> bool:
    """Whether a member that proves something holds an envelope of ours, or what claims to be one."""
    return isinstance(token, str) and is_envelope(token)


class Ids(Struct, frozen=True):
    """Where a protocol has call ids: the list, the member of results, and the spans of both in an entry."""

    entries: str
    results: Callable[[bytes], list[bytes]]
    spans: Callable[[bytes], tuple[list[JsonSpan], list[JsonSpan]]]
    # The occurrences of an ID in that member: calls may have it, too.
    times: int = 1


def finder_of(name: bytes) -> Callable[[bytes], list[bytes]]:
    """A finder of a member's values by its quoted name, at any depth."""
    value_at = re.compile(rb'[ \t\n\r]*+:[ \t\n\r]*+("(?!")[^"\\]*+(?:\\.[^"\\]*+)*+")', re.DOTALL).match
    length = len(name)

    def values_in(body: bytes) -> list[bytes]:
        values: list[bytes] = []
        # A plain search reads four times as fast as a regular expression that begins with the name.
        start = body.find(name)
        while start >= 0:
            value = value_at(body, start + length)
            if value is not None:
                values.append(value[1])
            start = body.find(name, start + length)
        return values

    return values_in


def refuses(ids: Sequence[str], rule: IdRule, times: int = 1) -> bool:
    """Whether a rule rejects one of the IDs of results, or one occurs more often than `times`."""
    if rule is ANY:
        return False
    # Nearly always each occurs once, which is known without counting.
    if len(ids) > 1 and len(set(ids)) != len(ids) and max(Counter(ids).values()) > times:
        return True
    return not all(map(rule.pattern.fullmatch, ids))


def rename_ids(body: bytes, rule: IdRule, ids: Ids, ledger: Ledger) -> bytes:
    """The body with new ids for calls whose id the rule refuses or an earlier call had; else the same bytes."""
    # Every call has its result, so looking for these is enough, and there are few.
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
                    # An empty one is none, and stays the client's.
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
    """The ID of a value; an invalid one is for the provider to judge."""
    try:
        text = decode(value) if value.startswith(b'"') else None
    except WireError:
        return ""
    return text if isinstance(text, str) else ""


def _may_have_some(body: bytes, start: int, end: int) -> bool:
    return body.find(b'id"', start, end) >= 0
