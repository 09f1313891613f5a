"""The response: what is said on the wire is legal in every protocol, whole and streamed, and the same in both."""

from __future__ import annotations

import pytest

from dragoman.mock.answers.models import CREATED, echo_models
from tests.mock.calling import (
    PROTOCOLS,
    Json,
    answered,
    asked,
    blocks_of,
    calls_of,
    capped,
    finish_of,
    next_turn,
    question,
    streamed,
    text_of,
)
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.sdk.oracles import check_answer, check_request, check_stream

TOOLS = ("weather", "news")
# `slow` says the same as `text`; how it says it is the flight's business. The others do not end well.
ANSWERING = [name for name in echo_models() if name not in ("slow", "error", "failing", "broken")]


def usage_of(protocol: str, answer: Json) -> tuple[object, object]:
    usage = answer["usage"]
    assert isinstance(usage, dict)
    names = ("prompt_tokens", "completion_tokens") if protocol == CHAT else ("input_tokens", "output_tokens")
    return usage[names[0]], usage[names[1]]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("model", ANSWERING)
def test_a_whole_answer_is_legal(model: str, protocol: str) -> None:
    check_answer(protocol, answered(protocol, question(protocol, model, "Say 20", tools=TOOLS)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("model", ANSWERING)
def test_a_streamed_answer_is_legal_and_says_the_same(model: str, protocol: str) -> None:
    body = question(protocol, model, "Say 20", tools=TOOLS)
    told = check_stream(protocol, streamed(protocol, body))
    whole = answered(protocol, body)
    assert told.error is None
    assert text_of(protocol, told.body) == text_of(protocol, whole)
    assert [call[1:] for call in calls_of(protocol, told.body)] == [call[1:] for call in calls_of(protocol, whole)]
    assert finish_of(protocol, told.body) == finish_of(protocol, whole)
    assert usage_of(protocol, told.body) == usage_of(protocol, whole)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("model", ["text", "thinking", "parallel"])
def test_the_same_question_gets_the_same_answer(model: str, protocol: str) -> None:
    body = question(protocol, model, tools=TOOLS)
    assert answered(protocol, body) == answered(protocol, body)
    assert streamed(protocol, body) == streamed(protocol, body)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_other_questions_get_other_ids(protocol: str) -> None:
    first, second = (answered(protocol, question(protocol, "text", text)) for text in ("one", "two"))
    assert first["id"] != second["id"]


@pytest.mark.parametrize("protocol", [CHAT, RESPONSES])
def test_the_time_stands_still(protocol: str) -> None:
    answer = answered(protocol, question(protocol, "text"))
    assert answer["created" if protocol == CHAT else "created_at"] == CREATED


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("model", ["tools", "parallel", "agent"])
def test_a_loop_of_two_turns_ends_in_the_results(model: str, protocol: str, streams: bool) -> None:
    body = question(protocol, model, "Oslo", tools=TOOLS)
    first = check_stream(protocol, streamed(protocol, body)).body if streams else answered(protocol, body)
    calls = calls_of(protocol, first)
    assert [name for _, name, _ in calls] == list(TOOLS[: 2 if model == "parallel" else 1])
    assert all(arguments == {"city": "Oslo"} for _, _, arguments in calls)
    following = next_turn(protocol, body, first, results=("rain", "no news")[: len(calls)])
    second = answered(protocol, following)
    check_answer(protocol, second)
    assert "The tool weather answered: rain" in text_of(protocol, second)
    assert ("The tool news answered: no news" in text_of(protocol, second)) is (model == "parallel")
    assert not calls_of(protocol, second)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("model", ["thinking", "agent"])
def test_thoughts_survive_two_turns(model: str, protocol: str, streams: bool) -> None:
    body = question(protocol, model, "Oslo")
    first = check_stream(protocol, streamed(protocol, body)).body if streams else answered(protocol, body)
    second = answered(protocol, next_turn(protocol, body, first, text="And now"))
    assert "Of my earlier thoughts 1 came back to me." in text_of(protocol, second)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_thinking_is_told_in_the_native_members(protocol: str) -> None:
    first = blocks_of(protocol, answered(protocol, question(protocol, "thinking")))[0]
    native = {
        MESSAGES: {"type", "thinking", "signature"},
        CHAT: {"role", "content", "refusal", "reasoning_content"},
        RESPONSES: {"id", "type", "summary", "encrypted_content"},
    }
    assert set(first) == native[protocol]


LENGTH: dict[str, object] = {
    MESSAGES: "max_tokens",
    CHAT: "length",
    RESPONSES: {"reason": "max_output_tokens"},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("model", ["text", "thinking", "tools", "refusal", "long"])
def test_the_output_cap_is_kept(model: str, protocol: str) -> None:
    body = {**question(protocol, model, "one two three", tools=("weather",)), **capped(protocol, 2)}
    whole = answered(protocol, body)
    check_answer(protocol, whole)
    told = check_stream(protocol, streamed(protocol, body))
    for answer in (whole, told.body):
        assert finish_of(protocol, answer) == LENGTH[protocol]
        output = usage_of(protocol, answer)[1]
        assert isinstance(output, int) and output <= 2


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT])
def test_stop_strings_are_kept(protocol: str) -> None:
    stops: Json = {"stop_sequences": ["END"]} if protocol == MESSAGES else {"stop": ["END"]}
    body = {**question(protocol, "text", "one END two"), **stops}
    for answer in (answered(protocol, body), check_stream(protocol, streamed(protocol, body)).body):
        assert text_of(protocol, answer) == "You said: one "
        assert finish_of(protocol, answer) == ("stop_sequence" if protocol == MESSAGES else "stop")


NO_TOOLS: dict[str, object] = {MESSAGES: {"type": "none"}, CHAT: "none", RESPONSES: "none"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_wants_no_call_gets_text(protocol: str) -> None:
    body = question(protocol, "tools", tools=TOOLS, tool_choice=NO_TOOLS[protocol])
    assert text_of(protocol, answered(protocol, body)) == "You said: Hello there"


def test_legacy_functions_are_called_in_their_own_form() -> None:
    body = question(CHAT, "parallel", functions=[{"name": "weather"}, {"name": "news"}])
    message = blocks_of(CHAT, answered(CHAT, body))[0]
    assert message["function_call"] == {"name": "weather", "arguments": "{}"}
    assert finish_of(CHAT, answered(CHAT, body)) == "function_call"
    check_stream(CHAT, streamed(CHAT, body))


def test_a_cap_of_nothing_warms_the_cache_and_says_nothing_on_messages() -> None:
    answer = answered(MESSAGES, question(MESSAGES, "text", max_tokens=0))
    check_answer(MESSAGES, answer)
    assert answer["content"] == []


PNG = "iVBORw0KGgo="
PICTURES: dict[str, Json] = {
    MESSAGES: {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    CHAT: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    RESPONSES: {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pictures_are_told_by_type_and_size(protocol: str) -> None:
    content = [{"type": "input_text" if protocol == RESPONSES else "text", "text": "Look"}, PICTURES[protocol]]
    said = [{"role": "user", "content": content}]
    body = {**question(protocol, "text"), "input" if protocol == RESPONSES else "messages": said}
    check_request(protocol, body)
    assert text_of(protocol, answered(protocol, body)).endswith("You showed me an image (image/png, 8 bytes).")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_failing_stream_tells_its_error_in_the_protocol(protocol: str) -> None:
    told = check_stream(protocol, streamed(protocol, question(protocol, "failing", "hi")))
    assert told.error is not None and "Overloaded" in told.error


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_failing_answer_is_an_error_when_it_is_whole(protocol: str) -> None:
    assert asked(protocol, question(protocol, "failing"))[0] == (529 if protocol == MESSAGES else 503)
