"""Encodes requests of other protocols for a Messages provider, member by member from an allow-list."""

from __future__ import annotations

from hashlib import sha256
from itertools import compress

from msgspec import Raw
from msgspec.structs import replace

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.request import CacheOptions, OutputFormat, OutputKind, Reasoning, Request, Sampling
from dragoman.protocols.anthropic_messages.encode_context import RequestEncodeContext
from dragoman.protocols.anthropic_messages.reasoning import Depth, encode_cap, encode_depth, encode_sampling
from dragoman.protocols.anthropic_messages.shapes import (
    BETA_COMPACT,
    BETA_FAST,
    BETA_MCP,
    CACHE_BREAKPOINTS_LIMIT,
    COMPACT_EDIT,
    JSON_ONLY,
    SAMPLING_VERSION,
    USER_ID_LIMIT,
)
from dragoman.protocols.anthropic_messages.tool_choice_encoder import encode_choice
from dragoman.protocols.anthropic_messages.tool_encoder import EncodedTools, encode_tools
from dragoman.protocols.anthropic_messages.turns import (
    MessageList,
    encode_conversation,
    shortened,
)
from dragoman.protocols.codec import EncodedRequest, TargetModel
from dragoman.rules.extras import refuse_blocking, refuse_demands, refused
from dragoman.rules.schemas import for_anthropic
from dragoman.rules.stop_sequences import watched
from dragoman.rules.translated_parts import ReusedParts
from dragoman.rules.updates import effective
from dragoman.wire.json import encode, encode_text

_FAST_TIERS = ("fast", "priority", "ultrafast")
_LONG = ("12h", "24h")
_NO_SAMPLING, _NO_REASONING, _NO_DEPTH = Sampling(), Reasoning(), Depth()


def encode_request(
    original: Request, target: TargetModel, ledger: Ledger, reuse: ReusedParts | None = None
) -> EncodedRequest:
    """Encode a request of another protocol. Every inexact member is in the ledger."""
    if original.demands:
        refuse_demands(original)
    request = effective(original)
    known = None if reuse is None else _known_tools(request, reuse)
    writing = (
        RequestEncodeContext(target, ledger) if known is None else RequestEncodeContext(target, ledger, known.table)
    )
    if request.extras is not None:
        writing.drop(request.extras, ())
    cap = encode_cap(request, writing)
    body: JsonObject = {"model": target.model, "max_tokens": cap}
    # Breakpoints are counted in the order of the prefix: tools, system, messages.
    if reuse is None:
        offers = encode_tools(request, original, writing)
    elif known is None or reuse.known_tools is None:
        offers = _declared(request, original, writing, reuse)
    else:
        offers = known
        ledger.entries += reuse.known_tools.losses
    choice: JsonObject | None = None
    if request.tool_choice is not None or request.parallel_calls is not None:
        choice = encode_choice(request, offers, writing)
    history = None if reuse is None else reuse.history
    conversation = encode_conversation(request, writing, history)
    depth = _NO_DEPTH
    if request.reasoning != _NO_REASONING:
        depth = encode_depth(request, cap, writing, _objection(choice, cap, conversation, writing))
    config: JsonObject = {}
    if depth.effort is not None:
        config["effort"] = depth.effort
    if request.output is not None:
        _encode_format(request.output, config, conversation, writing)
    if conversation.system:
        body["system"] = shortened(conversation.system)
    messages: JsonList = [*conversation.messages]
    body["messages"] = messages
    if offers.declarations:
        _put_tools(offers, choice, body, writing)
    if depth.thinking is not None:
        body["thinking"] = depth.thinking
    if config:
        body["output_config"] = config
    sampled = request.sampling != _NO_SAMPLING and encode_sampling(request.sampling, depth, body, writing)
    _encode_scalars(request, body, writing)
    _encode_caching(request, body, writing)
    if history is not None:
        # Only now it is certain which breakpoints stay.
        history.finish(ledger, messages)
    _report_unsaid(request, writing)
    stops = _encode_stops(request, body, writing) if request.stop else ()
    headers = {"anthropic-version": SAMPLING_VERSION if sampled else target.capabilities.version}
    if writing.betas:
        headers["anthropic-beta"] = ",".join(sorted(writing.betas))
    return EncodedRequest(body=body, table=writing.table, stops=stops, headers=headers)


def _put_tools(
    offers: EncodedTools, choice: JsonObject | None, body: JsonObject, writing: RequestEncodeContext
) -> None:
    if offers.text is None:
        body["tools"] = [declaration for _, declaration, _ in offers.declarations]
    else:
        body["tools"] = offers.text
    if offers.servers:
        servers = offers.offered_servers()
        if servers:
            body["mcp_servers"] = servers
            writing.betas.add(BETA_MCP)
    if choice is not None:
        body["tool_choice"] = choice


