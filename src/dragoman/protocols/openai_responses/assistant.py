"""Encodes assistant turns of another protocol's conversation as input items (T11, §11, §13)."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import (
    Compaction,
    Foreign,
    HostedCall,
    HostedResult,
    InputForm,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_responses import hosted
from dragoman.protocols.openai_responses.output import lifted
from dragoman.protocols.openai_responses.parts import InputWriter, encode_annotations
from dragoman.protocols.openai_responses.shapes import (
    COMPLETED,
    CUSTOM_CALL,
    FUNCTION_CALL,
    ID_PREFIXES,
    MESSAGE,
    NAME,
    REASONING,
    SUMMARY_OPENING,
)
from dragoman.rules.arguments import passed_on
from dragoman.rules.capabilities import ID_RULES
from dragoman.rules.conversation import Turn
from dragoman.rules.extras import HOSTED_FEATURES, drop_extras, foreign_text, refused
from dragoman.rules.ids import RESPONSES, call_id
from dragoman.rules.input_wrapping import InputUnwrapper, wrap_input
from dragoman.rules.seals import opens
from dragoman.rules.tool_table import ToolTable
from dragoman.wire.json import encode_text

# Bound once, because looking up an enum member is slow.
_TEXT, _JSON = InputForm.TEXT, InputForm.JSON


class AssistantWriter:
    """Encodes assistant turns: items in the order of their parts. Adjacent texts of one message share one item."""

    def __init__(
        self, target: TargetModel, ledger: Ledger, table: ToolTable, content: InputWriter, items: JsonList
    ) -> None:
        self._target = target
        self._capabilities = target.capabilities
        self._ledger = ledger
        self._table = table
        self._inputs = content
        self._items = items
        self._rule = ID_RULES.get((NAME, target.capabilities.call_ids), RESPONSES)
        # Calls that were encoded as free-text calls. Their results must have the same form.
        self.custom: set[str] = set()
        # The open message: finished content, then the texts of the open part.
        self._content: JsonList = []
        self._texts: list[Text] = []
        self._places: list[Place] = []
        self._message_id: str | None = None
        self._message_extras: JsonObject = {}
        # Reasoning that waits for the item after it: alone it would be rejected.
        self._thinking: list[JsonObject] = []
        self._thought_at: list[Place] = []
        self._call: tuple[HostedCall, Place] | None = None
        self._exact = False
        self._start = 0
        self._seeds: dict[str, int] = {}

    def write(self, turn: Turn) -> None:
        self._exact = turn.exact
        self._start = len(self._items)
        for index, part in enumerate(turn.parts):
            at = turn.places[index]
            kind = type(part)
            if self._call is not None and kind is not HostedResult:
                self._finish_hosted(None)
            writer = _WRITERS.get(kind)
            if writer is None:
                raise refused(Feature.UNSUPPORTED_CONTENT, at, f"{kind.__name__} cannot stand in an assistant message")
            writer(self, part, at)
        if self._call is not None:
            self._finish_hosted(None)
        if self._texts or self._content:
            self._finish_message()
        if self._thinking:
            for at in self._thought_at:
                self._ledger.dropped(Feature.THINKING, at, "reasoning whose outcome is gone is refused")
            self._thinking, self._thought_at = [], []

    @property
    def is_stateless(self) -> bool:
        """Whether later items do not depend on the encoded ones."""
        return not self.custom and not self._seeds

    def identity(self, value: str) -> str:
        """The ID of a call or result in this protocol (N2)."""
        if self._rule is RESPONSES and 0 < len(value) <= 64:
            return value
        return call_id(value, self._rule)

    def _text(self, part: Text, at: Place) -> None:
        if self._exact:
            if part.id != self._message_id:
                self._finish_message()
            self._message_id = part.id
            self._message_extras |= lifted(part)
        elif self._places and self._places[-1][1] != at[1]:
            # Two messages of the client are not joined.
            self._finish_message()
        if part.cache is not None:
            self._inputs.lose_breakpoint(part.cache, at)
        if part.extras is not None and part.extras.origin != NAME:
            drop_extras(part.extras, at, self._ledger)
        self._texts.append(part)
        self._places.append(at)

    def _refusal(self, part: Refusal, at: Place) -> None:
        self._finish_text()
        if part.extras is not None and part.extras.origin != NAME:
            drop_extras(part.extras, at, self._ledger)
        self._content.append({"type": "refusal", "refusal": part.text})

    def _finish_text(self) -> bool:
        """Write the collected texts as one part. Returns whether it has citations."""
        if not self._texts:
            return False
        annotations = (
            encode_annotations(self._texts, self._places, self._ledger)
            if any(text.citations for text in self._texts)
            else []
        )
        self._content.append(
            {"type": "output_text", "text": "".join([text.text for text in self._texts]), "annotations": annotations}
        )
        self._texts, self._places = [], []
        return bool(annotations)

    def _finish_message(self) -> None:
        alone = not self._content and not self._exact
        cited = self._finish_text()
        if alone and not cited and self._content:
            # Without an ID only the short form is valid: a plain text becomes a string.
            text = self._content.pop()
            assert isinstance(text, dict)
            self._emit({"type": MESSAGE, "role": "assistant", "content": text["text"]})
            return
        if self._content:
            item: JsonObject = {
                "id": self._message_id or self._item_id(MESSAGE, encode_text(self._content)),
                "type": MESSAGE,
                "role": "assistant",
                "status": COMPLETED,
                "content": self._content,
            }
            self._content = []
            self._emit({**item, **self._message_extras})
        self._message_id = None
        self._message_extras = {}

    def _tool_call(self, part: ToolCall, at: Place) -> None:
        if self._texts or self._content:
            self._finish_message()
        if (part.extras is not None or part.cache is not None) and self._is_native(part, at):
            return
        item = self._call_item(part, at)
        if self._thinking or self._capabilities.thinking_per_call:
            self._emit(item, repeat=self._capabilities.thinking_per_call)
        else:
            self._items.append(item)

    def _is_native(self, part: ToolCall, at: Place) -> bool:
        """Report the extras of a call. An item of this protocol is sent unchanged."""
        extras = part.extras
        if extras is not None:
            if extras.origin == NAME and "type" in extras.fields:
                self._emit(extras.fields, repeat=self._capabilities.thinking_per_call)
                return True
            if "type" not in extras.fields and extras.origin != NAME:
                drop_extras(extras, at, self._ledger)
        self._inputs.lose_breakpoint(part.cache, at)
        return False

    def _call_item(self, part: ToolCall, at: Place) -> JsonObject:
        entry = self._table.entry(part.name, part.namespace)
        name = entry.wire if entry is not None else self._table.wire(part.name, part.namespace)
        identity = self.identity(part.call_id)
        as_text = part.form is _TEXT
        written: JsonObject
        if not as_text and (entry is None or entry.form is _JSON):
            arguments = passed_on(part.arguments)
            written = {"type": FUNCTION_CALL, "call_id": identity, "name": name, "arguments": arguments}
        elif self._capabilities.custom_tools:
            self.custom.add(part.call_id)
            text = part.arguments if as_text else InputUnwrapper().unwrap(part.arguments)
            written = {"type": CUSTOM_CALL, "call_id": identity, "name": name, "input": text}
        else:
            arguments = passed_on(part.arguments)
            if as_text:
                self._ledger.approximated(Feature.CUSTOM_TOOL, at, "a free-text call is written as a function call")
                arguments = wrap_input(part.arguments)
            written = {"type": FUNCTION_CALL, "call_id": identity, "name": name, "arguments": arguments}
        if self._exact and part.id is not None:
            written["id"] = part.id
        return written

    def _hosted_call(self, part: HostedCall, at: Place) -> None:
        self._finish_message()
        self._call = (part, at)

    def _hosted_result(self, part: HostedResult, at: Place) -> None:
        if self._call is not None and self._call[0].call_id == part.call_id:
            self._finish_hosted(part)
            return
        self._finish_hosted(None)
        hosted.lose_result(part, at, self._ledger)

    def _finish_hosted(self, result: HostedResult | None) -> None:
        if self._call is None:
            return
        call, at = self._call
        self._call = None
        item = hosted.encode_hosted(call, result)
        if call.extras is None or call.extras.origin != NAME:
            note = "told as a call of this provider's own tool"
            self._ledger.approximated(HOSTED_FEATURES[call.kind], at, note)
            item = {"id": self._item_id(hosted.ITEM_TYPES[call.kind], call.call_id), **item}
        self._emit(item)

    def _item_id(self, kind: str, seed: str) -> str:
        """A synthetic ID for an item whose type requires one. It is the same in every request, and unique for a second
        item of the same seed: the service rejects duplicate IDs."""
        uses = self._seeds[seed] = self._seeds.get(seed, 0) + 1
        seed = seed if uses == 1 else f"{seed}:{uses}"
        return ID_PREFIXES[kind] + sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:24]

    def _thought(self, part: Thinking, at: Place) -> None:
        """The reasoning item that this provider issued. Other reasoning is never sent to it (V2)."""
        if self._texts or self._content:
            self._finish_message()
        sealed = part.seal
        if sealed is None:
            self._ledger.dropped(Feature.THINKING, at, "reasoning without proof is not sent back")
        elif sealed.kind != "item" or not opens(sealed, NAME, self._target.model, self._capabilities):
            self._ledger.dropped(Feature.THINKING_SIGNATURE, at, "another issuer's reasoning cannot be opened here")
        else:
            self._thinking.append(sealed.body)
            self._thought_at.append(at)
            if part.extras is not None and part.extras.origin != NAME:
                drop_extras(part.extras, at, self._ledger)

    def _compaction(self, part: Compaction, at: Place) -> None:
        """The replacement for earlier turns: the issuer's item, or its summary as user text (V9)."""
        self._finish_message()
        sealed = part.seal
        if sealed is not None and "type" in sealed.body and opens(sealed, NAME, self._target.model, self._capabilities):
            self._emit(sealed.body)
            return
        if part.summary is None:
            raise refused(Feature.COMPACTION, at, "only its issuer can read what the conversation was compacted to")
        self._ledger.approximated(Feature.COMPACTION, at, "the summary is told as a user message")
        self._emit(user_message(SUMMARY_OPENING + part.summary))

    def _foreign(self, part: Foreign, at: Place) -> None:
        if part.origin == NAME and self._exact:
            self._finish_message()
            self._emit(part.body)
            return
        text = foreign_text(part, at, self._ledger, by_user=False)
        if text is not None:
            self._text(Text(text=text), at)

    def _emit(self, item: JsonObject, *, repeat: bool = False) -> None:
        if self._thinking:
            self._items += self._thinking
            self._thinking, self._thought_at = [], []
        elif repeat:
            self._repeat_thinking()
        self._items.append(item)

    def _repeat_thinking(self) -> None:
        """Repeat the reasoning before the calls of this turn (V10)."""
        for item in reversed(self._items[self._start :]):
            if isinstance(item, dict) and item.get("type") == REASONING:
                self._items.append(item)
                return


_WRITERS: dict[type, Callable[..., None]] = {
    Text: AssistantWriter._text,
    Refusal: AssistantWriter._refusal,
    ToolCall: AssistantWriter._tool_call,
    Thinking: AssistantWriter._thought,
    HostedCall: AssistantWriter._hosted_call,
    HostedResult: AssistantWriter._hosted_result,
    Compaction: AssistantWriter._compaction,
    Foreign: AssistantWriter._foreign,
}


def user_message(text: str) -> JsonObject:
    return {"type": MESSAGE, "role": "user", "content": [{"type": "input_text", "text": text}]}
