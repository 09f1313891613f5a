"""Key names: which key of the configuration it is, in words that never hold its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config.config_file import ConfigFile, FileOrigin
from dragoman.config.key_names import key_names
from dragoman.config.load import read_settings
from dragoman.providers.catalogue import catalogue

ENVIRON = {"FIRST": "sk-first-0123456789", "SECOND": "sk-second-0123456789"}
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None, tuple[str, ...]]] = {
    "the catalogue's variable": (("sk-first-0123456789",), None, ("FIRST",)),
    "a variable of the file": (("sk-second-0123456789",), ("$SECOND",), ("SECOND",)),
    "a variable in braces": (("sk-second-0123456789",), ("${SECOND}",), ("SECOND",)),
    "a key of the file": (("sk-written-012345",), ("sk-written-012345",), ("providers.openai.api_key",)),
    "several keys": (
        ("sk-written-012345", "sk-second-0123456789"),
        ("sk-written-012345", "$SECOND"),
        ("key 1 of providers.openai.api_key", "SECOND"),
    ),
    "one that is not set is left out": (
        ("sk-written-012345",),
        ("$MISSING", "sk-written-012345"),
        ("key 2 of providers.openai.api_key",),
    ),
    "no keys": ((), None, ()),
}


@pytest.mark.parametrize("case", CASES)
def test_a_key_is_known_by_its_variable_or_its_place(case: str) -> None:
    keys, texts, expected = CASES[case]
    found = key_names(keys, provider="openai", texts=texts, variables=("UNSET", "FIRST"), environ=ENVIRON)
    assert found == expected


def test_every_provider_of_a_file_and_of_the_environment_has_names_for_its_keys(
    tmp_path: Path,
) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('[providers.anthropic]\napi_key = ["$FIRST", "sk-written-012345"]\n')
    environ = {**ENVIRON, "OPENAI_API_KEY": "sk-openai-0123456789"}
    settings = read_settings(ConfigFile(path=file, origin=FileOrigin.NAMED), environ, catalogue())
    assert settings.providers["anthropic"].key_names == ("FIRST", "key 2 of providers.anthropic.api_key")
    assert settings.providers["openai"].key_names == ("OPENAI_API_KEY",)
    for provider in settings.providers.values():
        assert not any(key in name for key in provider.keys for name in provider.key_names)
