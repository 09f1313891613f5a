"""Translated parts: caches the translated tools and history of a request for later requests (decision 45).

A recorded translation leaves a `TranslatedHistory`: the decoded messages, and the encoded ones up to each boundary. The
translation of a longer request continues from a boundary. A boundary precedes an assistant turn, or follows the last
message. All calls before it are paired with their results. Later messages change no encoded element except the last
one, which is therefore decoded again. Losses are stored by stage: an encoder passes over the messages more than once,
and the ledger keeps the losses of one pass together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence, Sized
from itertools import accumulate
from typing import Protocol

from msgspec import Raw, Struct

from dragoman.model.jsonvalue import JsonList
from dragoman.model.losses import Ledger, LedgerEntry, Place
from dragoman.model.parts import Compaction, Part, Text, Thinking, ToolCall, ToolResult
from dragoman.model.request import Message, Role
from dragoman.model.tools import ToolSpec
from dragoman.rules.tool_table import ToolTable
from dragoman.wire.common_prefix import ArrayTail
from dragoman.wire.json import encode, read_json


class ToolDeclarations(Struct, kw_only=True):
    """Tools as an encoder wrote them; each protocol adds its own members. `text` is the encoded array of declarations,
    or None if it must be encoded again because something changed them."""

    table: ToolTable
    text: Raw | None = None


class TranslatedTools(Struct, frozen=True, kw_only=True, eq=False):
    """Tools of a request for one target: decoded, encoded, and their losses. `raw` is the client's array."""

    raw: bytes
    target: Hashable
    specs: tuple[ToolSpec, ...]
    # Whether one of them takes free text.
    has_text_tools: bool
    declarations: ToolDeclarations
    losses: tuple[LedgerEntry, ...]

    @property
    def size(self) -> int:
        """Memory size in bytes, estimated: schemas are many small objects."""
        text = self.declarations.text
        return _SCHEMA_FACTOR * len(self.raw) + (0 if text is None else len(bytes(text)))


class Boundary(Struct, frozen=True, gc=False):
    """A position between two messages: the number of messages before it, the span of the last element encoded for them,
    and their approximate size in memory."""

    count: int
    last_start: int
    last_end: int
    memory: int


class HistoryStart(Struct, frozen=True, kw_only=True, eq=False):
    """The state of a translation at a boundary. `text` is the encoded text, without the `last` element. `opening` is an
    array of leading messages that are encoded in another place."""

    messages: tuple[Message, ...]
    opening: bytes
    text: bytes
    last: bytes
    losses: tuple[tuple[LedgerEntry, ...], ...]
    calls: tuple[tuple[int, str], ...]


class TranslatedHistory(Struct, frozen=True, kw_only=True, eq=False):
    """The history of a request for one target. `text` has the encoded elements, joined by commas. `losses` are grouped
    by stage. `calls` are IDs with the numbers of their messages. `tools` is the client's array of tools, because tools
    decide how calls are named."""

    tools: bytes
    target: Hashable
    messages: tuple[Message, ...]
    opening: bytes
    text: bytes
    losses: tuple[tuple[LedgerEntry, ...], ...]
    calls: tuple[tuple[int, str], ...]
    boundaries: tuple[Boundary, ...]
    memory: int

    def boundary_before(self, count: int) -> Boundary | None:
        number = bisect_right(self.boundaries, count, key=_count_of)
        return self.boundaries[number - 1] if number else None

    def start_at(self, boundary: Boundary) -> HistoryStart:
        count = boundary.count
        return HistoryStart(
            messages=self.messages[:count],
            opening=self.opening,
            text=self.text[: max(boundary.last_start - 1, 0)],
            last=self.text[boundary.last_start : boundary.last_end],
            losses=tuple([tuple([loss for loss in stage if message_of(loss) < count]) for stage in self.losses]),
            calls=tuple([call for call in self.calls if call[0] < count]),
        )

    @property
    def size(self) -> int:
        """Memory size in bytes, an estimate that is rather too high."""
        losses = sum(map(len, self.losses))
        return (
            len(self.opening)
            + len(self.text)
            + self.memory
            + _BOUNDARY_SIZE * len(self.boundaries)
            + _LOSS_SIZE * losses
        )


def _count_of(boundary: Boundary) -> int:
    return boundary.count


_SCHEMA_FACTOR = 12
_BOUNDARY_SIZE, _LOSS_SIZE, _MESSAGE_SIZE, _PART_SIZE = 100, 300, 300, 250


