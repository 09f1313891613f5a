"""The lines of a key are read back as the same key."""

from __future__ import annotations

import pytest

from dragoman.config.key_lines import key_lines
from dragoman.identities.changes import terms_of
from dragoman.identities.identity import ADMIN, Rights
from dragoman.identities.key_text import digest_of
from dragoman.identities.members import KeyTerms
from tests.config.test_keys import read

DIGEST = digest_of("a text")
FULL = KeyTerms(
    rights=Rights(
        role=ADMIN,
        models=("claude-*", 'q"uo\\te/*', "日本"),
        providers=("anthropic",),
        addresses=("10.0.0.0/8", "2001:db8::/32"),
        paths=("chat", "files:read"),
        strict="all",
        concurrency=4,
    ),
    tags=(("a.b", "c"), ("team", "web")),
    expires=1_800_000_000.0,
)


@pytest.mark.parametrize("terms", [KeyTerms(), FULL, KeyTerms(rights=Rights(strict=True))])
@pytest.mark.parametrize("name", ["ann", "a.b"])
def test_lines_are_read_back_as_the_same_key(name: str, terms: KeyTerms) -> None:
    (identity,), _ = read(key_lines(name, DIGEST, terms))
    assert (identity.name, identity.owner, terms_of(identity)) == (name, DIGEST, terms)


def test_members_that_are_left_out_have_no_line() -> None:
    assert key_lines("ann", DIGEST, KeyTerms()) == f'[keys.ann]\nhash = "sha256:{DIGEST.hex()}"'
