"""Text runs: reads many text deltas at once, because most frames of a stream differ only in their text. `TextFrames`
learns the bytes around the text from a decoded frame, and checks that the frame decodes to the same event with another
text. Matching frames that follow become one `TextRun`, without an event or a JSON document for each. Every protocol
writes text as the same JSON string, so encoders join these strings between their own frames. Learning stops for servers
that vary every frame."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import DecodeError, Struct
from msgspec.json import Decoder, Encoder

from dragoman.model.events import ArgumentsRun, TextRun
from dragoman.wire.json import encode
from dragoman.wire.sse import Frame

# Numbers, because searching for a byte by its number is several times faster than by `bytes` of length one.
_ZERO, _LINE_FEED, _QUOTE, _BACKSLASH = b'\0\n"\\'
# Maximum frames to learn from: one for each part, and some for a changing ID or time.
_LESSONS = 32
# A temporary placeholder that no provider's text contains.
PROBE = "\0probe\0"
_WRITTEN_PROBE = encode(PROBE)
_read_texts = Decoder(list[str]).decode
_read_text = Decoder(str).decode
_encode_string = Encoder().encode

# The inside of a JSON string that is not empty. `rules.surrogates` handles unpaired surrogates.
_PLAIN = rb'[^"\\\x00-\x1f]*+'
_STRING = rb'((?!")' + _PLAIN + rb'(?:\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})' + _PLAIN + rb')*+)"'
# The same for arguments: without a brace that begins a value, and without an end that a value may have.
_PIECE = rb'(?:[^"\\{\x00-\x1f]++|\\["\\bfnrt])++(?<![} ])(?<!\\[nrt])'
_ARGUMENTS = b"(" + _PIECE + b')"'
_match_arguments = re.compile(_PIECE + rb"(?:\x00" + _PIECE + rb")*+").fullmatch
# Insides of strings, joined by the byte zero, which none contains.
_match_strings = re.compile(rb'(?:[^"\\\x01-\x1f]++|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}))*+').fullmatch
# Escapes that an encoder writes, or may write, differently.
_find_other_escape = re.compile(rb"\\[u/]").search
# Parts of a frame that vary without meaning: numbers, and random letters by which OpenAI hides the text's length.
# Anthropic adds spaces before the last brace.
_NUMBER, _LETTERS = rb"(?:0|[1-9][0-9]{0,15}+)", rb"[A-Za-z0-9]*+"
_SEQUENCE, _OBFUSCATION = b'"sequence_number":', b'"obfuscation":"'
_find_number = re.compile(_SEQUENCE + b"(" + _NUMBER + b")(?=[,}])").search
_find_letters = re.compile(_OBFUSCATION + b"(" + _LETTERS + b')(?=")').search
_match_number = re.compile(_NUMBER).match
# Longer suffixes are unusual, and compiled patterns are cached.
_MAX_AFTER = 1024
# Maximum texts that pass before the stream's consumers get them as one run.
_MAX_PASSED = 64
# Maximum bytes of several frames that pass at once. Beyond that, decoding is faster.
_MAX_SEVERAL = 2048

_MatchRest = Callable[[bytes, int, int], re.Match[bytes] | None]


class FrameForm(Struct, frozen=True):
    """The frames that an encoder writes for a run: the bytes around each string; after them the number of the next
    frame, if frames have one, and the end."""

    before: bytes
    after: bytes
    number: int | None = None
    end: bytes = b""

    def frames_of(self, strings: list[bytes]) -> bytes:
        before, after, number = self.before, self.after, self.number
        if number is None:
            return b"".join((before, (after + before).join(strings), after))
        numbers = map(b"%d".__mod__, range(number, number + len(strings)))
        joined = (self.end + before).join(map(after.join, zip(strings, numbers, strict=True)))
        return b"".join((before, joined, self.end))


class TextFrames:
    """The bytes around the text in frames of a stream, as long as they stay the same."""

    __slots__ = (
        "_after",
        "_before",
        "_behind_number",
        "_cut",
        "_end",
        "_inside",
        "_match_rest",
        "_match_strings",
        "_start",
        "has_constant_frames",
        "is_ready",
        "lessons",
    )

    def __init__(self) -> None:
        self.is_ready = False
        # Whether only the text varies between frames.
        self.has_constant_frames = False
        self.lessons = _LESSONS
        # The bytes before a text: up to its number, if that comes first, and after it.
        self._before = b""
        self._behind_number: bytes | None = None
        self._match_rest: _MatchRest = _match_rest_of(b"")
        self._match_strings: Callable[[bytes], re.Match[bytes] | None] | None = None
        # The bytes after a text, if they are constant, and their positions in a chunk of frames.
        self._after = b""
        self._start = self._inside = self._end = self._cut = slice(0)

    def learn(
        self, frame: Frame, text: str, reads_as: Callable[[bytes], str | None], *, arguments: bool = False
    ) -> None:
        """Learn from a frame with this text. `reads_as` returns the text of other data, or None if more differs.
        Argument fragments that may repeat or end a value are not learned."""
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
        same = after
        for find in (_find_number, _find_letters):
            if (varying := find(same)) is not None:
                same = same[: varying.start(1)] + same[varying.end(1) :]
        self._match_rest = _match_rest_of(same[:-1].rstrip(b" "), arguments)
        self._match_strings = _match_arguments if arguments else None
        self._after = after = b'"%b\n\n' % after
        self._start, self._end = slice(len(before)), slice(-len(after), None)
        self.has_constant_frames = number is None and len(same) >= len(after) - 3
        self._inside = slice(len(before), -len(after))
        self._cut = slice(len(before), 2 - len(after))
        self.is_ready = True

    def read_all(self, chunk: bytes) -> TextRun | None:
        """Return the frames of a chunk as one run if only their text differs, else None. Nearly all chunks of a stream
        are one such frame, so only characters that no text contains are searched."""
        before, after = self._before, self._after
        if not self.has_constant_frames or chunk[self._start] != before or chunk[self._end] != after or _ZERO in chunk:
            return None
        start, end = len(before), len(chunk) - len(after)
        is_one = chunk.find(_LINE_FEED, start, end) < 0
        if is_one:
            joined = chunk[self._inside]
            strings = [joined]
        else:
            cut = self._cut
            # The last element is empty, because the chunk ends with a blank line.
            strings = [frame[cut] for frame in chunk.split(b"\n\n")[:-1]]
            # No text contains a line end: if the joined strings differ from the chunk, it has other frames.
            inside = (after + before).join(strings)
            if len(inside) != end - start or not chunk.startswith(inside, start):
                return None
            joined = b"\0".join(strings)
        if not all(strings):
            return None
        try:
            text = joined.decode()
        except UnicodeError:
            return None
        if not is_one:
            text = text.replace("\0", "")
        if self._match_strings is not None and self._match_strings(joined) is None:
            return None
        if _BACKSLASH in joined:
            if self._match_strings is None and _match_strings(joined) is None:
                return None
            text = _read_text(b'"%b"' % joined.replace(b"\0", b""))
            if _find_other_escape(joined) is not None:
                strings = [_encode_string(_read_text(b'"%b"' % string))[1:-1] for string in strings]
        elif _QUOTE in joined or not (text.isprintable() or _match_strings(joined)):
            return None
        return TextRun(text, None, strings)

    @property
    def has_one_form(self) -> bool:
        return self.is_ready and self._match_strings is None and self.has_constant_frames

    def passing(self, written: FrameForm, limit: int) -> PassingText:
        """Return a converter of text frames into another form, for frames of at most `limit` bytes."""
        return PassingText(self._before, self._after, written, limit)

    def read_most(self, chunk: bytes, start: int, stop: int) -> tuple[TextRun, int] | None:
        """Return the frames from `start` to the last similar one, and its end. None if there are other frames between
        them. Repeated attempts would read the same frames each time."""
        last = chunk.rfind(self._before, start, stop)
        end = chunk.find(b"\n\n", last, stop) + 2
        run = self.read_all(chunk[start:end]) if start <= last < end else None
        if run is None:
            return None
        self.lessons = _LESSONS
        return run, end

    def read(self, chunk: bytes, start: int, stop: int) -> tuple[TextRun, int] | None:
        """Return the similar frames from `start` on, and their end. None if the next frame differs."""
        before, behind_number, match_rest, end = self._before, self._behind_number, self._match_rest, start
        size, total = len(before), len(chunk)
        strings: list[bytes] = []
        while end < total and chunk.startswith(before, end):
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
        self.lessons = _LESSONS
        # Joined by quotation marks, so that a character cut between two texts is broken UTF-8 in both.
        joined = b'","'.join(strings)
        try:
            if b"\\" not in joined:
                return TextRun(joined.decode().replace('","', ""), None, strings), end
            texts = _read_texts(b'["%b"]' % joined)
        except (DecodeError, UnicodeError):
            # This frame is decoded by itself. If it were learned again, all frames before it would be read again.
            self.is_ready = False
            return None
        if _find_other_escape(joined) is not None:
            strings = [_encode_string(text)[1:-1] for text in texts]
        return TextRun("".join(texts), None, strings), end


class PassingText:
    """Converts plain text frames from one form to another without decoding them. The text is stored until `take`
    returns it as one run: only the client needs single deltas at once."""

    __slots__ = (
        "_after",
        "_before",
        "_between",
        "_cut",
        "_end",
        "_limit",
        "_number",
        "_start",
        "_stop",
        "_strings",
        "_texts",
        "_written_after",
        "_written_before",
    )

    def __init__(self, before: bytes, after: bytes, written: FrameForm, limit: int) -> None:
        self._before, self._after, self._limit = before, after, limit
        self._between = after + before
        self._start, self._cut, self._stop = (
            slice(len(before)),
            slice(len(before), -len(after)),
            slice(-len(after), None),
        )
        self._written_before, self._written_after = written.before, written.after
        self._number, self._end = written.number, written.end
        self._texts: list[str] = []
        self._strings: list[bytes] = []

    def passed(self, chunk: bytes) -> bytes | None:
        """Convert a chunk of plain text frames. None if it contains other frames, or if `take` must be called first."""
        # Comparing slices is faster than `startswith` and `endswith`.
        if chunk[self._start] != self._before or chunk[self._stop] != self._after or len(chunk) > self._limit:
            return None
        string = chunk[self._cut]
        try:
            if _LINE_FEED in string:
                if len(string) > _MAX_SEVERAL:
                    return None
                return self._passed_several(string.split(self._between))
            text = string.decode()
        except UnicodeError:
            return None
        texts = self._texts
        # A line end, which begins another frame, is not printable.
        if not text or not text.isprintable() or _QUOTE in string or _BACKSLASH in string or len(texts) >= _MAX_PASSED:
            return None
        texts.append(text)
        self._strings.append(string)
        number = self._number
        if number is None:
            return self._written_before + string + self._written_after
        self._number = number + 1
        return b"%b%b%b%d%b" % (self._written_before, string, self._written_after, number, self._end)

    def _passed_several(self, strings: list[bytes]) -> bytes | None:
        texts = [string.decode() for string in strings]
        text = "".join(texts)
        if not all(texts) or not text.isprintable() or '"' in text or "\\" in text or len(self._texts) >= _MAX_PASSED:
            return None
        self._texts += texts
        self._strings += strings
        form = FrameForm(self._written_before, self._written_after, self._number, self._end)
        if self._number is not None:
            self._number += len(strings)
        return form.frames_of(strings)

    def take(self) -> TextRun | None:
        """Return the text since the last call, if any."""
        if not self._texts:
            return None
        run = TextRun("".join(self._texts), None, self._strings)
        self._texts, self._strings = [], []
        return run


@lru_cache(maxsize=256)
def _match_rest_of(after: bytes, arguments: bool = False) -> _MatchRest:
    """Return a matcher for a text and the rest of its frame. It is cached: compiling is expensive, and providers differ
    little."""
    pattern = re.escape(after).replace(_OBFUSCATION + b'"', _OBFUSCATION + _LETTERS + b'"')
    pattern = pattern.replace(_SEQUENCE, _SEQUENCE + _NUMBER)
    return re.compile((_ARGUMENTS if arguments else _STRING) + pattern + rb" *+\}\n\n").match


def texts_of(run: TextRun | ArgumentsRun) -> list[str]:
    return _read_texts(b'["%b"]' % b'","'.join(run.strings))


def encode_run(run: TextRun | ArgumentsRun, before: bytes, after: bytes) -> bytes:
    """Encode a run: each JSON string between its constant bytes."""
    return FrameForm(before + b'"', b'"' + after).frames_of(run.strings)