def _is_alone(request: Request) -> bool:
    """Whether the request has no limits of its own for schemas or calls."""
    return request.output is None and request.max_tool_calls is None


def _known_tools(request: Request, reuse: ReusedParts) -> EncodedTools | None:
    """The tools as they were declared before; as a copy if the choice may restrict them."""
    known = reuse.known_tools
    if known is None or known.specs is not request.tools or not _is_alone(request):
        return None
    declared = known.declarations
    if not isinstance(declared, EncodedTools):
        return None
    return declared if request.tool_choice is None else replace(declared)


def _declared(request: Request, original: Request, writing: RequestEncodeContext, reuse: ReusedParts) -> EncodedTools:
    """Declare the tools, and cache them for later requests."""
    before = len(writing.ledger)
    offers = encode_tools(request, original, writing)
    if offers.declarations and _is_alone(request) and writing.has_plain_tools and not offers.servers:
        offers.text = Raw(encode([declaration for _, declaration, _ in offers.declarations]))
        reuse.tools, reuse.tool_losses = replace(offers), tuple(writing.ledger.entries[before:])
    return offers


def _objection(
    choice: JsonObject | None, cap: int, conversation: MessageList, writing: RequestEncodeContext
) -> str | None:
    """The reason against manual thinking: a forced choice (§8), a tool loop without reasoning (V5) or a prefill
    (T6)."""
    forced = choice is not None and choice["type"] in ("any", "tool")
    if forced and not writing.target.capabilities.forced_with_thinking:
        return "off, because a tool is forced"
    if conversation.in_tool_loop_without_thinking():
        return "off, because the reasoning behind the open calls is not there"
    if conversation.messages[-1]["role"] == "assistant":
        return "off, because the answer begins with what the client says"
    return "off, because nothing is generated" if cap == 0 else None


def _encode_format(
    output: OutputFormat, config: JsonObject, conversation: MessageList, writing: RequestEncodeContext
) -> None:
    """The output format: a schema that the provider enforces (Z1), otherwise an instruction (F2)."""
    ledger = writing.ledger
    writing.drop(output.extras, ("output",))
    if output.kind is OutputKind.TEXT:
        return
    if output.kind is OutputKind.JSON or output.schema is None:
        conversation.system.append({"type": "text", "text": JSON_ONLY})
        ledger.approximated(Feature.JSON_MODE, ("output",), "asked for by an instruction")
        return
    if output.name is not None:
        ledger.dropped(Feature.OUTPUT_SCHEMA, ("output", "name"), "schemas have no name here")
    schema = output.schema
    if output.description:
        own = schema.get("description")
        description = f"{output.description}\n\n{own}" if isinstance(own, str) and own else output.description
        schema = {**schema, "description": description}
        ledger.approximated(Feature.OUTPUT_SCHEMA, ("output", "description"), "told in the schema's own description")
    enforced = for_anthropic(schema, writing.schemas) if writing.target.capabilities.output_schema else None
    if enforced is None:
        text = f"{JSON_ONLY} It must conform to this JSON schema:\n{encode_text(schema)}"
        conversation.system.append({"type": "text", "text": text})
        ledger.approximated(Feature.OUTPUT_SCHEMA, ("output",), "asked for by an instruction")
        return
    config["format"] = {"type": "json_schema", "schema": enforced[0]}
    if enforced[1]:
        note = "limits the provider cannot enforce are told in descriptions"
        ledger.approximated(Feature.OUTPUT_SCHEMA, ("output", "schema"), note)
    if output.strict is not True:
        ledger.approximated(Feature.OUTPUT_SCHEMA, ("output",), "the answer is held to the schema strictly")


def _encode_scalars(request: Request, body: JsonObject, writing: RequestEncodeContext) -> None:
    ledger = writing.ledger
    if request.stream:
        body["stream"] = True
    if request.end_user is not None:
        user = request.end_user
        if len(user) > USER_ID_LIMIT:
            user = sha256(user.encode("utf-8", "surrogatepass")).hexdigest()
            ledger.approximated(Feature.END_USER, ("end_user",), "hashed, because it is too long here")
        body["metadata"] = {"user_id": user}
    if request.service_tier is not None:
        _encode_tier(request.service_tier, body, writing)
    if request.compact_at is not None:
        if writing.target.capabilities.official:
            body["context_management"] = encode_management(request.compact_at)
            writing.betas.add(BETA_COMPACT)
            ledger.approximated(Feature.CONTEXT_MANAGEMENT, ("compact_at",), "compacted in this provider's own way")
        else:
            ledger.dropped(Feature.CONTEXT_MANAGEMENT, ("compact_at",), "this provider compacts nothing")


def encode_management(compact_at: int) -> JsonObject:
    trigger: JsonObject = {"type": "input_tokens", "value": compact_at}
    return {"edits": [{"type": COMPACT_EDIT, "trigger": trigger}]}


