"""Token classes: splits a usage into disjoint classes, so that each token is billed once. It also reads members outside
the model: cache lifetimes, speed, region, and runs of tools during the response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.response import Usage

STANDARD = ""
# Names of the standard tier, with synonyms of other vendors.
_STANDARD_TIERS = frozenset({"", "auto", "default", "standard", "standard_only", "on_demand"})
_STANDARD_REPORTED = _STANDARD_TIERS | {None}
_SAME = {"fast": "priority"}
# Providers that report a wrong tier, so that the requested one counts: Codex's backend reports `default` for
# `priority`.
BILLED_BY_REQUESTED_TIER = frozenset({"codex"})
_ANYWHERE = frozenset({"", "global", "not_available"})
# Maximum characters of providers' names, and maximum number of cache lifetimes.
_MAX_WORD_LENGTH = 64
_MAX_LIFETIMES = 16
_MAX_RUNS = 1000
_KINDS = {"audio_tokens": "audio", "image_tokens": "image", "video_tokens": "video"}


class TokenClasses(Struct, frozen=True):
    """Disjoint counts, except `thinking`: it is part of the output, because most vendors have no price for it."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 0
    thinking: int = 0
    searches: int = 0
    requests: int = 1
    # Counts of other classes, by name (`input_audio`, `cache_write_12h`).
    others: Mapping[str, int] = {}

    @property
    def total_input(self) -> int:
        """All input, cached or not. Thresholds of tiers are compared with it."""
        counted = self.input + self.cache_read + self.cache_write + self.cache_write_1h
        if not self.others:
            return counted
        return counted + sum(count for name, count in self.others.items() if name.startswith(_WRITTEN))


_WRITTEN = "cache_write"


class BilledRun(Struct, frozen=True, kw_only=True):
    """A billed run during a response, outside its totals. `model` is "" for the model of the response."""

    model: str
    tokens: TokenClasses


def tokens_of(usage: Usage) -> TokenClasses:
    read, written, output = usage.cache_read or 0, usage.cache_write or 0, usage.output
    plain = usage.input - read - written
    if plain < 0:
        # Servers whose total excludes cached input.
        plain = usage.input
    thinking, searches, extras = usage.thinking or 0, usage.web_searches or 0, usage.extras
    if thinking > output:
        thinking = output
    if extras is None or not has_details(extras.fields):
        # The fast path for nearly all usages, because counting runs on the event loop.
        return TokenClasses(plain, read, written, 0, output, thinking, searches)
    fields = extras.fields
    hour, written, others = _lifetimes(fields, written)
    if not _DETAILS.isdisjoint(fields):
        others |= {f"input_{kind}": count for kind, count in _counts(fields, _INPUT_DETAILS)}
        others |= {f"output_{kind}": count for kind, count in _counts(fields, _OUTPUT_DETAILS)}
    return TokenClasses(plain, read, written, hour, output, thinking, searches, others=others)


# If half an hour is the default lifetime, the price of cache writes is that of this lifetime:
# https://developers.openai.com/api/docs/guides/prompt-caching
_USUAL_LIFETIME = "ttl_30m_tokens"
_INPUT_DETAILS = ("input_tokens_details", "prompt_tokens_details")
_OUTPUT_DETAILS = ("output_tokens_details", "completion_tokens_details")
_DETAILS = frozenset({*_INPUT_DETAILS, *_OUTPUT_DETAILS})
# Members with more details of token classes than the totals.
_DETAIL_MEMBERS = _DETAILS | {"cache_creation"}


def has_details(fields: JsonObject) -> bool:
    if _DETAIL_MEMBERS.isdisjoint(fields):
        return False
    for place in _DETAIL_MEMBERS:
        details = fields.get(place)
        if isinstance(details, dict) and any(details.values()):
            return True
    return False


