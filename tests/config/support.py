"""A small catalogue, and a reader of settings from text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dragoman.config.config_file import ConfigFile, FileOrigin
from dragoman.config.load import read_settings
from dragoman.config.settings import Settings
from dragoman.errors import ConfigErrors
from dragoman.providers.catalogue import CatalogueEntry, ListedEndpoint
from dragoman.rules.capabilities import CapabilityRow

A, C, R = "anthropic-messages", "openai-chat", "openai-responses"
SECRET = "sk-0123456789abcdef-secret"


def _at(**addresses: str) -> tuple[ListedEndpoint, ...]:
    names = {"a": A, "c": C, "r": R}
    return tuple(ListedEndpoint(protocol=names[letter], base_url=url) for letter, url in addresses.items())


_LISTINGS = (
    CatalogueEntry(
        name="openai",
        title="OpenAI",
        source="https://openai.example/docs",
        env=("OPENAI_API_KEY", "OPENAI_KEY"),
        serves=("gpt-*", "o1"),
        endpoints=_at(r="https://api.openai.example/v1", c="https://api.openai.example/v1"),
        counts_tokens=True,
        capabilities=(CapabilityRow(protocol=C, changes={"official": True}, source="https://openai.example/docs"),),
    ),
    CatalogueEntry(
        name="anthropic",
        title="Anthropic",
        source="https://anthropic.example/docs",
        env=("ANTHROPIC_API_KEY",),
        serves=("claude-*",),
        endpoints=_at(a="https://api.anthropic.example"),
        anthropic=True,
    ),
    CatalogueEntry(
        name="ollama",
        title="Ollama",
        source="https://ollama.example/docs",
        auth="none",
        endpoints=_at(c="http://127.0.0.1:11434/v1", a="http://127.0.0.1:11434"),
    ),
    CatalogueEntry(
        name="azure",
        title="Azure OpenAI",
        source="https://azure.example/docs",
        env=("AZURE_API_KEY",),
        needs=("resource",),
        option_env={"resource": ("AZURE_RESOURCE",), "api_version": ("OPENAI_API_VERSION",)},
        endpoints=_at(c="https://{resource}.azure.example"),
        transport="azure",
        vendor="openai",
    ),
    CatalogueEntry(
        name="bedrock",
        title="Bedrock",
        source="https://bedrock.example/docs",
        env=("BEDROCK_TOKEN",),
        auth="aws",
        transport="bedrock",
        needs=("region",),
        option_env={"region": ("BEDROCK_REGION",)},
        endpoints=_at(a="https://{region}.bedrock.example"),
    ),
    CatalogueEntry(
        name="docker",
        title="Docker",
        source="https://docker.example/docs",
        auth="none",
        endpoints=_at(c="http://127.0.0.1:1/engines/v1", a="http://127.0.0.1:1/anthropic"),
    ),
)
CATALOGUE: Mapping[str, CatalogueEntry] = {listing.name: listing for listing in _LISTINGS}


def named(path: Path) -> ConfigFile:
    """A file that somebody has named."""
    return ConfigFile(path=path, origin=FileOrigin.NAMED)


def settings_of(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of a text."""
    file = tmp_path / "dragoman.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return read_settings(named(file), environ or {}, CATALOGUE)


def problems_of(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """What is wrong with a text, without the path of its file, one problem each; never with a secret in it."""
    with pytest.raises(ConfigErrors) as refused:
        settings_of(tmp_path, text, environ)
    assert SECRET not in repr(refused.value)
    assert SECRET[:8] not in str(refused.value)
    prefix = f"{tmp_path / 'dragoman.toml'}:"
    assert all(str(problem).startswith(prefix) for problem in refused.value.problems)
    return [str(problem).removeprefix(prefix) for problem in refused.value.problems]
