"""Synthetic citations: made from another provider's for a Messages client, and removed before its own provider sees
them (§19), which rejects a cited page without the vendor's `encrypted_index`."""

from __future__ import annotations

import re

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger, Place
from dragoman.wire.json import decode, encode
from dragoman.wire.json_spans import JsonSpan, elements_of, replaced

_find = re.compile(rb'"encrypted_index"[ \t\n\r]*+:[ \t\n\r]*+""').search


def may_be_synthetic(body: bytes, start: int, end: int) -> bool:
    """Whether there may be a citation without a signature in these bytes."""
    # A plain search is faster than the pattern, and most bodies have no match.
    return body.find(b'"encrypted_index"', start, end) >= 0 and _find(body, start, end) is not None


def is_synthetic(citation: JsonValue) -> bool:
    if not isinstance(citation, dict) or citation.get("type") != "web_search_result_location":
        return False
    return citation.get("encrypted_index") == ""


def without_synthetic(message: bytes, at: Place, ledger: Ledger) -> bytes:
    """Remove the synthetic citations of a message. All other bytes stay."""
    edits: list[tuple[JsonSpan, bytes]] = []
    for number, span in elements_of(message, "content"):
        if not may_be_synthetic(message, span.start, span.end):
            continue
        block = decode(message[span.start : span.end])
        cleaned = _drop_synthetic(block) if isinstance(block, dict) else None
        if cleaned is not None:
            note = "a citation that was made of another provider's is not sent back"
            ledger.dropped(Feature.CITATIONS, (*at, "parts", number, "citations"), note)
            edits.append((span, encode(cleaned)))
    return replaced(message, edits) if edits else message


def _drop_synthetic(block: JsonObject) -> JsonObject | None:
    citations = block.get("citations")
    if not isinstance(citations, list):
        return None
    others = [one for one in citations if not is_synthetic(one)]
    if len(others) == len(citations):
        return None
    rest: JsonObject = {key: value for key, value in block.items() if key != "citations"}
    return {**rest, "citations": others} if others else rest
