"""Items of an answer's output, there and back home."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import InputForm, Refusal, Text, ToolCall
from dragoman.model.response import Stop, StopReason
from dragoman.model.tools import FunctionTool, Namespace, TextTool
from dragoman.protocols.openai_responses.output import (
    OutputReader,
    call_item,
    decode_turn,
    encode_turn,
    incomplete_reason,
    last_status,
)
from dragoman.rules.tool_table import ToolTable, Wrapped
from dragoman.wire.fields import Fields
from tests.protocols.openai_responses.asking import asked_abroad, lines

TURN: list[JsonObject] = [
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "a", "annotations": []},
            {"type": "refusal", "refusal": "no"},
        ],
    },
    {
        "type": "message",
        "id": "msg_2",
        "role": "assistant",
        "status": "completed",
        "phase": "final_answer",
        "content": [{"type": "output_text", "text": "b", "annotations": []}],
    },
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "n", "input": "x"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": []},
]


def test_a_turn_comes_back_item_by_item() -> None:
    parts = decode_turn(TURN)
    assert [part.id for part in parts if isinstance(part, Text | Refusal)] == ["msg_1", "msg_1", "msg_2"]
    assert encode_turn(parts) == TURN


def call(item: JsonObject, table: ToolTable) -> ToolCall:
    (part,) = OutputReader(asked_abroad(table), Ledger()).read(
        Fields({"type": "function_call", "call_id": "c", **item})
    )
    assert isinstance(part, ToolCall)
    return part


def test_pitfall_157_names_are_restored_as_they_were_declared() -> None:
    table = ToolTable()
    wire = table.add(FunctionTool(name="find", namespace=Namespace(name="team.a"))).wire
    part = call({"name": wire, "arguments": "{}"}, table)
    assert (part.name, part.namespace) == ("find", "team.a")
    assert call({"name": "undeclared", "arguments": ""}, table).arguments == "{}"


def test_a_wrapped_free_text_call_is_unwrapped() -> None:
    table = ToolTable()
    table.add(TextTool(name="patch"), Wrapped.INPUT)
    part = call({"name": "patch", "arguments": '{"input":"a\\nb"}'}, table)
    assert (part.form, part.arguments) == (InputForm.TEXT, "a\nb")


def test_members_beside_the_free_text_are_reported() -> None:
    table = ToolTable()
    table.add(TextTool(name="patch"), Wrapped.INPUT)
    ledger = Ledger()
    reader = OutputReader(asked_abroad(table), ledger)
    reader.read(Fields({"type": "reasoning", "id": "rs_1", "summary": []}))
    arguments = '{"input":"a","why":"b"}'
    reader.read(Fields({"type": "function_call", "call_id": "c", "name": "patch", "arguments": arguments}))
    assert lines(ledger) == ["approximated arguments parts[1]"]


def test_a_free_text_call_has_no_status() -> None:
    call = ToolCall(call_id="c", name="n", arguments="x", form=InputForm.TEXT)
    assert call_item("ctc_1", call, "x") == {
        "id": "ctc_1",
        "type": "custom_tool_call",
        "call_id": "c",
        "name": "n",
        "input": "x",
    }


def test_pitfall_040_missing_and_repeated_call_ids_are_replaced() -> None:
    reader = OutputReader(asked_abroad(), Ledger())
    found = []
    for identity in ("c", "c", None):
        item: JsonObject = {"type": "function_call", "call_id": identity, "name": "f", "arguments": "{}"}
        (part,) = reader.read(Fields(item))
        assert isinstance(part, ToolCall)
        found.append(part.call_id)
    assert found[0] == "c"
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    ("reason", "refused", "told"),
    [
        (StopReason.END, False, None),
        (StopReason.TOOL_CALL, False, None),
        (StopReason.LENGTH, False, "max_output_tokens"),
        (StopReason.CONTEXT_FULL, False, "max_output_tokens"),
        (StopReason.FILTER, False, "content_filter"),
        (StopReason.REFUSAL, False, "content_filter"),
        (StopReason.REFUSAL, True, None),
        (StopReason.COMPACTED, False, None),
    ],
)
def test_pitfall_099_133_134_why_an_answer_is_incomplete(reason: StopReason, refused: bool, told: str | None) -> None:
    assert incomplete_reason(Stop(reason=reason), refused) == told


def test_only_a_cut_call_is_incomplete() -> None:
    whole = ToolCall(call_id="c", name="f", arguments="")
    assert last_status(whole, "{}", "max_output_tokens") == "completed"
    assert last_status(whole, '{"a', "max_output_tokens") == "incomplete"
    assert last_status(None, "", "max_output_tokens") == "incomplete"
    assert last_status(None, "", None) == "completed"
