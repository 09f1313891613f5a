"""Decodes requests of this protocol (§3, §4, §12, §14, §15). `request_encoder` encodes those of others."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Extras, Text
from dragoman.model.request import CacheOptions, Demand, Message, Reasoning, Request, Role, Sampling, Updates
from dragoman.model.tools import FunctionTool, TextTool, ToolSpec
from dragoman.protocols.openai_responses.items import InputReader
from dragoman.protocols.openai_responses.shapes import INCLUDE_LOGPROBS, NAME
from dragoman.protocols.openai_responses.tool_decoder import decode_choice, decode_format, decode_tools
from dragoman.rules.translated_parts import NOTHING_KNOWN, KnownParts
from dragoman.wire.fields import Fields

_DISTINCTIVE_MEMBERS = ("input", "instructions", "previous_response_id", "conversation", "prompt")

# Members whose value the model takes unchanged: its member, and the type of the value.
_PLAIN: dict[str, tuple[str, type]] = {
    "model": ("model", str),
    "parallel_tool_calls": ("parallel_calls", bool),
    "max_output_tokens": ("max_tokens", int),
    "stream": ("stream", bool),
    "top_logprobs": ("top_logprobs", int),
    "metadata": ("metadata", dict),
    "service_tier": ("service_tier", str),
    "store": ("store", bool),
    "prompt_cache_key": ("cache_key", str),
    "moderation": ("moderation", dict),
    "max_tool_calls": ("max_tool_calls", int),
    "previous_response_id": ("continues", str),
}
_CAPS = (("max_output_tokens", 1), ("max_tool_calls", 0))
_TYPES = {str: "string", bool: "boolean", int: "integer", dict: "object"}
# Members that may require a feature that only this protocol has.
_DEMANDING = frozenset({"previous_response_id", "conversation", "prompt", "background", "multi_agent", "moderation"})

_BLANK = Request(origin=NAME, model="")


def recognises(body: JsonObject) -> bool:
    return "messages" not in body and any(member in body for member in _DISTINCTIVE_MEMBERS)


class _Draft:
    __slots__ = ("extras", "fields", "known", "members", "reader", "spellings", "tools")

    def __init__(self, body: JsonObject, known: KnownParts) -> None:
        self.fields = Fields(body)
        self.known = known
        # Decoded members by name, to be set over an empty request.
        self.members: dict[str, object] = {}
        self.extras: JsonObject = {}
        self.spellings: list[str] = []
        self.reader = InputReader()
        self.tools: tuple[ToolSpec, ...] = ()


def decode_request(body: JsonObject, known: KnownParts = NOTHING_KNOWN) -> Request:
    """Decode a request. Nothing is adapted and nothing is lost."""
    draft = _Draft(body, known)
    members, extras = draft.members, draft.extras
    for key, value in body.items():
        plain = _PLAIN.get(key)
        if plain is not None:
            if type(value) is plain[1]:
                members[plain[0]] = value
            elif value is None:
                extras[key] = None
            else:
                members[plain[0]] = _integer(draft.fields, key, value, plain[1])
        else:
            reader = _READERS.get(key) if value is not None else None
            if reader is None:
                extras[key] = value
            else:
                reader(draft, key)
    for key, least in _CAPS:
        if key in body:
            draft.fields.optional_cap(key, least)
    if not body.get("input"):
        _check_input(body)
    items = draft.reader
    demands = [] if body.keys().isdisjoint(_DEMANDING) else _demands(body)
    if demands or items.demands:
        members["demands"] = (*demands, *items.demands)
    if items.compacts:
        members["compacts"] = True
    if items.tools or items.effort is not None or items.output is not None:
        members["updates"] = _updates(draft)
    if draft.spellings:
        members["spellings"] = tuple(draft.spellings)
    if extras:
        members["extras"] = Extras(origin=NAME, fields=extras)
    return replace(_BLANK, **members)


def _integer(fields: Fields, key: str, value: JsonValue, expected: type) -> int:
    """An integer in another spelling (`4.0`). Every other value has the wrong type."""
    number = fields.optional_integer(key) if expected is int else None
    if number is None:
        raise fields.fail(key, _TYPES[expected], value)
    return number


def _check_input(body: JsonObject) -> None:
    """Check a request without input: it must continue something that is stored."""
    if isinstance(body.get("input"), str):
        return
    if all(body.get(member) is None for member in ("previous_response_id", "conversation", "prompt")):
        raise WireError("/input", "a string or items", "an empty array" if body.get("input") == [] else "nothing")


def _input(draft: _Draft, key: str) -> None:
    value = draft.fields.value[key]
    if type(value) is str:
        draft.members["messages"] = (Message(role=Role.USER, parts=(Text(text=value),)),)
        return
    if type(value) is not list:
        raise draft.fields.fail(key, "string or array", value)
    draft.members["messages"] = draft.reader.messages(value, (None, key), draft.known.messages)


def _tools(draft: _Draft, key: str) -> None:
    known = draft.known.tools
    draft.members["tools"] = draft.tools = decode_tools(draft.fields, key) if known is None else known


def _instructions(draft: _Draft, key: str) -> None:
    draft.members["instructions"] = (Text(text=draft.fields.text(key)),)


def _tool_choice(draft: _Draft, key: str) -> None:
    draft.members["tool_choice"] = decode_choice(draft.fields, key)


def _conversation(draft: _Draft, key: str) -> None:
    draft.members["conversation"] = draft.fields.value[key]


def _background(draft: _Draft, key: str) -> None:
    draft.extras[key] = draft.fields.optional_flag(key)


def _sampling(draft: _Draft, key: str) -> None:
    """All sampling numbers at once, whichever of them comes first."""
    del key
    if "sampling" not in draft.members:
        number = draft.fields.optional_number
        draft.members["sampling"] = Sampling(
            temperature=number("temperature"),
            top_p=number("top_p"),
            frequency_penalty=number("frequency_penalty"),
            presence_penalty=number("presence_penalty"),
        )


def _include(draft: _Draft, key: str) -> None:
    include = draft.fields.texts(key)
    if include:
        draft.extras[key] = list(include)
    if INCLUDE_LOGPROBS in include:
        draft.members["logprobs"] = True


def _reasoning(draft: _Draft, key: str) -> None:
    reasoning = draft.fields.fields(key)
    effort, summary = reasoning.optional_text("effort"), reasoning.optional_text("summary")
    extras = reasoning.rest(NAME)
    if summary is None:
        summary = reasoning.optional_text("generate_summary")
    draft.members["reasoning"] = Reasoning(effort=effort, summary=summary, extras=extras)


def _stream_options(draft: _Draft, key: str) -> None:
    options = draft.fields.fields(key)
    draft.members["obfuscation"] = options.optional_flag("include_obfuscation")
    _add_extras(draft, key, options)


def _text(draft: _Draft, key: str) -> None:
    text = draft.fields.fields(key)
    draft.members["output"] = decode_format(text)
    draft.members["verbosity"] = text.optional_text("verbosity")
    _add_extras(draft, key, text)


def _add_extras(draft: _Draft, key: str, fields: Fields) -> None:
    rest = fields.rest(NAME)
    if rest is not None:
        draft.extras[key] = rest.fields


def _end_user(draft: _Draft, key: str) -> None:
    """The end user, perhaps in the older member. Next to the newer one, the older one stays in the extras."""
    name = draft.fields.text(key)
    if key == "user":
        if draft.fields.value.get("safety_identifier") is not None:
            draft.extras[key] = name
            return
        draft.spellings.append(key)
    draft.members["end_user"] = name


def _cache(draft: _Draft, key: str) -> None:
    """Options and retention of the prompt cache, whichever of the two comes first."""
    del key
    fields = draft.fields
    retention = fields.optional_text("prompt_cache_retention")
    options = fields.optional_fields("prompt_cache_options") or Fields({})
    mode = options.choice("mode", ("implicit", "explicit"))
    # Only an explicit false is stored.
    prewarm = options.optional_flag("prewarm") if options.value.get("prewarm") is not False else False
    cache = CacheOptions(
        explicit=None if mode is None else mode == "explicit",
        ttl=options.optional_text("ttl"),
        retention=retention,
        extras=options.rest(NAME),
    )
    draft.members["cache"] = None if cache == CacheOptions() else cache
    draft.members["prewarm"] = prewarm is True


def _context_management(draft: _Draft, key: str) -> None:
    """The threshold of the only compaction. Other values stay in the extras."""
    entries = draft.fields.optional_list(key)
    match entries:
        case [{"type": "compaction", "compact_threshold": int(threshold), **others}] if (
            not others and type(threshold) is int and threshold > 0
        ):
            draft.members["compact_at"] = threshold
        case _:
            draft.extras[key] = entries


_READERS: dict[str, Callable[[_Draft, str], None]] = {
    "input": _input,
    "tools": _tools,
    "instructions": _instructions,
    "tool_choice": _tool_choice,
    "include": _include,
    "reasoning": _reasoning,
    "temperature": _sampling,
    "top_p": _sampling,
    "frequency_penalty": _sampling,
    "presence_penalty": _sampling,
    "text": _text,
    "stream_options": _stream_options,
    "safety_identifier": _end_user,
    "user": _end_user,
    "prompt_cache_options": _cache,
    "prompt_cache_retention": _cache,
    "context_management": _context_management,
    "conversation": _conversation,
    "background": _background,
}


def _updates(draft: _Draft) -> Updates:
    """The updates in the items: of their tools only the undeclared ones (T9)."""
    items = draft.reader
    declared = {_identity(tool) for tool in draft.tools}
    fresh: list[ToolSpec] = []
    for tool in items.tools:
        identity = _identity(tool)
        if identity is None or identity not in declared:
            # A deferred tool is already declared when a search finds it.
            declared.add(identity)
            fresh.append(tool)
    return Updates(tools=tuple(fresh), effort=items.effort, output=items.output)


def _identity(tool: ToolSpec) -> tuple[str | None, str] | None:
    if isinstance(tool, FunctionTool | TextTool):
        return tool.namespace.name if tool.namespace is not None else None, tool.name
    return None


def _demands(body: JsonObject) -> list[Demand]:
    """Requirements that only this protocol can meet. The members stay in the extras."""
    demands: list[Demand] = []
    continues = body.get("previous_response_id")
    if continues is not None:
        note = f"the stored response {continues!r} is not known here; send the whole conversation"
        demands.append(Demand(feature=Feature.STORED_STATE, member="previous_response_id", note=note))
    if body.get("conversation") is not None:
        note = "stored conversations are not known here"
        demands.append(Demand(feature=Feature.STORED_STATE, member="conversation", note=note))
    if body.get("prompt") is not None:
        note = "stored prompts are not known to this provider"
        demands.append(Demand(feature=Feature.PROMPT_TEMPLATE, member="prompt", note=note))
    if body.get("background") is True:
        note = "responses cannot run in the background here"
        demands.append(Demand(feature=Feature.STORED_STATE, member="background", note=note))
    match body.get("multi_agent"):
        case {"enabled": True}:
            note = "several agents in one response are not known to this provider"
            demands.append(Demand(feature=Feature.UNKNOWN_FIELD, member="multi_agent", note=note))
    match body.get("moderation"):
        case {"policy": {"input": {"mode": "block"}}} | {"policy": {"output": {"mode": "block"}}} | {"policy": "block"}:
            note = "a moderation policy that blocks is not known to this provider"
            demands.append(Demand(feature=Feature.MODERATION, member="moderation", note=note))
    return demands
