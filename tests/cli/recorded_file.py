"""A folder with a configuration and a file of records: two sessions, agents, a failure, a stranger's names.

`records_piped` and `records_on_screen` call a command that shows them at the time that they are told from, in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from dragoman.records.journal_entry import CallEntry, CostBreakdown, JournalEntry, LossEntry, TokenCounts
from tests.cli.screens import Seen, on_screen, piped
from tests.records.invented import NOON, entry
from tests.records.kept_sessions import Filling, filling

# The time at which commands look at the file, in microseconds.
NOW = NOON
SECOND, MINUTE = 1_000_000, 60_000_000
MAIN, NEXT = "5f0c7c1e-0001-4b6f-9d8a-000000000001", "5f0c7c1e-0002-4b6f-9d8a-000000000002"
# A name that would clear the screen, pose as a column, and go on for ever.
HOSTILE = "ses_\x1b[2J\x9b1m\u202e  $0.00  " + "x" * 300
TOKENS = TokenCounts(12_000, 9000, 500, 0, 700, 200, 0)
MONEY = CostBreakdown(
    5_000_000, 7_000_000, 900_000, 300_000, version="2026-10-30", entry="anthropic/large", reported=13_000_000
)


def records_piped(words: Sequence[str], place: Path) -> tuple[int, str, str]:
    """Call a command without a terminal at `NOW`: its status, standard output and standard error."""
    return piped(words, place, {"TZ": "UTC"}, now=NOW)


def records_on_screen(
    words: Sequence[str], place: Path, *, columns: int = 80, environ: Mapping[str, str] | None = None
) -> Seen:
    """Call a command on a terminal at `NOW`."""
    return on_screen(words, place, columns=columns, environ={"TZ": "UTC", **(environ or {})}, now=NOW)


def talk(number: int, ago: int, *, stop: str = "end") -> JournalEntry:
    """An exchange that was streamed and ended so long before `NOW`."""
    told = entry(number, time=NOW - ago - 1_250_000, tokens=TOKENS, money=MONEY)
    return replace(told, stream=True, first_content=310_000, duration=1_250_000, stop_reason=stop, path="/messages")


def recorded_file(folder: Path) -> Path:
    """The configuration of a gateway that was here."""
    with filling(folder / "state.db") as file:
        _first(file)
        _second(file)
        file.exchanges(
            [
                replace(
                    talk(30, 9 * SECOND),
                    outcome="refused",
                    status=401,
                    failure="unauthenticated",
                    refusal="no key was given",
                    key="",
                    calls=(),
                    tokens=None,
                    cost=None,
                )
            ]
        )
    return config(folder)


def config(folder: Path, path: str = "state.db") -> Path:
    """A configuration that names a file."""
    place = folder / "gateway.toml"
    place.write_text(f'[storage]\npath = "{path}"\n', encoding="utf-8")
    place.chmod(0o600)
    return place


def _first(file: Filling) -> None:
    """A main thread with an agent that has another one, titles, and a thread whose parent nobody knows."""
    begin = NOW - 30 * MINUTE
    file.session(1, MAIN, started=begin, last=NOW - 150 * SECOND)
    file.thread(1, 1, started=begin, last=NOW - 150 * SECOND, model="claude-opus-5", windows=3)
    file.thread(2, 1, "subagent", label="Explore", parent=1, started=begin + 1, last=begin + MINUTE, model="small")
    file.thread(
        3, 1, "subagent", label="two words", parent=2, started=begin + 2, last=begin + MINUTE, sure=60, rule="prompt"
    )
    for number in (4, 5, 6):
        file.thread(number, 1, "utility", parent=1, started=begin + number, last=begin + number, model="tiny")
    file.thread(7, 1, "subagent", parent=99, started=begin + MINUTE, last=begin + MINUTE)
    calls = (
        CallEntry("ollama", "qwen3", "openai-chat", "unreachable", 0, 100, 0, 5000),
        CallEntry(
            "anthropic",
            "large",
            "anthropic-messages",
            "answered",
            200,
            6000,
            310_000,
            1_240_000,
            "theirs",
            0,
            True,
            TOKENS,
            False,
            MONEY,
        ),
    )
    losses = (
        LossEntry("top_k", "dropped", "sampling.top_k"),
        LossEntry("cache_breakpoint", "approximated", "messages[3]"),
    )
    last = replace(talk(1, 150 * SECOND), calls=calls, losses=losses, provider_request_id="theirs", response_id="msg_1")
    broken = replace(
        talk(2, 200 * SECOND),
        outcome="failed",
        status=502,
        failure="bad_gateway",
        calls=calls[:1],
        tokens=None,
        cost=None,
    )
    file.exchanges([last, broken], 1, 1)
    file.exchanges([talk(3, 29 * MINUTE)], 1, 2)
    file.exchanges([talk(4, 29 * MINUTE)], 1, 3)
    for number in (4, 5, 6):
        file.exchanges([talk(number + 1, 29 * MINUTE)], 1, number)
    file.exchanges([replace(talk(8, 29 * MINUTE), cost=None)], 1, 7)


def _second(file: Filling) -> None:
    """One that goes on from the first, under another key, and one of a stranger."""
    begin = NOW - 10 * MINUTE
    file.session(2, NEXT, key="bob", client="codex", started=begin, last=NOW - 12 * SECOND, origin=1, link="continues")
    file.thread(8, 2, started=begin, last=NOW - 12 * SECOND)
    file.exchanges([replace(talk(20, 12 * SECOND, stop="tool_call"), key="bob")], 2, 8)
    file.session(3, HOSTILE, client=HOSTILE, started=begin, last=NOW - 5 * SECOND)
    file.thread(9, 3, label=HOSTILE, model=HOSTILE, rule=HOSTILE, sure=10, started=begin, last=NOW - 5 * SECOND)
    strange = replace(talk(21, 5 * SECOND), requested_model=HOSTILE, model=HOSTILE, program=HOSTILE, client=HOSTILE)
    file.exchanges([strange], 3, 9)


def timeless(text: str) -> str:
    """A text without the times and dates in it, which move on."""
    text = re.sub(r"\d{4}-\d\d-\d\d", "DAY", text)
    text = re.sub(r"\b(\d\d-\d\d )?\d\d:\d\d(:\d\d)?", "HH:MM", text)
    text = text.replace("tool results overdue ", "running tools ")
    text = re.sub(r"(running tools|waiting for user|failed|done) \d+[smh]", r"\1 AGE", text)
    # On the second line of a state.
    return re.sub(r"^( +)(user )?\d+[smh]$", r"\1\2AGE", text, flags=re.M)
