"""`dragoman init` as a script runs it, and what it writes; `test_init_dialogue.py` has what it asks a person."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from dragoman.cli import init, main
from dragoman.config.load import read_settings
from dragoman.identities.key_text import digest_of
from dragoman.providers.catalogue import catalogue
from tests.cli.machine import SECRET, clean
from tests.cli.screens import on_screen
from tests.config.support import named

OWN = Path(".config/dragoman/dragoman.toml")
WHICH, KEY = "empty means all: ", "a gateway key? [y/N] "


@pytest.fixture(autouse=True)
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, ...]]:
    """A machine without anything; what is put in here answers, by its address."""
    clean(tmp_path, monkeypatch)
    answering: dict[str, tuple[str, ...]] = {}

    def found_at(addresses: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        return {name: answering[url] for name, url in addresses.items() if url in answering}

    monkeypatch.setattr(init, "find_local_models", found_at)
    monkeypatch.setattr(init, "in_container", lambda: False)
    return answering


def test_pitfall_621_a_script_is_asked_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], servers: dict[str, tuple[str, ...]]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    servers["http://127.0.0.1:11434/v1"] = ("qwen3",)
    assert main(["init"]) == 0
    out = capfd.readouterr().out
    assert "   1  openai      OPENAI_API_KEY is set\n   2  ollama      answers at 127.0.0.1:11434: qwen3\n" in out
    assert out.endswith(
        f"Written: {OWN.absolute()}\nNext:\n  dragoman check --live\n  dragoman serve\n"
        "  dragoman launch claude --model ollama/qwen3\n"
    )
    text = OWN.read_text()
    assert SECRET not in text + out
    assert stat.S_IMODE(OWN.stat().st_mode) == 0o600
    settings = read_settings(named(OWN), os.environ, catalogue())
    assert [provider.name for provider in settings.listed()] == ["openai", "ollama"]
    assert main(["check"]) == 0
    assert capfd.readouterr().err == ""


def test_a_file_that_exists_is_never_changed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    OWN.parent.mkdir(parents=True)
    OWN.symlink_to(tmp_path / "nowhere")
    assert main(["init", "--yes"]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert f"{OWN.absolute()} exists and was not changed" in captured.err
    assert not (tmp_path / "nowhere").exists()
    assert main(["init", "--yes", "--config", "other.toml"]) == 0
    assert "  dragoman serve --config other.toml\n" in capfd.readouterr().out
    assert read_settings(named(Path("other.toml")), os.environ, catalogue()).providers["openai"].keys == (SECRET,)


def test_nothing_found_writes_nothing_and_says_what_to_do(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--yes"]) == 1
    out = capfd.readouterr().out
    assert max(map(len, out.splitlines())) < 80
    assert "export OPENAI_API_KEY=…" in " ".join(out.split())
    assert not OWN.parent.exists()


def test_a_dry_run_prints_the_file(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert main(["init", "--dry-run"]) == 0
    assert '\n[providers.openai]\napi_key = "$OPENAI_API_KEY"\n' in capfd.readouterr().out
    assert not OWN.parent.exists()


def test_a_key_is_shown_once_and_kept_as_its_hash(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert main(["init", "--yes", "--key"]) == 0
    shown = next(line for line in capfd.readouterr().out.splitlines() if "DRAGOMAN_KEY=" in line)
    key = shown.partition("=")[2]
    assert key not in OWN.read_text()
    (kept,) = read_settings(named(OWN), os.environ, catalogue()).keys
    assert kept.owner == digest_of(key)


def test_pitfall_628_in_a_container_servers_of_its_host_are_found(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], servers: dict[str, tuple[str, ...]]
) -> None:
    servers["http://host.docker.internal:11434/v1"] = ("qwen3",)
    assert main(["init", "--yes"]) == 1
    monkeypatch.setattr(init, "in_container", lambda: True)
    assert main(["init", "--yes"]) == 0
    assert "answers at host.docker.internal:11434" in capfd.readouterr().out
    settings = read_settings(named(OWN), {}, catalogue())
    assert settings.providers["ollama"].endpoints[0].base_url == "http://host.docker.internal:11434/v1"
    assert settings.providers["ollama"].endpoints[2].base_url == "http://host.docker.internal:11434"


@pytest.mark.parametrize("answers", [0, 1], ids=["the first question", "the second"])
def test_whoever_ends_the_input_in_the_middle_leaves_nothing(tmp_path: Path, answers: int) -> None:
    seen = on_screen(["init"], tmp_path, environ={"OPENAI_API_KEY": SECRET}, stream="both", typed=b"\n" * answers)
    assert seen.status == 1
    assert WHICH in seen.plain
    assert (KEY in seen.plain) is bool(answers)
    assert "Traceback" not in seen.plain
    assert not (tmp_path / OWN.parent).exists()
