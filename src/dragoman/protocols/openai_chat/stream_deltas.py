"""Decodes deltas of a provider's stream: reasoning, text, refusals, citations and calls. Text, refusal and thinking are
runs: at most one is open, and it ends when another follows. Calls may overlap with anything (`stream_tool_calls`)."""

from __future__ import annotations

from enum import Enum
from itertools import count

from dragoman.errors import WireError
from dragoman.model.events import CitationAdded, Event, PartEnded, PartGrew, PartStarted, SealSet, TextDelta, TextRun
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Citation, Refusal, Text, Thinking, ThinkingKind
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.protocols.openai_chat.call_signatures import EXTRA_CONTENT, is_thought, message_signature, signature_part
from dragoman.protocols.openai_chat.parts import decode_annotation
from dragoman.protocols.openai_chat.reasoning_details import nested_blocks, repeats_itself
from dragoman.protocols.openai_chat.shapes import (
    BESIDE,
    BLOCKS,
    CONTENT,
    DETAILS,
    ITEMS,
    OPAQUE,
    REASONING_FIELDS,
    THINKING_PARTS,
)
from dragoman.protocols.openai_chat.stream_reasoning import ThinkingRun
from dragoman.protocols.openai_chat.stream_tool_calls import CallAssembly
from dragoman.protocols.openai_chat.think_tags import INLINE, THOUGHT, InlineThinking
from dragoman.rules.extras import UnknownFields
from dragoman.wire.fields import Fields
from dragoman.wire.json import kind_of

# Known members of a delta, and members whose loss needs no report.
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
USUAL = frozenset({"role", "content", "refusal", "tool_calls", "function_call", "reasoning_content", "reasoning"})
_RARE_REASONING = (*REASONING_FIELDS, DETAILS, BLOCKS, ITEMS, OPAQUE)
_CONTENT = frozenset({"type", "text"})


class OpenPart(Enum):
    NONE = "nothing open"
    THINKING = "thinking"
    TEXT = "text"
    REFUSAL = "refusal"


# Bound once: looking up an enum member is slow, and every chunk needs these.
NONE, THINKING = OpenPart.NONE, OpenPart.THINKING
_TEXT = OpenPart.TEXT
# The open part for each member of a message. Calls are handled elsewhere.
_PART_OF_MEMBER: dict[str, OpenPart] = {
    "content": _TEXT,
    "annotations": _TEXT,
    "refusal": OpenPart.REFUSAL,
    "tool_calls": NONE,
    **dict.fromkeys((*REASONING_FIELDS, DETAILS), THINKING),
}


