"""Messages of the usual shapes: read once for the glance and the translation, exactly as member by member."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Text
from dragoman.model.request import Message, Role
from dragoman.protocols.openai_chat import CODEC
from dragoman.protocols.openai_chat.messages import MessageDecoder
from dragoman.wire.duplicate_keys import OBJECT
from dragoman.wire.fields import Fields
from dragoman.wire.json import encode
from tests.protocols.openai_chat.test_messages import MESSAGE


def usual(messages: list[JsonObject]) -> tuple[Message, ...] | None:
    """The messages as a glance has them."""
    body: JsonObject = {"model": "m", "messages": [*messages]}
    return CODEC.glance(OBJECT.decode(encode(body)), False, False).usual_messages()


@given(st.lists(MESSAGE, max_size=3))
def test_they_are_those_that_are_read_member_by_member(messages: list[JsonObject]) -> None:
    decoded = usual(messages)
    if decoded is not None:
        decoder = MessageDecoder()
        assert decoded == tuple(decoder.decode(Fields(message), at) for at, message in enumerate(messages))


CALL: JsonObject = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
ECHO: JsonObject = {"refusal": None, "tool_calls": None}
PARTS: list[JsonValue] = [{"type": "text", "text": "Hello."}]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "Hello."},
        {"role": "developer", "content": "Be brief."},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "content": "Hi.", "reasoning_content": "Hm.", **ECHO},
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ],
    ids=["user", "developer", "calls", "null members", "result"],
)
def test_the_usual_messages_are_known(message: JsonObject) -> None:
    assert usual([message]) == (MessageDecoder().decode(Fields(message), 0),)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": PARTS},
        {"role": "user", "content": None},
        {"role": "user", "content": "Hello.", "name": "Alice"},
        {"role": "user", "content": "Hello.", "tool_calls": [CALL]},
        {"role": "user", "content": "Hello.", "tool_call_id": ""},
        {"role": "user", "content": "Hello.", "reasoning_content": ""},
        {"role": "assistant", "content": "Hello.", "tool_call_id": "c"},
        {"role": "assistant", "tool_calls": [{**CALL, "type": "custom"}]},
        {"role": "tool", "content": "1"},
        {"role": "function", "name": "read", "content": "1"},
        {"role": "nobody", "content": "1"},
        {"content": "1"},
    ],
    ids=str,
)
def test_any_other_message_is_read_member_by_member(message: JsonObject) -> None:
    assert usual([message]) is None


def test_no_messages_are_an_error() -> None:
    assert usual([]) == ()
    with pytest.raises(WireError):
        CODEC.decode_request({"model": "m", "messages": []})


def test_a_glance_at_them_knows_the_same_of_the_conversation() -> None:
    messages: list[JsonValue] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}]
    members = OBJECT.decode(encode({"model": "m", "messages": messages}))
    glance = CODEC.glance(members, False, False)
    start = glance.conversation_start()
    assert (start.instructions, start.text) == ("Be brief.", "Hello.")
    assert glance.usual_messages() == (
        Message(role=Role.SYSTEM, parts=(Text(text="Be brief."),)),
        Message(role=Role.USER, parts=(Text(text="Hello."),)),
    )
    glance.forget()
    assert glance.usual_messages() is not None
