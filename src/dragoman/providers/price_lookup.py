"""What the book knows of a provider's model: the provider says by which names and in which region it is asked."""

from __future__ import annotations

from dragoman.prices.book import ModelFacts, PriceBook
from dragoman.providers.provider import Provider

_REGION = "region"


def facts_of(book: PriceBook, provider: Provider, model: str, now: float) -> ModelFacts | None:
    """Prices, window and cap of a model at a provider, at a time (seconds since 1970)."""
    region = provider.options.get(_REGION, "")
    return book.find(provider.vendor_or_name, model, now, name=provider.name, region=region)
