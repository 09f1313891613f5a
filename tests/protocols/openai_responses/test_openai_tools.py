"""Client tools of this vendor: functions to others, items of their own at home."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import FileRef, Foreign, Image, Inline, Text, ToolCall, ToolResult
from dragoman.model.tools import ForeignTool, FunctionTool, ToolSearchTool
from dragoman.protocols.openai_responses import openai_tools
from tests.protocols.openai_responses.asking import decoded

SHELL: JsonObject = {"type": "shell", "environment": {"type": "local"}}


@pytest.mark.parametrize("kind", ["local_shell", "shell", "apply_patch", "computer", "computer_use_preview"])
def test_a_vendor_tool_is_a_function_with_documented_parameters(kind: str) -> None:
    (tool,) = decoded({"tools": [{"type": kind}]}).tools
    assert isinstance(tool, FunctionTool)
    assert tool.parameters is not None
    assert tool.parameters["required"]
    assert tool.extras is not None
    assert tool.extras.fields == {"type": kind}


def test_a_shell_that_the_provider_runs_is_no_client_tool() -> None:
    (tool,) = decoded({"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}).tools
    assert isinstance(tool, ForeignTool)


def test_a_search_for_tools_that_the_provider_runs_is_no_client_tool() -> None:
    bare: JsonObject = {"type": "tool_search"}
    for tool in (bare, {**bare, "execution": "server"}):
        assert [type(found) for found in decoded({"tools": [tool]}).tools] == [ToolSearchTool]


SEARCH: JsonObject = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}


def test_a_search_for_tools_that_the_client_runs_is_a_function_in_its_own_words() -> None:
    (tool,) = decoded({"tools": [SEARCH]}).tools
    assert isinstance(tool, FunctionTool)
    assert (tool.name, tool.description, tool.parameters) == ("tool_search", "Finds tools.", SEARCH["parameters"])
    (bare,) = decoded({"tools": [{"type": "tool_search", "execution": "client"}]}).tools
    assert isinstance(bare, FunctionTool)
    assert bare.parameters is not None
    assert bare.parameters["required"] == ["query"]


def test_what_a_client_found_is_the_result_of_its_search_and_can_be_called() -> None:
    found: JsonObject = {"type": "function", "name": "add", "parameters": {}, "defer_loading": True}
    request = decoded(
        {
            "tools": [SEARCH],
            "input": [
                {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "sums"}},
                {
                    "type": "tool_search_output",
                    "call_id": "c",
                    "execution": "client",
                    "tools": [found, {"type": "namespace", "name": "mcp__sums", "description": "", "tools": [found]}],
                },
            ],
        }
    )
    result = request.messages[1].parts[0]
    assert isinstance(result, ToolResult)
    assert (result.call_id, result.parts) == ("c", (Text(text='{"tools":["add","mcp__sums__add"]}'),))
    assert [isinstance(tool, FunctionTool) and tool.deferred for tool in request.updates.tools] == [None, None]


CALLS: list[tuple[str, JsonObject, str, JsonObject]] = [
    (
        "local_shell",
        {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": None}},
        '{"command":["ls"]}',
        {"action": {"type": "exec", "env": {}, "command": ["ls"]}},
    ),
    (
        "shell",
        {"type": "shell_call", "action": {"commands": ["ls", "pwd"], "timeout_ms": 5, "max_output_length": None}},
        '{"commands":["ls","pwd"],"timeout_ms":5}',
        {"action": {"commands": ["ls", "pwd"], "timeout_ms": 5, "max_output_length": None}},
    ),
    (
        "apply_patch",
        {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
        '{"type":"delete_file","path":"a"}',
        {"operation": {"type": "delete_file", "path": "a"}},
    ),
    (
        "computer",
        {"type": "computer_call", "actions": [{"type": "wait"}], "pending_safety_checks": []},
        '{"actions":[{"type":"wait"}]}',
        {"actions": [{"type": "wait"}], "pending_safety_checks": []},
    ),
    (
        "tool_search",
        {"type": "tool_search_call", "execution": "client", "arguments": {"query": "sums", "limit": 2}},
        '{"query":"sums","limit":2}',
        {"execution": "client", "arguments": {"query": "sums", "limit": 2}},
    ),
]
# Who searches for tools is said by the declaration.
CLIENTS_OWN: JsonObject = {"execution": "client"}


@pytest.mark.parametrize(("kind", "item", "arguments", "body"), CALLS, ids=[case[0] for case in CALLS])
def test_calls_become_arguments_and_arguments_calls(
    kind: str, item: JsonObject, arguments: str, body: JsonObject
) -> None:
    request = decoded(
        {
            "tools": [{"type": kind, **CLIENTS_OWN}],
            "input": [{"id": "i", "call_id": "c", "status": "completed", **item}],
        }
    )
    call = request.messages[0].parts[0]
    assert isinstance(call, ToolCall)
    assert (call.call_id, call.name, call.arguments) == ("c", kind, arguments)
    spec = openai_tools.declared_native(request)[kind]
    fresh = ToolCall(call_id="c", name=kind, arguments=arguments)
    assert openai_tools.encode_call(spec, fresh, "c") == {
        "type": item["type"],
        "call_id": "c",
        **body,
        "status": "completed",
    }


@pytest.mark.parametrize("arguments", ["", "[]", "{", '{"commands":"ls"}', '{"commands":[1]}'])
def test_arguments_that_make_no_item_are_told(arguments: str) -> None:
    request = decoded({"tools": [SHELL]})
    call = ToolCall(call_id="c", name="shell", arguments=arguments)
    assert openai_tools.encode_call(openai_tools.declared_native(request)["shell"], call, "c") is None


def test_the_preview_of_the_computer_knows_one_action() -> None:
    request = decoded({"tools": [{"type": "computer_use_preview"}]})
    call = ToolCall(call_id="c", name="computer", arguments='{"actions":[{"type":"wait"}]}')
    item = openai_tools.encode_call(openai_tools.declared_native(request)["computer"], call, "c")
    assert item is not None
    assert item["action"] == {"type": "wait"}


def test_pitfall_160_a_local_shell_output_names_its_call_by_the_item() -> None:
    call: JsonObject = {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "action": {"command": ["ls"]}}
    request = decoded({"input": [call, {"type": "local_shell_call_output", "id": "lsh_1", "output": "a"}]})
    result = request.messages[1].parts[0]
    assert isinstance(result, ToolResult)
    assert (result.call_id, result.parts) == ("call_1", (Text(text="a"),))


def test_pitfall_033_a_failed_patch_is_an_error() -> None:
    output: JsonObject = {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no"}
    result = decoded({"input": [output]}).messages[0].parts[0]
    assert isinstance(result, ToolResult)
    assert (result.is_error, result.parts) == (True, (Text(text="no"),))


def test_shell_output_is_kept_as_json_text() -> None:
    entry: JsonObject = {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}
    result = decoded({"input": [{"type": "shell_call_output", "call_id": "c", "output": [entry]}]}).messages[0].parts[0]
    assert isinstance(result, ToolResult)
    assert result.parts == (Text(text='[{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":1}}]'),)


@pytest.mark.parametrize(
    ("output", "source"),
    [
        ({"image_url": "data:image/png;base64,AAEC"}, Inline(media_type="image/png", data="AAEC")),
        ({"file_id": "file_1"}, FileRef(issuer="openai", file_id="file_1")),
    ],
)
def test_a_screenshot_is_a_picture(output: JsonObject, source: Inline | FileRef) -> None:
    item: JsonObject = {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"type": "computer_screenshot", **output},
    }
    result = decoded({"input": [item]}).messages[0].parts[0]
    assert isinstance(result, ToolResult)
    assert result.parts == (Image(source=source),)


def test_a_shell_call_in_the_providers_container_is_not_the_clients() -> None:
    call: JsonObject = {
        "type": "shell_call",
        "call_id": "c",
        "action": {},
        "environment": {"type": "container_reference"},
    }
    request = decoded({"input": [call, {"type": "shell_call_output", "call_id": "c", "output": []}]})
    assert all(isinstance(message.parts[0], Foreign) for message in request.messages)
    assert {message.role.value for message in request.messages} == {"assistant"}
