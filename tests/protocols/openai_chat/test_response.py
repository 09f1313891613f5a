"""Whole answers, read from providers and written for clients."""

from __future__ import annotations

import pytest
from openai.types.chat import ChatCompletion

from dragoman.errors import WireError
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import (
    Citation,
    HostedCall,
    HostedKind,
    InputForm,
    Part,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
)
from dragoman.model.request import Request
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.model.tools import FunctionTool, Namespace, TextTool
from dragoman.protocols.codec import TranslationContext
from dragoman.protocols.openai_chat import CODEC
from dragoman.rules.extras import drop_extras
from dragoman.rules.seals import from_envelope
from dragoman.rules.tool_table import ToolTable
from dragoman.wire.json import encode
from tests.protocols.openai_chat.room import A, C, R, ask, dig, losses, mint, objects, target


def body(message: JsonObject, finish: JsonValue = "stop", **members: JsonValue) -> JsonObject:
    choice: JsonObject = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "m", "choices": [choice], **members}


def read(
    message: JsonObject, finish: JsonValue = "stop", asked: TranslationContext | None = None, **members: JsonValue
) -> Response:
    response = CODEC.decode_response(body(message, finish, **members), asked or ask(), Ledger())
    assert isinstance(response, Response)
    return response


CALL: JsonObject = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("finish", "message", "reason"),
    [
        ("stop", {"content": "x"}, StopReason.END),
        ("eos", {"content": "x"}, StopReason.END),
        ("length", {"content": "x"}, StopReason.LENGTH),
        ("length", {"tool_calls": [CALL]}, StopReason.LENGTH),
        ("max_tokens", {"content": "x"}, StopReason.LENGTH),
        ("tool_calls", {"tool_calls": [CALL]}, StopReason.TOOL_CALL),
        ("stop", {"tool_calls": [CALL]}, StopReason.TOOL_CALL),
        (None, {"tool_calls": [CALL]}, StopReason.TOOL_CALL),
        ("tool_calls", {"content": "x"}, StopReason.END),
        ("content_filter", {"content": ""}, StopReason.FILTER),
        ("sensitive", {"tool_calls": [CALL]}, StopReason.FILTER),
        ("stop", {"refusal": "no"}, StopReason.REFUSAL),
        ("something_new", {"content": "x"}, StopReason.OTHER),
        (None, {"content": "x"}, StopReason.END),
    ],
)
def test_pitfall_030_031_032_the_reason_follows_from_what_was_assembled(
    finish: JsonValue, message: JsonObject, reason: StopReason
) -> None:
    assert read(message, finish).stop.reason is reason


@pytest.mark.parametrize(
    ("finish", "kind"), [("error", FailureKind.INTERNAL), ("insufficient_system_resource", FailureKind.OVERLOADED)]
)
def test_a_finish_that_is_a_failure(finish: str, kind: FailureKind) -> None:
    failure = CODEC.decode_response(body({"content": "x"}, finish), ask(), Ledger())
    assert isinstance(failure, Failure) and failure.kind is kind


def test_pitfall_184_an_error_inside_a_success_is_a_failure() -> None:
    failure = CODEC.decode_response({"error": {"message": "slow", "code": 429}}, ask(), Ledger())
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.status, failure.message) == (FailureKind.RATE_LIMITED, 429, "slow")


def test_which_stop_string_fired_is_believed_only_as_a_string() -> None:
    choice: JsonObject = {"message": {"content": "x"}, "finish_reason": "stop", "stop_reason": "END"}
    response = CODEC.decode_response({"choices": [choice]}, ask(), Ledger())
    assert isinstance(response, Response)
    assert (response.stop.reason, response.stop.sequence) == (StopReason.SEQUENCE, "END")
    response = CODEC.decode_response({"choices": [{**choice, "stop_reason": 128009}]}, ask(), Ledger())
    assert isinstance(response, Response) and response.stop.sequence is None


def test_calls_get_their_names_forms_and_ids_back() -> None:
    asked = ask(FunctionTool(name="f", namespace=Namespace(name="ns")), TextTool(name="patch"))
    calls: list[JsonValue] = [
        {"id": "", "type": "function", "function": {"name": "ns__f", "arguments": {"a": 1}}},
        {"id": "d", "function": {"name": "patch", "arguments": '{"input":"a\\nb"}'}},
        {"id": "d", "type": "function", "function": {"name": "unknown", "arguments": None}},
    ]
    first, second, third = read({"tool_calls": calls}, asked=asked).parts
    assert isinstance(first, ToolCall) and isinstance(second, ToolCall) and isinstance(third, ToolCall)
    assert (first.name, first.namespace, first.arguments) == ("f", "ns", '{"a":1}')
    assert first.call_id.startswith("call_")
    assert (second.call_id, second.arguments, second.form) == ("d", "a\nb", InputForm.TEXT)
    assert third.call_id != "d" and third.name == "unknown"


