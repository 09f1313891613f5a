"""Decodes a client's messages, one `Message` for each, and encodes native assistant turns. Legacy calls
(`function_call`, role `function`) have no IDs, so one is derived from name and position (T4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.parts import (
    Extras,
    Image,
    Inline,
    InputForm,
    Part,
    Refusal,
    Thinking,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.model.request import Message, Role
from dragoman.model.tools import TextTool, ToolSpec
from dragoman.protocols.openai_chat.parts import (
    decode_cache,
    decode_content,
    decode_part,
    encode_native_content,
    merge_extras,
    unmodelled,
)
from dragoman.protocols.openai_chat.reasoning import content_parts, write_native
from dragoman.protocols.openai_chat.reasoning_history_decoder import decode_echo, thinking_in_content
from dragoman.protocols.openai_chat.shapes import NAME
from dragoman.protocols.openai_chat.usual_messages import UsualCall, UsualMessage, decode_message
from dragoman.rules import ids
from dragoman.rules.input_wrapping import InputUnwrapper, wrap_input
from dragoman.wire.fields import Fields, render_path
from dragoman.wire.json import encode_text, kind_of

_ROLES = {"user": Role.USER, "system": Role.SYSTEM, "developer": Role.DEVELOPER}


class _UsualMessages(Struct, gc=False):
    """A request whose messages all have a usual shape."""

    messages: list[UsualMessage]


class MessageDecoder:
    """Decodes the messages of one request, in order, because results without IDs belong to earlier calls. Clients may
    send back a custom tool's call in its stream form, a function with one `input` (mapping.md §7). The declared tools
    identify such calls."""

    def __init__(self, tools: tuple[ToolSpec, ...] = ()) -> None:
        self._legacy: dict[str, deque[str]] = {}
        self._custom: set[str] = set()
        self._text_tools: set[str] = set()
        if TextTool in map(type, tools):
            self._text_tools = {tool.name for tool in tools if type(tool) is TextTool}

    def decode_all(self, owner: Fields, before: tuple[Message, ...] = ()) -> tuple[Message, ...]:
        """The messages of a request. Usual shapes are decoded in one step. `before` were decoded earlier."""
        values = owner.optional_list("messages") or ()
        try:
            shapes: list[UsualMessage] | None = convert(owner.value, _UsualMessages).messages
        except ValidationError:
            shapes = None
        messages: list[Message] = [*before]
        first = len(before)
        path = (owner.path, "messages")
        for index, value in enumerate(values, first):
            if type(value) is not dict:
                raise WireError(render_path((path, index)), "object", kind_of(value))
            message = self.usual(value) if shapes is None else self._usual(shapes[index - first])
            messages.append(self.decode(Fields(value, (path, index)), index) if message is None else message)
        return tuple(messages)

    def usual(self, value: JsonObject) -> Message | None:
        """A message of the usual shape, decoded like in `decode`; None for any other shape."""
        try:
            return self._usual(convert(value, UsualMessage))
        except ValidationError:
            return None

    def _usual(self, shape: UsualMessage) -> Message | None:
        """A message of the usual shape; None if it has a call of free text, or its result."""
        if self._text_tools and any(call.function.name in self._text_tools for call in shape.tool_calls or ()):
            return None
        return None if shape.tool_call_id in self._custom else decode_message(shape)

    def decode(self, message: Fields, position: int) -> Message:
        role = message.text("role")
        if role == "assistant":
            return self._assistant(message, position)
        if role == "tool":
            return self._tool(message)
        if role == "function":
            return self._function(message)
        if role not in _ROLES:
            raise message.wrong("role", "'system', 'developer', 'user', 'assistant', 'tool' or 'function'", repr(role))
        message.demand("content")
        if "content" not in message.value:
            raise message.wrong("content", "string or array", "nothing")
        return Message(
            role=_ROLES[role],
            parts=decode_content_with_blocks(message, "tool_result", "image")
            if role == "user"
            else decode_content(message),
            name=message.optional_text("name"),
            extras=unmodelled(message),
        )

    def _assistant(self, message: Fields, position: int) -> Message:
        parts, turn = decode_echo(message)
        content = thinking_in_content(decode_content_with_blocks(message, "tool_use"))
        call_ids = {call.optional_text("id") for call in message.each("tool_calls")}
        parts += [part for part in content if not isinstance(part, ToolCall) or part.call_id not in call_ids]
        refusal = message.optional_text("refusal")
        if refusal:
            parts.append(Refusal(text=refusal))
        for call in message.each("tool_calls"):
            part = decode_call(call)
            if part.form is InputForm.JSON and part.name in self._text_tools:
                part = _as_text_call(part)
            if part.form is InputForm.TEXT:
                self._custom.add(part.call_id)
            parts.append(part)
        legacy = message.optional_fields("function_call")
        # Some servers put an empty one into every response, and their clients send it back.
        if legacy is not None and any(legacy.value.values()):
            part = decode_legacy_call(legacy, position)
            self._legacy.setdefault(part.name, deque()).append(part.call_id)
            parts.append(part)
        return Message(
            role=Role.ASSISTANT,
            parts=tuple(parts),
            name=message.optional_text("name"),
            turn=turn,
            extras=unmodelled(message),
        )

    def _tool(self, message: Fields) -> Message:
        message.demand("tool_call_id", "content")
        call_id = message.optional_text("tool_call_id") or ""
        form = InputForm.TEXT if call_id in self._custom else InputForm.JSON
        result = ToolResult(call_id=call_id, parts=decode_content(message), form=form)
        return Message(role=Role.USER, parts=(result,), name=message.optional_text("name"), extras=unmodelled(message))

    def _function(self, message: Fields) -> Message:
        name = message.text("name")
        waiting = self._legacy.get(name)
        result = ToolResult(call_id=waiting.popleft() if waiting else "", parts=decode_content(message))
        extras = unmodelled(message)
        if not result.call_id:
            # Only the name identifies it. The role is stored with it.
            extras = Extras(origin=NAME, fields={**(extras.fields if extras is not None else {}), "role": "function"})
        return Message(role=Role.USER, parts=(result,), name=None if result.call_id else name, extras=extras)


def usual_call(call: JsonObject) -> ToolCall | None:
    """A function call of the usual shape, decoded like in `decode_call`; None for any other shape."""
    try:
        usual = convert(call, UsualCall)
    except ValidationError:
        return None
    return ToolCall(call_id=usual.id, name=usual.function.name, arguments=usual.function.arguments)


def _as_text_call(call: ToolCall) -> ToolCall:
    """A custom tool's call in function form, with a mark of that form."""
    text = InputUnwrapper().unwrap(call.arguments)
    fields = call.extras.fields if call.extras is not None else {}
    # Null loses nothing in other protocols. Arguments in another spelling than this library's are stored literally.
    spelled: JsonObject = {"arguments": call.arguments} if wrap_input(text) != call.arguments else {}
    inner = fields.get("function")
    if isinstance(inner, dict):
        spelled = {**inner, **spelled}
    extras = Extras(origin=NAME, fields={**fields, "function": spelled or None})
    return replace(call, arguments=text, form=InputForm.TEXT, extras=extras)


