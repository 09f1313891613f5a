"""Inline reasoning: splits `<think>…</think>` from the start of a response's text, full or streamed (V8). Gemini uses
`<thought>`.

START   --opening tag complete-->  INSIDE  --closing tag complete-->  BREAK  --text other than line breaks-->  OUTSIDE
   |                                  ^---------the tag once more-------'                                        ^
   `----any other text-------------------------------------------------------------------------------------------'

Bedrock encloses each piece of reasoning in tags of its own: https://github.com/browseros-ai/BrowserOS/issues/167"""

from __future__ import annotations

from enum import Enum

from dragoman.protocols.openai_chat.reasoning import StatedReasoning

THOUGHT = "<thought>"
_TAGS = {"<think>": "</think>", THOUGHT: "</thought>", "<reasoning>": "</reasoning>"}

# Inline reasoning is not sent back: servers remove it from history themselves.
INLINE = StatedReasoning("content", "")


class _State(Enum):
    START = "before any text"
    INSIDE = "in the reasoning"
    BREAK = "after the closing tag, in line breaks"
    OUTSIDE = "in the answer"


class InlineThinking:
    """Splits text as it arrives into reasoning and content, and holds a possible tag."""

    __slots__ = ("_blanks", "_held", "_state", "_tag")

    def __init__(self) -> None:
        self._state = _State.START
        # White space before the first word, and a possible tag.
        self._blanks: list[str] = []
        self._held = ""
        self._tag = ""

    @property
    def over(self) -> bool:
        """Whether all further text is content."""
        return self._state is _State.OUTSIDE

    def feed(self, text: str) -> tuple[str, str]:
        """Read more text and split it into reasoning and content."""
        if self._state is _State.OUTSIDE:
            return "", text
        text, self._held = self._held + text, ""
        thoughts: list[str] = []
        if self._state is _State.START:
            opening = text.lstrip()
            self._blanks.append(text[: len(text) - len(opening)])
            tag = next((tag for tag in _TAGS if opening.startswith(tag)), "")
            if not tag and any(tag.startswith(opening) for tag in _TAGS):
                self._held = opening
                return "", ""
            if not tag:
                self._state = _State.OUTSIDE
                return "", "".join([*self._blanks, opening])
            self._state = _State.INSIDE
            self._tag = tag
            text = opening[len(tag) :]
        # The start of the unread part: there may be many tags.
        at = 0
        while True:
            if self._state is _State.INSIDE:
                closing = _TAGS[self._tag]
                end = text.find(closing, at)
                if end < 0:
                    keep = _begun(text[at:], closing)
                    self._held = text[len(text) - keep :]
                    return "".join([*thoughts, text[at : len(text) - keep]]), ""
                thoughts.append(text[at:end])
                at = end + len(closing)
                self._state = _State.BREAK
            at = _after_breaks(text, at)
            if len(text) - at < len(self._tag) and self._tag.startswith(text[at:]):
                self._held = text[at:]
                return "".join(thoughts), ""
            if not text.startswith(self._tag, at):
                self._state = _State.OUTSIDE
                return "".join(thoughts), text[at:]
            self._state = _State.INSIDE
            at += len(self._tag)

    def close(self) -> tuple[str, str]:
        """Return the held text, which no more text can complete."""
        held, self._held = self._held, ""
        if self._state is _State.START:
            return "", "".join([*self._blanks, held])
        return (held, "") if self._state is _State.INSIDE else ("", held)


def _after_breaks(text: str, at: int) -> int:
    while text[at : at + 1] in ("\r", "\n"):
        at += 1
    return at


def _begun(text: str, tag: str) -> int:
    """The length of the longest end of the text that begins the closing tag."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-length:]):
            return length
    return 0


def split_thinking(content: str) -> tuple[str | None, str]:
    """Split a full text. The first result is None if it does not begin with reasoning."""
    splitter = InlineThinking()
    thought, text = splitter.feed(content)
    rest = splitter.close()
    thought, text = thought + rest[0], text + rest[1]
    return (thought, text) if thought else (None, text)
