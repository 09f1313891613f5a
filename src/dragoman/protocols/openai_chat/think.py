"""Inline reasoning: `<think>…</think>` at the start of an answer's text, whole or in pieces (V8).

START   --"<think>" complete-->  INSIDE  --"</think>" complete-->  BREAK  --text that is no line break-->  OUTSIDE
   `----anything else-------------------------------------------------------------------------------------> OUTSIDE
"""

from __future__ import annotations

from enum import Enum

from dragoman.protocols.openai_chat.reasoning import Said

_OPEN = "<think>"
_CLOSE = "</think>"

# Where inline reasoning stood; it is not sent back, servers strip it from history themselves.
INLINE = Said("content", "")


class _State(Enum):
    START = "before any text"
    INSIDE = "in the reasoning"
    BREAK = "after the closing tag, in line breaks"
    OUTSIDE = "in the answer"


class InlineThinking:
    """Splits text as it arrives into reasoning and answer, holding back what may become a tag."""

    __slots__ = ("_blanks", "_held", "_state")

    def __init__(self) -> None:
        self._state = _State.START
        # White space before the first word, and what may become a tag.
        self._blanks: list[str] = []
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """Take the next text and give what of it is reasoning and what is answer."""
        if self._state is _State.OUTSIDE:
            return "", text
        text, self._held = self._held + text, ""
        thought = ""
        if self._state is _State.START:
            opening = text.lstrip()
            self._blanks.append(text[: len(text) - len(opening)])
            if len(opening) < len(_OPEN) and _OPEN.startswith(opening):
                self._held = opening
                return "", ""
            if not opening.startswith(_OPEN):
                self._state = _State.OUTSIDE
                return "", "".join([*self._blanks, opening])
            self._state = _State.INSIDE
            text = opening[len(_OPEN) :]
        if self._state is _State.INSIDE:
            end = text.find(_CLOSE)
            if end < 0:
                keep = _begun(text)
                self._held = text[len(text) - keep :]
                return text[: len(text) - keep], ""
            thought, text = text[:end], text[end + len(_CLOSE) :]
            self._state = _State.BREAK
        text = text.lstrip("\r\n")
        if text:
            self._state = _State.OUTSIDE
        return thought, text

    def close(self) -> tuple[str, str]:
        """Give what was held back, now that nothing can complete it."""
        held, self._held = self._held, ""
        if self._state is _State.START:
            return "", "".join([*self._blanks, held])
        return (held, "") if self._state is _State.INSIDE else ("", held)


def _begun(text: str) -> int:
    """The length of the longest end of the text that begins the closing tag."""
    for length in range(min(len(_CLOSE) - 1, len(text)), 0, -1):
        if _CLOSE.startswith(text[-length:]):
            return length
    return 0


def split_thinking(content: str) -> tuple[str | None, str]:
    """Split a whole text; the first is None if it does not begin with reasoning."""
    splitter = InlineThinking()
    thought, answer = splitter.feed(content)
    rest = splitter.close()
    thought, answer = thought + rest[0], answer + rest[1]
    return (thought, answer) if thought else (None, answer)
