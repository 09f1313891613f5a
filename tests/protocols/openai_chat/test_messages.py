"""Messages read: the usual shapes in one step, exactly as member by member; calls of custom tools in any form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Image, Inline, InputForm, Text, ToolCall, ToolResult, Url
from dragoman.model.request import Request
from dragoman.model.tools import ChoiceMode, FunctionTool, TextTool
from dragoman.protocols.openai_chat import CODEC
from dragoman.protocols.openai_chat.messages import MessageDecoder
from dragoman.rules.extras import drop_extras
from dragoman.translate import translate_request
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode, decode_object
from tests.protocols.openai_chat.room import A, C, R, dig, objects

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
    plain = decoder.usual(value)
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
    assert (MessageDecoder().usual(value) is None) == ("tool_calls" in value)


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


SCHEMA: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ: JsonObject = {"name": "read_file", "description": "Reads.", "input_schema": SCHEMA}
ASKED: JsonObject = {
    "model": "claude-opus-4-6",
    "max_tokens": 100,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What does a.txt say?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a.txt"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "hello"}]},
                {"type": "text", "text": "Well?"},
            ],
        },
    ],
    "tools": [READ],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
}


def abroad(protocol: str, **changes: JsonValue) -> tuple[JsonObject, list[str]]:
    translated = translate_request({**ASKED, **changes}, source=C, target=protocol)
    body = decode(translated.body)
    assert isinstance(body, dict)
    return body, [loss.feature.value for loss in translated.ledger.losses]


def test_item_11_tools_calls_and_results_reach_a_messages_provider() -> None:
    body, lost = abroad(A)
    assert body["tools"] == [READ]
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert dig(body, "messages", 1, "content", 1) == dig(ASKED, "messages", 2, "content", 1)
    assert dig(body, "messages", 2, "content", 0, "tool_use_id") == "toolu_1"
    assert dig(body, "messages", 2, "content", 1, "text") == "Well?"
    assert "unknown_field" not in lost and "unsupported_content" not in lost


def test_item_11_tools_calls_and_results_reach_a_responses_provider() -> None:
    body, lost = abroad(R, model="gpt-5.2")
    assert dig(body, "tools", 0, "parameters") == SCHEMA
    assert body["tool_choice"] == "required" and body["parallel_tool_calls"] is False
    items = body["input"]
    assert isinstance(items, list)
    kinds = [item.get("type", "message") for item in items if isinstance(item, dict)]
    assert kinds == ["message", "message", "message", "function_call", "function_call_output", "message"]
    assert "unknown_field" not in lost and "unsupported_content" not in lost


@pytest.mark.parametrize(
    "tool",
    [
        READ,
        {"type": "custom", **READ},
        {"type": "function", **READ},
        {"type": "function", "function": READ},
        {"type": "function", "name": "read_file", "description": "Reads.", "parameters": SCHEMA},
        {"name": "read_file", "description": "Reads.", "parameters": SCHEMA},
    ],
)
def test_item_11_every_form_of_a_function_keeps_its_schema(tool: JsonObject) -> None:
    expected = FunctionTool(name="read_file", description="Reads.", parameters=SCHEMA)
    assert CODEC.decode_request({**ASKED, "tools": [tool]}).tools == (expected,)


@pytest.mark.parametrize(
    ("choice", "mode", "name"),
    [
        ({"type": "auto"}, ChoiceMode.AUTO, None),
        ({"type": "none"}, ChoiceMode.NONE, None),
        ({"type": "any"}, ChoiceMode.REQUIRED, None),
        ({"type": "tool", "name": "read_file"}, ChoiceMode.NAMED, "read_file"),
        ({"type": "function", "name": "read_file"}, ChoiceMode.NAMED, "read_file"),
    ],
)
def test_item_11_choices(choice: JsonObject, mode: ChoiceMode, name: str | None) -> None:
    found = CODEC.decode_request({**ASKED, "tool_choice": choice}).tool_choice
    assert found is not None and found.mode is mode and found.extras is None
    assert (found.tool.name if found.tool is not None else None) == name


def test_item_11_the_parallel_switch_of_the_protocol_itself_has_the_last_word() -> None:
    assert CODEC.decode_request({**ASKED, "parallel_tool_calls": True}).parallel_calls is True
    assert CODEC.decode_request(ASKED).parallel_calls is False


def test_item_11_results_hold_what_they_held() -> None:
    image: JsonObject = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    linked: JsonObject = {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}}
    content: list[JsonValue] = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True},
        {"type": "tool_result", "tool_use_id": "t2", "content": [image]},
        {"type": "tool_result", "tool_use_id": "t3"},
        linked,
    ]
    request = CODEC.decode_request({"model": "m", "messages": [{"role": "user", "content": content}]})
    assert request.messages[0].parts == (
        ToolResult(call_id="t1", parts=(Text(text="no"),), is_error=True),
        ToolResult(call_id="t2", parts=(Image(source=Inline(media_type="image/png", data="aGk=")),)),
        ToolResult(call_id="t3", parts=()),
        Image(source=Url(url="https://a.example/b.png")),
    )


def test_item_11_a_call_in_both_forms_is_one() -> None:
    block: JsonObject = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    call: JsonObject = {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message: JsonObject = {"role": "assistant", "content": [block], "tool_calls": [call]}
    request = CODEC.decode_request({"model": "m", "messages": [message]})
    assert request.messages[0].parts == (ToolCall(call_id="t", name="f", arguments="{}"),)


@pytest.mark.parametrize(
    ("role", "block", "path"),
    [
        ("user", {"type": "tool_use", "id": "t", "name": "f", "input": {}}, "/messages/0/content/0/type"),
        ("assistant", {"type": "tool_result", "tool_use_id": "t"}, "/messages/0/content/0/type"),
        ("user", {"type": "tool_result"}, "/messages/0/content/0/tool_use_id"),
        ("assistant", {"type": "tool_use", "id": "t"}, "/messages/0/content/0/name"),
        ("user", {"type": "image", "source": {"type": "file"}}, "/messages/0/content/0/source/type"),
    ],
)
def test_item_11_a_block_in_the_wrong_place_is_refused_there(role: str, block: JsonObject, path: str) -> None:
    with pytest.raises(WireError) as refused:
        CODEC.decode_request({"model": "m", "messages": [{"role": role, "content": [block]}]})
    assert refused.value.path == path


def test_item_11_elsewhere_it_is_said_as_that_protocol_says_it() -> None:
    body = decode_object(translate_request(ASKED, source=C, target=R).body)
    assert dig(body, "tools", 0, "parameters") == SCHEMA
    said = [item for item in objects(body, "input") if item["type"] in ("function_call", "function_call_output")]
    assert [item["call_id"] for item in said] == ["toolu_1", "toolu_1"]
    assert said[1]["output"] == "hello"
    assert dig(objects(body, "input")[-1], "content") == [{"type": "input_text", "text": "Well?"}]
