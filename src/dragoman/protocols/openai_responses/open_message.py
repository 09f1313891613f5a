"""Open messages of a stream: every content part is a part of its own."""

from __future__ import annotations

from dragoman.model.events import CitationAdded, PartEnded, PartGrew, PartStarted, TextDelta
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.parts import Foreign, Part, Refusal, Text
from dragoman.protocols.openai_responses.open_item import (
    NEAR,
    ItemContext,
    OpenItem,
    OpenPiece,
    bare,
    beyond_all,
    paired,
)
from dragoman.protocols.openai_responses.output import message_members, with_members
from dragoman.protocols.openai_responses.parts import decode_annotation, decode_part
from dragoman.protocols.openai_responses.shapes import PART_MEMBERS
from dragoman.rules.extras import part_place
from dragoman.wire.fields import Fields

_TEXT, _REFUSAL, _FOREIGN = "text", "refusal", "foreign"


class OpenMessage(OpenItem):
    __slots__ = ("_attached", "_first", "_growing", "_members", "_opened", "_pieces", "_places")

    def __init__(self, context: ItemContext, kind: str, body: JsonObject) -> None:
        super().__init__(context, kind, body)
        # All parts in order, and the latest at each `content_index` for the fast path.
        self._pieces: list[OpenPiece] = []
        self._places: dict[int, OpenPiece] = {}
        self._growing: dict[JsonValue, OpenPiece] = {}
        self._members = message_members(body, native=False)
        self._attached: JsonObject = {}
        self._opened = False
        self._first: int | None = None

    def text_delta(self, event: JsonObject) -> None:
        """More text: by far the most frequent event."""
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return
        position = event.get("content_index")
        piece = self._growing.get(position) if type(position) is int else None
        if piece is None or piece.index is None:
            piece = self._open(position, _TEXT)
        # Inlined from `piece.add`, to save one call per event.
        piece.pieces.append(delta)
        piece.length += len(delta)
        logprobs = event.get("logprobs")
        text = TextDelta(delta, logprobs) if logprobs and type(logprobs) is list else TextDelta(delta)
        self.context.out.append(PartGrew(piece.index or 0, text))

    def growing(self, event: JsonObject) -> tuple[int, OpenPiece] | None:
        position = event.get("content_index")
        piece = self._growing.get(position) if type(position) is int else None
        return None if piece is None or piece.index is None else (piece.index, piece)

    def refusal_delta(self, event: JsonObject) -> None:
        delta = event.get("delta")
        if delta and type(delta) is str:
            self._grow(self._open(event.get("content_index"), _REFUSAL), delta)

    def text_done(self, event: JsonObject) -> None:
        self._complete(event, event.get("text"), _TEXT)

    def refusal_done(self, event: JsonObject) -> None:
        self._complete(event, event.get("refusal"), _REFUSAL)

    def annotation_added(self, event: JsonObject) -> None:
        annotation = event.get("annotation")
        if type(annotation) is not dict:
            return
        position = event.get("content_index")
        here = self._places.get(position) if type(position) is int else None
        if here is not None and here.ended:
            # Its text has ended, and the citation belongs to no later text.
            self.context.unknowns.name("annotation", True, part_place(here.index))
        else:
            self._annotate(self._open(position, _TEXT), annotation)

    def part_done(self, event: JsonObject) -> None:
        body = event.get("part")
        if type(body) is dict:
            kind, position = _kind(body), event.get("content_index")
            piece = self._find_piece(position, _whole_text(body), kind) or self._begin(position, kind)
            self._finish_piece(piece, body)

    def silent(self) -> bool:
        return not self._pieces

    def fits(self, body: JsonObject) -> bool:
        """Whether this may be the complete form of the emitted message."""
        whole = "".join(_whole_text(part) for part in _content(body))
        if self.silent():
            return not self.done or not whole
        return beyond_all(self._pieces, whole) is not None

    def finish(self, body: JsonObject | None) -> None:
        if body is not None and not self._members:
            self._members = message_members(body, native=False)
        if body is not None or self.silent():
            self._finish_content(_content(body or {}) or _content(self.announced))
        for piece in self._pieces:
            self._finish_piece(piece, None)
        self._report(self.announced)
        if body is not None:
            self._report(body)

    def repeat(self, body: JsonObject) -> None:
        """Report members of the message and its content beyond its end."""
        self._report(body)
        content = _content(body)
        for part, piece in zip(content, self._paired(content), strict=True):
            self._report_part(piece, part)
        if not self.fits(body):
            self.context.differs(Feature.TEXT, self._first)

    # The final content of its item. Positions may differ from those of the deltas.

    def _finish_content(self, content: list[JsonObject]) -> None:
        emitted = bare(self.emitted_text())
        if emitted and len(content) != len(self._pieces) and emitted == bare("".join(map(_whole_text, content))):
            # The same text in other parts.
            self._finish_divided(content)
            return
        for position, (part, piece) in enumerate(zip(content, self._paired(content), strict=True)):
            self._finish_piece(piece or self._begin(position, _kind(part)), part)

    def _finish_divided(self, content: list[JsonObject]) -> None:
        last = next((piece for piece in reversed(self._pieces) if piece.kind == _TEXT and not piece.ended), None)
        annotations = [one for part in content for one in _annotations(part)]
        for annotation in annotations[sum(piece.annotations for piece in self._pieces) :]:
            if last is not None:
                self._annotate(last, annotation)
        for part in content:
            self._report_part(None, part)

    def _paired(self, content: list[JsonObject]) -> list[OpenPiece | None]:
        places = {id(part): self._places.get(position) for position, part in enumerate(content)}

        def alike(part: JsonObject, piece: OpenPiece) -> bool:
            return piece.kind == _kind(part)

        def fits(part: JsonObject, piece: OpenPiece) -> bool:
            return alike(part, piece) and piece.fits(_whole_text(part))

        def in_place(part: JsonObject, piece: OpenPiece) -> bool:
            return places[id(part)] is piece and fits(part, piece)

        return paired(content, self._pieces, (in_place, fits, alike))

    def emitted_text(self) -> str:
        return "".join([piece.text for piece in self._pieces])

    def _report(self, body: JsonObject) -> None:
        members = message_members(body, native=False)
        if members:
            self.context.unknowns.members(members, self._attached, part_place(self._first))

    def _report_part(self, piece: OpenPiece | None, body: JsonObject) -> None:
        if piece is None or piece.kind != _FOREIGN:
            self.context.unknowns.members(body, PART_MEMBERS, part_place(piece.index if piece else None))

    def _find_piece(self, position: JsonValue, whole: str, kind: str) -> OpenPiece | None:
        """The piece of a full text: the one at its position, else the latest open one, else one that ended with it."""
        here = self._places.get(position) if type(position) is int else None
        if here is not None and (here.kind != kind or here.ended):
            here = None
        if here is not None and (len(whole) <= here.length or here.fits(whole)):
            return here
        alike = [piece for piece in reversed(self._pieces[-NEAR:]) if piece.kind == kind]
        opened = [piece for piece in alike if not piece.ended]
        for piece in opened:
            if piece.fits(whole):
                return piece
        for piece in alike:
            if piece.ended and piece.matches(whole):
                return piece
        return here or (opened[0] if opened and type(position) is not int else None)

    def _begin(self, position: JsonValue, kind: str) -> OpenPiece:
        piece = OpenPiece(kind)
        self._pieces.append(piece)
        if type(position) is int:
            self._places[position] = piece
        return piece

    def _grow(self, piece: OpenPiece, text: str, logprobs: JsonList | None = None) -> None:
        if piece.index is not None:
            piece.add(text)
            self.context.out.append(PartGrew(piece.index, TextDelta(text, logprobs)))

    def _annotate(self, piece: OpenPiece, annotation: JsonObject) -> None:
        if piece.index is not None:
            piece.annotations += 1
            citation = decode_annotation(Fields(annotation))
            self.context.out.append(PartGrew(piece.index, CitationAdded(citation)))

    def _open(self, position: JsonValue, kind: str) -> OpenPiece:
        """The open piece at this position, else (without a position) the latest of its type, else a new one."""
        if type(position) is int:
            piece = self._places.get(position)
        else:
            latest = reversed(self._pieces[-NEAR:])
            piece = next((one for one in latest if one.kind == kind and not one.ended), None)
        if piece is None or piece.ended or piece.kind != kind:
            piece = self._begin(position, kind)
        if piece.index is None:
            self._start(piece)
        if kind == _TEXT and type(position) is int:
            piece.place = position
            self._growing[position] = piece
        return piece

    def _start(self, piece: OpenPiece) -> None:
        context = self.context
        piece.index = context.number()
        refusal = piece.kind == _REFUSAL
        part: Part = Refusal(text="", id=self.item_id) if refusal else Text(text="", id=self.item_id)
        if refusal:
            context.refusals.append(piece)
        if self._members and not self._opened:
            part = with_members(part, self._members)
            self._attached = self._members
        self._opened = True
        if self._first is None:
            self._first = piece.index
        context.out.append(PartStarted(piece.index, part))

    def _start_foreign(self, piece: OpenPiece, body: JsonObject) -> None:
        """Content of an unknown type becomes a part that is complete at its start."""
        part = decode_part(Fields(body))
        if isinstance(part, Foreign):
            piece.index = self.context.number()
            if self._first is None:
                self._first = piece.index
            self.context.out.append(PartStarted(piece.index, part))

    def _complete(self, event: JsonObject, whole: JsonValue, kind: str) -> None:
        if type(whole) is not str or not whole:
            return
        position = event.get("content_index")
        piece = self._find_piece(position, whole, kind) or self._begin(position, kind)
        missing = "" if piece.ended or len(whole) <= piece.length else piece.missing(whole)
        if missing:
            logprobs = _logprobs(piece, event)
            if piece.index is None:
                self._start(piece)
            self._grow(piece, missing, logprobs)

    def _finish_piece(self, piece: OpenPiece, body: JsonObject | None) -> None:
        if piece.ended:
            if body is not None:
                self._report_part(piece, body)
            return
        if body is not None and piece.kind == _FOREIGN:
            self._start_foreign(piece, body)
        elif body is not None:
            whole = _whole_text(body)
            if not piece.fits(whole):
                self.context.differs(Feature.TEXT, piece.index)
            missing = piece.missing(whole)
            if missing:
                if piece.index is None:
                    self._start(piece)
                self._grow(piece, missing, _logprobs(piece, body))
            for annotation in _annotations(body)[piece.annotations :]:
                self._annotate(piece, annotation)
            self._report_part(piece, body)
        piece.ended = True
        if self._growing.get(piece.place) is piece:
            del self._growing[piece.place]
        if piece.index is not None:
            self.context.out.append(PartEnded(piece.index))


_TEXTS = ("output_text", "text", None)


def _kind(part: JsonObject) -> str:
    kind = part.get("type")
    if kind == "refusal":
        return _REFUSAL
    return _FOREIGN if kind not in _TEXTS and isinstance(decode_part(Fields(part)), Foreign) else _TEXT


def _content(body: JsonObject) -> list[JsonObject]:
    content = body.get("content")
    if type(content) is str:
        return [{"type": "output_text", "text": content}] if content else []
    return [part for part in content if type(part) is dict] if type(content) is list else []


def _whole_text(part: JsonObject) -> str:
    whole = part.get("refusal" if part.get("type") == "refusal" else "text")
    return whole if type(whole) is str else ""


def _annotations(part: JsonObject) -> list[JsonObject]:
    annotations = part.get("annotations")
    return [one for one in annotations if type(one) is dict] if type(annotations) is list else []


def _logprobs(piece: OpenPiece, whole: JsonObject) -> JsonList | None:
    """Log probabilities of a complete text. Those of deltas were emitted with the deltas."""
    logprobs = whole.get("logprobs") if not piece.pieces else None
    return logprobs if type(logprobs) is list and logprobs else None
