"""Runs of text deltas: frames that differ only in their text are read at once. Nearly all of a stream is one frame
again with another text. `TextFrames` learns the bytes around the text from a frame that was read, and checks that the
frame reads the same with another text in its place. Similar frames that follow become one `TextRun`, without an event
or a JSON document for each. Every protocol writes a delta's text as the same JSON string, so encoders join these
strings between their own frames. Servers that vary every frame are not learned from again and again."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import DecodeError
from msgspec.json import Decoder, Encoder

from dragoman.model.events import TextRun
from dragoman.wire.json import encode
from dragoman.wire.sse import Frame

# Frames of a stream that are learned from: one for each part, and some more where an id or a time changes.
_LESSONS = 32
# No text of a provider's; it stands in the place of one for a moment.
PROBE = "\0probe\0"
_WRITTEN_PROBE = encode(PROBE)
_read_texts = Decoder(list[str]).decode
_encode_string = Encoder().encode

# The inside of a JSON string that is not empty. Halves of surrogate pairs are left to `rules.surrogates`.
_PLAIN = rb'[^"\\\x00-\x1f]*+'
_STRING = rb'((?!")' + _PLAIN + rb'(?:\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})' + _PLAIN + rb')*+)"'
# Escapes that an encoder writes otherwise, or may.
_find_other_escape = re.compile(rb"\\[u/]").search
# Parts that vary beside the text and mean nothing: numbers, and random letters by which OpenAI hides the text's length;
# Anthropic adds spaces before the last brace.
_NUMBER, _LETTERS = rb"(?:0|[1-9][0-9]{0,15}+)", rb"[A-Za-z0-9]*+"
_SEQUENCE, _OBFUSCATION = b'"sequence_number":', b'"obfuscation":"'
_find_number = re.compile(_SEQUENCE + b"(" + _NUMBER + b")(?=[,}])").search
_find_letters = re.compile(_OBFUSCATION + b"(" + _LETTERS + b')(?=")').search
_match_number = re.compile(_NUMBER).match
# Longer ones are no frames as providers write them, and patterns are kept.
_MAX_AFTER = 1024

_MatchRest = Callable[[bytes, int, int], re.Match[bytes] | None]


class TextFrames:
    """What stands around the text in frames of a stream, as long as it stays the same."""

    __slots__ = ("_before", "_behind_number", "_match_rest", "is_ready", "lessons")

    def __init__(self) -> None:
        self.is_ready = False
        self.lessons = _LESSONS
        # What stands before a text: up to its number, if that comes first, and from there on.
        self._before = b""
        self._behind_number: bytes | None = None
        self._match_rest: _MatchRest = _match_rest_of(b"")

    def learn(self, frame: Frame, text: str, reads_as: Callable[[bytes], str | None]) -> None:
        """Learn from a frame with this text; `reads_as` returns the text of other data, None if more differs."""
        self.is_ready = False
        if not self.lessons:
            return
        self.lessons -= 1
        before, _, after = frame.data.partition(_encode_string(text))
        if not after.endswith(b"}") or len(after) > _MAX_AFTER or reads_as(before + _WRITTEN_PROBE + after) != PROBE:
            return
        before = (b"event: %b\ndata: " % frame.event.encode() if frame.event else b"data: ") + before + b'"'
        number = _find_number(before)
        self._before = before if number is None else before[: number.start(1)]
        self._behind_number = None if number is None else before[number.end(1) :]
        for find in (_find_number, _find_letters):
            if (varying := find(after)) is not None:
                after = after[: varying.start(1)] + after[varying.end(1) :]
        self._match_rest = _match_rest_of(after[:-1].rstrip(b" "))
        self.is_ready = True

    def read(self, chunk: bytes, start: int, stop: int) -> tuple[TextRun, int] | None:
        """The frames from here on that look alike, and where they end; None if the next frame is another."""
        before, behind_number, match_rest, end = self._before, self._behind_number, self._match_rest, start
        size = len(before)
        strings: list[bytes] = []
        while chunk.startswith(before, end):
            position = end + size
            if behind_number is not None:
                number = _match_number(chunk, position)
                if number is None or not chunk.startswith(behind_number, number.end()):
                    break
                position = number.end() + len(behind_number)
            rest = match_rest(chunk, position, stop)
            if rest is None:
                break
            strings.append(rest[1])
            end = rest.end()
        if not strings:
            return None
        # Joined by quotation marks: a character that is cut between two texts is broken UTF-8 in both.
        joined = b'","'.join(strings)
        try:
            if b"\\" not in joined:
                return TextRun(joined.decode().replace('","', ""), None, strings), end
            texts = _read_texts(b'["%b"]' % joined)
        except (DecodeError, UnicodeError):
            # Its frame is read by itself. Ready again, all frames before it would be looked at again.
            self.is_ready = False
            return None
        if _find_other_escape(joined) is not None:
            strings = [_encode_string(text)[1:-1] for text in texts]
        return TextRun("".join(texts), None, strings), end


@lru_cache(maxsize=256)
def _match_rest_of(after: bytes) -> _MatchRest:
    """Matches a text and what follows it in its frame. Compiling is expensive, and providers differ little here."""
    pattern = re.escape(after).replace(_OBFUSCATION + b'"', _OBFUSCATION + _LETTERS + b'"')
    pattern = pattern.replace(_SEQUENCE, _SEQUENCE + _NUMBER)
    return re.compile(_STRING + pattern + rb" *+\}\n\n").match


def encode_run(run: TextRun, before: bytes, after: bytes) -> bytes:
    """The frames of a run: each JSON string between what stands around it."""
    strings = run.strings
    joined = strings[0] if len(strings) == 1 else (b'"%b%b"' % (after, before)).join(strings)
    return b'%b"%b"%b' % (before, joined, after)