@pytest.mark.parametrize(
    ("message", "text", "field"),
    [
        ({"reasoning_content": "r"}, "r", "reasoning_content"),
        ({"reasoning": "r"}, "r", "reasoning"),
        ({"reasoning": "r", "reasoning_content": "r"}, "r", "reasoning_content"),
        ({"reasoning": "r", "reasoning_details": [{"type": "reasoning.text", "text": "r"}]}, "r", "reasoning"),
        ({"reasoning_details": [{"type": "reasoning.summary", "summary": "r"}]}, "r", "reasoning_details"),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "d"}]}, "", "reasoning_details"),
    ],
)
def test_pitfall_114_reasoning_is_read_from_every_member_once(message: JsonObject, text: str, field: str) -> None:
    (thinking,) = read(message).parts
    assert isinstance(thinking, Thinking) and thinking.seal is not None
    assert thinking.text == text
    assert thinking.seal.body["field"] == field
    assert (thinking.seal.model, thinking.seal.vendor) == ("m", "")


def test_pitfall_115_a_bare_signature_completes_the_earlier_entry() -> None:
    details: list[JsonValue] = [
        {"type": "reasoning.text", "text": "a", "index": 0},
        {"type": "reasoning.text", "text": "b", "index": 0},
        {"type": "reasoning.text", "signature": "s", "index": 0},
    ]
    (thinking,) = read({"reasoning_details": details}).parts
    assert isinstance(thinking, Thinking) and thinking.seal is not None
    assert thinking.seal.body["details"] == [{"type": "reasoning.text", "text": "ab", "index": 0, "signature": "s"}]


def test_inline_thinking_is_split_only_where_declared() -> None:
    message: JsonObject = {"content": "<think>why</think>\n\nbecause"}
    assert read(message).parts == (Text(text="<think>why</think>\n\nbecause"),)
    thinking, text = read(message, asked=ask(inline_thinking=True)).parts
    assert isinstance(thinking, Thinking) and thinking.text == "why"
    assert text == Text(text="because")


def test_only_the_first_choice_is_used() -> None:
    one: JsonObject = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}
    other: JsonObject = {"index": 1, "message": {"content": "b"}, "finish_reason": "stop"}
    response = CODEC.decode_response({"choices": [one, other]}, ask(), Ledger())
    assert isinstance(response, Response)
    assert response.parts == (Text(text="a"),) and response.alternatives == (other,)


@pytest.mark.parametrize(
    "broken",
    [{}, {"choices": []}, {"choices": [1]}, {"choices": [{"message": {"content": 1}}]}, {"choices": [{"message": 1}]}],
)
def test_an_unreadable_answer_is_an_error(broken: JsonObject) -> None:
    with pytest.raises(WireError):
        CODEC.decode_response(broken, ask(), Ledger())


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}, (5, 2, None, None, None)),
        (
            {
                "prompt_tokens": 1200,
                "completion_tokens": 30,
                "prompt_tokens_details": {"cached_tokens": 1024, "cache_write_tokens": 100},
                "completion_tokens_details": {"reasoning_tokens": 10},
            },
            (1200, 30, 1024, 100, 10),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 64}},
            (74, 3, 64, None, None),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 3, "prompt_cache_hit_tokens": 4}, (10, 3, 4, None, None)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 3,
                "total_tokens": 18,
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            (10, 8, None, None, 5),
        ),
    ],
)
def test_pitfall_176_181_usage_is_made_inclusive(usage: JsonObject, expected: tuple[int | None, ...]) -> None:
    found = read({"content": "x"}, usage=usage).usage
    assert found is not None
    assert (found.input, found.output, found.cache_read, found.cache_write, found.thinking) == expected


SIGNED = Seal(origin=A, kind="thinking", body={"type": "thinking", "thinking": "t", "signature": "s"}, model="m")
CLIENT = Request(origin=C, model="alias")


