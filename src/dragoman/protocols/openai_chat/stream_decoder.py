"""Decodes a provider's Chat stream: chunks to events (mapping.md §24, 25.3, 25.4).

`stream_deltas` decodes the deltas. A finish reason ends every part. The response ends with `[DONE]` or with the
connection, because usage may still follow (S6).

state     chunk          error    [DONE]           close
FRESH     -> RUNNING     FAILED   FAILED (empty)   FAILED
RUNNING   -> RUNNING     FAILED   ENDED            FAILED (cut)
FINISHED  -> FINISHED    FAILED   ENDED            ENDED"""

from __future__ import annotations

from enum import Enum
from functools import partial

from dragoman.errors import WireError
from dragoman.model.events import (
    ArgumentsDelta,
    Ended,
    Event,
    Failed,
    PartGrew,
    Started,
    Stopped,
    TextDelta,
    TextRun,
    UsageReported,
)
from dragoman.model.failure import Failure
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.response import StopReason, Usage
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.protocols.openai_chat.failure import error_frame, failure_in, failure_of
from dragoman.protocols.openai_chat.finish_reasons import (
    PROMPT_FILTER,
    STOP_SEQUENCE_MEMBERS,
    is_filtered,
    stop_of,
    stop_sequence,
)
from dragoman.protocols.openai_chat.shapes import NAME
from dragoman.protocols.openai_chat.stream_deltas import NONE, USUAL, DeltaReader
from dragoman.protocols.openai_chat.usage import GROQ, decode_usage, usage_in
from dragoman.rules.counts import updated_counts
from dragoman.rules.extras import ECHOES, UnknownFields
from dragoman.rules.failures import ENDED_EARLY, bad_gateway
from dragoman.rules.response_metadata import seconds_of
from dragoman.rules.stop_reasons import at_cap, broken_off, finalize_stop, reason_of, stated_reason
from dragoman.rules.surrogates import UNREADABLE, SurrogateJoiner
from dragoman.rules.text_runs import TextFrames
from dragoman.wire.json import kind_of, read_json
from dragoman.wire.sse import Frame

# Known members of a chunk and its choice, and members that may be dropped without a report.
_CHUNK = ECHOES | {"id", "created", "model", "choices", "usage", "obfuscation", GROQ}
_CHOICE = frozenset({"index", "delta", "finish_reason", "logprobs"})
# Members that some servers send once at the end: the full message, and usage.
_READ = _CHOICE | {"message", "usage"}
_UNUSUAL = frozenset({"message", "usage", *STOP_SEQUENCE_MEMBERS})
_GROQ = frozenset({"id", "usage"})
_LOGPROBS = frozenset({"content", "refusal"})

_EMPTY = "upstream sent an empty stream"
_NO_CHUNK = (b"[DONE]", b"")


class _State(Enum):
    FRESH = "nothing came"
    RUNNING = "chunks came"
    FINISHED = "a finish reason came"
    OVER = "told to the end"


# Bound once: looking up an enum member is slow, and every chunk needs these.
_FRESH, _OVER = _State.FRESH, _State.OVER


def _has_one_value(delta: JsonObject) -> bool:
    """Whether only one member of a delta has a value. Some servers send the role and nulls in every delta."""
    filled = 0
    for key, value in delta.items():
        if value and key != "role":
            filled += 1
    return filled == 1 and delta.keys() <= USUAL


