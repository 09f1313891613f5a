"""What a Messages request shows of who is speaking."""

from __future__ import annotations

import json

import pytest

from dragoman.model.session_hints import NO_HINTS, HintQuery, SessionHints
from dragoman.protocols.anthropic_messages.request_glance import MessagesGlance
from dragoman.wire.duplicate_keys import OBJECT

SOUGHT = HintQuery(key=b"k" * 32, distinctive_tools=frozenset({"Agent"}), spawning={"Agent": "prompt"})
CALL: dict[str, object] = {"type": "tool_use", "id": "c1", "name": "Agent", "input": {"prompt": "look"}}


def speech(*messages: object, **members: object) -> SessionHints:
    return MessagesGlance(
        OBJECT.decode(json.dumps({"model": "m", "messages": [*messages], **members}).encode())
    ).session_hints(SOUGHT)


def said(role: str, *blocks: object) -> dict[str, object]:
    return {"role": role, "content": [*blocks]}


def text(words: str, **more: object) -> dict[str, object]:
    return {"type": "text", "text": words, **more}


def test_the_shape_is_told() -> None:
    found = speech(
        said("user", text("a")),
        system=[text("x-anthropic-billing-header: cch=1;"), text("12345")],
        tools=[{"name": "Agent"}, {"name": "Bash"}],
        metadata={"user_id": "u"},
    )
    assert (found.instructions, found.tools, found.messages, found.distinctive_tools) == (5, 2, 1, ("Agent",))
    assert found.user == "u"
    assert speech(said("user", text("a")), metadata={"user_id": "u" * 3000}).user == ""
    assert speech(said("user", text("a")), tools=[{"name": "Agent"}] * 1000).distinctive_tools == ("Agent",)


def test_pitfall_506_marks_and_forms_of_the_same_words_change_nothing() -> None:
    plain = speech({"role": "user", "content": "a"}, system="S")
    marked = speech(said("user", text("a", cache_control={"type": "ephemeral"})), system=[text("S")])
    reminded = speech(said("user", text("<system-reminder>x</system-reminder>"), text("a")), system="S")
    renewed = speech({"role": "user", "content": "a"}, system=[text("x-anthropic-billing-header: cch=2;"), text("S")])
    assert plain.head == marked.head == reminded.head == renewed.head
    assert plain.first_prompt == reminded.first_prompt


def test_thinking_arguments_and_results_change_nothing_but_ids_do() -> None:
    begun: dict[str, object] = {"role": "user", "content": "a"}

    def tip(call: object, result: object, *thoughts: object) -> str:
        return speech(begun, said("assistant", *thoughts, call), said("user", result)).head

    result: dict[str, object] = {"type": "tool_result", "tool_use_id": "c1", "content": "long"}
    cleared: dict[str, object] = {"type": "tool_result", "tool_use_id": "c1", "content": [text("[cleared]")]}
    reordered: dict[str, object] = {"input": {}, "name": "Agent", "id": "c1", "type": "tool_use"}
    thought: dict[str, object] = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert tip(CALL, result) == tip(reordered, cleared, thought, {"type": "redacted_thinking", "data": "x"})
    assert tip(CALL, result) != tip({**CALL, "id": "c2"}, {**result, "tool_use_id": "c2"})


def test_media_are_told_apart() -> None:
    def image(data: str) -> dict[str, object]:
        return {"type": "image", "source": {"type": "base64", "data": data}}

    tips = {speech(said("user", text("a"), image(data))).head for data in ("aaaa", "aaab", "aaaaa")}
    assert len(tips) == 3


def test_prompts_and_tasks_are_those_of_the_latest_answer() -> None:
    result: dict[str, object] = {"type": "tool_result", "tool_use_id": "c1", "content": [text('<task id="ses_1">')]}
    found = speech({"role": "user", "content": "a"}, said("assistant", CALL), said("user", result))
    assert len(found.prompts) == 1 and found.tasks == ("ses_1",)
    later = speech(
        {"role": "user", "content": "a"}, said("assistant", CALL), said("user", result), said("assistant", text("b"))
    )
    assert later.prompts == later.tasks == () and later.call == ""


def test_late_instructions_and_other_blocks_are_read() -> None:
    hosted: dict[str, object] = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    begun: dict[str, object] = {"role": "user", "content": "a"}
    found = speech(
        begun, said("assistant", hosted, text("b")), {"role": "system", "content": "late"}, said("user", text("c"))
    )
    again = speech(begun, said("assistant", hosted, text("b")), said("user", text("c")))
    assert found.head == again.head
    assert speech(said("system", text("lead")), begun).instructions == 4
    assert speech({"role": "user"}, {"role": "assistant"}).head == ""


@pytest.mark.parametrize("body", [b'{"messages":1}', b'{"messages":[{"content":[1]}]}', b'{"messages":[],"tools":1}'])
def test_what_cannot_be_read_shows_nothing(body: bytes) -> None:
    assert MessagesGlance(OBJECT.decode(body)).session_hints(SOUGHT) == NO_HINTS
