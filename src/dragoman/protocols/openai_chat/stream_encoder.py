"""Encodes a client's Chat stream: events to chunks (mapping.md §24, 25.1, 25.6).

event                  frames
Started                chunk with the role
PartStarted            call: opening fragment; others: none yet
PartGrew               one chunk; text that is separate from earlier text is preceded by a blank line
PartEnded              thinking: its details; cited text: its annotations; call without arguments: `{}`;
                       reasoning of this protocol: the members beside its text; a signature: on its call
Stopped, UsageReported, ChoiceReported   stored
Ended                  [signed turn], finish chunk, [further choices], [usage chunk], [DONE]
Failed                 error frame, without any frame after it

Parts may overlap: the official accumulator merges calls by their index. The head of a chunk is encoded once per
stream."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.json import Encoder

from dragoman.model.events import (
    ArgumentsDelta,
    ArgumentsRun,
    ChoiceReported,
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
from dragoman.model.features import Feature
from dragoman.model.folding import PartFold
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras, InputForm, Refusal, Seal, Text, Thinking, ToolCall
from dragoman.model.response import Stop, StopReason, Usage
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.protocols.openai_chat.call_signatures import attach_signature, is_call_signature
from dragoman.protocols.openai_chat.failure import error_frame
from dragoman.protocols.openai_chat.finish_reasons import finish_reason_of, report_stop
from dragoman.protocols.openai_chat.parts import merge_extras
from dragoman.protocols.openai_chat.reasoning import encode_details, indexed, turn_entry, write_native
from dragoman.protocols.openai_chat.response_parts import (
    Paragraphs,
    annotate,
    client_name,
    completion_id,
    report_call,
    report_hidden,
    seal_turn,
)
from dragoman.protocols.openai_chat.shapes import CHUNK, NAME, REASONING_FIELDS, SERVED_TIERS
from dragoman.protocols.openai_chat.usage import encode_usage
from dragoman.rules.extras import drop_extras
from dragoman.rules.input_wrapping import INPUT_CLOSING, INPUT_OPENING
from dragoman.rules.text_runs import FrameForm, encode_run, texts_of
from dragoman.wire.json import encode
from dragoman.wire.sse import DONE

_encode_string = Encoder().encode


class _Writer:
    """The encoding of one part: the bytes before and after each of its deltas."""

    __slots__ = ("after", "before", "fold", "grown", "is_text", "length", "quoted", "start")

    def __init__(self, before: bytes, after: bytes, fold: PartFold) -> None:
        self.before = before
        self.after = after
        self.fold = fold
        # Free text is quoted once more, inside the arguments of the function for its tool.
        self.quoted = isinstance(fold.part, ToolCall) and fold.part.form is InputForm.TEXT
        self.grown = False
        # Of text, in characters: its start in the response, and its length.
        self.is_text = isinstance(fold.part, Text)
        self.start = 0
        self.length = 0


class ChatStreamEncoder:
    def __init__(self, translation: TranslationContext, mint: Mint, ledger: Ledger) -> None:
        self._translation = translation
        self._mint = mint
        self._ledger = ledger
        self._legacy = translation.request.legacy_functions
        self._usage_requested = bool(translation.request.include_usage)
        self._head = b""
        self._tail = b',"finish_reason":null}]' + (b',"usage":null}\n\n' if self._usage_requested else b"}\n\n")
        self._writers: dict[int, _Writer] = {}
        self._paragraphs = Paragraphs()
        self._text_length = 0
        self._reasoned = False
        self._refused = False
        self._calls = 0
        self._details = 0
        self._annotations = 0
        # The indexes of calls by ID, and signatures that wait for their call.
        self._numbers: dict[str, int] = {}
        self._signatures: dict[str, Seal] = {}
        self._usage: Usage | None = None
        self._stop: Stop | None = None
        self._alternatives: tuple[JsonObject, ...] = ()

    def feed(self, event: Event) -> bytes:
        return _HANDLERS[type(event)](self, event)

    def run_form(self, index: int) -> FrameForm | None:
        writer = self._writers[index]
        return FrameForm(writer.before + b'"', b'"' + writer.after) if writer.before else None

    def _ignore(self, event: Heartbeat) -> bytes:
        return b""

    def _start(self, event: Started) -> bytes:
        head: JsonObject = {
            "id": completion_id(event.id, self._mint),
            "object": CHUNK,
            "created": event.created if event.created is not None else self._mint.now(),
            "model": self._translation.request.model or event.model,
        }
        self._head = b"data: " + encode(head)[:-1]
        return self._delta({"role": "assistant", "content": ""})

    def _delta(self, delta: JsonObject) -> bytes:
        return b'%b,"choices":[{"index":0,"delta":%b%b' % (self._head, encode(delta), self._tail)

    def _around(self, opening: bytes, closing: bytes) -> tuple[bytes, bytes]:
        return b'%b,"choices":[{"index":0,"delta":%b' % (self._head, opening), closing + self._tail

    def _open(self, event: PartStarted) -> bytes:
        part, started, written = event.part, "", b""
        fold = PartFold(part)
        if type(part) is Text:
            self._drop_extras(part.extras, event.index)
            writer, started = _Writer(*self._around(b'{"content":', b"}"), fold), part.text
        elif type(part) is Refusal:
            self._drop_extras(part.extras, event.index)
            self._refused = True
            writer, started = _Writer(*self._around(b'{"refusal":', b"}"), fold), part.text
        elif type(part) is Thinking:
            self._drop_extras(part.extras, event.index)
            self._paragraphs.interrupt()
            writer, started = _Writer(*self._around(b'{"reasoning_content":', b"}"), fold), part.text
        elif type(part) is ToolCall:
            self._paragraphs.interrupt()
            writer, written = self._open_call(part, event.index, fold)
            started = part.arguments
        else:
            self._paragraphs.interrupt()
            report_hidden(part, event.index, self._ledger)
            writer = _Writer(b"", b"", fold)
        self._writers[event.index] = writer
        return written + self._write(writer, started) if started else written

    def _drop_extras(self, extras: Extras | None, index: int) -> None:
        if extras is not None and extras.origin != NAME:
            drop_extras(extras, ("parts", index), self._ledger)

    def _open_call(self, part: ToolCall, index: int, fold: PartFold) -> tuple[_Writer, bytes]:
        report_call(part, index, self._ledger)
        number = self._calls
        self._calls += 1
        name = client_name(part)
        if self._legacy:
            if number:
                self._ledger.dropped(Feature.PARALLEL_CALLS, ("parts", index), "the legacy form holds one call")
                return _Writer(b"", b"", fold), b""
            before, after = self._around(b'{"function_call":{"arguments":', b"}}")
            return _Writer(before, after, fold), self._delta({"function_call": {"name": name, "arguments": ""}})
        opening = b'{"tool_calls":[{"index":%d,"function":{"arguments":' % number
        before, after = self._around(opening, b"}}]}")
        fragment: JsonObject = {
            "index": number,
            "id": part.call_id,
            # The chunk type has only functions, and the official accumulator fails on anything else.
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        if part.extras is not None and part.extras.origin == NAME:
            merge_extras(fragment, part.extras)
        self._numbers[part.call_id] = number
        signature = self._signatures.pop(part.call_id, None)
        if signature is not None:
            attach_signature(signature, fragment)
        return _Writer(before, after, fold), self._delta({"tool_calls": [fragment]})

    def _grow(self, event: PartGrew) -> bytes:
        writer = self._writers[event.index]
        delta = event.delta
        kind = type(delta)
        if kind is ArgumentsRun and (writer.quoted or not writer.grown):
            return b"".join([self._grow(PartGrew(event.index, ArgumentsDelta(text))) for text in texts_of(delta)])  # type: ignore[arg-type]  # narrowed by its type
        if type(delta) is TextRun or type(delta) is ArgumentsRun:
            writer.fold.pieces.append(delta.text)
            writer.length += len(delta.text)
            if writer.is_text:
                self._text_length += len(delta.text)
            return encode_run(delta, writer.before, writer.after) if writer.before else b""
        writer.fold.grow(delta)
        if kind is TextDelta or kind is ArgumentsDelta:
            return self._write(writer, delta.text, delta.logprobs if kind is TextDelta else None)  # type: ignore[union-attr]  # narrowed by its type
        return b""

    def _write(self, writer: _Writer, text: str, logprobs: JsonValue = None) -> bytes:
        """One delta of a part. Parts that the stream cannot express write nothing."""
        if not text or not writer.before:
            return b""
        lead = b""
        if not writer.grown:
            lead = self._lead(writer)
            writer.grown = True
        if writer.quoted:
            text = _encode_string(text)[1:-1].decode()
        writer.length += len(text)
        if writer.is_text:
            self._text_length += len(text)
        if logprobs:
            return lead + self._with_logprobs(writer, text, logprobs)
        return b"%b%b%b%b" % (lead, writer.before, _encode_string(text), writer.after)

    def _with_logprobs(self, writer: _Writer, text: str, logprobs: JsonValue) -> bytes:
        refusal = isinstance(writer.fold.part, Refusal)
        by_kind: JsonObject = {"content": None if refusal else logprobs, "refusal": logprobs if refusal else None}
        tail = b'},"logprobs":%b%b' % (encode(by_kind), self._tail)
        return b"%b%b%b" % (writer.before, _encode_string(text), tail)

    def _lead(self, writer: _Writer) -> bytes:
        """The prefix of a part's first delta: a blank line, or the opening of wrapped input."""
        part = writer.fold.part
        if isinstance(part, ToolCall):
            if part.form is InputForm.TEXT:
                return b"%b%b%b" % (writer.before, _encode_string(INPUT_OPENING), writer.after)
            return b""
        apart = False
        if isinstance(part, Text):
            apart = self._paragraphs.separates(part.id)
            self._text_length += 2 if apart else 0
            writer.start = self._text_length
        elif isinstance(part, Thinking):
            apart, self._reasoned = self._reasoned, True
        return b"%b%b%b" % (writer.before, _encode_string("\n\n"), writer.after) if apart else b""

    def _close(self, event: PartEnded) -> bytes:
        writer = self._writers[event.index]
        part = writer.fold.assemble()
        if isinstance(part, ToolCall):
            return self._close_call(writer, part)
        if isinstance(part, Thinking):
            return self._close_thinking(part)
        if isinstance(part, Text) and part.citations:
            annotations = annotate(part.citations, writer.start, writer.length, event.index, self._ledger)
            entries = indexed(annotations, self._annotations)
            self._annotations += len(entries)
            return self._delta({"annotations": [*entries]}) if entries else b""
        return b""

    def _close_thinking(self, part: Thinking) -> bytes:
        seal = part.seal
        if seal is None or seal.origin != NAME:
            entries = indexed(encode_details(part), self._details)
            self._details += len(entries)
            return self._delta({"reasoning_details": [*entries]}) if entries else b""
        if is_call_signature(part):
            return self._close_signature(seal)
        # The text was sent before its provider's member was known. The members next to it were not.
        beside: JsonObject = {}
        write_native([part], beside)
        delta: JsonObject = {key: value for key, value in beside.items() if key not in REASONING_FIELDS}
        entries = indexed(encode_details(part), self._details)
        self._details += len(entries)
        if entries:
            delta["reasoning_details"] = [*entries]
        return self._delta(delta) if delta else b""

    def _close_signature(self, seal: Seal) -> bytes:
        """A signature waits for its call. A later one, or one of the message, is sent at once."""
        call_id = str(seal.body.get("call_id") or "")
        number = self._numbers.get(call_id)
        if call_id and number is None:
            self._signatures[call_id] = seal
            return b""
        fragment: JsonObject = {} if number is None else {"index": number}
        attach_signature(seal, fragment)
        return self._delta(fragment if number is None else {"tool_calls": [fragment]})

    def _close_call(self, writer: _Writer, part: ToolCall) -> bytes:
        if not writer.before:
            return b""
        if part.form is InputForm.TEXT:
            lead = b"" if writer.grown else self._lead(writer)
            return b"%b%b%b%b" % (lead, writer.before, _encode_string(INPUT_CLOSING), writer.after)
        # A client always gets an object, never the empty string (N3).
        return b"" if writer.grown else b"%b%b%b" % (writer.before, _encode_string("{}"), writer.after)

    def _remember_usage(self, event: UsageReported) -> bytes:
        self._usage = event.usage
        return b""

    def _remember_choices(self, event: ChoiceReported) -> bytes:
        self._alternatives = event.choices
        return b""

    def _remember_stop(self, event: Stopped) -> bytes:
        self._stop = event.stop
        return b""

    def _end(self, event: Ended) -> bytes:
        stop = self._stop or Stop(reason=StopReason.OTHER)
        report_stop(stop, self._ledger)
        frames = [self._turn()]
        for _ in self._signatures:
            note = "the call that it proves is not told"
            self._ledger.dropped(Feature.THINKING_SIGNATURE, ("parts",), note)
        if stop.reason is StopReason.REFUSAL and stop.explanation and not self._refused:
            frames.append(self._delta({"refusal": stop.explanation}))
        finish_reason = finish_reason_of(stop, calls=self._calls > 0, refusal=self._refused, legacy=self._legacy)
        tail = self._tail.replace(b"null", _encode_string(finish_reason), 1)
        frames.append(b'%b,"choices":[{"index":0,"delta":{}%b' % (self._head, tail))
        frames += [self._choice(number, choice) for number, choice in enumerate(self._alternatives, 1)]
        usage = encode_usage(self._usage, self._ledger)
        if self._usage_requested:
            frames.append(b'%b,"choices":[],"usage":%b%b}\n\n' % (self._head, encode(usage), self._tier()))
        frames.append(DONE)
        return b"".join(frames)

    def _choice(self, number: int, choice: JsonObject) -> bytes:
        """A further choice in one delta. Only calls have another form in streams."""
        message = choice.get("message")
        delta: JsonObject = dict(message) if isinstance(message, dict) else {}
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            # First, in the usual order. The index is the choice's own, not the server's.
            delta["tool_calls"] = [
                {"index": place, **call} | {"index": place} if isinstance(call, dict) else call
                for place, call in enumerate(calls)
            ]
        content: JsonObject = {**choice, "index": number, "delta": delta, "finish_reason": None}
        content.pop("message", None)
        ended: JsonObject = {"index": number, "delta": {}, "finish_reason": choice.get("finish_reason")}
        tail = b',"usage":null}\n\n' if self._usage_requested else b"}\n\n"
        return b"".join([b'%b,"choices":[%b]%b' % (self._head, encode(one), tail) for one in (content, ended)])

    def _tier(self) -> bytes:
        tier = self._usage.service_tier if self._usage is not None else None
        served = SERVED_TIERS.map_value(tier, ("usage", "service_tier"), self._ledger)
        return b"" if served is None else b',"service_tier":%b' % _encode_string(served)

    def _turn(self) -> bytes:
        """The exact form of a turn that the client's echo would not give back (V1)."""
        if self._translation.render_turn is None or not self._translation.origin:
            return b""
        parts = tuple(self._writers[index].fold.assemble() for index in sorted(self._writers))
        seal = seal_turn(parts, self._translation.origin, self._translation)
        if seal is None:
            return b""
        return self._delta({"reasoning_details": [*indexed([turn_entry(seal)], self._details)]})

    def _fail(self, event: Failed) -> bytes:
        return error_frame(event.failure)


# In the class: a table of bound methods in each encoder would be a reference cycle.
_HANDLERS: dict[type, Callable[..., bytes]] = {
    PartGrew: ChatStreamEncoder._grow,
    Started: ChatStreamEncoder._start,
    PartStarted: ChatStreamEncoder._open,
    PartEnded: ChatStreamEncoder._close,
    UsageReported: ChatStreamEncoder._remember_usage,
    ChoiceReported: ChatStreamEncoder._remember_choices,
    Stopped: ChatStreamEncoder._remember_stop,
    Ended: ChatStreamEncoder._end,
    Failed: ChatStreamEncoder._fail,
    Heartbeat: ChatStreamEncoder._ignore,
}
