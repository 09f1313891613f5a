"""What the audit log stores of a key is short, and the same after it was read again."""

from __future__ import annotations

import msgspec

from dragoman.identities.audit import AuditedIdentity
from dragoman.identities.identity import ADMIN, Rights


def test_an_audited_identity_is_the_same_after_it_was_stored() -> None:
    for audited in (
        AuditedIdentity(),
        AuditedIdentity(
            rights=Rights(role=ADMIN, models=("claude-*",), strict="all", concurrency=2),
            tags={"team": "web"},
            expires=5.5,
            former_until=3.0,
            revoked=4.0,
        ),
    ):
        assert msgspec.json.decode(msgspec.json.encode(audited), type=AuditedIdentity) == audited


def test_what_a_key_does_not_have_takes_no_room() -> None:
    assert msgspec.json.encode(AuditedIdentity()) == b"{}"