class ChatStreamDecoder:
    def __init__(self, translation: TranslationContext, mint: Mint, ledger: Ledger) -> None:
        self._cap = translation.request.max_tokens
        self._ledger = ledger
        self._surrogates = SurrogateJoiner(ledger)
        self._state = _FRESH
        self._unknowns = UnknownFields(ledger, NAME)
        # The members of repeated chunks and choices, once nothing in them is left to report.
        self._usual: list[str] = []
        self._usual_choice: list[str] = []
        self._deltas = DeltaReader(translation, mint, ledger, self._unknowns)
        self.text_frames = TextFrames()
        self._usage: JsonObject | None = None
        # Whether the counts are those of the full response.
        self._is_counted = False
        self._tier: str | None = None
        self._finish: str | None = None
        self._sequence: tuple[str, str] | None = None
        self._choices_dropped = False
        # The index of the first choice, which may be other than 0, or no number.
        self._first_index: JsonValue = None
        # Whether the prompt was filtered, which explains a missing response.
        self._filtered = False

    def feed(self, frame: Frame) -> list[Event]:
        if self._state is _OVER:
            return []
        data = frame.data
        events: list[Event] = []
        if data[:1] != b"{" and (stripped := data.strip()) in _NO_CHUNK:
            # Some servers send an event without data as a heartbeat.
            if stripped:
                self._end(events)
            return events
        deltas = self._deltas
        try:
            try:
                # Inlined from `SurrogateJoiner.read`, to save one call per chunk.
                chunk = read_json(data)
            except UNREADABLE:
                chunk = self._surrogates.reread(data)
            if deltas.continued or deltas.calls is not None:
                event = self._next(chunk)
                if event is not None:
                    delta = event.delta
                    if type(delta) is TextDelta:
                        self.text_frames.learn(frame, delta.text, partial(_text_in, chunk, deltas.continued))
                    elif type(delta) is ArgumentsDelta and deltas.calls is not None and deltas.calls.runs:
                        self.text_frames.learn(frame, delta.text, partial(_arguments_in, chunk), arguments=True)
                    else:
                        self.text_frames.is_ready = False
                    return [event]
            self.text_frames.is_ready = False
            self._chunk(chunk, events)
        except WireError as error:
            self._fail(bad_gateway(f"the provider's stream cannot be read: {error}"), events)
        return events

    def grow(self, run: TextRun) -> PartGrew:
        return self._deltas.grown_by(run)

    @property
    def final_usage(self) -> Usage | None:
        """The usage of the full response, once reported with its finish reason, or after it."""
        return decode_usage(self._usage, self._tier, Ledger()) if self._is_counted and self._usage else None

    def close(self) -> list[Event]:
        """End of the connection: regular after a finish reason, otherwise a truncation (S10)."""
        events: list[Event] = []
        if self._state is _State.FINISHED:
            self._end(events)
        elif self._state is not _OVER:
            self._fail(bad_gateway(ENDED_EARLY if self._state is _State.RUNNING else _EMPTY), events)
        return events

    def broken(self, failure: Failure) -> bytes:
        return error_frame(failure)

    def _fail(self, failure: Failure, events: list[Event]) -> None:
        self._state = _OVER
        self.text_frames.is_ready = False
        events.append(Failed(failure))

    def _next(self, chunk: JsonValue) -> PartGrew | None:
        """The one event of a chunk that only continues the open part, like in `_chunk`; None for others."""
        if type(chunk) is not dict or [*chunk] != self._usual:
            return None
        choices, tier = chunk.get("choices"), chunk.get("service_tier")
        if type(choices) is not list or len(choices) != 1 or chunk.get("usage") is not None:
            return None
        choice = choices[0]
        if type(choice) is not dict or (tier is not None and tier != self._tier):
            return None
        # Four members without an absent one are exactly the known four.
        absent = 1 if len(choice) == 4 else None
        if absent is None and [*choice] != self._usual_choice:
            return None
        get = choice.get
        delta = get("delta")
        if type(delta) is not dict or get("finish_reason", absent) is not None:
            return None
        if len(delta) != 1 and not _has_one_value(delta):
            return None
        if get("logprobs", absent) is not None or get("index", absent) or self._first_index:
            return None
        deltas = self._deltas
        text = delta.get(deltas.continued) if deltas.continued else None
        if text is None:
            calls = delta.get("tool_calls")
            if deltas.calls is None or type(calls) is not list or len(calls) != 1 or deltas.run is not NONE:
                return None
            return deltas.calls.next(calls[0])
        if type(text) is not str or not text:
            return None
        return deltas.grown(TextDelta(text))

    def _chunk(self, chunk: JsonValue, events: list[Event]) -> None:
        if not isinstance(chunk, dict):
            if chunk:
                raise WireError("", "object", kind_of(chunk))
            return
        if chunk.get("error") or not chunk.get("choices"):
            failure = failure_in(chunk)
            if failure is not None:
                self._fail(failure, events)
                return
        if [*chunk] != self._usual:
            groq = chunk.get(GROQ)
            if isinstance(groq, dict):
                # Its counts are read below. Its ID is the request's, not the response's.
                self._unknowns.members(groq, _GROQ)
            settled = self._unknowns.members(chunk, _CHUNK) and groq is None
            self._usual = [*chunk] if settled and "choices" in chunk and "error" not in chunk else []
        if self._state is _FRESH:
            self._start(chunk, events)
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        usage = usage_in(chunk, first if isinstance(first, dict) else None)
        if usage is not None:
            self._remember_usage(usage)
        tier = chunk.get("service_tier")
        if isinstance(tier, str):
            self._tier = tier
        if not choices and is_filtered(chunk.get(PROMPT_FILTER)):
            self._filtered = True
        if choices is None:
            choices = []
        elif not isinstance(choices, list):
            raise WireError("/choices", "array", kind_of(choices))
        for choice in choices:
            if not isinstance(choice, dict):
                raise WireError("/choices/0", "object", kind_of(choice))
            place = choice.get("index") or 0
            if self._first_index is None:
                self._first_index = place
            if place == self._first_index:
                self._choice(choice, events)
            else:
                self._other_choice()
        if isinstance(usage, dict) and self._state is _State.FINISHED:
            # While one of several choices continues, the counts may be partial.
            self._is_counted = not choices or not self._choices_dropped

    def _start(self, chunk: JsonObject, events: list[Event]) -> None:
        self._state = _State.RUNNING
        response_id, model = chunk.get("id"), chunk.get("model")
        events.append(
            Started(
                id=response_id if isinstance(response_id, str) else "",
                model=model if isinstance(model, str) else "",
                created=seconds_of(chunk.get("created")),
            )
        )

    def _remember_usage(self, usage: JsonValue) -> None:
        """Store usage, which may be in any chunk and repeated: the latest value of each member counts (U8)."""
        if not isinstance(usage, dict):
            # Unreadable counts must not fail the response.
            note = f"the provider's usage cannot be read: {kind_of(usage)}"
            self._ledger.dropped(Feature.USAGE, ("usage",), note)
            return
        if self._usage is None:
            self._usage = {}
        self._usage.update(updated_counts(self._usage, usage))

    def _other_choice(self) -> None:
        # Earlier counts were partial.
        self._is_counted = False
        if not self._choices_dropped:
            self._choices_dropped = True
            self._ledger.dropped(Feature.CHOICES, ("alternatives",), "only the first choice is passed on")

    def _choice(self, choice: JsonObject, events: list[Event]) -> None:
        if [*choice] != self._usual_choice:
            self._check(choice)
        delta = choice.get("delta")
        if delta is not None:
            if not isinstance(delta, dict):
                raise WireError("/choices/0/delta", "object", kind_of(delta))
            if delta:
                self._deltas.take(delta, choice, events)
        message = choice.get("message")
        if message and not _is_copy(message, delta):
            self._deltas.take_message(message, choice, events)
        if "error" in choice and (failure := failure_of(choice)) is not None:
            self._fail(failure, events)
            return
        finish = choice.get("finish_reason")
        if finish is None:
            return
        if not isinstance(finish, str):
            raise WireError("/choices/0/finish_reason", "string", kind_of(finish))
        if not stated_reason(finish):
            return
        broken = broken_off(finish)
        if broken is not None:
            self._fail(broken, events)
            return
        if self._finish is None or reason_of(finish) is not StopReason.END:
            # A repeated finish reason in a plainer form means the first one.
            self._finish = finish
        self._sequence = stop_sequence(choice) or self._sequence
        self._state = _State.FINISHED
        self._deltas.end(events)

    def _check(self, choice: JsonObject) -> None:
        """Report unread members of a choice. A stop sequence is emitted with the end."""
        settled = True
        for key, value in choice.items():
            if key not in _READ and not (key in STOP_SEQUENCE_MEMBERS and isinstance(value, str)):
                settled = self._unknowns.name(key, value) and settled
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict):
            self._unknowns.members(logprobs, _LOGPROBS)
        usual = settled and choice.keys() >= _CHOICE - {"logprobs"} and choice.keys().isdisjoint(_UNUSUAL)
        self._usual_choice = [*choice] if usual else []

    def _end(self, events: list[Event]) -> None:
        """Emit the end of a full response."""
        self.text_frames.is_ready = False
        if self._state is _FRESH:
            self._fail(bad_gateway(_EMPTY), events)
            return
        deltas = self._deltas
        calls = deltas.calls
        cut = calls is not None and calls.unfinished
        try:
            deltas.end(events)
        except WireError as error:
            self._fail(bad_gateway(f"the provider's stream cannot be read: {error}"), events)
            return
        self._surrogates.close()
        if deltas.citations:
            self._ledger.dropped(Feature.CITATIONS, ("parts",), "citations without a text")
        usage: Usage | None = None
        if self._usage is not None:
            usage = decode_usage(self._usage, self._tier, self._ledger)
            events.append(UsageReported(usage))
        refusal = "".join(deltas.refusal)
        if self._filtered and self._finish is None and deltas.next_index() == 0:
            self._finish = "content_filter"
        has_calls = calls is not None and calls.any_announced
        stop = stop_of(self._finish, calls=has_calls, refusal=refusal or None, sequence=self._sequence)
        stop = finalize_stop(stop, self._ledger, cut=cut or at_cap(usage, self._cap))
        if self._sequence is not None and stop.sequence is None:
            self._unknowns.name(*self._sequence)
        self._state = _OVER
        events += [Stopped(stop), Ended()]


