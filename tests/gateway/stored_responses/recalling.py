"""What a request refers to, looked up and put in its place at once, as an exchange does it in steps."""

from __future__ import annotations

from dragoman.gateway.stored_responses.reference_resolver import ResolvedRequest, resolve_references, resolve_request
from dragoman.gateway.stored_responses.references import references_in
from dragoman.store import Tables
from dragoman.wire.duplicate_keys import OBJECT


def recall(
    tables: Tables | None,
    owner: bytes,
    body: bytes,
    *,
    native: bool = False,
    shared: bool = False,
    limit: int = 32 * 1024 * 1024,
) -> ResolvedRequest | None:
    """The request without references; None if it is to go on as it is, and its answer is not kept here."""
    said = references_in(OBJECT.decode(body))
    if said is None:
        return None
    found = resolve_references(
        tables, owner=owner, references=said, size=len(body), native=native, shared=shared, limit=limit
    )
    return None if found is None else resolve_request(body, said, found)
