"""Requests read: every shape the protocol allows, and errors with their place."""

from __future__ import annotations

import pytest

from dragoman.errors import WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import (
    Audio,
    Document,
    FileRef,
    Foreign,
    Image,
    Inline,
    InputForm,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.model.request import OutputKind, Request, Role
from dragoman.model.tools import ChoiceMode, ForeignTool, FunctionTool, TextTool, WebSearchTool
from dragoman.protocols.openai_chat import CODEC


def decoded(**members: JsonValue) -> Request:
    body: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **members}
    return CODEC.decode_request(body)


@pytest.mark.parametrize(
    ("member", "value", "path"),
    [
        ("messages", [], "/messages"),
        ("messages", "hi", "/messages"),
        ("messages", [{"role": "nobody", "content": ""}], "/messages/0/role"),
        ("messages", [{"role": "user", "content": 1}], "/messages/0/content"),
        ("messages", [{"role": "user", "content": [{"type": "text", "text": 1}]}], "/messages/0/content/0/text"),
        ("messages", [{"role": "user", "content": [1]}], "/messages/0/content/0"),
        ("messages", [{"role": "assistant", "tool_calls": [{"id": 1}]}], "/messages/0/tool_calls/0/id"),
        ("temperature", "hot", "/temperature"),
        ("stop", [1], "/stop/0"),
        ("tool_choice", "sometimes", "/tool_choice"),
        ("tools", [{"type": "function", "function": {}}], "/tools/0/function/name"),
        ("response_format", "json", "/response_format"),
        ("stream_options", [], "/stream_options"),
        ("n", "two", "/n"),
    ],
)
def test_a_wrong_type_is_an_error_with_its_place(member: str, value: JsonValue, path: str) -> None:
    with pytest.raises(WireError) as caught:
        decoded(**{member: value})
    assert caught.value.path == path


def test_null_counts_as_absent() -> None:
    request = decoded(temperature=None, tools=None, stop=None, response_format=None, stream_options=None, user=None)
    assert request == decoded()


def test_content_parts_become_parts_in_order() -> None:
    request = decoded(
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                    {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                    {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "f.pdf"}},
                    {"type": "file", "file": {"file_id": "file-1"}},
                    {"type": "video_url", "video_url": {"url": "https://x"}},
                ],
            }
        ]
    )
    text, inline, url, audio, pdf, kept, video = request.messages[0].parts
    assert text == Text(text="a")
    assert isinstance(inline, Image) and inline.source == Inline(media_type="image/png", data="AAAA")
    assert inline.detail == "low"
    assert isinstance(url, Image) and url.source == Url(url="https://x/y.png")
    assert isinstance(audio, Audio) and audio.source.media_type == "audio/wav"
    assert isinstance(pdf, Document) and pdf.title == "f.pdf"
    assert isinstance(kept, Document) and kept.source == FileRef(issuer="openai", file_id="file-1")
    assert isinstance(video, Foreign) and video.kind == "video_url"


def test_assistant_parts_are_text_then_refusal_then_calls() -> None:
    request = decoded(
        messages=[
            {
                "role": "assistant",
                "content": "t",
                "refusal": "no",
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "2", "type": "custom", "custom": {"name": "g", "input": "raw"}},
                ],
            },
            {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "r"}]},
        ]
    )
    text, refusal, call, custom = request.messages[0].parts
    assert (text, refusal) == (Text(text="t"), Refusal(text="no"))
    assert call == ToolCall(call_id="1", name="f", arguments="{}")
    assert custom == ToolCall(call_id="2", name="g", arguments="raw", form=InputForm.TEXT)
    assert request.messages[1].role is Role.USER
    assert request.messages[1].parts == (ToolResult(call_id="2", parts=(Text(text="r"),), form=InputForm.TEXT),)


def test_pitfall_034_legacy_functions_become_tools_and_pairs() -> None:
    request = decoded(
        messages=[
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "r"},
            {"role": "function", "name": "f", "content": "again"},
        ],
        functions=[{"name": "f", "parameters": {"type": "object"}}],
        function_call={"name": "f"},
    )
    (call,) = request.messages[0].parts
    (result,) = request.messages[1].parts
    (orphan,) = request.messages[2].parts
    assert isinstance(call, ToolCall) and isinstance(result, ToolResult) and isinstance(orphan, ToolResult)
    assert call.call_id.startswith("call_") and len(call.call_id) == 29
    assert result.call_id == call.call_id
    assert orphan.call_id == ""
    assert request.legacy_functions
    assert request.tool_choice is not None and request.tool_choice.mode is ChoiceMode.NAMED


