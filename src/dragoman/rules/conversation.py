"""Arranges the messages of a foreign request as turns that every protocol accepts (mapping.md §5). The order stays the
same, and only what providers reject is repaired: results move directly after their calls (T2), orphans and unanswered
calls are completed (T3), empty text is dropped (T7)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.model.features import Feature
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import Extras, Part, Refusal, Seal, Text, ToolCall, ToolResult
from dragoman.model.request import Message, Role
from dragoman.rules.extras import drop_extras
from dragoman.rules.translated_parts import HistoryEncoding
from dragoman.rules.whitespace import is_blank, with_blanks

INTERRUPTED = "[no result: the call was interrupted]"
UNKNOWN_CALL = "[result of unknown tool call"


class TurnKind(Enum):
    """The side of a turn. RESULTS are the results for the calls of the previous assistant turn, in the order of the
    calls."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    DEVELOPER = "developer"
    RESULTS = "results"


class Turn(Struct):
    """Consecutive parts of one side, with their locations in the request. `message` is the index of the first message.
    `pairs`: the parts contain calls or results. `exact`: the parts were restored from a signed turn and are encoded as
    the issuer first sent them."""

    kind: TurnKind
    parts: list[Part]
    places: list[Place]
    message: Message | None = None
    pairs: bool = False
    exact: bool = False


# Returns the parts of a signed turn of this protocol, else None.
Restore: TypeAlias = Callable[[Seal], tuple[Part, ...] | None]


def arrange(
    messages: tuple[Message, ...],
    ledger: Ledger,
    *,
    blank_is_empty: bool = False,
    restore: Restore | None = None,
    history: HistoryEncoding | None = None,
) -> list[Turn]:
    """Return the turns of a conversation. `blank_is_empty` also removes text of white space only (for Messages). With a
    `history`, only the turns after its start are returned."""
    turns: list[Turn] = []
    first = 0
    if history is not None:
        first, history.total = history.count, len(messages)
        history.is_complete = messages[-1].role is not _ASSISTANT
        history.begin_stage(ledger)
    open_turn: Turn | None = None
    # Computed on demand, which is rare.
    last_user: int | None = None
    has_pairs = False
    for index, message in enumerate(messages[first:] if first else messages, first):
        if message.transient:
            if last_user is None:
                last_user = max([at for at, other in enumerate(messages) if other.role is _USER], default=-1)
            if index < last_user:
                note = "counts only until the next user message"
                ledger.dropped(Feature.MID_CONVERSATION_SYSTEM, ("messages", index), note)
                continue
        if message.name is not None:
            note = "participant names are not carried over"
            ledger.dropped(Feature.PARTICIPANT_NAME, ("messages", index, "name"), note)
        role = message.role
        if role is not _ASSISTANT:
            open_turn = None
            turn = Turn(_KINDS[role], [], [], message)
            turns.append(turn)
        elif open_turn is not None:
            turn = open_turn
        else:
            turn = Turn(_ASSISTANT_TURN, [], [], message, False, message.turn is not None)
        if message.turn is not None and _restored(turn, index, message, ledger, restore, blank_is_empty):
            has_pairs = has_pairs or turn.pairs
        else:
            parts, places = turn.parts, turn.places
            for number, part in enumerate(message.parts):
                sort = type(part)
                if sort is Text:
                    text = part.text  # type: ignore[union-attr]  # `sort` is its type; isinstance would cost as much
                    if not text or (blank_is_empty and text.isspace()):
                        # This is rare, so starting the message again is cheaper than checking every message first.
                        del parts[len(parts) - number :], places[len(places) - number :]
                        _add_without_blanks(turn, index, message, ledger, blank_is_empty)
                        has_pairs = has_pairs or turn.pairs
                        break
                elif sort is ToolCall or sort is ToolResult:
                    turn.pairs = has_pairs = True
                parts.append(part)
                places.append(("messages", index, "parts", number))
            if turn.exact and places and places[-1][1] == index:
                turn.exact = False
        if open_turn is None and role is _ASSISTANT and turn.parts:
            open_turn = turn
            turns.append(turn)
    if history is not None:
        history.begin_stage(ledger)
    if has_pairs:
        turns = _pair(turns, ledger, history)
    if history is not None:
        history.end_stage(ledger)
    return turns


