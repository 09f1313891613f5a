"""Views of keys have all that a key has, and neither digest nor text."""

from __future__ import annotations

import msgspec

from dragoman.identities.identity import ADMIN, DATABASE, NO_RIGHTS, AcceptedDigest, Identity, Rights, StoredIdentity
from dragoman.identities.key_text import digest_of, new_key
from dragoman.identities.views import NewKeyView, new_view_of, view_of

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
    assert msgspec.to_builtins(view_of(ANN, NOW, STORED)) == {
        "name": "ann",
        "state": "rotated",
        "source": "database",
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
        "revoked": None,
        "created": "2027-01-15T07:59:00Z",
        "created_by": "ada",
        "generation": 7,
    }


def test_a_key_of_the_configuration_has_no_creator_and_no_generation() -> None:
    view = view_of(msgspec.structs.replace(ANN, source="file", expires=NOW), NOW)
    assert (view.state, view.created, view.created_by, view.generation) == ("expired", None, None, None)


def test_a_revoked_key_permits_nothing() -> None:
    revoked = msgspec.structs.replace(ANN, rights=NO_RIGHTS)
    view = view_of(revoked, NOW, msgspec.structs.replace(STORED, identity=revoked, revoked=NOW))
    assert (view.state, view.revoked, view.models, view.paths) == ("revoked", "2027-01-15T08:00:00Z", (), ())


def test_pitfall_733_the_text_stands_in_the_view_of_a_new_key_alone_and_digests_in_none() -> None:
    new = new_view_of(STORED, TEXT, NOW)
    assert msgspec.json.decode(msgspec.json.encode(new), type=NewKeyView) == new
    encoded = msgspec.json.encode(view_of(ANN, NOW, STORED))
    assert msgspec.json.encode(new).count(TEXT.encode()) == 1
    assert TEXT.encode() not in encoded
    for digest in (ANN.owner, *(accepted.digest for accepted in ANN.digests)):
        assert digest.hex().encode() not in encoded + msgspec.json.encode(new)
