"""Items of tools that the provider runs, as call and result, and back."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import HostedCall, HostedKind, HostedResult, Seal, WebSource
from dragoman.protocols.openai_responses import NAME
from dragoman.protocols.openai_responses.hosted import decode_hosted, encode_hosted
from dragoman.translate import translate_request, translate_response
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode_object

MESSAGES = "anthropic-messages"
SOURCE: JsonObject = {"type": "url", "url": "https://a.example"}


def test_a_search_tells_its_query_and_seals_its_sources() -> None:
    item: JsonObject = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q", "sources": [SOURCE]},
    }
    call, result = decode_hosted(Fields(item), "web_search_call", "gpt-5", "openai")
    seal = Seal(origin=NAME, kind="web", body=SOURCE, model="gpt-5", vendor="openai")
    assert (call.call_id, call.name, call.arguments) == ("ws_1", "web_search", '{"query":"q"}')
    assert result.sources == (WebSource(url="https://a.example", seal=seal),)
    assert encode_hosted(call, result) is item


@pytest.mark.parametrize(
    ("item", "arguments", "text", "is_error"),
    [
        (
            {"type": "code_interpreter_call", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]},
            '{"code":"1+1"}',
            "2",
            False,
        ),
        ({"type": "mcp_call", "name": "n", "server_label": "s", "arguments": "{}", "output": "o"}, "{}", "o", False),
        ({"type": "mcp_call", "name": "n", "arguments": "{}", "error": {"message": "bad"}}, "{}", "bad", True),
        ({"type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "n"}]}, "{}", '[{"name":"n"}]', False),
    ],
)
def test_other_hosted_items(item: JsonObject, arguments: str, text: str, is_error: bool) -> None:
    kind = item["type"]
    assert isinstance(kind, str)
    call, result = decode_hosted(Fields(item), kind)
    assert (call.arguments, result.text, result.is_error) == (arguments, text, is_error)


@pytest.mark.parametrize(
    ("call", "result", "members"),
    [
        (
            HostedCall(call_id="s", kind=HostedKind.WEB_SEARCH, name="web_search", arguments='{"query":"q"}'),
            HostedResult(call_id="s", kind=HostedKind.WEB_SEARCH, sources=(WebSource(url="https://a.example"),)),
            {
                "type": "web_search_call",
                "action": {"type": "search", "query": "q", "sources": [SOURCE]},
                "status": "completed",
            },
        ),
        (
            HostedCall(call_id="s", kind=HostedKind.WEB_SEARCH, name="web_search", arguments='{"query":"q"}'),
            None,
            {"type": "web_search_call", "action": {"type": "search", "query": "q", "sources": []}, "status": "failed"},
        ),
        (
            HostedCall(call_id="s", kind=HostedKind.CODE, name="code", arguments='{"code":"1"}'),
            HostedResult(call_id="s", kind=HostedKind.CODE, text="out"),
            {
                "type": "code_interpreter_call",
                "code": "1",
                "container_id": "",
                "outputs": [{"type": "logs", "logs": "out"}],
                "status": "completed",
            },
        ),
        (
            HostedCall(call_id="s", kind=HostedKind.MCP, name="n", arguments="{}", server="srv"),
            HostedResult(call_id="s", kind=HostedKind.MCP, text="bad", is_error=True),
            {
                "type": "mcp_call",
                "server_label": "srv",
                "name": "n",
                "arguments": "{}",
                "output": None,
                "error": {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "bad"}]},
                "status": "failed",
            },
        ),
        (
            HostedCall(call_id="s", kind=HostedKind.MCP_LISTING, name="l", arguments="{}", server="srv"),
            HostedResult(call_id="s", kind=HostedKind.MCP_LISTING, text='[{"name":"n"}]'),
            {"type": "mcp_list_tools", "server_label": "srv", "tools": [{"name": "n"}]},
        ),
    ],
)
def test_another_providers_calls_are_told_as_items(
    call: HostedCall, result: HostedResult | None, members: JsonObject
) -> None:
    assert encode_hosted(call, result) == members


ACTIONS: list[JsonObject] = [
    {"type": "search", "query": "q", "sources": [SOURCE]},
    {"type": "search", "query": "q", "queries": ["q", "r"], "sources": [SOURCE]},
    {"type": "open_page", "url": "https://a.example"},
    {"type": "find_in_page", "url": "https://a.example", "pattern": "x"},
]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: str(action["type"]))
def test_an_action_comes_back_from_a_messages_client_as_it_was(action: JsonObject) -> None:
    item: JsonObject = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    answer: JsonObject = {
        "id": "resp_1",
        "object": "response",
        "model": "gpt-5",
        "status": "completed",
        "output": [item],
    }
    question: JsonObject = {
        "model": "gpt-5",
        "max_tokens": 64,
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
        "messages": [{"role": "user", "content": "?"}],
    }
    asked = translate_request(question, source=MESSAGES, target=NAME)
    told = decode_object(
        translate_response({**answer, "output": [item]}, source=NAME, target=MESSAGES, request=asked).body
    )
    blocks = told["content"]
    assert isinstance(blocks, list) and isinstance(blocks[0], dict)
    given = blocks[0]["input"]
    assert isinstance(given, dict) and given["query"]
    history: JsonObject = {
        **question,
        "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": blocks}],
    }
    again = decode_object(translate_request(history, source=MESSAGES, target=NAME).body)["input"]
    assert isinstance(again, list) and isinstance(again[1], dict)
    assert again[1]["action"] == action
