"""Entries in lists of keys that match no name of the configuration are reported, and no other ones."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.key_patterns import ConfiguredPatterns, overlap
from dragoman.config.load import read_settings
from dragoman.config.settings import RouteConfig, Server, Settings
from dragoman.providers.catalogue import catalogue
from tests.step_counting import StepCounter

ROUTES = tuple(RouteConfig(pattern=name, targets=("echo/text",)) for name in ("fast", "smart", "team-*"))
# Nothing is found beside the file.
CLOSED = Settings(routes=ROUTES, server=Server(discover=False))


def warned(settings: Settings, *models: str, providers: tuple[str, ...] | None = None) -> list[str]:
    return list(ConfiguredPatterns(settings).warnings("ann", models, providers))


@pytest.mark.parametrize("pattern", ["fast", "f*", "*", "*st", "team-a", "team-*", "*-a", "t*/b", "*/x", "smart"])
def test_a_pattern_that_matches_a_name_is_not_reported(pattern: str) -> None:
    assert warned(CLOSED, pattern) == []


@pytest.mark.parametrize("pattern", ["fastest", "fas", "x*", "openai/*", "gpt-5", "Fast", "team"])
def test_pitfall_736_a_pattern_without_a_name_is_reported(pattern: str) -> None:
    (warning,) = warned(CLOSED, pattern)
    assert warning.startswith(f"the key ann may use {pattern}, which matches no model name")


def test_the_nearest_name_is_suggested() -> None:
    assert warned(CLOSED, "smrat") == ["the key ann may use smrat, which matches no model name; did you mean smart?"]
    assert warned(CLOSED, providers=("x",)) == ["the key ann may use the provider x, which does not exist"]


def test_names_of_providers_present_or_absent_and_of_the_catalogue_are_names() -> None:
    settings = read_settings(None, {"ANTHROPIC_API_KEY": "sk"}, catalogue())
    assert warned(settings, "anthropic/*", "claude-*", "openai/gpt-5", "gemini/*", "gpt-5", "ollama/x") == []
    assert warned(settings, providers=("anthropic", "openai", "echo")) == []
    (warning,) = warned(settings, providers=("antropic",))
    assert warning == "the key ann may use the provider antropic, which does not exist; did you mean anthropic?"


def test_lists_that_are_absent_match_everything() -> None:
    assert list(ConfiguredPatterns(CLOSED).warnings("ann", None, None)) == []


texts = st.text("ab*", max_size=5)


@given(texts, texts)
def test_two_patterns_overlap_where_a_text_matches_both(one: str, other: str) -> None:
    def matches(pattern: str, text: str) -> bool:
        return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None

    # A shortest such text has each letter of both at most once.
    longest = len(one.replace("*", "")) + len(other.replace("*", ""))
    words = ("".join(letters) for length in range(longest + 1) for letters in itertools.product("ab", repeat=length))
    assert overlap(one, other) == any(matches(one, word) and matches(other, word) for word in words)


def test_the_work_grows_with_the_product_of_the_lengths() -> None:
    def steps(length: int) -> int:
        with StepCounter() as counter:
            overlap("*a" * 4 + "a" * length, "*b")
        return counter.steps

    # The other one has the same length.
    assert steps(120) < 3 * steps(60)
