"""Session views hold all that `dragoman sessions` and `dragoman session` print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from dragoman.records.sessions import find, listing, session_detail
from dragoman.records.thread_status import Opened
from dragoman.records.views.sessions import (
    SessionsView,
    SessionView,
    detail_of,
    listing_of,
    session_view,
    sessions_view,
)
from dragoman.store.record_queries import KeyScope
from dragoman.store.record_tables import RecordTables, open_record_tables
from tests.cli.recorded_file import MAIN, NEXT, NOW, recorded_file


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordTables]:
    folder = tmp_path_factory.mktemp("recorded")
    recorded_file(folder)
    with closing(open_record_tables(str(folder / "state.db"), read_only=True)) as tables:
        yield tables


@pytest.mark.parametrize("most", [1, 50])
def test_a_list_comes_back_from_its_view(tables: RecordTables, most: int) -> None:
    lines = listing(tables, 0, None, most, Opened(), NOW)
    details = {line.session.id: session_detail(tables, line.session, Opened(), NOW, fold=False) for line in lines.lines}
    encoded = msgspec.json.encode(sessions_view(lines, details, 0, NOW))
    again, trees = listing_of(msgspec.json.decode(encoded, type=SessionsView))
    assert msgspec.json.encode(sessions_view(again, trees, 0, NOW)) == encoded
    assert [line.figures for line in again.lines] == [line.figures for line in lines.lines]
    assert (again.more, again.next, again.without) == (lines.more, lines.next, lines.without)
    assert {number: tree.tree for number, tree in trees.items()} == {
        number: detail.tree for number, detail in details.items()
    }


@pytest.mark.parametrize("name", [MAIN, NEXT, "ses_"])
@pytest.mark.parametrize("fold", [True, False])
def test_a_session_comes_back_from_its_view_folded_or_not(tables: RecordTables, name: str, fold: bool) -> None:
    session = find(tables, name)
    flat = session_detail(tables, session, Opened(), NOW, fold=False)
    encoded = msgspec.json.encode(session_view(flat))
    again = detail_of(msgspec.json.decode(encoded, type=SessionView), fold=fold)
    expected = session_detail(tables, session, Opened(), NOW, fold=fold)
    assert (again.tree, again.statuses, again.status) == (expected.tree, expected.statuses, expected.status)
    assert (again.session, again.ended, again.agents) == (session, expected.ended, expected.agents)
    assert msgspec.json.encode(session_view(detail_of(session_view(flat)))) == encoded


def test_the_origin_of_another_key_is_not_named_to_a_client(tables: RecordTables) -> None:
    scope = KeyScope("bob")
    (line,) = listing(tables, 0, None, 50, Opened(), NOW, scope=scope).lines
    assert (line.session.name, line.origin, line.session.origin) == (NEXT, None, 0)
    session = find(tables, NEXT, scope=scope)
    assert session.key == "bob"
    detail = session_detail(tables, session, Opened(), NOW, scope=scope)
    assert (detail.origin, detail.session.origin) == (None, 0)
    assert session_view(detail).origin_number is None


def test_pages_of_sessions_have_each_session_once(tables: RecordTables) -> None:
    everything = [line.session.id for line in listing(tables, 0, None, 50, Opened(), NOW).lines]
    seen, before = list[int](), None
    while True:
        page = listing(tables, 0, None, 1, Opened(), NOW, before=before)
        seen += [line.session.id for line in page.lines]
        before = page.next
        if before is None:
            break
    assert seen == everything
