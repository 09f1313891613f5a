"""Ids of calls on the relay: those that another provider said and this one refuses (N2).

A client keeps the ids that its providers said, and may go on with another provider in the middle of a tool loop. What
that one would refuse for ever is changed as it is on translation; its own ids, and all that it takes, stay bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.rules.ids import ANY, IdRule, call_id
from dragoman.rules.repairs import rewritten
from dragoman.wire.json import decode, encode
from dragoman.wire.spans import Span, replaced


class Ids(Struct, frozen=True):
    """Where a wire has them: the list of entries, the member by which a result names its call, and all in an entry."""

    entries: str
    results: Callable[[bytes], Iterator[re.Match[bytes]]]
    spans: Callable[[bytes], list[Span]]


def named_by(member: str) -> Callable[[bytes], Iterator[re.Match[bytes]]]:
    """What finds the values of a member, wherever it stands."""
    return re.compile(rb'"%b"[ \t\n\r]*+:[ \t\n\r]*+("(?:[^"\\]|\\.)++")' % member.encode(), re.DOTALL).finditer


def renamed(body: bytes, rule: IdRule, ids: Ids) -> bytes:
    """The body with what stands for every id that the rule refuses; the same bytes if it takes them all."""
    # Every call has its result, so looking for these is enough, and there are few.
    if rule is ANY or all(_read(match[1], rule) is None for match in ids.results(body)):
        return body

    def rewrite(entry: bytes, _: int) -> list[bytes] | None:
        refused = [(span, _read(entry[span.start : span.end], rule)) for span in ids.spans(entry)]
        edits = [(span, encode(call_id(text, rule))) for span, text in refused if text is not None]
        return [replaced(entry, edits)] if edits else None

    return rewritten(body, ids.entries, _may_have_some, rewrite) or body


def _read(value: bytes, rule: IdRule) -> str | None:
    """The id that a value is, if it is refused; an empty one is none, and stays the client's."""
    try:
        text = decode(value) if value.startswith(b'"') else None
    except WireError:
        # What is no text is the provider's to judge.
        return None
    return text if isinstance(text, str) and text != "" and rule.pattern.fullmatch(text) is None else None


def _may_have_some(body: bytes, start: int, end: int) -> bool:
    return body.find(b'id"', start, end) >= 0
