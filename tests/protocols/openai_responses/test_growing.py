"""Items that grow: what a wrapped call leaves out is reported, events of other items are not believed."""

from __future__ import annotations

from dragoman.model.events import PartGrew, PartStarted, TextDelta
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Text
from dragoman.model.tools import TextTool
from dragoman.protocols.openai_responses.growing import GrowingItem, Piece, Telling, growing_item
from dragoman.rules.toolnames import ToolTable, Wrapped
from tests.protocols.openai_responses.asking import MINT, asked_abroad, lines, read


def test_a_piece_knows_what_the_deltas_left_out() -> None:
    piece = Piece()
    assert piece.missing("abc") == "abc"
    piece.pieces.append("ab")
    assert piece.missing("abc") == "c"
    assert piece.missing("ab") == piece.missing("xyz") == ""


def test_members_beside_the_free_text_are_reported_in_streams_too() -> None:
    table = ToolTable()
    table.add(TextTool(name="patch"), Wrapped.INPUT)
    ledger = Ledger()
    item = growing_item(
        Telling(asked_abroad(table), MINT, ledger), "function_call", {"type": "function_call", "name": "patch"}
    )
    item.finish({"type": "function_call", "name": "patch", "arguments": '{"input":"a","why":"b"}'})
    assert lines(ledger) == ["approximated arguments parts[0]"]


def test_an_item_of_an_unknown_kind_comes_whole() -> None:
    telling = Telling(asked_abroad(), MINT, Ledger())
    assert type(growing_item(telling, 7, {})) is GrowingItem


def test_an_event_of_another_kind_of_item_is_ignored() -> None:
    item: JsonObject = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    found = read(
        [
            {"type": "response.created", "response": {"id": "resp_1"}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "x"},
            {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "a"},
        ],
        close=False,
    )
    assert found[1:] == [PartStarted(0, Text(text="", id="msg_1")), PartGrew(0, TextDelta("a"))]
