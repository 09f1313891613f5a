"""Last turn: the part of a request that echo reads, with its tools and earlier thinking."""

from __future__ import annotations

from msgspec import Struct

from dragoman.model.parts import (
    Audio,
    Document,
    FileRef,
    Image,
    Inline,
    Part,
    Passages,
    PlainText,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.model.request import Message, OutputFormat, Request, Role, ThinkingMode
from dragoman.model.tools import ChoiceMode, FunctionTool, TextTool, ToolChoice, ToolRef


class ToolOutput(Struct, frozen=True, kw_only=True):
    name: str
    text: str
    is_error: bool = False


class LastTurn(Struct, frozen=True, kw_only=True):
    """The user's last turn and its context. `thoughts` counts the returned reasoning."""

    text: str = ""
    attachments: tuple[str, ...] = ()
    results: tuple[ToolOutput, ...] = ()
    tools: tuple[FunctionTool | TextTool, ...] = ()
    parallel: bool = True
    thinks: bool = True
    output: OutputFormat | None = None
    thoughts: int = 0


def read_last_turn(request: Request, thoughts: int = 0) -> LastTurn:
    turn = _last_turn(request.messages)
    names = {part.call_id: part.name for one in request.messages for part in one.parts if isinstance(part, ToolCall)}
    parts = [part for message in turn for part in message.parts]
    results = [part for part in parts if isinstance(part, ToolResult)]
    reasoning = request.reasoning
    return LastTurn(
        text="\n".join([part.text for part in parts if isinstance(part, Text) and part.text.strip()]),
        attachments=tuple(attachment for part in parts if (attachment := describe_media(part)) is not None),
        results=tuple(_result(part, names.get(part.call_id, "")) for part in results),
        tools=_at_hand(request),
        parallel=request.parallel_calls is not False and not request.legacy_functions,
        thinks=reasoning.effort != "none" and reasoning.mode is not ThinkingMode.DISABLED,
        output=request.updates.output or request.output,
        thoughts=thoughts,
    )


def orphan(request: Request) -> str | None:
    called: set[str] = set()
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                called.add(part.call_id)
            elif isinstance(part, ToolResult) and part.call_id not in called:
                return part.call_id
    return None


def _last_turn(messages: tuple[Message, ...]) -> list[Message]:
    turn: list[Message] = []
    for message in reversed(messages):
        if message.role is Role.ASSISTANT:
            break
        if message.role is Role.USER:
            turn.append(message)
    return turn[::-1]


def _result(part: ToolResult, name: str) -> ToolOutput:
    texts = [one.text if isinstance(one, Text) else describe_media(one) for one in part.parts]
    return ToolOutput(name=name, text=" ".join([text for text in texts if text]), is_error=part.is_error)


def offered(request: Request) -> tuple[FunctionTool | TextTool, ...]:
    """The declared tools that were not removed."""
    return tuple(
        tool
        for tool in (*request.tools, *request.updates.tools)
        if isinstance(tool, FunctionTool | TextTool) and tool.name not in request.updates.removed
    )


def _at_hand(request: Request) -> tuple[FunctionTool | TextTool, ...]:
    choice = request.tool_choice
    if choice is None or choice.mode in (ChoiceMode.AUTO, ChoiceMode.REQUIRED):
        return offered(request)
    allowed = _allowed_tools(choice)
    return tuple(tool for tool in offered(request) if any(_is_match(tool, ref) for ref in allowed))


def _allowed_tools(choice: ToolChoice) -> tuple[ToolRef, ...]:
    if choice.mode is ChoiceMode.ALLOWED:
        return choice.allowed
    return (choice.tool,) if choice.mode is ChoiceMode.NAMED and choice.tool is not None else ()


def _is_match(tool: FunctionTool | TextTool, ref: ToolRef) -> bool:
    namespace = tool.namespace.name if tool.namespace is not None else None
    return tool.name == ref.name and ref.namespace in (None, namespace)


_NAMES: dict[type, str] = {Image: "an image", Document: "a document", Audio: "a sound"}


def describe_media(part: Part) -> str | None:
    """Describe an image, file or audio by its media type and size, or its address; None for other parts."""
    if not isinstance(part, Image | Document | Audio):
        return None
    details = [_source(part.source)]
    if isinstance(part, Document) and part.title:
        details.append(f"titled {part.title}")
    return f"{_NAMES[type(part)]} ({', '.join(details)})"


def _source(source: Inline | Url | FileRef | PlainText | Passages) -> str:
    match source:
        case Inline():
            size = len(source.data) * 3 // 4 - source.data[-2:].count("=")
            return f"{source.media_type}, {size} bytes"
        case PlainText():
            return f"{source.media_type}, {len(source.text.encode())} bytes"
        case Passages():
            return f"passages: {len(source.parts)}"
        case Url():
            return f"at {source.url}"
        case FileRef():
            return f"file {source.file_id}"
