"""Measures what is asked of records: sums of 30 days, and lists, in files of many exchanges.

python -m bench.records                     100,000 and 1,000,000 rows in 30 days, in a folder that is removed again
python -m bench.records --rows 1000000 --days 400
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from dragoman.records.exchanges import latest
from dragoman.records.export import exchanges
from dragoman.records.journal_entry import (
    ANSWERED,
    CANCELLED,
    FAILED,
    CallEntry,
    CostBreakdown,
    JournalEntry,
    LossEntry,
    TokenCounts,
)
from dragoman.records.rows import Batch
from dragoman.records.sessions import listing
from dragoman.records.thread_assignment import AssignedThread
from dragoman.records.thread_status import Opened
from dragoman.records.time_range import period_of, zone_of
from dragoman.records.usage import GROUPS, UsageReport, usage
from dragoman.store.record_queries import Exports, RecordFilter
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.usage_queries import UsageQueries

# The present of all files: a Tuesday in 2027, not at the end of a quarter.
NOW = 1_800_000_000 + 421
SUMS, LISTS = 20.0, 5.0
_MICRO = 1_000_000
_DAY = 86_400
_BATCH = 5000
_REPEAT = 5
# As many groups as are shown to people.
_DEAREST = 100
# Who there is: a team with its agents.
_KEYS = tuple(f"person-{number}" for number in range(12))
_CLIENTS = ("claude-cli", "codex_exec", "opencode")
_TARGETS = (
    ("anthropic", "claude-opus-5"),
    ("anthropic", "claude-haiku-5"),
    ("openai", "gpt-6.1-codex"),
    ("openrouter", "deepseek/deepseek-v4"),
)
# Exchanges of one thread, and what lies between them, in microseconds.
_TURNS, _PACE = 20, 12 * _MICRO


class Measured(Struct, frozen=True, kw_only=True):
    """What one question took, in milliseconds of processor time, what it may take, and how many answers it had."""

    words: str
    took: float
    target: float
    answers: int


def entries(rows: int, days: float, seed: int = 1, now: int = NOW) -> Iterator[tuple[JournalEntry, AssignedThread]]:
    """Exchanges of threads that begin at any time and go on for some minutes; three of them are a session."""
    dice = random.Random(seed)
    length = int(days * _DAY * _MICRO)
    begins = sorted(dice.randrange(length) for _ in range(-(-rows // _TURNS)))
    number = 0
    for thread, begin in enumerate(begins, 1):
        place = AssignedThread(1 + thread // 3, thread)
        for turn in range(min(_TURNS, rows - number)):
            moment = min(begin + turn * _PACE, length - 1) + now * _MICRO - length
            yield _entry(dice, number, moment, thread), place
            number += 1


def _entry(dice: random.Random, number: int, moment: int, thread: int) -> JournalEntry:
    provider, model = _TARGETS[thread % len(_TARGETS)]
    read = dice.randrange(200_000)
    tokens = TokenCounts(input=read + dice.randrange(5000), cache_read=read, output=dice.randrange(3000))
    money = CostBreakdown(input=dice.randrange(10**8), output=dice.randrange(10**8), version="2026-10-30", entry=model)
    identifier = f"req_{moment:016x}{dice.getrandbits(64):016x}"
    call = CallEntry(
        provider,
        model,
        "anthropic-messages",
        status=200,
        started=900,
        first_content=800_000,
        ended=9_000_000,
        provider_request_id=f"req_011{dice.getrandbits(80):020x}",
        key=0,
        tokens=tokens,
        cost=money,
    )
    return JournalEntry(
        id=identifier,
        time=moment,
        outcome=dice.choice((ANSWERED,) * 30 + (FAILED, CANCELLED)),
        key=_person(thread),
        client=_CLIENTS[thread // 3 * 7 % len(_CLIENTS)],
        program="claude-cli/2.1.325 (external, cli)",
        address="192.0.2.0/24",
        client_protocol="anthropic-messages",
        path="/v1/messages",
        stream=True,
        requested_model=model,
        provider=provider,
        model=model,
        provider_protocol=model,
        response_model=model,
        route=f"{provider}/{model}",
        status=200,
        stop_reason="tool_use",
        first_content=800_000,
        duration=9_000_000,
        tokens=tokens,
        cost=money,
        calls=(call,),
        losses=(LossEntry("sampling", "dropped", "sampling.seed"),) * (number % 50 == 0),
        provider_request_id=call.provider_request_id,
        response_id=f"msg_{dice.getrandbits(80):020x}",
        size=120_000,
    )


def _person(thread: int) -> str:
    return _KEYS[thread // 3 * 5 % len(_KEYS)]


def fill(tables: RecordTables, rows: int, days: float, now: int = NOW) -> None:
    """Write so many exchanges of so many days, as the drain does, and who spoke in them."""
    told = entries(rows, days, now=now)
    while some := list(islice(told, _BATCH)):
        batch = Batch()
        for entry, place in some:
            batch.add(entry, place)
        with tables.transaction():
            # Whoever speaks is there before what it came to.
            _speak(tables, some)
            tables.records.add(batch.rows)
            tables.rollups.add(batch.rollups())
            tables.rollups.add_to_threads(batch.thread_rollups())


def _speak(tables: RecordTables, some: Sequence[tuple[JournalEntry, AssignedThread]]) -> None:
    """Write who spoke, from when to when."""
    sessions: dict[int, tuple[int, int]] = {}
    threads: dict[int, tuple[int, int, int]] = {}
    for entry, place in some:
        sessions[place.session] = (sessions.get(place.session, (entry.time,))[0], entry.time)
        threads[place.thread] = (place.session, threads.get(place.thread, (0, entry.time))[1], entry.time)
    heard = "ON CONFLICT (id) DO UPDATE SET last = excluded.last"
    tables.connection.many(
        f"INSERT INTO sessions VALUES (?, ?, ?, 'claude-cli', 0, '', ?, ?) {heard}",
        ((session, _person(session * 3 - 3), f"session-{session}", *times) for session, times in sessions.items()),
    )
    tables.connection.many(
        f"INSERT INTO threads VALUES (?, ?, 'main', 'main', '', '', 0, '', 100, 1, 1, ?, ?, x'7b7d') {heard}",
        ((thread, *times) for thread, times in threads.items()),
    )


def questions(tables: RecordTables) -> Iterator[tuple[str, float, Callable[[], UsageReport | Sequence[object]]]]:
    """What is asked, and how many milliseconds that may take; there are any number of sessions and threads."""
    asked = UsageQueries(tables.connection)
    month = period_of(zone_of("Asia/Kolkata"), NOW, since="30d")
    for by in GROUPS:
        if by not in ("session", "thread"):
            yield f"usage of 30 days by {by}", SUMS, partial(usage, asked, (by,), month)
            continue
        yield f"the dearest {by}s of 30 days", SUMS, partial(usage, asked, (by,), month, _DEAREST)
        # Of these there are any number.
        yield f"all {by}s of 30 days", math.inf, partial(usage, asked, (by,), month)
        yield f"to tell all {by}s as JSON", math.inf, partial(_tell, usage(asked, (by,), month))
    exports = Exports(tables.connection, at_once=50)
    now = NOW * _MICRO
    yield "50 exchanges to export", LISTS, lambda: list(islice(exchanges(exports, now - 3600 * _MICRO, now), 50))
    yield "the last 50 exchanges", LISTS, lambda: latest(tables, RecordFilter(), 50)
    yield "the last 50 sessions", LISTS, lambda: listing(tables, 0, None, 50, Opened(), now).lines


def _tell(found: UsageReport) -> UsageReport:
    found.encoded()
    return found


def measure(tables: RecordTables) -> list[Measured]:
    """Ask everything, and take the least of several times."""
    found = []
    for words, target, ask in questions(tables):
        took = []
        for _ in range(_REPEAT):
            began = time.process_time()
            answer = ask()
            took.append(time.process_time() - began)
        answers = len(answer.rows if isinstance(answer, UsageReport) else answer)
        found.append(Measured(words=words, took=min(took) * 1000, target=target, answers=answers))
    return found


def sizes(tables: RecordTables, path: Path) -> str:
    """How large the file is, by exchange."""
    db = tables.connection
    db.wipe()
    counts = {name: db.number(f"SELECT count(*) FROM {name}") for name in ("records", "sums", "threads")}
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return f"{told}; {path.stat().st_size / counts['records']:.0f} bytes for each exchange"


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill files and ask them; the status says whether that could be done, not whether it was fast."""
    parser = argparse.ArgumentParser(prog="bench.records", description="Measure what is asked of records.")
    parser.add_argument("--rows", type=int, action="append", metavar="COUNT", help="how many exchanges")
    parser.add_argument("--days", type=float, default=30.0, metavar="DAYS", help="in how many days")
    options = parser.parse_args(arguments)
    for rows in options.rows or (100_000, 1_000_000):
        with TemporaryDirectory(prefix="dragoman-records-") as folder:
            path = Path(folder) / "state.db"
            with closing(open_record_tables(str(path))) as tables:
                fill(tables, rows, options.days)
                print(f"{rows:,} exchanges in {options.days:g} days: {sizes(tables, path)}")
                for each in measure(tables):
                    missed = "" if each.took <= each.target else f", more than {each.target:g}"
                    print(f"  {each.words:32} {each.took:7.2f} ms, {each.answers:,} answers{missed}")
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
