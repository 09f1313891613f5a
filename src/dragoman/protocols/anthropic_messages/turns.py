"""The conversation of another protocol as Messages takes it: system blocks, then user and assistant messages.

Material of one side is folded into one message (T1), results stand first in theirs (T2), instructions said late stay
where they were said (I1), and the first and last message are what the provider accepts (T5, T6, T7).
"""

from __future__ import annotations

from functools import partial

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.parts import Compaction, Extras, Part, Seal, Text, ToolCall, ToolResult
from dragoman.model.request import Message, OutputKind, Request
from dragoman.protocols.anthropic_messages.encode_context import RequestEncodeContext
from dragoman.protocols.anthropic_messages.part_encoder import encode_call, encode_part, encode_result
from dragoman.protocols.anthropic_messages.parts import is_plain
from dragoman.protocols.anthropic_messages.response import decode_turn
from dragoman.protocols.anthropic_messages.shapes import FILLER, NAME
from dragoman.protocols.codec import TargetModel
from dragoman.rules.conversation import Turn, TurnKind, arrange
from dragoman.rules.instructions import tagged
from dragoman.rules.seals import opens

_INSTRUCTIONS = (TurnKind.SYSTEM, TurnKind.DEVELOPER)
# Members of enumerations by name cost a look-up each time.
_ASSISTANT, _RESULTS, _USER = TurnKind.ASSISTANT, TurnKind.RESULTS, TurnKind.USER


class MessageList:
    """The messages while they are built, oldest first."""

    __slots__ = ("_open", "_role", "last_role", "messages", "system")

    def __init__(self) -> None:
        self.messages: list[JsonObject] = []
        self.system: JsonList = []
        # Whose the last message is that is no instruction.
        self.last_role = ""
        self._role = ""
        self._open: JsonList = []

    def content(self, role: str) -> JsonList:
        """The open content of a side: that of the last message if it is hers, else of a new one."""
        if role != self._role:
            self._role = self.last_role = role
            self._open = []
            self.messages.append({"role": role, "content": self._open})
        return self._open

    def instruct(self, blocks: JsonList) -> None:
        """An instruction between the turns."""
        self.messages.append({"role": "system", "content": shortened(blocks)})
        self._role = ""

    def shorten(self) -> None:
        """Write content as it usually is; nothing is added after this."""
        for message in self.messages:
            content = message["content"]
            if type(content) is list and len(content) == 1:
                only = content[0]
                if type(only) is dict and len(only) == 2 and only.get("type") == "text":
                    message["content"] = only["text"]


def encode_conversation(request: Request, writing: RequestEncodeContext) -> MessageList:
    _drop_extras(request.messages, writing)
    turns = arrange(request.messages, writing.ledger, blank_is_empty=True, restore=partial(_restored, writing.target))
    conversation = MessageList()
    _encode_instructions(request.instructions, conversation, writing)
    leading = 0
    while leading < len(turns) and turns[leading].kind in _INSTRUCTIONS:
        _encode_leading(turns[leading], conversation, writing)
        leading += 1
    following: list[TurnKind | None] = []
    for position in range(leading, len(turns)):
        turn = turns[position]
        kind = turn.kind
        if kind is _ASSISTANT:
            _encode_assistant(turn, conversation, writing)
        elif kind is _RESULTS:
            _encode_results(turn, conversation, writing)
        elif kind is _USER:
            _encode_user(turn, conversation, writing)
        else:
            # Few say anything late.
            following = following or _following(turns)
            _encode_late(turn, following[position], conversation, writing)
    _repair_ends(conversation, writing, leads=_may_lead(request, writing))
    return conversation


def _may_lead(request: Request, writing: RequestEncodeContext) -> bool:
    """Whether the answer may begin with what the client says: the provider refuses that beside an enforced form."""
    abilities, output = writing.target.capabilities, request.output
    enforced = output is not None and output.kind is OutputKind.SCHEMA and abilities.output_schema
    return abilities.prefill and not enforced


def _following(turns: list[Turn]) -> list[TurnKind | None]:
    """For each turn the kind of the next one that is no instruction; None if there is none."""
    following: list[TurnKind | None] = []
    kind: TurnKind | None = None
    for turn in reversed(turns):
        following.append(kind)
        if turn.kind not in _INSTRUCTIONS:
            kind = turn.kind
    following.reverse()
    return following


