"""The page of one exchange, with what is not known of it."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.cli.exchange_page import as_page
from dragoman.cli.record_file import RecordFile
from dragoman.cli.terminal import OutputScreen
from dragoman.records.exchanges import unrecorded
from dragoman.records.journal_entry import CandidateEntry, JournalEntry
from dragoman.records.time_range import zone_of
from tests.cli.recorded_file import HOSTILE, MONEY
from tests.records.invented import entry
from tests.screen import fits

KEPT = RecordFile(database="", zone=zone_of("UTC"))


def page(told: JournalEntry, *, terminal: bool = False, width: int = 80) -> dict[str, str]:
    """The page by the names of its lines."""
    return dict(line.split("\t") for line in page_lines(told, terminal, width) if line.count("\t") == 1)


def page_lines(told: JournalEntry, terminal: bool, width: int) -> list[str]:
    lines = list(as_page(unrecorded(told), KEPT, OutputScreen(terminal=terminal, width=width)))
    assert not terminal or fits(lines, width)
    return lines


def test_pitfall_557_what_has_no_price_is_said_to_have_none() -> None:
    assert page(entry(1, money=None))["cost"] == "unpriced"
    assert page(entry(1, tokens=None, money=None))["tokens"] == "not known"
    some = replace(MONEY, unpriced=("thinking",), reported=None)
    assert page(entry(1, money=some))["cost"] == (
        "≥ $0.0132 (input $0.005, cache read $0.0009, cache write $0.0003, output $0.007); no price for thinking; "
        "prices of 2026-10-30; entry anthropic/large"
    )


def test_a_pipe_has_exact_numbers() -> None:
    told = page(entry(1))
    assert (
        told["tokens"]
        == "40 uncached + 60 read from caches + 0 written to caches = 100 in; 20 out, of which 5 reasoning"
    )
    assert told["cost"] == "$0.0000015 (input $0.000001, output $0.0000005); prices of 2026-10-30"
    assert told["session"] == "none"
    assert "thread" not in told


def test_pitfall_571_what_came_at_once_has_no_speed() -> None:
    assert page(entry(1))["duration"] == "3ms, first content after 1ms"
    assert (
        page(replace(entry(1), stream=True))["duration"]
        == "3ms, first content after 1ms, then 9500.0 tokens per second"
    )


def test_what_a_stranger_says_stays_in_its_quotes() -> None:
    told = page(replace(entry(1), program=HOSTILE, refusal='x", key root', requested_model=HOSTILE))
    assert told["refusal"] == '"x\', key root"'
    assert "\x1b" not in told["who"]
    page(replace(entry(1), program=HOSTILE, requested_model=HOSTILE, model=HOSTILE, key=HOSTILE), terminal=True)


CANDIDATES = (
    CandidateEntry("anthropic/claude-sonnet-5", "", 1_500_000, 0, 250_000, 80.5),
    CandidateEntry(
        "openai/gpt-5.1", "deprioritized: slow start after a cooldown: it gets a part of the requests", 2_000_000
    ),
    CandidateEntry("ollama/qwen3", "left out: its price is unknown, and there is a max_cost"),
)
EIGHTY = """
#  CANDIDATE                    PRICE   TTFT  TOKENS/S  LOSSES
1  anthropic/claude-sonnet-5  $0.0015  250ms      80.5       0
2  openai/gpt-5.1             $0.0020      -         -       -
      deprioritized: slow start after a cooldown: it gets a part of the requests
-  ollama/qwen3                     -      -         -       -
      left out: its price is unknown, and there is a max_cost
and 4 more
"""


def test_whom_it_might_have_gone_to_is_a_table() -> None:
    told = replace(entry(1), candidates=CANDIDATES, candidates_more=4)
    assert EIGHTY in "\n".join(page_lines(told, terminal=True, width=80)) + "\n"
    assert "CANDIDATE" not in "\n".join(page_lines(entry(1), terminal=True, width=80))
    hostile = replace(told, candidates=(CandidateEntry(HOSTILE[:256], "left out: in cooldown"),))
    for width in (80, 140):
        assert "\x1b" not in "".join(page_lines(hostile, terminal=True, width=width))
