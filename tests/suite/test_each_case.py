"""Many cases in one test: all are checked, and those that failed are named."""

from __future__ import annotations

import pytest

from tests.each_case import check_each


def test_all_cases_are_checked_and_those_that_failed_are_named() -> None:
    checked: list[int] = []

    def check(case: int) -> None:
        checked.append(case)
        assert case != 2
        if case == 3:
            raise ValueError("three")

    with pytest.raises(ExceptionGroup, match="2 of 4 cases failed") as raised:
        check_each(check, range(1, 5), lambda case: f"number {case}")
    assert checked == [1, 2, 3, 4]
    assert [type(error) for error in raised.value.exceptions] == [AssertionError, ValueError]
    assert [error.__notes__ for error in raised.value.exceptions] == [["case: number 2"], ["case: number 3"]]


def test_no_case_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="no cases"):
        check_each(print, [])
