"""Extras of a foreign protocol: drops and reports members that only their own protocol knows. In streams the encoder
reports unknown members, and `UnknownFields` members that only the decoder sees."""

from __future__ import annotations

from collections.abc import Container

from dragoman.errors import RefusedError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger, Place, render_place
from dragoman.model.parts import Extras, Foreign, HostedKind
from dragoman.model.request import Request

# Members whose loss has a feature of its own. All others are reported as unknown fields.
FEATURES: dict[str, Feature] = {
    "modalities": Feature.MODALITIES,
    "audio": Feature.MODALITIES,
    "prediction": Feature.PREDICTION,
    "truncation": Feature.TRUNCATION,
    "prompt": Feature.PROMPT_TEMPLATE,
    "phase": Feature.PHASE,
    "stream_options": Feature.STREAM_OPTIONS,
    "context_management": Feature.CONTEXT_MANAGEMENT,
    "container": Feature.CONTAINER,
    "client_metadata": Feature.METADATA,
    "thread": Feature.STORED_STATE,
    "background": Feature.STORED_STATE,
    "transformations": Feature.IMAGE_DETAIL,
    "allowed_callers": Feature.TOOL_OPTIONS,
    "eager_input_streaming": Feature.TOOL_OPTIONS,
    "output_schema": Feature.TOOL_OPTIONS,
    "async": Feature.TOOL_OPTIONS,
    "extra_content": Feature.THINKING_SIGNATURE,
    "thought_signature": Feature.THINKING_SIGNATURE,
}

HOSTED_FEATURES: dict[HostedKind, Feature] = {
    HostedKind.WEB_SEARCH: Feature.WEB_SEARCH,
    HostedKind.CODE: Feature.CODE_EXECUTION,
    HostedKind.MCP: Feature.MCP,
    HostedKind.MCP_LISTING: Feature.MCP,
}

