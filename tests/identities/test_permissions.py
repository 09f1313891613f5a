"""Rights permit what their patterns say, and cover those that a key may give to another."""

from __future__ import annotations

import re
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.identities.identity import ADMIN, VIEWER, Identity, Rights
from dragoman.identities.permissions import (
    MAX_NAME_LENGTH,
    _models,
    is_pattern,
    permits_address,
    permits_model,
    permits_path,
    permits_provider,
    uncovered,
)
from tests.backtracking import backtracking_repeats
from tests.identities.holders import holder


@pytest.mark.parametrize(
    ("pattern", "name", "is_permitted"),
    [
        ("fast", "fast", True),
        ("fast", "faster", False),
        ("fast", "a/fast", False),
        ("claude-*", "claude-opus-5", True),
        ("claude-*", "claude-", True),
        ("claude-*", "claude", False),
        ("claude-*", "claude-/x", False),
        ("claude-*", "anthropic/claude-opus-5", False),
        ("*-mini", "gpt-5-mini", True),
        ("*-mini", "openai/gpt-5-mini", False),
        ("bedrock/*", "bedrock/a", True),
        ("bedrock/*", "bedrock/a/b", True),
        ("bedrock/*", "bedrockz/a", False),
        ("bedrock/*", "bedrock", False),
        ("bedrock/*", "bedrock/", False),
        ("openrouter/*/x", "openrouter/a/x", True),
        ("openrouter/*/x", "openrouter/a/b/x", False),
        ("*", "anything/at/all", True),
        ("a.c", "abc", False),
        ("a*", "a\nb", True),
        ("a*ab", "ab", False),
        ("a*ab", "aab", True),
        ("*a*b*c", "abbacabc", True),
        ("*a*b*c", "acb", False),
        ("*ab*ab*", "ab/ab", False),
        ("*a/b*", "aba/b", True),
        ("*", "a" * MAX_NAME_LENGTH, True),
        ("*", "a" * (MAX_NAME_LENGTH + 1), False),
    ],
)
def test_pitfall_735_a_pattern_matches_whole_segments(pattern: str, name: str, is_permitted: bool) -> None:
    assert permits_model(Rights(models=(pattern,)), name) is is_permitted
    assert permits_model(Rights(models=("other", pattern)), name) is is_permitted


@pytest.mark.parametrize("pattern", ["*", "a*", "*a", "*a*b*c", "*a*a*a*b", "a/*", "*a*b/c*d/*", "*/*/*/*"])
def test_a_name_is_compared_in_one_way(pattern: str) -> None:
    # Whoever holds a key with such a pattern could stop the gateway otherwise, by a name on which many ways fail.
    assert backtracking_repeats(_models((pattern,))) == []


@pytest.mark.parametrize("text", ["", "a**", "a b", "a\x07", "x" * 129, "*a*b*c*d*"])
def test_what_is_no_pattern(text: str) -> None:
    assert not is_pattern(text)


def test_absent_lists_permit_everything() -> None:
    everything = Rights()
    assert permits_model(everything, "any") and permits_provider(everything, "any")
    assert permits_address(everything, None)
    assert permits_path(everything, "files", "create", is_open=True)
    assert not permits_path(everything, "files", "read", is_open=False)


def test_providers_and_addresses_are_matched_exactly() -> None:
    rights = Rights(providers=("anthropic",), addresses=("10.0.0.0/8", "::1/128"))
    assert permits_provider(rights, "anthropic") and not permits_provider(rights, "anthropic2")
    assert permits_address(rights, ip_address("10.1.2.3")) and permits_address(rights, ip_address("::1"))
    assert not permits_address(rights, ip_address("11.0.0.1"))


def test_pitfall_738_an_unknown_address_is_in_no_list() -> None:
    assert not permits_address(Rights(addresses=("0.0.0.0/0", "::/0")), None)


def test_a_closed_action_must_be_named() -> None:
    families = Rights(paths=("files", "batches:read"))
    assert permits_path(families, "files", "create", is_open=True)
    assert not permits_path(families, "files", "read", is_open=False)
    assert permits_path(families, "batches", "read", is_open=False)
    assert not permits_path(families, "batches", "create", is_open=True)
    assert not permits_path(families, "chat", "create", is_open=True)


