"""Whole answers, read and told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import (
    Citation,
    Compaction,
    Extras,
    Foreign,
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
)
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.protocols.openai_responses import CODEC, NAME
from dragoman.rules.seals import from_envelope
from tests.protocols.openai_responses.asking import (
    MESSAGES,
    answer,
    asked_abroad,
    asked_here,
    output,
    response_body,
    told,
)

TEXT: JsonObject = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "a", "annotations": []}],
}
CALL: JsonObject = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
REFUSED: JsonObject = {**TEXT, "content": [{"type": "refusal", "refusal": "no"}]}


def read(*items: JsonObject, **members: JsonObject | str) -> Response:
    found = CODEC.decode_response(response_body(*items, **members), asked_abroad(), Ledger())
    assert isinstance(found, Response)
    return found


@pytest.mark.parametrize(
    ("items", "status", "reason", "found"),
    [
        ((TEXT,), "completed", None, StopReason.END),
        ((TEXT, CALL), "completed", None, StopReason.TOOL_CALL),
        ((CALL,), "incomplete", "max_output_tokens", StopReason.LENGTH),
        ((TEXT,), "incomplete", "max_messages", StopReason.LENGTH),
        ((TEXT,), "incomplete", "content_filter", StopReason.FILTER),
        ((TEXT,), "incomplete", "steered", StopReason.END),
        ((REFUSED,), "completed", None, StopReason.REFUSAL),
    ],
)
def test_pitfall_031_032_the_stop_is_derived_from_what_came(
    items: tuple[JsonObject, ...], status: str, reason: str | None, found: StopReason
) -> None:
    details: JsonObject = {"incomplete_details": {"reason": reason}} if reason else {}
    assert read(*items, status=status, **details).stop.reason is found  # type: ignore[arg-type]  # JSON members


def test_pitfall_177_181_usage_is_read_as_totals() -> None:
    assert read(TEXT).usage == Usage(input=10, output=5, cache_read=4, cache_write=1, thinking=2)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (
            {"error": {"message": "slow", "type": "rate_limit_error", "code": "rate_limit_exceeded"}},
            FailureKind.RATE_LIMITED,
        ),
        ({"status": "failed", "error": {"code": "server_error", "message": "x"}}, FailureKind.INTERNAL),
        ({"status": "failed", "error": {"code": "invalid_image", "message": "x"}}, FailureKind.INVALID),
        ({"status": "failed"}, FailureKind.INTERNAL),
        ({"status": "cancelled"}, FailureKind.INTERNAL),
        ({"error": "busy"}, FailureKind.INTERNAL),
    ],
)
def test_pitfall_184_an_error_inside_an_answer_is_a_failure(body: JsonObject, kind: FailureKind) -> None:
    found = CODEC.decode_response(body, asked_abroad(), Ledger())
    assert isinstance(found, Failure)
    assert found.kind is kind


def test_a_wrong_type_in_an_answer_is_named() -> None:
    with pytest.raises(WireError, match=r"output\[0\]\.content\[0\]\.text"):
        read({**TEXT, "content": [{"type": "output_text", "text": 1}]})


def test_reasoning_is_sealed_by_its_provider() -> None:
    item: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA"}
    part = read(item, TEXT).parts[0]
    assert isinstance(part, Thinking)
    assert part.seal == Seal(origin=NAME, kind="item", body=item, model="gpt-5", vendor="openai")


def test_pitfall_042_091_ids_have_this_protocols_form() -> None:
    body, _ = told(answer(Thinking(text="t"), Text(text="a"), ToolCall(call_id="c", name="f", arguments="{}")))
    assert body["id"] == "resp_0123456789abcdefgh"
    assert [item["id"] for item in output(body)] == [
        "rs_0123456789abcdefgh_0",
        "msg_0123456789abcdefgh_1",
        "fc_0123456789abcdefgh_2",
    ]
    assert body["model"] == "alias"


def test_adjacent_text_is_one_part_of_one_message() -> None:
    cited = Text(text="öb", citations=(Citation(origin=MESSAGES, native={}, url="https://a.example", title="A"),))
    body, _ = told(answer(Text(text="ä"), cited, Refusal(text="no")))
    (item,) = output(body)
    annotation: JsonObject = {
        "type": "url_citation",
        "url": "https://a.example",
        "title": "A",
        "start_index": 1,
        "end_index": 3,
    }
    assert item["content"] == [
        {"type": "output_text", "text": "äöb", "annotations": [annotation], "logprobs": []},
        {"type": "refusal", "refusal": "no"},
    ]


@pytest.mark.parametrize(
    ("reason", "kinds"), [(StopReason.END, ["message"]), (StopReason.LENGTH, [])], ids=["complete", "cut"]
)
def test_an_empty_answer(reason: StopReason, kinds: list[str]) -> None:
    body, _ = told(answer(reason=reason))
    assert [item["type"] for item in output(body)] == kinds


def test_pitfall_016_088_white_space_makes_no_message() -> None:
    body, losses = told(answer(Text(text=" \n"), ToolCall(call_id="c", name="f", arguments="")))
    (item,) = output(body)
    assert (item["type"], item["arguments"]) == ("function_call", "{}")
    assert losses == ["dropped empty_text parts[0]"]


@pytest.mark.parametrize(
    ("part", "status"),
    [
        (Text(text="a"), "incomplete"),
        (ToolCall(call_id="c", name="f", arguments='{"a'), "incomplete"),
        (ToolCall(call_id="c", name="f", arguments="{}"), "completed"),
    ],
)
def test_a_cut_answer_is_incomplete(part: Part, status: str) -> None:
    body, _ = told(answer(part, reason=StopReason.LENGTH))
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert (output(body)[-1]["status"], body["completed_at"]) == (status, None)


def test_the_explanation_of_a_refusal_closes_the_message() -> None:
    body, _ = told(answer(Text(text="a"), reason=StopReason.REFUSAL, explanation="unsafe"))
    (item,) = output(body)
    assert body["incomplete_details"] == {"reason": "content_filter"}
    content = item["content"]
    assert isinstance(content, list)
    assert content[-1] == {"type": "refusal", "refusal": "unsafe"}


def test_thinking_carries_an_envelope_for_its_issuer() -> None:
    seal = Seal(
        origin=MESSAGES,
        kind="thinking",
        body={"type": "thinking", "signature": "s"},
        model="claude",
        vendor="anthropic",
    )
    body, _ = told(answer(Thinking(text="t", seal=seal), Thinking(text="", seal=seal), Text(text="a")))
    first, second, _ = output(body)
    assert first["summary"] == [{"type": "summary_text", "text": "t"}]
    assert second["summary"] == []
    assert from_envelope(str(first["encrypted_content"])) == seal
    assert "status" not in first


def test_pitfall_154_calls_return_in_the_form_the_client_declared() -> None:
    asked = asked_here({"tools": [{"type": "shell"}]})
    shell = ToolCall(call_id="c1", name="shell", arguments='{"commands":["ls"]}')
    broken = ToolCall(call_id="c2", name="shell", arguments='{"commands":1}')
    patch = ToolCall(call_id="c3", name="patch", arguments="raw", form=InputForm.TEXT, namespace="ns")
    body, _ = told(answer(shell, broken, patch, reason=StopReason.TOOL_CALL), asked)
    assert [item["type"] for item in output(body)] == ["shell_call", "function_call", "custom_tool_call"]
    assert output(body)[0]["action"] == {"timeout_ms": None, "max_output_length": None, "commands": ["ls"]}
    assert (output(body)[2]["input"], output(body)[2]["namespace"]) == ("raw", "ns")


def test_hosted_calls_have_one_item_each() -> None:
    call = HostedCall(call_id="s1", kind=HostedKind.WEB_SEARCH, name="web_search", arguments='{"query":"q"}')
    done = HostedResult(call_id="s1", kind=HostedKind.WEB_SEARCH)
    body, _ = told(answer(call, done, replace(call, call_id="s2"), Text(text="a")))
    assert [(item["type"], item["status"]) for item in output(body)] == [
        ("web_search_call", "completed"),
        ("web_search_call", "failed"),
        ("message", "completed"),
    ]


def test_what_has_no_item_is_reported() -> None:
    body, losses = told(answer(Foreign(origin=MESSAGES, kind="fallback", body={}), Compaction(summary="s")))
    assert [item["type"] for item in output(body)] == ["compaction"]
    assert losses == ["dropped unsupported_content parts[0]"]


def test_pitfall_135_136_what_the_end_says_and_this_wire_cannot_is_reported() -> None:
    _, losses = told(answer(Text(text="a"), reason=StopReason.SEQUENCE, sequence="END"))
    assert losses == ["dropped stop_sequence stop.sequence"]
    response = replace(answer(Text(text="a"), reason=StopReason.PAUSE), usage=None)
    body, losses = told(response)
    assert body["status"] == "incomplete"
    assert losses == ["invented usage usage", "approximated pause stop"]
    _, losses = told(answer(Text(text="a"), reason=StopReason.CONTEXT_FULL))
    assert losses == ["approximated stop_reason stop.reason"]
    stop = Stop(reason=StopReason.REFUSAL, category="bio")
    _, losses = told(replace(answer(Text(text="a")), stop=stop))
    assert losses == ["dropped stop_reason stop.category"]


def test_what_a_citation_says_beyond_its_form_here_is_reported_once() -> None:
    native: JsonObject = {"type": "web_search_result_location", "cited_text": "x", "encrypted_index": "y"}
    cited = Text(text="a", citations=(Citation(origin=MESSAGES, native=native, url="https://x.org"),))
    _, losses = told(answer(cited))
    assert losses == ["dropped citations parts[0].citations[0]"]


@pytest.mark.parametrize(
    ("kind", "losses"),
    [
        (HostedKind.WEB_SEARCH, ["approximated web_search parts[0]"]),
        (HostedKind.CODE, ["approximated code_execution parts[0]"]),
        (HostedKind.MCP, ["approximated mcp parts[0]"]),
    ],
)
def test_tools_of_another_provider_are_told_under_this_vendors_names(kind: HostedKind, losses: list[str]) -> None:
    call = HostedCall(call_id="s", kind=kind, name="n", arguments="{}")
    _, found = told(answer(call, HostedResult(call_id="s", kind=kind)))
    assert found == losses


def test_settings_told_back_and_counted_searches_are_no_members_of_their_own() -> None:
    pictures: JsonObject = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    counted: JsonObject = {"image_gen": pictures, "web_search": {"num_requests": 2}}
    found = read(TEXT, tool_usage=counted)
    assert found.usage is not None and found.usage.web_searches == 2
    assert found.extras is not None and "tool_usage" not in found.extras.fields
    found = read(TEXT, tool_usage={**counted, "image_gen": {**pictures, "total_tokens": 5}})
    assert found.extras is not None and "tool_usage" in found.extras.fields


def test_a_hosted_result_belongs_to_the_call_it_names() -> None:
    call = HostedCall(call_id="s", kind=HostedKind.MCP, name="n", arguments="{}")
    body, losses = told(answer(call, HostedResult(call_id="other", kind=HostedKind.WEB_SEARCH)))
    assert [item["type"] for item in output(body)] == ["mcp_call"]
    assert losses == ["approximated mcp parts[0]", "dropped web_search parts[1]"]


def test_log_probabilities_of_a_refusal_are_reported() -> None:
    _, losses = told(answer(Refusal(text="no", logprobs=[{"token": "no"}]), reason=StopReason.REFUSAL))
    assert losses == ["dropped logprobs parts[0].logprobs"]


def test_members_of_a_call_that_only_its_own_protocol_knows_are_reported() -> None:
    extras = Extras(origin=MESSAGES, fields={"caller": {"type": "code_execution", "tool_id": "x"}})
    _, losses = told(answer(ToolCall(call_id="c", name="f", arguments="{}", extras=extras)))
    assert losses == ["dropped unknown_field parts[0].extras.caller"]


def test_item_7_a_call_said_twice_is_one() -> None:
    item: JsonObject = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": '{"x":1}'}
    first, second = read(item, {**item, "id": "fc_2"}, {**item, "id": "fc_3", "arguments": '{"x":2}'}).parts
    assert isinstance(first, ToolCall) and isinstance(second, ToolCall)
    assert (first.arguments, second.arguments) == ('{"x":1}', '{"x":2}')
