"""Sums grow by what is added to them."""

from __future__ import annotations

from contextlib import closing

import pytest

from dragoman.records.rows import Batch
from dragoman.records.thread_assignment import AssignedThread
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.records import KEY, THREAD_KEY
from tests.records.invented import entry
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")


def test_what_is_added_twice_is_there_twice() -> None:
    batch = Batch()
    batch.add(entry(1), AssignedThread(1, 4))
    batch.add(entry(2, key="bob"), AssignedThread(2, 5))
    with closing(opened_records()) as tables:
        for _ in range(3):
            tables.rollups.add(batch.rollups())
            tables.rollups.add_to_threads(batch.thread_rollups())
        db = tables.connection
        assert db.rows("SELECT key, requests, cost FROM sums ORDER BY key") == [
            ("alice", 3, 4500),
            ("bob", 3, 4500),
        ]
        assert db.rows("SELECT thread, input FROM thread_sums ORDER BY thread") == [(4, 300), (5, 300)]


@pytest.mark.sqlite_only
def test_the_columns_are_those_of_the_tables() -> None:
    with closing(opened_records()) as tables:
        for table, key in (("sums", KEY), ("thread_sums", THREAD_KEY)):
            found = [row[1] for row in tables.connection.rows(f"PRAGMA table_info({table})")]
            assert tuple(found) == (*key, *MEASURES)
