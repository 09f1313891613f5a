"""The models: what each says to what it heard."""

from __future__ import annotations

import json

import pytest
from anthropic.types import ModelInfo
from openai.types import Model

from dragoman.mock.answers.last_turn import LastTurn, ToolOutput
from dragoman.mock.answers.models import ECHO_MODELS, MAX_OUTPUT_TOKENS, echo_models, listed, one_listed
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.parts import InputForm, Part, Refusal, Text, Thinking, ToolCall
from dragoman.model.request import OutputFormat, OutputKind
from dragoman.model.tools import FunctionTool, Namespace, TextTool
from tests.sdk.names import CHAT, MESSAGES, RESPONSES

CITY = FunctionTool(name="weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}})
NEWS = FunctionTool(name="news", namespace=Namespace(name="press"))
WRITE = TextTool(name="write")


def said(model: str, heard: LastTurn) -> tuple[Part, ...]:
    answer = ECHO_MODELS[model].respond(heard)
    assert not isinstance(answer, Failure)
    return answer


def text(model: str, heard: LastTurn) -> str:
    (part,) = said(model, heard)
    assert isinstance(part, Text)
    return part.text


def test_every_model_has_a_name_and_one_line_about_it() -> None:
    assert echo_models() == tuple(ECHO_MODELS)
    assert all(model.description and "\n" not in model.description for model in ECHO_MODELS.values())


def test_text_says_what_was_said() -> None:
    assert text("text", LastTurn(text="Hello")) == "You said: Hello"


def test_who_says_nothing_is_greeted() -> None:
    assert text("text", LastTurn()).startswith("Hello!")


def test_text_says_what_it_was_shown() -> None:
    heard = LastTurn(text="Look", attachments=("an image (image/png, 8 bytes)", "a sound (audio/wav, 3 bytes)"))
    expected = "You said: Look\n\nYou showed me an image (image/png, 8 bytes) and a sound (audio/wav, 3 bytes)."
    assert text("text", heard) == expected


def test_tools_calls_the_first_tool() -> None:
    call = ToolCall(call_id="", name="weather", arguments='{"city":"Oslo"}')
    assert said("tools", LastTurn(text="Oslo", tools=(CITY, NEWS))) == (call,)


def test_tools_quotes_what_the_tool_gave() -> None:
    results = (ToolOutput(name="weather", text="rain"), ToolOutput(name="", text="boom", is_error=True))
    expected = "The tool weather answered: rain\n\nThe tool without a name failed: boom"
    assert text("tools", LastTurn(tools=(CITY,), results=results)) == expected


@pytest.mark.parametrize("model", ["tools", "parallel"])
def test_without_tools_there_is_text(model: str) -> None:
    assert text(model, LastTurn(text="Oslo")) == "You said: Oslo"


def test_parallel_calls_the_first_two_tools() -> None:
    calls = said("parallel", LastTurn(text="Oslo", tools=(CITY, NEWS, WRITE)))
    assert calls[1] == ToolCall(call_id="", name="news", arguments="{}", namespace="press")
    assert len(calls) == 2


def test_parallel_calls_one_tool_where_only_one_call_is_wanted() -> None:
    assert len(said("parallel", LastTurn(tools=(CITY, NEWS), parallel=False))) == 1


def test_a_tool_that_takes_text_gets_text() -> None:
    call = ToolCall(call_id="", name="write", arguments="a poem", form=InputForm.TEXT)
    assert said("tools", LastTurn(text="a poem", tools=(WRITE,))) == (call,)


def test_thinking_comes_before_text() -> None:
    thought, answer = said("thinking", LastTurn(text="Hello there"))
    assert thought == Thinking(text="I heard 2 words. I will say it again.")
    assert answer == Text(text="You said: Hello there")


@pytest.mark.parametrize("model", ["thinking", "agent"])
def test_who_wants_no_thinking_gets_none(model: str) -> None:
    assert said(model, LastTurn(text="Hello", thinks=False)) == (Text(text="You said: Hello"),)


def test_an_agent_thinks_before_and_after_its_call() -> None:
    before = said("agent", LastTurn(text="Oslo", tools=(CITY,)))
    after = said("agent", LastTurn(tools=(CITY,), results=(ToolOutput(name="weather", text="rain"),), thoughts=1))
    assert [type(part) for part in before] == [Thinking, ToolCall]
    assert [type(part) for part in after] == [Thinking, Text]


def test_json_is_valid_for_the_schema() -> None:
    schema = OutputFormat(kind=OutputKind.SCHEMA, schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    assert json.loads(text("json", LastTurn(output=schema))) == {"n": 1}


@pytest.mark.parametrize("output", [None, OutputFormat(kind=OutputKind.JSON)], ids=["not asked for", "any JSON"])
def test_json_without_a_schema_holds_what_was_said(output: OutputFormat | None) -> None:
    assert json.loads(text("json", LastTurn(text="Hello", output=output))) == {"said": "Hello"}


def test_a_refusal_has_words() -> None:
    (part,) = said("refusal", LastTurn())
    assert isinstance(part, Refusal) and part.text


@pytest.mark.parametrize(
    ("words", "number"),
    [("", 2000), ("Say 12 words", 12), ("0", 1), ("9999999", MAX_OUTPUT_TOKENS)],
    ids=lambda v: str(v) or "-",
)
def test_long_says_as_many_words_as_it_is_asked_for(words: str, number: int) -> None:
    assert len(text("long", LastTurn(text=words)).split()) == number


@pytest.mark.parametrize(
    ("words", "status", "kind"),
    [
        ("", 429, FailureKind.RATE_LIMITED),
        ("give me a 503", 503, FailureKind.UNAVAILABLE),
        ("401", 401, FailureKind.UNAUTHENTICATED),
        ("418", 418, FailureKind.OTHER),
        ("14290", 429, FailureKind.RATE_LIMITED),
        ("200", 429, FailureKind.RATE_LIMITED),
    ],
)
def test_the_number_chooses_the_error(words: str, status: int, kind: FailureKind) -> None:
    failure = ECHO_MODELS["error"].respond(LastTurn(text=words))
    assert isinstance(failure, Failure)
    assert (failure.status, failure.kind) == (status, kind)


MODELS = {"first": "says one thing", "second": "says another"}


def test_a_messages_client_can_read_the_list() -> None:
    page = listed(MODELS, MESSAGES)
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("first", "second", False)
    assert page["data"] == [one_listed(name, words, MESSAGES) for name, words in MODELS.items()]
    for name, words in MODELS.items():
        found = ModelInfo.model_validate(one_listed(name, words, MESSAGES))
        assert (found.id, found.type, found.created_at.year) == (name, "model", 2026)
        assert found.display_name == words


@pytest.mark.parametrize("protocol", [CHAT, RESPONSES])
def test_an_openai_client_can_read_the_list(protocol: str) -> None:
    page = listed(MODELS, protocol)
    data = page["data"]
    assert isinstance(data, list) and page["object"] == "list"
    assert [Model.model_validate(one).id for one in data] == ["first", "second"]
    assert one_listed("x", "a word", protocol)["object"] == "model"
