"""`dragoman status` in front of a gateway that runs, and where none does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.cli.status import as_text
from dragoman.cli.terminal import OutputScreen
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.model.jsonvalue import JsonList, JsonObject
from tests.cli.screens import piped
from tests.gateway.harness import PROVIDER_KEY, running, settings_for
from tests.ports import CLOSED_PORT

SCREEN = OutputScreen(terminal=True, width=140)
KEY = "dk-0123456789abcdefghijklmnopqrstuvwxyz"


def asked(place: Path, *words: str, key: str = "") -> tuple[int, str, str]:
    """Run the command: exit status and what was said."""
    return piped(["status", *words], place, {"DRAGOMAN_KEY": key})


def put(place: Path, port: int) -> str:
    """A configuration that says where a gateway is."""
    file = place / "mine.toml"
    file.write_text(f"[server]\nport = {port}\ndiscover = false\n")
    file.chmod(0o600)
    return str(file)


def test_the_gateway_that_the_configuration_describes_is_found_and_shown(tmp_path: Path) -> None:
    with running() as house:
        status, out, err = asked(tmp_path, "--config", put(tmp_path, house.port))
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == f"dragoman {__version__} at {house.url}: 1 worker, 0 requests under way"
        assert lines[2].split() == ["PROVIDER", "KEYS", "CALLS", "MOST", "QUEUED"]
        assert ["chat", "1", "0", "any", "0"] in [line.split() for line in lines]
        assert lines[-1] == "No failure is recorded for any target."
        status, out, err = asked(tmp_path, "--json", "--gateway", house.url)
        assert (status, err) == (0, "")
        told = json.loads(out)
        assert [row["keys"] for row in told["providers"] if row["name"] == "chat"] == [1]
        assert PROVIDER_KEY not in out


def test_a_gateway_with_keys_is_asked_with_one(tmp_path: Path) -> None:
    with running((), lambda port: settings_for(port, keys=[KEY], rights=ALL_RIGHTS)) as house:
        status, out, err = asked(tmp_path, "--gateway", house.url)
        assert (status, out) == (1, "")
        assert "a gateway key is required: set DRAGOMAN_KEY" in err
        status, out, err = asked(tmp_path, "--gateway", house.url, key=KEY)
        assert (status, err) == (0, "")
        assert "1 worker, 0 requests under way" in out
        file = tmp_path / "key"
        file.write_text(KEY + "\n")
        assert asked(tmp_path, "--gateway", house.url, "--key-file", str(file))[0] == 0


@pytest.mark.parametrize("named", [False, True])
def test_it_says_plainly_that_none_is_running(named: bool, tmp_path: Path) -> None:
    port = CLOSED_PORT
    where = f"http://127.0.0.1:{port}"
    status, out, err = asked(tmp_path, *(("--gateway", where) if named else ("--config", put(tmp_path, port))))
    assert (status, out) == (1, "")
    assert f"no gateway is running at {where}" in err
    assert ("`dragoman serve`" in err) is not named


def test_a_port_that_nobody_knows_is_told(tmp_path: Path) -> None:
    status, _, err = asked(tmp_path, "--config", put(tmp_path, 0))
    assert status == 1
    assert "--gateway URL" in err


def test_standings_are_shown_with_what_is_left_of_them_and_nothing_commands_the_terminal() -> None:
    told: JsonObject = {
        "version": "1",
        "workers": 1,
        "in_flight": 1,
        "providers": [{"name": "a\x1b[2J", "keys": 0, "calls": 10, "concurrency": 64, "queued": 3}],
        "targets": [
            {"target": "provider/model", "health": "cooldown", "seconds": 12.5},
            {
                "target": "q/n",
                "health": "suspect",
                "seconds": 7,
                "since": 3.0,
                "last": "unreachable",
                "failed": 0.0,
                "consecutive_failures": 2,
                "cooldowns": 1,
            },
            {"target": "p/m", "health": "healthy", "seconds": 0},
        ],
    }
    text = as_text("http://127.0.0.1:1", told, SCREEN)
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0].endswith("1 worker, 1 request under way")
    assert lines[3].endswith("     0     10    64       3")
    assert lines[-4:] == [
        "TARGET          HEALTH",
        "provider/model  cooldown for another 12.5 s",
        "q/n             suspect for another 7 s, since 3 s ago: "
        "unreachable 0 s ago, 2 consecutive failures, 1 cooldown",
        "p/m             healthy",
    ]


@pytest.mark.parametrize("columns", [80, 140])
def test_standings_fit_a_terminal_and_are_whole_elsewhere(columns: int) -> None:
    standing: JsonObject = {"target": "p/m", "health": "cooldown", "seconds": 890, "since": 10.0, "last": "x " * 40}
    told: JsonObject = {"version": "1", "workers": 1, "in_flight": 0, "targets": [standing]}
    lines = as_text("http://127.0.0.1:1", told, OutputScreen(terminal=True, width=columns)).splitlines()
    assert max(map(len, lines)) <= columns
    *_, last = as_text("http://127.0.0.1:1", told, OutputScreen()).splitlines()
    assert last == f"p/m\tcooldown for another 890 s, since 10 s ago: {'x ' * 40}"


def test_another_kind_of_answer_does_not_break_it() -> None:
    assert as_text("http://127.0.0.1:1", {}, SCREEN).startswith("dragoman  at http://127.0.0.1:1")
    unnamed = as_text("http://127.0.0.1:1", {"unnamed": {"healthy": 2, "cooldown": 1}}, SCREEN)
    assert unnamed.endswith("Other targets, named only by clients: 2 healthy, 1 cooldown.")
    assert "PROVIDER" in as_text("http://127.0.0.1:1", {"providers": 5, "targets": ["x"]}, SCREEN)


def test_pitfall_353_resting_keys_are_shown_by_their_places() -> None:
    resting: JsonList = [
        {"key": 1, "model": None, "seconds": 890.0, "since": 10.0, "why": "rate_limited", "hint": 86400.0},
        {"key": 0, "model": "m\x1b", "seconds": 5.5, "since": 0, "why": "", "hint": None},
    ]
    text = as_text("http://127.0.0.1:1", {"providers": [{"name": "p", "keys": 3, "keys_in_cooldown": resting}]}, SCREEN)
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if line.startswith(("KEY", "p key"))] == [
        "KEY                  COOLDOWN",
        "p key 2 of 3         for another 890 s, since 10 s ago: rate_limited, the provider reported 86400 s",
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
        "p         every 30 s while a target is in cooldown: failing 12.5 s ago",
        "quiet     every 90 s while a target is in cooldown",
        "now       every 1.5 s while a target is in cooldown: alive 0 s ago",
    ]
    assert "CHECKED" not in as_text("http://127.0.0.1:1", {"providers": providers[2:3]}, SCREEN)


def test_the_database_of_several_machines_is_shown() -> None:
    told: JsonObject = {"database": {"name": "db1:5432/dragoman", "problem": ""}}
    assert "\ndatabase db1:5432/dragoman: present\n" in as_text("http://127.0.0.1:1", told, SCREEN)
    told = {"database": {"name": "db1:5432/dragoman", "problem": "it does not answer"}}
    assert "\ndatabase db1:5432/dragoman: away: it does not answer\n" in as_text("http://127.0.0.1:1", told, SCREEN)
    assert "database" not in as_text("http://127.0.0.1:1", {"database": None}, SCREEN)
