"""Law 15, calls as meant: whatever habits a server cuts its calls by, they come out as meant or the stream fails."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import event, given

from dragoman.model.folding import fold
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import ToolCall
from dragoman.model.response import Response
from dragoman.model.tools import FunctionTool
from tests.laws.fragments import CASES, NAMES, Case, fragments
from tests.laws.strategies import CHAT
from tests.protocols.openai_chat.room import ask, chunk, heard

TOOLS = ask(*(FunctionTool(name=name) for name in NAMES))


def understood(case: Case) -> list[tuple[str, Any]] | None:
    """The calls that a stream tells; None if it fails."""
    told, message = fragments(case)
    chunks: list[JsonObject] = [chunk({"tool_calls": [one]}) for one in told]
    last = chunk({}, "tool_calls")
    if message is not None:
        last["choices"][0]["message"] = message  # type: ignore[index,call-overload]  # a chunk of our own
    response = fold(heard([*chunks, last], TOOLS, ledger=Ledger()), CHAT)
    if not isinstance(response, Response):
        return None
    calls = [part for part in response.parts if isinstance(part, ToolCall)]
    assert len({call.call_id for call in calls}) == len(calls)
    return [(call.name, json.loads(call.arguments or "{}") or {}) for call in calls]


@given(CASES)
def test_calls_come_out_as_meant_or_the_stream_fails(case: Case) -> None:
    calls = understood(case)
    event("failed" if calls is None else "understood")
    if calls is not None:
        assert sorted(map(repr, calls)) == sorted(map(repr, case.meant))


@given(CASES)
def test_ids_and_indexes_as_documented_are_always_understood(case: Case) -> None:
    habits = case.habits
    if habits.ids in ("first", "every") and habits.index in ("place", "one", "far", "text", "float"):
        assert understood(case) is not None
