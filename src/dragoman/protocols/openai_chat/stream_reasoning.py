"""Reasoning of a stream, assembled from the members that servers use (V7)."""

from __future__ import annotations

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.parts import Seal
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_chat.reasoning import StatedReasoning, Structured, text_seal
from dragoman.protocols.openai_chat.reasoning_details import (
    Blocks,
    ReasoningDetails,
    block_text,
    nested_blocks,
    repeats,
    text_of,
)
from dragoman.protocols.openai_chat.shapes import BLOCKS, CONTENT, DETAILS, ITEMS, OPAQUE, OTHERS_TOO, REASONING_FIELDS
from dragoman.wire.json import kind_of


class ThinkingRun:
    """One run of reasoning: the text, once, although several members may repeat it, and its details (V7)."""

    __slots__ = (
        "_blocks",
        "_details",
        "_items",
        "_opaque",
        "_part",
        "_part_pieces",
        "_signed",
        "_since",
        "pieces",
        "stated",
    )

    def __init__(self) -> None:
        self.stated: StatedReasoning | None = None
        self.pieces: list[str] = []
        self._details = ReasoningDetails()
        self._blocks = Blocks()
        self._items: list[JsonObject] = []
        self._opaque = ""
        # Thinking in the content: its members without the text, and the text in fragments.
        self._part: JsonObject | None = None
        self._part_pieces: JsonList = []
        self._since = 0
        # Whether a signature arrived: a server that signs fragments repeats nothing.
        self._signed = False

    def take(self, delta: JsonObject) -> str:
        stated_text = ""
        for field in REASONING_FIELDS:
            value = delta.get(field)
            if not value:
                continue
            text = text_of(value)
            if text is None:
                if field == OTHERS_TOO:
                    continue
                raise WireError(f"/choices/0/delta/{field}", "string", kind_of(value))
            if not stated_text:
                stated_text = text
                if self.stated is None and text:
                    self.stated = StatedReasoning(field, "")
            elif (
                text == stated_text
                and self.stated is not None
                and self.stated.also is None
                and self.stated.field != field
            ):
                self.stated = StatedReasoning(self.stated.field, "", field)
        opaque = delta.get(OPAQUE)
        if opaque and isinstance(opaque, str):
            self._opaque = opaque
        entries, blocks = _objects(delta.get(DETAILS), DETAILS), _objects(nested_blocks(delta), BLOCKS)
        for entry in entries:
            self._details.add(entry)
        for block in blocks:
            self._blocks.add(block)
        items = [item for item in _objects(delta.get(ITEMS), ITEMS) if item not in self._items[-1:]]
        self._items += items
        if not entries and not blocks and not items:
            return stated_text
        text = Structured(details=entries, blocks=blocks, items=items).text()
        return self._new(
            text, stated_text, signed=bool(items) or any(entry.get("signature") for entry in (*entries, *blocks))
        )

    def _new(self, text: str, stated_text: str, *, signed: bool) -> str:
        since = "".join(self.pieces[self._since :])
        self._since = len(self.pieces) + bool(stated_text)
        if stated_text or not text:
            return stated_text
        # Some servers repeat the fragments at the end, signed.
        whole, self._signed = signed and not self._signed, signed or self._signed
        if repeats(since, text) or (whole and repeats("".join(self.pieces), text)):
            return ""
        self._since += 1
        return text

    def take_part(self, part: JsonObject) -> str:
        """Read a thinking part of the content, and return its text."""
        text = block_text(part)
        if self._part is None:
            self._part = {}
            self.stated = self.stated or StatedReasoning(CONTENT, "")
        self._part.update({key: value for key, value in part.items() if value is not None and key != "thinking"})
        thinking = part.get("thinking")
        self._part_pieces += thinking if isinstance(thinking, list) else [thinking] if thinking is not None else []
        return text

    def seal(self, target: TargetModel) -> Seal:
        beside = Structured(
            details=self._details.merged(),
            blocks=self._blocks.merged(),
            items=self._items,
            opaque=self._opaque,
            parts=[self._merged_part()] if self._part is not None else [],
        )
        return text_seal(self.stated, "".join(self.pieces), beside, target)

    def _merged_part(self) -> JsonObject:
        """The thinking in the content, as one part with consecutive texts joined."""
        part: JsonObject = {"type": "thinking", **(self._part or {})}
        texts = [piece for piece in self._part_pieces if isinstance(piece, str)]
        if len(texts) == len(self._part_pieces):
            return {**part, "thinking": "".join(texts)} if texts else part
        grown: list[tuple[JsonValue, list[str]]] = []
        for piece in self._part_pieces:
            text = piece.get("text") if isinstance(piece, dict) else None
            if isinstance(text, str) and grown and grown[-1][1]:
                grown[-1][1].append(text)
            else:
                grown.append((piece, [text] if isinstance(text, str) else []))
        merged: JsonList = [
            {**first, "text": "".join(more)} if isinstance(first, dict) and more else first for first, more in grown
        ]
        return {**part, "thinking": merged}


def _objects(value: JsonValue, key: str) -> list[JsonObject]:
    if not value:
        return []
    if not isinstance(value, list):
        raise WireError(f"/choices/0/delta/{key}", "array", kind_of(value))
    return [entry for entry in value if isinstance(entry, dict)]
