"""StreamTranslator: a provider's stream, cut anywhere, as what its client expects.

    bytes ─▶ SseReader ─▶ StreamDecoder ─▶ [stop emulation] ─▶ lane ─▶ bytes

Bytes that begin with `{` are a whole answer, though a stream was asked for: it is told when the call is over (S12).

    lane          when                              what it does with the events
    translation   the protocols differ              [Serializer] ─▶ StreamEncoder
    relay         the protocols are the same        only watches; whole frames go on as they came
    collection    the client did not ask to stream  folds them; the whole answer is told at the end
    summary       the answer stands for a           folds them; the compaction is told at the end, as a stream
                  compaction (K1)

However the provider ends, the client's stream ends as its own protocol demands: with its terminator if the answer was
complete, with its error form if not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from dragoman.errors import DragomanError, WireError
from dragoman.model.events import (
    Ended,
    Event,
    Failed,
    Heartbeat,
    PartGrew,
    Started,
    Stopped,
    UsageReported,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.folding import Fold, unfold
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.response import StopReason, Usage
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.protocols.codec import Asked, Codec, Mint, StreamDecoder
from dragoman.protocols.registry import codec_of
from dragoman.rules.compaction import as_compaction
from dragoman.rules.failures import ENDED_EARLY, bounded
from dragoman.rules.pauses import PauseStage
from dragoman.rules.serial import Serializer, Sink
from dragoman.rules.stop_strings import StopStage
from dragoman.translate import LossLine, TranslatedRequest, as_stream, asked_by, derived_mint, lines
from dragoman.wire.json import decode_object, encode, kind_of
from dragoman.wire.sse import SseReader, silent_end

DEFAULT_LIMIT = 64 * 1024 * 1024
_LINE_FEED = 0x0A
# Half a frame that is longer is read as any other.
_SKIMMED = 256 * 1024
# What a provider's own error may come to on the relay.
_LONGEST_FAILURE = 256 * 1024


class StreamTranslator:
    """Translates one answer. Feed it what the provider sends; send on what it returns; close it when the provider does.

    With `collect` the client did not ask for a stream: `feed` returns nothing and `close` the whole answer, to be sent
    under `status`. `finished` is true once the client's stream is over, perhaps before the provider's: a stop string
    was found, or the stream failed; what still comes is ignored, and the provider's call may be cancelled. With
    `resumes` a provider that pauses may be asked again so many times (`paused`, `go_on`). `resume` is
    set when the provider only paused, as in `TranslatedResponse`.
    """

    def __init__(
        self,
        *,
        source: str,
        target: str,
        request: TranslatedRequest | None = None,
        mint: Mint | None = None,
        collect: bool = False,
        limit: int = DEFAULT_LIMIT,
        resumes: int = 0,
    ) -> None:
        outer, inner = codec_of(source), codec_of(target)
        asked = asked_by(request, outer)
        if outer is inner and not collect:
            asked = replace(asked, relayed=True)
        seed = (request.body if request is not None else b"") + source.encode()
        # Reading and writing mint on their own: which of them comes first depends on how the bytes were cut.
        minted = mint or derived_mint(seed + b" written")
        self._ledger = Ledger()
        # What is relayed loses nothing, however little of it is understood.
        read = Ledger() if outer is inner and not collect else self._ledger
        reading = mint or derived_mint(seed + b" read")
        self._outer = outer
        # What is relayed stays as it came, whatever it is.
        whole = None if outer is inner and not collect else partial(_told_whole, outer, asked, read)
        self._source = _Source(lambda: outer.stream_decoder(asked, reading, read), asked.stops, limit, whole)
        if resumes and outer.resume_request is not None and (outer is not inner or collect) and _may_pause(asked):
            self._source.pauses = PauseStage(outer.name, resumes)
        self._lane: _Lane
        if collect:
            self._lane = _Collection(inner, outer, asked, minted, self._ledger)
        elif asked.summarises:
            self._lane = _Summary(inner, outer, asked, minted, self._ledger)
        elif outer is inner:
            self._lane = _Relay(self._source.decoder)
        else:
            self._lane = _Translation(inner, outer, asked, minted, self._ledger)
        self._plain_end = inner.plain_end if outer is inner and not collect else None
        self._heartbeat = b"" if collect else inner.heartbeat
        # The beginning of a relayed frame, until the rest of it comes.
        self._rest = bytearray()
        self._closed = False

    def feed(self, chunk: bytes) -> bytes:
        """Take bytes as they came; give the client's bytes that are ready now, possibly none."""
        source = self._source
        if type(chunk) is not bytes:
            chunk = _octets(chunk)
        if self._plain_end is not None:
            return self._skim(chunk, self._plain_end)
        return self._lane.pass_on(chunk) if source.over else self._lane.take(chunk, source.feed(chunk))

    def _skim(self, chunk: bytes, plain_end: Callable[[bytes, int], int]) -> bytes:
        """Pass on relayed frames of content unread: reading them would be most of what they cost.

        Frames are taken whole, so that what begins a frame is always read together with its end. A stream with other
        line ends, or with a frame of some size, is read as any other.
        """
        source, rest = self._source, self._rest
        if rest:
            # What was held has no blank line: only the new bytes, and where they meet it, are looked at.
            met = chunk.startswith(b"\n") and rest.endswith(b"\n")
            rest += chunk
            if not met and b"\n\n" not in chunk and b"\r" not in chunk and len(rest) <= _SKIMMED:
                return b""
            chunk = bytes(rest)
            rest.clear()
        end = chunk.rfind(b"\n\n") + 2
        if end == 1:
            # One more line end behind the last frame may have come by itself.
            end = int(chunk.startswith(b"\n"))
        if source.over or b"\r" in chunk or len(chunk) - end > _SKIMMED:
            self._plain_end = None
            return self.feed(chunk)
        out: list[bytes] = []
        at = 0
        while at < end and not source.over:
            following = plain_end(chunk, at) if source.passing else at
            if following > at:
                out.append(chunk[at:following])
            else:
                following = _frame_end(chunk, at)
                frame = chunk[at:following]
                events = source.feed(frame)
                out.append(self._lane.take(frame, events))
                if not events and source.between:
                    # Where one event told nothing there may be very many, of three bytes each.
                    frame_end = following
                    following = silent_end(chunk, frame_end, source.limit)
                    out.append(chunk[frame_end:following])
            at = following
        if source.over:
            out.append(self._lane.pass_on(chunk[at:]))
        elif end < len(chunk):
            rest += chunk[end:]
        return out[0] if len(out) == 1 else b"".join(out)

    def call_ended(self) -> bytes:
        """Take that the provider's call is over: an answer that came whole, not as a stream, can be told now."""
        events = [] if self.finished else self._source.call_ended()
        return self._lane.take(b"", events) if events else b""

    def close(self) -> bytes:
        """Tell the end of the provider's stream; give the terminator, or the client's error form if it broke off."""
        if self._closed:
            return b""
        self._closed = True
        taken = b""
        if self._rest:
            chunk = bytes(self._rest)
            self._rest.clear()
            taken = self._lane.take(chunk, self._source.feed(chunk))
        return taken + self._lane.end([] if self.finished else self._source.close())

    def fail(self, failure: Failure) -> bytes:
        """End the stream from outside, because of a limit or a lost connection; give the client's error form."""
        if self._closed:
            return b""
        self._closed = True
        return self._lane.end([] if self.finished else self._source.fail(failure))

    @property
    def speaking(self) -> bool:
        """Whether anything beyond opening events was read: from then on an error can no longer be a status (S1)."""
        return self._source.spoken

    @property
    def answered(self) -> bool:
        """Whether there was anything of an answer, whatever became of it."""
        return self._source.answered

    @property
    def finished(self) -> bool:
        """Whether the client's stream is over."""
        return self._source.over

    @property
    def cut_short(self) -> bool:
        """Whether a stop string ended the answer here, so that the provider's call is to be cancelled (S11)."""
        return self._source.cut_short

    @property
    def heartbeat(self) -> bytes:
        """What to send when the provider has been silent for a while, in the client's own form (S4)."""
        return b"" if self.finished else self._heartbeat

    @property
    def losses(self) -> tuple[LossLine, ...]:
        """What was lost so far."""
        return lines(self._ledger.losses)

    @property
    def failure(self) -> Failure | None:
        """How the stream failed, if it did."""
        return self._source.failure or self._lane.failure

    @property
    def usage(self) -> Usage | None:
        """The latest token counts."""
        return self._source.usage

    @property
    def status(self) -> int:
        """The HTTP status of a collected answer."""
        return self._lane.status

    @property
    def resume(self) -> tuple[JsonObject, ...] | None:
        """The blocks to send again if the provider only paused."""
        pauses = self._source.pauses
        if pauses is not None and pauses.paused:
            return tuple(self._outer.encode_turn(pauses.parts))
        return self._lane.resume

    @property
    def paused(self) -> bool:
        """Whether the provider is to be asked again with `resume`, and its next stream to be fed after `go_on`."""
        pauses = self._source.pauses
        return pauses is not None and pauses.paused

    def go_on(self) -> None:
        """Expect the stream of the call that resumes the answer; the client sees one answer without a break."""
        self._source.renew()


