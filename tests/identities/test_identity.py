"""An identity is found by its owner, and its tags are short names."""

from __future__ import annotations

import pytest

from dragoman.identities.identity import is_tag
from tests.identities.holders import holder


def test_the_owner_outlives_the_digest() -> None:
    rotated = holder("a", b"new", owner=b"old")
    assert rotated.owner == b"old"
    assert [accepted.digest for accepted in rotated.digests] == [b"new"]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("team", True),
        ("cost-centre_7.a", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ("a b", False),
        ("é", False),
    ],
)
def test_what_can_be_a_tag(text: str, is_one: bool) -> None:
    assert is_tag(text) is is_one