def test_pitfall_155_nested_and_flat_tools_stand_in_one_list() -> None:
    grammar: JsonObject = {"type": "grammar", "syntax": "lark", "definition": "start: x"}
    request = decoded(
        tools=[
            {"type": "function", "function": {"name": "a", "parameters": {"type": "object"}, "strict": True}},
            {"type": "function", "name": "b", "parameters": {"type": "object"}},
            {"type": "custom", "custom": {"name": "c", "format": {"type": "grammar", "grammar": grammar}}},
            {"type": "custom", "name": "d", "format": grammar},
            {"type": "web_search"},
        ],
        web_search_options={"search_context_size": "low"},
    )
    a, b, c, d, hosted, search = request.tools
    assert isinstance(a, FunctionTool) and a.name == "a" and a.strict
    assert isinstance(b, FunctionTool) and b.name == "b"
    assert isinstance(c, TextTool) and (c.name, c.syntax, c.definition) == ("c", "lark", "start: x")
    assert isinstance(d, TextTool) and (d.name, d.syntax) == ("d", "lark")
    assert isinstance(hosted, ForeignTool) and hosted.kind == "web_search"
    assert isinstance(search, WebSearchTool) and search.context_size == "low"


@pytest.mark.parametrize(
    ("choice", "mode", "name"),
    [
        ("none", ChoiceMode.NONE, None),
        ("required", ChoiceMode.REQUIRED, None),
        ({"type": "function", "function": {"name": "f"}}, ChoiceMode.NAMED, "f"),
        ({"type": "function", "name": "f"}, ChoiceMode.NAMED, "f"),
        ({"type": "custom", "custom": {"name": "f"}}, ChoiceMode.NAMED, "f"),
        ({"type": "web_search"}, ChoiceMode.HOSTED, None),
    ],
)
def test_tool_choice_in_every_shape(choice: JsonValue, mode: ChoiceMode, name: str | None) -> None:
    request = decoded(tool_choice=choice)
    assert request.tool_choice is not None
    assert request.tool_choice.mode is mode
    assert (request.tool_choice.tool.name if request.tool_choice.tool else None) == name


def test_pitfall_124_the_newer_cap_wins_and_the_older_is_kept() -> None:
    both = decoded(max_completion_tokens=5, max_tokens=9)
    assert both.max_tokens == 5
    assert both.extras is not None and both.extras.fields == {"max_tokens": 9}
    assert decoded(max_tokens=9).max_tokens == 9


@pytest.mark.parametrize(
    ("members", "effort", "budget"),
    [
        ({"reasoning_effort": "high"}, "high", None),
        ({"reasoning": {"effort": "low", "max_tokens": 2000}}, "low", 2000),
        ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, None, 4096),
        ({"thinking": {"type": "disabled"}}, "none", None),
        ({"thinking_budget": 1024}, None, 1024),
    ],
)
def test_reasoning_is_read_from_every_extension(members: JsonObject, effort: str | None, budget: int | None) -> None:
    request = decoded(**members)
    assert (request.reasoning.effort, request.reasoning.budget) == (effort, budget)
    assert request.extras is None


@pytest.mark.parametrize(
    ("members", "feature"),
    [
        ({"n": 2}, Feature.CHOICES),
        ({"modalities": ["text", "audio"], "audio": {"voice": "x", "format": "wav"}}, Feature.MODALITIES),
    ],
)
def test_what_only_this_protocol_can_do_is_a_demand(members: JsonObject, feature: Feature) -> None:
    assert [demand.feature for demand in decoded(**members).demands] == [feature]


def test_output_format_is_unpacked() -> None:
    output = decoded(
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
        }
    ).output
    assert output is not None
    assert (output.kind, output.name, output.strict, output.schema) == (
        OutputKind.SCHEMA,
        "n",
        True,
        {"type": "object"},
    )


def test_recognises_messages_only() -> None:
    assert CODEC.recognises({"messages": []})
    assert not CODEC.recognises({"input": "hi"})


def test_moderation_is_kept_whole_and_its_policy_checked() -> None:
    moderation: JsonObject = {"model": "x", "policy": {"input": {"mode": "block"}, "output": None}}
    request = decoded(moderation=moderation)
    assert (request.moderation, request.demands) == (moderation, ())
    with pytest.raises(WireError) as caught:
        decoded(moderation={"policy": {"input": "block"}})
    assert caught.value.path == "/moderation/policy/input"


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False, "mood": 1}},
        {"reasoning_effort": "low", "temperature": 1, "max_completion_tokens": 9, "parallel_tool_calls": False},
        {"tools": [{"type": "function", "function": {"name": "f"}}, {"type": "custom", "name": "c"}]},
    ],
    ids=["least", "streamed", "settings", "tools"],
)
def test_a_usual_request_is_read_in_one_step_as_member_by_member(members: JsonObject) -> None:
    # A null member is absent, and yet no usual one: it leads the long way.
    assert decoded(**members) == decoded(**members, seed=None)
