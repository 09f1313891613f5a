"""The first file of a machine: it says what was found, and can be used as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config.load import read_settings
from dragoman.config.starter_file import UsableProvider, render_starter_file, with_keys
from dragoman.identities.key_text import hash_text
from dragoman.providers.catalogue import catalogue
from tests.config.support import SECRET, named

OPENAI = UsableProvider(name="openai", title="OpenAI", variable="OPENAI_API_KEY", serves=("gpt-5*",))
OLLAMA = UsableProvider(name="ollama", title="Ollama", base_url="http://127.0.0.1:11434/v1", models=("qwen3",))
ELSEWHERE = UsableProvider(
    name="vllm", title="vLLM", base_url="http://host.docker.internal:8000/v1", moved=True, models=("phi",)
)
HASH = hash_text("a key of sixteen characters")


def test_keys_are_found_by_the_variable_that_holds_them() -> None:
    found = with_keys({"OPENAI_API_KEY": SECRET, "GROQ_API_KEY": " ", "AZURE_API_KEY": "k"}, catalogue())
    assert [(each.name, each.variable) for each in found] == [("openai", "OPENAI_API_KEY")]
    assert SECRET not in repr(found)


@pytest.mark.parametrize("key_hash", ["", HASH])
@pytest.mark.parametrize(
    ("chosen", "others"),
    [([OPENAI], []), ([OLLAMA], [OPENAI]), ([OPENAI, OLLAMA, ELSEWHERE], []), ([ELSEWHERE], [OLLAMA, OPENAI])],
)
def test_the_file_can_be_used(
    tmp_path: Path, chosen: list[UsableProvider], others: list[UsableProvider], key_hash: str
) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(render_starter_file(chosen, others, key_hash))
    settings = read_settings(named(file), {"OPENAI_API_KEY": SECRET}, catalogue())
    assert [provider.name for provider in settings.listed()] == [each.name for each in chosen]
    assert settings.server.discover is not bool(others)
    assert settings.keys_table is bool(key_hash)
    assert not settings.warnings
    if ELSEWHERE in chosen:
        (chat, _, messages) = settings.providers["vllm"].endpoints
        assert chat.base_url == "http://host.docker.internal:8000/v1"
        assert messages.base_url == "http://host.docker.internal:8000"


def test_it_reads_well() -> None:
    assert render_starter_file([OPENAI, OLLAMA], [], HASH).splitlines() == [
        "# Written by `dragoman init`. A change applies without a restart; `dragoman check` reports what is wrong.",
        "# `$NAME` is an environment variable: keys stay where they are.",
        "",
        "[server]",
        '# host = "127.0.0.1"        # this machine alone',
        "# port = 8484",
        "",
        "# OpenAI: its models are openai/MODEL; by itself also gpt-5*",
        "[providers.openai]",
        'api_key = "$OPENAI_API_KEY"',
        "",
        "# Ollama: its models are ollama/MODEL; it needs no key",
        "[providers.ollama]",
        '# base_url = "http://127.0.0.1:11434/v1"',
        "",
        "[models]",
        "# Names of your own; if a target fails, the next one is called:",
        '# "fast" = "ollama/qwen3"',
        '# "smart" = ["ollama/MODEL", "openai/MODEL"]',
        "",
        "# Only requests with the key of this hash are accepted; `dragoman key new --print` makes another.",
        "[keys.default]",
        f'hash = "{HASH}"',
    ]
