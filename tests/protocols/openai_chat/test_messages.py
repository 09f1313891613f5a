"""Messages read: the usual shapes in one step, exactly as member by member; calls of custom tools in any form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import InputForm, ToolCall, ToolResult
from dragoman.model.request import Request
from dragoman.model.tools import TextTool
from dragoman.protocols.openai_chat import CODEC
from dragoman.protocols.openai_chat.messages import MessageDecoder
from dragoman.rules.extras import drop_extras
from dragoman.wire.fields import Fields

TEXTS = st.text(max_size=4)
ODD: st.SearchStrategy[JsonValue] = st.one_of(st.none(), st.integers(), st.just([]), st.just({}))


def _object(**members: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonObject]:
    """An object with any of these members, now and then with an odd value, and rarely with one more."""
    usual = {key: st.one_of(value, value, value, ODD) for key, value in members.items()}
    return st.fixed_dictionaries({}, optional={**usual, "more": st.just(1)})


NAMES = st.sampled_from(["f", "sql"])
CALL = _object(
    id=TEXTS,
    type=st.sampled_from(["function", "custom"]),
    function=_object(name=NAMES, arguments=st.sampled_from(["{}", '{"input":"x"}', "{"])),
)
MESSAGE = st.one_of(
    _object(role=st.sampled_from(["user", "system", "developer", "nobody"]), content=TEXTS),
    _object(role=st.just("tool"), content=TEXTS, tool_call_id=st.sampled_from(["a", "b", ""])),
    _object(
        role=st.just("assistant"),
        content=TEXTS,
        reasoning_content=TEXTS,
        tool_calls=st.lists(CALL, max_size=2),
    ),
)


@given(MESSAGE)
def test_a_usual_message_is_read_in_one_step_as_member_by_member(value: JsonObject) -> None:
    decoder = MessageDecoder((TextTool(name="sql"),))
    plain = decoder.plain(value)
    if plain is not None:
        assert plain == decoder.decode(Fields(value), 3)


@pytest.mark.parametrize(
    "value",
    [
        {"role": "user", "content": "hi"},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function", "function": {}}]},
        {"role": "assistant", "reasoning_content": "hm", "content": "hi"},
    ],
    ids=["user", "tool", "a call without a name", "reasoning"],
)
def test_the_usual_messages_take_the_short_way(value: JsonObject) -> None:
    assert (MessageDecoder().plain(value) is None) == ("tool_calls" in value)


@pytest.mark.parametrize("member", ["reasoning_content", "content", "tool_calls"])
def test_a_wrong_type_is_an_error_even_if_it_is_empty(member: str) -> None:
    with pytest.raises(WireError) as caught:
        CODEC.decode_request({"model": "m", "messages": [{"role": "assistant", member: {}}]})
    assert caught.value.path == f"/messages/0/{member}"


def test_a_message_that_is_no_object_is_an_error_with_its_place() -> None:
    with pytest.raises(WireError) as caught:
        CODEC.decode_request({"model": "m", "messages": [{"role": "user", "content": "hi"}, 7]})
    assert caught.value.path == "/messages/1"


def replayed(arguments: str, **more: JsonValue) -> JsonObject:
    call: JsonObject = {"id": "a", "type": "function", "function": {"name": "sql", "arguments": arguments, **more}}
    return {
        "model": "m",
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
        ],
        "tools": [{"type": "custom", "custom": {"name": "sql"}}],
    }


def pair(request: Request) -> tuple[ToolCall, ToolResult]:
    (call,), (result,) = request.messages[1].parts, request.messages[2].parts
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    return call, result


@pytest.mark.parametrize(
    ("arguments", "text", "lost"),
    [
        ('{"input":"SELECT \\"n\\""}', 'SELECT "n"', 0),
        ('{"input": "SELECT 1"}', "SELECT 1", 1),
        ("SELECT 1", "SELECT 1", 1),
    ],
    ids=["as streamed", "spelled again by the client", "without the object"],
)
def test_a_custom_call_replayed_as_a_function_is_a_text_call(arguments: str, text: str, lost: int) -> None:
    """Streams tell custom calls in function form, so clients send them back in it."""
    body = replayed(arguments)
    request = CODEC.decode_request(body)
    call, result = pair(request)
    assert (call.form, call.arguments, result.form) == (InputForm.TEXT, text, InputForm.TEXT)
    ledger = Ledger()
    drop_extras(call.extras, ("messages", 1, "parts", 0), ledger)
    assert len(ledger.losses) == lost


def test_unknown_members_of_a_replayed_call_are_kept() -> None:
    call, _ = pair(CODEC.decode_request(replayed('{"input":"x"}', mood="fine")))
    assert call.arguments == "x"
    assert call.extras is not None
    assert call.extras.fields["function"] == {"mood": "fine"}


def test_a_function_of_another_name_stays_a_function() -> None:
    body = replayed("{}")
    body["tools"] = [{"type": "custom", "custom": {"name": "other"}}]
    messages = body["messages"]
    assert isinstance(messages, list)
    # One member more, so that the result is not read in one step.
    messages[2] = {"role": "tool", "tool_call_id": "a", "content": "1", "more": 1}
    call, result = pair(CODEC.decode_request(body))
    assert (call.form, result.form) == (InputForm.JSON, InputForm.JSON)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "No."}]},
        {"role": "assistant", "content": None, "refusal": "No."},
    ],
    ids=["as the only part", "among parts", "beside the content"],
)
def test_a_refusal_is_written_again_where_it_stood(message: JsonObject) -> None:
    request = CODEC.decode_request({"model": "m", "messages": [message]})
    assert CODEC.encode_turn(request.messages[0].parts) == [message]
