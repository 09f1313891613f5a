"""Conversations of other protocols as items: pairs, reasoning, prefill, media in results."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import (
    CacheMark,
    Citation,
    Compaction,
    Foreign,
    HostedCall,
    HostedKind,
    HostedResult,
    Image,
    InputForm,
    Part,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.model.request import Message, Role
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.protocols.openai_responses import CODEC, NAME
from dragoman.protocols.openai_responses.shapes import CONTINUATION
from tests.protocols.openai_responses.asking import MESSAGES, from_chat, from_messages, items, said, written

CALL = ToolCall(call_id="toolu_1", name="f", arguments='{"a":1}')
RESULT = ToolResult(call_id="toolu_1", parts=(Text(text="ok"),))
ITEM: JsonObject = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gA"}
SEAL = Seal(origin=NAME, kind="item", body=ITEM, model="gpt-5", upstream="openai")


def assistant(*parts: Part) -> Message:
    return said(*parts, role=Role.ASSISTANT)


def user(text: str) -> JsonObject:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def message(text: str) -> JsonObject:
    content: JsonObject = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [content]}


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
    assert losses[0] == "invented unanswered_call messages[0].parts[0]"


def test_pitfall_037_038_long_ids_are_bounded_in_both_places() -> None:
    long = "x" * 80
    body, _ = written(
        from_messages(assistant(replace(CALL, call_id=long)), said(replace(RESULT, call_id=long)), said(Text(text="n")))
    )
    ids = {item["call_id"] for item in items(body)[:2]}
    assert len(ids) == 1
    assert len(str(ids.pop())) <= 64


@pytest.mark.parametrize(("arguments", "sent"), [("", "{}"), ("  ", "{}"), ('{"_raw_arguments":"no json"}', "no json")])
def test_pitfall_046_052_arguments_pass_as_text(arguments: str, sent: str) -> None:
    body, _ = written(from_chat(assistant(replace(CALL, arguments=arguments)), said(RESULT)))
    assert items(body)[0]["arguments"] == sent


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
    result = replace(RESULT, cache=CacheMark(origin=MESSAGES))
    body, _ = written(from_messages(assistant(CALL), said(result)), breakpoints=True)
    assert items(body)[1]["output"] == [
        {"type": "input_text", "text": "ok", "prompt_cache_breakpoint": {"mode": "explicit"}}
    ]


def test_pitfall_108_111_reasoning_of_this_provider_returns_before_what_it_led_to() -> None:
    request = from_messages(assistant(Thinking(text="t", seal=SEAL), CALL), said(RESULT))
    body, losses = written(request)
    assert (items(body)[0], losses) == (ITEM, [])
    body, losses = written(
        from_messages(said(Text(text="q")), assistant(Thinking(text="t", seal=SEAL)), said(Text(text="r")))
    )
    assert [item["type"] for item in items(body)] == ["message", "message"]
    assert losses == ["dropped thinking messages[1].parts[0]"]


@pytest.mark.parametrize(
    ("seal", "loss"),
    [
        (None, "dropped thinking messages[0].parts[0]"),
        (replace(SEAL, origin=MESSAGES, kind="thinking"), "dropped thinking_seal messages[0].parts[0]"),
        (replace(SEAL, model="gpt-4"), "dropped thinking_seal messages[0].parts[0]"),
    ],
)
def test_pitfall_104_109_116_strange_reasoning_is_dropped_and_never_shown(seal: Seal | None, loss: str) -> None:
    body, losses = written(from_messages(assistant(Thinking(text="secret", seal=seal), CALL), said(RESULT)))
    assert "secret" not in str(body)
    assert losses == [loss]


def test_pitfall_113_reasoning_is_repeated_for_servers_that_check_each_call() -> None:
    second = replace(CALL, call_id="toolu_2")
    request = from_messages(
        assistant(Thinking(text="t", seal=SEAL), CALL, second), said(RESULT, replace(RESULT, call_id="toolu_2"))
    )
    body, _ = written(request, thinking_per_call=True)
    assert [item["type"] for item in items(body)][:4] == ["reasoning", "function_call", "reasoning", "function_call"]


def test_pitfall_009_010_a_prefill_is_kept_and_its_continuation_asked_for() -> None:
    body, losses = written(from_messages(said(Text(text="q")), assistant(Text(text="The answer is"))))
    assert items(body)[1:] == [message("The answer is"), user(CONTINUATION)]
    assert losses == ["approximated prefill messages[1].parts[0]"]


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


def test_free_text_calls_are_native_in_both_forms_of_history() -> None:
    tool = TextTool(name="patch")
    native = ToolCall(call_id="c1", name="patch", arguments="raw", form=InputForm.TEXT)
    streamed = ToolCall(call_id="c2", name="patch", arguments='{"input":"raw"}')
    results = said(ToolResult(call_id="c1", parts=(Text(text="1"),)), ToolResult(call_id="c2", parts=(Text(text="2"),)))
    body, _ = written(replace(from_chat(assistant(native, streamed), results), tools=(tool,)))
    assert [item["type"] for item in items(body)] == ["custom_tool_call"] * 2 + ["custom_tool_call_output"] * 2
    assert {item["input"] for item in items(body)[:2]} == {"raw"}
    body, _ = written(
        replace(from_chat(assistant(native), said(ToolResult(call_id="c1", parts=()))), tools=(tool,)),
        custom_tools=False,
    )
    assert items(body)[0]["arguments"] == '{"input":"raw"}'


def test_refusals_and_citations_of_history() -> None:
    cited = Text(text="bc", citations=(Citation(origin=MESSAGES, native={}, url="https://a.example"),))
    body, _ = written(from_chat(assistant(Text(text="a"), cited, Refusal(text="no")), said(Text(text="q"))))
    content = items(body)[0]["content"]
    assert isinstance(content, list)
    text, refusal = content
    assert isinstance(text, dict)
    assert text["text"] == "abc"
    assert text["annotations"] == [
        {
            "type": "url_citation",
            "url": "https://a.example",
            "title": "https://a.example",
            "start_index": 1,
            "end_index": 3,
        }
    ]
    assert refusal == {"type": "refusal", "refusal": "no"}


def test_hosted_pairs_are_told_as_items_without_ids() -> None:
    call = HostedCall(call_id="s", kind=HostedKind.WEB_SEARCH, name="web_search", arguments='{"query":"q"}')
    result = HostedResult(call_id="s", kind=HostedKind.WEB_SEARCH)
    body, losses = written(from_messages(assistant(call, result, Text(text="a")), said(Text(text="q"))))
    assert items(body)[0]["type"] == "web_search_call"
    assert "id" not in items(body)[0]
    assert losses == ["approximated web_search messages[0].parts[0]"]


def test_a_compaction_returns_to_its_issuer_or_is_told_as_a_summary() -> None:
    body_item: JsonObject = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gA"}
    seal = Seal(origin=NAME, kind="compaction", body=body_item)
    body, _ = written(from_messages(assistant(Compaction(summary=None, seal=seal)), said(Text(text="q"))))
    assert items(body)[0] == body_item
    body, losses = written(from_messages(assistant(Compaction(summary="so far")), said(Text(text="q"))))
    assert items(body)[0] == user("Summary of the conversation so far:\nso far")
    assert losses == ["approximated compaction messages[0].parts[0]"]
    with pytest.raises(RefusedError):
        written(from_messages(assistant(Compaction(summary=None, seal=replace(seal, origin=MESSAGES)))))


def test_a_sealed_turn_is_restored_item_by_item() -> None:
    blocks: list[JsonObject] = [
        ITEM,
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "a", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"},
    ]
    turn = Seal(origin=NAME, kind="turn", body={"blocks": [*blocks]}, model="gpt-5")
    call = ToolCall(call_id="c", name="f", arguments="{}")
    echoed = Message(role=Role.ASSISTANT, parts=(Text(text="a"), call), turn=turn)
    request = replace(
        from_chat(echoed, said(ToolResult(call_id="c", parts=(Text(text="ok"),)))), tools=(FunctionTool(name="f"),)
    )
    body, losses = written(request)
    assert (items(body)[:3], losses) == (blocks, [])
    assert CODEC.encode_turn(CODEC.decode_turn(blocks)) == blocks


def test_parts_that_only_another_protocol_knows() -> None:
    steering = Foreign(origin=MESSAGES, kind="tool_addition", body={}, applied="applied")
    body, losses = written(from_messages(said(Text(text="q")), said(steering, role=Role.SYSTEM)))
    assert (len(items(body)), [loss.split()[::2] for loss in losses]) == (1, [["approximated", "messages[1].parts[0]"]])
