"""Blocks of a stream while they are open, and the short way of their deltas."""

from __future__ import annotations

import pytest
from msgspec import DecodeError
from msgspec.json import Decoder

from dragoman.errors import WireError
from dragoman.model.events import Event, PartGrew, PartStarted, TextDelta
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Compaction, Foreign, Text
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.protocols.anthropic_messages import CODEC
from dragoman.protocols.anthropic_messages.stream_blocks import BLOCKS, Block, BlockContext, BlockGrew, text_of
from dragoman.rules.tool_table import ToolTable, Wrapped
from dragoman.wire.json import encode
from dragoman.wire.sse import Frame
from tests.protocols.anthropic_messages.support import (
    CLOSING,
    OPENING,
    asked,
    decoded_stream,
    delta,
    losses,
    mint,
    start,
    stop,
)

STARTS: dict[str, JsonObject] = {
    "text": start(0, type="text", text=""),
    "thinking": start(0, type="thinking", thinking="", signature=""),
    "call": start(0, type="tool_use", id="i", name="f", input={}),
    "search": start(0, type="server_tool_use", id="i", name="web_search", input={}),
    "unknown": start(0, type="hologram"),
}
DELTAS: list[JsonObject] = [
    delta(0, "text_delta", text="x"),
    delta(0, "text_delta", text=""),
    delta(0, "text_delta", text=None),
    delta(0, "text_delta", text="\U0001f600", more=1),
    delta(0, "thinking_delta", thinking="x"),
    delta(0, "input_json_delta", partial_json='{"a"'),
    delta(0, "input_json_delta", partial_json=""),
    delta(0, "signature_delta", signature="s"),
    delta(0, "citations_delta", citation={"type": "web_search_result_location", "url": "https://x"}),
    delta(0, "brand_new_delta", x=1),
    delta(3, "text_delta", text="x"),
]


def fed(opening: JsonObject, event: JsonObject, name: str | None) -> list[Event]:
    """What a delta tells; only one that is named as such takes the short way."""
    decoder = CODEC.stream_decoder(asked(), mint(), Ledger())
    decoder.feed(Frame("message_start", encode(OPENING)))
    decoder.feed(Frame("content_block_start", encode(opening)))
    return decoder.feed(Frame(name, encode(event))) + decoder.feed(Frame(name, encode(event)))


@pytest.mark.parametrize("event", DELTAS, ids=lambda event: str(event["delta"]))
@pytest.mark.parametrize("opening", STARTS.values(), ids=STARTS)
def test_the_short_way_tells_what_the_full_reader_tells(opening: JsonObject, event: JsonObject) -> None:
    assert fed(opening, event, "content_block_delta") == fed(opening, event, None)


def test_only_deltas_with_their_text_take_the_short_way() -> None:
    read = Decoder(BlockGrew).decode
    assert read(encode(delta(0, "text_delta", text="x"))).delta.text == "x"
    ping: JsonObject = {"type": "ping"}
    for other in (delta(0, "signature_delta", signature="s"), delta(0, "text_delta"), ping):
        with pytest.raises(DecodeError):
            read(encode(other))


@pytest.mark.parametrize(("text", "told"), [(b"a\\ud800b", "a\ufffdb"), (b"a\xffb", "a\ufffdb")])
def test_broken_characters_do_not_end_a_stream(text: bytes, told: str) -> None:
    decoder = CODEC.stream_decoder(asked(), mint(), Ledger())
    decoder.feed(Frame("message_start", encode(OPENING)))
    decoder.feed(Frame("content_block_start", encode(STARTS["text"])))
    data = encode(delta(0, "text_delta", text="?")).replace(b"?", text)
    events = decoder.feed(Frame("content_block_delta", data))
    assert events == [PartStarted(0, Text(text="")), PartGrew(0, TextDelta(told))]


def test_nothing_is_told_after_the_end() -> None:
    decoder = CODEC.stream_decoder(asked(), mint(), Ledger())
    for event in (OPENING, STARTS["text"], DELTAS[0], *CLOSING):
        decoder.feed(Frame(str(event["type"]), encode(event)))
    assert decoder.feed(Frame("content_block_delta", encode(DELTAS[0]))) == []


@pytest.mark.parametrize(
    ("tool", "wrapped", "arguments", "bent"),
    [
        (TextTool(name="p"), Wrapped.INPUT, '{"input":"a"}', False),
        (TextTool(name="p"), Wrapped.INPUT, '{"input":"a","more":1}', True),
        (TextTool(name="p"), Wrapped.INPUT, '{"text":"a"}', True),
        (FunctionTool(name="p"), Wrapped.VALUE, '{"value":[1]}', False),
        (FunctionTool(name="p"), Wrapped.VALUE, '{"value":[1],"more":1}', True),
    ],
    ids=["as asked", "with more", "under another name", "a value", "a value with more"],
)
def test_a_call_that_is_not_what_was_asked_for_is_reported(
    tool: TextTool | FunctionTool, wrapped: Wrapped, arguments: str, bent: bool
) -> None:
    table = ToolTable()
    table.add(tool, wrapped)
    streamed, whole = Ledger(), Ledger()
    call = start(0, type="tool_use", id="i", name="p", input={})
    decoded_stream(
        [OPENING, call, delta(0, "input_json_delta", partial_json=arguments), stop(0), *CLOSING],
        asked(table=table),
        streamed,
    )
    answer = encode({"content": [{"type": "tool_use", "id": "i", "name": "p", "input": 0}]})
    body = answer.replace(b'"input":0', b'"input":' + arguments.encode())
    CODEC.decode_response(_parsed(body), asked(table=table), whole)
    assert losses(streamed) == losses(whole) == ([("approximated", "arguments", "parts[0]")] if bent else [])


def _parsed(body: bytes) -> JsonObject:
    value: JsonValue = Decoder().decode(body)
    assert isinstance(value, dict)
    return value


def test_a_block_of_no_known_kind_is_told_whole_at_its_end() -> None:
    reading = BlockContext(asked(), mint(), Ledger())
    block = BLOCKS.get("hologram", Block)(reading, {"type": "hologram"})
    assert block.open() == block.add_text("x") == block.grow("hologram_delta", {}) == []
    (opened, _) = block.close()
    assert isinstance(opened, PartStarted)
    assert isinstance(opened.part, Foreign)


def test_a_compaction_is_told_whole() -> None:
    reading = BlockContext(asked(), mint(), Ledger())
    block = BLOCKS["compaction"](reading, {"type": "compaction", "content": None})
    block.open()
    block.grow("compaction_delta", {"type": "compaction_delta", "content": "so far", "encrypted_content": "e"})
    (opened, _) = block.close()
    assert isinstance(opened, PartStarted)
    assert isinstance(opened.part, Compaction)
    assert opened.part.summary == "so far"


def test_a_member_of_the_wrong_type_is_named() -> None:
    assert text_of({"a": None}, "a") == text_of({}, "a") == ""
    with pytest.raises(WireError, match="a: expected"):
        text_of({"a": 1}, "a")
