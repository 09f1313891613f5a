"""Conversations of other protocols as Messages providers get them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import (
    InputForm,
    Part,
    Seal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from dragoman.model.request import Message, OutputFormat, OutputKind, Reasoning, Role
from dragoman.model.tools import FunctionTool
from dragoman.protocols.anthropic_messages import CODEC, NAME
from dragoman.protocols.anthropic_messages.response import decode_turn
from dragoman.protocols.anthropic_messages.turns import in_tool_loop_without_thinking
from tests.protocols.anthropic_messages.support import (
    ADAPTIVE,
    MANUAL,
    assistant,
    at,
    body_of,
    chat,
    encoded,
    losses,
    said,
    user,
)

PNG = "iVBORw0KGgo="
CALL = ToolCall(call_id="c1", name="f", arguments="")
RESULT = ToolResult(call_id="c1", parts=(Text(text="r"),))
BLOCK: JsonObject = {"type": "thinking", "thinking": "t", "signature": "s"}


def messages(*given: Message, model: str = ADAPTIVE) -> JsonValue:
    """The messages as they are written."""
    return body_of(chat(*given), model)["messages"]


def content(*parts: Part) -> JsonValue:
    """The content of a user message."""
    return at(messages(user(*parts)), 0, "content")


def test_pitfall_002_only_the_leading_instructions_go_to_the_top() -> None:
    given = (said(Role.SYSTEM, "a"), said(Role.DEVELOPER, "b"), user("q"), said(Role.SYSTEM, "late"))
    body = body_of(replace(chat(*given), instructions=(Text(text="first"),)))
    assert [at(block, "text") for block in body["system"]] == ["first", "a", "b"]  # type: ignore[union-attr]  # a list
    assert at(body, "messages", 1) == {"role": "system", "content": "late"}


@pytest.mark.parametrize(
    "after",
    [(user("next"),), (assistant("a"), said(Role.SYSTEM, "x"), user("n"))],
    ids=["before a user", "after an assistant"],
)
def test_late_instructions_in_an_illegal_place_are_tagged(after: tuple[Message, ...]) -> None:
    written = messages(user("q"), said(Role.SYSTEM, "late"), *after)
    if len(after) == 1:
        assert at(written, 0, "content", 1, "text") == "<system-reminder>\nlate\n</system-reminder>"
    else:
        assert at(written, 3, "content", 0, "text") == "<system-reminder>\nx\n</system-reminder>"


def test_pitfall_022_results_stand_first_in_one_message_in_call_order() -> None:
    calls = [replace(CALL, call_id=one) for one in ("c1", "c2")]
    written = messages(
        user("q"),
        assistant("t", *calls),
        user(replace(RESULT, call_id="c2")),
        said(Role.SYSTEM, "note"),
        user("more", RESULT),
        model=MANUAL,
    )
    blocks = at(written, 2, "content")
    assert isinstance(blocks, list)
    kinds = [(at(block, "type"), block.get("tool_use_id")) for block in blocks if isinstance(block, dict)]
    assert kinds == [("tool_result", "c1"), ("tool_result", "c2"), ("text", None), ("text", None)]


def test_pitfall_025_an_orphan_is_labelled_text() -> None:
    assert at(messages(user(RESULT)), 0, "content") == "[result of unknown tool call c1]\nr"


def test_pitfall_027_an_interrupted_call_is_answered_as_an_error() -> None:
    answered = at(messages(user("q"), assistant(CALL)), 2, "content", 0)
    assert at(answered, "is_error") is True


@pytest.mark.parametrize("arguments", ["", "  ", "null"])
def test_pitfall_046_no_arguments_are_an_empty_object(arguments: str) -> None:
    written = messages(user("q"), assistant(replace(CALL, arguments=arguments)), user(RESULT))
    assert at(written, 1, "content") == [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (replace(CALL, arguments="not json"), {"_raw_arguments": "not json"}),
        (replace(CALL, arguments="[1]"), {"_value": [1]}),
        (replace(CALL, arguments="x", form=InputForm.TEXT), {"input": "x"}),
    ],
    ids=["pitfall 50: no JSON", "pitfall 51: no object", "free text"],
)
def test_arguments_become_objects(call: ToolCall, value: JsonObject) -> None:
    assert at(messages(user("q"), assistant(call), user(RESULT)), 1, "content", 0, "input") == value


def test_history_calls_of_a_wrapped_tool_are_wrapped() -> None:
    tool = FunctionTool(name="f", parameters={"type": "array"})
    request = replace(chat(user("q"), assistant(replace(CALL, arguments="[1]")), user(RESULT)), tools=(tool,))
    assert at(body_of(request), "messages", 1, "content", 0, "input") == {"value": [1]}


def test_pitfall_036_ids_are_made_to_fit_on_both_sides() -> None:
    written = messages(user("q"), assistant(replace(CALL, call_id="a:1")), user(replace(RESULT, call_id="a:1")))
    made = at(written, 1, "content", 0, "id")
    assert made == at(written, 2, "content", 0, "tool_use_id")
    assert made != "a:1"


def test_pitfall_009_an_assistant_is_never_last_unless_the_model_continues() -> None:
    assert at(messages(user("q"), assistant("a")), 2) == {"role": "user", "content": "Continue."}
    written = messages(user("q"), assistant("a"), model=MANUAL)
    assert isinstance(written, list)
    assert len(written) == 2


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ((assistant("a"), user("q")), "Continue."),
        ((said(Role.SYSTEM, "s"),), "s"),
        ((user(" "),), "Continue."),
        ((), "hi"),
    ],
    ids=["an assistant began", "pitfall 12: only instructions", "pitfall 14: only blanks", "a plain one"],
)
def test_the_first_message_is_the_users_and_says_something(given: tuple[Message, ...], first: str) -> None:
    assert at(messages(*given), 0) == {"role": "user", "content": first}


def test_pitfall_013_empty_text_is_left_out() -> None:
    written = messages(user("q"), assistant("", CALL), user(RESULT))
    assert [at(block, "type") for block in at(written, 1, "content")] == ["tool_use"]  # type: ignore[union-attr]  # a list


def test_an_empty_result_is_a_string() -> None:
    written = messages(user("q"), assistant(CALL), user(replace(RESULT, parts=(Text(text=""),))))
    assert at(written, 2, "content", 0, "content") == ""


def test_a_sealed_turn_is_restored_exactly() -> None:
    turn = (
        Text(text="a"),
        Thinking(text="t", seal=Seal(origin=NAME, kind="thinking", body=BLOCK)),
        replace(CALL, arguments='{"x": 1}'),
    )
    blocks: list[JsonValue] = [*CODEC.encode_turn(turn)]
    assert decode_turn([block for block in blocks if isinstance(block, dict)])[2] == turn[2]
    echo = replace(assistant("a", turn[2]), turn=Seal(origin=NAME, kind="turn", body={"blocks": blocks}))
    written = messages(user("q"), echo, user(RESULT))
    assert [at(block, "type") for block in at(written, 1, "content")] == ["text", "thinking", "tool_use"]  # type: ignore[union-attr]  # a list


def test_pitfall_008_no_turn_is_invented_between_two_of_one_side() -> None:
    written = messages(user("a"), user("b"), assistant("c"), assistant("d"), user("e"))
    assert isinstance(written, list)
    assert [at(message, "role") for message in written] == ["user", "assistant", "user"]
    assert at(written, 0, "content") == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def test_pitfall_012_the_last_instruction_speaks_if_nobody_else_does() -> None:
    result, ledger = encoded(chat(said(Role.SYSTEM, "rules"), said(Role.SYSTEM, "begin")))
    assert (result.body["system"], at(result.body, "messages", 0, "content")) == ("rules", "begin")
    assert losses(ledger) == [("approximated", "first_turn", "messages")]


def test_pitfall_014_text_of_white_space_only_is_left_out_and_reported() -> None:
    result, ledger = encoded(chat(user("q", " \n")))
    assert at(result.body, "messages", 0, "content") == "q"
    assert losses(ledger) == [("dropped", "empty_text", "messages[0].parts[1]")]


def test_pitfall_015_an_assistant_without_text_has_its_calls_alone() -> None:
    written = messages(user("q"), assistant(CALL), user(RESULT))
    assert at(written, 1, "content") == [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]


def test_pitfall_023_text_comes_after_the_results() -> None:
    written = messages(user("q"), assistant(CALL), user("look", RESULT))
    blocks = at(written, 2, "content")
    assert isinstance(blocks, list)
    assert [at(block, "type") for block in blocks] == ["tool_result", "text"]


def test_pitfall_035_results_are_paired_by_id_in_the_order_of_the_calls() -> None:
    second = replace(CALL, call_id="c2")
    answer = replace(RESULT, call_id="c2")
    written = messages(user("q"), assistant(CALL), assistant(second), user(answer), user(RESULT))
    blocks = at(written, 2, "content")
    assert isinstance(blocks, list)
    assert [at(block, "tool_use_id") for block in blocks] == ["c1", "c2"]


@pytest.mark.parametrize(("model", "where"), [(ADAPTIVE, "no instructions at this place"), (MANUAL, "only at the top")])
def test_the_report_of_a_late_instruction_says_why(model: str, where: str) -> None:
    _, ledger = encoded(chat(user("q"), assistant("a"), said(Role.SYSTEM, "late"), user("n")), model)
    assert where in ledger.losses[0].note


# What the answer begins with (T6).


@pytest.mark.parametrize("blanks", [" ", "\n", " \t\n\n"])
def test_item_6_blanks_at_the_end_of_a_prefill_are_taken_off(blanks: str) -> None:
    result, ledger = encoded(chat(user("q"), assistant("Here is" + blanks)), MANUAL)
    assert at(result.body, "messages", 1) == {"role": "assistant", "content": "Here is"}
    assert losses(ledger) == [("approximated", "prefill", "messages")]


def test_item_6_only_the_last_words_of_a_prefill_lose_their_blanks() -> None:
    result, _ = encoded(chat(user("q"), assistant("a\n"), user("r"), assistant("b \n", " c\n")), MANUAL)
    assert at(result.body, "messages", 1, "content") == "a\n"
    texts = at(result.body, "messages", 3, "content")
    assert isinstance(texts, list)
    assert [at(block, "text") for block in texts] == ["b \n", " c"]


def test_item_6_a_prefill_without_blanks_stays_as_it_is() -> None:
    result, ledger = encoded(chat(user("q"), assistant("Here is")), MANUAL)
    assert at(result.body, "messages", 1, "content") == "Here is"
    assert not losses(ledger)


@pytest.mark.parametrize("reasoning", [Reasoning(effort="low"), Reasoning(budget=2048)])
def test_item_6_beside_a_prefill_thinking_is_off(reasoning: Reasoning) -> None:
    request = replace(chat(user("q"), assistant("{")), reasoning=reasoning)
    result, ledger = encoded(request, MANUAL)
    assert result.body["thinking"] == {"type": "disabled"}
    assert at(result.body, "messages", 1) == {"role": "assistant", "content": "{"}
    assert ("approximated", "thinking", "reasoning") in losses(ledger)


def test_item_6_beside_an_enforced_form_a_prefill_is_gone_on_from_by_the_user() -> None:
    output = OutputFormat(kind=OutputKind.SCHEMA, schema={"type": "object", "properties": {}})
    result, ledger = encoded(replace(chat(user("q"), assistant("{ ")), output=output), MANUAL)
    assert [at(result.body, "messages", number, "role") for number in range(3)] == ["user", "assistant", "user"]
    assert ("invented", "prefill", "messages") in losses(ledger)


USE: JsonObject = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
STEP: list[JsonObject] = [
    {"role": "assistant", "content": [USE]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]},
]
THOUGHTFUL: list[JsonObject] = [{"role": "assistant", "content": [BLOCK, USE]}, STEP[1]]
QUESTION: list[JsonObject] = [{"role": "user", "content": "x"}]
ANSWER: list[JsonObject] = [{"role": "assistant", "content": "y"}]


@pytest.mark.parametrize(
    ("messages", "lacks"),
    [
        ([*QUESTION, *STEP], True),
        ([*QUESTION, *STEP, *STEP], True),
        ([*QUESTION, *THOUGHTFUL, *ANSWER, *QUESTION, *STEP], True),
        # Claude does not think before every step.
        ([*QUESTION, *THOUGHTFUL, *STEP], False),
        ([*QUESTION, *STEP, *THOUGHTFUL], False),
        ([*QUESTION, *STEP, *ANSWER, *QUESTION], False),
        (QUESTION, False),
        ([*QUESTION, *STEP[:1]], False),
    ],
)
def test_a_tool_loop_lacks_thinking_if_no_step_has_any(messages: list[JsonObject], lacks: bool) -> None:
    assert in_tool_loop_without_thinking(messages) is lacks
