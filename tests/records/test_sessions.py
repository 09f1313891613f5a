"""Sessions as lines, and one with its tree: both come to the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.records.sessions import find, listing, session_detail
from dragoman.records.thread_status import Opened, ThreadStatus
from dragoman.store.record_tables import RecordTables
from dragoman.store.session_queries import SessionFigures
from tests.records.invented import NOON, entry
from tests.records.kept_sessions import filling
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")

SECOND, HOUR = 1_000_000, 3_600_000_000
NOW = NOON + HOUR
NOTHING = Opened()


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[RecordTables]:
    with filling(tmp_path / "state.db") as file:
        file.session(1, "5f0c-a", started=NOON, last=NOW - SECOND)
        file.session(2, "5f0c-b", started=NOON, last=NOW - 2 * SECOND, origin=1, link="continues", client="codex")
        file.session(3, "5f0c-a", key="bob", started=NOON, last=NOON)
        file.thread(10, 1, started=NOON, last=NOW - 5 * SECOND)
        file.thread(11, 1, "subagent", parent=10, started=NOON, last=NOW - SECOND)
        file.thread(12, 1, "utility", parent=10, started=NOON, last=NOON)
        file.thread(13, 1, "utility", parent=10, started=NOON, last=NOON)
        file.thread(20, 2, started=NOON, last=NOW - 2 * SECOND)
        file.exchanges([replace(entry(1, time=NOON), stop_reason="end")], 1, 10)
        file.exchanges([replace(entry(2, time=NOW - 5 * SECOND), stop_reason="tool_call")], 1, 10)
        file.exchanges([replace(entry(3, time=NOW - SECOND), stop_reason="end")], 1, 11)
        file.exchanges([entry(4, time=NOON, money=None)], 1, 12)
        file.exchanges([entry(5, time=NOON)], 1, 13)
        file.exchanges([entry(6, time=NOW - 2 * SECOND, outcome="failed", status=502)], 2, 20)
        file.exchanges([entry(7, time=NOON + 1)])
    with closing(opened_records(tmp_path / "state.db", read_only=True)) as opened:
        yield opened


def test_pitfall_511_the_list_has_a_line_for_each_session_and_its_agents_as_a_count(tables: RecordTables) -> None:
    found = listing(tables, NOON + 1, None, 50, NOTHING, NOW)
    assert [(line.session.name, line.threads, line.agents) for line in found.lines] == [
        ("5f0c-a", 4, 1),
        ("5f0c-b", 1, 0),
    ]
    assert not found.more
    assert listing(tables, 0, None, 1, NOTHING, NOW).more
    assert [line.session.id for line in listing(tables, 0, "bob", 50, NOTHING, NOW).lines] == [3]


def test_pitfall_512_threads_that_share_a_sessions_id_stay_apart(tables: RecordTables) -> None:
    found = session_detail(tables, find(tables, "5f0c-a", "alice"), NOTHING, NOW, fold=False)
    told = [(node.thread.id, node.own.requests, node.own.cost) for node in found.tree.nodes]
    assert told == [(10, 2, 3000), (11, 1, 1500), (12, 1, 0), (13, 1, 1500)]


def test_pitfall_550_551_a_session_comes_to_what_its_tree_does_and_all_to_what_was_exchanged(
    tables: RecordTables,
) -> None:
    found = listing(tables, 0, None, 50, NOTHING, NOW)
    for line in found.lines:
        tree = session_detail(tables, line.session, NOTHING, NOW).tree
        assert tree.total == line.figures
        assert sum((node.total for node in tree.nodes if not node.depth), SessionFigures()) == line.figures
    total = sum((line.figures for line in found.lines), found.without)
    assert (total.requests, total.errors, total.cost, total.unpriced) == (7, 1, 9000, 1)


def test_what_belongs_to_no_session_is_told_beside_them(tables: RecordTables) -> None:
    assert listing(tables, NOON, None, 50, NOTHING, NOW).without.requests == 1
    assert listing(tables, NOW, None, 50, NOTHING, NOW).without.requests == 0
    # Nobody's are nobody's, whoever is asked for.
    assert listing(tables, NOON, "alice", 50, NOTHING, NOW).without == SessionFigures()


def test_a_session_is_doing_what_its_main_thread_does_unless_something_is_open(tables: RecordTables) -> None:
    lines = listing(tables, 0, None, 50, NOTHING, NOW).lines
    assert [line.status.state for line in lines] == ["running tools", "failed", "unknown"]
    lines = listing(tables, 0, None, 50, Opened(sessions={2: NOW - SECOND}), NOW).lines
    assert lines[1].status == ThreadStatus("streaming", NOW - SECOND)
    found = session_detail(tables, lines[0].session, NOTHING, NOW)
    assert {number: standing.state for number, standing in found.statuses.items()} == {
        10: "running tools",
        11: "done",
        12: "done",
        13: "done",
    }
    assert found.status.state == "running tools"
    found = session_detail(tables, lines[0].session, Opened(sessions={1: NOW}, threads={11: NOW}), NOW)
    assert found.status == found.statuses[11] == ThreadStatus("streaming", NOW)


def test_pitfall_524_a_list_and_a_page_never_contradict_each_other(tables: RecordTables) -> None:
    for opened in (NOTHING, Opened(sessions={1: NOW - SECOND, 3: NOON}, threads={11: NOW - SECOND})):
        for line in listing(tables, 0, None, 50, opened, NOW).lines:
            assert session_detail(tables, line.session, opened, NOW).status == line.status


def test_what_a_session_goes_on_from_is_found(tables: RecordTables) -> None:
    found = session_detail(tables, find(tables, "5f0c-b"), NOTHING, NOW)
    assert found.origin is not None
    assert (found.session.link, found.origin.name) == ("continues", "5f0c-a")


def test_pitfall_570_wall_time_goes_from_the_first_to_the_last_and_is_not_a_sum(tables: RecordTables) -> None:
    found = session_detail(tables, find(tables, "5f0c-a", "alice"), NOTHING, NOW)
    assert found.ended == NOW - SECOND + 3000
    assert found.tree.total.took == 5 * 3000


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("nobody", None, "there is no session 'nobody'"),
        ("", None, "there is no session ''"),
        ("5f0c-b", "bob", "there is no session '5f0c-b'"),
        ("5f0c-a", None, "2 keys have a session '5f0c-a': say whose with --key (alice, bob)"),
        ("5f0c", None, "'5f0c' is the beginning of several sessions: 5f0c-a, 5f0c-b, 5f0c-a"),
    ],
)
def test_what_means_none_or_several_is_told_in_a_sentence(
    tables: RecordTables, text: str, key: str | None, words: str
) -> None:
    with pytest.raises(DragomanError) as told:
        find(tables, text, key)
    assert str(told.value).startswith(words)
    assert find(tables, "5f0c-b").id == 2
    assert find(tables, "5f0c-a", "bob").id == 3


@pytest.fixture
def spawned(tmp_path: Path) -> Iterator[RecordTables]:
    """A session whose agent has a session of its own, and that one another; and one of somebody who is gone."""
    with filling(tmp_path / "state.db") as file:
        file.session(1, "root", started=NOON, last=NOON)
        file.session(2, "agent", started=NOON, last=NOW, origin=1, link="subagent")
        file.session(3, "deeper", started=NOON, last=NOON, origin=2, link="subagent")
        file.session(4, "left over", started=NOON, last=NOON, origin=99, link="subagent")
        file.thread(10, 1, started=NOON, last=NOON)
        file.thread(20, 2, parent=10, rule="task id", sure=95, started=NOON, last=NOW)
        file.thread(30, 3, "subagent", parent=20, started=NOON, last=NOON)
        file.thread(40, 4, "subagent", parent=98, started=NOON, last=NOON)
        for number, (session, thread) in enumerate(((1, 10), (2, 20), (3, 30), (4, 40))):
            file.exchanges([replace(entry(number, time=NOON), stop_reason="end")], session, thread)
    with closing(opened_records(tmp_path / "state.db", read_only=True)) as opened:
        yield opened


def test_pitfall_511_550_sessions_of_agents_belong_to_the_one_that_they_were_begun_from(spawned: RecordTables) -> None:
    found = listing(spawned, 0, None, 50, NOTHING, NOW)
    told = {line.session.name: (line.agents, line.threads, line.figures.cost, line.last) for line in found.lines}
    assert told == {"root": (2, 3, 4500, NOW), "left over": (1, 1, 1500, NOON)}
    (line,) = (
        line
        for line in listing(spawned, 0, None, 50, Opened(sessions={3: NOW}), NOW).lines
        if line.session.name == "root"
    )
    assert line.status == ThreadStatus("streaming", NOW)


def test_pitfall_550_the_tree_has_the_threads_of_agents_with_sessions_of_their_own(spawned: RecordTables) -> None:
    root = session_detail(spawned, find(spawned, "root"), NOTHING, NOW)
    assert [
        (node.depth, node.thread.id, node.own.cost, node.total.cost, node.parent_issue) for node in root.tree.nodes
    ] == [
        (0, 10, 1500, 4500, ""),
        (1, 20, 1500, 3000, ""),
        (2, 30, 1500, 1500, ""),
    ]
    assert (root.agents, root.status.state) == (2, "waiting for user")
    agent = session_detail(spawned, find(spawned, "agent"), NOTHING, NOW)
    # Its parent is known, though it stands elsewhere.
    assert [(node.thread.id, node.parent_issue) for node in agent.tree.nodes] == [(20, ""), (30, "")]
    assert agent.origin is not None
    assert agent.origin.name == "root"
