"""Writes src/dragoman/prices/table.json: the prices of the pinned package, compiled.

python tools/prices_table.py          writes the table, and says what is in it
python tools/prices_table.py --check  exits with status 1 if the table is not what it would write
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import time
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import msgspec
from genai_prices import types
from genai_prices.data import providers

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from dragoman.prices.price_source import read_source  # noqa: E402 - the paths above come first
from dragoman.prices.table import check_table  # noqa: E402 - the paths above come first

TABLE = ROOT / "src/dragoman/prices/table.json"
PACKAGE = "genai-prices"
# The day on which each version was taken: an update that a user made later is newer than the table.
TAKEN = {"0.2.1": "2026-11-16"}


def published() -> list[object]:
    """What the package holds, in the form in which it is published."""
    return [
        {
            "id": provider.id,
            "fallback_model_providers": provider.fallback_model_providers,
            "models": [_model(model) for model in provider.models],
        }
        for provider in providers
    ]


def _model(model: types.ModelInfo) -> dict[str, object]:
    priced = model.prices
    return {
        "id": model.id,
        "match": _clause(model.match),
        "context_window": model.context_window,
        "prices": [_conditional(entry) for entry in priced] if isinstance(priced, list) else _prices(priced),
        "price_variants": [{"when": variant.when, **_conditional(variant)} for variant in model.price_variants or ()],
    }


def _conditional(entry: types.ConditionalPrice | types.PriceVariant) -> dict[str, object]:
    return {"prices": _prices(entry.prices), "constraint": _constraint(entry.constraint)}


def _constraint(constraint: types.StartDateConstraint | types.TimeOfDateConstraint | None) -> object:
    match constraint:
        case None:
            return None
        case types.StartDateConstraint():
            return {"start_date": constraint.start_date.isoformat()}
        case types.TimeOfDateConstraint():
            return {"start_time": _clock(constraint.start_time), "end_time": _clock(constraint.end_time)}


def _clock(moment: time) -> str:
    return moment.isoformat("seconds")


def _prices(prices: types.ModelPrice) -> dict[str, object]:
    stored: Mapping[str, Decimal | types.TieredPrices | None] = vars(prices)
    return {name: _price(price) for name, price in stored.items()}


def _price(price: Decimal | types.TieredPrices | None) -> object:
    if not isinstance(price, types.TieredPrices):
        return None if price is None else str(price)
    return {
        "base": str(price.base),
        "tiers": [{"start": tier.start, "price": str(tier.price)} for tier in price.tiers],
    }


def _clause(clause: object) -> dict[str, object]:
    match clause:
        case types.ClauseOr():
            return {"or": [_clause(part) for part in clause.or_]}
        case types.ClauseAnd():
            return {"and": [_clause(part) for part in clause.and_]}
        case _:
            return dict(vars(clause))


def compiled() -> bytes:
    """The table as it should be."""
    installed = version(PACKAGE)
    if installed not in TAKEN:
        raise SystemExit(f"{PACKAGE} {installed}: write into TAKEN on which day it was taken")
    table = read_source(msgspec.json.encode(published()), installed, TAKEN[installed])
    check_table(table)
    return msgspec.json.encode(table) + b"\n"


def main(arguments: list[str]) -> int:
    """Write the table, or say whether it is up to date."""
    fresh = compiled()
    if "--check" in arguments:
        return int(not TABLE.exists() or TABLE.read_bytes() != fresh)
    TABLE.write_bytes(fresh)
    models = sum(len(provider.models) for provider in providers)
    print(f"{TABLE.relative_to(ROOT)}: {len(fresh):,} bytes, {len(providers)} providers, {models} models")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
