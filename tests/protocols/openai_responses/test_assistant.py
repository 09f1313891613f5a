"""Assistant turns of other protocols as items: text, calls, reasoning, hosted tools, compactions."""

from __future__ import annotations

from hashlib import sha256

import pytest
from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import (
    Citation,
    Compaction,
    HostedCall,
    HostedKind,
    HostedResult,
    InputForm,
    Part,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from dragoman.model.request import Message, Role
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.protocols.openai_responses import CODEC, NAME
from dragoman.protocols.openai_responses.output import decode_turn
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


@pytest.mark.parametrize(("arguments", "sent"), [("", "{}"), ("  ", "{}"), ('{"_raw_arguments":"no json"}', "no json")])
def test_pitfall_046_052_arguments_pass_as_text(arguments: str, sent: str) -> None:
    body, _ = written(from_chat(assistant(replace(CALL, arguments=arguments)), said(RESULT)))
    assert items(body)[0]["arguments"] == sent


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
        (replace(SEAL, origin=MESSAGES, kind="thinking"), "dropped thinking_signature messages[0].parts[0]"),
        (replace(SEAL, model="gpt-4"), "dropped thinking_signature messages[0].parts[0]"),
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


def test_item_23_text_whose_citations_have_no_form_here_is_a_string() -> None:
    native: JsonObject = {"type": "char_location", "cited_text": "x", "document_index": 0}
    cited = Text(text="bc", citations=(Citation(origin=MESSAGES, native=native),))
    body, losses = written(from_messages(assistant(Text(text="a "), cited), said(Text(text="q"))))
    assert items(body)[0] == {"type": "message", "role": "assistant", "content": "a bc"}
    assert losses == ["dropped citations messages[0].parts[1].citations[0]"]


def test_hosted_pairs_are_told_as_items_whose_ids_never_change() -> None:
    call = HostedCall(call_id="s", kind=HostedKind.WEB_SEARCH, name="web_search", arguments='{"query":"q"}')
    result = HostedResult(call_id="s", kind=HostedKind.WEB_SEARCH)
    body, losses = written(from_messages(assistant(call, result, Text(text="a")), said(Text(text="q"))))
    assert items(body)[0]["type"] == "web_search_call"
    assert items(body)[0]["id"] == "ws_" + sha256(b"s").hexdigest()[:24]
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
    assert CODEC.encode_turn(decode_turn(blocks)) == blocks


def test_two_messages_are_two_items() -> None:
    body, losses = written(
        from_messages(assistant(Text(text="I see both.")), assistant(Text(text="And more.")), said(Text(text="q")))
    )
    assert items(body)[:2] == [message("I see both."), message("And more.")]
    assert losses == []


def test_text_that_only_parts_can_say_is_written_in_parts() -> None:
    body, _ = written(from_messages(assistant(Text(text="a"), Refusal(text="no")), said(Text(text="q"))))
    assert items(body)[0]["content"] == [
        {"type": "output_text", "text": "a", "annotations": []},
        {"type": "refusal", "refusal": "no"},
    ]
