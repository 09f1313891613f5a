"""Histories that real clients send to another provider: the conversation goes on, and what is lost is said."""

from __future__ import annotations

import json

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.translate import TranslatedRequest, translate_request
from dragoman.wire.json import decode_object

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
ITEMS: dict[str, JsonObject] = {
    "a picture": {"type": "image_generation_call", "status": "completed", "result": PNG, "revised_prompt": "A cat"},
    "a picture without a prompt": {"type": "image_generation_call", "status": "completed", "result": PNG},
    "a file search": {"type": "file_search_call", "status": "completed", "queries": ["x"], "results": None},
    "code": {"type": "code_interpreter_call", "status": "completed", "code": "1", "container_id": "c", "outputs": None},
    "a tool server": {"type": "mcp_call", "server_label": "s", "name": "t", "arguments": "{}", "output": "ok"},
    "tools of a server": {"type": "mcp_list_tools", "server_label": "s", "tools": []},
    "a wish": {"type": "mcp_approval_request", "server_label": "s", "name": "t", "arguments": "{}"},
    "leave": {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True},
    "no leave": {"type": "mcp_approval_response", "approval_request_id": "r", "approve": False, "reason": "Not now."},
    "a computer": {"type": "computer_call", "call_id": "c", "action": {"type": "wait"}, "pending_safety_checks": []},
    "a shell": {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"], "env": {}}},
    "a web search": {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}},
    "something new": {"type": "dream_call", "status": "completed"},
}


def replayed(item: JsonObject, target: str) -> TranslatedRequest:
    said: JsonObject = {"type": "output_text", "text": "Here.", "annotations": []}
    history: JsonValue = [
        {"role": "user", "content": "Go."},
        {"id": "it_1", **item},
        {"type": "message", "role": "assistant", "content": [said]},
        {"role": "user", "content": "And now?"},
    ]
    return translate_request({"model": "m", "input": history}, source=RESPONSES, target=target)


@pytest.mark.parametrize("target", [MESSAGES, CHAT])
@pytest.mark.parametrize("item", ITEMS.values(), ids=list(ITEMS))
def test_item_20_the_conversation_goes_on_elsewhere(item: JsonObject, target: str) -> None:
    request = replayed(item, target)
    assert all(word in request.body for word in (b"Go.", b"Here.", b"And now?"))
    assert [line for line in request.losses if line["feature"] != "max_tokens"]


@pytest.mark.parametrize("target", [MESSAGES, CHAT])
def test_item_20_the_next_model_knows_that_there_was_a_picture(target: str) -> None:
    request = replayed(ITEMS["a picture"], target)
    assert b"[an image was generated here: A cat]" in request.body
    assert PNG.encode() not in request.body
    assert ("unsupported_content", "messages[1].parts[0]") in [(line["feature"], line["at"]) for line in request.losses]


@pytest.mark.parametrize("target", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("address", ["https://example.org/a.png", f"data:image/png;base64,{PNG}"])
def test_item_20_an_image_by_its_address_alone_is_welcome(address: str, target: str) -> None:
    def asked(image: JsonValue) -> bytes:
        content: JsonValue = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": image}]
        body: JsonObject = {"model": "m", "messages": [{"role": "user", "content": content}]}
        return translate_request(body, source=CHAT, target=target).body

    assert asked(address) == asked({"url": address})


@pytest.mark.parametrize("target", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("nested", [False, True])
def test_item_20_a_document_by_its_address_is_welcome(target: str, nested: bool) -> None:
    address = "https://example.org/a.pdf"
    part: JsonObject = {"type": "document_url", "document_url": {"url": address} if nested else address}
    asked: JsonObject = {"model": "m", "messages": [{"role": "user", "content": [part]}]}
    request = translate_request(asked, source=CHAT, target=target)
    assert address.encode() in request.body
    kind = b'"type":"document"' if target == MESSAGES else b'"type":"input_file"'
    assert kind in request.body


def test_item_20_a_document_of_text_and_pictures_is_told_in_order() -> None:
    picture: JsonObject = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    pieces: JsonValue = [{"type": "text", "text": "Before."}, picture, {"type": "text", "text": "After."}]
    document: JsonObject = {"type": "document", "title": "Notes", "source": {"type": "content", "content": pieces}}
    asked: JsonObject = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [document]}]}
    request = translate_request(asked, source=MESSAGES, target=RESPONSES)
    (message,) = _objects(decode_object(request.body)["input"])
    content = _objects(message["content"])
    assert [part["type"] for part in content] == ["input_text", "input_image", "input_text"]
    assert [part.get("text") for part in content] == ["Notes\nBefore.", None, "After."]
    assert ("document", "approximated") in [(line["feature"], line["fate"]) for line in request.losses]
    assert json.loads(request.body)["input"][0]["role"] == "user"


def test_item_20_a_document_of_pictures_in_a_result_is_told_too() -> None:
    picture: JsonObject = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    document: JsonObject = {"type": "document", "source": {"type": "content", "content": [picture]}}
    call: JsonObject = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    result: JsonObject = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [document]}
    history: JsonValue = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    request = translate_request({"model": "m", "max_tokens": 9, "messages": history}, source=MESSAGES, target=RESPONSES)
    assert PNG.encode() in request.body


def _objects(found: JsonValue) -> list[JsonObject]:
    assert isinstance(found, list)
    return [one for one in found if isinstance(one, dict)]
