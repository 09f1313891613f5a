"""The usual conversation in one pass: what takes the short way, and that it is written as by the long one. Random
conversations are in `tests/laws/test_usual_shapes.py`."""

from __future__ import annotations

import pytest

from dragoman.model.losses import Ledger
from dragoman.model.request import Message, Request, Role
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_chat import request_encoder
from dragoman.protocols.openai_chat.request_encoder import encode_request
from dragoman.protocols.openai_chat.usual_turns import encode_usual
from dragoman.rules.capabilities import Capabilities
from dragoman.rules.tool_table import ToolTable
from dragoman.wire.json import encode
from tests.protocols import usual_conversations as conversations
from tests.protocols.usual_conversations import USER, call, result, said

TARGET = TargetModel(model="m", vendor="local", capabilities=Capabilities())
USUAL = {
    **conversations.USUAL,
    "blank text": (said(Role.USER, " \n"),),
    "an undeclared tool": (USER, said(Role.ASSISTANT, call("c", name="a b")), result("c")),
    "no object": (USER, said(Role.ASSISTANT, call("c", "[1]")), result("c")),
}
OTHER = {
    **conversations.OTHER,
    "instructions": (said(Role.SYSTEM, "Be brief."), USER),
    "an assistant with two texts": (USER, said(Role.ASSISTANT, "Hi.", "Ho."), USER),
    "assistants with a text each": (USER, said(Role.ASSISTANT, "Hi."), said(Role.ASSISTANT, "Ho."), USER),
    "text after a call": (USER, said(Role.ASSISTANT, call("c"), "I read."), result("c")),
}


def written(messages: tuple[Message, ...]) -> tuple[bytes, list[object]]:
    """The request as it is sent, and the losses."""
    ledger = Ledger()
    encoded = encode_request(Request(origin="openai-responses", model="m", messages=messages), TARGET, ledger)
    return encode(encoded.body), [*ledger.entries]


@pytest.mark.parametrize("messages", USUAL.values(), ids=USUAL)
def test_the_usual_conversation_is_written_in_one_pass(
    messages: tuple[Message, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert encode_usual(messages, TARGET, ToolTable())
    short = written(messages)
    monkeypatch.setattr(request_encoder, "encode_usual", lambda *_arguments: None)
    assert short == written(messages)


@pytest.mark.parametrize("messages", OTHER.values(), ids=OTHER)
def test_any_other_conversation_is_not(messages: tuple[Message, ...]) -> None:
    assert not encode_usual(messages, TARGET, ToolTable())


@pytest.mark.parametrize(
    "capabilities",
    [
        Capabilities(user_after_tool=False),
        Capabilities(results_apart=True),
        Capabilities(demands_thinking=True),
        Capabilities(call_proof="sealed"),
        Capabilities(echo_thinking="turns"),
    ],
    ids=str,
)
def test_servers_with_a_form_of_their_own_get_no_usual_conversation(capabilities: Capabilities) -> None:
    own = TargetModel(model="m", vendor="local", capabilities=capabilities)
    assert encode_usual(USUAL["calls"], own, ToolTable()) is None
