"""Marks of journals move from where they were, or not at all."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")


def test_a_mark_moves_from_where_it_was_alone() -> None:
    with closing(opened_records()) as tables:
        marks = tables.offsets
        assert marks.applied("a") == 0
        assert marks.move("a", 0, 10, 1)
        assert not marks.move("a", 0, 10)
        assert not marks.move("a", 5, 12)
        assert marks.move("a", 10, 30, 2)
        assert marks.applied("a") == 30
        assert marks.all() == {"a": 30}
        assert tables.connection.row("SELECT damaged FROM journals") == (3,)


def test_one_that_was_removed_is_moved_by_nobody() -> None:
    with closing(opened_records()) as tables:
        marks = tables.offsets
        marks.move("a", 0, 10)
        marks.remove("a")
        assert not marks.move("a", 10, 20)
        assert marks.all() == {}
