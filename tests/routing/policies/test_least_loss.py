"""By how much of this request would be lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.routing.explanation import explain
from dragoman.routing.needs import LossCounts, Requirements
from dragoman.routing.plan import plan
from tests.routing.lines import COSTS, DICE, A, B, C, D, line, names, seen

FAITHFUL = line(A, B, C, D, policy="least-loss")


def test_the_least_is_lost_and_ties_go_by_price() -> None:
    needs = Requirements(
        size=10,
        losses={"a/m": LossCounts(3, 3), "b/m": LossCounts(1, 1), "c/m": LossCounts(1, 1), "d/m": LossCounts(1, 1)},
    )
    assert names(plan(FAITHFUL, needs, seen(costs={"b": 7, "c": 5}), DICE)) == "c b d a"


def test_bookkeeping_does_not_count_for_least_loss() -> None:
    needs = Requirements(size=10, losses={"a/m": LossCounts(1, 1), "b/m": LossCounts(0, 40), "c/m": LossCounts(2, 2)})
    made = plan(FAITHFUL, needs, seen(), DICE)
    assert names(made) == "b a c d"
    assert [found.losses for found in made.candidates] == [1, 0, 2, None]


def test_whoever_nobody_weighed_comes_last_and_that_is_said() -> None:
    made = plan(FAITHFUL, Requirements(size=10, losses={"c/m": LossCounts(99, 99)}), seen(), DICE)
    assert names(made) == "c a b d"
    assert "losses unknown" in explain(made)[2]


@given(
    st.dictionaries(st.sampled_from(["a/m", "b/m", "c/m", "d/m"]), st.integers(0, 3)),
    st.fixed_dictionaries({name: COSTS for name in "abcd"}),
)
def test_least_loss_is_minimal(losses: dict[str, int], costs: dict[str, int | None]) -> None:
    known = {name: cost for name, cost in costs.items() if cost is not None}
    made = plan(
        FAITHFUL,
        Requirements(size=10, losses={name: LossCounts(count, 9) for name, count in losses.items()}),
        seen(costs=known),
        DICE,
    )

    def worth(place: int) -> tuple[bool, int, bool, int]:
        target = made.order[place]
        lost, cost = losses.get(target.id), costs[target.provider.name]
        return lost is None, lost or 0, cost is None, cost or 0

    assert all(worth(place) <= worth(place + 1) for place in range(3))
