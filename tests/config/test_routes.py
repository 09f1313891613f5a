"""`[models]`: names, patterns and where they go."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config.settings import Line
from tests.config.support import problems_of, settings_of

KEY = {"OPENAI_API_KEY": "sk-1"}


def test_lines_keep_their_order(tmp_path: Path) -> None:
    text = """
[models]
"gpt-5.1" = "openai/gpt-5.1"
"fast-*" = "openai/gpt-*-mini"
"local/*" = "echo/*"
"exact" = { to = "openai/org/model:free", strict = true }
all = "echo/text"
"""
    assert settings_of(tmp_path, text, KEY).routes == (
        Line(pattern="gpt-5.1", targets=("openai/gpt-5.1",)),
        Line(pattern="fast-*", targets=("openai/gpt-*-mini",)),
        Line(pattern="local/*", targets=("echo/*",)),
        Line(pattern="exact", targets=("openai/org/model:free",), strict=True),
        Line(pattern="all", targets=("echo/text",)),
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('"a" = "openia/x"', 'models.a: names the provider "openia", which is not set up (did you mean openai?)'),
        ('"a" = "zzz/x"', 'models.a: names the provider "zzz", which is not set up (known are openai, echo)'),
        (
            '"a" = "anthropic/x"',
            'models.a: names the provider "anthropic", which is not set up '
            "(add [providers.anthropic] or export ANTHROPIC_API_KEY=…)",
        ),
        ('"a" = "ollama/x"', 'models.a: names the provider "ollama", which is not set up (add [providers.ollama])'),
        ('"a" = "x"', 'models.a: expected provider/model, found "x" (for example "openai/gpt-5.1")'),
        ('"a" = "openai/"', 'models.a: expected provider/model, found "openai/" (for example "openai/gpt-5.1")'),
        ('"a" = 1', 'models.a: expected a target in quotes or a table, found a whole number (for example "claude-*"'),
        ('gpt-5.1 = "openai/x"', 'models.gpt-5: is a table without to (put names with dots in quotes: "gpt-5.1" = …)'),
        ('"a*b*" = "openai/x"', 'models."a*b*": has more than one * on a side (keep one)'),
        ('"a*" = "openai/**"', 'models."a*": has more than one * on a side (keep one)'),
        ('"a" = "openai/*"', "models.a: has a * in its target alone"),
        ('"a b" = "openai/x"', 'models."a b": expected a model name'),
        ('"" = "openai/x"', 'models."": expected a model name'),
        ('"a" = { strict = true }', 'models.a.to: is missing (for example to = "openai/gpt-5.1")'),
        ('"a" = { to = "openai/x", strikt = true }', "models.a.strikt: is not a known key (did you mean strict?)"),
        ('"a" = { to = 1 }', "models.a.to: expected a text in quotes, found a whole number"),
    ],
)
def test_a_line_that_cannot_be_used_has_its_place(tmp_path: Path, line: str, problem: str) -> None:
    (told,) = problems_of(tmp_path, f"[models]\n{line}\n", KEY)
    assert told.startswith(f"2: {problem}")


def test_a_provider_that_cannot_be_used_is_not_told_of_twice(tmp_path: Path) -> None:
    (told,) = problems_of(tmp_path, '[providers.openai]\n[models]\na = "openai/x"\n')
    assert told.startswith("1: providers.openai.api_key: is missing")
