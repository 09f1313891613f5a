"""Blocks as parts: what others can read of them, and what goes home whole."""

from __future__ import annotations

import pytest

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import (
    Compaction,
    Document,
    Extras,
    Foreign,
    HostedCall,
    HostedKind,
    HostedResult,
    Passages,
    Seal,
    Text,
    Thinking,
    ThinkingKind,
    ToolCall,
    ToolResult,
)
from dragoman.protocols.anthropic_messages import NAME
from dragoman.protocols.anthropic_messages.parts import decode_block, decode_content, encode_block
from dragoman.rules.seals import to_envelope
from dragoman.wire.fields import Fields

ITEM = Seal(
    origin="openai-responses", kind="item", body={"id": "rs_1", "type": "reasoning"}, model="g", upstream="openai"
)


def block(**members: object) -> Fields:
    """A block being read."""
    value: JsonObject = {}
    value.update(members)  # type: ignore[arg-type]  # test data is JSON
    return Fields(value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (block(type="search_result", title="T", source="S", content=[{"type": "text", "text": "b"}]), "T\nS\nb"),
        (block(type="tool_reference", tool_name="f"), "f"),
        (
            block(type="browser_state", tabs=[{"tab_id": "1", "title": "T", "url": "u", "active": True}]),
            "tab 1 (active): T u",
        ),
        (block(type="container_upload", file_id="f"), None),
        (block(type="fallback"), None),
    ],
    ids=["a search result", "a tool reference", "a browser state", "an upload", "a fallback"],
)
def test_foreign_blocks_say_what_others_can_read(given: Fields, text: str | None) -> None:
    part = decode_block(given)
    assert isinstance(part, Foreign)
    assert part.text == text
    assert part.body is given.value


def test_a_document_of_passages_holds_parts() -> None:
    part = decode_block(block(type="document", source={"type": "content", "content": "words"}))
    assert isinstance(part, Document)
    assert part.source == Passages(parts=(Text(text="words"),))


def test_a_signed_block_is_sealed_whole() -> None:
    given = block(type="thinking", thinking="", signature="s")
    assert decode_block(given) == Thinking(
        text="", kind=ThinkingKind.SUMMARY, seal=Seal(origin=NAME, kind="thinking", body=given.value)
    )


def test_an_unsigned_block_has_no_seal() -> None:
    part = decode_block(block(type="thinking", thinking="t", signature=""))
    assert isinstance(part, Thinking)
    assert part.seal is None


@pytest.mark.parametrize("kind", ["thinking", "redacted_thinking"])
def test_an_envelope_gives_back_the_seal_of_its_issuer(kind: str) -> None:
    part = decode_block(block(type=kind, thinking="t", signature=to_envelope(ITEM), data=to_envelope(ITEM)))
    assert isinstance(part, Thinking)
    assert part.seal == ITEM


def test_a_compaction_of_another_issuer_is_opened() -> None:
    seal = Seal(origin="openai-chat", kind="compaction", body={"summary": "so far"})
    part = decode_block(block(type="compaction", content="[compacted]", signature=to_envelope(seal)))
    assert part == Compaction(summary="so far", seal=seal)


def test_pitfall_052_arguments_keep_order_and_digits() -> None:
    part = decode_block(block(type="tool_use", id="i", name="n", input={"z": 10**30, "a": 1}))
    assert part == ToolCall(call_id="i", name="n", arguments='{"z":1000000000000000000000000000000,"a":1}')


def test_a_result_may_have_no_content_and_no_id() -> None:
    assert decode_block(block(type="tool_result")) == ToolResult(call_id="", parts=())


def test_bash_commands_are_code_to_others() -> None:
    part = decode_block(block(type="server_tool_use", id="s", name="bash_code_execution", input={"command": "ls"}))
    assert isinstance(part, HostedCall)
    assert (part.kind, part.arguments) == (HostedKind.CODE, '{"code":"ls"}')


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
    ("given", "path"),
    [
        (block(type="text", text=1), "/text"),
        (block(type="text", text="x", citations=[1]), "/citations/0"),
        (block(text="x"), "/type"),
        (block(type="image", source="x"), "/source"),
        (block(type="image", source={"type": "url"}), "/source/url"),
        (block(type="document", source={"type": "text", "data": 1}), "/source/data"),
        (block(type="document", source={"type": "url", "url": "u"}, citations=1), "/citations"),
        (block(type="thinking", thinking="x", signature=1), "/signature"),
        (block(type="tool_use", id="i", name="n", input="{}"), "/input"),
        (block(type="tool_result", tool_use_id="i", content=1), "/content"),
        (block(type="tool_result", tool_use_id="i", content=[1]), "/content/0"),
        (block(type="tool_result", tool_use_id="i", is_error="no"), "/is_error"),
        (block(type="text", text="x", cache_control="yes"), "/cache_control"),
        (block(type="text", text="x", cache_control={"type": "ephemeral", "ttl": 5}), "/cache_control/ttl"),
        (block(type="search_result", title="t", source="s", content=1), "/content"),
        (block(type="browser_state", tabs=1), "/tabs"),
        (block(type="server_tool_use", id="i", name="web_search", input=[]), "/input"),
        (block(type="mcp_tool_result", tool_use_id="i", content=[1]), "/content/0"),
    ],
)
def test_wrong_types_are_named_with_their_place(given: Fields, path: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_block(given)
    assert caught.value.path == path


def test_a_foreign_seal_goes_home_in_its_envelope() -> None:
    assert encode_block(Thinking(text="t", seal=ITEM)) == {
        "type": "thinking",
        "thinking": "t",
        "signature": to_envelope(ITEM),
    }
