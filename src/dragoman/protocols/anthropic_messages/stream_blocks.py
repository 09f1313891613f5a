"""Open blocks of a Messages stream: one class for each type, which emits the events of its deltas.

state of a block   event                 emitted
(new)              content_block_start   thinking and calls open at once, text waits for its first character
open               delta of its type     `add_text`: PartGrew, after PartStarted if it was the first
open               any other delta       `grow`: citations, signatures; unknown types are reported (S9)
open               content_block_stop    `close`: held content, PartEnded"""

from __future__ import annotations

from msgspec import Struct, field

from dragoman.errors import WireError
from dragoman.model.events import (
    ArgumentsDelta,
    ArgumentsRun,
    CitationAdded,
    Event,
    PartEnded,
    PartGrew,
    PartStarted,
    SealSet,
    TextDelta,
    TextRun,
)
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras, Part, Seal, Text, Thinking, ThinkingKind, ToolCall
from dragoman.protocols.anthropic_messages.hosted import listing_result
from dragoman.protocols.anthropic_messages.parts import decode_block, decode_citation
from dragoman.protocols.anthropic_messages.response import with_issuer
from dragoman.protocols.anthropic_messages.shapes import NAME
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.rules.argument_assembly import ArgumentAssembler
from dragoman.rules.extras import UnknownFields, part_place
from dragoman.rules.input_wrapping import InputUnwrapper, ValueUnwrapper
from dragoman.rules.seals import from_envelope, issued_by
from dragoman.rules.tool_table import report_bent, unwrapper_for
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode_lenient, encode_text, kind_of


class TextGrown(Struct, tag_field="type", tag="text_delta", gc=False, forbid_unknown_fields=True):
    text: str


class ThinkingGrown(Struct, tag_field="type", tag="thinking_delta", gc=False, forbid_unknown_fields=True):
    text: str = field(name="thinking")


class InputGrown(Struct, tag_field="type", tag="input_json_delta", gc=False, forbid_unknown_fields=True):
    text: str = field(name="partial_json")


class BlockGrew(Struct, tag_field="type", tag="content_block_delta", gc=False, forbid_unknown_fields=True):
    """A delta of the usual shapes. Events with other members are decoded in full, which reports them."""

    index: int
    delta: TextGrown | ThinkingGrown | InputGrown


INPUT = "input_json_delta"


class BlockContext:
    """State that the blocks of one stream share: the request, numbers of parts and IDs of calls."""

    __slots__ = ("_empty_arguments", "_mint", "_next", "call_ids", "calls", "ledger", "translation", "unknowns")

    def __init__(self, translation: TranslationContext, mint: Mint, ledger: Ledger) -> None:
        self.translation = translation
        self.ledger = ledger
        self.unknowns = UnknownFields(ledger, NAME)
        self.call_ids: set[str] = set()
        # The name and arguments of each call, by the provider's ID.
        self.calls: dict[str, tuple[str, ArgumentAssembler]] = {}
        # Calls without arguments at the last check.
        self._empty_arguments: list[ArgumentAssembler] = []
        self._mint = mint
        self._next = 0

    def next_index(self) -> int:
        index = self._next
        self._next += 1
        return index

    def add_call(self, given: str, name: str, assembler: ArgumentAssembler) -> None:
        """Register a call under the provider's ID. The first call of an ID stays."""
        if given not in self.calls:
            self.calls[given] = (name, assembler)
            self._empty_arguments.append(assembler)

    @property
    def lacks_arguments(self) -> bool:
        while self._empty_arguments and not self._empty_arguments[-1].silent:
            self._empty_arguments.pop()
        return bool(self._empty_arguments)

    def fresh_call_id(self, given: str) -> str:
        """The provider's ID of a call, or a new one if it is missing or already used (N2)."""
        call_id = given if given and given not in self.call_ids else f"call_{self._mint.token(24)}"
        self.call_ids.add(call_id)
        return call_id

    def issued(self, seal: Seal) -> Seal:
        return issued_by(seal, self.translation.target.model, self.translation.target.vendor)

    def whole_block(self, block: JsonObject) -> list[Event]:
        part = with_issuer(decode_block(Fields(block)), self.translation)
        if isinstance(part, Thinking):
            self.unknowns.members(block, _REDACTED_MEMBERS, part_place(self._next))
        result = listing_result(part)
        parts = (part,) if result is None else (part, result)
        events: list[Event] = []
        for one in parts:
            index = self.next_index()
            events += (PartStarted(index, one), PartEnded(index))
        return events


