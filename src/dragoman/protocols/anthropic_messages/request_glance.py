"""Request glance for Messages: the members that routing, sessions and the relay need, each read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.request import Message
from dragoman.model.request_features import ConversationStart, RequestFeatures
from dragoman.model.session_hints import NO_HINTS, HintQuery, SessionHints
from dragoman.protocols.anthropic_messages.shapes import NAME, VENDOR
from dragoman.rules.capabilities import ID_RULES, Capabilities
from dragoman.rules.instructions import TELEMETRY, without_telemetry
from dragoman.rules.repairs import ENVELOPE, refuses
from dragoman.wire.conversation_history import HistoryReader, session_hints_in
from dragoman.wire.history_digest import (
    ASSISTANT,
    INSTRUCTION,
    NO_TOOLS,
    USER,
    CallOrResult,
    Turn,
    joined,
    tool_shape,
    without_reminders,
)
from dragoman.wire.peek import (
    EMPTY_LIST,
    NULL,
    UNREADABLE,
    conversation_start_in,
    has_value,
    length,
    listed,
    media_mark,
    number,
    peeked,
    readable,
    text_in,
)

# Members without which a request references nothing that its provider stores.
REFERENCE_KEYS = (b'"file_id"', b'"container"')
# The vendor's service tiers have no prices of their own; speed has.
TIERS = {"speed-fast": "speed-fast"}
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_WITHOUT_SEALS = frozenset({"text", "tool_use"})
_MEDIA = frozenset({"image", "document"})
# Maximum bytes of `metadata.user_id`, which holds a few IDs.
_MAX_USER_ID_LENGTH = 2048


class _Block(Struct, gc=False):
    kind: str = field(name="type", default="")
    text: str | None = ""
    id: str = ""
    name: str = ""
    tool_use_id: str = ""
    input: Raw = NULL
    content: Raw = NULL
    source: Raw = NULL
    # Signatures of thinking and of citations.
    signature: Raw = NULL
    data: Raw = NULL
    citations: Raw = NULL


class _Message(Struct, gc=False):
    role: str = ""
    content: str | list[_Block] | None = None

    @property
    def text(self) -> str:
        return _text_of(self.content)


class _Tool(Struct, gc=False):
    name: str = ""


class _Metadata(Struct, gc=False):
    user_id: str | None = None


class _Source(Struct):
    kind: str = field(name="type", default="")
    data: Raw = NULL


class _Thinking(Struct):
    kind: str = field(name="type", default="")


class _Output(Struct):
    format: Raw = NULL


_MESSAGES = msgspec.json.Decoder(list[_Message])
_MESSAGE = msgspec.json.Decoder(_Message)
_BLOCKS = msgspec.json.Decoder(list[_Block])
_SYSTEM = msgspec.json.Decoder(str | list[_Block] | None)
_TOOLS = msgspec.json.Decoder(list[_Tool] | None)
_METADATA = msgspec.json.Decoder(_Metadata | None)
_SOURCE = msgspec.json.Decoder(_Source)
_THINKING = msgspec.json.Decoder(_Thinking)
_OUTPUT = msgspec.json.Decoder(_Output)
_TELEMETRY = TELEMETRY.encode()


class MessagesGlance(Struct):
    members: Mapping[str, Raw]
    stream: bool = False
    is_crowded: bool = False
    _messages: Sequence[_Message] | None = None
    _is_odd: bool = False
    # Bound once, because a class attribute is slow to look up.
    protocol: str = NAME

    def _read(self) -> Sequence[_Message]:
        if self._messages is None:
            messages = self.members.get("messages", EMPTY_LIST)
            try:
                self._messages = _MESSAGES.decode(messages)
            except UNREADABLE:
                self._is_odd, self._messages = True, readable(messages, _MESSAGE)
        return self._messages

    @property
    def history(self) -> Raw:
        return self.members.get("messages", EMPTY_LIST)

    def usual_messages(self) -> tuple[Message, ...] | None:
        """No messages: they are not read in shapes that can be translated."""
        return None

    def forget(self) -> None:
        """Drop the parsed messages, which are as large as the body."""
        self._messages = None

    def request_features(self) -> RequestFeatures:
        """Tools, media, thinking, structured output, and the maximum output."""
        member = self.members.get
        images = documents = stored = False
        media = 0
        for message in self._read():
            blocks = message.content if isinstance(message.content, list) else ()
            for block in (*blocks, *_within(blocks)):
                if block.kind in _MEDIA:
                    images, documents = images or block.kind == "image", documents or block.kind == "document"
                    source = peeked(block.source, _SOURCE)
                    media += length(source.data) if source is not None and source.kind == "base64" else 0
                    stored = stored or (source is not None and source.kind == "file")
        thinking = peeked(member("thinking", NULL), _THINKING)
        output = peeked(member("output_config", NULL), _OUTPUT)
        return RequestFeatures(
            tools=has_value(member("tools", NULL)),
            images=images,
            documents=documents,
            thinking=thinking is not None and thinking.kind in ("enabled", "adaptive"),
            structured=has_value(member("output_format", NULL)) or (output is not None and has_value(output.format)),
            media=media,
            max_output=number(member("max_tokens", NULL)),
            references_stored=stored or has_value(member("container", NULL)),
            tier="speed-fast" if bytes(member("speed", NULL)) == b'"fast"' else "",
        )

    def conversation_start(self) -> ConversationStart:
        system = text_in(self.members.get("system", NULL))
        return conversation_start_in(self._read(), system)

    def session_hints(
        self, query: HintQuery, *, is_named: bool = False, reader: HistoryReader | None = None
    ) -> SessionHints:
        """Session hints of the request; none if it is invalid."""
        members = self.members
        try:
            messages = _MESSAGES.decode(reader.tail) if reader is not None and reader.tail else self._read()
            system = members.get("system", NULL)
            instructions = _instructions(system) if reader is None else reader.text_of(system, _instructions)
            metadata = _METADATA.decode(members["metadata"]) if "metadata" in members else None
            tools = tool_shape(members["tools"], query, _tool_names) if "tools" in members else NO_TOOLS
        except UNREADABLE:
            return NO_HINTS
        if self._is_odd:
            return NO_HINTS
        user = (metadata.user_id or "") if metadata is not None else ""
        return session_hints_in(
            [*map(_turn, messages)],
            query,
            instructions=instructions,
            tools=tools,
            user=user if len(user) <= _MAX_USER_ID_LENGTH else "",
            is_named=is_named,
            reader=reader,
        )

    def needs_repair(self, capabilities: Capabilities, vendor: str) -> bool:
        """Whether the relay may have to repair the request for a model (`relay.py`)."""
        members = self.members
        if self.is_crowded or (vendor != VENDOR and _TELEMETRY in bytes(members.get("system", NULL))):
            return True
        result_ids: list[str] = []
        for message in self._read():
            for block in message.content if isinstance(message.content, list) else ():
                kind = block.kind
                if kind == "tool_result" and block.tool_use_id:
                    result_ids.append(block.tool_use_id)
                elif kind in _WITHOUT_SEALS and block.citations is NULL and block.signature is block.data is NULL:
                    continue
                elif _is_suspect(block):
                    return True
        if self._is_odd:
            return True
        if not result_ids:
            return False
        if capabilities.loops_need_thinking and "thinking" in members:
            thinking = peeked(members["thinking"], _THINKING)
            if thinking is None or thinking.kind == "enabled":
                return True
        return refuses(result_ids, ID_RULES[NAME, capabilities.call_ids])


def _is_suspect(block: _Block) -> bool:
    """Whether a block may have a signature of another issuer, or lack a required one."""
    seals = [seal for seal in (block.signature, block.data, block.citations) if seal is not NULL]
    if block.kind == "web_search_tool_result":
        seals.append(block.content)
    if not seals:
        return False
    written = b"".join(seals)
    return bytes(block.signature) == b'""' or ENVELOPE in written or b'"encrypted_index"' in written


def _instructions(system: Raw) -> str:
    decoded = _SYSTEM.decode(system)
    texts = [decoded] if isinstance(decoded, str) else [block.text or "" for block in decoded or ()]
    return "".join(map(without_telemetry, texts))


def _text_of(content: str | Sequence[_Block] | None) -> str:
    return content if isinstance(content, str) else "".join([block.text or "" for block in content or ()])


def _within(blocks: Sequence[_Block]) -> list[_Block]:
    return [inner for block in blocks if block.kind == "tool_result" for inner in listed(block.content, _BLOCKS)]


def _tool_names(tools: Raw) -> list[str]:
    return [tool.name for tool in _TOOLS.decode(tools) or ()]


def _turn(message: _Message) -> Turn:
    role, content = message.role, message.content
    if content is None or isinstance(content, str):
        text = content or ""
        if role == "system":
            return INSTRUCTION, "", text, ()
        if role == "assistant":
            return ASSISTANT, f"a{text}" if text else "", "", ()
        text = without_reminders(text)
        return USER, f"u{text}" if text else "", text, ()
    if role == "system":
        return INSTRUCTION, "", message.text, ()
    return _assistant_turn(content) if role == "assistant" else _user_turn(content)


def _assistant_turn(content: list[_Block]) -> Turn:
    pieces: list[str] = []
    calls: list[CallOrResult] = []
    for block in content:
        kind = block.kind
        if kind == "text":
            pieces.append(block.text or "")
        elif kind == "tool_use":
            pieces.append(f"call {block.id}")
            calls.append((block.id, block.name, block.input))
        elif kind not in _THOUGHTS:
            pieces.append(f"{kind} {block.id or block.tool_use_id}")
    return ASSISTANT, joined("a", pieces), "", calls


def _user_turn(content: list[_Block]) -> Turn:
    pieces: list[str] = []
    texts: list[str] = []
    results: list[CallOrResult] = []
    for block in content:
        kind = block.kind
        if kind == "text":
            text = without_reminders(block.text or "")
            if text:
                pieces.append(text)
                texts.append(text)
        elif kind == "tool_result":
            pieces.append(f"result {block.tool_use_id}")
            results.append((block.tool_use_id, "", block.content))
        else:
            pieces.append(media_mark(kind, block.source))
    return USER, joined("u", pieces), "\n".join(texts), results
