"""Counts the tokens of a full request in any protocol. Everything that the model reads counts once.

text                a tokenizer if one is installed, else the estimate; times the factor of the family; very long text
                    is sampled
tools               in the form that the model family gets them
pictures, pages     by their size in pixels, never by their bytes
reasoning           one of: its text, its encrypted form, its summary
framing             a few tokens for each message, call and result"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil

from msgspec import Struct

from dragoman.model.events import ArgumentsDelta, Event, PartGrew, PartReplaced, PartStarted, TextDelta
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Part, Refusal, Text, Thinking, ToolCall
from dragoman.tokens.estimate import estimator
from dragoman.tokens.families import Family, family_of
from dragoman.tokens.pictures import PAGE_SIZE, PAGE_TEXT, UNREAD, is_pdf, pages_of, picture_tokens, size_of
from dragoman.tokens.sample import sample_of
from dragoman.tokens.tokenizer import count_by_tokenizer
from dragoman.tokens.tooltext import json_text, tool_text
from dragoman.wire.media import BadDataUrl, decode_text, parse_data_url

_TEXT_MEMBERS = ("system", "instructions", "messages", "input", "response_format", "text", "output_config")
_TOOLS = ("tools", "functions")
_START = 3
_PER_MESSAGE = 4
PER_CALL = 8
_PER_RESULT = 6
# A second of speech is about ten tokens and four thousand bytes of a compressed file.
_BYTES_PER_SOUND_TOKEN = 400
# Base64 bytes per token of encrypted reasoning.
_SEALED_PER_TOKEN = 6
# IDs, breakpoints and signatures: sent to the provider, but not to the model.
_UNREAD = frozenset(
    [
        "type",
        "role",
        "id",
        "call_id",
        "tool_use_id",
        "tool_call_id",
        "item_id",
        "status",
        "phase",
        "index",
        "cache_control",
        "signature",
        "encrypted_content",
        "thought_signature",
        "citations",
        "annotations",
        "logprobs",
        "caller",
        "detail",
        "is_error",
        "strict",
    ]
)

# Names of reasoning on Chat servers. Several of them hold the same text.
_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")


class CountedTokens(Struct, frozen=True, kw_only=True):
    """A number of tokens, and the method: `tokenizer` or `calibrated`."""

    tokens: int
    by: str


def count_texts(texts: list[str], family: Family) -> CountedTokens:
    sample = sample_of(texts)
    exact = count_by_tokenizer(family.vocabulary, sample.pieces)
    counted = estimator().count(sample.pieces) if exact is None else exact
    tokens = ceil(counted * sample.scale * family.factor)
    return CountedTokens(tokens=tokens, by="calibrated" if exact is None else "tokenizer")


def count_request(body: JsonObject, model: str) -> CountedTokens:
    """Count the tokens of a request body for a model; at least one."""
    reading = _Reading(family_of(model))
    for name in _TEXT_MEMBERS:
        if name in body:
            reading.read(body[name])
    for name in _TOOLS:
        tools = body.get(name)
        if isinstance(tools, list) and tools:
            reading.tools(tools)
    counted = count_texts(reading.texts, reading.family)
    return CountedTokens(tokens=_START + reading.fixed + counted.tokens, by=counted.by)


class _Reading:
    """Walks through the body: collects texts, and counts everything else at once."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.texts: list[str] = []
        self.fixed = 0
        self._waiting: list[JsonValue] = []

    def read(self, value: JsonValue) -> None:
        self._waiting.append(value)
        while self._waiting:
            item = self._waiting.pop()
            if isinstance(item, str):
                self.texts.append(item)
            elif isinstance(item, list):
                self._waiting.extend(item)
            elif isinstance(item, dict):
                kind = item.get("type")
                reader = _READERS.get(kind) if isinstance(kind, str) else None
                if reader is None:
                    self._members(item)
                else:
                    reader(self, item)
            elif item is not None:
                self.texts.append(json_text(item))

    def tools(self, tools: list[JsonValue]) -> None:
        self.fixed += self.family.tools_preface
        for tool in tools:
            text, added = tool_text(tool, self.family.tools)
            self.texts.append(text)
            self.fixed += added

    def _members(self, item: JsonObject) -> None:
        """A message by its content. An unknown item by its members and names."""
        message = "role" in item
        self.fixed += _PER_MESSAGE if message else 0
        thought = next((name for name in _THOUGHTS if item.get(name)), None)
        for name, member in item.items():
            if name in _THOUGHTS and name != thought:
                continue
            if name == "tool_calls" and isinstance(member, list):
                self._waiting.extend(member)
            elif name not in _UNREAD or (name == "type" and not isinstance(member, str)):
                if not message:
                    self.texts.append(name)
                self._waiting.append(member)

    def _text(self, item: JsonObject) -> None:
        self._waiting.append(item.get("text", item.get("refusal")))

    def _call(self, item: JsonObject) -> None:
        """A call: its name, and its arguments as JSON or text."""
        self.fixed += PER_CALL
        inner = item.get("function", item.get("custom"))
        call = inner if isinstance(inner, dict) else item
        for name in ("name", "arguments", "input", "action", "actions", "operation"):
            value = call.get(name)
            if value is not None:
                self.texts.append(value if isinstance(value, str) else json_text(value))

    def _result(self, item: JsonObject) -> None:
        self.fixed += _PER_RESULT
        self._waiting.append(item.get("content", item.get("output")))

    def _thought(self, item: JsonObject) -> None:
        """Reasoning, counted once: its text, else its encrypted form, else its summary."""
        text = item.get("thinking") or item.get("content")
        sealed = item.get("encrypted_content", item.get("data"))
        if text:
            self._waiting.append(text)
        elif isinstance(sealed, str) and sealed:
            self.fixed += len(sealed) // _SEALED_PER_TOKEN + 1
        else:
            self._waiting.append(item.get("summary"))

    def _picture(self, item: JsonObject) -> None:
        where = item.get("image_url")
        holder = where if isinstance(where, dict) else item
        detail = holder.get("detail")
        where = where.get("url") if isinstance(where, dict) else where
        source = item.get("source")
        data = _payload(where)[1]
        if isinstance(source, dict) and source.get("type") == "base64":
            given = source.get("data")
            data = given if isinstance(given, str) else ""
        self._seen(size_of(data) if data else UNREAD, detail if isinstance(detail, str) else "")

    def _seen(self, size: tuple[int, int], detail: str = "") -> None:
        self.fixed += picture_tokens(size, self.family.picture, detail)

    def _document(self, item: JsonObject) -> None:
        """A file by its text or its pages, with its title and context."""
        source, inner = item.get("source"), item.get("file")
        holder: JsonObject = source if isinstance(source, dict) else inner if isinstance(inner, dict) else item
        self._waiting.extend(item.get(name) for name in ("title", "context"))
        self._waiting.append(holder.get("filename"))
        match holder.get("type"):
            case "text":
                self._waiting.append(holder.get("data"))
                return
            case "content":
                self._waiting.append(holder.get("content"))
                return
        given = holder.get("data", holder.get("file_data"))
        media_type, data = _payload(given)
        data = data or (given if isinstance(given, str) else "")
        text = decode_text(data) if data and not is_pdf(data) and not media_type.startswith("image/") else None
        if text is not None:
            self.texts.append(text)
            return
        pages = pages_of(data)
        self.fixed += pages * ceil(PAGE_TEXT * self.family.factor)
        self.fixed += pages * picture_tokens(PAGE_SIZE, self.family.picture, "")

    def _sound(self, item: JsonObject) -> None:
        inner = item.get("input_audio")
        data = inner.get("data") if isinstance(inner, dict) else None
        self.fixed += 1 + (len(data) * 3 // 4 // _BYTES_PER_SOUND_TOKEN if isinstance(data, str) else 0)


def _payload(where: JsonValue) -> tuple[str, str]:
    """Media type and base64 of a data URL; nothing for any other URL."""
    try:
        return (parse_data_url(where) if isinstance(where, str) else None) or ("", "")
    except BadDataUrl:
        return "", ""


_TEXTS = ("text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text")
_CALLS = [
    "tool_use",
    "server_tool_use",
    "mcp_tool_use",
    "function",
    "custom",
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
]
_RESULTS = [
    "tool_result",
    "mcp_tool_result",
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
    "computer_call_output",
]
_READERS: Mapping[str, Callable[[_Reading, JsonObject], None]] = {
    **dict.fromkeys(_TEXTS, _Reading._text),
    **dict.fromkeys(_CALLS, _Reading._call),
    **dict.fromkeys(_RESULTS, _Reading._result),
    **dict.fromkeys(("thinking", "redacted_thinking", "reasoning"), _Reading._thought),
    **dict.fromkeys(("image", "image_url", "input_image", "computer_screenshot"), _Reading._picture),
    **dict.fromkeys(("document", "file", "input_file"), _Reading._document),
    "input_audio": _Reading._sound,
}


def count_response(events: Iterable[Event], model: str) -> CountedTokens:
    texts: dict[int, list[str]] = {}
    calls = 0
    for event in events:
        if isinstance(event, PartGrew):
            if isinstance(event.delta, TextDelta | ArgumentsDelta):
                texts.setdefault(event.index, []).append(event.delta.text)
            elif isinstance(event.delta, PartReplaced):
                texts[event.index] = _texts(event.delta.part)
        elif isinstance(event, PartStarted):
            calls += isinstance(event.part, ToolCall)
            texts[event.index] = _texts(event.part)
    # A word may be cut between two deltas, so deltas are joined before counting.
    counted = count_texts(["".join(pieces) for pieces in texts.values()], family_of(model))
    return CountedTokens(tokens=counted.tokens + PER_CALL * calls, by=counted.by)


def _texts(part: Part) -> list[str]:
    if isinstance(part, Text | Thinking | Refusal):
        return [part.text]
    return [f"{part.name} ", part.arguments] if isinstance(part, ToolCall) else []
