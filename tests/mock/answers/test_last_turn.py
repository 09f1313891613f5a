"""What a request says: the last turn, the tools at hand, and what was shown."""

from __future__ import annotations

import pytest

from dragoman.mock.answers.last_turn import LastTurn, ToolOutput, describe_media, orphan, read_last_turn
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Audio, Document, FileRef, Image, Inline, Part, Passages, PlainText, Text, Url
from dragoman.model.request import Request
from dragoman.protocols.registry import codec_of
from tests.sdk.names import CHAT, MESSAGES, RESPONSES


def request(protocol: str, **members: object) -> Request:
    body = {"model": "text", **members}
    decoded: JsonObject = body  # type: ignore[assignment]  # literal JSON of the tests
    return codec_of(protocol).decode_request(decoded)


def heard(protocol: str, **members: object) -> LastTurn:
    return read_last_turn(request(protocol, **members))


def user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def function(name: str) -> dict[str, object]:
    return {"type": "function", "name": name, "parameters": {"type": "object"}}


def test_only_what_the_user_said_since_the_last_answer_counts() -> None:
    messages = [user("one"), {"role": "assistant", "content": "two"}, user("three"), user("four")]
    assert heard(CHAT, messages=messages).text == "three\nfour"


def test_instructions_are_not_what_the_user_said() -> None:
    assert heard(CHAT, messages=[{"role": "system", "content": "Be brief."}, user("one")]).text == "one"


def test_results_are_heard_under_the_name_of_their_call() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain", "is_error": True}
    messages = [user("a"), {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    assert heard(MESSAGES, messages=messages).results == (ToolOutput(name="weather", text="rain", is_error=True),)
    assert orphan(request(MESSAGES, messages=messages)) is None


def test_a_result_of_a_call_that_nobody_made_is_found() -> None:
    items = [{"type": "function_call_output", "call_id": "call_x", "output": "rain"}]
    assert orphan(request(RESPONSES, input=items)) == "call_x"


CHOICES: list[tuple[object, list[str]]] = [
    ("auto", ["a", "b"]),
    ("required", ["a", "b"]),
    ("none", []),
    ({"type": "function", "name": "b"}, ["b"]),
    ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "b"}]}, ["b"]),
    ({"type": "web_search"}, []),
]


@pytest.mark.parametrize(("choice", "names"), CHOICES, ids=lambda value: str(value)[:40])
def test_the_choice_says_which_tools_are_at_hand(choice: object, names: list[str]) -> None:
    found = heard(RESPONSES, input="hi", tools=[function("a"), function("b")], tool_choice=choice)
    assert [tool.name for tool in found.tools] == names


def test_tools_that_the_provider_would_run_are_not_at_hand() -> None:
    found = heard(RESPONSES, input="hi", tools=[{"type": "web_search"}, function("a")])
    assert [tool.name for tool in found.tools] == ["a"]


@pytest.mark.parametrize(
    ("members", "thinks"),
    [({}, True), ({"thinking": {"type": "disabled"}}, False), ({"thinking": {"type": "adaptive"}}, True)],
    ids=["nothing said", "disabled", "adaptive"],
)
def test_thinking_can_be_turned_off(members: dict[str, object], thinks: bool) -> None:
    assert heard(MESSAGES, messages=[user("a")], **members).thinks is thinks


def test_no_effort_turns_thinking_off() -> None:
    assert not heard(CHAT, messages=[user("a")], reasoning_effort="none").thinks


def test_parallel_calls_can_be_turned_off() -> None:
    assert not heard(CHAT, messages=[user("a")], parallel_tool_calls=False).parallel


SHOWN: list[tuple[Part, str | None]] = [
    (Image(source=Inline(media_type="image/png", data="iVBORw0KGgo=")), "an image (image/png, 8 bytes)"),
    (Image(source=Url(url="https://example.org/a.png")), "an image (at https://example.org/a.png)"),
    (Document(source=FileRef(issuer="x", file_id="file_1"), title="Plan"), "a document (file file_1, titled Plan)"),
    (Document(source=PlainText(text="né")), "a document (text/plain, 3 bytes)"),
    (Document(source=Passages(parts=(Text(text="a"),))), "a document (passages: 1)"),
    (Audio(source=Inline(media_type="audio/wav", data="AAAA")), "a sound (audio/wav, 3 bytes)"),
    (Text(text="a"), None),
]


@pytest.mark.parametrize(("part", "words"), SHOWN, ids=lambda value: str(value)[:40])
def test_media_are_told_by_type_and_size(part: Part, words: str | None) -> None:
    assert describe_media(part) == words
