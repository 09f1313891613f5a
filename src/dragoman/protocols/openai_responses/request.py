"""Requests: decoded as they were said, encoded home unchanged or abroad by the mapping (§3, §4, §10, §12, §14, §15)."""

from __future__ import annotations

from hashlib import sha256

from msgspec.structs import replace

from dragoman.errors import RefusedError, WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras, Foreign, Text
from dragoman.model.request import (
    CacheOptions,
    Demand,
    Message,
    OutputFormat,
    OutputKind,
    Reasoning,
    Request,
    Role,
    Sampling,
    ThinkingMode,
    Updates,
)
from dragoman.model.tools import FunctionTool, TextTool, ToolSpec
from dragoman.protocols.codec import Encoded, Target
from dragoman.protocols.openai_responses.items import InputReader, encode_home_items
from dragoman.protocols.openai_responses.shapes import (
    INCLUDE_ENCRYPTED,
    INCLUDE_LOGPROBS,
    INCLUDE_SOURCES,
    MINIMUM_CAP,
    NAME,
    SAFETY_IDENTIFIER_LIMIT,
    UPSTREAM,
)
from dragoman.protocols.openai_responses.tools import (
    decode_choice,
    decode_format,
    decode_tools,
    encode_format,
    encode_home_choice,
    encode_home_tools,
)
from dragoman.protocols.openai_responses.tools_abroad import ToolWriter, WrittenTools, encode_choice
from dragoman.protocols.openai_responses.turns import TurnWriter
from dragoman.rules.effort import effort_for, nearest
from dragoman.rules.extras import drop_extras
from dragoman.rules.instructions import without_telemetry
from dragoman.rules.schemas import for_openai_strict
from dragoman.rules.toolnames import ToolTable
from dragoman.rules.updates import effective
from dragoman.wire.fields import Fields

_SIGNS = ("input", "instructions", "previous_response_id", "conversation", "prompt")
_ANTHROPIC = "anthropic-messages"


# Members that say nothing and yet were said, for the way home.
_SAID_EMPTY: tuple[tuple[str, JsonValue], ...] = (
    ("stream", False),
    ("stream_options", {}),
    ("text", {}),
    ("reasoning", {}),
    ("prompt_cache_options", {}),
    ("tools", []),
)


def recognises(body: JsonObject) -> bool:
    """Whether a body looks like a Responses request."""
    return "messages" not in body and any(sign in body for sign in _SIGNS)


def decode_request(body: JsonObject) -> Request:
    """Read a request; nothing is adapted and nothing is lost."""
    fields = Fields(body)
    model = fields.optional_text("model") or ""
    continues = fields.optional_text("previous_response_id")
    conversation = fields.raw("conversation")
    reader = InputReader()
    messages = _decode_input(fields, reader, stateful=continues is not None or conversation is not None)
    tools = tuple(decode_tools(fields, "tools"))
    instructions = fields.optional_text("instructions")
    kept: JsonObject = {}
    demands = _demands(fields, continues, conversation)
    obfuscation = _decode_stream_options(fields, kept)
    output, verbosity = _decode_text(fields, kept)
    spellings = [name for name, empty in _SAID_EMPTY if body.get(name) == empty and name in body]
    end_user = _decode_end_user(fields, spellings)
    cache, prewarm = _decode_cache(fields)
    include = fields.texts("include")
    if include:
        kept["include"] = list(include)
    return Request(
        origin=NAME,
        model=model,
        messages=messages,
        instructions=() if instructions is None else (Text(text=instructions),),
        tools=tools,
        tool_choice=decode_choice(fields),
        parallel_calls=fields.optional_flag("parallel_tool_calls"),
        max_tokens=fields.optional_integer("max_output_tokens"),
        prewarm=prewarm,
        sampling=Sampling(
            temperature=fields.optional_number("temperature"),
            top_p=fields.optional_number("top_p"),
            frequency_penalty=fields.optional_number("frequency_penalty"),
            presence_penalty=fields.optional_number("presence_penalty"),
        ),
        reasoning=_decode_reasoning(fields),
        output=output,
        verbosity=verbosity,
        stream=fields.optional_flag("stream") or False,
        obfuscation=obfuscation,
        logprobs=True if INCLUDE_LOGPROBS in include else None,
        top_logprobs=fields.optional_integer("top_logprobs"),
        end_user=end_user,
        metadata=fields.optional_object("metadata"),
        service_tier=fields.optional_text("service_tier"),
        store=fields.optional_flag("store"),
        cache_key=fields.optional_text("prompt_cache_key"),
        cache=cache,
        moderation=fields.optional_object("moderation"),
        compact_at=_decode_compaction(fields),
        max_tool_calls=fields.optional_integer("max_tool_calls"),
        continues=continues,
        conversation=conversation,
        spellings=tuple(spellings),
        updates=Updates(tools=_new_tools(tools, reader.tools), effort=reader.effort, output=reader.output),
        demands=(*demands, *reader.demands),
        extras=_extras(fields, kept),
    )


