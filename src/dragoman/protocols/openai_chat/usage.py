"""Token counts, both ways (mapping.md §18)."""

from __future__ import annotations

import math

from dragoman.errors import WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.model.response import Usage
from dragoman.protocols.openai_chat.parts import merge_extras, unmodelled
from dragoman.protocols.openai_chat.shapes import NAME
from dragoman.rules.extras import drop_extras
from dragoman.wire.fields import Fields


def decode_usage(usage: JsonObject, tier: str | None, ledger: Ledger) -> Usage:
    """Token counts, made inclusive where a server counts otherwise (U2-U4)."""
    fields = Fields(usage, (None, "usage"))
    prompt, completion = (
        fields.optional_integer("prompt_tokens") or 0,
        fields.optional_integer("completion_tokens") or 0,
    )
    total = fields.optional_integer("total_tokens")
    details, output = (
        fields.optional_fields("prompt_tokens_details"),
        fields.optional_fields("completion_tokens_details"),
    )
    read = details.optional_integer("cached_tokens") if details is not None else None
    written = details.optional_integer("cache_write_tokens") if details is not None else None
    thinking = output.optional_integer("reasoning_tokens") if output is not None else None
    hits = usage.get("prompt_cache_hit_tokens")
    if read is None and isinstance(hits, int):
        read = hits
    extras = _usage_rest(fields, details, output)
    cached = (read or 0) + (written or 0)
    counted_apart = bool(thinking) and total == prompt + completion + (thinking or 0) and total != prompt + completion
    if cached > prompt or counted_apart:
        extras = Extras(origin=NAME, fields=dict(usage))
    if cached > prompt:
        prompt += cached
        ledger.approximated(Feature.USAGE, ("usage", "input"), "cached tokens were not in the total and are added")
    if counted_apart:
        completion += thinking or 0
    return Usage(
        input=prompt,
        output=completion,
        cache_read=read,
        cache_write=written,
        thinking=thinking,
        service_tier=tier,
        extras=extras,
    )


def _usage_rest(fields: Fields, details: Fields | None, output: Fields | None) -> Extras | None:
    rest = unmodelled(fields)
    known: JsonObject = dict(rest.fields) if rest is not None else {}
    for key, inner in (("prompt_tokens_details", details), ("completion_tokens_details", output)):
        more = unmodelled(inner) if inner is not None else None
        if more is not None:
            known[key] = more.fields
    return Extras(origin=NAME, fields=known) if known else None


def encode_usage(usage: Usage | None, ledger: Ledger) -> JsonObject:
    """Token counts; details that nobody reported are left out."""
    if usage is None:
        ledger.invented(Feature.USAGE, ("usage",), "the provider reported no usage; zeros are told")
        usage = Usage()
    written: JsonObject = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
    }
    details: JsonObject = {}
    if usage.cache_read is not None:
        details["cached_tokens"] = usage.cache_read
    if usage.cache_write is not None:
        details["cache_write_tokens"] = usage.cache_write
    if details:
        written["prompt_tokens_details"] = details
    if usage.thinking is not None:
        written["completion_tokens_details"] = {"reasoning_tokens": usage.thinking}
    if usage.web_searches:
        ledger.dropped(Feature.USAGE, ("usage", "web_searches"), "searches are not counted here")
    if usage.extras is not None and usage.extras.origin != NAME:
        _report_rest(usage.extras, ledger)
    return merge_extras(written, usage.extras)


# Lifetimes of what was written to a cache differ between providers and are not told (U5).
_UNTOLD = frozenset({"cache_creation", "cache_write_tokens_details"})
# Where the count of searches stands in its own protocol; it has a loss of its own (U6).
_SEARCHES = {"server_tool_use": "web_search_requests"}


def _report_rest(extras: Extras, ledger: Ledger) -> None:
    rest: JsonObject = {}
    for key, value in extras.fields.items():
        if isinstance(value, dict):
            told = (*_UNTOLD, _SEARCHES.get(key))
            value = {name: count for name, count in value.items() if name not in told and count}
        if key not in _UNTOLD and value not in (None, 0, {}):
            rest[key] = value
    drop_extras(Extras(origin=extras.origin, fields=rest), ("usage",), ledger)


def whole_number(value: JsonValue) -> int | None:
    """A count of seconds as servers spell it, whole or not."""
    if isinstance(value, float | Number):
        number = float(value)
        return int(number) if math.isfinite(number) else None
    return value if type(value) is int else None


def usage_of(usage: JsonObject) -> Usage | None:
    """The token counts of a whole answer that is otherwise not read; None if they cannot be."""
    try:
        return decode_usage(usage, None, Ledger())
    except WireError:
        return None
