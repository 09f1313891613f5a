"""Requests: decoding, and encoding of what was said in this protocol; `request_abroad` writes the others."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras, Foreign, Part, Text
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
from dragoman.model.tools import FunctionTool, ToolSpec
from dragoman.protocols.anthropic_messages.parts import (
    decode_cache,
    decode_content,
    encode_cache,
    encode_content,
)
from dragoman.protocols.anthropic_messages.request_abroad import encode_foreign_request, encode_management
from dragoman.protocols.anthropic_messages.shapes import COMPACT_EDIT, NAME
from dragoman.protocols.anthropic_messages.tools import (
    decode_choice,
    decode_tool,
    decode_tools,
    encode_home_choice,
    encode_home_tools,
)
from dragoman.protocols.codec import Encoded, Target
from dragoman.rules.toolnames import ToolTable
from dragoman.wire.fields import Fields

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_MODES = {mode.value: mode for mode in ThinkingMode}
# Blocks that no other protocol's messages hold.
_OWN_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image"})
_EFFORT_APPLIED = "this effort counts for the whole request"
_EFFORT_REPLACED = "a later effort replaces this one"
# The kind of part that stands for settings on a system message.
SETTINGS = "output_config"


def recognises(body: JsonObject) -> bool:
    """Whether a body looks like a Messages request; Chat requests have `messages` too."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return False
    if any(key in body for key in ("system", "stop_sequences", "thinking", "output_config", "mcp_servers", "top_k")):
        return "functions" not in body and "response_format" not in body
    tools = body.get("tools")
    if isinstance(tools, list) and tools:
        first = tools[0]
        return isinstance(first, dict) and ("input_schema" in first or not {"function", "parameters"} & first.keys())
    for message in messages:
        if not isinstance(message, dict) or "tool_calls" in message or message.get("role") in ("tool", "developer"):
            return False
        content = message.get("content")
        if isinstance(content, list):
            kinds = {str(block.get("type")) for block in content if isinstance(block, dict)}
            if kinds & _OWN_BLOCKS:
                return True
            if kinds - {"text"}:
                return False
    first = messages[0] if messages else None
    led_by_system = isinstance(first, dict) and first.get("role") == "system"
    return "max_tokens" in body and not led_by_system and not _CHAT_ONLY & body.keys()


_CHAT_ONLY = frozenset(
    {
        "n",
        "stop",
        "seed",
        "logprobs",
        "logit_bias",
        "frequency_penalty",
        "presence_penalty",
        "stream_options",
        "reasoning_effort",
        "response_format",
        "max_completion_tokens",
        "user",
        "store",
    }
)


def decode_request(body: JsonObject) -> Request:
    """Read a request; nothing is adapted, what nobody knows goes into extras."""
    fields = Fields(body)
    max_tokens = fields.optional_integer("max_tokens")
    tools = decode_tools(fields)
    choice, parallel = decode_choice(fields, tools)
    messages = _decode_messages(fields)
    thinking = _decode_thinking(fields)
    config = fields.optional_fields("output_config")
    effort = config.optional_text("effort") if config is not None else None
    output = _decode_format(config, fields)
    metadata = fields.optional_fields("metadata")
    leftovers: JsonObject = {}
    _collect(leftovers, "output_config", config)
    end_user = metadata.optional_text("user_id") if metadata is not None else None
    _collect(leftovers, "metadata", metadata)
    automatic = decode_cache(fields)
    compact_at = _decode_management(fields)
    request = Request(
        origin=NAME,
        model=fields.text("model"),
        messages=messages,
        instructions=_decode_system(fields),
        tools=tools,
        tool_choice=choice,
        parallel_calls=parallel,
        max_tokens=max_tokens or None,
        prewarm=max_tokens == 0,
        sampling=Sampling(
            temperature=fields.optional_number("temperature"),
            top_p=fields.optional_number("top_p"),
            top_k=fields.optional_integer("top_k"),
        ),
        stop=fields.texts("stop_sequences"),
        reasoning=_with_effort(thinking, effort),
        output=output,
        stream=fields.optional_flag("stream") or False,
        end_user=end_user,
        service_tier=fields.optional_text("service_tier"),
        speed=fields.optional_text("speed"),
        cache=CacheOptions(automatic=automatic) if automatic is not None else None,
        compact_at=compact_at,
        updates=_collect_updates(messages, fields),
        demands=_demands(fields),
        extras=None,
    )
    rest = fields.rest(NAME)
    if rest is None and not leftovers:
        return request
    return _with_extras(request, {**(rest.fields if rest is not None else {}), **leftovers})


