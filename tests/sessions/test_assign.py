"""Assignments from facts and earlier threads; trees of many exchanges are in `records/test_thread_assignment.py`."""

from __future__ import annotations

import pytest

from dragoman.sessions.assign import (
    ANSWERED,
    CONTINUES,
    FORK,
    PASSED,
    Assignment,
    HistoryHead,
    ThreadKey,
    ThreadLookup,
    alias_of,
    assign,
    awaited_of,
    needed_digests,
    segment_of,
    thread_key_of,
)
from dragoman.sessions.classes import class_of
from dragoman.sessions.facts import ExchangeFacts, Shape

TOOLS = Shape(5, 3, 1)


def placed(facts: ExchangeFacts, known: ThreadLookup | None = None) -> Assignment:
    classed = class_of(facts)
    spot = thread_key_of(facts, classed.kind)
    return assign(facts, classed, spot, known or ThreadLookup(), synthetic_id="req_1", answered=True)


@pytest.mark.parametrize(
    ("facts", "kind", "spot"),
    [
        (ExchangeFacts(), "main", ThreadKey()),
        (ExchangeFacts(client="claude-code", session="s"), "main", ThreadKey("s", "main")),
        (ExchangeFacts(client="claude-code", session="s", thread="a"), "subagent", ThreadKey("s", "a", "main")),
        (
            ExchangeFacts(client="claude-code", session="s", thread="a", parent="b"),
            "subagent",
            ThreadKey("s", "a", "b"),
        ),
        (ExchangeFacts(client="claude-code", session="s", thread="a", parent="a"), "subagent", ThreadKey("s", "a", "")),
        (ExchangeFacts(client="claude-code", session="s"), "subagent", ThreadKey("s", "", "main", guessed=True)),
        (ExchangeFacts(client="claude-code", session="s"), "compaction", ThreadKey("s", "compaction", "main")),
        (
            ExchangeFacts(client="claude-code", session="s", thread="a"),
            "compaction",
            ThreadKey("s", "compaction:a", "a"),
        ),
        (ExchangeFacts(client="claude-code", session="s"), "side", ThreadKey("s", "", "main")),
        (ExchangeFacts(client="claude-code", session="s"), "utility", ThreadKey("s", "utility")),
        (ExchangeFacts(client="claude-code", session="s"), "workflow", ThreadKey("s", "workflow", "main")),
        (ExchangeFacts(client="codex", session="s", thread="t"), "main", ThreadKey("s", "t")),
        (ExchangeFacts(client="codex", session="s", thread="u", parent="t"), "subagent", ThreadKey("s", "u", "t")),
        (ExchangeFacts(client="opencode", session="c", parent="p"), "subagent", ThreadKey("p", "c", "main", alias="p")),
        (
            ExchangeFacts(client="opencode", session="c", parent="p"),
            "utility",
            ThreadKey("p", "utility:c", "main", alias="p"),
        ),
        (ExchangeFacts(client="opencode", session="c", parent="c"), "subagent", ThreadKey("c", "main", alias="c")),
        (ExchangeFacts(session="s", source="x-dragoman-session"), "main", ThreadKey("s", "")),
        (ExchangeFacts(session="s", source="conversation"), "main", ThreadKey("s", "main")),
    ],
)
def test_the_names_by_which_an_exchange_goes(facts: ExchangeFacts, kind: str, spot: ThreadKey) -> None:
    assert thread_key_of(facts, kind) == spot


def test_a_known_thread_needs_no_digests() -> None:
    facts = ExchangeFacts(client="claude-code", session="s", tip="t1", before=("t0",), asks="a", call="c", shape=TOOLS)
    spot = thread_key_of(facts, "main")
    assert needed_digests(facts, spot, ThreadLookup(session=1, thread=2)) == ()
    assert needed_digests(facts, spot, ThreadLookup(session=1)) == ("tt1", "tt0", "cc")


def test_pitfall_520_as_many_digests_are_looked_up_however_long_a_history_is() -> None:
    facts = ExchangeFacts(tip="t", before=("a", "b", "c", "d"), call="c", previous="p", asks="q", prompts=("x",) * 3)
    assert len(needed_digests(facts, ThreadKey(), ThreadLookup())) == 3 + 5 + 3


def test_what_nobody_knows_begins_a_session() -> None:
    found = placed(ExchangeFacts(tip="t1", asks="a", shape=TOOLS))
    assert (found.session, found.thread) == (0, 0)
    assert (found.session_name, found.thread_name) == ("~req_1", "main")
    assert found.heads == (("tt1", ANSWERED), ("qa", PASSED))


def test_a_history_goes_on_from_where_a_thread_ends() -> None:
    tips = {"tt0": [HistoryHead(7, 3, "main", ANSWERED, True)]}
    found = placed(ExchangeFacts(tip="t1", before=("t0",)), ThreadLookup(heads=tips))
    assert (found.session, found.thread, found.rule, found.sure) == (3, 7, "growth", 90)


def test_of_several_threads_the_oldest_is_taken_and_doubted() -> None:
    tips = {"tt0": [HistoryHead(7, 3, "main", ANSWERED, True), HistoryHead(8, 4, "main", ANSWERED, True)]}
    found = placed(ExchangeFacts(tip="t1", before=("t0",)), ThreadLookup(heads=tips))
    assert (found.thread, found.sure) == (7, 60)


def test_a_thread_of_another_class_is_not_gone_on_from() -> None:
    tips = {"tt0": [HistoryHead(7, 3, "side", ANSWERED, True)]}
    assert placed(ExchangeFacts(tip="t1", before=("t0",)), ThreadLookup(heads=tips)).thread == 0


def test_a_thread_that_has_gone_on_is_forked() -> None:
    tips = {"tt0": [HistoryHead(7, 3, "main", ANSWERED, False)]}
    found = placed(ExchangeFacts(tip="t1", before=("t0",)), ThreadLookup(heads=tips))
    assert (found.session, found.thread, found.parent, found.rule) == (3, 0, 7, FORK)


@pytest.mark.parametrize(("ends", "link"), [(True, CONTINUES), (False, FORK)])
def test_a_new_session_with_an_old_history_is_linked(ends: bool, link: str) -> None:
    tips = {"tt0": [HistoryHead(7, 3, "main", ANSWERED, ends)]}
    facts = ExchangeFacts(client="claude-code", session="s", said_class="main", tip="t1", before=("t0",))
    found = placed(facts, ThreadLookup(heads=tips))
    assert (found.session, found.origin, found.link) == (0, 3, link)


def test_an_equal_first_question_links_nothing() -> None:
    tips = {"tt1": [HistoryHead(7, 3, "main", ANSWERED, True)]}
    facts = ExchangeFacts(client="claude-code", session="s", said_class="main", tip="t1")
    assert placed(facts, ThreadLookup(heads=tips)).origin == 0


def test_marks_are_told_apart() -> None:
    assert alias_of("a", "b:c") != alias_of("a:b", "c")
    assert awaited_of(1, "main") != awaited_of(11, "main")
    assert segment_of(1, ExchangeFacts(window="2", opening="o"), "main") == "w1:2"
    assert segment_of(1, ExchangeFacts(opening="o"), "subagent") == "w1:o"
    assert segment_of(1, ExchangeFacts(opening="o"), "utility") == segment_of(1, ExchangeFacts(), "main") == ""
