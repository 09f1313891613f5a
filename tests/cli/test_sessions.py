"""`dragoman sessions`: a line for each, with what it does and came to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.recorded_file import (
    HOSTILE,
    MAIN,
    NEXT,
    NOW,
    config,
    recorded_file,
    records_on_screen,
    records_piped,
    timeless,
)
from tests.records.kept_sessions import filling
from tests.screen import fits


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    recorded_file(folder)
    return folder


def words(place: Path, *said: str) -> list[str]:
    return ["sessions", "--config", str(place / "gateway.toml"), *said]


NARROW = [
    "5f0c7c1e-0002   codex           HH:MM    running tools       1   12.7k    $0.013",
    "                                         AGE",
    "      continues 5f0c7c1e-0001-4b6f-9d8a-000000000001, key bob",
    "5f0c7c1e-0001   claude-code     HH:MM    waiting for         8   88.9k  ≥ $0.079",
    "                                         user AGE",
    "      3 agents, 1 loss, 1 error, 1 call unpriced, key alice",
    "no session                                                   1       0     $0.00",
    "      1 error",
]


def test_pitfall_511_550_eighty_columns_show_root_sessions_with_all_their_money(place: Path) -> None:
    seen = records_on_screen(words(place), place, columns=80)
    assert seen.status == 0
    assert fits(seen.raw.replace("\r", "").splitlines(), 80)
    lines = [" ".join(timeless(line).split()) for line in seen.plain.splitlines()]
    assert lines[0] == "SESSION CLIENT STARTED STATE TURNS TOKENS COST"
    assert lines[-len(NARROW) :] == [" ".join(line.split()) for line in NARROW]
    assert seen.coloured


def test_a_wide_terminal_has_a_column_for_everything(place: Path) -> None:
    seen = records_on_screen(words(place, "--key", "alice"), place, columns=140, environ={"NO_COLOR": "1"})
    assert not seen.coloured
    assert fits(seen.plain.splitlines(), 140)
    lines = [" ".join(timeless(line).split()) for line in seen.plain.splitlines()]
    assert lines[0] == "SESSION KEY CLIENT STARTED LAST STATE TURNS AGENTS TOKENS COST LOSSES ERRORS MORE"
    assert "5f0c7c1e-0001 alice claude-code HH:MM HH:MM waiting for user AGE 8 3 88.9k ≥ $0.079 1 1" in lines


def test_bookkeeping_is_counted_on_request(place: Path) -> None:
    seen = records_on_screen(words(place, "--all", "--all-losses"), place, columns=80)
    assert seen.plain.count("2 losses") == 2


def test_a_pipe_has_whole_names_and_exact_numbers(place: Path) -> None:
    status, out, err = records_piped(words(place, "--key", "bob"), place)
    assert (status, err) == (0, "")
    head, line = (timeless(line).split("\t") for line in out.splitlines())
    assert dict(zip(head, line, strict=True)) == {
        "SESSION": NEXT,
        "KEY": "bob",
        "CLIENT": "codex",
        "STARTED": "DAY HH:MM",
        "LAST": "DAY HH:MM",
        "STATE": "running tools AGE",
        "TURNS": "1",
        "AGENTS": "0",
        "TOKENS": "12700",
        "COST": "$0.0132",
        "LOSSES": "0",
        "ERRORS": "0",
        "MORE": f"continues {MAIN}",
    }


def test_a_pipe_has_the_whole_of_a_long_name(tmp_path: Path) -> None:
    long = "long" * 32
    with filling(tmp_path / "state.db") as file:
        file.session(1, long, started=NOW, last=NOW)
        file.thread(1, 1, name=long, started=NOW, last=NOW)
    config(tmp_path)
    _, out, _ = records_piped(words(tmp_path, "--all"), tmp_path)
    session, thread = (line.split("\t")[0] for line in out.splitlines()[1:3])
    assert (session, thread) == (long, f"  main {long}")


@pytest.mark.parametrize("columns", [80, 140])
def test_one_switch_shows_the_threads_of_each(place: Path, columns: int) -> None:
    seen = records_on_screen(words(place, "--all"), place, columns=columns)
    assert fits(seen.raw.replace("\r", "").splitlines(), columns)
    text = seen.plain
    assert text.count("utility") == 3
    assert "\n  main " in text
    assert "\n    subagent" in text


def test_programs_get_one_object(place: Path) -> None:
    status, out, _ = records_piped(words(place, "--json", "--since", "2d"), place)
    told = json.loads(out)
    assert status == 0
    assert sorted(told) == ["more", "next", "no_session", "sessions", "since", "until"]
    assert [session["id"] for session in told["sessions"]] == [HOSTILE, NEXT, MAIN]
    last = told["sessions"][-1]
    assert (last["requests"], last["agents"], last["threads"], last["errors"], last["losses"]) == (8, 3, 7, 1, 1)
    assert last["bookkeeping_losses"] == 1
    assert (last["cost_nano_usd"], last["unpriced_requests"], last["state"]) == (79_200_000, 1, "waiting for user")
    assert told["sessions"][1]["origin"] == MAIN
    assert told["no_session"]["errors"] == 1
    assert told["more"] is False
    _, out, _ = records_piped(words(place, "--json", "--all", "-n", "1"), place)
    told = json.loads(out)
    assert (told["more"], len(told["sessions"]), len(told["sessions"][0]["tree"])) == (True, 1, 1)


@pytest.mark.parametrize("columns", [80, 140])
def test_names_of_strangers_move_no_cursor_and_pose_as_no_column(place: Path, columns: int) -> None:
    for more in ([], ["--all"]):
        seen = records_on_screen(words(place, *more), place, columns=columns)
        assert fits(seen.raw.replace("\r", "").splitlines(), columns)
        assert "\x1b[2J" not in seen.raw
    status, out, _ = records_piped(words(place, "--json"), place)
    assert status == 0
    assert out.strip().isprintable()


def test_letters_that_a_terminal_cannot_show_are_spelled_out(place: Path) -> None:
    seen = records_on_screen(words(place), place, columns=80, environ={"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert ">= $0.079" in seen.plain
    assert seen.plain.isascii()


def test_more_than_are_shown_is_said(place: Path) -> None:
    seen = records_on_screen(words(place, "-n", "1"), place, columns=80)
    assert seen.plain.splitlines()[-1] == "There are more; -n 2 shows twice as many."
    status, _, err = records_piped(words(place, "-n", "0"), place)
    assert (status, err) == (2, "dragoman: -n: 0 is not a number of sessions\n")


def test_where_there_is_none_it_is_said_how_to_look_further(tmp_path: Path) -> None:
    with filling(tmp_path / "state.db") as file:
        file.session(1, "old", started=0, last=NOW - 3 * 86_400_000_000)
    config(tmp_path)
    seen = records_on_screen(words(tmp_path), tmp_path, columns=80)
    assert timeless(seen.plain) == "No session since DAY HH:MM; try --since 30d.\n"
    assert "old" in records_on_screen(words(tmp_path, "--since", "30d"), tmp_path).plain
