"""Encodes another protocol's conversation for Messages: system blocks, then alternating messages. Adjacent messages of
one side are merged (T1), results come first (T2), late instructions stay in place (I1), and the first and last message
are made valid (T5, T6, T7)."""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Compaction, Extras, Part, Seal, Text, ToolCall, ToolResult
from dragoman.model.request import Message, OutputKind, Request
from dragoman.protocols.anthropic_messages.encode_context import RequestEncodeContext
from dragoman.protocols.anthropic_messages.part_encoder import encode_call, encode_part, encode_result, encode_text
from dragoman.protocols.anthropic_messages.response import decode_turn
from dragoman.protocols.anthropic_messages.shapes import FILLER, NAME
from dragoman.protocols.anthropic_messages.usual_turns import encode_usual
from dragoman.protocols.codec import TargetModel
from dragoman.rules.conversation import Turn, TurnKind, arrange, extras_of
from dragoman.rules.extras import refused
from dragoman.rules.instructions import tagged
from dragoman.rules.seals import opens
from dragoman.rules.translated_parts import HistoryEncoding, HistoryStart
from dragoman.wire.json import decode_object, encode, read_json

_INSTRUCTIONS = (TurnKind.SYSTEM, TurnKind.DEVELOPER)
# Bound once, because looking up an enum member is slow.
_ASSISTANT, _RESULTS, _USER = TurnKind.ASSISTANT, TurnKind.RESULTS, TurnKind.USER


class MessageList(Struct, eq=False):
    messages: list[JsonObject] = []
    system: JsonList = []
    last_role: str = ""
    _role: str = ""
    _open: JsonList = []
    # Previously encoded elements before the first message, joined by commas.
    _before: bytes = b""

    def continue_from(self, start: HistoryStart) -> None:
        """Continue a history. Its last message may be extended, as if it had just been encoded."""
        self._before = start.text
        self.system += _read_list(start.opening)
        last = decode_object(start.last)
        self.messages.append(last)
        role, content = last["role"], last["content"]
        # An instruction between the turns follows the user.
        self.last_role = "assistant" if role == "assistant" else "user"
        if role != "system":
            if type(content) is not list:
                last["content"] = content = [{"type": "text", "text": content}]
            self._role, self._open = str(role), content

    def in_tool_loop_without_thinking(self) -> bool:
        """Whether the last message has results of calls, and no step since the user's last message has reasoning
        (V5)."""
        found = in_tool_loop_without_thinking(self.messages, is_all=not self._before)
        if found is None:
            # Only very long loops read earlier messages again.
            before = [message for message in _read_list(b"[%b]" % self._before) if isinstance(message, dict)]
            found = in_tool_loop_without_thinking(before + self.messages)
        return found is True

    def content(self, role: str) -> JsonList:
        """The open content of a role: that of the last message if it has the role, else of a new one."""
        if role == self._role:
            return self._open
        self._role = self.last_role = role
        content: JsonList = []
        self._open = content
        self.messages.append({"role": role, "content": content})
        return content

    def instruct(self, blocks: JsonList) -> None:
        self.messages.append({"role": "system", "content": shortened(blocks)})
        self._role = ""

    def shorten(self, ledger: Ledger) -> None:
        """Encode content in its usual form, with a filler where nothing is left. No content is added after this."""
        for message in self.messages:
            content = message["content"]
            if type(content) is list:
                if not content:
                    message["content"] = FILLER
                    ledger.invented(Feature.EMPTY_TEXT, ("messages",), f"an empty user message says {FILLER!r}")
                elif len(content) == 1:
                    only = content[0]
                    if type(only) is dict and len(only) == 2 and only.get("type") == "text":
                        message["content"] = only["text"]


