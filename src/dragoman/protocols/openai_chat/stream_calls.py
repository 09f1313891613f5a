"""Calls of a stream, put together from fragments (S15) and ended where the wire does not say so (S2).

To which call a fragment belongs, first row that fits ("its call": the one last opened at its index, else the one of its
id, else the last one):

    fragment                                                   its call                          then
    an index that no call has                                  -                                 opens a call
    no index, and no call yet                                  -                                 opens a call
    a name, an id that another call at this index was given    -                                 belongs to that call
    a name, an id other than the one its call was given        was given one                     opens a call
    a name, an id                                              was given none, is complete       opens a call
    a name, an id                                              was given none, is not complete   belongs to it
    another name, or a name and more arguments                 is complete                       opens a call
    anything else                                              any                               belongs to it

A call is complete when its arguments are one whole JSON value. It is announced when its name is known: a declared tool,
or arguments came, or something else came.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.errors import WireError
from dragoman.model.events import ArgumentsDelta, Event, PartEnded, PartGrew, PartStarted
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras, InputForm, ToolCall
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.protocols.codec import Asked, Mint
from dragoman.protocols.openai_chat.answers import BENT
from dragoman.protocols.openai_chat.messages import arguments_text
from dragoman.protocols.openai_chat.shapes import NAME
from dragoman.rules.arguments import Completeness
from dragoman.rules.toolnames import Wrapped
from dragoman.rules.unknowns import Unknowns, part_place
from dragoman.rules.unwrap import InputUnwrapper, ValueUnwrapper
from dragoman.wire.json import kind_of

_KNOWN = frozenset({"index", "id", "type", "function", "custom"})
_INNER = frozenset({"name", "arguments", "input"})
# No tool has a longer one, however many pieces it comes in.
_LONGEST_NAME = 1024


class _Call:
    """One call while it grows; `told` is its part, -1 before it is announced."""

    __slots__ = (
        "_completeness",
        "custom",
        "ended",
        "extras",
        "given",
        "index",
        "name",
        "passed",
        "pieces",
        "told",
        "unwrapper",
    )

    def __init__(self, index: int | None, given: str, custom: bool, extras: Extras | None) -> None:
        self.index = index
        self.given = given
        self.custom = custom
        self.extras = extras
        self.name = ""
        self.pieces: list[str] = []
        self._completeness = Completeness()
        self.told = -1
        self.ended = False
        # Whether something else began after it.
        self.passed = False
        self.unwrapper: InputUnwrapper | ValueUnwrapper | None = None

    def complete(self) -> bool:
        """Whether the arguments are one whole JSON value; free text never says so."""
        return not self.custom and self._completeness.of(self.pieces)


class CallAssembly:
    """All calls of one answer."""

    def __init__(
        self, asked: Asked, mint: Mint, ledger: Ledger, unknowns: Unknowns, next_index: Callable[[], int]
    ) -> None:
        self._table = asked.table
        # At home the names on the wire are the client's own.
        self._names = frozenset(tool.name for tool in asked.request.tools if isinstance(tool, FunctionTool | TextTool))
        self._mint = mint
        self._ledger = ledger
        self._unknowns = unknowns
        self._next_index = next_index
        self._calls: list[_Call] = []
        # Those that opened since something else began.
        self._latest: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._ids: set[str] = set()
        self.any_told = False

    def next(self, fragment: JsonValue) -> PartGrew | None:
        """The one event of a fragment that only brings more arguments, exactly as `take` tells it; None for others."""
        if type(fragment) is not dict or len(fragment) != 2:
            return None
        inner, index = fragment.get("function"), fragment.get("index")
        if type(inner) is not dict or len(inner) != 1 or type(index) is not int:
            return None
        call, more = self._by_index.get(index), inner.get("arguments")
        if type(more) is not str or not more or call is None or call.told < 0:
            return None
        if call.ended or call.passed or call.unwrapper is not None:
            return None
        call.pieces.append(more)
        return PartGrew(call.told, ArgumentsDelta(more))

    def take(self, fragment: JsonObject, events: list[Event]) -> None:
        """Take one fragment of one call."""
        inner = fragment.get("function")
        custom = inner is None and fragment.get("custom") is not None
        if custom:
            inner = fragment.get("custom")
        if inner is None:
            inner = {}
        elif not isinstance(inner, dict):
            raise WireError("/choices/0/delta/tool_calls/0/function", "object", kind_of(inner))
        index = fragment.get("index")
        if index is not None and type(index) is not int:
            raise WireError("/choices/0/delta/tool_calls/0/index", "integer", kind_of(index))
        given, name = _word(fragment.get("id"), "id"), _word(inner.get("name"), "name")
        arguments = arguments_text(inner.get("input") if custom else inner.get("arguments"))
        call = self._owner(index, given, name, arguments)
        if call is None:
            call = self._open(index, given, custom, fragment, events)
        elif given and not call.given and call.told < 0:
            call.given = given
            self._by_id.setdefault(given, call)
        if name and name != call.name:
            self._name(call, name)
        if arguments:
            self._grow(call, arguments, events)
        elif call.told < 0 and self._declared(call.name):
            self._announce(call, events)
        self._report(call, fragment, inner)

    def _report(self, call: _Call, fragment: JsonObject, inner: JsonObject) -> None:
        """Report what a fragment says that nobody reads and the call's extras do not hold."""
        at = part_place(call.told)
        self._unknowns.members(inner, _INNER, at)
        known = _KNOWN if call.extras is None else _KNOWN | call.extras.fields.keys()
        self._unknowns.members(fragment, known, at)

    def move_on(self, events: list[Event]) -> None:
        """Something else begins: calls that are complete end, so that nothing waits behind them."""
        # A call that was passed before ends with the fragment that completes it.
        for call in self._latest:
            if call.told < 0 and call.name:
                self._announce(call, events)
            if not call.ended:
                call.passed = True
                if call.told >= 0 and call.complete():
                    self._end(call, events)
        self._latest.clear()

    def end(self, events: list[Event]) -> None:
        """No more fragments come."""
        for call in self._calls:
            if call.told < 0 and call.name:
                self._announce(call, events)
            if call.told >= 0 and not call.ended:
                self._end(call, events)
            elif call.told < 0 and not call.ended:
                call.ended = True
                if call.extras is not None:
                    self._unknowns.members(call.extras.fields, ())
                self._ledger.dropped(Feature.FUNCTION_TOOL, ("parts",), "a call came without a name")

    @property
    def unfinished(self) -> bool:
        """Whether the last call lacks the end of its arguments."""
        last = self._calls[-1] if self._calls else None
        return last is not None and not last.custom and bool(last.pieces) and not last.complete()

    def _owner(self, index: int | None, given: str, name: str, arguments: str) -> _Call | None:
        """The call a fragment belongs to; None if it opens one (the table above)."""
        call = self._by_index.get(index) if index is not None else self._by_id.get(given)
        if call is None:
            if index is not None or not self._calls:
                return None
            call = self._calls[-1]
        if not name:
            return call
        if given and given != call.given:
            known = self._by_id.get(given)
            if known is not None and known.index == index:
                return known
            if call.given or call.complete():
                return None
        if (arguments or name != call.name) and call.complete():
            return None
        return call

    def _open(self, index: int | None, given: str, custom: bool, fragment: JsonObject, events: list[Event]) -> _Call:
        self.move_on(events)
        rest: JsonObject = {key: value for key, value in fragment.items() if key not in _KNOWN and value is not None}
        call = _Call(index, given, custom, Extras(origin=NAME, fields=rest) if rest else None)
        self._calls.append(call)
        self._latest.append(call)
        if index is not None:
            self._by_index[index] = call
        if given:
            self._by_id.setdefault(given, call)
        return call

    def _name(self, call: _Call, name: str) -> None:
        """Set the name once; different pieces are joined while nothing else is known of the call."""
        if not call.name:
            call.name = name
        elif call.told < 0 and not call.pieces and not self._declared(call.name) and len(call.name) < _LONGEST_NAME:
            call.name += name

    def _declared(self, name: str) -> bool:
        return name in self._table or (len(self._table) == 0 and name in self._names)

    def _grow(self, call: _Call, arguments: str, events: list[Event]) -> None:
        if call.ended:
            if arguments.strip():
                self._ledger.dropped(Feature.ARGUMENTS, ("parts", call.told), "more arguments came after a whole value")
            return
        call.pieces.append(arguments)
        if call.told < 0:
            if call.name:
                self._announce(call, events)
            return
        self._tell(call, arguments, events)
        if call.passed and call.complete():
            self._end(call, events)

    def _tell(self, call: _Call, arguments: str, events: list[Event]) -> None:
        if call.unwrapper is not None:
            arguments = call.unwrapper.feed(arguments)
        if arguments:
            events.append(PartGrew(call.told, ArgumentsDelta(arguments)))

    def _announce(self, call: _Call, events: list[Event]) -> None:
        entry = self._table.restored(call.name)
        form = InputForm.TEXT if call.custom else InputForm.JSON
        if entry is not None:
            form = entry.form
            if not call.custom and (entry.wrapped is Wrapped.INPUT or entry.form is InputForm.TEXT):
                call.unwrapper = InputUnwrapper()
            elif not call.custom and entry.wrapped is Wrapped.VALUE:
                call.unwrapper = ValueUnwrapper()
        call_id = call.given
        if not call_id or call_id in self._ids:
            call_id = f"call_{self._mint.token(24)}"
        self._ids.add(call_id)
        call.told = self._next_index()
        self.any_told = True
        part = ToolCall(
            call_id=call_id,
            name=entry.name if entry is not None else call.name,
            namespace=entry.namespace if entry is not None else None,
            arguments="",
            form=form,
            extras=call.extras,
        )
        events.append(PartStarted(call.told, part))
        for piece in call.pieces:
            self._tell(call, piece, events)

    def _end(self, call: _Call, events: list[Event]) -> None:
        call.ended = True
        if call.unwrapper is not None:
            rest = call.unwrapper.close()
            if rest:
                events.append(PartGrew(call.told, ArgumentsDelta(rest)))
            if call.unwrapper.bent:
                self._ledger.approximated(Feature.ARGUMENTS, ("parts", call.told), BENT)
        events.append(PartEnded(call.told))


def _word(value: JsonValue, key: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WireError(f"/choices/0/delta/tool_calls/0/{key}", "string", kind_of(value))
    return value