class _Source:
    """The provider's side: bytes to events, ending in `Ended` or `Failed` whatever happens."""

    __slots__ = (
        "_feed",
        "_new_decoder",
        "_reader",
        "_stops",
        "_streams",
        "_told",
        "_whole",
        "answered",
        "decoder",
        "failure",
        "limit",
        "over",
        "pauses",
        "spoken",
        "usage",
    )

    def __init__(
        self, new_decoder: Callable[[], StreamDecoder], stops: tuple[str, ...], limit: int, told: _Told | None = None
    ) -> None:
        self._new_decoder = new_decoder
        # An answer that came whole though a stream was asked for (S12): what came of it so far, and what it tells.
        self._told = told
        self._whole: bytearray | None = None
        # Once it has begun as a stream.
        self._streams = False
        self.limit = limit
        self._reader = SseReader(limit=limit)
        self.decoder = new_decoder()
        self._feed = self.decoder.feed
        self._stops = StopStage(stops) if stops else None
        self.pauses: PauseStage | None = None
        self.over = False
        self.spoken = self.answered = False
        self.failure: Failure | None = None
        self.usage: Usage | None = None

    def renew(self) -> None:
        if self.pauses is not None:
            self.pauses.resumed()
        self._reader = SseReader(limit=self.limit)
        self.decoder = self._new_decoder()
        self._feed = self.decoder.feed
        self._whole = None
        self._streams = False

    def feed(self, chunk: bytes) -> list[Event]:
        if not self._streams and self._gathered(chunk):
            return []
        events: list[Event] = []
        try:
            for frame in self._reader.feed(chunk):
                events += self._feed(frame)
        except (DragomanError, RecursionError, UnicodeError) as error:
            events.append(_broken(f"upstream stream could not be read: {error}"))
        return self._noted(events)

    def _gathered(self, chunk: bytes) -> bool:
        """Keep what came of an answer that came whole; what begins otherwise is a stream."""
        if self._whole is not None:
            self._whole += chunk
            return True
        said = chunk.lstrip()
        if said.startswith(b"{") and self._told is not None:
            self._whole = bytearray(said)
            return True
        self._streams = bool(said)
        return False

    def call_ended(self) -> list[Event]:
        """What an answer tells that came whole; nothing if it came as a stream."""
        whole, self._whole = self._whole, None
        if whole is None or self._told is None:
            return []
        self._streams = True
        try:
            return self._noted(self._told(bytes(whole)))
        except (DragomanError, RecursionError, UnicodeError) as error:
            return self._noted([_broken(f"upstream answer could not be read: {error}")])

    def close(self) -> list[Event]:
        events: list[Event] = self.call_ended()
        if self.over:
            return events
        try:
            for frame in self._reader.close():
                events += self._feed(frame)
            events += self.decoder.close()
        except (DragomanError, RecursionError, UnicodeError) as error:
            events.append(_broken(f"upstream stream could not be read: {error}"))
        noted = self._noted(events)
        if not self.over:
            noted += self._noted([_broken(ENDED_EARLY)])
        return noted

    @property
    def passing(self) -> bool:
        """Whether the stream is between two events, somewhere after its first content and before its end."""
        return self.spoken and not self.over and self._reader.resting

    @property
    def between(self) -> bool:
        """Whether the stream is between two events, or before its first one, and not at its end."""
        return not self.over and self._reader.resting

    @property
    def cut_short(self) -> bool:
        return self._stops is not None and self._stops.matched

    def fail(self, failure: Failure) -> list[Event]:
        if self.pauses is not None and self.pauses.paused:
            # Nothing goes on: the pause is over, and this is what followed it.
            self.pauses.resumed()
        return self._noted([Failed(failure)])

    def _noted(self, events: list[Event]) -> list[Event]:
        if not self.spoken:
            said = next((event for event in events if type(event) not in _OPENING), None)
            self.spoken, self.answered = said is not None, said is not None and type(said) is not Failed
        if self.pauses is not None:
            events = self.pauses.passed(events)
        if self._stops is not None:
            events = self._stops.passed(events)
        elif len(events) == 1 and type(events[0]) is PartGrew:
            return events
        for position, event in enumerate(events):
            kind = type(event)
            if kind is PartGrew:
                continue
            if isinstance(event, UsageReported):
                self.usage = event.usage
            elif isinstance(event, Failed):
                self.failure = bounded(event.failure)
                self.over = True
                return [*events[:position], Failed(self.failure)]
            elif kind is Ended:
                self.over = True
                return events[: position + 1]
        return events


