"""The client's side of a stream: one class for each way of handling events (table in `streaming`)."""

from __future__ import annotations

from typing import Protocol

from dragoman.model.events import Ended, Event, Failed, PartGrew, Stopped
from dragoman.model.failure import Failure
from dragoman.model.folding import Fold
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.response import StopReason
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.protocols.codec import Codec, Mint, TranslationContext
from dragoman.rules.compaction import as_compaction
from dragoman.rules.part_serializer import PartSerializer, Sink
from dragoman.rules.text_runs import FrameForm
from dragoman.translate import as_stream
from dragoman.wire.json import encode


class ClientSide(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def resume(self) -> tuple[JsonObject, ...] | None:
        """The blocks to send again if the provider only paused."""
        ...

    @property
    def failure(self) -> Failure | None:
        """The failure of a response that the provider considers complete."""
        ...

    @property
    def waiting(self) -> int:
        """The number of events that had to wait so far."""
        ...

    def take(self, chunk: bytes, events: list[Event]) -> bytes:
        """Return the client's bytes for the events of a chunk."""
        ...

    def forward(self, chunk: bytes) -> bytes:
        """Return the client's bytes for a chunk after the end."""
        ...

    def end(self, events: list[Event]) -> bytes:
        """Return the client's bytes for the last events."""
        ...


_CLIENT_TOOLS = (FunctionTool, TextTool)


def may_pause(context: TranslationContext) -> bool:
    """Whether the provider may pause. Only tools that it runs cause that, including tools declared in the conversation
    (T9)."""
    request = context.request
    for tool in request.tools:
        if type(tool) not in _CLIENT_TOOLS:
            return True
    return any(type(tool) not in _CLIENT_TOOLS for tool in request.updates.tools) if request.updates.tools else False


class Translation:
    """Different protocols: the client's encoder writes what the provider's decoder read."""

    def __init__(self, inner: Codec, outer: Codec, context: TranslationContext, mint: Mint, ledger: Ledger) -> None:
        self.status = 200
        self.resume: tuple[JsonObject, ...] | None = None
        self.failure: Failure | None = None
        self._outer = outer
        self._out: list[bytes] = []
        self._fold = Fold(outer.name) if may_pause(context) else None
        self._encoder = encoder = inner.stream_encoder(context, mint, ledger)
        encode_event, write = encoder.feed, self._out.append

        def emit(event: Event) -> None:
            write(encode_event(event))

        self._serializer = PartSerializer(emit, ledger) if inner.serial else None
        self._sink: Sink = self._serializer or emit

    @property
    def waiting(self) -> int:
        return 0 if self._serializer is None else self._serializer.held

    def grow(self, event: PartGrew) -> bytes:
        """Return the client's bytes for a chunk that contains only growth, in a stream that cannot pause."""
        serializer = self._serializer
        passed = event if serializer is None else serializer.renumbered(event)
        return self.take(b"", [event]) if passed is None else self._encoder.feed(passed)

    def run_form(self, event: PartGrew) -> FrameForm | None:
        """The frame form of a run in the same part as this growth; None if it has to wait."""
        serializer = self._serializer
        passed = event if serializer is None else serializer.renumbered(event)
        return None if passed is None else self._encoder.run_form(passed.index)

    def take(self, chunk: bytes, events: list[Event]) -> bytes:
        sink, fold = self._sink, self._fold
        for event in events:
            if fold is not None:
                self._watch(event, fold)
            sink(event)
        taken = b"".join(self._out)
        self._out.clear()
        return taken

    def forward(self, chunk: bytes) -> bytes:
        return b""

    def end(self, events: list[Event]) -> bytes:
        return self.take(b"", events)

    def _watch(self, event: Event, folding: Fold) -> None:
        folding(event)
        if type(event) is Stopped and event.stop.reason is StopReason.PAUSE:
            self.resume = tuple(self._outer.encode_turn(folding.response().parts))


class Collection:
    """A client without streaming: the response is folded and sent at the end."""

    def __init__(self, inner: Codec, outer: Codec, context: TranslationContext, mint: Mint, ledger: Ledger) -> None:
        self.waiting = 0
        self.status = 200
        self.resume: tuple[JsonObject, ...] | None = None
        self.failure: Failure | None = None
        self._inner, self._outer, self._context, self._mint, self._ledger = inner, outer, context, mint, ledger
        self._fold = Fold(outer.name)

    def take(self, chunk: bytes, events: list[Event]) -> bytes:
        for event in events:
            self._fold(event)
        return b""

    def forward(self, chunk: bytes) -> bytes:
        return b""

    def end(self, events: list[Event]) -> bytes:
        self.take(b"", events)
        if self._fold.failure is not None:
            self.status, body = self._inner.encode_failure(self._fold.failure, None)
            return encode(body)
        response = self._fold.response()
        if response.stop.reason is StopReason.PAUSE:
            self.resume = tuple(self._outer.encode_turn(response.parts))
        outcome = as_compaction(response) if self._context.summarises else response
        if isinstance(outcome, Failure):
            self.failure = outcome
            self.status, body = self._inner.encode_failure(outcome, None)
            return encode(body)
        return encode(self._inner.encode_response(outcome, self._context, self._mint, self._ledger))


class Summary:
    """A summary, folded to its end, then sent as the stream of one compaction (K1)."""

    def __init__(self, inner: Codec, outer: Codec, context: TranslationContext, mint: Mint, ledger: Ledger) -> None:
        self.waiting = 0
        self.status = 200
        self.resume: tuple[JsonObject, ...] | None = None
        self.failure: Failure | None = None
        self._inner, self._context, self._mint, self._ledger = inner, context, mint, ledger
        self._fold = Fold(outer.name)

    def take(self, chunk: bytes, events: list[Event]) -> bytes:
        for event in events:
            self._fold(event)
        return self._encode_summary() if events and isinstance(events[-1], Ended | Failed) else b""

    def forward(self, chunk: bytes) -> bytes:
        return b""

    def end(self, events: list[Event]) -> bytes:
        return self.take(b"", events)

    def _encode_summary(self) -> bytes:
        outcome = self._fold.failure or as_compaction(self._fold.response())
        if isinstance(outcome, Failure):
            self.failure = outcome
            return self._inner.stream_encoder(self._context, self._mint, self._ledger).feed(Failed(outcome))
        return as_stream(outcome, self._inner, self._context, self._mint, self._ledger)
