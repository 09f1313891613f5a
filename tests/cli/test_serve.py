"""`dragoman serve` as far as it goes without serving: what it refuses, and the lines it gives to try."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.serve import _greet
from dragoman.config.discovery import echo_provider
from dragoman.config.load import read_settings
from dragoman.config.settings import Server, Settings
from dragoman.gateway.processes import port_conflict
from dragoman.gateway.workers.protection import protection_of
from dragoman.providers.catalogue import catalogue
from tests.cli.machine import clean, put_trusted, signals_restored


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    clean(tmp_path, monkeypatch)
    # Seconds that whoever has the port gets to say whether it is a gateway.
    monkeypatch.setattr(port_conflict, "_TIMEOUT", 0.1)
    with signals_restored():
        yield


def refused(capfd: pytest.CaptureFixture[str], *arguments: str, status: int = 1) -> list[str]:
    """What is said by a gateway that does not start."""
    assert main(["serve", *arguments]) == status
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err.splitlines()


@contextmanager
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


# A file that cannot be used, and what has to be said of it, line by line.
BAD_FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "no TOML": ("[server\n", ("dragoman.toml:1: is not TOML",)),
    "a wrong value": ("[server]\nport = 99999\n", ("dragoman.toml:2: server.port: ",)),
    "two problems": (
        "[server]\nprot = 1\n[limits]\nrequest_body = 'big'\n",
        ("dragoman.toml:2: server.prot: ", "dragoman.toml:4: limits.request_body: "),
    ),
    "a variable that is not set": ("[keys.a]\nkey = '$NOT_SET_HERE'\n", ("dragoman.toml:2: keys.a.key: ",)),
    "an address for others without keys": ("[server]\nhost = '::'\n", ("dragoman.toml: server.host: ",)),
}


@pytest.mark.parametrize("file", BAD_FILES)
def test_a_file_that_cannot_be_used_is_told_with_its_place_and_a_remedy(
    capfd: pytest.CaptureFixture[str], file: str
) -> None:
    text, places = BAD_FILES[file]
    put_trusted(Path(), text)
    said = refused(capfd, "--port", "0")
    assert len(said) == len(places)
    for line, place in zip(said, places, strict=True):
        assert place in line
        assert line.endswith(")")


# Options that cannot be used, and what has to be said of them.
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "a file that is not there": (("--config", "nowhere.toml"), "nowhere.toml: cannot be read"),
    "a port beyond all ports": (("--port", "65536"), "--port: expected an integer from 0 to 65535, got 65536"),
    "no workers": (("--workers", "0"), "--workers: "),
    "more workers than any machine has cores": (("--workers", "100000"), "--workers: "),
    "an address for others without keys": (("--host", "0.0.0.0", "--port", "0"), "no gateway key is configured"),
    "a name for others without keys": (("--host", "gateway.example.org", "--port", "0"), "insist with --no-auth"),
    "no host at all": (("--host", "", "--port", "0"), "--host: expected a string that is not empty, got an empty one"),
    "a host that is no host": (("--host", "no host", "--port", "0", "--no-auth"), "--host: expected a host name"),
    "an address instead of a host": (("--host", "http://127.0.0.1", "--port", "0"), "--host: expected a host name"),
    "an address of another machine": (
        ("--host", "192.0.2.1", "--port", "0", "--no-auth"),
        "cannot listen on 192.0.2.1:0",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_options_that_cannot_be_used_are_told_in_one_line(capfd: pytest.CaptureFixture[str], wrong: str) -> None:
    arguments, words = WRONG[wrong]
    (line,) = refused(capfd, *arguments, status=2 if words.startswith("--") else 1)
    assert words in line


def test_a_port_in_use_is_said_with_what_to_do(capfd: pytest.CaptureFixture[str]) -> None:
    with taken() as port:
        (line,) = refused(capfd, "--port", str(port))
    assert f"cannot listen on 127.0.0.1:{port}" in line
    assert "in use" in line
    assert "--port" in line


def test_what_works_but_should_be_known_is_told_before_the_start(capfd: pytest.CaptureFixture[str]) -> None:
    put_trusted(Path(), "[keys.short]\nkey = 'abc'\n")
    with taken() as port:
        first, last = refused(capfd, "--port", str(port))
    assert "keys.short" in first
    assert "abc" not in first
    assert "cannot listen" in last


def test_the_greeting_fits_a_terminal_but_for_the_lines_to_copy(capsys: pytest.CaptureFixture[str]) -> None:
    settings = read_settings(None, {"ANTHROPIC_API_KEY": "sk-ant-not-a-key-0"}, catalogue())
    _greet(settings, protection_of(settings), None, 8484, {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "dragoman listens on http://127.0.0.1:8484, configured by environment variables only"
    assert all(len(line) <= 100 for line in lines if not line.startswith("  curl "))


def test_a_gateway_that_asks_for_keys_and_has_none_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(keys_table=True, providers={"echo": echo_provider()})
    _greet(settings, protection_of(settings), None, 8484, {})
    said = capsys.readouterr().out
    assert "every request is rejected" in said
    assert "$DRAGOMAN_KEY" in said


@pytest.mark.parametrize(("host", "told"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_a_gateway_for_other_machines_says_so(host: str, told: bool, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(server=Server(host=host), keys_table=True, providers={"echo": echo_provider()})
    _greet(settings, protection_of(settings), None, 8484, {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("dragoman listens on http://127.0.0.1:8484,")
    assert ("other machines reach it, too: it listens on 0.0.0.0" in lines) is told


def test_a_file_that_is_empty_at_the_start_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    put_trusted(Path(), "# nothing yet\n")
    with taken() as port:
        first, _ = refused(capfd, "--port", str(port))
    assert "dragoman.toml is empty: everything comes from the environment" in first


def test_a_named_file_of_no_bytes_is_not_started_with(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cut.toml"
    file.touch()
    (line,) = refused(capfd, "--config", str(file), "--port", "0")
    assert "is empty: it may be half-written" in line


def test_a_lifeline_is_a_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    with Path(os.devnull).open() as nothing:
        before = os.dup(0)
        os.dup2(nothing.fileno(), 0)
        try:
            (said,) = refused(capfd, "--lifeline", "--port", "0", status=2)
        finally:
            os.dup2(before, 0)
            os.close(before)
    assert "--lifeline: standard input is no pipe" in said


def test_a_database_that_cannot_be_read_may_have_keys_that_other_machines_have_to_send(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path("state.db").write_bytes(b"no database" * 100)
    put_trusted(Path(), "[server]\nhost = '0.0.0.0'\nport = 0\n[storage]\npath = 'state.db'\nstore_responses = false\n")
    [line] = refused(capfd)
    assert line.startswith("dragoman: dragoman.toml: storage.path: gateway keys cannot be read from ")
    assert line.endswith("(repair the file, configure a key, or listen on 127.0.0.1)")


def test_keys_of_the_database_are_named_where_the_gateway_begins(capfd: pytest.CaptureFixture[str]) -> None:
    settings = Settings(server=Server(port=0))
    protection = protection_of(settings, has_stored_keys=True)
    _greet(settings, protection, None, 8484, {}, has_stored_keys=True)
    assert "keys: those of the database; send one as x-api-key or Bearer" in capfd.readouterr().out