# The events of an answer that came whole.
_Told: TypeAlias = Callable[[bytes], list[Event]]


def _told_whole(outer: Codec, asked: Asked, ledger: Ledger, body: bytes) -> list[Event]:
    answer = outer.decode_response(decode_object(body), asked, ledger)
    return [Failed(answer)] if isinstance(answer, Failure) else list(unfold(answer))


def _may_pause(asked: Asked) -> bool:
    """Whether the provider may pause: only server-run tools make it. Then the turn is needed again, as a whole."""
    return any(not isinstance(tool, FunctionTool | TextTool) for tool in asked.request.tools)


def _octets(chunk: object) -> bytes:
    """Bytes in one of their other forms; text is no stream."""
    if isinstance(chunk, bytearray | memoryview):
        return bytes(chunk)
    raise WireError("", "bytes", kind_of(chunk))


# Before anything else was told these are held, so that what follows can still be an HTTP error (S1).
_OPENING = frozenset({Started, UsageReported, Heartbeat})


def _broken(message: str) -> Failed:
    return Failed(Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=message))


class _Lane(Protocol):
    """What becomes of the events on the client's side."""

    status: int
    resume: tuple[JsonObject, ...] | None
    # What is wrong with an answer that the provider thinks complete.
    failure: Failure | None

    def take(self, chunk: bytes, events: list[Event]) -> bytes: ...

    def pass_on(self, chunk: bytes) -> bytes: ...

    def end(self, events: list[Event]) -> bytes: ...


