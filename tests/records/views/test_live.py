"""The live view holds all that `dragoman top` prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from dragoman.records.live_view import LiveView
from dragoman.records.views.live import LiveSnapshotView, snapshot_of, snapshot_view
from dragoman.store.record_queries import KeyScope
from dragoman.store.record_tables import RecordTables, open_record_tables
from tests.cli.recorded_file import NOW, recorded_file


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    recorded_file(folder)
    return folder / "state.db"


@pytest.fixture(scope="module")
def tables(path: Path) -> Iterator[RecordTables]:
    with closing(open_record_tables(str(path), read_only=True)) as tables:
        yield tables


@pytest.mark.parametrize("by_model", [True, False])
def test_a_snapshot_comes_back_from_its_view(tables: RecordTables, path: Path, by_model: bool) -> None:
    snapshot = LiveView(str(path), by_model=by_model).look(tables, NOW)
    assert snapshot.activities
    encoded = msgspec.json.encode(snapshot_view(snapshot))
    again = snapshot_of(msgspec.json.decode(encoded, type=LiveSnapshotView))
    assert (again.now, again.opened, again.total) == (snapshot.now, snapshot.opened, snapshot.total)
    assert [(each.figures, each.status, each.target) for each in again.activities] == [
        (each.figures, each.status, each.target) for each in snapshot.activities
    ]
    assert msgspec.json.encode(snapshot_view(again)) == encoded


def test_a_client_gets_its_own_activities(tables: RecordTables, path: Path) -> None:
    everything = LiveView(str(path)).look(tables, NOW)
    own = LiveView(str(path), scope=KeyScope("bob")).look(tables, NOW)
    assert {activity.key for activity in everything.activities} > {"bob"}
    assert [activity.key for activity in own.activities] == ["bob"]
