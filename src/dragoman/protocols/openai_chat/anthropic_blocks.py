"""Blocks of the Messages protocol inside Chat messages: some agents write so to models of that name.

Cursor does it with Claude's models, at the Chat address that it was given
(https://forum.cursor.com/t/wrong-tools-handling-on-openai-compatible-endpoint/145588,
https://github.com/router-for-me/CLIProxyAPI/issues/3805). A relay leaves the bytes to the server; whoever else is asked
is told what was meant.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Image, Inline, Part, ToolCall, ToolResult, Url
from dragoman.protocols.openai_chat.parts import decode_cache, decode_content, decode_part, unmodelled
from dragoman.wire.fields import Fields, render_path
from dragoman.wire.json import encode_text, kind_of


def decode_content_with_blocks(message: Fields, *kinds: str) -> tuple[Part, ...]:
    """The content of a message that may hold blocks of these kinds; of other kinds they are an error."""
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
