"""Many small cases in one test: a test of its own would cost each of them more than its check.

    check_each(check, cases)          # in a test
    @each_of(cases)                   # makes a test of a check

Every case is checked. What failed is one group of exceptions, each with the name of its case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

Case = TypeVar("Case")


def check_each(check: Callable[[Case], object], cases: Collection[Case], name: Callable[[Case], str] = str) -> None:
    """Check all cases, of which there is one at least."""
    assert cases, "no cases"
    failed: list[Exception] = []
    for case in cases:
        try:
            check(case)
        except Exception as error:
            error.add_note(f"case: {name(case)}")
            failed.append(error)
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {len(cases)} cases failed", failed)


def each_of(
    cases: Collection[Case], name: Callable[[Case], str] = str
) -> Callable[[Callable[[Case], object]], Callable[[], None]]:
    """Make a test of a check, in place of `parametrize`."""

    def test_of(check: Callable[[Case], object]) -> Callable[[], None]:
        def test() -> None:
            check_each(check, cases, name)

        test.__doc__ = check.__doc__
        return test

    return test_of
