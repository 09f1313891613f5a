"""Which entry a name means, and what holds of it when."""

from __future__ import annotations

import datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.prices.book import _TABLE_NAMES, Override, PriceBook, overlay
from dragoman.prices.table import FORMAT, PriceBookTable, PriceTier, Rates, TieredRates, read_table
from dragoman.providers.catalogue import catalogue

NOW = datetime.datetime(2026, 11, 16, 12, tzinfo=datetime.UTC).timestamp()
BOOK = PriceBook()


def book_of(
    models: list[list[object]], overrides: dict[str, Override] | None = None, **shelves: list[list[object]]
) -> PriceBook:
    """A book with a shelf `p`."""
    providers: dict[str, object] = {name: {"models": rows} for name, rows in shelves.items()}
    providers["p"] = {"models": models, "fallback": list(shelves)}

    def table() -> PriceBookTable:
        return read_table(
            msgspec.json.encode(
                {"format": FORMAT, "source": "test", "version": "1", "taken": "2026-01-01", "providers": providers}
            )
        )

    return PriceBook(table, overrides)


def entry(book: PriceBook, name: str, model: str) -> str:
    facts = book.find(name, model, NOW)
    return facts.entry if facts is not None else ""


@pytest.mark.parametrize(
    ("provider", "model", "found"),
    [
        ("openai", "gpt-5.1", "openai/gpt-5.1"),
        ("openai", "GPT-5.1-2025-11-13", "openai/gpt-5.1"),
        ("openai", "gpt-5.1-20251113", "openai/gpt-5.1"),
        ("anthropic", "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5"),
        ("anthropic", "claude-opus-5", "anthropic/claude-opus-5"),
        ("xai", "grok-4.5", "x-ai/grok-4.5"),
        ("google", "models/gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("vertex", "google/gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("vertex", "claude-opus-5@20260201", "google/claude-opus-5"),
        ("azure", "gpt-5.1", "openai/gpt-5.1"),
        ("azure-anthropic", "claude-opus-5", "anthropic/claude-opus-5"),
        ("openrouter", "anthropic/claude-opus-5", "openrouter/anthropic/claude-opus-5"),
        ("openrouter", "claude-opus-5", ""),
        ("openai", "claude-opus-5", ""),
        ("kimi-coding", "kimi-k2", ""),
        ("ollama", "gpt-oss:20b", ""),
        ("nobody", "gpt-5.1", ""),
        ("openai", "gpt-5.1" + "x" * 300, ""),
        ("openai", "", ""),
    ],
)
def test_names_mean_entries(provider: str, model: str, found: str) -> None:
    assert entry(BOOK, provider, model) == found


def test_shelves_are_those_of_the_catalogue() -> None:
    """A provider whose shelf is renamed upstream is noticed here."""
    known = {name for name in catalogue() if any(BOOK.find(name, model, NOW) for model in ("gpt-5.1", "claude-opus-5"))}
    assert known >= {"openai", "anthropic", "azure", "azure-anthropic", "vertex", "bedrock"}
    shelves = set(BOOK.table.providers)
    assert shelves >= {"x-ai", "moonshotai", "zhipuai", "minimax", "aws", "google", "azure", "groq", "cerebras"}


def test_renamed_shelves_are_of_providers_that_exist() -> None:
    assert set(_TABLE_NAMES) <= set(catalogue())
    assert {shelf for shelf in _TABLE_NAMES.values() if shelf} <= set(BOOK.table.providers)


@given(st.sampled_from(sorted(BOOK.table.providers)), st.text(max_size=300) | st.from_regex(r"[a-z0-9.:/@-]{1,60}"))
def test_any_name_has_an_answer(shelf: str, model: str) -> None:
    facts = BOOK.find(shelf, model, NOW)
    assert facts is None or facts.since <= NOW < facts.until
    assert BOOK.find(shelf, model, NOW) is facts


def test_the_label_counts_where_the_name_is_an_operators_own() -> None:
    facts = BOOK.find("deepseek", "deepseek-chat", NOW, name="second")
    assert facts is not None and facts.entry == "deepseek/deepseek-chat"
    # A plan that is not paid by the token is not what its label costs.
    assert BOOK.find("moonshot", "kimi-k2", NOW, name="kimi-coding") is None


def test_the_first_entry_that_fits_decides() -> None:
    rows: list[list[object]] = [["a", ["^x"], [1]], ["b", ["=x-1"], [2]], ["c", ["*1", "=y"], [3]], ["y", [], [4]]]
    book = book_of(rows)
    assert [entry(book, "p", name) for name in ("x-1", "x", "1", "y", "z")] == ["p/a", "p/a", "p/c", "p/c", ""]
    both = book_of([["a", [["^x", "$1"]], [1]], ["b", ["=x-1", "=x-2"], [2]]])
    assert [entry(both, "p", name) for name in ("x-1", "x-2")] == ["p/a", "p/b"]


def test_anothers_models_come_without_its_tiers() -> None:
    other: list[list[object]] = [["m", [], [None, [[None, [[1, 2]]]], [["priority", None, [[2, 4]]]]]]]
    book = book_of([], q=other)
    behind, own = book.find("p", "m", NOW), book.find("q", "m", NOW)
    assert behind is not None and own is not None
    assert behind.entry == "q/m" and not behind.tiers
    assert own.tiers == {"priority": TieredRates(base=Rates(input=2, output=4))}


DAY = 86400
DATED: list[list[object]] = [["m", [], [None, [[None, [[1]]], [10, [[2]]], [[60, 120], [[3]]], [[1380, 30], [[4]]]]]]]


@pytest.mark.parametrize(
    ("now", "rate"),
    [
        (9 * DAY + 3600 * 5, 1),
        (10 * DAY - 1, 4),
        (10 * DAY + 1800, 2),
        (9 * DAY + 3600, 3),
        (9 * DAY + 7199, 3),
        (9 * DAY + 7200, 1),
        (11 * DAY + 7200, 2),
        (11 * DAY + 23 * 3600, 4),
        (12 * DAY + 1799, 4),
    ],
)
def test_prices_have_dates_and_times_of_day(now: float, rate: int) -> None:
    book = book_of(DATED)
    for moment in (now, now + DAY * 30, now):
        facts = book.find("p", "m", moment)
        assert facts is not None and facts.rates is not None
        assert facts.since <= moment < facts.until
    assert facts is not None and facts.rates == Rates(input=rate)


def test_what_is_remembered_is_forgotten_when_it_changes() -> None:
    book = book_of(DATED)
    seen = [book.find("p", "m", 9 * DAY + minute * 60) for minute in range(2 * 24 * 60)]
    fresh = [book_of(DATED).find("p", "m", 9 * DAY + minute * 60) for minute in range(0, 2 * 24 * 60, 15)]
    assert seen[::15] == fresh
    assert seen[61] is seen[62]


def test_memory_is_bounded() -> None:
    book = book_of([["m", [], [7]]])
    for number in range(5000):
        assert book.find("p", f"unknown-{number}", NOW) is None
    assert len(book._cache) < 4200
    assert book.find("p", "m", NOW) is not None


def test_nothing_is_read_before_somebody_asks() -> None:
    def never() -> PriceBookTable:
        raise AssertionError

    PriceBook(never, {"p/m": Override(context_window=1)})


def test_a_ladder_over_another_keeps_what_is_not_said() -> None:
    below = TieredRates(base=Rates(input=1, output=2), steps=(PriceTier(above=10, rates=Rates(input=3, output=4)),))
    above = TieredRates(base=Rates(input=5), steps=(PriceTier(above=20, rates=Rates(input=6)),))
    merged = overlay(below, above)
    told = [(merged.rates_for(count).input, merged.rates_for(count).output) for count in (10, 11, 20, 21)]
    assert told == [(5, 2), (5, 4), (5, 4), (6, 4)]


PRICED: list[list[object]] = [["m", [], [100, [[None, [[10, 20, 1], [[50, [20, 40, 2]]]]]], [["flex", None, [[5]]]]]]]


def test_an_override_goes_over_the_book_member_by_member() -> None:
    book = book_of(PRICED, {"p/m": Override(rates=Rates(input=0, cache_write=7), max_output_tokens=8)})
    facts = book.find("p", "m", NOW)
    assert facts is not None
    assert (facts.entry, facts.override, facts.context_window, facts.max_output_tokens) == ("p/m", "p/m", 100, 8)
    assert facts.rates == Rates(input=0, output=20, cache_read=1, cache_write=7)
    assert facts.standard is not None and facts.standard.rates_for(51).input == 0
    # They belong to other prices.
    assert facts.tiers == {}


def test_an_override_without_prices_leaves_them_alone() -> None:
    book = book_of(PRICED, {"p/m": Override(context_window=5)})
    facts, as_it_is = book.find("p", "m", NOW), book_of(PRICED).find("p", "m", NOW)
    assert facts is not None and as_it_is is not None
    assert (facts.context_window, facts.standard, facts.tiers) == (5, as_it_is.standard, as_it_is.tiers)


def test_overrides_know_providers_by_their_own_names_and_the_longest_beginning_wins() -> None:
    free = Rates(input=0, output=0)
    book = book_of(
        [],
        {
            "box/*": Override(rates=free),
            "box/big-*": Override(rates=Rates(input=9)),
            "box/big-1": Override(context_window=3),
        },
    )
    for model, override in (("small", "box/*"), ("big-2", "box/big-*"), ("big-1", "box/big-1")):
        facts = book.find("vllm", model, NOW, name="box")
        assert facts is not None and facts.override == override
    assert book.find("vllm", "small", NOW) is None
    small = book.find("vllm", "small", NOW, name="box")
    assert small is not None and small.rates == free


def test_tiers_of_an_override() -> None:
    book = book_of(PRICED, {"p/m": Override(rates=Rates(input=4), tiers={"batch": Rates(output=1)})})
    facts = book.find("p", "m", NOW)
    assert facts is not None
    assert facts.tiers["batch"].base == Rates(input=4, output=1, cache_read=1)


def test_pitfall_410_regions_are_priced_by_their_own_entries_or_not_at_all() -> None:
    whole = BOOK.find("bedrock", "global.anthropic.claude-opus-4-5-20251101-v1:0", NOW)
    for model in ("eu.anthropic.claude-opus-4-5-20251101-v1:0", "anthropic.claude-opus-4-5-20251101-v1:0"):
        part = BOOK.find("bedrock", model, NOW)
        assert whole is not None and whole.rates is not None and whole.rates.input is not None
        assert part is not None and part.rates is not None and part.rates.input is not None
        assert part.rates.input * 10 == whole.rates.input * 11
    arn = BOOK.find("bedrock", "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-4-5-v1:0", NOW)
    assert arn is not None and part is not None and arn.rates == part.rates
    for region, known in (("global", True), ("", True), ("europe-west1", False)):
        facts = BOOK.find("vertex", "claude-opus-5", NOW, region=region)
        assert facts is not None and facts.context_window
        assert (facts.rates is not None) is known


def test_pitfall_406_cache_reads_have_many_factors_and_none_is_assumed() -> None:
    factors = set()
    for _, facts in BOOK.entries(NOW):
        if facts.rates is not None and facts.rates.input and facts.rates.cache_read is not None:
            factors.add(round(facts.rates.cache_read / facts.rates.input, 3))
    assert factors > {0.025, 0.05, 0.1, 0.12, 0.125, 0.25, 0.5}
    without = [facts for _, facts in BOOK.entries(NOW) if facts.rates is not None and facts.rates.cache_read is None]
    assert len(without) > 500
