"""The provider's side of a stream: converts its bytes to events that always end in `Ended` or `Failed`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dragoman.errors import DragomanError, WireError
from dragoman.model.events import (
    ArgumentsDelta,
    Ended,
    Event,
    Failed,
    Heartbeat,
    PartEnded,
    PartGrew,
    PartStarted,
    Started,
    Stopped,
    TextDelta,
    TextRun,
    UsageReported,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.parts import ToolCall
from dragoman.model.response import Stop, Usage
from dragoman.protocols.codec import StreamDecoder
from dragoman.rules.failures import ENDED_EARLY, bounded
from dragoman.rules.pauses import PauseStage
from dragoman.rules.stop_sequences import StopStage
from dragoman.rules.tool_table import MAX_CALLS, TOO_MANY_CALLS
from dragoman.wire.sse import SseReader
from dragoman.wire.value_count import exceeds

# Maximum JSON values of one event, or of a full response. The JSON reader holds the interpreter lock until all are
# built, so more would block the event loop even from another thread.
MAX_EVENT_VALUES = 2_000_000
_FullDecoder: TypeAlias = Callable[[bytes], list[Event]]

# Buffered until other events are sent, so that a failure can still be an HTTP error (S1).
_OPENING = frozenset({Started, UsageReported, Heartbeat})
# No content: a provider may send these for ever.
_SILENT = _OPENING | {PartEnded}
# Events that change no state of the stream.
_PASSING = frozenset({PartGrew, PartEnded, Heartbeat})


class Source:
    """Converts bytes to events, ending in `Ended` or `Failed` in every case."""

    __slots__ = (
        "_cleaned",
        "_decode_full",
        "_feed",
        "_full_body",
        "_new_decoder",
        "_reader",
        "_stops",
        "_streams",
        "answered",
        "calls",
        "content",
        "counted",
        "decoder",
        "failure",
        "first_call",
        "is_past_opening",
        "limit",
        "new_pauses",
        "opening_usage",
        "over",
        "pauses",
        "progressed",
        "started",
        "stop",
        "usage",
    )

    def __init__(
        self,
        new_decoder: Callable[[], StreamDecoder],
        stops: tuple[str, ...],
        limit: int,
        decode_full: _FullDecoder | None = None,
        cleaned: Callable[[Failure], Failure] | None = None,
    ) -> None:
        self._new_decoder = new_decoder
        self._cleaned = cleaned or _as_it_is
        # A full response to a streamed request (S12): the data so far, and its decoder.
        self._decode_full = decode_full
        self._full_body: bytearray | None = None
        self._streams = False
        self.limit = limit
        self._reader = SseReader(limit=limit)
        self.decoder = new_decoder()
        self._feed = self.decoder.feed
        self._stops = StopStage(stops) if stops else None
        self.pauses: PauseStage | None = None
        # Makes the pause stage of a full response, where watching for a pause costs nothing.
        self.new_pauses: Callable[[], PauseStage] | None = None
        self.over = False
        self.is_past_opening = self.answered = False
        self.progressed = False
        self.failure: Failure | None = None
        self.usage: Usage | None = None
        # The usage before any content, and whether the usage of a failure is complete.
        self.opening_usage: Usage | None = None
        self.counted = False
        self.started: Started | None = None
        self.stop: Stop | None = None
        # Approximate bytes of content so far, because an encoder may repeat all of it at an end.
        self.content = 0
        self.calls = 0
        self.first_call = ""

    def renew(self) -> None:
        if self.pauses is not None:
            self.pauses.resumed()
        self._reader = SseReader(limit=self.limit)
        self.decoder = self._new_decoder()
        self._feed = self.decoder.feed
        self._full_body = None
        self._streams = False

    def feed(self, chunk: bytes) -> list[Event]:
        if not self._streams and self._gathered(chunk):
            return []
        events: list[Event] = []
        try:
            self._read(chunk, events)
        except (DragomanError, RecursionError, UnicodeError) as error:
            events.append(_broken(f"upstream stream could not be read: {error}"))
        return self._process(events)

    def _read(self, chunk: bytes, events: list[Event]) -> None:
        reader, decoder = self._reader, self.decoder
        text_frames = decoder.text_frames
        has_only_text = True
        reader.take(chunk)
        while True:
            if text_frames.is_ready and self._stops is None:
                start = reader.position
                stop = start + reader.limit
                run = text_frames.read_most(reader.chunk, start, stop) if has_only_text else None
                if run is None:
                    has_only_text = False
                    run = text_frames.read(reader.chunk, start, stop)
                if run is not None:
                    growth, reader.position = run
                    self.content += len(growth.text)
                    self.progressed = True
                    events.append(decoder.grow(growth))
                    if reader.position == len(reader.chunk):
                        return
            frame = reader.next()
            if frame is None:
                return
            if len(frame.data) > MAX_EVENT_VALUES:
                _check_values(frame.data)
            frame_events = self._feed(frame)
            self.content += _content_in(frame_events, len(frame.data))
            events += frame_events

    def read_run(self, chunk: bytes) -> PartGrew | None:
        """Return the growth if a chunk contains nothing else and has the form of earlier frames. If it returns None,
        call `feed`."""
        decoder = self.decoder
        frames = decoder.text_frames
        if not frames.is_ready or len(chunk) > self.limit:
            return None
        run = frames.read_all(chunk)
        if run is None:
            return None
        return self.grow(run)

    def grow(self, run: TextRun) -> PartGrew:
        self.content += len(run.text)
        return self.decoder.grow(run)

    def _gathered(self, chunk: bytes) -> bool:
        """Collect a full response. Data with another start is a stream."""
        if self._full_body is not None:
            self._full_body += chunk
            return True
        stripped = chunk.lstrip()
        if stripped.startswith(b"{") and self._decode_full is not None:
            self._full_body = bytearray(stripped)
            return True
        self._streams = bool(stripped)
        return False

    def call_ended(self) -> list[Event]:
        """Return the events of a full response; none for a stream."""
        whole, self._full_body = self._full_body, None
        if whole is None or self._decode_full is None:
            return []
        self._streams = True
        if self.pauses is None and self.new_pauses is not None:
            self.pauses = self.new_pauses()
        try:
            _check_values(bytes(whole))
            return self._process(self._decode_full(bytes(whole)))
        except (DragomanError, RecursionError, UnicodeError) as error:
            return self._process([_broken(f"upstream answer could not be read: {error}")])

    def close(self) -> list[Event]:
        events: list[Event] = self.call_ended()
        if self.over:
            return events
        try:
            for frame in self._reader.close():
                if len(frame.data) > MAX_EVENT_VALUES:
                    _check_values(frame.data)
                events += self._feed(frame)
            events += self.decoder.close()
        except (DragomanError, RecursionError, UnicodeError) as error:
            events.append(_broken(f"upstream stream could not be read: {error}"))
        processed = self._process(events)
        if not self.over:
            processed += self._process([_broken(ENDED_EARLY)])
        return processed

    @property
    def is_full(self) -> bool:
        """Whether the provider sends a full response, which is collected."""
        return self._full_body is not None

    @property
    def held(self) -> int:
        """Buffered bytes of an unfinished event, or of a full response."""
        return len(self._reader.pending if self._full_body is None else self._full_body)

    @property
    def between(self) -> bool:
        """Whether the stream is between two events, or before its first one, and not at its end."""
        return not self.over and self._reader.is_idle

    @property
    def final_usage(self) -> Usage | None:
        """The usage of the full response, if it was reported before the end."""
        usage = None if self.over else self.decoder.final_usage
        if usage is None or self.pauses is None:
            return usage
        return None if self.pauses.paused else self.pauses.in_all(usage)

    @property
    def cut_short(self) -> bool:
        return self._stops is not None and self._stops.matched

    def fail(self, failure: Failure) -> list[Event]:
        """Return the events for a failure from outside."""
        usage = None
        if self.pauses is not None and self.pauses.paused:
            # No stream follows: the pause ends the response. Earlier usage is counted once.
            reported = self.decoder.final_usage
            usage = None if reported is None else self.pauses.in_all(reported)
            self.pauses.resumed()
        return self._process([Failed(failure, usage)])

    def _process(self, events: list[Event]) -> list[Event]:
        if not self.progressed and events:
            self.progressed = _have_content(events)
        if not self.is_past_opening:
            self._record_opening(events)
        if self.pauses is not None:
            events = self.pauses.passed(events)
        if self._stops is not None:
            events = self._stops.passed(events)
        for position, event in enumerate(events):
            kind = type(event)
            if kind in _PASSING:
                continue
            if type(event) is PartStarted and type(event.part) is ToolCall:
                self.calls += 1
                self.first_call = self.first_call or event.part.call_id
                if self.calls > MAX_CALLS:
                    event = _broken(TOO_MANY_CALLS)
            if kind is Started:
                self.started = event  # type: ignore[assignment]  # as its type says
            elif kind is Stopped:
                self.stop = event.stop  # type: ignore[union-attr]  # the same
            elif type(event) is UsageReported:
                self.usage = event.usage
            elif type(event) is Failed:
                usage = event.usage or self.final_usage
                if usage is not None:
                    self.usage, self.counted = usage, True
                self.failure = self._cleaned(bounded(event.failure))
                self.over = True
                return [*events[:position], Failed(self.failure)]
            elif kind is Ended:
                self.over = True
                return events[: position + 1]
        return events

    def _record_opening(self, events: list[Event]) -> None:
        for event in events:
            kind = type(event)
            if kind not in _OPENING:
                self.is_past_opening, self.answered = True, kind is not Failed
                if kind is Stopped:
                    # Without any content, the last usage is the total.
                    self.opening_usage = None
                return
            if type(event) is UsageReported:
                self.opening_usage = event.usage


def _have_content(events: list[Event]) -> bool:
    """Whether any of these events is a part, text, reasoning, arguments, or an end."""
    for event in events:
        if type(event) is PartGrew:
            delta = event.delta
            if not isinstance(delta, TextDelta | ArgumentsDelta) or delta.text:
                return True
        elif type(event) not in _SILENT:
            return True
    return False


def _check_values(data: bytes) -> None:
    """Reject JSON with too many values before they are built."""
    if exceeds(data, MAX_EVENT_VALUES):
        raise WireError("event stream", f"at most {MAX_EVENT_VALUES} values", "more")


def _content_in(events: list[Event], size: int) -> int:
    """The content of an event in bytes: the length of plain text, otherwise the full size."""
    content = 0
    for event in events:
        if type(event) is PartGrew:
            delta = event.delta
            if type(delta) is ArgumentsDelta or (type(delta) is TextDelta and not delta.logprobs):
                content += len(delta.text)
            else:
                return size
        elif type(event) not in _SILENT:
            return size
    return content


def _as_it_is(failure: Failure) -> Failure:
    return failure


def _broken(message: str) -> Failed:
    return Failed(Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=message))
