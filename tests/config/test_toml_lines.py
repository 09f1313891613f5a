"""The line of every key is found, however it is written."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.toml_lines import KeyPath, Lines, dotted

DOCUMENT = '''\
# a comment with [brackets] = "and" 'quotes'
title = "one # no comment"

[server]
host = "a"
"port" = 1  # [not.a.table]
paths = [
  "x", # ]
  "y",
  { deep = 1, deeper = { still = [1, 2] } },
]
dotted.key . "with space" = 2

[providers.local]
text = """
[providers.fake]
base = "no"
\\""" still inside"""
literal = \'\'\'
[nor.this] \'\'\'\'
after = 3

[[providers.local.capabilities]]
model = "a"
[[providers.local.capabilities]]
model = "b"
[providers.local.capabilities.set]
official = true

[models]
"gpt-5.1" = "openai/gpt-5.1"
'claude-*' = { to = "anthropic/*", strict = true }
date = 1979-05-27 07:32:00
"\\u0061b" = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("title",), 2),
        (("server",), 4),
        (("server", "port"), 6),
        (("server", "paths"), 7),
        (("server", "paths", 0), 8),
        (("server", "paths", 1), 9),
        (("server", "paths", 2, "deeper", "still", 1), 10),
        (("server", "dotted", "key", "with space"), 12),
        (("providers",), 14),
        (("providers", "local", "text"), 15),
        (("providers", "local", "literal"), 19),
        (("providers", "local", "after"), 21),
        (("providers", "local", "capabilities"), 23),
        (("providers", "local", "capabilities", 0, "model"), 24),
        (("providers", "local", "capabilities", 1), 25),
        (("providers", "local", "capabilities", 1, "model"), 26),
        (("providers", "local", "capabilities", 1, "set", "official"), 28),
        (("models", "gpt-5.1"), 31),
        (("models", "claude-*", "strict"), 32),
        (("models", "date"), 33),
        (("models", "ab"), 34),
    ],
    ids=str,
)
def test_a_key_has_its_line(path: KeyPath, line: int) -> None:
    tomllib.loads(DOCUMENT)
    assert Lines(DOCUMENT).of(path) == line


@pytest.mark.parametrize(
    ("path", "line"), [(("server", "missing"), 4), (("missing", "too"), 1), (("models", "gpt-5.1", "x", 7), 31)]
)
def test_a_key_that_is_not_there_has_the_line_of_its_table(path: KeyPath, line: int) -> None:
    assert Lines(DOCUMENT).of(path) == line


def test_carriage_returns_and_an_empty_text() -> None:
    assert Lines("a = 1\r\n\r\nb = 2\r\n").of(("b",)) == 3
    assert Lines("").of(("b",)) == 1
    assert Lines("a = 1").of(("a",)) == 1


def test_a_key_is_shown_as_it_is_written() -> None:
    assert dotted(("models", "gpt-5.1")) == 'models."gpt-5.1"'
    assert dotted(("providers", "local", "capabilities", 1, "set")) == "providers.local.capabilities[1].set"
    assert dotted(("a\nb", "\x1b[2J")) == '"a\\u000Ab"."\\u001B[2J"'
    assert dotted(()) == ""


NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=6)
SCALARS = st.one_of(
    st.integers(-9, 9).map(str),
    st.sampled_from(["true", "1.5e3", '"]}#"', "'[x]\"'", '"""a\n"]"""', "'''\n#\n'''", '"\\""', "07:32:00", '""']),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[ # ]\n" + ", # x\n".join(items) + "\n]"),
        st.lists(inner, max_size=3).map(
            lambda items: "{" + ", ".join(f"k{index} = {item}" for index, item in enumerate(items)) + "}"
        ),
    ),
    max_leaves=6,
)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6, unique_by=lambda pair: pair[0]))
def test_every_key_of_any_document_stands_where_it_was_written(members: list[tuple[str, str]]) -> None:
    text, lines = "", []
    for name, value in members:
        lines.append(text.count("\n") + 1)
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        text += f'"{escaped}" = {value}\n'
    assert list(tomllib.loads(text)) == [name for name, _ in members]
    found = Lines(text)
    assert [found.of((name,)) for name, _ in members] == lines
