"""Items of a provider's stream while they grow (mapping.md 25.5 and 25.6, reading side).

What an item has told so far is kept, because its `done` events are authoritative: what they hold beyond the deltas is
told as one more delta, never twice.

    item              opens a part                           grows it                    ends it
    message           first text, refusal or annotation      its deltas                  content_part.done or item done
    reasoning         first summary or reasoning text,       summary deltas; reasoning   item done, after its seal
                      else its end                           text if no summary came
    function, custom  its announcement with a name           argument or input deltas    item done
    any other         its end, whole                         –                           at once
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.events import (
    ArgumentsDelta,
    CitationAdded,
    Event,
    PartEnded,
    PartGrew,
    PartStarted,
    SealSet,
    TextDelta,
)
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Foreign, InputForm, Part, Refusal, Text, Thinking, ThinkingKind, ToolCall
from dragoman.protocols.codec import Asked, Mint
from dragoman.protocols.openai_responses.items import decode_thinking
from dragoman.protocols.openai_responses.output import OutputReader, message_members, report_bent, with_members
from dragoman.protocols.openai_responses.parts import decode_annotation, decode_part
from dragoman.protocols.openai_responses.shapes import (
    CALL_MEMBERS,
    CUSTOM_CALL,
    FUNCTION_CALL,
    MESSAGE,
    NAME,
    PART_MEMBERS,
    REASONING,
    REASONING_MEMBERS,
)
from dragoman.rules.toolnames import Wrapped
from dragoman.rules.unknowns import Unknowns, part_place
from dragoman.rules.unwrap import InputUnwrapper
from dragoman.wire.fields import Fields
from dragoman.wire.json import encode_text


class Telling:
    """What the items of one stream share: the events of the frame at hand, and what was told so far."""

    __slots__ = ("asked", "calls", "ledger", "mint", "out", "parts", "reader", "refusals", "told", "unknowns")

    def __init__(self, asked: Asked, mint: Mint, ledger: Ledger) -> None:
        self.asked = asked
        self.mint = mint
        self.ledger = ledger
        self.unknowns = Unknowns(ledger, NAME)
        self.reader = OutputReader(asked, ledger)
        self.out: list[Event] = []
        self.parts = 0
        self.calls: set[str] = set()
        # What the stop is derived from: calls and refusals.
        self.told: list[Part] = []
        self.refusals: list[Piece] = []

    def number(self) -> int:
        """The index of the next part."""
        number = self.parts
        self.parts += 1
        return number


class Piece:
    """One content part of a message, one summary, or the arguments of a call: the part it is and what came of it."""

    __slots__ = ("annotations", "ended", "foreign", "index", "length", "pieces")

    def __init__(self) -> None:
        self.index: int | None = None
        self.pieces: list[str] = []
        self.length = 0
        self.annotations = 0
        self.ended = False
        self.foreign = False

    def missing(self, whole: str) -> str:
        """What the whole text has beyond the deltas."""
        if not self.pieces:
            return whole
        if len(whole) <= self.length:
            return ""
        told = "".join(self.pieces)
        self.pieces = [told]
        return whole[len(told) :] if whole.startswith(told) else ""

    def add(self, text: str) -> None:
        """Take more text."""
        self.pieces.append(text)
        self.length += len(text)


class GrowingItem:
    """An item of a kind that comes whole, and what all kinds have in common."""

    __slots__ = ("announced", "body", "done", "item_id", "kind", "telling")

    def __init__(self, telling: Telling, kind: str, body: JsonObject) -> None:
        self.telling = telling
        self.kind = kind
        item_id = body.get("id")
        self.item_id = item_id if type(item_id) is str else None
        self.done = False
        # The item as it was announced, and as it ended.
        self.announced = body
        self.body: JsonObject = {}

    def repeat(self, body: JsonObject) -> None:
        """Report what the item says when it is told again, other than it ended."""
        self.telling.unknowns.members(body, self.body)

    def finish(self, body: JsonObject | None) -> None:
        """End the item; without its body what the deltas told is all there is."""
        telling = self.telling
        if body is None:
            telling.unknowns.name(self.kind or "item")
            return
        telling.unknowns.members(self.announced, body)
        for part in telling.reader.read(Fields(body)):
            number = telling.number()
            if isinstance(part, ToolCall):
                # A call comes whole and still tells its arguments as growth.
                telling.told.append(part)
                telling.out.append(PartStarted(number, replace(part, arguments="")))
                telling.out.append(PartGrew(number, ArgumentsDelta(part.arguments)))
            else:
                telling.out.append(PartStarted(number, part))
            telling.out.append(PartEnded(number))


class GrowingMessage(GrowingItem):
    """A message: every content part is a part of its own."""

    __slots__ = ("_attached", "_first", "_members", "_opened", "_pieces")

    def __init__(self, telling: Telling, kind: str, body: JsonObject) -> None:
        super().__init__(telling, kind, body)
        self._pieces: dict[int, Piece] = {}
        self._members = message_members(body, home=False)
        self._attached: JsonObject = {}
        self._opened = False
        # The first part of the message.
        self._first: int | None = None

    def text_delta(self, event: JsonObject) -> None:
        """More text: the commonest of all events."""
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return
        position = event.get("content_index")
        piece = self._pieces.get(position) if type(position) is int else None
        if piece is None or piece.index is None or piece.ended:
            piece = self._open(event, refusal=False)
            if piece is None or piece.index is None:
                return
        piece.add(delta)
        logprobs = event.get("logprobs")
        text = TextDelta(delta, logprobs) if logprobs and type(logprobs) is list else TextDelta(delta)
        self.telling.out.append(PartGrew(piece.index, text))

    def refusal_delta(self, event: JsonObject) -> None:
        """More words of refusal."""
        delta = event.get("delta")
        if delta and type(delta) is str:
            self._grow(self._open(event, refusal=True), delta)

    def text_done(self, event: JsonObject) -> None:
        """The whole text."""
        self._complete(event, event.get("text"), refusal=False)

    def refusal_done(self, event: JsonObject) -> None:
        """The whole refusal."""
        self._complete(event, event.get("refusal"), refusal=True)

    def annotation_added(self, event: JsonObject) -> None:
        """A citation."""
        annotation = event.get("annotation")
        if type(annotation) is not dict:
            return
        piece = self._open(event, refusal=False)
        if piece is not None:
            self._annotate(piece, annotation)

    def part_done(self, event: JsonObject) -> None:
        """A whole content part."""
        body = event.get("part")
        if type(body) is dict:
            self._finish_piece(self._piece(event.get("content_index")), body)

    def finish(self, body: JsonObject | None) -> None:
        """End every part of the message."""
        content = body.get("content") if body is not None else None
        if body is not None and not self._members:
            self._members = message_members(body, home=False)
        for position, part in enumerate(content if type(content) is list else ()):
            if type(part) is dict:
                self._finish_piece(self._piece(position), part)
        for piece in self._pieces.values():
            self._finish_piece(piece, None)
        self._report(self.announced)
        if body is not None:
            self._report(body)

    def repeat(self, body: JsonObject) -> None:
        """Report what the message and its content say beyond how they ended."""
        self._report(body)
        content = body.get("content")
        for position, part in enumerate(content if type(content) is list else ()):
            if type(part) is dict:
                self._report_part(self._piece(position), part)

    def _report(self, body: JsonObject) -> None:
        members = message_members(body, home=False)
        if members:
            self.telling.unknowns.members(members, self._attached, part_place(self._first))

    def _report_part(self, piece: Piece, body: JsonObject) -> None:
        if not piece.foreign:
            self.telling.unknowns.members(body, PART_MEMBERS, part_place(piece.index))

    def _piece(self, position: JsonValue) -> Piece:
        number = position if type(position) is int else 0
        found = self._pieces.get(number)
        if found is None:
            found = self._pieces[number] = Piece()
        return found

    def _grow(self, piece: Piece | None, text: str, logprobs: JsonList | None = None) -> None:
        if piece is not None and piece.index is not None:
            piece.add(text)
            self.telling.out.append(PartGrew(piece.index, TextDelta(text, logprobs)))

    def _annotate(self, piece: Piece, annotation: JsonObject) -> None:
        if piece.index is not None:
            piece.annotations += 1
            citation = decode_annotation(Fields(annotation))
            self.telling.out.append(PartGrew(piece.index, CitationAdded(citation)))

    def _open(self, event: JsonObject, *, refusal: bool) -> Piece | None:
        piece = self._piece(event.get("content_index"))
        if piece.ended:
            return None
        if piece.index is None:
            self._start(piece, refusal=refusal)
        return piece

    def _start(self, piece: Piece, *, refusal: bool) -> None:
        telling = self.telling
        piece.index = telling.number()
        part: Part = Refusal(text="", id=self.item_id) if refusal else Text(text="", id=self.item_id)
        if refusal:
            telling.refusals.append(piece)
        if self._members and not self._opened:
            part = with_members(part, self._members)
            self._attached = self._members
        self._opened = True
        if self._first is None:
            self._first = piece.index
        telling.out.append(PartStarted(piece.index, part))

    def _start_foreign(self, piece: Piece, body: JsonObject) -> None:
        """Content of a kind that nobody knows is a part that comes whole."""
        part = decode_part(Fields(body)) if body.get("type") not in _TEXTS else None
        if isinstance(part, Foreign):
            piece.foreign = True
            piece.index = self.telling.number()
            if self._first is None:
                self._first = piece.index
            self.telling.out.append(PartStarted(piece.index, part))

    def _complete(self, event: JsonObject, whole: JsonValue, *, refusal: bool) -> None:
        if type(whole) is not str:
            return
        piece = self._piece(event.get("content_index"))
        missing = "" if piece.ended else piece.missing(whole)
        if missing:
            logprobs = _logprobs(piece, event)
            self._grow(self._open(event, refusal=refusal), missing, logprobs)

    def _finish_piece(self, piece: Piece, body: JsonObject | None) -> None:
        if piece.ended:
            if body is not None:
                self._report_part(piece, body)
            return
        if body is not None and piece.index is None:
            self._start_foreign(piece, body)
        if body is not None:
            refusal = body.get("type") == "refusal"
            whole = body.get("refusal" if refusal else "text")
            missing = piece.missing(whole) if type(whole) is str else ""
            if missing and not piece.foreign:
                if piece.index is None:
                    self._start(piece, refusal=refusal)
                self._grow(piece, missing, _logprobs(piece, body))
            annotations = body.get("annotations")
            for annotation in (annotations if type(annotations) is list else [])[piece.annotations :]:
                if type(annotation) is dict:
                    self._annotate(piece, annotation)
            self._report_part(piece, body)
        piece.ended = True
        if piece.index is not None:
            self.telling.out.append(PartEnded(piece.index))


# Content that is told as it grows.
_TEXTS = ("output_text", "refusal", "text", None)


def _logprobs(piece: Piece, whole: JsonObject) -> JsonList | None:
    """Log probabilities of a text that comes whole; those of deltas were told with them."""
    logprobs = whole.get("logprobs") if not piece.pieces else None
    return logprobs if type(logprobs) is list and logprobs else None


class GrowingReasoning(GrowingItem):
    """Reasoning: its summaries, or itself if no summary came, are one part."""

    __slots__ = ("_index", "_opened", "_pieces")

    def __init__(self, telling: Telling, kind: str, body: JsonObject) -> None:
        super().__init__(telling, kind, body)
        # Summaries count from 0 up, the reasoning itself from -1 down: one table holds both.
        self._pieces: dict[int, Piece] = {}
        self._index = telling.number()
        self._opened = False

    def summary_delta(self, event: JsonObject) -> None:
        """More of a summary."""
        delta, position = event.get("delta"), event.get("summary_index")
        if delta and type(delta) is str:
            self._grow(position if type(position) is int else 0, delta, ThinkingKind.SUMMARY)

    def text_delta(self, event: JsonObject) -> None:
        """More of the reasoning itself."""
        delta = event.get("delta")
        if delta and type(delta) is str:
            self._grow(_downwards(event.get("content_index")), delta, ThinkingKind.FULL)

    def summary_done(self, event: JsonObject) -> None:
        """A whole summary."""
        position = event.get("summary_index")
        self._complete(position if type(position) is int else 0, event.get("text"), ThinkingKind.SUMMARY)

    def text_done(self, event: JsonObject) -> None:
        """The whole reasoning."""
        self._complete(_downwards(event.get("content_index")), event.get("text"), ThinkingKind.FULL)

    def finish(self, body: JsonObject | None) -> None:
        """End the reasoning, with its seal if it came."""
        out, unknowns, at = self.telling.out, self.telling.unknowns, part_place(self._index)
        unknowns.members(self.announced, REASONING_MEMBERS if body is None else REASONING_MEMBERS | body.keys(), at)
        if body is None:
            if not self._opened:
                withheld = Thinking(text="", kind=ThinkingKind.WITHHELD, id=self.item_id)
                out.append(PartStarted(self._index, withheld))
            out.append(PartEnded(self._index))
            return
        target = self.telling.asked.target
        whole = decode_thinking(Fields(body), target.model, target.upstream)
        full = whole.kind is ThinkingKind.FULL if not self._opened else min(self._pieces, default=0) < 0
        parts = body.get("content" if full else "summary")
        kind = ThinkingKind.FULL if full else ThinkingKind.SUMMARY
        for position, part in enumerate(parts if type(parts) is list else ()):
            if type(part) is dict:
                self._complete(_downwards(position) if full else position, part.get("text"), kind)
        if not self._opened:
            out.append(PartStarted(self._index, Thinking(text="", kind=whole.kind, id=whole.id)))
        if whole.extras is not None:
            unknowns.members(whole.extras.fields, REASONING_MEMBERS, at)
        if whole.seal is not None:
            out.append(PartGrew(self._index, SealSet(whole.seal)))
        out.append(PartEnded(self._index))

    def repeat(self, body: JsonObject) -> None:
        """Report what the reasoning says beyond its seal."""
        unknowns, at = self.telling.unknowns, part_place(self._index)
        unknowns.members(body, REASONING_MEMBERS | self.body.keys(), at)
        for key in ("summary", "content"):
            parts = body.get(key)
            for part in parts if type(parts) is list and parts != self.body.get(key) else ():
                if type(part) is dict:
                    unknowns.members(part, PART_MEMBERS, at)

    def _complete(self, key: int, whole: JsonValue, kind: ThinkingKind) -> None:
        if type(whole) is not str:
            return
        piece = self._pieces.get(key)
        missing = whole if piece is None else piece.missing(whole)
        if missing:
            self._grow(key, missing, kind)

    def _grow(self, key: int, delta: str, kind: ThinkingKind) -> None:
        piece = self._pieces.get(key)
        if piece is None:
            if self._pieces:
                # The summary and the reasoning itself say the same: whichever came first is told.
                if (next(iter(self._pieces)) < 0) != (key < 0):
                    return
                self.telling.out.append(PartGrew(self._index, TextDelta("\n\n" + delta)))
                self._pieces[key] = piece = Piece()
                piece.add(delta)
                return
            self._pieces[key] = piece = Piece()
            self._opened = True
            self.telling.out.append(PartStarted(self._index, Thinking(text="", kind=kind, id=self.item_id)))
        piece.add(delta)
        self.telling.out.append(PartGrew(self._index, TextDelta(delta)))


def _downwards(position: JsonValue) -> int:
    return -1 - position if type(position) is int else -1


class GrowingCall(GrowingItem):
    """A function or free-text call; one without a name is held until the item is done."""

    __slots__ = ("_call", "_index", "_piece", "_unwrapper")

    def __init__(self, telling: Telling, kind: str, body: JsonObject) -> None:
        super().__init__(telling, kind, body)
        self._piece = Piece()
        self._call: ToolCall | None = None
        self._index = 0
        self._unwrapper: InputUnwrapper | None = None
        if body.get("name"):
            self._open(body)

    def arguments_delta(self, event: JsonObject) -> None:
        """More of the arguments, or of the free text."""
        delta = event.get("delta")
        if delta and type(delta) is str and self._call is not None:
            self._grow(delta)

    def arguments_done(self, event: JsonObject) -> None:
        """The whole arguments, or the whole free text."""
        self._complete(event.get("arguments", event.get("input")))

    def finish(self, body: JsonObject | None) -> None:
        """End the call."""
        if self._call is None:
            if body is None:
                self.telling.unknowns.name(self.kind)
                return
            self.kind = CUSTOM_CALL if body.get("type") == CUSTOM_CALL else self.kind
            self._open(body)
        if body is not None:
            self._complete(body.get("input" if self.kind == CUSTOM_CALL else "arguments"))
            self.repeat(body)
        self.repeat(self.announced)
        telling = self.telling
        if self._unwrapper is not None:
            rest = self._unwrapper.close()
            if rest:
                telling.out.append(PartGrew(self._index, ArgumentsDelta(rest)))
            if self._unwrapper.bent:
                report_bent(self._index, telling.ledger)
        telling.out.append(PartEnded(self._index))

    def repeat(self, body: JsonObject) -> None:
        """Report what the call says beside itself."""
        self.telling.unknowns.members(body, CALL_MEMBERS, part_place(self._index))

    def _open(self, body: JsonObject) -> None:
        telling = self.telling
        fields = Fields(body)
        name = fields.text("name")
        identity = fields.optional_text("call_id") or ""
        if not identity or identity in telling.calls:
            identity = "call_" + telling.mint.token(24)
        telling.calls.add(identity)
        call = ToolCall(
            call_id=identity,
            name=name,
            arguments="",
            form=InputForm.TEXT if self.kind == CUSTOM_CALL else InputForm.JSON,
            namespace=fields.optional_text("namespace"),
            id=fields.optional_text("id"),
        )
        entry = telling.reader.entry(name)
        if entry is not None:
            call = replace(call, name=entry.name, form=entry.form, namespace=entry.namespace)
            if entry.wrapped is Wrapped.INPUT:
                self._unwrapper = InputUnwrapper()
        self._call = call
        self._index = telling.number()
        telling.told.append(call)
        telling.out.append(PartStarted(self._index, call))

    def _complete(self, whole: JsonValue) -> None:
        if type(whole) is dict:
            # Some servers forget that arguments are text.
            whole = encode_text(whole) if whole else ""
        missing = self._piece.missing(whole) if type(whole) is str and self._call is not None else ""
        if missing:
            self._grow(missing)

    def _grow(self, delta: str) -> None:
        self._piece.add(delta)
        if self._unwrapper is not None:
            delta = self._unwrapper.feed(delta)
            if not delta:
                return
        self.telling.out.append(PartGrew(self._index, ArgumentsDelta(delta)))


_KINDS: dict[str, type[GrowingItem]] = {
    MESSAGE: GrowingMessage,
    REASONING: GrowingReasoning,
    FUNCTION_CALL: GrowingCall,
    CUSTOM_CALL: GrowingCall,
}


def growing_item(telling: Telling, kind: JsonValue, body: JsonObject) -> GrowingItem:
    """The item that begins with this body, which may be all that is known of it yet."""
    name = kind if type(kind) is str else ""
    return _KINDS.get(name, GrowingItem)(telling, name, body)
