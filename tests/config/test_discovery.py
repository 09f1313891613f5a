"""What is there without being written down."""

from __future__ import annotations

from dragoman.config.discovery import default_routes, discovered, echo_provider
from dragoman.config.settings import Line
from dragoman.mock.answers.models import echo_models
from tests.config.support import CATALOGUE, A, C, R


def test_echo_speaks_everything_and_prefers_what_it_is_told() -> None:
    echo = echo_provider()
    assert [endpoint.protocol for endpoint in echo.endpoints] == [C, A, R]
    assert (echo.auth, echo.transport, echo.models) == ("none", "echo", echo_models())
    assert [endpoint.protocol for endpoint in echo_provider([R]).endpoints] == [R, C, A]


def test_keys_in_the_environment_are_found() -> None:
    environ = {"OPENAI_KEY": "sk-1", "ANTHROPIC_API_KEY": " ", "AZURE_API_KEY": "sk-2", "AZURE_RESOURCE": "r"}
    providers, warnings = discovered(environ, CATALOGUE, ())
    assert {name: provider.keys for name, provider in providers.items()} == {"openai": ("sk-1",), "azure": ("sk-2",)}
    assert warnings == ()
    assert discovered(environ, CATALOGUE, ["openai", "azure"]) == ({}, ())


def test_a_key_that_is_not_enough_is_told_and_does_no_harm() -> None:
    providers, warnings = discovered({"AZURE_API_KEY": "sk-1", "OPENAI_API_KEY": "sk 2"}, CATALOGUE, ())
    assert providers == {}
    first, second = warnings
    assert first.startswith(
        "OPENAI_API_KEY is set, but openai cannot be used: api_key OPENAI_API_KEY holds a character"
    )
    assert second == (
        "AZURE_API_KEY is set, but azure cannot be used: "
        'resource: the environment variable AZURE_RESOURCE is not set (set resource = "…" or export AZURE_RESOURCE=…)'
    )
    assert "sk" not in first + second


def test_providers_answer_to_what_the_catalogue_says() -> None:
    assert default_routes(["anthropic", "local", "openai"], CATALOGUE) == (
        Line(pattern="claude-*", targets=("anthropic/*",)),
        Line(pattern="gpt-*", targets=("openai/*",)),
        Line(pattern="o1", targets=("openai/o1",)),
    )
