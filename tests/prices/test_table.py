"""The table of the package, and what a table from elsewhere is refused for."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from dragoman.errors import DragomanError
from dragoman.prices.table import (
    FORMAT,
    PriceBookTable,
    PriceTier,
    Rates,
    TieredRates,
    check_table,
    own_table,
    read_facts,
    read_provider_prices,
    read_table,
)
from tools import prices_table

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_the_pinned_package_compiles_to() -> None:
    assert prices_table.TABLE.read_bytes() == prices_table.compiled(), "run `make prices`"


def test_the_table_tells_the_pinned_version_and_is_small() -> None:
    pins = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8")
    assert re.search(rf"^genai-prices=={re.escape(own_table().version)}$", pins, re.M)
    assert own_table().title.startswith("genai-prices ")
    assert prices_table.TABLE.stat().st_size < 300_000


def test_the_package_of_prices_is_for_development_alone() -> None:
    for source in (ROOT / "src").rglob("*.py"):
        assert "genai_prices" not in source.read_text(encoding="utf-8"), source
    assert "genai" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_own_table_passes_what_others_have_to() -> None:
    check_table(own_table())


def table_of(row: list[object], **members: object) -> PriceBookTable:
    book: dict[str, object] = {
        "format": FORMAT,
        "source": "test",
        "version": "1",
        "taken": "2026-01-01",
        "providers": {"p": {"models": [row]}},
    }
    return read_table(msgspec.json.encode(book | members))


def test_a_table_in_short() -> None:
    table = table_of(["m", [], [1000, [[None, [[1, 2], [[10, [3, 4]]]]]]]])
    check_table(table)
    (row,) = read_provider_prices(table.providers["p"]).models
    facts = read_facts(row.facts)
    assert facts.context_window == 1000
    assert facts.prices[0].rates.rates_for(10) == Rates(input=1, output=2)
    assert facts.prices[0].rates.rates_for(11) == Rates(input=3, output=4)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (["m", [], [None, [[None, [[-1]]]]]], "`int` >= 0"),
        (["m", [], [None, [[None, [[1.5]]]]]], "found `float`|`int | null`"),
        (["m", [], [None, [[None, [[10**16]]]]]], "`int` <= 1000000000000000"),
        (["m", [], [None, [[None, [[1], [[5, [2]], [5, [3]]]]]]]], "thresholds do not rise"),
        (["m", [], [None, [[[0, 1500], [[1]]]]]], "a time that is none"),
        (["m", [], [None, [[-1, [[1]]]]]], "a time that is none"),
        (["m", ["~(a+)+$"], []], "a pattern that is not taken from others"),
        (["m", ["~^a{1,9}$"], []], "a pattern that is not taken from others"),
        (["m", ["~(a"], []], "a pattern that is not taken from others"),
        (["m", ["?x"], []], "a rule that is not known"),
        (["m", [""], []], "a rule that is not known"),
        (["m", ["=" + "x" * 300], []], "a rule that is not known"),
        (["m", [], [None, [], [], [], "more"]], "length"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pitfall_456_a_book_of_others_is_read_as_data_and_checked_whole(row: list[object], problem: str) -> None:
    with pytest.raises(DragomanError, match="is no book of prices: p: ") as refused:
        check_table(table_of(row))
    assert re.search(problem, str(refused.value))


@pytest.mark.parametrize("members", [{"format": FORMAT + 1}, {"taken": "yesterday"}, {"providers": []}, {"more": 1}])
def test_another_form_is_refused(members: dict[str, object]) -> None:
    with pytest.raises(DragomanError, match="is no book of prices"):
        table_of(["m", [], []], **members)


def test_a_ladder_has_one_rate_for_the_whole_request() -> None:
    steps = (PriceTier(above=100, rates=Rates(input=2)), PriceTier(above=200, rates=Rates(input=3)))
    ladder = TieredRates(base=Rates(input=1), steps=steps)
    assert [ladder.rates_for(count).input for count in (0, 100, 101, 200, 201, 10**7)] == [1, 1, 2, 2, 3, 3]