class _Translation:
    """Different protocols: the client's encoder writes what the provider's decoder read."""

    def __init__(self, inner: Codec, outer: Codec, asked: Asked, mint: Mint, ledger: Ledger) -> None:
        self.status = 200
        self.resume: tuple[JsonObject, ...] | None = None
        self.failure: Failure | None = None
        self._outer = outer
        self._out: list[bytes] = []
        self._fold = Fold(outer.name) if _may_pause(asked) else None
        encode_event, write = inner.stream_encoder(asked, mint, ledger).feed, self._out.append

        def tell(event: Event) -> None:
            write(encode_event(event))

        self._sink: Sink = Serializer(tell, ledger) if inner.serial else tell

    def take(self, chunk: bytes, events: list[Event]) -> bytes:
        sink = self._sink
        for event in events:
            if self._fold is not None:
                self._watch(event, self._fold)
            sink(event)
        out = self._out
        if not out:
            return b""
        taken = b"".join(out) if len(out) > 1 else out[0]
        out.clear()
        return taken

    def pass_on(self, chunk: bytes) -> bytes:
        return b""

    def end(self, events: list[Event]) -> bytes:
        return self.take(b"", events)

    def _watch(self, event: Event, folding: Fold) -> None:
        folding(event)
        if isinstance(event, Stopped) and event.stop.reason is StopReason.PAUSE:
            self.resume = tuple(self._outer.encode_turn(folding.response().parts))


class _Relay:
    """The same protocol: whole frames go on as they came; half a frame is held, so that a cut shows as an error."""

    def __init__(self, decoder: StreamDecoder) -> None:
        self.status = 200
        self.resume: tuple[JsonObject, ...] | None = None
        self.failure: Failure | None = None
        self._decoder = decoder
        self._held = bytearray()
        self._broken = False

    def take(self, chunk: bytes, events: list[Event]) -> bytes:
        last, held = events[-1] if events else None, self._held
        if isinstance(last, Failed) and (
            (last.failure.kind is FailureKind.BAD_GATEWAY and not last.failure.native)
            or len(held) + len(chunk) > _LONGEST_FAILURE
        ):
            # Not the provider's own error frame but bytes nobody can read, or so many that nobody searches them for
            # secrets: they are not passed on.
            self._broken = True
            held.clear()
            return self._decoder.broken(last.failure)
        if not held and (chunk.endswith(b"\n\n") or isinstance(last, Failed | Ended)):
            return chunk
        # A blank line may be cut between two reads; what was searched before is not searched again.
        start = len(held) - 1
        held += chunk
        end = len(held) if isinstance(last, Failed | Ended) else _last_frame_end(held, start)
        if not end:
            return b""
        data = bytes(held[:end])
        del held[:end]
        return data

    def pass_on(self, chunk: bytes) -> bytes:
        """After the terminal frame, or the provider's own error, whatever else it sends belongs to its ending."""
        return b"" if self._broken else chunk

    def end(self, events: list[Event]) -> bytes:
        if events and isinstance(events[-1], Failed):
            return self._decoder.broken(events[-1].failure)
        return _with_blank_line(bytes(self._held))