# Bound once: looking up an enum member is slow, and these loops run for every part of a request.
_ASSISTANT, _USER = Role.ASSISTANT, Role.USER
_KINDS = {Role.USER: TurnKind.USER, Role.SYSTEM: TurnKind.SYSTEM, Role.DEVELOPER: TurnKind.DEVELOPER}
_ASSISTANT_TURN, _RESULTS_TURN = TurnKind.ASSISTANT, TurnKind.RESULTS


def drop_message_extras(messages: tuple[Message, ...], ledger: Ledger, history: HistoryEncoding | None = None) -> None:
    """Report message members that only their own protocol knows. Those before a history's start are reported
    already."""
    first = 0
    if history is not None:
        first = history.count
        history.begin_stage(ledger)
        messages = messages[first:]
    # Messages without unusual members share one value. If it loses nothing once, it never does.
    neutral: Extras | None = None
    if not any(map(extras_of, messages)):
        return
    for index, message in enumerate(messages, first):
        extras = message.extras
        if extras is not None and extras is not neutral:
            before = len(ledger)
            drop_extras(extras, ("messages", index), ledger)
            neutral = extras if len(ledger) == before else None


extras_of = attrgetter("extras")
_BLANK = "text of white space only is refused by the provider"


def _restored(
    turn: Turn, index: int, message: Message, ledger: Ledger, restore: Restore | None, blank_is_empty: bool
) -> bool:
    """Add the signed form of a message to a turn if it still matches the client's copy (V1)."""
    sealed = restore(message.turn) if restore is not None and message.turn is not None else None
    if sealed is None or not _is_same_turn(sealed, message.parts):
        note = "the sealed turn is another issuer's or no longer what was said"
        ledger.dropped(Feature.THINKING_SIGNATURE, ("messages", index, "turn"), note)
        return False
    parts = sealed
    if blank_is_empty and any(map(is_blank, sealed)):
        # A provider may reject its own output if it contains blank text.
        parts = tuple([part for _, part in with_blanks(sealed) if not is_blank(part)])
        if is_blank(sealed[-1]):
            ledger.dropped(Feature.EMPTY_TEXT, ("messages", index, "turn"), _BLANK)
    turn.parts += parts
    turn.places += [("messages", index, "turn")] * len(parts)
    turn.pairs = turn.pairs or any(type(part) is ToolCall for part in sealed)
    return True


def _add_without_blanks(turn: Turn, index: int, message: Message, ledger: Ledger, blank_is_empty: bool) -> None:
    """Add a message to a turn without its empty text. White space may move to the text that follows (T7)."""
    moves = blank_is_empty and len(message.parts) > 1 and any(map(is_blank, message.parts))
    for number, part in with_blanks(message.parts) if moves else enumerate(message.parts):
        sort = type(part)
        if sort is Text:
            text = part.text  # type: ignore[union-attr]  # `sort` is its type
            if not text or (blank_is_empty and text.isspace()):
                if text:
                    ledger.dropped(Feature.EMPTY_TEXT, ("messages", index, "parts", number), _BLANK)
                continue
        elif sort is ToolCall or sort is ToolResult:
            turn.pairs = True
        turn.parts.append(part)
        turn.places.append(("messages", index, "parts", number))


def _is_same_turn(sealed: tuple[Part, ...], echoed: tuple[Part, ...]) -> bool:
    """Whether the client's copy still has the text and the calls of the signed turn (V1)."""
    return joined_text(sealed) == joined_text(echoed) and [
        (part.call_id, part.name, part.arguments) for part in sealed if isinstance(part, ToolCall)
    ] == [(part.call_id, part.name, part.arguments) for part in echoed if isinstance(part, ToolCall)]


