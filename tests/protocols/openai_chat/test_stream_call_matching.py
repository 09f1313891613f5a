"""To which call a fragment belongs; the shapes that servers send are in `test_fragments`."""

from __future__ import annotations

import pytest

from dragoman.protocols.openai_chat.stream_call_matching import CallMatcher, StreamedCall, lacks
from dragoman.rules.tool_table import ToolTable


def owners(*calls: tuple[str, str]) -> CallMatcher:
    """Calls of ids and arguments, each at its place, all of the tool `f`."""
    found = CallMatcher(ToolTable(), frozenset({"f"}))
    for place, (given, arguments) in enumerate(calls):
        call = StreamedCall(place, place, given, custom=False, extras=None)
        call.name = "f"
        if arguments:
            call.arguments.take(arguments, "/x")
        found.calls.append(call)
        found.grew(call)
        found.by_index[place] = call
        found.by_id[given] = call
    return found


@pytest.mark.parametrize(
    ("calls", "fragment", "place"),
    [
        # index, id, name, arguments
        ((("a", '{"x"'),), (0, "", "", ":1}"), 0),
        ((("a", ""), ("b", "")), (0, "b", "", "{"), 1),
        ((("a", '{"x":1}'), ("b", "")), (0, "", "", '{"y"'), 1),
        ((("a", '{"x":1}'), ("b", "")), (7, "", "f", '{"y"'), 1),
        ((("a", '{"x":1}'),), (7, "", "f", '{"x": 1}'), 0),
        ((("a", '{"x":1}'),), (7, "", "f", '{"x":2}'), None),
        ((("a", '{"x":1}'),), (0, "b", "f", ""), None),
    ],
)
def test_item_7_the_owner_of_a_fragment(
    calls: tuple[tuple[str, str], ...], fragment: tuple[int, str, str, str], place: int | None
) -> None:
    found = owners(*calls)
    assert found.owner(*fragment) is (None if place is None else found.calls[place])


def test_a_call_lacks_arguments_until_some_stand_in() -> None:
    (call,) = owners(("a", "")).calls
    assert lacks(call)
    call.arguments.take("{}", "/x")
    assert not lacks(call)
