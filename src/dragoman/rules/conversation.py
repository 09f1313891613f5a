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
from dragoman.model.parts import InputForm, Part, Refusal, Seal, Text, ToolCall, ToolResult
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


_KINDS: dict[Role, TurnKind] = {role: TurnKind(role.value) for role in Role}


class Turn(Struct, kw_only=True):
    """A stretch of the conversation: parts, and for each the place it has in the request.

    `message` is the message it was made of, or the first of several. `exact` says that the parts of an assistant turn
    were restored from a sealed turn and are to be written as the issuer first said them; `pairs` that calls or results
    are among them.
    """

    kind: TurnKind
    parts: list[Part] = []
    places: list[Place] = []
    message: Message | None = None
    exact: bool = False
    pairs: bool = False


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


def _collect(
    messages: tuple[Message, ...], ledger: Ledger, blank_is_empty: bool, restore: Restore | None
) -> list[Turn]:
    turns: list[Turn] = []
    last_user = _last_user(messages)
    open_turn: Turn | None = None
    for index, message in enumerate(messages):
        if message.transient and index < last_user:
            note = "counts only until the next user message"
            ledger.dropped(Feature.LATE_INSTRUCTIONS, ("messages", index), note)
            continue
        if message.name is not None:
            note = "participant names are not carried over"
            ledger.dropped(Feature.PARTICIPANT_NAME, ("messages", index, "name"), note)
        turn = Turn(kind=_KINDS[message.role], message=message)
        if message.turn is None or not _restored(turn, index, message, ledger, restore):
            _keep(turn, index, message.parts, ledger, blank_is_empty)
        if turn.kind is not TurnKind.ASSISTANT:
            open_turn = None
            turns.append(turn)
        elif not turn.parts:
            continue
        elif open_turn is None:
            open_turn = turn
            turns.append(turn)
        else:
            open_turn.parts += turn.parts
            open_turn.places += turn.places
            open_turn.exact = open_turn.exact and turn.exact
            open_turn.pairs = open_turn.pairs or turn.pairs
    return turns


def _last_user(messages: tuple[Message, ...]) -> int:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role is Role.USER:
            return index
    return -1


def _restored(turn: Turn, index: int, message: Message, ledger: Ledger, restore: Restore | None) -> bool:
    """Whether the sealed form of a turn stands for what the client echoed of it (V1)."""
    sealed = restore(message.turn) if restore is not None and message.turn is not None else None
    if sealed is None or not _says_the_same(sealed, message.parts):
        note = "the sealed turn is another issuer's or no longer what was said"
        ledger.dropped(Feature.THINKING_SEAL, ("messages", index, "turn"), note)
        return False
    turn.parts += sealed
    turn.places += [("messages", index, "turn")] * len(sealed)
    turn.pairs = any(type(part) is ToolCall for part in sealed)
    turn.exact = True
    return True


def _keep(turn: Turn, index: int, parts: tuple[Part, ...], ledger: Ledger, blank_is_empty: bool) -> None:
    """Take over the parts of a message, but for empty text."""
    for number, part in enumerate(parts):
        kind = type(part)
        if isinstance(part, Text) and (not part.text or (blank_is_empty and part.text.isspace())):
            if part.text:
                note = "text of white space only is refused by the provider"
                ledger.dropped(Feature.EMPTY_TEXT, ("messages", index, "parts", number), note)
        else:
            if kind is ToolCall or kind is ToolResult:
                turn.pairs = True
            turn.parts.append(part)
            turn.places.append(("messages", index, "parts", number))


def _says_the_same(sealed: tuple[Part, ...], said: tuple[Part, ...]) -> bool:
    """Whether the client's echo still has the text and the calls of the sealed turn (V1)."""
    return joined_text(sealed) == joined_text(said) and [
        (part.call_id, part.name, part.arguments) for part in sealed if isinstance(part, ToolCall)
    ] == [(part.call_id, part.name, part.arguments) for part in said if isinstance(part, ToolCall)]