def _size_of(parts: Sequence[Part]) -> int:
    size = _PART_SIZE * len(parts)
    # One loop without function calls, because it runs for every part of a new history.
    for part in parts:
        if isinstance(part, Text):
            text = part.text
        elif isinstance(part, ToolCall):
            text = part.arguments
        elif isinstance(part, ToolResult):
            size += _size_of(part.parts)
            continue
        elif isinstance(part, Thinking) and part.extras is None:
            text = part.text
            proof = () if part.seal is None else part.seal.body.values()
            size += _PART_SIZE + sum([len(one) for one in proof if isinstance(one, str)])
        else:
            # Rare parts hold JSON and media: their text, and objects of several times its size.
            size += 4 * len(repr(part))
            continue
        # One non-ASCII character makes Python store every character in up to four bytes.
        size += len(text) if text.isascii() else 4 * len(text)
    return size


def message_of(loss: LedgerEntry) -> int:
    """The index of the message that a loss concerns, or -1."""
    return message_at(loss[2])


def message_at(place: Place) -> int:
    """The index of the message at a location, or -1."""
    number = place[1] if len(place) > 1 and place[0] == "messages" else -1
    return number if isinstance(number, int) else -1


def opens_turn(message: Message) -> bool:
    """Whether a message begins an assistant turn in every encoder, so that all earlier results are known."""
    if message.role is not Role.ASSISTANT:
        return False
    for part in message.parts:
        if isinstance(part, Text):
            if part.text.strip():
                return True
        elif isinstance(part, ToolCall) or message.turn is None:
            return True
    return False


class HistoryEncoding(Struct, eq=False):
    """Records a history while it is encoded, from its beginning or from a `start`, for later translations.

    The encoder calls `begin_stage` before each pass over the messages. It calls `begin_writing` and `finish` around the
    last pass, `begin_turn` and `end_turn` around each assistant turn in it, and `end_turns` at its end."""

    start: HistoryStart | None = None
    # Whether the elements stay the same when more messages follow.
    is_prefix: bool = True
    # The number of messages, and whether the last one is not the assistant's, which the next message might continue.
    total: int = 0
    is_complete: bool = False
    # An array of leading messages that are encoded in another place.
    opening: bytes = b"[]"
    calls: list[tuple[int, str]] = []
    # The number of messages before each boundary, and the number of elements encoded before it.
    boundaries: list[tuple[int, int]] = []
    losses: list[tuple[LedgerEntry, ...]] = []
    texts: list[bytes] = []
    _stage_start: int = 0
    _in_stage: bool = False
    _opening: int = 0

    @property
    def count(self) -> int:
        return 0 if self.start is None else len(self.start.messages)

    @property
    def call_ids(self) -> set[str]:
        return set() if self.start is None else {call_id for _, call_id in self.start.calls}

    def begin_stage(self, ledger: Ledger) -> None:
        """Begin a pass over the messages. The losses of the messages before the start come first."""
        self.end_stage(ledger)
        self._stage_start = len(ledger.entries)
        if self.start is not None:
            ledger.entries += self.start.losses[len(self.losses)]
        self.losses.append(())
        self._in_stage = True

    def end_stage(self, ledger: Ledger) -> None:
        """End the pass, if any. Later losses do not belong to the history."""
        if self._in_stage:
            self._in_stage = False
            self.losses[-1] = losses = tuple(ledger.entries[self._stage_start :])
            if losses and min(map(message_of, losses)) < 0:
                # A change without a message may concern all of them.
                self.is_prefix = False

    def begin_writing(self, written: JsonList) -> None:
        """Begin the list of encoded elements. Those of the opening do not belong to the history."""
        self._opening = len(written)
        if self.start is not None:
            written.append(read_json(self.start.last))

    def begin_turn(self, parts: Sequence[Part], places: Sequence[Place], written: Sized) -> None:
        """Record the next assistant turn: its calls, and the boundary before it."""
        first = message_at(places[0])
        # A compaction is user content and may be added to earlier elements.
        if first > self.count and Compaction not in map(type, parts):
            self._add_boundary(first, written)
        for part, place in zip(parts, places, strict=True):
            if type(part) is ToolCall:
                self.calls.append((message_at(place), part.call_id))

    def end_turn(self, written: Sized) -> None:
        """Record that the assistant turn is encoded. If it added no element, the last element may change: no
        boundary."""
        if self.boundaries and self.boundaries[-1][1] == len(written) - self._opening:
            self.boundaries.pop()

    def end_turns(self, written: Sized) -> None:
        """Record that all messages are encoded: the boundary after the last one, unless that may be continued."""
        if self.is_complete:
            self._add_boundary(self.total, written)

    def _add_boundary(self, count: int, written: Sized) -> None:
        elements = len(written) - self._opening
        if elements:
            self.boundaries.append((count, elements))

    def finish(self, ledger: Ledger, written: JsonList) -> None:
        """Replace the elements of the history by their encoded text, which is stored."""
        self.end_stage(ledger)
        self.texts = [encode(element) for element in written[self._opening :]]
        elements = [Raw(text) for text in self.texts]
        if self.start is not None and self.start.text:
            elements.insert(0, Raw(self.start.text))
        written[self._opening :] = elements

    def translated(
        self, earlier: tuple[Boundary, ...], messages: tuple[Message, ...], tools: bytes, target: Hashable
    ) -> TranslatedHistory:
        """Return the history for later translations. `earlier` are boundaries up to its start."""
        start = self.start
        pieces = [start.text, *self.texts] if start is not None and start.text else self.texts
        offset = len(pieces[0]) + 1 if pieces is not self.texts else 0
        ends: list[int] = []
        for text in self.texts:
            offset += len(text) + 1
            ends.append(offset - 1)
        sizes = [_MESSAGE_SIZE + _size_of(message.parts) for message in messages[self.count :]]
        memory = list(accumulate(sizes, initial=earlier[-1].memory if earlier else 0))
        boundaries = [
            Boundary(
                count,
                ends[elements - 1] - len(self.texts[elements - 1]),
                ends[elements - 1],
                memory[count - self.count],
            )
            for count, elements in self.boundaries
        ]
        return TranslatedHistory(
            tools=tools,
            target=target,
            messages=messages,
            opening=self.opening if start is None else start.opening,
            text=b",".join(pieces),
            losses=tuple(self.losses),
            calls=(*(() if start is None else start.calls), *self.calls),
            boundaries=(*earlier, *boundaries),
            memory=memory[-1],
        )