def write(
    *parts: Part,
    stop: Stop | None = None,
    origin: str = A,
    request: Request = CLIENT,
    usage: Usage | None = None,
    render: bool = False,
) -> tuple[JsonObject, JsonObject, Ledger]:
    """The answer, its message and the ledger; the official types accept it."""
    ledger = Ledger()
    asked = TranslationContext(
        request=request,
        target=target(),
        table=ToolTable(),
        render_turn=(lambda told: [{"type": type(part).__name__} for part in told]) if render else None,
    )
    response = Response(
        origin=origin,
        id="msg_0123456789abcdefgh",
        model="served",
        parts=parts,
        stop=stop or Stop(reason=StopReason.END),
        usage=usage or Usage(input=1, output=2),
    )
    whole = CODEC.encode_response(response, asked, mint(), ledger)
    ChatCompletion.model_validate_json(encode(whole))
    (choice,) = objects(whole, "choices")
    message = choice["message"]
    assert isinstance(message, dict)
    return {**whole, "finish_reason": choice["finish_reason"]}, message, ledger


def test_pitfall_042_the_answer_has_this_protocols_form() -> None:
    whole, message, ledger = write(Text(text="x"))
    assert whole["id"] == "chatcmpl-0123456789abcdefgh"
    assert (whole["object"], whole["model"], whole["created"]) == ("chat.completion", "alias", 1700000000)
    assert message == {"role": "assistant", "content": "x", "refusal": None}
    assert len(ledger) == 0


@pytest.mark.parametrize(
    ("reason", "parts", "finish"),
    [
        (StopReason.END, (Text(text="x"),), "stop"),
        (StopReason.SEQUENCE, (Text(text="x"),), "stop"),
        (StopReason.LENGTH, (Text(text="x"),), "length"),
        (StopReason.CONTEXT_FULL, (Text(text="x"),), "length"),
        (StopReason.PAUSE, (Text(text="x"),), "length"),
        (StopReason.REFUSAL, (Text(text="x"),), "content_filter"),
        (StopReason.REFUSAL, (Refusal(text="no"),), "stop"),
        (StopReason.FILTER, (), "content_filter"),
        (StopReason.TOOL_CALL, (ToolCall(call_id="c", name="f", arguments="{}"),), "tool_calls"),
        (StopReason.LENGTH, (ToolCall(call_id="c", name="f", arguments="{"),), "length"),
        (StopReason.TOOL_CALL, (), "stop"),
        (StopReason.COMPACTED, (), "stop"),
        (StopReason.OTHER, (), "stop"),
    ],
)
def test_pitfall_074_133_134_finish_reasons_are_this_protocols_own(
    reason: StopReason, parts: tuple[Part, ...], finish: str
) -> None:
    assert write(*parts, stop=Stop(reason=reason))[0]["finish_reason"] == finish


def test_text_runs_are_joined_and_an_empty_answer_is_an_empty_string() -> None:
    call = ToolCall(call_id="c", name="f", arguments="")
    assert write(Text(text="a"), Text(text="b"), call, Text(text="c"))[1]["content"] == "ab\n\nc"
    assert write(Text(text="a", id="1"), Text(text="b", id="2"), origin=R)[1]["content"] == "a\n\nb"
    assert write()[1]["content"] == ""
    only = write(call)[1]
    assert only["content"] is None
    assert dig(only, "tool_calls", 0, "function", "arguments") == "{}"


def test_a_refusal_by_a_classifier_keeps_its_explanation() -> None:
    whole, message, _ = write(Text(text="part"), stop=Stop(reason=StopReason.REFUSAL, explanation="why"))
    assert (whole["finish_reason"], message["refusal"], message["content"]) == ("content_filter", "why", "part")


def test_custom_calls_are_native_in_a_whole_answer() -> None:
    _, message, _ = write(ToolCall(call_id="c", name="g", arguments="raw", form=InputForm.TEXT))
    assert message["tool_calls"] == [{"id": "c", "type": "custom", "custom": {"name": "g", "input": "raw"}}]


def test_pitfall_034_a_legacy_client_gets_a_function_call() -> None:
    calls = [ToolCall(call_id=name, name=name, arguments="") for name in ("f", "g")]
    whole, message, ledger = write(
        *calls, stop=Stop(reason=StopReason.TOOL_CALL), request=Request(origin=C, model="a", legacy_functions=True)
    )
    assert message["function_call"] == {"name": "f", "arguments": "{}"}
    assert "tool_calls" not in message and whole["finish_reason"] == "function_call"
    assert {feature for _, feature, _ in losses(ledger)} == {"parallel_calls"}


