"""Open reasoning of a stream: its summaries, or the reasoning itself without a summary, are one part."""

from __future__ import annotations

from itertools import islice

from dragoman.model.events import PartEnded, PartGrew, PartStarted, SealSet, TextDelta
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Thinking, ThinkingKind
from dragoman.protocols.openai_responses.items import decode_thinking
from dragoman.protocols.openai_responses.open_item import (
    NEAR,
    ItemContext,
    OpenItem,
    OpenPiece,
    bare,
    beyond_all,
    paired,
)
from dragoman.protocols.openai_responses.shapes import PART_MEMBERS, REASONING_MEMBERS
from dragoman.rules.extras import part_place
from dragoman.wire.fields import Fields


class OpenReasoning(OpenItem):
    __slots__ = ("_index", "_opened", "_pieces")

    def __init__(self, context: ItemContext, kind: str, body: JsonObject) -> None:
        super().__init__(context, kind, body)
        # Summaries count from 0 up, the reasoning itself from -1 down, so that one table holds both.
        self._pieces: dict[int, OpenPiece] = {}
        self._index = context.number()
        self._opened = False

    def summary_delta(self, event: JsonObject) -> None:
        delta, position = event.get("delta"), event.get("summary_index")
        if delta and type(delta) is str:
            self._grow(position if type(position) is int else 0, delta, _SUMMARY)

    def text_delta(self, event: JsonObject) -> None:
        delta = event.get("delta")
        if delta and type(delta) is str:
            self._grow(_downwards(event.get("content_index")), delta, _FULL)

    def growing(self, event: JsonObject) -> tuple[int, OpenPiece] | None:
        position = event.get("summary_index")
        key = _downwards(event.get("content_index")) if self._is_full() else position if type(position) is int else 0
        piece = self._pieces.get(key)
        return None if piece is None else (self._index, piece)

    def summary_done(self, event: JsonObject) -> None:
        position = event.get("summary_index")
        self._complete(position if type(position) is int else 0, event.get("text"), ThinkingKind.SUMMARY)

    def text_done(self, event: JsonObject) -> None:
        self._complete(_downwards(event.get("content_index")), event.get("text"), ThinkingKind.FULL)

    def silent(self) -> bool:
        return not self._opened

    def fits(self, body: JsonObject) -> bool:
        """Whether this may be the complete form of the emitted reasoning. A summary may be missing at the end."""
        whole = "".join(_texts(body, "content" if self._is_full() else "summary"))
        if self.silent():
            return not self.done or not whole
        return beyond_all(self._pieces.values(), whole) is not None

    def finish(self, body: JsonObject | None) -> None:
        """End the reasoning, with its signature if there is one."""
        out, unknowns, at = self.context.out, self.context.unknowns, part_place(self._index)
        unknowns.members(self.announced, REASONING_MEMBERS if body is None else REASONING_MEMBERS | body.keys(), at)
        if body is None and self.silent() and any(self.announced.get(key) for key in _CONTENT_MEMBERS):
            # Only its announcement has a signature.
            body = self.announced
        if body is None:
            if not self._opened:
                withheld = Thinking(text="", kind=ThinkingKind.WITHHELD, id=self.item_id)
                out.append(PartStarted(self._index, withheld))
            out.append(PartEnded(self._index))
            return
        body = self._with_emitted(body)
        target = self.context.translation.target
        whole = decode_thinking(Fields(body), target.model, target.vendor)
        full = whole.kind is ThinkingKind.FULL if not self._opened else self._is_full()
        self._finish_texts(_texts(body, "content" if full else "summary"), full=full)
        if not self._opened:
            out.append(PartStarted(self._index, Thinking(text="", kind=whole.kind, id=whole.id)))
        if whole.extras is not None:
            unknowns.members(whole.extras.fields, REASONING_MEMBERS, at)
        if whole.seal is not None:
            out.append(PartGrew(self._index, SealSet(whole.seal)))
        out.append(PartEnded(self._index))

    def repeat(self, body: JsonObject) -> None:
        """Report members of the reasoning beyond its signature, and a late signature."""
        unknowns, at = self.context.unknowns, part_place(self._index)
        unknowns.members(body, REASONING_MEMBERS | self.body.keys(), at)
        for key in ("summary", "content"):
            parts = body.get(key)
            for part in parts if type(parts) is list and parts != self.body.get(key) else ():
                if type(part) is dict:
                    unknowns.members(part, PART_MEMBERS, at)
        if body.get("encrypted_content") and not self.body.get("encrypted_content"):
            unknowns.name("encrypted_content", True, at)

    def _finish_texts(self, texts: list[str], *, full: bool) -> None:
        """Emit the rest of the full texts. Their positions may differ from those of the deltas."""
        pieces = [(key, piece) for key, piece in self._pieces.items() if (key < 0) == full]
        if pieces and bare("".join(texts)) == bare("".join([piece.text for piece in self._pieces.values()])):
            return
        numbered = list(enumerate(texts))

        def fits(whole: tuple[int, str], one: tuple[int, OpenPiece]) -> bool:
            return one[1].fits(whole[1])

        def in_place(whole: tuple[int, str], one: tuple[int, OpenPiece]) -> bool:
            return one[0] == (_downwards(whole[0]) if full else whole[0]) and fits(whole, one)

        kind = ThinkingKind.FULL if full else ThinkingKind.SUMMARY
        matches = paired(numbered, pieces, (in_place, fits, _any))
        for (position, text), match in zip(numbered, matches, strict=True):
            if match is None:
                # It was not emitted, though another part may have the same text.
                self._complete(_downwards(position) if full else position, text, kind, again=True)
            elif match[1].fits(text):
                self._complete(match[0], text, kind)
            else:
                self.context.differs(Feature.THINKING, self._index)

    def _with_emitted(self, body: JsonObject) -> JsonObject:
        """The body with the text of the deltas, because some servers end with an empty body."""
        key, kind = ("content", "reasoning_text") if self._is_full() else ("summary", "summary_text")
        if not self._pieces or _texts(body, key):
            return body
        return {**body, key: [{"type": kind, "text": piece.text} for piece in self._pieces.values()]}

    def _is_full(self) -> bool:
        return next(iter(self._pieces), 0) < 0

    def _complete(self, key: int, whole: JsonValue, kind: ThinkingKind, *, again: bool = False) -> None:
        if type(whole) is not str:
            return
        piece = self._pieces.get(key)
        if piece is None and not again:
            latest = islice(reversed(self._pieces.values()), NEAR)
            if any(one.matches(whole) for one in latest):
                return
        missing = whole if piece is None else "" if len(whole) <= piece.length else piece.missing(whole)
        if missing:
            self._grow(key, missing, kind)

    def _grow(self, key: int, delta: str, kind: ThinkingKind) -> None:
        piece = self._pieces.get(key)
        if piece is None:
            if self._pieces:
                # Summary and reasoning have the same text. The first one is emitted.
                if (next(iter(self._pieces)) < 0) != (key < 0):
                    return
                self.context.out.append(PartGrew(self._index, TextDelta("\n\n" + delta)))
                self._pieces[key] = piece = OpenPiece()
                piece.add(delta)
                return
            self._pieces[key] = piece = OpenPiece()
            self._opened = True
            self.context.out.append(PartStarted(self._index, Thinking(text="", kind=kind, id=self.item_id)))
        piece.add(delta)
        self.context.out.append(PartGrew(self._index, TextDelta(delta)))


# Bound once: looking up an enum member is slow, and every delta needs these.
_SUMMARY, _FULL = ThinkingKind.SUMMARY, ThinkingKind.FULL
# Members that an announcement may already contain.
_CONTENT_MEMBERS = ("summary", "content", "encrypted_content")


def _any(_whole: tuple[int, str], _one: tuple[int, OpenPiece]) -> bool:
    return True


def _texts(body: JsonObject, key: str) -> list[str]:
    parts = body.get(key)
    values = [part.get("text") for part in parts if type(part) is dict] if type(parts) is list else []
    return [text for text in values if type(text) is str]


def _downwards(position: JsonValue) -> int:
    return -1 - position if type(position) is int else -1
