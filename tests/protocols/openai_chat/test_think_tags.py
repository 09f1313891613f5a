"""Inline thinking, wherever the text is cut."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.openai_chat.think_tags import InlineThinking, split_thinking
from tests.protocols.openai_chat.room import A
from tests.protocols.openai_chat.second_turn import CLIENTS, Conversation, lost

CASES = [
    ("<think>why</think>\n\nbecause", "why", "because"),
    ("\n<think>a<b</think>c", "a<b", "c"),
    ("<thought>why</thought>because</think>", "why", "because</think>"),
    ("<reasoning>I </reasoning><reasoning>look</reasoning>1 < 2", "I look", "1 < 2"),
    ("<reasoning>I look</reasoning>\n<reas", "I look", "<reas"),
    ("no <think>tags</think>", None, "no <think>tags</think>"),
    ("<think>cut", "cut", ""),
    ("<thi", None, "<thi"),
    ("<think></think>x", None, "x"),
    ("", None, ""),
]


@pytest.mark.parametrize(("content", "thought", "answer"), CASES)
def test_whole_text_is_split(content: str, thought: str | None, answer: str) -> None:
    assert split_thinking(content) == (thought, answer)


@pytest.mark.parametrize(("content", "thought", "answer"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_split_does_not_depend_on_the_cuts(content: str, thought: str | None, answer: str, size: int) -> None:
    splitter = InlineThinking()
    pieces = [splitter.feed(content[at : at + size]) for at in range(0, len(content), size)]
    pieces.append(splitter.close())
    assert "".join(piece[0] for piece in pieces) == (thought or "")
    assert "".join(piece[1] for piece in pieces) == answer


@pytest.mark.parametrize("client", CLIENTS)
def test_item_3_text_that_gemini_marks_as_thought_is_reasoning(client: str) -> None:
    marked: JsonObject = {"google": {"thought": True, "thought_signature": "sig-a"}}
    conversation = Conversation(client, "gemini-2.5-flash", "google")
    conversation.hears({"content": "<thought>I greet</thought>Hello.", "extra_content": marked}, finish="stop")
    conversation.says("and now?")
    assert conversation.messages()[1] == {
        "role": "assistant",
        "content": "Hello.",
        "extra_content": {"google": {"thought_signature": "sig-a"}},
    }
    assert lost(conversation) == [("dropped", "thinking")]


@pytest.mark.parametrize(
    "deltas",
    [
        [("<thought>I ", True), ("greet", True), ("</thought>Hel", False), ("lo.", False)],
        [("<thought>I greet", True), ("</thou", False), ("ght>Hello.", False)],
        [("I ", True), ("greet", True), ("Hello.", False)],
    ],
    ids=["tags", "a tag in two", "marks alone"],
)
def test_item_3_marked_text_of_a_stream_is_reasoning(deltas: list[tuple[str, bool]]) -> None:
    mark: JsonObject = {"extra_content": {"google": {"thought": True}}}
    conversation = Conversation(A, "gemini-2.5-flash", "google")
    said = [{"content": text, **(mark if marked else {})} for text, marked in deltas]
    content = conversation.streams(*said, finish="stop")
    assert [
        (block["type"], block.get("thinking") or block.get("text")) for block in content if isinstance(block, dict)
    ] == [
        ("thinking", "I greet"),
        ("text", "Hello."),
    ]
    assert lost(conversation) == []
