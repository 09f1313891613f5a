"""Calls put together from fragments: more arguments in one step, exactly as fragment by fragment."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.model.events import ArgumentsDelta, Event, PartGrew, PartStarted
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.protocols.openai_chat.stream_calls import CallAssembly
from dragoman.rules.unknowns import Unknowns
from tests.protocols.openai_chat.room import ask, losses, mint


def assembly(ledger: Ledger | None = None) -> CallAssembly:
    count = iter(range(100))
    asked = ask(FunctionTool(name="f"), TextTool(name="sql"))
    ledger = Ledger() if ledger is None else ledger
    return CallAssembly(asked, mint(), ledger, Unknowns(ledger, "openai-chat"), lambda: next(count))


ARGUMENTS = st.sampled_from(["", "{", '{"input":"', "x", '"}', "}", "{}"])
INNER = st.one_of(
    st.fixed_dictionaries({"arguments": ARGUMENTS}),
    st.fixed_dictionaries({"arguments": ARGUMENTS}, optional={"name": st.sampled_from(["f", "sql", "g"])}),
)
FRAGMENT = st.fixed_dictionaries(
    {"index": st.integers(0, 1), "function": INNER}, optional={"id": st.sampled_from(["", "a", "b"])}
)


@given(st.lists(FRAGMENT, max_size=8))
@settings(max_examples=200)
def test_the_short_way_tells_the_same(fragments: list[JsonObject]) -> None:
    quick, slow = assembly(), assembly()
    for fragment in fragments:
        told: list[Event] = []
        slow.take(fragment, told)
        event = quick.next(fragment)
        found: list[Event] = [event] if event is not None else []
        if event is None:
            quick.take(fragment, found)
        assert found == told
    rest: tuple[list[Event], list[Event]] = ([], [])
    quick.end(rest[0])
    slow.end(rest[1])
    assert rest[0] == rest[1]


def test_more_arguments_take_the_short_way() -> None:
    calls = assembly()
    events: list[Event] = []
    calls.take({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}, events)
    assert isinstance(events[0], PartStarted)
    assert calls.next({"index": 0, "function": {"arguments": "}"}}) == PartGrew(0, ArgumentsDelta("}"))


def test_fragments_of_a_wrong_type_are_errors() -> None:
    broken: list[JsonObject] = [
        {"index": "0", "function": {"arguments": "{"}},
        {"index": 0, "function": "f"},
        {"index": 0, "id": 7, "function": {"name": "f"}},
    ]
    for fragment in broken:
        try:
            assembly().take(fragment, [])
        except WireError:
            continue
        raise AssertionError(fragment)


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
    assert losses(ledger) == {("dropped", "arguments", "parts[0]")}
