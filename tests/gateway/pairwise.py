"""Pairwise combinations: every two values of different factors meet in some case, with few cases.

    @pytest.mark.parametrize(("client", "provider", "status"), pairwise(PROTOCOLS, PROTOCOLS, (401, 402, 403, 429)))

12 cases instead of 36. For tests whose subject is the gateway; codecs have golden files and laws for every pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product


def pairwise(*factors: Sequence[object]) -> list[tuple[object, ...]]:
    """Cases in which every two values of different factors meet; the same ones on every run."""
    open_pairs = {
        ((one, a), (other, b))
        for one, other in combinations(range(len(factors)), 2)
        for a, b in product(range(len(factors[one])), range(len(factors[other])))
    }
    uses: Counter[tuple[int, int]] = Counter()
    cases = []
    while open_pairs:
        chosen = dict(min(open_pairs))
        while len(chosen) < len(factors):
            # The value that closes most pairs with those that are chosen; among equals, the one used least.
            factor, value = max(
                (
                    (factor, value)
                    for factor in range(len(factors))
                    if factor not in chosen
                    for value in _of(factors, factor)
                ),
                key=lambda each: (_closed(open_pairs, chosen, each), -uses[each], -each[0], -each[1]),
            )
            chosen[factor] = value
        uses.update(chosen.items())
        open_pairs -= set(combinations(sorted(chosen.items()), 2))
        cases.append(tuple(factors[factor][value] for factor, value in sorted(chosen.items())))
    return cases


def _of(factors: Sequence[Sequence[object]], factor: int) -> range:
    return range(len(factors[factor]))


def _closed(
    open_pairs: set[tuple[tuple[int, int], tuple[int, int]]], chosen: dict[int, int], value: tuple[int, int]
) -> int:
    return sum((min(each, value), max(each, value)) in open_pairs for each in chosen.items())
