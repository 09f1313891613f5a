"""Part serializer: emits overlapping or possibly empty parts one after the other (S2, S3).

Messages and Responses clients support one open block at a time. Events of other parts wait, in order of first
appearance, until the open part ends. A text part starts with its first text that is not blank.

state of a part      its next event                      action
HELD  (text, blank)  text that is not blank              announced with all held text
HELD                 end                                 its white space moves to the next part if that is text;
                                                         otherwise it is dropped and reported
WAITING              any                                 queued behind the open part
OPEN                 growth, end                         emitted at once; after the end the first waiting part opens"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from msgspec.structs import replace

from dragoman.model.events import (
    ArgumentsRun,
    CitationAdded,
    Event,
    PartEnded,
    PartGrew,
    PartStarted,
    Stopped,
    TextDelta,
    TextRun,
)
from dragoman.model.features import Feature
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import Text

Sink = Callable[[Event], None]


class PartSerializer:
    """Sends events to a sink so that at most one part is open. Parts are numbered from 0 without gaps."""

    __slots__ = ("_blank", "_held", "_ledger", "_next", "_number", "_open", "_sink", "_waiting", "held")

    def __init__(self, sink: Sink, ledger: Ledger) -> None:
        self._sink = sink
        self._ledger = ledger
        self.held = 0
        self._open: int | None = None
        self._number = 0
        self._next = 0
        self._held: dict[int, list[Event]] = {}
        # The last part if it was only white space: its index and text.
        self._blank: tuple[int, str] | None = None
        # An ordinary dictionary would scan all removed entries to find its first one.
        self._waiting: OrderedDict[int, list[Event]] = OrderedDict()

    def __call__(self, event: Event) -> None:
        if type(event) is PartGrew:
            if event.index == self._open:
                self._sink(PartGrew(self._number, event.delta) if event.index != self._number else event)
            else:
                self._grow(event)
        elif type(event) is PartStarted:
            if self._blank is not None:
                event = self._after_blank(event)
            if type(event.part) is Text and not event.part.text.strip():
                self._held[event.index] = [event]
            else:
                self._announce(event.index, [event])
        elif type(event) is PartEnded:
            self._end(event)
        else:
            if type(event) is Stopped:
                self._forget_blank()
                self._advance()
            self._sink(event)

    def renumbered(self, event: PartGrew) -> PartGrew | None:
        """Growth that can be emitted at once; None if it has to wait."""
        if event.index != self._open:
            return None
        return event if event.index == self._number else PartGrew(self._number, event.delta)

    def _grow(self, event: PartGrew) -> None:
        delta = event.delta
        self.held += len(delta.strings) if type(delta) is TextRun or type(delta) is ArgumentsRun else 1
        held = self._held.get(event.index)
        if held is None:
            self._waiting[event.index].append(event)
            return
        held.append(event)
        if isinstance(delta, TextDelta) and delta.text and not delta.text.isspace():
            del self._held[event.index]
            self._announce(event.index, held)

    def _announce(self, index: int, events: list[Event]) -> None:
        if self._open is not None:
            self._waiting[index] = events
            return
        self._open = index
        self._number = self._next
        self._next += 1
        self._emit(events)

    def _emit(self, events: list[Event]) -> None:
        number = self._number
        for event in events:
            if type(event) is PartStarted:
                self._sink(PartStarted(number, event.part))
            elif type(event) is PartGrew:
                self._sink(PartGrew(number, event.delta))
            elif type(event) is PartEnded:
                self._sink(PartEnded(number))

    def _end(self, event: PartEnded) -> None:
        if event.index == self._open:
            self._sink(PartEnded(self._number))
            self._open = None
            self._advance()
        elif event.index in self._held:
            self._forget(event.index)
        else:
            self._waiting[event.index].append(event)

    def _forget(self, index: int) -> None:
        events = self._held.pop(index)
        deltas = [event.delta for event in events if isinstance(event, PartGrew)]
        if any(isinstance(delta, CitationAdded) for delta in deltas):
            self._ledger.dropped(Feature.CITATIONS, ("parts", index), "a citation came without any text to carry it")
        blank = "".join([_started_text(events[0]), *(delta.text for delta in deltas if isinstance(delta, TextDelta))])
        if blank:
            self._blank = (index, blank)

    def _after_blank(self, event: PartStarted) -> PartStarted:
        """A part that starts after white space; text gets the white space."""
        if type(event.part) is not Text or self._blank is None:
            self._forget_blank()
            return event
        (_, blank), self._blank = self._blank, None
        return PartStarted(event.index, replace(event.part, text=blank + event.part.text))

    def _forget_blank(self) -> None:
        if self._blank is not None:
            place: Place = ("parts", self._blank[0])
            note = "text of white space only makes no block for this client"
            self._ledger.dropped(Feature.EMPTY_TEXT, place, note)
            self._blank = None

    def _advance(self) -> None:
        """Open the first waiting part. Parts that ended while they waited are emitted in full."""
        while self._open is None and self._waiting:
            index, events = self._waiting.popitem(last=False)
            self._open = index
            self._number = self._next
            self._next += 1
            self._emit(events)
            if isinstance(events[-1], PartEnded):
                self._open = None


def _started_text(event: Event) -> str:
    return event.part.text if isinstance(event, PartStarted) and isinstance(event.part, Text) else ""
