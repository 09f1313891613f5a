"""`$NAME` reads the environment, and what it reads is in no error."""

from __future__ import annotations

import pytest

from dragoman.config.environment import header_value, is_literal, names_in, resolved, secret, visible
from dragoman.errors import ConfigError

ENVIRON = {"KEY": " sk-1\r\n", "EMPTY": " ", "TWO": "sk-1 sk-2", "LINES": "a\nb"}


def test_names_are_read_and_other_texts_are_what_they_say() -> None:
    assert resolved("$KEY", ENVIRON) == resolved("${KEY}", ENVIRON) == "sk-1"
    assert resolved("sk-$KEY", ENVIRON) == "sk-$KEY"
    assert resolved("$$KEY", ENVIRON) == "$KEY"
    assert [is_literal(text) for text in ("sk", "$KEY", "${KEY}", "$$KEY")] == [True, False, False, True]


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        ("$MISSING", "the environment variable MISSING is not set", "export MISSING=…"),
        ("${EMPTY}", "the environment variable EMPTY is empty", "export EMPTY=…"),
        ("$sk-secret", "expected $NAME or ${NAME}, got another string that begins with $", "$$"),
    ],
)
def test_a_name_that_cannot_be_read_has_a_remedy(text: str, problem: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolved(text, ENVIRON)
    assert refused.value.problem == problem
    assert remedy in refused.value.remedy
    assert "sk-secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["$TWO", "ключ-sk-1", "sk-1\x7f", "sk-1\n"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        secret(text, ENVIRON)
    assert "sk-" not in str(refused.value)


def test_a_header_stays_on_its_line() -> None:
    assert header_value("two words", ENVIRON) == "two words"
    assert header_value("$TWO", ENVIRON) == "sk-1 sk-2"
    with pytest.raises(ConfigError) as refused:
        header_value("$LINES", ENVIRON)
    assert "a\nb" not in str(refused.value)


def test_a_visible_key_stays_as_it_is() -> None:
    assert visible("sk-1$~") == "sk-1$~"


def test_the_variables_that_are_named_are_found_wherever_they_stand() -> None:
    values = {"a": "$ONE", "b": ["${TWO}", "$$NONE", "text $NOT", 3], "c": {"d": {"e": "$THREE"}}}
    assert list(names_in(values)) == ["ONE", "TWO", "THREE"]
