"""What is told of a command line that is wrong, and what is the same for all commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import __version__, cli
from dragoman.cli import main
from dragoman.cli.parser import STATUSES, children, command_at, options_of
from tests.cli.machine import clean, signals_restored
from tests.cli.screens import piped
from tests.server.process import ROOT


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    clean(tmp_path, monkeypatch)
    with signals_restored():
        yield


# What is typed, the first words of the usage, and what is said.
WRONG: dict[str, tuple[str, str, str]] = {
    "a command": ("lauch", "usage: dragoman [-h]", "dragoman: there is no command lauch; did you mean launch?\n"),
    "a command like none": ("zzz", "usage: dragoman [-h]", "there is no command zzz; there are init, serve, launch, "),
    "an option of all": ("--versoin", "usage: dragoman [-h]", "--versoin; did you mean --version?\n"),
    "an option": ("models --jsn", "usage: dragoman models ", "dragoman models: unrecognized arguments: --jsn; did you"),
    "an option like none": ("status --zzz", "usage: dragoman status ", "unrecognized arguments: --zzz\ntry `dragoman"),
    "an option of a part": ("key new --jsn", "usage: dragoman key new ", "dragoman key new: unrecognized arguments"),
    "a part of a command": ("key nwe", "usage: dragoman key ", "there is no command nwe; did you mean new?\n"),
    "a choice": ("env cluade", "usage: dragoman env ", "'cluade' is unknown; did you mean claude?\n"),
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
    assert [name for name in cli.COMMANDS if f"\n    {name} " not in out] == []


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
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+?) \|$", page, re.M)
    assert [(int(status), words) for status, words in rows] == list(STATUSES)
    assert main([]) == 0
    out = capfd.readouterr().out
    assert all(f"  {status:3}  {words}\n" in out for status, words in STATUSES)


# Values that only the command itself understands, and words that do not go together; what is said of each.
UNFIT: dict[str, str] = {
    "serve --host ": "--host: ",
    "serve --port 99999": "--port: ",
    "serve --port http": "--port: invalid int value",
    "serve --workers 0": "--workers: ",
    "serve --key-hash secret": "--key-hash: ",
    "launch claude --name a/b": "--name must have 1 to 64 letters",
    "launch claude --context lots": "--context is a number of tokens",
    "launch claude --gateway ftp://here": "--gateway: ",
    "launch opencode": "needs a model: --model NAME",
    "launch codex --model m --small-model s": "leave out --small-model",
    "env claude --context 0": "--context is a number of tokens",
    "env claude --gateway here": "--gateway: ",
    "env opencode": "needs a model: --model NAME",
    "status --gateway here": "--gateway: ",
    "route echo/text --gateway here": "--gateway: ",
    "models --gateway here": "--gateway: ",
    "logs --gateway here": "--gateway: ",
    "sessions --gateway here": "--gateway: ",
    "session x --gateway here": "--gateway: ",
    "top --gateway here": "--gateway: ",
    "usage --gateway here": "--gateway: ",
    "key new --gateway here": "--gateway: ",
    "key list --gateway here": "--gateway: ",
    "key show ann --gateway here": "--gateway: ",
    "key set ann --strict --gateway here": "--gateway: ",
    "key rotate ann --gateway here": "--gateway: ",
    "key revoke ann --gateway here": "--gateway: ",
    "key audit --gateway here": "--gateway: ",
    "logs -n -1": "-n: -1 is not a number of requests",
    "logs --since tomorrow": "--since: 'tomorrow' is no time",
    "logs --thread main": "--thread: invalid int value",
    "logs req_1 -f": "leave out the ID",
    "sessions -n 0": "-n: 0 is not a number of sessions",
    "sessions --since tomorrow": "--since: 'tomorrow' is no time",
    "usage --by colour": "--by: there is no group 'colour'",
    "usage --by session,thread": "say session or thread",
    "usage --since tomorrow": "--since: 'tomorrow' is no time",
    "usage --until never": "--until: 'never' is no time",
    "usage --since 1d --until 2d": "is not before until",
    "usage --zone Nowhere": "zone: 'Nowhere' is not known",
    "usage -n 0": "-n: 0 is not a number of groups",
    "usage --ids": "use it with --by provider",
    "db export --since tomorrow": "--since: 'tomorrow' is no time",
    "db export --until never": "--until: 'never' is no time",
    "db export --zone Nowhere": "zone: 'Nowhere' is not known",
    "forget": "needs --key NAME or --session ID",
    "key new a/b": 'name: "a/b" cannot name a key',
    "key new --role boss": 'there is no role "boss"',
    "key new --models **": 'models: "**" cannot be used',
    "key new --providers a/b": 'providers: "a/b" cannot be used',
    "key new --addresses 10.0.0.1/8": 'write "10.0.0.0/8"',
    "key new --paths nope": "use one of the families",
    "key new --tag team": "--tag: expected NAME=VALUE, got 'team'",
    "key new --expires soon": "--expires: 'soon' is no end",
    "key new --concurrency 0": "expected an integer from 1 to 100000, got 0",
    "key set ann --role boss": 'there is no role "boss"',
    "key set ann --models **": 'models: "**" cannot be used',
    "key set ann --providers a/b": 'providers: "a/b" cannot be used',
    "key set ann --addresses 10.0.0.1/8": 'write "10.0.0.0/8"',
    "key set ann --paths nope": "use one of the families",
    "key set ann --tag team": "--tag: expected NAME=VALUE, got 'team'",
    "key set ann --expires soon": "--expires: 'soon' is no end",
    "key set ann --concurrency 0": "expected an integer from 1 to 100000, got 0",
    "key audit -n 0": "-n: 0 is not a number of changes",
    "key rotate ann --grace soon": "--grace: 'soon' is no duration",
    "prices update --from http://here/book.json": "--from: http://here/book.json is not an https:// URL",
    "mock --port 99999": "--port: 99999 is not a port",
}
# Options of which any text is a value: whether there is such a file, key or name is found out in doing it.
ANY_TEXT = {
    *(
        "--client",
        "--config",
        "--env-file",
        "--first-key",
        "--grant",
        "--host",
        "--ignore",
        "--key",
        "--key-file",
        "--log",
        "--log-file",
    ),
    *("--log-file", "--model", "--out", "--record", "--request", "--reset", "--session", "--small-model", "--vendor"),
}


def leaves() -> list[argparse.ArgumentParser]:
    """Every command that does something."""
    parsers: list[argparse.ArgumentParser] = [cli.tree()]
    for parser in parsers:
        parsers += children(parser).values()
    return [parser for parser in parsers if parser.get_default("run") is not None]


def ended(words: list[str]) -> object:
    """How a command line ends: argparse leaves at once."""
    try:
        return main(words)
    except SystemExit as left:
        return left.code


@pytest.mark.parametrize("typed", UNFIT)
def test_a_value_that_cannot_be_understood_is_wrong_usage_and_nothing_is_done(
    typed: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ended(typed.split(" ")) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert UNFIT[typed] in captured.err
    assert list(tmp_path.iterdir()) == []


def test_every_option_of_every_command_takes_any_text_or_is_known_to_refuse_some() -> None:
    for parser in leaves():
        command = parser.prog.removeprefix("dragoman ")
        tried = [typed.removeprefix(command).split(" ") for typed in UNFIT if typed.startswith(command)]
        for action in options_of(parser):
            if action.nargs == 0 or action.choices or ANY_TEXT.intersection(action.option_strings):
                continue
            assert any(set(action.option_strings) & set(words) for words in tried), (command, action.option_strings)


@pytest.mark.parametrize("command", [parser.prog.removeprefix("dragoman ") for parser in leaves()])
def test_an_option_that_no_command_has_is_wrong_usage(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert ended([*command.split(" "), "--no-such-option"]) == 2
    assert capfd.readouterr().err.startswith("usage: dragoman ")


# What is typed where the words are right and something else is wrong.
UNDONE = (
    "check --config nowhere.toml",
    "serve --config nowhere.toml",
    "env claude --key-file nowhere.key",
    "launch claude --gateway http://127.0.0.1:1",
    "status --gateway http://127.0.0.1:1",
    "key list --gateway http://127.0.0.1:1",
    "route nobody/x",
    "key show nobody",
    "key revoke nobody",
    "models no-such-model",
    "logs req_1",
    "session nobody",
    "usage --config nowhere.toml",
    "db export --config nowhere.toml",
    "forget --key nobody",
    "explain nowhere.json",
    "trust nowhere.toml",
    "translate --to openai-chat nowhere.json",
    "prices update --from nowhere.json",
    "mock --record nowhere/file",
)


@pytest.mark.parametrize("typed", UNDONE)
def test_what_goes_wrong_in_doing_it_is_no_wrong_usage(typed: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(typed.split(" ")) == 1
    assert capfd.readouterr().err.startswith("dragoman: ")


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
    ended, _, err = piped(typed.split(), tmp_path, stdin=said.encode())
    assert ended == status
    assert "Traceback" not in err
