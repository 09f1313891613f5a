"""Assembles the calls of a stream from fragments (S15), and ends calls where the protocol states no end (S2). A call is
emitted when its name is known: a declared tool, or once any other data has arrived. Arguments that cannot begin a
value, and complete the waiting call, belong to that call. A complete call that opens again at another index is another
call once other arguments arrive, because some servers give one ID to all. The stream fails on a second value for a full
call, one value split over calls, or an ambiguity between two calls: wrong arguments must never be run."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from operator import attrgetter

from dragoman.errors import WireError
from dragoman.model.events import ArgumentsDelta, ArgumentsRun, Event, PartEnded, PartGrew, PartStarted, TextRun
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras, InputForm, ToolCall
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.protocols.openai_chat.call_signatures import call_signature, signature_part, without_signature
from dragoman.protocols.openai_chat.messages import arguments_text
from dragoman.protocols.openai_chat.shapes import NAME
from dragoman.protocols.openai_chat.stream_call_matching import (
    EXPECTED_MEMBERS,
    MAY_END_VALUE,
    CallMatcher,
    Restated,
    StreamedCall,
    lacks,
)
from dragoman.rules.argument_assembly import ArgumentAssembler
from dragoman.rules.arguments import Completeness, is_complete
from dragoman.rules.extras import UnknownFields, part_place
from dragoman.rules.tool_table import report_bent, unwrapper_for
from dragoman.wire.json import kind_of

_INNER = frozenset({"name", "arguments", "input"})
# Maximum length of a tool name, in any number of fragments.
_MAX_NAME_LENGTH = 1024
_SURPLUS = "more arguments came after a whole value"
_ARGUMENTS = "/choices/0/delta/tool_calls/0/function/arguments"
_NAME = "/choices/0/delta/tool_calls/0/function/name"
_DIGITS = 10
# No value begins with these.
_INSIDE = ("}", "]", ":", ",")
_NOTHING = (None, "")


class CallAssembly:
    def __init__(
        self,
        translation: TranslationContext,
        mint: Mint,
        ledger: Ledger,
        unknowns: UnknownFields,
        next_index: Callable[[], int],
    ) -> None:
        self._table = translation.table
        self._relayed = translation.relayed
        self._target = translation.target
        self._mint = mint
        self._ledger = ledger
        self._unknowns = unknowns
        self._next_index = next_index
        names = frozenset(tool.name for tool in translation.request.tools if isinstance(tool, FunctionTool | TextTool))
        self._matcher = CallMatcher(translation.table, names)
        # Calls that opened since another item began, and calls with a placeholder that other calls followed.
        self._latest: list[StreamedCall] = []
        self._may_grow: list[StreamedCall] = []
        self._changed: dict[StreamedCall, None] = {}
        self._restated = Restated()
        # Incomplete arguments of ended calls, and whether they form one value together.
        self._broken: list[str] = []
        self._broken_together = Completeness()
        self._ids: set[str] = set()
        # Complete calls that opened again at another index, by index, with the arguments there since.
        self._twins: dict[int, tuple[StreamedCall, ArgumentAssembler]] = {}
        self.any_announced = False
        self._growing: StreamedCall | None = None

    def next(self, fragment: JsonValue) -> PartGrew | None:
        """The one event of a fragment that only has more arguments, like in `take`; None for others."""
        if type(fragment) is not dict:
            return None
        inner, index = fragment.get("function"), fragment.get("index")
        if type(inner) is not dict or type(index) is not int:
            return None
        if (len(fragment) != 2 or len(inner) != 1) and not _only_continues(fragment, inner):
            return None
        call, more = self._matcher.by_index.get(index), inner.get("arguments")
        if type(more) is not str or not more or call is None:
            return None
        pieces = call.quick
        # Only after a complete value, or with a brace, can it be a repetition.
        if pieces is None or "{" in more:
            return None
        pieces.append(more)
        self._growing = call
        if more[-1] in MAY_END_VALUE:
            call.quick = None
            self._restated.change(call)
        return PartGrew(call.part_index, ArgumentsDelta(more))

    @property
    def runs(self) -> bool:
        """Whether arguments in any number of fragments only extend the call, except fragments that may end them."""
        return self._growing is not None and self._growing.quick is not None

    def grown_by(self, run: TextRun) -> PartGrew:
        """More arguments of the call that grew last."""
        call = self._growing
        assert call is not None and call.quick is not None
        call.quick.append(run.text)
        return PartGrew(call.part_index, ArgumentsRun(run.text, run.strings))

    def take(self, fragment: JsonObject, events: list[Event]) -> None:
        inner = fragment.get("function")
        custom = bool(fragment.get("custom")) and not (isinstance(inner, dict) and any(inner.values()))
        if custom:
            inner = fragment.get("custom")
        if inner is None:
            inner = {}
        elif not isinstance(inner, dict):
            raise WireError("/choices/0/delta/tool_calls/0/function", "object", kind_of(inner))
        index = _number(fragment.get("index"))
        given, name = _word(fragment.get("id"), "id"), _word(inner.get("name"), "name")
        arguments = arguments_text(inner.get("input") if custom else inner.get("arguments"))
        usual = fragment.keys() <= EXPECTED_MEMBERS and inner.keys() <= _INNER
        signature = {} if usual else call_signature(fragment)
        if signature:
            fragment = without_signature(fragment, signature)
        if self._twins and not name and index in self._twins and arguments:
            self._take_twin(index, arguments, events)
            return
        call = self._matcher.owner(index, given, name, arguments)
        if not name and self._matcher.is_next(call, index, given, arguments):
            call, name = None, self._matcher.loose
        if call is None:
            if not (given or name or arguments.strip()):
                # Some servers put an empty call into every response.
                self._unknowns.members(inner, _INNER)
                self._unknowns.members(fragment, EXPECTED_MEMBERS)
                return
            if arguments and not custom:
                arguments = self._returned(arguments, events)
            call = self._open(index, given, custom, fragment, events)
        else:
            if name and given and index is not None and self._is_twin(call, index, arguments):
                self._twins[index] = (call, ArgumentAssembler(free=self._relayed))
                self._take_twin(index, arguments, events)
                arguments = ""
            self._matcher.follow(call, index, given)
            if name and not given and not arguments and name == call.name and call.arguments.complete():
                self._matcher.loose = name
        self._touch(call)
        if name and name != call.name:
            self._name(call, name)
        if signature:
            self._take_signature(call, signature, events)
        if arguments:
            self._grow(call, arguments, events)
        elif call.part_index < 0 and self._matcher.declared(call.name):
            self._announce(call, events)
        call.update_quick()
        if not usual:
            self._report(call, fragment)

    def _is_twin(self, call: StreamedCall, index: int, arguments: str) -> bool:
        """Whether a complete call is opened again, at an unused index."""
        return (
            index not in self._matcher.by_index
            and self._matcher.is_finished(call)
            and not call.arguments.same(arguments)
        )

    def _take_twin(self, index: int, arguments: str, events: list[Event]) -> None:
        """More arguments of a complete call that was opened again. Equal ones are ignored, others make another call."""
        assembler = self._twins[index][1]
        assembler.take(arguments, _ARGUMENTS)
        if not assembler.silent and assembler.complete() and not assembler.in_doubt:
            self._end_twin(index, events)

    def _end_twin(self, index: int, events: list[Event]) -> None:
        call, assembler = self._twins.pop(index)
        assembler.rest()
        arguments = "".join(assembler.pieces)
        if arguments.strip() and not call.arguments.same(arguments):
            self._matcher.by_index.pop(index, None)
            other = self._open(index, call.given, call.custom, {}, events)
            other.name = call.name
            self._grow(other, arguments, events)

    def restate(self, fragment: JsonObject, position: int, events: list[Event]) -> None:
        """Read a call of a full message after its fragments. It is new only if no fragment had it."""
        inner = fragment.get("function")
        if isinstance(inner, dict) and not self._matcher.by_id.get(_word(fragment.get("id"), "id")):
            name = _word(inner.get("name"), "name")
            if self._restated.has(name, arguments_text(inner.get("arguments"))):
                return
        self.take({"index": position, **fragment}, events)

    def _take_signature(self, call: StreamedCall, signature: JsonObject, events: list[Event]) -> None:
        """Store the signature of a call until it is emitted. Later additions are emitted at once."""
        new: JsonObject = {key: value for key, value in signature.items() if value != call.signature.get(key)}
        if not new:
            return
        call.signature = {**call.signature, **new}
        if call.part_index >= 0:
            self._emit_signature(call, new, events)

    def _emit_signature(self, call: StreamedCall, signature: JsonObject, events: list[Event]) -> None:
        index = self._next_index()
        events += (PartStarted(index, signature_part(call.call_id, signature, self._target)), PartEnded(index))

    def _report(self, call: StreamedCall, fragment: JsonObject) -> None:
        """Report members of a fragment that are neither read nor in the call's extras."""
        at = part_place(call.part_index)
        inner = fragment.get("custom" if call.custom else "function")
        if not isinstance(inner, dict):
            inner = {}
        self._unknowns.members(inner, _INNER, at)
        self._unknowns.members(fragment, call.expected_members, at)

    def move_on(self, events: list[Event], *, to_call: bool = False) -> None:
        """Another part begins: end complete calls, so that nothing waits behind them."""
        passed, self._latest = self._latest, []
        if not to_call:
            passed, self._may_grow = self._may_grow + passed, []
        for call in passed:
            if call.part_index < 0 and call.name:
                self._announce(call, events)
            if call.ended:
                continue
            # From here on the fragment that completes a call ends it.
            call.passed, call.quick = True, None
            if call.part_index < 0 or not call.arguments.complete() or call.arguments.in_doubt:
                continue
            if to_call and call.arguments.silent:
                # Calls that are emitted together may all get their arguments later.
                self._may_grow.append(call)
            else:
                self._end(call, events)

    def end(self, events: list[Event]) -> None:
        for index in tuple(self._twins):
            self._end_twin(index, events)
        changed, self._changed = sorted(self._changed, key=attrgetter("number")), {}
        bare = any(call.name and not call.ended and call.arguments.silent for call in changed)
        if not self._relayed:
            self._check_pieces([call for call in changed if not call.ended])
        for call in changed:
            if call.part_index < 0 and call.name:
                self._announce(call, events)
            if call.part_index >= 0 and not call.ended:
                self._end(call, events)
            elif call.part_index < 0 and not call.ended:
                call.ended = True
                self._lose(call, bare)
            if call.arguments.surplus():
                self._ledger.dropped(Feature.ARGUMENTS, part_place(call.part_index), _SURPLUS)

    def _check_pieces(self, calls: list[StreamedCall]) -> None:
        """Reject one value that is split over several calls, or arguments of one call that were taken for a repetition
        of another's."""
        if any(call.robbed and (lacks(call) or not call.arguments.complete()) for call in calls):
            raise WireError(_ARGUMENTS, "the call they are for", "two of the same arguments")
        new = [call for call in calls if not (call.custom or call.arguments.silent or call.arguments.complete())]
        if not new:
            return
        texts = self._broken[-1:] + ["".join(call.arguments.pieces) for call in new]
        self._broken += texts[-len(new) :]
        if len(self._broken) < 2:
            return
        together = self._broken_together.of(self._broken) or any(map(is_complete, map("".join, pairwise(texts))))
        if together or any(text.lstrip()[:1] in _INSIDE for text in texts):
            raise WireError(_ARGUMENTS, "arguments that begin a value", "pieces of one in several calls")

    def _lose(self, call: StreamedCall, bare: bool) -> None:
        """Drop a call without a name, which cannot be run."""
        if bare and not self._relayed and not call.arguments.silent:
            # These may be the arguments that another call lacks.
            raise WireError(_ARGUMENTS, "the name of the call they are for", "none")
        if call.extras is not None:
            self._unknowns.members(call.extras.fields, ())
        self._unknowns.members(call.signature, ())
        self._ledger.dropped(Feature.FUNCTION_TOOL, ("parts",), "a call came without a name")

    @property
    def unfinished(self) -> bool:
        """Whether the last call has incomplete arguments."""
        last = self._matcher.calls[-1] if self._matcher.calls else None
        return last is not None and not last.custom and not last.arguments.silent and not last.arguments.complete()

    def _returned(self, arguments: str, events: list[Event]) -> str:
        """The own arguments of an opening fragment. The end of the previous call's arguments is returned to that
        call."""
        waiting = None if arguments.lstrip()[:1] == "{" else self._matcher.waiting()
        if (
            waiting is None
            or waiting.arguments.silent
            or not is_complete("".join([*waiting.arguments.pieces, arguments]))
        ):
            return arguments
        self._touch(waiting)
        self._grow(waiting, arguments, events)
        return ""

    def _touch(self, call: StreamedCall) -> None:
        self._changed[call] = None
        self._restated.change(call)

    def _open(
        self, index: int | None, given: str, custom: bool, fragment: JsonObject, events: list[Event]
    ) -> StreamedCall:
        self.move_on(events, to_call=True)
        self._matcher.loose = ""
        rest: JsonObject = {
            key: value for key, value in fragment.items() if key not in EXPECTED_MEMBERS and value is not None
        }
        call = StreamedCall(
            len(self._matcher.calls), index, given, custom, Extras(origin=NAME, fields=rest) if rest else None
        )
        if self._relayed:
            call.arguments = ArgumentAssembler(free=True)
        self._matcher.calls.append(call)
        self._latest.append(call)
        self._matcher.grew(call)
        self._touch(call)
        if index is not None:
            self._matcher.by_index[index] = call
        if given:
            self._matcher.by_id.setdefault(given, call)
        return call

    def _name(self, call: StreamedCall, name: str) -> None:
        """Set the name once. Fragments are joined while nothing else is known of the call."""
        if not call.name:
            call.name = name
            return
        declared = self._matcher.declared
        if declared(call.name):
            return
        if call.part_index < 0 and call.arguments.silent and len(call.name) < _MAX_NAME_LENGTH:
            # Some servers send the full text so far each time.
            whole = name.startswith(call.name) and not declared(call.name + name)
            call.name = name if whole or declared(name) else call.name + name
        elif not self._relayed and (declared(name) or declared(call.name + name)):
            # The call was sent under an incomplete name. A tool that the model did not call must not run.
            raise WireError(_NAME, "the name that the call has already", "another")

    def _grow(self, call: StreamedCall, arguments: str, events: list[Event]) -> None:
        if call.ended and (call.custom or not call.arguments.complete()):
            if arguments.strip() and not call.arguments.same(arguments):
                self._ledger.dropped(
                    Feature.ARGUMENTS, part_place(call.part_index), "more arguments came after the call's end"
                )
            return
        added = call.arguments.take(arguments, _ARGUMENTS)
        self._matcher.grew(call)
        if call.part_index < 0:
            if call.name:
                self._announce(call, events)
        elif added:
            self._emit_arguments(call, added, events)
        if call.passed and not call.ended and call.part_index >= 0 and self._matcher.is_finished(call):
            self._end(call, events)

    def _emit_arguments(self, call: StreamedCall, arguments: str, events: list[Event]) -> None:
        if call.unwrapper is not None:
            arguments = call.unwrapper.feed(arguments)
        if arguments:
            events.append(PartGrew(call.part_index, ArgumentsDelta(arguments)))

    def _announce(self, call: StreamedCall, events: list[Event]) -> None:
        entry = self._table.restored(call.name)
        form = InputForm.TEXT if call.custom else InputForm.JSON
        if entry is not None:
            form = entry.form
            call.unwrapper = None if call.custom else unwrapper_for(entry)
        call_id = call.given
        if not call_id or call_id in self._ids:
            call_id = f"call_{self._mint.token(24)}"
        self._ids.add(call_id)
        call.call_id = call_id
        if call.signature:
            self._emit_signature(call, call.signature, events)
        call.part_index = self._next_index()
        self.any_announced = True
        part = ToolCall(
            call_id=call_id,
            name=entry.name if entry is not None else call.name,
            namespace=entry.namespace if entry is not None else None,
            arguments="",
            form=form,
            extras=call.extras,
        )
        events.append(PartStarted(call.part_index, part))
        for piece in call.arguments.pieces:
            self._emit_arguments(call, piece, events)

    def _end(self, call: StreamedCall, events: list[Event]) -> None:
        call.ended, call.quick = True, None
        self._matcher.close(call)
        held = call.arguments.rest()
        if held:
            self._emit_arguments(call, held, events)
        if call.unwrapper is not None:
            rest = call.unwrapper.close()
            if rest:
                events.append(PartGrew(call.part_index, ArgumentsDelta(rest)))
            if call.unwrapper.bent:
                report_bent(call.part_index, self._ledger)
        events.append(PartEnded(call.part_index))


def _only_continues(fragment: JsonObject, inner: JsonObject) -> bool:
    """Whether a fragment is a continuation, even with an empty ID, an empty name or a type."""
    if fragment.get("id") not in _NOTHING or inner.get("name") not in _NOTHING or fragment.get("custom"):
        return False
    return fragment.keys() <= EXPECTED_MEMBERS and inner.keys() <= _INNER


def _word(value: JsonValue, key: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WireError(f"/choices/0/delta/tool_calls/0/{key}", "string", kind_of(value))
    return value


def _number(index: JsonValue) -> int | None:
    if index is None or type(index) is int:
        return index
    number = float(index) if isinstance(index, Number | float) else None
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < _DIGITS:
        number = int(index)
    if number is None or not math.isfinite(number) or number != int(number):
        raise WireError("/choices/0/delta/tool_calls/0/index", "integer", kind_of(index))
    return int(number)
