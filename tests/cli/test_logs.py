"""`dragoman logs`: a line for each exchange, as they come, and all that is known of one."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.store.record_tables import open_record_tables
from tests.cli.recorded_file import (
    HOSTILE,
    MAIN,
    config,
    recorded_file,
    records_on_screen,
    records_piped,
    talk,
    timeless,
)
from tests.screen import fits


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    recorded_file(folder)
    return folder


def words(place: Path, *said: str) -> list[str]:
    return ["logs", "--config", str(place / "gateway.toml"), *said]


EIGHTY = (
    "HH:MM 502 /messages 1.2s - anthropic/large",
    "bad_gateway: ollama unreachable",
    "HH:MM 200 /messages 1.2s 12.0k+700 anthropic/large -top_k",
    "HH:MM 200 /messages 1.2s 12.0k+700 anthropic/large",
    "HH:MM 401 /messages 1.2s - no key was given",
)


def has(line: str, expected: str) -> bool:
    """Whether words stand on a line, in their order; what else the log has to say may stand between them."""
    words = iter(line.split())
    return all(word in words for word in expected.split())


def test_eighty_columns_show_the_latest_last_as_the_gateway_logs_them(place: Path) -> None:
    seen = records_on_screen(words(place, "-n", "5"), place, columns=80)
    assert seen.status == 0
    lines = seen.plain.splitlines()
    assert fits(seen.raw.replace("\r", "").splitlines(), 80)
    for line, expected in zip(lines, EIGHTY, strict=False):
        assert has(timeless(line), expected), line
    assert seen.coloured


def test_a_wide_terminal_shows_first_content_and_ids(place: Path) -> None:
    seen = records_on_screen(words(place, "-n", "1", "--key", "bob"), place, columns=140, environ={"NO_COLOR": "1"})
    (line,) = seen.plain.splitlines()
    assert has(timeless(line), "HH:MM 200 /messages 1.2s ttft 310ms 12.0k(9000)+700 anthropic/large")
    assert not seen.coloured
    seen = records_on_screen(words(place, "-n", "1", "--key", "bob", "--ids"), place, columns=80)
    assert has(timeless(seen.plain), f"HH:MM {talk(20, 0).id} 200 /messages 1.2s 12.0k+700")
    assert fits(seen.raw.replace("\r", "").splitlines(), 80)


def test_a_pipe_has_the_whole_date_and_no_end_of_line(place: Path) -> None:
    status, out, err = records_piped(words(place, "--key", "bob"), place)
    assert (status, err) == (0, "")
    assert timeless(out).startswith("DAY HH:MM 200 /messages ")
    assert out.rstrip().endswith(talk(20, 0).id)


@pytest.mark.parametrize(
    ("said", "numbers"),
    [
        (["--errors"], [2, 30]),
        (["--errors", "--key", "alice"], [2]),
        (["--model", "nothing"], []),
        (["--model", "anthropic/larg*", "-n", "2"], [20, 30]),
        (["--since", "25m"], [2, 1, 20, 30, 21]),
        (["--session", MAIN, "--thread", "3"], [4]),
        (["--session", MAIN[:13], "--thread", "1"], [2, 1]),
        (["-n", "0"], []),
    ],
)
def test_what_is_asked_for_is_shown(place: Path, said: list[str], numbers: list[int]) -> None:
    status, out, _ = records_piped(words(place, *said, "--json"), place)
    assert status == 0
    assert [int(json.loads(line)["id"][4:]) for line in out.splitlines()] == numbers


def test_pitfall_512_the_exchanges_of_one_agent_are_picked_out_of_its_session(place: Path) -> None:
    def threads(*said: str) -> set[int]:
        _, out, _ = records_piped(words(place, "--json", *said), place)
        return {json.loads(line)["thread"]["number"] for line in out.splitlines()}

    assert threads("--session", MAIN) == {1, 2, 3, 4, 5, 6, 7}
    assert threads("--session", MAIN, "--thread", "2") == {2}


PAGE = """\
EXCHANGE   req_000000000000000000000001
outcome    answered, status 200, stop reason end
time       DAY HH:MM to HH:MM
duration   1.2s, first content after 310ms, then 743.6 tokens per second
requested  large (conversation, /messages, anthropic-messages, streamed)
served     anthropic/large (anthropic-messages)
who        key alice, client claude-cli, user agent "claude-cli/2.1.325
           (external, cli)", from 192.0.2.0/24
session    5f0c7c1e-0001-4b6f-9d8a-000000000001 of key alice
thread     1, main, by rule claude-code.hint
tokens     2500 uncached + 9000 read from caches + 500 written to caches = 12.0k
           in; 700 out, of which 200 reasoning
