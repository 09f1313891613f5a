"""Encodes requests of other protocols for a Chat provider, member by member (mapping.md §3)."""

from __future__ import annotations

from hashlib import sha256

from msgspec import Raw

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue, present
from dragoman.model.losses import Ledger, Place
from dragoman.model.request import CacheOptions, OutputFormat, OutputKind, Reasoning, Request, Sampling, ThinkingMode
from dragoman.protocols.codec import EncodedRequest, TargetModel
from dragoman.protocols.openai_chat.shapes import ANTHROPIC, JSON_ONLY, USER_ID_LIMIT
from dragoman.protocols.openai_chat.tool_encoder import EncodedTools, ToolEncoder, encode_choice, is_forced
from dragoman.protocols.openai_chat.turns import TurnEncoder
from dragoman.protocols.openai_chat.usual_turns import encode_usual
from dragoman.rules.conversation import arrange, drop_message_extras
from dragoman.rules.effort import drop_sampling, effort_for, nearest
from dragoman.rules.extras import drop_extras, refuse_blocking, refuse_demands, refused
from dragoman.rules.schemas import for_openai_strict
from dragoman.rules.stop_sequences import watched
from dragoman.rules.translated_parts import ReusedParts
from dragoman.rules.updates import effective, placed_tools
from dragoman.wire.json import encode, encode_text

_NO_SAMPLING = Sampling()
_NO_REASONING = Reasoning()

# Members that some servers reject, with the resulting loss. The gateway sets stream options itself.
REFUSABLE: dict[str, tuple[Feature, Place] | None] = {
    "frequency_penalty": (Feature.PENALTIES, ("sampling", "frequency_penalty")),
    "presence_penalty": (Feature.PENALTIES, ("sampling", "presence_penalty")),
    "seed": (Feature.SAMPLING, ("sampling", "seed")),
    "logit_bias": (Feature.SAMPLING, ("sampling", "logit_bias")),
    "logprobs": (Feature.LOGPROBS, ("logprobs",)),
    "top_logprobs": (Feature.LOGPROBS, ("top_logprobs",)),
    "parallel_tool_calls": (Feature.PARALLEL_CALLS, ("parallel_calls",)),
    "user": (Feature.END_USER, ("end_user",)),
    "stream_options": None,
}


def _put(body: JsonObject, key: str, value: JsonValue) -> None:
    if value is not None:
        body[key] = value


def encode_request(
    request: Request, target: TargetModel, ledger: Ledger, reuse: ReusedParts | None = None
) -> EncodedRequest:
    """Encode a request of another protocol. Every inexact member is in the ledger."""
    return _RequestEncoder(request, target, ledger, reuse).encode()


