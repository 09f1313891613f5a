"""Tokens: joined they are the text, and they can be counted by eye."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.mock.answers.tokens import MEDIA_TOKENS, count, count_parts, count_request, tokens
from dragoman.model.parts import Document, Image, Inline, Passages, PlainText, Text, ToolCall, ToolResult, Url
from dragoman.model.request import Message, Request, Role
from dragoman.model.tools import FunctionTool, WebSearchTool


@given(st.text())
def test_the_tokens_of_a_text_are_the_text(text: str) -> None:
    found = list(tokens(text))
    assert "".join(found) == text
    assert all(found)
    assert count(text) == len(found)


def test_a_token_is_a_word_with_the_space_before_it() -> None:
    assert list(tokens("You said: hi \n")) == ["You", " said:", " hi", " \n"]


def test_long_words_are_cut() -> None:
    assert [len(token) for token in tokens("x" * 30)] == [12, 12, 6]


def test_the_tokens_of_a_very_long_text_are_estimated() -> None:
    assert count("four " * 100_000) == 100_000


def test_every_kind_of_part_is_counted() -> None:
    picture = Image(source=Url(url="https://example.org/a.png"))
    assert (
        count_parts((picture, Document(source=Inline(media_type="application/pdf", data="AAAA")))) == 2 * MEDIA_TOKENS
    )
    assert count_parts((Document(source=PlainText(text="one two")),)) == 2
    assert count_parts((Document(source=Passages(parts=(Text(text="one two three"),))),)) == 3
    assert count_parts((ToolCall(call_id="c", name="f", arguments="{}"),)) == 2
    assert count_parts((ToolResult(call_id="c", parts=(Text(text="one two"),)),)) == 2


def test_a_request_costs_its_messages_instructions_and_tools() -> None:
    plain = Request(origin="", model="text", messages=(Message(role=Role.USER, parts=(Text(text="one two"),)),))
    fuller = Request(
        origin="",
        model="text",
        messages=plain.messages,
        instructions=(Text(text="Be brief."),),
        tools=(FunctionTool(name="look", description="looks around", parameters={"type": "object"}), WebSearchTool()),
    )
    assert count_request(plain) == 5
    # Two words of instructions; name, two words and a schema of two pieces; one for what the provider runs itself.
    assert count_request(fuller) == 5 + 2 + 5 + 1
