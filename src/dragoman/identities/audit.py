"""Audit log entries: one for each change of a key. No entry contains a digest or a key text."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from dragoman.identities.identity import Rights

CREATE, CHANGE, ROTATE, REVOKE, IMPORT = "create", "change", "rotate", "revoke", "import"


class AuditedIdentity(Struct, frozen=True, kw_only=True, omit_defaults=True):
    rights: Rights = Rights()
    tags: Mapping[str, str] = {}
    # Unix seconds, as all times here.
    expires: float | None = None
    # The end of the time in which the former text of a rotated key is accepted.
    former_until: float | None = None
    revoked: float | None = None


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One change of an identity, with its author."""

    id: int
    time: float
    # The name of the administrator's key, or "dragoman key" for a change on the machine.
    actor: str
    action: str
    subject: str
    before: AuditedIdentity | None
    after: AuditedIdentity