def joined_text(parts: tuple[Part, ...] | list[Part]) -> str:
    """The text of a turn as one string: blocks of one unit are joined directly, units by a blank line (T11)."""
    pieces: list[str] = []
    apart = False
    unit: str | None = None
    for part in parts:
        if isinstance(part, Text | Refusal):
            if part.text:
                if pieces and (apart or part.id != unit):
                    pieces.append("\n\n")
                pieces.append(part.text)
                apart = False
                unit = part.id
        else:
            apart = True
    return "".join(pieces)


def _pair(turns: list[Turn], ledger: Ledger, history: HistoryEncoding | None) -> list[Turn]:
    """Move the results of calls into turns of their own, directly after the calls (T2, T3)."""
    paired: list[Turn] = []
    ids = _Ids() if history is None else _Ids(history.call_ids)
    position, count = 0, len(turns)
    while position < count:
        turn = turns[position]
        position += 1
        if not turn.pairs:
            paired.append(turn)
            continue
        if turn.kind is not _ASSISTANT_TURN:
            paired.append(_without_results(turn, ledger))
            continue
        paired.append(turn)
        start = position
        while position < count and turns[position].kind is not _ASSISTANT_TURN:
            position += 1
        following = turns[start:position]
        results = _results_in_order(turn, following, ids)
        if results is None:
            paired += _match_results(turn, following, ids, ledger)
            continue
        paired.append(results)
        if len(following) > 1:
            paired += [after for after in following if not after.pairs]
    if history is not None and ids.has_fresh:
        # The number for the next repeated ID depends on more than the set of IDs.
        history.is_prefix = False
    return paired


class _Ids(Struct, eq=False):
    """The call IDs so far. A repeated ID is replaced by an unused one (N2). Later turns do not count, so that IDs stay
    the same as the conversation grows: a change would invalidate the provider's prompt cache."""

    seen: set[str] = set()
    # The next number to try, by the start of the ID, so that no number is tried twice.
    _next: dict[str, int] = {}

    @property
    def has_fresh(self) -> bool:
        return bool(self._next)

    def unique(self, call_id: str, turn: set[str]) -> str:
        """The ID to send for the next call with this ID. `turn` has the IDs of all calls of its turn."""
        if call_id in self.seen:
            call_id = self._fresh(call_id, turn)
        self.seen.add(call_id)
        return call_id

    def _fresh(self, call_id: str, turn: set[str]) -> str:
        counted = _is_counted(call_id)
        stem, number = (counted[1], int(counted[2]) + 1) if counted is not None else (f"{call_id}_", 2)
        number = max(number, self._next.get(stem, 0))
        while (fresh := f"{stem}{number}") in self.seen or fresh in turn:
            number += 1
        self._next[stem] = number + 1
        return fresh


# Kimi's models fail on IDs of any other form. Other hosts count from 0 in every turn, the vendor counts on:
# https://github.com/MoonshotAI/Kimi-K2/blob/main/docs/tool_call_guidance.md
_is_counted = re.compile(r"(functions\..+:)(\d{1,9})", re.DOTALL | re.ASCII).fullmatch


def _results_in_order(turn: Turn, following: list[Turn], ids: _Ids) -> Turn | None:
    """The results if each call is answered once, directly and in order, as nearly all are; otherwise None."""
    if not following or not following[0].pairs:
        return None
    results, places = following[0].parts, following[0].places
    if len(following) > 1:
        results, places = [*results], [*places]
        is_over = False
        for after in following[1:]:
            if not after.pairs:
                is_over = True
            elif is_over:
                return None
            else:
                results += after.parts
                places += after.places
    seen = ids.seen
    answered, count = 0, len(results)
    for call in turn.parts:
        if type(call) is ToolCall:
            call_id = call.call_id
            # A repeated ID must be made unique.
            if answered == count or call_id in seen:
                break
            result = results[answered]
            if type(result) is not ToolResult or result.call_id != call_id or result.form is not call.form:
                break
            seen.add(call_id)
            answered += 1
    else:
        if answered == count:
            return Turn(_RESULTS_TURN, results, places, None, True)
    seen.difference_update([result.call_id for result in results[:answered] if type(result) is ToolResult])
    return None


