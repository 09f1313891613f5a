"""Moves of an exchange with an answer that is told all at once: whole ones, and streams for a client without one."""

from __future__ import annotations

from dragoman.errors import BadResponse, DragomanError, Oversized
from dragoman.gateway.exchange.attempt import (
    ResponseMetadata,
    ResponseMode,
)
from dragoman.gateway.exchange.call_transitions import CallTransitions
from dragoman.gateway.exchange.error_responses import EVENT_STREAM, JSON
from dragoman.gateway.exchange.events_commands import (
    Done,
    Name,
    Offload,
    StoreFull,
)
from dragoman.gateway.exchange.failure_transitions import EMPTY
from dragoman.gateway.exchange.full_response import has_content
from dragoman.gateway.exchange.provider_errors import Judged
from dragoman.gateway.exchange.provider_request import ProviderRequest
from dragoman.gateway.exchange.states import State
from dragoman.model.parts import ToolCall
from dragoman.model.response import Usage
from dragoman.protocols.codec import Mint
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.rules.pauses import RESUMES
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedResponse, translate_response

# How an event stream begins.
_EVENTS = (b"data:", b"event:", b":")
_TOO_LARGE = "the provider's answer is larger than the limit"
_UNREADABLE = "the provider's answer could not be read"

# Members of an enumeration are slow to find, and these are looked for in every exchange.
_JUDGING, _TRANSLATING, _ANSWERED = State.JUDGING, State.TRANSLATING, AttemptOutcome.ANSWERED
_JSON = [JSON]


