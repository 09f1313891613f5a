"""To which call of a stream a fragment belongs (S15).

First row that fits. "Its call" is the one of its id, else the one last seen at its index, else (no index) the last one;
"waits" is a call without a whole value, if exactly one is without:

    fragment                                    its call                                  then
    says nothing                                -                                         is nothing
    an id that a call has
      no name, or the call's                    is not whole, or the same value again     belongs to it, at this index
      the call's name, another whole value      is whole, at another index                opens a call (ids said twice)
      another name                              is whole, or both names are declared,     opens a call
                                                or at another index
      anything else                             any                                       belongs to it
    no name
      arguments that begin a value, and the     is none or whole                          opens a call of that name
      last fragment was a name alone
      arguments that are not its call's again   is whole, and another one waits           belongs to that one
      an index that no call has, no id          another call waits                        belongs to that one
      an index that no call has, no id          the last one's value again                belongs to that one
      an index that no call has, an id          another waits, which has a name, no id    belongs to that one
      an index that no call has                 -                                         opens a call
      anything else                             any                                       belongs to it
    a name
      no id, that of a call with an id          is none or whole, that one waits, and     belongs to that one
                                                the arguments do not begin others
      no id, the last call's value again        is none or whole; the last has an id      belongs to that one
      an index that no call has                 -                                         opens a call
      an id                                     has one; the same name, and arguments     belongs to it: its server
                                                that only continue                        makes an id for each chunk
      an id                                     has one, or is whole                      opens a call
      no id, its call's value again             is whole, and ids are given               belongs to it
      no id, another name                       is whole, or both are declared            opens a call
      no id, more arguments                     is whole                                  opens a call
      anything else                             any                                       belongs to it
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

# Members of a fragment that are read.
EXPECTED_MEMBERS = frozenset({"index", "id", "type", "function", "custom"})
# A name, and what arguments mean.
Meaning: TypeAlias = tuple[str, Hashable]
# A whole object ends with the first, and blanks may follow.
MAY_END_VALUE = "} \t\r\n"


class StreamedCall:
    """One call while it grows; `part_index` is its part, -1 before it is announced."""

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
        # Its position among the calls of the answer.
        self.number = number
        self.index = index
        self.given = given
        self.custom = custom
        self.extras = extras
        # The members that its fragments may have without being reported.
        self.expected_members = EXPECTED_MEMBERS if extras is None else EXPECTED_MEMBERS | extras.fields.keys()
        # Name and arguments under which `Restated` finds it.
        self.meaning: Meaning | None = None
        # The signature of the call, until it is emitted.
        self.signature: JsonObject = {}
        self.call_id = ""
        self.name = ""
        self.arguments = ArgumentAssembler(free=custom)
        self.part_index = -1
        self.ended = False
        # Whether something else began after it.
        self.passed = False
        # Whether arguments that belonged to it were assigned to another call.
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
    """The calls of one answer, by their ids and indexes."""

    __slots__ = ("_names", "_silent", "_table", "_unfinished", "by_id", "by_index", "calls", "loose")

    def __init__(self, table: ToolTable, names: frozenset[str]) -> None:
        self._table = table
        # For the same protocol, wire names are the client's own.
        self._names = names
        self.calls: list[StreamedCall] = []
        # Open calls with incomplete arguments at the last check, and those with only a placeholder. Dictionaries,
        # because calls end in any order. Each is checked again only after more arrived for it: checking all for every
        # new call takes quadratic time.
        self._unfinished: dict[StreamedCall, None] = {}
        self._silent: dict[StreamedCall, None] = {}
        self.by_index: dict[int, StreamedCall] = {}
        self.by_id: dict[str, StreamedCall] = {}
        # A name that was repeated after a complete value, without an ID: more arguments open a call of it.
        self.loose = ""

    def declared(self, name: str) -> bool:
        """Whether the request has a tool of this name."""
        return name in self._table or (len(self._table) == 0 and name in self._names)

    def is_finished(self, call: StreamedCall) -> bool:
        """Whether nothing more is to be expected of a call's arguments."""
        return not call.arguments.silent and not call.arguments.in_doubt and call.arguments.complete()

    def owner(self, index: int | None, given: str, name: str, arguments: str) -> StreamedCall | None:
        """The call a fragment belongs to; None if it opens one (the table above)."""
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
        """Whether a fragment with the id of a call is the opening of another one: some servers give one id to all."""
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
        """The call whose name is repeated without its ID, at a foreign index."""
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
        """The last call, if a fragment repeats it without its ID, or without a name."""
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
        """The call that a fragment without a name continues, if its index and its id are no call's."""
        waiting = self.waiting()
        if given and (index is not None or not self.calls):
            # An id may come later than the name.
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
        """Take note that a call ended."""
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
        """Remember under which id and index a call was seen."""
        if given:
            if not call.given and call.part_index < 0:
                call.given = given
            self.by_id.setdefault(given, call)
        if index is not None and (index not in self.by_index or (given and self.by_id[given] is call)):
            self.by_index[index] = call


def _continues(call: StreamedCall, arguments: str) -> bool:
    """Whether arguments can only be more of an unfinished value: they do not begin one."""
    return not call.arguments.silent and arguments.strip()[:1] not in ("", "{") and arguments.strip() != "null"


def lacks(call: StreamedCall) -> bool:
    """Whether a call has no arguments at all."""
    return call.arguments.silent and not call.arguments.stood_in


class Restated:
    """The calls of one response by content, for full messages that repeat them without IDs."""

    __slots__ = ("_changed", "_meanings")

    def __init__(self) -> None:
        self._meanings: Counter[Meaning] = Counter()
        self._changed: dict[StreamedCall, None] = {}

    def change(self, call: StreamedCall) -> None:
        """Take note that more is known of a call."""
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