MAKER = holder(
    "maker",
    b"1",
    rights=Rights(
        role=ADMIN,
        models=("claude-*", "openai/*"),
        providers=("anthropic", "openai"),
        addresses=("10.0.0.0/8",),
        paths=("embeddings", "files:read"),
        strict=True,
        concurrency=4,
    ),
)
MADE = replace(MAKER.rights, role=VIEWER)


@pytest.mark.parametrize(
    ("rights", "member"),
    [
        (MADE, None),
        (MAKER.rights, None),
        (replace(MADE, models=("claude-opus-*", "openai/gpt-*", "openai/a/*")), None),
        (replace(MADE, models=None), "models"),
        (replace(MADE, models=("claude-*", "*")), "models"),
        (replace(MADE, models=("*-5",)), "models"),
        (replace(MADE, providers=("openai",)), None),
        (replace(MADE, providers=None), "providers"),
        (replace(MADE, providers=("mistral",)), "providers"),
        (replace(MADE, addresses=("10.1.0.0/16",)), None),
        (replace(MADE, addresses=None), "addresses"),
        (replace(MADE, addresses=("10.0.0.0/8", "::1/128")), "addresses"),
        (replace(MADE, addresses=("0.0.0.0/0",)), "addresses"),
        (replace(MADE, paths=("embeddings:create", "files:read")), None),
        (replace(MADE, paths=None), "paths"),
        (replace(MADE, paths=("files",)), "paths"),
        (replace(MADE, paths=("embeddings:read",)), "paths"),
        (replace(MADE, strict="all"), None),
        (replace(MADE, strict=False), "strict"),
        (replace(MADE, concurrency=1), None),
        (replace(MADE, concurrency=5), "concurrency"),
        (replace(MADE, concurrency=None), "concurrency"),
    ],
)
def test_pitfall_444_a_key_gives_no_more_than_it_has(rights: Rights, member: str | None) -> None:
    assert uncovered(MAKER, rights, (), None) == member


def test_an_admin_without_lists_gives_everything_that_is_open_by_default() -> None:
    admin = holder("admin", b"1", rights=Rights(role=ADMIN))
    assert uncovered(admin, Rights(role=ADMIN), (), None) is None
    assert uncovered(admin, Rights(paths=("files", "chat:create")), (), None) is None
    assert uncovered(admin, Rights(paths=("files:read",)), (), None) == "paths"


def test_only_an_admin_makes_keys_and_its_end_and_tags_bind() -> None:
    assert uncovered(holder("viewer", b"1", rights=Rights(role=VIEWER)), Rights(), (), None) == "role"
    admin = replace(holder("admin", b"1", rights=Rights(role=ADMIN)), expires=100.0, tags=(("team", "web"),))
    tags = (("cost", "7"), ("team", "web"))
    assert uncovered(admin, Rights(), tags, 100.0) is None
    assert uncovered(admin, Rights(), tags, 101.0) == "expires"
    assert uncovered(admin, Rights(), tags, None) == "expires"
    assert uncovered(admin, Rights(), (("team", "ops"),), 100.0) == "tags"


SEGMENTS = st.text("ab*", min_size=1, max_size=4)
PATTERNS = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join).filter(is_pattern)


@given(pattern=PATTERNS, name=st.text("ab/", max_size=10))
def test_every_way_in_which_a_pattern_matches_is_found(pattern: str, name: str) -> None:
    *parents, last = pattern.split("/")
    parts = [re.escape(part).replace(r"\*", "[^/]*") for part in parents]
    parts.append(".+" if parents and last == "*" else re.escape(last).replace(r"\*", "[^/]*"))
    matches = pattern == "*" or re.fullmatch("/".join(parts), name) is not None
    assert permits_model(Rights(models=(pattern,)), name) is matches


@given(outer=PATTERNS, inner=PATTERNS, fillings=st.lists(st.sampled_from(["", "a", "b", "ab", "b/a"]), max_size=8))
def test_a_covered_pattern_matches_nothing_that_the_covering_one_does_not(
    outer: str, inner: str, fillings: list[str]
) -> None:
    maker: Identity = holder("maker", b"1", rights=Rights(role=ADMIN, models=(outer,)))
    if uncovered(maker, Rights(models=(inner,)), (), None) is None:
        name = inner
        for filling in fillings:
            name = name.replace("*", filling, 1)
        name = name.replace("*", "b")
        if permits_model(Rights(models=(inner,)), name):
            assert permits_model(maker.rights, name)
