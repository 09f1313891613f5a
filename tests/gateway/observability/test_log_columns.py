"""Lines for people: they fit the terminal, say what matters, and nothing from outside can pose as anything else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.gateway.observability.log_columns import LogColumns, printable
from dragoman.gateway.observability.record import Record
from dragoman.model.features import Feature, weight_of
from dragoman.model.response import Usage
from dragoman.records.journal_entry import CallEntry, CostBreakdown, TokenCounts
from dragoman.terminal import Screen, cells
from dragoman.translate import LossLine
from tests.gateway.observability.scraped import logged
from tests.gateway.observability.test_logs import HOSTILE
from tests.screen import COLOUR, as_seen, fits

WIDTHS = (20, 40, 63, 64, 80, 100, 119, 120, 140, 200)
CALL = CallEntry(provider="openai", model="gpt-5.1", protocol="openai-responses", status=200, kind="answered")
RECORD = Record(
    id="req_0123456789abcdefghijklmn",
    client_protocol="openai-chat",
    path="/chat/completions",
    started=100.0,
    time=0,
    address="127.0.0.1",
    requested_model="fast",
    provider="openai",
    model="gpt-5.1",
    provider_protocol="openai-responses",
    status=200,
    stream=True,
    first_content=100.3,
    ended=101.25,
    attempts=(CALL,),
    usage=Usage(input=12345, output=340, cache_read=9800),
)


def loss(fate: str, feature: str) -> LossLine:
    return LossLine(fate=fate, feature=feature, weight=weight_of(feature), at="", note="")


LOSSES = (
    loss("dropped", "top_k"),
    loss("approximated", "tool_result_image"),
    loss("invented", "max_tokens"),
    loss("dropped", "top_k"),
)
LIMITED = replace(CALL, status=429, kind="rate_limited")
DOWN = replace(CALL, provider="ollama", status=0, kind="unreachable")
NOWHERE = "there is nothing at this path; what there is: /v1/messages, /v1/chat/completions, /v1/responses, /v1/models"
CASES = {
    "a plain answer": RECORD,
    "losses and a key": replace(RECORD, path="/messages", losses=LOSSES, key="laptop"),
    "the second target": replace(RECORD, requested_model="gpt-5.1", path="/responses", attempts=(LIMITED, DOWN, CALL)),
    "a provider that is down": replace(
        RECORD, status=502, failure="bad_gateway", provider="ollama", attempts=(DOWN,), usage=None, first_content=0.0
    ),
    "a limit": replace(
        RECORD, status=429, failure="rate_limited", attempts=(LIMITED, LIMITED), usage=None, first_content=0.0
    ),
    "a client that left": replace(RECORD, status=499, failure="cancelled", usage=None),
    "nothing there": Record(
        id=RECORD.id,
        client_protocol="",
        path="/nowhere/at/all",
        started=1.0,
        time=0,
        ended=1.0,
        status=404,
        failure="not_found",
        refusal=NOWHERE,
        address="203.0.113.9",
    ),
}


def told(
    record: Record, columns: int | None, *, colours: bool = False, unicode: bool = True, all_losses: bool = False
) -> list[str]:
    """The lines for a record, without their time."""
    screen = Screen(colours=colours, unicode=unicode, columns=lambda: columns)
    lines = LogColumns(screen, all_losses=all_losses).exchange(*logged(record)).split("\n")
    seen = [as_seen(line) for line in lines]
    assert re.match(r"\d\d:\d\d:\d\d ", seen[0])
    return [seen[0][9:], *seen[1:]]


def test_eighty_columns_show_who_was_asked_what_it_took_and_why_it_failed() -> None:
    assert {case: told(record, 80) for case, record in CASES.items()} == {
        "a plain answer": ["200 /chat/com…  1.2s   12.3k+340 fast → openai/gpt-5.1"],
        "losses and a key": ["200 /messages   1.2s   12.3k+340 fast → openai/gpt-5.1  -top_k …2"],
        "the second target": ["200 /responses  1.2s   12.3k+340 openai/gpt-5.1  3 attempts"],
        "a provider that is down": [
            "502 /chat/com…  1.2s           - fast → ollama/gpt-5.1",
            "             bad_gateway: ollama unreachable",
        ],
        "a limit": [
            "429 /chat/com…  1.2s           - fast → openai/gpt-5.1  2 attempts",
            "             rate_limited: openai answered 429 (2 times)",
        ],
        "a client that left": ["499 /chat/com…  1.2s           - fast → openai/gpt-5.1  cancelled"],
        "nothing there": [
            "404 /nowhere/at/all   0ms           -",
            "             there is nothing at this path; what there is: /v1/messages,",
            "             /v1/chat/completions, /v1/responses, /v1/models",
        ],
    }


def test_a_line_is_of_now_unless_it_is_said_when_it_was() -> None:
    line = LogColumns(Screen(columns=lambda: 80)).exchange(*logged(RECORD), "2026-01-31 14:02:11")
    assert line == "2026-01-31 14:02:11 200 /chat/com…  1.2s   12.3k+340 fast → openai/gpt-5.1"


def test_a_wide_terminal_shows_first_content_cached_tokens_and_ids() -> None:
    assert {case: told(record, 140) for case, record in CASES.items()} == {
        "a plain answer": [
            "200 /chat/completions  1.2s ttft 300ms    12.3k(9800)+340 fast → openai/gpt-5.1"
            "                        req_0123456789abcdefghijklmn"
        ],
        "losses and a key": [
            "200 /messages          1.2s ttft 300ms    12.3k(9800)+340 fast → openai/gpt-5.1"
            "  -top_k ~tool_result_image +max_tokens  key laptop"
        ],
        "the second target": [
            "200 /responses         1.2s ttft 300ms    12.3k(9800)+340 openai/gpt-5.1  3 attempts"
            "                   req_0123456789abcdefghijklmn"
        ],
        "a provider that is down": [
            "502 /chat/completions  1.2s                             - fast → ollama/gpt-5.1"
            "  bad_gateway: ollama unreachable"
        ],
        "a limit": [
            "429 /chat/completions  1.2s                             - fast → openai/gpt-5.1"
            "  rate_limited: openai answered 429 (2 times)"
        ],
        "a client that left": [
            "499 /chat/completions  1.2s ttft 300ms                  - fast → openai/gpt-5.1  cancelled"
            "             req_0123456789abcdefghijklmn"
        ],
        "nothing there": [
            "404 /nowhere/at/all     0ms                             -  from 203.0.113.9"
            "                            req_0123456789abcdefghijklmn",
            f"             {NOWHERE}",
        ],
    }


def test_without_an_edge_all_is_on_one_line() -> None:
    assert {case: told(record, None)[0].split("  ")[-4:] for case, record in CASES.items()} == {
        "a plain answer": ["1.2s ttft 300ms", "", "12.3k(9800)+340 fast → openai/gpt-5.1", RECORD.id],
        "losses and a key": [
            "12.3k(9800)+340 fast → openai/gpt-5.1",
            "-top_k ~tool_result_image +max_tokens",
            "key laptop",
            RECORD.id,
        ],
        "the second target": [
            "",
            "12.3k(9800)+340 openai/gpt-5.1",
            "3 attempts: openai answered 429 rate_limited, ollama unreachable",
            RECORD.id,
        ],
        "a provider that is down": [
            "",
            " - fast → ollama/gpt-5.1",
            "bad_gateway: ollama unreachable",
            RECORD.id,
        ],
        "a limit": [
            " - fast → openai/gpt-5.1",
            "rate_limited: openai answered 429 (2 times)",
            "2 attempts",
            RECORD.id,
        ],
        "a client that left": ["", "- fast → openai/gpt-5.1", "cancelled", RECORD.id],
        "nothing there": [" -", NOWHERE, "from 203.0.113.9", RECORD.id],
    }
    assert all(len(told(record, None)) == 1 for record in CASES.values())


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_every_line_fits_and_colours_change_nothing_but_the_colour(case: str, columns: int) -> None:
    plain, coloured = (told(CASES[case], columns, colours=colours) for colours in (False, True))
    assert plain == coloured
    assert all(cells(line) <= columns for line in plain[1:] if columns > 26)
    if columns >= 40:
        # The time is not in it.
        assert cells(plain[0]) <= columns - 9


@pytest.mark.parametrize(
    ("status", "failure", "code"),
    [(200, "", 32), (200, "truncated", 33), (404, "not_found", 33), (499, "cancelled", 33), (502, "bad_gateway", 31)],
)
def test_the_status_has_the_colour_of_how_it_went(status: int, failure: str, code: int) -> None:
    screen = Screen(colours=True, columns=lambda: 80)
    line = LogColumns(screen).exchange(*logged(replace(RECORD, status=status, failure=failure)))
    assert f" \x1b[{code}m{status}\x1b[0m" in line
    assert not COLOUR.search(LogColumns(Screen(columns=lambda: 80)).exchange(*logged(RECORD)))


def test_an_event_is_told_with_its_level_in_colour() -> None:
    line = LogColumns(Screen(colours=True)).event("warn", "something happened", {"reason": "a cause", "running": 3})
    assert as_seen(line)[9:] == 'warn  something happened reason="a cause" running=3'
    assert " \x1b[33mwarn \x1b[0m" in line


@pytest.mark.parametrize("columns", [None, 80, 140])
@pytest.mark.parametrize("member", ["requested_model", "model", "path", "key", "refusal"])
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_text_stays_in_its_place(case: str, member: str, columns: int | None) -> None:
    record = replace(RECORD, status=404, failure="not_found", **{member: HOSTILE[case]})
    for unicode in (True, False):
        lines = told(record, columns, unicode=unicode)
        assert lines[0].startswith("404 ")
        # What stands below begins further in than any line does by itself.
        assert all(line.startswith(" " * 13) for line in lines[1:])
        assert len(lines) <= 5
        assert columns is None or (fits(lines[1:], columns) and cells(lines[0]) <= columns - 9)
        assert unicode or all(line.isascii() for line in lines)
        if member != "refusal":
            # Fields are two blanks apart, and no name has any.
            assert not any(" openai/x openai-chat " in line for line in lines)
            assert columns is not None or lines[0].endswith(f"  {RECORD.id}")


def test_a_provider_is_not_named_for_what_the_gateway_did_itself() -> None:
    record = replace(RECORD, status=500, failure="internal", attempts=(replace(CALL, kind="gateway_error"),))
    assert told(record, 80)[0].endswith("fast → openai/gpt-5.1  internal")


def test_a_reason_cannot_pose_as_a_field() -> None:
    (line,) = told(replace(CASES["nothing there"], refusal="no  key admin   here", address=""), 140)
    assert "  no key admin here" in line


def test_names_of_other_scripts_are_shown_as_they_are() -> None:
    assert printable("模型-é") == "模型-é"
    assert "模型-é → openai/gpt-5.1" in told(replace(RECORD, requested_model="模型-é"), 80)[0]
    assert "\\u6a21\\u578b -> openai" in told(replace(RECORD, requested_model="模型"), 80, unicode=False)[0]


def test_long_names_leave_room_for_what_was_lost() -> None:
    record = replace(RECORD, requested_model="a-name-of-a-model-that-is-long", model="m" * 60, losses=LOSSES)
    (line,) = told(record, 80)
    assert line.endswith("…  -top_k …2")
    assert "a-name-" in line and "openai/mmm" in line
    # No more of it than they need.
    (line,) = told(replace(RECORD, requested_model="a-name-that-is-long", losses=LOSSES[:1]), 80)
    assert line.endswith(" a-name-that-… → openai/gpt-5.1  -top_k")


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0"), (9999, "9999"), (10_000, "10.0k"), (99_949, "99.9k"), (99_950, "100k"), (999_500, "1.0M")],
)
def test_numbers_of_tokens_are_short(count: int, said: str) -> None:
    (line,) = told(replace(RECORD, usage=Usage(input=count, output=1)), 80)
    assert f" {said}+1 " in line


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "0ms"), (0.999, "999ms"), (0.9996, "1.0s"), (99.9, "99.9s"), (185.2, "185s"), (-1.0, "0ms")],
)
def test_times_are_short(seconds: float, said: str) -> None:
    (line,) = told(replace(RECORD, started=100.0, ended=100.0 + seconds, first_content=0.0), 80)
    assert f" {said} " in line


def test_the_page_shows_lines_as_they_are() -> None:
    page = (Path(__file__).parents[3] / "docs/monitoring.md").read_text(encoding="utf-8")
    shown_there = page.partition("### On a terminal")[2].split("```")[1].strip("\n")
    asked = replace(RECORD, path="/messages", usage=Usage(input=4123, output=340))
    local = replace(CALL, provider="local", model="qwen3", status=0, kind="unreachable")
    records = (
        replace(asked, losses=(loss("dropped", Feature.TOP_K.value),), cost=CostBreakdown(input=8_600_000)),
        replace(
            asked,
            cost=CostBreakdown(input=15_000_000, unpriced=("cache_write",)),
            requested_model="gpt-5.1",
            provider="azure",
            ended=103.4,
            attempts=(LIMITED, CALL),
            usage=Usage(input=12_345, output=1021),
            key="laptop",
        ),
        replace(
            asked,
            requested_model="local/qwen3",
            provider="local",
            model="qwen3",
            status=502,
            failure="bad_gateway",
            ended=100.012,
            attempts=(local,),
            usage=None,
        ),
        replace(CASES["nothing there"], path="/nowhere"),
    )
    lines = [line for record in records for line in told(record, 80)]
    assert [line.removeprefix("14:02:11 ") for line in shown_there.split("\n")] == lines


def told_in(width: int, record: Record) -> str:
    return LogColumns(Screen(columns=lambda: width)).exchange(*logged(record))


COSTS = {
    "what it cost": (CostBreakdown(input=12_345_678), "$0.0123"),
    "at least": (CostBreakdown(input=1_915_200_000, unpriced=("output",)), ">$1.92"),
    "at least next to nothing": (CostBreakdown(input=38_000, unpriced=("output",)), ">$0.000038"),
    "nothing": (CostBreakdown(), "$0.00"),
    "not known": (CostBreakdown(unpriced=("model",)), ""),
}


@pytest.mark.parametrize("case", COSTS)
def test_pitfall_557_what_it_cost_is_said_where_there_is_room(case: str) -> None:
    money, told = COSTS[case]
    tokens = TokenCounts(input=4123, output=340)
    for width in (100, 140):
        line = told_in(width, replace(RECORD, tokens=tokens, cost=money, estimated=True))
        assert cells(line) <= width
        assert "~4123+340" in line
        assert told in line and (bool(told) or "$" not in line)


def test_bookkeeping_leaves_the_line_to_cost_and_thread() -> None:
    names = ("cache_breakpoint", "end_user", "cache_key", "telemetry_line", "tool_search", "thinking_display")
    marked = replace(
        RECORD,
        path="/messages",
        losses=tuple(loss("dropped", name) for name in names),
        cost=CostBreakdown(input=8_600_000),
    )
    assert told(marked, 80) == ["200 /messages   1.2s   12.3k+340 fast → openai/gpt-5.1  $0.0086"]
    assert told(replace(marked, losses=(*marked.losses, loss("dropped", "top_k"))), 80) == [
        "200 /messages   1.2s   12.3k+340 fast → openai/gpt-5.1  -top_k  $0.0086"
    ]
    assert "-cache_breakpoint -end_user" in told(marked, 140, all_losses=True)[0]
