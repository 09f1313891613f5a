"""Stream pipeline: joins the provider's side of a stream with the client's, for the gateway and the library."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.model.events import Event, Failed, PartGrew, Started
from dragoman.model.failure import Failure
from dragoman.model.folding import unfold
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.response import Stop, Usage
from dragoman.protocols.codec import Codec, Mint, TranslationContext
from dragoman.protocols.registry import codec_of
from dragoman.rules.pauses import PauseStage
from dragoman.rules.text_runs import PassingText
from dragoman.streaming.client_side import ClientSide, Collection, Summary, Translation, may_pause
from dragoman.streaming.relay import Relay, frame_end
from dragoman.streaming.source import Source
from dragoman.streaming.tap import Tap, Watched
from dragoman.translate import LossLine, TranslatedRequest, derived_mint, loss_lines, translation_context
from dragoman.wire.json import decode_object, kind_of
from dragoman.wire.sse import silent_end

DEFAULT_LIMIT = 64 * 1024 * 1024
# Larger partial frames are read like any other.
_SKIMMED = 256 * 1024
# The cost of a waiting event in bytes: emitting it takes as long as encoding this many.
_WAITING_EVENT = 64
# A number, because searching for it is several times faster than for `bytes` of length one.
_RETURN = 0x0D


class Flow(IntEnum):
    """The kind of content in a read from the provider."""

    # Only opening events so far, so that an error can still be a status (S1).
    OPENING = 0
    # No content: a heartbeat, the end of a part, or a partial event.
    QUIET = 1
    CONTENT = 2
    OVER = 3


# Bound once, because looking up an enum member is slow.
_OPENING, _QUIET, _CONTENT, _OVER = Flow


class Advance(Struct, frozen=True, gc=False):
    """The result for a chunk: the client's bytes, the kind of content, and the buffered amounts (`held`,
    `gathered`)."""

    out: bytes
    flow: Flow
    held: int


class StreamPipeline:
    """Translates one response. `feed` takes the provider's bytes and returns the client's, `close` ends it
    (`dragoman.StreamTranslator` in the library). With `collect`, for a client that requested no stream, `feed` returns
    nothing and `close` the full response for `status`. `finished`: the client's stream is over, perhaps before the
    provider's, whose call may then be cancelled. A paused provider may be called again `resumes` times (`paused`,
    `go_on`, `resume`). `tap` observes, `cleaned` removes secrets from a failure, `altered` rewrites relayed frames
    other than plain content."""

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
        tap: Tap | None = None,
        cleaned: Callable[[Failure], Failure] | None = None,
        altered: Callable[[bytes], bytes] | None = None,
    ) -> None:
        outer, inner = codec_of(source), codec_of(target)
        relayed = outer is inner and not collect
        context = translation_context(request, outer, relayed=relayed)
        minted = reading = mint
        if minted is None or reading is None:
            seed = (request.body if request is not None else b"") + source.encode()
            # Decoder and encoder have a mint each: their order of calls depends on how the bytes were cut.
            minted, reading = derived_mint(seed + b" written"), derived_mint(seed + b" read")
        self._ledger = Ledger()
        # A relay has no losses, even if it does not understand the content.
        read = Ledger() if relayed else self._ledger
        self._outer = outer
        whole = None if relayed else partial(_decode_full, outer, context, read)
        self._source = Source(
            lambda: outer.stream_decoder(context, reading, read), context.stops, limit, whole, cleaned
        )
        if resumes and outer.resume_request is not None and not relayed:
            new_pauses = self._source.new_pauses = partial(PauseStage, outer.name, resumes)
            if may_pause(context):
                self._source.pauses = new_pauses()
        # Whether an end repeats earlier content, or emits it at last.
        self._gathers = not relayed and not collect and (inner.serial or context.summarises or may_pause(context))
        self._client_side: ClientSide
        if collect:
            self._client_side = Collection(inner, outer, context, minted, self._ledger)
        elif context.summarises:
            self._client_side = Summary(inner, outer, context, minted, self._ledger)
        elif outer is inner:
            self._client_side = Relay(self._source.decoder)
        else:
            self._client_side = Translation(inner, outer, context, minted, self._ledger)
        self._plain_end = inner.plain_end if relayed else None
        # Whether `pass_content` may take chunks of plain content: other stages and frame taps must see every frame.
        self._passes = not context.stops and self._source.pauses is None and (tap is None or tap.frames is None)
        self._flows = False
        # The fast path for plain text, once a chunk of it was read.
        self._passing: PassingText | None = None
        self._translation = self._client_side if isinstance(self._client_side, Translation) else None
        self._tap_events = None if tap is None else tap.events
        if tap is not None:
            watched = self._client_side = Watched(self._client_side, tap, limit)
            self._plain_end = watched.skimmed(self._plain_end)
        if self._plain_end is not None:
            self._source.decoder.text_frames.lessons = 0
        self._heartbeat = b"" if collect else inner.heartbeat
        # The partial frame of a relay.
        self._rest = bytearray()
        self._closed = False
        self._ahead: bytes | None = None
        self._altered = altered

    def advance(self, chunk: bytes) -> Advance:
        """Process bytes. Return the client's bytes that are ready, and the flow."""
        source = self._source
        source.progressed = False
        out = self.feed(chunk)
        if source.over:
            flow = _OVER
        elif source.progressed:
            flow = _CONTENT
        else:
            flow = _QUIET if source.is_past_opening else _OPENING
        held = len(self._rest) + source.held
        self._flows = flow is _CONTENT and self._passes and (source.between if self._plain_end is None else not held)
        return Advance(out, flow, held + self.gathered if self._gathers else held)

    def pass_content(self, chunk: bytes) -> bytes | None:
        """Take bytes that only continue the same content, the usual case, and return the client's bytes. If it returns
        None, nothing was taken: call `advance`."""
        if not self._flows:
            return None
        if (translation := self._translation) is not None:
            if self._passing is not None and (out := self._passing.passed(chunk)) is not None:
                return out
            return self._pass_run(chunk, translation)
        plain_end = self._plain_end
        if plain_end is None or _RETURN in chunk or plain_end(chunk, 0) != len(chunk):
            return None
        return chunk

    def _pass_run(self, chunk: bytes, translation: Translation) -> bytes | None:
        """Process a chunk as one run. Later chunks that differ only in plain text take the fast path."""
        self._stop_passing()
        source = self._source
        growth = source.read_run(chunk)
        if growth is None:
            return None
        out = self._grow(growth, translation)
        frames = source.decoder.text_frames
        if frames.has_one_form and (form := translation.run_form(growth)) is not None:
            self._passing = frames.passing(form, source.limit)
        return out

    def _grow(self, growth: PartGrew, translation: Translation) -> bytes:
        if self._tap_events is not None:
            self._tap_events((growth,))
        return translation.grow(growth)

    def _stop_passing(self) -> None:
        """Deliver the text of the fast path to all stages. The client has its bytes already."""
        if self._passing is None:
            return
        run, self._passing = self._passing.take(), None
        if run is not None and self._translation is not None:
            self._grow(self._source.grow(run), self._translation)

    def feed(self, chunk: bytes) -> bytes:
        source = self._source
        self._flows = False
        self._stop_passing()
        if type(chunk) is not bytes:
            chunk = _to_bytes(chunk)
        if self._plain_end is not None:
            return self._skim(chunk, self._plain_end)
        out = self._client_side.forward(chunk) if source.over else self._client_side.take(chunk, source.feed(chunk))
        return out if self._altered is None else self._altered(out)

    @property
    def held(self) -> int:
        """Buffered bytes of an unfinished event, or of a full response."""
        return len(self._rest) + self._source.held

    @property
    def gathered(self) -> int:
        """Approximate bytes of content that the next end of a part, or of the response, may repeat."""
        return self._source.content + _WAITING_EVENT * self._client_side.waiting if self._gathers else 0

    def workload(self, chunk: bytes) -> int:
        """The bytes that feeding this chunk processes. The end of a stream may release all buffered bytes."""
        if self._source.over or self._source.is_full or (b"\n" not in chunk and b"\r" not in chunk):
            return 0
        size = self.held + len(chunk) + self.gathered
        if self._plain_end is None or not self._source.is_past_opening:
            return size
        return size - self._outer.plain_end(bytes(self._rest) + chunk, 0)

    def _skim(self, chunk: bytes, plain_end: Callable[[bytes, int], int]) -> bytes:
        """Forward relayed content frames unread, because reading them would be most of their cost. Only full frames are
        forwarded. Other line ends, or a large frame, switch to normal reading."""
        source, rest = self._source, self._rest
        if rest:
            # The buffer has no blank line, so only the new bytes and the seam are searched.
            met = chunk.startswith(b"\n") and rest.endswith(b"\n")
            rest += chunk
            if not met and b"\n\n" not in chunk and b"\r" not in chunk and len(rest) <= _SKIMMED:
                return b""
            chunk = bytes(rest)
            rest.clear()
        if source.over or _RETURN in chunk:
            self._plain_end = None
            return self.feed(chunk)
        # After the first content, the source is always between two frames.
        at = plain_end(chunk, 0) if source.is_past_opening else 0
        if at:
            source.progressed = True
            if at == len(chunk):
                return chunk
        end = chunk.rfind(b"\n\n") + 2
        if end == 1:
            # One more line end after the last frame may have arrived by itself.
            end = int(chunk.startswith(b"\n"))
        if len(chunk) - end > _SKIMMED:
            self._plain_end = None
            return chunk[:at] + self.feed(chunk[at:])
        out: list[bytes] = [chunk[:at]] if at else []
        while at < end and not source.over:
            following = plain_end(chunk, at) if source.is_past_opening else at
            if following > at:
                source.progressed = True
                out.append(chunk[at:following])
            else:
                following = frame_end(chunk, at)
                frame = chunk[at:following]
                events = source.feed(frame)
                taken = self._client_side.take(frame, events)
                out.append(taken if self._altered is None else self._altered(taken))
                if not events and source.between:
                    # There may be very many events without effect, of three bytes each.
                    silent_from = following
                    following = silent_end(chunk, silent_from, source.limit)
                    out.append(self._client_side.forward(chunk[silent_from:following]))
            at = following
        if source.over:
            passed = self._client_side.forward(chunk[at:])
            out.append(passed if self._altered is None else self._altered(passed))
        elif end < len(chunk):
            rest += chunk[end:]
        return out[0] if len(out) == 1 else b"".join(out)

    def call_ended(self) -> bytes:
        """The provider's call is over: send a full response now."""
        self._stop_passing()
        events = [] if self.finished else self._source.call_ended()
        return self._client_side.take(b"", events) if events else b""

    def close(self) -> bytes:
        """End the provider's stream. Return the terminator, or the client's error form if the provider broke off."""
        if self._closed:
            return b""
        self._closed = True
        if self._ahead is not None:
            return self._ahead
        self._stop_passing()
        taken = b""
        if self._rest:
            chunk = bytes(self._rest)
            self._rest.clear()
            taken = self._client_side.take(chunk, self._source.feed(chunk))
        out = taken + self._client_side.end([] if self.finished else self._source.close())
        return out if self._altered is None else self._altered(out)

    def close_ahead(self, changed: Callable[[bytes], bytes] | None = None) -> None:
        """Do the work of `close` now. The later `close` returns its result, processed by `changed` if given."""
        out = self.close()
        self._ahead = out if changed is None else changed(out)
        self._closed = False

    @property
    def is_closed_ahead(self) -> bool:
        return self._ahead is not None

    def fail(self, failure: Failure) -> bytes:
        """End the stream because of a limit or a lost connection. Return the client's error form."""
        if self._closed:
            return b""
        self._closed = True
        self._stop_passing()
        return self._client_side.end([] if self.finished else self._source.fail(failure))

    @property
    def is_past_opening(self) -> bool:
        """Whether anything beyond opening events was read, so that an error can no longer be a status (S1)."""
        return self._source.is_past_opening

    @property
    def answered(self) -> bool:
        return self._source.answered

    @property
    def finished(self) -> bool:
        return self._source.over

    @property
    def cut_short(self) -> bool:
        """Whether a stop sequence ended the response, so that the provider's call must be cancelled (S11)."""
        return self._source.cut_short

    @property
    def heartbeat(self) -> bytes:
        """The heartbeat for a silent provider, in the client's protocol (S4)."""
        return b"" if self.finished else self._heartbeat

    @property
    def losses(self) -> tuple[LossLine, ...]:
        return loss_lines(self._ledger.losses)

    @property
    def failure(self) -> Failure | None:
        return self._source.failure or self._client_side.failure

    @property
    def usage(self) -> Usage | None:
        return self._source.final_usage or self._source.usage

    @property
    def started(self) -> Started | None:
        return self._source.started

    @property
    def stop(self) -> Stop | None:
        return self._source.stop

    @property
    def is_counted(self) -> bool:
        """Whether the counts are those of the full response, not of its start."""
        source = self._source
        if source.stop is None:
            return source.counted or source.final_usage is not None
        return source.usage is not None and source.usage is not source.opening_usage

    @property
    def first_call(self) -> str:
        return self._source.first_call

    @property
    def status(self) -> int:
        return self._client_side.status

    @property
    def resume(self) -> tuple[JsonObject, ...] | None:
        """The blocks to send again if the provider only paused."""
        pauses = self._source.pauses
        if pauses is not None and pauses.paused:
            return tuple(self._outer.encode_turn(pauses.parts))
        return self._client_side.resume

    @property
    def paused(self) -> bool:
        """Whether the provider must be called again with `resume`, and its next stream fed after `go_on`."""
        pauses = self._source.pauses
        return pauses is not None and pauses.paused

    def go_on(self) -> None:
        """Expect the stream of the next call. The client sees one response without a break."""
        self._ahead, self._flows = None, False
        self._source.renew()


def _decode_full(outer: Codec, context: TranslationContext, ledger: Ledger, body: bytes) -> list[Event]:
    read = decode_object(body)
    response = outer.decode_response(read, context, ledger)
    return [Failed(response, outer.usage_of(read))] if isinstance(response, Failure) else list(unfold(response))


def _to_bytes(chunk: object) -> bytes:
    """Bytes in one of their other forms. Strings are rejected."""
    if isinstance(chunk, bytearray | memoryview):
        return bytes(chunk)
    raise WireError("", "bytes", kind_of(chunk))