class Block:
    """An open block. The default is a block that is complete at its start."""

    __slots__ = ("index", "pieces", "reading", "start")

    # The type of delta that `add_text` handles.
    grown: type | None = None
    # The types of deltas that `grow` handles.
    takes: frozenset[str] = frozenset()

    def __init__(self, reading: BlockContext, start: JsonObject) -> None:
        self.reading = reading
        self.start = start
        self.index = -1
        # Its text, if that is needed again at its end.
        self.pieces: list[str] | None = None

    @property
    def runs(self) -> bool:
        """Whether text in any number of deltas only extends the part."""
        return False

    def grow_by(self, run: TextRun) -> TextRun | ArgumentsRun:
        """Convert a run to the event of this part."""
        return run

    @property
    def waits(self) -> bool:
        """Whether it stays open when another block begins: servers may interleave calls."""
        return False

    def open(self) -> list[Event]:
        return []

    def add_text(self, text: str) -> list[Event]:
        del text
        return []

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        del kind, delta
        return []

    def close(self) -> list[Event]:
        return self.reading.whole_block(self.start)

    def announce(self, part: Part) -> PartStarted:
        """Assign the next index to the part."""
        self.index = self.reading.next_index()
        return PartStarted(self.index, part)


class OpenBlocks:
    """A stream's open blocks by index. Only changed blocks are checked; checking all would take quadratic time."""

    __slots__ = ("_takers", "by_index", "grown")

    def __init__(self) -> None:
        self.by_index: dict[int, Block] = {}
        # Blocks that began or grew since another one began.
        self.grown: dict[int, None] = {}
        self._takers: dict[int, None] = {}

    def put(self, index: int, block: Block) -> Block:
        self.by_index[index] = block
        self.grown[index] = None
        if INPUT in block.takes:
            self._takers[index] = None
        return block

    def pop(self, index: int) -> Block | None:
        self.grown.pop(index, None)
        self._takers.pop(index, None)
        return self.by_index.pop(index, None)

    def passed(self, index: int) -> list[Event]:
        """Close the blocks that the start of a block ends: all others except waiting ones, and the one at its index."""
        events: list[Event] = []
        grown, self.grown = self.grown, {}
        for number in {**grown, index: None}:
            block = self.by_index.get(number)
            if block is not None and (number == index or not block.waits):
                self.pop(number)
                events += block.close()
        return events

    def close(self) -> list[Event]:
        blocks = list(self.by_index.values())
        self.clear()
        return [event for block in blocks for event in block.close()]

    def clear(self) -> None:
        self.by_index.clear()
        self.grown.clear()
        self._takers.clear()

    def grow(self, index: int) -> Block | None:
        block = self.by_index.get(index)
        if block is not None:
            self.grown[index] = None
        return block

    def grow_only(self) -> Block | None:
        """The block for arguments without an index: the only one that accepts any."""
        return self.grow(next(iter(self._takers))) if len(self._takers) == 1 else None


class _TextBlock(Block):
    __slots__ = ()
    grown = TextGrown
    takes = frozenset({"text_delta", "citations_delta"})

    @property
    def runs(self) -> bool:
        return True

    def open(self) -> list[Event]:
        events = self.add_text(text_of(self.start, "text"))
        for citation in Fields(self.start).each("citations"):
            events += self._cite(citation)
        return events

    def add_text(self, text: str) -> list[Event]:
        if not text:
            return []
        if self.index >= 0:
            return [PartGrew(self.index, TextDelta(text))]
        return [self._begun(), PartGrew(self.index, TextDelta(text))]

    def _begun(self) -> PartStarted:
        rest: JsonObject = {key: value for key, value in self.start.items() if key not in _TEXT_MEMBERS}
        return self.announce(Text(text="", extras=Extras(origin=NAME, fields=rest) if rest else None))

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        if kind == "text_delta":
            return self.add_text(text_of(delta, "text"))
        return self._cite(Fields(delta).fields("citation"))

    def _cite(self, citation: Fields) -> list[Event]:
        events: list[Event] = [self._begun()] if self.index < 0 else []
        events.append(PartGrew(self.index, CitationAdded(decode_citation(citation))))
        return events

    def close(self) -> list[Event]:
        if self.index >= 0:
            return [PartEnded(self.index)]
        self.reading.unknowns.members(self.start, _TEXT_MEMBERS)
        return []