def _drop_extras(messages: tuple[Message, ...], writing: RequestEncodeContext) -> None:
    # Readers share one value among all messages that say no more than usual: what loses nothing once never does.
    neutral: Extras | None = None
    for index, message in enumerate(messages):
        extras = message.extras
        if extras is not None and extras is not neutral:
            before = len(writing.ledger)
            writing.drop(extras, ("messages", index))
            neutral = extras if len(writing.ledger) == before else None


def _restored(target: TargetModel, turn: Seal) -> tuple[Part, ...] | None:
    """The parts of a sealed turn that this provider issued (V1)."""
    blocks = turn.body.get("blocks")
    if not opens(turn, NAME, target.model, target.capabilities) or not isinstance(blocks, list):
        return None
    return decode_turn([block for block in blocks if isinstance(block, dict)])


def shortened(blocks: JsonList) -> JsonValue:
    """Content as it is usually written: one plain text block is a string."""
    if len(blocks) == 1:
        only = blocks[0]
        if type(only) is dict and len(only) == 2 and only.get("type") == "text":
            return only["text"]
    return blocks


def _encode_instructions(
    instructions: tuple[Text, ...], conversation: MessageList, writing: RequestEncodeContext
) -> None:
    for index, text in enumerate(instructions):
        if text.text.strip():
            conversation.system.append(encode_part(text, ("instructions", index), writing, by_user=True))


def _encode_leading(turn: Turn, conversation: MessageList, writing: RequestEncodeContext) -> None:
    for part, at in zip(turn.parts, turn.places, strict=True):
        block = encode_part(part, at, writing, by_user=True)
        if block is None:
            continue
        if block["type"] != "text":
            raise writing.refuse(Feature.INSTRUCTIONS, at, "instructions can only be text here")
        conversation.system.append(block)


def _encode_user(turn: Turn, conversation: MessageList, writing: RequestEncodeContext) -> None:
    content = conversation.content("user")
    for index, part in enumerate(turn.parts):
        if type(part) is Text and is_plain(part):
            content.append({"type": "text", "text": part.text})
            continue
        block = encode_part(part, turn.places[index], writing, by_user=True)
        if block is not None:
            content.append(block)


def _encode_results(turn: Turn, conversation: MessageList, writing: RequestEncodeContext) -> None:
    content = conversation.content("user")
    for index, part in enumerate(turn.parts):
        assert isinstance(part, ToolResult)
        content.append(encode_result(part, turn.places[index], writing))


def _encode_assistant(turn: Turn, conversation: MessageList, writing: RequestEncodeContext) -> None:
    content: JsonList | None = None
    for index, part in enumerate(turn.parts):
        kind = type(part)
        block: JsonObject | None
        if kind is ToolCall:
            block = encode_call(part, turn.places[index], writing)
        else:
            block = encode_part(part, turn.places[index], writing, by_user=False)
        if block is None:
            continue
        if kind is Compaction and block["type"] == "text":
            # A summary of turns that this assistant never said is told by the user.
            conversation.content("user").append(block)
            content = None
            continue
        if content is None:
            content = conversation.content("assistant")
        content.append(block)


def _encode_late(
    turn: Turn, following: TurnKind | None, conversation: MessageList, writing: RequestEncodeContext
) -> None:
    """An instruction said late stays at its place: as it is where that is legal, else as tagged user text (I1)."""
    if not turn.parts:
        return
    at = turn.places[0]
    if _is_legal(following, conversation, writing) and all(isinstance(part, Text) for part in turn.parts):
        blocks = _late_blocks(turn, writing)
        if blocks:
            conversation.instruct(blocks)
        return
    content = conversation.content("user")
    added = False
    for part, place in zip(turn.parts, turn.places, strict=True):
        block = encode_part(part, place, writing, by_user=True)
        if block is None:
            continue
        if block["type"] == "text":
            text = block["text"]
            assert isinstance(text, str)
            block["text"] = tagged(text)
        content.append(block)
        added = True
    if added:
        where = (
            "no instructions at this place"
            if writing.target.capabilities.late_system
            else "instructions only at the top"
        )
        note = f"this model takes {where}; told as tagged user text"
        writing.ledger.approximated(Feature.MID_CONVERSATION_SYSTEM, at, note)