def _with_blank_line(frame: bytes) -> bytes:
    """The last frame of a relayed stream, so that it is heard: the one repair of what a provider answers.

    The end of a stream ends an event here (S14), but the official SDKs of Python drop one that no blank line ends: the
    client would miss the finish reason, `message_stop` or `response.completed`. What has no data says nothing.
    """
    if _has_data(frame) is None:
        return frame
    line_end = b"\r\n" if b"\r\n" in frame else b"\r" if b"\r" in frame else b"\n"
    return frame + line_end * (1 if frame.endswith(line_end) else 2)


_has_data = re.compile(rb"(?:\A|[\r\n])data").search

# A line end and another, of whatever kind, are a blank line; a return and its line feed are one line end.
_BLANK_LINES = (b"\n\n", b"\n\r", b"\r\r")
_skip_line_ends = re.compile(rb"[\r\n]*+").match


def _frame_end(data: bytes, start: int) -> int:
    """Where the frame ends that begins here, with all line ends behind it: they belong to no frame that follows."""
    end = start + 1 if data[start] == _LINE_FEED else data.find(b"\n\n", start) + 2
    if data[end : end + 1] != b"\n":
        return end
    following = _skip_line_ends(data, end)
    assert following is not None
    return following.end()


def _last_frame_end(held: bytearray, start: int) -> int:
    """Where the last frame ends whose blank line is not before `start`; 0 if there is none.

    Nothing was held before a `start` of -1: there, line ends still belong to the frame before.
    """
    blank = max(held.rfind(line_ends, max(start, 0)) for line_ends in _BLANK_LINES)
    if blank < 0 <= start:
        return 0
    following = _skip_line_ends(held, max(blank, 0))
    assert following is not None
    return following.end()


class _Collection:
    """A client that did not ask for a stream: the answer is folded and told at the end."""

    def __init__(self, inner: Codec, outer: Codec, asked: Asked, mint: Mint, ledger: Ledger) -> None:
        self.status = 200
        self.resume: tuple[JsonObject, ...] | None = None
        self.failure: Failure | None = None
        self._inner, self._outer, self._asked, self._mint, self._ledger = inner, outer, asked, mint, ledger
        self._fold = Fold(outer.name)

    def take(self, chunk: bytes, events: list[Event]) -> bytes:
        for event in events:
            self._fold(event)
        return b""

    def pass_on(self, chunk: bytes) -> bytes:
        return b""

    def end(self, events: list[Event]) -> bytes:
        self.take(b"", events)
        if self._fold.failure is not None:
            self.status, body = self._inner.encode_failure(self._fold.failure, None)
            return encode(body)
        answer = self._fold.response()
        if answer.stop.reason is StopReason.PAUSE:
            self.resume = tuple(self._outer.encode_turn(answer.parts))
        told = as_compaction(answer) if self._asked.summarises else answer
        if isinstance(told, Failure):
            self.failure = told
            self.status, body = self._inner.encode_failure(told, None)
            return encode(body)
        return encode(self._inner.encode_response(told, self._asked, self._mint, self._ledger))


class _Summary:
    """A stream whose text is a summary: folded to its end, then told as the stream of one compaction (K1)."""

    def __init__(self, inner: Codec, outer: Codec, asked: Asked, mint: Mint, ledger: Ledger) -> None:
        self.status = 200
        self.resume: tuple[JsonObject, ...] | None = None
        self.failure: Failure | None = None
        self._inner, self._asked, self._mint, self._ledger = inner, asked, mint, ledger
        self._fold = Fold(outer.name)

    def take(self, chunk: bytes, events: list[Event]) -> bytes:
        for event in events:
            self._fold(event)
        return self._told() if events and isinstance(events[-1], Ended | Failed) else b""

    def pass_on(self, chunk: bytes) -> bytes:
        return b""

    def end(self, events: list[Event]) -> bytes:
        return self.take(b"", events)

    def _told(self) -> bytes:
        told = self._fold.failure or as_compaction(self._fold.response())
        if isinstance(told, Failure):
            self.failure = told
            return self._inner.stream_encoder(self._asked, self._mint, self._ledger).feed(Failed(told))
        return as_stream(told, self._inner, self._asked, self._mint, self._ledger)
