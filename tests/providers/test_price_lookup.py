"""What is known of a model is asked for by its provider's own name, label and region."""

from __future__ import annotations

from dragoman.prices.book import Override, PriceBook
from dragoman.prices.table import Rates
from dragoman.providers.provider import Endpoint, Provider, facts_of

NOW = 1_795_000_000.0
ENDPOINTS = (Endpoint(protocol="openai-chat", base_url="http://127.0.0.1:1/v1"),)


def test_names_labels_and_overrides() -> None:
    book = PriceBook(overrides={"second/deepseek-chat": Override(rates=Rates(input=7))})
    first = facts_of(book, Provider(name="deepseek", endpoints=ENDPOINTS), "deepseek-chat", NOW)
    second = facts_of(book, Provider(name="second", endpoints=ENDPOINTS, vendor="deepseek"), "deepseek-chat", NOW)
    assert first is not None and second is not None
    assert first.entry == second.entry == "deepseek/deepseek-chat"
    assert not first.override
    assert second.rates is not None and second.rates.input == 7
    assert facts_of(book, Provider(name="box", endpoints=ENDPOINTS), "deepseek-chat", NOW) is None


def test_the_region_is_the_providers_own() -> None:
    for region, is_known in (("global", True), ("europe-west1", False)):
        vertex = Provider(name="mine", endpoints=ENDPOINTS, vendor="vertex", options={"region": region})
        facts = facts_of(PriceBook(), vertex, "claude-opus-5", NOW)
        assert facts is not None and (facts.standard is not None) is is_known