def _match_results(turn: Turn, following: list[Turn], ids: _Ids, ledger: Ledger) -> list[Turn]:
    """Return the results of a turn's calls in order, then other content before the next assistant turn (T2)."""
    calls: list[int] = [index for index, part in enumerate(turn.parts) if type(part) is ToolCall]
    places = [turn.places[index] for index in calls]
    waiting: dict[str, deque[int]] = {}
    for slot, index in enumerate(calls):
        part = turn.parts[index]
        if type(part) is ToolCall:
            waiting.setdefault(part.call_id, deque()).append(slot)
    matched: list[ToolResult | None] = [None] * len(calls)
    rest: list[Turn] = []
    moved = False
    for after in following:
        if not after.pairs:
            rest.append(after)
            continue
        leftover: Turn | None = None
        for part, place in zip(after.parts, after.places, strict=True):
            slots = waiting.get(part.call_id) if type(part) is ToolResult else None
            if slots and type(part) is ToolResult:
                slot = slots.popleft()
                matched[slot] = part
                places[slot] = place
                moved = moved or bool(rest)
                continue
            if leftover is None:
                leftover = Turn(after.kind, [], [], after.message)
                rest.append(leftover)
            if type(part) is ToolResult:
                _append_orphan(leftover, part, place, ledger)
            else:
                leftover.parts.append(part)
                leftover.places.append(place)
    results = Turn(_RESULTS_TURN, _in_order(turn, calls, matched, places, ids, ledger), places, None, True)
    if moved:
        note = "results moved to stand directly after their calls"
        ledger.approximated(Feature.RESULT_ORDER, places[0], note)
    return [results, *rest]


def _in_order(
    turn: Turn, calls: list[int], matched: list[ToolResult | None], places: list[Place], ids: _Ids, ledger: Ledger
) -> list[Part]:
    """One result for each call. A call without a result gets one that reports an interruption (T3)."""
    parts: list[Part] = []
    of_turn = {part.call_id for part in turn.parts if isinstance(part, ToolCall)}
    for index, result, place in zip(calls, matched, places, strict=True):
        call = turn.parts[index]
        if not isinstance(call, ToolCall):
            continue
        call_id = ids.unique(call.call_id, of_turn)
        if call_id != call.call_id:
            note = f"this id stood before and is now {call_id}"
            ledger.approximated(Feature.CALL_ID, (*turn.places[index], "call_id"), note)
            turn.parts[index] = replace(call, call_id=call_id)
        if result is None:
            note = "a call without a result is answered as interrupted"
            ledger.invented(Feature.UNANSWERED_CALL, place, note)
            text = Text(text=INTERRUPTED)
            result = ToolResult(call_id=call_id, parts=(text,), is_error=True, form=call.form)
        elif result.call_id != call_id or result.form is not call.form:
            result = replace(result, call_id=call_id, form=call.form)
        parts.append(result)
    return parts


def _without_results(turn: Turn, ledger: Ledger) -> Turn:
    """A user turn that follows no call: every result in it is an orphan."""
    rest = Turn(turn.kind, [], [], turn.message)
    for part, place in zip(turn.parts, turn.places, strict=True):
        if type(part) is ToolResult:
            _append_orphan(rest, part, place, ledger)
        else:
            rest.parts.append(part)
            rest.places.append(place)
    return rest


def _append_orphan(turn: Turn, result: ToolResult, place: Place, ledger: Ledger) -> None:
    """Turn a result without its call into labelled user text. It is never dropped, and no call is invented (T3)."""
    ledger.approximated(Feature.ORPHAN_RESULT, place, "a result without its call is kept as user text")
    label = f"{UNKNOWN_CALL} {result.call_id}]" if result.call_id else f"{UNKNOWN_CALL}]"
    texts = [part.text for part in result.parts if isinstance(part, Text)]
    turn.parts.append(Text(text="\n".join([label, *texts])))
    turn.places.append(place)
    for index, part in enumerate(result.parts):
        if not isinstance(part, Text):
            turn.parts.append(part)
            turn.places.append((*place, "parts", index))
