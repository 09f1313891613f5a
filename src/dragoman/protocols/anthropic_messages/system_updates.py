"""System messages that change tools and effort from their position on (mapping.md I2). Changes are collected in
`Request.updates`; the message stays in place, to be reported."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.parts import Foreign, Part
from dragoman.model.request import Message, Role, Updates
from dragoman.model.tools import FunctionTool, ToolSpec
from dragoman.protocols.anthropic_messages.anthropic_tools import MAX_DESCRIBED
from dragoman.protocols.anthropic_messages.shapes import NAME
from dragoman.protocols.anthropic_messages.tool_decoder import decode_tool
from dragoman.wire.fields import Fields, Path

_EFFORT_APPLIED = "this effort counts for the whole request"
_EFFORT_REPLACED = "a later effort replaces this one"
SETTINGS = "output_config"


def decode_steering(message: Fields, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Decode a system message that changes tools or effort. The changes stay in place."""
    steering: list[Part] = []
    for number, part in enumerate(parts):
        if isinstance(part, Foreign) and _is_tool_change(part, ((message.path, "content"), number)):
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


def _is_tool_change(part: Foreign, path: Path) -> bool:
    if part.kind not in ("tool_addition", "tool_removal"):
        return False
    return Fields(part.body, path).fields("tool").text("type") in ("tool_reference", "tool_definition")


def collect_updates(messages: tuple[Message, ...], fields: Fields) -> Updates:
    effort: str | None = None
    added: dict[str, ToolSpec] = {}
    removed: dict[str, None] = {}
    for index, message in enumerate(messages):
        if message.role is not Role.SYSTEM:
            continue
        for number, part in enumerate(message.parts):
            if not isinstance(part, Foreign) or part.applied is None:
                continue
            if part.kind == SETTINGS:
                value = part.body.get("effort")
                effort = value if isinstance(value, str) else effort
            else:
                path = ((((fields.path, "messages"), index), "content"), number)
                _apply_tool_change(Fields(part.body, path), added, removed)
    if effort is None and not added and not removed:
        return Updates()
    return Updates(tools=tuple(added.values()), removed=tuple(removed), effort=effort)


def _apply_tool_change(block: Fields, added: dict[str, ToolSpec], removed: dict[str, None]) -> None:
    tool = block.fields("tool")
    if tool.text("type") == "tool_definition":
        for spec in decode_tool(tool.fields("definition"), described=len(added) <= MAX_DESCRIBED):
            name = spec.name if isinstance(spec, FunctionTool) else None
            added[name or f"#{len(added)}"] = spec
            removed.pop(name or "", None)
        return
    name = tool.text("name")
    if block.text("type") == "tool_removal":
        if added.pop(name, None) is None:
            removed.setdefault(name)
    else:
        removed.pop(name, None)


def with_last_effort(messages: list[Message]) -> tuple[Message, ...]:
    """Mark the last effort inside the conversation as the valid one."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        last = message.parts[-1] if message.role is Role.SYSTEM and message.parts else None
        if isinstance(last, Foreign) and last.applied == _EFFORT_REPLACED:
            parts = (*message.parts[:-1], replace(last, applied=_EFFORT_APPLIED, superseded=False))
            messages[index] = replace(message, parts=parts)
            break
    return tuple(messages)
