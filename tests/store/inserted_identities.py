"""Rows of identities, inserted without the code that changes them."""

from __future__ import annotations

from dragoman.store.connection import Connection


def insert(
    db: Connection,
    number: int,
    name: str,
    *digests: tuple[bytes, float | None],
    rights: str = "{}",
    expires: float | None = 9.5,
) -> None:
    """Add an identity, whose last change has its number."""
    db.change(
        "INSERT INTO identities (id, name, owner, rights, tags, expires, created, created_by, revoked, generation)"
        """ VALUES (?, ?, ?, ?, '{"team":"web","app":"x"}', ?, 1.5, 'dragoman key', NULL, ?)""",
        (number, name, digests[0][0], rights, expires, number),
    )
    db.many("INSERT INTO digests VALUES (?, ?, ?)", [(digest, number, until) for digest, until in digests])
    db.change("UPDATE generation SET number = ?", (number,))