class DeltaReader:
    """Decodes the deltas of one stream. The decoder's fast path checks the open part here."""

    def __init__(self, translation: TranslationContext, mint: Mint, ledger: Ledger, unknowns: UnknownFields) -> None:
        self._translation, self._mint, self._ledger = translation, mint, ledger
        self._target = translation.target
        self._unknowns = unknowns
        # A counter, which the reader and its calls share.
        self.next_index = count().__next__
        self.calls: CallAssembly | None = None
        self.run = NONE
        self._ran = {NONE}
        self.index = -1
        # The member whose text continues the open run.
        self.continued = ""
        self.thinking = ThinkingRun()
        self._thought: list[str] = []
        self._thought_length = 0
        self._inline = InlineThinking() if translation.target.capabilities.inline_thinking else None
        self.refusal: list[str] = []
        self.citations: list[Citation] = []
        # Whether `tool_calls` arrived: some servers repeat them in `function_call`.
        self._modern = False
        self._signature: JsonObject = {}

    def take(self, delta: JsonObject, choice: JsonObject, events: list[Event]) -> None:
        """The events of one delta: reasoning, then text, then calls (T1). Null, "" and [] are ignored (S3)."""
        get = delta.get
        if len(delta) == 1 and (calls := get("tool_calls")):
            self._call(calls, events)
            return
        usual = delta.keys() <= USUAL
        rare = not usual and self._take_rare(delta, events)
        if (rare or get("reasoning_content") or get("reasoning")) and not self._thought_again(delta, choice):
            self._reason(delta, events)
        content = get("content")
        if content:
            if isinstance(content, str):
                if usual or not is_thought(delta) or self._in_tags(content):
                    self._add_text(content, choice, events)
                else:
                    self._think(content, events)
                    self.thinking.stated = INLINE
            else:
                self._take_content_parts(content, choice, events)
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

    def grown(self, delta: TextDelta) -> PartGrew:
        if self.run is THINKING:
            self.thinking.pieces.append(delta.text)
        return PartGrew(self.index, delta)

    def grown_by(self, run: TextRun) -> PartGrew:
        """A run of the open text, or of the arguments of the call that grew last."""
        return self.calls.grown_by(run) if self.run is NONE and self.calls is not None else self.grown(run)

    def take_message(self, message: JsonValue, choice: JsonObject, events: list[Event]) -> None:
        """A full message in a chunk repeats the stream. Only content that was not streamed is new."""
        if not isinstance(message, dict):
            raise WireError("/choices/0/message", "object", kind_of(message))
        calls = message.get("tool_calls")
        new: JsonObject = {key: value for key, value in message.items() if _PART_OF_MEMBER.get(key) not in self._ran}
        if new:
            self.take(new, choice, events)
        if not calls:
            return
        if not isinstance(calls, list):
            raise WireError("/choices/0/message/tool_calls", "array", kind_of(calls))
        self._end_run(events)
        for position, call in enumerate(calls):
            if not isinstance(call, dict):
                raise WireError("/choices/0/message/tool_calls/0", "object", kind_of(call))
            self._assembly().restate(call, position, events)

    def _take_rare(self, delta: JsonObject, events: list[Event]) -> bool:
        """Read rare members. Returns whether they contain reasoning."""
        signature = message_signature(delta)
        if signature and signature != self._signature:
            self._signature = signature
            index = self.next_index()
            events += (PartStarted(index, signature_part("", signature, self._target)), PartEnded(index))
        expected = {*signature, EXTRA_CONTENT} if is_thought(delta) else {*signature}
        if repeats_itself(delta):
            expected.add(BESIDE)
        self._unknowns.members(delta, _DELTA | expected if expected else _DELTA)
        return any(map(delta.get, _RARE_REASONING)) or bool(nested_blocks(delta))

    def _in_tags(self, content: str) -> bool:
        """Whether text that is marked as reasoning is in tags, which then mark its end."""
        if self._inline is None and content.lstrip().startswith(THOUGHT):
            self._inline = InlineThinking()
        return self._inline is not None

    def _take_content_parts(self, content: JsonValue, choice: JsonObject, events: list[Event]) -> None:
        """Content as a list of parts: text, and thinking in its position."""
        if not isinstance(content, list):
            raise WireError("/choices/0/delta/content", "string or array", kind_of(content))
        texts: list[str] = []
        for part in content:
            if isinstance(part, dict) and part.get("type") in THINKING_PARTS:
                if texts:
                    self._add_text("".join(texts), choice, events)
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
        if tail := "".join(texts):
            self._add_text(tail, choice, events)

    def _think_in_content(self, part: JsonObject, events: list[Event]) -> None:
        if self.run is not THINKING:
            self._open(THINKING, events)
            self.index = -1
        self._inline = None
        text = self.thinking.take_part(part)
        if text:
            self._think(text, events)

    def _open(self, run: OpenPart, events: list[Event]) -> None:
        """Begin a run. The previous one ends, and complete calls do not make it wait (S2)."""
        self._end_run(events)
        if self.calls is not None:
            self.calls.move_on(events)
        self.run = run
        self._ran.add(run)

    def _add_text(self, text: str, choice: JsonObject, events: list[Event]) -> None:
        if self._inline is not None:
            thought, text = self._inline.feed(text)
            if thought:
                self._think(thought, events)
                self.thinking.stated = INLINE
            if self._inline.over:
                self._inline = None
            if not text:
                return
        if self.run is not _TEXT:
            self._open(_TEXT, events)
            self.index = self.next_index()
            events.append(PartStarted(self.index, Text(text="")))
            self.continued = "content" if self._inline is None else ""
        logprobs = choice.get("logprobs")
        events.append(PartGrew(self.index, TextDelta(text, _logprobs(logprobs, "content") if logprobs else None)))
        if self.citations:
            self._emit_citations(events)

    def _refuse(self, refusal: JsonValue, choice: JsonObject, events: list[Event]) -> None:
        if not isinstance(refusal, str):
            raise WireError("/choices/0/delta/refusal", "string", kind_of(refusal))
        if self.run is not OpenPart.REFUSAL:
            self._open(OpenPart.REFUSAL, events)
            self.index = self.next_index()
            events.append(PartStarted(self.index, Refusal(text="")))
        self.refusal.append(refusal)
        events.append(PartGrew(self.index, TextDelta(refusal, _logprobs(choice.get("logprobs"), "refusal"))))

    def _cite(self, delta: JsonObject, events: list[Event]) -> None:
        self.citations += [decode_annotation(annotation) for annotation in Fields(delta).each("annotations")]
        if self.run is _TEXT:
            self._emit_citations(events)

    def _emit_citations(self, events: list[Event]) -> None:
        events += [PartGrew(self.index, CitationAdded(citation)) for citation in self.citations]
        self.citations.clear()

    def _reason(self, delta: JsonObject, events: list[Event]) -> None:
        text = self.thinking.take(delta)
        if self.thinking.stated is not INLINE:
            # A server with a member for reasoning does not write it inline as well.
            self._inline = None
        if self.run is not THINKING:
            self._open(THINKING, events)
            self.index = -1
        if text:
            self._think(text, events)

    def _thought_again(self, delta: JsonObject, choice: JsonObject) -> bool:
        """Whether the last chunk repeats all reasoning after the text."""
        if not self._thought or self.run is THINKING or not choice.get("finish_reason"):
            return False
        values = [value for key in _RARE_REASONING if (value := delta.get(key))]
        if not values or any(type(value) is not str or len(value) != self._thought_length for value in values):
            return False
        thought = "".join(self._thought)
        return all(value == thought for value in values)

    def _think(self, text: str, events: list[Event]) -> None:
        if self.run is not THINKING:
            self._open(THINKING, events)
            self.index = -1
        if self.index < 0:
            self.index = self.next_index()
            events.append(PartStarted(self.index, Thinking(text="")))
            stated = self.thinking.stated
            self.continued = stated.field if stated is not None and stated.field != CONTENT else ""
        self.thinking.pieces.append(text)
        events.append(PartGrew(self.index, TextDelta(text)))

    def _call(self, calls: JsonValue, events: list[Event], *, modern: bool = True) -> None:
        if isinstance(calls, dict):
            # The server omitted the list around one call.
            calls = [calls]
        if not isinstance(calls, list):
            raise WireError("/choices/0/delta/tool_calls", "array", kind_of(calls))
        self._modern = self._modern or (modern and any(calls))
        if self.run is not NONE:
            self._end_run(events)
        for fragment in calls:
            if fragment is None:
                continue
            if not isinstance(fragment, dict):
                raise WireError("/choices/0/delta/tool_calls/0", "object", kind_of(fragment))
            self._assembly().take(fragment, events)

    def _assembly(self) -> CallAssembly:
        if self.calls is None:
            self.calls = CallAssembly(self._translation, self._mint, self._ledger, self._unknowns, self.next_index)
        return self.calls

    def _end_run(self, events: list[Event]) -> None:
        run, self.run = self.run, NONE
        if run is NONE:
            return
        self.continued = ""
        if run is THINKING:
            seal = self.thinking.seal(self._target)
            if self.index < 0:
                self.index = self.next_index()
                events.append(PartStarted(self.index, Thinking(text="", kind=ThinkingKind.WITHHELD, seal=seal)))
            else:
                events.append(PartGrew(self.index, SealSet(seal)))
            self._thought += self.thinking.pieces
            self._thought_length += sum(map(len, self.thinking.pieces))
            self.thinking = ThinkingRun()
        events.append(PartEnded(self.index))

    def end(self, events: list[Event]) -> None:
        if self._inline is not None:
            thought, text = self._inline.close()
            self._inline = None
            if thought:
                self._think(thought, events)
                self.thinking.stated = INLINE
            if text:
                self._add_text(text, {}, events)
        self._end_run(events)
        if self.calls is not None:
            self.calls.end(events)


def _logprobs(logprobs: JsonValue, key: str) -> JsonList | None:
    entries = logprobs.get(key) if isinstance(logprobs, dict) else None
    return entries if isinstance(entries, list) and entries else None