class CachedState(Protocol):
    """A cached value that was computed from the first elements of an array."""

    @property
    def size(self) -> int: ...


class ArrayMatch(Protocol):
    """An array of a request, matched with an earlier array of the same client that has the same first elements."""

    def state(self, slot: Hashable) -> tuple[int, CachedState] | None:
        """The cached translation of the earlier array, and the number of its unchanged elements."""
        ...

    def tail(self, count: int) -> ArrayTail:
        """The elements after the first `count`, which both arrays have."""
        ...

    def store(self, slot: Hashable, state: CachedState) -> None:
        """Cache the translation of this array for the next request."""
        ...


class GlancedRequest(Protocol):
    """A request as far as it was read before its translation."""

    @property
    def members(self) -> Mapping[str, Raw]:
        """The members of the body by their names."""
        ...

    def usual_messages(self) -> tuple[Message, ...] | None:
        """The messages, decoded, if they were read in their usual shapes; they have no call of free text."""
        ...


class TranslationCache(Protocol):
    """The cache of translated parts for the translation of one request."""

    @property
    def glance(self) -> GlancedRequest | None:
        """The request, if it was read before."""
        ...

    def find_tools(self, written: bytes, slot: Hashable) -> CachedState | None:
        """The cached translation of the same tools."""
        ...

    def match_tools(self, written: bytes) -> ArrayMatch:
        """Compare the tools of a request with those of earlier ones, to cache their translation."""
        ...

    def match_history(self, written: Raw) -> ArrayMatch: ...

    def count(self, result: str) -> None:
        """Count a history look-up: a hit, a miss, or a state that did not match and was discarded."""
        ...


class KnownParts(Struct, frozen=True, kw_only=True):
    """Already decoded parts: the tools, if not None, and the messages before those of the body."""

    tools: tuple[ToolSpec, ...] | None = None
    messages: tuple[Message, ...] = ()


NOTHING_KNOWN = KnownParts()


class ReusedParts(Struct, kw_only=True, eq=False):
    """Parts that an encoder may reuse, and that it leaves for later translations. `tools` is set if it encoded them. A
    short history is not continued."""

    history: HistoryEncoding | None = None
    known_tools: TranslatedTools | None = None
    tools: ToolDeclarations | None = None
    tool_losses: tuple[LedgerEntry, ...] = ()
