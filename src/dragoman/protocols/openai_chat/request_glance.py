"""Request glance for Chat: the members that routing, sessions and the relay need, each read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.request import Message
from dragoman.model.request_features import ConversationStart, RequestFeatures
from dragoman.model.session_hints import NO_HINTS, HintQuery, SessionHints
from dragoman.protocols.openai_chat.shapes import NAME
from dragoman.protocols.openai_chat.usual_messages import UsualMessage, decode_usual
from dragoman.rules.capabilities import ID_RULES, Capabilities
from dragoman.rules.repairs import refuses
from dragoman.wire.conversation_history import HistoryReader, session_hints_in
from dragoman.wire.history_digest import (
    ASSISTANT,
    INSTRUCTION,
    NO_TOOLS,
    REMINDER,
    SEPARATOR,
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
    media_mark,
    number,
    peeked,
    readable,
    text_in,
)

# Members without which a request references nothing that its provider stores.
REFERENCE_KEYS = (b'"file_id"',)
# Tiers with prices of their own, by their names in requests of all protocols.
TIERS = {"flex": "flex", "priority": "priority", "fast": "priority", "speed-fast": "priority"}
_USUAL_TIERS = frozenset({"", "auto", "default"})
_MAX_TIER_BYTES = 32
# No provider with several choices accepts more.
_MAX_CHOICES = 128
_MAX_KEY_LENGTH = 512
_NO_EFFORT = (b"null", b'"none"')
_INSTRUCTING = frozenset({"system", "developer"})


class _Part(Struct, gc=False):
    kind: str = field(name="type", default="")
    text: str | None = ""
    image_url: Raw = NULL
    file: Raw = NULL
    input_audio: Raw = NULL

    @property
    def media(self) -> list[Raw]:
        return [raw for raw in (self.image_url, self.file, self.input_audio) if length(raw)]


class _Function(Struct, gc=False):
    name: str = ""
    arguments: Raw = NULL


class _Call(Struct, gc=False):
    id: str = ""
    function: _Function | None = None


class _Message(Struct, gc=False):
    role: str = ""
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = ""
    reasoning_details: Raw = NULL

    @property
    def text(self) -> str:
        content = self.content
        return content if isinstance(content, str) else "".join([part.text or "" for part in content or ()])


class _AnyFunction(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def arguments(self) -> Raw | str: ...


class _AnyCall(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def function(self) -> _AnyFunction | None: ...


class _AnyMessage(Protocol):
    """A message as it was read: in its usual shape, or leniently."""

    @property
    def role(self) -> str: ...
    @property
    def content(self) -> str | list[_Part] | None: ...
    @property
    def tool_calls(self) -> Sequence[_AnyCall] | None: ...
    @property
    def tool_call_id(self) -> str | None: ...
    @property
    def reasoning_details(self) -> Raw: ...
    @property
    def text(self) -> str: ...


class _Tool(Struct, gc=False):
    function: _Function | None = None


class _Format(Struct):
    kind: str = field(name="type", default="")


_USUAL = msgspec.json.Decoder(list[UsualMessage])
# Bytes of messages that are read in their usual shapes, if they have them, so that a translation need not read them
# again; that of more messages continues an earlier one instead.
_MAX_USUAL = 8 * 1024
_MESSAGES = msgspec.json.Decoder(list[_Message])
_MESSAGE = msgspec.json.Decoder(_Message)
_TOOLS = msgspec.json.Decoder(list[_Tool] | None)
_KEY = msgspec.json.Decoder(str | None)
_FORMAT = msgspec.json.Decoder(_Format)
_NO_FUNCTION = _Function()


class ChatGlance(Struct):
    members: Mapping[str, Raw]
    stream: bool = False
    is_crowded: bool = False
    _messages: Sequence[_AnyMessage] | None = None
    # The same if all of them have a usual shape.
    _usual: Sequence[UsualMessage] | None = None
    # Whether a message has an invalid form.
    _is_odd: bool = False
    # Bound once, because a class attribute is slow to look up.
    protocol: str = NAME

    def _read(self) -> Sequence[_AnyMessage]:
        if self._messages is None:
            messages = self.members.get("messages", EMPTY_LIST)
            try:
                if len(messages) <= _MAX_USUAL:
                    self._messages = self._usual = _USUAL.decode(messages)
                    return self._messages
            except UNREADABLE:
                self._usual = None
            self._messages = self._read_leniently(messages)
        return self._messages

    def _read_leniently(self, messages: Raw) -> Sequence[_AnyMessage]:
        try:
            return _MESSAGES.decode(messages)
        except UNREADABLE:
            self._is_odd = True
            return readable(messages, _MESSAGE)

    def usual_messages(self) -> tuple[Message, ...] | None:
        """The messages, decoded, if all of them have their usual shapes."""
        self._read()
        return None if self._usual is None else decode_usual(self._usual)

    @property
    def history(self) -> Raw:
        return self.members.get("messages", EMPTY_LIST)

    def forget(self) -> None:
        """Drop the parsed messages, which are as large as the body."""
        self._messages = self._usual = None

    def request_features(self) -> RequestFeatures:
        """Tools, media, thinking, structured output, and the maximum output."""
        member = self.members.get
        images = documents = stored = False
        media = 0
        for message in self._read():
            for part in message.content if isinstance(message.content, list) else ():
                images = images or part.kind == "image_url"
                documents = documents or part.kind == "file"
                stored = stored or (part.kind == "file" and b'"file_id"' in bytes(part.file))
                media += sum(map(length, part.media))
        output_format = peeked(member("response_format", NULL), _FORMAT)
        cap, tier = number(member("max_completion_tokens", NULL)), member("service_tier", NULL)
        requested_tier = text_in(tier) if length(tier) <= _MAX_TIER_BYTES else ""
        return RequestFeatures(
            tools=has_value(member("tools", NULL)) or has_value(member("functions", NULL)),
            images=images,
            documents=documents,
            thinking=bytes(member("reasoning_effort", NULL)) not in _NO_EFFORT,
            structured=output_format is not None and output_format.kind in ("json_schema", "json_object"),
            media=media,
            max_output=number(member("max_tokens", NULL)) if cap is None else cap,
            references_stored=stored,
            choices=min(max(number(member("n", NULL)) or 1, 1), _MAX_CHOICES),
            tier="" if requested_tier in _USUAL_TIERS else requested_tier,
        )

    def conversation_start(self) -> ConversationStart:
        """The start of the conversation, or its cache key."""
        cache_key = self.members.get("prompt_cache_key", NULL)
        if has_value(cache_key):
            return ConversationStart(cache_key=text_in(cache_key))
        return conversation_start_in(self._read())

    def session_hints(
        self, query: HintQuery, *, is_named: bool = False, reader: HistoryReader | None = None
    ) -> SessionHints:
        """Session hints of the request; none if it is invalid."""
        members = self.members
        try:
            messages = _MESSAGES.decode(reader.tail) if reader is not None and reader.tail else self._read()
            cache_key = (_KEY.decode(members["prompt_cache_key"]) or "") if "prompt_cache_key" in members else ""
            tools = tool_shape(members["tools"], query, _tool_names) if "tools" in members else NO_TOOLS
        except UNREADABLE:
            return NO_HINTS
        if self._is_odd:
            return NO_HINTS
        return session_hints_in(
            _turns(messages),
            query,
            tools=tools,
            cache_key=cache_key if len(cache_key) <= _MAX_KEY_LENGTH else "",
            is_named=is_named,
            reader=reader,
        )

    def needs_repair(self, capabilities: Capabilities, _vendor: str) -> bool:
        """Whether the relay may have to repair the request for a model (`relay.py`)."""
        if self.is_crowded or (capabilities.max_completion_tokens and "max_tokens" in self.members):
            return True
        messages = self._read()
        if self._usual is None and any(message.reasoning_details is not NULL for message in messages):
            return True
        result_ids = [message.tool_call_id for message in messages if message.tool_call_id]
        if not result_ids:
            return self._is_odd
        return self._is_odd or refuses(result_ids, ID_RULES[NAME, capabilities.call_ids])


def _tool_names(tools: Raw) -> list[str]:
    return [(tool.function or _NO_FUNCTION).name for tool in _TOOLS.decode(tools) or ()]


def _turns(messages: Sequence[_AnyMessage]) -> list[Turn]:
    turns: list[Turn] = []
    for message in messages:
        role, content = message.role, message.content
        if content is None:
            content = ""
        elif not isinstance(content, str):
            turns.append(_turn_of_parts(message, content))
            continue
        if role == "tool":
            result = message.tool_call_id or ""
            turns.append((USER, f"uresult {result}", "", ((result, "", content),)))
        elif role == "system" or role == "developer":
            turns.append((INSTRUCTION, "", content, ()))
        else:
            if REMINDER in content:
                content = without_reminders(content)
            if role != "assistant":
                turns.append((USER, "u" + content if content else "", content, ()))
            elif message.tool_calls:
                turns.append(_calling_turn([content] if content else [], message.tool_calls))
            else:
                turns.append((ASSISTANT, "a" + content if content else "", "", ()))
    return turns


def _turn_of_parts(message: _AnyMessage, content: list[_Part]) -> Turn:
    role = message.role
    if role in _INSTRUCTING:
        return INSTRUCTION, "", message.text, ()
    if role == "tool":
        result = message.tool_call_id or ""
        return USER, f"uresult {result}", "", ((result, "", message.text),)
    texts = [text for part in content if part.kind == "text" and (text := without_reminders(part.text or ""))]
    if role == "assistant":
        return _calling_turn(texts, message.tool_calls or [])
    media = [media_mark("media", raw) for part in content for raw in part.media]
    return USER, joined("u", texts + media), "\n".join(texts), ()


def _calling_turn(pieces: list[str], calls: Sequence[_AnyCall]) -> Turn:
    entries: list[CallOrResult] = []
    for call in calls:
        function = call.function or _NO_FUNCTION
        pieces.append(f"call {call.id}")
        entries.append((call.id, function.name, function.arguments))
    return ASSISTANT, "a" + SEPARATOR.join(pieces) if pieces else "", "", entries