def encode_conversation(
    request: Request, writing: RequestEncodeContext, history: HistoryEncoding | None = None
) -> MessageList:
    usual = encode_usual(request.messages, writing) if history is None else None
    if usual is not None:
        messages, leading = usual
        conversation = MessageList(messages)
        if request.instructions:
            _encode_instructions(request.instructions, conversation, writing)
        conversation.system += leading
        _repair_ends(request, conversation, writing, is_begun=False)
        return conversation
    _drop_extras(request.messages, writing, history)
    restore = partial(_restored, writing.target)
    turns = arrange(request.messages, writing.ledger, blank_is_empty=True, restore=restore, history=history)
    conversation = MessageList()
    if request.instructions:
        _encode_instructions(request.instructions, conversation, writing)
    if history is not None:
        history.begin_stage(writing.ledger)
        if history.start is not None:
            conversation.continue_from(history.start)
    instruction_count = len(conversation.system)
    leading_count = 0
    following: list[TurnKind | None] = []
    for position, turn in enumerate(turns):
        kind = turn.kind
        if kind is _ASSISTANT:
            if history is not None:
                history.begin_turn(turn.parts, turn.places, conversation.messages)
            _encode_assistant(turn, conversation, writing)
            if history is not None:
                history.end_turn(conversation.messages)
        elif kind is _RESULTS:
            _encode_results(turn, conversation, writing)
        elif kind is _USER:
            _encode_user(turn, conversation, writing)
        elif position == leading_count:
            leading_count += 1
            _encode_leading(turn, conversation, writing)
        else:
            following = following or _following(turns)
            _encode_late(turn, following[position], conversation, writing)
    if history is not None:
        history.end_turns(conversation.messages)
    conversation.shorten(writing.ledger)
    if history is not None:
        history.opening = encode(conversation.system[instruction_count:])
        _end_history(history, conversation, writing)
    _repair_ends(request, conversation, writing, is_begun=history is not None and history.start is not None)
    return conversation


def _read_list(text: bytes) -> JsonList:
    value = read_json(text)
    return value if isinstance(value, list) else []


def _end_history(history: HistoryEncoding, conversation: MessageList, writing: RequestEncodeContext) -> None:
    """Finish the pass over the turns, and check whether later messages would change earlier ones."""
    history.end_stage(writing.ledger)
    messages = conversation.messages
    begins = history.start is not None or (bool(messages) and messages[0]["role"] == "user")
    history.is_prefix = history.is_prefix and begins and writing.is_stateless


def _may_lead(request: Request, writing: RequestEncodeContext) -> bool:
    """Whether the response may begin with a prefill: the provider rejects that together with an enforced schema."""
    abilities, output = writing.target.capabilities, request.output
    enforced = output is not None and output.kind is OutputKind.SCHEMA and abilities.output_schema
    return abilities.prefill and not enforced


def _following(turns: list[Turn]) -> list[TurnKind | None]:
    """For each turn the kind of the next one that is no instruction, or None."""
    following: list[TurnKind | None] = []
    kind: TurnKind | None = None
    for turn in reversed(turns):
        following.append(kind)
        if turn.kind not in _INSTRUCTIONS:
            kind = turn.kind
    following.reverse()
    return following


def _drop_extras(messages: tuple[Message, ...], writing: RequestEncodeContext, history: HistoryEncoding | None) -> None:
    first = 0
    if history is not None:
        first = history.count
        history.begin_stage(writing.ledger)
        messages = messages[first:]
    if not any(map(extras_of, messages)):
        return
    # Messages without unusual members share one value. If it loses nothing once, it never does.
    neutral: Extras | None = None
    for index, message in enumerate(messages, first):
        extras = message.extras
        if extras is not None and extras is not neutral:
            before = len(writing.ledger)
            writing.drop(extras, ("messages", index))
            neutral = extras if len(writing.ledger) == before else None


def _restored(target: TargetModel, turn: Seal) -> tuple[Part, ...] | None:
    blocks = turn.body.get("blocks")
    if not opens(turn, NAME, target.model, target.capabilities) or not isinstance(blocks, list):
        return None
    return decode_turn([block for block in blocks if isinstance(block, dict)])


def shortened(blocks: JsonList) -> JsonValue:
    """Content in its usual form: one plain text block becomes a string."""
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
    for index, part in enumerate(turn.parts):
        at = turn.places[index]
        if type(part) is Text:
            conversation.system.append(encode_text(part, at, writing))
            continue
        block = encode_part(part, at, writing, by_user=True)
        if block is None:
            continue
        if block["type"] != "text":
            raise refused(Feature.INSTRUCTIONS, at, "instructions can only be text here")
        conversation.system.append(block)


def _encode_user(turn: Turn, conversation: MessageList, writing: RequestEncodeContext) -> None:
    content = conversation.content("user")
    for index, part in enumerate(turn.parts):
        at = turn.places[index]
        if type(part) is Text:
            content.append(encode_text(part, at, writing))
        elif (block := encode_part(part, at, writing, by_user=True)) is not None:
            content.append(block)


def _encode_results(turn: Turn, conversation: MessageList, writing: RequestEncodeContext) -> None:
    content = conversation.content("user")
    for index, part in enumerate(turn.parts):
        at = turn.places[index]
        assert type(part) is ToolResult
        content.append(encode_result(part, at, writing))


