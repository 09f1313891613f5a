"""Call matching: finds the call of a stream that a fragment belongs to (S15).

The first matching row applies. "Its call" is the call with its ID, else the latest one at its index, else (no index)
the last one. "Waits" means that exactly one call lacks a complete value, and it is this one.

    fragment                                    its call                                  action
    empty                                       -                                         ignored
    an ID that a call has
      no name, or the call's                    incomplete, or the same value again       belongs to it, at this index
      the call's name, another full value       complete, at another index                opens a call (repeated ID)
      another name                              complete, or both names are declared,     opens a call
                                                or at another index
      other                                     any                                       belongs to it
    no name
      arguments that begin a value, after a     none, or complete                         opens a call of that name
      fragment with only the name
      arguments other than its call's again     complete, and another one waits           belongs to the waiting call
      an unknown index, no ID                   another call waits                        belongs to the waiting call
      an unknown index, no ID                   the last call's value again               belongs to the last call
      an unknown index, an ID                   another waits, with a name, without ID    belongs to the waiting call
      an unknown index                          -                                         opens a call
      other                                     any                                       belongs to it
    a name
      no ID, the name of a call with an ID      none or complete; that call waits, and    belongs to the waiting call
                                                the arguments do not begin others
      no ID, the last call's value again        none or complete; the last has an ID      belongs to the last call
      an unknown index                          -                                         opens a call
      an ID                                     has an ID; the same name, and arguments   belongs to it: its server
                                                that only continue                        creates an ID per chunk
      an ID                                     has an ID, or is complete                 opens a call
      no ID, its call's value again             complete, and calls have IDs              belongs to it
      no ID, another name                       complete, or both are declared            opens a call
      no ID, more arguments                     complete                                  opens a call
      other                                     any                                       belongs to it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TypeAlias

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Extras
from dragoman.rules.argument_assembly import ArgumentAssembler, meaning_of
from dragoman.rules.arguments import is_complete
from dragoman.rules.input_wrapping import InputUnwrapper, ValueUnwrapper
from dragoman.rules.tool_table import ToolTable

EXPECTED_MEMBERS = frozenset({"index", "id", "type", "function", "custom"})
Meaning: TypeAlias = tuple[str, Hashable]
# A complete object ends with the first; white space may follow.
MAY_END_VALUE = "} \t\r\n"


class StreamedCall:
    """One growing call. `part_index` is its part, -1 before it is emitted."""

    __slots__ = (
        "arguments",
        "call_id",
        "custom",
        "ended",
        "expected_members",
        "extras",
        "given",
        "index",
        "meaning",
        "name",
        "number",
        "part_index",
        "passed",
        "quick",
        "robbed",
        "signature",
        "unwrapper",
    )

    def __init__(self, number: int, index: int | None, given: str, custom: bool, extras: Extras | None) -> None:
        self.number = number
        self.index = index
        self.given = given
        self.custom = custom
        self.extras = extras
        # Members that its fragments may have without being reported.
        self.expected_members = EXPECTED_MEMBERS if extras is None else EXPECTED_MEMBERS | extras.fields.keys()
        # Name and arguments under which `Restated` finds it.
        self.meaning: Meaning | None = None
        self.signature: JsonObject = {}
        self.call_id = ""
        self.name = ""
        self.arguments = ArgumentAssembler(free=custom)
        self.part_index = -1
        self.ended = False
        # Whether another part began after it.
        self.passed = False
        # Whether its arguments were assigned to another call.
        self.robbed = False
        # Emitted fragments, while only the end or a brace can stop direct emission.
        self.quick: list[str] | None = None
        self.unwrapper: InputUnwrapper | ValueUnwrapper | None = None

    def update_quick(self) -> None:
        """Emit further fragments directly, if they continue an object that needs no inspection."""
        pieces = self.arguments.pieces
        slow = self.part_index < 0 or self.ended or self.passed or self.custom or self.unwrapper is not None
        slow = slow or self.arguments.in_doubt
        if slow or not pieces or pieces[-1][-1] in MAY_END_VALUE or pieces[0].lstrip()[:1] != "{":
            self.quick = None
        else:
            self.quick = pieces


class CallMatcher:
    """The calls of one response, by their IDs and indexes."""

    __slots__ = ("_names", "_silent", "_table", "_unfinished", "by_id", "by_index", "calls", "loose")

    def __init__(self, table: ToolTable, names: frozenset[str]) -> None:
        self._table = table
        # For the same protocol, wire names are the client's own.
        self._names = names
        self.calls: list[StreamedCall] = []
        # Open calls with incomplete arguments at the last check, and calls with only a placeholder. Dictionaries,
        # because calls end in any order. Each is checked again only after new arguments: checking all for every new
        # call takes quadratic time.
        self._unfinished: dict[StreamedCall, None] = {}
        self._silent: dict[StreamedCall, None] = {}
        self.by_index: dict[int, StreamedCall] = {}
        self.by_id: dict[str, StreamedCall] = {}
        # A name that was repeated after a complete value, without an ID: more arguments open a call of it.
        self.loose = ""

    def declared(self, name: str) -> bool:
        return name in self._table or (len(self._table) == 0 and name in self._names)

    def is_finished(self, call: StreamedCall) -> bool:
        return not call.arguments.silent and not call.arguments.in_doubt and call.arguments.complete()

    def owner(self, index: int | None, given: str, name: str, arguments: str) -> StreamedCall | None:
        """The call that a fragment belongs to; None if it opens one (the table above)."""
        same_id = self.by_id.get(given) if given else None
        if same_id is not None:
            return None if name and self._is_other(same_id, index, name, arguments) else same_id
        call = self.by_index.get(index) if index is not None else None
        if not name:
            return self._continued(call, index, given, arguments)
        if call is None and index is None and self.calls:
            call = self.calls[-1]
        if not given and (named := self._named(call, name, arguments)) is not None:
            return named
        if call is None:
            return None
        whole = call.arguments.complete()
        if given:
            if call.given and not whole and name == call.name and _continues(call, arguments):
                return call
            return None if call.given or whole else call
        if whole and arguments and self.by_id and (call.arguments.silent or call.arguments.same(arguments)):
            return call if name == call.name else None
        if name != call.name and self.declared(name) and self.declared(call.name):
            return None
        return None if whole and (arguments or name != call.name) else call

    def _is_other(self, call: StreamedCall, index: int | None, name: str, arguments: str) -> bool:
        """Whether a fragment with a call's ID opens another call: some servers give one ID to all."""
        elsewhere = index is not None and call.index is not None and index != call.index
        if name == call.name or not call.name:
            return (
                elsewhere
                and not call.arguments.silent
                and call.arguments.complete()
                and is_complete(arguments)
                and not call.arguments.same(arguments)
            )
        return elsewhere or call.arguments.complete() or (self.declared(name) and self.declared(call.name))

    def is_next(self, call: StreamedCall | None, index: int | None, given: str, arguments: str) -> bool:
        """Whether arguments without a name begin those of a call that has only its name."""
        if not self.loose or given in self.by_id or arguments.lstrip()[:1] != "{":
            return False
        if call is None:
            return True
        elsewhere = index is None or self.by_index.get(index) is not call
        return call.arguments.complete() and (call.name == self.loose or (call.arguments.silent and elsewhere))

    def _named(self, call: StreamedCall | None, name: str, arguments: str) -> StreamedCall | None:
        """The call whose name is repeated without its ID, at an unknown index."""
        if call is not None and not call.arguments.complete():
            return None
        if call is not None and call.name == name and (call.arguments.silent or call.arguments.same(arguments)):
            return None
        waiting = self.waiting()
        if waiting is None:
            return self._repeated(name, arguments)
        if waiting is call or not waiting.given or waiting.name != name:
            return None
        assembled = waiting.arguments
        if assembled.silent or assembled.before_value or assembled.begins(arguments) or arguments.lstrip()[:1] != "{":
            return waiting
        return None

    def _repeated(self, name: str, arguments: str) -> StreamedCall | None:
        """The last call, if a fragment repeats it without its ID or name."""
        last = self.calls[-1] if self.calls else None
        if last is None or (name and (name != last.name or not last.given)):
            return None
        return last if arguments.strip() and last.arguments.same(arguments) else None

    def _continued(
        self, call: StreamedCall | None, index: int | None, given: str, arguments: str
    ) -> StreamedCall | None:
        """The call that a fragment without a name continues."""
        if call is None:
            return self._unplaced(index, given, arguments)
        if not arguments.strip() or not call.arguments.complete():
            return call
        waiting = self.waiting()
        if call.arguments.same(arguments):
            if waiting is not None and call.arguments.silent and lacks(waiting):
                return waiting
            if waiting is not None and not call.arguments.silent:
                waiting.robbed = True
            return call
        if call.arguments.silent and waiting is not None and waiting.arguments.stood_in:
            # Its server sends a placeholder before all arguments: these are the real ones.
            return call
        return waiting or call

    def _unplaced(self, index: int | None, given: str, arguments: str) -> StreamedCall | None:
        """The call that a fragment without a name continues, if its index and ID are unknown."""
        waiting = self.waiting()
        if given and (index is not None or not self.calls):
            # An ID may arrive later than the name.
            return waiting if waiting is not None and waiting.name and not waiting.given else None
        if waiting is None or waiting.arguments.complete():
            waiting = self._repeated("", arguments) or waiting
        if waiting is not None or index is not None:
            return waiting
        return self.calls[-1] if self.calls else None

    def grew(self, call: StreamedCall) -> None:
        """Record that a call opened, or got arguments."""
        if not call.ended:
            self._silent.pop(call, None)
            self._unfinished[call] = None

    def close(self, call: StreamedCall) -> None:
        self._unfinished.pop(call, None)
        self._silent.pop(call, None)

    def waiting(self) -> StreamedCall | None:
        """The only call without a complete value; else the only one whose value may be a placeholder."""
        unfinished: list[StreamedCall] = []
        while self._unfinished and len(unfinished) < 2:
            call, _ = self._unfinished.popitem()
            if not call.arguments.complete():
                unfinished.append(call)
            elif call.arguments.silent:
                self._silent[call] = None
        self._unfinished.update(dict.fromkeys(unfinished))
        if not unfinished and len(self._silent) == 1:
            return next(iter(self._silent))
        return unfinished[0] if len(unfinished) == 1 else None

    def follow(self, call: StreamedCall, index: int | None, given: str) -> None:
        if given:
            if not call.given and call.part_index < 0:
                call.given = given
            self.by_id.setdefault(given, call)
        if index is not None and (index not in self.by_index or (given and self.by_id[given] is call)):
            self.by_index[index] = call


def _continues(call: StreamedCall, arguments: str) -> bool:
    """Whether arguments can only continue an incomplete value: they do not begin one."""
    return not call.arguments.silent and arguments.strip()[:1] not in ("", "{") and arguments.strip() != "null"


def lacks(call: StreamedCall) -> bool:
    return call.arguments.silent and not call.arguments.stood_in


class Restated:
    """The calls of one response by content, for full messages that repeat them without IDs."""

    __slots__ = ("_changed", "_meanings")

    def __init__(self) -> None:
        self._meanings: Counter[Meaning] = Counter()
        self._changed: dict[StreamedCall, None] = {}

    def change(self, call: StreamedCall) -> None:
        self._changed[call] = None

    def has(self, name: str, arguments: str) -> bool:
        """Whether a call of this name has these arguments, in any spelling."""
        while self._changed:
            call, _ = self._changed.popitem()
            if call.meaning is not None:
                self._meanings[call.meaning] -= 1
            value = call.arguments.complete_text()
            call.meaning = None if value is None else (call.name, meaning_of(value))
            if call.meaning is not None:
                self._meanings[call.meaning] += 1
        return self._meanings[name, meaning_of(arguments)] > 0
