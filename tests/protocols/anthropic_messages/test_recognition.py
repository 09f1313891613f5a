"""Which bodies look like Messages requests."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.anthropic_messages import CODEC

BASE: JsonObject = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
CALLING: JsonObject = {"role": "assistant", "tool_calls": []}


@pytest.mark.parametrize(
    ("body", "ours"),
    [
        (BASE, True),
        ({**BASE, "system": "s"}, True),
        ({"messages": [], "tools": [{"name": "f", "input_schema": {}}]}, True),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]}, True),
        ({"messages": [{"role": "user", "content": "hi"}]}, False),
        ({"messages": [{"role": "system", "content": "s"}], "max_tokens": 5}, False),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}], "max_tokens": 5}, False),
        ({**BASE, "messages": [CALLING]}, False),
        ({**BASE, "messages": [{"role": "tool", "content": "r"}]}, False),
        ({"messages": [], "tools": [{"type": "function", "function": {"name": "f"}}]}, False),
        ({"input": "hi"}, False),
    ],
)
def test_bodies_are_recognised(body: JsonObject, ours: bool) -> None:
    assert CODEC.recognises(body) is ours
