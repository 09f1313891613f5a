"""What is told of a command line that is wrong, and what is the same for all commands."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import __version__, cli
from dragoman.cli import main
from dragoman.cli.parser import STATUSES, children, command_at, options_of
from tests.cli.machine import clean
from tests.server.process import PATIENCE, ROOT, clean_environment


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)


# What is typed, the first words of the usage, and what is said.
WRONG: dict[str, tuple[str, str, str]] = {
    "a command": ("lauch", "usage: dragoman [-h]", "dragoman: there is no command lauch; did you mean launch?\n"),
    "a command like none": ("zzz", "usage: dragoman [-h]", "there is no command zzz; there are init, serve, launch, "),
    "an option of all": ("--versoin", "usage: dragoman [-h]", "--versoin; did you mean --version?\n"),
    "an option": ("models --jsn", "usage: dragoman models ", "dragoman models: unrecognized arguments: --jsn; did you"),
    "an option like none": ("status --zzz", "usage: dragoman status ", "unrecognized arguments: --zzz\ntry `dragoman"),
    "an option of a part": ("key new --jsn", "usage: dragoman key new ", "dragoman key new: unrecognized arguments"),
    "a part of a command": ("key nwe", "usage: dragoman key ", "there is no command nwe; did you mean new?\n"),
    "a choice": ("env cluade", "usage: dragoman env ", "'cluade' is not known; did you mean claude?\n"),
    "nothing where something must be": ("route", "usage: dragoman route ", "arguments are required: MODEL\n"),
    "a command that controls": ("\x1b[2J", "usage: dragoman [-h]", "there is no command \\x1b[2J; "),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_the_usage_of_its_command(case: str, capfd: pytest.CaptureFixture[str]) -> None:
    typed, usage, words = WRONG[case]
    with pytest.raises(SystemExit) as ended:
        main(typed.split(" "))
    assert ended.value.code == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(usage)
    assert words in captured.err
    assert "\x1b" not in captured.err


def test_without_a_command_there_is_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out = capfd.readouterr().out
    assert out.startswith("usage: dragoman ")
    assert [f"\n    {name.rpartition('.')[2]} " in out for name in (c.__name__ for c in cli.COMMANDS)] == [True] * len(
        cli.COMMANDS
    )


def test_the_version_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capfd.readouterr().out == f"dragoman {__version__}\n"


def test_every_command_and_each_of_its_options_has_help() -> None:
    parsers: list[argparse.ArgumentParser] = [cli.tree()]
    while parsers:
        parser = parsers.pop()
        parsers += children(parser).values()
        assert parser.prog and (parser.description or parser.prog.split()[-1] in ("serve", "mock")), parser.prog
        for action in options_of(parser):
            assert action.help, (parser.prog, action.option_strings)
        assert any("--color" in action.option_strings for action in options_of(parser)), parser.prog


def test_every_help_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parsers: list[argparse.ArgumentParser] = [cli.tree()]
    while parsers:
        parser = parsers.pop()
        parsers += children(parser).values()
        assert max(map(len, parser.format_help().splitlines())) <= 80, parser.prog


@pytest.mark.parametrize(
    ("words", "at"),
    [("", 0), ("serve --port 1", 0), ("--color never serve", 2), ("--color=never serve", 1), ("--color", 1)],
)
def test_the_command_stands_behind_what_is_for_all(words: str, at: int) -> None:
    assert command_at(words.split()) == at


def test_options_for_all_stand_before_launch_too(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--color", "never", "launch", "nobody", "--", "--client-word"])
    assert ended.value.code == 2
    assert "--client-word" not in capfd.readouterr().err


def test_the_exit_statuses_are_in_the_help_and_on_the_page(capfd: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+?) \|$", page, re.M)
    assert [(int(status), words) for status, words in rows] == list(STATUSES)
    assert main([]) == 0
    out = capfd.readouterr().out
    assert all(f"  {status:3}  {words}\n" in out for status, words in STATUSES)


REQUEST = '{"model":"m","messages":[{"role":"user","content":"Hi"}]}'
LOSING = '{"model":"m","logit_bias":{"1":1},"messages":[{"role":"user","content":"Hi"}]}'
# What is typed, what is on standard input, and how it ends.
ENDS: dict[str, tuple[str, str, int]] = {
    "done": ("translate --to openai-responses", REQUEST, 0),
    "refused": ("translate --to openai-responses", "{", 1),
    "wrong usage": ("translate --to nowhere", REQUEST, 2),
    "something lost": ("translate --strict --to anthropic-messages", LOSING, 3),
}


@pytest.mark.parametrize("case", ENDS)
def test_exit_statuses_are_as_promised(case: str, tmp_path: Path) -> None:
    typed, said, status = ENDS[case]
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", *typed.split()],
        input=said.encode(),
        capture_output=True,
        cwd=tmp_path,
        env=clean_environment(tmp_path),
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == status
    assert b"Traceback" not in done.stderr
