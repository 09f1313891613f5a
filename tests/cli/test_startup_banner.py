"""What `dragoman serve` says of whom it calls, and what to try first."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from dragoman.cli.serve import curl_lines, lines_to_try, provider_lines
from dragoman.config.load import read_settings
from dragoman.providers.catalogue import catalogue
from tests.config.support import named

ADDRESS = "http://127.0.0.1:1"
LAUNCH = "dragoman launch claude"
FREE = "without a provider, at no cost:"


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
def test_the_lines_to_try_are_commands_of_a_shell_with_json_in_them(keyed: bool) -> None:
    lines = curl_lines("http://127.0.0.1:1", keyed=keyed)
    assert [shlex.split(line)[1] for line in lines] == [
        "http://127.0.0.1:1/v1/messages",
        "http://127.0.0.1:1/v1/chat/completions",
        "http://127.0.0.1:1/v1/responses",
    ]
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "curl"
        assert json.loads(words[words.index("-d") + 1])["model"].startswith("echo/")
        assert ("x-api-key: $DRAGOMAN_KEY" in words) is keyed


def greeted(
    tmp_path: Path, text: str = "", found: Mapping[str, tuple[str, ...]] | None = None, **environ: str
) -> tuple[list[str], list[str]]:
    """Names of the providers, and the lines to try, with what is a request by its model alone."""
    file = tmp_path / "dragoman.toml"
    file.write_text(text)
    settings = read_settings(named(file), environ, catalogue())
    providers = [line.split()[0] for line in provider_lines(settings, found or {}) if line[2] != " "]
    lines = []
    for line in lines_to_try(settings, found or {}, ADDRESS, keyed=False):
        words = shlex.split(line)
        lines.append(json.loads(words[-1])["model"] if words[0] == "curl" else line)
    return providers, lines


def test_without_any_provider_echo_is_what_there_is(tmp_path: Path) -> None:
    models = ["echo/text", "echo/text@anthropic-messages", "echo/text"]
    assert greeted(tmp_path) == (["echo"], models)
    assert greeted(tmp_path, "[providers.openai]\n") == (["echo"], models)
    assert greeted(tmp_path, "[server]\necho = false\n") == ([], [])


def test_with_a_provider_it_is_tried_and_echo_is_last(tmp_path: Path) -> None:
    assert greeted(tmp_path, ANTHROPIC_API_KEY="k") == (
        ["anthropic"],
        ["dragoman models --live", LAUNCH, FREE, "echo/text"],
    )
    assert greeted(tmp_path, OPENAI_API_KEY="k")[1][1] == f"{LAUNCH} --model openai/MODEL"
    assert greeted(tmp_path, '[providers.openai]\nmodels = ["gpt-9"]\n', OPENAI_API_KEY="k") == (
        ["openai"],
        ["openai/gpt-9", f"{LAUNCH} --model openai/gpt-9", FREE, "echo/text"],
    )
    line = '[models]\nfree = "echo/text"\nfast = "openai/gpt-9"\n'
    assert greeted(tmp_path, line, OPENAI_API_KEY="k")[1][0] == "fast"
    assert greeted(tmp_path, "[server]\necho = false\n", OPENAI_API_KEY="k")[1][-1] != "echo/text"
    assert greeted(tmp_path, "[providers.echo]\n", OPENAI_API_KEY="k")[0] == ["openai", "echo"]


def test_a_server_of_this_machine_that_answered_is_a_provider(tmp_path: Path) -> None:
    assert greeted(tmp_path, found={"ollama": ("qwen3", "phi")}) == (
        ["ollama"],
        ["ollama/qwen3", f"{LAUNCH} --model ollama/qwen3", FREE, "echo/text"],
    )


def test_providers_fit_a_terminal(tmp_path: Path) -> None:
    settings = read_settings(named(_written(tmp_path)), {}, catalogue())
    lines = list(provider_lines(settings, {}))
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80


def _written(folder: Path) -> Path:
    file = folder / "dragoman.toml"
    file.write_text("[server]\nport = 1\n")
    return file
