"""Decodes input items to messages, one message for each, and encodes signed items. Items that change the conversation
(late tools, changed settings) stay in place, and the request's updates collect their content (T9)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import (
    Compaction,
    Extras,
    Foreign,
    InputForm,
    Seal,
    Text,
    Thinking,
    ThinkingKind,
    ToolCall,
    ToolResult,
)
from dragoman.model.request import Demand, Message, OutputFormat, Role
from dragoman.model.tools import FunctionTool, TextTool, ToolSpec
from dragoman.protocols.openai_responses import hosted, openai_tools
from dragoman.protocols.openai_responses.parts import decode_content, plain_content
from dragoman.protocols.openai_responses.shapes import (
    COMPACTION,
    COMPACTION_TRIGGER,
    COMPLETED,
    CUSTOM_CALL,
    CUSTOM_OUTPUT,
    FUNCTION_CALL,
    FUNCTION_OUTPUT,
    MESSAGE,
    NAME,
    REASONING,
)
from dragoman.protocols.openai_responses.tool_decoder import decode_format, decode_tools
from dragoman.rules.seals import from_envelope, to_envelope
from dragoman.wire.fields import Fields, Path, render_path
from dragoman.wire.json import kind_of

_ROLES = {role.value: role for role in Role}
_ROLE_NAMES = tuple(_ROLES)
# Items of the user's side by the end of their type. All other items are the model's.
_USER_ENDINGS = ("_output", "_response", "_trigger", "_reference")

# Items identified by their own ID, or of a hosted search: their `call_id` may be null.
_WITHOUT_CALL_ID = frozenset(
    {openai_tools.LOCAL_SHELL.call, "local_shell_call_output", "tool_search_call", "tool_search_output"}
)


class InputReader:
    """Decodes the items of one request, and collects their changes to it."""

    def __init__(self) -> None:
        self.tools: list[ToolSpec] = []
        self.effort: str | None = None
        self.output: OutputFormat | None = None
        self.demands: list[Demand] = []
        self.triggers = 0
        self.compacts = False
        # `local_shell_call_output` names its call by the item's ID (pitfall 160).
        self._local_shells: dict[str, str] = {}
        self._hosted_shells: set[str] = set()

    def messages(self, items: JsonList, path: Path, before: tuple[Message, ...] = ()) -> tuple[Message, ...]:
        """The messages of an input. `before` were decoded earlier."""
        decoded: list[Message] = [*before]
        for position, item in enumerate(items, len(before)):
            if type(item) is not dict:
                raise WireError(render_path((path, position)), "object", kind_of(item))
            message = read_plain(item)
            decoded.append(self.read(Fields(item, (path, position))) if message is None else message)
        if self.triggers:
            self._check_triggers(items)
        return tuple(decoded)

    def _check_triggers(self, items: JsonList) -> None:
        match items[-1]:
            case {"type": "compaction_trigger"} if self.triggers == 1:
                self.compacts = True
            case _:
                note = "a compaction is asked for once, by the last item"
                self.demands.append(Demand(feature=Feature.COMPACTION, member="input", note=note))

    def read(self, item: Fields) -> Message:
        kind = item.optional_text("type")
        if kind is None:
            kind = MESSAGE if "role" in item.value or "id" not in item.value else "item_reference"
        elif not kind:
            raise item.wrong("type", "a type", "an empty string")
        reader = _READERS.get(kind)
        if reader is not None:
            return reader(self, item)
        if kind in openai_tools.CALL_TYPES:
            return self._native_call(item, kind)
        if kind in openai_tools.OUTPUT_TYPES:
            return self._native_output(item, kind)
        if kind in hosted.CALL_TYPES:
            return Message(role=Role.ASSISTANT, parts=hosted.decode_hosted(item, kind), id=item.optional_text("id"))
        return self._foreign(item, kind)

    def _message(self, item: Fields) -> Message:
        role = _ROLES.get(item.text("role"))
        if role is None:
            raise item.wrong("role", " or ".join(repr(word) for word in _ROLE_NAMES), repr(item.value["role"]))
        if item.value.get("content") is None and role is not Role.ASSISTANT:
            raise item.wrong("content", "string or array", "nothing")
        item.demand("content")
        parts = decode_content(item, "content")
        return Message(role=role, parts=parts, id=item.optional_text("id"), extras=item.rest(NAME))

    def _reasoning(self, item: Fields) -> Message:
        thinking = decode_thinking(item)
        return Message(role=Role.ASSISTANT, parts=(thinking,), id=thinking.id)

    def _call(self, item: Fields, member: str, form: InputForm) -> Message:
        item.demand("call_id", member)
        call = ToolCall(
            call_id=item.optional_text("call_id") or "",
            name=item.name("name"),
            arguments=item.optional_text(member) or "",
            form=form,
            namespace=item.optional_text("namespace"),
        )
        return Message(role=Role.ASSISTANT, parts=(call,), id=item.optional_text("id"), extras=item.rest(NAME))

    def _output(self, item: Fields, form: InputForm) -> Message:
        item.demand("call_id", "output")
        result = ToolResult(
            call_id=item.optional_text("call_id") or "", parts=decode_content(item, "output"), form=form
        )
        return Message(role=Role.USER, parts=(result,), id=item.optional_text("id"), extras=item.rest(NAME))

    def _native_call(self, item: Fields, kind: str) -> Message:
        if kind not in _WITHOUT_CALL_ID:
            item.demand("call_id")
        if openai_tools.is_hosted(item.value):
            self._hosted_shells.add(item.optional_text("call_id") or "")
            return self._foreign(item, kind)
        call = openai_tools.decode_call(item, kind)
        if kind == openai_tools.LOCAL_SHELL.call and call.id is not None:
            self._local_shells[call.id] = call.call_id
        return Message(role=Role.ASSISTANT, parts=(call,), id=call.id)

    def _native_output(self, item: Fields, kind: str) -> Message:
        if kind not in _WITHOUT_CALL_ID:
            item.demand("call_id")
        item.demand("output")
        call_id = item.optional_text("call_id")
        if call_id is not None and call_id in self._hosted_shells:
            return self._foreign(item, kind, Role.ASSISTANT)
        if kind == "local_shell_call_output" and call_id is None:
            item_id = item.optional_text("id") or ""
            call_id = self._local_shells.get(item_id, item_id)
        result = openai_tools.decode_output(item, kind, call_id or "")
        return Message(role=Role.USER, parts=(result,), id=result.id)

    def _compaction(self, item: Fields) -> Message:
        part = decode_compaction(item)
        return Message(role=Role.ASSISTANT, parts=(part,), id=part.id)

    def _additional_tools(self, item: Fields) -> Message:
        self.tools += decode_tools(item, "tools")
        return self._foreign(item, "additional_tools", Role.DEVELOPER, "its tools are declared with the request")

    def _search_output(self, item: Fields) -> Message:
        item.demand("tools")
        # Tools that a search has found are no longer deferred.
        self.tools += [
            replace(tool, deferred=None) if isinstance(tool, FunctionTool | TextTool) else tool
            for tool in decode_tools(item, "tools")
        ]
        if item.optional_text("execution") == "client":
            return self._native_output(item, "tool_search_output")
        return self._foreign(item, "tool_search_output", Role.ASSISTANT, "its tools are declared with the request")

    def _configuration(self, item: Fields) -> Message:
        reasoning, text = item.optional_fields("reasoning"), item.optional_fields("text")
        effort = reasoning.optional_text("effort") if reasoning is not None else None
        output = decode_format(text) if text is not None else None
        self.effort = effort or self.effort
        self.output = output or self.output
        return self._foreign(item, "configuration_update", Role.DEVELOPER, "the last one is applied to the request")

    def _reference(self, item: Fields) -> Message:
        item_id = item.text("id")
        self.demands.append(
            Demand(
                feature=Feature.ITEM_REFERENCE,
                member="input",
                note=f"the item {item_id!r} is kept elsewhere and cannot be looked up; send it whole",
            )
        )
        return self._foreign(item, "item_reference", Role.USER)

    def _trigger(self, item: Fields) -> Message:
        self.triggers += 1
        return self._foreign(item, COMPACTION_TRIGGER, Role.USER)

    def _image_call(self, item: Fields) -> Message:
        # No other protocol has images in assistant messages, but the next model should know that there was one.
        prompt = item.optional_text("revised_prompt")
        note = f"[an image was generated here: {prompt}]" if prompt else "[an image was generated here]"
        made = note if item.optional_text("result") else None
        return self._foreign(item, "image_generation_call", Role.ASSISTANT, text=made)

    def _approval(self, item: Fields) -> Message:
        approved, reason = item.optional_flag("approve"), item.optional_text("reason")
        text = None
        if approved is not None:
            text = "The call of the tool is approved." if approved else "The call of the tool is not approved."
            text = f"{text} {reason}" if reason else text
        return self._foreign(item, "mcp_approval_response", Role.USER, text=text)

    def _foreign(
        self, item: Fields, kind: str, role: Role | None = None, applied: str | None = None, text: str | None = None
    ) -> Message:
        if role is None:
            role = Role.USER if kind.endswith(_USER_ENDINGS) else Role.ASSISTANT
        part = Foreign(origin=NAME, kind=kind, body=item.value, applied=applied, text=text)
        item_id = item.value.get("id")
        return Message(role=role, parts=(part,), id=item_id if isinstance(item_id, str) else None)


_READERS: dict[str, Callable[[InputReader, Fields], Message]] = {
    MESSAGE: InputReader._message,
    REASONING: InputReader._reasoning,
    FUNCTION_CALL: lambda reader, item: reader._call(item, "arguments", InputForm.JSON),
    FUNCTION_OUTPUT: lambda reader, item: reader._output(item, InputForm.JSON),
    CUSTOM_CALL: lambda reader, item: reader._call(item, "input", InputForm.TEXT),
    CUSTOM_OUTPUT: lambda reader, item: reader._output(item, InputForm.TEXT),
    COMPACTION: InputReader._compaction,
    "additional_tools": InputReader._additional_tools,
    "tool_search_output": InputReader._search_output,
    "configuration_update": InputReader._configuration,
    "item_reference": InputReader._reference,
    COMPACTION_TRIGGER: InputReader._trigger,
    "image_generation_call": InputReader._image_call,
    "mcp_approval_response": InputReader._approval,
}


# Nearly all items have exactly these members. A fast reader with the result of the full one; None for any other shape.


def read_plain(item: JsonObject) -> Message | None:
    """The message of an item in a usual shape."""
    kind = item.get("type")
    lane = _LANES.get(kind) if type(kind) is str else None
    return lane(item) if lane is not None else None


def _plain_message(item: JsonObject) -> Message | None:
    role, size = item.get("role"), len(item)
    parts = plain_content(item.get("content"))
    if parts is None or type(role) is not str or role not in _ROLES:
        return None
    if size == 3:
        return Message(role=_ROLES[role], parts=parts)
    if size == 5 and type(item_id := item.get("id")) is str and item.get("status") == COMPLETED:
        return Message(role=_ROLES[role], parts=parts, id=item_id, extras=_IS_COMPLETED)
    return None


def _plain_call(item: JsonObject) -> Message | None:
    call_id, name, arguments, size = item.get("call_id"), item.get("name"), item.get("arguments"), len(item)
    if type(call_id) is not str or type(name) is not str or not name or type(arguments) is not str:
        return None
    if size == 4:
        return Message(role=_ASSISTANT, parts=(ToolCall(call_id=call_id, name=name, arguments=arguments),))
    if size == 6 and type(item_id := item.get("id")) is str and item.get("status") == COMPLETED:
        call = ToolCall(call_id=call_id, name=name, arguments=arguments)
        return Message(role=_ASSISTANT, parts=(call,), id=item_id, extras=_IS_COMPLETED)
    return None


def _plain_output(item: JsonObject) -> Message | None:
    call_id, output = item.get("call_id"), item.get("output")
    if len(item) != 3 or type(call_id) is not str or type(output) is not str:
        return None
    return Message(role=_USER, parts=(ToolResult(call_id=call_id, parts=(Text(text=output),)),))


def _plain_reasoning(item: JsonObject) -> Message | None:
    item_id, summary, encrypted = item.get("id"), item.get("summary"), item.get("encrypted_content")
    if len(item) != 4 or type(item_id) is not str or type(summary) is not list or type(encrypted) is not str:
        return None
    text, kind = "", _WITHHELD
    if summary:
        part = summary[0]
        if len(summary) != 1 or type(part) is not dict or part.get("type") != "summary_text":
            return None
        summary_text = part.get("text")
        if type(summary_text) is not str or not summary_text:
            return None
        text, kind = summary_text, _SUMMARY
    sealed = from_envelope(encrypted) or Seal(origin=NAME, kind="item", body=item)
    return Message(role=_ASSISTANT, parts=(Thinking(text=text, kind=kind, seal=sealed, id=item_id),), id=item_id)


# Bound once, because looking up an enum member is slow.
_ASSISTANT, _USER = Role.ASSISTANT, Role.USER
_WITHHELD, _SUMMARY = ThinkingKind.WITHHELD, ThinkingKind.SUMMARY
_IS_COMPLETED = Extras(origin=NAME, fields={"status": COMPLETED})
_LANES: dict[str, Callable[[JsonObject], Message | None]] = {
    MESSAGE: _plain_message,
    FUNCTION_CALL: _plain_call,
    FUNCTION_OUTPUT: _plain_output,
    REASONING: _plain_reasoning,
}


def decode_thinking(item: Fields, model: str | None = None, vendor: str | None = None) -> Thinking:
    """A reasoning item. Its seal is the full item, or the envelope's content for another issuer (§11)."""
    item_id = item.optional_text("id")
    text, kind = thinking_text(item)
    sealed = from_envelope(item.optional_text("encrypted_content") or "")
    if sealed is None:
        sealed = Seal(origin=NAME, kind="item", body=item.value, model=model, vendor=vendor)
        return Thinking(text=text, kind=kind, seal=sealed, id=item_id)
    item.skip("type", "summary")
    return Thinking(text=text, kind=kind, seal=sealed, id=item_id, extras=item.rest(NAME))


