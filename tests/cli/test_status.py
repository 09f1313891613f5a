"""`dragoman status` in front of a gateway that runs as a process of its own, and where none does."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.cli.status import as_text
from dragoman.config.keys import hash_text
from dragoman.model.jsonvalue import JsonObject
from tests.gateway.harness import CHAT, PROVIDER_KEY
from tests.gateway.says import tells
from tests.server.process import PATIENCE, Served, clean_environment, serving

KEY = "dk-0123456789abcdefghijklmnopqrstuvwxyz"


def asked(place: Path, *words: str, key: str = "") -> tuple[int, str, str]:
    """Run the command: exit status and what was said."""
    environment = {**clean_environment(place), "DRAGOMAN_KEY": key}
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "status", *words],
        cwd=place,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def config_of(house: Served) -> str:
    """A configuration that says where a gateway is that took a free port."""
    file = house.directory / "where.toml"
    file.write_text(house.file.read_text() + f"\n[server]\nport = {house.port}\n")
    file.chmod(0o600)
    return str(file)


def test_the_gateway_that_the_configuration_describes_is_found_and_shown() -> None:
    with serving(lambda received: tells(CHAT), arguments=("--workers", "2")) as house:
        status, out, err = asked(house.directory, "--config", config_of(house))
        assert (status, err) == (0, "")
        lines = out.splitlines()
        address = f"http://127.0.0.1:{house.port}"
        assert lines[0] == f"dragoman {__version__} at {address}: 2 workers, 0 requests under way"
        assert lines[2].split() == ["PROVIDER", "KEYS", "CALLS", "MOST", "WAITING"]
        assert ["chat", "1", "0", "any", "0"] in [line.split() for line in lines]
        assert lines[-1] == "Nothing is known against any target."
        status, out, err = asked(house.directory, "--json", "--gateway", address)
        assert (status, err) == (0, "")
        told = json.loads(out)
        assert [row["keys"] for row in told["providers"] if row["name"] == "chat"] == [1]
        assert PROVIDER_KEY not in out


def test_a_gateway_with_keys_is_asked_with_one() -> None:
    more = f'[keys.me]\nhash = "{hash_text(KEY)}"\n'
    with serving(lambda received: tells(CHAT), more) as house:
        where = f"http://127.0.0.1:{house.port}"
        status, out, err = asked(house.directory, "--gateway", where)
        assert (status, out) == (1, "")
        assert "a gateway key is required" in err
        status, out, err = asked(house.directory, "--gateway", where, key=KEY)
        assert (status, err) == (0, "")
        assert "1 worker, 0 requests under way" in out
        file = house.directory / "key"
        file.write_text(KEY + "\n")
        assert asked(house.directory, "--gateway", where, "--key-file", str(file))[0] == 0


@pytest.mark.parametrize("named", [False, True])
def test_it_says_plainly_that_none_is_running(named: bool, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    file = tmp_path / "mine.toml"
    file.write_text(f"[server]\nport = {port}\ndiscover = false\n")
    file.chmod(0o600)
    where = f"http://127.0.0.1:{port}"
    status, out, err = asked(tmp_path, *(("--gateway", where) if named else ("--config", str(file))))
    assert (status, out) == (1, "")
    assert f"no gateway is running at {where}" in err
    assert ("`dragoman serve`" in err) is not named


def test_a_port_that_nobody_knows_is_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[server]\nport = 0\ndiscover = false\n")
    file.chmod(0o600)
    status, _, err = asked(tmp_path, "--config", str(file))
    assert status == 1
    assert "--gateway URL" in err


def test_standings_are_shown_with_what_is_left_of_them_and_nothing_commands_the_terminal() -> None:
    told: JsonObject = {
        "version": "1",
        "workers": 1,
        "in_flight": 1,
        "providers": [{"name": "a\x1b[2J", "keys": 0, "calls": 10, "concurrency": 64, "waiting": 3}],
        "targets": [
            {"target": "provider/model", "standing": "resting", "seconds": 12.5},
            {"target": "p/m", "standing": "good", "seconds": 0},
        ],
    }
    text = as_text("http://127.0.0.1:1", told)
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0].endswith("1 worker, 1 request under way")
    assert lines[3].endswith("     0     10    64        3")
    assert lines[-3:] == [
        "TARGET          STANDING",
        "provider/model  resting for another 12.5 s",
        "p/m             good",
    ]


def test_another_kind_of_answer_does_not_break_it() -> None:
    assert as_text("http://127.0.0.1:1", {}).startswith("dragoman  at http://127.0.0.1:1")
    assert "PROVIDER" in as_text("http://127.0.0.1:1", {"providers": 5, "targets": ["x"]})
