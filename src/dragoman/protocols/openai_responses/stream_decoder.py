"""A provider's stream to events (mapping.md 25.5 and 25.6, reading side).

Each `output_index` is one item; items may be open side by side. What an item has told so far is kept, because its
`done` events are authoritative: what they hold beyond the deltas is told as one more delta, never twice.

    item              opens a part                           grows it                    ends it
    message           first text, refusal or annotation      its deltas                  content_part.done or item done
    reasoning         first summary or reasoning text,       summary deltas; reasoning   item done, after its seal
                      else its end                           text if no summary came
    function, custom  its announcement with a name           argument or input deltas    item done
    any other         its end, whole                         –                           at once
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.errors import WireError
from dragoman.model.events import (
    ArgumentsDelta,
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
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import InputForm, Part, Refusal, Text, Thinking, ThinkingKind, ToolCall
from dragoman.protocols.codec import Asked, Mint
from dragoman.protocols.openai_responses.failure import failed_frames, failure_of
from dragoman.protocols.openai_responses.items import decode_thinking
from dragoman.protocols.openai_responses.output import OutputReader, message_members, with_members
from dragoman.protocols.openai_responses.parts import decode_annotation
from dragoman.protocols.openai_responses.response import decode_stop, decode_usage
from dragoman.protocols.openai_responses.shapes import CUSTOM_CALL, FUNCTION_CALL, MESSAGE, REASONING
from dragoman.rules.toolnames import Wrapped
from dragoman.rules.unwrap import InputUnwrapper
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode_lenient
from dragoman.wire.sse import Frame

_TRUNCATED = "upstream stream ended unexpectedly"


class _Piece:
    """One content part of a message, one summary, or the arguments of a call: the part it is and what came of it."""

    __slots__ = ("annotations", "ended", "index", "pieces")

    def __init__(self) -> None:
        self.index: int | None = None
        self.pieces: list[str] = []
        self.annotations = 0
        self.ended = False

    def missing(self, whole: str) -> str:
        """What the whole text has beyond the deltas."""
        if not self.pieces:
            return whole
        told = "".join(self.pieces)
        return whole[len(told) :] if len(whole) > len(told) and whole.startswith(told) else ""


class _Item:
    """One output item while it grows."""

    __slots__ = ("call", "done", "item_id", "kind", "members", "opened", "order", "pieces", "unwrapper")

    def __init__(self, kind: str, item_id: str | None) -> None:
        self.kind = kind
        self.item_id = item_id
        self.pieces: dict[int, _Piece] = {}
        self.order: int | None = None
        self.opened = False
        self.done = False
        self.members: JsonObject = {}
        self.call: ToolCall | None = None
        self.unwrapper: InputUnwrapper | None = None

    def piece(self, position: int) -> _Piece:
        """The content part or summary at this position."""
        found = self.pieces.get(position)
        if found is None:
            found = self.pieces[position] = _Piece()
        return found


class StreamDecoder:
    """Frames of one stream to events."""

    def __init__(self, asked: Asked, mint: Mint, ledger: Ledger) -> None:
        self._asked = asked
        self._mint = mint
        self._ledger = ledger
        self._reader = OutputReader(asked)
        self._items: dict[int, _Item] = {}
        self._parts = 0
        self._calls: set[str] = set()
        # What the stop is derived from: calls and refusals that were told.
        self._told: list[Part] = []
        self._refusals: list[_Piece] = []
        self._started = False
        self._over = False
        self._out: list[Event] = []
        # What a relayed stream would need to break off in order: its last number, response and finished items.
        self._sequence: JsonValue = -1
        self._response: JsonObject = {}
        self._finished: JsonList = []

    def feed(self, frame: Frame) -> list[Event]:
        """The events that one frame tells."""
        if self._over:
            return []
        if frame.data == b"[DONE]":
            return self.close()
        self._out = []
        try:
            event = decode_lenient(frame.data)
            if type(event) is dict:
                self._sequence = event.get("sequence_number", self._sequence)
                kind = event.get("type") or frame.event
                handler = _HANDLERS.get(kind) if type(kind) is str else None
                if handler is not None:
                    handler(self, event)
                elif kind is None and isinstance(event.get("error"), dict):
                    self._error(event)
        except WireError as error:
            self._fail(
                Failure(
                    kind=FailureKind.BAD_GATEWAY, status=502, message=f"the provider's stream is not readable: {error}"
                )
            )
        return self._out

    def close(self) -> list[Event]:
        """The stream ended without a terminal event: the answer is cut."""
        if self._over:
            return []
        self._out = []
        self._fail(Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=_TRUNCATED))
        return self._out

    def broken(self, failure: Failure) -> bytes:
        """The error of a stream that was relayed up to here, numbered on from its last frame (§21)."""
        last = self._sequence if type(self._sequence) is int else -1
        return failed_frames(failure, self._response, self._finished, last + 1)

    # The answer as a whole.

    def _begin(self, event: JsonObject) -> None:
        if self._started:
            return
        self._started = True
        response = event.get("response")
        if type(response) is dict:
            self._response = response
        fields = Fields(self._response)
        self._out.append(
            Started(
                id=fields.optional_text("id") or "",
                model=fields.optional_text("model") or "",
                created=fields.optional_integer("created_at"),
            )
        )

    def _terminal(self, event: JsonObject) -> None:
        self._begin(event)
        response = event.get("response")
        if type(response) is not dict:
            response = {}
        output = response.get("output")
        for position, item in enumerate(output if type(output) is list else ()):
            state = self._items.get(position)
            if type(item) is dict and (state is None or not state.done):
                self._finish_item(position, item)
        for position in sorted(self._items):
            if not self._items[position].done:
                self._finish_item(position, None)
        usage = decode_usage(response)
        if usage is not None:
            self._out.append(UsageReported(usage))
        refusals: list[Part] = [Refusal(text="".join(piece.pieces)) for piece in self._refusals]
        self._out.append(Stopped(decode_stop(response, [*refusals, *self._told])))
        self._out.append(Ended())
        self._over = True

    def _failed(self, event: JsonObject) -> None:
        response = event.get("response")
        error = response.get("error") if type(response) is dict else None
        self._fail(failure_of(error if type(error) is dict else {"message": "the response failed"}))

    def _error(self, event: JsonObject) -> None:
        nested = event.get("error")
        self._fail(failure_of(nested if type(nested) is dict else {**event, "type": None}))

    def _fail(self, failure: Failure) -> None:
        self._out.append(Failed(failure))
        self._over = True

    # Items.

    def _item(self, event: JsonObject, kind: str) -> _Item | None:
        """The item an event belongs to; one that was never announced is opened by its first event."""
        position = event.get("output_index")
        if type(position) is not int:
            position = next(reversed(self._items), 0)
        item = self._items.get(position)
        if item is None:
            self._begin({})
            item_id = event.get("item_id")
            item = self._items[position] = _Item(kind, item_id if type(item_id) is str else None)
        return None if item.done else item

    def _added(self, event: JsonObject) -> None:
        self._begin({})
        position, body = event.get("output_index"), event.get("item")
        if type(position) is not int or type(body) is not dict or position in self._items:
            return
        kind, item_id = body.get("type"), body.get("id")
        item = _Item(kind if type(kind) is str else "", item_id if type(item_id) is str else None)
        self._items[position] = item
        if item.kind == MESSAGE:
            item.members = message_members(body, home=False)
        elif item.kind == REASONING:
            item.order = self._number()
        elif item.kind in (FUNCTION_CALL, CUSTOM_CALL) and body.get("name"):
            self._open_call(item, body)

    def _item_done(self, event: JsonObject) -> None:
        self._begin({})
        position, body = event.get("output_index"), event.get("item")
        if type(body) is not dict:
            return
        self._finished.append(body)
        if type(position) is not int:
            position = next(reversed(self._items), 0)
        item = self._items.get(position)
        if item is None or not item.done:
            self._finish_item(position, body)

    def _finish_item(self, position: int, body: JsonObject | None) -> None:
        """End an item; without its body what the deltas told is all there is."""
        item = self._items.get(position)
        if item is None:
            kind, item_id = (body or {}).get("type"), (body or {}).get("id")
            item = _Item(kind if type(kind) is str else "", item_id if type(item_id) is str else None)
            self._items[position] = item
        item.done = True
        if item.kind == MESSAGE:
            self._finish_message(item, body)
        elif item.kind == REASONING:
            self._finish_reasoning(item, body)
        elif item.kind in (FUNCTION_CALL, CUSTOM_CALL):
            self._finish_call(item, body)
        elif body is not None:
            for part in self._reader.read(Fields(body)):
                self._whole(part)

    def _number(self) -> int:
        number = self._parts
        self._parts += 1
        return number

    def _whole(self, part: Part) -> None:
        """A part that comes whole; a call still tells its arguments as growth."""
        number = self._number()
        if isinstance(part, ToolCall):
            self._told.append(part)
            self._out.append(PartStarted(number, _announced(part)))
            self._out.append(PartGrew(number, ArgumentsDelta(part.arguments)))
        else:
            self._out.append(PartStarted(number, part))
        self._out.append(PartEnded(number))

    # Messages.

    def _text_delta(self, event: JsonObject) -> None:
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return
        # The shortest way for the commonest event: an open part of a known item.
        position, content = event.get("output_index"), event.get("content_index")
        item = self._items.get(position) if type(position) is int else None
        piece = item.pieces.get(content) if item is not None and type(content) is int else None
        if piece is None or piece.index is None or piece.ended:
            piece = self._open_text(event, refusal=False)
            if piece is None or piece.index is None:
                return
        piece.pieces.append(delta)
        logprobs = event.get("logprobs")
        self._out.append(
            PartGrew(piece.index, TextDelta(delta, logprobs if logprobs and type(logprobs) is list else None))
        )

    def _refusal_delta(self, event: JsonObject) -> None:
        delta = event.get("delta")
        if delta and type(delta) is str:
            self._grow_text(self._open_text(event, refusal=True), delta)

    def _grow_text(self, piece: _Piece | None, text: str, logprobs: JsonList | None = None) -> None:
        if piece is not None and piece.index is not None:
            piece.pieces.append(text)
            self._out.append(PartGrew(piece.index, TextDelta(text, logprobs)))

    def _open_text(self, event: JsonObject, *, refusal: bool) -> _Piece | None:
        item = self._item(event, MESSAGE)
        if item is None:
            return None
        position = event.get("content_index")
        piece = item.piece(position if type(position) is int else 0)
        if piece.ended:
            return None
        if piece.index is None:
            self._open_piece(item, piece, refusal=refusal)
        return piece

    def _open_piece(self, item: _Item, piece: _Piece, *, refusal: bool) -> None:
        piece.index = self._number()
        part: Part = Refusal(text="", id=item.item_id) if refusal else Text(text="", id=item.item_id)
        if refusal:
            self._refusals.append(piece)
        if item.members and not item.opened:
            part = with_members(part, item.members)
        item.opened = True
        self._out.append(PartStarted(piece.index, part))

    def _text_done(self, event: JsonObject) -> None:
        self._complete_text(event, "text", refusal=False)

    def _refusal_done(self, event: JsonObject) -> None:
        self._complete_text(event, "refusal", refusal=True)

    def _complete_text(self, event: JsonObject, member: str, *, refusal: bool) -> None:
        whole = event.get(member)
        item = self._item(event, MESSAGE)
        if item is None or type(whole) is not str:
            return
        position = event.get("content_index")
        piece = item.piece(position if type(position) is int else 0)
        missing = "" if piece.ended else piece.missing(whole)
        if missing:
            self._grow_text(self._open_text(event, refusal=refusal), missing)

    def _annotation(self, event: JsonObject) -> None:
        annotation = event.get("annotation")
        if type(annotation) is not dict:
            return
        piece = self._open_text(event, refusal=False)
        if piece is not None and piece.index is not None:
            piece.annotations += 1
            self._out.append(PartGrew(piece.index, CitationAdded(decode_annotation(Fields(annotation)))))

    def _part_done(self, event: JsonObject) -> None:
        position = event.get("output_index")
        item = self._items.get(position) if type(position) is int else None
        body = event.get("part")
        if item is None or item.done or item.kind != MESSAGE or type(body) is not dict:
            return
        content = event.get("content_index")
        self._finish_piece(item, item.piece(content if type(content) is int else 0), body)

    def _finish_piece(self, item: _Item, piece: _Piece, body: JsonObject | None) -> None:
        if piece.ended:
            return
        if body is not None:
            refusal = body.get("type") == "refusal"
            whole = body.get("refusal" if refusal else "text")
            missing = piece.missing(whole) if type(whole) is str else ""
            if missing:
                if piece.index is None:
                    self._open_piece(item, piece, refusal=refusal)
                self._grow_text(piece, missing, _list(body.get("logprobs")) if not piece.pieces else None)
            annotations = body.get("annotations")
            for annotation in (annotations if type(annotations) is list else [])[piece.annotations :]:
                if type(annotation) is dict and piece.index is not None:
                    piece.annotations += 1
                    self._out.append(PartGrew(piece.index, CitationAdded(decode_annotation(Fields(annotation)))))
        piece.ended = True
        if piece.index is not None:
            self._out.append(PartEnded(piece.index))

    def _finish_message(self, item: _Item, body: JsonObject | None) -> None:
        content = body.get("content") if body is not None else None
        if body is not None and not item.members:
            item.members = message_members(body, home=False)
        for position, part in enumerate(content if type(content) is list else ()):
            if type(part) is dict:
                self._finish_piece(item, item.piece(position), part)
        for piece in item.pieces.values():
            self._finish_piece(item, piece, None)

    # Reasoning.

    def _summary_delta(self, event: JsonObject) -> None:
        self._think(event, event.get("delta"), "summary_index", ThinkingKind.SUMMARY)

    def _thought_delta(self, event: JsonObject) -> None:
        self._think(event, event.get("delta"), "content_index", ThinkingKind.FULL)

    def _summary_done(self, event: JsonObject) -> None:
        self._think_rest(event, "summary_index", ThinkingKind.SUMMARY)

    def _thought_done(self, event: JsonObject) -> None:
        self._think_rest(event, "content_index", ThinkingKind.FULL)

    def _think_rest(self, event: JsonObject, member: str, kind: ThinkingKind) -> None:
        whole = event.get("text")
        item = self._item(event, REASONING)
        if item is not None and type(whole) is str:
            self._think(event, item.piece(_key(event.get(member), kind)).missing(whole), member, kind)

    def _think(self, event: JsonObject, delta: JsonValue, member: str, kind: ThinkingKind) -> None:
        if not delta or type(delta) is not str:
            return
        item = self._item(event, REASONING)
        if item is not None:
            self._grow_thinking(item, _key(event.get(member), kind), delta, kind)

    def _grow_thinking(self, item: _Item, key: int, delta: str, kind: ThinkingKind) -> None:
        told = [position for position, piece in item.pieces.items() if piece.pieces]
        # The summary and the reasoning itself say the same: whichever came first is told.
        if told and (told[0] < 0) != (key < 0):
            return
        piece = item.piece(key)
        if item.order is None:
            item.order = self._number()
        if not item.opened:
            item.opened = True
            self._out.append(PartStarted(item.order, Thinking(text="", kind=kind, id=item.item_id)))
        separator = "\n\n" if told and not piece.pieces else ""
        piece.pieces.append(delta)
        self._out.append(PartGrew(item.order, TextDelta(separator + delta)))

    def _finish_reasoning(self, item: _Item, body: JsonObject | None) -> None:
        if item.order is None:
            item.order = self._number()
        if body is None:
            if not item.opened:
                self._out.append(
                    PartStarted(item.order, Thinking(text="", kind=ThinkingKind.WITHHELD, id=item.item_id))
                )
            self._out.append(PartEnded(item.order))
            return
        target = self._asked.target
        whole = decode_thinking(Fields(body), target.model, target.upstream)
        told_full = any(key < 0 and piece.pieces for key, piece in item.pieces.items())
        rest = (("content", ThinkingKind.FULL),) if told_full else (("summary", ThinkingKind.SUMMARY),)
        if not item.opened and whole.kind is ThinkingKind.FULL:
            rest = (("content", ThinkingKind.FULL),)
        for member, kind in rest:
            parts = body.get(member)
            for position, part in enumerate(parts if type(parts) is list else ()):
                text = part.get("text") if type(part) is dict else None
                if type(text) is str:
                    key = _key(position, kind)
                    missing = item.piece(key).missing(text)
                    if missing:
                        self._grow_thinking(item, key, missing, kind)
        if not item.opened:
            self._out.append(PartStarted(item.order, Thinking(text="", kind=whole.kind, id=whole.id)))
        if whole.seal is not None:
            self._out.append(PartGrew(item.order, SealSet(whole.seal)))
        self._out.append(PartEnded(item.order))

    # Calls.

    def _open_call(self, item: _Item, body: JsonObject) -> None:
        fields = Fields(body)
        name = fields.text("name")
        identity = fields.optional_text("call_id") or ""
        if not identity or identity in self._calls:
            identity = "call_" + self._mint.token(24)
        self._calls.add(identity)
        call = ToolCall(
            call_id=identity,
            name=name,
            arguments="",
            form=InputForm.TEXT if item.kind == CUSTOM_CALL else InputForm.JSON,
            namespace=fields.optional_text("namespace"),
            id=fields.optional_text("id"),
        )
        entry = self._reader.entry(name)
        if entry is not None:
            call = ToolCall(
                call_id=identity,
                name=entry.name,
                arguments="",
                form=entry.form,
                namespace=entry.namespace,
                id=call.id,
            )
            if entry.wrapped is Wrapped.INPUT:
                item.unwrapper = InputUnwrapper()
        item.call = call
        item.order = self._number()
        self._told.append(call)
        self._out.append(PartStarted(item.order, call))

    def _arguments_delta(self, event: JsonObject) -> None:
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return
        item = self._item(event, FUNCTION_CALL)
        if item is not None:
            self._grow_call(item, delta)

    def _arguments_done(self, event: JsonObject) -> None:
        item = self._item(event, FUNCTION_CALL)
        whole = event.get("arguments", event.get("input"))
        if item is not None and item.call is not None and type(whole) is str:
            self._grow_call(item, item.piece(0).missing(whole))

    def _grow_call(self, item: _Item, delta: str) -> None:
        # A call without a name is held until the item is done.
        if not delta or item.call is None or item.order is None:
            return
        item.piece(0).pieces.append(delta)
        if item.unwrapper is not None:
            delta = item.unwrapper.feed(delta)
        if delta:
            self._out.append(PartGrew(item.order, ArgumentsDelta(delta)))

    def _finish_call(self, item: _Item, body: JsonObject | None) -> None:
        if item.call is None:
            if body is None:
                return
            self._open_call(item, body)
        if body is not None:
            whole = body.get("input" if item.kind == CUSTOM_CALL else "arguments")
            if type(whole) is str:
                self._grow_call(item, item.piece(0).missing(whole))
        if item.order is None:
            return
        if item.unwrapper is not None:
            rest = item.unwrapper.close()
            if rest:
                self._out.append(PartGrew(item.order, ArgumentsDelta(rest)))
        self._out.append(PartEnded(item.order))


def _announced(call: ToolCall) -> ToolCall:
    return ToolCall(
        call_id=call.call_id,
        name=call.name,
        arguments="",
        form=call.form,
        namespace=call.namespace,
        id=call.id,
        extras=call.extras,
    )


def _key(position: JsonValue, kind: ThinkingKind) -> int:
    """Summaries count from 0 up, the reasoning itself from -1 down: one table holds both."""
    number = position if type(position) is int else 0
    return number if kind is ThinkingKind.SUMMARY else -1 - number


def _list(value: JsonValue) -> JsonList | None:
    return value if type(value) is list and value else None


_HANDLERS: dict[str, Callable[[StreamDecoder, JsonObject], None]] = {
    "response.output_text.delta": StreamDecoder._text_delta,
    "response.function_call_arguments.delta": StreamDecoder._arguments_delta,
    "response.custom_tool_call_input.delta": StreamDecoder._arguments_delta,
    "response.reasoning_summary_text.delta": StreamDecoder._summary_delta,
    "response.reasoning_text.delta": StreamDecoder._thought_delta,
    "response.reasoning.delta": StreamDecoder._thought_delta,
    "response.refusal.delta": StreamDecoder._refusal_delta,
    "response.created": StreamDecoder._begin,
    "response.queued": StreamDecoder._begin,
    "response.in_progress": StreamDecoder._begin,
    "response.output_item.added": StreamDecoder._added,
    "response.output_item.done": StreamDecoder._item_done,
    "response.content_part.done": StreamDecoder._part_done,
    "response.output_text.done": StreamDecoder._text_done,
    "response.refusal.done": StreamDecoder._refusal_done,
    "response.output_text.annotation.added": StreamDecoder._annotation,
    "response.function_call_arguments.done": StreamDecoder._arguments_done,
    "response.custom_tool_call_input.done": StreamDecoder._arguments_done,
    "response.reasoning_summary_text.done": StreamDecoder._summary_done,
    "response.reasoning_text.done": StreamDecoder._thought_done,
    "response.reasoning.done": StreamDecoder._thought_done,
    "response.completed": StreamDecoder._terminal,
    "response.incomplete": StreamDecoder._terminal,
    "response.failed": StreamDecoder._failed,
    "error": StreamDecoder._error,
}
