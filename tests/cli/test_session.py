"""`dragoman session`: a tree of threads that comes to what the session came to."""

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
from tests.records.invented import entry
from tests.records.kept_sessions import filling
from tests.screen import fits


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session")
    recorded_file(folder)
    return folder


def words(place: Path, *said: str) -> list[str]:
    return ["session", "--config", str(place / "gateway.toml"), *said]


NARROW = """\
Session 5f0c7c1e-0001-4b6f-9d8a-000000000001 of claude-code, key alice
started DAY HH:MM, last HH:MM: waiting for user AGE
8 turns, 3 agents, 88.9k tokens (17.5k uncached, 63.0k read from caches, 3500
written to caches, 4900 out), ≥ $0.079, 1 loss, 1 error, 1 call unpriced
27m 30s from first to last, 10.0s of model time

#  THREAD                      MODEL          STATE                 TURNS  TOKENS       OWN     TOTAL
1  main                        claude-opus-5  waiting for user AGE      2   12.7k    $0.013    $0.079
      3 segments, 1 loss, 1 error
2  ├─ subagent Explore         small          done AGE                  1   12.7k    $0.013    $0.026
3  │  └─ subagent "two words"  large          done AGE                  1   12.7k    $0.013    $0.013
      uncertain: by rule prompt (60%)
   └─ utility × 3              tiny                                     3   38.1k    $0.040    $0.040
7  subagent                    large          done AGE                  1   12.7k  unpriced  unpriced
      parent unknown, 1 call unpriced
"""


def rows(text: str) -> list[list[str]]:
    """What stands on the lines of a text, whatever room it has."""
    return [timeless(line).split() for line in text.splitlines()]


def test_pitfall_513_523_550_eighty_columns_show_the_tree(place: Path) -> None:
    seen = records_on_screen(words(place, MAIN[:13]), place, columns=80)
    assert seen.status == 0
    assert fits(seen.raw.replace("\r", "").splitlines(), 80)
    text = seen.plain
    assert rows(text)[:5] == rows(NARROW)[:5]
    for piece in (
        "├─ subagent Explore",
        "│  └─ subagent",
        "└─ utility × 3",
        "parent unknown",
        "uncertain: by rule prompt",
    ):
        assert piece in text


def test_a_wide_terminal_shows_each_thread_on_one_line(place: Path) -> None:
    seen = records_on_screen(words(place, MAIN), place, columns=140)
    assert fits(seen.raw.replace("\r", "").splitlines(), 140)
    told = [" ".join(row) for row in rows(seen.plain)][-6:]
    assert told == [
        "# THREAD MODEL STATE TURNS TOKENS OWN TOTAL MORE",
        "1 main claude-opus-5 waiting for user AGE 2 12.7k $0.013 $0.079 3 segments, 1 loss, 1 error",
        "2 ├─ subagent Explore small done AGE 1 12.7k $0.013 $0.026",
        '3 │ └─ subagent "two words" large done AGE 1 12.7k $0.013 $0.013 uncertain: by rule prompt (60%)',
        "└─ utility × 3 tiny 3 38.1k $0.040 $0.040",
        "7 subagent large done AGE 1 12.7k unpriced unpriced parent unknown, 1 call unpriced",
    ]


def test_bookkeeping_is_counted_on_request(place: Path) -> None:
    seen = records_on_screen(words(place, MAIN, "--all-losses"), place, columns=140)
    assert seen.plain.count("2 losses") == 2
    _, out, _ = records_piped(words(place, MAIN, "--json", "--all-losses"), place)
    total = json.loads(out)["total"]
    assert (total["losses"], total["bookkeeping_losses"]) == (1, 1)


