"""Calls put together from fragments: more arguments in one step, exactly as fragment by fragment."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.model.events import ArgumentsDelta, Event, PartGrew, PartStarted
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.protocols.openai_chat.stream_tool_calls import CallAssembly
from dragoman.rules.extras import UnknownFields
from tests.protocols.openai_chat.room import ask, losses, mint


def assembly(ledger: Ledger | None = None) -> CallAssembly:
    count = iter(range(100))
    asked = ask(FunctionTool(name="f"), TextTool(name="sql"))
    ledger = Ledger() if ledger is None else ledger
    return CallAssembly(asked, mint(), ledger, UnknownFields(ledger, "openai-chat"), lambda: next(count))


ARGUMENTS = st.sampled_from(["", "{", '{"input":"', "x", '"}', "}", "{}"])
INNER = st.one_of(
    st.fixed_dictionaries({"arguments": ARGUMENTS}),
    st.fixed_dictionaries({"arguments": ARGUMENTS}, optional={"name": st.sampled_from(["f", "sql", "g"])}),
)
FRAGMENT = st.fixed_dictionaries(
    {"index": st.integers(0, 1), "function": INNER}, optional={"id": st.sampled_from(["", "a", "b"])}
)


# Calls that share an index are told apart by their ids.
@example(
    [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}},
        {"index": 0, "id": "b", "function": {"name": "f", "arguments": "{"}},
        {"index": 0, "id": "a", "function": {"arguments": "}"}},
    ]
)
@given(st.lists(FRAGMENT, max_size=8))
def test_the_short_way_tells_the_same(fragments: list[JsonObject]) -> None:
    quick, slow = assembly(), assembly()
    for fragment in fragments:
        event = quick.next(fragment)
        found: tuple[list[Event], str] = ([event], "") if event is not None else tried(quick, fragment)
        assert found == tried(slow, fragment)
        if found[1]:
            return
    assert tried(quick) == tried(slow)


def tried(calls: CallAssembly, fragment: JsonObject | None = None) -> tuple[list[Event], str]:
    """What a fragment, or the end, tells, and the error it ends in."""
    told: list[Event] = []
    try:
        calls.end(told) if fragment is None else calls.take(fragment, told)
    except WireError as error:
        return told, str(error)
    return told, ""


def test_unknown_members_of_a_call_that_is_empty_are_reported() -> None:
    ledger = Ledger()
    events: list[Event] = []
    assembly(ledger).take({"index": 0, "mood": 1, "function": {"name": "", "arguments": "", "tone": 2}}, events)
    assert not events
    assert {place for _, _, place in losses(ledger)} == {"extras.mood", "extras.tone"}


def test_more_arguments_take_the_short_way() -> None:
    calls = assembly()
    events: list[Event] = []
    calls.take({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}, events)
    assert isinstance(events[0], PartStarted)
    assert calls.next({"index": 0, "function": {"arguments": "}"}}) == PartGrew(0, ArgumentsDelta("}"))


def test_a_whole_call_that_is_opened_again_with_other_arguments_is_another_one_at_once() -> None:
    calls = assembly()
    events: list[Event] = []
    calls.take({"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}, events)
    calls.take({"index": 1, "id": "a", "function": {"name": "f", "arguments": '{"x":'}}, events)
    assert len([event for event in events if isinstance(event, PartStarted)]) == 1
    calls.take({"index": 1, "function": {"arguments": "2}"}}, events)
    assert len([event for event in events if isinstance(event, PartStarted)]) == 2


def test_a_whole_call_that_is_opened_again_is_another_one_though_its_arguments_are_cut() -> None:
    calls = assembly()
    events: list[Event] = []
    calls.take({"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}, events)
    calls.take({"index": 1, "id": "a", "function": {"name": "f", "arguments": '{"y":'}}, events)
    assert len([event for event in events if isinstance(event, PartStarted)]) == 1
    calls.end(events)
    assert len([event for event in events if isinstance(event, PartStarted)]) == 2


def test_fragments_of_a_wrong_type_are_errors() -> None:
    broken: list[JsonObject] = [
        {"index": "first", "function": {"arguments": "{"}},
        {"index": 0.5, "function": {"arguments": "{"}},
        {"index": 0, "function": "f"},
        {"index": 0, "id": 7, "function": {"name": "f"}},
    ]
    for fragment in broken:
        with pytest.raises(WireError):
            assembly().take(fragment, [])


def test_a_call_that_never_gets_a_name_is_reported() -> None:
    ledger = Ledger()
    calls = assembly(ledger)
    calls.take({"index": 0, "function": {"arguments": "{}"}}, [])
    calls.end([])
    assert losses(ledger) == {("dropped", "function_tool", "parts")}


def test_arguments_after_a_whole_value_are_reported() -> None:
    ledger = Ledger()
    calls = assembly(ledger)
    whole: JsonValue = {"name": "f", "arguments": "{}"}
    calls.take({"index": 0, "id": "a", "function": whole}, [])
    calls.move_on([])
    calls.take({"index": 0, "function": {"arguments": "more"}}, [])
    calls.end([])
    assert losses(ledger) == {("dropped", "arguments", "parts[0]")}
