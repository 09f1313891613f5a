"""`[prices."provider/model"]`, and the book that is used."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dragoman.config.prices import (
    MAX_PRICE_BOOK_BYTES,
    PRICE_BOOK_NAME,
    dollars,
    override_warnings,
    price_book_of,
    read_price_book,
)
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.model.response import Usage
from dragoman.prices.book import Override
from dragoman.prices.cost import cost_of, estimate
from dragoman.prices.table import FORMAT, Rates, own_table
from tests.config.support import problems_of, settings_of

KEY = {"OPENAI_API_KEY": "sk-1"}
NOW = 1_795_000_000.0


def never(words: str) -> None:
    raise AssertionError(words)


def test_an_override_is_read_to_the_last_digit(tmp_path: Path) -> None:
    text = """
[prices."openai/gpt-5.1"]
input = 1
output = "8.800001"
cache_read = 0.1
cache_write = 0
cache_write_1h = 0.000001
per_request = 0.0000000001
per_search = 0.01
context_window = 400_000
max_output_tokens = 128_000
tiers = { flex = { input = 0.5, per_search = "0.02" }, batch = {} }
[prices."ollama/*"]
"""
    settings = settings_of(tmp_path, text, KEY)
    assert settings.prices == {
        "openai/gpt-5.1": Override(
            rates=Rates(
                input=1_000_000,
                output=8_800_001,
                cache_read=100_000,
                cache_write=0,
                cache_write_1h=1,
                request=100,
                search=10**10,
            ),
            tiers={"flex": Rates(input=500_000, search=2 * 10**10), "batch": Rates()},
            context_window=400_000,
            max_output_tokens=128_000,
        ),
        "ollama/*": Override(),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("input = -1", '2: prices."openai/m".input: expected a price from 0 to 1000000 US dollars, got "-1"'),
        ('input = "-0"', "expected a price from 0 to 1000000 US dollars"),
        ("tiers = {}", "expected tiers by their names, got an empty table"),
        ('tiers = { "" = { input = 1 } }', "expected tiers by their names, got one without"),
        ("input = true", "expected a price in US dollars, got a boolean"),
        ('input = "1 USD"', 'expected a price in US dollars, got "1 USD" (example: input = 1.25)'),
        ("input = nan", 'expected a price from 0 to 1000000 US dollars, got "nan"'),
        ("input = inf", 'expected a price from 0 to 1000000 US dollars, got "inf"'),
        ("input = 2e6", "expected a price from 0 to 1000000 US dollars"),
        ("input = 1.2345678", "expected a price with at most 6 decimals"),
        ("imput = 1", 'prices."openai/m".imput: is not a known key (did you mean input?)'),
        ("context_window = 0", "expected an integer from 1 to 1000000000, got 0"),
        ("tiers = 1", "expected a table of tiers, got an integer"),
        ("tiers = { flex = 1 }", 'expected a table of prices for "flex", got an integer'),
        ("tiers = { flex = { inputs = 1 } }", '"flex" has "inputs", which is no price (known are input, output, '),
        ("tiers = { flex = { input = -1 } }", "expected a price from 0 to 1000000 US dollars"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_line_and_remedy(tmp_path: Path, text: str, problem: str) -> None:
    (told,) = problems_of(tmp_path, f'[prices."openai/m"]\n{text}\n')
    assert told.startswith("2: ")
    assert problem in told


@pytest.mark.parametrize(
    ("header", "remedy"),
    [
        ("[prices.openai.gpt-5]", 'for example [prices."openai/gpt-5"]'),
        ('[prices."openai/"]', 'example: [prices."openai/gpt-5.1"]'),
        ("[prices.gpt-5]", 'write whose model it is, for example [prices."openai/gpt-5"]'),
        ("[prices.gpt-5.1]", 'write both in one pair of quotes, for example [prices."openai/gpt-5.1"]'),
        ('[prices."openai/a b"]', 'example: [prices."openai/gpt-5.1"]'),
        ('[prices."*/x"]', 'example: [prices."openai/gpt-5.1"]'),
    ],
)
def test_a_name_is_provider_and_model(tmp_path: Path, header: str, remedy: str) -> None:
    (told,) = problems_of(tmp_path, f"{header}\ninput = 1\n")
    assert "expected provider/model" in told and remedy in told


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("openia/gpt-5.1", 'did you mean "openai/gpt-5.1"?'),
        ("mine/m", "known are openai, echo; "),
        ("mine/m", "others are added with [providers.mine]"),
        # One of the catalogue that is not set up here.
        ("anthropics/*", 'did you mean "anthropic/*"?'),
    ],
)
def test_item_22_b12_a_price_of_an_unknown_provider_is_an_error(tmp_path: Path, name: str, remedy: str) -> None:
    (told,) = problems_of(tmp_path, f'[server]\n[prices."{name}"]\ninput = 1\n', KEY)
    provider = name.partition("/")[0]
    assert told.startswith(f'2: prices."{name}": names the provider "{provider}", which is not known (')
    assert remedy in told


def test_item_22_b12_a_price_of_a_provider_of_the_catalogue_or_of_the_file_is_none(tmp_path: Path) -> None:
    own = '[providers.mine]\nbase_url = "http://127.0.0.1:1/v1"\nprotocol = "openai-chat"\n'
    settings = settings_of(tmp_path, f'{own}[prices."mine/m"]\ninput = 1\n[prices."anthropic/*"]\ninput = 1\n', KEY)
    assert [*settings.prices] == ["mine/m", "anthropic/*"]
    (told,) = override_warnings(settings, price_book_of(settings, never), NOW)
    assert told == 'prices."anthropic/*" is of the provider "anthropic", which is not set up'


def test_pitfall_391_overrides_and_their_tiers_are_priced_by_every_road(tmp_path: Path) -> None:
    text = '[prices."openai/gpt-5.1"]\ninput = 2\noutput = 4\ntiers = { priority = { output = 8 } }\n'
    book = price_book_of(settings_of(tmp_path, text, KEY), never)
    facts = book.find("openai", "gpt-5.1", NOW)
    assert facts is not None
    assert estimate(facts, 1000, 0, 1000).total == cost_of(facts, Usage(input=1000, output=1000)).total == 6_000_000
    assert cost_of(facts, Usage(input=1000, output=1000, service_tier="priority")).total == 10_000_000
    assert cost_of(facts, Usage(input=1000, service_tier="flex")).total is None


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("input = 1.3", []),
        ("input = 62.5", []),
        ("input = 62.6", ["input"]),
        ("input = 0.025", []),
        ("input = 0.0249", ["input"]),
        ("input = 0", []),
        ("output = 1000\nper_search = 10", ["output", "per_search"]),
        ("per_request = 100", []),
    ],
)
def test_pitfall_392_an_override_fifty_times_off_the_book_is_told(
    tmp_path: Path, written: str, told: list[str]
) -> None:
    settings = settings_of(tmp_path, f'[prices."openai/gpt-5.1"]\n{written}\n', KEY)
    found = list(override_warnings(settings, price_book_of(settings, never), NOW))
    assert [line.partition(" is ")[0] for line in found] == [f'prices."openai/gpt-5.1".{member}' for member in told]


def test_amounts_are_shown_as_they_are_written() -> None:
    assert [dollars("input", amount) for amount in (1_250_000, 1, 10_000_000)] == ["1.25", "0.000001", "10"]
    assert dollars("per_search", 10**10) == "0.01"


def book(taken: str, price: object = 1) -> bytes:
    return msgspec.json.encode(
        {
            "format": FORMAT,
            "source": "test",
            "version": "9",
            "taken": taken,
            "providers": {"openai": {"models": [["gpt-5.1", [], [None, [[None, [[price]]]]]]]}},
        }
    )


def test_an_updated_book_is_used_unless_the_release_is_newer(tmp_path: Path) -> None:
    path = tmp_path / PRICE_BOOK_NAME
    settings = Settings(price_book_path=str(path))
    assert price_book_of(settings, never).table is own_table()
    path.write_bytes(book(own_table().taken))
    assert price_book_of(settings, never).table.version == "9"
    path.write_bytes(book("2020-01-01"))
    assert price_book_of(settings, never).table is own_table()
    assert price_book_of(Settings(), never).table is own_table()


@pytest.mark.parametrize("content", [b"", b"[]", book("2030-01-01", -1), book("2030-01-01")[:-1]])
def test_a_broken_book_is_told_and_not_used(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / PRICE_BOOK_NAME
    path.write_bytes(content)
    told: list[str] = []
    used = price_book_of(Settings(price_book_path=str(path)), told.append)
    assert not told, "it is read when somebody asks"
    assert used.table is own_table()
    (words,) = told
    assert words.startswith(f"{path} is no book of prices")


def test_a_book_has_a_size(tmp_path: Path) -> None:
    path = tmp_path / PRICE_BOOK_NAME
    path.write_bytes(b" " * (MAX_PRICE_BOOK_BYTES + 1))
    with pytest.raises(DragomanError, match="is larger than 8000000 bytes"):
        read_price_book(path)
    with pytest.raises(DragomanError, match="cannot be read"):
        read_price_book(tmp_path)


def test_the_embedded_provider_costs_nothing_and_no_other_does_without_a_price(tmp_path: Path) -> None:
    book = price_book_of(settings_of(tmp_path, '[prices."echo/dear"]\ninput = 1\noutput = 2\n'), never)
    usage = Usage(input=10, output=5, cache_read=3)
    assert cost_of(book.find("echo", "text", NOW, name="echo"), usage).total == 0
    assert cost_of(book.find("echo", "dear", NOW, name="echo"), Usage(input=10)).total == 10_000
    assert book.find("local", "text", NOW, name="local") is None
    away = price_book_of(settings_of(tmp_path, "[server]\necho = false\n"), never)
    assert away.find("echo", "text", NOW, name="echo") is None
