"""Encodes turns of another protocol's conversation as Chat messages (mapping.md §4-§6)."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import (
    Compaction,
    Document,
    Foreign,
    HostedCall,
    HostedResult,
    InputForm,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from dragoman.model.request import Message
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_chat.messages import write_call
from dragoman.protocols.openai_chat.parts import PartEncoder, is_plain
from dragoman.protocols.openai_chat.reasoning_history_encoder import NOT_ISSUED, Echo, turns_with_calls
from dragoman.protocols.openai_chat.shapes import CONTINUE_EXACTLY, ERROR_PREFIX, NAME, SUMMARY_OPENING, UNDERSTOOD
from dragoman.rules import ids
from dragoman.rules.arguments import passed_on
from dragoman.rules.capabilities import ID_RULES
from dragoman.rules.conversation import INTERRUPTED, Turn, TurnKind
from dragoman.rules.extras import HOSTED_FEATURES, drop_extras, foreign_text, refused
from dragoman.rules.input_wrapping import wrap_input
from dragoman.rules.instructions import is_tagged, tagged, without_telemetry
from dragoman.rules.tool_table import ToolTable
from dragoman.rules.translated_parts import HistoryEncoding

# Bound once: looking up an enum member is slow, and every turn needs these.
_USER, _ASSISTANT, _RESULTS = TurnKind.USER, TurnKind.ASSISTANT, TurnKind.RESULTS
_JSON = InputForm.JSON


class TurnEncoder:
    def __init__(
        self, target: TargetModel, table: ToolTable, ledger: Ledger, history: HistoryEncoding | None = None
    ) -> None:
        capabilities = target.capabilities
        if history is not None and (capabilities.echo_thinking == "turns" or capabilities.results_apart):
            # Later turns decide how earlier ones are encoded.
            history.is_prefix, history = False, None
        self._history = history
        self._target = target
        self._capabilities = capabilities
        self._table = table
        self._ledger = ledger
        self._parts = PartEncoder(target, ledger)
        self._id_rule = ID_RULES[(NAME, target.capabilities.call_ids)]
        self._fits = self._id_rule.pattern.fullmatch
        self._written: JsonList = []
        self._attached: list[JsonObject] = []
        self._begun = False
        self._turn_at: Place = ("messages",)
        self._write_message = self._written.append if target.capabilities.user_after_tool else self._write_after_result
        self._called = False

    def encode(self, instructions: tuple[Text, ...], turns: list[Turn], closing: str | None) -> JsonList:
        """All messages. `closing` is an additional instruction of this library."""
        self._instructions(instructions, closing)
        if self._history is not None:
            self._begin_history(self._history)
        called = turns_with_calls(turns) if self._capabilities.echo_thinking == "turns" else ()
        for number, turn in enumerate(turns):
            kind = turn.kind
            if self._attached and kind is not _USER:
                self._flush()
            if turn.places:
                self._turn_at = turn.places[0]
            if kind is _USER:
                self._user(turn)
                continue
            if kind is _ASSISTANT:
                if self._history is not None:
                    self._history.begin_turn(turn.parts, turn.places, self._written)
                self._called = number in called
                self._assistant(turn)
                if self._history is not None:
                    self._history.end_turn(self._written)
            elif kind is _RESULTS:
                self._results(turn)
            else:
                self._system(turn)
        if self._attached:
            self._flush()
        if self._history is not None:
            self._history.end_turns(self._written)
        self._prefill(turns[-1].places[-1] if turns and turns[-1].places else ("messages",))
        if self._history is not None:
            self._history.finish(self._ledger, self._written)
        return self._written

    def encode_behind(
        self, instructions: tuple[Text, ...], usual: JsonList, messages: tuple[Message, ...], closing: str | None
    ) -> JsonList:
        """All messages, of which the usual conversation is already encoded."""
        self._instructions(instructions, closing)
        self._written += usual
        last = len(messages) - 1
        self._prefill(("messages", last, "parts", len(messages[last].parts) - 1))
        return self._written

    def _begin_history(self, history: HistoryEncoding) -> None:
        """Continue a history after the instructions."""
        history.begin_stage(self._ledger)
        history.begin_writing(self._written)
        self._begun = history.start is not None

    def _instructions(self, instructions: tuple[Text, ...], closing: str | None) -> None:
        if len(instructions) == 1 and closing is None and is_plain(instructions[0]):
            only = self._without_telemetry(instructions[0].text, ("instructions", 0))
            if only:
                self._written.append({"role": "system", "content": only})
            return
        texts: list[JsonObject] = []
        for index, block in enumerate(instructions):
            at: Place = ("instructions", index)
            text = self._without_telemetry(block.text, at)
            if text:
                texts.append(self._parts.text(block, at, text))
        if closing is not None:
            texts.append({"type": "text", "text": closing})
        if texts:
            self._written.append({"role": "system", "content": joined_content(texts)})

    def _without_telemetry(self, text: str, at: Place) -> str:
        stripped = without_telemetry(text)
        if len(stripped) != len(text):
            self._ledger.approximated(Feature.TELEMETRY_LINE, at, "the client's telemetry line is left out")
        return stripped

    def _system(self, turn: Turn) -> None:
        texts: list[JsonObject] = []
        for index, part in enumerate(turn.parts):
            at = turn.places[index]
            if isinstance(part, Text):
                text = self._without_telemetry(part.text, at)
                if text:
                    texts.append(self._parts.text(part, at, text))
            elif isinstance(part, Foreign):
                foreign = foreign_text(part, at, self._ledger, by_user=True)
                if foreign:
                    texts.append({"type": "text", "text": foreign})
            else:
                raise refused(Feature.INSTRUCTIONS, at, "instructions to this provider are text only")
        if not texts:
            return
        if self._begun and not self._capabilities.system_anywhere:
            self._ledger.approximated(
                Feature.MID_CONVERSATION_SYSTEM, turn.places[0], "written as a tagged user message"
            )
            late: list[JsonObject] = [{**text, "text": tagged(str(text["text"]))} for text in texts]
            self._write_message({"role": "user", "content": joined_content(late)})
            return
        if self._history is not None and not self._capabilities.system_anywhere:
            # It may be joined to the instructions, which are not part of the history.
            self._history.is_prefix = False
        # Servers without the developer role get the system role.
        developer = turn.kind is TurnKind.DEVELOPER and self._capabilities.developer_role
        if not self._capabilities.system_anywhere and self._written:
            self._join_leading(texts)
            return
        self._write_message({"role": "developer" if developer else "system", "content": joined_content(texts)})

    def _join_leading(self, texts: list[JsonObject]) -> None:
        """Join the leading system messages, for servers that require one system message at the start."""
        leading = self._written[0]
        if isinstance(leading, dict):
            existing = leading["content"]
            before: list[JsonObject] = [{"type": "text", "text": existing}]
            if isinstance(existing, list):
                before = [part for part in existing if isinstance(part, dict)]
            leading["content"] = joined_content(before + texts)

    def _user(self, turn: Turn) -> None:
        self._begun = True
        if len(turn.parts) == 1 and not self._attached:
            only = turn.parts[0]
            if type(only) is Text and is_plain(only):
                self._write_message({"role": "user", "content": only.text})
                return
        parts, self._attached = self._attached, []
        for index, part in enumerate(turn.parts):
            at = turn.places[index]
            if isinstance(part, Compaction):
                parts.append({"type": "text", "text": self._summary(part, at)})
            else:
                parts += self._parts.parts(part, at)
        if not parts and any(isinstance(part, Foreign) and part.applied is not None for part in turn.parts):
            return
        self._write_message({"role": "user", "content": joined_content(parts)})

    def _write_after_result(self, message: JsonObject) -> None:
        """Encode user text or an instruction for a server that accepts neither directly after a result (T15)."""
        last = self._written[-1] if self._written else None
        if not isinstance(last, dict) or last.get("role") != "tool":
            self._written.append(message)
            return
        text = message["content"]
        instructs = message["role"] != "user"
        if isinstance(text, str) and (instructs or is_tagged(text)):
            note = "told at the end of the result, since this server takes nothing but an answer after one"
            self._ledger.approximated(Feature.RESULT_ORDER, self._turn_at, note)
            _add_text(last, tagged(text) if instructs else text)
            return
        note = "the assistant is made to answer a result before the next message, as this server demands"
        self._ledger.invented(Feature.RESULT_ORDER, self._turn_at, note)
        self._written.append({"role": "assistant", "content": UNDERSTOOD})
        self._written.append(message)

    def _summary(self, part: Compaction, at: Place) -> str:
        if part.summary is None:
            raise refused(Feature.COMPACTION, at, "only its issuer can open this compacted conversation")
        self._ledger.approximated(Feature.COMPACTION, at, "the summary is written as a user message")
        return SUMMARY_OPENING + part.summary

    def _flush(self) -> None:
        self._write_message({"role": "user", "content": [*self._attached]})
        self._attached = []

    def _assistant(self, turn: Turn) -> None:
        self._begun = True
        if Compaction not in map(type, turn.parts):
            self._assistant_message(turn.parts, turn.places)
            return
        start = 0
        for index, part in enumerate(turn.parts):
            if isinstance(part, Compaction):
                self._assistant_message(turn.parts[start:index], turn.places[start:index])
                self._write_message({"role": "user", "content": self._summary(part, turn.places[index])})
                start = index + 1
        self._assistant_message(turn.parts[start:], turn.places[start:])

    def _assistant_message(self, parts: Sequence[Part], places: Sequence[Place]) -> None:
        text = AssistantText()
        written: list[JsonObject] = []
        echo: Echo | None = None
        refusals: list[str] = []
        for index, part in enumerate(parts):
            at = places[index]
            kind = type(part)
            if kind is Text:
                text.add(self._parts.text(part, at), at)  # type: ignore[arg-type]  # `kind` is its type
            elif kind is ToolCall:
                text.apart = True
                written.append(self._call(part, at))  # type: ignore[arg-type]  # `kind` is its type
            elif isinstance(part, Thinking):
                text.apart = True
                if part.seal is None or part.seal.origin != NAME:
                    # In a history from another issuer, this is all reasoning.
                    self._ledger.dropped(Feature.THINKING, at, NOT_ISSUED)
                    continue
                if echo is None:
                    echo = self._echo(parts)
                in_content = echo.take(part, at, len(written))
                if in_content:
                    text.put(in_content)
            elif isinstance(part, Refusal):
                drop_extras(part.extras, at, self._ledger)
                refusals.append(part.text)
            else:
                text.apart = True
                self._other(part, at, text)
        content = text.content()
        message: JsonObject = {"role": "assistant", "content": content}
        if echo is None and (self._capabilities.demands_thinking or self._capabilities.call_proof):
            echo = self._echo(parts)
        if echo is not None and places:
            echo.write(message, places[0])
        if refusals:
            message["refusal"] = "".join(refusals)
        if written:
            message["tool_calls"] = [*written]
        if echo is not None:
            calls = [(part, at) for part, at in zip(parts, places, strict=True) if isinstance(part, ToolCall)]
            echo.sign(message, calls, written)
        if content is not None or refusals or written:
            self._written.append(message)
        elif echo is not None and places:
            echo.discard(places[0])

    def _echo(self, parts: Sequence[Part]) -> Echo:
        return Echo(self._target, self._ledger, in_turn=self._called or ToolCall in map(type, parts))

    def _other(self, part: Part, at: Place, text: AssistantText) -> None:
        """A part of an assistant turn that this protocol cannot express."""
        if isinstance(part, HostedCall | HostedResult):
            self._ledger.dropped(HOSTED_FEATURES[part.kind], at, "what another provider ran itself is not carried over")
        elif isinstance(part, Foreign):
            foreign = foreign_text(part, at, self._ledger, by_user=False)
            if foreign:
                text.add({"type": "text", "text": foreign}, at)
        else:
            self._ledger.dropped(Feature.UNSUPPORTED_CONTENT, at, "an assistant message is text only here")

    def _call(self, part: ToolCall, at: Place) -> JsonObject:
        if not part.name:
            raise refused(Feature.TOOL_NAME, at, "a call needs a name")
        if part.extras is not None or part.cache is not None:
            self._report_call(part, at)
        call_id = part.call_id if self._fits(part.call_id) else ids.call_id(part.call_id, self._id_rule)
        name = self._table.wire(part.name, part.namespace)
        if part.form is _JSON:
            arguments = passed_on(part.arguments)
            return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        if self._capabilities.custom_tools:
            return write_call(call_id, name, part.arguments, InputForm.TEXT)
        return write_call(call_id, name, wrap_input(part.arguments), InputForm.JSON)

    def _report_call(self, part: ToolCall, at: Place) -> None:
        if part.extras is not None and "type" in part.extras.fields:
            self._ledger.approximated(Feature.VENDOR_TOOL, at, "written as a function call")
        else:
            drop_extras(part.extras, at, self._ledger)
        if part.cache is not None:
            self._ledger.dropped(Feature.CACHE_BREAKPOINT, (*at, "cache"), "calls carry no cache breakpoints here")

    def _results(self, turn: Turn) -> None:
        written, fits = self._written, self._fits
        for index, part in enumerate(turn.parts):
            at = turn.places[index]
            if type(part) is not ToolResult:
                continue
            if len(part.parts) == 1 and part.extras is None and part.cache is None and not part.is_error:
                only = part.parts[0]
                if type(only) is Text and is_plain(only):
                    call_id = part.call_id if fits(part.call_id) else ids.call_id(part.call_id, self._id_rule)
                    written.append({"role": "tool", "tool_call_id": call_id, "content": only.text})
                    continue
            self._result(part, at)

    def _result(self, result: ToolResult, at: Place) -> None:
        """A `tool` message of text. Media follow in the user message after all results (mapping.md §6)."""
        if result.extras is not None and "type" in result.extras.fields:
            self._ledger.approximated(Feature.VENDOR_TOOL, at, "written as text")
        else:
            drop_extras(result.extras, at, self._ledger)
        call_id = ids.call_id(result.call_id, self._id_rule)
        lines: list[str] = []
        cache = result.cache
        for index, part in enumerate(result.parts):
            place: Place = (*at, "parts", index)
            for written in self._parts.parts(part, place):
                if written["type"] == "text":
                    lines.append(str(written["text"]))
                    continue
                kind = "file" if isinstance(part, Document) else "image" if "image_url" in written else "sound"
                lines.append(f"[{kind} omitted; attached below]")
                self._ledger.approximated(Feature.TOOL_RESULT_MEDIA, place, "sent in the user message that follows")
                self._attached.append({"type": "text", "text": f"[{kind} from the result of tool call {call_id}]"})
                self._attached.append(written)
        text = "\n".join(lines)
        if result.is_error:
            if text != INTERRUPTED:
                self._ledger.approximated(Feature.TOOL_ERROR, at, "the text says that it is an error")
            if not text.startswith(ERROR_PREFIX):
                text = ERROR_PREFIX + text
        content = [self._parts.add_breakpoint({"type": "text", "text": text}, cache, (*at, "cache"))]
        self._written.append({"role": "tool", "tool_call_id": call_id, "content": joined_content(content)})

    def _prefill(self, at: Place) -> None:
        """A last assistant message: only servers with an option for it continue it (T14)."""
        last = self._written[-1] if self._written else None
        if not isinstance(last, dict) or last.get("role") != "assistant":
            return
        if self._capabilities.prefill:
            last["prefix"] = True
            return
        self._ledger.invented(Feature.PREFILL, at, "a user message asks for the continuation")
        self._written.append({"role": "user", "content": CONTINUE_EXACTLY})


def _add_text(message: JsonObject, text: str) -> None:
    content = message["content"]
    if isinstance(content, list):
        content.append({"type": "text", "text": text})
    else:
        message["content"] = f"{content}\n\n{text}" if isinstance(content, str) and content else text


class AssistantText:
    """Text of an assistant message. Adjacent blocks are joined directly, with a blank line if `apart` is set (T11)."""

    __slots__ = ("_at", "_ends_with_text", "_in_parts", "_parts", "apart")

    def __init__(self) -> None:
        self._parts: list[JsonObject] = []
        self._in_parts = False
        self._ends_with_text = False
        self._at: Place = ()
        self.apart = False

    def add(self, part: JsonObject, at: Place) -> None:
        """Add text. Another unit of the client's protocol is another paragraph."""
        if self._ends_with_text and (self.apart or self._at[:2] != at[:2]):
            part["text"] = "\n\n" + str(part["text"])
        self._at = at
        self.apart = False
        self._ends_with_text = True
        self._parts.append(part)

    def put(self, parts: list[JsonObject]) -> None:
        """Add content parts other than text, which separate text by themselves."""
        self._parts += parts
        self._in_parts = True
        self._ends_with_text = False

    def content(self) -> JsonValue:
        parts = self._parts
        if not parts:
            return None
        if self._in_parts:
            return [*parts]
        if len(parts) == 1 and len(parts[0]) == 2:
            return parts[0]["text"]
        for part in parts:
            if len(part) != 2:
                return [*parts]
        return "".join([str(part["text"]) for part in parts])


def joined_content(parts: list[JsonObject]) -> JsonValue:
    """A string if every part is plain text, else the parts in order."""
    texts: list[str] = []
    for part in parts:
        text = part.get("text")
        if len(part) != 2 or not isinstance(text, str):
            return [*parts]
        texts.append(text)
    return texts[0] if len(texts) == 1 else "\n\n".join(texts)