def _with_extras(request: Request, fields: JsonObject) -> Request:
    return replace(request, extras=Extras(origin=NAME, fields=fields))


def _collect(leftovers: JsonObject, key: str, fields: Fields | None) -> None:
    """Keep the members of a nested object that nobody asked for, under its own name."""
    rest = fields.rest(NAME) if fields is not None else None
    if rest is not None:
        leftovers[key] = rest.fields


def _decode_system(fields: Fields) -> tuple[Text, ...]:
    blocks = decode_content(fields, "system")
    texts: list[Text] = []
    for index, block in enumerate(blocks):
        if not isinstance(block, Text):
            raise fields.wrong("system", "text blocks", f"another kind of block at {index}")
        texts.append(block)
    return tuple(texts)


def _decode_messages(fields: Fields) -> tuple[Message, ...]:
    if type(fields.value.get("messages")) is not list:
        raise fields.fail("messages", "array", fields.value.get("messages"))
    return _with_last_effort([_decode_message(message) for message in fields.each("messages")])


def _with_last_effort(messages: list[Message]) -> tuple[Message, ...]:
    """Say of the last effort set inside the conversation that it is the one which counts."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        last = message.parts[-1] if message.role is Role.SYSTEM and message.parts else None
        if isinstance(last, Foreign) and last.applied == _EFFORT_REPLACED:
            parts = (*message.parts[:-1], replace(last, applied=_EFFORT_APPLIED, superseded=False))
            messages[index] = replace(message, parts=parts)
            break
    return tuple(messages)


def _decode_message(message: Fields) -> Message:
    word = message.text("role")
    role = _ROLES.get(word)
    if role is None:
        raise message.wrong("role", "'user', 'assistant' or 'system'", repr(word))
    parts = decode_content(message, "content")
    if len(message.value) == 2 and role is not Role.SYSTEM:
        return Message(role=role, parts=parts)
    transient = message.value.get("clear_at") == "next_user_message"
    if transient:
        message.skip("clear_at")
    if role is Role.SYSTEM:
        parts = _decode_steering(message, parts)
    return Message(role=role, parts=parts, transient=transient, extras=message.rest(NAME))


def _decode_steering(message: Fields, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """System messages may change tools and effort from here on; what they change stays in place for the way home."""
    steering: list[Part] = []
    for part in parts:
        if isinstance(part, Foreign) and _is_tool_change(part):
            part = Foreign(origin=NAME, kind=part.kind, body=part.body, applied="applied to the tools of the request")
        steering.append(part)
    settings = message.optional_fields("output_config")
    if settings is not None:
        effort = settings.optional_text("effort")
        applied = _EFFORT_REPLACED if effort is not None else "sets nothing"
        steering.append(
            Foreign(origin=NAME, kind=SETTINGS, body=settings.value, applied=applied, superseded=effort is not None)
        )
    return tuple(steering)


def _is_tool_change(part: Foreign) -> bool:
    tool = part.body.get("tool")
    if part.kind not in ("tool_addition", "tool_removal") or not isinstance(tool, dict):
        return False
    return tool.get("type") in ("tool_reference", "tool_definition")


def _collect_updates(messages: tuple[Message, ...], fields: Fields) -> Updates:
    """What system messages said about tools and effort, the last word counting."""
    effort: str | None = None
    added: dict[str, ToolSpec] = {}
    removed: list[str] = []
    for index, message in enumerate(messages):
        if message.role is not Role.SYSTEM:
            continue
        for part in message.parts:
            if not isinstance(part, Foreign) or part.applied is None:
                continue
            if part.kind == SETTINGS:
                said = part.body.get("effort")
                effort = said if isinstance(said, str) else effort
            else:
                path = ((fields.path, "messages"), index)
                _apply_tool_change(Fields(part.body, (path, "content")), added, removed)
    if effort is None and not added and not removed:
        return Updates()
    return Updates(tools=tuple(added.values()), removed=tuple(removed), effort=effort)


def _apply_tool_change(block: Fields, added: dict[str, ToolSpec], removed: list[str]) -> None:
    tool = block.fields("tool")
    if tool.text("type") == "tool_definition":
        for spec in decode_tool(tool.fields("definition")):
            name = _tool_name(spec)
            added[name or f"#{len(added)}"] = spec
            if name in removed:
                removed.remove(name)
        return
    name = tool.text("name")
    if block.text("type") == "tool_removal":
        if added.pop(name, None) is None and name not in removed:
            removed.append(name)
    elif name in removed:
        removed.remove(name)


def _tool_name(tool: ToolSpec) -> str | None:
    return tool.name if isinstance(tool, FunctionTool) else None


def _decode_thinking(fields: Fields) -> Reasoning:
    thinking = fields.optional_fields("thinking")
    if thinking is None:
        return Reasoning()
    word = thinking.text("type")
    mode = _MODES.get(word)
    if mode is None:
        raise thinking.wrong("type", " or ".join(repr(one) for one in _MODES), repr(word))
    return Reasoning(
        mode=mode,
        budget=thinking.optional_integer("budget_tokens"),
        display=thinking.optional_text("display"),
        extras=thinking.rest(NAME),
    )


def _with_effort(reasoning: Reasoning, effort: str | None) -> Reasoning:
    if effort is None:
        return reasoning
    return Reasoning(
        effort=effort,
        budget=reasoning.budget,
        mode=reasoning.mode,
        display=reasoning.display,
        extras=reasoning.extras,
    )


def _decode_format(config: Fields | None, fields: Fields) -> OutputFormat | None:
    """The form of the answer; `output_format` is its older spelling."""
    shape = config.optional_fields("format") if config is not None else None
    older = shape is None and fields.value.get("output_format") is not None
    if older:
        shape = fields.optional_fields("output_format")
    if shape is None:
        return None
    kind = shape.optional_text("type")
    if kind not in (None, "json_schema"):
        raise shape.wrong("type", "'json_schema'", repr(kind))
    schema = shape.object("schema")
    rest = shape.rest(NAME)
    if older:
        rest = Extras(origin=NAME, fields={**(rest.fields if rest is not None else {}), _OLDER: True})
    return OutputFormat(kind=OutputKind.SCHEMA, schema=schema, strict=True, extras=rest)


# Among the extras of an output format: it was said under its older name.
_OLDER = "output_format"


def _decode_management(fields: Fields) -> int | None:
    """The size at which the conversation is compacted; whatever else context management says stays in the extras."""
    management = fields.value.get("context_management")
    if management is not None and type(management) is not dict:
        raise fields.fail("context_management", "object", management)
    found: int | None = None
    for edit in Fields(management or {}, (fields.path, "context_management")).each("edits"):
        if edit.text("type") == COMPACT_EDIT:
            trigger = edit.optional_fields("trigger")
            value = trigger.optional_integer("value") if trigger is not None else None
            found = _DEFAULT_TRIGGER if value is None else value
    if found is not None and management == encode_management(found):
        fields.skip("context_management")
    return found


# The documented default of `compact_20260112`.
_DEFAULT_TRIGGER = 150_000


def _demands(fields: Fields) -> tuple[Demand, ...]:
    """What others must not leave out: conversations and containers that only this provider keeps."""
    demands: list[Demand] = []
    if fields.value.get("thread") is not None:
        demands.append(
            Demand(feature=Feature.STORED_STATE, member="thread", note="a thread is held by the provider that began it")
        )
    container = fields.value.get("container")
    if isinstance(container, str) or (isinstance(container, dict) and container.get("id") is not None):
        demands.append(
            Demand(
                feature=Feature.CONTAINER, member="container", note="a container is kept by the provider that made it"
            )
        )
    if fields.value.get("compaction") is not None:
        demands.append(
            Demand(feature=Feature.COMPACTION, member="compaction", note="only this protocol answers with a compaction")
        )
    return tuple(demands)


def encode_request(request: Request, target: Target, ledger: Ledger) -> Encoded:
    """Write a request for a Messages provider."""
    if request.origin == NAME:
        return Encoded(body=_encode_home(request, target.model), table=ToolTable())
    return encode_foreign_request(request, target, ledger)


def _encode_home(request: Request, model: str) -> JsonObject:
    """The request as it was said."""
    body: JsonObject = {"model": model}
    if request.max_tokens is not None or request.prewarm:
        body["max_tokens"] = request.max_tokens or 0
    if request.instructions:
        body["system"] = encode_content(request.instructions)
    body["messages"] = [_encode_message(message) for message in request.messages]
    tools, servers = encode_home_tools(request.tools)
    _put(body, "tools", tools or None)
    _put(body, "mcp_servers", servers or None)
    _put(body, "tool_choice", encode_home_choice(request.tool_choice, request.parallel_calls))
    _encode_home_scalars(request, body)
    extras = request.extras.fields if request.extras is not None else {}
    for key, value in extras.items():
        known = body.get(key)
        body[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return body


def _encode_home_scalars(request: Request, body: JsonObject) -> None:
    sampling, reasoning = request.sampling, request.reasoning
    if request.stream:
        body["stream"] = True
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    _put(body, "temperature", sampling.temperature)
    _put(body, "top_p", sampling.top_p)
    _put(body, "top_k", sampling.top_k)
    _put(body, "thinking", _encode_home_thinking(reasoning))
    config: JsonObject = {}
    _put(config, "effort", reasoning.effort)
    if request.output is not None:
        _encode_home_format(request.output, config, body)
    _put(body, "output_config", config or None)
    _put(body, "metadata", {"user_id": request.end_user} if request.end_user is not None else None)
    _put(body, "service_tier", request.service_tier)
    _put(body, "speed", request.speed)
    if request.cache is not None:
        encode_cache(request.cache.automatic, body)
    if request.compact_at is not None:
        body["context_management"] = encode_management(request.compact_at)


def _put(body: JsonObject, key: str, value: JsonValue) -> None:
    if value is not None:
        body[key] = value


def _encode_home_thinking(reasoning: Reasoning) -> JsonObject | None:
    if reasoning.mode is None:
        return None
    thinking: JsonObject = {"type": reasoning.mode.value}
    _put(thinking, "budget_tokens", reasoning.budget)
    _put(thinking, "display", reasoning.display)
    if reasoning.extras is not None:
        thinking.update(reasoning.extras.fields)
    return thinking


def _encode_home_format(output: OutputFormat, config: JsonObject, body: JsonObject) -> None:
    shape: JsonObject = {"type": "json_schema", "schema": output.schema}
    if output.extras is not None:
        shape.update(output.extras.fields)
    if shape.pop(_OLDER, None) is not None:
        body["output_format"] = shape
    else:
        config["format"] = shape


def _encode_message(message: Message) -> JsonObject:
    encoded: JsonObject = {"role": message.role.value}
    settings = [part for part in message.parts if isinstance(part, Foreign) and part.kind == SETTINGS]
    said = tuple([part for part in message.parts if part not in settings]) if settings else message.parts
    if said or not settings:
        encoded["content"] = encode_content(said)
    for part in settings:
        encoded["output_config"] = part.body
    if message.transient:
        encoded["clear_at"] = "next_user_message"
    if message.extras is not None:
        encoded.update(message.extras.fields)
    return encoded
