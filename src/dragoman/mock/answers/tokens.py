"""Tokens of echo: words with the space before them, which are easy to count by eye."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import (
    Audio,
    Document,
    Image,
    Part,
    Passages,
    PlainText,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from dragoman.model.request import Request
from dragoman.model.tools import FunctionTool, TextTool, ToolSpec
from dragoman.wire.json import encode_text

# Long words are cut, so that languages without spaces stream as well.
_TOKEN = re.compile(r"\s*\S{1,12}|\s+")

MEDIA_TOKENS = 85
_MESSAGE_TOKENS = 3

_VERY_LONG = 200_000
_CHARACTERS = 5


def tokens(text: str) -> Iterator[str]:
    return (match[0] for match in _TOKEN.finditer(text))


def count(text: str) -> int:
    """The number of tokens of a text. Very long texts are estimated, so that other requests do not wait."""
    if len(text) > _VERY_LONG:
        return len(text) // _CHARACTERS
    return sum(1 for _ in _TOKEN.finditer(text))


def count_request(request: Request) -> int:
    total = sum(count(block.text) for block in request.instructions)
    total += sum(_count_tool(tool) for tool in request.tools)
    for message in request.messages:
        total += _MESSAGE_TOKENS + sum(_count_part(part) for part in message.parts)
    return total


def counted(request: Request) -> JsonObject:
    """The response to a token counting request, in the request's own protocol."""
    fields: JsonObject = {"object": "response.input_tokens"} if request.origin == "openai-responses" else {}
    return {**fields, "input_tokens": count_request(request)}


def count_parts(parts: tuple[Part, ...]) -> int:
    return sum(_count_part(part) for part in parts)


def _count_part(part: Part) -> int:
    match part:
        case Text() | Thinking() | Refusal():
            return count(part.text)
        case ToolCall():
            return 1 + count(part.arguments)
        case ToolResult():
            return count_parts(part.parts)
        case Document(source=PlainText(text=text)):
            return count(text)
        case Document(source=Passages(parts=parts)):
            return count_parts(parts)
        case Image() | Audio() | Document():
            return MEDIA_TOKENS
        case _:
            return 1


def _count_tool(tool: ToolSpec) -> int:
    if not isinstance(tool, FunctionTool | TextTool):
        return 1
    parameters = encode_text(tool.parameters) if isinstance(tool, FunctionTool) and tool.parameters else ""
    return count(f"{tool.name} {tool.description or ''} {parameters}")
