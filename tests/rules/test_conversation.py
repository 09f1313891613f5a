"""Turns out of messages: T1, T2, T3 and T7 of mapping.md."""

from __future__ import annotations

import pytest

from dragoman.model.losses import Ledger
from dragoman.model.parts import InputForm, Part, Seal, Text, ToolCall, ToolResult
from dragoman.model.request import Message, Role
from dragoman.rules.conversation import INTERRUPTED, Turn, TurnKind, arrange, joined_text


def user(*parts: Part) -> Message:
    return Message(role=Role.USER, parts=parts)


def assistant(*parts: Part) -> Message:
    return Message(role=Role.ASSISTANT, parts=parts)


def text(words: str) -> Text:
    return Text(text=words)


def call(name: str) -> ToolCall:
    return ToolCall(call_id=name, name="tool", arguments="{}")


def result(name: str, words: str = "ok") -> ToolResult:
    return ToolResult(call_id=name, parts=(text(words),))


def shown(turns: list[Turn]) -> list[str]:
    """A conversation as short words, for comparing."""
    return [f"{turn.kind.value}: {' '.join(_word(part) for part in turn.parts)}".strip() for turn in turns]


def _word(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, ToolCall):
        return f"call({part.call_id})"
    if isinstance(part, ToolResult):
        return f"result({part.call_id}={joined_text(part.parts)})"
    return type(part).__name__


CASES: dict[str, tuple[list[Message], list[str], list[str]]] = {
    "a plain conversation stays as it is": (
        [user(text("a")), assistant(text("b")), user(text("c"))],
        ["user: a", "assistant: b", "user: c"],
        [],
    ),
    "consecutive assistant messages are one turn": (
        [user(text("a")), assistant(text("b")), assistant(call("1")), user(result("1"))],
        ["user: a", "assistant: b call(1)", "results: result(1=ok)"],
        [],
    ),
    "consecutive user messages stay apart": (
        [user(text("a")), user(text("b"))],
        ["user: a", "user: b"],
        [],
    ),
    "results come in the order of their calls": (
        [assistant(call("1"), call("2")), user(result("2")), user(result("1"))],
        ["assistant: call(1) call(2)", "results: result(1=ok) result(2=ok)"],
        [],
    ),
    "text between call and result comes after": (
        [assistant(call("1")), user(text("hurry")), user(result("1"))],
        ["assistant: call(1)", "results: result(1=ok)", "user: hurry"],
        ["result_order"],
    ),
    "text beside a result follows it": (
        [assistant(call("1")), user(result("1"), text("thanks"))],
        ["assistant: call(1)", "results: result(1=ok)", "user: thanks"],
        [],
    ),
    "a result without its call becomes labelled text": (
        [user(result("lost", "42"))],
        ["user: [result of unknown tool call lost]\n42"],
        ["orphan_result"],
    ),
    "a result without an id becomes labelled text": (
        [user(result("", "42"))],
        ["user: [result of unknown tool call]\n42"],
        ["orphan_result"],
    ),
    "a second result for a call is an orphan": (
        [assistant(call("1")), user(result("1", "first")), user(result("1", "second"))],
        ["assistant: call(1)", "results: result(1=first)", "user: [result of unknown tool call 1]\nsecond"],
        ["orphan_result"],
    ),
    "a call without a result is answered as interrupted": (
        [assistant(call("1")), user(text("never mind"))],
        ["assistant: call(1)", f"results: result(1={INTERRUPTED})", "user: never mind"],
        ["unanswered_call"],
    ),
    "a call at the end is answered as interrupted": (
        [assistant(call("1"))],
        ["assistant: call(1)", f"results: result(1={INTERRUPTED})"],
        ["unanswered_call"],
    ),
    "a result after the next assistant turn is too late": (
        [assistant(call("1")), user(text("x")), assistant(text("y")), user(result("1"))],
        [
            "assistant: call(1)",
            f"results: result(1={INTERRUPTED})",
            "user: x",
            "assistant: y",
            "user: [result of unknown tool call 1]\nok",
        ],
        ["unanswered_call", "orphan_result"],
    ),
    "an id used twice gets a suffix in both places": (
        [assistant(call("1")), user(result("1")), assistant(call("1")), user(result("1"))],
        [
            "assistant: call(1)",
            "results: result(1=ok)",
            "assistant: call(1_2)",
            "results: result(1_2=ok)",
        ],
        ["call_id"],
    ),
    "a suffix that another call has is passed over": (
        [assistant(call("1"), call("1"), call("1_2")), user(result("1"), result("1"), result("1_2"))],
        ["assistant: call(1) call(1_3) call(1_2)", "results: result(1=ok) result(1_3=ok) result(1_2=ok)"],
        ["call_id"],
    ),
    "an id of a later turn does not change that of an earlier one": (
        [assistant(call("1")), user(result("1"))] * 2 + [assistant(call("1_2")), user(result("1_2"))],
        [
            "assistant: call(1)",
            "results: result(1=ok)",
            "assistant: call(1_2)",
            "results: result(1_2=ok)",
            "assistant: call(1_2_2)",
            "results: result(1_2_2=ok)",
        ],
        ["call_id", "call_id"],
    ),
    "Kimi's ids are counted on": (
        [
            assistant(call("functions.f:0"), call("functions.f:1")),
            user(result("functions.f:0"), result("functions.f:1")),
            assistant(call("functions.f:0")),
            user(result("functions.f:0")),
        ],
        [
            "assistant: call(functions.f:0) call(functions.f:1)",
            "results: result(functions.f:0=ok) result(functions.f:1=ok)",
            "assistant: call(functions.f:2)",
            "results: result(functions.f:2=ok)",
        ],
        ["call_id"],
    ),
    "empty text goes, and an assistant message left empty with it": (
        [user(text("a")), assistant(text("")), user(text(""))],
        ["user: a", "user:"],
        [],
    ),
}


