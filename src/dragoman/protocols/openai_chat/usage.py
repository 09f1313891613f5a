"""Token counts of Chat, decoded and encoded (mapping.md §18)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.json import Decoder

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.model.response import Usage
from dragoman.protocols.openai_chat.parts import merge_extras
from dragoman.protocols.openai_chat.shapes import NAME
from dragoman.rules.counts import MAX_COUNT, PRICED, UsageMembers, count_of, inclusive, unreported
from dragoman.rules.extras import drop_extras
from dragoman.wire.peek import NULL, UNREADABLE, peeked

# Members in which servers report a count, in order of precedence: in the details, then beside the totals.
#   input_tokens, output_tokens          proxies of Responses and Messages servers
#   cached_tokens                        https://platform.kimi.ai/docs/api/chat
#   prompt_cache_hit_tokens              https://api-docs.deepseek.com/api/create-chat-completion
#   cache_read_input_tokens, cache_creation_input_tokens, cache_creation_tokens
#                                        https://docs.litellm.ai/docs/completion/prompt_caching
#   num_cached_tokens    https://github.com/mistralai/client-python/blob/main/docs/models/usageinfodollardefs.md
#   reasoning_tokens beside the totals   SGLang; Perplexity's Sonar:
#                        https://github.com/vercel/ai/blob/main/packages/perplexity/src/convert-perplexity-usage.ts
_INPUT_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details")
_NATIVE_MEMBERS = ("", _INPUT_DETAILS[0], _OUTPUT_DETAILS[0])


TokenCount: TypeAlias = Annotated[int, Meta(ge=0, lt=MAX_COUNT)]


class _Count(Struct, frozen=True):
    """One count: its names, and the detail members that are read before the totals."""

    names: tuple[str, ...]
    details: tuple[str, ...] = ()
    # The usual name and location; "" is next to the totals.
    name: str = ""
    place: str = ""


def _count(*names: str, details: tuple[str, ...] = ()) -> _Count:
    return _Count(names, details, names[0], details[0] if details else "")


_PROMPT, _COMPLETION = _count("prompt_tokens", "input_tokens"), _count("completion_tokens", "output_tokens")
_TOTAL = _count("total_tokens")
_PROMPT_AND_COMPLETION = (*_PROMPT.names, *_COMPLETION.names)
_TOTALS = frozenset({*_PROMPT_AND_COMPLETION, *_TOTAL.names})
_USUAL = (_PROMPT.name, _COMPLETION.name, _TOTAL.name)
_READ = _count(
    "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens", "num_cached_tokens", details=_INPUT_DETAILS
)
_WRITTEN = _count("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens", details=_INPUT_DETAILS)
_THINKING = _count("reasoning_tokens", details=_OUTPUT_DETAILS)


def decode_usage(usage: JsonObject, tier: str | None, ledger: Ledger) -> Usage:
    """Token counts, made inclusive if a server counts cached input separately (U2-U4, U10)."""
    usual = decode_usual(usage, tier)
    return _decode_any(usage, tier, ledger) if usual is None else usual


# Details of the usual form, each with the count that is read.
_USUAL_MEMBERS = frozenset({*_USUAL, _INPUT_DETAILS[0], _OUTPUT_DETAILS[0]})
_USUAL_INPUT = frozenset({_READ.name, "audio_tokens"})
_USUAL_OUTPUT = frozenset({_THINKING.name, "audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens"})


def decode_usual(usage: JsonObject, tier: str | None) -> Usage | None:
    """Counts of the usual form, decoded like in `_decode_any`; None for any other form."""
    if not _USUAL_MEMBERS.issuperset(usage):
        return None
    prompt, completion, total = map(usage.get, _USUAL)
    if not (
        type(prompt) is type(completion) is type(total) is int
        and prompt >= 0 <= completion
        and prompt + completion == total < MAX_COUNT
    ):
        return None
    rest: JsonObject = {}
    read = _usual_detail(usage, _READ, _USUAL_INPUT, prompt, rest)
    thinking = _usual_detail(usage, _THINKING, _USUAL_OUTPUT, completion, rest)
    if read == _NOT_USUAL or thinking == _NOT_USUAL:
        return None
    if len(rest) > 1:
        rest = {name: rest[name] for name in usage if name in rest}
    return Usage(
        prompt, completion, read, None, thinking, None, tier, Extras(origin=NAME, fields=rest) if rest else None
    )


_NOT_USUAL = -1


def _usual_detail(usage: JsonObject, wanted: _Count, names: frozenset[str], most: int, rest: JsonObject) -> int | None:
    """A count among its usual details. The others are added to `rest`. `_NOT_USUAL` if they have another form."""
    details = usage.get(wanted.place)
    if details is None:
        return None
    if type(details) is not dict or not names.issuperset(details):
        return _NOT_USUAL
    count = details.get(wanted.name)
    if count is None and wanted.name not in details:
        if details:
            rest[wanted.place] = details
        return None
    if type(count) is not int or not 0 <= count <= most:
        return _NOT_USUAL
    if len(details) > 1:
        rest[wanted.place] = {name: value for name, value in details.items() if name != wanted.name}
    return count


def _decode_any(usage: JsonObject, tier: str | None, ledger: Ledger) -> Usage:
    reading = _Reading(usage)
    reported_prompt, reported_completion, total = reading.totals()
    prompt, completion = reported_prompt or 0, reported_completion or 0
    read = written = thinking = None
    if not _TOTALS.issuperset(usage):
        read, written, thinking = reading.count(_READ), reading.count(_WRITTEN), reading.count(_THINKING)
    if reading.unread:
        note = f"counts that cannot be read: {', '.join(reading.unread)}"
        ledger.dropped(Feature.USAGE, ("usage",), note)
    cached = (read or 0) + (written or 0)
    beyond = total - prompt - completion if total is not None else 0
    # Some totals omit reasoning, but reasoning never exceeds the real total.
    counted_apart = bool(thinking) and (beyond == thinking or (thinking or 0) > completion)
    everything, once = inclusive(
        prompt,
        read,
        written,
        ledger,
        apart=0 < beyond == cached and not counted_apart,
        priced=not PRICED.isdisjoint(usage),
    )
    as_reported = everything == prompt and once == written and not counted_apart and not reading.unread
    extras = reading.rest() if as_reported else Extras(origin=NAME, fields=dict(usage))
    output = completion + (thinking or 0) if counted_apart else completion
    left_out = unreported(reported_prompt, everything, reported_completion)
    return Usage(everything, output, read, once, thinking, None, tier, extras, left_out)


class _Reading:
    __slots__ = ("_read", "_usage", "unread")

    def __init__(self, usage: JsonObject) -> None:
        self._usage = usage
        self._read: dict[str, list[str]] = {"": [], _INPUT_DETAILS[0]: [], _OUTPUT_DETAILS[0]: []}
        self.unread: list[str] = []

    def totals(self) -> tuple[int | None, int | None, int | None]:
        """All input, all output and their sum, which nearly every server reports in one place."""
        prompt, completion, total = map(self._usage.get, _USUAL)
        if (
            type(prompt) is type(completion) is type(total) is int
            and 0 <= prompt < MAX_COUNT > completion >= 0 <= total < MAX_COUNT
        ):
            self._read[""] += _USUAL
            return prompt, completion, total
        return self.count(_PROMPT), self.count(_COMPLETION), self.count(_TOTAL)

    def count(self, wanted: _Count) -> int | None:
        """The first member that holds a count."""
        name, place = wanted.name, wanted.place
        owner = self._usage.get(place) if place else self._usage
        if type(owner) is dict and type(usual := owner.get(name)) is int and 0 <= usual < MAX_COUNT:
            # The usual location of nearly every server.
            self._read[place].append(name)
            return usual
        return self._search(wanted)

    def _search(self, wanted: _Count) -> int | None:
        for key in (*wanted.details, ""):
            owner = self._usage.get(key) if key else self._usage
            if owner is None:
                continue
            if not isinstance(owner, dict):
                if key not in self.unread:
                    self.unread.append(key)
                continue
            if owner.keys().isdisjoint(wanted.names):
                continue
            for name in wanted.names:
                value = owner.get(name)
                if value is None:
                    continue
                count = count_of(value)
                if count is None:
                    self.unread.append(f"{key}.{name}" if key else name)
                    continue
                if name == wanted.name and key == wanted.place:
                    # Under any other name it stays in the extras, for the way back.
                    self._read[key].append(name)
                return count
        return None

    def rest(self) -> Extras | None:
        read = self._read[""]
        if len(read) == len(self._usage):
            return None
        rest: JsonObject = {key: value for key, value in self._usage.items() if value is not None and key not in read}
        for key in _NATIVE_MEMBERS:
            value = rest.get(key)
            if isinstance(value, dict):
                read = self._read[key]
                left: JsonObject = {name: count for name, count in value.items() if name not in read}
                if left:
                    rest[key] = left
                else:
                    del rest[key]
        return Extras(origin=NAME, fields=rest) if rest else None


def usage_in(response: JsonObject, choice: JsonObject | None) -> JsonValue:
    """The usage of a response or chunk: next to the choices, in the first of them, or in Groq's member."""
    usage = response.get("usage")
    if usage is None and choice is not None:
        # https://platform.kimi.ai/docs/api/chat: the last chunk of a stream.
        usage = choice.get("usage")
    if usage is None:
        # https://console.groq.com/docs/api-reference#chat-create: the last chunk of a stream.
        groq = response.get(GROQ)
        usage = groq.get("usage") if isinstance(groq, dict) else None
    return usage