def _late_blocks(turn: Turn, writing: RequestEncodeContext) -> JsonList:
    blocks = [encode_part(part, at, writing, by_user=True) for part, at in zip(turn.parts, turn.places, strict=True)]
    return [block for block in blocks if block is not None]


def _is_legal(following: TurnKind | None, conversation: MessageList, writing: RequestEncodeContext) -> bool:
    """After a user turn, and last or followed by an assistant turn; several in a row are one section."""
    if not writing.target.capabilities.late_system:
        return False
    return conversation.last_role == "user" and following in (None, TurnKind.ASSISTANT)


def _repair_ends(conversation: MessageList, writing: RequestEncodeContext, *, leads: bool) -> None:
    ledger = writing.ledger
    messages = conversation.messages
    for message in messages:
        content = message["content"]
        if isinstance(content, list) and not content:
            content.append({"type": "text", "text": FILLER})
            ledger.invented(Feature.EMPTY_TEXT, ("messages",), f"an empty user message says {FILLER!r}")
    if not messages:
        _promote_instruction(conversation, writing)
    elif messages[0]["role"] != "user" and not _opens_compacted(messages[0]):
        messages.insert(0, _filler())
        ledger.invented(Feature.FIRST_TURN, ("messages",), "the first message must be the user's")
    if messages[-1]["role"] != "assistant":
        return
    if leads:
        _trim(messages[-1], writing)
    else:
        messages.append(_filler())
        ledger.invented(Feature.PREFILL, ("messages",), "this model does not continue an assistant message")


def _trim(message: JsonObject, writing: RequestEncodeContext) -> None:
    """Take blanks off the end of what the answer begins with: the provider refuses them, and says them itself."""
    content = message["content"]
    last = content[-1] if isinstance(content, list) else None
    text = last.get("text") if isinstance(last, dict) and _type(last) == "text" else None
    if isinstance(last, dict) and isinstance(text, str) and text != text.rstrip():
        last["text"] = text.rstrip()
        note = "what the answer begins with must not end with blanks here"
        writing.ledger.approximated(Feature.PREFILL, ("messages",), note)


def _opens_compacted(message: JsonObject) -> bool:
    """Whether a message begins with the compaction that stands for all before it."""
    content = message["content"]
    return isinstance(content, list) and bool(content) and _type(content[0]) == "compaction"


def _promote_instruction(conversation: MessageList, writing: RequestEncodeContext) -> None:
    """Nothing but instructions: the last of them becomes the user's message (T5)."""
    if not conversation.system:
        conversation.messages.append(_filler())
        writing.ledger.invented(Feature.FIRST_TURN, ("messages",), "there must be a message")
        return
    conversation.messages.append({"role": "user", "content": [conversation.system.pop()]})
    writing.ledger.approximated(Feature.FIRST_TURN, ("messages",), "the last instruction is said by the user")


def _filler() -> JsonObject:
    return {"role": "user", "content": [{"type": "text", "text": FILLER}]}


def in_tool_loop_without_thinking(messages: list[JsonObject]) -> bool:
    """Whether the last message answers calls, and no step since the user's own last message has reasoning (V5).

    Claude does not think before every step, and the service then takes the loop as it is; with thinking off it refuses
    one that has some: https://github.com/BerriAI/litellm/issues/18926.
    """
    position = len(messages) - 1
    while position > 0 and _has_results(messages[position]):
        step = messages[position - 1]["content"]
        if messages[position - 1]["role"] != "assistant" or not isinstance(step, list):
            break
        if any(_type(block) in _SEALED for block in step):
            return False
        position -= 2
    return position < len(messages) - 1


_SEALED = ("thinking", "redacted_thinking")


def _has_results(message: JsonObject) -> bool:
    content = message["content"]
    return isinstance(content, list) and bool(content) and _type(content[0]) == "tool_result"


def _type(block: JsonValue) -> JsonValue:
    return block.get("type") if isinstance(block, dict) else None
