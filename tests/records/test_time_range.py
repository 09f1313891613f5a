"""Times as people say them: days of every zone, also those that are an hour shorter or longer."""

from __future__ import annotations

import time
from datetime import datetime
from itertools import pairwise

import pytest

from dragoman.errors import DragomanError
from dragoman.records.time_range import BUCKET_SECONDS, Period, duration_of, end_of, period_of, zone_of

UTC = zone_of("UTC")
# 2026-11-16 10:07:30 UTC.
NOW = 1_794_823_650


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def shown(period: Period) -> tuple[str, str]:
    local = period.zone.local
    return local(period.since).isoformat(" ", "minutes"), local(period.until).isoformat(" ", "minutes")


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        ("7d", "2026-11-09 10:00+00:00"),
        ("24h", "2026-11-15 10:00+00:00"),
        ("90m", "2026-11-16 08:30+00:00"),
        ("2w", "2026-11-02 10:00+00:00"),
        ("0m", "2026-11-16 10:00+00:00"),
        ("today", "2026-11-16 00:00+00:00"),
        ("yesterday", "2026-11-15 00:00+00:00"),
        ("2026-10-01", "2026-10-01 00:00+00:00"),
        ("2026-10-01T14:31", "2026-10-01 14:30+00:00"),
        ("2026-10-01 14:45:59", "2026-10-01 14:45+00:00"),
        ("2026-10-01T14:30+05:30", "2026-10-01 09:00+00:00"),
        ("2026-10-01T14:30Z", "2026-10-01 14:30+00:00"),
        (" 7d ", "2026-11-09 10:00+00:00"),
        ("999999999w", "1970-01-02 00:00+00:00"),
    ],
)
def test_when_it_begins(since: str, expected: str) -> None:
    period = period_of(UTC, NOW, since=since)
    # The present quarter is counted as far as it has come.
    assert shown(period) == (expected, "2026-11-16 10:15+00:00")
    assert period.since % BUCKET_SECONDS == period.until % BUCKET_SECONDS == 0


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("2026-11-10", "2026-11-11 00:00+00:00"),
        ("yesterday", "2026-11-16 00:00+00:00"),
        ("2026-11-10T14:31", "2026-11-10 14:45+00:00"),
        ("2026-11-10T14:30", "2026-11-10 14:30+00:00"),
        ("24h", "2026-11-15 10:15+00:00"),
    ],
)
def test_when_it_ends(until: str, expected: str) -> None:
    assert shown(period_of(UTC, NOW, since="2026-10-01", until=until))[1] == expected


def test_what_is_widened_to_quarters_says_so() -> None:
    assert period_of(UTC, NOW, since="2026-10-01").is_widened is False
    assert period_of(UTC, NOW, since="2026-10-01T10:05").is_widened is True
    assert period_of(UTC, NOW, since="2026-10-01", until="2026-10-02T10:05").is_widened is True


def test_all_is_from_the_first_that_is_known() -> None:
    assert period_of(UTC, NOW, since="all", first=900 * 1000).start == 1000
    assert period_of(UTC, NOW, since="all").start == NOW // BUCKET_SECONDS
    # A clock that was ahead is no reason to refuse.
    assert period_of(UTC, NOW, since="all", first=NOW + 10**6).start == NOW // BUCKET_SECONDS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "7",
        "7y",
        "-7d",
        "2026-13-01",
        "2026-02-30",
        "2026-1-1",
        "2026-10-01T25:00",
        "1960-01-01",
        "\u0667d",
        "1d; --",
    ],
)
def test_what_is_no_time_is_told_with_what_is(text: str) -> None:
    with pytest.raises(DragomanError, match=r"--since: .* is no time; it may be 7d, 24h") as told:
        period_of(UTC, NOW, since=text)
    assert "\n" not in str(told.value)


def test_all_is_no_end() -> None:
    with pytest.raises(DragomanError, match="--until: 'all' is no time"):
        period_of(UTC, NOW, since="7d", until="all")


def test_an_end_before_the_beginning_is_told() -> None:
    with pytest.raises(
        DragomanError, match=r"since 2026-11-17 00:00\+00:00 is not before until 2026-11-16 10:07\+00:00"
    ):
        period_of(UTC, NOW, since="2026-11-17")
    with pytest.raises(DragomanError, match="is not before until"):
        period_of(UTC, NOW, since="2026-11-02", until="2026-11-01")


