"""The usual conversation in one pass: what takes the short way, and that it is written as by the long one. Random
conversations are in `tests/laws/test_usual_shapes.py`."""

from __future__ import annotations

import pytest

from dragoman.model.losses import Ledger
from dragoman.model.request import Message, Request, Role
from dragoman.model.tools import FunctionTool
from dragoman.protocols.anthropic_messages import turns
from dragoman.protocols.anthropic_messages.encode_context import RequestEncodeContext
from dragoman.protocols.anthropic_messages.turns import encode_conversation
from dragoman.protocols.anthropic_messages.usual_turns import encode_usual
from dragoman.wire.json import encode
from tests.protocols import usual_conversations as conversations
from tests.protocols.anthropic_messages.support import target
from tests.protocols.usual_conversations import USER, call, result, said

USUAL = {
    **conversations.USUAL,
    "instructions": (said(Role.SYSTEM, "Be brief."), said(Role.DEVELOPER, "Be exact.", "Be kind."), USER),
}
OTHER = {
    **conversations.OTHER,
    "instructions alone": (said(Role.SYSTEM, "Be brief."),),
    "late instructions": (USER, said(Role.SYSTEM, "Be brief."), USER),
    "blank text": (said(Role.USER, " \n"),),
    "an undeclared tool": (USER, said(Role.ASSISTANT, call("c", name="run")), result("c")),
    "no object": (USER, said(Role.ASSISTANT, call("c", "[1]")), result("c")),
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
