"""Tool choices of other protocols as Messages providers get them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.model.jsonvalue import JsonValue
from dragoman.model.tools import (
    ChoiceMode,
    FunctionTool,
    ToolChoice,
    ToolRef,
    ToolSpec,
    WebSearchTool,
)
from tests.protocols.anthropic_messages.support import ADAPTIVE, MANUAL, body_of, chat, encoded

F = FunctionTool(name="f")
G = FunctionTool(name="g")
NO_FORCING = "claude-opus-5-5"


def declared(*tools: ToolSpec, model: str = ADAPTIVE) -> list[JsonValue]:
    """The tools as they are written."""
    found = body_of(replace(chat(), tools=tools), model)["tools"]
    assert isinstance(found, list)
    return found


NAMED = ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name="f"))
ALLOWED = ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(kind="function", name="f"),), required=True)


@pytest.mark.parametrize(
    ("choice", "parallel", "model", "told", "offered"),
    [
        (None, None, ADAPTIVE, None, 2),
        (None, True, ADAPTIVE, None, 2),
        (None, False, ADAPTIVE, {"type": "auto", "disable_parallel_tool_use": True}, 2),
        (ToolChoice(mode=ChoiceMode.NONE), False, ADAPTIVE, {"type": "none"}, 2),
        (ToolChoice(mode=ChoiceMode.REQUIRED), False, ADAPTIVE, {"type": "any", "disable_parallel_tool_use": True}, 2),
        (ToolChoice(mode=ChoiceMode.REQUIRED), None, NO_FORCING, {"type": "auto"}, 2),
        (NAMED, None, ADAPTIVE, {"type": "tool", "name": "f"}, 2),
        (NAMED, None, NO_FORCING, {"type": "auto"}, 1),
        (ALLOWED, None, MANUAL, {"type": "any"}, 1),
    ],
    ids=[
        "no choice",
        "parallel calls need no word",
        "pitfall 138: one call at a time forces nothing",
        "pitfall 139: none has no flag",
        "any, one at a time",
        "any, to a model that cannot be forced",
        "one tool",
        "one tool, to a model that cannot be forced",
        "pitfall 141: a subset",
    ],
)
def test_choices(choice: ToolChoice | None, parallel: bool | None, model: str, told: JsonValue, offered: int) -> None:
    body = body_of(replace(chat(), tools=(F, G), tool_choice=choice, parallel_calls=parallel), model)
    assert body.get("tool_choice") == told
    assert isinstance(body["tools"], list)
    assert len(body["tools"]) == offered


def test_pitfall_139_no_choice_without_tools() -> None:
    result, ledger = encoded(replace(chat(), tool_choice=ToolChoice(mode=ChoiceMode.AUTO), parallel_calls=False))
    assert "tool_choice" not in result.body
    assert len(ledger) == 2


def test_a_hosted_tool_can_be_chosen_by_its_name_here() -> None:
    choice = ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(kind="web_search_preview"))
    body = body_of(replace(chat(), tools=(WebSearchTool(),), tool_choice=choice))
    assert body["tool_choice"] == {"type": "tool", "name": "web_search"}


def test_a_choice_that_cannot_be_offered_is_refused() -> None:
    choice = ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(kind="file_search"))
    with pytest.raises(RefusedError):
        encoded(replace(chat(), tools=(F,), tool_choice=choice))
