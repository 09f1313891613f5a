"""Items get ids where they have none, and come in pages."""

from __future__ import annotations

import pytest

from dragoman.mint import system_mint
from dragoman.mock.stored.pages import missing, named, page
from dragoman.model.failure import FailureKind
from dragoman.model.jsonvalue import JsonObject

ITEMS: list[JsonObject] = [{"id": f"msg_{number}"} for number in range(5)]


@pytest.mark.parametrize(
    ("item", "prefix"),
    [
        ({"role": "user"}, "msg_"),
        ({"type": "reasoning"}, "rs_"),
        ({"type": "custom_tool_call"}, "ctc_"),
        ({"type": "function_call_output"}, "fc_"),
        ({"id": "own_1"}, "own_1"),
    ],
)
def test_an_item_has_an_id_of_its_kind(item: JsonObject, prefix: str) -> None:
    assert str(named(item, system_mint())["id"]).startswith(prefix)


@pytest.mark.parametrize(
    ("query", "first", "last", "more"),
    [
        ("", "msg_4", "msg_0", False),
        ("order=asc&limit=2", "msg_0", "msg_1", True),
        ("order=asc&limit=2&after=msg_3", "msg_4", "msg_4", False),
        ("limit=0", "msg_4", "msg_4", True),
        ("limit=many&after=nobody", "msg_4", "msg_0", False),
    ],
)
def test_a_page_is_what_was_asked_for(query: str, first: str, last: str, more: bool) -> None:
    found = page(ITEMS, query)
    assert (found["first_id"], found["last_id"], found["has_more"]) == (first, last, more)


def test_a_page_of_nothing_is_empty() -> None:
    assert page([], "") == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


def test_what_is_missing_is_told() -> None:
    failure = missing("Response", "resp_1", 404)
    assert (failure.kind, failure.message) == (FailureKind.NOT_FOUND, "Response with id 'resp_1' not found.")
