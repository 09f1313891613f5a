"""Conversations that encoders write in one pass, and others that they do not."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.parts import CacheBreakpoint, Extras, InputForm, Part, Refusal, Text, ToolCall, ToolResult
from dragoman.model.request import Message, Role

MARKED = CacheBreakpoint(origin="openai-responses")


def said(role: Role, *parts: Part | str) -> Message:
    return Message(role=role, parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def call(call_id: str, arguments: str = '{"path": "a"}', name: str = "read") -> ToolCall:
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


def result(call_id: str, text: str = "line 1") -> Message:
    return said(Role.USER, ToolResult(call_id=call_id, parts=(Text(text=text),)))


def _with_extras(**fields: str | None) -> Message:
    return replace(USER, extras=Extras(origin="openai-responses", fields={**fields}))


USER, ASKED = said(Role.USER, "Hello."), said(Role.ASSISTANT, "I read.", call("c" * 70), call("c2"))
FIRST, SECOND = result("c" * 70), result("c2", "")
FAILED = said(Role.USER, ToolResult(call_id="c", parts=(Text(text="?"),), is_error=True))
USUAL = {
    "a question": (USER,),
    "turns": (USER, said(Role.ASSISTANT, "Hi."), said(Role.USER, "Go on.", "Now.")),
    "users in a row": (USER, said(Role.USER, "And this.")),
    "calls": (USER, ASKED, FIRST, SECOND, said(Role.ASSISTANT, "Done."), USER),
    "a question after results": (USER, ASKED, FIRST, SECOND, said(Role.USER, "Well?")),
    "an assistant first": (said(Role.ASSISTANT, "Hi."), USER),
    "an assistant last": (USER, said(Role.ASSISTANT, "Hi. ")),
    "an assistant in several messages": (
        USER,
        said(Role.ASSISTANT, "Hi."),
        said(Role.ASSISTANT, call("c")),
        said(Role.ASSISTANT, call("d")),
        result("c"),
        result("d"),
    ),
    "members that say nothing": (_with_extras(status=None),),
    "no arguments": (USER, said(Role.ASSISTANT, call("c", "")), result("c")),
}
OTHER = {
    "no message": (),
    "no content": (said(Role.USER),),
    "empty text": (said(Role.USER, ""),),
    "a name": (replace(USER, name="Alice"),),
    "an unknown member": (_with_extras(colour="red"),),
    "a breakpoint": (said(Role.USER, Text(text="Hello.", cache=MARKED)),),
    "a refusal": (USER, said(Role.ASSISTANT, Refusal(text="No.")), USER),
    "a message for a time": (replace(USER, transient=True), USER),
    "an unanswered call": (USER, ASKED, FIRST),
    "a question before results": (USER, ASKED, USER, FIRST, SECOND),
    "an answer before results": (USER, ASKED, FIRST, said(Role.ASSISTANT, "Hi."), SECOND),
    "results in another order": (USER, ASKED, SECOND, FIRST),
    "a result without a call": (USER, result("c")),
    "a result too many": (USER, ASKED, FIRST, SECOND, result("c3")),
    "a repeated id": (USER, ASKED, FIRST, SECOND, ASKED, FIRST, SECOND),
    "an error": (USER, said(Role.ASSISTANT, call("c")), FAILED),
    "free text": (USER, said(Role.ASSISTANT, replace(call("c"), form=InputForm.TEXT)), result("c")),
}
