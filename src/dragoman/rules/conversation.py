"""Conversation: messages of any wire arranged as turns that every wire accepts (mapping.md §5).

An encoder that writes another protocol's request asks `arrange` for its turns. What the client's own protocol said is
kept in order; only what providers refuse is repaired: results directly after their calls (T2), orphans and unanswered
calls (T3), empty text (T7). A request that stays in its own protocol is never arranged.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.model.features import Feature
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import Part, Refusal, Seal, Text, ToolCall, ToolResult
from dragoman.model.request import Message, Role

INTERRUPTED = "[no result: the call was interrupted]"
UNKNOWN_CALL = "[result of unknown tool call"


class TurnKind(Enum):
    """Whose turn it is; RESULTS are the results of the calls of the assistant turn before, in its order."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    DEVELOPER = "developer"
    RESULTS = "results"


class Turn(Struct):
    """A stretch of the conversation: parts, and for each the place it has in the request.

    `message` is the message it was made of, or the first of several. `pairs` says that calls or results are among the
    parts; `exact` that the parts of an assistant turn were restored from a sealed turn and are to be written as the
    issuer first said them.
    """

    kind: TurnKind
    parts: list[Part]
    places: list[Place]
    message: Message | None = None
    pairs: bool = False
    exact: bool = False


# Gives the parts of a sealed turn if this wire issued it, else None.
Restore: TypeAlias = Callable[[Seal], tuple[Part, ...] | None]


def arrange(
    messages: tuple[Message, ...],
    ledger: Ledger,
    *,
    blank_is_empty: bool = False,
    restore: Restore | None = None,
) -> list[Turn]:
    """The turns of a conversation; `blank_is_empty` also removes text of white space only (towards Messages)."""
    turns = _collect(messages, ledger, blank_is_empty, restore)
    return _pair(turns, ledger)


# Members of enumerations by name cost a look-up each time; the loops below run for every part of a request.
_ASSISTANT, _USER = Role.ASSISTANT, Role.USER
_OTHER_KINDS = {"user": TurnKind.USER, "system": TurnKind.SYSTEM, "developer": TurnKind.DEVELOPER}
_ASSISTANT_TURN, _USER_TURN, _RESULTS_TURN = TurnKind.ASSISTANT, TurnKind.USER, TurnKind.RESULTS


def _collect(
    messages: tuple[Message, ...], ledger: Ledger, blank_is_empty: bool, restore: Restore | None
) -> list[Turn]:
    turns: list[Turn] = []
    open_turn: Turn | None = None
    for index, message in enumerate(messages):
        if message.transient and _spoken_later(messages, index):
            note = "counts only until the next user message"
            ledger.dropped(Feature.LATE_INSTRUCTIONS, ("messages", index), note)
            continue
        if message.name is not None:
            note = "participant names are not carried over"
            ledger.dropped(Feature.PARTICIPANT_NAME, ("messages", index, "name"), note)
        role = message.role
        if role is _ASSISTANT:
            turn = _restored(index, message, ledger, restore) if message.turn is not None else None
            if turn is None:
                turn = _kept(_ASSISTANT_TURN, index, message, ledger, blank_is_empty)
            if not turn.parts:
                continue
            if open_turn is None:
                open_turn = turn
                turns.append(turn)
            else:
                open_turn.parts += turn.parts
                open_turn.places += turn.places
                open_turn.exact = open_turn.exact and turn.exact
                open_turn.pairs = open_turn.pairs or turn.pairs
            continue
        open_turn = None
        kind = _USER_TURN if role is _USER else _OTHER_KINDS[role.value]
        turns.append(_kept(kind, index, message, ledger, blank_is_empty))
    return turns


def _spoken_later(messages: tuple[Message, ...], index: int) -> bool:
    return any(message.role is _USER for message in messages[index + 1 :])


def _restored(index: int, message: Message, ledger: Ledger, restore: Restore | None) -> Turn | None:
    """The sealed form of a turn, while it still says what the client echoes of it (V1)."""
    sealed = restore(message.turn) if restore is not None and message.turn is not None else None
    if sealed is None or not _says_the_same(sealed, message.parts):
        note = "the sealed turn is another issuer's or no longer what was said"
        ledger.dropped(Feature.THINKING_SEAL, ("messages", index, "turn"), note)
        return None
    places: list[Place] = [("messages", index, "turn")] * len(sealed)
    pairs = any(type(part) is ToolCall for part in sealed)
    return Turn(_ASSISTANT_TURN, list(sealed), places, message, pairs, True)


def _kept(kind: TurnKind, index: int, message: Message, ledger: Ledger, blank_is_empty: bool) -> Turn:
    """A message as a turn, without its empty text."""
    parts: list[Part] = []
    places: list[Place] = []
    pairs = False
    for number, part in enumerate(message.parts):
        sort = type(part)
        if sort is Text:
            text = part.text  # type: ignore[union-attr]  # `sort` is its type; isinstance would cost as much again
            if not text or (blank_is_empty and text.isspace()):
                if text:
                    note = "text of white space only is refused by the provider"
                    ledger.dropped(Feature.EMPTY_TEXT, ("messages", index, "parts", number), note)
                continue
        elif sort is ToolCall or sort is ToolResult:
            pairs = True
        parts.append(part)
        places.append(("messages", index, "parts", number))
    return Turn(kind, parts, places, message, pairs)


