"""`dragoman top`: what goes on now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of
from dragoman.sessions.facts import ExchangeFacts
from tests.cli.recorded_file import (
    HOSTILE,
    MAIN,
    NOW,
    config,
    recorded_file,
    records_on_screen,
    records_piped,
    talk,
    timeless,
)
from tests.records.invented import entry
from tests.screen import fits


def words(place: Path, *said: str) -> list[str]:
    return ["top", "--config", str(place / "gateway.toml"), *said]


@pytest.mark.parametrize("columns", [80, 140])
def test_one_page_shows_what_is_open_and_what_the_last_minute_came_to(tmp_path: Path, columns: int) -> None:
    recorded_file(tmp_path)
    journal = Journal(directory_of(str(tmp_path / "state.db")))
    begun = replace(entry(40, time=NOW), outcome="open", facts=ExchangeFacts(session=MAIN), tokens=None, cost=None)
    journal.open(begun)
    journal.open(replace(begun, id="req_41", time=NOW - 180_000_000, facts=ExchangeFacts(), client="curl"))
    seen = records_on_screen(words(tmp_path, "--once"), tmp_path, columns=columns)
    journal.close()
    assert seen.status == 0
    assert fits(seen.raw.replace("\r", "").splitlines(), columns)
    lines = [timeless(line) for line in seen.plain.splitlines()]
    assert " ".join(lines[0].split()) == "HH:MM 2 open; in the last minute 3 turns, 25.4k tokens, $0.026, 1 error"
    told = [" ".join(line.split()) for line in lines[2:]]
    model = " anthropic/large" if columns == 140 else ""
    assert told[0] == f"SESSION THREAD{' MODEL' if model else ''} STATE OPEN TURNS TOKENS COST ERRORS"
    (open_one,) = (line for line in told if line.startswith("5f0c7c1e-0001"))
    assert open_one.startswith(f"5f0c7c1e-0001 main{model} streaming ")
    assert open_one.endswith("1 0 0 $0.00 0")
    assert f"no session curl{model} stalled 3m 1 0 0 $0.00 0" in told
    age = " AGE" if columns == 140 else ""
    assert f"5f0c7c1e-0002 main{model} running tools{age} 0 1 12.7k $0.013 0" in told
    assert HOSTILE[:8] not in seen.raw


def test_models_are_told_if_wanted(tmp_path: Path) -> None:
    recorded_file(tmp_path)
    seen = records_on_screen(words(tmp_path, "--once", "--by", "model"), tmp_path, columns=80)
    assert fits(seen.raw.replace("\r", "").splitlines(), 80)
    told = [" ".join(timeless(line).split()) for line in seen.plain.splitlines()]
    assert told[2] == "REQUESTED TARGET STATE OPEN TURNS TOKENS COST ERRORS"
    assert any(
        line.startswith("large anthropic/") and line.endswith("failed AGE 0 2 12.7k $0.013 1") for line in told
    ), told


def test_programs_get_one_object(tmp_path: Path) -> None:
    recorded_file(tmp_path)
    status, out, _ = records_piped(words(tmp_path, "--json"), tmp_path)
    told = json.loads(out)
    assert (status, told["open"], told["seconds"], told["total"]["requests"]) == (0, 0, 60, 3)
    assert {row["state"] for row in told["rows"]} == {"waiting for user", "running tools", "failed"}
    assert told["total"]["duration_microseconds"] > told["total"]["first_token_microseconds"] > 0
    assert told["total"]["first_token_requests"] > 0
    assert sum(row["cost_nano_usd"] for row in told["rows"]) == told["total"]["cost_nano_usd"]
    assert out.strip().isprintable()


def test_where_there_is_no_terminal_it_is_one_page(tmp_path: Path) -> None:
    config(tmp_path)
    status, out, err = records_piped(words(tmp_path), tmp_path)
    assert (status, err) == (0, "")
    assert timeless(out) == (
        "HH:MM  0 open; in the last minute 0 turns, 0 tokens, $0.00, 0 errors\n\nNo request in the last minute.\n"
    )
    seen = records_on_screen(words(tmp_path), tmp_path, environ={"TERM": "dumb"})
    assert "\x1b" not in seen.raw


def test_a_pipe_has_the_whole_of_long_names(tmp_path: Path) -> None:
    long = "long" * 32
    config(tmp_path)
    journal = Journal(directory_of(str(tmp_path / "state.db")))
    journal.finalize(replace(talk(1, 0), facts=ExchangeFacts(session=long), requested_model=long, model=long))
    journal.close()
    _, out, _ = records_piped(words(tmp_path), tmp_path)
    assert out.splitlines()[3].split("\t")[:3:2] == [long, f"anthropic/{long}"]
    _, out, _ = records_piped(words(tmp_path, "--by", "model"), tmp_path)
    assert out.splitlines()[3].split("\t")[:2] == [long, f"anthropic/{long}"]
