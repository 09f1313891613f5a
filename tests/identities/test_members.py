"""Members that a change may set: absent ones stay, None removes, and values that cannot be used are refused."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.identities.errors import InvalidMember
from dragoman.identities.identity import MAX_TAGS, Rights
from dragoman.identities.members import (
    MAX_CONCURRENCY,
    MAX_LIST,
    KeyMembers,
    KeyTerms,
    applied,
    is_name,
    member_problems,
    name_problem,
)

NOW = 1_800_000_000.0
LATER = datetime(2027, 6, 1, tzinfo=UTC)
LIMITED = KeyTerms(
    rights=Rights(
        role="admin",
        models=("claude-*",),
        providers=("anthropic",),
        addresses=("10.0.0.0/8",),
        paths=("embeddings",),
        strict="all",
        concurrency=3,
    ),
    tags=(("team", "web"),),
    expires=LATER.timestamp(),
)
ALL_NONE = KeyMembers(
    role=None,
    models=None,
    providers=None,
    addresses=None,
    paths=None,
    tags=None,
    expires=None,
    strict=None,
    concurrency=None,
)


def test_pitfall_737_absent_members_stay_and_none_removes() -> None:
    assert applied(KeyMembers(), LIMITED, NOW) == LIMITED
    assert applied(ALL_NONE, LIMITED, NOW) == KeyTerms()


def test_members_are_set_and_addresses_have_one_spelling() -> None:
    members = KeyMembers(
        role="admin",
        models=("claude-*",),
        providers=("anthropic",),
        addresses=("10.0.0.0/8", "2001:DB8::1"),
        paths=("embeddings",),
        tags={"team": "web", "app": "x"},
        expires=LATER,
        strict="all",
        concurrency=3,
    )
    rights = replace(LIMITED.rights, addresses=("10.0.0.0/8", "2001:db8::1/128"))
    expected = KeyTerms(rights=rights, tags=(("app", "x"), ("team", "web")), expires=LATER.timestamp())
    assert applied(members, KeyTerms(), NOW) == expected
    # Set again, they stay what they are.
    assert applied(replace(members, addresses=rights.addresses), expected, NOW) == expected


@pytest.mark.parametrize(
    ("members", "member", "words"),
    [
        (KeyMembers(role="root"), "role", "client, viewer, admin"),
        (KeyMembers(models=("a b",)), "models", "no blanks"),
        (KeyMembers(models=()), "models", "the list is empty"),
        (KeyMembers(models=("a",) * (MAX_LIST + 1)), "models", f"at most {MAX_LIST}"),
        (KeyMembers(providers=("a/b",)), "providers", "the name of a provider"),
        (KeyMembers(addresses=("10.0.0.1/8",)), "addresses", 'write "10.0.0.0/8"'),
        (KeyMembers(addresses=("here",)), "addresses", "an IP address"),
        (KeyMembers(paths=("embedings",)), "paths", "use one of the families messages"),
        (KeyMembers(paths=("files:write",)), "paths", "actions create, read, delete, cancel"),
        (KeyMembers(tags={"a b": "c"}), "tags", "1 to 64 letters"),
        (KeyMembers(tags={str(number): "x" for number in range(MAX_TAGS + 1)}), "tags", f"at most {MAX_TAGS}"),
        (KeyMembers(expires=datetime(2026, 1, 1, tzinfo=UTC)), "expires", "in the past"),
        (KeyMembers(expires=datetime(9999, 12, 31, tzinfo=UTC)), "expires", "too far"),
        (KeyMembers(concurrency=0), "concurrency", f"1 to {MAX_CONCURRENCY}"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(members: KeyMembers, member: str, words: str) -> None:
    with pytest.raises(InvalidMember) as caught:
        applied(members, KeyTerms(), NOW)
    assert caught.value.member == member
    assert words in str(caught.value)


def test_every_member_has_its_problem() -> None:
    members = KeyMembers(role="x", models=(), paths=(), tags={"": ""}, expires=datetime(2000, 1, 1, tzinfo=UTC))
    assert [problem.member for problem in member_problems(members, NOW)] == [
        "role",
        "models",
        "paths",
        "tags",
        "expires",
    ]


def test_a_document_with_an_unknown_member_or_without_a_zone_is_refused() -> None:
    decode = msgspec.json.Decoder(KeyMembers).decode
    assert decode(b'{"models":null,"expires":"2027-06-01T00:00:00Z"}') == KeyMembers(models=None, expires=LATER)
    with pytest.raises(msgspec.ValidationError, match="unknown field `modls`"):
        decode(b'{"modls":["a"]}')
    with pytest.raises(msgspec.ValidationError, match="timezone"):
        decode(b'{"expires":"2027-06-01T00:00:00"}')


@pytest.mark.parametrize(
    ("name", "is_usable"),
    [("ann", True), ("a.b-c_1", True), ("", False), ("a b", False), ("-a", False), ("a" * 65, False)],
)
def test_names(name: str, is_usable: bool) -> None:
    assert is_name(name) is is_usable
    problem = name_problem(name)
    assert (problem is None) is is_usable
    assert problem is None or "64 letters" in problem.remedy
