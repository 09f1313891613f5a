"""Identity rows: the identities of the database as of one change, by the digests that they accept. A change makes new
rows, so that requests read one state while a thread prepares the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from dragoman.identities.identity import Identity, StoredIdentity


class IdentityRows(Struct, frozen=True, kw_only=True):
    """All identities of one file, revoked ones included."""

    # Device and inode of the file, and the number of its last change: what changed since is read.
    file: tuple[int, int] = (0, 0)
    generation: int = 0
    # Under each accepted digest, and under the owner, which may be accepted no more: one table instead of two, since
    # there may be 100,000 identities.
    by_digest: Mapping[bytes, Identity] = {}
    # Owners of revoked identities.
    revoked: frozenset[bytes] = frozenset()
    # The number of identities.
    count: int = 0

    def with_changes(self, generation: int, changes: Iterable[StoredIdentity]) -> IdentityRows:
        """The rows after some changes."""
        by_digest, revoked, count = {**self.by_digest}, {*self.revoked}, self.count
        for stored in changes:
            identity = stored.identity
            former = by_digest.get(identity.owner)
            if former is None:
                count += 1
            else:
                for accepted in former.digests:
                    by_digest.pop(accepted.digest, None)
            by_digest[identity.owner] = identity
            for accepted in identity.digests:
                by_digest[accepted.digest] = identity
            if stored.revoked is not None:
                revoked.add(identity.owner)
        return IdentityRows(
            file=self.file, generation=generation, by_digest=by_digest, revoked=frozenset(revoked), count=count
        )

    def owned(self, owner: bytes) -> Identity | None:
        """The identity of an owner."""
        identity = self.by_digest.get(owner)
        return identity if identity is not None and identity.owner == owner else None

    def identities(self) -> Iterator[Identity]:
        """All identities, once each."""
        return (identity for digest, identity in self.by_digest.items() if digest == identity.owner)


# The rows of a missing file.
NO_ROWS = IdentityRows()