def decode_call(call: Fields, *, lenient: bool = False) -> ToolCall:
    """One entry of `tool_calls`. Providers, but not clients, may send arguments as an object and leave out members."""
    kind = call.optional_text("type") if lenient else _kind(call)
    kind = kind or ("custom" if "custom" in call.value else "function")
    if lenient:
        kind = _form_of(call, kind)
    custom = kind == "custom"
    inner = call.fields("custom" if custom else "function")
    if not lenient:
        inner.demand("input" if custom else "arguments")
    arguments = inner.optional_text("input") or "" if custom else decode_arguments(inner, lenient=lenient)
    rest, nested = _call_rest(call, inner, "custom" if custom else "function")
    return ToolCall(
        call_id=call.optional_text("id") or "",
        name=inner.text("name") if lenient else inner.name("name"),
        arguments=arguments,
        form=InputForm.TEXT if custom else InputForm.JSON,
        extras=Extras(origin=NAME, fields={**rest, **nested}) if rest or nested else None,
    )


def _kind(call: Fields) -> str | None:
    kind = call.kind()
    if kind is not None and kind not in ("function", "custom"):
        raise call.wrong("type", "'function' or 'custom'", repr(kind))
    call.demand("id")
    return kind


def _form_of(call: Fields, kind: str) -> str:
    """The form of a provider's call: some servers send both members and fill one."""
    for form, other in (("function", "custom"), ("custom", "function")):
        inner, empty = call.value.get(form), call.value.get(other)
        if isinstance(inner, dict) and inner.get("name") and not (isinstance(empty, dict) and empty.get("name")):
            call.skip(other)
            return form
    return kind


def _call_rest(call: Fields, inner: Fields, key: str) -> tuple[JsonObject, JsonObject]:
    call.skip("id", "type", key)
    inner.skip("name", "input" if key == "custom" else "arguments")
    outer, nested = unmodelled(call), unmodelled(inner)
    return (outer.fields if outer is not None else {}), ({key: nested.fields} if nested is not None else {})


def decode_arguments(owner: Fields, *, lenient: bool = False) -> str:
    if lenient and isinstance(owner.value.get("arguments"), dict):
        return encode_text(owner.object("arguments"))
    return owner.optional_text("arguments") or ""


