"""Effort, budget, display, cap and sampling towards each kind of model (E1, E3, E5, D1)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Text, ToolCall, ToolResult
from dragoman.model.request import Reasoning, Sampling
from dragoman.model.tools import ChoiceMode, FunctionTool, ToolChoice
from tests.protocols.anthropic_messages.support import (
    ADAPTIVE,
    MANUAL,
    OTHER,
    assistant,
    body_of,
    chat,
    encoded,
    losses,
    user,
)

SHOWN: JsonObject = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("effort", "thinking", "told"),
    [
        (None, None, None),
        ("none", {"type": "disabled"}, None),
        ("minimal", SHOWN, "low"),
        ("low", SHOWN, "low"),
        ("medium", SHOWN, "medium"),
        ("high", SHOWN, "high"),
        ("xhigh", SHOWN, "xhigh"),
        ("max", SHOWN, "max"),
    ],
)
def test_pitfall_118_adaptive_models_take_an_effort(effort: str | None, thinking: JsonValue, told: str | None) -> None:
    body = body_of(replace(chat(), reasoning=Reasoning(effort=effort)))
    assert body.get("thinking") == thinking
    assert body.get("output_config") == (None if told is None else {"effort": told})


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("claude-sonnet-5-5", {"type": "between_tools"}),
        ("claude-opus-5-5", {"type": "adaptive", "display": "summarized"}),
        ("claude-3-5-haiku", None),
    ],
)
def test_no_effort_where_thinking_cannot_be_switched_off(model: str, thinking: JsonValue) -> None:
    assert body_of(replace(chat(), reasoning=Reasoning(effort="none")), model).get("thinking") == thinking


@pytest.mark.parametrize(
    ("effort", "cap", "budget"),
    [
        ("minimal", 64000, 1024),
        ("low", 64000, 2048),
        ("medium", 64000, 8192),
        ("high", 64000, 16384),
        ("xhigh", 64000, 24576),
        ("max", 64000, 32000),
        ("high", 8192, 7168),
        ("low", 2047, 1024),
        ("max", 1025, 1024),
        ("high", 1024, None),
    ],
)
def test_pitfall_117_manual_models_take_a_budget_below_the_cap(effort: str, cap: int, budget: int | None) -> None:
    body = body_of(replace(chat(), reasoning=Reasoning(effort=effort), max_tokens=cap), MANUAL)
    expected = {"type": "disabled"} if budget is None else {"type": "enabled", "budget_tokens": budget}
    assert body["thinking"] == expected
    assert "output_config" not in body


@pytest.mark.parametrize(
    ("model", "cap"), [(ADAPTIVE, 32000), (MANUAL, 33024), (OTHER, 8192), ("claude-3-5-haiku", 8192)]
)
def test_the_default_cap_leaves_room_for_thinking(model: str, cap: int) -> None:
    assert body_of(replace(chat(), max_tokens=None, reasoning=Reasoning(effort="max")), model)["max_tokens"] == cap


@pytest.mark.parametrize(
    ("reasoning", "thinking"),
    [
        (Reasoning(effort="high", summary="auto"), {"type": "adaptive", "display": "summarized"}),
        (Reasoning(effort="high"), {"type": "adaptive", "display": "omitted"}),
        (Reasoning(summary="concise"), {"type": "adaptive", "display": "summarized"}),
        (Reasoning(), None),
    ],
    ids=["a summary", "no summary", "a summary alone", "nothing"],
)
def test_responses_clients_see_thinking_only_if_they_ask(reasoning: Reasoning, thinking: JsonValue) -> None:
    request = replace(chat(), origin="openai-responses", reasoning=reasoning)
    assert body_of(request).get("thinking") == thinking


def test_a_budget_is_an_effort_on_adaptive_models() -> None:
    result, ledger = encoded(replace(chat(), reasoning=Reasoning(budget=9000)))
    assert result.body["output_config"] == {"effort": "medium"}
    assert losses(ledger) == [("approximated", "effort", "reasoning.budget")]


def test_effort_stands_beside_a_budget_only_where_both_are_taken() -> None:
    body = body_of(replace(chat(), reasoning=Reasoning(effort="max"), max_tokens=64000), "claude-opus-4-5")
    assert body["output_config"] == {"effort": "high"}


def test_pitfall_121_a_forced_tool_switches_manual_thinking_off() -> None:
    request = replace(
        chat(),
        tools=(FunctionTool(name="f"),),
        tool_choice=ToolChoice(mode=ChoiceMode.REQUIRED),
        reasoning=Reasoning(effort="high"),
    )
    assert body_of(request, MANUAL)["thinking"] == {"type": "disabled"}
    assert body_of(request, ADAPTIVE)["thinking"] == SHOWN


def test_a_tool_loop_without_its_reasoning_switches_manual_thinking_off() -> None:
    loop = (
        user("q"),
        assistant(ToolCall(call_id="c", name="f", arguments="")),
        user(ToolResult(call_id="c", parts=(Text(text="r"),))),
    )
    request = replace(chat(*loop), reasoning=Reasoning(effort="high"))
    assert body_of(request, MANUAL)["thinking"] == {"type": "disabled"}
    assert body_of(request, ADAPTIVE)["thinking"] == SHOWN


@pytest.mark.parametrize(
    ("sampling", "effort", "model", "sent"),
    [
        (Sampling(temperature=0.5, top_p=0.9, top_k=4), None, MANUAL, {"temperature": 0.5, "top_p": 0.9, "top_k": 4}),
        (Sampling(temperature=1.5), None, MANUAL, {"temperature": 1}),
        (Sampling(temperature=0.5, top_p=0.96, top_k=4), "high", MANUAL, {"top_p": 0.96}),
        (Sampling(temperature=0.5), "none", MANUAL, {"temperature": 0.5}),
        (Sampling(temperature=0.5, top_p=0.9), None, ADAPTIVE, {}),
        (Sampling(temperature=0.5, top_k=4), None, OTHER, {"temperature": 0.5}),
    ],
    ids=[
        "an older model",
        "pitfall 126: at most one",
        "beside thinking",
        "thinking off",
        "pitfall 125: a newer model",
        "another vendor's model",
    ],
)
def test_sampling(sampling: Sampling, effort: str | None, model: str, sent: JsonObject) -> None:
    body = body_of(replace(chat(), sampling=sampling, reasoning=Reasoning(effort=effort)), model)
    assert {key: body[key] for key in ("temperature", "top_p", "top_k") if key in body} == sent


@pytest.mark.parametrize("effort", [None, "low"])
def test_a_number_beyond_all_bounds_is_a_number(effort: str | None) -> None:
    request = replace(chat(), sampling=Sampling(temperature=10**400), reasoning=Reasoning(effort=effort))
    assert body_of(request, OTHER).get("temperature") == (1 if effort is None else None)
