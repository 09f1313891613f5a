r"""Unpaired surrogates in a provider's text. A server that cuts text by UTF-16 units (JavaScript, Java, .NET) may end
one delta with `\ud83d` and begin the next with `\ude00`, which no JSON reader accepts. A half at the end of growing
text waits for the next delta; any other is dropped and reported. Only texts that the reader rejects get here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import DecodeError

from dragoman.errors import WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.wire.json import (
    decode,
    decode_lenient,
    decode_object,
    has_surrogates,
    kind_of,
    mark_surrogates,
    read_json,
    unmark_surrogates,
)

_GROWING = frozenset(
    {
        "content",
        "reasoning_content",
        "reasoning",
        "reasoning_text",
        "refusal",
        "arguments",
        "input",
        "text",
        "summary",
        "thinking",
        "partial_json",
        "delta",
    }
)
# Log probabilities are reported per token, so surrogates there stay unpaired.
_LOGPROBS = "logprobs"
# The indexes of parts and items, which distinguish fragments of the same path.
_NUMBERS = ("index", "output_index", "content_index", "summary_index")
UNREADABLE = (DecodeError, UnicodeError, RecursionError)
# Limit of interleaved texts; real streams have fewer.
_MAX_PENDING = 64

_Place: TypeAlias = tuple[object, ...]


class SurrogateJoiner:
    __slots__ = ("_ledger", "_lost", "_pending")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._pending: dict[_Place, str] = {}
        self._lost = False

    def read(self, text: bytes) -> JsonValue:
        """Read one document. Broken UTF-8 and unpaired surrogates become U+FFFD."""
        try:
            return read_json(text)
        except UNREADABLE:
            return self.reread(text)

    def reread(self, text: bytes) -> JsonValue:
        mended = decode_lenient(text)
        # It is valid JSON, apart from possible unpaired surrogates.
        marked = mark_surrogates(text.decode("utf-8", "replace"))
        if marked is None:
            self._lost = True
            return mended
        return self._document(decode(marked))

    def read_object(self, body: bytes | str | Mapping[str, object]) -> JsonObject:
        """Read a full response, from text or parsed values. In text, only unpaired surrogates are repaired."""
        try:
            return decode_object(body)
        except WireError:
            if not isinstance(body, bytes | str):
                raise
        text = _text_of(body)
        if text is None or not has_surrogates(text):
            return decode_object(body)
        value = self.read(text.encode())
        if not isinstance(value, dict):
            raise WireError("", "object", kind_of(value))
        return value

    def mended(self, body: JsonObject) -> JsonObject:
        """Remove unpaired surrogates, which cannot be encoded, from parsed values."""
        value = self._document(body)
        assert isinstance(value, dict)
        return value

    def close(self) -> None:
        if self._pending or self._lost:
            note = "half of a surrogate pair, or broken UTF-8, is no character; it is left out or replaced"
            self._ledger.dropped(Feature.TEXT, ("parts",), note)
        self._pending.clear()
        self._lost = False

    def _document(self, value: JsonValue) -> JsonValue:
        kind = value.get("type") if isinstance(value, dict) else None
        # Other members distinguish nothing.
        return self._mended(value, (kind,) if isinstance(kind, str) else (), growing=False)

    def _mended(self, value: JsonValue, place: _Place, *, growing: bool) -> JsonValue:
        if isinstance(value, str):
            return self._text(value, place if growing else None)
        if isinstance(value, dict):
            numbers = tuple(number for name in _NUMBERS if type(number := value.get(name)) is int)
            inner = (*place, *numbers)
            return {
                self._text(name, None): self._mended(
                    member, (*inner, name), growing=name in _GROWING and _LOGPROBS not in place
                )
                for name, member in value.items()
            }
        if isinstance(value, list):
            # Elements of a list are distinguished by their indexes, if they have any.
            return [
                self._mended(element, place if _numbered(element) else (*place, position), growing=growing)
                for position, element in enumerate(value)
            ]
        return value

    def _text(self, text: str, place: _Place | None) -> str:
        if text.isascii():
            return text
        text = unmark_surrogates(text)
        if place is not None:
            before = self._pending.pop(place, "")
            if before and not "\udc00" <= text[0] <= "\udfff":
                before, self._lost = "", True
            text = before + text
            if "\ud800" <= text[-1] <= "\udbff" and len(self._pending) < _MAX_PENDING:
                self._pending[place] = text[-1]
                text = text[:-1]
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if whole != text and whole.count("\ufffd") != text.count("\ufffd"):
            self._lost = True
        return whole


def _numbered(element: JsonValue) -> bool:
    return isinstance(element, dict) and any(type(element.get(name)) is int for name in _NUMBERS)


def _text_of(body: bytes | str) -> str | None:
    try:
        return body.decode() if isinstance(body, bytes) else body
    except UnicodeError:
        return None
