"""Cost of a response as its provider reports it, next to the computed cost (pitfall 417)."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.response import Usage
from dragoman.prices.money import NANO

# Location among the usage members:
#   cost                 dollars: https://openrouter.ai/docs/use-cases/usage-accounting; as an object with a total:
#                        https://docs.perplexity.ai/docs/grounded-llm/openai-compatibility
#   cost_in_usd_ticks    ten thousand millions are a dollar: https://docs.x.ai/developers/cost-tracking
_COST, _TICKS = "cost", "cost_in_usd_ticks"
MEMBERS = frozenset({_COST, _TICKS})
_TICKS_IN_NANO = 10
# Limits in nano-dollars and in the reported unit, above the cost of any response. Larger values are ignored.
_MAX_COST = 10**15
_MAX_NUMBER = 10**20
_MAX_NUMBER_LENGTH = 40


def reported_cost_of(usage: Usage) -> int | None:
    if usage.extras is None or MEMBERS.isdisjoint(usage.extras.fields):
        return None
    fields = usage.extras.fields
    ticks = _decimal(fields.get(_TICKS))
    if ticks is not None:
        return _nano(ticks / _TICKS_IN_NANO)
    cost = fields.get(_COST)
    dollars = _decimal(cost.get("total_cost") if isinstance(cost, dict) else cost)
    if dollars is None:
        return None
    return _nano((dollars + _byok_cost(fields)) * NANO)


def _byok_cost(fields: JsonObject) -> Decimal:
    """The cost of the operator's own key at another provider. The reported cost is then only a fee."""
    details = fields.get("cost_details")
    if fields.get("is_byok") is not True or not isinstance(details, dict):
        return Decimal(0)
    return _decimal(details.get("upstream_inference_cost")) or Decimal(0)


def _decimal(value: JsonValue) -> Decimal | None:
    if isinstance(value, bool):
        return None
    text = value.text if isinstance(value, Number) else str(value) if isinstance(value, int | float | str) else ""
    if not text or len(text) > _MAX_NUMBER_LENGTH:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and 0 <= number <= _MAX_NUMBER else None


def _nano(amount: Decimal) -> int | None:
    return int(amount.to_integral_value()) if amount <= _MAX_COST else None