def _lifetimes(fields: JsonObject, written: int) -> tuple[int, int, dict[str, int]]:
    """Split cache writes: those for an hour, for the default lifetime, and for others. Without a total, their sum is
    the total."""
    split = fields.get("cache_creation")
    if isinstance(split, dict):
        hour = _count(split, "ephemeral_1h_input_tokens")
        return hour, max(written - hour, _count(split, "ephemeral_5m_input_tokens")), {}
    others: dict[str, int] = {}
    for key in _INPUT_DETAILS:
        match fields.get(key):
            case {"cache_write_tokens_details": dict(split)}:
                for name in split:
                    count = _count(split, name)
                    if count and name.startswith("ttl_") and name != _USUAL_LIFETIME:
                        lifetime = name.removeprefix("ttl_").removesuffix("_tokens")[:_MAX_WORD_LENGTH]
                        if len(others) >= _MAX_LIFETIMES:
                            lifetime = "others"
                        kind = f"cache_write_{lifetime}"
                        others[kind] = others.get(kind, 0) + count
    return 0, max(written - sum(others.values()), 0), others


def _counts(fields: JsonObject, places: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for place in places:
        details = fields.get(place)
        if isinstance(details, dict):
            for name, kind in _KINDS.items():
                count = _count(details, name)
                if count:
                    yield kind, count


def _count(fields: JsonObject, name: str) -> int:
    value = fields.get(name)
    # `bool` is not counted as a number.
    return value if type(value) is int and value > 0 else 0


def tier_of(usage: Usage, requested_tier: str = "", label: str = "") -> str:
    """The tier that served a response, in the price book's spelling; "" is standard. The reported tier counts, not the
    requested one, except for providers that report it wrongly."""
    if usage.extras is None and not requested_tier and usage.service_tier in _STANDARD_REPORTED:
        # The fast path for nearly all usages, because pricing runs on the event loop.
        return STANDARD
    tier = (usage.service_tier or "")[:_MAX_WORD_LENGTH]
    if requested_tier and label in BILLED_BY_REQUESTED_TIER:
        tier = requested_tier
    fields = usage.extras.fields if usage.extras is not None else {}
    if tier in _STANDARD_TIERS and "speed" not in fields and "inference_geo" not in fields:
        return STANDARD
    parts = [_SAME.get(tier, tier)] if tier not in _STANDARD_TIERS else []
    # Speed and region have prices of their own.
    speed, place = fields.get("speed"), fields.get("inference_geo")
    if isinstance(speed, str) and speed not in _STANDARD_TIERS:
        parts.append(f"speed-{speed[:_MAX_WORD_LENGTH]}")
    if isinstance(place, str) and place not in _ANYWHERE:
        parts.append(f"geo-{place[:_MAX_WORD_LENGTH]}")
    return "+".join(parts)


def _strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value


def has_runs(usage: Usage) -> bool:
    return usage.extras is not None and "iterations" in usage.extras.fields


def has_too_many_runs(usage: Usage) -> bool:
    """Whether it reports more runs than a real response has. Each takes time to price."""
    steps = usage.extras.fields.get("iterations") if usage.extras is not None else None
    return isinstance(steps, list) and len(steps) > _MAX_RUNS


def runs_of(usage: Usage) -> Iterator[BilledRun]:
    """Runs during the response: compactions and advisers. Turns of the response itself are in its totals."""
    for step in _iterations(usage):
        if step.get("type") in ("compaction", "advisor_message"):
            yield BilledRun(model=next(_strings(step.get("model")), ""), tokens=_step(step))


def server_of(usage: Usage) -> str:
    """The model that responded instead of the requested one, if the provider fell back; otherwise ""."""
    for step in _iterations(usage):
        if step.get("type") == "fallback_message":
            return next(_strings(step.get("model")), "")
    return ""


def _iterations(usage: Usage) -> Iterator[JsonObject]:
    steps = usage.extras.fields.get("iterations") if usage.extras is not None else None
    if isinstance(steps, list):
        for step in steps:
            if isinstance(step, dict):
                yield step


def _step(step: JsonObject) -> TokenClasses:
    hour, written, _ = _lifetimes(step, _count(step, "cache_creation_input_tokens"))
    return TokenClasses(
        input=_count(step, "input_tokens"),
        cache_read=_count(step, "cache_read_input_tokens"),
        cache_write=written,
        cache_write_1h=hour,
        output=_count(step, "output_tokens"),
        requests=0,
    )