@pytest.mark.parametrize(("messages", "expected", "losses"), CASES.values(), ids=CASES.keys())
def test_turns(messages: list[Message], expected: list[str], losses: list[str]) -> None:
    ledger = Ledger()
    assert shown(arrange(tuple(messages), ledger)) == expected
    assert [loss.feature.value for loss in ledger.losses] == losses


def test_blank_text_is_empty_only_where_the_wire_refuses_it() -> None:
    messages = (user(text("a"), text("  ")),)
    assert len(arrange(messages, Ledger())[0].parts) == 2
    ledger = Ledger()
    assert shown(arrange(messages, ledger, blank_is_empty=True)) == ["user: a"]
    assert [loss.at for loss in ledger.losses] == ["messages[0].parts[1]"]


def test_a_transient_instruction_is_over_when_the_user_speaks_again() -> None:
    brief = Message(role=Role.SYSTEM, parts=(text("be brief"),), transient=True)
    ledger = Ledger()
    assert shown(arrange((user(text("a")), brief, user(text("b"))), ledger)) == ["user: a", "user: b"]
    assert len(ledger) == 1
    assert shown(arrange((user(text("a")), brief), Ledger())) == ["user: a", "system: be brief"]


def test_a_sealed_turn_is_used_while_the_echo_still_says_the_same() -> None:
    sealed: tuple[Part, ...] = (text("one "), text("two"), call("1"))
    seal = Seal(origin="anthropic-messages", kind="turn", body={})
    echo = Message(role=Role.ASSISTANT, parts=(text("one two"), call("1")), turn=seal)
    changed = Message(role=Role.ASSISTANT, parts=(text("one three"), call("1")), turn=seal)
    turns = arrange((echo, user(result("1"))), Ledger(), restore=lambda _: sealed)
    assert turns[0].parts == list(sealed)
    assert turns[0].exact
    ledger = Ledger()
    turns = arrange((changed, user(result("1"))), ledger, restore=lambda _: sealed)
    assert shown(turns)[0] == "assistant: one three call(1)"
    assert [loss.feature.value for loss in ledger.losses] == ["thinking_signature"]


def test_a_result_takes_the_form_of_its_call() -> None:
    free = ToolCall(call_id="1", name="patch", arguments="x", form=InputForm.TEXT)
    turns = arrange((assistant(free), user(result("1"))), Ledger())
    answer = turns[1].parts[0]
    assert isinstance(answer, ToolResult)
    assert answer.form is InputForm.TEXT
    assert turns[1].kind is TurnKind.RESULTS


def test_participant_names_are_reported() -> None:
    ledger = Ledger()
    arrange((Message(role=Role.USER, parts=(text("a"),), name="ada"),), ledger)
    assert [(loss.feature.value, loss.at) for loss in ledger.losses] == [("participant_name", "messages[0].name")]


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        ((text("a"), text("b")), "ab"),
        ((text("a"), call("1"), text("b")), "a\n\nb"),
        ((Text(text="a", id="msg_1"), Text(text="b", id="msg_1")), "ab"),
        ((Text(text="a", id="msg_1"), Text(text="b", id="msg_2")), "a\n\nb"),
        ((call("1"), text("a"), text("")), "a"),
    ],
)
def test_text_is_joined_by_units(parts: tuple[Part, ...], joined: str) -> None:
    assert joined_text(parts) == joined
