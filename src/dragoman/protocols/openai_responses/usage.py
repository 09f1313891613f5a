"""Token counts of Responses: totals are inclusive, as in the model (§18)."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.model.response import Usage
from dragoman.protocols.openai_responses.shapes import NAME
from dragoman.rules.counts import PRICED, count_of, inclusive, spelled, unreported
from dragoman.rules.response_metadata import label
from dragoman.wire.fields import Fields

# Besides the searches, images are counted as well, even if there are none.
NO_IMAGES: JsonObject = {
    "input_tokens": 0,
    "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
    "output_tokens": 0,
    "total_tokens": 0,
}


def decode_usage(response: JsonObject, ledger: Ledger, *, native: bool) -> Usage | None:
    """Token counts. Totals are inclusive already, except on servers that count cached input separately (U2)."""
    outer = Fields(response)
    reported = outer.optional_object("usage")
    if reported is None:
        return None
    usage = Fields(spelled(reported), (outer.path, "usage"))
    inputs = usage.optional_fields("input_tokens_details") or Fields({})
    outputs = usage.optional_fields("output_tokens_details") or Fields({})
    everything, output = usage.optional_integer("input_tokens"), usage.optional_integer("output_tokens")
    read, written = inputs.optional_integer("cached_tokens"), inputs.optional_integer("cache_write_tokens")
    counts = Usage(
        input=everything or 0,
        output=output or 0,
        cache_read=read,
        cache_write=written,
        thinking=outputs.optional_integer("reasoning_tokens"),
        web_searches=_searches(response.get("tool_usage")),
        service_tier=label(outer, "service_tier", ledger),
        unreported=unreported(everything, (read or 0) + (written or 0), output),
    )
    beyond = _beyond(usage, inputs, outputs, counts)
    if not native:
        cached = (counts.cache_read or 0) + (counts.cache_write or 0)
        total = count_of(usage.value.get("total_tokens"))
        apart = total is not None and 0 < total - counts.input - counts.output == cached
        everything, once = inclusive(
            counts.input,
            counts.cache_read,
            counts.cache_write,
            ledger,
            apart=apart,
            priced=not PRICED.isdisjoint(usage.value),
        )
        if everything != counts.input or once != counts.cache_write:
            counts = replace(counts, input=everything, cache_write=once)
    return replace(counts, extras=Extras(origin=NAME, fields=beyond)) if beyond else counts


def _beyond(usage: Fields, inputs: Fields, outputs: Fields, counts: Usage) -> JsonObject:
    """Members beyond the model: lifetimes of cached tokens, a total that is no sum."""
    if usage.value.get("total_tokens") == counts.input + counts.output:
        usage.skip("total_tokens")
    rest = usage.rest(NAME)
    beyond: JsonObject = dict(rest.fields) if rest is not None else {}
    for key, details in (("input_tokens_details", inputs), ("output_tokens_details", outputs)):
        others = details.rest(NAME)
        if others is not None:
            beyond[key] = others.fields
    return beyond


def encode_native_usage(usage: Usage) -> JsonObject:
    extras: JsonObject = dict(usage.extras.fields) if usage.extras is not None else {}
    inputs = _details(extras, "input_tokens_details")
    outputs = _details(extras, "output_tokens_details")
    for details, key, count in (
        (inputs, "cached_tokens", usage.cache_read),
        (inputs, "cache_write_tokens", usage.cache_write),
        (outputs, "reasoning_tokens", usage.thinking),
    ):
        if count is not None:
            details[key] = count
    body: JsonObject = {"input_tokens": usage.input}
    if inputs:
        body["input_tokens_details"] = inputs
    body["output_tokens"] = usage.output
    if outputs:
        body["output_tokens_details"] = outputs
    return {**body, "total_tokens": usage.input + usage.output, **extras}


def _details(extras: JsonObject, key: str) -> JsonObject:
    beyond = extras.pop(key, None)
    return dict(beyond) if isinstance(beyond, dict) else {}


def _searches(usage: JsonValue) -> int | None:
    match usage:
        case {"web_search": {"num_requests": int(count)}}:
            return count
    return None


def encode_usage(usage: Usage | None) -> JsonObject:
    """Token counts with every member present (§18)."""
    counts = usage or Usage()
    return {
        "input_tokens": counts.input,
        "input_tokens_details": {
            "cached_tokens": counts.cache_read or 0,
            "cache_write_tokens": counts.cache_write or 0,
        },
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": counts.thinking or 0},
        "total_tokens": counts.input + counts.output,
    }


_DETAILS = ("prompt_tokens_details", "completion_tokens_details")
_COUNTED = ("cached_tokens", "cache_write_tokens", "cache_creation_tokens", "reasoning_tokens")


def has_other_counts(extras: Extras) -> bool:
    """Whether a Chat server counted kinds of tokens that this protocol lacks (U9)."""
    for key in _DETAILS:
        details = extras.fields.get(key)
        if isinstance(details, dict) and any(
            _counts_something(count) for name, count in details.items() if name not in _COUNTED
        ):
            return True
    return False


def without_searches(usage: JsonValue, *, native: bool) -> JsonObject:
    """Counts of tools other than web searches; for other protocols only if not zero."""
    if not isinstance(usage, dict):
        return {}
    remaining: JsonObject = {key: value for key, value in usage.items() if key != "web_search"}
    searches = usage.get("web_search")
    if isinstance(searches, dict) and len(searches) > 1:
        remaining["web_search"] = searches
    return remaining if native else {key: value for key, value in remaining.items() if _counts_something(value)}


def with_searches(usage: JsonValue, searches: int) -> JsonObject:
    """The inverse of `without_searches`."""
    return {"web_search": {"num_requests": searches}, **(usage if isinstance(usage, dict) else {})}


def _counts_something(value: JsonValue) -> bool:
    """Whether any number in a count of tokens is not zero."""
    if isinstance(value, dict):
        return any(_counts_something(member) for member in value.values())
    return bool(value)


def usage_of(response: JsonObject) -> Usage | None:
    """The token counts of a full response, without decoding the rest; None if they are unreadable."""
    try:
        return decode_usage(response, Ledger(), native=False)
    except WireError:
        return None
