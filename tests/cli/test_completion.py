"""Completion: the scripts in real shells, as far as they are here."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman import cli
from dragoman.cli import main
from dragoman.cli.completion import SHELLS, places
from tests.cli.machine import clean
from tests.server.process import PATIENCE

NAMES = ["echo/text", "mine"]


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)


def script(shell: str, capfd: pytest.CaptureFixture[str]) -> str:
    """What is printed for a shell."""
    assert main(["completion", shell]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    return captured.out


def completed(text: str, typed: str, place: Path) -> list[str]:
    """What bash offers for the last word of a command line."""
    words = typed.split(" ")
    program = place / "bin" / "dragoman"
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n[ \"$*\" = 'models --names' ] && printf '%s\\n' " + " ".join(NAMES) + "\n")
    program.chmod(0o755)
    asked = (
        f"{text}\nCOMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _dragoman; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", asked],
        capture_output=True,
        text=True,
        cwd=place,
        env={"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"},
        timeout=PATIENCE,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


# What is typed, and what is among the offers; "" is that there are none, and bash goes on with files.
OFFERS: dict[str, tuple[str, str]] = {
    "a command": ("dragoman la", "launch"),
    "a command behind an option": ("dragoman --color never la", "launch"),
    "an option of all": ("dragoman --ver", "--version"),
    "a part of a command": ("dragoman key n", "new"),
    "a command of two words": ("dragoman prices up", "update"),
    "an option of that": ("dragoman prices update --dr", "--dry-run"),
    "an option": ("dragoman models --js", "--json"),
    "a choice of an argument": ("dragoman env cl", "claude"),
    "a choice of an option": ("dragoman env --shell fi", "fish"),
    "a colour": ("dragoman status --color al", "always"),
    "a model": ("dragoman launch claude --model mi", "mine"),
    "a file": ("dragoman check --config dra", ""),
    "a number": ("dragoman serve --port 8", ""),
    "a word for the client": ("dragoman launch claude -- --mod", ""),
}


@pytest.mark.parametrize("case", OFFERS)
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes(case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    typed, offer = OFFERS[case]
    assert completed(script("bash", capfd), typed, tmp_path) == ([offer] if offer else [])


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_offers_every_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    offered = completed(script("bash", capfd), "dragoman ", tmp_path)
    assert [name for name in cli.COMMANDS if name not in offered] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_every_place_and_option_is_in_each_script(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capfd)
    for place in places(cli.tree()):
        assert place.path in text
        for option in place.options:
            assert all(name.lstrip("-") in text for name in option.names)
    assert "--lifeline" not in text and "lifeline" not in text


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_takes_its_script(shell: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    file = tmp_path / "script"
    file.write_text(script(shell, capfd))
    subprocess.run([program, "-n", str(file)], check=True, timeout=PATIENCE, cwd=tmp_path)
