"""Encodes turns of another protocol's conversation as input items (§5, §6). `assistant` encodes the assistant's."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import Foreign, Part, Seal, Text, ToolResult
from dragoman.model.request import Request
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_responses.assistant import AssistantWriter, user_message
from dragoman.protocols.openai_responses.output import decode_turn
from dragoman.protocols.openai_responses.parts import InputWriter, plain_text
from dragoman.protocols.openai_responses.shapes import CONTINUATION, CUSTOM_OUTPUT, FUNCTION_OUTPUT, MESSAGE, NAME
from dragoman.rules.conversation import INTERRUPTED, Turn, TurnKind, arrange, drop_message_extras
from dragoman.rules.extras import drop_extras
from dragoman.rules.instructions import without_telemetry
from dragoman.rules.seals import opens
from dragoman.rules.tool_table import ToolTable
from dragoman.rules.translated_parts import HistoryEncoding

_ERROR = "Error: "
_ASSISTANT, _RESULTS, _USER = TurnKind.ASSISTANT, TurnKind.RESULTS, TurnKind.USER


class TurnWriter:
    def __init__(
        self,
        request: Request,
        target: TargetModel,
        ledger: Ledger,
        table: ToolTable,
        history: HistoryEncoding | None = None,
    ) -> None:
        self._history = history
        self._request = request
        self._target = target
        self._ledger = ledger
        self._items: JsonList = []
        self.content = InputWriter(target, ledger)
        self._assistant = AssistantWriter(target, ledger, table, self.content, self._items)

    def write(self) -> JsonList:
        items, ledger, history = self._items, self._ledger, self._history
        drop_message_extras(self._request.messages, ledger, history)
        turns = arrange(self._request.messages, ledger, restore=self._restore, history=history)
        if history is not None:
            history.begin_stage(ledger)
            history.begin_writing(items)
        for turn in turns:
            kind = turn.kind
            if kind is _ASSISTANT:
                if history is not None:
                    history.begin_turn(turn.parts, turn.places, items)
                self._assistant.write(turn)
                if history is not None:
                    history.end_turn(items)
            elif kind is _RESULTS:
                for index, part in enumerate(turn.parts):
                    at = turn.places[index]
                    items.append(self._result(part, at))
            else:
                item = self._user(turn) if kind is _USER else self._instructions(turn)
                if item is not None:
                    items.append(item)
        if history is not None:
            history.end_turns(items)
        if turns and turns[-1].kind is _ASSISTANT and items:
            note = "the provider is asked to continue the last message"
            ledger.invented(Feature.PREFILL, turns[-1].places[-1], note)
            items.append(user_message(CONTINUATION))
        if history is not None:
            # Results have the form of their calls, and no two items have the same ID.
            history.is_prefix = history.is_prefix and self._assistant.is_stateless
            history.finish(ledger, items)
        return items

    def _restore(self, sealed: Seal) -> tuple[Part, ...] | None:
        if sealed.kind != "turn" or not opens(sealed, NAME, self._target.model, self._target.capabilities):
            return None
        blocks = sealed.body.get("blocks")
        if not isinstance(blocks, list):
            return None
        return decode_turn([block for block in blocks if isinstance(block, dict)])

    def _user(self, turn: Turn) -> JsonObject | None:
        content = self.content.content(turn.parts, turn.places)
        if content:
            return {"type": MESSAGE, "role": "user", "content": content}
        if any(isinstance(part, Foreign) for part in turn.parts):
            return None
        return {"type": MESSAGE, "role": "user", "content": ""}

    def _instructions(self, turn: Turn) -> JsonObject | None:
        parts: list[Part] = []
        places: list[Place] = []
        for index, part in enumerate(turn.parts):
            at = turn.places[index]
            if isinstance(part, Text):
                text = without_telemetry(part.text)
                if text != part.text:
                    self._ledger.approximated(Feature.TELEMETRY_LINE, at, "the client's telemetry line is left out")
                    part = replace(part, text=text)
                if not text:
                    continue
            parts.append(part)
            places.append(at)
        content = self.content.content(parts, places)
        if not content:
            return None
        # Messages has one role for instructions inside the conversation. Here they become the developer's (§4).
        role = "developer" if self._request.origin == "anthropic-messages" else turn.kind.value
        return {"type": MESSAGE, "role": role, "content": content}

    def _result(self, part: Part, at: Place) -> JsonObject:
        assert isinstance(part, ToolResult)
        if part.extras is not None and "type" not in part.extras.fields:
            drop_extras(part.extras, at, self._ledger)
        only = part.parts[0] if len(part.parts) == 1 else None
        text: str | None = None
        if type(only) is Text and only.cache is None and only.extras is None and part.cache is None:
            text = only.text
        elif part.cache is None or not self._target.capabilities.breakpoints:
            text = plain_text(part.parts)
        output: str | JsonList
        if text is None:
            output = self._output_parts(part, at)
        else:
            if part.cache is not None:
                self.content.lose_breakpoint(part.cache, at)
            output = self._marked_error(text, at) if part.is_error else text
        assistant = self._assistant
        kind = CUSTOM_OUTPUT if part.call_id in assistant.custom else FUNCTION_OUTPUT
        return {"type": kind, "call_id": assistant.identity(part.call_id), "output": output}

    def _output_parts(self, part: ToolResult, at: Place) -> str | JsonList:
        places: list[Place] = [(*at, "parts", index) for index in range(len(part.parts))]
        parts = list(part.parts)
        if part.is_error:
            first = next((index for index, inner in enumerate(parts) if isinstance(inner, Text)), None)
            if first is None:
                parts.insert(0, Text(text=self._marked_error("", at)))
                places.insert(0, at)
            else:
                inner = parts[first]
                assert isinstance(inner, Text)
                parts[first] = replace(inner, text=self._marked_error(inner.text, at))
        content = self.content.content(parts, places)
        if part.cache is None and all(isinstance(one, dict) and one.keys() == {"type", "text"} for one in content):
            return "\n".join([str(one["text"]) for one in content if isinstance(one, dict)])
        last = content[-1] if content else None
        if part.cache is not None and isinstance(last, dict):
            content[-1] = self.content.add_breakpoint(last, part.cache, at)
        return content

    def _marked_error(self, text: str, at: Place) -> str:
        if text != INTERRUPTED:
            # The placeholder for a missing result was reported as invented.
            self._ledger.approximated(Feature.TOOL_ERROR, at, "an error is marked in its text")
        return text if text.startswith(_ERROR) else _ERROR + text