def thinking_text(item: Fields) -> tuple[str, ThinkingKind]:
    """The readable text of a reasoning item: the summary, otherwise the reasoning itself."""
    summary = _joined(item, "summary")
    # With a summary the reasoning itself is only validated, and stays in the extras.
    content = _joined(Fields(item.value, item.path) if summary else item, "content")
    if summary:
        return summary, ThinkingKind.SUMMARY
    return (content, ThinkingKind.FULL) if content else ("", ThinkingKind.WITHHELD)


def _joined(item: Fields, key: str) -> str:
    texts: list[str] = []
    for part in item.each(key):
        part.optional_text("type")
        text = part.optional_text("text")
        if text:
            texts.append(text)
    return "\n\n".join(texts)


def decode_compaction(item: Fields, model: str | None = None, vendor: str | None = None) -> Compaction:
    """A compaction item. The summary is readable only if this library wrote the envelope (V9, K1)."""
    sealed = from_envelope(item.optional_text("encrypted_content") or "")
    item_id = item.optional_text("id")
    if sealed is None:
        sealed = Seal(origin=NAME, kind="compaction", body=item.value, model=model, vendor=vendor)
        return Compaction(summary=None, seal=sealed, id=item_id)
    summary = sealed.body.get("summary") or sealed.body.get("content")
    item.skip("type")
    return Compaction(
        summary=summary if isinstance(summary, str) else None, seal=sealed, id=item_id, extras=item.rest(NAME)
    )


def encode_thinking(part: Thinking) -> JsonObject:
    """A reasoning item: unchanged if this protocol issued it, else with its envelope."""
    sealed = part.seal
    if sealed is not None and sealed.origin == NAME and sealed.kind == "item":
        return sealed.body
    written: JsonObject = {"type": REASONING}
    if part.id is not None:
        written["id"] = part.id
    written["summary"] = [{"type": "summary_text", "text": part.text}] if part.text else []
    if sealed is not None:
        written["encrypted_content"] = to_envelope(sealed)
    return {**written, **part.extras.fields} if part.extras is not None else written


def encode_compaction(part: Compaction) -> JsonObject:
    """A compaction item: unchanged if this protocol issued it, else with an envelope."""
    sealed = part.seal
    if sealed is not None and sealed.origin == NAME and "type" in sealed.body:
        return sealed.body
    if sealed is None:
        sealed = Seal(origin=NAME, kind="compaction", body={"summary": part.summary or ""})
    written: JsonObject = {"type": COMPACTION, "encrypted_content": to_envelope(sealed)}
    if part.id is not None:
        written["id"] = part.id
    return {**written, **part.extras.fields} if part.extras is not None else written