# Members without effect, or with an effect that every translation has. Dropping them loses nothing.
NEUTRAL: dict[str, tuple[JsonValue, ...]] = {
    "truncation": ("disabled",),
    # No translation clears the thinking of earlier turns.
    "context_management": ({"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},),
    "background": (False,),
    "include": ("reasoning.encrypted_content", "message.output_text.logprobs"),
    "status": ("completed",),
    "prewarm": (False,),
    "format": ({"type": "text"},),
    "modalities": ("text",),
    "filters": ({},),
    "is_error": (False,),
    # Members of every message and call in SDK responses. Clients send them back unchanged.
    "annotations": ([],),
    "caller": ({"type": "direct"},),
}


# Members around the content of an OpenAI response, or repeated from the request. The client has them already.
ECHOES = frozenset(
    {
        "object",
        "status",
        "error",
        "incomplete_details",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "text",
        "truncation",
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "top_logprobs",
        "reasoning",
        "max_output_tokens",
        "max_tool_calls",
        "store",
        "background",
        "service_tier",
        "metadata",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "previous_response_id",
        "conversation",
        "prompt",
        "user",
        "completed_at",
        "system_fingerprint",
    }
)

# Steering items by type. Their changes are in the request.
STEERING: dict[str, Feature] = {
    "additional_tools": Feature.TOOLS_IN_ITEMS,
    "tool_search_output": Feature.TOOLS_IN_ITEMS,
    "tool_addition": Feature.TOOLS_IN_ITEMS,
    "tool_removal": Feature.TOOLS_IN_ITEMS,
    "configuration_update": Feature.CONFIGURATION_UPDATE,
    "output_config": Feature.EFFORT,
}


def is_neutral(key: str, value: JsonValue) -> bool:
    """Whether dropping a member loses nothing."""
    if value is None or (key in _READ_THROUGH and isinstance(value, dict) and _only_nulls(value)):
        return True
    neutral = NEUTRAL.get(key, ())
    return value in neutral or (isinstance(value, list) and bool(neutral) and all(one in neutral for one in value))


def _only_nulls(members: JsonObject) -> bool:
    return bool(members) and all(one is None for one in members.values())


# Objects whose members are read one by one, so that a remaining null has no effect.
_READ_THROUGH = frozenset({"output_config", "metadata", "text"})


def loses_nothing(extras: Extras) -> bool:
    """Whether dropping all members loses nothing."""
    return all(is_neutral(key, value) for key, value in extras.fields.items())


def drop_extras(extras: Extras | None, at: Place, ledger: Ledger, *, is_response: bool = False) -> None:
    """Report foreign extras as dropped. In a full response, repeated request members are not reported."""
    if extras is None:
        return
    for key, value in extras.fields.items():
        if (is_response and key in ECHOES) or is_neutral(key, value):
            continue
        ledger.dropped(
            FEATURES.get(key, Feature.UNKNOWN_FIELD), (*at, "extras", key), f"only {extras.origin} knows {key!r}"
        )


def drop_choices(ledger: Ledger) -> None:
    """Report that only the first of several choices is sent, for protocols with one response."""
    ledger.dropped(Feature.CHOICES, ("alternatives",), "this protocol gives one answer")


def refused(feature: Feature, at: Place, note: str) -> RefusedError:
    return RefusedError(feature.value, render_place(at), note)


def refuse_demands(request: Request) -> None:
    """Reject a request with requirements that only its own protocol can meet (`!` in mapping.md)."""
    for demand in request.demands:
        raise RefusedError(demand.feature.value, demand.member, demand.note)


def foreign_text(part: Foreign, at: Place, ledger: Ledger, *, by_user: bool) -> str | None:
    """The text for a part that only its own protocol has, or None (mapping.md §1 rule 2)."""
    if part.applied is not None:
        feature = STEERING.get(part.kind, Feature.UNSUPPORTED_CONTENT)
        (ledger.dropped if part.superseded else ledger.approximated)(feature, at, part.applied)
        return None
    if part.text is not None:
        feature = Feature.TEXT_DOCUMENT if part.kind == "search_result" else Feature.UNSUPPORTED_CONTENT
        ledger.approximated(feature, at, f"{part.kind!r} is written as text")
        return part.text
    if by_user:
        raise refused(
            Feature.UNSUPPORTED_CONTENT, at, f"{part.kind!r} of {part.origin} cannot be said to this provider"
        )
    ledger.dropped(Feature.UNSUPPORTED_CONTENT, at, f"only {part.origin} knows {part.kind!r}")
    return None


def blocks(moderation: JsonObject) -> bool:
    """Whether a moderation setting makes the provider block content."""
    policy = moderation.get("policy")
    sides = policy.values() if isinstance(policy, dict) else ()
    return any(isinstance(side, dict) and side.get("mode") == "block" for side in sides)


def refuse_blocking(request: Request) -> None:
    """Reject a request with blocking moderation, for providers without moderation."""
    if request.moderation is not None and blocks(request.moderation):
        raise refused(Feature.MODERATION, ("moderation",), "blocking by moderation cannot be asked for")


class UnknownFields:
    """Reports unread members of one stream. A name is reported once per location."""

    __slots__ = ("_ledger", "_origin", "_reported")

    def __init__(self, ledger: Ledger, origin: str) -> None:
        self._ledger = ledger
        self._origin = origin
        self._reported: set[Place] = set()

    def members(self, body: JsonObject, expected: Container[str], at: Place = ()) -> bool:
        """Report unknown members. False if one has no value now but may have one later."""
        if all(map(expected.__contains__, body)):
            return True
        is_final = True
        for key, value in body.items():
            if key not in expected:
                is_final = self.name(key, value, at) and is_final
        return is_final

    def name(self, name: str, value: JsonValue = True, at: Place = ()) -> bool:
        """Report a member, or the name of an event or delta. False if its value is empty."""
        if is_neutral(name, value):
            return False
        place = (*at, "extras", name)
        if place not in self._reported:
            self._reported.add(place)
            feature = FEATURES.get(name, Feature.UNKNOWN_FIELD)
            self._ledger.dropped(feature, place, f"only {self._origin} knows {name!r}")
        return True


def part_place(index: int | None) -> Place:
    """The location of a part; without an announced part, that of the response."""
    return () if index is None or index < 0 else ("parts", index)
