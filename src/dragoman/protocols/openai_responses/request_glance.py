"""Request glance for Responses: the members that routing, sessions and the relay need, each read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.request import Message
from dragoman.model.request_features import ConversationStart, RequestFeatures
from dragoman.model.session_hints import NO_HINTS, HintQuery, SessionHints
from dragoman.protocols.openai_responses.shapes import NAME
from dragoman.rules.capabilities import ID_RULES, Capabilities
from dragoman.rules.repairs import ENVELOPE, refuses
from dragoman.wire.conversation_history import HistoryReader, session_hints_in
from dragoman.wire.history_digest import (
    ASSISTANT,
    INSTRUCTION,
    NO_TOOLS,
    USER,
    Turn,
    joined,
    tool_shape,
    without_reminders,
)
from dragoman.wire.peek import (
    NULL,
    UNREADABLE,
    conversation_start_in,
    has_value,
    is_text,
    length,
    listed,
    media_mark,
    number,
    peeked,
    readable,
    text_in,
)

# Members without which a request references no items of its provider other than responses and conversations.
REFERENCE_KEYS = (b'"file_id"', b'"container"', b'"vector_store_ids"')
# Tiers with prices of their own, by their names in requests of all protocols.
TIERS = {"flex": "flex", "priority": "priority", "fast": "priority", "speed-fast": "priority"}
_USUAL_TIERS = frozenset({"", "auto", "default"})
_MAX_TIER_BYTES = 32
_MAX_KEY_LENGTH = 512
_MAX_METADATA_BYTES = 16 * 1024
_INSTRUCTING = frozenset({"system", "developer"})
_CALLS = frozenset({"function_call", "custom_tool_call"})
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
# Occurrences of an ID in a request: in the call and in its result.
ID_TIMES = 2


class _Part(Struct, gc=False):
    kind: str = field(name="type", default="")
    text: str | None = ""
    image_url: Raw = NULL
    file_data: Raw = NULL
    file_id: Raw = NULL


class _Item(Struct, gc=False):
    kind: str | None = field(name="type", default="")
    role: str | None = ""
    content: str | list[_Part] | None = None
    id: str | None = None
    call_id: str | None = None
    name: str = ""
    arguments: Raw = NULL
    input: Raw = NULL
    output: Raw = NULL
    encrypted_content: Raw = NULL

    @property
    def text(self) -> str:
        return "".join(_texts(self.content))


class _Tool(Struct, gc=False):
    kind: str = field(name="type", default="")
    name: str = ""
    # Of a namespace.
    tools: list[_Tool] | None = None
    vector_store_ids: Raw = NULL
    container: Raw = NULL


class _Conversation(Struct, gc=False):
    id: str = ""


class _Kind(Struct):
    kind: str = field(name="type", default="")


class _Text(Struct):
    format: Raw = NULL


class _Reasoning(Struct):
    effort: str | None = None
    summary: str | None = None


_ITEMS = msgspec.json.Decoder(list[_Item])
_ITEM = msgspec.json.Decoder(_Item)
_PARTS = msgspec.json.Decoder(list[_Part])
_TOOLS = msgspec.json.Decoder(list[_Tool])
_ANY_TOOLS = msgspec.json.Decoder(list[_Tool] | None)
_STRING = msgspec.json.Decoder(str | None)
_CONVERSATION = msgspec.json.Decoder(str | _Conversation | None)
_TEXT = msgspec.json.Decoder(_Text)
_KIND = msgspec.json.Decoder(_Kind)
_REASONING = msgspec.json.Decoder(_Reasoning)
# Clients may drop reasoning.
_NOTHING: Turn = (INSTRUCTION, "", "", ())


class ResponsesGlance(Struct):
    """Glance at a Responses request. Input items are parsed on first use."""

    members: Mapping[str, Raw]
    stream: bool = False
    is_crowded: bool = False
    _items: Sequence[_Item] | None = None
    _is_odd: bool = False
    # Bound once, because a class attribute is slow to look up.
    protocol: str = NAME

    def _read(self) -> Sequence[_Item]:
        if self._items is None:
            given = self.members.get("input", NULL)
            try:
                if is_text(given):
                    self._items = (_Item(role="user", content=_STRING.decode(given)),)
                else:
                    self._items = () if given == NULL else _ITEMS.decode(given)
            except UNREADABLE:
                self._is_odd, self._items = True, readable(given, _ITEM)
        return self._items

    @property
    def history(self) -> Raw:
        return self.members.get("input", NULL)

    def usual_messages(self) -> tuple[Message, ...] | None:
        """No messages: they are not read in shapes that can be translated."""
        return None

    def forget(self) -> None:
        self._items = None

    def request_features(self) -> RequestFeatures:
        """Tools, media, thinking, structured output, and the maximum output."""
        member = self.members.get
        images = documents = stored = False
        media = 0
        for item in self._read():
            parts = item.content if isinstance(item.content, list) else ()
            # Results of tools may contain media.
            for part in (*parts, *listed(item.output, _PARTS)):
                images = images or part.kind == "input_image"
                documents = documents or part.kind == "input_file"
                media += length(part.image_url) + length(part.file_data)
                stored = stored or has_value(part.file_id)
        for tool in listed(member("tools", NULL), _TOOLS):
            stored = (
                stored
                or (tool.kind == "file_search" and has_value(tool.vector_store_ids))
                or (tool.kind == "code_interpreter" and is_text(tool.container))
            )
        reasoning = peeked(member("reasoning", NULL), _REASONING)
        text = peeked(member("text", NULL), _TEXT)
        output_format = peeked(text.format, _KIND) if text is not None else None
        tier = member("service_tier", NULL)
        requested_tier = text_in(tier) if length(tier) <= _MAX_TIER_BYTES else ""
        return RequestFeatures(
            tools=has_value(member("tools", NULL)),
            images=images,
            documents=documents,
            thinking=reasoning is not None
            and (reasoning.effort not in (None, "none") or reasoning.summary is not None),
            structured=output_format is not None and output_format.kind in ("json_schema", "json_object"),
            media=media,
            max_output=number(member("max_output_tokens", NULL)),
            references_stored=stored,
            tier="" if requested_tier in _USUAL_TIERS else requested_tier,
        )

    def conversation_start(self) -> ConversationStart:
        """The start of the conversation, or its cache key."""
        cache_key = self.members.get("prompt_cache_key", NULL)
        if has_value(cache_key):
            return ConversationStart(cache_key=text_in(cache_key))
        instructions, items = text_in(self.members.get("instructions", NULL)), self._read()
        if not items:
            return ConversationStart(instructions=instructions)
        return conversation_start_in(items, instructions)

    def session_hints(
        self, query: HintQuery, *, is_named: bool = False, reader: HistoryReader | None = None
    ) -> SessionHints:
        """Session hints of the request; none if it is invalid."""
        members = self.members
        try:
            items = _ITEMS.decode(reader.tail) if reader is not None and reader.tail else self._read()
            written = members.get("instructions", NULL)
            instructions = _string(written) if reader is None else reader.text_of(written, _string)
            cache_key, previous = [_string(members[name]) if name in members else "" for name in _TEXTS]
            conversation = _CONVERSATION.decode(members["conversation"]) if "conversation" in members else None
            tools = tool_shape(members["tools"], query, _tool_names) if "tools" in members else NO_TOOLS
        except UNREADABLE:
            return NO_HINTS
        if self._is_odd:
            return NO_HINTS
        metadata = members.get("client_metadata", NULL)
        return session_hints_in(
            [*map(_turn, items)],
            query,
            instructions=instructions,
            tools=tools,
            cache_key=cache_key if len(cache_key) <= _MAX_KEY_LENGTH else "",
            metadata=bytes(metadata) if 0 < length(metadata) <= _MAX_METADATA_BYTES else b"",
            conversation=conversation.id if isinstance(conversation, _Conversation) else conversation or "",
            previous=previous,
            is_named=is_named,
            reader=reader,
        )

    def needs_repair(self, capabilities: Capabilities, _vendor: str) -> bool:
        """Whether the relay may have to repair the request for a model (`relay.py`)."""
        if self.is_crowded:
            return True
        ids: list[str] = []
        for item in self._read():
            if item.encrypted_content is not NULL and bytes(item.encrypted_content).startswith(ENVELOPE):
                return True
            if item.call_id:
                ids.append(item.call_id)
        return self._is_odd or (bool(ids) and refuses(ids, ID_RULES[NAME, capabilities.call_ids], ID_TIMES))


_TEXTS = ("prompt_cache_key", "previous_response_id")


def _string(written: Raw) -> str:
    return _STRING.decode(written) or ""


def _tool_names(tools: Raw) -> list[str]:
    return [inner.name for tool in _ANY_TOOLS.decode(tools) or () for inner in (tool.tools or (tool,))]


def _turn(item: _Item) -> Turn:
    kind, role = item.kind or "", item.role
    if kind in _CALLS:
        call_id = item.call_id or ""
        arguments = item.arguments if length(item.arguments) else item.input
        return ASSISTANT, f"acall {call_id}", "", ((call_id, item.name, arguments),)
    if kind in _RESULTS:
        call_id = item.call_id or ""
        return USER, f"uresult {call_id}", "", ((call_id, "", item.output),)
    if role == "user":
        return _user_turn(item.content)
    if role == "assistant":
        return ASSISTANT, joined("a", _texts(item.content)), "", ()
    if role in _INSTRUCTING:
        return INSTRUCTION, "", item.text, ()
    if kind == "reasoning":
        return _NOTHING
    # Items of hosted tools and unknown items count as the model's, by their IDs.
    return ASSISTANT, f"a{kind} {item.id or item.call_id or ''}", "", ()


def _user_turn(content: str | list[_Part] | None) -> Turn:
    texts = [text for text in map(without_reminders, _texts(content)) if text]
    pieces = texts
    for part in content if isinstance(content, list) else ():
        media = [raw for raw in (part.image_url, part.file_data, part.file_id) if length(raw)]
        if media:
            pieces = pieces + [media_mark("media", raw) for raw in media]
    return USER, joined("u", pieces), "\n".join(texts), ()


def _texts(content: str | list[_Part] | None) -> list[str]:
    if content is None or isinstance(content, str):
        return [content] if content else []
    return [part.text for part in content if part.text]
