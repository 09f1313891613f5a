"""Encodes requests of other protocols for a Responses provider (§3, §4, §10, §12, §14, §15). The body is built from an
allow-list. Most requests use few members, so one test skips each group of unused members."""

from __future__ import annotations

from hashlib import sha256

from msgspec import Raw

from dragoman.errors import RefusedError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue, present
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.model.request import CacheOptions, OutputFormat, OutputKind, Reasoning, Request, Sampling, ThinkingMode
from dragoman.protocols.codec import EncodedRequest, TargetModel
from dragoman.protocols.openai_responses.shapes import (
    INCLUDE_ENCRYPTED,
    INCLUDE_LOGPROBS,
    INCLUDE_SOURCES,
    MINIMUM_CAP,
    SAFETY_IDENTIFIER_LIMIT,
    VENDOR,
)
from dragoman.protocols.openai_responses.tool_decoder import encode_format
from dragoman.protocols.openai_responses.tool_encoder import EncodedTools, ToolEncoder, encode_choice
from dragoman.protocols.openai_responses.turns import TurnWriter
from dragoman.rules.effort import DEFAULT, drop_sampling, effort_for, nearest
from dragoman.rules.extras import drop_extras, refused
from dragoman.rules.instructions import without_telemetry
from dragoman.rules.response_metadata import ORDINARY_TIERS
from dragoman.rules.schemas import for_openai_strict
from dragoman.rules.stop_sequences import watched
from dragoman.rules.translated_parts import ReusedParts
from dragoman.rules.updates import effective, placed_tools
from dragoman.wire.json import encode

_ANTHROPIC = "anthropic-messages"
_CHAT = "openai-chat"
_NO_SAMPLING = Sampling()
_NO_REASONING = Reasoning()


def encode_request(
    request: Request, target: TargetModel, ledger: Ledger, reuse: ReusedParts | None = None
) -> EncodedRequest:
    return _RequestEncoder(request, target, ledger, reuse).write()


def _cache_options(cache: CacheOptions | None, prewarm: bool) -> JsonObject:
    written: JsonObject = {}
    if cache is not None:
        mode = None if cache.explicit is None else "explicit" if cache.explicit else "implicit"
        written = present({"mode": mode, "ttl": cache.ttl})
    if prewarm:
        written["prewarm"] = True
    return written


