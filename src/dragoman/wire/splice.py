"""Splice: change one member of a JSON object and leave every other byte as it is."""

from __future__ import annotations

import re

from dragoman.errors import WireError
from dragoman.wire.json import encode
from dragoman.wire.json_spans import Member, object_members, replace_value, replaced, with_member

# The first member of an object, if that is a plain text.
_first = re.compile(rb'[ \t\n\r]*+\{[ \t\n\r]*+"([^"\\]*+)"[ \t\n\r]*+:[ \t\n\r]*+("[^"\\]*+")').match


def replace_text(body: bytes, key: str, text: str) -> bytes:
    """The same bytes with the top-level string member `key` saying something else."""
    match = _first(body)
    if match is not None and match[1] == key.encode() and not _is_again(body, match):
        return body[: match.start(2)] + encode(text) + body[match.end(2) :]
    # Whoever reads the body goes by the last of several.
    for member in reversed(object_members(body)):
        if member.key == key:
            return replace_value(body, member.value, encode(text))
    raise WireError(f"/{key}", "string", "nothing")


def _is_again(body: bytes, first: re.Match[bytes]) -> bool:
    """Whether the name of the first member may stand in a body once more; its letters may be written as escapes."""
    return body.find(b'"%b"' % first[1], first.end()) >= 0 or b"\\u" in body


def with_stream(body: bytes, stream: bool) -> bytes:
    """The same bytes with the top-level `stream` saying this, once or in each of its duplicates."""
    value = b"true" if stream else b"false"
    members = named(object_members(body), "stream")
    if not members:
        return with_member(body, "stream", value)
    return replaced(body, [(member.value, value) for member in members])


def named(members: list[Member], key: str) -> list[Member]:
    """All members with this name; the last is the one that counts."""
    return [member for member in members if member.key == key]
