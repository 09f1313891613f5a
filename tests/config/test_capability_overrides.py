"""Rows of capabilities are checked when they are read, not when a request comes."""

from __future__ import annotations

import tomllib

import pytest

from dragoman.config.capability_overrides import expected_of, read_capability_rows
from dragoman.config.tables import ConfigTable, Problems
from dragoman.config.toml_lines import Lines
from dragoman.errors import ConfigErrors
from dragoman.rules.capabilities import Capabilities, CapabilityRow


def read(text: str) -> tuple[CapabilityRow, ...]:
    """The rows of a provider's table."""
    problems = Problems("x.toml", Lines(text))
    rows = read_capability_rows(ConfigTable(tomllib.loads(text), (), problems).table("p"))
    problems.raise_if_any()
    return rows


def test_rows_keep_their_order_and_match_in_lower_case() -> None:
    text = """
[[p.capabilities]]
protocol = "openai-chat"
set = { images = false }
[[p.capabilities]]
protocol = "anthropic-messages"
model = "Qwen*"
[p.capabilities.set]
thinking = ["enabled"]
call_ids = "mistral"
"""
    assert read(text) == (
        CapabilityRow(protocol="openai-chat", changes={"images": False}),
        CapabilityRow(
            protocol="anthropic-messages", model="qwen*", changes={"thinking": ["enabled"], "call_ids": "mistral"}
        ),
    )
    assert read("[p]\n") == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[p.capabilities]\n", "x.toml:1: p.capabilities: expected an array of tables, got a table"),
        ("[p]\ncapabilities = [1]\n", "x.toml:2: p.capabilities[0]: expected a table, got an integer"),
        ("[[p.capabilities]]\nset = {}\n", "x.toml:1: p.capabilities[0].protocol: is missing"),
        ('[[p.capabilities]]\nprotocol = "openai-chat"\n', "x.toml:1: p.capabilities[0].set: is missing"),
        (
            '[[p.capabilities]]\nprotocol = "openai-chat"\nset = {}\nmodels = "x"\n',
            "x.toml:4: p.capabilities[0].models: is not a known key (did you mean model?)",
        ),
        (
            '[[p.capabilities]]\nprotocol = "openai-chat"\n[p.capabilities.set]\nimage = true\n',
            "x.toml:4: p.capabilities[0].set.image: is not a known key (did you mean images?)",
        ),
        (
            '[[p.capabilities]]\nprotocol = "openai-chat"\nset = { images = "no" }\n',
            "x.toml:3: p.capabilities[0].set.images: expected a boolean, got a string",
        ),
        (
            '[[p.capabilities]]\nprotocol = "openai-chat"\nset = { call_ids = "long" }\n',
            "x.toml:3: p.capabilities[0].set.call_ids: expected one of standard, mistral, any, "
            'got "long" (example: call_ids = "standard")',
        ),
    ],
)
def test_a_row_that_cannot_be_used_has_its_line(text: str, problem: str) -> None:
    with pytest.raises(ConfigErrors) as refused:
        read(text)
    assert problem in str(refused.value)


def test_every_capability_has_a_type_name() -> None:
    assert all(map(expected_of, Capabilities.__struct_fields__))
