"""Every member of every table has a kind of value, an example that it takes, and a struct that holds it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

import pytest
from msgspec import Struct

from dragoman.config import file_schema, prices, settings
from dragoman.config.values import ValueType
from dragoman.errors import ConfigError
from dragoman.routing.policies import POLICIES
from dragoman.routing.route import RuleCondition

TABLES: list[tuple[type[Struct], Mapping[str, ValueType[object]]]] = [
    (settings.Server, file_schema.SERVER),
    (settings.Timeouts, file_schema.TIMEOUTS),
    (settings.Routing, file_schema.ROUTING),
    (settings.Limits, file_schema.LIMITS),
    (settings.Storage, file_schema.STORAGE),
    (settings.Telemetry, file_schema.TELEMETRY),
    (file_schema.ProviderTable, file_schema.PROVIDER),
    (file_schema.CapabilityTable, file_schema.CAPABILITY),
    (file_schema.RouteTable, file_schema.ROUTE),
    (file_schema.RuleTable, file_schema.RULE),
    (RuleCondition, file_schema.WHEN),
    (file_schema.KeyTable, file_schema.KEY),
    (prices.PriceTable, prices.PRICE),
]


@pytest.mark.parametrize(
    ("struct", "kinds"), TABLES, ids=lambda value: value.__name__ if isinstance(value, type) else ""
)
def test_members_and_kinds_are_the_same(struct: type[Struct], kinds: Mapping[str, ValueType[object]]) -> None:
    assert tuple(kinds) == struct.__struct_fields__


@pytest.mark.parametrize(
    ("struct", "kinds"), TABLES, ids=lambda value: value.__name__ if isinstance(value, type) else ""
)
def test_every_example_can_be_written(struct: type[Struct], kinds: Mapping[str, ValueType[object]]) -> None:
    for name, kind in kinds.items():
        kind.read(tomllib.loads(f"{name} = {kind.example}")[name])


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("protocol", ["openai-chat", "openai-chat"], "expected each protocol once, got one twice"),
        ("protocol", "openai", 'expected one of anthropic-messages, openai-chat, openai-responses, got "openai"'),
        (
            "base_url",
            {"chat": "http://a"},
            'expected one of anthropic-messages, openai-chat, openai-responses, got "chat"',
        ),
        ("base_url", {"openai-chat": "a"}, "expected an address with http:// or https://, got another"),
    ],
)
def test_protocols_are_known_by_their_names(key: str, value: object, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        file_schema.PROVIDER[key].read(value)
    assert refused.value.problem == problem


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_named(policy: str) -> None:
    assert file_schema.ROUTE["policy"].read(policy) == policy
    assert f"`{policy}`" in file_schema.ROUTE["policy"].type_name


def test_capabilities_are_plain_values() -> None:
    read = file_schema.CAPABILITY["set"].read
    assert read({"thinking": ["a"], "max_output": 1, "images": True}) == {
        "thinking": ["a"],
        "max_output": 1,
        "images": True,
    }
    unfit: list[object] = [[], {"max_output": 1.5}, {"thinking": [{}]}]
    for value in unfit:
        with pytest.raises(ConfigError):
            read(value)
