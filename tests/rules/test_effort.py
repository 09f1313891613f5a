import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.rules.effort import EFFORTS, budget_for, clamp_budget, drop_sampling, effort_for, nearest
from tests.rules.vectors import number, objects, rows, section, text


def golden_budgets() -> list[tuple[str, JsonValue]]:
    table = section("effort_to_budget")
    assert isinstance(table, dict)
    return list(table.items())


@pytest.mark.parametrize(("effort", "budget"), golden_budgets())
def test_an_effort_has_its_golden_budget(effort: str, budget: JsonValue) -> None:
    assert budget_for(effort) == (budget if isinstance(budget, int) else None)


@pytest.mark.parametrize("row", rows("budget_to_effort"), ids=str)
def test_a_budget_has_its_golden_effort(row: list[JsonValue]) -> None:
    assert effort_for(number(row[0])) == row[1]


@pytest.mark.parametrize("row", objects("budget_clamp"), ids=str)
def test_a_budget_is_clamped_as_the_golden_row_says(row: JsonObject) -> None:
    budget = budget_for(text(row["effort"]))
    assert budget is not None
    assert clamp_budget(budget, number(row["max_tokens"])) == row["budget"]


@pytest.mark.parametrize("effort", EFFORTS[1:])
def test_effort_and_budget_invert_each_other(effort: str) -> None:
    budget = budget_for(effort)
    assert budget is not None
    assert effort_for(budget) == effort


@given(st.integers(0, 100_000), st.integers(0, 100_000))
def test_a_clamped_budget_is_legal(budget: int, max_tokens: int) -> None:
    clamped = clamp_budget(budget, max_tokens)
    assert (clamped is None) == (max_tokens <= 1024)
    assert clamped is None or 1024 <= clamped < max_tokens


@given(st.integers(0, 100_000), st.integers(0, 100_000))
def test_more_budget_is_never_less_effort(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert EFFORTS.index(effort_for(low)) <= EFFORTS.index(effort_for(high))


@pytest.mark.parametrize(
    ("effort", "levels", "expected"),
    [
        ("none", None, "low"),
        ("minimal", None, "low"),
        ("low", None, "low"),
        ("medium", None, "medium"),
        ("high", None, "high"),
        ("xhigh", None, "high"),
        ("max", None, "high"),
        ("max", ("low", "high", "xhigh"), "xhigh"),
        ("medium", ("high", "low"), "low"),
        ("minimal", ("medium", "high"), "medium"),
        ("none", ("none", "low"), "none"),
        ("none", ("minimal", "low"), "minimal"),
        ("ultra", ("low", "max"), "max"),
        ("ultra", ("low", "ultra"), "ultra"),
        ("ultra", None, "high"),
        ("high", (), "high"),
        ("low", ("none", "high"), "high"),
        ("none", ("none", "high"), "none"),
        ("low", ("none",), "none"),
        ("max", ("none", "default"), "default"),
        ("none", ("none", "default"), "none"),
        ("none", ("low", "high"), "low"),
    ],
)
def test_the_nearest_level_is_chosen(effort: str, levels: tuple[str, ...] | None, expected: str) -> None:
    assert nearest(effort, levels) == expected


@pytest.mark.parametrize(("effort", "left"), [("high", {"seed": 1}), ("none", None), (None, None)])
def test_sampling_goes_where_the_model_reasons(effort: str | None, left: dict[str, int] | None) -> None:
    body: JsonObject = {"temperature": 1, "top_p": 1, "seed": 1}
    before, ledger = {**body}, Ledger()
    drop_sampling(body, effort, ledger)
    assert body == (left or before)
    places = ["sampling.temperature", "sampling.top_p"] if left else []
    assert [loss.at for loss in ledger.losses] == places
