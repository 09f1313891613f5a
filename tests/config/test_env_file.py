"""The file of variables for a service: what is written is read, and what is read in two ways is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.config.env_file import as_env_file, can_be_written, parse_env_file, read_env_file
from dragoman.errors import ConfigError, ConfigErrors

SECRET = "sk-0123456789-secret"

# A line, and the value that systemd, too, makes of it.
VALUES: dict[str, tuple[str, str]] = {
    "bare": ("A=one", "one"),
    "blanks around it": (" A = one two \t", "one two"),
    "an equals sign in it": ("A=a=b==", "a=b=="),
    "a dollar sign and a hash": ("A=$HOME #1", "$HOME #1"),
    "empty": ("A=", ""),
    "double quotes": ('A=" one "', " one "),
    "escapes": (r'A="\"\\\`\$"', '"\\`$'),
    "a single quote in double ones": ('A="it\'s"', "it's"),
    "single quotes": ("A=' $x \"y\" '", ' $x "y" '),
    "letters beyond ASCII": ("A=é→", "é→"),
}


@pytest.mark.parametrize("case", VALUES)
def test_a_value_is_read(case: str) -> None:
    line, value = VALUES[case]
    assert parse_env_file("f", f"# A=no\n; A=no\n\n{line}\n".encode()) == {"A": value}


@pytest.mark.parametrize(
    "line",
    [
        f"export A={SECRET}",
        f"{SECRET}",
        f"1A={SECRET}",
        f'A="{SECRET}',
        f"A={SECRET}\\",
        f"A='{SECRET}\\'",
        f'A="{SECRET}\\n"',
        f'A="{SECRET}"x',
        f"A=it's{SECRET}",
        f"A={SECRET}\0",
        f'A="{SECRET}\0"',
    ],
)
def test_what_is_read_in_two_ways_is_refused_without_the_value(line: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        parse_env_file("service.env", f"B=1\n{line}\n".encode())
    (problem,) = caught.value.problems
    assert str(problem).startswith("service.env:2: ")
    assert SECRET not in str(problem)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not UTF-8"):
        parse_env_file("f", b"A=\xff\n")


@pytest.mark.parametrize("value", ["plain", "", " a b ", 'q"q', "b\\b\\", "$(x) `y` ${z}", "it's", "é", "# ;", "a=b"])
def test_what_is_written_is_read(value: str, tmp_path: Path) -> None:
    file = tmp_path / "service.env"
    file.touch(0o600)
    file.write_text(as_env_file({"A": value, "B": "1"}, "made by a test"))
    assert can_be_written(value)
    assert read_env_file(file) == {"A": value, "B": "1"}


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "\x1b[2J", "\udc80"])
def test_what_does_not_stay_on_its_line_cannot_be_written(value: str) -> None:
    assert not can_be_written(value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_file_that_others_can_read_is_refused(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "service.env"
    file.write_text(f"A={SECRET}\n")
    file.chmod(mode)
    with pytest.raises(ConfigError, match="by others") as caught:
        read_env_file(file)
    assert SECRET not in str(caught.value)


def test_what_is_no_plain_file_or_not_there_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, words in (("pipe", "is not a plain file"), (".", "Is a directory"), ("none", "cannot be read")):
        with pytest.raises(ConfigError, match=words):
            read_env_file(tmp_path / name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "service.env"
    file.touch(0o600)
    os.chown(file, 65534, -1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        read_env_file(file)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "service.env"
    file.touch(0o600)
    file.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="is larger"):
        read_env_file(file)
