"""Decodes requests of this protocol."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Extras, Text
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
from dragoman.protocols.anthropic_messages.parts import decode_blocks, decode_cache, decode_content, reader
from dragoman.protocols.anthropic_messages.request_encoder import encode_management
from dragoman.protocols.anthropic_messages.shapes import COMPACT_EDIT, NAME
from dragoman.protocols.anthropic_messages.system_updates import collect_updates, decode_steering, with_last_effort
from dragoman.protocols.anthropic_messages.tool_decoder import decode_choice, decode_tools
from dragoman.rules.translated_parts import NOTHING_KNOWN, KnownParts
from dragoman.wire.fields import Fields, Path

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_MODES = {mode.value: mode for mode in ThinkingMode}


def decode_request(body: JsonObject, known: KnownParts = NOTHING_KNOWN) -> Request:
    """Decode a request. Nothing is adapted, and unknown members become extras."""
    fields = Fields(body)
    fields.demand("max_tokens")
    max_tokens = fields.optional_cap("max_tokens", 0)
    messages, steered = _decode_messages(fields, known.messages)
    tools = known.tools
    if tools is not None:
        fields.skip("tools")
    else:
        tools = decode_tools(fields) if "tools" in body or "mcp_servers" in body else ()
    choice, parallel = decode_choice(fields, tools) if "tool_choice" in body else (None, None)
    leftovers: JsonObject = {}
    thinking = _decode_thinking(fields) if "thinking" in body else _NO_REASONING
    output: OutputFormat | None = None
    if "output_config" in body or "output_format" in body:
        output, effort = _decode_config(fields, leftovers)
        if effort is not None:
            thinking = replace(thinking, effort=effort)
    common = _COMMON.issuperset(body)
    rare = _NO_RARITIES if common else _decode_rarities(fields)
    request = Request(
        origin=NAME,
        model=fields.text("model"),
        messages=messages,
        instructions=_decode_system(fields) if "system" in body else (),
        tools=tools,
        tool_choice=choice,
        parallel_calls=parallel,
        max_tokens=max_tokens or None,
        prewarm=max_tokens == 0,
        sampling=rare.sampling,
        stop=rare.stop,
        reasoning=thinking,
        output=output,
        stream=fields.optional_flag("stream") or False,
        end_user=_decode_metadata(fields, leftovers) if "metadata" in body else None,
        service_tier=rare.service_tier,
        speed=rare.speed,
        cache=rare.cache,
        compact_at=rare.compact_at,
        updates=collect_updates(messages, fields) if steered else _NO_UPDATES,
        demands=rare.demands,
    )
    # Of the common members only a null is left unread.
    rest = None if common and None not in body.values() else fields.rest(NAME)
    if rest is None and not leftovers:
        return request
    fields_left: JsonObject = {**(rest.fields if rest is not None else {}), **leftovers}
    return replace(request, extras=Extras(origin=NAME, fields=fields_left))


_NO_REASONING, _NO_UPDATES = Reasoning(), Updates()
# Members of most requests. A request with no others needs no search for extras.
_COMMON = frozenset(
    {
        "model",
        "max_tokens",
        "system",
        "messages",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "metadata",
        "stream",
    }
)


class _Rarities(Struct, frozen=True, kw_only=True):
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    service_tier: str | None = None
    speed: str | None = None
    cache: CacheOptions | None = None
    compact_at: int | None = None
    demands: tuple[Demand, ...] = ()


_NO_RARITIES = _Rarities()


def _decode_rarities(fields: Fields) -> _Rarities:
    automatic = decode_cache(fields)
    return _Rarities(
        sampling=Sampling(
            temperature=fields.optional_number("temperature"),
            top_p=fields.optional_number("top_p"),
            top_k=fields.optional_integer("top_k"),
        ),
        stop=fields.texts("stop_sequences"),
        service_tier=fields.optional_text("service_tier"),
        speed=fields.optional_text("speed"),
        cache=CacheOptions(automatic=automatic) if automatic is not None else None,
        compact_at=_decode_management(fields),
        demands=_demands(fields),
    )


def _collect(leftovers: JsonObject, key: str, fields: Fields | None) -> None:
    """Store unread members of a nested object under its own name."""
    rest = fields.rest(NAME) if fields is not None else None
    if rest is not None:
        leftovers[key] = rest.fields


def _decode_system(fields: Fields) -> tuple[Text, ...]:
    texts: list[Text] = []
    for index, block in enumerate(decode_content(fields, "system")):
        if type(block) is not Text:
            raise fields.wrong("system", "text blocks", f"another kind of block at {index}")
        texts.append(block)
    return tuple(texts)


def _decode_messages(fields: Fields, before: tuple[Message, ...]) -> tuple[tuple[Message, ...], bool]:
    """The messages, and whether instructions are among them, which may change tools or effort. `before` contains
    none."""
    values = fields.optional_list("messages")
    if values is None:
        raise fields.fail("messages", "array", None)
    if not values:
        raise fields.wrong("messages", "at least one message", "none")
    path: Path = (fields.path, "messages")
    messages: list[Message] = [*before]
    steered = False
    for index, value in enumerate(values, len(before)):
        # Nearly all messages have only a role and content. The full reader returns the same for them.
        if type(value) is dict and len(value) == 2:
            word, content = value.get("role"), value.get("content")
            role = _USER if word == "user" else _ASSISTANT if word == "assistant" else None
            if role is not None:
                if type(content) is list:
                    messages.append(Message(role=role, parts=decode_blocks(content, ((path, index), "content"))))
                    continue
                if type(content) is str:
                    messages.append(Message(role=role, parts=(Text(text=content),)))
                    continue
        message = _decode_message(reader(value, (path, index)))
        steered = steered or message.role is Role.SYSTEM
        messages.append(message)
    return with_last_effort(messages) if steered else tuple(messages), steered


_USER, _ASSISTANT = Role.USER, Role.ASSISTANT


def _decode_message(message: Fields) -> Message:
    word = message.text("role")
    role = _ROLES.get(word)
    if role is None:
        raise message.wrong("role", "'user', 'assistant' or 'system'", repr(word))
    message.demand("content")
    if role is Role.USER and "content" not in message.value:
        raise message.wrong("content", "string or array", "nothing")
    parts = decode_content(message, "content")
    cleared = message.value.get("clear_at")
    if cleared is not None and type(cleared) is not str:
        raise message.fail("clear_at", "string", cleared)
    transient = cleared == "next_user_message"
    if transient:
        message.skip("clear_at")
    if role is Role.SYSTEM:
        parts = decode_steering(message, parts)
    return Message(role=role, parts=parts, transient=transient, extras=message.rest(NAME))


def _decode_thinking(fields: Fields) -> Reasoning:
    thinking = fields.optional_fields("thinking")
    if thinking is None:
        return Reasoning()
    word = thinking.text("type")
    mode = _MODES.get(word)
    if mode is None:
        raise thinking.wrong("type", " or ".join(repr(one) for one in _MODES), repr(word))
    thinking.demand("budget_tokens")
    return Reasoning(
        mode=mode,
        budget=thinking.optional_cap("budget_tokens"),
        display=thinking.optional_text("display"),
        extras=thinking.rest(NAME),
    )


def _decode_metadata(fields: Fields, leftovers: JsonObject) -> str | None:
    metadata = fields.optional_object("metadata")
    if metadata is None:
        return None
    user = metadata.get("user_id")
    if len(metadata) == 1 and type(user) is str:
        return user
    rest = Fields(metadata, (fields.path, "metadata"))
    user = rest.optional_text("user_id")
    _collect(leftovers, "metadata", rest)
    return user


def _decode_config(fields: Fields, leftovers: JsonObject) -> tuple[OutputFormat | None, str | None]:
    config = fields.optional_fields("output_config")
    effort = config.optional_text("effort") if config is not None else None
    output = _decode_format(config, fields)
    _collect(leftovers, "output_config", config)
    return output, effort


def _decode_format(config: Fields | None, fields: Fields) -> OutputFormat | None:
    """The output format. `output_format` is its older name."""
    shape = config.optional_fields("format") if config is not None else None
    older = shape is None and fields.value.get("output_format") is not None
    if older:
        shape = fields.optional_fields("output_format")
    if shape is None:
        return None
    kind = shape.kind()
    if kind not in (None, "json_schema"):
        raise shape.wrong("type", "'json_schema'", repr(kind))
    schema = shape.object("schema")
    rest = shape.rest(NAME)
    if older:
        rest = Extras(origin=NAME, fields={**(rest.fields if rest is not None else {}), _OLDER: True})
    return OutputFormat(kind=OutputKind.SCHEMA, schema=schema, strict=True, extras=rest)


# Marks an output format that was sent under its older name, in its extras.
_OLDER = "output_format"


def _decode_management(fields: Fields) -> int | None:
    """The size at which the conversation is compacted. Other settings of context management stay in the extras."""
    management = fields.value.get("context_management")
    if management is not None and type(management) is not dict:
        raise fields.fail("context_management", "object", management)
    compact_at: int | None = None
    for edit in Fields(management or {}, (fields.path, "context_management")).each("edits"):
        if edit.text("type") == COMPACT_EDIT:
            trigger = edit.optional_fields("trigger")
            value = trigger.optional_integer("value") if trigger is not None else None
            compact_at = _DEFAULT_TRIGGER if value is None else value
    if compact_at is not None and management == encode_management(compact_at):
        fields.skip("context_management")
    return compact_at


# The documented default of `compact_20260112`.
_DEFAULT_TRIGGER = 150_000


def _demands(fields: Fields) -> tuple[Demand, ...]:
    """Members that must not be dropped: conversations and containers that only this provider stores."""
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
    if fields.value.get("safeguards"):
        # A client that gets this name performs the check itself.
        demands.append(
            Demand(feature=Feature.UNKNOWN_FIELD, member="safeguards", note="this provider runs no check of tool calls")
        )
    return tuple(demands)


# Blocks that no other protocol's messages have.
_OWN_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image"})


def recognises(body: JsonObject) -> bool:
    """Whether a body looks like a Messages request. Chat requests have `messages` too."""
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