class _RequestEncoder:
    def __init__(self, request: Request, target: TargetModel, ledger: Ledger, reuse: ReusedParts | None) -> None:
        refuse_demands(request)
        if request.prewarm:
            raise refused(Feature.PREWARM, ("prewarm",), "this provider has no cache pre-warming")
        self._original = request
        self._request = effective(request)
        self._target = target
        self._capabilities = target.capabilities
        self._ledger = ledger
        self._reuse = reuse
        self._closing: str | None = None
        self._body: JsonObject = {"model": target.model, "messages": []}

    def encode(self) -> EncodedRequest:
        request, ledger, body = self._request, self._ledger, self._body
        tools = self._declarations()
        # Most requests use few members: unused groups are skipped.
        if request.max_tokens is not None:
            body["max_completion_tokens" if self._capabilities.max_completion_tokens else "max_tokens"] = (
                request.max_tokens
            )
        self._scalars()
        if request.end_user is not None:
            self._user(request.end_user)
        stops = self._stops() if request.stop else ()
        if request.stream:
            self._stream()
        self._tools(tools)
        if request.reasoning != _NO_REASONING:
            self._reasoning()
        if self._capabilities.thinking_switch:
            self._switch()
        if request.output is not None:
            self._output(request.output)
        if request.cache is not None:
            self._caching(request.cache)
        if self._capabilities.refuses:
            self._leave_out()
        history = None if self._reuse is None else self._reuse.history
        encoder = TurnEncoder(self._target, tools.table, ledger, history)
        usual = encode_usual(request.messages, self._target, tools.table) if history is None else None
        if usual:
            messages = encoder.encode_behind(request.instructions, usual, request.messages, self._closing)
        else:
            drop_message_extras(request.messages, ledger, history)
            turns = arrange(request.messages, ledger, history=history)
            messages = encoder.encode(request.instructions, turns, self._closing)
        body["messages"] = split_parallel_calls(messages, ledger) if self._capabilities.results_apart else messages
        if request.extras is not None:
            drop_extras(request.extras, (), ledger)
        return EncodedRequest(body=body, table=tools.table, stops=stops)

    def _declarations(self) -> EncodedTools:
        """The declared tools. Tools that were encoded before are not encoded again."""
        request, ledger, reuse = self._request, self._ledger, self._reuse
        if reuse is not None and (known := reuse.known_tools) is not None and known.specs is request.tools:
            declared = known.declarations
            if isinstance(declared, EncodedTools):
                ledger.entries += known.losses
                return declared.copy()
        before = len(ledger)
        tools = ToolEncoder(request, self._target, ledger).encode(placed_tools(request, self._original, ledger))
        if reuse is not None and tools.written:
            tools.text = Raw(encode(tools.written))
            reuse.tools, reuse.tool_losses = tools.copy(), tuple(ledger.entries[before:])
        return tools

    def _drop(self, feature: Feature, at: Place, note: str = "this provider is not known to take it") -> None:
        self._ledger.dropped(feature, at, note)

    def _leave_out(self) -> None:
        for name in self._capabilities.refuses:
            if name in REFUSABLE and self._body.pop(name, None) is not None:
                reported = REFUSABLE[name]
                if reported is not None:
                    self._drop(*reported, "this provider refuses it")

    def _scalars(self) -> None:
        request, body = self._request, self._body
        if request.sampling != _NO_SAMPLING:
            self._sampling(request.sampling)
        if request.logprobs:
            body["logprobs"] = True
            _put(body, "top_logprobs", request.top_logprobs)
        elif request.top_logprobs:
            self._drop(Feature.LOGPROBS, ("top_logprobs",), "log probabilities were not asked for")
        if request.verbosity is not None or request.moderation is not None or request.cache_key is not None:
            self._official()
        if request.service_tier is not None or request.speed is not None:
            self._tier()
        if request.metadata is not None:
            self._drop(Feature.METADATA, ("metadata",), "taken only with stored completions")
        if request.store:
            self._drop(Feature.STORE, ("store",), "nothing is stored at the provider")
        if request.compact_at is not None:
            self._drop(Feature.CONTEXT_MANAGEMENT, ("compact_at",), "there is no compaction here")
        if request.max_tool_calls is not None:
            self._drop(Feature.MAX_TOOL_CALLS, ("max_tool_calls",), "there is no such limit")

    def _official(self) -> None:
        """Members that only the vendor's own service is known to accept."""
        request, official = self._request, self._capabilities.official
        if not official:
            refuse_blocking(request)
        for feature, name, key, value in (
            (Feature.VERBOSITY, "verbosity", "verbosity", request.verbosity),
            (Feature.MODERATION, "moderation", "moderation", request.moderation),
            (Feature.CACHE_KEY, "cache_key", "prompt_cache_key", request.cache_key),
        ):
            if value is not None and official:
                self._body[key] = value
            elif value is not None:
                self._drop(feature, (name,))

    def _sampling(self, sampling: Sampling) -> None:
        capabilities = self._capabilities
        for feature, key, number, taken in (
            (Feature.TEMPERATURE, "temperature", sampling.temperature, capabilities.sampling),
            (Feature.TOP_P, "top_p", sampling.top_p, capabilities.sampling),
            (Feature.TOP_K, "top_k", sampling.top_k, capabilities.top_k),
            (Feature.PENALTIES, "frequency_penalty", sampling.frequency_penalty, capabilities.penalties),
            (Feature.PENALTIES, "presence_penalty", sampling.presence_penalty, capabilities.penalties),
            (Feature.SAMPLING, "seed", sampling.seed, True),
            (Feature.SAMPLING, "logit_bias", sampling.logit_bias, True),
        ):
            if number is not None and taken:
                self._body[key] = number
            elif number is not None:
                self._drop(feature, ("sampling", key), "this model does not take it")
        for key in sampling.others or {}:
            self._drop(Feature.SAMPLING, ("sampling", "others", key))

    def _tier(self) -> None:
        request = self._request
        tier = request.service_tier
        if tier is not None and not self._capabilities.official:
            if tier != "auto":
                self._drop(Feature.SERVICE_TIER, ("service_tier",))
        elif tier is not None:
            written = _TIERS.get(tier, tier)
            if written != tier and tier != "standard_only":
                self._ledger.approximated(Feature.SERVICE_TIER, ("service_tier",), f"written as {written!r}")
            self._body["service_tier"] = written
        if request.speed == "fast" and self._capabilities.official:
            self._body["service_tier"] = "fast"
            self._ledger.approximated(Feature.SERVICE_TIER, ("speed",), "written as the tier 'fast'")
        elif request.speed not in (None, "standard"):
            self._drop(Feature.SERVICE_TIER, ("speed",))

    def _user(self, user: str) -> None:
        """The end user, shortened. For Messages clients, a cache routing key is derived from it."""
        digest = sha256(user.encode("utf-8", "surrogatepass")).hexdigest()
        if len(user) > USER_ID_LIMIT:
            self._ledger.approximated(Feature.END_USER, ("end_user",), "longer than 64 characters: its SHA-256 is sent")
            user = digest
        if not self._capabilities.official:
            self._body["user"] = user
            return
        self._body["safety_identifier"] = user
        if self._request.origin == ANTHROPIC and "prompt_cache_key" not in self._body:
            self._ledger.approximated(Feature.CACHE_KEY, ("end_user",), "a prompt cache key is made of the user id")
            self._body["prompt_cache_key"] = digest[:32]

    def _stops(self) -> tuple[str, ...]:
        stop, limit = self._request.stop, self._capabilities.stop_limit
        sent = stop if limit is None else stop[:limit]
        if sent:
            self._body["stop"] = [*sent]
        if len(sent) < len(stop):
            self._ledger.approximated(
                Feature.STOP_SEQUENCES, ("stop",), f"{len(stop) - len(sent)} stop strings are matched by this library"
            )
        return watched(stop[len(sent) :], self._ledger)

    def _stream(self) -> None:
        request = self._request
        options: JsonObject = {"include_usage": True}
        obfuscation = request.obfuscation
        if self._capabilities.official:
            if request.origin == ANTHROPIC:
                obfuscation = False
            _put(options, "include_obfuscation", obfuscation)
        elif obfuscation:
            self._drop(Feature.STREAM_OPTIONS, ("obfuscation",))
        self._body["stream"] = True
        self._body["stream_options"] = options

    def _tools(self, tools: EncodedTools) -> None:
        request, body = self._request, self._body
        choice = request.tool_choice
        if tools.search is not None:
            body["web_search_options"] = tools.search
        if not tools.written:
            if choice is not None:
                self._drop(Feature.TOOL_CHOICE, ("tool_choice",), "there are no tools to choose from")
            if request.parallel_calls is False:
                self._drop(Feature.PARALLEL_CALLS, ("parallel_calls",), "there are no tools to call")
            return
        if choice is not None:
            body["tool_choice"] = encode_choice(choice, tools, self._target, self._ledger)
        body["tools"] = tools.written if tools.text is None else tools.text
        if request.parallel_calls is False:
            body["parallel_tool_calls"] = False

    def _reasoning(self) -> None:
        reasoning = self._request.reasoning
        for name, shown in (("display", reasoning.display), ("summary", reasoning.summary)):
            if shown is not None:
                self._drop(Feature.THINKING_DISPLAY, ("reasoning", name), "what is shown of reasoning is not settable")
        drop_extras(reasoning.extras, ("reasoning",), self._ledger)
        effort = self._effort()
        if effort is None or (effort == "none" and self._capabilities.thinking_switch):
            return
        at = ("updates", "effort") if self._original.updates.effort is not None else ("reasoning",)
        if self._capabilities.efforts == () or self._capabilities.reasons is False:
            self._drop(Feature.EFFORT, at, "this model takes no reasoning effort")
            return
        choice = self._request.tool_choice
        if (
            choice is not None
            and is_forced(choice)
            and not self._capabilities.forced_with_thinking
            and effort != "none"
        ):
            self._ledger.approximated(Feature.EFFORT, at, "a forced tool choice excludes reasoning here")
            return
        level = effort
        if self._capabilities.efforts is not None or self._request.origin == ANTHROPIC:
            level = nearest(effort, self._capabilities.efforts)
        if level != effort:
            self._ledger.approximated(Feature.EFFORT, at, f"{effort!r} is written as {level!r}")
        self._body["reasoning_effort"] = level
        if not self._capabilities.sampling_with_reasoning:
            drop_sampling(self._body, level, self._ledger)

    def _switch(self) -> None:
        """The reasoning switch, for servers that have one apart from the effort."""
        reasoning = self._request.reasoning
        off = reasoning.mode in (ThinkingMode.DISABLED, ThinkingMode.BETWEEN_TOOLS) or reasoning.effort == "none"
        called = self._body.get("tool_choice") not in (None, "auto", "none")
        if off or (called and not self._capabilities.forced_with_thinking):
            # These servers reason by default, and then reject a forced call.
            self._body["thinking"] = {"type": "disabled"}
        elif reasoning.mode is not None or reasoning.effort is not None or reasoning.budget is not None:
            self._body["thinking"] = {"type": "enabled"}

    def _effort(self) -> str | None:
        """The requested effort. A Messages client may express it as a mode or a budget (E2)."""
        reasoning = self._request.reasoning
        if reasoning.mode in (ThinkingMode.DISABLED, ThinkingMode.BETWEEN_TOOLS):
            if reasoning.mode is ThinkingMode.BETWEEN_TOOLS:
                self._ledger.approximated(Feature.EFFORT, ("reasoning", "mode"), "written as no reasoning")
            unknown = self._capabilities.efforts is None and self._capabilities.reasons is not True
            return None if unknown else "none"
        if reasoning.effort is None and reasoning.budget is not None:
            self._ledger.approximated(Feature.EFFORT, ("reasoning", "budget"), "a budget is written as an effort")
            return effort_for(reasoning.budget)
        if reasoning.budget is not None:
            self._drop(Feature.EFFORT, ("reasoning", "budget"), "the effort says it")
        return reasoning.effort

    def _output(self, output: OutputFormat) -> None:
        capabilities, ledger = self._capabilities, self._ledger
        if self._original.updates.output is not None and self._original.output is not None:
            ledger.approximated(Feature.CONFIGURATION_UPDATE, ("output",), "replaced by a later update")
        if output.kind is OutputKind.TEXT:
            return
        at: Place = ("updates", "output") if self._original.updates.output is not None else ("output",)
        drop_extras(output.extras, at, ledger)
        if output.kind is OutputKind.SCHEMA and capabilities.output_schema:
            self._body["response_format"] = {"type": "json_schema", "json_schema": self._schema(output, at)}
            return
        if capabilities.json_mode:
            self._body["response_format"] = {"type": "json_object"}
        if output.kind is OutputKind.SCHEMA:
            self._closing = f"{JSON_ONLY}\nIt must match this JSON schema: {encode_text(output.schema or {})}"
            ledger.approximated(Feature.OUTPUT_SCHEMA, at, "asked for by instruction")
        elif not capabilities.json_mode:
            self._closing = JSON_ONLY
            ledger.approximated(Feature.JSON_MODE, at, "asked for by instruction")

    def _schema(self, output: OutputFormat, at: Place) -> JsonObject:
        name = output.name or "response"
        written = present({"name": name, "description": output.description, "schema": output.schema})
        if self._request.origin != ANTHROPIC:
            _put(written, "strict", output.strict)
            return written
        closed = for_openai_strict(output.schema or {})
        written["strict"] = closed is not None
        if closed is not None:
            written["schema"] = closed
        else:
            self._ledger.approximated(Feature.OUTPUT_SCHEMA, at, "outside the strict subset: asked for, not enforced")
        return written

    def _caching(self, cache: CacheOptions) -> None:
        drop_extras(cache.extras, ("cache",), self._ledger)
        if cache.automatic is not None and cache.automatic.ttl is not None:
            self._drop(
                Feature.CACHE_BREAKPOINT, ("cache", "automatic", "ttl"), "prefixes are cached without being asked"
            )
        if not self._capabilities.official:
            for name, given in (("explicit", cache.explicit), ("ttl", cache.ttl), ("retention", cache.retention)):
                if given is not None:
                    self._drop(Feature.CACHE_BREAKPOINT, ("cache", name))
            return
        options: JsonObject = {}
        if cache.explicit is not None:
            options["mode"] = "explicit" if cache.explicit else "implicit"
        if cache.ttl is not None:
            options["ttl"] = "30m"
            if cache.ttl != "30m":
                self._ledger.approximated(Feature.CACHE_BREAKPOINT, ("cache", "ttl"), "caches live 30 minutes here")
        if options:
            self._body["prompt_cache_options"] = options
        _put(self._body, "prompt_cache_retention", cache.retention)


