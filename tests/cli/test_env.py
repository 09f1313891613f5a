"""`dragoman env`: lines for a shell, and what is said about a gateway that does not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.env import default_shell
from tests.cli.machine import SECRET, clean, put_trusted
from tests.gateway.harness import Received, Reply, running, whole
from tests.gateway.says import with_provider
from tests.ports import CLOSED_PORT


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SHELL", "/bin/bash")
    port = CLOSED_PORT
    put_trusted(Path(), f'[server]\nport = {port}\n[models]\n"mine" = "echo/text"\n')


def printed(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is printed, where nothing runs."""
    assert main(["env", *arguments]) == 0
    captured = capfd.readouterr()
    assert "no gateway is running at http://127.0.0.1:" in captured.err
    return captured.out


def refused(capfd: pytest.CaptureFixture[str], *arguments: str, status: int = 1) -> str:
    """What is said where nothing is printed."""
    assert main(["env", *arguments]) == status
    captured = capfd.readouterr()
    assert captured.out == ""
    return captured.err


def test_claude_needs_an_address_and_a_word_for_a_key(capfd: pytest.CaptureFixture[str]) -> None:
    lines = printed(capfd, "claude", "--model", "mine").splitlines()
    assert "unset ANTHROPIC_API_KEY" in lines
    assert "export ANTHROPIC_MODEL=mine" in lines
    assert "export ANTHROPIC_AUTH_TOKEN=none" in lines


def test_pitfall_632_a_proxy_is_not_asked_for_this_machine(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "NO_PROXY" not in printed(capfd, "claude")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example.org:3128")
    monkeypatch.setenv("NO_PROXY", "example.com")
    out = printed(capfd, "claude")
    assert "export NO_PROXY=example.com,127.0.0.1\n" in out
    assert "export NO_PROXY=example.com; " in out.partition("# To undo this: ")[2]


def test_codex_becomes_a_function(capfd: pytest.CaptureFixture[str]) -> None:
    assert "codex() { command codex -c " in printed(capfd, "codex")


def test_opencode_is_offered_the_models_that_are_configured(capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(capfd, "opencode", "--model", "echo/tools")
    assert '"mine":{"name":"mine",' in out
    assert '"echo/thinking"' in out


def test_another_shell_may_be_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    assert "set -gx ANTHROPIC_AUTH_TOKEN 'none'" in printed(capfd, "claude", "--shell", "fish")


def test_a_key_that_is_secret_is_not_printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_trusted(Path(), Path("dragoman.toml").read_text() + f'[keys.me]\nkey = "{SECRET}"\n')
    assert "set DRAGOMAN_KEY" in refused(capfd, "claude")
    monkeypatch.setenv("DRAGOMAN_KEY", SECRET)
    out = printed(capfd, "claude")
    assert 'export ANTHROPIC_AUTH_TOKEN="$DRAGOMAN_KEY"' in out
    assert SECRET not in out


# What cannot be had, and what is said.
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "OpenCode without a model": (("opencode",), "needs a model"),
    "a small model for Codex": (("codex", "--small-model", "x"), "leave out --small-model"),
    "a context of nothing": (("claude", "--context", "0"), "a number of tokens"),
    "a context that is no number": (("claude", "--context", "much"), "for example --context 32768 or --context 128k"),
    "a file that is not there": (("claude", "--config", "nowhere.toml"), "nowhere.toml: cannot be read"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_had_is_told(capfd: pytest.CaptureFixture[str], case: str) -> None:
    arguments, words = WRONG[case]
    assert words in refused(capfd, *arguments, status=1 if "not there" in case else 2)


def test_a_port_that_nobody_knows_cannot_be_printed(capfd: pytest.CaptureFixture[str]) -> None:
    put_trusted(Path(), "[server]\nport = 0\n")
    assert "set server.port" in refused(capfd, "claude")


@pytest.mark.parametrize(
    ("shell", "kind"), [("/usr/bin/fish", "fish"), ("/bin/zsh", "sh"), ("/usr/bin/pwsh", "powershell"), ("", "sh")]
)
def test_the_kind_of_shell_is_that_of_the_user(shell: str, kind: str) -> None:
    assert default_shell({"SHELL": shell}) == kind


@pytest.mark.parametrize(
    ("url", "key", "warned"),
    [
        ("http://192.0.2.1:1", SECRET, True),
        ("http://192.0.2.1:1", "", False),
        ("https://192.0.2.1:1", SECRET, False),
        ("http://127.0.0.1:1", SECRET, False),
    ],
)
def test_a_key_in_clear_text_to_another_machine_is_warned_of(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, url: str, key: str, warned: bool
) -> None:
    monkeypatch.setenv("DRAGOMAN_KEY", key)
    monkeypatch.setattr("dragoman.cli.env.is_running", lambda address: address == url)
    assert main(["env", "claude", "--gateway", url]) == 0
    captured = capfd.readouterr()
    assert f"export ANTHROPIC_BASE_URL={url}\n" in captured.out
    assert captured.err == warned * f"dragoman: warning: the gateway's key is sent to {url} in clear text\n"


def listing(received: Received) -> Reply:
    """A provider that says how much its model takes and says."""
    return whole({"data": [{"id": "m", "context_length": 131072, "max_output_tokens": 8192}]})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("claude",), ["CLAUDE_CODE_MAX_CONTEXT_TOKENS=131072", "CLAUDE_CODE_MAX_OUTPUT_TOKENS=8192"]),
        (("claude", "--context", "128k"), ["CLAUDE_CODE_MAX_CONTEXT_TOKENS=128000"]),
        (("codex",), ["model_context_window=131072"]),
        (("opencode",), ['"chat/m":{"name":"chat/m",', '"limit":{"context":131072,"output":5461}']),
    ],
    ids=" ".join,
)
def test_what_the_gateway_that_runs_knows_of_the_model_is_told(
    capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: list[str]
) -> None:
    with running(listing, with_provider(models=None)) as house:
        assert main(["env", *arguments, "--model", "chat/m", "--gateway", house.url]) == 0
    captured = capfd.readouterr()
    assert [word for word in words if word not in captured.out] == []
    assert captured.err == ""


