"""`dragoman trust`, and the question that other commands ask on a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dragoman.cli import main
from tests.cli.machine import SECRET, clean, signals_restored
from tests.cli.screens import on_screen, piped

QUESTION = "Trust it? [y/N] "
ADDRESS = "http://127.0.0.1:9/v1"
FILE = f'[providers.openai]\nbase_url = "{ADDRESS}"\napi_key = "none"\nheaders = {{ x-token = "$GITHUB_TOKEN" }}\n'


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    clean(tmp_path, monkeypatch)
    monkeypatch.setenv("GITHUB_TOKEN", SECRET)
    Path("dragoman.toml").write_text(FILE)
    with signals_restored():
        yield


def said(capfd: pytest.CaptureFixture[str], status: int, *arguments: str) -> str:
    """What a command says on standard error."""
    assert main(arguments) == status
    return capfd.readouterr().err


# Every command that reads the configuration.
READERS = (("check",), ("providers",), ("env", "claude"), ("serve", "--port", "0"), ("launch", "claude"))


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_item_3_without_a_terminal_a_found_file_is_refused_and_the_command_is_named(
    capfd: pytest.CaptureFixture[str], words: Sequence[str]
) -> None:
    (line,) = said(capfd, 1, *words).splitlines()
    assert line.startswith("dragoman: dragoman.toml: was found in the current directory, and you have not trusted it")
    assert f"`dragoman trust {Path('dragoman.toml').absolute()}`" in line
    assert SECRET not in line


def test_item_3_a_file_that_is_not_trusted_is_not_even_parsed(capfd: pytest.CaptureFixture[str]) -> None:
    Path("dragoman.toml").write_text("no TOML at all")
    assert "you have not trusted it" in said(capfd, 1, "check")


def test_item_3_trusting_tells_what_the_file_does_and_lets_it_be_used(capfd: pytest.CaptureFixture[str]) -> None:
    told = said(capfd, 0, "trust")
    assert f"  sends requests for openai to {ADDRESS}, with no key\n" in told
    assert "  sends openai the header x-token, with $GITHUB_TOKEN\n" in told
    assert "  reads $GITHUB_TOKEN from the environment\n" in told
    assert told.endswith("dragoman.toml is trusted until it is changed\n")
    assert SECRET not in told
    assert said(capfd, 0, "check") == ""
    said(capfd, 0, "trust", "dragoman.toml")
    assert said(capfd, 0, "check") == ""


def test_item_3_a_change_has_to_be_trusted_anew(capfd: pytest.CaptureFixture[str]) -> None:
    said(capfd, 0, "trust")
    with Path("dragoman.toml").open("a") as file:
        file.write("# changed\n")
    assert "you have not trusted it with this content" in said(capfd, 1, "check")


def test_item_3_trust_is_taken_back(capfd: pytest.CaptureFixture[str]) -> None:
    said(capfd, 0, "trust")
    for _ in range(2):
        assert said(capfd, 0, "trust", "--revoke") == "dragoman.toml is not trusted\n"
        assert "you have not trusted it" in said(capfd, 1, "check")


@pytest.mark.parametrize("how", ["--config", "DRAGOMAN_CONFIG", "own"])
def test_item_3_a_file_that_somebody_decided_on_is_used(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    arguments = ["--config", "dragoman.toml"] if how == "--config" else []
    if how == "DRAGOMAN_CONFIG":
        monkeypatch.setenv(how, "dragoman.toml")
    if how == "own":
        own = tmp_path / ".config/dragoman/dragoman.toml"
        own.parent.mkdir(parents=True)
        Path("dragoman.toml").rename(own)
    assert said(capfd, 0, "check", *arguments) == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"[server\n", "dragoman.toml:1: is not TOML"), (b"\xff", "is not text"), (None, "cannot be read: No such file")],
)
def test_what_cannot_be_told_is_not_trusted(
    capfd: pytest.CaptureFixture[str], content: bytes | None, words: str
) -> None:
    Path("dragoman.toml").unlink()
    if content is not None:
        Path("dragoman.toml").write_bytes(content)
    assert words in said(capfd, 1, "trust")
    assert not Path(".local").exists()


def test_without_a_home_there_is_nowhere_to_note_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("USERPROFILE", raising=False)
    assert "there is no home" in said(capfd, 1, "trust")


def test_a_file_of_a_stranger_gives_no_orders_to_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    orders = "\\u001b[2J\\u001b]0;x\\u0007\\u202e\\r"
    Path("dragoman.toml").write_text(
        f'[models]\n"{orders}" = "{orders}"\n[providers."{orders}"]\nbase_url = "{orders}"\napi_key = "${orders}"\n'
        f'[providers."{orders}".headers]\n"{orders}" = "${orders}"\n[server]\nhost = "{orders}"\n["{orders}"]\n',
    )
    told = said(capfd, 0, "trust")
    assert "x1b" in told or "u001B" in told
    assert all(char.isprintable() or char == "\n" for char in told)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_told_as_such(capfd: pytest.CaptureFixture[str]) -> None:
    os.chown("dragoman.toml", 65534, 65534)
    assert "which belongs to another user (uid 65534), is used" in " ".join(said(capfd, 0, "trust").split())


def on_a_terminal(folder: Path, answer: bytes, *words: str) -> tuple[int, str, str]:
    """A command whose input and messages are a terminal: its status, its output, and what was seen there."""
    seen = on_screen(words, folder, environ={"GITHUB_TOKEN": SECRET}, stream="stderr", typed=answer)
    return seen.status, seen.other, seen.raw


@pytest.mark.parametrize("answer", [b"y\n", b"Yes\n"])
def test_item_3_on_a_terminal_one_is_asked_once(tmp_path: Path, answer: bytes) -> None:
    status, out, seen = on_a_terminal(tmp_path, answer, "check")
    assert status == 0, seen
    assert f"sends requests for openai to {ADDRESS}" in seen
    assert "sends openai the header x-token, with $GITHUB_TOKEN" in seen
    assert "providers\topenai" in out
    assert QUESTION not in out
    assert SECRET not in seen + out
    status, _, seen = on_a_terminal(tmp_path, b"", "check")
    assert (status, QUESTION in seen) == (0, False)


# The last one is the end of the input.
@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"yes please\n", b""])
def test_item_3_whatever_is_no_yes_is_no(tmp_path: Path, answer: bytes) -> None:
    status, out, seen = on_a_terminal(tmp_path, answer, "check")
    assert (status, out) == (1, "")
    assert QUESTION in seen
    assert "you have not trusted it" in seen
    assert "Traceback" not in seen


def test_item_3_lines_for_a_shell_are_asked_about_at_the_terminal(tmp_path: Path) -> None:
    status, out, seen = on_a_terminal(tmp_path, b"y\n", "env", "claude", "--shell", "sh")
    assert status == 0, seen
    assert QUESTION in seen
    assert out.startswith("unset ANTHROPIC_API_KEY\n")


def test_a_file_that_is_too_long_to_be_told_is_not_asked_about(tmp_path: Path) -> None:
    lines = "".join(f'"model-{number}" = "echo/text"\n' for number in range(1000))
    (tmp_path / "dragoman.toml").write_text(f"[models]\n{lines}")
    status, out, seen = on_a_terminal(tmp_path, b"", "check")
    assert (status, out) == (1, "")
    assert QUESTION not in seen
    assert "too long to show" in seen
    assert "dragoman trust" in seen


def test_item_3_a_value_cannot_stand_on_the_screen_as_a_line_of_ours(tmp_path: Path) -> None:
    forged = "sends requests for openai to https://api.openai.com/v1, with the key in $OPENAI_API_KEY"
    path = "s.db" + " " * 70 + (" " * 78 + forged) * 8
    Path("dragoman.toml").write_text(f'{FILE}[storage]\npath = "{path}"\n')
    _, _, seen = on_a_terminal(tmp_path, b"n\n", "providers")
    assert QUESTION not in seen or all(
        not row.startswith((forged[:20], f"  {forged[:20]}")) for row in seen.splitlines()
    )
    Path("dragoman.toml").write_text(f'{FILE}[storage]\npath = "s.db {forged}"\n')
    _, _, seen = on_a_terminal(tmp_path, b"n\n", "providers")
    rows = seen.partition(QUESTION)[0].splitlines()
    assert rows[-1].strip() == "sends openai the header x-token, with $GITHUB_TOKEN"
    assert [row for row in rows if row.startswith("  sends requests")] == [
        f"  sends requests for openai to {ADDRESS}, with no key"
    ]


@pytest.mark.parametrize("words", ["check", "providers", "models", "prices", "doctor --offline", "env claude"])
def test_pitfall_621_without_a_terminal_a_found_file_is_refused_and_nobody_is_asked(words: str, tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text("[server]\n")
    status, out, err = piped(words.split(), tmp_path)
    assert status == 1
    assert "dragoman trust" in out + err
    assert QUESTION not in out + err