def test_signed_thinking_travels_in_details() -> None:
    redacted = Thinking(text="", seal=Seal(origin=A, kind="redacted", body={"type": "redacted_thinking", "data": "d"}))
    _, message, _ = write(Thinking(text="t", seal=SIGNED), redacted, Text(text="x"))
    assert message["reasoning_content"] == "t"
    assert message["reasoning_details"] == [
        {
            "index": 0,
            "type": "reasoning.text",
            "text": "t",
            "signature": "s",
            "format": "anthropic-claude-v1",
            "model": "m",
        },
        {"index": 1, "type": "reasoning.encrypted", "data": "d", "format": "anthropic-claude-v1"},
    ]


def test_pitfall_172_web_citations_count_code_points_of_the_whole_text() -> None:
    page = Citation(origin=A, native={}, url="https://x", title=None)
    file = Citation(origin=A, native={}, file_id="f")
    call = ToolCall(call_id="c", name="f", arguments="{}")
    _, message, ledger = write(Text(text="ä😀"), call, Text(text="bc", citations=(page, file)))
    assert message["annotations"] == [
        {
            "type": "url_citation",
            "url_citation": {"url": "https://x", "title": "https://x", "start_index": 4, "end_index": 6},
        }
    ]
    assert losses(ledger) == {("dropped", "citations", "parts[2].citations[1]")}


SEARCH = HostedCall(call_id="s", kind=HostedKind.WEB_SEARCH, name="web_search", arguments="{}")


@pytest.mark.parametrize(
    ("parts", "sealed"),
    [
        ((Thinking(text="t", seal=SIGNED), Text(text="x"), ToolCall(call_id="c", name="f", arguments="{}")), False),
        ((Text(text="x"), Thinking(text="t", seal=SIGNED)), True),
        ((Text(text="x"), Text(text="y")), True),
        ((Text(text="x", citations=(Citation(origin=A, native={}, url="u"),)),), True),
        ((SEARCH, Text(text="x")), True),
    ],
)
def test_a_turn_that_the_echo_would_not_rebuild_is_sealed(parts: tuple[Part, ...], sealed: bool) -> None:
    _, message, _ = write(*parts, render=True)
    details = message.get("reasoning_details", [])
    assert isinstance(details, list)
    turns = [entry for entry in details if isinstance(entry, dict) and entry["format"] == "gw-turn-v1"]
    assert bool(turns) is sealed
    if sealed:
        seal = from_envelope(str(turns[0]["data"]))
        assert seal is not None
        assert (seal.origin, seal.kind, seal.model) == (A, "turn", "m")
        assert seal.body == {"blocks": [{"type": type(part).__name__} for part in parts]}


def test_usage_is_written_with_what_is_known() -> None:
    whole, _, _ = write(Text(text="x"), usage=Usage(input=12, output=5, cache_read=3, cache_write=2, thinking=1))
    assert whole["usage"] == {
        "prompt_tokens": 12,
        "completion_tokens": 5,
        "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    served, _, ledger = write(Text(text="x"), usage=Usage(service_tier="standard", web_searches=2))
    assert served["service_tier"] == "default"
    assert losses(ledger) == {("dropped", "usage", "usage.web_searches")}


def test_what_wraps_every_answer_is_no_loss_abroad() -> None:
    body: JsonObject = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "system_fingerprint": "fp",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop", "stop_reason": "b"}
        ],
    }
    response = CODEC.decode_response(body, ask(), Ledger())
    assert isinstance(response, Response)
    ledger = Ledger()
    drop_extras(response.extras, (), ledger, is_response=True)
    assert not ledger.losses
    assert response.stop.sequence == "b"
    assert dig(CODEC.encode_response(response, ask(), mint(), Ledger()), "choices", 0, "stop_reason") == "b"


def test_a_bent_custom_call_is_reported() -> None:
    function: JsonObject = {"name": "sql", "arguments": '{"input":"x","more":1}'}
    message: JsonObject = {"tool_calls": [{"id": "a", "type": "function", "function": function}]}
    ledger = Ledger()
    CODEC.decode_response({"choices": [{"message": message}]}, ask(TextTool(name="sql")), ledger)
    assert losses(ledger) == {("approximated", "arguments", "parts[0]")}


