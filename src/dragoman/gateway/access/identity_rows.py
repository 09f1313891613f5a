"""Identity rows: the identities of the database as of one change, by the digests that they accept. A change makes new
rows, so that requests read one state while a thread prepares the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from dragoman.identities.identity import Identity, StoredIdentity


class IdentityRows(Struct, frozen=True, kw_only=True):
    """All identities of one file, revoked ones included."""

    # Device and inode of the file, and the number of its last change: what changed since is read.
    file: tuple[int, int, int] = (0, 0, 0)
    generation: int = 0
    # Under each accepted digest, and under the owner, which may be accepted no more: one table instead of two, since
    # there may be 100,000 identities.
    by_digest: Mapping[bytes, Identity] = {}
    # The same by their names, which never change.
    by_name: Mapping[str, Identity] = {}
    # Owners of revoked identities.
    revoked: frozenset[bytes] = frozenset()

    @property
    def count(self) -> int:
        """The number of identities."""
        return len(self.by_name)

    def with_changes(self, generation: int, changes: Iterable[StoredIdentity]) -> IdentityRows:
        """The rows after some changes."""
        by_digest, by_name, revoked = {**self.by_digest}, {**self.by_name}, {*self.revoked}
        for stored in changes:
            identity = stored.identity
            former = by_name.get(identity.name)
            if former is not None:
                for accepted in former.digests:
                    by_digest.pop(accepted.digest, None)
            by_digest[identity.owner] = by_name[identity.name] = identity
            for accepted in identity.digests:
                by_digest[accepted.digest] = identity
            if stored.revoked is not None:
                revoked.add(identity.owner)
        return IdentityRows(
            file=self.file, generation=generation, by_digest=by_digest, by_name=by_name, revoked=frozenset(revoked)
        )


# The rows of a missing file.
NO_ROWS = IdentityRows()
