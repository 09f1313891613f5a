"""Rows of identities: each change makes new ones, and 100,000 fit into a worker."""

from __future__ import annotations

import tracemalloc
from hashlib import sha256

from msgspec.structs import replace

from dragoman.gateway.access.identity_rows import NO_ROWS
from dragoman.identities.identity import DATABASE, AcceptedDigest, Identity, Rights, StoredIdentity


def _many(count: int) -> list[StoredIdentity]:
    rights = [Rights(models=(f"model-{number}",)) for number in range(10)]
    identities = (
        Identity(
            name=f"key-{number}",
            owner=(digest := sha256(str(number).encode()).digest()),
            digests=(AcceptedDigest(digest=digest),),
            rights=rights[number % 10],
            source=DATABASE,
        )
        for number in range(count)
    )
    return [StoredIdentity(identity=each, generation=1, created=1.0, created_by="ann") for each in identities]


def test_pitfall_739_an_identity_takes_few_bytes() -> None:
    """A worker has 100,000 identities in 50 MB."""
    count = 20_000
    tracemalloc.start()
    try:
        rows = NO_ROWS.with_changes(1, _many(count))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows.count == count
    assert size / count < 500


def test_a_change_leaves_the_rows_before_it_as_they_were() -> None:
    first, second = _many(2)
    before = NO_ROWS.with_changes(1, [first])
    after = before.with_changes(2, [replace(first, revoked=1.0), second])
    assert (before.count, before.generation, before.revoked) == (1, 1, frozenset())
    assert (after.count, after.generation, after.revoked) == (2, 2, frozenset({first.identity.owner}))
    assert [*after.by_name] == ["key-0", "key-1"]
    assert {*after.by_name.values()} == {*after.by_digest.values()}