class _RequestEncoder:
    __slots__ = ("_body", "_ledger", "_messages", "_original", "_request", "_reuse", "_target")

    def __init__(self, original: Request, target: TargetModel, ledger: Ledger, reuse: ReusedParts | None) -> None:
        for demand in original.demands:
            # Moderation is the one requirement that both OpenAI protocols can meet.
            if demand.feature is not Feature.MODERATION:
                raise RefusedError(demand.feature.value, demand.member, demand.note)
        if original.choices is not None and original.choices > 1:
            raise refused(Feature.CHOICES, ("choices",), "one answer per request is all there is here")
        self._original = original
        self._request = effective(original)
        self._target = target
        self._ledger = ledger
        self._reuse = reuse
        self._messages = original.origin == _ANTHROPIC
        self._body: JsonObject = {"model": target.model}

    def write(self) -> EncodedRequest:
        request, target, ledger, body = self._request, self._target, self._ledger, self._body
        tools = self._declarations()
        turns = TurnWriter(request, target, ledger, tools.table, None if self._reuse is None else self._reuse.history)
        instructions, leading = self._instructions(turns) if request.instructions else (None, None)
        items = turns.write()
        body["input"] = leading + items if leading else items
        if instructions:
            body["instructions"] = instructions
        if tools.tools:
            body["tools"] = tools.tools if tools.text is None else tools.text
        if request.tool_choice is not None or request.parallel_calls is not None:
            body |= encode_choice(request, tools, target, ledger)
        self._cap()
        if tools.max_tool_calls is not None:
            body["max_tool_calls"] = tools.max_tool_calls
        if request.reasoning != _NO_REASONING:
            self._reasoning()
        if request.output is not None or request.verbosity is not None:
            self._text()
        if request.top_logprobs is not None:
            body["top_logprobs"] = request.top_logprobs
        if request.end_user is not None or request.cache_key is not None:
            self._identity()
        if request.cache is not None or request.prewarm:
            self._cache()
        self._options()
        if request.sampling != _NO_SAMPLING:
            self._sampling()
        include: JsonList = [INCLUDE_ENCRYPTED]
        if tools.searches:
            include.append(INCLUDE_SOURCES)
        if request.logprobs:
            include.append(INCLUDE_LOGPROBS)
        body["include"] = include
        # Storage is never requested for a client that did not request it (E4).
        body["store"] = request.store is True
        if request.extras is not None:
            self._extras(request.extras)
        if request.stop:
            note = "the answer is cut at stop strings after the provider gave it"
            ledger.approximated(Feature.STOP_SEQUENCES, ("stop",), note)
        return EncodedRequest(body=body, table=tools.table, stops=watched(request.stop, ledger))

    def _declarations(self) -> EncodedTools:
        """The declared tools. Tools that were encoded before are not encoded again."""
        request, ledger, reuse = self._request, self._ledger, self._reuse
        if reuse is not None and (known := reuse.known_tools) is not None and known.specs is request.tools:
            declared = known.declarations
            if isinstance(declared, EncodedTools):
                ledger.entries += known.losses
                return declared
        before = len(ledger)
        tools = ToolEncoder(request, self._target, ledger).write(placed_tools(request, self._original, ledger))
        # The limit of calls depends on the request.
        if reuse is not None and tools.tools and request.max_tool_calls is None and tools.max_tool_calls is None:
            tools.text = Raw(encode(tools.tools))
            reuse.tools, reuse.tool_losses = tools, tuple(ledger.entries[before:])
        return tools

    def _instructions(self, turns: TurnWriter) -> tuple[str | None, JsonList | None]:
        """The top-level instructions, or a developer message if a block of them has a breakpoint (§4)."""
        ledger = self._ledger
        blocks = self._request.instructions
        has_breakpoints = self._target.capabilities.breakpoints and any(text.cache is not None for text in blocks)
        texts: list[str] = []
        parts: JsonList = []
        for index, block in enumerate(blocks):
            text = without_telemetry(block.text)
            if text != block.text:
                ledger.approximated(
                    Feature.TELEMETRY_LINE, ("instructions", index), "the client's telemetry line is left out"
                )
            if block.extras is not None:
                drop_extras(block.extras, ("instructions", index), ledger)
            if block.cache is not None and not has_breakpoints:
                turns.content.lose_breakpoint(block.cache, ("instructions", index))
            if not text:
                continue
            texts.append(text)
            if has_breakpoints:
                parts.append(
                    turns.content.add_breakpoint(
                        {"type": "input_text", "text": text}, block.cache, ("instructions", index)
                    )
                )
        if has_breakpoints and parts:
            return None, [{"type": "message", "role": "developer", "content": parts}]
        return "\n\n".join(texts), None

    def _cap(self) -> None:
        request = self._request
        cap = request.max_tokens
        if request.prewarm:
            self._ledger.approximated(Feature.PREWARM, ("prewarm",), "the cache is warmed by its own option")
        elif cap is not None:
            if cap < MINIMUM_CAP:
                note = f"raised to the least cap, {MINIMUM_CAP}"
                self._ledger.approximated(Feature.MAX_TOKENS, ("max_tokens",), note)
                cap = MINIMUM_CAP
            self._body["max_output_tokens"] = cap

    def _sampling(self) -> None:
        sampling, capabilities = self._request.sampling, self._target.capabilities
        rows: tuple[tuple[str, JsonValue, Feature, bool], ...] = (
            ("temperature", sampling.temperature, Feature.TEMPERATURE, capabilities.sampling),
            ("top_p", sampling.top_p, Feature.TOP_P, capabilities.sampling),
            ("frequency_penalty", sampling.frequency_penalty, Feature.PENALTIES, capabilities.penalties),
            ("presence_penalty", sampling.presence_penalty, Feature.PENALTIES, capabilities.penalties),
            ("top_k", sampling.top_k, Feature.TOP_K, False),
            ("seed", sampling.seed, Feature.SAMPLING, False),
            ("logit_bias", sampling.logit_bias, Feature.SAMPLING, False),
        )
        for name, value, feature, taken in rows:
            if value is None:
                continue
            if taken:
                self._body[name] = value
            else:
                self._ledger.dropped(feature, ("sampling", name), f"this provider takes no {name}")
        for name in sampling.others or ():
            self._ledger.dropped(Feature.SAMPLING, ("sampling", "others", name), f"this provider takes no {name}")
        reasoning = self._body.get("reasoning")
        if isinstance(reasoning, dict) and not capabilities.sampling_with_reasoning:
            effort = reasoning.get("effort")
            drop_sampling(self._body, effort if isinstance(effort, str) else None, self._ledger)

    def _reasoning(self) -> None:
        drop_extras(self._request.reasoning.extras, ("reasoning",), self._ledger)
        effort = self._effort()
        written = present({"effort": effort, "summary": self._summary(effort)})
        if written:
            self._body["reasoning"] = written

    def _effort(self) -> str | None:
        """The effort by E2. Of another protocol's values, only the declared ones or the three common ones are sent."""
        reasoning, capabilities, ledger = self._request.reasoning, self._target.capabilities, self._ledger
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
        if effort == DEFAULT and DEFAULT not in (capabilities.efforts or ()):
            ledger.approximated(Feature.EFFORT, at, "left out: what the model does by itself is its default")
            return None
        if capabilities.reasons is False:
            ledger.dropped(Feature.EFFORT, at, "the model does not reason")
            return None
        if not self._messages and capabilities.efforts is None:
            return effort
        if off and capabilities.efforts is None and capabilities.reasons is not True:
            ledger.approximated(Feature.EFFORT, at, "nothing is sent to a model that is not known to reason")
            return None
        chosen = nearest(effort, capabilities.efforts)
        if chosen != effort or reasoning.mode is ThinkingMode.BETWEEN_TOOLS:
            ledger.approximated(Feature.EFFORT, at, f"{effort} is asked for as {chosen}")
        return chosen

    def _summary(self, effort: str | None) -> str | None:
        reasoning = self._request.reasoning
        if not self._messages:
            if reasoning.summary is not None:
                return reasoning.summary
            return "auto" if effort is not None and effort != "none" else None
        if reasoning.mode not in (ThinkingMode.ADAPTIVE, ThinkingMode.ENABLED) and reasoning.display is None:
            return None
        if reasoning.display == "omitted" or not self._target.capabilities.display:
            return None
        if reasoning.display not in (None, "summarized"):
            self._ledger.approximated(Feature.THINKING_DISPLAY, ("reasoning", "display"), "shown as a summary")
        return "auto"

    def _text(self) -> None:
        output = self._request.output
        written: JsonObject = {}
        if output is not None and output.kind is not OutputKind.TEXT:
            drop_extras(output.extras, ("output",), self._ledger)
            written["format"] = self._format(output)
        if self._request.verbosity is not None:
            written["verbosity"] = self._request.verbosity
        if written:
            self._body["text"] = written

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

    def _identity(self) -> None:
        request, body, ledger = self._request, self._body, self._ledger
        user, key = request.end_user, request.cache_key
        if user is not None:
            body["safety_identifier"] = user
            if len(user) > SAFETY_IDENTIFIER_LIMIT:
                ledger.approximated(Feature.END_USER, ("end_user",), "longer than 64 characters and therefore hashed")
                body["safety_identifier"] = _digest(user)
            if key is None and self._messages:
                ledger.approximated(Feature.CACHE_KEY, ("end_user",), "a key for the prompt cache is made of it")
                key = _digest(user)[:32]
        if key is not None:
            body["prompt_cache_key"] = key

    def _cache(self) -> None:
        cache = self._request.cache
        if cache is not None:
            drop_extras(cache.extras, ("cache",), self._ledger)
            if cache.retention is not None:
                self._body["prompt_cache_retention"] = cache.retention
        options = _cache_options(cache, self._request.prewarm)
        if options:
            self._body["prompt_cache_options"] = options

    def _options(self) -> None:
        """Members that a single test finds absent."""
        request, body = self._request, self._body
        if request.metadata is not None:
            body["metadata"] = request.metadata
        if request.service_tier is not None or request.speed is not None:
            tier = self._tier() if self._messages else self._chat_tier(request.service_tier)
            if tier is not None:
                body["service_tier"] = tier
        if request.moderation is not None:
            body["moderation"] = request.moderation
        if request.compact_at is not None:
            note = "the provider compacts in its own way"
            self._ledger.approximated(Feature.CONTEXT_MANAGEMENT, ("compact_at",), note)
            body["context_management"] = [{"type": "compaction", "compact_threshold": request.compact_at}]
        if request.stream:
            body["stream"] = True
        if request.obfuscation is not None:
            body["stream_options"] = {"include_obfuscation": request.obfuscation}
        elif request.stream and self._messages and self._target.vendor == VENDOR:
            # Padding of deltas is useless behind this library. Only OpenAI has the option.
            body["stream_options"] = {"include_obfuscation": False}

    def _chat_tier(self, tier: str | None) -> str | None:
        """A tier of a Chat client. Other vendors' names of the ordinary tier are mapped."""
        mapped = ORDINARY_TIERS.get(tier, tier) if tier is not None else None
        if mapped != tier:
            self._ledger.approximated(Feature.SERVICE_TIER, ("service_tier",), f"{tier!r} is called {mapped!r} here")
        return mapped

    def _tier(self) -> str | None:
        request, ledger = self._request, self._ledger
        if request.speed == "fast":
            ledger.approximated(Feature.SERVICE_TIER, ("speed",), "asked for as the tier 'fast'")
            if request.service_tier not in (None, "auto"):
                ledger.dropped(Feature.SERVICE_TIER, ("service_tier",), "the speed says it")
            return "fast"
        if request.speed is not None and request.speed != "standard":
            ledger.dropped(Feature.SERVICE_TIER, ("speed",), f"this provider knows no speed {request.speed!r}")
        return "default" if request.service_tier == "standard_only" else request.service_tier

    def _extras(self, extras: Extras) -> None:
        """Members that only the client's protocol has. Both OpenAI protocols have the older name of the end user
        (§3)."""
        user = extras.fields.get("user")
        if extras.origin == _CHAT and isinstance(user, str):
            self._body["user"] = user
            others: JsonObject = {key: value for key, value in extras.fields.items() if key != "user"}
            extras = Extras(origin=_CHAT, fields=others)
        drop_extras(extras, (), self._ledger)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