def _encode_assistant(turn: Turn, conversation: MessageList, writing: RequestEncodeContext) -> None:
    content: JsonList | None = None
    for index, part in enumerate(turn.parts):
        at = turn.places[index]
        block: JsonObject | None
        if type(part) is ToolCall:
            block = encode_call(part, at, writing)
        elif type(part) is Text:
            block = encode_text(part, at, writing)
        else:
            block = encode_part(part, at, writing, by_user=False)
        if block is None:
            continue
        if type(part) is Compaction and block["type"] == "text":
            # A summary of turns that this assistant did not write is sent as user text.
            conversation.content("user").append(block)
            content = None
            continue
        if content is None:
            content = conversation.content("assistant")
        content.append(block)


def _encode_late(
    turn: Turn, following: TurnKind | None, conversation: MessageList, writing: RequestEncodeContext
) -> None:
    """A late instruction stays in place: unchanged if that is valid, else as tagged user text (I1)."""
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
    """Whether instructions are valid here: after a user turn, and last or before an assistant turn. Several in a row
    count as one."""
    if not writing.target.capabilities.late_system:
        return False
    return conversation.last_role == "user" and following in (None, TurnKind.ASSISTANT)


def _repair_ends(request: Request, conversation: MessageList, writing: RequestEncodeContext, *, is_begun: bool) -> None:
    """Make the first and the last message valid. `is_begun`: there are messages before these."""
    ledger = writing.ledger
    messages = conversation.messages
    if not messages:
        _promote_instruction(conversation, writing)
    elif not is_begun and messages[0]["role"] != "user" and not _opens_compacted(messages[0]):
        messages.insert(0, _filler())
        ledger.invented(Feature.FIRST_TURN, ("messages",), "the first message must be the user's")
    last = messages[-1]
    if last["role"] != "assistant":
        return
    if _may_lead(request, writing):
        _trim(last, writing)
    else:
        messages.append(_filler())
        ledger.invented(Feature.PREFILL, ("messages",), "this model does not continue an assistant message")


def _trim(message: JsonObject, writing: RequestEncodeContext) -> None:
    """Remove white space at the end of a prefill: the provider rejects it, and generates it itself."""
    content = message["content"]
    block: JsonObject = {}
    if type(content) is list and _type(content[-1]) == "text":
        last = content[-1]
        block, content = (last, last["text"]) if type(last) is dict else ({}, None)
    if type(content) is str and content != (trimmed := content.rstrip()):
        if block:
            block["text"] = trimmed
        else:
            message["content"] = trimmed
        note = "what the answer begins with must not end with blanks here"
        writing.ledger.approximated(Feature.PREFILL, ("messages",), note)


def _opens_compacted(message: JsonObject) -> bool:
    """Whether a message begins with the compaction of all earlier ones."""
    content = message["content"]
    return isinstance(content, list) and bool(content) and _type(content[0]) == "compaction"


def _promote_instruction(conversation: MessageList, writing: RequestEncodeContext) -> None:
    """If there are only instructions, the last of them becomes the user's message (T5)."""
    if not conversation.system:
        conversation.messages.append(_filler())
        writing.ledger.invented(Feature.FIRST_TURN, ("messages",), "there must be a message")
        return
    conversation.messages.append({"role": "user", "content": shortened([conversation.system.pop()])})
    writing.ledger.approximated(Feature.FIRST_TURN, ("messages",), "the last instruction is said by the user")


def _filler() -> JsonObject:
    return {"role": "user", "content": FILLER}


def in_tool_loop_without_thinking(messages: list[JsonObject], *, is_all: bool = True) -> bool | None:
    """Whether the last message has results of calls, and no step since the user's last message has reasoning (V5).
    Claude does not think before every step, which the service accepts. With thinking off it rejects a loop that has
    some: https://github.com/BerriAI/litellm/issues/18926."""
    position = len(messages) - 1
    while position > 0 and _has_results(messages[position]):
        step = messages[position - 1]["content"]
        if messages[position - 1]["role"] != "assistant":
            break
        if isinstance(step, list) and any(_type(block) in _SEALED for block in step):
            return False
        position -= 2
    if position <= 0 and not is_all:
        return None
    return position < len(messages) - 1


_SEALED = ("thinking", "redacted_thinking")


def _has_results(message: JsonObject) -> bool:
    content = message["content"]
    return isinstance(content, list) and bool(content) and _type(content[0]) == "tool_result"


def _type(block: JsonValue) -> JsonValue:
    return block.get("type") if isinstance(block, dict) else None
