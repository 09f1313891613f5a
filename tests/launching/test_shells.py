"""Lines for shells: real shells take them in where they are installed; PowerShell's are read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.launching.clients import LaunchPlan
from dragoman.launching.keys import PLACEHOLDER, GivenKey
from dragoman.launching.shells import SHELLS, shell_lines, undo_lines

SECRET = "sk-0123456789abcdef-secret"
VALUE = """it's "so" $HOME `x` \\ end"""
PLAN = LaunchPlan(
    key_variable="TOKEN", environment={"VALUE": VALUE}, removed=("GONE",), arguments=("-c", f"a={VALUE}", "two words")
)
PROGRAM = "printer"
SHOW = "printer 'of the user'; printenv VALUE; printenv TOKEN; printenv GONE; true"


# The shells of this machine, and the kind of lines that each takes; sh is everywhere.
HERE = [
    (shell, kind)
    for shell, kind in (("sh", "sh"), ("bash", "sh"), ("zsh", "sh"), ("fish", "fish"))
    if shell == "sh" or shutil.which(shell)
]


def taken(shell: str, lines: list[str], tmp_path: Path) -> list[str]:
    """What a program and a shell see after the shell took in the lines."""
    program = tmp_path / PROGRAM
    program.write_text('#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n')
    program.chmod(0o755)
    done = subprocess.run(
        [shell, "-c", "\n".join([*lines, SHOW])],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "GONE": "still there", "DRAGOMAN_KEY": SECRET},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("shell", "kind"), HERE)
def test_a_shell_takes_the_lines_in(shell: str, kind: str, tmp_path: Path) -> None:
    lines = shell_lines(PLAN, PROGRAM, GivenKey(text=SECRET), SHELLS[kind])
    assert SECRET not in "\n".join(lines)
    words = ["<-c>", f"<a={VALUE}>", "<two words>", "<of the user>"]
    assert taken(shell, lines, tmp_path) == [*words, VALUE, SECRET]


@pytest.mark.parametrize(("shell", "kind"), HERE)
def test_a_key_in_a_file_is_read_by_the_shell(shell: str, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "key of 'mine'"
    file.write_text(f"{SECRET}\n")
    lines = shell_lines(PLAN, PROGRAM, GivenKey(text=SECRET, file=str(file)), SHELLS[kind])
    assert SECRET not in "\n".join(lines)
    assert taken(shell, lines, tmp_path)[-1] == SECRET


UNDO = "# To undo this: "


@pytest.mark.parametrize(("shell", "kind"), HERE)
def test_pitfall_623_the_lines_say_how_to_undo_themselves(shell: str, kind: str, tmp_path: Path) -> None:
    key = GivenKey(text=SECRET)
    lines = shell_lines(PLAN, PROGRAM, key, SHELLS[kind])
    undo = undo_lines(PLAN, PROGRAM, key, SHELLS[kind], {"GONE": "still there", "KEPT": "x"})
    assert SECRET not in "\n".join(undo) and "still there" not in "\n".join(undo)
    # As comments they do nothing.
    assert taken(shell, [*lines, *undo], tmp_path) == taken(shell, lines, tmp_path)
    # Typed in, they leave nothing of the lines.
    typed = undo[0].removeprefix(UNDO)
    assert undo[0].startswith(UNDO)
    assert taken(shell, [*lines, typed], tmp_path) == ["<of the user>"]
    assert undo[1:] == ["# A new shell has these again, as they were: GONE"]


def test_a_variable_that_was_added_to_gets_back_what_it_had() -> None:
    plan = LaunchPlan(key_variable="TOKEN", environment={"NO_PROXY": "a,127.0.0.1"})
    key = GivenKey(text=PLACEHOLDER)
    (line,) = undo_lines(plan, PROGRAM, key, SHELLS["sh"], {"NO_PROXY": "a"}, restored=("NO_PROXY",))
    assert line == f"{UNDO}export NO_PROXY=a; unset TOKEN"
    (line,) = undo_lines(plan, PROGRAM, key, SHELLS["fish"], {}, restored=("NO_PROXY",))
    assert line == f"{UNDO}set -e NO_PROXY; set -e TOKEN"


def test_who_changes_nothing_has_nothing_to_undo() -> None:
    plan = LaunchPlan(key_variable="DRAGOMAN_KEY", environment={})
    assert undo_lines(plan, PROGRAM, GivenKey(text=SECRET), SHELLS["sh"], {}) == []


def test_a_variable_that_is_set_already_is_left_alone() -> None:
    plan = LaunchPlan(key_variable="DRAGOMAN_KEY", environment={})
    assert shell_lines(plan, PROGRAM, GivenKey(text=SECRET), SHELLS["sh"]) == []
    assert shell_lines(plan, PROGRAM, GivenKey(text=PLACEHOLDER), SHELLS["sh"]) == ["export DRAGOMAN_KEY=none"]


def test_powershell_has_words_of_its_own() -> None:
    plan = LaunchPlan(key_variable="TOKEN", environment={"VALUE": "it's"}, removed=("GONE",), arguments=("-c", "a=b c"))
    assert shell_lines(plan, PROGRAM, GivenKey(text=SECRET), SHELLS["powershell"]) == [
        "Remove-Item Env:GONE -ErrorAction SilentlyContinue",
        "$env:VALUE = 'it''s'",
        "$env:TOKEN = $env:DRAGOMAN_KEY",
        "function printer { & (Get-Command printer -CommandType Application)[0] '-c' 'a=b c' @args }",
    ]
    in_file = shell_lines(plan, PROGRAM, GivenKey(text=SECRET, file="key"), SHELLS["powershell"])
    assert "$env:TOKEN = (Get-Content -Raw 'key').Trim()" in in_file


def test_fish_has_words_of_its_own() -> None:
    plan = LaunchPlan(key_variable="TOKEN", environment={"VALUE": "it's"}, removed=("GONE",), arguments=("-c", "a=b c"))
    assert shell_lines(plan, PROGRAM, GivenKey(text=SECRET), SHELLS["fish"]) == [
        "set -e GONE",
        "set -gx VALUE 'it\\'s'",
        'set -gx TOKEN "$DRAGOMAN_KEY"',
        "function printer; command printer '-c' 'a=b c' $argv; end",
    ]
    in_file = shell_lines(plan, PROGRAM, GivenKey(text=SECRET, file="key"), SHELLS["fish"])
    assert "set -gx TOKEN (string trim < 'key')" in in_file
