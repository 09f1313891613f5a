"""Encodes reasoning and signatures that return to their provider (mapping.md §11: V2, V7, V12)."""

from __future__ import annotations

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import Seal, Thinking, ToolCall
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_chat.call_signatures import (
    attach_signature,
    call_signature,
    is_call_signature,
    spellings,
    stand_in,
)
from dragoman.protocols.openai_chat.reasoning import content_parts, write_echo
from dragoman.protocols.openai_chat.shapes import NAME, REASONING_FIELDS
from dragoman.rules.conversation import Turn, TurnKind
from dragoman.rules.extras import drop_extras
from dragoman.rules.seals import opens

NOT_ISSUED = "this provider did not issue it"
_UNWELCOME = {
    "calls": "this provider takes reasoning back only beside calls",
    "turns": "this provider takes reasoning back only of turns with calls",
    "none": "this provider takes no reasoning back",
}


class Echo:
    """The reasoning of one assistant message. `in_turn` means that its turn has a call."""

    __slots__ = ("_in_turn", "_ledger", "_signatures", "_target", "_thinking")

    def __init__(self, target: TargetModel, ledger: Ledger, *, in_turn: bool) -> None:
        self._target = target
        self._ledger = ledger
        self._in_turn = in_turn
        self._thinking: list[Thinking] = []
        self._signatures: list[tuple[Seal, Place, int]] = []

    def take(self, part: Thinking, at: Place, calls: int) -> list[JsonObject]:
        """Add one part, after this number of calls. Returns its content parts."""
        seal, target = part.seal, self._target
        if seal is None or not opens(seal, NAME, target.model, target.capabilities, target.vendor):
            self._ledger.dropped(
                Feature.THINKING_SIGNATURE if is_call_signature(part) else Feature.THINKING, at, NOT_ISSUED
            )
            return []
        if is_call_signature(part):
            self._signatures.append((seal, at, calls))
            return []
        wanted = target.capabilities.echo_thinking
        if wanted != "all" and (wanted == "none" or not self._in_turn):
            self._ledger.dropped(Feature.THINKING, at, _UNWELCOME[wanted])
            return []
        drop_extras(part.extras, at, self._ledger)
        self._thinking.append(part)
        return content_parts(part)

    def write(self, message: JsonObject, at: Place) -> None:
        """Write the reasoning to send back, or the placeholder for missing reasoning."""
        capabilities = self._target.capabilities
        if self._thinking:
            write_echo(self._thinking, message)
        if self._in_turn and capabilities.demands_thinking and REASONING_FIELDS[0] not in message:
            message["reasoning_content"] = capabilities.missing_thinking
            if capabilities.missing_thinking:
                self._ledger.invented(Feature.THINKING, at, "this provider demands reasoning; a blank stands for it")

    def discard(self, at: Place) -> None:
        """Drop reasoning without other content: no server accepts reasoning alone."""
        if self._thinking or self._signatures:
            self._ledger.dropped(Feature.THINKING, at, "a message of reasoning alone is not sent")

    def sign(self, message: JsonObject, calls: list[tuple[ToolCall, Place]], written: list[JsonObject]) -> None:
        """Attach each signature to its call or to the message. The first call of a step always gets one (V12)."""
        value = self._target.capabilities.call_proof
        if not self._signatures and not value:
            return
        signed: set[int] = set()
        positions = {call.call_id: number for number, (call, _) in reversed([*enumerate(calls)])}
        for seal, at, before in self._signatures:
            call_id = seal.body.get("call_id")
            if not call_id:
                attach_signature(seal, message)
                continue
            position = min((positions[one] for one in spellings(str(call_id)) if one in positions), default=None)
            if position is None and before < len(calls) and before not in signed:
                # The call's ID changed on the way. A signature directly precedes its call.
                position = before
            if position is None:
                self._ledger.dropped(Feature.THINKING_SIGNATURE, at, "the call that it proves is gone")
                continue
            signed.add(position)
            attach_signature(seal, written[position])
        if value and written and not call_signature(written[0]):
            stand_in(value, written[0])
            self._ledger.invented(
                Feature.THINKING_SIGNATURE, calls[0][1], "a documented value stands for the proof of the call"
            )


def turns_with_calls(turns: list[Turn]) -> set[int]:
    """Assistant turns between two user messages, if there is a call among them (V7). Results and reminders do not
    divide."""
    numbers: set[int] = set()
    since: list[int] = []
    called = after_results = False
    for number, turn in enumerate(turns):
        if turn.kind is _ASSISTANT:
            since.append(number)
            called = called or turn.pairs
        elif turn.kind is _USER and not after_results:
            numbers.update(since if called else ())
            since, called = [], False
        after_results = turn.kind is _RESULTS
    numbers.update(since if called else ())
    return numbers


# Bound once: looking up an enum member is slow, and every turn needs these.
_USER, _ASSISTANT, _RESULTS = TurnKind.USER, TurnKind.ASSISTANT, TurnKind.RESULTS
