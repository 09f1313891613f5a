"""Inline thinking, wherever the text is cut."""

from __future__ import annotations

import pytest

from dragoman.protocols.openai_chat.think import InlineThinking, split_thinking

CASES = [
    ("<think>why</think>\n\nbecause", "why", "because"),
    ("\n<think>a<b</think>c", "a<b", "c"),
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
