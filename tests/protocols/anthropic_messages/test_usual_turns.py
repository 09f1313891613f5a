"""The usual conversation in one pass: what takes the short way, and that it is written as by the long one. Random
conversations are in `tests/laws/test_usual_shapes.py`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.model.losses import Ledger
from dragoman.model.parts import CacheBreakpoint, InputForm, Part, Refusal, Text, ToolCall, ToolResult
from dragoman.model.request import Message, Request, Role
from dragoman.model.tools import FunctionTool
from dragoman.protocols.anthropic_messages import turns
from dragoman.protocols.anthropic_messages.encode_context import RequestEncodeContext
from dragoman.protocols.anthropic_messages.turns import encode_conversation
from dragoman.protocols.anthropic_messages.usual_turns import encode_usual
from dragoman.wire.json import encode
from tests.protocols.anthropic_messages.support import target

MARKED = CacheBreakpoint(origin="openai-chat")


def said(role: Role, *parts: Part | str) -> Message:
    return Message(role=role, parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def call(call_id: str, arguments: str = '{"path": "a"}', name: str = "read") -> ToolCall:
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


def result(call_id: str, text: str = "line 1") -> Message:
    return said(Role.USER, ToolResult(call_id=call_id, parts=(Text(text=text),)))


USER, ASKED = said(Role.USER, "Hello."), said(Role.ASSISTANT, "I read.", call("c 1"), call("c2"))
USUAL = {
    "a question": (USER,),
    "instructions": (said(Role.SYSTEM, "Be brief."), said(Role.DEVELOPER, "Be exact.", "Be kind."), USER),
    "turns": (USER, said(Role.ASSISTANT, "Hi."), said(Role.USER, "Go on.", "Now.")),
    "users in a row": (USER, said(Role.USER, "And this.")),
    "calls": (USER, ASKED, result("c 1"), result("c2", ""), said(Role.ASSISTANT, "Done."), USER),
    "a question after results": (USER, ASKED, result("c 1"), result("c2"), said(Role.USER, "Well?")),
    "an assistant first": (said(Role.ASSISTANT, "Hi."), USER),
    "an assistant last": (USER, said(Role.ASSISTANT, "Hi. ")),
    "no arguments": (USER, said(Role.ASSISTANT, call("c", "")), result("c")),
}
OTHER = {
    "no message": (),
    "instructions alone": (said(Role.SYSTEM, "Be brief."),),
    "late instructions": (USER, said(Role.SYSTEM, "Be brief."), USER),
    "no content": (said(Role.USER),),
    "blank text": (said(Role.USER, " \n"),),
    "assistants in a row": (USER, said(Role.ASSISTANT, "Hi."), said(Role.ASSISTANT, "Ho."), USER),
    "a name": (replace(USER, name="Alice"),),
    "a breakpoint": (said(Role.USER, Text(text="Hello.", cache=MARKED)),),
    "a refusal": (USER, said(Role.ASSISTANT, Refusal(text="No.")), USER),
    "an unanswered call": (USER, ASKED, result("c 1")),
    "a question before results": (USER, ASKED, USER, result("c 1"), result("c2")),
    "results in another order": (USER, ASKED, result("c2"), result("c 1")),
    "a result without a call": (USER, result("c 1")),
    "a result too many": (USER, ASKED, result("c 1"), result("c2"), result("c3")),
    "a repeated id": (USER, ASKED, result("c 1"), result("c2"), ASKED, result("c 1"), result("c2")),
    "an error": (
        USER,
        said(Role.ASSISTANT, call("c")),
        said(Role.USER, ToolResult(call_id="c", parts=(), is_error=True)),
    ),
    "an undeclared tool": (USER, said(Role.ASSISTANT, call("c", name="run")), result("c")),
    "no object": (USER, said(Role.ASSISTANT, call("c", "[1]")), result("c")),
    "free text": (USER, said(Role.ASSISTANT, replace(call("c"), form=InputForm.TEXT)), result("c")),
}


def context() -> RequestEncodeContext:
    writing = RequestEncodeContext(target(), Ledger())
    writing.table.add(FunctionTool(name="read"))
    return writing


def written(messages: tuple[Message, ...]) -> tuple[bytes, list[object]]:
    """The conversation as it is sent, and the losses."""
    writing = context()
    conversation = encode_conversation(Request(origin="openai-chat", model="m", messages=messages), writing)
    return encode([conversation.system, [*conversation.messages]]), [*writing.ledger.entries]


@pytest.mark.parametrize("messages", USUAL.values(), ids=USUAL)
def test_the_usual_conversation_is_written_in_one_pass(
    messages: tuple[Message, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert encode_usual(messages, context()) is not None
    short = written(messages)
    monkeypatch.setattr(turns, "encode_usual", lambda *_arguments: None)
    assert short == written(messages)


@pytest.mark.parametrize("messages", OTHER.values(), ids=OTHER)
def test_any_other_conversation_is_not(messages: tuple[Message, ...]) -> None:
    writing = context()
    assert encode_usual(messages, writing) is None
    assert not writing.ledger.entries
