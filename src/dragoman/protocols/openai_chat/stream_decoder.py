"""A provider's stream: chunks to events (mapping.md §24, 25.3, 25.4).

Text, refusal and thinking are runs: at most one is open, and it ends as soon as the wire moves on. Calls may overlap
with anything (`stream_calls`). A finish reason ends every part; the story itself ends with `[DONE]` or with the
connection, because usage may still follow (S6).

    state     chunk          error    [DONE]           close
    FRESH     -> RUNNING     FAILED   FAILED (empty)   FAILED
    RUNNING   -> RUNNING     FAILED   ENDED            FAILED (cut)
    FINISHED  -> FINISHED    FAILED   ENDED            ENDED
"""

from __future__ import annotations

from enum import Enum
from itertools import count

from dragoman.errors import WireError
from dragoman.model.events import (
    CitationAdded,
    Ended,
    Event,
    Failed,
    PartEnded,
    PartGrew,
    PartStarted,
    SealSet,
    Started,
    Stopped,
    TextDelta,
    UsageReported,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Citation, Refusal, Text, Thinking, ThinkingKind
from dragoman.model.response import StopReason, Usage
from dragoman.protocols.codec import Asked, Mint
from dragoman.protocols.openai_chat.details import nested_blocks, repeats_itself
from dragoman.protocols.openai_chat.failure import error_frame, failure_in, failure_of
from dragoman.protocols.openai_chat.parts import decode_annotation
from dragoman.protocols.openai_chat.proofs import EXTRA_CONTENT, is_thought, message_proof, proof_part
from dragoman.protocols.openai_chat.shapes import (
    BESIDE,
    BLOCKS,
    CONTENT,
    DETAILS,
    ITEMS,
    NAME,
    OPAQUE,
    REASONING_FIELDS,
    THINKING_PARTS,
)
from dragoman.protocols.openai_chat.stops import PROMPT_FILTER, STOP_STRINGS, is_filtered, stop_of, stop_string
from dragoman.protocols.openai_chat.stream_calls import CallAssembly
from dragoman.protocols.openai_chat.stream_thinking import ThinkingRun
from dragoman.protocols.openai_chat.think import INLINE, THOUGHT, InlineThinking
from dragoman.protocols.openai_chat.usage import GROQ, decode_usage, usage_in
from dragoman.rules.counts import news
from dragoman.rules.ends import at_cap, broken_off, reason_of, said, settled
from dragoman.rules.extras import ECHOES
from dragoman.rules.failures import ENDED_EARLY
from dragoman.rules.halves import UNREADABLE, Halves
from dragoman.rules.labels import seconds_of
from dragoman.rules.unknowns import Unknowns
from dragoman.wire.fields import Fields
from dragoman.wire.json import kind_of, read_json
from dragoman.wire.sse import Frame

# What is read of a chunk, its choice and its delta, and what loses nothing by being left out.
_CHUNK = ECHOES | {"id", "created", "model", "choices", "usage", "obfuscation", GROQ}
_CHOICE = frozenset({"index", "delta", "finish_reason", "logprobs"})
# What some servers say once at the end: the whole message, and the tokens.
_READ = _CHOICE | {"message", "usage"}
_UNUSUAL = frozenset({"message", "usage", *STOP_STRINGS})
_DELTA = frozenset(
    {
        "role",
        "content",
        "refusal",
        "annotations",
        "tool_calls",
        "function_call",
        "obfuscation",
        *REASONING_FIELDS,
        DETAILS,
        BLOCKS,
        ITEMS,
        OPAQUE,
    }
)
_GROQ = frozenset({"id", "usage"})
# The members that nearly all deltas are made of.
_USUAL = frozenset({"role", "content", "refusal", "tool_calls", "function_call", "reasoning_content", "reasoning"})
_RARE_REASONING = (*REASONING_FIELDS, DETAILS, BLOCKS, ITEMS, OPAQUE)
_CONTENT = frozenset({"type", "text"})
_LOGPROBS = frozenset({"content", "refusal"})

_EMPTY = "upstream sent an empty stream"
_NO_CHUNK = (b"[DONE]", b"")


class _State(Enum):
    FRESH = "nothing came"
    RUNNING = "chunks came"
    FINISHED = "a finish reason came"
    OVER = "told to the end"


class _Run(Enum):
    NONE = "nothing open"
    THINKING = "thinking"
    TEXT = "text"
    REFUSAL = "refusal"


# Members of an enumeration are looked up slowly; these are asked for with every chunk.
_FRESH, _OVER = _State.FRESH, _State.OVER
_NONE, _TEXT, _THINKING = _Run.NONE, _Run.TEXT, _Run.THINKING
# The runs that tell the members of a message; calls are told elsewhere.
_SAID_IN: dict[str, _Run] = {
    "content": _TEXT,
    "annotations": _TEXT,
    "refusal": _Run.REFUSAL,
    "tool_calls": _NONE,
    **dict.fromkeys((*REASONING_FIELDS, DETAILS), _THINKING),
}


def _says_one(delta: JsonObject) -> bool:
    """Whether only one member of a delta says anything; some servers write the role and nulls into every one."""
    spoken = 0
    for key, value in delta.items():
        if value and key != "role":
            spoken += 1
    return spoken == 1 and delta.keys() <= _USUAL


class ChatStreamDecoder:
    """Reads one stream."""

    def __init__(self, asked: Asked, mint: Mint, ledger: Ledger) -> None:
        self._target = asked.target
        self._cap = asked.request.max_tokens
        self._ledger = ledger
        self._halves = Halves(ledger)
        self._state = _FRESH
        # A counter of its own, which both the decoder and its calls may hold.
        self._next_index = count().__next__
        self._run = _NONE
        self._ran = {_NONE}
        self._index = -1
        # The member whose text continues the open run.
        self._continued = ""
        self._unknowns = Unknowns(ledger, NAME)
        # The members of chunks and choices as they come again and again, once nothing in them is left to report.
        self._usual: list[str] = []
        self._usual_choice: list[str] = []
        self._calls = CallAssembly(asked, mint, ledger, self._unknowns, self._next_index)
        self._thinking = ThinkingRun()
        # The text of all reasoning that is over.
        self._thought: list[str] = []
        self._inline = InlineThinking() if asked.target.abilities.inline_thinking else None
        self._refusal: list[str] = []
        self._citations: list[Citation] = []
        self._usage: JsonObject | None = None
        self._tier: str | None = None
        self._finish: str | None = None
        self._sequence: tuple[str, str] | None = None
        self._told_choices = False
        # The index of the choice that came first, which is not always 0, nor a number.
        self._place: JsonValue = None
        # The question was filtered; without an answer that is why.
        self._filtered = False
        # Whether `tool_calls` came: some servers say the same in `function_call` as well.
        self._modern = False
        # What proved the text, as it was told last.
        self._proof: JsonObject = {}

    def feed(self, frame: Frame) -> list[Event]:
        """The events that one frame tells; its event name means nothing here."""
        if self._state is _OVER:
            return []
        data = frame.data
        events: list[Event] = []
        if data[:1] != b"{" and (said := data.strip()) in _NO_CHUNK:
            # An event without data is some servers' sign of life.
            if said:
                self._end(events)
            return events
        try:
            try:
                # As `Halves.read` does it, without one call more for every chunk.
                chunk = read_json(data)
            except UNREADABLE:
                chunk = self._halves.reread(data)
            event = self._next(chunk)
            if event is not None:
                return [event]
            self._chunk(chunk, events)
        except WireError as error:
            self._fail(_unreadable(f"the provider's stream cannot be read: {error}"), events)
        return events

    def close(self) -> list[Event]:
        """The end of the connection: fine after a finish reason, a cut otherwise (S10)."""
        events: list[Event] = []
        if self._state is _State.FINISHED:
            self._end(events)
        elif self._state is not _OVER:
            self._fail(_unreadable(ENDED_EARLY if self._state is _State.RUNNING else _EMPTY), events)
        return events

    def broken(self, failure: Failure) -> bytes:
        """The frame by which a relayed stream tells its client that it broke off; nothing follows it."""
        return error_frame(failure)

    def _fail(self, failure: Failure, events: list[Event]) -> None:
        self._state = _OVER
        events.append(Failed(failure))

    def _next(self, chunk: JsonValue) -> PartGrew | None:
        """The one event of a chunk that only continues what is open, exactly as `_chunk` tells it; None for others."""
        if type(chunk) is not dict or [*chunk] != self._usual:
            return None
        choices, tier = chunk.get("choices"), chunk.get("service_tier")
        if type(choices) is not list or len(choices) != 1 or chunk.get("usage") is not None:
            return None
        choice = choices[0]
        if type(choice) is not dict or (tier is not None and tier != self._tier):
            return None
        # Four members that are all there are the four that are known.
        absent = 1 if len(choice) == 4 else None
        if absent is None and [*choice] != self._usual_choice:
            return None
        get = choice.get
        delta = get("delta")
        if type(delta) is not dict or get("finish_reason", absent) is not None:
            return None
        if len(delta) != 1 and not _says_one(delta):
            return None
        if get("logprobs", absent) is not None or get("index", absent) or self._place:
            return None
        text = delta.get(self._continued) if self._continued else None
        if text is None:
            calls = delta.get("tool_calls")
            if type(calls) is list and len(calls) == 1 and self._run is _NONE:
                return self._calls.next(calls[0])
            return None
        if type(text) is not str or not text:
            return None
        if self._run is _THINKING:
            self._thinking.pieces.append(text)
        return PartGrew(self._index, TextDelta(text))

    def _chunk(self, chunk: JsonValue, events: list[Event]) -> None:
        if not isinstance(chunk, dict):
            if chunk:
                raise WireError("", "object", kind_of(chunk))
            return
        if chunk.get("error"):
            failure = failure_in(chunk)
            if failure is not None:
                self._fail(failure, events)
                return
        if [*chunk] != self._usual:
            groq = chunk.get(GROQ)
            if isinstance(groq, dict):
                # Its counts are read below, and its id is of the call, not of the answer.
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
            return
        if not isinstance(choices, list):
            raise WireError("/choices", "array", kind_of(choices))
        for choice in choices:
            if not isinstance(choice, dict):
                raise WireError("/choices/0", "object", kind_of(choice))
            place = choice.get("index") or 0
            if self._place is None:
                self._place = place
            if place == self._place:
                self._choice(choice, events)
            else:
                self._other_choice()

    def _start(self, chunk: JsonObject, events: list[Event]) -> None:
        self._state = _State.RUNNING
        answer_id, model = chunk.get("id"), chunk.get("model")
        events.append(
            Started(
                id=answer_id if isinstance(answer_id, str) else "",
                model=model if isinstance(model, str) else "",
                created=seconds_of(chunk.get("created")),
            )
        )

    def _remember_usage(self, usage: JsonValue) -> None:
        """Usage may ride on any chunk and be repeated: the latest of each member counts (U8)."""
        if not isinstance(usage, dict):
            # Counts that cannot be read are no reason to fail.
            note = f"the provider's usage cannot be read: {kind_of(usage)}"
            self._ledger.dropped(Feature.USAGE, ("usage",), note)
            return
        if self._usage is None:
            self._usage = {}
        self._usage.update(news(self._usage, usage))

    def _other_choice(self) -> None:
        if not self._told_choices:
            self._told_choices = True
            self._ledger.dropped(Feature.CHOICES, ("alternatives",), "only the first choice is passed on")

    def _choice(self, choice: JsonObject, events: list[Event]) -> None:
        if [*choice] != self._usual_choice:
            self._check(choice)
        delta = choice.get("delta")
        if delta is not None:
            if not isinstance(delta, dict):
                raise WireError("/choices/0/delta", "object", kind_of(delta))
            if delta:
                self._delta(delta, choice, events)
        message = choice.get("message")
        if message and not _is_copy(message, delta):
            self._message(message, choice, events)
        if "error" in choice and (failure := failure_of(choice)) is not None:
            self._fail(failure, events)
            return
        finish = choice.get("finish_reason")
        if finish is None:
            return
        if not isinstance(finish, str):
            raise WireError("/choices/0/finish_reason", "string", kind_of(finish))
        if not said(finish):
            return
        broken = broken_off(finish)
        if broken is not None:
            self._fail(broken, events)
            return
        if self._finish is None or reason_of(finish) is not StopReason.END:
            # An end that is said again in a plainer word was the first.
            self._finish = finish
        self._sequence = stop_string(choice) or self._sequence
        self._state = _State.FINISHED
        self._end_parts(events)

    def _message(self, message: JsonValue, choice: JsonObject, events: list[Event]) -> None:
        """A whole message in a chunk: what was streamed once more, of which only what nobody said is new."""
        if not isinstance(message, dict):
            raise WireError("/choices/0/message", "object", kind_of(message))
        calls = message.get("tool_calls")
        new: JsonObject = {key: value for key, value in message.items() if _SAID_IN.get(key) not in self._ran}
        if new:
            self._delta(new, choice, events)
        if not calls:
            return
        if not isinstance(calls, list):
            raise WireError("/choices/0/message/tool_calls", "array", kind_of(calls))
        self._end_run(events)
        for position, call in enumerate(calls):
            if not isinstance(call, dict):
                raise WireError("/choices/0/message/tool_calls/0", "object", kind_of(call))
            self._calls.restate(call, position, events)

    def _check(self, choice: JsonObject) -> None:
        """Report the members of a choice that nobody reads; a stop string is told with the end."""
        settled = True
        for key, value in choice.items():
            if key not in _READ and not (key in STOP_STRINGS and isinstance(value, str)):
                settled = self._unknowns.name(key, value) and settled
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict):
            self._unknowns.members(logprobs, _LOGPROBS)
        usual = settled and choice.keys() >= _CHOICE - {"logprobs"} and choice.keys().isdisjoint(_UNUSUAL)
        self._usual_choice = [*choice] if usual else []

    def _delta(self, delta: JsonObject, choice: JsonObject, events: list[Event]) -> None:
        """What one delta tells: reasoning, then text, then calls (T1); null, "" and [] are nothing (S3)."""
        get = delta.get
        if len(delta) == 1 and (calls := get("tool_calls")):
            self._call(calls, events)
            return
        usual = delta.keys() <= _USUAL
        rare = not usual and self._rarely(delta, events)
        if (rare or get("reasoning_content") or get("reasoning")) and not self._thought_again(delta, choice):
            self._reason(delta, events)
        content = get("content")
        if content:
            if isinstance(content, str):
                if usual or not is_thought(delta) or self._in_tags(content):
                    self._say(content, choice, events)
                else:
                    self._think(content, events)
                    self._thinking.said = INLINE
            else:
                self._hear(content, choice, events)
        refusal = get("refusal")
        if refusal:
            self._refuse(refusal, choice, events)
        if get("annotations"):
            self._cite(delta, events)
        calls = get("tool_calls")
        if calls:
            self._call(calls, events)
        legacy = get("function_call")
        if legacy and not self._modern:
            self._call([{"index": 0, "function": legacy}], events, modern=False)

    def _rarely(self, delta: JsonObject, events: list[Event]) -> bool:
        """Read the members that few deltas have; say whether there is reasoning among them."""
        proof = message_proof(delta)
        if proof and proof != self._proof:
            self._proof = proof
            index = self._next_index()
            events += (PartStarted(index, proof_part("", proof, self._target)), PartEnded(index))
        known = {*proof, EXTRA_CONTENT} if is_thought(delta) else {*proof}
        if repeats_itself(delta):
            known.add(BESIDE)
        self._unknowns.members(delta, _DELTA | known if known else _DELTA)
        return any(map(delta.get, _RARE_REASONING)) or bool(nested_blocks(delta))

    def _in_tags(self, content: str) -> bool:
        """Whether text that is marked as reasoning stands in tags, which then tell where it ends."""
        if self._inline is None and content.lstrip().startswith(THOUGHT):
            self._inline = InlineThinking()
        return self._inline is not None

    def _hear(self, content: JsonValue, choice: JsonObject, events: list[Event]) -> None:
        """Content that comes in parts: text, and thinking in its place."""
        if not isinstance(content, list):
            raise WireError("/choices/0/delta/content", "string or array", kind_of(content))
        texts: list[str] = []
        for part in content:
            if isinstance(part, dict) and part.get("type") in THINKING_PARTS:
                if texts:
                    self._say("".join(texts), choice, events)
                    texts.clear()
                self._think_in_content(part, events)
                continue
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(part, dict):
                self._unknowns.members(part, _CONTENT)
                if not isinstance(text, str):
                    self._unknowns.name(str(part.get("type")))
            if isinstance(text, str):
                texts.append(text)
        if said := "".join(texts):
            self._say(said, choice, events)

    def _think_in_content(self, part: JsonObject, events: list[Event]) -> None:
        if self._run is not _THINKING:
            self._open(_THINKING, events)
            self._index = -1
        self._inline = None
        text = self._thinking.take_part(part)
        if text:
            self._think(text, events)

    def _open(self, run: _Run, events: list[Event]) -> None:
        """Begin a run; the one before it ends, and calls that are complete do not make it wait (S2)."""
        self._end_run(events)
        self._calls.move_on(events)
        self._run = run
        self._ran.add(run)

    def _say(self, text: str, choice: JsonObject, events: list[Event]) -> None:
        if self._inline is not None:
            thought, text = self._inline.feed(text)
            if thought:
                self._think(thought, events)
                self._thinking.said = INLINE
            if self._inline.over:
                self._inline = None
            if not text:
                return
        if self._run is not _TEXT:
            self._open(_TEXT, events)
            self._index = self._next_index()
            events.append(PartStarted(self._index, Text(text="")))
            self._continued = "content" if self._inline is None else ""
        logprobs = choice.get("logprobs")
        events.append(PartGrew(self._index, TextDelta(text, _logprobs(logprobs, "content") if logprobs else None)))
        if self._citations:
            self._tell_citations(events)

    def _refuse(self, refusal: JsonValue, choice: JsonObject, events: list[Event]) -> None:
        if not isinstance(refusal, str):
            raise WireError("/choices/0/delta/refusal", "string", kind_of(refusal))
        if self._run is not _Run.REFUSAL:
            self._open(_Run.REFUSAL, events)
            self._index = self._next_index()
            events.append(PartStarted(self._index, Refusal(text="")))
        self._refusal.append(refusal)
        events.append(PartGrew(self._index, TextDelta(refusal, _logprobs(choice.get("logprobs"), "refusal"))))

    def _cite(self, delta: JsonObject, events: list[Event]) -> None:
        self._citations += [decode_annotation(annotation) for annotation in Fields(delta).each("annotations")]
        if self._run is _TEXT:
            self._tell_citations(events)

    def _tell_citations(self, events: list[Event]) -> None:
        events += [PartGrew(self._index, CitationAdded(citation)) for citation in self._citations]
        self._citations.clear()

    def _reason(self, delta: JsonObject, events: list[Event]) -> None:
        text = self._thinking.take(delta)
        if self._thinking.said is not INLINE:
            # A server with a member for reasoning does not write it inline as well.
            self._inline = None
        if self._run is not _THINKING:
            self._open(_THINKING, events)
            self._index = -1
        if text:
            self._think(text, events)

    def _thought_again(self, delta: JsonObject, choice: JsonObject) -> bool:
        """Whether the last chunk says all reasoning once more, after the text; it must say nothing else of it."""
        if not self._thought or self._run is _THINKING or not choice.get("finish_reason"):
            return False
        said = [value for key in _RARE_REASONING if (value := delta.get(key))]
        thought = "".join(self._thought)
        return bool(said) and all(value == thought for value in said)

    def _think(self, text: str, events: list[Event]) -> None:
        if self._run is not _THINKING:
            self._open(_THINKING, events)
            self._index = -1
        if self._index < 0:
            self._index = self._next_index()
            events.append(PartStarted(self._index, Thinking(text="")))
            said = self._thinking.said
            self._continued = said.field if said is not None and said.field != CONTENT else ""
        self._thinking.pieces.append(text)
        events.append(PartGrew(self._index, TextDelta(text)))

    def _call(self, calls: JsonValue, events: list[Event], *, modern: bool = True) -> None:
        if isinstance(calls, dict):
            # A list of one, forgotten.
            calls = [calls]
        if not isinstance(calls, list):
            raise WireError("/choices/0/delta/tool_calls", "array", kind_of(calls))
        self._modern = self._modern or (modern and any(calls))
        if self._run is not _NONE:
            self._end_run(events)
        for fragment in calls:
            if fragment is None:
                continue
            if not isinstance(fragment, dict):
                raise WireError("/choices/0/delta/tool_calls/0", "object", kind_of(fragment))
            self._calls.take(fragment, events)

    def _end_run(self, events: list[Event]) -> None:
        run, self._run = self._run, _NONE
        if run is _NONE:
            return
        self._continued = ""
        if run is _THINKING:
            seal = self._thinking.seal(self._target)
            if self._index < 0:
                self._index = self._next_index()
                events.append(PartStarted(self._index, Thinking(text="", kind=ThinkingKind.WITHHELD, seal=seal)))
            else:
                events.append(PartGrew(self._index, SealSet(seal)))
            self._thought += self._thinking.pieces
            self._thinking = ThinkingRun()
        events.append(PartEnded(self._index))

    def _end_parts(self, events: list[Event]) -> None:
        if self._inline is not None:
            thought, text = self._inline.close()
            self._inline = None
            if thought:
                self._think(thought, events)
                self._thinking.said = INLINE
            if text:
                self._say(text, {}, events)
        self._end_run(events)
        self._calls.end(events)

    def _end(self, events: list[Event]) -> None:
        """Tell the end of a whole answer, from what was assembled."""
        if self._state is _FRESH:
            self._fail(_unreadable(_EMPTY), events)
            return
        cut = self._calls.unfinished
        try:
            self._end_parts(events)
        except WireError as error:
            self._fail(_unreadable(f"the provider's stream cannot be read: {error}"), events)
            return
        self._halves.close()
        if self._citations:
            self._ledger.dropped(Feature.CITATIONS, ("parts",), "citations without a text")
        usage: Usage | None = None
        if self._usage is not None:
            usage = decode_usage(self._usage, self._tier, self._ledger)
            events.append(UsageReported(usage))
        refusal = "".join(self._refusal)
        if self._filtered and self._finish is None and self._next_index() == 0:
            self._finish = "content_filter"
        stop = stop_of(self._finish, calls=self._calls.any_told, refusal=refusal or None, sequence=self._sequence)
        stop = settled(stop, self._ledger, cut=cut or at_cap(usage, self._cap))
        if self._sequence is not None and stop.sequence is None:
            self._unknowns.name(*self._sequence)
        self._state = _OVER
        events += [Stopped(stop), Ended()]


def _logprobs(logprobs: JsonValue, key: str) -> JsonList | None:
    found = logprobs.get(key) if isinstance(logprobs, dict) else None
    return found if isinstance(found, list) and found else None


def _unreadable(message: str) -> Failure:
    return Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=message)


def _is_copy(message: JsonValue, delta: JsonValue) -> bool:
    """Whether a message says nothing but what the delta of its chunk says: Writer tells each fragment as both."""
    if not isinstance(message, dict) or not isinstance(delta, dict):
        return False
    return all(value is None or delta.get(key) == value for key, value in message.items())
