"""The response object: every member that Open Responses demands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from openai.types.responses.response import ToolUsage

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Text
from dragoman.model.response import Usage
from dragoman.protocols.openai_responses.usage import NO_IMAGES
from tests.protocols.openai_responses.asking import answer, asked_here, told

FACTS = json.loads((Path(__file__).parents[2] / "data/wire-events.json").read_text(encoding="utf-8"))["open_responses"]


def test_pitfall_101_every_required_member_is_there_and_typed() -> None:
    body, losses = told(answer(Text(text="a")), asked_here({"tools": [{"type": "function", "name": "f"}]}))
    assert set(FACTS["response_required"]) <= body.keys()
    assert all(body[name] is not None for name in FACTS["not_null"])
    tools, usage = body["tools"], body["usage"]
    assert isinstance(tools, list)
    assert isinstance(usage, dict)
    assert set(FACTS["tool_required"]["function"]) <= set(tools[0])  # type: ignore[arg-type]  # an object
    assert set(FACTS["usage_required"]["usage"]) <= usage.keys()
    assert losses == []


@pytest.mark.parametrize(
    ("member", "said", "told_back"),
    [
        ("temperature", 0, 0),
        ("store", False, False),
        ("store", None, True),
        ("parallel_tool_calls", False, False),
        ("max_output_tokens", 77, 77),
        ("truncation", "auto", "auto"),
        ("metadata", {"a": "b"}, {"a": "b"}),
        ("service_tier", "flex", "flex"),
        ("tool_choice", "required", "required"),
        ("text", {"verbosity": "low"}, {"format": {"type": "text"}, "verbosity": "low"}),
        ("instructions", "be brief", "be brief"),
        ("safety_identifier", "u", "u"),
        ("reasoning", {}, None),
        ("reasoning", {"effort": "low"}, {"effort": "low", "summary": None}),
        ("reasoning", {"effort": "max", "summary": "auto"}, {"effort": "xhigh", "summary": "auto"}),
    ],
)
def test_settings_are_told_back(member: str, said: JsonValue, told_back: JsonValue) -> None:
    body, _ = told(answer(Text(text="a")), asked_here({member: said}))
    assert body[member] == told_back


def test_pitfall_176_178_179_usage_is_inclusive_and_adds_up() -> None:
    usage = Usage(input=12, output=25, cache_read=3, cache_write=2, thinking=6, web_searches=1, service_tier="standard")
    body, _ = told(answer(Text(text="a"), usage=usage))
    assert body["usage"] == {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
        "output_tokens": 25,
        "output_tokens_details": {"reasoning_tokens": 6},
        "total_tokens": 37,
    }
    assert body["service_tier"] == "default"
    # The official type demands the count of pictures beside that of searches.
    ToolUsage.model_validate(body["tool_usage"], strict=True)
    assert body["tool_usage"] == {"image_gen": NO_IMAGES, "web_search": {"num_requests": 1}}


def test_the_tools_of_a_namespace_are_told_back_in_it() -> None:
    member: JsonObject = {"type": "function", "name": "f"}
    body, _ = told(
        answer(Text(text="a")),
        asked_here({"tools": [{"type": "namespace", "name": "n", "description": "d", "tools": [member]}]}),
    )
    assert body["tools"] == [
        {
            "type": "namespace",
            "name": "n",
            "description": "d",
            "tools": [{"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}],
        }
    ]
