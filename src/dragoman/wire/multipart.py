"""Multipart forms (RFC 7578): finds the bytes of a field in one linear pass. Readers tolerate different errors: a lone
line feed, another case, escapes, a repeated field. A part that only some readers take for the field is rejected."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.errors import WireError
from dragoman.wire.duplicate_keys import folded
from dragoman.wire.json_spans import JsonSpan

# A form of these APIs has a handful of parts, and a part two or three headers.
_MAX_PARTS = 1000
_MAX_HEAD_BYTES = 8 * 1024
_MAX_BOUNDARY_LENGTH = 70
# `; name=value`, with or without quotes.
_parameter = re.compile(rb';[ \t]*+([^\s;=",]++)[ \t]*+=[ \t]*+("(?:[^"\\]|\\.)*+"|[^\s;,"]*+)[ \t]*+', re.DOTALL).match
# The end of a boundary line. Two dashes end the form.
_line_end = re.compile(rb"(--)?[ \t]*+(?:\r\n|\Z)").match
_name_end = re.compile(r"[\[\x00]")
_PLAIN_CODINGS = (b"7bit", b"8bit", b"binary")
_PLAIN_CHARSETS = (b"utf-8", b"us-ascii")


def is_form(content_type: bytes) -> bool:
    return content_type.lstrip()[:10].lower() == b"multipart/"


def field_span(body: bytes, content_type: bytes, name: str) -> JsonSpan | None:
    """The span of a form field's value, or None if the form lacks the field or its boundary is unknown."""
    _, semicolon, rest = content_type.partition(b";")
    parameters = _parameters(semicolon + rest)
    boundary = parameters.get(b"boundary")
    if boundary is None and b"boundary*" not in parameters:
        return None
    if boundary is None or not 0 < len(boundary) <= _MAX_BOUNDARY_LENGTH:
        raise _broken("a boundary that is none")
    span: JsonSpan | None = None
    for start, end in _parts(body, b"--" + boundary):
        head, value = _head(body, start, end)
        if not _is_field(head, name):
            continue
        if span is not None:
            raise WireError(f"/{name}", "one value", "two of them")
        span = JsonSpan(value, end)
    return span


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[int, int]]:
    """The spans of the parts, each with its head. The boundary occurs only around parts."""
    at = body.find(boundary)
    if at < 0:
        raise _broken("one without its boundary")
    start, last, count = 0, False, 0
    while at >= 0:
        if last or (at and body[at - 2 : at] != b"\r\n"):
            raise _broken("a boundary within a part")
        count += 1
        if count > _MAX_PARTS:
            raise _broken("more parts than anybody sends")
        if start:
            yield start, max(at - 2, start)
        line = _line_end(body, at + len(boundary))
        if line is None:
            raise _broken("a boundary within a part")
        start, last = line.end(), line[1] is not None
        at = body.find(boundary, start)
    if not last:
        raise _broken("one that breaks off")


def _head(body: bytes, start: int, end: int) -> tuple[list[tuple[bytes, bytes]], int]:
    """The headers of a part, with names in lower case, and the start of its value."""
    if body[start : start + 2] == b"\r\n":
        return [], start + 2
    close = body.find(b"\r\n\r\n", start, min(end, start + _MAX_HEAD_BYTES))
    if close < 0:
        raise _broken("a part without the end of its headers")
    # A line that begins with white space continues the line before it.
    text = body[start:close].replace(b"\r\n ", b"  ").replace(b"\r\n\t", b"  ")
    lines = text.split(b"\r\n")
    if any(b"\r" in line or b"\n" in line for line in lines):
        raise _broken("a part whose headers have broken lines")
    pairs = [line.partition(b":") for line in lines]
    return [(name.strip().lower(), value.strip()) for name, _, value in pairs], close + 4


def _is_field(head: list[tuple[bytes, bytes]], name: str) -> bool:
    """Whether a part is the field `name`. A part that only some readers take for it raises an error."""
    dispositions = [value for key, value in head if key == b"content-disposition"]
    if not dispositions:
        return False
    if len(dispositions) > 1:
        raise _broken("a part with two dispositions")
    _, semicolon, rest = dispositions[0].partition(b";")
    parameters = _parameters(semicolon + rest)
    given = parameters.get(b"name", b"").decode("utf-8", "replace")
    if b"name*" in parameters or "\\" in given:
        raise _broken("a name with escapes")
    # Some readers take `model[]` for a list of this name, and some end a name at a zero byte.
    if folded(_name_end.split(given, 1)[0].strip()) != name:
        return False
    if given != name:
        raise WireError(f"/{name}", "this name", "it in other letters")
    if parameters.get(b"filename") and b"filename*" not in parameters:
        return False
    if b"filename" in parameters or b"filename*" in parameters or not _is_plain(head):
        raise WireError(f"/{name}", "plain text", "a file or a coding")
    return True


def _is_plain(head: list[tuple[bytes, bytes]]) -> bool:
    for key, value in head:
        if key == b"content-transfer-encoding" and value.lower() not in _PLAIN_CODINGS:
            return False
        if key == b"content-type":
            _, semicolon, rest = value.partition(b";")
            if _parameters(semicolon + rest).get(b"charset", b"utf-8").lower() not in _PLAIN_CHARSETS:
                return False
    return True


def _parameters(text: bytes) -> dict[bytes, bytes]:
    """The parameters of a header value, with names in lower case. Only outer quotes are removed."""
    parameters: dict[bytes, bytes] = {}
    at = 0
    text = text.rstrip(b"; \t")
    while at < len(text):
        read = _parameter(text, at)
        if read is None:
            raise _broken("a header that cannot be read")
        # `name*0*=…` is one piece of a split name, a syntax that forms must not use.
        key = re.sub(rb"\*.*", b"*", read[1].lower())
        if key in parameters:
            raise _broken("a header that says something twice")
        parameters[key] = read[2][1:-1] if read[2][:1] == b'"' else read[2]
        at = read.end()
    return parameters


def _broken(actual: str) -> WireError:
    return WireError("", "a form in parts", actual)
