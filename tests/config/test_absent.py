"""Providers of the file that are not there, because a variable is not set (decision 29)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config.load import read_settings
from dragoman.config.settings import RouteConfig
from dragoman.providers.catalogue import catalogue
from tests.config.support import CATALOGUE, SECRET, named, problems_of, settings_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "name", "key", "variable"),
    [
        ("[providers.openai]\n", "openai", "1 providers.openai.api_key", "OPENAI_API_KEY"),
        ('[providers.openai]\napi_key = "$NOPE"\n', "openai", "2 providers.openai.api_key", "NOPE"),
        ('[providers.openai]\napi_key = ["$NOPE"]\n', "openai", "2 providers.openai.api_key", "NOPE"),
        (
            '[providers.openai]\napi_key = "k"\nheaders = { x = "$TEAM" }\n',
            "openai",
            "3 providers.openai.headers",
            "TEAM",
        ),
        ('[providers.azure]\napi_key = "k"\nresource = "$RES"\n', "azure", "3 providers.azure.resource", "RES"),
        ('[providers.azure]\napi_key = "k"\n', "azure", "1 providers.azure.resource", "AZURE_RESOURCE"),
        ('[providers.openai]\napi_key = "$EMPTY"\n', "openai", "2 providers.openai.api_key", "EMPTY"),
    ],
)
def test_a_provider_whose_variable_is_not_set_is_absent(
    tmp_path: Path, text: str, name: str, key: str, variable: str
) -> None:
    settings = settings_of(tmp_path, f"{text}[providers.ollama]\n", {"EMPTY": " "})
    missing = settings.absent[name]
    assert (f"{missing.line} {missing.key}", missing.variable) == (key, variable)
    assert list(settings.providers) == ["ollama", "echo"]
    (told,) = settings.warnings
    state = "empty" if variable == "EMPTY" else "not set"
    assert told.startswith(f"providers.{name} is left out: the environment variable {variable} is {state} (")
    assert f"export {variable}=…" in told


def test_one_of_several_keys_that_is_not_set_is_left_out(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[providers.openai]\napi_key = ["$ONE", "$TWO"]\n', {"TWO": SECRET})
    assert not settings.absent
    assert settings.providers["openai"].keys == (SECRET,)
    assert [each.variable for each in settings.missing] == ["ONE"]
    assert settings.warnings == (
        "a key of providers.openai is left out: the environment variable ONE is not set (export ONE=…)",
    )


def test_everything_that_is_not_set_is_told(tmp_path: Path) -> None:
    text = '[providers.openai]\napi_key = ["$ONE", "$TWO"]\nheaders = { x = "$THREE" }\n'
    settings = settings_of(tmp_path, text)
    assert settings.absent["openai"].variable == "THREE"
    assert [each.variable for each in settings.missing] == ["THREE", "ONE", "TWO"]


def test_what_is_missing_is_told_beside_what_is_wrong(tmp_path: Path) -> None:
    assert problems_of(tmp_path, "[server]\nport = 0.5\n[providers.openai]\n")[1] == (
        "3: providers.openai.api_key: the environment variable OPENAI_API_KEY is not set (export OPENAI_API_KEY=…)"
    )


def test_another_variable_of_the_catalogue_is_not_used_in_its_place(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[providers.openai]\napi_key = "$WORK"\n', {"OPENAI_API_KEY": SECRET})
    assert settings.absent["openai"].variable == "WORK"
    assert list(settings.providers) == ["echo"]


def test_its_automatic_names_are_nobody_elses(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "[providers.openai]\n", {"ANTHROPIC_API_KEY": SECRET})
    assert settings.defaults == (
        RouteConfig(pattern="claude-*", targets=("anthropic/*",)),
        RouteConfig(pattern="gpt-*", targets=("openai/*",)),
        RouteConfig(pattern="o1", targets=("openai/o1",)),
    )


def test_a_line_may_name_a_provider_that_only_lacks_its_key(tmp_path: Path) -> None:
    text = '[models]\nsmart = ["anthropic/x", "openai/y"]\n'
    settings = settings_of(tmp_path, text, {"OPENAI_API_KEY": SECRET})
    missing = settings.absent["anthropic"]
    assert (missing.key, missing.line, missing.has_table) == ("models.smart[0]", 2, False)
    assert settings.warnings == (
        "anthropic is left out: the environment variable ANTHROPIC_API_KEY is not set "
        "(add [providers.anthropic] or export ANTHROPIC_API_KEY=…)",
    )
    (told,) = problems_of(tmp_path, f"[server]\ndiscover = false\n[providers.openai]\napi_key = 'k'\n{text}")
    assert told.startswith('6: models.smart[0]: names the provider "anthropic", which is not set up')


def test_a_gateway_key_that_cannot_be_read_is_an_error_as_ever(tmp_path: Path) -> None:
    (told,) = problems_of(tmp_path, '[keys.a]\nkey = "$NOPE"\n')
    assert told == "2: keys.a.key: the environment variable NOPE is not set (export NOPE=…)"


def test_pitfall_634_every_example_starts_in_an_empty_environment() -> None:
    assert (ROOT / "examples").is_dir()
    # Those of several machines need the address of their database.
    for path in sorted(ROOT.glob("examples/*.toml")):
        settings = read_settings(named(path), {}, catalogue())
        assert settings.providers, path
        assert all(missing.variable for missing in settings.missing), path


def test_pitfall_634_a_file_that_names_three_secrets_starts_without_them(tmp_path: Path) -> None:
    text = "".join(f'[providers.{name}]\napi_key = "${name.upper()}"\n' for name in ("openai", "anthropic"))
    file = tmp_path / "dragoman.toml"
    file.write_text(f'{text}[providers.azure]\napi_key = "$A"\nresource = "r"\n')
    settings = read_settings(named(file), {}, CATALOGUE)
    assert list(settings.providers) == ["echo"]
    assert list(settings.absent) == ["openai", "anthropic", "azure"]
