"""Token counts: Messages separates uncached, cached and newly cached input; the canonical model adds them up (§18)."""

from __future__ import annotations

from dragoman.errors import WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, present
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.model.response import Usage
from dragoman.protocols.anthropic_messages.shapes import NAME
from dragoman.rules import counts
from dragoman.rules.response_metadata import EnumValues
from dragoman.wire.fields import Fields

_STANDARD = "standard"
_TIERS = EnumValues(
    feature=Feature.SERVICE_TIER,
    legal=frozenset({"standard", "priority", "batch"}),
    others={
        "auto": _STANDARD,
        "default": _STANDARD,
        "flex": _STANDARD,
        "scale": _STANDARD,
        "on_demand": _STANDARD,
        "standard_only": _STANDARD,
        "performance": "priority",
        "fast": "priority",
        "ultrafast": "priority",
    },
    unknown=_STANDARD,
)


def decode_usage(usage: Fields) -> Usage:
    """Decode token counts. Members that only this protocol has are stored for the way back."""
    rest = {**usage.value}
    take = rest.pop
    uncached, output = take("input_tokens", None), take("output_tokens", None)
    written, read = take("cache_creation_input_tokens", None), take("cache_read_input_tokens", None)
    if not (type(uncached) is type(output) is type(written) is type(read) is int):
        uncached, output, written, read = _totals(usage, rest)
    thinking = searches = tier = None
    if len(rest) == 1 and type(details := rest.get("output_tokens_details")) is dict and len(details) == 1:
        # The usual rest needs no reader.
        count = details.get("thinking_tokens")
        if type(count) is int:
            thinking, rest = count, {}
    if rest:
        rest = counts.spelled(rest)
        if "output_tokens_details" in rest:
            thinking = _detail(usage, rest, "output_tokens_details", "thinking_tokens")
        if "server_tool_use" in rest:
            searches = _detail(usage, rest, "server_tool_use", "web_search_requests")
        if rest.get("service_tier") is not None:
            tier = Fields(rest, usage.path).text("service_tier")
            del rest["service_tier"]
    cached = (written or 0) + (read or 0)
    return Usage(
        (uncached or 0) + cached,
        output or 0,
        read,
        written,
        thinking,
        searches,
        tier,
        Extras(origin=NAME, fields=rest) if rest else None,
        () if uncached is not None and output is not None else counts.unreported(uncached, cached, output),
    )


def _totals(usage: Fields, rest: JsonObject) -> tuple[int | None, int | None, int | None, int | None]:
    """The totals if one is missing or in an unusual form. Null stays in the rest."""
    members = usage.value
    totals = Fields({name: counts.spelled_member(members[name]) for name in members if name not in rest}, usage.path)
    if None in totals.value.values():
        others = {name: value for name, value in members.items() if value is None or name in rest}
        rest.clear()
        rest |= others
    uncached = totals.optional_integer("input_tokens")
    written = totals.optional_integer("cache_creation_input_tokens")
    read = totals.optional_integer("cache_read_input_tokens")
    return uncached, totals.optional_integer("output_tokens"), written, read


def _detail(usage: Fields, rest: JsonObject, key: str, name: str) -> int | None:
    """A count among details. Other members of the details stay in the rest."""
    if rest[key] is None:
        return None
    details = Fields(rest, usage.path).object(key)
    del rest[key]
    count = details.get(name)
    if type(count) is int and len(details) == 1:
        return count
    fields = Fields(details, (usage.path, key))
    count = fields.optional_integer(name)
    others = fields.rest(NAME)
    if others is not None:
        rest[key] = others.fields
    return count


def encode_native_usage(usage: Usage) -> JsonObject:
    encoded: JsonObject = {"input_tokens": usage.input - (usage.cache_read or 0) - (usage.cache_write or 0)}
    encoded |= present({"cache_creation_input_tokens": usage.cache_write, "cache_read_input_tokens": usage.cache_read})
    encoded["output_tokens"] = usage.output
    if usage.thinking is not None:
        encoded["output_tokens_details"] = {"thinking_tokens": usage.thinking}
    if usage.web_searches is not None:
        encoded["server_tool_use"] = {"web_search_requests": usage.web_searches}
    encoded |= present({"service_tier": usage.service_tier})
    for key, value in (usage.extras.fields if usage.extras is not None else {}).items():
        existing = encoded.get(key)
        encoded[key] = {**existing, **value} if isinstance(existing, dict) and isinstance(value, dict) else value
    return encoded