GROQ = "x_groq"


def encode_usage(usage: Usage | None, ledger: Ledger) -> JsonObject:
    """Token counts without details that were not reported."""
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


# Lifetimes of cache writes differ between providers and are not reported (U5).
_UNREPORTED = frozenset({"cache_creation", "cache_write_tokens_details"})
# The native location of the number of searches, whose loss has a feature of its own (U6).
_SEARCHES = {"server_tool_use": "web_search_requests"}


def _report_rest(extras: Extras, ledger: Ledger) -> None:
    rest: JsonObject = {}
    for key, value in extras.fields.items():
        if isinstance(value, dict):
            excluded = (*_UNREPORTED, _SEARCHES.get(key))
            value = {name: count for name, count in value.items() if name not in excluded and count}
        if key not in _UNREPORTED and value not in (None, 0, {}):
            rest[key] = value
    drop_extras(Extras(origin=extras.origin, fields=rest), ("usage",), ledger)


class _InputDetails(Struct, forbid_unknown_fields=True, gc=False):
    cached_tokens: TokenCount | None = None
    audio_tokens: Literal[0] | None = None


class _OutputDetails(Struct, forbid_unknown_fields=True, gc=False):
    reasoning_tokens: TokenCount | None = None
    audio_tokens: Literal[0] | None = None
    accepted_prediction_tokens: TokenCount | None = None
    rejected_prediction_tokens: TokenCount | None = None