_TIERS = {"standard_only": "default", "ultrafast": "fast"}


def split_parallel_calls(messages: JsonList, ledger: Ledger) -> JsonList:
    """Split messages so that none has two calls with results."""
    sequence: JsonList = []
    at = 0
    while at < len(messages):
        message = messages[at]
        end = at + 1
        while end < len(messages) and _result(messages[end]) is not None:
            end += 1
        calls = _calls(message)
        results = {_result(messages[place]): messages[place] for place in range(at + 1, end)}
        if (
            isinstance(message, dict)
            and len(calls) > 1
            and results.keys() == calls.keys()
            and len(calls) == end - at - 1
        ):
            ledger.approximated(
                Feature.PARALLEL_CALLS, ("messages",), "calls made at once are told one after the other"
            )
            sequence += _pairs(message, calls, results)
        else:
            sequence += messages[at:end]
        at = end
    return sequence


def _pairs(message: JsonObject, calls: dict[str, JsonValue], results: dict[str | None, JsonValue]) -> JsonList:
    pairs: JsonList = []
    for call_id, call in calls.items():
        # Text and reasoning before the calls are sent once.
        opening: JsonObject = {"role": "assistant", "content": None} if pairs else message
        pairs += [{**opening, "tool_calls": [call]}, results[call_id]]
    return pairs


def _calls(message: JsonValue) -> dict[str, JsonValue]:
    value = message.get("tool_calls") if isinstance(message, dict) else None
    calls = value if isinstance(value, list) else []
    return {str(call["id"]): call for call in calls if isinstance(call, dict)}


def _result(message: JsonValue) -> str | None:
    if isinstance(message, dict) and message.get("role") == "tool":
        return str(message.get("tool_call_id"))
    return None