def test_a_tree_is_drawn_with_what_a_terminal_can_show(place: Path) -> None:
    seen = records_on_screen(words(place, MAIN), place, columns=140, environ={"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert seen.plain.isascii()
    for piece in ("|- subagent Explore", "|  `- subagent", "`- utility x 3"):
        assert piece in seen.plain


def test_all_threads_have_a_line_each_if_wanted(place: Path) -> None:
    seen = records_on_screen(words(place, MAIN, "--all"), place, columns=140)
    assert seen.plain.count("utility") == 3


def test_a_pipe_has_every_thread_with_everything(place: Path) -> None:
    status, out, err = records_piped(words(place, NEXT), place)
    assert (status, err) == (0, "")
    head, line = (timeless(line).split("\t") for line in out.splitlines())
    told = dict(zip(head, line, strict=True))
    assert {name: told[name] for name in ("#", "CLASS", "TURNS", "TOKENS", "OWN", "TOTAL", "RULE", "SURE")} == {
        "#": "8",
        "CLASS": "main",
        "TURNS": "1",
        "TOKENS": "12700",
        "OWN": "$0.0132",
        "TOTAL": "$0.0132",
        "RULE": "claude-code.hint",
        "SURE": "100",
    }


def test_what_a_session_goes_on_from_is_said(place: Path) -> None:
    assert f"continues {MAIN}" in records_on_screen(words(place, NEXT), place, columns=80).plain


def test_pitfall_551_561_every_view_comes_to_the_same(place: Path) -> None:
    _, out, _ = records_piped(words(place, MAIN, "--json"), place)
    told = json.loads(out)
    threads = told["threads"]
    total = told["total"]["cost_nano_usd"]
    assert sum(thread["own"]["cost_nano_usd"] for thread in threads) == total
    assert sum(thread["total"]["cost_nano_usd"] for thread in threads if not thread["depth"]) == total
    _, out, _ = records_piped(["sessions", "--json", "--config", str(place / "gateway.toml")], place)
    (line,) = (session for session in json.loads(out)["sessions"] if session["id"] == MAIN)
    assert {name: line[name] for name in told["total"]} == told["total"]
    _, out, _ = records_piped(["logs", "--json", "--session", MAIN, "--config", str(place / "gateway.toml")], place)
    exchanges = [json.loads(each) for each in out.splitlines()]
    assert sum(each["cost_nano_usd"] or 0 for each in exchanges) == total
    assert sum(each["input_tokens"] or 0 for each in exchanges) == told["total"]["input_tokens"]


def test_pitfall_570_wall_and_model_time_are_two_figures(place: Path) -> None:
    _, out, _ = records_piped(words(place, MAIN, "--json"), place)
    told = json.loads(out)
    assert told["model_microseconds"] == 8 * 1_250_000
    assert told["wall_microseconds"] > 25 * 60_000_000


def test_pitfall_523_a_circle_is_told_and_depth_has_no_end(tmp_path: Path) -> None:
    with filling(tmp_path / "state.db") as file:
        file.session(1, "deep", started=NOW, last=NOW)
        for number in range(1, 31):
            file.thread(number, 1, "subagent", parent=30 if number == 1 else number - 1, started=number, last=NOW)
            file.exchanges([entry(number, time=NOW)], 1, number)
    config(tmp_path)
    for columns in (80, 140):
        seen = records_on_screen(words(tmp_path, "deep"), tmp_path, columns=columns)
        assert fits(seen.raw.replace("\r", "").splitlines(), columns)
        assert "in a cycle of parents, cut here" in seen.plain
        assert seen.plain.splitlines()[-1] == "The parents of 1 thread form cycles, which are cut."
    _, out, _ = records_piped(words(tmp_path, "deep", "--json"), tmp_path)
    told = json.loads(out)
    assert (told["circles"], [thread["depth"] for thread in told["threads"]]) == (1, list(range(30)))


@pytest.mark.parametrize("columns", [80, 140])
def test_names_of_strangers_move_no_cursor_and_pose_as_no_column(place: Path, columns: int) -> None:
    seen = records_on_screen(words(place, "ses_"), place, columns=columns)
    assert seen.status == 0
    assert fits(seen.raw.replace("\r", "").splitlines(), columns)
    assert HOSTILE[:8] not in seen.raw
    status, out, _ = records_piped(words(place, "ses_", "--json"), place)
    assert (status, json.loads(out)["id"]) == (0, HOSTILE)
    assert out.strip().isprintable()


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (["nobody"], "there is no session 'nobody'; `dragoman sessions` lists the latest"),
        (["%"], "there is no session '%'; `dragoman sessions` lists the latest"),
        (["5f0c"], f"'5f0c' is the beginning of several sessions: {MAIN}, {NEXT}"),
        ([NEXT, "--key", "alice"], f"there is no session '{NEXT}'; `dragoman sessions` lists the latest"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(place: Path, said: list[str], problem: str) -> None:
    status, out, err = records_piped(words(place, *said), place)
    assert (status, out, err) == (1, "", f"dragoman: {problem}\n")
