"""Splice: change one member of a JSON object and leave every other byte as it is."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from dragoman.errors import WireError
from dragoman.wire.json import encode

_MEMBERS: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


def members(body: bytes) -> dict[str, bytes]:
    """The members of a top-level object as the bytes they were written in."""
    try:
        return {key: bytes(value) for key, value in _MEMBERS.decode(body).items()}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise WireError("", "a JSON object", str(error) or "nesting beyond the limit") from None


def replace_text(body: bytes, key: str, text: str) -> bytes:
    """The same bytes with the top-level string member `key` saying something else."""
    before = members(body)
    old = before.get(key)
    new = encode(text)
    if old is None:
        raise WireError(f"/{key}", "string", "nothing")
    if old == new:
        return body
    name = encode(key)
    after = {**before, key: new}
    position = body.rfind(name)
    while position >= 0:
        start = body.find(old, position + len(name))
        if start >= 0 and not body[position + len(name) : start].strip(b" \t\r\n:"):
            candidate = body[:start] + new + body[start + len(old) :]
            # A nested member may look the same: only the right one changes the object at the top.
            if members(candidate) == after:
                return candidate
        position = body.rfind(name, 0, position)
    # The name is spelled with escapes: every value keeps its bytes, only the white space between members is lost.
    return b"{" + b",".join(encode(member) + b":" + value for member, value in after.items()) + b"}"