def joined_text(parts: tuple[Part, ...] | list[Part]) -> str:
    """The text of a turn as one string: adjacent blocks glued, a blank line where anything stood between (T11)."""
    pieces: list[str] = []
    apart = False
    for part in parts:
        if isinstance(part, Text | Refusal):
            if part.text:
                if apart and pieces:
                    pieces.append("\n\n")
                pieces.append(part.text)
                apart = False
        else:
            apart = True
    return "".join(pieces)


class _Open(Struct, kw_only=True):
    """A call waiting for its result while the turns after it are read."""

    call: ToolCall
    result: ToolResult | None = None
    place: Place = ()


def _pair(turns: list[Turn], ledger: Ledger) -> list[Turn]:
    paired: list[Turn] = []
    ids: dict[str, int] = {}
    position = 0
    while position < len(turns):
        turn = turns[position]
        position += 1
        if turn.kind is not TurnKind.ASSISTANT:
            paired.append(_without_results(turn, ledger) if turn.pairs else turn)
            continue
        paired.append(turn)
        if not turn.pairs:
            continue
        waiting = _open_calls(turn, ids, ledger)
        following: list[Turn] = []
        moved = False
        while position < len(turns) and turns[position].kind is not TurnKind.ASSISTANT:
            after, late = _take_results(turns[position], waiting, bool(following), ledger)
            moved = moved or late
            if after is not None:
                following.append(after)
            position += 1
        if waiting:
            paired.append(_results(waiting, turn, ledger))
            if moved:
                ledger.approximated(
                    Feature.RESULT_ORDER, paired[-1].places[0], "results moved to stand directly after their calls"
                )
        paired.extend(following)
    return paired


def _open_calls(turn: Turn, ids: dict[str, int], ledger: Ledger) -> list[_Open]:
    """The calls of a turn; an id said before gets a suffix, here and in its result (N2)."""
    waiting: list[_Open] = []
    for index, part in enumerate(turn.parts):
        if type(part) is not ToolCall:
            continue
        waiting.append(_Open(call=part, place=turn.places[index]))
        count = ids.get(part.call_id, 0) + 1
        ids[part.call_id] = count
        if count > 1:
            fresh = f"{part.call_id}_{count}"
            ledger.approximated(
                Feature.CALL_ID, (*turn.places[index], "call_id"), f"this id stood before and is now {fresh}"
            )
            turn.parts[index] = replace(part, call_id=fresh)
    return waiting


def _take_results(turn: Turn, waiting: list[_Open], late: bool, ledger: Ledger) -> tuple[Turn | None, bool]:
    """Take the awaited results out of a turn; give what is left of it, and whether a result stood too late."""
    if not turn.pairs:
        return turn, False
    rest = Turn(kind=turn.kind, message=turn.message)
    moved = False
    for part, place in zip(turn.parts, turn.places, strict=True):
        if type(part) is not ToolResult:
            rest.parts.append(part)
            rest.places.append(place)
            continue
        call = next((one for one in waiting if one.result is None and one.call.call_id == part.call_id), None)
        if call is None:
            _append_orphan(rest, part, place, ledger)
        else:
            call.result = part
            call.place = place
            moved = moved or late or bool(rest.parts)
    return (rest if rest.parts else None), moved


def _results(waiting: list[_Open], turn: Turn, ledger: Ledger) -> Turn:
    results = Turn(kind=TurnKind.RESULTS)
    ids = [part.call_id for part in turn.parts if type(part) is ToolCall]
    for call_id, one in zip(ids, waiting, strict=True):
        result = one.result
        if result is None:
            ledger.invented(Feature.UNANSWERED_CALL, one.place, "a call without a result is answered as interrupted")
            result = ToolResult(call_id=call_id, parts=(Text(text=INTERRUPTED),), is_error=True, form=one.call.form)
        elif result.call_id != call_id or result.form is not one.call.form:
            result = replace(result, call_id=call_id, form=one.call.form)
        results.parts.append(result)
        results.places.append(one.place)
    return results


def _without_results(turn: Turn, ledger: Ledger) -> Turn:
    """A user turn before any call: every result in it is an orphan."""
    rest = Turn(kind=turn.kind, message=turn.message)
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


def text_form(result: ToolResult) -> bool:
    """Whether a result answers a free-text call."""
    return result.form is InputForm.TEXT