class _ThinkingBlock(Block):
    """Thinking starts at once. Its seal is the full block, known at its end."""

    __slots__ = ("_signature",)
    grown = ThinkingGrown
    takes = frozenset({"thinking_delta", "signature_delta"})

    @property
    def runs(self) -> bool:
        return True

    def grow_by(self, run: TextRun) -> TextRun:
        if self.pieces is not None:
            self.pieces.append(run.text)
        return run

    def open(self) -> list[Event]:
        self.pieces = []
        self._signature = text_of(self.start, "signature")
        events: list[Event] = [self.announce(Thinking(text="", kind=ThinkingKind.SUMMARY))]
        return events + self.add_text(text_of(self.start, "thinking"))

    def add_text(self, text: str) -> list[Event]:
        if not text:
            return []
        if self.pieces is not None:
            self.pieces.append(text)
        return [PartGrew(self.index, TextDelta(text))]

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        if kind == "thinking_delta":
            return self.add_text(text_of(delta, "thinking"))
        self._signature = text_of(delta, "signature")
        return []

    def close(self) -> list[Event]:
        seal = from_envelope(self._signature) if self._signature else None
        if seal is None and self._signature:
            body: JsonObject = {**self.start, "thinking": "".join(self.pieces or ()), "signature": self._signature}
            seal = self.reading.issued(Seal(origin=NAME, kind="thinking", body=body))
        # The seal may contain the full block, but its other members do not reach clients.
        self.reading.unknowns.members(self.start, _THINKING_MEMBERS, part_place(self.index))
        if seal is None:
            return [PartEnded(self.index)]
        return [PartGrew(self.index, SealSet(seal)), PartEnded(self.index)]


class _CallBlock(Block):
    """A client tool call. Its arguments are emitted once (`rules.argument_assembly`) and unwrapped as they arrive
    (S16)."""

    __slots__ = ("_assembler", "_quick", "_unwrapper")
    grown = InputGrown
    takes = frozenset({INPUT})

    def open(self) -> list[Event]:
        self._assembler = ArgumentAssembler(free=self.reading.translation.relayed)
        # Emitted fragments, while only the end or a brace can stop direct emission.
        self._quick: list[str] | None = None
        self._unwrapper: InputUnwrapper | ValueUnwrapper | None = None
        part = decode_block(Fields({**self.start, "id": text_of(self.start, "id"), "input": {}}))
        assert isinstance(part, ToolCall)
        self.reading.add_call(part.call_id, part.name, self._assembler)
        call_id = self.reading.fresh_call_id(part.call_id)
        entry = self.reading.translation.table.restored(part.name)
        name, namespace, form = part.name, part.namespace, part.form
        if entry is not None:
            name, namespace, form = entry.name, entry.namespace, entry.form
            self._unwrapper = unwrapper_for(entry)
        call = ToolCall(call_id=call_id, name=name, arguments="", namespace=namespace, form=form, extras=part.extras)
        return [self.announce(call)]

    @property
    def runs(self) -> bool:
        return self._quick is not None

    def grow_by(self, run: TextRun) -> ArgumentsRun:
        assert self._quick is not None
        self._quick.append(run.text)
        return ArgumentsRun(run.text, run.strings)

    @property
    def waits(self) -> bool:
        assembler = self._assembler
        return not (assembler.silent and self.start.get("input")) and (
            assembler.silent or assembler.in_doubt or not assembler.complete()
        )

    def add_text(self, text: str) -> list[Event]:
        pieces = self._quick
        # Only after a complete value, or with a brace, can it be a repetition.
        if pieces is not None and text and "{" not in text:
            pieces.append(text)
            if text[-1] in _MAY_END_VALUE:
                self._quick = None
            return [PartGrew(self.index, ArgumentsDelta(text))]
        if not text:
            return []
        events = self._emit(self._assembler.take(text, _ARGUMENTS))
        pieces = self._assembler.pieces
        slow = self._unwrapper is not None or self._assembler.in_doubt or not pieces or pieces[-1][-1] in _MAY_END_VALUE
        self._quick = None if slow or pieces[0].lstrip()[:1] != "{" else pieces
        return events

    def _emit(self, text: str) -> list[Event]:
        if text and self._unwrapper is not None:
            text = self._unwrapper.feed(text)
        return [PartGrew(self.index, ArgumentsDelta(text))] if text else []

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        text = delta.get("partial_json")
        if type(text) is not str:
            raise WireError("/delta/partial_json", "string", kind_of(text))
        return self.add_text(text)

    def close(self) -> list[Event]:
        events: list[Event] = []
        # The start always has `{}`. A real value there counts only if no delta had arguments (pitfalls 46 and 47).
        given = self.start.get("input")
        if given and self._assembler.silent:
            events += self.add_text(encode_text(given))
        events += self._emit(self._assembler.rest())
        if self._assembler.silent:
            events += self._emit("{}")
        if self._assembler.surplus():
            note = "more arguments came after a whole value"
            self.reading.ledger.dropped(Feature.ARGUMENTS, part_place(self.index), note)
        if self._unwrapper is not None:
            rest = self._unwrapper.close()
            if rest:
                events.append(PartGrew(self.index, ArgumentsDelta(rest)))
            if self._unwrapper.bent:
                report_bent(self.index, self.reading.ledger)
        events.append(PartEnded(self.index))
        return events


