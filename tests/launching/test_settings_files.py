"""Settings of a launch: over the user's own, which are kept, and under an administrator's, who are told of."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.launching.clients import CLIENTS, LaunchOptions
from dragoman.launching.settings_files import (
    command_line,
    managed_notes,
    own_variables,
    remove_stale,
    settings_of,
    taken_out,
)

PLAN = CLIENTS["claude"].plan(LaunchOptions(url="http://127.0.0.1:8484", model="m", launch="one"))
ENVIRONMENT = {**PLAN.environment, PLAN.key_variable: "the-key", "NO_PROXY": "127.0.0.1", "HOME": "/home/me"}


@pytest.mark.parametrize(
    ("words", "given", "rest"),
    [
        (["-p", "x"], {}, ["-p", "x"]),
        (["--settings", '{"a": 1}', "-p", "x"], {"a": 1}, ["-p", "x"]),
        (["-p", '--settings={"a": 1}'], {"a": 1}, ["-p"]),
        (["--settings", '{"a": 1}', "--settings", '{"b": 2}'], {"b": 2}, []),
        (["-p", "--", "--settings", "x"], {}, ["-p", "--", "--settings", "x"]),
    ],
)
def test_the_users_own_settings_are_taken_out_of_the_words(
    words: list[str], given: dict[str, object], rest: list[str]
) -> None:
    assert taken_out("--settings", words) == (given, rest)


@pytest.mark.parametrize("words", [["--settings"], ["--settings", "/no/such/file"], ["--settings", "{"]])
def test_settings_that_cannot_be_read_are_told(words: list[str]) -> None:
    with pytest.raises(DragomanError, match="--settings"):
        taken_out("--settings", words)


def test_what_is_ours_wins_and_the_rest_is_kept() -> None:
    given = {"env": {"ANTHROPIC_BASE_URL": "http://elsewhere", "MINE": "1"}, "apiKeyHelper": "show-key", "theme": "x"}
    made = settings_of(PLAN, ENVIRONMENT, json.loads(json.dumps(given)))
    env = made["env"]
    assert isinstance(env, dict)
    assert (made["theme"], made["apiKeyHelper"]) == ("x", "")
    assert (env["ANTHROPIC_BASE_URL"], env["MINE"]) == ("http://127.0.0.1:8484", "1")
    assert (env["ANTHROPIC_AUTH_TOKEN"], env["NO_PROXY"]) == ("the-key", "127.0.0.1")
    assert "HOME" not in env


def test_the_key_is_in_a_file_and_not_on_the_command_line() -> None:
    with command_line("/bin/claude", PLAN, ["-p"], ENVIRONMENT) as words:
        file = Path(words[2])
        assert words == ["/bin/claude", "--settings", str(file), "-p"]
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert "the-key" in file.read_text()
    assert not file.parent.exists()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which launches have theirs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_behind(place: Path, name: str = "dragoman-launch-killed") -> Path:
    """The key of a launch that was killed."""
    (place / name).mkdir(mode=0o700)
    file = place / name / "settings.json"
    file.write_text("the-key")
    return file


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_item_22_a8_the_key_of_a_launch_that_was_killed_goes_at_the_next_start(client: str, temporary: Path) -> None:
    stale, other = left_behind(temporary), left_behind(temporary, "dragoman-of-another-kind")
    plan = CLIENTS[client].plan(LaunchOptions(url="http://127.0.0.1:8484", model="m"))
    with command_line(f"/bin/{client}", plan, [], {plan.key_variable: "k"}):
        assert not stale.parent.exists()
    assert list(temporary.iterdir()) == [other.parent]


def test_item_22_a8_the_key_of_a_launch_that_runs_stays(temporary: Path) -> None:
    with command_line("/bin/claude", PLAN, [], ENVIRONMENT) as words:
        file = Path(words[2])
        assert file.parent.parent == temporary
        remove_stale()
        assert "the-key" in file.read_text()
    assert list(temporary.iterdir()) == []


def test_item_22_a8_what_is_no_launch_of_this_user_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, link = temporary / "dragoman-launch-beginning", temporary / "dragoman-launch-link"
    empty.mkdir()
    target = left_behind(temporary, "target")
    link.symlink_to(target.parent)
    (temporary / "dragoman-launch-file").touch()
    remove_stale()
    assert empty.exists() and link.exists() and target.exists()
    theirs = left_behind(temporary)
    monkeypatch.setattr(os, "getuid", lambda: theirs.stat().st_uid + 1)
    remove_stale()
    assert theirs.exists()


def test_a_client_that_goes_by_its_environment_gets_no_file() -> None:
    plan = CLIENTS["codex"].plan(LaunchOptions(url="http://127.0.0.1:8484"))
    with command_line("/bin/codex", plan, ["exec"], {}) as words:
        assert words == ["/bin/codex", *plan.arguments, "exec"]


@pytest.mark.parametrize("place", ["environment", "file", "argument"])
def test_headers_of_the_users_own_are_kept_wherever_they_are_said(place: str, tmp_path: Path) -> None:
    said = json.dumps({"env": {"ANTHROPIC_CUSTOM_HEADERS": "x-mine: 1"}})
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    words = ["--settings", said] if place == "argument" else []
    if place == "file":
        (tmp_path / "settings.json").write_text(said)
    elif place == "environment":
        environ["ANTHROPIC_CUSTOM_HEADERS"] = "x-mine: 1\n"
    wish = LaunchOptions(url="http://127.0.0.1:8484", launch="one", own=own_variables("--settings", words, environ))
    headers = CLIENTS["claude"].plan(wish).environment["ANTHROPIC_CUSTOM_HEADERS"]
    assert headers == "x-mine: 1\nx-dragoman-launch: one"


def test_managed_settings_are_told_of_if_they_are_about_the_same(tmp_path: Path) -> None:
    file = tmp_path / "managed-settings.json"
    assert managed_notes(PLAN, [file]) == []
    file.write_text(json.dumps({"env": {"MINE": "1"}, "permissions": {}}))
    assert managed_notes(PLAN, [file]) == []
    file.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://elsewhere"}}))
    more = tmp_path / "managed-settings.d/10.json"
    more.parent.mkdir()
    more.write_text(json.dumps({"apiKeyHelper": "show-key"}))
    first, second = managed_notes(PLAN, [file])
    assert first == f"{file} is managed by an administrator and sets ANTHROPIC_BASE_URL, which wins over launch"
    assert (str(more) in second, "apiKeyHelper" in second) == (True, True)
    file.write_text("{")
    more.unlink()
    assert managed_notes(PLAN, [file]) == []
