"""Calls of a stream, put together from fragments (S15) and ended where the wire does not say so (S2).

To which call a fragment belongs, first row that fits. "Its call" is the one of its id, else the one last seen at its
index, else (no index) the last one; "waits" is a call without a whole value, if exactly one is without:

    fragment                                    its call                                  then
    says nothing                                -                                         is nothing
    an id that a call has
      no name, or the call's                    is not whole, or the same value again     belongs to it, at this index
      the call's name, another whole value      is whole, at another index                opens a call (ids said twice)
      another name                              is whole, or both names are declared,     opens a call
                                                or at another index
      anything else                             any                                       belongs to it
    no name
      arguments that are not its call's again   is whole, and another one waits           belongs to that one
      an index that no call has, no id          another call waits                        belongs to that one
      an index that no call has                 -                                         opens a call
      anything else                             any                                       belongs to it
    a name
      an index that no call has                 -                                         opens a call
      an id                                     has one; the same name, and arguments     belongs to it: its server
                                                that only continue                        makes an id for each chunk
      an id                                     has one, or is whole                      opens a call
      no id, its call's value again             is whole, has an id                       belongs to it
      no id, another name                       is whole, or both are declared            opens a call
      no id, more arguments                     is whole                                  opens a call
      anything else                             any                                       belongs to it

A call is whole when its arguments are one whole JSON value; what comes after that is `rules.arguments_said`'s: the same
again is nothing, another value breaks the stream, because wrong arguments must never be run. A call is announced when
its name is known: a declared tool, or arguments came, or something else came. Arguments of an opening that cannot begin
a value and make the call that waits whole are that one's.
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
from dragoman.protocols.openai_chat.proofs import call_proof, proof_part, without_proof
from dragoman.protocols.openai_chat.shapes import NAME
from dragoman.rules.arguments import is_complete
from dragoman.rules.arguments_said import ArgumentsSaid
from dragoman.rules.toolnames import Wrapped
from dragoman.rules.unknowns import Unknowns, part_place
from dragoman.rules.unwrap import InputUnwrapper, ValueUnwrapper
from dragoman.wire.json import kind_of

_KNOWN = frozenset({"index", "id", "type", "function", "custom"})
_INNER = frozenset({"name", "arguments", "input"})
# No tool has a longer one, however many pieces it comes in.
_LONGEST_NAME = 1024
_SURPLUS = "more arguments came after a whole value"
_ARGUMENTS = "/choices/0/delta/tool_calls/0/function/arguments"
# A whole object ends with the first, and blanks may follow.
_MAY_BE_WHOLE = "} \t\r\n"


class _Call:
    """One call while it grows; `told` is its part, -1 before it is announced."""

    __slots__ = (
        "call_id",
        "custom",
        "ended",
        "extras",
        "given",
        "index",
        "name",
        "passed",
        "proof",
        "quick",
        "said",
        "told",
        "unwrapper",
    )

    def __init__(self, index: int | None, given: str, custom: bool, extras: Extras | None) -> None:
        self.index = index
        self.given = given
        self.custom = custom
        self.extras = extras
        # What proves the call, until it is told.
        self.proof: JsonObject = {}
        self.call_id = ""
        self.name = ""
        self.said = ArgumentsSaid(free=custom)
        self.told = -1
        self.ended = False
        # Whether something else began after it.
        self.passed = False
        # What was told, while nothing but its end, or a brace, can keep a piece from being told as it comes.
        self.quick: list[str] | None = None
        self.unwrapper: InputUnwrapper | ValueUnwrapper | None = None

    def hurry(self) -> None:
        """Let more be told as it comes, if it is an object and nobody has to look at it."""
        pieces = self.said.pieces
        slow = self.told < 0 or self.ended or self.passed or self.custom or self.unwrapper is not None
        if slow or not pieces or pieces[-1][-1] in _MAY_BE_WHOLE or pieces[0].lstrip()[:1] != "{":
            self.quick = None
        else:
            self.quick = pieces


class CallAssembly:
    """All calls of one answer."""

    def __init__(
        self, asked: Asked, mint: Mint, ledger: Ledger, unknowns: Unknowns, next_index: Callable[[], int]
    ) -> None:
        self._table = asked.table
        self._target = asked.target
        # At home the names on the wire are the client's own.
        self._names = frozenset(tool.name for tool in asked.request.tools if isinstance(tool, FunctionTool | TextTool))
        self._mint = mint
        self._ledger = ledger
        self._unknowns = unknowns
        self._next_index = next_index
        self._calls: list[_Call] = []
        # Those that opened since something else began.
        self._latest: list[_Call] = []
        # Those that did not end; a dictionary, because they end in any order.
        self._open_calls: dict[_Call, None] = {}
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
        if type(more) is not str or not more or call is None:
            return None
        pieces = call.quick
        # Only after a whole value, or with a brace, can it be something that was said before.
        if pieces is None or "{" in more:
            return None
        pieces.append(more)
        if more[-1] in _MAY_BE_WHOLE:
            call.quick = None
        return PartGrew(call.told, ArgumentsDelta(more))

    def take(self, fragment: JsonObject, events: list[Event]) -> None:
        """Take one fragment of one call."""
        inner = fragment.get("function")
        custom = bool(fragment.get("custom")) and not (isinstance(inner, dict) and any(inner.values()))
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
        usual = fragment.keys() <= _KNOWN and inner.keys() <= _INNER
        proof = {} if usual else call_proof(fragment)
        if proof:
            fragment = without_proof(fragment, proof)
        call = self._owner(index, given, name, arguments)
        if call is None:
            if not (given or name or arguments.strip()):
                # Some servers put an empty call into every answer.
                self._unknowns.members(inner, _INNER)
                self._unknowns.members(fragment, _KNOWN)
                return
            if arguments and not custom:
                arguments = self._returned(arguments, events)
            call = self._open(index, given, custom, fragment, events)
        else:
            self._follow(call, index, given)
        if name and name != call.name:
            self._name(call, name)
        if proof:
            self._prove(call, proof, events)
        if arguments:
            self._grow(call, arguments, events)
        elif call.told < 0 and self._declared(call.name):
            self._announce(call, events)
        call.hurry()
        if not usual:
            self._report(call, fragment)

    def restate(self, fragment: JsonObject, position: int, events: list[Event]) -> None:
        """Take a call of a whole message that came after the fragments: it is new only if nobody said it."""
        inner = fragment.get("function")
        if isinstance(inner, dict) and not self._by_id.get(_word(fragment.get("id"), "id")):
            name, arguments = inner.get("name"), arguments_text(inner.get("arguments"))
            if any(call.name == name and call.said.same(arguments) for call in self._calls):
                return
        self.take({"index": position, **fragment}, events)

    def _prove(self, call: _Call, proof: JsonObject, events: list[Event]) -> None:
        """Keep what proves a call until it is told; later it is told at once, and said again it is nothing new."""
        if proof == {key: call.proof.get(key) for key in proof}:
            return
        call.proof = {**call.proof, **proof}
        if call.told >= 0:
            self._tell_proof(call, events)

    def _tell_proof(self, call: _Call, events: list[Event]) -> None:
        index = self._next_index()
        events += (PartStarted(index, proof_part(call.call_id, call.proof, self._target)), PartEnded(index))

    def _report(self, call: _Call, fragment: JsonObject) -> None:
        """Report what a fragment says that nobody reads and the call's extras do not hold."""
        at = part_place(call.told)
        inner = fragment.get("custom" if call.custom else "function")
        if not isinstance(inner, dict):
            inner = {}
        self._unknowns.members(inner, _INNER, at)
        known = _KNOWN if call.extras is None else _KNOWN | call.extras.fields.keys()
        self._unknowns.members(fragment, known, at)

    def move_on(self, events: list[Event], *, to_call: bool = False) -> None:
        """Something else begins: calls that are whole end, so that nothing waits behind them."""
        # A call that was passed before ends with the fragment that completes it.
        waiting: list[_Call] = []
        for call in self._latest:
            if call.told < 0 and call.name:
                self._announce(call, events)
            if call.ended:
                continue
            call.passed, call.quick = True, None
            if call.told >= 0 and call.said.complete():
                if to_call and call.said.silent:
                    # Calls that are announced together may all get their arguments later.
                    waiting.append(call)
                else:
                    self._end(call, events)
        self._latest = waiting

    def end(self, events: list[Event]) -> None:
        """No more fragments come."""
        bare = any(call.name and not call.ended and call.said.silent for call in self._calls)
        for call in self._calls:
            if call.told < 0 and call.name:
                self._announce(call, events)
            if call.told >= 0 and not call.ended:
                self._end(call, events)
            elif call.told < 0 and not call.ended:
                call.ended = True
                self._lose(call, bare)
            if call.said.surplus():
                self._ledger.dropped(Feature.ARGUMENTS, part_place(call.told), _SURPLUS)

    def _lose(self, call: _Call, bare: bool) -> None:
        """A call that never got a name: nobody can run it."""
        if bare and not call.said.silent:
            # They may well be the arguments that another call is without.
            raise WireError(_ARGUMENTS, "the name of the call they are for", "none")
        if call.extras is not None:
            self._unknowns.members(call.extras.fields, ())
        self._unknowns.members(call.proof, ())
        self._ledger.dropped(Feature.FUNCTION_TOOL, ("parts",), "a call came without a name")

    @property
    def unfinished(self) -> bool:
        """Whether the last call lacks the end of its arguments."""
        last = self._calls[-1] if self._calls else None
        return last is not None and not last.custom and not last.said.silent and not last.said.complete()

    def _owner(self, index: int | None, given: str, name: str, arguments: str) -> _Call | None:
        """The call a fragment belongs to; None if it opens one (the table above)."""
        known = self._by_id.get(given) if given else None
        if known is not None:
            return None if name and self._is_other(known, index, name, arguments) else known
        call = self._by_index.get(index) if index is not None else None
        if not name:
            return self._continued(call, index, given, arguments)
        if call is None and index is None and self._calls:
            call = self._calls[-1]
        if call is None:
            return None
        whole = call.said.complete()
        if given:
            if call.given and not whole and name == call.name and _continues(call, arguments):
                return call
            return None if call.given or whole else call
        if whole and arguments and call.given and (call.said.silent or call.said.same(arguments)):
            return call if name == call.name else None
        if name != call.name and self._declared(name) and self._declared(call.name):
            return None
        return None if whole and (arguments or name != call.name) else call

    def _is_other(self, known: _Call, index: int | None, name: str, arguments: str) -> bool:
        """Whether a fragment with the id of a call is the opening of another one: some servers give one id to all."""
        elsewhere = index is not None and known.index is not None and index != known.index
        if name == known.name or not known.name:
            return (
                elsewhere
                and not known.said.silent
                and known.said.complete()
                and is_complete(arguments)
                and not known.said.same(arguments)
            )
        return elsewhere or known.said.complete() or (self._declared(name) and self._declared(known.name))

    def _continued(self, call: _Call | None, index: int | None, given: str, arguments: str) -> _Call | None:
        """The call that a fragment without a name continues."""
        if call is None:
            if given and (index is not None or not self._calls):
                return None
            waiting = self._waiting()
            if waiting is not None or index is not None:
                return waiting
            return self._calls[-1] if self._calls else None
        if not arguments.strip() or not call.said.complete() or call.said.same(arguments):
            return call
        return self._waiting() or call

    def _waiting(self) -> _Call | None:
        """The only call that is without a whole value; else the only one whose value may be a stand-in."""
        found: _Call | None = None
        for call in self._open_calls:
            if not call.said.complete():
                if found is not None:
                    return None
                found = call
        if found is not None:
            return found
        silent = [call for call in self._open_calls if call.said.silent]
        return silent[0] if len(silent) == 1 else None

    def _returned(self, arguments: str, events: list[Event]) -> str:
        """What an opening says of its own arguments: the end of those of the call before it is given back to that."""
        waiting = None if arguments.lstrip()[:1] == "{" else self._waiting()
        if waiting is None or waiting.said.silent or not is_complete("".join([*waiting.said.pieces, arguments])):
            return arguments
        self._grow(waiting, arguments, events)
        return ""

    def _follow(self, call: _Call, index: int | None, given: str) -> None:
        """Remember under which id and index a call was seen."""
        if given:
            if not call.given and call.told < 0:
                call.given = given
            self._by_id.setdefault(given, call)
        if index is not None and (index not in self._by_index or (given and self._by_id[given] is call)):
            self._by_index[index] = call

    def _open(self, index: int | None, given: str, custom: bool, fragment: JsonObject, events: list[Event]) -> _Call:
        self.move_on(events, to_call=True)
        rest: JsonObject = {key: value for key, value in fragment.items() if key not in _KNOWN and value is not None}
        call = _Call(index, given, custom, Extras(origin=NAME, fields=rest) if rest else None)
        self._calls.append(call)
        self._latest.append(call)
        self._open_calls[call] = None
        if index is not None:
            self._by_index[index] = call
        if given:
            self._by_id.setdefault(given, call)
        return call

    def _name(self, call: _Call, name: str) -> None:
        """Set the name once; different pieces are joined while nothing else is known of the call."""
        if not call.name:
            call.name = name
        elif call.told < 0 and call.said.silent and not self._declared(call.name) and len(call.name) < _LONGEST_NAME:
            # Some servers say all of it so far each time.
            whole = name.startswith(call.name) and not self._declared(call.name + name)
            call.name = name if whole or self._declared(name) else call.name + name

    def _declared(self, name: str) -> bool:
        return name in self._table or (len(self._table) == 0 and name in self._names)

    def _grow(self, call: _Call, arguments: str, events: list[Event]) -> None:
        if call.ended and (call.custom or not call.said.complete()):
            if arguments.strip() and not call.said.same(arguments):
                self._ledger.dropped(
                    Feature.ARGUMENTS, part_place(call.told), "more arguments came after the call's end"
                )
            return
        told = call.said.take(arguments, _ARGUMENTS)
        if call.told < 0:
            if call.name:
                self._announce(call, events)
        elif told:
            self._tell(call, told, events)
        if call.passed and not call.ended and call.told >= 0 and not call.said.silent and call.said.complete():
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
        call.call_id = call_id
        if call.proof:
            self._tell_proof(call, events)
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
        for piece in call.said.pieces:
            self._tell(call, piece, events)

    def _end(self, call: _Call, events: list[Event]) -> None:
        call.ended, call.quick = True, None
        self._open_calls.pop(call, None)
        held = call.said.rest()
        if held:
            self._tell(call, held, events)
        if call.unwrapper is not None:
            rest = call.unwrapper.close()
            if rest:
                events.append(PartGrew(call.told, ArgumentsDelta(rest)))
            if call.unwrapper.bent:
                self._ledger.approximated(Feature.ARGUMENTS, ("parts", call.told), BENT)
        events.append(PartEnded(call.told))


def _continues(call: _Call, arguments: str) -> bool:
    """Whether arguments can only be more of an unfinished value: they do not begin one."""
    return not call.said.silent and arguments.strip()[:1] not in ("", "{")


def _word(value: JsonValue, key: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WireError(f"/choices/0/delta/tool_calls/0/{key}", "string", kind_of(value))
    return value
