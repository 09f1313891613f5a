"""Scripts are found, read and followed by the turns of the conversation alone."""

from __future__ import annotations

import pytest

from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES, encrypted
from dragoman.mock.script import COMPACTED, ScriptError, ScriptLine, ScriptStep, parse, script_in, step_of, turns_of
from tests.mock.asking import read, request, said
from tests.mock.calling import PROTOCOLS, declared
from tests.sdk.digging import Object

STEPS = "Go.\n<mock>\nsay one\n---\nsay two\n---\nsay three\n</mock>"


def test_the_last_script_of_a_text_counts_and_may_hold_others() -> None:
    assert script_in("no script") is None
    assert script_in("a <mock>say 1</mock> b <mock>say 2</mock>") == "say 2"
    assert script_in('<mock>call Task {"prompt": "<mock>say hi</mock>"}</mock>') == (
        'call Task {"prompt": "<mock>say hi</mock>"}'
    )
    assert script_in("<mock>never closed") is None
    assert script_in("</mock> only closed") is None


def test_steps_are_lines_between_dashes() -> None:
    assert parse("think Hm.\nsay  Yes. \n\n---\nempty\n") == [
        (ScriptLine("think", "Hm."), ScriptLine("say", "Yes.")),
        (ScriptLine("empty"),),
    ]


def test_text_of_several_lines_stands_between_marks() -> None:
    (step,) = parse("call apply_patch <<END\n*** Begin\n  kept\n---\nEND\nsay <<E\na\nb\nE")
    assert step == (ScriptLine("call", "apply_patch *** Begin\n  kept\n---"), ScriptLine("say", "a\nb"))


@pytest.mark.parametrize("script", ["shout hello", "say <<END\nno end", "call", "call <<END\n{}\nEND"])
def test_a_script_that_makes_no_sense_says_why(script: str) -> None:
    with pytest.raises(ScriptError):
        parse(script)


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_as_many_steps_are_over_as_turns_were_taken(protocol: str, turns: int) -> None:
    step = step_of(read(protocol, _after(protocol, turns)))
    assert step is not None
    assert step.over is (turns == 3)
    assert step.lines == (() if turns == 3 else (ScriptLine("say", ("one", "two", "three")[turns]),))


def _after(protocol: str, turns: int) -> Object:
    body = said(protocol, STEPS)
    name = "input" if protocol == RESPONSES else "messages"
    first = [{"role": "user", "content": STEPS}]
    more = [{"role": role, "content": role} for _ in range(turns) for role in ("assistant", "user")]
    return {**body, name: first + more}


def test_without_a_script_there_is_no_step() -> None:
    assert step_of(request(CHAT, "Hello.")) is None
    assert turns_of(request(CHAT, "Hello.")) == 0


def test_calls_of_one_turn_are_one_turn_even_if_their_results_stand_between_them() -> None:
    turn = "call_" + "a" * 16
    items: list[Object] = [{"role": "user", "content": STEPS}]
    for letter in "xy":
        call_id = turn + letter * 8
        items.append({"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"})
        items.append({"type": "function_call_output", "call_id": call_id, "output": "1"})
    assert turns_of(read(RESPONSES, {"model": "gpt-5", "input": items})) == 1


def test_instructions_in_between_end_no_turn() -> None:
    messages = [
        {"role": "user", "content": STEPS},
        {"role": "assistant", "content": "a"},
        {"role": "developer", "content": "be brief"},
        {"role": "assistant", "content": "b"},
    ]
    assert turns_of(read(CHAT, {"model": "gpt-5", "messages": messages})) == 1


def test_a_compaction_stands_for_the_turns_that_it_replaced() -> None:
    item = {"type": "compaction", "encrypted_content": encrypted(f"x\n{COMPACTED}2")}
    body: Object = {"model": "gpt-5", "input": [{"role": "user", "content": STEPS}, item]}
    step = step_of(read(RESPONSES, body))
    assert step is not None and step.lines == (ScriptLine("say", "three"),)


def test_a_retry_has_the_same_key_and_anybody_else_another() -> None:
    def key(step: ScriptStep | None) -> str:
        assert step is not None
        return step.key

    first = key(step_of(request(MESSAGES, STEPS)))
    assert key(step_of(request(MESSAGES, STEPS, system="another nonce"))) == first
    assert key(step_of(request(MESSAGES, STEPS, tools=declared(MESSAGES, "f")))) != first
    assert key(step_of(request(MESSAGES, "Other. " + STEPS))) != first
    assert key(step_of(request(CHAT, STEPS))) != first
