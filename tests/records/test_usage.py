"""Whatever usage is grouped by, it adds up to the same, to the nano-dollar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DragomanError
from dragoman.records.journal_entry import (
    ANSWERED,
    CANCELLED,
    CONVERSATION,
    CRASHED,
    FAILED,
    REFUSED,
    CostBreakdown,
    JournalEntry,
    TokenCounts,
)
from dragoman.records.thread_assignment import AssignedThread
from dragoman.records.time_range import Period, period_of, zone_of
from dragoman.records.usage import GROUPS, UsageFigures, UsageReport, figures_of, nothing, read_groups, usage
from dragoman.store.erasure import Erasure
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.record_queries import KeyScope
from dragoman.store.record_tables import RecordTables
from dragoman.store.usage_queries import UsageQueries
from tests.records.filled import DAY, SECOND, fill, some_entries, speak
from tests.records.invented import NOON
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")

NOW = (NOON + 50 * DAY) // SECOND
ZONES = ["UTC", "Asia/Kolkata", "Asia/Kathmandu", "Europe/Berlin", "America/New_York", "+12:45"]
BY = [
    *((group,) for group in GROUPS),
    *(("provider", "model"), ("day", "key", "client"), ("session", "day")),
    *(("tag:team",), ("tag:zone", "model"), ("tag", "key", "tag:team"), ("client", "day", "tag:absent")),
]
ENTRIES = [some_entries(seed, 300) for seed in range(3)]


@pytest.fixture(scope="module")
def tables() -> Iterator[RecordTables]:
    with closing(opened_records()) as tables:
        sessions = [(1, "alice", "first"), (2, "alice", "second"), (3, "bob", "third")]
        speak(tables, sessions, [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)])
        for entries in ENTRIES:
            fill(tables, entries)
        Erasure(tables.connection).remove_sessions([3])
        yield tables


def _period(since: str = "all", until: str = "", zone: str = "UTC") -> Period:
    return period_of(zone_of(zone), NOW, since=since, until=until, first=NOON // SECOND)


def _asked(tables: RecordTables, by: tuple[str, ...], period: Period) -> UsageReport:
    return usage(UsageQueries(tables.connection), by, period)


def decoded(told: bytes) -> dict[str, object]:
    return msgspec.json.decode(told, type=dict[str, object])


def _sum(all_figures: list[UsageFigures]) -> UsageFigures:
    rows = [msgspec.structs.astuple(figures) for figures in all_figures]
    return UsageFigures(*map(sum, zip(*rows, strict=True))) if rows else UsageFigures()


def _expected(entries: list[tuple[JournalEntry, AssignedThread]]) -> UsageFigures:
    """What the contract says, from the entries themselves."""
    found = [entry for entry, _ in entries]
    talks = [entry for entry in found if entry.kind == CONVERSATION]
    counted = [entry for entry in talks if entry.outcome != CANCELLED]
    tokens = [entry.tokens or TokenCounts() for entry in found]
    return UsageFigures(
        requests=len(counted),
        errors=sum(entry.outcome in (REFUSED, FAILED, CRASHED) for entry in counted),
        cancelled_requests=len(talks) - len(counted),
        other_requests=len(found) - len(talks),
        input_tokens=sum(each.input for each in tokens),
        uncached_input_tokens=sum(each.input - each.cache_read - each.cache_write for each in tokens),
        cache_read_tokens=sum(each.cache_read for each in tokens),
        cache_write_tokens=sum(each.cache_write for each in tokens),
        output_tokens=sum(each.output for each in tokens),
        thinking_tokens=sum(each.thinking for each in tokens),
        searches=sum(each.searches for each in tokens),
        estimated_requests=sum(entry.estimated for entry in found),
        cost_nano_usd=sum(entry.cost.total for entry in found if entry.cost is not None),
        losses=sum(len(entry.losses) for entry in found),
        duration_microseconds=sum(entry.duration for entry in counted),
        first_token_microseconds=sum(entry.first_content for entry in counted),
        first_token_requests=sum(entry.first_content > 0 for entry in counted),
    )


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("by", BY, ids=",".join)
def test_pitfall_561_every_grouping_adds_up_to_the_same_total(
    tables: RecordTables, by: tuple[str, ...], zone: str
) -> None:
    found = _asked(tables, by, _period(zone=zone))
    assert _sum([group.figures for group in found.groups]) == found.total
    expected = _expected([placed for entries in ENTRIES for placed in entries])
    assert msgspec.structs.replace(found.total, unpriced_requests=0) == expected
    assert found.total.unpriced_requests > 0
    names = [tuple(group.names.values()) for group in found.groups]
    assert len(set(names)) == len(names)


@given(st.integers(0, 45 * 96), st.integers(0, 45 * 96), st.sampled_from(ZONES), st.data())
def test_a_total_is_the_same_for_every_grouping_of_any_time(
    tables: RecordTables, one: int, other: int, zone: str, data: st.DataObject
) -> None:
    start, end = sorted((one, other))
    begin = NOON // SECOND // 900 * 900
    since, until = begin + start * 900, begin + end * 900
    period = Period(zone=zone_of(zone), since=since, until=until, requested_since=since, requested_until=until)
    inside = [placed for entries in ENTRIES for placed in entries if since <= placed[0].time // SECOND < until]
    expected = _expected(inside)
    for by in data.draw(st.sets(st.sampled_from(BY), min_size=2, max_size=4)):
        found = _asked(tables, by, period)
        assert msgspec.structs.replace(found.total, unpriced_requests=0) == expected
        assert _sum([group.figures for group in found.groups]) == found.total


@pytest.mark.parametrize("zone", ZONES)
def test_pitfall_559_single_days_are_those_of_the_range(tables: RecordTables, zone: str) -> None:
    period = _period(since="2027-01-20", until="2027-02-20", zone=zone)
    together = _asked(tables, ("day",), period)
    assert len(together.groups) > 20
    for group in together.groups:
        day = str(group.names["day"])
        alone = _asked(tables, ("day",), _period(since=day, until=day, zone=zone))
        assert alone.groups == (group,)
        assert alone.total == group.figures
    assert [str(group.names["day"]) for group in together.groups] == sorted(
        str(group.names["day"]) for group in together.groups
    )


def test_pitfall_555_uncached_and_cached_tokens_are_apart_and_add_up(tables: RecordTables) -> None:
    for group in _asked(tables, ("model",), _period()).groups:
        figures = group.figures
        assert (
            figures.uncached_input_tokens + figures.cache_read_tokens + figures.cache_write_tokens
            == figures.input_tokens
        )
        assert 0 <= figures.uncached_input_tokens < figures.input_tokens


def test_pitfall_563_sums_are_the_same_without_the_rows() -> None:
    with closing(opened_records()) as tables:
        fill(tables, ENTRIES[0])
        before = [_asked(tables, by, _period()) for by in BY]
        tables.connection.change("DELETE FROM records")
        assert [_asked(tables, by, _period()) for by in BY] == before


def test_sessions_and_threads_have_their_names(tables: RecordTables) -> None:
    sessions = {group.names["session_id"]: group.names for group in _asked(tables, ("session",), _period()).groups}
    assert sessions == {
        0: {"session": "", "session_id": 0, "key": "", "client": ""},
        1: {"session": "first", "session_id": 1, "key": "alice", "client": "claude-cli"},
        2: {"session": "second", "session_id": 2, "key": "alice", "client": "claude-cli"},
        # All whose names were forgotten.
        None: {"session": None, "session_id": None, "key": None, "client": None},
    }
    threads = {group.names["thread_id"]: group.names for group in _asked(tables, ("thread",), _period()).groups}
    assert set(threads) == {0, 1, 2, 3, None}
    assert threads[3] == {
        "thread": "thread-3",
        "thread_id": 3,
        "thread_class": "main",
        "label": "label",
        "session": "second",
        "session_id": 2,
        "key": "alice",
        "client": "claude-cli",
    }


@pytest.mark.parametrize("most", [1, 2, 3, 100])
@pytest.mark.parametrize("by", BY, ids=",".join)
def test_what_is_beyond_so_many_groups_is_one_that_adds_up(
    tables: RecordTables, by: tuple[str, ...], most: int
) -> None:
    whole = _asked(tables, by, _period())
    found = usage(UsageQueries(tables.connection), by, _period(), most)
    assert found.total == whole.total
    if len(whole.groups) <= most:
        assert found == whole
        return
    assert found.rest is not None
    assert _sum([found.rest.figures, *(group.figures for group in found.groups)]) == found.total
    assert found.rest.figures.requests > 0
    assert len(found.groups) == most
    # What was forgotten is one of them, and may be among the dearest.
    dearest = sorted(whole.groups, key=lambda group: -group.figures.cost_nano_usd)[:most]
    assert {str(group.names) for group in found.groups} == {str(group.names) for group in dearest}
    assert found.rest.groups == len(whole.groups) - most
    told = decoded(found.encoded())
    assert told["rest"] == {"groups": found.rest.groups, **msgspec.to_builtins(found.rest.figures)}


@pytest.mark.parametrize("by", ["session", "thread"])
@pytest.mark.parametrize(("key", "place"), [("dear", 0), ("cheap", 2)])
def test_sessions_that_were_forgotten_come_where_their_money_puts_them(by: str, key: str, place: int) -> None:
    prices = {"dear": 9, "middling": 5, "cheap": 1}
    speakers = list(enumerate(prices, start=1))
    with closing(opened_records()) as tables:
        speak(tables, [(number, name, name) for number, name in speakers], [(number, number) for number, _ in speakers])
        for number, name in speakers:
            spent = JournalEntry(id=name, time=NOON, outcome=ANSWERED, key=name, cost=CostBreakdown(input=prices[name]))
            fill(tables, [(spent, AssignedThread(number, number))] * 2)
        forgetting = Erasure(tables.connection)
        forgetting.remove_sessions([session.number for session in forgetting.sessions_of(key)])
        for most in (1, 2, 3, None):
            found = usage(UsageQueries(tables.connection), (by,), _period(), most)
            costs = [group.figures.cost_nano_usd for group in found.groups]
            assert costs == [18, 10, 2][:most]
            names = [group.names["session"] for group in found.groups]
            assert [at for at, name in enumerate(names) if name is None] == [place][: len(names) > place]
            assert (0 if found.rest is None else found.rest.groups) == 3 - len(names)


def test_the_dearest_come_first(tables: RecordTables) -> None:
    costs = [group.figures.cost_nano_usd for group in _asked(tables, ("key",), _period()).groups]
    assert costs == sorted(costs, reverse=True)


def test_pitfall_416_programs_are_told_all_that_they_may_rely_on(tables: RecordTables) -> None:
    told = decoded(_asked(tables, ("provider", "model"), _period(since="2027-01-20", zone="Asia/Kolkata")).encoded())
    assert told["since"] == "2027-01-20T00:00:00+05:30"
    assert told["zone"] == "Asia/Kolkata"
    members = {
        "requests",
        "errors",
        "input_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "output_tokens",
        "thinking_tokens",
        "estimated_requests",
        "cost_nano_usd",
        "unpriced_requests",
    }
    total, rows = told["total"], told["rows"]
    assert isinstance(total, dict)
    assert isinstance(rows, list)
    assert list(told) == ["since", "until", "zone", "widened", "by", "rows", "total"]
    assert members <= set(total)
    for row in rows:
        assert isinstance(row, dict)
        assert set(row) == {"provider", "model"} | set(total)


def test_tags_group_by_set_and_by_the_value_of_one(tables: RecordTables) -> None:
    sets = {group.names["tag"]: group.figures for group in _asked(tables, ("tag",), _period()).groups}
    assert set(sets) == {"", "team=web", "team=web,zone=eu"}
    entries = [placed for entries in ENTRIES for placed in entries]
    for tags, figures in sets.items():
        expected = _expected([placed for placed in entries if placed[0].tags == tags])
        assert msgspec.structs.replace(figures, unpriced_requests=0) == expected
    teams = {group.names["tag:team"]: group.figures for group in _asked(tables, ("tag:team",), _period()).groups}
    assert teams == {"": sets[""], "web": _sum([sets["team=web"], sets["team=web,zone=eu"]])}
    told = decoded(_asked(tables, ("day", "tag:zone", "key"), _period()).encoded())["rows"]
    assert isinstance(told, list)
    assert {(row["tags"]["zone"], row["key"]) for row in told} == {
        ("eu", "alice"),
        *(("", key) for key in ("bob", "Zoë's", "")),
    }


def test_a_key_sees_the_tags_of_its_own_exchanges(tables: RecordTables) -> None:
    for key, sets in (("alice", {"team=web,zone=eu"}), ("bob", {"", "team=web"})):
        found = usage(UsageQueries(tables.connection, KeyScope(key)), ("tag",), _period())
        assert {group.names["tag"] for group in found.groups} == sets
        mine = [group for group in _asked(tables, ("key", "tag"), _period()).groups if group.names["key"] == key]
        assert _sum([group.figures for group in mine]) == found.total == _sum([each.figures for each in found.groups])


def test_every_measure_has_its_place() -> None:
    told = msgspec.to_builtins(figures_of(tuple(10**at for at in range(len(MEASURES)))))
    assert told.pop("uncached_input_tokens") == 10**4 - 10**5 - 10**6
    assert sorted(told.values()) == [10**at for at in range(len(MEASURES))]


def test_where_nothing_was_written_there_are_zero_totals() -> None:
    assert decoded(nothing(("key",), _period()).encoded())["total"] == msgspec.to_builtins(UsageFigures())


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (["key"], ("key",)),
        (["provider,model"], ("provider", "model")),
        (["provider", "model", "provider"], ("provider", "model")),
        (["day, session"], ("day", "session")),
        (["tag:team,tag,tag:team"], ("tag:team", "tag")),
    ],
)
def test_groups_are_said_once_or_several_times(said: list[str], found: tuple[str, ...]) -> None:
    assert read_groups(said) == found


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            ["keys"],
            "there is no group 'keys'; there are key, model, provider, client, tag, session, thread, day, tag:NAME",
        ),
        (["tag:"], "there is no group"),
        (["tag:a b"], "there is no group"),
        (["tag:team,session"], "sums of a session are kept by day alone, and not by tag:team"),
        (["key; DROP TABLE sums"], "there is no group"),
        ([","], "says no group"),
        (["session,thread"], "a thread is in one session"),
        (["thread,model"], "sums of a thread are kept by day alone, and not by model"),
    ],
)
def test_groups_that_are_none_are_told(said: list[str], problem: str) -> None:
    with pytest.raises(DragomanError, match=problem):
        read_groups(said)


def test_an_answer_counts_as_what_it_is() -> None:
    outcomes = [ANSWERED, REFUSED, FAILED, CRASHED, CANCELLED]
    with closing(opened_records()) as tables:
        entries = [JournalEntry(id=outcome, time=NOON, outcome=outcome) for outcome in outcomes]
        fill(tables, [(entry, AssignedThread()) for entry in entries])
        total = _asked(tables, ("key",), _period()).total
    assert (total.requests, total.errors, total.cancelled_requests) == (4, 3, 1)
