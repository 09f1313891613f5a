"""Items of an input: one message each, liberal in what is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import (
    Compaction,
    Foreign,
    HostedCall,
    HostedResult,
    InputForm,
    Seal,
    Text,
    Thinking,
    ThinkingKind,
    ToolCall,
    ToolResult,
)
from dragoman.model.request import Message, Role
from dragoman.protocols.openai_responses import NAME
from dragoman.protocols.openai_responses.items import InputReader, encode_thinking, read_plain
from dragoman.rules.seals import to_envelope
from dragoman.wire.fields import Fields
from tests.protocols.openai_responses.asking import MESSAGES, decoded


def one(item: JsonObject) -> Message:
    return decoded({"input": [item]}).messages[0]


def test_a_message_may_leave_out_its_type_and_hold_a_string() -> None:
    assert one({"role": "assistant", "content": "x"}) == Message(role=Role.ASSISTANT, parts=(Text(text="x"),))


def test_pitfall_162_the_phase_of_a_message_stays_with_it() -> None:
    item: JsonObject = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "x", "annotations": []}],
        "id": "msg_1",
        "phase": "commentary",
    }
    message = one(item)
    assert message.extras is not None
    assert message.extras.fields == {"phase": "commentary"}


def test_pitfall_026_a_result_may_lack_its_call_id() -> None:
    part = one({"type": "function_call_output", "output": "x"}).parts[0]
    assert part == ToolResult(call_id="", parts=(Text(text="x"),))


def test_pitfall_211_the_output_of_a_call_may_be_a_list() -> None:
    part = one({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]}).parts[
        0
    ]
    assert part == ToolResult(call_id="c", parts=(Text(text="x"),))


def test_pitfall_210_a_reasoning_item_may_lack_its_summary() -> None:
    item: JsonObject = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gA"}
    seal = Seal(origin=NAME, kind="item", body=item)
    message = one(item)
    assert message.parts == (Thinking(text="", kind=ThinkingKind.WITHHELD, seal=seal, id="rs_1"),)
    assert encode_thinking(message.parts[0]) == item


@pytest.mark.parametrize(
    ("members", "text", "kind"),
    [
        ({"summary": [{"type": "summary_text", "text": "a"}, {"text": "b"}]}, "a\n\nb", ThinkingKind.SUMMARY),
        ({"summary": [], "content": [{"type": "reasoning_text", "text": "c"}]}, "c", ThinkingKind.FULL),
        ({"summary": [{"text": "a"}], "content": [{"text": "c"}]}, "a", ThinkingKind.SUMMARY),
    ],
)
def test_reasoning_is_read_by_its_summary_first(members: JsonObject, text: str, kind: ThinkingKind) -> None:
    part = one({"type": "reasoning", "id": "rs_1", **members}).parts[0]
    assert isinstance(part, Thinking)
    assert (part.text, part.kind) == (text, kind)


def test_an_envelope_gives_back_what_another_issuer_sealed() -> None:
    seal = Seal(origin=MESSAGES, kind="thinking", body={"type": "thinking"}, model="claude", vendor="anthropic")
    item: JsonObject = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "t"}],
        "encrypted_content": to_envelope(seal),
    }
    message = one(item)
    assert message.parts == (Thinking(text="t", kind=ThinkingKind.SUMMARY, seal=seal, id="rs_1"),)
    assert encode_thinking(message.parts[0]) == item


def test_a_free_text_call_and_its_output_keep_their_form() -> None:
    call = one({"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"}).parts[0]
    result = one({"type": "custom_tool_call_output", "call_id": "c", "output": "ok"}).parts[0]
    assert call == ToolCall(call_id="c", name="patch", arguments="*** Begin", form=InputForm.TEXT)
    assert result == ToolResult(call_id="c", parts=(Text(text="ok"),), form=InputForm.TEXT)


def test_a_compaction_of_this_library_is_readable() -> None:
    seal = Seal(origin=NAME, kind="compaction", body={"summary": "so far"})
    part = one({"type": "compaction", "encrypted_content": to_envelope(seal)}).parts[0]
    assert isinstance(part, Compaction)
    assert part.summary == "so far"
    native = one({"type": "compaction", "encrypted_content": "gAAA"}).parts[0]
    assert isinstance(native, Compaction)
    assert native.summary is None


def test_a_hosted_item_is_a_call_and_its_result() -> None:
    message = one({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}})
    assert [type(part) for part in message.parts] == [HostedCall, HostedResult]


@pytest.mark.parametrize(
    ("kind", "role"),
    [("file_search_call", Role.ASSISTANT), ("mcp_approval_response", Role.USER), ("brand_new", Role.ASSISTANT)],
)
def test_items_that_only_home_knows_are_kept_whole(kind: str, role: Role) -> None:
    item: JsonObject = {"type": kind, "id": "x_1", "anything": [1]}
    message = one(item)
    assert (message.role, message.parts) == (role, (Foreign(origin=NAME, kind=kind, body=item),))


def test_an_unknown_part_alone_in_a_message_stays_in_it() -> None:
    item: JsonObject = {"type": "message", "role": "user", "content": [{"type": "input_video", "url": "u"}]}
    message = one(item)
    body: JsonObject = {"type": "input_video", "url": "u"}
    assert (message.role, message.parts) == (Role.USER, (Foreign(origin=NAME, kind="input_video", body=body),))


def test_a_lane_reads_what_the_full_reader_reads() -> None:
    plain: list[JsonObject] = [
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}],
        },
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gA"},
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": ""},
    ]
    for item in plain:
        assert read_plain(item) == InputReader().read(Fields(item)), item


JSON_LEAVES = (
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x", "completed", "user", "assistant"])
)
TEXTS: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "output_text", "refusal"])},
    optional={"text": JSON_LEAVES, "annotations": st.just([]), "logprobs": st.just([]), "more": JSON_LEAVES},
)
ITEMS: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "function_call", "function_call_output", "reasoning"])},
    optional={
        "role": JSON_LEAVES,
        "id": JSON_LEAVES,
        "status": JSON_LEAVES,
        "content": JSON_LEAVES | st.lists(TEXTS, max_size=2),
        "call_id": JSON_LEAVES,
        "name": JSON_LEAVES,
        "arguments": JSON_LEAVES,
        "output": JSON_LEAVES,
        "summary": st.just([]) | st.lists(TEXTS, max_size=2),
        "encrypted_content": JSON_LEAVES,
    },
)


@given(ITEMS)
def test_no_lane_takes_what_the_full_reader_reads_otherwise(item: JsonObject) -> None:
    plain = read_plain(item)
    assert plain is None or plain == InputReader().read(Fields(item))
