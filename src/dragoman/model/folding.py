"""Folding: assembles stream events into a full response, and splits a response into events. Only this module joins
deltas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from dragoman.model.events import (
    ArgumentsDelta,
    ChoiceReported,
    CitationAdded,
    Delta,
    Ended,
    Event,
    Failed,
    PartEnded,
    PartGrew,
    PartReplaced,
    PartStarted,
    SealSet,
    Started,
    Stopped,
    TextDelta,
    UsageReported,
)
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import Citation, HostedCall, Part, Refusal, Text, Thinking, ThinkingKind, ToolCall
from dragoman.model.response import Response, Stop, StopReason, Usage


class PartFold:
    """One growing part. Its pieces are joined once, at the end."""

    __slots__ = ("_citations", "_logprobs", "part", "pieces")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.pieces: list[str] = []
        self._citations: list[Citation] = []
        self._logprobs: JsonList = []

    def grow(self, delta: Delta) -> None:
        if isinstance(delta, TextDelta):
            self.pieces.append(delta.text)
            if delta.logprobs:
                self._logprobs += delta.logprobs
        elif isinstance(delta, ArgumentsDelta):
            self.pieces.append(delta.text)
        elif isinstance(delta, SealSet):
            if isinstance(self.part, Thinking):
                self.part = replace(self.part, seal=delta.seal)
        elif isinstance(delta, CitationAdded):
            self._citations.append(delta.citation)
        elif isinstance(delta, PartReplaced):
            self.part = delta.part
            self.pieces, self._citations, self._logprobs = [], [], []

    def assemble(self) -> Part:
        if self.pieces:
            text = "".join(self.pieces)
            part = self.part
            if isinstance(part, (ToolCall, HostedCall)):
                self.part = replace(part, arguments=part.arguments + text)
            elif isinstance(part, (Text, Thinking, Refusal)):
                self.part = replace(part, text=part.text + text)
            self.pieces = []
        if self._citations and isinstance(self.part, Text):
            self.part = replace(self.part, citations=(*self.part.citations, *self._citations))
        if self._logprobs and isinstance(self.part, (Text, Refusal)):
            self.part = replace(self.part, logprobs=[*(self.part.logprobs or ()), *self._logprobs])
        self._citations, self._logprobs = [], []
        return self.part


class Fold:
    """Incremental form of `fold`: call it with each event, then read `response`."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._started = Started(id="", model="")
        self._parts: dict[int, PartFold] = {}
        self._usage: Usage | None = None
        self._stop: Stop | None = None
        self._alternatives: tuple[JsonObject, ...] = ()
        self.failure: Failure | None = None

    def __call__(self, event: Event) -> None:
        if type(event) is PartGrew:
            self._parts[event.index].grow(event.delta)
        elif type(event) is PartStarted:
            self._parts[event.index] = PartFold(event.part)
        elif type(event) is Started:
            self._started = event
        elif type(event) is UsageReported:
            self._usage = event.usage
        elif type(event) is Stopped:
            self._stop = event.stop
        elif type(event) is ChoiceReported:
            self._alternatives = event.choices
        elif type(event) is Failed:
            self.failure = event.failure

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            if type(event) is PartGrew and isinstance(delta := event.delta, TextDelta) and not delta.logprobs:
                self._parts[event.index].pieces.append(delta.text)
            else:
                self(event)

    def response(self) -> Response:
        return Response(
            origin=self._origin,
            id=self._started.id,
            model=self._started.model,
            created=self._started.created,
            parts=tuple(self._parts[index].assemble() for index in sorted(self._parts)),
            stop=self._stop or Stop(reason=StopReason.OTHER),
            usage=self._usage,
            alternatives=self._alternatives,
        )


def fold(events: Iterable[Event], origin: str) -> Response | Failure:
    """Assemble a stream into its response or failure."""
    folding = Fold(origin)
    for event in events:
        folding(event)
    return folding.failure or folding.response()


def unfold(response: Response) -> Iterator[Event]:
    """Return a full response as events, one delta per part."""
    yield Started(id=response.id, model=response.model, created=response.created)
    if response.alternatives:
        yield ChoiceReported(response.alternatives)
    for index, part in enumerate(response.parts):
        yield from _unfold_part(index, part)
    if response.usage is not None:
        yield UsageReported(response.usage)
    yield Stopped(response.stop)
    yield Ended()


def _unfold_part(index: int, part: Part) -> Iterator[Event]:
    if isinstance(part, Text):
        yield PartStarted(index, replace(part, text="", citations=(), logprobs=None))
        if part.text:
            yield PartGrew(index, TextDelta(part.text, part.logprobs))
        for citation in part.citations:
            yield PartGrew(index, CitationAdded(citation))
    elif isinstance(part, Refusal):
        yield PartStarted(index, replace(part, text="", logprobs=None))
        if part.text:
            yield PartGrew(index, TextDelta(part.text, part.logprobs))
    elif isinstance(part, Thinking) and (part.text or part.kind is not ThinkingKind.WITHHELD):
        yield PartStarted(index, replace(part, text="", seal=None))
        if part.text:
            yield PartGrew(index, TextDelta(part.text))
        if part.seal is not None:
            yield PartGrew(index, SealSet(part.seal))
    elif isinstance(part, ToolCall):
        yield PartStarted(index, replace(part, arguments=""))
        if part.arguments:
            yield PartGrew(index, ArgumentsDelta(part.arguments))
    else:
        # Withheld reasoning has only a signature, and encoders choose the block type when the part starts.
        yield PartStarted(index, part)
    yield PartEnded(index)
