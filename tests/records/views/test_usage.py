"""The usage view holds all that a report prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from dragoman.records.time_range import period_of, zone_of
from dragoman.records.usage import usage
from dragoman.records.views.usage import UsageView, report_of
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.usage_queries import UsageQueries
from tests.records.filled import fill, some_entries, speak
from tests.records.invented import NOON


@pytest.fixture(scope="module")
def tables() -> Iterator[RecordTables]:
    with closing(open_record_tables(":memory:")) as tables:
        speak(tables, [(1, "alice", "one"), (2, "bob", "two")], [(1, 1), (2, 1), (3, 2), (4, 2)])
        fill(tables, some_entries(7, 200))
        yield tables


@pytest.mark.parametrize(
    "by",
    [
        ("model",),
        ("key", "model"),
        ("day",),
        ("day", "key"),
        ("session",),
        ("thread",),
        ("tag",),
        ("tag:zone", "key", "tag:team"),
    ],
)
@pytest.mark.parametrize("most", [None, 1, 3])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_report_comes_back_from_its_view(
    tables: RecordTables, by: tuple[str, ...], most: int | None, zone: str
) -> None:
    period = period_of(zone_of(zone), NOON // 1_000_000 + 40 * 86400, since="all", first=NOON // 1_000_000)
    report = usage(UsageQueries(tables.connection), by, period, most)
    encoded = report.encoded()
    view = msgspec.json.decode(encoded, type=UsageView)
    again = report_of(view)
    assert again.groups == report.groups
    assert (again.total, again.rest, again.names) == (report.total, report.rest, report.names)
    assert again.period.is_widened is report.period.is_widened
    assert again.encoded() == encoded
