"""Pairwise combinations are complete and few."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.gateway.pairwise import pairwise


@pytest.mark.parametrize(
    ("sizes", "most"), [((3, 3), 9), ((3, 3, 4), 12), ((3, 3, 2, 4), 13), ((3, 3, 2), 9), ((2, 2, 2, 2, 2), 7)]
)
def test_every_two_values_meet(sizes: tuple[int, ...], most: int) -> None:
    cases = pairwise(*(range(size) for size in sizes))
    for one, other in combinations(range(len(sizes)), 2):
        assert {(case[one], case[other]) for case in cases} == set(product(range(sizes[one]), range(sizes[other])))
    assert len(cases) == len(set(cases)) <= most
    assert cases == pairwise(*(range(size) for size in sizes))
