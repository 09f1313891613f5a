"""Blocks of tools that the provider runs: what others can tell of them."""

from __future__ import annotations

import pytest
from anthropic.types.beta import BetaMCPTool

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import (
    Extras,
    HostedCall,
    HostedKind,
    HostedResult,
)
from dragoman.protocols.anthropic_messages import NAME
from dragoman.protocols.anthropic_messages.hosted import hosted_id, listing_block
from dragoman.protocols.anthropic_messages.parts import decode_block, decode_content
from dragoman.wire.fields import Fields
from dragoman.wire.json import encode_text
from tests.protocols.anthropic_messages.support import block


def test_bash_commands_are_code_to_others() -> None:
    part = decode_block(block(type="server_tool_use", id="s", name="bash_code_execution", input={"command": "ls"}))
    assert isinstance(part, HostedCall)
    assert (part.kind, part.arguments) == (HostedKind.CODE, '{"code":"ls"}')


@pytest.mark.parametrize("kind", ["code_execution_tool_result", "bash_code_execution_tool_result"])
def test_results_of_code_and_of_bash_are_results_of_code_to_others(kind: str) -> None:
    part = decode_block(block(type=kind, tool_use_id="s", content={"type": "r", "stdout": "a", "stderr": "b"}))
    assert isinstance(part, HostedResult)
    assert (part.kind, part.text, part.is_error) == (HostedKind.CODE, "ab", False)


def test_a_listing_is_told_as_call_and_result() -> None:
    listing: JsonObject = {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": [{"name": "n"}]}
    call, result = decode_content(Fields({"content": [listing]}), "content")
    assert isinstance(call, HostedCall)
    assert call.extras == Extras(origin=NAME, fields=listing)
    assert result == HostedResult(call_id="", kind=HostedKind.MCP_LISTING, text='[{"name":"n"}]')


def test_a_failed_search_is_an_error() -> None:
    part = decode_block(
        block(type="web_search_tool_result", tool_use_id="s", content={"type": "e", "error_code": "unavailable"})
    )
    assert isinstance(part, HostedResult)
    assert part.is_error
    assert part.text == "unavailable"


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ('[{"name":"n"},3,{}]', [{"name": "n", "input_schema": {}}]),
        ("", []),
        (None, []),
        ("{", []),
        ('{"name":"n"}', []),
    ],
    ids=["a list", "nothing", "no text", "no JSON", "no list"],
)
def test_a_listing_is_written_from_its_text(text: str | None, tools: list[JsonObject]) -> None:
    result = HostedResult(call_id="", kind=HostedKind.MCP_LISTING, text=text)
    assert listing_block(result, "s") == {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": tools}


def test_item_23_a_listed_tool_has_only_what_the_official_type_knows() -> None:
    tool: JsonObject = {"name": "n", "description": "Names.", "input_schema": {"type": "object"}}
    hinted = encode_text([{**tool, "annotations": {"read_only": True}}])
    listing = listing_block(HostedResult(call_id="", kind=HostedKind.MCP_LISTING, text=hinted), "s")
    assert listing["tools"] == [tool]
    assert set(tool) == set(BetaMCPTool.model_fields)


@pytest.mark.parametrize(
    ("given", "told"),
    [("srvtoolu_1", "srvtoolu_1"), ("ws_1", "srvtoolu_1"), ("ws:1", "srvtoolu_ws_1")],
)
def test_pitfall_039_ids_are_plain_and_under_this_protocols_prefix(given: str, told: str) -> None:
    assert hosted_id(given, "srvtoolu_") == told


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (block(type="web_search_tool_result", tool_use_id="s", content=[{"type": 7}]), "/content/0/type"),
        (block(type="mcp_tool_result", tool_use_id="s", content=[{"type": 7}]), "/content/0/type"),
        (block(type="web_fetch_tool_result", tool_use_id=7), "/tool_use_id"),
    ],
    ids=["a source", "a server's answer", "a result nobody else knows"],
)
def test_wrong_types_in_results_are_named_with_their_place(given: Fields, path: str) -> None:
    with pytest.raises(WireError) as error:
        decode_block(given)
    assert error.value.path == path