def call(given: JsonValue, name: JsonValue, arguments: JsonValue) -> JsonObject:
    return {"id": given, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_item_7_a_call_said_twice_is_one() -> None:
    calls: list[JsonValue] = [
        call("a", "f", '{"x":1}'),
        call("a", "f", '{"x": 1}'),
        call("a", "f", {"x": 1}),
        call("a", "f", '{"x":2}'),
        call("a", "g", '{"x":1}'),
    ]
    found = [part for part in read({"tool_calls": calls}).parts if isinstance(part, ToolCall)]
    assert [(part.name, part.arguments) for part in found] == [("f", '{"x":1}'), ("f", '{"x":2}'), ("g", '{"x":1}')]
    assert found[0].call_id == "a" and len({part.call_id for part in found}) == 3


def test_item_7_arguments_may_be_an_object_or_nothing() -> None:
    calls: list[JsonValue] = [call("a", "f", {"x": 1}), call("b", "f", None), call("c", "f", {})]
    found = [part.arguments for part in read({"tool_calls": calls}).parts if isinstance(part, ToolCall)]
    assert found == ['{"x":1}', "", "{}"]


@pytest.mark.parametrize(
    "message",
    [
        {"function_call": {"name": "", "arguments": ""}},
        {"function_call": {"name": None, "arguments": None}},
        {"function_call": {}},
        {"tool_calls": [{}]},
        {"tool_calls": [call("", "", "")]},
        {"tool_calls": [call(None, None, "{}")]},
        {"tool_calls": [{"type": "function", "function": None}], "function_call": {"name": ""}},
    ],
)
def test_item_9_an_empty_call_is_none(message: JsonObject) -> None:
    ledger = Ledger()
    response = CODEC.decode_response(body({"content": "Hi", **message}), ask(), ledger)
    assert isinstance(response, Response)
    assert response.parts == (Text(text="Hi"),)
    assert response.stop.reason is StopReason.END
    assert losses(ledger) == set() and response.extras is not None
    drop_extras(response.extras, (), ledger, is_response=True)
    assert losses(ledger) == set()


def test_item_9_arguments_of_nobody_are_reported() -> None:
    ledger = Ledger()
    response = CODEC.decode_response(body({"function_call": {"name": "", "arguments": '{"x":1}'}}), ask(), ledger)
    assert isinstance(response, Response)
    assert response.parts == ()
    assert losses(ledger) == {("dropped", "function_tool", "parts")}


def test_item_9_an_empty_legacy_call_beside_a_real_one() -> None:
    message: JsonObject = {"tool_calls": [CALL], "function_call": {"name": "", "arguments": ""}}
    (part,) = read(message).parts
    assert isinstance(part, ToolCall) and part.name == "f"


@pytest.mark.parametrize("kind", ["function", None])
def test_item_9_a_call_with_both_members_is_the_one_that_is_filled(kind: str | None) -> None:
    both: JsonObject = {
        "id": "a",
        "type": kind,
        "function": {"name": "f", "arguments": "{}"},
        "custom": {"name": "", "input": ""},
    }
    (part,) = read({"tool_calls": [both]}).parts
    assert part == ToolCall(call_id="a", name="f", arguments="{}")
    other: JsonObject = {**both, "type": "custom", "function": {"name": ""}, "custom": {"name": "g", "input": "x"}}
    (free,) = read({"tool_calls": [other]}).parts
    assert free == ToolCall(call_id="a", name="g", arguments="x", form=InputForm.TEXT)


@pytest.mark.parametrize("several", [False, True])
def test_item_23_a_message_in_the_plural_is_read(several: bool) -> None:
    message: JsonObject = {"role": "assistant", "content": "Porto."}
    first: JsonObject = {"role": "assistant", "content": ""}
    choice: JsonObject = {"index": 0, "finish_reason": "stop", "messages": [first, message] if several else message}
    ledger = Ledger()
    answer = CODEC.decode_response({"id": "a", "model": "m", "choices": [choice]}, ask(), ledger)
    assert losses(ledger) == ({("dropped", "unsupported_content", "choices[0].messages")} if several else set())
    assert isinstance(answer, Response)
    assert answer.parts == (Text(text="Porto."),)


@pytest.mark.parametrize("messages", [None, [], "Porto.", [1]])
def test_item_23_a_choice_without_any_message_is_none(messages: JsonValue) -> None:
    choice: JsonObject = {"index": 0, "finish_reason": "stop", "messages": messages}
    with pytest.raises(WireError):
        CODEC.decode_response({"id": "a", "model": "m", "choices": [choice]}, ask(), Ledger())


def test_the_alternatives_of_a_token_are_checked_as_the_token_is() -> None:
    token: JsonObject = {"token": "h", "logprob": -0.1, "top_logprobs": [{"token": 1, "logprob": -0.1}]}
    message: JsonObject = {"role": "assistant", "content": "h"}
    choice: JsonObject = {"finish_reason": "stop", "message": message, "logprobs": {"content": [token]}}
    with pytest.raises(WireError, match=r"content\[0\].top_logprobs\[0\].token"):
        CODEC.decode_response({"id": "a", "model": "m", "choices": [choice]}, ask(), Ledger())
