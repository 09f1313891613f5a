"""Conversations of other protocols as items: pairs, reasoning, prefill, media in results."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import (
    CacheBreakpoint,
    Foreign,
    Image,
    Part,
    Seal,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.model.request import Message, Role
from dragoman.protocols.openai_responses import NAME
from dragoman.protocols.openai_responses.shapes import CONTINUATION
from tests.protocols.openai_responses.asking import MESSAGES, from_chat, from_messages, items, said, written

CALL = ToolCall(call_id="toolu_1", name="f", arguments='{"a":1}')
RESULT = ToolResult(call_id="toolu_1", parts=(Text(text="ok"),))
ITEM: JsonObject = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gA"}
SEAL = Seal(origin=NAME, kind="item", body=ITEM, model="gpt-5", vendor="openai")


def assistant(*parts: Part) -> Message:
    return said(*parts, role=Role.ASSISTANT)


def user(text: str) -> JsonObject:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def message(text: str) -> JsonObject:
    return {"type": "message", "role": "assistant", "content": text}


def test_pitfall_019_user_text_is_input_and_assistant_text_is_output() -> None:
    body, losses = written(
        from_messages(said(Text(text="q")), assistant(Text(text="a"), Text(text="b")), said(Text(text="r")))
    )
    assert (items(body), losses) == ([user("q"), message("ab"), user("r")], [])


def test_pitfall_027_041_calls_and_results_pair_by_call_id_without_item_ids() -> None:
    body, losses = written(from_messages(assistant(CALL), said(RESULT, Text(text="next"))))
    assert items(body) == [
        {"type": "function_call", "call_id": "toolu_1", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "toolu_1", "output": "ok"},
        user("next"),
    ]
    assert losses == []
    body, losses = written(from_messages(assistant(CALL), said(Text(text="next"))))
    assert items(body)[1]["output"] == "Error: [no result: the call was interrupted]"
    assert losses == ["invented unanswered_call messages[0].parts[0]"]


def test_pitfall_037_038_long_ids_are_bounded_in_both_places() -> None:
    long = "x" * 80
    body, _ = written(
        from_messages(assistant(replace(CALL, call_id=long)), said(replace(RESULT, call_id=long)), said(Text(text="n")))
    )
    ids = {item["call_id"] for item in items(body)[:2]}
    assert len(ids) == 1
    assert len(str(ids.pop())) <= 64


def test_pitfall_165_media_in_results_stay_in_the_output() -> None:
    result = replace(RESULT, parts=(Text(text="see"), Image(source=Url(url="https://a.example/i"))), is_error=True)
    body, losses = written(from_messages(assistant(CALL), said(result)))
    assert items(body)[1]["output"] == [
        {"type": "input_text", "text": "Error: see"},
        {"type": "input_image", "image_url": "https://a.example/i", "detail": "auto"},
    ]
    assert losses == ["approximated tool_error messages[1].parts[0]"]


def test_pitfall_017_the_text_of_a_result_is_one_string() -> None:
    body, _ = written(from_messages(assistant(CALL), said(replace(RESULT, parts=(Text(text="a"), Text(text="b"))))))
    assert items(body)[1]["output"] == "a\nb"
    body, _ = written(from_messages(assistant(CALL), said(replace(RESULT, parts=()))))
    assert items(body)[1]["output"] == ""


def test_a_marked_result_carries_its_breakpoint_on_its_last_part() -> None:
    result = replace(RESULT, cache=CacheBreakpoint(origin=MESSAGES))
    body, _ = written(from_messages(assistant(CALL), said(result)), breakpoints=True)
    assert items(body)[1]["output"] == [
        {"type": "input_text", "text": "ok", "prompt_cache_breakpoint": {"mode": "explicit"}}
    ]


def test_pitfall_009_010_a_prefill_is_kept_and_its_continuation_asked_for() -> None:
    body, losses = written(from_messages(said(Text(text="q")), assistant(Text(text="The answer is"))))
    assert items(body)[1:] == [message("The answer is"), user(CONTINUATION)]
    assert losses == ["invented prefill messages[1].parts[0]"]


def test_pitfall_013_empty_text_is_left_out_and_an_empty_user_message_stays() -> None:
    body, _ = written(from_chat(said(Text(text=""))))
    assert items(body) == [{"type": "message", "role": "user", "content": ""}]


@pytest.mark.parametrize(
    ("origin", "role", "sent"),
    [
        (MESSAGES, Role.SYSTEM, "developer"),
        ("openai-chat", Role.SYSTEM, "system"),
        ("openai-chat", Role.DEVELOPER, "developer"),
    ],
)
def test_pitfall_001_002_late_instructions_stay_in_place(origin: str, role: Role, sent: str) -> None:
    request = replace(from_messages(said(Text(text="q")), said(Text(text="rule"), role=role)), origin=origin)
    body, losses = written(request)
    assert items(body)[1]["role"] == sent
    assert losses == []


def test_parts_that_only_another_protocol_knows() -> None:
    steering = Foreign(origin=MESSAGES, kind="tool_addition", body={}, applied="applied")
    body, losses = written(from_messages(said(Text(text="q")), said(steering, role=Role.SYSTEM)))
    assert (len(items(body)), [loss.split()[::2] for loss in losses]) == (1, [["approximated", "messages[1].parts[0]"]])
