"""Tallies: what launches came to, bounded, and each under the key that it was made with."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.gateway.observability.launch_counters import (
    MAX_LAUNCHES,
    MAX_LAUNCHES_PER_KEY,
    LaunchCount,
    LaunchCounters,
    WorkerLaunchCount,
    launch_name,
    summed,
)
from dragoman.gateway.observability.record import Record
from dragoman.model.response import Usage
from dragoman.records.journal_entry import CostBreakdown, TokenCounts
from dragoman.sessions.facts import ExchangeFacts
from dragoman.translate import LossLine
from tests.gateway.observability.scraped import finalized

RECORD = Record(
    id="r",
    client_protocol="anthropic-messages",
    path="/messages",
    started=0.0,
    time=0,
    status=200,
    key="me",
    launch="one",
)
LOST: LossLine = {"feature": "sampling", "weight": "changes_response", "fate": "dropped", "at": "", "note": ""}


def tally_of(*records: Record) -> LaunchCount:
    tallies = LaunchCounters()
    for record in records:
        tallies.count(finalized(record))
    return tallies.count_of("me", "one").tally


def test_calls_tokens_failures_and_losses_are_counted() -> None:
    usage = Usage(input=100, output=20)
    told = tally_of(
        replace(RECORD, usage=usage, losses=(LOST, LOST)),
        replace(RECORD, usage=usage, losses=({**LOST, "feature": "thinking"},)),
        replace(RECORD, status=502, failure="overloaded"),
        replace(RECORD, path="/models"),
        # Who goes away has its reasons.
        replace(RECORD, status=499, failure="cancelled"),
    )
    assert told == LaunchCount(
        requests=5, calls=4, failed=1, input=200, output=40, losses={"sampling": 2, "thinking": 1}
    )


def test_the_session_is_that_of_the_last_main_thread_that_got_an_answer() -> None:
    def of(session: str, kind: str = "main") -> Record:
        return replace(RECORD, facts=ExchangeFacts(session=session, said_class=kind))

    assert tally_of(of("first"), of("second")).session == "second"
    failed = replace(of("failed"), status=502, failure="overloaded")
    others = of("agent", "subagent"), of("title", "utility"), failed, RECORD
    assert tally_of(of("first"), *others, of("-rf"), of("two words"), of("x" * 200)).session == "first"
    assert tally_of(*others).session == ""


def test_pitfall_557_money_is_added_up_and_what_has_no_price_is_counted() -> None:
    told = tally_of(
        replace(RECORD, tokens=TokenCounts(input=10, output=2), cost=CostBreakdown(input=5, output=7)),
        replace(RECORD, tokens=TokenCounts(input=1), cost=CostBreakdown(input=3, unpriced=("output",))),
        RECORD,
    )
    assert (told.cost, told.unpriced, told.input, told.output) == (15, 1, 11, 2)
    _, both = summed([WorkerLaunchCount("a", told), WorkerLaunchCount("b", told)])
    assert (both.cost, both.unpriced) == (30, 2)


def test_a_provider_that_reports_nonsense_makes_no_nonsense() -> None:
    told = tally_of(replace(RECORD, usage=Usage(input=-5, output=10**30)))
    assert (told.input, told.output) == (0, 1 << 40)


def test_nobody_is_told_what_another_key_did() -> None:
    tallies = LaunchCounters()
    tallies.count(finalized(RECORD))
    assert tallies.count_of("you", "one").tally == LaunchCount()


def test_a_key_that_makes_up_names_pushes_out_its_own() -> None:
    tallies = LaunchCounters()
    tallies.count(finalized(replace(RECORD, key="other")))
    for number in range(MAX_LAUNCHES_PER_KEY):
        tallies.count(finalized(replace(RECORD, launch=f"n{number}")))
    tallies.count(finalized(replace(RECORD, launch="n0")))
    tallies.count(finalized(replace(RECORD, launch="new")))
    assert tallies.count_of("me", "n0").tally.calls == 2
    assert tallies.count_of("me", "n1").tally.calls == 0
    assert tallies.count_of("other", "one").tally.calls == 1


def test_there_are_no_more_than_so_many_in_all() -> None:
    tallies = LaunchCounters()
    for number in range(MAX_LAUNCHES + 1):
        tallies.count(finalized(replace(RECORD, key=f"k{number}")))
    known = [tallies.count_of(f"k{number}", "one").tally.calls for number in range(MAX_LAUNCHES + 1)]
    assert (known[0], sum(known)) == (0, MAX_LAUNCHES)


@pytest.mark.parametrize("said", [None, b"", b"two words", b"a/b", b"\xff", b"x" * 65, b"new\nline"])
def test_what_is_no_name_counts_for_nobody(said: bytes | None) -> None:
    assert launch_name(said) == ""


def test_processes_are_told_apart_and_summed() -> None:
    one, other = LaunchCounters(), LaunchCounters()
    for tallies in (one, other, other):
        tallies.count(finalized(replace(RECORD, losses=(LOST,))))
    processes, whole = summed([one.count_of("me", "one"), other.count_of("me", "one")])
    assert len(set(processes)) == 2
    assert (whole.calls, whole.losses) == (3, {"sampling": 3})


def test_of_all_processes_the_latest_session_counts() -> None:
    one, other = LaunchCounters(), LaunchCounters()
    main = ExchangeFacts(session="late", said_class="main")
    one.count(finalized(replace(RECORD, time=2_000_000, facts=main)))
    other.count(finalized(replace(RECORD, time=1_000_000, facts=replace(main, session="early"))))
    for told in ([one, other], [other, one]):
        assert summed(tallies.count_of("me", "one") for tallies in told)[1].session == "late"
