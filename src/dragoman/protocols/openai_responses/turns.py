"""Turns of another protocol's conversation as items of an input (§5, §6, §11)."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Ledger, Place, render_place
from dragoman.model.parts import (
    Compaction,
    Foreign,
    HostedCall,
    HostedResult,
    InputForm,
    Part,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from dragoman.model.request import Request
from dragoman.protocols.codec import Target
from dragoman.protocols.openai_responses import hosted
from dragoman.protocols.openai_responses.output import decode_turn, lifted
from dragoman.protocols.openai_responses.parts import InputWriter, encode_annotation, plain_text
from dragoman.protocols.openai_responses.shapes import (
    CONTINUATION,
    CUSTOM_CALL,
    CUSTOM_OUTPUT,
    FUNCTION_CALL,
    FUNCTION_OUTPUT,
    MESSAGE,
    NAME,
    REASONING,
    SUMMARY_OPENING,
)
from dragoman.rules.abilities import ID_RULES
from dragoman.rules.arguments import or_empty, unwrapped
from dragoman.rules.conversation import Turn, TurnKind, arrange
from dragoman.rules.extras import drop_extras, foreign_text
from dragoman.rules.ids import RESPONSES, call_id
from dragoman.rules.instructions import without_telemetry
from dragoman.rules.seals import opens
from dragoman.rules.toolnames import ToolTable
from dragoman.rules.unwrap import InputUnwrapper, wrap_input

_ERROR = "Error: "


class TurnWriter:
    """Writes the conversation of one request."""

    def __init__(self, request: Request, target: Target, ledger: Ledger, table: ToolTable) -> None:
        self._request = request
        self._target = target
        self._ledger = ledger
        self._table = table
        self._rule = ID_RULES.get((NAME, target.abilities.call_ids), RESPONSES)
        self.content = InputWriter(target, ledger)
        # Calls that were written as free-text calls: their results are written alike.
        self._custom: set[str] = set()

    def write(self) -> JsonList:
        """All items, in order."""
        items: JsonList = []
        for index, message in enumerate(self._request.messages):
            drop_extras(message.extras, ("messages", index), self._ledger)
        turns = arrange(self._request.messages, self._ledger, restore=self._restore)
        for turn in turns:
            if turn.kind is TurnKind.ASSISTANT:
                items.extend(_AssistantTurn(self, turn).write())
            elif turn.kind is TurnKind.RESULTS:
                items.extend(self._result(part, at) for part, at in zip(turn.parts, turn.places, strict=True))
            else:
                item = self._message(turn)
                if item is not None:
                    items.append(item)
        if turns and turns[-1].kind is TurnKind.ASSISTANT and items:
            self._ledger.approximated(
                Feature.PREFILL, turns[-1].places[-1], "the provider is asked to continue the last message"
            )
            items.append(_user_message(CONTINUATION))
        return items

    def _restore(self, sealed: Seal) -> tuple[Part, ...] | None:
        if sealed.kind != "turn" or not opens(sealed, NAME, self._target.model, self._target.abilities):
            return None
        blocks = sealed.body.get("blocks")
        if not isinstance(blocks, list):
            return None
        return decode_turn([block for block in blocks if isinstance(block, dict)])

    def _message(self, turn: Turn) -> JsonObject | None:
        """A message of the user or of instructions; None if nothing of it is to be said."""
        if turn.kind is TurnKind.USER:
            content = self.content.content(turn.parts, turn.places)
            if not content:
                if any(isinstance(part, Foreign) for part in turn.parts):
                    return None
                return {"type": MESSAGE, "role": "user", "content": ""}
            return {"type": MESSAGE, "role": "user", "content": content}
        parts: list[Part] = []
        places: list[Place] = []
        for part, at in zip(turn.parts, turn.places, strict=True):
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
        # Messages knows instructions inside the conversation under one name; here they are the developer's (§4).
        role = "developer" if self._request.origin == "anthropic-messages" else turn.kind.value
        return {"type": MESSAGE, "role": role, "content": content}

    def _result(self, part: Part, at: Place) -> JsonObject:
        assert isinstance(part, ToolResult)
        if part.extras is not None and "type" not in part.extras.fields:
            drop_extras(part.extras, at, self._ledger)
        identity = call_id(part.call_id, self._rule)
        text = plain_text(part.parts) if part.cache is None or not self._target.abilities.breakpoints else None
        if text is not None:
            self.content.lose_mark(part.cache, at)
            output: str | JsonList = self._marked_error(text, at) if part.is_error else text
        else:
            output = self._output_parts(part, at)
        kind = CUSTOM_OUTPUT if part.call_id in self._custom else FUNCTION_OUTPUT
        return {"type": kind, "call_id": identity, "output": output}

    def _output_parts(self, part: ToolResult, at: Place) -> JsonList:
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
        last = content[-1] if content else None
        if part.cache is not None and isinstance(last, dict):
            content[-1] = self.content.mark(last, part.cache, at)
        return content

    def _marked_error(self, text: str, at: Place) -> str:
        self._ledger.approximated(Feature.TOOL_ERROR, at, "an error is marked in its text")
        return text if text.startswith(_ERROR) else _ERROR + text

    def call(self, part: ToolCall, at: Place, *, exact: bool) -> JsonObject:
        """A call of the assistant, free-text or function."""
        if part.extras is not None:
            if part.extras.origin == NAME and "type" in part.extras.fields:
                return part.extras.fields
            if "type" not in part.extras.fields and part.extras.origin != NAME:
                drop_extras(part.extras, at, self._ledger)
        self.content.lose_mark(part.cache, at)
        entry = self._table.entry(part.name, part.namespace)
        identity = call_id(part.call_id, self._rule)
        declared_text = entry is not None and entry.form is InputForm.TEXT
        free = self._target.abilities.custom_tools and (part.form is InputForm.TEXT or declared_text)
        written: JsonObject = {"type": CUSTOM_CALL if free else FUNCTION_CALL, "call_id": identity}
        written["name"] = entry.wire if entry is not None else self._table.wire(part.name, part.namespace)
        if free:
            self._custom.add(part.call_id)
            written["input"] = part.arguments if part.form is InputForm.TEXT else _unwrap(part.arguments)
        elif part.form is InputForm.TEXT:
            self._ledger.approximated(Feature.CUSTOM_TOOL, at, "a free-text call is written as a function call")
            written["arguments"] = wrap_input(part.arguments)
        else:
            written["arguments"] = or_empty(unwrapped(part.arguments))
        if exact and part.id is not None:
            written["id"] = part.id
        return written

    def thinking(self, part: Thinking, at: Place) -> JsonObject | None:
        """The reasoning item that this provider issued; other reasoning is never shown to it (V2)."""
        sealed = part.seal
        if sealed is None:
            self._ledger.dropped(Feature.THINKING, at, "reasoning without proof is not sent back")
            return None
        if sealed.kind != "item" or not opens(sealed, NAME, self._target.model, self._target.abilities):
            self._ledger.dropped(Feature.THINKING_SEAL, at, "another issuer's reasoning cannot be opened here")
            return None
        return sealed.body

    def compaction(self, part: Compaction, at: Place) -> JsonObject:
        """What stands for the conversation before: the issuer's item, or its summary as the user's words (V9)."""
        sealed = part.seal
        if (
            sealed is not None
            and "type" in sealed.body
            and opens(sealed, NAME, self._target.model, self._target.abilities)
        ):
            return sealed.body
        if part.summary is None:
            raise RefusedError(
                Feature.COMPACTION.value,
                render_place(at),
                "only its issuer can read what the conversation was compacted to",
            )
        self._ledger.approximated(Feature.COMPACTION, at, "the summary is told as a user message")
        return _user_message(SUMMARY_OPENING + part.summary)

    def annotations(self, texts: list[tuple[Text, Place]]) -> JsonList:
        """The citations of adjacent texts as annotations of their one part."""
        found: JsonList = []
        offset = 0
        for text, at in texts:
            for index, citation in enumerate(text.citations):
                one = encode_annotation(citation, offset, len(text.text))
                if one is None:
                    self._ledger.dropped(Feature.CITATIONS, (*at, "citations", index), "this source has no form here")
                else:
                    found.append(one)
            offset += len(text.text)
        return found

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    @property
    def per_call(self) -> bool:
        """Whether the server checks reasoning for each call (V10)."""
        return self._target.abilities.thinking_per_call


class _AssistantTurn:
    """One assistant turn: items in the order of its parts, adjacent text sharing one message (T11)."""

    def __init__(self, writer: TurnWriter, turn: Turn) -> None:
        self._writer = writer
        self._turn = turn
        self._items: JsonList = []
        self._texts: list[tuple[Text, Place]] = []
        self._content: JsonList = []
        self._message_id: str | None = None
        self._message_extras: JsonObject = {}
        # Reasoning that waits for the item it led to; alone it would be refused.
        self._thinking: list[tuple[JsonObject, Place]] = []
        self._call: tuple[HostedCall, Place] | None = None

    def write(self) -> JsonList:
        for part, at in zip(self._turn.parts, self._turn.places, strict=True):
            if not isinstance(part, HostedResult):
                self._finish_hosted(None)
            self._part(part, at)
        self._finish_hosted(None)
        self._finish_message()
        for _, at in self._thinking:
            self._writer.ledger.dropped(Feature.THINKING, at, "reasoning whose outcome is gone is refused")
        return self._items

    def _part(self, part: Part, at: Place) -> None:
        writer = self._writer
        match part:
            case Text():
                self._text(part, at)
            case Refusal():
                self._finish_text()
                drop_extras(part.extras if not self._at_home(part) else None, at, writer.ledger)
                self._content.append({"type": "refusal", "refusal": part.text})
            case Thinking():
                self._finish_message()
                item = writer.thinking(part, at)
                if item is not None:
                    self._thinking.append((item, at))
            case ToolCall():
                self._finish_message()
                self._emit(writer.call(part, at, exact=self._turn.exact), repeat=writer.per_call)
            case HostedCall():
                self._finish_message()
                self._call = (part, at)
            case HostedResult():
                self._finish_hosted(part)
            case Compaction():
                self._finish_message()
                self._emit(writer.compaction(part, at))
            case Foreign():
                self._foreign(part, at)
            case _:
                raise RefusedError(
                    Feature.FOREIGN_CONTENT.value,
                    render_place(at),
                    f"{type(part).__name__} cannot stand in an assistant message",
                )

    def _at_home(self, part: Part) -> bool:
        return part.extras is not None and part.extras.origin == NAME

    def _text(self, part: Text, at: Place) -> None:
        if self._turn.exact and part.id != self._message_id and (self._texts or self._content):
            self._finish_message()
        self._writer.content.lose_mark(part.cache, at)
        if self._turn.exact:
            self._message_id = part.id
            self._message_extras |= lifted(part)
        if part.extras is not None and not self._at_home(part):
            drop_extras(part.extras, at, self._writer.ledger)
        self._texts.append((part, at))

    def _foreign(self, part: Foreign, at: Place) -> None:
        if part.origin == NAME and self._turn.exact:
            self._finish_message()
            self._emit(part.body)
            return
        text = foreign_text(part, at, self._writer.ledger, said_by_user=False)
        if text is not None:
            self._texts.append((Text(text=text), at))

    def _finish_text(self) -> None:
        if self._texts:
            annotations = self._writer.annotations(self._texts)
            text = "".join([text.text for text, _ in self._texts])
            self._content.append({"type": "output_text", "text": text, "annotations": annotations})
            self._texts = []

    def _finish_message(self) -> None:
        self._finish_text()
        if self._content:
            item: JsonObject = {"type": MESSAGE, "role": "assistant", "content": self._content}
            if self._message_id is not None:
                item["id"] = self._message_id
                item["status"] = "completed"
            self._content = []
            self._emit({**item, **self._message_extras})
        self._message_id = None
        self._message_extras = {}

    def _finish_hosted(self, result: HostedResult | None) -> None:
        if self._call is None:
            return
        call, at = self._call
        self._call = None
        if call.extras is None or call.extras.origin != NAME:
            self._writer.ledger.approximated(
                hosted.FEATURES[call.kind], at, "told as a call of this provider's own tool"
            )
        self._emit(hosted.encode_hosted(call, result))

    def _emit(self, item: JsonObject, *, repeat: bool = False) -> None:
        self._items.extend([thinking for thinking, _ in self._thinking])
        if repeat and not self._thinking:
            self._items.extend(self._last_thinking())
        self._thinking = []
        self._items.append(item)

    def _last_thinking(self) -> JsonList:
        """The reasoning before the calls of this turn, once more."""
        for item in reversed(self._items):
            if isinstance(item, dict) and item.get("type") == REASONING:
                return [item]
        return []


def _unwrap(arguments: str) -> str:
    unwrapper = InputUnwrapper()
    return unwrapper.feed(arguments) + unwrapper.close()


def _user_message(text: str) -> JsonObject:
    return {"type": MESSAGE, "role": "user", "content": [{"type": "input_text", "text": text}]}
