"""Views of keys have all that a key has, and neither digest nor text."""

from __future__ import annotations

import msgspec

from dragoman.identities.audit import CHANGE, AuditedIdentity, AuditEntry
from dragoman.identities.identity import ADMIN, DATABASE, NO_RIGHTS, AcceptedDigest, Identity, Rights, StoredIdentity
from dragoman.identities.key_text import digest_of, new_key
from dragoman.identities.views import IssuedKey, audit_view_of, configured_view_of, keys_view_of, view_of

NOW = 1_800_000_000.0
TEXT = new_key()
ANN = Identity(
    name="ann",
    owner=digest_of("her first key, which is long"),
    digests=(AcceptedDigest(digest=digest_of(TEXT)), AcceptedDigest(digest=digest_of("former"), until=NOW + 60)),
    rights=Rights(role=ADMIN, models=("claude-*",), paths=("files:read",), strict="all", concurrency=4),
    tags=(("team", "web"),),
    expires=NOW + 3600,
    source=DATABASE,
)
STORED = StoredIdentity(identity=ANN, generation=7, created=NOW - 60, created_by="ada")


def test_a_view_has_all_that_a_key_has() -> None:
    assert msgspec.to_builtins(view_of(STORED, NOW)) == {
        "name": "ann",
        "state": "rotated",
        "role": "admin",
        "models": ("claude-*",),
        "providers": None,
        "addresses": None,
        "paths": ("files:read",),
        "strict": "all",
        "concurrency": 4,
        "tags": {"team": "web"},
        "expires": "2027-01-15T09:00:00Z",
        "former_until": "2027-01-15T08:01:00Z",
        "created": "2027-01-15T07:59:00Z",
        "created_by": "ada",
        "revoked": None,
        "source": "database",
        "generation": 7,
    }


def test_a_key_of_the_configuration_has_no_creator_and_no_generation() -> None:
    view = configured_view_of(msgspec.structs.replace(ANN, source="file", expires=NOW), NOW)
    assert (view.state, view.created, view.created_by, view.generation) == ("expired", None, None, 0)


def test_a_revoked_key_permits_nothing() -> None:
    revoked = msgspec.structs.replace(ANN, rights=NO_RIGHTS)
    view = view_of(msgspec.structs.replace(STORED, identity=revoked, revoked=NOW), NOW)
    assert (view.state, view.revoked, view.models, view.paths) == ("revoked", "2027-01-15T08:00:00Z", (), ())
    assert view.former_until is None


def test_pitfall_733_no_view_has_a_digest_and_the_text_stands_beside_the_key_once() -> None:
    view = view_of(STORED, NOW)
    encoded = msgspec.json.encode(IssuedKey(key=TEXT, identity=view))
    assert encoded.count(TEXT.encode()) == 1
    assert TEXT.encode() not in msgspec.json.encode(view)
    for digest in (ANN.owner, *(accepted.digest for accepted in ANN.digests)):
        assert digest.hex().encode() not in encoded


def _stored(name: str) -> StoredIdentity:
    return msgspec.structs.replace(STORED, identity=msgspec.structs.replace(ANN, name=name))


def test_pages_of_keys_go_through_both_sources_in_the_order_of_names() -> None:
    configured = [msgspec.structs.replace(ANN, name=name, source="file") for name in ("bob", "eve")]
    stored = [_stored(name) for name in ("ann", "bob", "cid", "dan")]
    seen: list[tuple[str, str]] = []
    after, pages = "", 0
    while True:
        behind = [each for each in stored if each.identity.name > after][:3]
        page = keys_view_of(configured, behind, NOW, after=after, limit=2)
        assert len(page.keys) <= 2
        seen += [(key.name, key.source) for key in page.keys]
        pages += 1
        if page.next is None:
            break
        after = page.next
    # The key of the file is in force where both have a name.
    assert seen == [("ann", "database"), ("bob", "file"), ("cid", "database"), ("dan", "database"), ("eve", "file")]
    assert pages == 3


def test_a_page_of_the_audit_log_ends_with_the_id_to_go_on_before() -> None:
    before = AuditedIdentity(rights=Rights(models=("fast",)), tags={"team": "web"}, expires=NOW)
    entries = [
        AuditEntry(
            id=number,
            time=NOW,
            actor="ada",
            action=CHANGE,
            subject="ann",
            before=before if number == 3 else None,
            after=AuditedIdentity(former_until=NOW + 60, revoked=NOW),
        )
        for number in (3, 2)
    ]
    page = audit_view_of(entries, 1)
    assert (page.next, audit_view_of(entries, 2).next, audit_view_of([], 2).next) == (3, None, None)
    (change,) = page.changes
    assert (change.id, change.time, change.actor, change.action, change.subject) == (
        3,
        "2027-01-15T08:00:00Z",
        "ada",
        "change",
        "ann",
    )
    assert change.before is not None
    assert (change.before.models, change.before.tags, change.before.expires) == (
        ("fast",),
        {"team": "web"},
        "2027-01-15T08:00:00Z",
    )
    assert (change.after.models, change.after.former_until, change.after.revoked) == (
        None,
        "2027-01-15T08:01:00Z",
        "2027-01-15T08:00:00Z",
    )
