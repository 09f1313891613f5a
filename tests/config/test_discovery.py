"""What is there without being written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config.discovery import LOCAL, default_routes, discover_providers, echo_provider
from dragoman.config.load import read_settings
from dragoman.config.settings import RouteConfig
from dragoman.mock.answers.models import echo_models
from dragoman.providers.catalogue import catalogue
from tests.config.support import CATALOGUE, A, C, R, named, problems_of, settings_of


def test_echo_speaks_everything_and_prefers_what_it_is_told() -> None:
    echo = echo_provider()
    assert [endpoint.protocol for endpoint in echo.endpoints] == [C, A, R]
    assert (echo.auth, echo.transport, echo.models) == ("none", "echo", echo_models())
    assert [endpoint.protocol for endpoint in echo_provider([R]).endpoints] == [R, C, A]


def test_keys_in_the_environment_are_found() -> None:
    environ = {"OPENAI_KEY": "sk-1", "ANTHROPIC_API_KEY": " ", "AZURE_API_KEY": "sk-2", "AZURE_RESOURCE": "r"}
    providers, warnings = discover_providers(environ, CATALOGUE, ())
    assert {name: provider.keys for name, provider in providers.items()} == {"openai": ("sk-1",), "azure": ("sk-2",)}
    assert warnings == ()
    assert discover_providers(environ, CATALOGUE, ["openai", "azure"]) == ({}, ())


def test_a_key_that_is_not_enough_is_told_and_does_no_harm() -> None:
    providers, warnings = discover_providers({"AZURE_API_KEY": "sk-1", "OPENAI_API_KEY": "sk 2"}, CATALOGUE, ())
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
        RouteConfig(pattern="claude-*", targets=("anthropic/*",)),
        RouteConfig(pattern="gpt-*", targets=("openai/*",)),
        RouteConfig(pattern="o1", targets=("openai/o1",)),
    )


def test_servers_of_this_machine_are_there_without_a_table() -> None:
    settings = read_settings(None, {}, catalogue())
    assert list(settings.local) == list(LOCAL) == ["ollama", "lmstudio", "llamacpp", "vllm"]
    assert all(provider.auth == "none" and not provider.stores_responses for provider in settings.local.values())
    assert list(settings.providers) == ["echo"]
    assert list(settings.callable) == ["echo", *LOCAL]
    assert not settings.warnings


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[server]\ndiscover = false\n", []),
        ("[keys]\n", []),
        ('[keys.a]\nkey = "0123456789abcdef0"\n', []),
        ("[providers.ollama]\n", ["lmstudio", "llamacpp", "vllm"]),
        ('[providers.vllm]\napi_key = "$NOT_SET"\n', ["ollama", "lmstudio", "llamacpp"]),
    ],
)
def test_who_is_written_down_or_asked_with_keys_has_fewer_of_them(tmp_path: Path, text: str, names: list[str]) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(text)
    assert list(read_settings(named(file), {}, catalogue()).local) == names


def test_a_line_may_name_one_of_them(tmp_path: Path) -> None:
    text = '[models]\nfast = "ollama/qwen3"\n'
    assert settings_of(tmp_path, text).routes == (RouteConfig(pattern="fast", targets=("ollama/qwen3",)),)
    (told,) = problems_of(tmp_path, f"{text}[keys]\n")
    assert "add [providers.ollama]" in told


def test_echo_steps_back_once_another_is_there(tmp_path: Path) -> None:
    def listed(text: str, *found: str) -> list[str]:
        settings = settings_of(tmp_path, text)
        return [provider.name for provider in settings.listed([settings.local[name] for name in found])]

    assert listed("") == ["echo"]
    assert listed("", "ollama") == ["ollama"]
    # What is absent is not there.
    assert listed("[providers.openai]\n") == ["echo"]
    assert listed('[providers.openai]\napi_key = "k"\n') == ["openai"]
    assert listed('[providers.openai]\napi_key = "k"\n[providers.echo]\n', "ollama") == ["openai", "ollama", "echo"]
    assert listed("[server]\necho = false\n") == []


def test_echo_can_be_switched_off(tmp_path: Path) -> None:
    assert settings_of(tmp_path, "[server]\necho = false\n").providers == {}
    (told,) = problems_of(tmp_path, "[server]\necho = false\n[providers.echo]\n")
    assert told == "3: providers.echo: stands beside server.echo = false (leave out one of them)"
    (told,) = problems_of(tmp_path, '[server]\necho = false\n[models]\na = "echo/text"\n')
    assert told.startswith('4: models.a: names the provider "echo", which is not set up')