class _GatheredBlock(Block):
    """A call whose input is assembled before it is emitted."""

    __slots__ = ("_pieces",)
    takes = frozenset({INPUT})

    def open(self) -> list[Event]:
        self._pieces: list[str] = []
        return []

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        self._pieces.append(text_of(delta, "partial_json"))
        return []


class _AgainBlock(_GatheredBlock):
    """A call with a repeated ID: ignored if it is equal, otherwise a call of its own (N2)."""

    def close(self) -> list[Event]:
        name, assembler = self.reading.calls[text_of(self.start, "id")]
        again = "".join(self._pieces).strip() or encode_text(self.start.get("input") or {})
        if name == text_of(self.start, "name") and (assembler.same(again) or (assembler.silent and again == "{}")):
            return []
        block = _CallBlock(self.reading, self.start)
        return [*block.open(), *(event for piece in self._pieces for event in block.add_text(piece)), *block.close()]


class _HostedBlock(_GatheredBlock):
    """A hosted call: emitted in full once its input is complete."""

    def close(self) -> list[Event]:
        text = "".join(self._pieces)
        value: JsonValue = decode_lenient(text.encode()) if text.strip() else self.start.get("input")
        return self.reading.whole_block({**self.start, "input": value if isinstance(value, dict) else {}})


class _CompactionBlock(Block):
    """A compaction: its content arrives in one delta."""

    __slots__ = ("_members",)
    takes = frozenset({"compaction_delta", "signature_delta"})

    def open(self) -> list[Event]:
        self._members: JsonObject = {}
        return []

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        if kind == "compaction_delta":
            self._members.update({key: value for key, value in delta.items() if key != "type"})
        else:
            self._members["signature"] = text_of(delta, "signature")
        return []

    def close(self) -> list[Event]:
        return self.reading.whole_block({**self.start, **self._members})


# Known members of blocks and of their deltas. A compaction accepts any delta.
_TEXT_MEMBERS = frozenset({"type", "text", "citations"})
_REDACTED_MEMBERS = frozenset({"type", "data"})
_THINKING_MEMBERS = frozenset({"type", "thinking", "signature"})
DELTA_MEMBERS: dict[str, frozenset[str]] = {
    "text_delta": frozenset({"type", "text"}),
    "citations_delta": frozenset({"type", "citation"}),
    # The estimate concerns usage, which is emitted at the end.
    "thinking_delta": frozenset({"type", "thinking", "estimated_tokens"}),
    "signature_delta": frozenset({"type", "signature"}),
    "input_json_delta": frozenset({"type", "partial_json"}),
}

_ARGUMENTS = "/delta/partial_json"
# A complete object ends with the first; white space may follow.
_MAY_END_VALUE = "} \t\r\n"

BLOCKS: dict[str, type[Block]] = {
    "text": _TextBlock,
    "thinking": _ThinkingBlock,
    "tool_use": _CallBlock,
    "server_tool_use": _HostedBlock,
    "mcp_tool_use": _HostedBlock,
    "compaction": _CompactionBlock,
}


def begin(reading: BlockContext, start: JsonObject) -> Block:
    kind = text_of(start, "type")
    if kind == "tool_use" and text_of(start, "id") in reading.calls:
        return _AgainBlock(reading, start)
    return BLOCKS.get(kind, Block)(reading, start)


def text_of(value: JsonObject, key: str) -> str:
    member = value.get(key)
    if member is None:
        return ""
    if type(member) is not str:
        raise WireError(f"/{key}", "string", kind_of(member))
    return member
