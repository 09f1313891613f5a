"""Messages of the usual shapes, read in one step exactly as `messages` reads them member by member. The glance at a
request and its decoder share them. Null means absent in this protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Part, Seal, Text, Thinking, ToolCall, ToolResult
from dragoman.model.request import Message, Role
from dragoman.protocols.openai_chat.shapes import NAME
from dragoman.wire.peek import NULL

# Enum members are slow to look up, and these are needed for every message.
_USER, _ASSISTANT = Role.USER, Role.ASSISTANT
_ROLES = {"user": Role.USER, "system": Role.SYSTEM, "developer": Role.DEVELOPER}


class UsualFunction(Struct, forbid_unknown_fields=True, gc=False):
    """The function of a call: the tool's name and the arguments."""

    name: Annotated[str, Meta(min_length=1)]
    arguments: str


class UsualCall(Struct, forbid_unknown_fields=True, gc=False):
    """A function call of the usual shape."""

    id: str
    type: Literal["function"]
    function: UsualFunction


class UsualMessage(Struct, forbid_unknown_fields=True, gc=False):
    """A message with one text, and with calls if it is the assistant's. SDKs may write
    the refusal as null."""

    role: str
    content: str | None = None
    tool_calls: list[UsualCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    refusal: None = None

    @property
    def reasoning_details(self) -> Raw:
        """No reasoning of a server that signs it."""
        return NULL

    @property
    def text(self) -> str:
        """The text."""
        return self.content or ""


def decode_usual(messages: Sequence[UsualMessage]) -> tuple[Message, ...] | None:
    """The messages; None if one of them is not complete, or has a member that its role does not have."""
    decoded: list[Message] = []
    for message in messages:
        one = decode_message(message)
        if one is None:
            return None
        decoded.append(one)
    return tuple(decoded)


def decode_message(message: UsualMessage) -> Message | None:
    """One message, unless it is not complete."""
    role, content = message.role, message.content
    if role == "assistant":
        if message.tool_call_id is not None:
            return None
        parts: list[Part] = []
        reasoning, calls = message.reasoning_content, message.tool_calls
        if reasoning:
            body: JsonObject = {"field": "reasoning_content", "text": reasoning}
            parts.append(Thinking(text=reasoning, seal=Seal(origin=NAME, kind="text", body=body)))
        if content is not None:
            parts.append(Text(text=content))
        for call in calls or ():
            function = call.function
            parts.append(ToolCall(call_id=call.id, name=function.name, arguments=function.arguments))
        return Message(role=_ASSISTANT, parts=tuple(parts))
    if content is None or message.tool_calls is not None or message.reasoning_content is not None:
        return None
    call_id, text = message.tool_call_id, Text(text=content)
    if role == "tool":
        return None if call_id is None else Message(role=_USER, parts=(ToolResult(call_id=call_id, parts=(text,)),))
    author = _ROLES.get(role)
    return None if author is None or call_id is not None else Message(role=author, parts=(text,))