class _Usual(Struct, forbid_unknown_fields=True, gc=False):
    prompt_tokens: TokenCount
    completion_tokens: TokenCount
    total_tokens: TokenCount
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


_USUAL_COUNTS = Decoder(_Usual)
_TIER = Decoder(str)


def usual_usage(members: UsageMembers) -> Usage | None:
    """The token counts of a full response in the usual form, without extras; None for any other."""
    try:
        counts = _USUAL_COUNTS.decode(members.usage)
    except UNREADABLE:
        return None
    prompt, completion = counts.prompt_tokens, counts.completion_tokens
    prompted, completed = counts.prompt_tokens_details, counts.completion_tokens_details
    read = None if prompted is None else prompted.cached_tokens
    thinking = None if completed is None else completed.reasoning_tokens
    if counts.total_tokens != prompt + completion or (read or 0) > prompt or (thinking or 0) > completion:
        return None
    tier = None if members.service_tier is NULL else peeked(members.service_tier, _TIER)
    return Usage(prompt, completion, read, None, thinking, None, tier)


def usage_of(response: JsonObject) -> Usage | None:
    """The token counts of a full response, without decoding the rest; None if they are unreadable."""
    usage, tier = response.get("usage"), response.get("service_tier")
    if usage is None:
        usage = usage_in(response, None)
    if not isinstance(usage, dict):
        return None
    if not isinstance(tier, str):
        tier = None
    unreadable = False
    for name in _PROMPT_AND_COMPLETION:
        total = usage.get(name)
        if total is None:
            continue
        if count_of(total) is not None:
            return decode_usage(usage, tier, Ledger())
        unreadable = True
    return None if unreadable else decode_usage(usage, tier, Ledger())