def encode_usage(usage: Usage | None, ledger: Ledger) -> JsonObject:
    encoded = encode_counts(usage, ledger)
    if usage is not None and usage.service_tier is not None:
        encoded["service_tier"] = _TIERS.map_value(usage.service_tier, ("usage", "service_tier"), ledger)
    return encoded


def encode_streamed_usage(usage: Usage | None, ledger: Ledger) -> JsonObject:
    """Token counts at the end of a stream, where this protocol has no tier. The standard tier needs no report."""
    at = ("usage", "service_tier")
    if usage is not None and (_TIERS.map_value(usage.service_tier, at, ledger) or _STANDARD) != _STANDARD:
        ledger.dropped(Feature.SERVICE_TIER, at, "the end of a stream cannot tell the tier")
    return encode_counts(usage, ledger)


def encode_counts(usage: Usage | None, ledger: Ledger) -> JsonObject:
    """The counts alone. All members are present, so that a client may overwrite earlier ones (S5)."""
    if usage is None:
        ledger.invented(Feature.USAGE, ("usage",), "the provider reported no usage; all counts are 0")
        usage = Usage()
    read, written = usage.cache_read or 0, usage.cache_write or 0
    uncached = usage.input - read - written
    if uncached < 0:
        uncached = usage.input
        ledger.approximated(Feature.USAGE, ("usage",), "the provider counts cached input apart from its total")
    encoded: JsonObject = {
        "input_tokens": uncached,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.thinking or 0},
    }
    if usage.web_searches is not None:
        encoded["server_tool_use"] = {"web_search_requests": usage.web_searches, "web_fetch_requests": 0}
    if usage.extras is not None and _counts_more(usage.extras):
        note = "tokens of sound, pictures and predictions are not counted here"
        ledger.dropped(Feature.USAGE, ("usage", "extras"), note)
    return encoded


_MAPPED_MEMBERS = frozenset(
    {"cached_tokens", "cache_write_tokens", "cache_creation_tokens", "reasoning_tokens", "cache_write_tokens_details"}
)
_DETAILS = ("prompt_tokens_details", "completion_tokens_details", "input_tokens_details", "output_tokens_details")


def _counts_more(extras: Extras) -> bool:
    """Whether kinds of tokens were counted that this protocol lacks (U9)."""
    for key in _DETAILS:
        details = extras.fields.get(key)
        if isinstance(details, dict) and any(map(details.get, details.keys() - _MAPPED_MEMBERS)):
            return True
    return False


def merged_usage(earlier: JsonObject, later: JsonObject) -> JsonObject:
    """Merge token counts of a stream: the later value of each member wins, nothing is added up (U8). Zeros do not
    replace known values, unless the input is counted anew: after a compaction the prompt no longer has the cached
    history."""
    anew = counts.count_of(later.get("input_tokens"))
    if not earlier or (anew and anew != counts.count_of(earlier.get("input_tokens"))):
        update: JsonObject = {key: value for key, value in later.items() if value is not None}
    else:
        update = counts.updated_counts(earlier, later)
    merged = {**earlier, **update}
    # All members are read again with each such event, so their number is limited.
    if len(merged) > _MAX_MEMBERS:
        raise _too_many_members()
    for value in update.values():
        if type(value) is dict and len(value) > _MAX_MEMBERS:
            raise _too_many_members()
    return merged


def _too_many_members() -> WireError:
    return WireError("/usage", f"at most {_MAX_MEMBERS} members", "more")


_MAX_MEMBERS = 64


def usage_of(response: JsonObject) -> Usage | None:
    """The token counts of a full response, without decoding the rest; None if they are unreadable."""
    usage = response.get("usage")
    try:
        return decode_usage(Fields(usage)) if isinstance(usage, dict) else None
    except WireError:
        return None
