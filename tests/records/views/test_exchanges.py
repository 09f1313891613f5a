"""The exchange view holds all that the list and the page of `dragoman logs` print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.records.exchanges import latest
from dragoman.records.views.exchanges import ExchangeView, exchange_of, exchange_view, micro_of
from dragoman.sessions.facts import NOTHING
from dragoman.store.record_queries import RecordFilter
from dragoman.store.record_tables import RecordTables, open_record_tables
from tests.cli.recorded_file import recorded_file
from tests.sdk.digging import dig_objects


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordTables]:
    folder = tmp_path_factory.mktemp("recorded")
    recorded_file(folder)
    with closing(open_record_tables(str(folder / "state.db"), read_only=True)) as tables:
        yield tables


def test_an_exchange_comes_back_from_its_view(tables: RecordTables) -> None:
    recorded = latest(tables, RecordFilter(), 50)
    assert len(recorded) > 5
    for exchange in recorded:
        view = exchange_view(exchange)
        encoded = msgspec.json.encode(view)
        again = exchange_of(msgspec.json.decode(encoded, type=ExchangeView))
        # What is printed of it: an entry of the log, and its page. Facts are no member of the view.
        assert again.entry == replace(exchange.entry, facts=NOTHING)
        assert (again.cost, again.unpriced) == (exchange.cost, exchange.unpriced)
        assert (again.ended, again.entry.tokens, again.speed) == (exchange.ended, exchange.entry.tokens, exchange.speed)
        assert msgspec.json.encode(exchange_view(again)) == encoded


def test_clients_get_no_member_for_operators(tables: RecordTables) -> None:
    for exchange in latest(tables, RecordFilter(), 50):
        members = msgspec.to_builtins(exchange_view(exchange, for_client=True))
        assert not {"candidates", "candidates_more"} & {*members}
        assert not any("key" in attempt for attempt in dig_objects(members, "attempts"))
        assert exchange_of(exchange_view(exchange, for_client=True)).entry.id == exchange.entry.id


def test_an_instant_is_read_to_the_microsecond() -> None:
    assert micro_of("2027-01-15T08:00:03.000001Z") == 1_800_000_003_000_001


def test_the_first_members_name_the_exchange(tmp_path: Path) -> None:
    assert ExchangeView.__struct_fields__[:3] == ("id", "time", "ended")