UNKNOWN = "so claude uses its default; set it with --context 128k"


def test_a_window_that_nobody_knows_is_said_to_be_unknown_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with running(lambda received: whole({"data": []}), with_provider(models=None)) as house:
        assert main(["env", "claude", "--model", "chat/m", "--gateway", house.url]) == 0
    captured = capfd.readouterr()
    assert captured.err == f"dragoman: note: the context window of chat/m is unknown, {UNKNOWN}\n"
    assert "CONTEXT_TOKENS" not in captured.out


def test_where_no_gateway_runs_the_configuration_is_read(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "claude", "--model", "mine"]) == 0
    told = capfd.readouterr().err.splitlines()
    assert told[0] == f"dragoman: note: the context window of mine is unknown, {UNKNOWN}"
    assert (len(told), "no gateway is running" in told[1]) == (2, True)
    assert main(["env", "claude", "--model", "mine", "--context", "1m"]) == 0
    captured = capfd.readouterr()
    assert "export CLAUDE_CODE_AUTO_COMPACT_WINDOW=1000000\n" in captured.out
    assert "guess" not in captured.err


def test_a_gateway_that_does_not_tell_is_no_obstacle(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.cli.env.is_running", lambda address: True)
    assert main(["env", "claude", "--model", "m", "--gateway", "http://127.0.0.1:1"]) == 0
    captured = capfd.readouterr()
    assert "export ANTHROPIC_MODEL=m\n" in captured.out
    assert "is unknown (the gateway at http://127.0.0.1:1 did not answer" in captured.err


def test_pitfall_640_who_says_the_window_by_the_end_of_the_name_is_not_told_of_another(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with running(listing, with_provider(models=None)) as house:
        assert main(["env", "claude", "--model", "chat/m[1m]", "--gateway", house.url]) == 0
    captured = capfd.readouterr()
    assert "CONTEXT_TOKENS" not in captured.out
    assert "export CLAUDE_CODE_MAX_OUTPUT_TOKENS=8192\n" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("url", ["127.0.0.1:8484", "ftp://x", "http://me:key@x", "http://x?a", ""])
def test_an_address_that_is_none_is_told(capfd: pytest.CaptureFixture[str], url: str) -> None:
    assert "--gateway: expected a" in refused(capfd, "claude", "--gateway", url, status=2)
