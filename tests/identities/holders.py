"""Identities for tests, with one digest each."""

from __future__ import annotations

from dragoman.identities.identity import AcceptedDigest, Identity, Rights

NO_LIMITS = Rights()


def holder(name: str, digest: bytes, *, owner: bytes | None = None, rights: Rights = NO_LIMITS) -> Identity:
    """An identity that a digest opens; its owner is that digest unless stated."""
    return Identity(
        name=name,
        owner=digest if owner is None else owner,
        digests=(AcceptedDigest(digest=digest),),
        rights=rights,
    )