def _encode_tier(tier: str, body: JsonObject, writing: RequestEncodeContext) -> None:
    capabilities = writing.target.capabilities
    if tier in _FAST_TIERS and capabilities.fast:
        body["speed"] = "fast"
        writing.betas.add(BETA_FAST)
        writing.ledger.approximated(Feature.SERVICE_TIER, ("service_tier",), "asked for as fast speed")
    elif tier == "auto" and capabilities.official:
        body["service_tier"] = "auto"
    elif tier == "default" and capabilities.official:
        body["service_tier"] = "standard_only"
    else:
        writing.ledger.dropped(Feature.SERVICE_TIER, ("service_tier",), f"this provider has no tier {tier!r}")


def _encode_caching(request: Request, body: JsonObject, writing: RequestEncodeContext) -> None:
    """The automatic cache breakpoint: OpenAI clients expect automatic caching (§15)."""
    breakpoint_count = writing.limit_breakpoints() if writing.breakpoints else 0
    options = request.cache
    explicit = writing.breakpoints or (options is not None and options.explicit)
    placed = writing.target.capabilities.automatic_cache and not explicit and breakpoint_count < CACHE_BREAKPOINTS_LIMIT
    control: JsonObject = {"type": "ephemeral"}
    if options is not None:
        _encode_cache_options(options, control, writing, placed=placed)
    if placed:
        body["cache_control"] = control


def _encode_cache_options(
    options: CacheOptions, control: JsonObject, writing: RequestEncodeContext, *, placed: bool
) -> None:
    ledger = writing.ledger
    for member, value in (("ttl", options.ttl), ("retention", options.retention)):
        if value is None:
            continue
        if placed and value in _LONG:
            control["ttl"] = "1h"
            ledger.approximated(Feature.CACHE_BREAKPOINT, ("cache", member), "kept for an hour")
        elif value not in ("in_memory", "in-memory"):
            ledger.dropped(
                Feature.CACHE_BREAKPOINT, ("cache", member), "this provider keeps what it caches as it sees fit"
            )
    writing.drop(options.extras, ("cache",))


def _encode_stops(request: Request, body: JsonObject, writing: RequestEncodeContext) -> tuple[str, ...]:
    """Stop sequences. The provider rejects blank ones; surplus ones are emulated."""
    stops: list[str] = []
    for index, stop in enumerate(request.stop):
        if stop.strip():
            stops.append(stop)
        else:
            writing.ledger.dropped(Feature.STOP_SEQUENCES, ("stop", index), "a stop string must hold more than blanks")
    limit = writing.target.capabilities.stop_limit
    taken = stops if limit is None else stops[:limit]
    if taken:
        body["stop_sequences"] = [*taken]
    if len(taken) < len(stops):
        writing.ledger.approximated(Feature.STOP_SEQUENCES, ("stop",), "the provider takes fewer; the rest is emulated")
    return watched(tuple(stops[len(taken) :]), writing.ledger)


# Members that this protocol lacks, in the order of `is_stated`.
_UNSAID = (
    ("verbosity", Feature.VERBOSITY, "this provider has no such setting"),
    ("logprobs", Feature.LOGPROBS, "this provider tells no log probabilities"),
    ("top_logprobs", Feature.LOGPROBS, "this provider tells no log probabilities"),
    ("metadata", Feature.METADATA, "this provider keeps no metadata but the user's id"),
    ("store", Feature.STORE, "this provider stores no answers"),
    ("cache_key", Feature.CACHE_KEY, "this provider's cache has no keys"),
    ("moderation", Feature.MODERATION, "this provider has no such setting"),
    ("obfuscation", Feature.STREAM_OPTIONS, "this provider's streams are not padded"),
)


def _report_unsaid(request: Request, writing: RequestEncodeContext) -> None:
    """Report the members of a request that this protocol lacks."""
    if request.choices is not None and request.choices > 1:
        raise refused(Feature.CHOICES, ("choices",), "this provider gives one answer")
    if request.moderation is not None:
        refuse_blocking(request)
    is_stated = (
        request.verbosity is not None,
        bool(request.logprobs),
        bool(request.top_logprobs),
        request.metadata is not None,
        bool(request.store),
        request.cache_key is not None,
        request.moderation is not None,
        bool(request.obfuscation),
    )
    if True in is_stated:
        for member, feature, note in compress(_UNSAID, is_stated):
            writing.ledger.dropped(feature, (member,), note)
    if request.continues is not None:
        raise refused(Feature.STORED_STATE, ("continues",), f"{request.continues!r} is kept by another provider")
    if request.conversation is not None:
        raise refused(Feature.STORED_STATE, ("conversation",), "the conversation is kept by another provider")
