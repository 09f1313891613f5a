"""The usual conversation of another protocol, written in one pass exactly as `turns` writes it: plain text, and calls
whose results follow in their order. Nothing of it is lost, so any other can still be left to `turns`."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import InputForm, Part, Text, ToolCall, ToolResult
from dragoman.model.request import Message, Role
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_chat.parts import is_plain
from dragoman.protocols.openai_chat.shapes import NAME
from dragoman.rules import ids
from dragoman.rules.arguments import passed_on
from dragoman.rules.capabilities import ID_RULES, Capabilities
from dragoman.rules.extras import loses_nothing
from dragoman.rules.tool_table import ToolTable

# Members of enumerations by name cost a look-up each time.
_ASSISTANT, _USER = Role.ASSISTANT, Role.USER
_JSON = InputForm.JSON


def encode_usual(messages: tuple[Message, ...], target: TargetModel, table: ToolTable) -> JsonList | None:
    """The messages; None if one of them is not usual, or the server wants them in an order or a form of its own."""
    if _has_own_form(target.capabilities):
        return None
    rule = ID_RULES[NAME, target.capabilities.call_ids]
    written: JsonList = []
    # The last message, if it is the assistant's; ids of all calls.
    turn: JsonObject | None = None
    seen: set[str] = set()
    # The calls of the last assistant message, with the ids under which they are sent; how many have their result.
    calls: list[tuple[str, str]] = []
    answered = 0
    for message in messages:
        parts, role = message.parts, message.role
        if not parts or message.turn is not None or message.name is not None or message.transient:
            return None
        if message.extras is not None and not loses_nothing(message.extras):
            return None
        if role is _ASSISTANT:
            if turn is None:
                if answered < len(calls):
                    return None
                calls, answered = [], 0
                turn = {"role": "assistant", "content": None}
                written.append(turn)
            elif type(parts[0]) is Text:
                # Text of another message would be another paragraph.
                return None
            if not _add_to_turn(turn, parts, table, rule, calls, seen):
                return None
            continue
        turn = None
        if role is not _USER:
            return None
        if type(parts[0]) is ToolResult:
            for part in parts:
                result = None if answered == len(calls) else _encode_result(part, *calls[answered])
                if result is None:
                    return None
                answered += 1
                written.append(result)
            continue
        if answered < len(calls):
            return None
        text = _joined(parts)
        if text is None:
            return None
        written.append({"role": "user", "content": text})
    return written if answered == len(calls) else None


def _has_own_form(capabilities: Capabilities) -> bool:
    return (
        not capabilities.user_after_tool
        or capabilities.results_apart
        or capabilities.demands_thinking
        or bool(capabilities.call_proof)
        or capabilities.echo_thinking == "turns"
    )


def _joined(parts: tuple[Part, ...]) -> str | None:
    """The text of a user: each part is a paragraph. None if one is something else."""
    texts: list[str] = []
    for part in parts:
        if type(part) is not Text or not part.text or not is_plain(part):
            return None
        texts.append(part.text)
    return texts[0] if len(texts) == 1 else "\n\n".join(texts)


def _add_to_turn(
    turn: JsonObject,
    parts: tuple[Part, ...],
    table: ToolTable,
    rule: ids.IdRule,
    calls: list[tuple[str, str]],
    seen: set[str],
) -> bool:
    """Add a text at its beginning, and calls of functions, to an assistant message; returns whether that is all."""
    written: JsonList = []
    for number, part in enumerate(parts):
        if type(part) is Text:
            if number or not part.text or not is_plain(part):
                return False
            turn["content"] = part.text
            continue
        if (
            type(part) is not ToolCall
            or not part.name
            or part.call_id in seen
            or part.form is not _JSON
            or part.extras is not None
            or part.cache is not None
        ):
            return False
        seen.add(part.call_id)
        sent_id = ids.call_id(part.call_id, rule)
        calls.append((part.call_id, sent_id))
        function: JsonObject = {"name": table.wire(part.name, part.namespace), "arguments": passed_on(part.arguments)}
        written.append({"id": sent_id, "type": "function", "function": function})
    if written:
        earlier = turn.setdefault("tool_calls", written)
        if type(earlier) is list and earlier is not written:
            earlier += written
    return True


def _encode_result(result: Part, call_id: str, sent_id: str) -> JsonObject | None:
    """The result of a call if it is one text."""
    if type(result) is not ToolResult or result.call_id != call_id or len(result.parts) != 1:
        return None
    only = result.parts[0]
    if (
        type(only) is not Text
        or not is_plain(only)
        or result.form is not _JSON
        or result.is_error
        or result.cache is not None
        or result.extras is not None
    ):
        return None
    return {"role": "tool", "tool_call_id": sent_id, "content": only.text}
