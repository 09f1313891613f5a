"""Token counts in the various forms that servers report (mapping.md §18)."""

from __future__ import annotations

from msgspec import Raw, Struct

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.losses import Ledger
from dragoman.model.response import INPUT, OUTPUT
from dragoman.wire.peek import NULL

# Larger counts are invalid.
MAX_COUNT = 2**53


class UsageMembers(Struct):
    """The members of a full response with its usage and tier, in wire form."""

    usage: Raw = NULL
    service_tier: Raw = NULL
    tool_usage: Raw = NULL
    x_groq: Raw = NULL


def count_of(value: JsonValue) -> int | None:
    if type(value) is int:
        return value if 0 <= value < MAX_COUNT else None
    if isinstance(value, str | float | Number):
        try:
            number = float(value.strip() if isinstance(value, str) else value)
        except (ValueError, OverflowError):
            return None
        return int(number) if number.is_integer() and 0 <= number < MAX_COUNT else None
    return None


def unreported(total_input: int | None, cached: int, output: int | None) -> tuple[str, ...]:
    """The totals that a server left out. A total of 0 counts as reported (pitfall 388); cached tokens count as
    input."""
    if total_input is not None and output is not None:
        return ()
    left_out = ((INPUT, total_input is None and not cached), (OUTPUT, output is None))
    return tuple([name for name, is_left_out in left_out if is_left_out])


def updated_counts(earlier: JsonObject, later: JsonObject) -> JsonObject:
    """Merge repeated counts. The later one wins, except null and zero against a known count."""
    return {key: value for key, value in later.items() if value is not None and not (value == 0 and earlier.get(key))}


def spelled(usage: JsonObject) -> JsonObject:
    """Counts with numbers in place of numeric text. Without such text, the same object."""
    others: JsonObject = {}
    for key, value in usage.items():
        if type(value) is int or value is None:
            continue
        number = spelled_member(value)
        if number is not value:
            others[key] = number
    return {**usage, **others} if others else usage


def spelled_member(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return spelled(value)
    return count_of(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def inclusive(
    total_input: int, read: int | None, written: int | None, ledger: Ledger, *, apart: bool, priced: bool
) -> tuple[int, int | None]:
    """All input tokens, cached ones included, and those written to a cache (U2, U10). `apart`: a total shows that
    cached tokens are counted separately. `priced`: OpenRouter counted."""
    if read and read == written and read <= total_input and (priced or read + written > total_input):
        # OpenRouter reports cached tokens of Gemini models under both names, which is undocumented.
        ledger.approximated(Feature.USAGE, ("usage", "cache_write"), "the same tokens as those read; counted once")
        return total_input, 0
    cached = (read or 0) + (written or 0)
    if cached > total_input or (apart and cached >= _BLOCK):
        ledger.approximated(Feature.USAGE, ("usage", "input"), "cached tokens were not in the total and are added")
        return total_input + cached, written
    return total_input, written


# Caches hold blocks of many tokens, so a total that differs by a few proves nothing about them.
_BLOCK = 16
# Members that identify counts of OpenRouter (https://openrouter.ai/docs/use-cases/usage-accounting).
PRICED = frozenset({"cost", "cost_details", "is_byok"})