def arguments_text(value: JsonValue) -> str:
    """A fragment of arguments as text. Some servers send an object (S15)."""
    if value is None:
        return ""
    return value if isinstance(value, str) else encode_text(value)


def decode_legacy_call(call: Fields, position: int, *, lenient: bool = False) -> ToolCall:
    """A `function_call`, with the ID derived from its name and position."""
    if not lenient:
        call.demand("arguments")
    name = call.text("name") if lenient else call.name("name")
    return ToolCall(
        call_id=ids.legacy_call_id(name, position),
        name=name,
        arguments=decode_arguments(call, lenient=lenient),
        extras=unmodelled(call),
    )


def encode_turn(parts: tuple[Part, ...]) -> list[JsonObject]:
    message: JsonObject = {"role": "assistant", "content": None}
    content: list[Part] = []
    calls: JsonList = []
    thinking: list[Thinking] = []
    for part in parts:
        if isinstance(part, Thinking) and not content_parts(part):
            thinking.append(part)
            continue
        if isinstance(part, ToolCall):
            if part.call_id == ids.legacy_call_id(part.name, 0):
                function: JsonObject = {"name": part.name, "arguments": part.arguments}
                message["function_call"] = merge_extras(function, part.extras)
            else:
                calls.append(encode_native_call(part))
        elif isinstance(part, Refusal) and part.extras is None:
            message["refusal"] = part.text
        else:
            content.append(part)
    write_native(thinking, message)
    if content:
        message["content"] = encode_native_content(content)
    if calls:
        message["tool_calls"] = calls
    return [message]


def encode_native_call(part: ToolCall) -> JsonObject:
    if part.form is InputForm.TEXT and part.extras is not None and "function" in part.extras.fields:
        replayed = write_call(part.call_id, part.name, wrap_input(part.arguments), InputForm.JSON)
        return merge_extras(replayed, part.extras)
    return merge_extras(write_call(part.call_id, part.name, part.arguments, part.form), part.extras)


def write_call(call_id: str, name: str, arguments: str, form: InputForm) -> JsonObject:
    if form is InputForm.TEXT:
        return {"id": call_id, "type": "custom", "custom": {"name": name, "input": arguments}}
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def decode_content_with_blocks(message: Fields, *kinds: str) -> tuple[Part, ...]:
    """Content that may contain Messages blocks of these types; others are an error. Cursor sends them to Claude's
    models at a Chat endpoint (https://forum.cursor.com/t/wrong-tools-handling-on-openai-compatible-endpoint/145588,
    https://github.com/router-for-me/CLIProxyAPI/issues/3805). A relay leaves the bytes unchanged."""
    value = message.value.get("content")
    if not isinstance(value, list) or not any(isinstance(item, dict) and _is_block(item) for item in value):
        return decode_content(message)
    message.skip("content")
    path = (message.path, "content")
    parts: list[Part] = []
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise WireError(render_path((path, index)), "object", kind_of(item))
        part = Fields(item, (path, index))
        kind = item.get("type")
        decode = _BLOCKS.get(kind) if isinstance(kind, str) else None
        if decode is None:
            parts.append(decode_part(part))
        elif kind not in kinds:
            raise part.wrong("type", "a part that this message may hold", repr(kind))
        else:
            parts.append(decode(part))
    return tuple(parts)


def _is_block(item: JsonObject) -> bool:
    kind = item.get("type")
    return isinstance(kind, str) and kind in _BLOCKS


def _decode_call(part: Fields) -> ToolCall:
    part.skip("type")
    return ToolCall(
        call_id=part.text("id"),
        name=part.text("name"),
        arguments=encode_text(part.optional_object("input") or {}),
        cache=decode_cache(part),
        extras=unmodelled(part),
    )


def _decode_result(part: Fields) -> ToolResult:
    part.skip("type")
    return ToolResult(
        call_id=part.text("tool_use_id"),
        parts=decode_content_with_blocks(part, "image"),
        is_error=part.optional_flag("is_error") or False,
        cache=decode_cache(part),
        extras=unmodelled(part),
    )


def _decode_image(part: Fields) -> Image:
    part.skip("type")
    source = part.fields("source")
    media: Inline | Url
    if source.choice("type", ("base64", "url")) == "base64":
        media = Inline(media_type=source.text("media_type"), data=source.text("data"))
    else:
        media = Url(url=source.text("url"))
    return Image(source=media, cache=decode_cache(part), extras=unmodelled(part))


_BLOCKS: dict[str, Callable[[Fields], Part]] = {
    "tool_use": _decode_call,
    "tool_result": _decode_result,
    "image": _decode_image,
}