def _text_in(chunk: JsonValue, name: str, data: bytes) -> str | None:
    """The text in data that equals this chunk except for this member of its delta. The chunk is consumed."""
    try:
        match chunk, read_json(data):
            case {"choices": [{"delta": dict() as delta}]}, {"choices": [{"delta": dict() as other}]} as read:
                text = delta[name] = other.get(name)
                return text if type(text) is str and chunk == read else None
    except UNREADABLE:
        # The data was sanitized before parsing.
        pass
    return None


def _arguments_in(chunk: JsonValue, data: bytes) -> str | None:
    """The same for the arguments of the one call in its delta."""
    try:
        match chunk, read_json(data):
            case (
                {"choices": [{"delta": {"tool_calls": [{"function": dict() as function}]}}]},
                {"choices": [{"delta": {"tool_calls": [{"function": dict() as other}]}}]} as read,
            ):
                text = function["arguments"] = other.get("arguments")
                return text if type(text) is str and chunk == read else None
    except UNREADABLE:
        # The data was sanitized before parsing.
        pass
    return None


def _is_copy(message: JsonValue, delta: JsonValue) -> bool:
    """Whether a message only repeats the delta of its chunk: Writer sends each fragment as both."""
    if not isinstance(message, dict) or not isinstance(delta, dict):
        return False
    return all(value is None or delta.get(key) == value for key, value in message.items())
