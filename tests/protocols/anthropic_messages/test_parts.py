"""Blocks as parts: what others can read of them, and what goes home whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import (
    Document,
    Extras,
    Foreign,
    Image,
    Passages,
    Seal,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.protocols.anthropic_messages import NAME
from dragoman.protocols.anthropic_messages.parts import decode_block, encode_block, plain_block
from dragoman.rules.seals import to_envelope
from dragoman.wire.fields import Fields
from tests.protocols.anthropic_messages.support import block

ITEM = Seal(
    origin="openai-responses", kind="item", body={"id": "rs_1", "type": "reasoning"}, model="g", vendor="openai"
)


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


def test_pitfall_052_arguments_keep_order_and_digits() -> None:
    part = decode_block(block(type="tool_use", id="i", name="n", input={"z": 10**30, "a": 1}))
    assert part == ToolCall(call_id="i", name="n", arguments='{"z":1000000000000000000000000000000,"a":1}')


def test_a_result_may_have_no_content_and_no_id() -> None:
    assert decode_block(block(type="tool_result")) == ToolResult(call_id="", parts=())


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


# Blocks in the shapes that have a short way, and near misses that must not take it.
COMMON: list[JsonObject] = [
    {"type": "text", "text": "hi"},
    {"text": "", "type": "text"},
    {"type": "tool_use", "id": "i", "name": "n", "input": {"a": [1, {"b": None}]}},
    {"type": "tool_use", "id": "", "name": "n", "input": {}},
    {"type": "tool_result", "tool_use_id": "i", "content": "r"},
    {"type": "tool_result", "tool_use_id": "i", "content": [{"type": "text", "text": "r"}]},
    {"type": "thinking", "thinking": "t", "signature": "s"},
    {"type": "thinking", "thinking": "", "signature": to_envelope(ITEM)},
]
OTHERS: list[JsonObject] = [
    {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": "hi", "citations": None},
    {"type": "text", "text": None},
    {"type": "text"},
    {"type": "tool_use", "id": "i", "name": "n", "input": {}, "caller": {"type": "direct"}},
    {"type": "tool_use", "id": "i", "name": "n", "input": "{}"},
    {"type": "tool_use", "id": "i", "name": "n", "toolset_name": "computer"},
    {"type": "tool_result", "tool_use_id": "i", "is_error": True},
    {"type": "tool_result", "tool_use_id": "i", "content": [{"type": "image"}]},
    {"type": "tool_result", "tool_use_id": "i", "content": []},
    {"type": "tool_result", "tool_use_id": None, "content": "r"},
    {"type": "thinking", "thinking": "t", "signature": ""},
    {"type": "thinking", "thinking": "t", "x": 1},
    {"type": "redacted_thinking", "data": "d", "x": 1},
    {"type": ["text"], "text": "hi"},
]


@pytest.mark.parametrize("given", COMMON, ids=str)
def test_the_short_way_gives_what_the_full_readers_give(given: JsonObject) -> None:
    short = plain_block(given)
    assert short is not None
    assert short == decode_block(Fields(given))


@pytest.mark.parametrize("given", OTHERS, ids=str)
def test_every_other_shape_is_left_to_the_full_readers(given: JsonObject) -> None:
    assert plain_block(given) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
MEMBERS = ("type", "text", "id", "name", "input", "tool_use_id", "content", "thinking", "signature", "x")
KINDS = st.sampled_from(["text", "tool_use", "tool_result", "thinking"])


@given(st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=5), KINDS)
def test_no_shape_takes_the_short_way_to_something_else(members: dict[str, JsonValue], kind: str) -> None:
    body: JsonObject = {**members, "type": kind}
    short = plain_block(body)
    if short is not None:
        assert short == decode_block(Fields(body))


def test_members_of_a_source_that_nobody_knows_come_home() -> None:
    given = block(type="image", source={"type": "url", "url": "https://x", "new": 1}, newer=2)
    part = decode_block(given)
    assert isinstance(part, Image)
    assert part.extras == Extras(origin=NAME, fields={"newer": 2, "source": {"new": 1}})
    assert encode_block(part) == given.value


def test_a_flag_that_says_nothing_comes_home() -> None:
    given = block(type="tool_result", tool_use_id="i", is_error=False)
    part = decode_block(given)
    assert isinstance(part, ToolResult)
    assert not part.is_error
    assert encode_block(part) == given.value


def test_pitfall_174_marks_stay_where_the_client_put_them() -> None:
    given = block(type="text", text="t", cache_control={"type": "ephemeral", "ttl": "1h"})
    assert encode_block(decode_block(given)) == given.value


def test_a_mark_that_is_not_known_is_no_mark_and_comes_home() -> None:
    given = block(type="text", text="t", cache_control={"type": "eternal"})
    part = decode_block(given)
    assert isinstance(part, Text)
    assert part.cache is None
    assert encode_block(part) == given.value
