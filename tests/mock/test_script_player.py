"""Each word of a script becomes the parts, or the fault, that it stands for."""

from __future__ import annotations

import pytest

from dragoman.mock.answers.models import Ending
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.script_player import Play, play
from dragoman.mock.stored.memory import MockStore
from dragoman.model.failure import FailureKind
from dragoman.model.parts import InputForm, Refusal, Text, Thinking, ToolCall
from dragoman.model.request import Request
from tests.mock.asking import request
from tests.mock.calling import CITY, PROTOCOLS, declared
from tests.sdk.digging import Object

FORMAT: dict[str, Object] = {
    MESSAGES: {"output_config": {"format": {"type": "json_schema", "schema": CITY}}},
    CHAT: {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": CITY}}},
    RESPONSES: {"text": {"format": {"type": "json_schema", "name": "x", "schema": CITY}}},
}


def played(script: str, protocol: str = CHAT, **more: object) -> Play:
    return play(scripted(script, protocol, **more), MockStore().once)


def scripted(script: str, protocol: str = CHAT, **more: object) -> Request:
    return request(protocol, f"Go.\n<mock>\n{script}\n</mock>", **more)


def test_thoughts_text_and_refusals_are_said_in_their_order() -> None:
    assert played("think Hm.\nsay One.\nsay Two.\nrefuse No.").parts == (
        Thinking(text="Hm."),
        Text(text="One.\nTwo."),
        Refusal(text="No."),
    )


def test_calls_are_made_of_declared_tools() -> None:
    parts = played('call f {"city": "Rome"}\ncall g', tools=declared(CHAT, "f", "g")).parts
    assert parts == (
        ToolCall(call_id="", name="f", arguments='{"city": "Rome"}'),
        ToolCall(call_id="", name="g", arguments="{}"),
    )


def test_a_call_of_a_tool_that_is_not_declared_is_told() -> None:
    assert played("call h {}").parts == (Text(text="The tool h is not declared."),)


def test_free_text_is_the_input_of_a_text_tool_and_an_object_for_a_function() -> None:
    script = "call patch <<END\n*** Begin\nEND"
    custom: list[Object] = [{"type": "custom", "name": "patch"}]
    assert played(script, RESPONSES, tools=custom).parts == (
        ToolCall(call_id="", name="patch", arguments="*** Begin", form=InputForm.TEXT),
    )
    assert played('call patch {"input": "x"}', RESPONSES, tools=custom).parts == (
        ToolCall(call_id="", name="patch", arguments="x", form=InputForm.TEXT),
    )
    assert played(script, tools=declared(CHAT, "patch")).parts == (
        ToolCall(call_id="", name="patch", arguments='{"input":"*** Begin"}'),
    )


@pytest.mark.parametrize("name", ["read", "files.read", "files__read", "files/read"])
def test_a_tool_of_a_namespace_is_found_under_any_spelling(name: str) -> None:
    group = {"type": "namespace", "name": "files", "description": "", "tools": declared(RESPONSES, "read")}
    (call,) = played(f"call {name} {{}}", RESPONSES, tools=[group]).parts
    assert isinstance(call, ToolCall) and (call.name, call.namespace) == ("read", "files")


def test_a_name_in_the_script_may_be_that_of_a_namespace_that_was_flattened() -> None:
    (call,) = played("call files.read {}", tools=declared(CHAT, "files__read")).parts
    assert isinstance(call, ToolCall) and call.name == "files__read"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_json_fits_the_schema_that_was_asked_for(protocol: str) -> None:
    for script in ("json", "call not_declared {}"):
        assert played(script, protocol, **FORMAT[protocol]).parts == (Text(text='{"city":"mock"}'),)
    assert play(request(protocol, "No script.", **FORMAT[protocol]), MockStore().once).parts == (
        Text(text='{"city":"mock"}'),
    )


FORCED: dict[str, object] = {
    MESSAGES: {"type": "tool", "name": "g"},
    CHAT: {"type": "function", "function": {"name": "g"}},
    RESPONSES: {"type": "function", "name": "g"},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_json_is_a_call_where_a_tool_is_forced(protocol: str) -> None:
    call = ToolCall(call_id="", name="g", arguments='{"city":"mock"}')
    tools = declared(protocol, "f", "g")
    assert played("json", protocol, tools=tools, tool_choice=FORCED[protocol]).parts == (call,)
    forced = request(protocol, "No script.", tools=tools, tool_choice=FORCED[protocol])
    assert play(forced, MockStore().once).parts == (call,)


def test_one_call_is_made_where_one_at_a_time_is_asked_for() -> None:
    parts = played("call f {}\ncall g {}", tools=declared(CHAT, "f", "g"), parallel_tool_calls=False).parts
    assert parts == (ToolCall(call_id="", name="f", arguments="{}"),)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, FailureKind.RATE_LIMITED), (503, FailureKind.UNAVAILABLE), (529, FailureKind.OVERLOADED)],
)
def test_a_failure_comes_once_and_then_the_rest_of_the_step(status: int, kind: FailureKind) -> None:
    once = MockStore().once
    asked = scripted(f"fail {status} Slow down.\nsay Done.")
    failure = play(asked, once).failure
    assert failure is not None and (failure.kind, failure.status, failure.message) == (kind, status, "Slow down.")
    assert play(asked, once) == Play(parts=(Text(text="Done."),))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_overflow_comes_once_in_words_that_are_recognised(protocol: str) -> None:
    once = MockStore().once
    asked = scripted("overflow\nsay Done.", protocol)
    failure = play(asked, once).failure
    assert failure is not None and failure.kind is FailureKind.CONTEXT_OVERFLOW
    assert play(asked, once).failure is None


