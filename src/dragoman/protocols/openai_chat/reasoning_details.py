"""Structured reasoning, assembled from fragments: `reasoning_details`, and `thinking_blocks` of LiteLLM (V7)."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.protocols.openai_chat.shapes import BESIDE, BLOCKS, REASONING_FIELDS
from dragoman.wire.json import encode_text


class ReasoningDetails:
    """Merges entries of `reasoning_details` by index and type, and a bare signature into the entry before it."""

    __slots__ = ("_by_index", "_entries", "_texts")

    def __init__(self) -> None:
        self._entries: list[JsonObject] = []
        self._by_index: dict[str, int] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}

    def add(self, entry: JsonObject) -> None:
        number = self._completed(entry)
        if number is None:
            self._entries.append({key: value for key, value in entry.items() if value is not None})
            return
        earlier = self._entries[number]
        for key, value in entry.items():
            existing = earlier.get(key)
            if key in _JOINED and isinstance(value, str) and isinstance(existing, str):
                self._texts.setdefault((number, key), [existing]).append(value)
            elif value is not None and value != "":
                earlier[key] = value
                self._texts.pop((number, key), None)

    def merged(self) -> list[JsonObject]:
        for (number, key), pieces in self._texts.items():
            self._entries[number][key] = "".join(pieces)
        self._texts.clear()
        return self._entries

    def _completed(self, entry: JsonObject) -> int | None:
        """The number of the entry that this one continues; None for a new entry."""
        index = entry.get("index")
        if index is None:
            bare = bool(entry.get("signature")) and not any(entry.get(key) for key in ("text", "summary", "data"))
            return len(self._entries) - 1 if self._entries and bare else None
        number = self._by_index.setdefault(encode_text([index, entry.get("type")]), len(self._entries))
        return number if number < len(self._entries) else None


_JOINED = ("text", "summary")


def detail_text(entry: JsonObject) -> str:
    text = entry.get("text") or entry.get("summary")
    return text if isinstance(text, str) else ""


def repeats(text: str, joined: str) -> bool:
    """Whether two texts are equal apart from white space: servers join fragments in different ways."""
    return text == joined or "".join(text.split()) == "".join(joined.split())


class Blocks:
    """Unindexed `thinking_blocks` (https://docs.litellm.ai/docs/reasoning_content): a block is open until it is
    signed."""

    __slots__ = ("_blocks", "_pieces")

    def __init__(self) -> None:
        self._blocks: list[JsonObject] = []
        self._pieces: list[str] = []

    def add(self, block: JsonObject) -> None:
        last = self._blocks[-1] if self._blocks else None
        more = block.get("thinking")
        is_closed = last is None or last.get("signature") or last.get("data")
        if last is None or is_closed or block.get("type", "thinking") != last.get("type", "thinking"):
            self.merged()
            self._blocks.append({key: value for key, value in block.items() if value is not None})
            self._pieces = [more] if isinstance(more, str) else []
            return
        # The signed block at the end may repeat the fragments.
        if isinstance(more, str) and not (block.get("signature") and more == "".join(self._pieces)):
            self._pieces.append(more)
        last.update({key: value for key, value in block.items() if value and key != "thinking"})

    def merged(self) -> list[JsonObject]:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
            self._blocks[-1]["thinking"] = self._pieces[0]
        return self._blocks


def block_text(block: JsonObject) -> str:
    """The readable text of a block: a string, or a list of parts (Mistral:
    https://docs.mistral.ai/capabilities/reasoning/)."""
    thinking = block.get("thinking")
    if not isinstance(thinking, list):
        return thinking if isinstance(thinking, str) else ""
    return "".join([text_of([piece]) or "" for piece in thinking])


def text_of(value: JsonValue) -> str | None:
    """The text of a member that is a string or a list of text parts, else None."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return None
    texts: list[str] = []
    for part in value:
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            return None
        texts.append(text)
    return "".join(texts) if texts else None


def nested_blocks(owner: JsonObject) -> JsonValue:
    """The blocks of a message or delta: LiteLLM sends them in one of two members, or in both."""
    blocks, beside = owner.get(BLOCKS), owner.get(BESIDE)
    return blocks if blocks or not isinstance(beside, dict) else beside.get(BLOCKS)


def repeats_itself(owner: JsonObject) -> bool:
    """Whether LiteLLM's member next to the message only repeats its reasoning."""
    beside = owner.get(BESIDE)
    return isinstance(beside, dict) and all(key in _REASONING or value is None for key, value in beside.items())


_REASONING = frozenset({BLOCKS, *REASONING_FIELDS})
