"""Chat requests in the words of the Messages protocol, as agents write them to models of that name."""

from __future__ import annotations

import pytest

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Image, Inline, Text, ToolCall, ToolResult, Url
from dragoman.model.tools import ChoiceMode, FunctionTool
from dragoman.protocols.openai_chat import CODEC
from dragoman.translate import translate_request
from dragoman.wire.json import decode, decode_object
from tests.protocols.openai_chat.room import A, C, R, dig, objects

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
