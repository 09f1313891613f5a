"""Clients with their versions, and settings of theirs that lead to nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.cli.doctor.clients import clients
from dragoman.cli.doctor.report import BLOCKED

URL = "http://127.0.0.1:1/v1"


def put_program(folder: Path, name: str, script: str) -> Path:
    """A program of a name."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def test_versions_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "bin"
    claude = put_program(folder, "claude", "[ \"$1\" = --version ] && echo '9.9.9 (Claude Code)'")
    section = clients({"HOME": str(tmp_path), "PATH": f"{folder}:/usr/bin:/bin"}, timeout=60.0)
    assert dict(section.facts) == {
        "claude": f"9.9.9 (Claude Code), {claude}",
        "codex": "not installed",
        "opencode": "not installed",
    }
    assert section.wrong == 0


def test_a_client_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "bin"
    codex = put_program(folder, "codex", "exec sleep 600")
    section = clients({"HOME": str(tmp_path), "PATH": f"{folder}:/usr/bin:/bin"}, timeout=0.1)
    assert dict(section.facts)["codex"] == f"{codex}, which did not print its version within 0.1 s"
    assert section.wrong == 0


def test_pitfall_623_settings_of_clients_that_point_at_nothing_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    for folder in (home / ".claude", home / ".codex", home / ".config/opencode", here / ".claude"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    (home / ".claude/settings.json").write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": URL}}))
    (home / ".codex/config.toml").write_text(f'[model_providers.mine]\nbase_url = "{URL}"\n')
    provider = {"options": {"baseURL": URL}}
    (home / ".config/opencode/opencode.json").write_text(json.dumps({"provider": {"a": provider, "b": 5}}))
    # Of files that cannot be read nothing is said: the client does that.
    (here / ".claude/settings.json").write_text("{")
    (here / "opencode.json").write_text("[]")
    found = clients({"HOME": str(home), "PATH": "/nowhere"}).findings
    assert [finding.message.partition(" points")[0] for finding in found] == [
        f"env.ANTHROPIC_BASE_URL in {home}/.claude/settings.json",
        f"model_providers.mine.base_url in {home}/.codex/config.toml",
        f"provider.a.options.baseURL in {home}/.config/opencode/opencode.json",
    ]
    assert {finding.heading for finding in found} == {BLOCKED}
    assert URL not in str(found)
    assert clients({"HOME": str(home), "PATH": "/nowhere"}, lambda url: "").findings == ()
