"""Requests as they are decoded: settings, updates, demands, recognition."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.request import ThinkingMode
from dragoman.protocols.anthropic_messages import CODEC

BASE: JsonObject = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}


def test_settings_find_their_members() -> None:
    request = CODEC.decode_request(
        {
            **BASE,
            "thinking": {"type": "adaptive", "display": "omitted"},
            "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {}}},
            "metadata": {"user_id": "u"},
            "stop_sequences": ["x"],
            "temperature": 1,
        }
    )
    assert (request.reasoning.mode, request.reasoning.effort) == (ThinkingMode.ADAPTIVE, "high")
    assert (request.end_user, request.stop, request.sampling.temperature) == ("u", ("x",), 1)
    assert request.extras is None


def test_pitfall_123_a_cap_of_zero_warms_the_cache() -> None:
    request = CODEC.decode_request({**BASE, "max_tokens": 0})
    assert request.prewarm
    assert request.max_tokens is None


def test_pitfall_001_system_messages_stay_in_place() -> None:
    messages: list[JsonValue] = [{"role": "user", "content": "hi"}, {"role": "system", "content": "hurry"}]
    request = CODEC.decode_request({**BASE, "messages": messages})
    assert [message.role.value for message in request.messages] == ["user", "system"]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("thread", {"type": "create"}),
        ("container", "c1"),
        ("container", {"id": "c1"}),
        ("compaction", {"type": "summarize"}),
    ],
)
def test_what_others_must_not_leave_out_is_demanded(member: str, value: JsonValue) -> None:
    request = CODEC.decode_request({**BASE, member: value})
    assert [demand.member for demand in request.demands] == [member]


@pytest.mark.parametrize(
    ("edits", "size"),
    [
        ([{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 7}}], 7),
        ([{"type": "clear_thinking_20251015"}, {"type": "compact_20260112"}], 150_000),
        ([{"type": "clear_thinking_20251015"}], None),
    ],
    ids=["a trigger", "the documented default", "no compaction"],
)
def test_compaction_has_a_size(edits: list[JsonValue], size: int | None) -> None:
    assert CODEC.decode_request({**BASE, "context_management": {"edits": edits}}).compact_at == size


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"model": 1}, "/model"),
        ({"messages": "hi"}, "/messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "/messages/0/role"),
        ({"messages": [{"content": "x"}]}, "/messages/0/role"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "/messages/0/content/0/text"),
        ({"max_tokens": "many"}, "/max_tokens"),
        ({"system": 1}, "/system"),
        ({"system": [{"type": "image", "source": {"type": "url", "url": "u"}}]}, "/system"),
        ({"stop_sequences": ["a", 1]}, "/stop_sequences/1"),
        ({"thinking": {"type": "deep"}}, "/thinking/type"),
        ({"thinking": {"type": "enabled", "budget_tokens": "x"}}, "/thinking/budget_tokens"),
        ({"output_config": {"format": {"type": "xml"}}}, "/output_config/format/type"),
        ({"metadata": {"user_id": 1}}, "/metadata/user_id"),
        ({"context_management": []}, "/context_management"),
        ({"stream": "yes"}, "/stream"),
        ({"temperature": "hot"}, "/temperature"),
    ],
)
def test_wrong_members_are_named_with_their_place(change: JsonObject, path: str) -> None:
    with pytest.raises(WireError) as caught:
        CODEC.decode_request({**BASE, **change})
    assert caught.value.path == path


@pytest.mark.parametrize("content", ["hi", [{"type": "text", "text": "hi"}], []], ids=["a string", "blocks", "nothing"])
def test_a_role_and_content_are_read_alike_with_and_without_another_member(content: JsonValue) -> None:
    short = CODEC.decode_request({**BASE, "messages": [{"role": "user", "content": content}]})
    full = CODEC.decode_request({**BASE, "messages": [{"role": "user", "content": content, "clear_at": None}]})
    assert [message.parts for message in short.messages] == [message.parts for message in full.messages]


def test_rare_members_do_not_change_how_common_ones_are_read() -> None:
    common: JsonObject = {**BASE, "system": "s", "thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
    assert replace(CODEC.decode_request({**common, "speed": "fast"}), speed=None) == CODEC.decode_request(common)


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
