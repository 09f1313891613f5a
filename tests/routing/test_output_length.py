"""How long answers are taken to be, for what they cost."""

from __future__ import annotations

import pytest

from dragoman.routing.output_length import MAX_TARGETS, UNMEASURED_OUTPUT, Outputs
from dragoman.routing.speeds import LARGE


def _usual(outputs: Outputs, target: str, *rivals: str, size: int = 100) -> float:
    return outputs.usual(target, size, outputs.among((target, *rivals), size))


def test_as_long_as_nobody_has_answered_nothing_is_known() -> None:
    assert _usual(Outputs(), "a/m", "b/m") == UNMEASURED_OUTPUT


def test_who_was_never_asked_is_taken_to_answer_as_its_rivals_do() -> None:
    outputs = Outputs()
    for _ in range(100):
        outputs.record("a/m", 100, 20)
    assert _usual(outputs, "b/m", "a/m") == pytest.approx(20, rel=0.3)
    # And not as somebody does whom nobody would ask this.
    assert _usual(outputs, "b/m", "c/m") == UNMEASURED_OUTPUT


def test_who_has_answered_often_speaks_for_itself() -> None:
    outputs = Outputs()
    for _ in range(100):
        outputs.record("terse/m", 100, 20)
        outputs.record("wordy/m", 100, 2000)
    assert _usual(outputs, "terse/m", "wordy/m") < 250 < 1600 < _usual(outputs, "wordy/m", "terse/m")


def test_one_long_answer_says_little() -> None:
    outputs = Outputs()
    for _ in range(100):
        outputs.record("a/m", 100, 20)
    outputs.record("b/m", 100, 2000)
    assert _usual(outputs, "b/m", "a/m") < 200


def test_small_and_large_requests_are_apart() -> None:
    outputs = Outputs()
    for _ in range(100):
        outputs.record("a/m", LARGE - 1, 20)
        outputs.record("a/m", LARGE, 3000)
    assert _usual(outputs, "a/m") == pytest.approx(20, rel=0.3)
    assert _usual(outputs, "a/m", size=LARGE) == pytest.approx(3000, rel=0.05)


def test_what_is_usual_changes() -> None:
    outputs = Outputs()
    for tokens in [20] * 200 + [800] * 100:
        outputs.record("a/m", 100, tokens)
    assert _usual(outputs, "a/m") == pytest.approx(800, rel=0.02)


def test_only_so_many_targets_are_remembered() -> None:
    outputs = Outputs(max_targets=2)
    for target in ("a/m", "b/m", "c/m"):
        outputs.record(target, 100, 20)
    assert _usual(outputs, "a/m") == UNMEASURED_OUTPUT != _usual(outputs, "c/m")
    assert MAX_TARGETS > 2
