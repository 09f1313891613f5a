"""Threads hang below those that began them; no money is lost or counted twice, whatever they say of their parents."""

from __future__ import annotations

import random

import pytest

from dragoman.records.thread_tree import CUT, MISSING, ThreadNode, Tree, tree_of
from dragoman.store.session_queries import SessionFigures
from dragoman.store.session_tables import ThreadRow


def thread(number: int, parent: int = 0, kind: str = "subagent", *, sure: int = 100) -> ThreadRow:
    """A thread that began in the order of its number."""
    return ThreadRow(number, 1, f"t{number}", kind, "", "large", parent, "header", sure, 1, 1, number, number + 5)


def figures(cost: int, unpriced: int = 0) -> SessionFigures:
    return SessionFigures(requests=1, input=100, output=10, cost=cost, unpriced=unpriced)


def told(tree: Tree) -> list[str]:
    """A tree as lines: depth, names, money own and with children, and the mark."""
    lines = []
    for node in tree.nodes:
        names = "+".join(each.name for each in node.threads)
        lines.append(f"{'. ' * node.depth}{names} {node.own.cost} {node.total.cost} {node.parent_issue}")
    return lines


def test_pitfall_550_every_thread_has_its_own_money_and_that_with_its_children() -> None:
    tree = tree_of(
        [
            (thread(1, kind="main"), figures(100)),
            (thread(2, 1), figures(20)),
            (thread(3, 2), figures(3)),
            (thread(4, 1), figures(0)),
        ]
    )
    assert told(tree) == ["t1 100 123 ", ". t2 20 23 ", ". . t3 3 3 ", ". t4 0 0 "]
    assert [node.last for node in tree.nodes] == [True, False, True, True]
    assert tree.total == SessionFigures(requests=4, input=400, output=40, cost=123)


def test_pitfall_551_the_tree_comes_to_what_its_exchanges_come_to_whatever_threads_say_of_their_parents() -> None:
    dice = random.Random(551)
    for _ in range(300):
        count = dice.randrange(1, 12)
        rows = [
            (
                thread(number, dice.randrange(0, count + 3), dice.choice(["main", "subagent", "utility", "side"])),
                figures(dice.randrange(1000), dice.randrange(2)),
            )
            for number in range(1, count + 1)
        ]
        for fold in (True, False):
            tree = tree_of(rows, fold=fold)
            own = sum((node.own for node in tree.nodes), SessionFigures())
            roots = sum((node.total for node in tree.nodes if not node.depth), SessionFigures())
            assert own == roots == tree.total == sum((each for _, each in rows), SessionFigures())
            assert sorted(each.id for node in tree.nodes for each in node.threads) == list(range(1, count + 1))


def test_pitfall_513_small_calls_are_folded_by_class_and_counted() -> None:
    tree = tree_of(
        [
            (thread(1, kind="main"), figures(100)),
            (thread(2, 1, "utility"), figures(1)),
            (thread(3, 1), figures(50)),
            (thread(4, 1, "utility"), figures(2)),
            (thread(5, 1, "side"), figures(4)),
            (thread(6, 1, "utility"), figures(8)),
            # One that began another stays by itself.
            (thread(7, 6), figures(16)),
        ]
    )
    assert told(tree) == ["t1 100 181 ", ". t3 50 50 ", ". t6 8 24 ", ". . t7 16 16 ", ". t2+t4 3 3 ", ". t5 4 4 "]
    assert tree.total.cost == 181
    assert [node.is_fold for node in tree.nodes] == [False, False, False, False, True, False]


def test_pitfall_523_a_missing_parent_hangs_its_thread_below_the_session_with_a_mark() -> None:
    tree = tree_of([(thread(1, kind="main"), figures(1)), (thread(2, 77), figures(2)), (thread(3), figures(4))])
    assert told(tree) == ["t1 1 1 ", f"t2 2 2 {MISSING}", f"t3 4 4 {MISSING}"]


def test_a_parent_that_is_known_elsewhere_is_not_missing() -> None:
    rows = [(thread(2, 77), figures(2)), (thread(3, 78), figures(4))]
    assert told(tree_of(rows, elsewhere={77})) == ["t2 2 2 ", f"t3 4 4 {MISSING}"]


def test_pitfall_523_a_circle_is_cut_and_reported() -> None:
    tree = tree_of(
        [
            (thread(1, kind="main"), figures(1)),
            (thread(2, 4), figures(2)),
            (thread(3, 2), figures(4)),
            (thread(4, 3), figures(8)),
            (thread(5, 5), figures(16)),
        ]
    )
    assert told(tree) == ["t1 1 1 ", f"t2 2 14 {CUT}", ". t3 4 12 ", ". . t4 8 8 ", f"t5 16 16 {CUT}"]
    assert tree.circles == 2


def test_pitfall_523_nested_subagents_have_any_depth() -> None:
    deep = 5000
    tree = tree_of([(thread(number, number - 1), figures(1)) for number in range(1, deep + 1)])
    assert [node.depth for node in tree.nodes] == list(range(deep))
    assert tree.nodes[0].total.cost == deep


def test_pitfall_552_a_fork_without_a_message_costs_nothing() -> None:
    tree = tree_of([(thread(1, kind="main"), figures(1000)), (thread(2, 1), SessionFigures())])
    assert told(tree) == ["t1 1000 1000 ", ". t2 0 0 "]


@pytest.mark.parametrize(("sure", "uncertain"), [(100, False), (90, False), (89, True), (0, True)])
def test_a_thread_says_whether_it_is_certain_where_it_belongs(sure: int, uncertain: bool) -> None:
    rows = [(thread(1, kind="main", sure=sure), figures(1)), (thread(2, 1, sure=sure), figures(1))]
    main, agent = tree_of([*rows, (thread(3, 77, sure=sure), figures(1))]).nodes[:2]
    assert isinstance(main, ThreadNode)
    # Nobody has begun it.
    assert not main.is_uncertain
    assert agent.is_uncertain == uncertain
