"""The response object around the output. It repeats the client's request with every member that Open Responses
requires."""

from __future__ import annotations

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.request import Request
from dragoman.model.response import Usage
from dragoman.protocols.codec import TranslationContext
from dragoman.protocols.openai_responses.shapes import IN_PROGRESS, NAME
from dragoman.protocols.openai_responses.tool_decoder import encode_format, encode_native_choice, encode_native_tools
from dragoman.protocols.openai_responses.usage import NO_IMAGES, encode_usage
from dragoman.rules.response_metadata import ORDINARY_TIERS, EnumValues

# Efforts of Open Responses. Others are mapped to the nearest one.
_EFFORTS = EnumValues(
    feature=Feature.EFFORT,
    legal=frozenset({"none", "low", "medium", "high", "xhigh"}),
    others={"minimal": "low", "max": "xhigh"},
)
_SUMMARIES = EnumValues(feature=Feature.THINKING_DISPLAY, legal=frozenset({"auto", "concise", "detailed"}))
_VERBOSITIES = EnumValues(feature=Feature.VERBOSITY, legal=frozenset({"low", "medium", "high"}))
_TRUNCATIONS = EnumValues(feature=Feature.TRUNCATION, legal=frozenset({"auto", "disabled"}), unknown="disabled")
TIERS = EnumValues(
    feature=Feature.SERVICE_TIER,
    legal=frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"}),
    others=ORDINARY_TIERS,
    unknown="default",
)


def response_object(
    response_id: str, created: int, translation: TranslationContext, model: str, ledger: Ledger | None = None
) -> JsonObject:
    """A response at its start, without output and usage. Request values are repeated if its types list them."""
    request = translation.request
    extras = request.extras.fields if request.extras is not None and request.extras.origin == NAME else {}
    as_user = "user" in request.spellings
    text: JsonObject = {"format": {"type": "text"} if request.output is None else encode_format(request.output)}
    verbosity = _VERBOSITIES.map_value(request.verbosity, ("verbosity",), ledger)
    if verbosity is not None:
        text["verbosity"] = verbosity
    sampling = request.sampling
    body: JsonObject = {
        "id": response_id,
        "object": "response",
        "created_at": created,
        "completed_at": None,
        "status": IN_PROGRESS,
        "error": None,
        "incomplete_details": None,
        "instructions": "\n\n".join([block.text for block in request.instructions]) or None,
        "max_output_tokens": request.max_tokens,
        "max_tool_calls": request.max_tool_calls,
        "model": model,
        "output": [],
        "parallel_tool_calls": request.parallel_calls is not False,
        "previous_response_id": request.continues,
        "prompt_cache_key": request.cache_key,
        "reasoning": _reasoning(request, ledger),
        "safety_identifier": None if as_user else request.end_user,
        "service_tier": TIERS.map_value(request.service_tier, ("service_tier",), ledger) or "default",
        "store": request.store is not False,
        "temperature": _or(sampling.temperature, 1),
        "text": text,
        "tool_choice": "auto" if request.tool_choice is None else encode_native_choice(request.tool_choice),
        "tools": encode_native_tools(request.tools),
        "top_logprobs": request.top_logprobs or 0,
        "top_p": _or(sampling.top_p, 1),
        "truncation": _TRUNCATIONS.map_value(extras.get("truncation"), ("truncation",), ledger) or "disabled",
        "presence_penalty": _or(sampling.presence_penalty, 0),
        "frequency_penalty": _or(sampling.frequency_penalty, 0),
        "usage": None,
        "metadata": request.metadata or {},
        "background": extras.get("background") is True,
    }
    conversation = request.conversation.get("id") if isinstance(request.conversation, dict) else request.conversation
    if conversation is not None:
        body["conversation"] = {"id": conversation}
    if as_user:
        body["user"] = request.end_user
    return body


def _or(value: JsonValue, default: int) -> JsonValue:
    return default if value is None else value


def _reasoning(request: Request, ledger: Ledger | None) -> JsonValue:
    reasoning = request.reasoning
    if reasoning.effort is None and reasoning.summary is None:
        return None
    return {
        "effort": _EFFORTS.map_value(reasoning.effort, ("reasoning", "effort"), ledger),
        "summary": _SUMMARIES.map_value(reasoning.summary, ("reasoning", "summary"), ledger),
    }


def finish(body: JsonObject, output: JsonList, usage: Usage | None, reason: str | None, now: int) -> JsonObject:
    finished: JsonObject = {
        **body,
        "status": "completed" if reason is None else "incomplete",
        "completed_at": now if reason is None else None,
        "incomplete_details": None if reason is None else {"reason": reason},
        "output": output,
        "usage": encode_usage(usage),
    }
    if usage is not None:
        if usage.service_tier is not None:
            # Losses of the tier were reported with the end.
            finished["service_tier"] = TIERS.map_value(usage.service_tier, (), None) or "default"
        if usage.web_searches:
            finished["tool_usage"] = {"image_gen": NO_IMAGES, "web_search": {"num_requests": usage.web_searches}}
    return finished