cost       $0.013 (input $0.0050, cache read $0.0009, cache write $0.0003,
           output $0.0070); prices of DAY; entry anthropic/large; the
           provider reported $0.013
ids        ours req_000000000000000000000001, provider's theirs, answer's msg_1

#  TARGET         OUTCOME      STATUS  AFTER   TTFT  DURATION     TOKENS    COST
1  ollama/qwen3   unreachable       -    0ms      -       5ms          -       -
      openai-chat
2  anthropic/     answered        200    6ms  304ms      1.2s  12.0k+700  $0.013
   large
      id theirs, key 1, may have been billed, anthropic-messages

LOST     FEATURE  AT
dropped  top_k    sampling.top_k
and 1 bookkeeping loss without effect on the response; --all-losses lists them
What each loss means: docs/losses.md
"""


def test_all_that_is_known_of_one_is_on_a_page(place: Path) -> None:
    seen = records_on_screen(words(place, "theirs"), place, columns=80)
    assert seen.status == 0
    assert timeless(seen.plain) == PAGE
    assert fits(seen.raw.replace("\r", "").splitlines(), 80)
    wide = records_on_screen(words(place, talk(1, 0).id), place, columns=140)
    failed = "1  ollama/qwen3     unreachable       -    0ms      -       5ms          -       -  openai-chat"
    assert failed in wide.plain


def test_bookkeeping_is_shown_on_lines_and_on_the_page_only_on_request(place: Path) -> None:
    def shown(*said: str) -> str:
        return records_on_screen(words(place, *said), place, columns=140).plain

    assert "-top_k" in shown("--session", MAIN)
    assert "cache_breakpoint" not in shown("--session", MAIN) + shown("theirs")
    assert "-top_k ~cache_breakpoint" in shown("--session", MAIN, "--all-losses")
    page = shown("theirs", "--all-losses")
    assert "approximated  cache_breakpoint  messages[3]" in page
    assert "bookkeeping" not in page


def test_programs_get_the_same_as_one_object(place: Path) -> None:
    status, out, _ = records_piped(words(place, "theirs", "--json"), place)
    told = json.loads(out)
    assert (status, told["id"], told["cost_nano_usd"]) == (0, talk(1, 0).id, 13_200_000)
    assert [attempt["outcome"] for attempt in told["attempts"]] == ["unreachable", "answered"]
    assert [(loss["feature"], loss["weight"]) for loss in told["losses"]] == [
        ("top_k", "changes_response"),
        ("cache_breakpoint", "bookkeeping"),
    ]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (["nobody"], "there is no exchange 'nobody'; `dragoman logs` lists the latest"),
        (["nobody\udce9"], "there is no exchange 'nobody?'; `dragoman logs` lists the latest"),
        (["' OR 1=1 --x"], 'there is no exchange "\' OR 1=1 --x"; `dragoman logs` lists the latest'),
        (["--session", "nobody"], "there is no session 'nobody'; `dragoman sessions` lists the latest"),
        (["-n", "-1"], "-n: -1 is not a number of requests"),
        (["-f", "theirs"], "-f follows all requests; leave out the ID"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(place: Path, said: list[str], problem: str) -> None:
    status, out, err = records_piped(words(place, *said), place)
    # What the words themselves show to be wrong is another status than what is not there.
    assert (status, out, err) == (2 if problem.startswith("-") else 1, "", f"dragoman: {problem}\n")


@pytest.mark.parametrize("columns", [80, 140])
def test_names_of_strangers_move_no_cursor_and_pose_as_no_column(place: Path, columns: int) -> None:
    for said in (["-n", "1"], [talk(21, 0).id]):
        seen = records_on_screen(words(place, *said), place, columns=columns)
        assert fits(seen.raw.replace("\r", "").splitlines(), columns)
        assert HOSTILE[:8] not in seen.raw


def test_where_nothing_is_recorded_yet_it_says_so_and_where_it_looked(tmp_path: Path) -> None:
    config(tmp_path)
    file = tmp_path / "state.db"
    for more in ([], ["--json"], ["--errors"]):
        assert records_piped(words(tmp_path, *more), tmp_path) == (
            0,
            "",
            f"dragoman: no requests recorded yet: {file} does not exist\n",
        )
    with closing(open_record_tables(str(file))):
        pass
    assert records_piped(words(tmp_path), tmp_path) == (0, "", f"dragoman: no requests recorded yet in {file}\n")


def test_where_something_is_recorded_but_nothing_of_that_kind_it_is_silent(place: Path) -> None:
    assert records_piped(words(place, "--model", "nothing"), place) == (0, "", "")