def test_a_break_comes_once_and_a_pause_always() -> None:
    once = MockStore().once
    asked = scripted("break\npause 0.5\npause 1\nsay Done.")
    assert play(asked, once) == Play(parts=(Text(text="Done."),), wait=1.5, ending=Ending.BREAKS)
    assert play(asked, once) == Play(parts=(Text(text="Done."),), wait=1.5)


def test_an_empty_answer_comes_once_if_anything_is_written_beside_it() -> None:
    once = MockStore().once
    asked = scripted("empty\nsay Done.")
    assert [play(asked, once).parts for _ in range(2)] == [(), (Text(text="Done."),)]
    asked = scripted("empty")
    assert [play(asked, once).parts for _ in range(2)] == [(), ()]


@pytest.mark.parametrize("script", ["fail soon", "fail 200", "shout"])
def test_a_script_with_an_error_is_a_400_that_says_so(script: str) -> None:
    failure = played(script).failure
    assert failure is not None and failure.status == 400 and failure.message.startswith("script: ")


def test_without_a_script_the_name_of_the_model_chooses_what_echo_does() -> None:
    once = MockStore().once
    assert play(request(CHAT, "Hello."), once).parts == (Text(text="You said: Hello."),)
    assert play(request(CHAT, "Hello.", model="mock-broken"), once).ending is Ending.BREAKS
    assert play(request(CHAT, "Hello.", model="mock-slow"), once).pace > 0
    (call,) = play(request(CHAT, "Hello.", model="mock-tools", tools=declared(CHAT, "f")), once).parts
    assert isinstance(call, ToolCall)
    assert play(request(CHAT, "500", model="mock-error"), once).failure is not None


def test_a_script_that_is_over_says_so() -> None:
    messages = [{"role": "user", "content": "<mock>say a</mock>"}, {"role": "assistant", "content": "a"}]
    asked = request(CHAT, "", messages=[*messages, {"role": "user", "content": "And now?"}])
    assert play(asked, MockStore().once).parts == (Text(text="The script has no step left."),)