def _pieces(zone: str, since: str, until: str) -> list[tuple[str, int, int]]:
    return list(period_of(zone_of(zone), NOW, since=since, until=until).days())


# Zone, a day of an unusual length, and how many quarters it has.
DAYS = [
    ("Asia/Kolkata", "2026-10-05", 96),
    ("Asia/Kathmandu", "2026-10-05", 96),
    ("+05:45", "2026-10-05", 96),
    ("Europe/Berlin", "2026-03-29", 92),
    ("Europe/Berlin", "2026-10-25", 100),
    ("America/New_York", "2026-03-08", 92),
    ("America/New_York", "2026-11-01", 100),
    ("Australia/Lord_Howe", "2026-04-05", 98),
    # Clocks leap over midnight, and show it twice.
    ("America/Santiago", "2026-09-06", 92),
    ("America/Havana", "2026-11-01", 100),
]


@pytest.mark.parametrize(("zone", "day", "quarters"), DAYS)
def test_pitfall_559_days_of_a_zone_are_whole_and_lie_side_by_side(zone: str, day: str, quarters: int) -> None:
    ((name, start, end),) = _pieces(zone, day, day)
    assert (name, end - start) == (day, quarters)
    month = _pieces(zone, "2026-01-01", "2026-11-15")
    assert month[0][1] == _pieces(zone, "2026-01-01", "2026-01-01")[0][1]
    assert all(before[2] == after[1] for before, after in pairwise(month))
    assert [name for name, _, _ in month] == sorted({name for name, _, _ in month})
    assert (day, start, end) in month


def test_days_at_the_edges_are_as_long_as_the_period() -> None:
    found = _pieces("Asia/Kolkata", "2026-11-14T23:30", "2026-11-16T00:15")
    assert [(name, end - start) for name, start, end in found] == [
        ("2026-11-14", 2),
        ("2026-11-15", 96),
        ("2026-11-16", 1),
    ]
    assert list(Period(zone=UTC, since=900, until=900, requested_since=900, requested_until=900).days()) == []


def test_pitfall_560_the_zone_of_the_machine_is_used_if_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        zone = zone_of("")
        assert zone.local(0).isoformat() == "1970-01-01T05:30:00+05:30"
        period = period_of(zone, NOW, since="2026-11-15", until="2026-11-15")
        assert period.since == at("2026-11-15T00:00+05:45")
        assert list(period.days()) == [("2026-11-15", period.start, period.start + 96)]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "+05:31", "+25:00", "\0", "Europe"]
)
def test_a_zone_that_nobody_knows_is_told(name: str) -> None:
    with pytest.raises(DragomanError, match="is not known on this machine; zones are named as Europe/Berlin"):
        zone_of(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90m", "2026-11-16T11:37:30+00:00"),
        (" 24h ", "2026-11-17T10:07:30+00:00"),
        ("90d", "2027-02-14T10:07:30+00:00"),
        ("2027-01-31", "2027-01-31T23:00:00+00:00"),
        ("today", "2026-11-16T23:00:00+00:00"),
        ("2027-01-31T14:30", "2027-01-31T13:30:00+00:00"),
        ("2027-01-31T14:30:15Z", "2027-01-31T14:30:15+00:00"),
        # Of the past, which the caller refuses.
        ("2020-01-31", "2020-01-31T23:00:00+00:00"),
    ],
)
def test_an_end_is_ahead_or_with_the_last_second_of_a_date(text: str, expected: str) -> None:
    assert end_of("--expires", text, zone_of("Europe/Berlin"), NOW) == at(expected)


@pytest.mark.parametrize("text", ["", "90", "soon", "all", "2027-02-30", "999999999w", "9999-12-31", "-1d"])
def test_what_is_no_end_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(DragomanError, match=r"--expires: .* is no end; it may be 90d, 24h"):
        end_of("--expires", text, UTC, NOW)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("90m", 5400), ("24h", 86400), ("7d", 604_800), ("2 w", 1_209_600)]
)
def test_a_duration_is_read(text: str, seconds: int) -> None:
    assert duration_of("--grace", text) == seconds


@pytest.mark.parametrize("text", ["", "24", "1.5h", "-1h", "h", "1s", "today"])
def test_what_is_no_duration_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(DragomanError, match=r"--grace: .* is no duration; it may be 0, 90m, 24h"):
        duration_of("--grace", text)
