"""Whole answers: read from a provider, and written for a client."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import (
    InputForm,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
)
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.model.tools import FunctionTool, Namespace, TextTool
from dragoman.protocols.anthropic_messages import CODEC, response
from dragoman.protocols.anthropic_messages.shapes import STOP_REASONS
from dragoman.protocols.codec import TranslationContext
from dragoman.rules.tool_table import ToolTable, Wrapped
from tests.protocols.anthropic_messages.support import ADAPTIVE, asked, at, losses, mint, written

CALL: JsonObject = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
ITEM = Seal(origin="openai-responses", kind="item", body={"id": "rs_1"}, model="g", vendor="openai")


def answer(*blocks: JsonObject, stop: str | None = "end_turn", **members: JsonValue) -> JsonObject:
    """A whole answer of a provider."""
    usage: JsonObject = {"input_tokens": 1, "output_tokens": 2}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "served",
        "content": [*blocks],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
        **members,
    }


def decoded(body: JsonObject, given: TranslationContext | None = None) -> Response:
    """The answer in the model."""
    response = CODEC.decode_response(body, given or asked(), Ledger())
    assert isinstance(response, Response)
    return response


@pytest.mark.parametrize(
    ("word", "blocks", "reason"),
    [
        ("end_turn", (), StopReason.END),
        ("end_turn", (CALL,), StopReason.TOOL_CALL),
        (None, (CALL,), StopReason.TOOL_CALL),
        ("tool_use", (CALL,), StopReason.TOOL_CALL),
        ("tool_use", (), StopReason.END),
        ("max_tokens", (CALL,), StopReason.LENGTH),
        ("model_context_window_exceeded", (), StopReason.CONTEXT_FULL),
        ("refusal", (), StopReason.REFUSAL),
        ("pause_turn", (), StopReason.PAUSE),
        ("compaction", (), StopReason.COMPACTED),
        ("something_new", (), StopReason.OTHER),
    ],
    ids=[
        "an end",
        "pitfall 31: calls although it says end",
        "calls and no word",
        "calls",
        "pitfall 30: no calls although it says so",
        "pitfall 32: a call cut short",
        "pitfall 134: a full window",
        "a refusal",
        "a pause",
        "a compaction",
        "a new word",
    ],
)
def test_stop_reasons_follow_what_was_assembled(
    word: str | None, blocks: tuple[JsonObject, ...], reason: StopReason
) -> None:
    stop = decoded(answer(*blocks, stop=word)).stop
    assert (stop.reason, stop.native) == (reason, word or "")


def test_pitfall_176_input_counts_are_added_up() -> None:
    usage: JsonObject = {
        "input_tokens": 50,
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": 100,
        "output_tokens": 4,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    assert decoded(answer(usage=usage)).usage == Usage(input=152, output=4, cache_read=100, cache_write=2, thinking=3)


def test_seals_name_their_issuer() -> None:
    (part,) = decoded(answer({"type": "thinking", "thinking": "t", "signature": "s"})).parts
    assert isinstance(part, Thinking)
    assert part.seal is not None
    assert (part.seal.model, part.seal.vendor) == (ADAPTIVE, "anthropic")


@pytest.mark.parametrize(
    ("spec", "wrapped", "given", "expected"),
    [
        (
            FunctionTool(name="a.b", namespace=Namespace(name="n")),
            Wrapped.NOT,
            {"x": 1},
            ToolCall(call_id="toolu_1", name="a.b", namespace="n", arguments='{"x":1}'),
        ),
        (
            TextTool(name="p"),
            Wrapped.INPUT,
            {"input": "a\nb"},
            ToolCall(call_id="toolu_1", name="p", arguments="a\nb", form=InputForm.TEXT),
        ),
        (
            FunctionTool(name="v"),
            Wrapped.VALUE,
            {"value": [1]},
            ToolCall(call_id="toolu_1", name="v", arguments="[1]"),
        ),
    ],
    ids=["pitfall 157: a member of a namespace", "pitfall 154: free text", "a wrapped root"],
)
def test_calls_come_back_as_declared(
    spec: FunctionTool | TextTool, wrapped: Wrapped, given: JsonObject, expected: ToolCall
) -> None:
    table = ToolTable()
    name = table.add(spec, wrapped).wire
    (part,) = decoded(answer({**CALL, "name": name, "input": given}), asked(table=table)).parts
    assert part == expected


def test_pitfall_040_missing_and_repeated_ids_are_replaced() -> None:
    parts = decoded(answer({**CALL, "id": ""}, CALL, {**CALL, "input": {"other": 1}})).parts
    ids = [part.call_id for part in parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == 3
    assert "toolu_1" in ids
    assert all(ids)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, FailureKind.OVERLOADED, 529),
        ({"error": {"message": "no", "code": 429}}, FailureKind.RATE_LIMITED, 429),
        ({"error": "broken"}, FailureKind.INTERNAL, 500),
    ],
)
def test_pitfall_184_an_error_inside_a_success_is_a_failure(body: JsonObject, kind: FailureKind, status: int) -> None:
    failure = CODEC.decode_response(body, asked(), Ledger())
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.status) == (kind, status)


@pytest.mark.parametrize("body", [answer(content="x"), answer(content=[1]), answer({"type": "text"})])
def test_unreadable_answers_are_named(body: JsonObject) -> None:
    with pytest.raises(WireError):
        CODEC.decode_response(body, asked(), Ledger())


def test_an_answer_has_all_members() -> None:
    body, ledger = written(Text(text="x"))
    assert body == {
        "id": "msg_0123456789abcdef",
        "type": "message",
        "role": "assistant",
        "model": "alias",
        "content": [{"type": "text", "text": "x"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 5,
            "cache_creation_input_tokens": 1,
            "cache_read_input_tokens": 4,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 2},
        },
    }
    assert not ledger.losses


def test_pitfall_133_words_of_refusal_are_text_and_explanation() -> None:
    body, _ = written(Refusal(text="no"), stop=StopReason.REFUSAL)
    assert body["content"] == [{"type": "text", "text": "no"}]
    assert body["stop_reason"] == "refusal"
    assert body["stop_details"] == {"type": "refusal", "category": None, "explanation": "no"}


def test_missing_usage_is_zeros_and_reported() -> None:
    ledger = Ledger()
    response = Response(origin="openai-chat", id="x", model="m", parts=(), stop=Stop(reason=StopReason.END))
    body = CODEC.encode_response(response, asked(), mint(), ledger)
    assert at(body, "usage", "input_tokens") == 0
    assert body["id"] == "msg_" + "1".rjust(24, "0")
    assert losses(ledger) == [("invented", "usage", "usage")]


@pytest.mark.parametrize(("native", "reported"), [("brand_new", True), ("", False)])
def test_pitfall_132_an_unknown_end_is_an_end(native: str, reported: bool) -> None:
    ledger = Ledger()
    stop = Stop(reason=StopReason.OTHER, native=native)
    response = Response(origin="openai-chat", id="x", model="m", parts=(), stop=stop, usage=Usage())
    assert CODEC.encode_response(response, asked(), mint(), ledger)["stop_reason"] == "end_turn"
    assert losses(ledger) == ([("approximated", "stop_reason", "stop.reason")] if reported else [])


@pytest.mark.parametrize(("member", "value"), [("type", 7), ("role", [])])
def test_members_of_the_wrong_type_are_named(member: str, value: JsonValue) -> None:
    with pytest.raises(WireError) as error:
        CODEC.decode_response({"content": [], member: value}, asked(), Ledger())
    assert error.value.path == f"/{member}"


def test_item_7_a_call_said_twice_is_one() -> None:
    block: JsonObject = {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}
    other: JsonObject = {**block, "input": {"x": 2}}
    first, second = decoded(answer(block, block, other)).parts
    assert isinstance(first, ToolCall) and isinstance(second, ToolCall)
    assert (first.call_id, first.arguments, second.arguments) == ("t", '{"x":1}', '{"x":2}')
    assert second.call_id != "t"


TEXTS = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=3)}), max_size=3)
COUNTS: JsonObject = {
    "input_tokens": 12,
    "cache_creation_input_tokens": 3,
    "cache_read_input_tokens": 4,
    "output_tokens": 5,
    "output_tokens_details": {"thinking_tokens": 2},
}
ODDITIES: list[JsonValue] = [
    None,
    "",
    "x",
    1,
    True,
    [],
    [1],
    {},
    {"type": "text"},
    [CALL],
    [{"type": "text", "text": 1}],
]
ODD = st.sampled_from(ODDITIES)


@given(
    texts=TEXTS,
    word=st.sampled_from([*STOP_REASONS, "stop", "error", ""]),
    usage=st.sampled_from([COUNTS, {**COUNTS, "output_tokens": "5"}, {**COUNTS, "cache_read_input_tokens": None}]),
    others=st.dictionaries(st.sampled_from([*answer(), "odd"]), ODD, max_size=2),
    left_out=st.sets(st.sampled_from([*answer()]), max_size=2),
)
def test_the_short_way_to_a_usual_answer_gives_what_the_long_one_does(
    texts: list[JsonObject], word: str, usage: JsonObject, others: JsonObject, left_out: set[str]
) -> None:
    told = answer(*texts, stop=word, **{"usage": usage, **others})
    body: JsonObject = {name: value for name, value in told.items() if name not in left_out}
    with pytest.MonkeyPatch.context() as patch:
        short = _heard(body)
        patch.setattr(response, "_usual", lambda _: None)
        assert short == _heard(body)


def _heard(body: JsonObject) -> tuple[object, object]:
    """What comes of reading an answer, with what was lost of it; or the error that it is."""
    ledger = Ledger()
    try:
        return CODEC.decode_response(body, asked(), ledger), ledger.losses
    except WireError as error:
        return str(error), None


def test_a_usual_answer_goes_the_short_way() -> None:
    """In the form in which the service itself gives nearly all."""
    body = answer({"type": "text", "text": "Hello"}, usage=COUNTS)
    read = response._usual(body)
    assert read is not None
    assert read.usage == Usage(input=19, output=5, cache_read=4, cache_write=3, thinking=2)
