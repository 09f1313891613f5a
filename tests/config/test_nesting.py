"""Lines within lines: circles, depth and width."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config.nesting import MAX_DEPTH, MAX_TARGETS
from tests.config.support import problems_of, settings_of

CIRCLES = {
    "two lines": ({"a": ["b"], "b": ["a"]}, ["2: models.a: leads back to itself: a → b → a"]),
    "three lines, with other targets": (
        {"a": ["echo/x", "b"], "b": ["c", "echo/y"], "c": ["echo/x", "a"]},
        ["2: models.a: leads back to itself: a → b → c → a"],
    ),
    "a line that is not part of it": (
        {"r": ["a"], "a": ["b"], "b": ["a"]},
        ["3: models.a: leads back to itself: a → b → a"],
    ),
    "two circles": (
        {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]},
        ["2: models.a: leads back to itself: a → b → a", "4: models.c: leads back to itself: c → d → c"],
    ),
    "a pattern": ({"a": ["x-1"], "x-*": ["echo/*", "a"]}, ["2: models.a: leads back to itself: a → x-* → a"]),
}


def written(lines: dict[str, list[str]]) -> str:
    return "[models]\n" + "".join(f'"{name}" = {targets}\n' for name, targets in lines.items())


@pytest.mark.parametrize("case", CIRCLES)
def test_pitfall_309_a_circle_of_names_is_refused_and_told_in_order(tmp_path: Path, case: str) -> None:
    lines, problems = CIRCLES[case]
    assert problems_of(tmp_path, written(lines)) == [
        f"{problem} (take one of them out of the circle)" for problem in problems
    ]


def test_a_circle_may_go_through_a_rule(tmp_path: Path) -> None:
    text = '[models]\na = "b"\nb = { to = "echo/x", rules = [{ when = { tools = true }, targets = ["a"] }] }\n'
    (told,) = problems_of(tmp_path, text)
    assert told.startswith("2: models.a: leads back to itself: a → b → a")


def test_lines_may_name_the_same_line_twice_without_a_circle(tmp_path: Path) -> None:
    lines = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["echo/x"]}
    assert len(settings_of(tmp_path, written(lines)).routes) == 4


@pytest.mark.parametrize("order", [1, -1], ids=["from above", "from below"])
def test_lines_within_lines_have_a_bound(tmp_path: Path, order: int) -> None:
    chain = {f"l{count}": [f"l{count + 1}"] for count in range(1, MAX_DEPTH)} | {f"l{MAX_DEPTH}": ["echo/x"]}
    assert len(settings_of(tmp_path, written(dict(list(chain.items())[::order]))).routes) == MAX_DEPTH
    chain = {"l0": ["l1"]} | chain
    (told,) = problems_of(tmp_path, written(dict(list(chain.items())[::order])))
    assert "models.l0: has more than 8 routes within each other (name their targets instead)" in told


@pytest.mark.parametrize("order", [1, -1], ids=["from above", "from below"])
def test_a_long_chain_is_told_of_and_no_more(tmp_path: Path, order: int) -> None:
    chain = {f"l{count}": [f"l{count + 1}"] for count in range(3000)} | {"l3000": ["echo/x"]}
    told = problems_of(tmp_path, written(dict(list(chain.items())[::order])))
    assert any("routes within each other" in each for each in told)


def test_lines_that_double_at_every_step_are_not_followed(tmp_path: Path) -> None:
    lines = {f"{side}{step}": [f"a{step + 1}", f"b{step + 1}"] for step in range(7) for side in "ab"}
    lines |= {"a7": ["echo/a", "echo/c"], "b7": ["echo/b", "echo/d"]}
    told = problems_of(tmp_path, written(lines))
    assert told == [
        f"{line}: models.{side}0: has 256 targets in total, of {MAX_TARGETS} at most (leave some out)"
        for line, side in ((2, "a"), (3, "b"))
    ]
