"""Calls while they grow: what a wrapped one leaves out is reported, and none is run with arguments in doubt."""

from __future__ import annotations

import pytest

from dragoman.model.failure import Failure
from dragoman.model.folding import fold
from dragoman.model.losses import Ledger
from dragoman.model.tools import TextTool
from dragoman.protocols.openai_responses import NAME
from dragoman.protocols.openai_responses.open_item import ItemContext
from dragoman.protocols.openai_responses.open_items import open_item
from dragoman.rules.tool_table import ToolTable, Wrapped
from tests.protocols.openai_responses.asking import MINT, asked_abroad, lines, read, response_body
from tests.protocols.openai_responses.numbering import (
    call,
    folded,
    item_event,
    meaning,
    told_call,
    vendor,
)


def test_members_beside_the_free_text_are_reported_in_streams_too() -> None:
    table = ToolTable()
    table.add(TextTool(name="patch"), Wrapped.INPUT)
    ledger = Ledger()
    item = open_item(
        ItemContext(asked_abroad(table), MINT, ledger), "function_call", {"type": "function_call", "name": "patch"}
    )
    item.finish({"type": "function_call", "name": "patch", "arguments": '{"input":"a","why":"b"}'})
    assert lines(ledger) == ["approximated arguments parts[0]"]


def test_item_8_a_call_said_with_two_arguments_is_not_run() -> None:
    one = call("fc", "call_1", '{"a":1}')
    stream = [vendor()[0], *told_call(0, one)]
    stream[-1] = item_event("done", 0, {**one, "arguments": '{"a":2}'})
    stream.append({"type": "response.completed", "response": response_body(one)})
    assert isinstance(fold(read(stream), NAME), Failure)


@pytest.mark.parametrize("said", ['{ "a" : 1 }', '{"a":1}', "{}", "", '{"\\u0061":1}'])
def test_item_8_the_same_arguments_in_another_spelling_are_told_once(said: str) -> None:
    one = call("fc", "call_1", '{"a":1}')
    stream = [vendor()[0], *told_call(0, one)]
    stream[-1] = item_event("done", 0, {**one, "arguments": said})
    stream.append({"type": "response.completed", "response": response_body({**one, "arguments": said})})
    assert meaning(folded(read(stream)))[2] == [("look", '{"a":1}')]


def test_item_8_a_nameless_call_is_told_with_what_it_said_before_its_name() -> None:
    one = call("fc", "call_1", '{"a":1}')
    stream = [vendor()[0], *told_call(0, one)]
    stream[1] = item_event("added", 0, {"type": "function_call", "id": "fc"})
    stream[-1] = item_event("done", 0, {**one, "arguments": ""})
    stream.append({"type": "response.completed", "response": response_body(one)})
    assert meaning(folded(read(stream)))[2] == [("look", '{"a":1}')]
