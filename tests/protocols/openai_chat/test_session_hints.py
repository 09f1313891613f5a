"""What a Chat request shows of who is speaking."""

from __future__ import annotations

import json

import pytest

from dragoman.model.session_hints import NO_HINTS, HintQuery, SessionHints
from dragoman.protocols.openai_chat.request_glance import ChatGlance
from dragoman.wire.duplicate_keys import OBJECT

SOUGHT = HintQuery(key=b"k" * 32, distinctive_tools=frozenset({"task"}), spawning={"task": "prompt"})
USER: dict[str, object] = {"role": "user", "content": "a"}


def speech(*messages: object, **members: object) -> SessionHints:
    return ChatGlance(
        OBJECT.decode(json.dumps({"model": "m", "messages": [*messages], **members}).encode())
    ).session_hints(SOUGHT)


def call(call_id: str, tool: str = "task", arguments: str = '{"prompt":"look"}') -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}


def test_the_shape_is_told() -> None:
    tools: list[object] = [{"type": "function", "function": {"name": name}} for name in ("bash", "task")]
    found = speech(
        {"role": "system", "content": "12345"}, USER, tools=[*tools, {"type": "custom"}], prompt_cache_key="ses_1"
    )
    assert (found.instructions, found.tools, found.messages, found.distinctive_tools) == (5, 3, 1, ("task",))
    assert found.cache_key == "ses_1"
    assert speech(USER, prompt_cache_key="x" * 1000).cache_key == ""
    assert speech(USER, tools=[*tools] * 1000).distinctive_tools == ("task",)


def test_pitfall_506_reminders_and_late_instructions_change_nothing() -> None:
    parts: list[object] = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]
    reminded: list[object] = [{"type": "text", "text": "<system-reminder>x</system-reminder>"}, *parts]
    late: dict[str, object] = {"role": "developer", "content": "late"}
    tips = {
        speech(USER).head,
        speech({"role": "user", "content": [*parts]}).head,
        speech({"role": "user", "content": [*reminded]}).head,
        speech(USER, late).head,
    }
    assert len(tips) == 1


def test_history_grows() -> None:
    answer: dict[str, object] = {"role": "assistant", "content": None, "tool_calls": [call("c1")]}
    result: dict[str, object] = {"role": "tool", "tool_call_id": "c1", "content": "task_id: ses_1\nwell"}
    found = speech(USER, answer, result)
    assert found.before == (speech(USER).head,)
    assert len(found.prompts) == 1 and found.tasks == ("ses_1",)
    assert found.call
    other = speech(USER, {"role": "assistant", "content": "", "tool_calls": [call("c2")]}, result)
    assert other.head != found.head
    listed: dict[str, object] = {
        "role": "tool",
        "tool_call_id": "c1",
        "content": [{"type": "text", "text": "task_id: ses_2"}],
    }
    assert speech(USER, answer, listed).head == found.head
    assert speech(USER, answer, listed).tasks == ("ses_2",)


def test_media_are_told_apart() -> None:
    def seen(url: str) -> dict[str, object]:
        return {
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": url}}],
        }

    assert speech(seen("x")).head != speech(seen("y")).head


def test_calls_without_a_function_are_calls() -> None:
    found = speech(USER, {"role": "assistant", "tool_calls": [{"id": "c1"}]}, {"role": "user", "content": "b"})
    assert found.call and not found.prompts


@pytest.mark.parametrize("body", [b'{"messages":1}', b'{"messages":[{"content":[1]}]}', b'{"messages":[],"tools":1}'])
def test_what_cannot_be_read_shows_nothing(body: bytes) -> None:
    assert ChatGlance(OBJECT.decode(body)).session_hints(SOUGHT) == NO_HINTS