def _says_the_same(sealed: tuple[Part, ...], said: tuple[Part, ...]) -> bool:
    """Whether the client's echo still has the text and the calls of the sealed turn (V1)."""
    return joined_text(sealed) == joined_text(said) and [
        (part.call_id, part.name, part.arguments) for part in sealed if isinstance(part, ToolCall)
    ] == [(part.call_id, part.name, part.arguments) for part in said if isinstance(part, ToolCall)]


def joined_text(parts: tuple[Part, ...] | list[Part]) -> str:
    """The text of a turn as one string: blocks of one unit glued, a blank line between units and across calls (T11)."""
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


def _pair(turns: list[Turn], ledger: Ledger) -> list[Turn]:
    paired: list[Turn] = []
    ids: dict[str, int] = {}
    position = 0
    while position < len(turns):
        turn = turns[position]
        position += 1
        if turn.kind is not _ASSISTANT_TURN:
            paired.append(_without_results(turn, ledger) if turn.pairs else turn)
            continue
        paired.append(turn)
        if not turn.pairs:
            continue
        calls = _Calls(turn, ids, ledger)
        following: list[Turn] = []
        while position < len(turns) and turns[position].kind is not _ASSISTANT_TURN:
            after = turns[position]
            position += 1
            if not after.pairs:
                following.append(after)
                continue
            rest = calls.take(after, bool(following), ledger)
            if rest.parts:
                following.append(rest)
        paired.append(calls.results(ledger))
        paired += following
    return paired


class _Calls:
    """The calls of one turn, and the results found for them so far."""

    __slots__ = ("_calls", "_found", "_ids", "_moved", "_places", "_waiting")

    def __init__(self, turn: Turn, ids: dict[str, int], ledger: Ledger) -> None:
        self._calls: list[ToolCall] = []
        self._ids: list[str] = []
        self._places: list[Place] = []
        self._waiting: dict[str, list[int]] = {}
        for index, part in enumerate(turn.parts):
            if type(part) is ToolCall:
                self._waiting.setdefault(part.call_id, []).append(len(self._calls))
                self._calls.append(part)
                self._places.append(turn.places[index])
                self._ids.append(_unique(turn, index, part, ids, ledger))
        self._found: list[ToolResult | None] = [None] * len(self._calls)
        self._moved = False

    def take(self, turn: Turn, late: bool, ledger: Ledger) -> Turn:
        """Take the awaited results out of a turn and give what is left of it."""
        rest = Turn(turn.kind, [], [], turn.message)
        for part, place in zip(turn.parts, turn.places, strict=True):
            if type(part) is not ToolResult:
                rest.parts.append(part)
                rest.places.append(place)
                continue
            waiting = self._waiting.get(part.call_id)
            if not waiting:
                _append_orphan(rest, part, place, ledger)
                continue
            slot = waiting.pop(0)
            self._found[slot] = part
            self._places[slot] = place
            self._moved = self._moved or late or bool(rest.parts)
        return rest

    def results(self, ledger: Ledger) -> Turn:
        """The results in the order of their calls; a call without one is answered as interrupted."""
        parts: list[Part] = []
        for slot, call in enumerate(self._calls):
            call_id, result = self._ids[slot], self._found[slot]
            if result is None:
                note = "a call without a result is answered as interrupted"
                ledger.invented(Feature.UNANSWERED_CALL, self._places[slot], note)
                text = Text(text=INTERRUPTED)
                result = ToolResult(call_id=call_id, parts=(text,), is_error=True, form=call.form)
            elif result.call_id != call_id or result.form is not call.form:
                result = replace(result, call_id=call_id, form=call.form)
            parts.append(result)
        if self._moved:
            note = "results moved to stand directly after their calls"
            ledger.approximated(Feature.RESULT_ORDER, self._places[0], note)
        return Turn(_RESULTS_TURN, parts, self._places, None, True)


def _unique(turn: Turn, index: int, call: ToolCall, ids: dict[str, int], ledger: Ledger) -> str:
    """The id of a call; one that stood before gets a suffix, here and in its result (N2)."""
    count = ids.get(call.call_id, 0) + 1
    ids[call.call_id] = count
    if count == 1:
        return call.call_id
    fresh = f"{call.call_id}_{count}"
    ledger.approximated(Feature.CALL_ID, (*turn.places[index], "call_id"), f"this id stood before and is now {fresh}")
    turn.parts[index] = replace(call, call_id=fresh)
    return fresh


def _without_results(turn: Turn, ledger: Ledger) -> Turn:
    """A user turn before any call: every result in it is an orphan."""
    rest = Turn(turn.kind, [], [], turn.message)
    for part, place in zip(turn.parts, turn.places, strict=True):
        if type(part) is ToolResult:
            _append_orphan(rest, part, place, ledger)
        else:
            rest.parts.append(part)
            rest.places.append(place)
    return rest


def _append_orphan(turn: Turn, result: ToolResult, place: Place, ledger: Ledger) -> None:
    """Keep a result that answers no call as labelled user text: never under an invented id, never dropped (T3)."""
    ledger.approximated(Feature.ORPHAN_RESULT, place, "a result without its call is kept as user text")
    label = f"{UNKNOWN_CALL} {result.call_id}]" if result.call_id else f"{UNKNOWN_CALL}]"
    texts = [part.text for part in result.parts if isinstance(part, Text)]
    turn.parts.append(Text(text="\n".join([label, *texts])))
    turn.places.append(place)
    for index, part in enumerate(result.parts):
        if not isinstance(part, Text):
            turn.parts.append(part)
            turn.places.append((*place, "parts", index))
