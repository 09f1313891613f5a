"""Base of open items: the shared context, the emitted parts, and items that are complete at their start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from dragoman.model.events import ArgumentsDelta, Event, PartEnded, PartGrew, PartStarted
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Part, ToolCall
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.protocols.openai_responses.output import OutputReader
from dragoman.protocols.openai_responses.shapes import NAME
from dragoman.rules.extras import UnknownFields, part_place
from dragoman.wire.fields import Fields

# Maximum distance of a search for misplaced data, so that the search takes linear time.
NEAR = 64

T = TypeVar("T")
W = TypeVar("W")


class ItemContext:
    """State that the items of one stream share: the events of the present frame, and the emitted parts."""

    __slots__ = (
        "calls",
        "emitted_parts",
        "ledger",
        "mint",
        "out",
        "parts",
        "reader",
        "refusals",
        "translation",
        "unknowns",
    )

    def __init__(self, translation: TranslationContext, mint: Mint, ledger: Ledger) -> None:
        self.translation = translation
        self.mint = mint
        self.ledger = ledger
        self.unknowns = UnknownFields(ledger, NAME)
        self.reader = OutputReader(translation, ledger)
        self.out: list[Event] = []
        self.parts = 0
        self.calls: set[str] = set()
        self.emitted_parts: list[Part] = []
        self.refusals: list[OpenPiece] = []

    def number(self) -> int:
        number = self.parts
        self.parts += 1
        return number

    def differs(self, feature: Feature, index: int | None) -> None:
        """Report that a full text differs from the emitted one."""
        note = "the provider said it again in other words; what it said first is told"
        self.ledger.approximated(feature, part_place(index), note)


class OpenPiece:
    """One content part of a message, one summary, or the arguments of a call: the part and its emitted text."""

    __slots__ = (
        "_bare",
        "_bare_length",
        "_looked_at",
        "annotations",
        "ended",
        "index",
        "kind",
        "length",
        "pieces",
        "place",
    )

    def __init__(self, kind: str = "") -> None:
        self.kind = kind
        self.index: int | None = None
        self.place = -1
        self.pieces: list[str] = []
        self.length = 0
        self.annotations = 0
        self.ended = False
        self._bare: list[str] = []
        self._bare_length = 0
        self._looked_at = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def bare(self) -> list[str]:
        """The emitted text without white space, in non-empty fragments. Each is computed once."""
        for piece in self.pieces[self._looked_at :]:
            if text := bare(piece):
                self._bare.append(text)
                self._bare_length += len(text)
        self._looked_at = len(self.pieces)
        return self._bare

    def matches(self, whole: str) -> bool:
        """Whether a text equals the emitted one, apart from white space."""
        bare_pieces, full = self.bare(), bare(whole)
        return self._bare_length == len(full) and "".join(bare_pieces) == full

    def fits(self, whole: str) -> bool:
        """Whether this text may be the complete form of the emitted one."""
        return not self.pieces or beyond_all((self,), whole) is not None

    def missing(self, whole: str) -> str:
        """The part of the full text beyond the deltas."""
        return (beyond_all((self,), whole) or "") if self.pieces else whole

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)


class OpenItem:
    """An item of a type without deltas, and the base of all types."""

    __slots__ = ("announced", "body", "context", "done", "item_id", "kind")

    def __init__(self, context: ItemContext, kind: str, body: JsonObject) -> None:
        self.context = context
        self.kind = kind
        item_id = body.get("id")
        self.item_id = item_id if type(item_id) is str else None
        self.done = False
        # The item as it was announced, and as it ended.
        self.announced = body
        self.body: JsonObject = {}

    def silent(self) -> bool:
        return not self.done

    def fits(self, body: JsonObject) -> bool:
        """Whether this may be the complete form of the emitted item."""
        return not self.done or body == self.body

    def growing(self, event: JsonObject) -> tuple[int, OpenPiece] | None:
        return None

    def is_other(self, body: JsonObject) -> bool:
        """Whether its name identifies it as another item."""
        return False

    def announce(self, body: JsonObject) -> None:
        """Process a repeated announcement."""
        self.announced = {**self.announced, **body}

    def repeat(self, body: JsonObject) -> None:
        """Report differences when an item is sent again after its end."""
        self.context.unknowns.members(body, self.body)

    def finish(self, body: JsonObject | None) -> None:
        """End the item. Without a body, the deltas are its content."""
        context = self.context
        if body is None:
            context.unknowns.name(self.kind or "item")
            return
        context.unknowns.members(self.announced, body)
        for part in context.reader.read(Fields(body)):
            number = context.number()
            if isinstance(part, ToolCall):
                # A call that is complete at its start still emits its arguments as growth.
                context.emitted_parts.append(part)
                context.out.append(PartStarted(number, replace(part, arguments="")))
                context.out.append(PartGrew(number, ArgumentsDelta(part.arguments)))
            else:
                context.out.append(PartStarted(number, part))
            context.out.append(PartEnded(number))


def bare(text: str) -> str:
    """The text without white space, in which servers differ from themselves."""
    return "".join(text.split())


def beyond(emitted: str, whole: str) -> str | None:
    """The part of a full text beyond the emitted one, apart from white space; None if it is another text."""
    piece = OpenPiece()
    piece.add(emitted)
    return beyond_all((piece,), whole)


def beyond_all(pieces: Iterable[OpenPiece], whole: str) -> str | None:
    """The same for text in several fragments. Only the length of the full text is read."""
    pieces = tuple(pieces)
    rest = remainder_after((text for piece in pieces for text in piece.pieces), whole)
    if rest is not None:
        return rest
    full, at = bare(whole), 0
    for text in (text for piece in pieces for text in piece.bare()):
        if at + len(text) > len(full):
            return "" if text.startswith(full[at:]) else None
        if not full.startswith(text, at):
            return None
        at += len(text)
    for place, character in enumerate(whole):
        if at == 0:
            rest = whole[place:]
            spaced = next((text for piece in reversed(pieces) for text in reversed(piece.pieces)), "")[-1:].isspace()
            return (rest.lstrip() if spaced else rest) if rest.strip() else ""
        at -= not character.isspace()
    return ""


def remainder_after(prefixes: Iterable[str], whole: str) -> str | None:
    """The rest of a text after the emitted ones; None if it does not begin with them."""
    at = 0
    for text in prefixes:
        if not whole.startswith(text, at):
            return None
        at += len(text)
    return whole[at:]


def paired(wholes: Sequence[W], partials: Sequence[T], tests: Sequence[Callable[[W, T], bool]]) -> list[T | None]:
    """Match full parts to the emitted partial ones: by the first test that any passes, each used once, in order."""
    matches: list[T | None] = [None] * len(wholes)
    candidates = list(partials)
    for test in tests:
        for place, whole in enumerate(wholes):
            if matches[place] is None:
                match = next((candidate for candidate in candidates[:NEAR] if test(whole, candidate)), None)
                if match is not None:
                    matches[place] = match
                    candidates.remove(match)
    return matches
