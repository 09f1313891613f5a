"""JSON reader and writer: text to values and back, with one kind of error."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number


def _write(value: object) -> Raw:
    if isinstance(value, Number):
        return Raw(value.text)
    raise TypeError(f"a JSON value, found {type(value).__name__}")


_DECODER: msgspec.json.Decoder[JsonValue] = msgspec.json.Decoder(float_hook=Number)
_ENCODER = msgspec.json.Encoder(enc_hook=_write)
_encode = _ENCODER.encode
_SORTED_ENCODER = msgspec.json.Encoder(enc_hook=_write, order="sorted")
# The decoder for the hot path. It raises the exceptions of msgspec.
read_json = _DECODER.decode


def decode(text: bytes | str) -> JsonValue:
    """Decode one JSON document. Numbers keep their spelling; the last of duplicate members counts."""
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError as error:
        raise WireError("", "JSON", _broken(text, str(error))) from None
    except UnicodeError:
        raise WireError("", "JSON in UTF-8", "bytes that are not UTF-8") from None
    except RecursionError:
        raise WireError("", "JSON of bounded depth", "nesting beyond the limit") from None


_ERROR_TEXTS = {
    "invalid character": "a character that cannot stand there",
    "object keys must be strings": "expected a name in double quotes",
    "trailing comma in object": "a comma before '}'",
    "trailing comma in array": "a comma before ']'",
    "trailing characters": "something after its end",
    "invalid number": "a number that is none",
    "invalid escape character in string": "a backslash before a character that needs none",
    "invalid character in unicode escape": "expected four hexadecimal digits after \\u",
}
_AT = re.compile(r"(?:JSON is malformed: )?(.*?)(?: \(byte (\d+)\))?").fullmatch


def _broken(text: bytes | str, message: str) -> str:
    """Describe the error in invalid JSON and its position, without quoting the text."""
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if "truncated" in message:
        return f"it breaks off at {_line_and_column(raw)}" if raw.strip() else "it is empty"
    match = _AT(message)
    if match is None or match[2] is None:
        return message
    return f"{_ERROR_TEXTS.get(match[1], match[1])} at {_line_and_column(raw[: int(match[2])])}"


def _line_and_column(before: bytes) -> str:
    lines = before.count(b"\n") + 1
    line = before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")
    return f"line {lines}, column {len(line) + 1}"


def decode_object(body: bytes | str | Mapping[str, object]) -> JsonObject:
    """Decode a document that must be an object, from text or from parsed values."""
    # A tuple, because the union of two types would be created at each call.
    if not isinstance(body, (bytes, str)):
        if not isinstance(body, Mapping):
            raise WireError("", "bytes, text or an object", kind_of(body))
        members = body if isinstance(body, dict) else dict(body)
        _check(members)
        return members  # type: ignore[return-value]  # `_check` has looked at every value
    try:
        value = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # `decode` raises the error.
        value = decode(body)
    if not isinstance(value, dict):
        raise WireError("", "object", kind_of(value))
    return value


def _check(value: object) -> None:
    """Reject Python values that JSON text cannot represent: other types, other keys, NaN and infinities."""
    level: list[object] = [value]
    depth = 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise WireError("", "JSON of bounded depth", "nesting beyond the limit")
        deeper: list[object] = []
        for item in level:
            if isinstance(item, dict):
                for key, member in item.items():
                    if not isinstance(key, str):
                        raise WireError("", "names that are strings", kind_of(key))
                    deeper.append(member)
            elif isinstance(item, list):
                deeper.extend(item)
            elif isinstance(item, float) and not math.isfinite(item):
                raise WireError("", "a JSON value", str(item))
            elif item is not None and not isinstance(item, str | int | float | Number | Raw):
                raise WireError("", "a JSON value", type(item).__name__)
        level = deeper


# The maximum depth of the JSON reader; real requests have less.
_DEEPEST = 1000


def decode_lenient(text: bytes) -> JsonValue:
    """Decode JSON that a provider streamed. Lone surrogates and broken UTF-8 become U+FFFD instead of ending the
    stream."""
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return decode(without_surrogates(text.decode("utf-8", "replace")))


# A surrogate pair, a lone surrogate, or any other escape, in this order, so that `\\\\ud800` stays unchanged.
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


def _mended(escape: re.Match[str]) -> str:
    return escape[0] if escape["half"] is None else "\\ufffd"


def without_surrogates(text: str) -> str:
    """Replace each lone surrogate in JSON text by U+FFFD."""
    return _ESCAPE.sub(_mended, text)


def has_surrogates(text: str) -> bool:
    """Whether JSON text has a lone surrogate as an escape."""
    return any(escape["half"] is not None for escape in _ESCAPE.finditer(text))


# A mark before the digits of a lone surrogate. It occurs in no text: Unicode reserves it as a noncharacter.
_MARK = "\ufdd0"
_MARKED = re.compile(f"{_MARK}([0-9a-fA-F]{{4}})")


def mark_surrogates(text: str) -> str | None:
    """Replace each lone surrogate by a mark, so that the reader accepts the text. None if there is none to replace, or
    if the text contains marks itself."""
    if not has_surrogates(text) or _MARK in text or "\\ufdd0" in text.lower():
        return None
    return _ESCAPE.sub(lambda escape: escape[0] if escape["half"] is None else f"{_MARK}{escape['half'][2:]}", text)


def unmark_surrogates(text: str) -> str:
    return _MARKED.sub(lambda mark: chr(int(mark[1], 16)), text) if _MARK in text else text


def to_bytes(body: bytes | str | Mapping[str, object]) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeError:
            raise WireError("", "text in Unicode", "a lone surrogate") from None
    return encode(decode_object(body))


def encode(value: JsonValue) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:
        raise WireError("", "text in Unicode", "a lone surrogate") from None
    except RecursionError:
        raise WireError("", "JSON of bounded depth", "nesting beyond the limit") from None
    except (TypeError, ValueError) as error:
        raise WireError("", "a JSON value", str(error)) from None


def encode_sorted(value: JsonValue) -> bytes:
    """Write compact JSON whose members are in the order of their names, so that equal values have equal bytes."""
    return _SORTED_ENCODER.encode(value)


def encode_text(value: JsonValue) -> str:
    return encode(value).decode()


def kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return _KINDS.get(type(value), type(value).__name__)


_KINDS: dict[type, str] = {
    int: "number",
    float: "number",
    Number: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}