def _decode_input(fields: Fields, reader: InputReader, *, stateful: bool) -> tuple[Message, ...]:
    value = fields.value.get("input")
    fields.skip("input")
    if isinstance(value, str):
        return (Message(role=Role.USER, parts=(Text(text=value),)),)
    if value is not None and not isinstance(value, list):
        raise fields.fail("input", "string or array", value)
    if not value and not stateful and fields.value.get("prompt") is None:
        raise WireError("/input", "a string or items", "nothing" if value is None else "an empty array")
    messages = [reader.read(item) for item in fields.each("input")]
    overtaken = reader.superseded()
    return tuple([_overtaken(message, overtaken) for message in messages] if overtaken else messages)


def _overtaken(message: Message, bodies: list[JsonObject]) -> Message:
    """The message marked, if it is a change of settings that a later one took the place of."""
    part = message.parts[0] if message.parts else None
    if not isinstance(part, Foreign) or not any(part.body is body for body in bodies):
        return message
    return replace(message, parts=(replace(part, superseded=True),))


def _new_tools(declared: tuple[ToolSpec, ...], late: list[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Tools of the conversation that the request does not declare already: a deferred one is found by a search."""
    known = {_identity(tool) for tool in declared}
    fresh: list[ToolSpec] = []
    for tool in late:
        identity = _identity(tool)
        if identity is None or identity not in known:
            known.add(identity)
            fresh.append(tool)
    return tuple(fresh)


def _identity(tool: ToolSpec) -> tuple[str | None, str] | None:
    if isinstance(tool, FunctionTool | TextTool):
        return tool.namespace.name if tool.namespace is not None else None, tool.name
    return None


def _demands(fields: Fields, continues: str | None, conversation: JsonValue) -> list[Demand]:
    """What only this protocol can do and must not be left out; the members stay in the extras for the way home."""
    found: list[Demand] = []
    if continues is not None:
        note = f"the stored response {continues!r} is not known here; send the whole conversation"
        found.append(Demand(feature=Feature.STORED_STATE, member="previous_response_id", note=note))
    if conversation is not None:
        found.append(
            Demand(feature=Feature.STORED_STATE, member="conversation", note="stored conversations are not known here")
        )
    if fields.value.get("prompt") is not None:
        found.append(
            Demand(
                feature=Feature.PROMPT_TEMPLATE, member="prompt", note="stored prompts are not known to this provider"
            )
        )
    if fields.value.get("background") is True:
        found.append(
            Demand(
                feature=Feature.STORED_STATE, member="background", note="responses cannot run in the background here"
            )
        )
    match fields.value.get("multi_agent"):
        case {"enabled": True}:
            note = "several agents in one response are not known to this provider"
            found.append(Demand(feature=Feature.UNKNOWN_FIELD, member="multi_agent", note=note))
    match fields.value.get("moderation"):
        case {"policy": {"input": {"mode": "block"}}} | {"policy": {"output": {"mode": "block"}}} | {"policy": "block"}:
            note = "a moderation policy that blocks is not known to this provider"
            found.append(Demand(feature=Feature.MODERATION, member="moderation", note=note))
    return found


def _decode_stream_options(fields: Fields, kept: JsonObject) -> bool | None:
    options = fields.optional_fields("stream_options")
    if options is None:
        return None
    obfuscation = options.optional_flag("include_obfuscation")
    rest = options.rest(NAME)
    if rest is not None:
        kept["stream_options"] = rest.fields
    return obfuscation


def _decode_text(fields: Fields, kept: JsonObject) -> tuple[OutputFormat | None, str | None]:
    text = fields.optional_fields("text")
    if text is None:
        return None, None
    output, verbosity = decode_format(text), text.optional_text("verbosity")
    rest = text.rest(NAME)
    if rest is not None:
        kept["text"] = rest.fields
    return output, verbosity


def _decode_end_user(fields: Fields, spellings: list[str]) -> str | None:
    """The end user, who may have come under the older name; beside the newer one that stays in the extras."""
    identifier = fields.optional_text("safety_identifier")
    if identifier is not None or fields.value.get("user") is None:
        return identifier
    spellings.append("user")
    return fields.optional_text("user")


def _decode_cache(fields: Fields) -> tuple[CacheOptions | None, bool]:
    options = fields.optional_fields("prompt_cache_options")
    retention = fields.optional_text("prompt_cache_retention")
    if options is None:
        return (None if retention is None else CacheOptions(retention=retention)), False
    mode = options.choice("mode", ("implicit", "explicit"))
    # Only an explicit no is kept as it was said.
    prewarm = options.optional_flag("prewarm") if options.value.get("prewarm") is not False else False
    found = CacheOptions(
        explicit=None if mode is None else mode == "explicit",
        ttl=options.optional_text("ttl"),
        retention=retention,
        extras=options.rest(NAME),
    )
    return (None if found == CacheOptions() else found), prewarm is True


def _decode_reasoning(fields: Fields) -> Reasoning:
    reasoning = fields.optional_fields("reasoning")
    if reasoning is None:
        return Reasoning()
    effort, summary = reasoning.optional_text("effort"), reasoning.optional_text("summary")
    extras = reasoning.rest(NAME)
    if summary is None:
        summary = reasoning.optional_text("generate_summary")
    return Reasoning(effort=effort, summary=summary, extras=extras)


def _decode_compaction(fields: Fields) -> int | None:
    """The threshold of the one compaction; anything else stays in the extras."""
    entries = fields.value.get("context_management")
    match entries:
        case [{"type": "compaction", "compact_threshold": int(threshold), **others}] if not others:
            fields.skip("context_management")
            return threshold
    if entries is not None and not isinstance(entries, list):
        raise fields.fail("context_management", "array", entries)
    return None


def _extras(fields: Fields, kept: JsonObject) -> Extras | None:
    rest = fields.rest(NAME)
    if not kept:
        return rest
    return Extras(origin=NAME, fields={**(rest.fields if rest is not None else {}), **kept})


def encode_request(request: Request, target: Target, ledger: Ledger) -> Encoded:
    """Write a request: home as it was said, abroad by the mapping."""
    if request.origin == NAME:
        return Encoded(body=_encode_home(request, target), table=ToolTable())
    return _Writer(effective(request), target, ledger).write()


def _encode_home(request: Request, target: Target) -> JsonObject:
    extras: JsonObject = dict(request.extras.fields) if request.extras is not None else {}
    body: JsonObject = {"model": target.model}
    if request.messages or (request.continues is None and request.conversation is None and "prompt" not in extras):
        body["input"] = encode_home_items(request.messages)
    if request.instructions:
        body["instructions"] = "\n\n".join([text.text for text in request.instructions])
    user_member = "user" if "user" in request.spellings else "safety_identifier"
    members: tuple[tuple[str, JsonValue], ...] = (
        ("previous_response_id", request.continues),
        ("conversation", request.conversation),
        ("tools", encode_home_tools(request.tools) if request.tools else None),
        ("tool_choice", None if request.tool_choice is None else encode_home_choice(request.tool_choice)),
        ("parallel_tool_calls", request.parallel_calls),
        ("max_output_tokens", request.max_tokens),
        ("max_tool_calls", request.max_tool_calls),
        ("temperature", request.sampling.temperature),
        ("top_p", request.sampling.top_p),
        ("frequency_penalty", request.sampling.frequency_penalty),
        ("presence_penalty", request.sampling.presence_penalty),
        ("top_logprobs", request.top_logprobs),
        (user_member, request.end_user),
        ("metadata", request.metadata),
        ("service_tier", request.service_tier),
        ("store", request.store),
        ("prompt_cache_key", request.cache_key),
        ("moderation", request.moderation),
        ("stream", True if request.stream else None),
        ("reasoning", _home_reasoning(request.reasoning)),
        ("text", _text(request, extras.pop("text", None))),
        ("stream_options", _stream_options(request.obfuscation, extras.pop("stream_options", None))),
        ("prompt_cache_options", _home_cache(request.cache, request.prewarm)),
        ("prompt_cache_retention", request.cache.retention if request.cache is not None else None),
        ("context_management", _context_management(request.compact_at)),
    )
    body |= {key: value for key, value in members if value is not None}
    body |= {name: empty for name, empty in _SAID_EMPTY if name in request.spellings and name not in body}
    return body | extras


def _home_reasoning(reasoning: Reasoning) -> JsonValue:
    extras = reasoning.extras.fields if reasoning.extras is not None else {}
    written: JsonObject = {}
    if reasoning.effort is not None:
        written["effort"] = reasoning.effort
    if reasoning.summary is not None and "generate_summary" not in extras:
        written["summary"] = reasoning.summary
    return {**written, **extras} or None


def _text(request: Request, beyond: JsonValue) -> JsonValue:
    written: JsonObject = {}
    if request.output is not None:
        written["format"] = encode_format(request.output)
    if request.verbosity is not None:
        written["verbosity"] = request.verbosity
    return {**written, **(beyond if isinstance(beyond, dict) else {})} or None


def _stream_options(obfuscation: bool | None, beyond: JsonValue = None) -> JsonValue:
    written: JsonObject = {} if obfuscation is None else {"include_obfuscation": obfuscation}
    return {**written, **(beyond if isinstance(beyond, dict) else {})} or None


def _home_cache(cache: CacheOptions | None, prewarm: bool) -> JsonValue:
    written: JsonObject = {}
    if cache is not None:
        if cache.explicit is not None:
            written["mode"] = "explicit" if cache.explicit else "implicit"
        if cache.ttl is not None:
            written["ttl"] = cache.ttl
    if prewarm:
        written["prewarm"] = True
    if cache is not None and cache.extras is not None and cache.extras.origin == NAME:
        written |= cache.extras.fields
    return written or None


def _context_management(threshold: int | None) -> JsonValue:
    return None if threshold is None else [{"type": "compaction", "compact_threshold": threshold}]


class _Writer:
    """Writes one request of another protocol's client, member by member from an allow-list."""

    def __init__(self, request: Request, target: Target, ledger: Ledger) -> None:
        for demand in request.demands:
            # Moderation is the one demand that both OpenAI protocols can meet.
            if demand.feature is not Feature.MODERATION:
                raise RefusedError(demand.feature.value, demand.member, demand.note)
        if request.choices is not None and request.choices > 1:
            raise RefusedError(Feature.CHOICES.value, "choices", "one answer per request is all there is here")
        self._request = request
        self._target = target
        self._ledger = ledger
        self._messages = request.origin == _ANTHROPIC

    def write(self) -> Encoded:
        request, target, ledger = self._request, self._target, self._ledger
        tools = ToolWriter(request, target, ledger).write()
        turns = TurnWriter(request, target, ledger, tools.table)
        instructions, leading = self._instructions(turns)
        body: JsonObject = {"model": target.model, "input": leading + turns.write()}
        if instructions:
            body["instructions"] = instructions
        if tools.tools:
            body["tools"] = tools.tools
        body |= encode_choice(request, tools, target, ledger)
        members: tuple[tuple[str, JsonValue], ...] = (
            ("max_output_tokens", self._cap()),
            ("max_tool_calls", tools.max_tool_calls),
            ("reasoning", self._reasoning()),
            ("text", self._text()),
            ("top_logprobs", request.top_logprobs),
            ("safety_identifier", self._end_user()),
            ("prompt_cache_key", self._cache_key()),
            ("prompt_cache_options", self._cache()),
            ("prompt_cache_retention", request.cache.retention if request.cache is not None else None),
            ("metadata", request.metadata),
            ("service_tier", self._tier()),
            ("moderation", request.moderation),
            ("context_management", self._compaction()),
            ("stream", True if request.stream else None),
            ("stream_options", self._obfuscation()),
        )
        body |= {key: value for key, value in members if value is not None}
        body |= self._sampling()
        body["include"] = self._include(tools)
        # Retention is never asked for on behalf of a client that did not (E4).
        body["store"] = request.store is True
        drop_extras(request.extras, (), ledger)
        self._stops()
        return Encoded(body=body, table=tools.table, stops=request.stop)

    def _instructions(self, turns: TurnWriter) -> tuple[str | None, JsonList]:
        """The top-level instructions; a developer message instead where a block of them carries a breakpoint (§4)."""
        ledger = self._ledger
        blocks = self._request.instructions
        marked = self._target.abilities.breakpoints and any(text.cache is not None for text in blocks)
        texts: list[str] = []
        parts: JsonList = []
        for index, block in enumerate(blocks):
            text = without_telemetry(block.text)
            if text != block.text:
                ledger.approximated(
                    Feature.TELEMETRY_LINE, ("instructions", index), "the client's telemetry line is left out"
                )
            drop_extras(block.extras, ("instructions", index), ledger)
            if block.cache is not None and not marked:
                turns.content.lose_mark(block.cache, ("instructions", index))
            if not text:
                continue
            texts.append(text)
            if marked:
                parts.append(
                    turns.content.mark({"type": "input_text", "text": text}, block.cache, ("instructions", index))
                )
        if marked and parts:
            return None, [{"type": "message", "role": "developer", "content": parts}]
        return "\n\n".join(texts) or None, []

    def _cap(self) -> JsonValue:
        request = self._request
        if request.prewarm:
            self._ledger.approximated(Feature.PREWARM, ("prewarm",), "the cache is warmed by its own option")
            return None
        cap = request.max_tokens
        if cap is not None and cap < MINIMUM_CAP:
            self._ledger.approximated(Feature.MAX_TOKENS, ("max_tokens",), f"raised to the least cap, {MINIMUM_CAP}")
            return MINIMUM_CAP
        return cap

    def _sampling(self) -> JsonObject:
        sampling, ledger = self._request.sampling, self._ledger
        abilities = self._target.abilities
        body: JsonObject = {}
        rows: tuple[tuple[str, JsonValue, Feature, bool], ...] = (
            ("temperature", sampling.temperature, Feature.TEMPERATURE, abilities.sampling),
            ("top_p", sampling.top_p, Feature.TOP_P, abilities.sampling),
            ("frequency_penalty", sampling.frequency_penalty, Feature.PENALTIES, abilities.penalties),
            ("presence_penalty", sampling.presence_penalty, Feature.PENALTIES, abilities.penalties),
            ("top_k", sampling.top_k, Feature.TOP_K, False),
            ("seed", sampling.seed, Feature.SAMPLING, False),
            ("logit_bias", sampling.logit_bias, Feature.SAMPLING, False),
        )
        for name, value, feature, taken in rows:
            if value is None:
                continue
            if taken:
                body[name] = value
            else:
                ledger.dropped(feature, ("sampling", name), f"this provider takes no {name}")
        for name in sampling.others or ():
            ledger.dropped(Feature.SAMPLING, ("sampling", "others", name), f"this provider takes no {name}")
        return body

    def _stops(self) -> None:
        if self._request.stop:
            self._ledger.approximated(
                Feature.STOP_SEQUENCES, ("stop",), "the answer is cut at stop strings after the provider gave it"
            )

    def _reasoning(self) -> JsonValue:
        reasoning, ledger = self._request.reasoning, self._ledger
        drop_extras(reasoning.extras, ("reasoning",), ledger)
        effort = self._effort()
        summary = self._summary(effort)
        written: JsonObject = {}
        if effort is not None:
            written["effort"] = effort
        if summary is not None:
            written["summary"] = summary
        return written or None

    def _effort(self) -> str | None:
        """The effort by E2; of another protocol's words only those the model declares, or the three that all know."""
        reasoning, abilities, ledger = self._request.reasoning, self._target.abilities, self._ledger
        effort, at = reasoning.effort, ("reasoning", "effort")
        off = reasoning.mode in (ThinkingMode.DISABLED, ThinkingMode.BETWEEN_TOOLS)
        if off:
            effort, at = "none", ("reasoning", "mode")
        elif effort is None and reasoning.budget is not None:
            effort, at = effort_for(reasoning.budget), ("reasoning", "budget")
            ledger.approximated(Feature.EFFORT, at, f"a budget of {reasoning.budget} tokens is an effort of {effort}")
        elif reasoning.budget is not None:
            ledger.dropped(Feature.EFFORT, ("reasoning", "budget"), "the effort says it")
        if effort is None:
            return None
        if abilities.reasons is False:
            ledger.dropped(Feature.EFFORT, at, "the model does not reason")
            return None
        if not self._messages and abilities.efforts is None:
            return effort
        if off and abilities.efforts is None and abilities.reasons is not True:
            ledger.approximated(Feature.EFFORT, at, "nothing is sent to a model that is not known to reason")
            return None
        chosen = nearest(effort, abilities.efforts)
        if chosen != effort or reasoning.mode is ThinkingMode.BETWEEN_TOOLS:
            ledger.approximated(Feature.EFFORT, at, f"{effort} is asked for as {chosen}")
        return chosen

    def _summary(self, effort: str | None) -> str | None:
        """What is shown of the reasoning (E3)."""
        reasoning = self._request.reasoning
        if not self._messages:
            if reasoning.summary is not None:
                return reasoning.summary
            return "auto" if effort is not None and effort != "none" else None
        if reasoning.mode not in (ThinkingMode.ADAPTIVE, ThinkingMode.ENABLED) and reasoning.display is None:
            return None
        if reasoning.display == "omitted" or not self._target.abilities.display:
            return None
        if reasoning.display == "updates":
            self._ledger.approximated(Feature.THINKING_DISPLAY, ("reasoning", "display"), "shown as a summary")
        return "auto"

    def _text(self) -> JsonValue:
        output = self._request.output
        written: JsonObject = {}
        if output is not None and output.kind is not OutputKind.TEXT:
            drop_extras(output.extras, ("output",), self._ledger)
            written["format"] = self._format(output)
        if self._request.verbosity is not None:
            written["verbosity"] = self._request.verbosity
        return written or None

    def _format(self, output: OutputFormat) -> JsonObject:
        if output.kind is OutputKind.JSON:
            return {"type": "json_object"}
        schema = output.schema or {}
        strict = output.strict
        if self._messages:
            closed = for_openai_strict(schema)
            strict = closed is not None
            schema = closed or schema
            if closed is None:
                self._ledger.approximated(
                    Feature.OUTPUT_SCHEMA, ("output", "schema"), "the schema is not enforced strictly"
                )
        return encode_format(
            OutputFormat(
                kind=OutputKind.SCHEMA,
                schema=schema,
                name=output.name or "response",
                description=output.description,
                strict=strict,
            )
        )

    def _end_user(self) -> str | None:
        user = self._request.end_user
        if user is None or len(user) <= SAFETY_IDENTIFIER_LIMIT:
            return user
        self._ledger.approximated(Feature.END_USER, ("end_user",), "longer than 64 characters and therefore hashed")
        return _digest(user)

    def _cache_key(self) -> str | None:
        request = self._request
        if request.cache_key is not None or not self._messages or request.end_user is None:
            return request.cache_key
        self._ledger.approximated(Feature.CACHE_KEY, ("end_user",), "a key for the prompt cache is made of it")
        return _digest(request.end_user)[:32]

    def _cache(self) -> JsonValue:
        cache = self._request.cache
        if cache is not None:
            drop_extras(cache.extras, ("cache",), self._ledger)
        return _home_cache(cache, self._request.prewarm)

    def _tier(self) -> str | None:
        request, ledger = self._request, self._ledger
        if not self._messages:
            return request.service_tier
        if request.speed == "fast":
            ledger.approximated(Feature.SERVICE_TIER, ("speed",), "asked for as the tier 'fast'")
            if request.service_tier is not None:
                ledger.dropped(Feature.SERVICE_TIER, ("service_tier",), "the speed says it")
            return "fast"
        if request.speed is not None and request.speed != "standard":
            ledger.dropped(Feature.SERVICE_TIER, ("speed",), f"this provider knows no speed {request.speed!r}")
        return "default" if request.service_tier == "standard_only" else request.service_tier

    def _compaction(self) -> JsonValue:
        if self._request.compact_at is not None:
            self._ledger.approximated(
                Feature.CONTEXT_MANAGEMENT, ("compact_at",), "the provider compacts in its own way"
            )
        return _context_management(self._request.compact_at)

    def _obfuscation(self) -> JsonValue:
        request = self._request
        if request.obfuscation is not None:
            return _stream_options(request.obfuscation)
        # Padding of deltas helps nobody behind this library; only OpenAI itself knows the option.
        return (
            _stream_options(False) if request.stream and self._messages and self._target.upstream == UPSTREAM else None
        )

    def _include(self, tools: WrittenTools) -> JsonList:
        include: JsonList = [INCLUDE_ENCRYPTED]
        if tools.searches:
            include.append(INCLUDE_SOURCES)
        if self._request.logprobs:
            include.append(INCLUDE_LOGPROBS)
        return include


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
