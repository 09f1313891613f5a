"""Speaker of a Messages request: what it shows of who is speaking (decision 33)."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.speech import SILENT, Sought, Speech
from dragoman.rules.instructions import without_telemetry
from dragoman.wire.history import History, without_reminders
from dragoman.wire.peek import NULL, length, peeked

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
# Bytes of media that tell them from others, with how many there are.
_TAIL = 512
# Bytes of `metadata.user_id`, which holds a few ids.
_LONGEST_USER = 2048


class _Block(Struct):
    kind: str = field(name="type", default="")
    text: str = ""
    id: str = ""
    name: str = ""
    tool_use_id: str = ""
    input: Raw = NULL
    content: Raw = NULL
    source: Raw = NULL


class _Message(Struct):
    role: str = ""
    content: str | list[_Block] | None = None


class _Tool(Struct):
    name: str = ""


class _Metadata(Struct):
    user_id: str | None = None


class _Request(Struct):
    messages: list[_Message] = []
    system: str | list[_Block] | None = None
    tools: list[_Tool] | None = None
    metadata: _Metadata | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def speech_of(body: bytes, sought: Sought) -> Speech:
    """What a request shows of its speaker; nothing of one that cannot be read."""
    request = peeked(body, _REQUEST)
    if request is None:
        return SILENT
    history = History()
    system = request.system
    for text in [system] if isinstance(system, str) else [block.text for block in system or ()]:
        history.instruct(without_telemetry(text))
    for message in request.messages:
        content = message.content
        if message.role == "system":
            texts = [content] if isinstance(content, str) else [block.text for block in content or ()]
            for text in texts:
                history.instruct(text)
        elif message.role == "assistant":
            history.answer(_answered(history, content))
        else:
            history.ask(*_asked(history, content))
    tools = request.tools or ()
    user = None if request.metadata is None else request.metadata.user_id
    return history.speech(
        sought,
        tools=len(tools),
        telling=tuple(dict.fromkeys([tool.name for tool in tools if tool.name in sought.telling])),
        user=user if user is not None and len(user) <= _LONGEST_USER else "",
    )


def _answered(history: History, content: str | list[_Block] | None) -> list[str]:
    if content is None or isinstance(content, str):
        return [content] if content else []
    pieces = []
    for block in content:
        if block.kind == "text":
            pieces.append(block.text)
        elif block.kind == "tool_use":
            pieces.append(history.call(block.id, block.name, block.input))
        elif block.kind not in _THOUGHTS:
            pieces.append(f"{block.kind} {block.id or block.tool_use_id}")
    return pieces


def _asked(history: History, content: str | list[_Block] | None) -> tuple[list[str], str]:
    if content is None or isinstance(content, str):
        text = without_reminders(content or "")
        return ([text] if text else []), text
    pieces, texts = [], []
    for block in content:
        if block.kind == "text":
            text = without_reminders(block.text)
            if text:
                pieces.append(text)
                texts.append(text)
        elif block.kind == "tool_result":
            pieces.append(history.result(block.tool_use_id, block.content))
        else:
            tail = bytes(memoryview(block.source)[-_TAIL:]).hex()
            pieces.append(f"{block.kind} {length(block.source)} {tail}")
    return pieces, "\n".join(texts)
