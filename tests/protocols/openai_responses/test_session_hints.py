"""What a Responses request shows of who is speaking."""

from __future__ import annotations

import json

import pytest

from dragoman.model.session_hints import NO_HINTS, HintQuery, SessionHints
from dragoman.protocols.openai_responses.request_glance import ResponsesGlance
from dragoman.wire.duplicate_keys import OBJECT
from dragoman.wire.history_digest import digest

SOUGHT = HintQuery(
    key=b"k" * 32, distinctive_tools=frozenset({"task"}), spawning={"task": "prompt", "spawn_agent": "message"}
)
USER: dict[str, object] = {"role": "user", "content": "a"}


def speech(given: object, **members: object) -> SessionHints:
    return ResponsesGlance(OBJECT.decode(json.dumps({"model": "m", "input": given, **members}).encode())).session_hints(
        SOUGHT
    )


def test_the_shape_is_told() -> None:
    namespace: dict[str, object] = {
        "type": "namespace",
        "name": "multi_agent_v1",
        "tools": [{"name": "spawn_agent"}, {"name": "task"}],
    }
    found = speech([USER], instructions="12345", tools=[{"type": "function", "name": "shell"}, namespace])
    assert (found.instructions, found.tools, found.messages, found.distinctive_tools) == (5, 3, 1, ("task",))
    assert speech([USER], tools=[namespace] * 1000).distinctive_tools == ("task",)


def test_what_it_goes_on_from_is_told() -> None:
    found = speech("a", previous_response_id="resp_1", conversation={"id": "conv_1"}, prompt_cache_key="ses_1")
    assert found.previous == digest(SOUGHT.key, "response", "resp_1")
    assert (found.conversation, found.cache_key) == ("conv_1", "ses_1")
    assert speech("a", conversation="conv_2").conversation == "conv_2"
    assert speech([], previous_response_id="resp_1").previous == found.previous
    assert speech("a", client_metadata={"session_id": "s"}).metadata == b'{"session_id": "s"}'
    assert speech("a", client_metadata={"session_id": "s" * 20_000}).metadata == b""


def test_a_text_and_a_message_of_it_are_the_same() -> None:
    parts: list[object] = [{"type": "input_text", "text": "a"}]
    tips = {
        speech("a").head,
        speech([USER]).head,
        speech([{"type": "message", "role": "user", "content": [*parts]}]).head,
    }
    assert len(tips) == 1


def test_history_grows_over_items() -> None:
    reasoning: dict[str, object] = {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}
    call: dict[str, object] = {
        "type": "function_call",
        "call_id": "c1",
        "name": "spawn_agent",
        "arguments": json.dumps({"message": "look"}),
    }
    output: dict[str, object] = {"type": "function_call_output", "call_id": "c1", "output": "task_id: ses_1"}
    found = speech([USER, reasoning, call, output])
    assert found.before == (speech([USER]).head,)
    assert found.prompts == (digest(SOUGHT.key, "prompt", "look"),)
    assert found.tasks == ("ses_1",)
    assert speech([USER, call, {**output, "output": [{"type": "input_text", "text": "cleared"}]}]).head == found.head
    custom: dict[str, object] = {"type": "custom_tool_call", "call_id": "c2", "name": "task", "input": '{"prompt":"x"}'}
    assert len(speech([USER, custom]).prompts) == 1


def test_an_answer_of_several_items_is_one() -> None:
    answer: list[object] = [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"},
    ]
    found = speech([USER, *answer, {"type": "function_call_output", "call_id": "c1", "output": "x"}])
    assert found.before == (speech([USER]).head,)


def test_pitfall_506_late_instructions_and_reminders_change_nothing() -> None:
    late: dict[str, object] = {"role": "developer", "content": "late"}
    reminder: dict[str, object] = {"role": "user", "content": "<system-reminder>x</system-reminder>"}
    assert speech([USER]).head == speech([USER, late]).head == speech([reminder, USER]).head


def test_media_are_told_apart() -> None:
    def seen(url: str) -> dict[str, object]:
        return {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": url}],
        }

    assert speech([seen("x")]).head != speech([seen("y")]).head


@pytest.mark.parametrize("body", [b'{"input":1}', b'{"input":[1]}', b'{"input":"a","tools":1}'])
def test_what_cannot_be_read_shows_nothing(body: bytes) -> None:
    assert ResponsesGlance(OBJECT.decode(body)).session_hints(SOUGHT) == NO_HINTS