class FullResponseTransitions(CallTransitions):
    """An answer that is known as a whole before the client is told of it."""

    def _gathered(self, event: Done) -> None:
        attempt, raw = self.attempt, event.value
        assert isinstance(raw, bytes)
        attempt.raw = raw
        if not raw.strip():
            self._fail_unsent(EMPTY)
        elif raw.lstrip().startswith(_EVENTS):
            # A stream that its content type does not call one; whoever asks the provider directly can read it.
            attempt.mode = ResponseMode.COLLECTED
            attempt.set_translator(self._translator(collect=not attempt.prepared.stream))
            attempt.size = len(raw)
            self._work(State.FEEDING, len(raw), attempt.translator.feed, raw, paid=True)
        elif attempt.prepared.relay and not attempt.prepared.stream:
            reader, several = self._error_reader, self._retry_state is not None and self._retry_state.several
            self._work(_JUDGING, reader.work_of(raw), reader.judge, raw, several, paid=True)
        else:
            self._translate()

    def _judged(self, event: Done) -> None:
        attempt = self.attempt
        judged = event.value
        assert isinstance(judged, Judged)
        relayed = judged.relayed
        attempt.usage, failure = relayed.usage, relayed.failure
        attempt.seen = ResponseMetadata(relayed.id, relayed.model, relayed.stop)
        attempt.has_worked = judged.has_worked
        if judged.own is not None:
            if judged.error is not None and self._may_go_on(judged.own):
                # It is passed on as the answer that it is, if nothing comes of that.
                self._relieve(self._missed(judged.own, judged.error), judged.own)
                return
            attempt.own_failure = judged.own
        if failure is None:
            self._name_or_store(attempt.raw)
        elif judged.error is None or attempt.remedy(failure) is not None:
            self._fail_unsent(failure)
        else:
            self._relieve(self._missed(failure, judged.error), failure)

    def _translate(self) -> None:
        attempt = self.attempt
        size = len(attempt.raw) + sum(map(len, attempt.earlier))
        if size > self._runtime.settings.limits.response_body:
            raise Oversized(_TOO_LARGE)
        prepared, mint = attempt.prepared, self._runtime.mint_of(self._builder.record)
        self._work(_TRANSLATING, size, _translated, attempt.raw, attempt.earlier, prepared, mint, paid=True)

    def _translated(self, event: Done) -> None:
        attempt, translated = self.attempt, event.value
        assert isinstance(translated, TranslatedResponse)
        attempt.usage, response = translated.usage, translated.response
        if response is not None:
            attempt.seen = ResponseMetadata(
                response.id, response.model, response.stop.native or response.stop.reason.value
            )
        # A relayed pause is the client's own business.
        if translated.resume is not None and not attempt.prepared.relay and len(attempt.earlier) < RESUMES:
            attempt.earlier += (attempt.raw,)
            self._go_on(translated.resume)
            return
        if translated.failure is not None:
            self._builder.update(usage=translated.usage)
            attempt.has_worked = has_content(attempt.raw)
            self._fail_unsent(translated.failure)
            return
        attempt.losses = translated.losses
        if translated.response is not None:
            calls = (part.call_id for part in translated.response.parts if isinstance(part, ToolCall))
            attempt.full_response_call = next(calls, "")
        if self._storage.turns.watches(attempt.prepared):
            attempt.response = translated.response
        self._name_or_store(translated.body)

    def _name_or_store(self, body: bytes) -> None:
        if self._storage.writer is not None and self.attempt.prepared.relay:
            self._wait(State.NAMING, Name(body))
        else:
            self._store_full(body)

    def _named(self, event: Done) -> None:
        assert isinstance(event.value, bytes)
        self._store_full(event.value)

    def _store_full(self, body: bytes) -> None:
        self.attempt.raw = body
        if self._storage.writer is not None:
            self._builder.update(usage=self.attempt.usage)
            self._wait(State.STORING_FULL, StoreFull(self.attempt.prepared, body))
        else:
            self._send()

    def _was_stored(self, _: Done) -> None:
        self._send()

    def _counted(self, event: Done) -> None:
        assert event.value is None or isinstance(event.value, Usage)
        self.attempt.count(event.value)
        self._send()

    def _send(self) -> None:
        attempt = self.attempt
        if attempt.lacks_counts and attempt.own_failure is None:
            counting = attempt.counting
            self._wait(State.COUNTING, Offload(counting.count, counting.size, paid=True))
            return
        kind = EVENT_STREAM if attempt.prepared.stream else _JSON
        response = self._responses.full_response(attempt.prepared, attempt.headers, kind, attempt.raw, attempt.losses)
        if attempt.usage is not None:
            response.record_changes["usage"] = attempt.usage
        self._cache_turn()
        attempt.first = self._runtime.clock()
        became, own = _ANSWERED, attempt.own_failure
        if own is not None:
            # The client reads it as an answer, and it is none.
            became, response.record_changes["failure"] = attempt.kind_of(own), own.kind.value
        self._respond(response, became)
        self._over()

    # Streams for one answer.

    def _fed(self, event: Done) -> None:
        assert isinstance(event.value, bytes)
        self.attempt.collected.append(event.value)
        self._conclude()

    def _collected(self, event: Done) -> None:
        assert isinstance(event.value, int)
        self.attempt.size = event.value
        self._conclude()

    def _conclude(self) -> None:
        """Tell at once a stream that was read to its end, or go on if that was a pause."""
        attempt = self.attempt
        if attempt.translator.paused:
            self._go_on(attempt.translator.resume or ())
        else:
            self._work(State.CLOSING, attempt.size, _closed, attempt.translator, paid=True)

    def _closed(self, event: Done) -> None:
        attempt = self.attempt
        assert isinstance(event.value, bytes)
        body = b"".join(attempt.collected) + event.value
        self._record_stream()
        attempt.losses, attempt.usage = attempt.translator.losses, attempt.translator.usage
        if (failure := attempt.translator.failure) is not None:
            self._fail_unsent(failure, has_content=attempt.translator.answered)
            return
        changed = self._changed()
        if attempt.prepared.stream and changed is not None:
            self._store_full(changed(body))
        else:
            self._name_or_store(body)

    def _continued(self, event: Done) -> None:
        assert isinstance(event.value, int)
        self._work(State.READING_ON, event.value, self.attempt.translator.close, paid=True)

    def _read_on(self, event: Done) -> None:
        attempt, raw = self.attempt, event.value
        assert isinstance(raw, bytes)
        if attempt.has_translator and (failure := attempt.translator.failure) is not None:
            self._fail_unsent(failure)
            return
        if raw.lstrip().startswith(_EVENTS):
            # An event stream whose content type names something else, as `_gathered` reads it.
            attempt.set_translator(self._native_collector())
            self._work(State.READING_ON, len(raw), _collected, attempt.translator, raw, paid=True)
            return
        attempt.raw = raw
        self._translate()

    def _native_collector(self) -> StreamPipeline:
        """What collects the stream that continues a full response, as a full response of the provider's protocol."""
        source, limit = self.attempt.target.endpoint.protocol, self._runtime.settings.limits.stream_event
        return StreamPipeline(source=source, target=source, mint=self._runtime.mint, collect=True, limit=limit)


def _translated(raw: bytes, earlier: tuple[bytes, ...], prepared: ProviderRequest, mint: Mint) -> TranslatedResponse:
    try:
        return translate_response(
            raw,
            source=prepared.target.endpoint.protocol,
            target=prepared.client,
            request=prepared.translated,
            stream=prepared.stream,
            mint=mint,
            earlier=earlier,
        )
    except DragomanError:
        raise BadResponse(_UNREADABLE) from None


def _collected(translator: StreamPipeline, raw: bytes) -> bytes:
    """The full response of a stream of which all bytes are here."""
    return translator.feed(raw) + _closed(translator)


def _closed(translator: StreamPipeline) -> bytes:
    try:
        return translator.close()
    except DragomanError:
        raise BadResponse(_UNREADABLE) from None
