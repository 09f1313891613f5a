"""What one request shares while it is written: ids, marks, extras."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import CacheBreakpoint, Extras
from dragoman.protocols.anthropic_messages import NAME
from dragoman.protocols.anthropic_messages.encode_context import RequestEncodeContext
from tests.protocols.anthropic_messages.support import losses, target


def writing() -> RequestEncodeContext:
    return RequestEncodeContext(target(), Ledger())


@pytest.mark.parametrize(("given", "same"), [("toolu_1", True), ("a:b", False), ("x" * 65, False)])
def test_an_id_that_fits_is_kept(given: str, same: bool) -> None:
    told = writing().call_id(given)
    assert (told == given) is same
    assert writing().call_id(told) == told


def test_the_last_four_marks_are_kept_and_the_others_reported() -> None:
    shared = writing()
    blocks: list[JsonObject] = [{"type": "text", "text": str(number)} for number in range(6)]
    for number, block in enumerate(blocks):
        shared.add_breakpoint(block, CacheBreakpoint(origin="openai-chat"), ("tools", number))
    assert shared.limit_breakpoints() == 4
    assert ["cache_control" in block for block in blocks] == [False, False, True, True, True, True]
    assert losses(shared.ledger) == [("dropped", "cache_breakpoint", f"tools[{number}].cache") for number in (0, 1)]


@pytest.mark.parametrize("origin", ["openai-chat", "openai-responses", NAME])
def test_every_mark_of_the_client_is_a_breakpoint_of_its_own(origin: str) -> None:
    shared = writing()
    shared.add_breakpoint({}, CacheBreakpoint(origin=origin), ())
    assert shared.breakpoints


@pytest.mark.parametrize(
    ("fields", "native", "reported"),
    [({"x": 1}, False, True), ({"type": "shell", "x": 1}, True, False)],
    ids=["members", "a whole object"],
)
def test_whole_objects_are_reported_by_who_rewrites_them(fields: JsonObject, native: bool, reported: bool) -> None:
    shared = writing()
    extras = Extras(origin="openai-responses", fields=fields)
    shared.drop(extras, ("tools", 0))
    assert shared.is_native(extras) is native
    assert bool(shared.ledger.losses) is reported
