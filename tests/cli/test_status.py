"""`dragoman status` in front of a gateway that runs as a process of its own, and where none does."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.cli.status import as_text
from dragoman.cli.terminal import Screen
from dragoman.config.keys import hash_text
from dragoman.model.jsonvalue import JsonList, JsonObject
from tests.gateway.harness import CHAT, PATHS, PROVIDER_KEY, Received, Reply, whole
from tests.gateway.says import question, tells
from tests.server.process import PATIENCE, Served, clean_environment, serving

SCREEN = Screen(terminal=True, width=140)
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
            {
                "target": "q/n",
                "standing": "suspect",
                "seconds": 7,
                "since": 3.0,
                "last": "unreachable",
                "failed": 0.0,
                "in_a_row": 2,
                "rests": 1,
            },
            {"target": "p/m", "standing": "good", "seconds": 0},
        ],
    }
    text = as_text("http://127.0.0.1:1", told, SCREEN)
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0].endswith("1 worker, 1 request under way")
    assert lines[3].endswith("     0     10    64        3")
    assert lines[-4:] == [
        "TARGET          STANDING",
        "provider/model  resting for another 12.5 s",
        "q/n             suspect for another 7 s, since 3 s ago: unreachable 0 s ago, 2 failed in a row, rested 1 time",
        "p/m             good",
    ]


@pytest.mark.parametrize("columns", [80, 140])
def test_standings_fit_a_terminal_and_are_whole_elsewhere(columns: int) -> None:
    standing: JsonObject = {"target": "p/m", "standing": "resting", "seconds": 890, "since": 10.0, "last": "x " * 40}
    told: JsonObject = {"version": "1", "workers": 1, "in_flight": 0, "targets": [standing]}
    lines = as_text("http://127.0.0.1:1", told, Screen(terminal=True, width=columns)).splitlines()
    assert max(map(len, lines)) <= columns
    *_, last = as_text("http://127.0.0.1:1", told, Screen()).splitlines()
    assert last == f"p/m\tresting for another 890 s, since 10 s ago: {'x ' * 40}"


def test_another_kind_of_answer_does_not_break_it() -> None:
    assert as_text("http://127.0.0.1:1", {}, SCREEN).startswith("dragoman  at http://127.0.0.1:1")
    unnamed = as_text("http://127.0.0.1:1", {"unnamed": {"good": 2, "resting": 1}}, SCREEN)
    assert unnamed.endswith("Beside these, targets that only those name who ask for them: 2 good, 1 resting.")
    assert "PROVIDER" in as_text("http://127.0.0.1:1", {"providers": 5, "targets": ["x"]}, SCREEN)


def test_pitfall_353_resting_keys_are_shown_by_their_places() -> None:
    resting: JsonList = [
        {"key": 1, "model": None, "seconds": 890.0, "since": 10.0, "why": "rate_limited", "hint": 86400.0},
        {"key": 0, "model": "m\x1b", "seconds": 5.5, "since": 0, "why": "", "hint": None},
    ]
    text = as_text("http://127.0.0.1:1", {"providers": [{"name": "p", "keys": 3, "resting": resting}]}, SCREEN)
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if line.startswith(("KEY", "p key"))] == [
        "KEY                  RESTS",
        "p key 2 of 3         for another 890 s, since 10 s ago: rate_limited, the provider said 86400 s",
        "p key 1 of 3, m\\x1b  for another 5.5 s",
    ]


def test_who_is_checked_is_shown_with_what_was_found() -> None:
    providers: JsonList = [
        {"name": "p", "check": {"every": 30.0, "found": "failing", "ago": 12.5}},
        {"name": "quiet", "check": {"every": 90.0, "found": None, "ago": None}},
        {"name": "r", "check": None},
        {"name": "now", "check": {"every": 1.5, "found": "alive", "ago": 0.0}},
    ]
    lines = as_text("http://127.0.0.1:1", {"providers": providers}, SCREEN).splitlines()
    place = lines.index("PROVIDER  CHECKED")
    assert lines[place + 1 : place + 4] == [
        "p         every 30 s while a target rests: failing 12.5 s ago",
        "quiet     every 90 s while a target rests",
        "now       every 1.5 s while a target rests: alive 0 s ago",
    ]
    assert "CHECKED" not in as_text("http://127.0.0.1:1", {"providers": providers[2:3]}, SCREEN)


def test_pitfall_345_a_rest_is_cleared_by_a_command() -> None:
    def failing(received: Received) -> Reply:
        return whole({"error": {"message": "broken"}}, 500)

    with serving(failing, arguments=("--workers", "2")) as house:
        where = f"http://127.0.0.1:{house.port}"
        # Each worker counts by itself, so that one of them has seen enough.
        for _ in range(9):
            assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 500
        agreed(house, "resting")
        _, out, _ = asked(house.directory, "--gateway", where)
        line = next(line for line in out.splitlines() if line.startswith("chat/served"))
        assert re.search(r"resting for another [0-9.]+ s, .*no_answer [0-9.]+ s ago", line), line
        status, out, err = asked(house.directory, "--gateway", where, "--clear", "chat/served")
        assert (status, err) == (0, "")
        assert out == "chat/served is good again: it was resting, and 0 keys rested\n"
        # The other worker is told, too.
        agreed(house, "good")
        status, out, err = asked(house.directory, "--gateway", where, "--clear", "chat/served", "--json")
        assert json.loads(out) == {"target": "chat/served", "standing": "good", "keys": 0}
        assert asked(house.directory, "--gateway", where, "--clear", "chat/served")[1].startswith("nothing was held")
        status, out, err = asked(house.directory, "--gateway", where, "--clear", "nobody/served")
        assert (status, out) == (1, "")
        assert "does not clear the target: there is no such target" in err


def agreed(house: Served, standing: str) -> None:
    """Wait until whoever is asked thinks so of the target; enough are asked for both workers to be among them."""
    deadline = time.monotonic() + PATIENCE
    while {tuple(row.get("standing") for row in told["targets"]) for told in statuses(house)} != {(standing,)}:
        assert time.monotonic() < deadline, list(statuses(house))


def statuses(house: Served) -> Iterator[dict[str, list[JsonObject]]]:
    """What those say who happen to be asked."""
    for _ in range(20):
        yield json.loads(house.get("/status").body)
