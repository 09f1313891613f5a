"""Rows of identities, inserted without the code that changes them."""

from __future__ import annotations

import sqlite3


def insert(
    db: sqlite3.Connection,
    number: int,
    name: str,
    *digests: tuple[bytes, float | None],
    rights: str = "{}",
    expires: float | None = 9.5,
) -> None:
    """Add an identity, whose last change has its number."""
    db.execute(
        "INSERT INTO identities (id, name, owner, rights, tags, expires, created, created_by, revoked, generation)"
        """ VALUES (?, ?, ?, ?, '{"team":"web","app":"x"}', ?, 1.5, 'dragoman key', NULL, ?)""",
        (number, name, digests[0][0], rights, expires, number),
    )
    db.executemany("INSERT INTO digests VALUES (?, ?, ?)", [(digest, number, until) for digest, until in digests])
    db.execute("UPDATE generation SET number = ?", (number,))
