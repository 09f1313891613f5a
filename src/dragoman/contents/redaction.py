"""Redaction: bodies without credentials, before anything of them is stored (decision 48).

    the text as it is      forms of credentials, secrets by value, patterns of the user
    strings with escapes   the same, in the text that they mean
    streamed text          the same, in the joined text of equal members of all events, since a credential may come in
                           several deltas, and is replaced in each

A credential becomes `[redacted:KIND:LENGTH]`, with the number of bytes that it took there. All work is linear in the
size of the body.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from urllib.parse import quote

import msgspec
from msgspec import Struct

from dragoman.contents.credential_forms import FORMS, CredentialForm
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.wire.json import read_json

# Shorter values are ordinary words.
_MIN_SECRET_LENGTH = 8
# The kinds of what is no form.
OWN_SECRET, PATTERN = "secret", "pattern"
_strings = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL).finditer
_escapes = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[^\\]++", re.DOTALL).finditer
_data_lines = re.compile(r"^data:[ ]?+(.*+)$", re.MULTILINE).finditer
_is_json = re.compile(r'\s*+[\[{"]').match
_is_stream = re.compile(r"\s*+(?:data|event|id|retry)?+:").match
_CONTROL = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
# Members of stream events that say which part of the response an event continues, and members that are never a part.
_INDEXES = ("index", "output_index", "content_index", "summary_index", "item_id", "type")
_REPEATED = frozenset({"type", "id", "object", "model", "role", "item_id", "call_id", "system_fingerprint", "status"})
# Between texts that have nothing to do with each other.
_GAP = "\0"
# Characters that one search for a pattern of the user takes at a time, so that other threads have their turn, and the
# maximum length of what such a pattern matches.
_WINDOW, MAX_MATCH = 16384, 1024


class _Match(Struct, frozen=True, gc=False):
    """A credential, by its positions in the text that was searched."""

    start: int
    end: int
    kind: str


class _Fragment(Struct, frozen=True, gc=False):
    """A part of the body in a text that was put together. Positions agree unless `escaped` is set: the bytes of the
    body, which have escapes."""

    start: int
    end: int
    raw_start: int
    escaped: str


class ContentsRedactor:
    """Replaces credentials: of the table of forms, those in `secrets` by value, and what `patterns` match, which were
    checked by `pattern_cost`."""

    def __init__(self, secrets: Sequence[str] = (), patterns: Sequence[str] = ()) -> None:
        spelled: dict[str, None] = {}
        for secret in secrets:
            if len(secret) >= _MIN_SECRET_LENGTH:
                spelled.update(dict.fromkeys((_latin(secret), quote(secret, safe=""))))
        # The longest first: a shorter one inside of it is a part of its match.
        self._secrets = tuple(sorted(spelled, key=len, reverse=True))
        self._patterns = tuple(re.compile(pattern, re.ASCII) for pattern in patterns)
        self._given = (tuple(secrets), tuple(patterns))
        # Tells its results from those of a redactor with other secrets or patterns.
        self.salt = blake2b(repr(self._given).encode(), digest_size=16).digest()

    def extended(self, secrets: Iterable[str]) -> ContentsRedactor:
        """The same with more secrets."""
        return ContentsRedactor((*self._given[0], *secrets), self._given[1])

    def clean(self, body: bytes) -> bytes:
        """The body with marks in place of credentials."""
        # One character per byte, so that positions in the text are positions in the body.
        text = body.decode("latin-1")
        is_stream = _is_stream(text) is not None
        is_json = is_stream or _is_json(text) is not None
        edits = [_behind_escape(text, match) for match in self._matches(text) if not is_json or _is_inside(text, match)]
        if is_json:
            edits += self._edits(*_joined(_all_strings(text, only_escaped=not self._patterns)))
        if is_stream:
            edits += self._edits(*_joined(_streamed_texts(text)))
        return _replaced(text, edits).encode("latin-1") if edits else body

    def _edits(self, text: str, fragments: list[_Fragment]) -> list[_Match]:
        """The matches in a text that was put together, by their positions in the body."""
        starts = [fragment.start for fragment in fragments]
        edits: list[_Match] = []
        for match in self._matches(text):
            at = bisect_right(starts, match.start) - 1
            while at < len(fragments) and (fragment := fragments[at]).start < match.end:
                start, end = max(match.start, fragment.start), min(match.end, fragment.end)
                if start < end:
                    edits.append(_in_body(fragment, start, end, match.kind))
                at += 1
        return edits

    def _matches(self, text: str) -> Iterator[_Match]:
        lower = text.lower()
        for form in FORMS:
            searched = lower if form.ignores_case else text
            for anchor in form.anchors:
                yield from _of_form(form, anchor, text, searched)
        for secret in self._secrets:
            at = text.find(secret)
            while at >= 0:
                yield _Match(at, at + len(secret), OWN_SECRET)
                at = text.find(secret, at + len(secret))
        for pattern in self._patterns:
            for start in range(0, len(text), _WINDOW):
                # What begins in a window ends behind it.
                for match in pattern.finditer(text, start, min(start + _WINDOW + MAX_MATCH, len(text))):
                    if match.start() >= start + _WINDOW:
                        break
                    if match.end() > match.start():
                        yield _Match(match.start(), match.end(), PATTERN)


def _of_form(form: CredentialForm, anchor: str, text: str, searched: str) -> Iterator[_Match]:
    group: str | int = "secret" if form.has_secret_group else 0
    at = searched.find(anchor)
    while at >= 0:
        following = at + 1
        if at >= form.lead and (match := form.pattern.match(text, at - form.lead)) is not None:
            yield _Match(match.start(group), match.end(group), form.kind)
            # What a match took is not searched again, or many anchors in it would each search all of it.
            following = max(following, match.end())
        at = searched.find(anchor, following)


# Texts in a body.


def _is_inside(text: str, match: _Match) -> bool:
    """Whether a match in a JSON document is of a table, or takes neither the end of a string nor half of an escape."""
    return match.kind is not PATTERN or not ('"' in (taken := text[match.start : match.end]) or "\\" in taken)


def _all_strings(text: str, *, only_escaped: bool) -> Iterator[tuple[str, int, str, bool]]:
    """The strings, each as a text of its own: what it means, its position, what stands there."""
    if only_escaped and "\\" not in text:
        return
    for match in _strings(text):
        raw = match[1]
        if "\\" in raw:
            yield _meaning(raw), match.start(1), raw, True
        elif not only_escaped:
            yield raw, match.start(1), raw, True


def _streamed_texts(text: str) -> Iterator[tuple[str, int, str, bool]]:
    """The strings of all events, in the order of the parts of the response that they continue."""
    parts: dict[tuple[str, ...], list[tuple[str, int, str]]] = {}
    for line in _data_lines(text):
        if not line[1].startswith("{"):
            continue
        try:
            places = list(_places(read_json(line[1].encode("latin-1"))))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        strings = list(_strings(line[1]))
        if len(strings) != len(places):
            # A member is there twice.
            continue
        for place, match in zip(places, strings, strict=True):
            if place and place[-1] not in _REPEATED:
                raw = match[1]
                meaning = _meaning(raw) if "\\" in raw else raw
                parts.setdefault(place, []).append((meaning, line.start(1) + match.start(1), raw))
    for continued in parts.values():
        if len(continued) > 1:
            for number, (meaning, start, raw) in enumerate(continued):
                yield meaning, start, raw, number == 0


def _places(document: JsonValue) -> Iterator[tuple[str, ...]]:
    """The place of each string of a document, in their order; of the name of a member that is ()."""
    # Not by recursion, which takes time for each level and each string.
    left: list[tuple[JsonValue, tuple[str, ...]]] = [(document, ())]
    while left:
        value, place = left.pop()
        if isinstance(value, str):
            yield place
        elif isinstance(value, list):
            left += [(element, place) for element in reversed(value)]
        elif isinstance(value, dict):
            here = (*place, *_indexes(value))
            for name, member in reversed(value.items()):
                left += ((member, (*here, name)), (name, ()))


def _indexes(event: JsonObject) -> Iterator[str]:
    for name in _INDEXES:
        index = event.get(name)
        if isinstance(index, int):
            yield f"{name}={index}"
        elif isinstance(index, str):
            yield index


def _joined(texts: Iterable[tuple[str, int, str, bool]]) -> tuple[str, list[_Fragment]]:
    """All texts as one, with a gap before each text that begins anew."""
    pieces: list[str] = []
    fragments: list[_Fragment] = []
    at = 0
    for meaning, start, raw, is_new in texts:
        if is_new and pieces:
            pieces.append(_GAP)
            at += 1
        end = at + len(meaning)
        fragments.append(_Fragment(at, end, start, raw if meaning is not raw else ""))
        pieces.append(meaning)
        at = end
    return "".join(pieces), fragments


def _meaning(raw: str) -> str:
    """The text that a JSON string means, in UTF-8 with one character per byte."""
    return "".join([_unescaped(match[0]) for match in _escapes(raw)])


def _unescaped(raw: str) -> str:
    if raw[0] != "\\":
        return raw
    if raw[1] == "u":
        # Halves of a pair stay apart, since a credential has none.
        return _latin(chr(int(raw[2:], 16)))
    return _CONTROL.get(raw[1], raw[1])


def _latin(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


# Replacements.


def _in_body(fragment: _Fragment, start: int, end: int, kind: str) -> _Match:
    """A part of a match by its position in the body."""
    start, end = start - fragment.start, end - fragment.start
    if not fragment.escaped:
        return _Match(fragment.raw_start + start, fragment.raw_start + end, kind)
    at, raw_at, raw_start, raw_end = 0, 0, -1, 0
    for match in _escapes(fragment.escaped):
        size, is_escape = len(_unescaped(match[0])), match[0][0] == "\\"
        if at + size > start and raw_start < 0:
            raw_start = raw_at if is_escape else raw_at + start - at
        if at < end:
            raw_end = match.end() if is_escape else raw_at + min(end - at, size)
        at, raw_at = at + size, match.end()
    return _Match(fragment.raw_start + max(raw_start, 0), fragment.raw_start + raw_end, kind)


def _behind_escape(text: str, match: _Match) -> _Match:
    """The match without the letter of an escape that it begins with: what is left of it would be none."""
    at = match.start
    while at > 0 and text[at - 1] == "\\" and match.start - at < 64:
        at -= 1
    return _Match(match.start + 1, match.end, match.kind) if (match.start - at) % 2 else match


def _replaced(text: str, edits: list[_Match]) -> str:
    """The text with marks, where matches that overlap are one."""
    merged: list[_Match] = []
    for edit in sorted(edits, key=_order):
        if merged and edit.start < (last := merged[-1]).end:
            merged[-1] = _Match(last.start, max(last.end, edit.end), last.kind)
        else:
            merged.append(edit)
    pieces: list[str] = []
    at = 0
    for edit in merged:
        pieces += (text[at : edit.start], mark(edit.kind, edit.end - edit.start))
        at = edit.end
    pieces.append(text[at:])
    return "".join(pieces)


def _order(edit: _Match) -> tuple[int, int]:
    return edit.start, -edit.end


def mark(kind: str, length: int) -> str:
    """What stands in place of a credential."""
    return f"[redacted:{kind}:{length}]"
