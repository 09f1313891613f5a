"""Open calls of a stream: their arguments are emitted once, and never two different values."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.model.events import ArgumentsDelta, PartEnded, PartGrew, PartStarted
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import InputForm, ToolCall
from dragoman.protocols.openai_responses.open_item import ItemContext, OpenItem, OpenPiece, beyond_all, remainder_after
from dragoman.protocols.openai_responses.shapes import CALL_MEMBERS, CUSTOM_CALL
from dragoman.rules.arguments import Completeness
from dragoman.rules.extras import part_place
from dragoman.rules.input_wrapping import InputUnwrapper
from dragoman.rules.tool_table import Wrapped, report_bent
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode, encode_text

_BEFORE_VALUES = (":", "[", ",")


class OpenCall(OpenItem):
    """A function or free-text call. A call without a name is held until it has one."""

    __slots__ = ("_call", "_completeness", "_foreign", "_index", "_name", "_parsed", "_piece", "_unwrapper", "call_id")

    def __init__(self, context: ItemContext, kind: str, body: JsonObject) -> None:
        super().__init__(context, kind, body)
        self._piece = OpenPiece()
        # Whether its arguments form one value, and that value once it was needed.
        self._completeness = Completeness()
        self._parsed: JsonValue = None
        self._call: ToolCall | None = None
        # Whether it is not meant for the client, which gets it in full at its end.
        self._foreign = False
        self._index = 0
        self._name: JsonValue = None
        self._unwrapper: InputUnwrapper | None = None
        # The ID on the wire, which may differ from the client's.
        self.call_id = body.get("call_id")
        if body.get("name"):
            self._open(body)

    def arguments_delta(self, event: JsonObject) -> None:
        """More of the arguments, or of the free text."""
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return
        if delta[0] == "{" and self._piece.pieces and self.kind != CUSTOM_CALL:
            delta = self._new(delta)
        if delta:
            self._grow(delta)

    def growing(self, event: JsonObject) -> tuple[int, OpenPiece] | None:
        return None if self._call is None or self._unwrapper is not None else (self._index, self._piece)

    def _new(self, delta: str) -> str:
        """The new part of a fragment that repeats the text so far. If it may be a nested value, it is taken as that."""
        pieces = self._piece.pieces
        last = next((text[-1] for piece in reversed(pieces) if (text := piece.rstrip())), "")
        more = None if last in _BEFORE_VALUES else remainder_after(pieces, delta)
        return delta if more is None else more

    def arguments_done(self, event: JsonObject) -> None:
        """The complete arguments, or the complete free text."""
        self._name = event.get("name")
        self._complete(event.get("arguments", event.get("input")))

    def silent(self) -> bool:
        return not self._piece.pieces

    def fits(self, body: JsonObject) -> bool:
        """Whether this may be the complete form of the call: the same name, and arguments that continue the emitted
        ones."""
        if self._name and body.get("name") != self._name:
            return False
        whole = _arguments(body)
        if self.silent():
            return not self.done or not whole or _value(whole) == {}
        return not whole or self._missing_arguments(whole) is not None

    def is_other(self, body: JsonObject) -> bool:
        pairs = ((self.call_id, body.get("call_id")), (self._name, body.get("name")))
        return any(one and other and one != other for one, other in pairs)

    def announce(self, body: JsonObject) -> None:
        """Process a repeated announcement, perhaps now with a name."""
        super().announce(body)
        self.call_id = self.call_id or body.get("call_id")
        if self._call is None and body.get("name"):
            self._open(body)

    def finish(self, body: JsonObject | None) -> None:
        if self._call is None:
            if body is None or not body.get("name"):
                body = {**self.announced, **(body or {}), "name": self._name}
            if not body["name"]:
                self.context.unknowns.name(self.kind)
                return
            self.kind = CUSTOM_CALL if body.get("type") == CUSTOM_CALL else self.kind
            self._open(body)
        if self._foreign:
            super().finish(body or {**self.announced, "input": self._piece.text})
            return
        if body is not None:
            self._complete(_arguments(body))
            self.repeat(body)
        if self.silent():
            self._complete(_arguments(self.announced))
        self._report(self.announced)
        context = self.context
        if self._unwrapper is not None:
            rest = self._unwrapper.close()
            if rest:
                context.out.append(PartGrew(self._index, ArgumentsDelta(rest)))
            if self._unwrapper.bent:
                report_bent(self._index, context.ledger)
        context.out.append(PartEnded(self._index))

    def repeat(self, body: JsonObject) -> None:
        """Report extras of the call. The same call with other arguments is an error."""
        self._report(body)
        if body.get("call_id") == self.call_id and not self.context.translation.relayed and not self.fits(body):
            raise _differs(_arguments(body))

    def _report(self, body: JsonObject) -> None:
        self.context.unknowns.members(body, CALL_MEMBERS, part_place(self._index))

    def _open(self, body: JsonObject) -> None:
        context = self.context
        fields = Fields(body)
        name = fields.text("name")
        self._name = name
        identity = fields.optional_text("call_id") or ""
        self.call_id = self.call_id or identity
        self._foreign = context.reader.is_foreign(self.kind, name)
        if self._foreign:
            return
        if not identity or identity in context.calls:
            identity = "call_" + context.mint.token(24)
        context.calls.add(identity)
        call = ToolCall(
            call_id=identity,
            name=name,
            arguments="",
            form=InputForm.TEXT if self.kind == CUSTOM_CALL else InputForm.JSON,
            namespace=fields.optional_text("namespace"),
            id=fields.optional_text("id"),
        )
        entry = context.reader.entry(name)
        if entry is not None:
            call = replace(call, name=entry.name, form=entry.form, namespace=entry.namespace)
            if entry.wrapped is Wrapped.INPUT:
                self._unwrapper = InputUnwrapper()
        self._call = call
        self._index = context.number()
        context.emitted_parts.append(call)
        context.out.append(PartStarted(self._index, call))
        if self._piece.pieces:
            self._emit(self._piece.text)

    def _complete(self, whole: JsonValue) -> None:
        if type(whole) is dict:
            # Some servers send arguments as an object instead of text.
            whole = encode_text(whole) if whole else ""
        if type(whole) is not str or not whole:
            return
        missing = self._missing_arguments(whole) if self._piece.pieces else whole
        if missing is None and not self.context.translation.relayed:
            raise _differs(whole)
        if missing:
            self._grow(missing)

    def _missing_arguments(self, whole: str) -> str | None:
        """The part of the arguments beyond the emitted ones; None if they differ."""
        more = beyond_all((self._piece,), whole)
        if more is not None:
            return more
        if not self._completeness.of(self._piece.pieces):
            return None
        if self._parsed is None:
            self._parsed = _value(self._piece.text)
        parsed = _value(whole)
        # The same value in another spelling, or an empty one after a complete one, is not new.
        return "" if self._parsed is not None and (parsed == self._parsed or parsed in (None, {})) else None

    def _grow(self, delta: str) -> None:
        self._piece.add(delta)
        if self._call is not None:
            self._emit(delta)

    def _emit(self, delta: str) -> None:
        if self._unwrapper is not None:
            delta = self._unwrapper.feed(delta)
            if not delta:
                return
        self.context.out.append(PartGrew(self._index, ArgumentsDelta(delta)))


def _arguments(body: JsonObject) -> str:
    value = body.get("arguments") or body.get("input")
    if type(value) is dict:
        return encode_text(value)
    return value if type(value) is str else ""


def _value(text: str) -> JsonValue:
    try:
        return decode(text)
    except WireError:
        return None


def _differs(whole: JsonValue) -> WireError:
    return WireError("/arguments", "the arguments that were told", f"others: {str(whole)[:80]}")
